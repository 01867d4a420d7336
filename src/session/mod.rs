//! One end of a connection as a state machine without clock or socket.
//!
//! The driver gives inputs and the time (`handle_*`), the application opens, sends and receives,
//! and outputs are polled.
//!
//! > **The drain rule.** After any input, and before waiting: run [`Session::poll_decode`] and
//! > [`Session::poll_encode`] until both answer `None`, giving back what they hand out (at once or,
//! > from a worker, later); write [`Session::fill_slices`] and report
//! > [`Session::handle_written`], or [`Session::handle_blocked`] if the socket takes nothing; take
//! > every [`Session::poll_event`]; then wait for input or until [`Session::poll_timeout`].
//!
//! Same configuration, same inputs at the same times: same bytes out.

mod block;
mod config;
mod credit;
mod dictionaries;
mod drive;
mod ending;
mod error;
mod event;
mod flight;
mod gain;
mod history;
mod inflight;
mod job;
#[cfg(feature = "transport")]
mod lane;
mod limits;
mod messages;
mod observer;
mod outgoing;
mod output;
mod partial;
mod path;
mod peer;
mod queue;
mod receiver;
mod recent;
mod resume;
mod retained;
mod sender;
mod shadow;
mod stats;
mod stream;
mod trace;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

pub use self::config::{ConfigError, SessionConfig, StreamConfig};
use self::credit::RecvCredit;
pub use self::dictionaries::{
    DictionaryEvent, DictionaryJob, DictionaryMemory, DictionaryStats, DictionaryWork,
};
use self::dictionaries::{RecvDictionaries, SendDictionaries};
pub use self::error::{OpenError, Rejected, SendError, SessionError};
pub use self::event::Event;
pub use self::job::{
    CodecWorker, DecodeJob, DecodedBlock, EncodeJob, EncodedBlock, JobTime, ShadowJob,
    ShadowResult, ShadowedBlock,
};
#[cfg(feature = "quic")]
pub(crate) use self::lane::LaneBudget;
pub use self::limits::Limits;
#[cfg(not(feature = "quic"))]
use self::limits::OpenRate;
#[cfg(feature = "quic")]
pub(crate) use self::limits::{DecodeTime, OpenRate};
use self::observer::Told;
pub use self::observer::{
    BlockDecision, ContextChange, DictionaryChange, MessageRun, Observation, Observations, Observer,
};
pub use self::outgoing::{Outgoing, OutgoingQueue};
use self::path::Path;
pub use self::queue::MessageQueue;
use self::receiver::Receiver;
pub use self::resume::Delivery;
use self::resume::Resumption;
use self::sender::Sender;
#[cfg(feature = "transport")]
pub(crate) use self::sender::UNSENT;
pub use self::stats::{ArmStats, SessionStats, StreamStats};
#[cfg(feature = "transport")]
pub(crate) use self::stream::BuildIdHasher;
pub use self::stream::Message;
use self::stream::{RecvStream, SendState, SendStream, Stream, Streams, TrafficClass};
pub use self::trace::{Decision, MAX_DECISIONS};
use crate::codecs::{Arm, CodecId, takes_dictionary};
use crate::control::{PeerKnowledge, Policy, PolicyConfig, Texture, TextureLook};
use crate::dictionary::Dictionary;
use crate::units::{CpuLoad, Time};
pub use crate::wire::Role;
use crate::wire::{
    Control, DictionaryOffer, Features, GoAwayCode, GroupId, Hello, Open, Part, PeerCodec,
    RecordKind, StreamId, VERSION_MAX, VERSION_MIN, Window,
};

/// The longest stream name, bytes (docs/wire.md).
pub const MAX_NAME_LEN: usize = 255;
/// The least window: enough for a message to begin, and not so little that each byte wants a frame.
/// Arbitrary; docs/wire.md has it.
const MIN_WINDOW: u64 = 4 << 10;
/// Room that record headers may need beyond a block's payload. Arbitrary: the longest header takes less
/// than half.
const HEADER_SLACK: usize = 64;
/// ```text
/// Handshaking --peer's hello--> Established --close() or peer's go-away--> Draining --both gone--> Closed
///      any --error--> Closed
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Handshaking { deadline: Time },
    Established,
    Draining,
    Closed(Result<(), SessionError>),
}

/// The peer's side of the handshake, as far as it matters later.
#[derive(Clone, Copy, Debug)]
struct Peer {
    max_message: u64,
    max_streams: u64,
    window: u64,
    session: [u8; 16],
}

/// How far the end has come.
#[derive(Clone, Copy, Debug, Default)]
struct Ending {
    sent_go_away: bool,
    /// The peer has sent its own.
    peer_gone: bool,
    /// No more bytes come.
    input_ended: bool,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    role: Role,
    state: State,
    peer: Peer,
    peer_codecs: Vec<CodecId>,
    streams: Streams,
    next_stream: u32,
    last_peer_stream: Option<StreamId>,
    open_rate: OpenRate,
    sender: Sender,
    receiver: Receiver,
    credit: RecvCredit,
    path: Path,
    events: VecDeque<Event>,
    /// The latest probe that is not answered yet, and when it came.
    probe_reply: Option<(u64, Time)>,
    last_probe: Option<Time>,
    /// Whether anything was sent since the last probe.
    sent_since_probe: bool,
    last_ack: Option<Time>,
    /// Whether a budget was ever set, and whether it is one that the peer should know.
    has_budget: bool,
    states_budget: bool,
    peer_load: Option<CpuLoad>,
    /// Streams whose sending direction ends when their queue is empty.
    finishing: Vec<StreamId>,
    ending: Ending,
    /// Bytes of this side's hello.
    hello_len: u64,
    resumption: Resumption,
    /// The latest time that was said.
    now: Time,
    /// When a message last came or was given to be sent.
    used_at: Time,
    /// The message of a call that brings one.
    one: OutgoingQueue,
    /// When bytes last came from the peer, and when the socket last took some for it.
    heard_at: Time,
    wrote_at: Time,
}

impl Session {
    /// A session that begins its handshake at `now`.
    ///
    /// # Errors
    ///
    /// A setting that makes no sense.
    pub fn new(role: Role, mut config: SessionConfig, now: Time) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut sender = Sender::new(config.seed);
        sender.trace.switch(config.trace);
        let mut receiver = Receiver::new(config.limits);
        config.dictionaries.recalls &= config.history_memory.max(config.history_received()) > 0;
        if let Some(memory) = &mut config.dictionaries.memory {
            memory.expire(now);
        }
        receiver.dictionaries = RecvDictionaries::new(&config.dictionaries);
        sender.dictionaries = SendDictionaries::new(&mut config.dictionaries, config.seed);
        let credit = RecvCredit::new(config.limits.shares());
        let mut hello = hello(role, &config, credit.initial());
        hello.dictionaries = receiver.dictionaries.hello();
        hello.resume = Self::granted(&config, role);
        sender.output.put_small(|out| hello.put(out));
        let hello_len = sender.output.position();
        Ok(Self {
            role,
            state: State::Handshaking {
                deadline: now + config.limits.handshake_time,
            },
            peer: Peer {
                max_message: 0,
                max_streams: 0,
                window: 0,
                session: [0; 16],
            },
            peer_codecs: Vec::new(),
            streams: Streams::default(),
            next_stream: u32::from(role != Role::Connector),
            last_peer_stream: None,
            open_rate: OpenRate::new(&config.limits),
            sender,
            receiver,
            credit,
            path: Path::new(&mut config, now),
            events: VecDeque::new(),
            probe_reply: None,
            last_probe: None,
            sent_since_probe: false,
            last_ack: None,
            has_budget: false,
            states_budget: false,
            peer_load: None,
            finishing: Vec::new(),
            ending: Ending::default(),
            hello_len,
            resumption: Resumption::default(),
            now,
            used_at: now,
            one: OutgoingQueue::new(),
            heard_at: now,
            wrote_at: now,
            config,
        })
    }

    /// Has somebody told what the session does from here on.
    pub fn observe(&mut self, observer: Arc<dyn Observer>) {
        let told = Told::to(observer);
        self.receiver.told = told.clone();
        self.receiver.dictionaries.told = told.clone();
        self.sender.dictionaries.told = told.clone();
        self.sender.told = told;
    }

    /// Has who observes told of these only from here on, until another observer comes: finding out what to say of the others costs nothing.
    pub fn observe_only(&mut self, wanted: Observations) {
        self.receiver.told.only(wanted);
        self.receiver.dictionaries.told.only(wanted);
        self.sender.dictionaries.told.only(wanted);
        self.sender.told.only(wanted);
    }

    // ---- the application's side

    /// Opens a stream.
    ///
    /// # Errors
    ///
    /// The handshake is not complete, the session is closing, the peer allows no more streams, or
    /// the name is too long.
    pub fn open(&mut self, name: &str, config: StreamConfig) -> Result<StreamId, OpenError> {
        if self.state != State::Established {
            return Err(OpenError::Closed);
        }
        if name.len() > MAX_NAME_LEN {
            return Err(OpenError::NameTooLong {
                given: name.len(),
                max: MAX_NAME_LEN,
            });
        }
        let open = self.streams.count(self.role == Role::Connector);
        let max = self.peer.max_streams;
        let id = StreamId::new(self.next_stream).ok_or(OpenError::TooMany { open, max })?;
        if u64::from(open) >= max {
            return Err(OpenError::TooMany { open, max });
        }
        self.next_stream += 2;
        let policy = config.policy.unwrap_or(self.config.policy);
        self.add_stream(id, name.to_owned(), config.group, policy, self.peer.window);
        self.set_priority(id, config.priority);
        let frame = Control::Open(Open {
            stream: id,
            group: config.group,
            window: 0,
            name: name.to_owned(),
        });
        self.put_control(&frame);
        Ok(id)
    }

    /// Whether both sides have what an arm needs.
    fn both_have(&self, arm: Arm) -> bool {
        let codec =
            crate::codecs::info(arm.codec).is_some() && self.peer_codecs.contains(&arm.codec);
        let dictionary = !arm.dictionary
            || (takes_dictionary(arm.codec) && self.sender.dictionaries.is_agreed());
        codec && dictionary && (!arm.history || self.sender.history.has_room(arm))
    }

    /// Makes room among the arms for one that a policy is fixed to.
    fn admit(&mut self, policy: PolicyConfig) {
        if let PolicyConfig::Fixed(arm) = policy {
            if self.both_have(arm) {
                self.sender.arms.add_fixed(arm);
            }
        }
    }

    fn add_stream(
        &mut self,
        id: StreamId,
        name: String,
        group: GroupId,
        policy: PolicyConfig,
        send_limit: u64,
    ) {
        self.admit(policy);
        let stream = Stream {
            is_open: true,
            name,
            send: SendStream::new(group, send_limit),
            recv: RecvStream::new(self.now, self.config.limits.window_len()),
            policy: Policy::new(policy),
            class: TrafficClass::default(),
            latest_block: (0, Texture::default()),
            texture_look: TextureLook::default(),
            stats: StreamStats::default(),
        };
        self.streams.insert(id, stream);
    }

    /// Says that the application is done with messages of a stream that took so much of its window
    /// ([`Message::charge`]), so that the peer may send more.
    pub fn release(&mut self, id: StreamId, charge: usize) {
        let room = self.window_room();
        let Some(stream) = self.streams.find(id) else {
            return;
        };
        let recv = &mut stream.recv;
        recv.release(charge as u64, &mut self.credit);
        let first = recv.has_trouble().then_some(id);
        if let Some(limit) = recv.new_limit(room) {
            self.put_control(&Control::Window(Window { stream: id, limit }));
        }
        self.give_credit(first);
    }

    /// Ends a stream's sending direction once everything queued is sent. A message that has parts to come is given up.
    pub fn finish(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.find(id) {
            if stream.send.state == SendState::Open {
                stream.send.state = SendState::Finishing;
                if core::mem::take(&mut stream.send.in_parts) {
                    stream.send.queue_uncounted(Outgoing {
                        payload: Bytes::new(),
                        kind: RecordKind::Part(Part::GivenUp),
                        sensitive: false,
                    });
                    let run = MessageRun {
                        stream: id,
                        first: stream.stats.messages_sent,
                        count: 1,
                        bytes: 0,
                    };
                    stream.stats.messages_sent += run.count;
                    if let Some(observer) = self.sender.told.of(Observations::MESSAGES_QUEUED) {
                        observer.messages_queued(run);
                    }
                    self.sender.on_sendable(id, &mut stream.send);
                }
                self.finish_if_drained(id);
            }
        }
    }

    /// Drops what comes on a stream from now on; the application has lost interest.
    pub fn discard(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.find(id) {
            let recv = &mut stream.recv;
            recv.discards = true;
            recv.queue.clear();
            recv.queue_bytes = 0;
            if let Some(partial) = &mut recv.partial {
                partial.drop_bytes();
            }
            // What the application has taken and not released will not be released any more.
            recv.release(u64::MAX, &mut self.credit);
            self.release(id, 0);
            self.streams.remove_if_over(id);
        }
    }

    /// Sets the policy of one stream from here on; what its arms have shown is kept.
    pub fn set_policy(&mut self, id: StreamId, policy: PolicyConfig) {
        self.admit(policy);
        if let Some(stream) = self.streams.find(id) {
            stream.policy = Policy::new(policy);
        }
    }

    /// Sets which streams go before a stream and after it in this side's direction; see [`StreamConfig::priority`].
    pub fn set_priority(&mut self, id: StreamId, priority: i8) {
        if let Some(stream) = self.streams.find(id) {
            self.sender.set_priority(id, &mut stream.send, priority);
        }
    }

    /// Begins a clean close: what is queued is sent, then the peer is told.
    pub fn close(&mut self) {
        match self.state {
            State::Established => {
                self.state = State::Draining;
                self.events.push_back(Event::Closing);
                for id in self.streams.ids() {
                    self.finish(id);
                }
                self.go_away_if_drained();
            }
            State::Handshaking { .. } => {
                self.put_go_away(GoAwayCode::Done, "");
                self.end(Ok(()));
            }
            State::Draining | State::Closed(_) => {}
        }
    }

    /// The name that a stream was opened with.
    pub fn stream_name(&self, id: StreamId) -> Option<&str> {
        self.streams.peek(id).map(|stream| stream.name.as_str())
    }

    /// The longest message that the peer receives, bytes; 0 before the handshake is complete.
    pub const fn peer_max_message(&self) -> u64 {
        self.peer.max_message
    }

    /// What a stream has done.
    pub fn stream_stats(&self, id: StreamId) -> Option<StreamStats> {
        let stream = self.streams.peek(id)?;
        let mut stats = stream.stats.clone();
        stats.queued_bytes = stream.send.queued_bytes as u64;
        stats.reports = self.sender.explain(stream, &self.path);
        Some(stats)
    }

    /// What this session knows of the way to its peer and of the codecs, for the next session with
    /// the same peer ([`SessionConfig::knowledge`]).
    pub fn knowledge(&self) -> PeerKnowledge {
        self.path.known.clone()
    }

    /// The dictionaries and samples of this session and what its histories have carried last, for the next session with
    /// the same peer ([`SessionConfig::dictionary_memory`]). Call it when the session is over: what histories carry
    /// after it is not in it.
    pub fn dictionaries(&self) -> DictionaryMemory {
        let mut memory = DictionaryMemory::default();
        memory.begin(self.sender.dictionaries.trainers());
        let received = self.receiver.dictionaries.held().cloned();
        received.for_each(|dictionary| memory.receive(dictionary));
        self.leave_histories(&mut memory);
        memory
    }

    /// The dictionaries for what is sent, each with its class of traffic; those of one class the newest first. Bytes that
    /// messages have in common: they are as secret as those are.
    pub fn sent_dictionaries(&self) -> impl Iterator<Item = (&str, &Dictionary)> {
        self.sender.dictionaries.live()
    }

    /// Whether the session has histories that it would leave to the next ([`Self::dictionaries`]).
    pub fn leaves_histories(&self) -> bool {
        let recalls = self.sender.dictionaries.recalled().is_some()
            || self.receiver.dictionaries.recalled().is_some();
        recalls && self.sender.inflight.blocks_sent() + self.receiver.blocks > 0
    }

    fn leave_histories(&self, memory: &mut DictionaryMemory) {
        let group = GroupId::default();
        let (own, theirs) = (&self.config.session_id, &self.peer.session);
        let sessions: [&[u8]; 2] = match self.role {
            Role::Connector => [own, theirs],
            Role::Acceptor => [theirs, own],
        };
        if let Some(mut sent) = self.sender.dictionaries.recalled() {
            let all_seen = self.sender.inflight.unacked() == 0;
            let left = self.sender.history.left(group, all_seen);
            sent.leave(left, all_seen, sessions);
            memory.recalled[0] = sent;
        }
        if let Some(mut received) = self.receiver.dictionaries.recalled() {
            let all_seen = self.ending.peer_gone;
            let left = self.receiver.history.left(group, all_seen);
            received.leave(left, all_seen, sessions);
            memory.recalled[1] = received;
        }
    }

    /// Whether any block was sent, so that there is something to know.
    pub fn has_decided(&self) -> bool {
        self.sender.inflight.blocks_sent() > 0
    }

    /// The decisions since the last call, if they are kept ([`SessionConfig::trace`]); the latest
    /// [`MAX_DECISIONS`].
    pub fn take_decisions(&mut self) -> VecDeque<Decision> {
        self.sender.trace.take()
    }

    /// What the session has done and knows.
    pub fn stats(&self) -> SessionStats {
        SessionStats {
            blocks_sent: self.sender.inflight.blocks_sent(),
            blocks_received: self.receiver.blocks,
            frames_unacked: self.sender.inflight.unacked(),
            wire_sent: self.resumption.wire_before.0 + self.sender.output.position(),
            hello_sent: self.hello_len,
            wire_received: self.resumption.wire_before.1 + self.receiver.wire_bytes,
            encode_nanos: self.sender.encode_nanos,
            decode_nanos: self.receiver.decode_nanos,
            rtt: self.path.known.rtt.smoothed(),
            rtt_min: self.path.known.rtt.min(),
            send_rate: self.path.known.link.send_rate(),
            link_rate: self.path.known.link.link_rate(),
            socket: self.path.socket.map(|(_, sample)| sample),
            is_blocked: self.path.blocked_since.is_some(),
            budget: self.sender.budget.rate(),
            peer_load: self.peer_load,
            shadows: self.sender.shadows.encoded,
            shadow_nanos: self.sender.shadows.nanos,
            retained: self.sender.retained.bytes() as u64,
            history_sent: self.sender.history.memory() as u64,
            history_received: self.receiver.history.memory() as u64,
            dictionaries: {
                let mut stats = self.sender.dictionaries.stats();
                self.receiver.dictionaries.add_stats(&mut stats);
                stats
            },
            history_limit: self.sender.history.limit() as u64,
            history_announced: self.receiver.history.limit() as u64,
            received_held: self.credit.held() - self.streams.let_go,
            received_most: self.credit.most_held,
            received_limit: self.credit.limit(),
            queued: {
                let queued = self.streams.iter().map(|it| it.send.queued_bytes as u64);
                queued.sum()
            },
            output: self.sender.output.len() as u64,
            undelivered: self.receiver.undelivered(),
            credit_waits: self.sender.credit.waits,
            peer_credit_waits: self.credit.peer_waits,
            decode_pauses: self.receiver.decode_time.pauses,
            further_lanes: 0,
            absurd_reports: self.sender.inflight.absurd() + self.path.known.decode.absurd(),
        }
    }
}

fn features(config: &SessionConfig) -> Features {
    let mut features = Features::default();
    if config.checksums {
        features.0 |= Features::CHECKSUMS.0;
    }
    if config.history_memory > 0 || config.history_received() > 0 {
        features.0 |= Features::HISTORY.0;
    }
    if config.retransmit_memory > 0 {
        features.0 |= Features::RESUME.0;
    }
    if config.dictionaries.takes_part() {
        features.0 |= Features::DICTIONARIES.0;
    }
    features
}

fn hello(role: Role, config: &SessionConfig, credit: u64) -> Hello {
    Hello {
        role,
        versions: (VERSION_MIN, VERSION_MAX),
        session: config.session_id,
        codecs: crate::codecs::supported()
            .iter()
            .filter(|info| info.id != CodecId::IDENTITY)
            .map(|info| PeerCodec {
                codec: info.id,
                window_log: config.window_log,
            })
            .collect(),
        offered: features(config),
        required: Features::default(),
        max_message: config.limits.max_message as u64,
        max_block: config.limits.max_block as u64,
        max_streams: u64::from(config.limits.max_streams),
        window: config.limits.window_len(),
        credit: Some(credit),
        history_memory: config.history_received() as u64,
        dictionaries: DictionaryOffer::default(),
        resume: None,
    }
}

#[cfg(test)]
mod tests;
