//! Two sessions, their drivers and applications, and the connection between them, which may fail in any way. What
//! arrives is compared with what was sent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tautline::session::{
    CodecWorker, DecodedBlock, EncodedBlock, Event, Role, Session, SessionConfig, SessionError, StreamConfig,
};
use tautline::units::Time;
use tautline::wire::{Control, GroupId, RecordKind, StreamId};

use crate::disorder::{Disorder, Frames, Which};

pub const TOKEN: [u8; 16] = [9; 16];
/// Longer than a session waits for another connection: a side that hears nothing for so long has given up.
pub const TOO_LONG: Duration = Duration::from_secs(61);
/// What `SessionStats::retained` may be above its limit: a block of 64 KiB of the shortest messages, 128 bytes each for
/// keeping them, and they have 2 of header at least.
const RETAINED_SLACK: u64 = (64 << 10) / 2 * 128;
/// Rounds after which what has not arrived is lost: far more than any input that a fuzzer makes needs.
const PATIENCE: usize = 3000;

pub fn config() -> SessionConfig {
    SessionConfig::default().resume_within(TOO_LONG - Duration::from_secs(1))
}

pub struct End {
    pub session: Session,
    worker: CodecWorker,
    input: BytesMut,
    /// Bytes on their way to this end.
    way: BytesMut,
    /// Nothing comes after them.
    ended: bool,
    /// The session knows that.
    told: bool,
    /// What it says leads nowhere.
    mute: bool,
    /// What it says, as the carrier has it.
    says: Frames,
    /// Whether codecs keep what they have done until they are asked.
    pub slow: bool,
    encoded: Option<EncodedBlock>,
    decoded: Vec<DecodedBlock>,
    /// Whether the application is done with messages at once.
    pub releases: bool,
    unreleased: Vec<(StreamId, usize)>,
    pub open: Vec<StreamId>,
    pub closed: Option<Result<(), SessionError>>,
    discarded: BTreeSet<StreamId>,
}

impl End {
    fn new(role: Role, config: SessionConfig, now: Time) -> Option<Self> {
        let mut session = Session::new(role, config, now).ok()?;
        session.set_budget(now, None);
        Some(Self {
            session,
            worker: CodecWorker::new(20),
            input: BytesMut::new(),
            way: BytesMut::new(),
            ended: false,
            told: false,
            mute: false,
            says: Frames::default(),
            slow: false,
            encoded: None,
            decoded: Vec::new(),
            releases: true,
            unreleased: Vec::new(),
            open: Vec::new(),
            closed: None,
            discarded: BTreeSet::new(),
        })
    }

    /// The connection that there was is none of this end's any more.
    fn hang_up(&mut self) {
        self.input.clear();
        self.way.clear();
        self.mute = true;
        self.ended = true;
        self.told = true;
    }

    fn hand_back(&mut self, now: Time) {
        for block in self.decoded.drain(..) {
            let _ = self.session.handle_decoded(block, Duration::from_micros(5));
        }
        if let Some(block) = self.encoded.take() {
            self.session.handle_encoded(now, block, Duration::from_micros(20));
        }
    }

    fn take_in(&mut self, now: Time) {
        loop {
            let before = self.input.len();
            let _ = self.session.handle_input(now, &mut self.input);
            let mut worked = self.input.len() != before;
            while let Some(job) = self.session.poll_decode() {
                let block = self.worker.decode(job);
                self.decoded.push(block);
            }
            if !self.slow {
                worked |= !self.decoded.is_empty();
                self.hand_back(now);
            }
            if !worked {
                return;
            }
        }
    }

    fn do_work(&mut self, now: Time) {
        while let Some(job) = self.session.poll_dictionary(now) {
            let work = self.worker.dictionary(job);
            let _ = self.session.handle_dictionary(now, work, Duration::from_millis(1));
        }
        while let Some(job) = self.session.poll_shadow() {
            let block = self.worker.shadow(job, || now);
            self.session.handle_shadowed(now, block);
        }
        while let Some(job) = self.session.poll_encode(now) {
            let block = self.worker.encode(job);
            if self.slow {
                self.encoded = Some(block);
            } else {
                self.session.handle_encoded(now, block, Duration::from_micros(20));
            }
        }
    }

    fn take_output(&mut self, now: Time) -> Vec<u8> {
        let mut out = Vec::new();
        while self.session.output_len() > 0 {
            let mut slices = [std::io::IoSlice::new(&[]); 8];
            let filled = self.session.fill_slices(&mut slices);
            let before = out.len();
            slices[..filled].iter().for_each(|slice| out.extend_from_slice(slice));
            let written = out.len() - before;
            self.session.handle_written(now, written);
        }
        out
    }
}

type Sent = (Bytes, RecordKind);

pub struct Pair {
    pub ends: [End; 2],
    pub now: Time,
    /// Sent and not received yet, by who sent it and on which stream.
    expected: BTreeMap<(usize, StreamId), VecDeque<Sent>>,
    /// Streams of other groups than 0: their blocks are in two chains, that of group 0 without history, and none of these tells what is
    /// missing of the other.
    apart: BTreeSet<StreamId>,
    /// How many were received, likewise.
    received: BTreeMap<(usize, StreamId), u64>,
    /// Bits were changed that a check of 16 bits may have let pass, so that what arrives says nothing.
    tainted: bool,
    /// Whole frames were lost, repeated or exchanged: nothing arrives that was not sent, but not everything does, and who counts frames has
    /// counted wrong, so that the session cannot go on over another connection.
    pub disordered: bool,
    /// What arrived is checked by 16 bits alone, of which one in 65 536 blocks that are wrong passes: another payload tells whether it was that.
    doubtful: bool,
    garbled: Option<String>,
    /// Something was done after which a session may fail.
    pub excused: bool,
    memory: u64,
    accepts: SessionConfig,
}

impl Pair {
    pub fn new(config: &SessionConfig, memory: usize) -> Option<Self> {
        Self::of([config.clone(), config.clone()], memory, Time::ZERO)
    }

    pub fn of(configs: [SessionConfig; 2], memory: usize, now: Time) -> Option<Self> {
        let [connects, accepts] = configs.map(|config| config.retransmit_memory(memory));
        let accepts = accepts.resume_token(Some(TOKEN));
        let mut pair = Self {
            ends: [End::new(Role::Connector, connects, now)?, End::new(Role::Acceptor, accepts.clone(), now)?],
            now,
            expected: BTreeMap::new(),
            apart: BTreeSet::new(),
            received: BTreeMap::new(),
            tainted: false,
            disordered: false,
            doubtful: false,
            garbled: None,
            excused: false,
            memory: memory as u64,
            accepts,
        };
        pair.settle();
        pair.ends.iter().all(|end| end.session.is_resumable()).then_some(pair)
    }

    // ---- what applications do

    pub fn open(&mut self, who: usize, name: &str, group: GroupId, config: StreamConfig) {
        let end = &mut self.ends[who];
        if let Ok(id) = end.session.open(name, config.group(group)) {
            end.open.push(id);
            if group != GroupId::default() {
                self.apart.insert(id);
            }
        }
    }

    pub fn send(&mut self, who: usize, id: StreamId, (payload, kind): Sent, sensitive: bool) {
        let session = &mut self.ends[who].session;
        let sent = if sensitive {
            session.send_sensitive(id, payload.clone(), kind)
        } else {
            session.send(id, payload.clone(), kind)
        };
        if sent.is_ok() && !self.ends[1 - who].discarded.contains(&id) {
            self.expected.entry((who, id)).or_default().push_back((payload, kind));
        }
    }

    pub fn discard(&mut self, who: usize, id: StreamId) {
        let end = &mut self.ends[who];
        end.session.discard(id);
        end.discarded.insert(id);
        self.expected.remove(&(1 - who, id));
    }

    pub fn release(&mut self, who: usize) {
        let end = &mut self.ends[who];
        for (id, charge) in end.unreleased.drain(..) {
            end.session.release(id, charge);
        }
    }

    // ---- what becomes of the connection

    /// Both hear that it is over, and what is on its way is lost.
    pub fn cut(&mut self) {
        (0..2).for_each(|who| self.cut_one(who));
    }

    /// One hears so; the other speaks to nobody.
    pub fn cut_one(&mut self, who: usize) {
        self.ends[who].way.clear();
        self.ends[who].ended = true;
        self.ends[1 - who].way.clear();
        self.ends.iter_mut().for_each(|end| end.mute = true);
        self.run(who, 0);
    }

    /// Another connection.
    pub fn connect(&mut self) {
        if self.disordered {
            return;
        }
        for end in &mut self.ends {
            end.hang_up();
            end.take_output(self.now);
            if end.session.reconnect(self.now).is_ok() {
                (end.ended, end.told, end.mute) = (false, false, false);
                end.says.begin();
            }
        }
        // To one that is over, nobody listens, and it says nothing.
        let over = [0, 1].map(|who| self.ends[who].mute);
        for (end, other_is_over) in self.ends.iter_mut().zip([over[1], over[0]]) {
            end.ended |= other_is_over;
        }
    }

    /// What no side says, after all that is on its way: sure to be noticed.
    pub fn say_nonsense(&mut self, to: usize) {
        if !self.ends[to].ended {
            self.excused = true;
            // A control frame whose check is wrong.
            self.ends[to].way.extend_from_slice(&[0xe2, 0, 0, 0, 0, 0, 0]);
        }
    }

    /// One bit of what is on its way.
    pub fn flip(&mut self, to: usize, bit: usize) {
        let way = &mut self.ends[to].way;
        if !way.is_empty() {
            let at = bit / 8 % way.len();
            way[at] ^= 1 << (bit % 8);
            self.tainted = true;
            self.excused = true;
        }
    }

    /// What becomes of whole frames that `from` says next.
    pub fn disturb(&mut self, from: usize, after: usize, which: Which, disorder: Disorder) {
        self.ends[from].says.disturb(after, which, disorder);
    }

    /// A frame that `from` has not said. It must not be one that is numbered: both ends count those.
    pub fn forge(&mut self, from: usize, frame: &Control) {
        if self.ends[from].says.has_begun() && !self.ends[from].mute && !self.ends[1 - from].ended {
            let mut bytes = Vec::new();
            frame.put(&mut bytes);
            self.ends[1 - from].way.extend_from_slice(&bytes);
            self.excused = true;
            self.doubtful = true;
        }
    }

    // ---- how it goes on

    pub fn hand_back(&mut self, who: usize) {
        self.ends[who].hand_back(self.now);
    }

    /// Brings `len` bytes to one end and has it do all that there is to do.
    pub fn run(&mut self, who: usize, len: usize) -> bool {
        let now = self.now;
        let end = &mut self.ends[who];
        let len = len.min(end.way.len());
        let arrived = end.way.split_to(len);
        end.input.extend_from_slice(&arrived);
        end.take_in(now);
        let all_read = end.way.is_empty() && (end.session.wants_input() || end.input.is_empty());
        if end.ended && !end.told && all_read {
            end.told = true;
            end.session.handle_eof();
        }
        let _ = end.session.handle_timeout(now);
        // A session may be lost by its own output's doing; events say so before anything is put out.
        let lost = self.take_events(who);
        let end = &mut self.ends[who];
        end.do_work(now);
        let out = end.take_output(now);
        let worked = len > 0 || !out.is_empty();
        let was_mute = end.mute;
        let closed = end.session.closed().is_some();
        if !was_mute && !lost {
            let (out, disturbed) = end.says.carry(&out);
            self.disordered |= disturbed;
            self.doubtful |= disturbed;
            self.excused |= disturbed;
            self.ends[1 - who].way.extend_from_slice(&out);
        }
        let lost = self.take_events(who) || lost;
        if lost {
            self.ends[who].hang_up();
        }
        // Who speaks to nobody hangs up unheard.
        self.ends[1 - who].ended |= (lost || closed) && !was_mute;
        self.check(who);
        worked
    }

    fn take_events(&mut self, who: usize) -> bool {
        let mut lost = false;
        while let Some(event) = self.ends[who].session.poll_event() {
            match event {
                Event::StreamOpened(id) => self.ends[who].open.push(id),
                Event::Readable(id) => self.receive(who, id),
                Event::Disconnected(error) => {
                    let is_fault = matches!(error, SessionError::Peer(_) | SessionError::GoneAway { .. });
                    assert!(!is_fault || self.excused, "side {who} blames the other: {error}");
                    lost = true;
                }
                Event::Closed(result) => self.ends[who].closed = Some(result),
                _ => {}
            }
        }
        lost
    }

    fn receive(&mut self, who: usize, id: StreamId) {
        while let Some(message) = self.ends[who].session.recv(id) {
            let from = (1 - who, id);
            *self.received.entry(from).or_default() += 1;
            let is_it = |(payload, kind): &Sent| *payload == message.payload && *kind == message.kind;
            let expected = self.expected.get_mut(&from).and_then(|waiting| {
                let is_apart = self.disordered && self.apart.contains(&id);
                let at = if is_apart { waiting.iter().position(is_it) } else { None };
                waiting.remove(at.unwrap_or(0))
            });
            if expected.is_none() {
                self.blame(|| format!("a message twice on {id}"));
            } else if !expected.is_some_and(|it| is_it(&it)) {
                self.blame(|| format!("another message on {id}"));
            }
            let end = &mut self.ends[who];
            let charge = message.charge();
            if end.releases {
                end.session.release(id, charge);
            } else {
                end.unreleased.push((id, charge));
            }
        }
    }

    /// Something is wrong, unless 16 bits have let it pass.
    fn blame(&mut self, what: impl FnOnce() -> String) {
        match (self.tainted, self.doubtful) {
            (true, _) => {}
            (false, true) => self.garbled = self.garbled.take().or_else(|| Some(what())),
            (false, false) => panic!("{}", what()),
        }
    }

    /// What was wrong that 16 bits may have let pass.
    pub fn garbled(self) -> Option<String> {
        self.garbled
    }

    fn check(&self, who: usize) {
        let stats = self.ends[who].session.stats();
        assert!(stats.retained <= self.memory + RETAINED_SLACK, "{} bytes retained", stats.retained);
        assert_eq!(self.ends[who].session.output_len(), 0, "all output was taken");
        assert!(stats.history_sent <= stats.history_limit.max(1 << 20));
        if let Some(Err(error)) = &self.ends[who].closed {
            assert!(self.excused, "side {who} failed: {error}");
        }
    }

    /// Until neither has anything to say for now.
    pub fn settle(&mut self) {
        while self.run(0, usize::MAX) | self.run(1, usize::MAX) {}
    }

    pub fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    fn is_over(&self) -> bool {
        self.ends.iter().any(|end| end.closed.is_some())
    }

    fn is_done(&self) -> bool {
        let kept = self.ends.iter().any(|end| end.session.stats().retained > 0);
        !kept && self.expected.values().all(VecDeque::is_empty)
    }

    /// Nothing fails any more: everything arrives, and the sessions close.
    pub fn subside(&mut self) {
        for who in 0..2 {
            self.ends[who].slow = false;
            self.ends[who].releases = true;
            self.hand_back(who);
            self.release(who);
        }
        self.rounds(Self::is_done);
        if !self.is_over() {
            self.ends[0].session.close();
        }
        self.rounds(|pair| pair.ends.iter().all(|end| end.closed.is_some()));
        for who in 0..2 {
            self.check(who);
        }
        if self.ends.iter().all(|end| end.closed == Some(Ok(()))) && !self.tainted && !self.disordered {
            if !self.is_done() {
                let expected = format!("{:?}", self.expected);
                self.blame(|| format!("both have closed, and not all has arrived: {expected}"));
            }
        }
        self.check_deliveries();
    }

    fn rounds(&mut self, done: impl Fn(&Self) -> bool) {
        for _ in 0..PATIENCE {
            self.settle();
            // Without its order it goes as far as it goes: what has arrived was compared.
            if done(self) || self.disordered || self.garbled.is_some() || self.ends.iter().any(|end| matches!(end.closed, Some(Err(_)))) {
                return;
            }
            self.pass(Duration::from_millis(15));
            let waits = self.ends.iter().any(|end| !end.session.is_connected() && end.closed.is_none());
            match waits {
                // The other has closed and is gone.
                true if self.is_over() => self.pass(TOO_LONG),
                true => self.connect(),
                false => {}
            }
        }
        if !self.tainted {
            let state = [0, 1].map(|who| {
                let (end, session) = (&self.ends[who], &self.ends[who].session);
                let (connected, deliveries) = (session.is_connected(), session.deliveries());
                format!("connected {connected}, closed {:?}, {deliveries:?}, {:?}", end.closed, session.stats())
            });
            let expected = format!("{:?}", self.expected);
            self.blame(|| format!("no end: expected {expected}, {state:#?}"));
        }
    }

    /// One process is gone. The other hears of it, sooner or later, and must say truly what has arrived.
    pub fn crash(&mut self, who: usize) {
        if self.disordered || self.garbled.is_some() {
            return;
        }
        let left = 1 - who;
        self.excused = true;
        self.hand_back(left);
        self.ends[who].hang_up();
        self.cut_one(left);
        self.check_deliveries();
        let anew = End::new(Role::Acceptor, self.accepts.clone().resume_token(Some([8; 16])), self.now);
        if let (1, Some(mut anew)) = (who, anew) {
            let received = self.received.clone();
            // What the process that is gone has thrown away did not arrive.
            anew.discarded = std::mem::take(&mut self.ends[1].discarded);
            self.ends[1] = anew;
            // As a listener that is asked for a session that it does not know.
            if self.ends[0].session.reconnect(self.now).is_ok() {
                (self.ends[0].ended, self.ends[0].told, self.ends[0].mute) = (false, false, false);
                self.ends[0].says.begin();
                self.settle();
                let over = self.ends[0].closed.is_some() || self.tainted;
                assert!(over, "its session is lost, and it goes on");
            }
            assert_eq!(received, self.received, "the messages of another session");
        } else if self.ends[left].closed.is_none() {
            self.pass(TOO_LONG);
            self.run(left, 0);
            assert!(self.ends[left].closed.is_some(), "it waits longer than it should");
        }
        self.check_deliveries();
    }

    /// What a session says became of its messages is true.
    fn check_deliveries(&self) {
        if self.disordered || self.garbled.is_some() {
            return;
        }
        for who in 0..2 {
            for said in self.ends[who].session.deliveries() {
                let received = self.received.get(&(who, said.stream)).copied().unwrap_or_default();
                let discarded = self.ends[1 - who].discarded.contains(&said.stream);
                if !self.tainted && !discarded {
                    assert!(said.delivered <= received, "{said:?}, and {received} have arrived");
                    assert!(received <= said.delivered + said.unknown, "{said:?}, and {received} have arrived");
                }
            }
        }
    }
}
