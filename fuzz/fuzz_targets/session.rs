//! Raw bytes into a session of either side, before and after its handshake, with time that passes and operations of its
//! application between them. However it goes: errors stay, the last word to a peer that erred says why, and what the session holds
//! keeps to its limits.
//!
//! The input is read byte by byte: settings, then operations, each with what it needs.

#![no_main]

mod script;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use script::Script;
use tautline::codecs::{Arm, CodecId};
use tautline::control::{BudgetRate, PolicyConfig};
use tautline::dictionary::{Acceptance, AcceptancePolicy};
use tautline::session::{
    CodecWorker, DecodedBlock, Event, Limits, OpenError, Role, SendError, Session, SessionConfig, SessionError, StreamConfig,
};
use tautline::units::{CpuLoad, Time};
use tautline::wire::{Control, Frame, GoAway, GroupId, Hello, RecordKind, StreamId, WireError, parse_frame};

const MESSAGES: usize = 1 << 20;
const BLOCK: usize = 64 << 10;
const HISTORIES: usize = 1 << 20;
const RETAINED: usize = 64 << 10;
const QUEUE: usize = 32 << 10;
const DICTIONARY: usize = 16 << 10;
const DICTIONARIES: usize = 2;
/// Streams that this side opens.
const OPENED: usize = 16;
/// Bytes waiting to be written from which on a peer that makes them grow is given up.
const OUTPUT: usize = 8 << 20;
/// What all limits come to, but for the output and what a stream takes (`Limits::connection_memory`): messages, of which one
/// that is not whole may have twice its bytes reserved; blocks on their way, encoded and plain, and the codecs' two buffers;
/// histories of either direction; what is queued and retained; dictionaries, encoded, whole, and as samples.
const LIMIT: usize = 2 * MESSAGES + (16 * 2 + 2) * BLOCK + 2 * HISTORIES + 2 * OPENED * QUEUE + 2 * RETAINED + 4 * DICTIONARIES * DICTIONARY;
const BESIDE: usize = 1 << 20;
/// Bytes that the peer needs to open a stream, and what it comes to here.
const OPENS_A_STREAM: usize = 5;
const OF_A_STREAM: usize = 2 << 10;
/// What may be retained above its limit: as in `pair.rs`.
const RETAINED_SLACK: u64 = (64 << 10) / 2 * 128;

/// The system's allocator, counting what is held: what the codecs in C have is `-malloc_limit_mb`'s.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every method passes its arguments on to the system's allocator, which keeps the contract; counting touches nothing but
// a number.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promises about `layout` are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        HELD.fetch_add(new_size, Relaxed);
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `block` came from this allocator, thus from the system's, with this layout.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as for `realloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn config(settings: u8, role: Role) -> SessionConfig {
    let limits = Limits::default()
        .max_message(256 << 10)
        .max_block(BLOCK)
        .window(32 << 10)
        .connection_memory(MESSAGES)
        .decode_memory(Some(HISTORIES))
        .streams_per_second(if settings & 32 == 0 { 16 } else { 16_384 })
        .max_streams(if settings & 32 == 0 { 20 } else { 4000 })
        .idle_time((settings & 64 != 0).then_some(Duration::from_secs(1)));
    let taken = if settings & 8 == 0 { Acceptance::Never } else { Acceptance::Always };
    let mut taken = AcceptancePolicy::new(taken);
    (taken.max_held, taken.max_len) = (DICTIONARIES, DICTIONARY);
    SessionConfig::default()
        .limits(limits)
        .history_memory(HISTORIES)
        .history_log(16)
        .send_queue(QUEUE)
        .accept_dictionaries(taken)
        .train_dictionaries(None)
        .retransmit_memory(if settings & 4 == 0 { 0 } else { RETAINED })
        .resume_token((role == Role::Acceptor && settings & 4 != 0).then_some([9; 16]))
}

const fn other(role: Role) -> Role {
    match role {
        Role::Connector => Role::Acceptor,
        Role::Acceptor => Role::Connector,
    }
}

fn policy(number: u8) -> PolicyConfig {
    let codecs = [CodecId::LZ4, CodecId::SNAPPY, CodecId::ZSTD, CodecId::DEFLATE, CodecId::BZIP2, CodecId::XZ];
    let arm = Arm::new(codecs[usize::from(number >> 3) % codecs.len()], 0);
    match number & 7 {
        0 => PolicyConfig::None,
        1 => PolicyConfig::RoundRobin,
        2 => PolicyConfig::default(),
        3 | 4 => PolicyConfig::Fixed(arm),
        5 => PolicyConfig::Fixed(arm.with_dictionary()),
        _ => PolicyConfig::Fixed(arm.with_history()),
    }
}

/// A session, and what its driver and its application know of it.
struct Driven {
    session: Session,
    role: Role,
    now: Time,
    worker: CodecWorker,
    input: BytesMut,
    /// Blocks that were decoded, and of which it does not know yet.
    decoded: Vec<DecodedBlock>,
    /// Whether it is told late.
    slow: bool,
    /// What it has said over this connection.
    said: Vec<u8>,
    /// Whether this side began to close: then it has said its last word already.
    closes: bool,
    /// Messages that the application has taken and not released.
    unreleased: Vec<(StreamId, usize)>,
    streams: Vec<StreamId>,
    closed: Option<Result<(), SessionError>>,
    ends_told: usize,
    /// Whether its last word was looked at.
    heard: bool,
}

impl Driven {
    fn hear(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        loop {
            let before = self.input.len();
            let result = self.session.handle_input(self.now, &mut self.input);
            self.judge(result);
            let mut worked = self.input.len() != before;
            while let Some(job) = self.session.poll_decode() {
                let block = self.worker.decode(job);
                self.decoded.push(block);
            }
            if !self.slow {
                worked |= !self.decoded.is_empty();
                self.hand_back();
            }
            if !worked {
                return;
            }
        }
    }

    fn hand_back(&mut self) {
        for block in std::mem::take(&mut self.decoded) {
            let result = self.session.handle_decoded(block, Duration::from_micros(5));
            self.judge(result);
        }
    }

    /// An error is the end, and the same for ever.
    fn judge(&mut self, result: Result<(), SessionError>) {
        if let Err(error) = result {
            assert_eq!(self.session.closed(), Some(&Err(error)));
        }
        if let Some(first) = &self.closed {
            assert_eq!(self.session.closed(), Some(first));
        }
        self.closed = self.session.closed().cloned();
    }

    fn work(&mut self) {
        while let Some(job) = self.session.poll_dictionary(self.now) {
            let work = self.worker.dictionary(job);
            let result = self.session.handle_dictionary(self.now, work, Duration::from_millis(1));
            self.judge(result);
        }
        while let Some(job) = self.session.poll_encode(self.now) {
            let block = self.worker.encode(job);
            self.session.handle_encoded(self.now, block, Duration::from_micros(20));
        }
        self.judge(Ok(()));
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::StreamOpened(id) if self.streams.len() < 2 * OPENED => self.streams.push(id),
                Event::Starved(id) => self.session.want(id),
                // The peer has closed it.
                Event::Closing => self.closes = true,
                Event::Disconnected(cause) => {
                    self.said.clear();
                    let farewell = self.session.take_farewell();
                    assert_eq!(farewell.is_empty(), !matches!(cause, SessionError::Peer(_)));
                }
                Event::Closed(result) => {
                    self.ends_told += 1;
                    assert_eq!(self.closed, Some(result));
                }
                _ => {}
            }
        }
    }

    fn write(&mut self, most: usize) {
        while self.session.output_len() > 0 {
            let mut slices = [std::io::IoSlice::new(&[]); 8];
            let filled = self.session.fill_slices(&mut slices);
            let before = self.said.len();
            slices[..filled].iter().for_each(|slice| self.said.extend_from_slice(slice));
            self.said.truncate(before.saturating_add(most));
            let written = self.said.len() - before;
            self.session.handle_written(self.now, written);
            if written == most {
                return;
            }
        }
    }

    fn stream(&self, number: u8) -> StreamId {
        let known = self.streams.get(usize::from(number) % self.streams.len().max(1));
        known.copied().or_else(|| StreamId::new(number.into())).expect("a number")
    }

    fn send(&mut self, id: StreamId, payload: Bytes, sensitive: bool) {
        let session = &mut self.session;
        let sent = if sensitive {
            session.send_sensitive(id, payload, RecordKind::Message)
        } else {
            session.send(id, payload, RecordKind::Message)
        };
        if self.closed.is_some() {
            assert!(matches!(sent, Err(SendError::Closed(_))));
        }
    }

    fn operate(&mut self, op: u8, script: &mut Script) {
        match op & 31 {
            12 => {
                // Up to a quarter of a minute.
                self.now = self.now + Duration::from_nanos(1 << (10 + script.byte() % 25));
                let result = self.session.handle_timeout(self.now);
                self.judge(result);
                self.hear(&[]);
            }
            13 => {
                let number = script.byte();
                if self.streams.len() < OPENED {
                    let config = StreamConfig::default().policy(policy(number)).group(GroupId(number >> 7));
                    if let Ok(id) = self.session.open("a stream", config) {
                        self.streams.push(id);
                    }
                }
            }
            14 | 15 => {
                let (id, len) = (self.stream(script.byte()), usize::from(script.byte()));
                let len = if len < 128 { len } else { (len - 120) * 200 };
                self.send(id, Bytes::from(vec![len as u8; len]), op & 31 == 15);
            }
            16 => self.session.finish(self.stream(script.byte())),
            17 => self.session.discard(self.stream(script.byte())),
            18 => {
                let id = self.stream(script.byte());
                while let Some(message) = self.session.recv(id) {
                    self.session.release(id, message.charge());
                }
            }
            19 => {
                let id = self.stream(script.byte());
                self.session.set_policy(id, policy(script.byte()));
            }
            20 => {
                self.closes = true;
                self.session.close();
            }
            21 => self.session.set_history_memory(usize::from(script.byte()) << 12),
            22 => self.session.handle_eof(),
            23 => {
                let result = self.session.reconnect(self.now);
                if result.is_ok() {
                    self.closes = false;
                    self.said.clear();
                    self.input.clear();
                    self.decoded.clear();
                }
            }
            24 => self.session.handle_blocked(self.now),
            25 => self.write(usize::from(script.byte()) << 4),
            26 => self.slow = true,
            27 => {
                self.slow = false;
                self.hand_back();
            }
            28 => {
                let id = self.stream(script.byte());
                if let Some(message) = self.session.recv(id) {
                    self.unreleased.push((id, message.charge()));
                }
            }
            29 => {
                for (id, charge) in std::mem::take(&mut self.unreleased) {
                    self.session.release(id, charge);
                }
            }
            30 => {
                let hello = self.peers_hello();
                self.hear(&hello);
            }
            31 => {
                let number = script.byte();
                self.session.set_load(CpuLoad::new(f64::from(number) / 255.0));
                let rate = (number > 9).then_some(BudgetRate::ZERO);
                self.session.set_budget(self.now, rate);
            }
            _ => {
                let len = usize::from(script.byte()).min(script.0.len());
                let (bytes, rest) = script.0.split_at(len);
                script.0 = rest;
                self.hear(bytes);
            }
        }
        self.work();
    }

    /// What a peer of this kind says first, over this connection.
    fn peers_hello(&self) -> Vec<u8> {
        let (role, settings) = (other(self.role), if self.session.is_resumable() { 4 } else { 0 });
        let Ok(peer) = Session::new(role, config(settings | 8, role), Time::ZERO) else { return Vec::new() };
        let mut slices = [std::io::IoSlice::new(&[]); 4];
        let filled = peer.fill_slices(&mut slices);
        let bytes: Vec<u8> = slices[..filled].iter().flat_map(|slice| slice.iter().copied()).collect();
        let Ok(Some((mut hello, _))) = Hello::parse(&bytes) else { return bytes };
        if let (Some(token), true) = (self.session.resume_token(), self.session.is_resumable()) {
            hello.resume = Some(tautline::wire::Resume { token, connection: u64::MAX, received: 0 });
        }
        let mut out = Vec::new();
        hello.put(&mut out);
        out
    }

    /// What must hold whatever was said and done.
    fn check(&mut self, before: usize, input: usize) {
        let stats = self.session.stats();
        assert!(stats.received_held <= stats.received_most, "{stats:?}");
        assert!(stats.received_most <= stats.received_limit, "{stats:?}");
        assert!(stats.history_received <= stats.history_announced * 11 / 10 + BLOCK as u64, "{stats:?}");
        assert!(stats.history_sent <= HISTORIES as u64 * 11 / 10 + BLOCK as u64, "{stats:?}");
        assert!(stats.retained <= RETAINED as u64 + RETAINED_SLACK, "{stats:?}");
        let output = self.session.output_len();
        assert!(output <= OUTPUT + BESIDE, "{output}");
        let own = self.said.capacity() + self.input.capacity() + 2 * output;
        let held = HELD.load(Relaxed).saturating_sub(before + own);
        let most = LIMIT + BESIDE + input / OPENS_A_STREAM * OF_A_STREAM;
        assert!(held <= most, "{held} bytes held, {most} allowed: {stats:?}");
        if self.closed.is_some() {
            self.check_closed();
        }
    }

    /// One that is over wants and does nothing, and has said why to a peer that erred.
    fn check_closed(&mut self) {
        let (session, now) = (&mut self.session, self.now);
        assert_eq!(self.ends_told, 1);
        assert!(!session.wants_input() && !session.is_connected() && !session.is_resumable());
        assert_eq!(session.poll_timeout(), None);
        assert_eq!(session.resume_token(), None);
        assert!(session.poll_encode(now).is_none() && session.poll_dictionary(now).is_none());
        assert!(!session.has_queued());
        let opened = session.open("a stream", StreamConfig::default());
        assert!(matches!(opened, Err(OpenError::Closed)));
        assert!(session.reconnect(now).is_err());
        let said = session.output_len();
        let mut more = BytesMut::from(&b"more"[..]);
        let again = session.handle_input(now, &mut more);
        assert!(self.closed == Some(again.clone()) || self.closed == Some(Ok(())) && again.is_ok());
        assert_eq!((session.output_len(), session.poll_event()), (said, None), "it has nothing to say any more");
        if self.heard {
            assert_eq!(said, 0, "its last word was out");
            return;
        }
        let Some(Err(SessionError::Peer(error))) = self.closed.clone() else { return };
        self.heard = true;
        self.write(usize::MAX);
        // Whether blocks carry checks is the peer's say, too.
        let said = [true, false].map(|with_check| self.last_word(with_check));
        if self.closes {
            assert!(said.iter().any(|it| matches!(it, Ok(Some(_)))), "it has said that it closes: {said:?}");
        } else {
            let expected = GoAway { code: error.code(), detail: error.to_string() };
            assert!(said.contains(&Ok(Some(expected))), "{error}: {said:?}");
        }
    }

    /// The last frame that it has said, if that is a go-away, and nothing after it.
    fn last_word(&self, with_check: bool) -> Result<Option<GoAway>, WireError> {
        let (_, len) = Hello::parse(&self.said)?.expect("a whole hello");
        let (mut rest, mut last) = (&self.said[len..], None);
        while let Some(frame) = parse_frame(rest, 16 << 20, with_check)? {
            let len = match &frame {
                Frame::Control { len, .. } => *len,
                Frame::Block { header, body_at } => body_at + header.body_len,
            };
            let Some(after) = rest.get(len..) else { break };
            last = match frame {
                Frame::Control { control: Some(Control::GoAway(it)), .. } => Some(it),
                // Who closes acknowledges what still comes.
                _ if self.closes => last,
                _ => None,
            };
            rest = after;
        }
        Ok(last.filter(|_| rest.is_empty()))
    }
}

fuzz_target!(|input: &[u8]| {
    let before = HELD.load(Relaxed);
    let mut script = Script(input);
    let settings = script.byte();
    let role = if settings & 1 == 0 { Role::Acceptor } else { Role::Connector };
    let Ok(session) = Session::new(role, config(settings, role), Time::ZERO) else { return };
    let mut driven = Driven {
        session,
        role,
        now: Time::ZERO,
        worker: CodecWorker::new(20),
        input: BytesMut::new(),
        decoded: Vec::new(),
        slow: false,
        said: Vec::new(),
        closes: false,
        unreleased: Vec::new(),
        streams: Vec::new(),
        closed: None,
        ends_told: 0,
        heard: false,
    };
    if settings & 16 == 0 {
        driven.session.set_budget(Time::ZERO, None);
    }
    if settings & 2 != 0 {
        driven.operate(30, &mut script);
    }
    driven.check(before, input.len());
    while let Some(op) = script.next() {
        driven.operate(op, &mut script);
        driven.check(before, input.len());
        if settings & 128 != 0 {
            driven.write(usize::MAX);
        }
    }
    driven.hand_back();
    driven.work();
    driven.check(before, input.len());
});
