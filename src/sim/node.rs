//! A node: session, codec work, processors.

use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};
use std::io::IoSlice;

use bytes::BytesMut;

use super::clock::Clock;
use super::cpu::{Cpu, Lane};
use super::link::Link;
use super::{CodecCosts, End, Happening, Memo, NodeConfig, SimError};
use crate::control::SocketSample;
use crate::session::{
    CodecWorker, DecodedBlock, DictionaryWork, EncodedBlock, Event, JobTime, Message, Role,
    Session, SessionError, ShadowedBlock,
};
use crate::units::{Time, saturating_nanos};
use crate::wire::{Hello, StreamId};

/// The secret name of a session that somebody else has.
const OTHER_TOKEN: [u8; 16] = [0x5a; 16];

/// Codec work that is done at a certain time.
#[derive(Debug)]
struct Work<T> {
    done: Time,
    elapsed: Duration,
    block: T,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) session: Session,
    pub(super) cpu: Cpu,
    /// What the link has brought and the node has not read yet.
    pub(super) arrived: BytesMut,
    /// When it will have.
    handled: Option<Time>,
    input: BytesMut,
    worker: CodecWorker,
    costs: CodecCosts,
    /// In the order in which they will be done.
    encoding: VecDeque<Work<(EncodedBlock, Duration)>>,
    shadowing: Option<Work<ShadowedBlock>>,
    decoding: VecDeque<Work<DecodedBlock>>,
    dictionary: Option<Work<DictionaryWork>>,
    /// Nothing more comes over this connection.
    pub(super) arrived_all: bool,
    /// The session knows that.
    told_end: bool,
    connection: Connection,
    /// It does nothing before.
    asleep_until: Option<Time>,
    /// What the session takes for the time.
    pub(super) clock: Clock,
    /// The settings, with the name that another session than this one has.
    config: NodeConfig,
    /// The process is gone, and nobody hears what a session says of itself.
    is_down: bool,
    /// Streams of which the application takes nothing.
    unread: BTreeSet<StreamId>,
}

/// What the node's session has to do with the connection that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    /// It is the session's.
    Own,
    /// Its hello will say whose it is; whatever the session had before leads nowhere.
    Unknown,
    /// The session has done with it.
    Gone,
}

impl Node {
    pub(super) fn new(
        role: Role,
        config: NodeConfig,
        costs: CodecCosts,
        now: Time,
    ) -> Result<Self, SimError> {
        let settings = NodeConfig {
            session: config.session.clone().resume_token(Some(OTHER_TOKEN)),
            ..config.clone()
        };
        let mut session = Session::new(role, config.session, now)?;
        let encoders = config.cpu.encoders;
        let cpu = Cpu::new(config.cpu)?;
        session.set_budget(now, cpu.budget());
        session.set_encoders(encoders);
        Ok(Self {
            session,
            cpu,
            arrived: BytesMut::new(),
            handled: None,
            input: BytesMut::new(),
            worker: CodecWorker::default(),
            costs,
            encoding: VecDeque::new(),
            shadowing: None,
            decoding: VecDeque::new(),
            dictionary: None,
            arrived_all: false,
            told_end: false,
            connection: Connection::Own,
            asleep_until: None,
            clock: Clock::default(),
            config: settings,
            is_down: false,
            unread: BTreeSet::new(),
        })
    }

    /// The process is gone with all that it knew, and started anew: it has no session, and answers as one that has another.
    pub(super) fn crash(&mut self, role: Role, now: Time) -> Result<(), SimError> {
        *self = Self {
            connection: Connection::Gone,
            is_down: true,
            ..Self::new(role, self.config.clone(), self.costs.clone(), now)?
        };
        Ok(())
    }

    pub(super) const fn costs(&self) -> &CodecCosts {
        &self.costs
    }

    pub(super) fn reconnect(&mut self, now: Time) -> Result<(), SessionError> {
        self.session.reconnect(self.clock.read(now))
    }

    /// Whether a connection over which this came must not be the session's.
    pub(super) fn refuses(&self, came: &[u8]) -> bool {
        self.session.refusal(came).is_some()
    }

    pub(super) fn sleep(&mut self, until: Time) {
        self.asleep_until = self.asleep_until.max(Some(until));
    }

    /// This node connects.
    pub(super) fn begin_connection(&mut self) {
        self.forget_input();
        self.connection = Connection::Own;
    }

    /// The other node connects.
    pub(super) fn await_connection(&mut self) {
        self.forget_input();
        self.connection = Connection::Unknown;
    }

    /// The other node has connected, and `came` over that connection.
    pub(super) fn take_connection(&mut self, came: BytesMut) {
        self.await_connection();
        self.arrived = came;
    }

    fn forget_input(&mut self) {
        self.arrived.clear();
        self.input.clear();
        self.handled = None;
        self.told_end = false;
    }

    /// Whose the connection is, once its hello is there.
    fn identify(&mut self, now: Time, link: &mut Link) {
        let hello = match Hello::parse(&self.input) {
            Ok(Some((hello, _))) => hello,
            Ok(None) => return,
            Err(_) => {
                // It is closed without a word.
                self.connection = Connection::Gone;
                link.end();
                return;
            }
        };
        let asked = hello.resume.map(|resume| resume.token);
        let known = asked.is_some() && asked == self.session.resume_token();
        let now_here = self.clock.read(now);
        if known && self.session.reconnect(now_here).is_ok() {
            self.connection = Connection::Own;
            return;
        }
        // What answers is another session, as after a restart.
        self.connection = Connection::Gone;
        let settings = self.config.session.clone();
        if let Ok(other) = Session::new(Role::Acceptor, settings, now) {
            let mut slices = [IoSlice::new(&[]); 4];
            let filled = other.fill_slices(&mut slices);
            let hello: Vec<u8> = slices[..filled]
                .iter()
                .flat_map(|slice| slice.to_vec())
                .collect();
            link.write(now, hello.into());
        }
    }

    /// The end of what the peer sends on this connection.
    fn take_end(&mut self) {
        let all_read = self.arrived.is_empty() && self.handled.is_none();
        if self.arrived_all && all_read && !self.told_end {
            self.told_end = true;
            if self.connection == Connection::Own {
                self.session.handle_eof();
            }
        }
    }

    pub(super) fn remember_in(&mut self, memo: Memo) {
        self.worker.remember_in(memo);
    }

    pub(super) fn next_event(&self, now: Time) -> Option<Time> {
        if self.asleep_until.is_some_and(|until| until > now) {
            return self.asleep_until;
        }
        let encoded = self.encoding.front().map(|work| work.done);
        let shadowed = self.shadowing.as_ref().map(|work| work.done);
        let decoded = self.decoding.front().map(|work| work.done);
        let dictionary = self.dictionary.as_ref().map(|work| work.done);
        // A time that has passed without effect (a probe that waits for output) is not an event.
        let timeout = self.session.poll_timeout();
        let timeout = timeout.filter(|at| *at > self.clock.read(now));
        let timeout = timeout.map(|at| self.clock.when(at));
        let guard = self
            .session
            .closed()
            .is_none()
            .then(|| self.cpu.next_period())
            .flatten();
        let events = [
            encoded,
            shadowed,
            decoded,
            dictionary,
            self.handled,
            timeout,
            guard,
        ];
        events.into_iter().flatten().min()
    }

    /// Follows the session's drain rule as far as time allows.
    pub(super) fn run(
        &mut self,
        now: Time,
        end: End,
        link: &mut Link,
        happenings: &mut VecDeque<Happening>,
    ) {
        if self.asleep_until.is_some_and(|until| until > now) {
            return;
        }
        let here = self.clock.read(now);
        if self.cpu.advance(now) {
            self.session.set_budget(here, self.cpu.budget());
            self.session.set_load(self.cpu.load());
        }
        let sample = SocketSample {
            unsent: Some(link.waiting() as u64),
            ..SocketSample::default()
        };
        self.session.handle_socket_sample(here, sample);
        self.finish_work(now);
        self.read(now);
        // An error shows as the event of a closed session.
        let _ = self.session.handle_timeout(here);
        if self.connection == Connection::Unknown {
            self.identify(now, link);
        }
        match self.connection {
            Connection::Own => {
                let _ = self.session.handle_input(here, &mut self.input);
            }
            Connection::Unknown => {}
            Connection::Gone => self.input.clear(),
        }
        self.take_end();
        if self.arrived.is_empty() && self.handled.is_none() {
            self.session.handle_dry(here);
        }
        self.begin_decoding(now);
        self.begin_encoding(now);
        self.begin_shadow(now);
        self.begin_dictionary(now);
        self.write(now, link);
        while let Some(event) = self.session.poll_event() {
            if self.is_down {
                continue;
            }
            if let Event::Readable(stream) = event {
                self.take(end, stream, happenings);
            } else {
                if let Event::Starved(stream) = event {
                    if !self.unread.contains(&stream) {
                        self.session.want(stream);
                    }
                }
                if let (Event::Disconnected(_), Connection::Own) = (&event, self.connection) {
                    self.connection = Connection::Gone;
                    self.input.clear();
                    let last_words = self.session.take_farewell();
                    if !last_words.is_empty() {
                        link.write(now, last_words.into());
                    }
                    link.end();
                }
                happenings.push_back(Happening::Event(end, event));
            }
        }
    }

    fn take(&mut self, end: End, stream: StreamId, happenings: &mut VecDeque<Happening>) {
        if self.unread.contains(&stream) {
            return;
        }
        while let Some(message) = self.session.recv(stream) {
            self.session.release(stream, message.charge());
            happenings.push_back(Happening::Message {
                at: end,
                stream,
                message,
            });
        }
    }

    /// The application reads a stream from now on, or does not.
    pub(super) fn set_reads(
        &mut self,
        end: End,
        stream: StreamId,
        reads: bool,
        happenings: &mut VecDeque<Happening>,
    ) {
        if reads {
            self.unread.remove(&stream);
            self.take(end, stream, happenings);
            self.session.want(stream);
        } else {
            self.unread.insert(stream);
        }
    }

    /// The application takes one message of a stream that it does not read by itself, if there is one, or waits for it.
    pub(super) fn take_one(&mut self, stream: StreamId) -> Option<Message> {
        let Some(message) = self.session.recv(stream) else {
            self.session.want(stream);
            return None;
        };
        self.session.release(stream, message.charge());
        Some(message)
    }

    fn finish_work(&mut self, now: Time) {
        let here = self.clock.read(now);
        while self.decoding.front().is_some_and(|work| work.done <= now) {
            if let Some(work) = self.decoding.pop_front() {
                let _ = self.session.handle_decoded(work.block, work.elapsed);
            }
        }
        while self.encoding.front().is_some_and(|work| work.done <= now) {
            if let Some(work) = self.encoding.pop_front() {
                let (block, processor) = work.block;
                let elapsed = work.elapsed;
                self.session
                    .handle_encoded(here, block, JobTime { elapsed, processor });
            }
        }
        if let Some(work) = self.shadowing.take_if(|work| work.done <= now) {
            self.session.handle_shadowed(here, work.block);
        }
        if let Some(work) = self.dictionary.take_if(|work| work.done <= now) {
            let _ = self
                .session
                .handle_dictionary(here, work.block, work.elapsed);
        }
    }

    /// One at a time, where shadows are.
    fn begin_dictionary(&mut self, now: Time) {
        if self.dictionary.is_some() {
            return;
        }
        let Some(job) = self.session.poll_dictionary(self.clock.read(now)) else {
            return;
        };
        let (elapsed, done) = self.cpu.begin(now, Lane::Shadow, job.likely_nanos());
        self.dictionary = Some(Work {
            done,
            elapsed,
            block: self.worker.dictionary(job),
        });
    }

    /// Beside everything else, on a processor of its own if there is one.
    fn begin_shadow(&mut self, now: Time) {
        let Some(job) = self.session.poll_shadow() else {
            return;
        };
        let plain_len = job.plain_len();
        let mut block = self.worker.shadow(job, || Time::ZERO);
        let mut done = now;
        for result in &mut block.results {
            let encode = self.costs.encode_nanos(result.arm, plain_len);
            result.encode = Duration::from_nanos(encode);
            done = self.cpu.begin(now, Lane::Shadow, encode).1;
            if let Some(decode) = &mut result.decode {
                let cost = self.costs.decode_nanos(result.arm.codec, plain_len);
                *decode = Duration::from_nanos(cost);
                done = self.cpu.begin(now, Lane::Shadow, cost).1;
            }
        }
        self.shadowing = Some(Work {
            done,
            elapsed: block.taken(),
            block,
        });
    }

    /// Takes what has arrived, once the processors have come to it.
    fn read(&mut self, now: Time) {
        if self.handled.is_none() && !self.arrived.is_empty() {
            let cost = saturating_nanos(self.cpu.handling());
            let done = match cost {
                0 => now,
                cost => self.cpu.begin(now, Lane::Handling, cost).1,
            };
            self.handled = Some(done);
        }
        if self.handled.take_if(|done| *done <= now).is_some() {
            self.input.unsplit(self.arrived.split());
        }
    }

    fn begin_decoding(&mut self, now: Time) {
        while let Some(job) = self.session.poll_decode() {
            let codec = job.codec();
            let block = self.worker.decode(job);
            let cost = self
                .costs
                .decode_nanos(codec, block.plain_len().unwrap_or(0));
            let (elapsed, done) = self.cpu.begin(now, Lane::Decode, cost);
            self.decoding.push_back(Work {
                done,
                elapsed,
                block,
            });
        }
    }

    fn begin_encoding(&mut self, now: Time) {
        // What else is due is said meanwhile.
        let here = self.clock.read(now);
        while let Some(job) = self.session.poll_encode(here) {
            let cost = self.costs.encode_nanos(job.arm(), job.plain_len());
            let (elapsed, done) = self.cpu.begin(now, Lane::Encode, cost);
            let block = self.worker.encode(job);
            let at = self.encoding.partition_point(|work| work.done <= done);
            self.encoding.insert(
                at,
                Work {
                    done,
                    elapsed,
                    block: (block, Duration::from_nanos(cost)),
                },
            );
        }
    }

    fn write(&mut self, now: Time, link: &mut Link) {
        let here = self.clock.read(now);
        loop {
            let room = link.room();
            let left = self.session.output_len();
            if left == 0 {
                return;
            }
            if self.connection != Connection::Own {
                self.session.handle_written(here, left);
                return;
            }
            if room == 0 {
                self.session.handle_blocked(here);
                return;
            }
            let mut slices = [IoSlice::new(&[]); 16];
            let filled = self.session.fill_slices(&mut slices);
            let mut bytes: Vec<u8> = Vec::new();
            for slice in &slices[..filled] {
                let take = slice.len().min(room - bytes.len());
                bytes.extend_from_slice(&slice[..take]);
            }
            self.session.handle_written(here, bytes.len());
            link.write(now, bytes.into());
            self.begin_encoding(now);
        }
    }
}
