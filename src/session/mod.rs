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
mod ending;
mod error;
mod event;
mod flight;
mod history;
mod inflight;
mod job;
mod output;
mod path;
mod peer;
mod receiver;
mod sender;
mod shadow;
mod stats;
mod stream;
mod trace;

use core::time::Duration;
use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Bytes, BytesMut};

pub use self::config::{ConfigError, SessionConfig, StreamConfig};
pub use self::error::{OpenError, Rejected, SendError, SessionError};
pub use self::event::Event;
pub use self::job::{
    CodecWorker, DecodeJob, DecodedBlock, EncodeJob, EncodedBlock, ShadowJob, ShadowResult,
    ShadowedBlock,
};
use self::path::Path;
use self::receiver::{Receiver, Taken};
use self::sender::{Sender, late_bytes};
pub use self::stats::{ArmStats, SessionStats, StreamStats};
#[cfg(feature = "transport")]
pub(crate) use self::stream::BuildIdHasher;
pub use self::stream::Message;
use self::stream::{Queued, RecvStream, SendState, SendStream, Stream, Streams};
pub use self::trace::{Decision, MAX_DECISIONS};
use crate::codecs::{Arm, CodecId};
use crate::control::{BudgetRate, PeerKnowledge, Policy, PolicyConfig, SocketSample, Texture};
use crate::units::{CpuLoad, Time};
pub use crate::wire::Role;
use crate::wire::{
    Control, Features, GoAwayCode, Hello, MESSAGE_CHARGE, Open, PeerCodec, Probe, ProbeReply,
    RecordKind, StreamId, VERSION_MAX, VERSION_MIN, Window, WireError,
};

/// The longest stream name, bytes (docs/wire.md).
pub const MAX_NAME_LEN: usize = 255;
/// The least window: enough for a message to begin, and not so little that each byte wants a frame.
/// Arbitrary; docs/wire.md has it.
const MIN_WINDOW: u64 = 4 << 10;
/// Room that record headers may need beyond a block's payload. Arbitrary: the longest header takes less
/// than half.
const HEADER_SLACK: usize = 64;
/// An acknowledgement travels with other output rather than alone if the last one is so long ago.
/// Arbitrary: its bytes and time do not show at 500 a second.
const ACK_SPACING: Duration = Duration::from_millis(2);

/// Bytes waiting to be written above which acknowledgements and probe replies wait too: a peer
/// that sends and does not read must not make the output grow. Arbitrary, above what a block or two leave there.
const MAX_UNREAD: usize = 256 << 10;

/// Bytes waiting to be written from which on a peer that makes them grow is given up: what it asks
/// for and does not read. Arbitrary, far above what blocks and honest answers leave
/// there.
const MAX_OUTPUT: usize = 8 << 20;

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
    sender: Sender,
    receiver: Receiver,
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
        sender.output.put_small(|out| hello(role, &config).put(out));
        Ok(Self {
            role,
            state: State::Handshaking {
                deadline: now + config.handshake_timeout,
            },
            peer: Peer {
                max_message: 0,
                max_streams: 0,
                window: 0,
            },
            peer_codecs: Vec::new(),
            streams: Streams::default(),
            next_stream: u32::from(role != Role::Connector),
            last_peer_stream: None,
            sender,
            receiver: Receiver::new(config.max_block, config.max_message),
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
            config,
        })
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
        self.add_stream(id, name.to_owned(), policy, self.peer.window);
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
        codec && (!arm.history || self.sender.history.has_room(arm))
    }

    /// Makes room among the arms for one that a policy is fixed to.
    fn admit(&mut self, policy: PolicyConfig) {
        if let PolicyConfig::Fixed(arm) = policy {
            if self.both_have(arm) {
                self.sender.arms.add_fixed(arm);
            }
        }
    }

    fn add_stream(&mut self, id: StreamId, name: String, policy: PolicyConfig, send_limit: u64) {
        self.admit(policy);
        let stream = Stream {
            is_open: true,
            name,
            send: SendStream::new(send_limit),
            recv: RecvStream::new(self.config.window),
            policy: Policy::new(policy),
            latest_block: (0, Texture::default()),
            stats: StreamStats::default(),
        };
        self.streams.insert(id, stream);
    }

    /// Queues a message.
    ///
    /// # Errors
    ///
    /// The queue is full (the message is given back; wait for [`Event::Drained`]), the message is
    /// longer than the peer receives, or the stream is closed.
    pub fn send(
        &mut self,
        id: StreamId,
        payload: Bytes,
        kind: RecordKind,
    ) -> Result<(), SendError> {
        let closed = SendError::Closed(id);
        if !matches!(self.state, State::Established) {
            return Err(closed);
        }
        let max = self.peer.max_message;
        let Some(stream) = self
            .streams
            .find(id)
            .filter(|stream| stream.send.state == SendState::Open)
        else {
            return Err(closed);
        };
        if payload.len() as u64 > max {
            return Err(SendError::TooLong {
                given: payload.len(),
                max,
            });
        }
        let send = &mut stream.send;
        let len = payload.len() + MESSAGE_CHARGE as usize;
        if send.queued_bytes > 0 && send.queued_bytes + len > self.config.send_queue {
            return Err(SendError::Full(Rejected(payload)));
        }
        stream.stats.messages_sent += 1;
        stream.stats.payload_sent += payload.len() as u64;
        send.queued_bytes += len;
        send.queue.push_back(Queued { payload, kind });
        self.sender.on_sendable(id, send);
        Ok(())
    }

    /// Takes the next message of a stream. Call [`Self::release`] when the application is done with it.
    pub fn recv(&mut self, id: StreamId) -> Option<Message> {
        let message = self.streams.find(id)?.recv.queue.pop_front();
        if message.is_none() {
            self.streams.remove_if_over(id);
        }
        message
    }

    /// Moves all messages of a stream to the end of `into`, as [`Self::recv`] would one by one.
    pub fn recv_all(&mut self, id: StreamId, into: &mut VecDeque<Message>) {
        let Some(stream) = self.streams.find(id) else {
            return;
        };
        let queue = &mut stream.recv.queue;
        if into.is_empty() {
            core::mem::swap(queue, into);
        } else {
            into.append(queue);
        }
        self.streams.remove_if_over(id);
    }

    /// Says that the application is done with messages of a stream that took so much of its window
    /// ([`Message::charge`]), so that the peer may send more.
    pub fn release(&mut self, id: StreamId, charge: usize) {
        let window = self.config.window;
        let Some(stream) = self.streams.find(id) else {
            return;
        };
        let recv = &mut stream.recv;
        recv.released = (recv.released + charge as u64).min(recv.complete());
        if let Some(limit) = recv.new_limit(window) {
            self.put_control(&Control::Window(Window { stream: id, limit }));
        }
    }

    /// Ends a stream's sending direction once everything queued is sent.
    pub fn finish(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.find(id) {
            if stream.send.state == SendState::Open {
                stream.send.state = SendState::Finishing;
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
            // What the application has taken and not released will not be released any more.
            recv.released = recv.complete();
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
            wire_sent: self.sender.output.position(),
            wire_received: self.receiver.wire_bytes,
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
            history_sent: self.sender.history.memory() as u64,
            history_received: self.receiver.history.memory() as u64,
            absurd_reports: self.sender.inflight.absurd() + self.path.known.decode.absurd(),
        }
    }

    // ---- the driver's side: inputs

    /// Takes in bytes from the peer; whole frames are removed from the front of `input`, the rest
    /// stays for the next call. Stops early while [`Self::wants_input`] is false: call it again
    /// after the decode jobs were run.
    ///
    /// # Errors
    ///
    /// The session is over; the error is sticky, and the peer's go-away is in the output.
    pub fn handle_input(&mut self, now: Time, input: &mut BytesMut) -> Result<(), SessionError> {
        self.check_open()?;
        self.receiver.begin_input(now, input.len());
        let result = self.take_input(now, input);
        self.receiver.end_input(input.len());
        self.fail_on(result)
    }

    fn take_input(&mut self, now: Time, input: &mut BytesMut) -> Result<(), WireError> {
        if matches!(self.state, State::Handshaking { .. }) {
            let Some((hello, len)) = Hello::parse(input)? else {
                return Ok(());
            };
            bytes::Buf::advance(input, len);
            self.receiver.wire_bytes += len as u64;
            self.establish(&hello)?;
        }
        while self.receiver.wants_input() && !matches!(self.state, State::Closed(_)) {
            match self.receiver.take_frame(now, input)? {
                Taken::Nothing => break,
                Taken::Control(Control::Probe(Probe { id })) => {
                    self.probe_reply = Some((id, now));
                }
                Taken::Control(Control::ProbeReply(reply)) => self.on_probe_reply(now, &reply),
                Taken::Control(Control::Ack(ack)) => self.on_ack(now, &ack)?,
                Taken::Ordered | Taken::Control(_) => {}
            }
            self.deliver()?;
        }
        let given = self.sender.output.len();
        if given > MAX_OUTPUT {
            let (field, max) = ("bytes waiting for the peer to read", MAX_OUTPUT as u64);
            return Err(WireError::FieldTooLarge {
                field,
                given: given as u64,
                max,
            });
        }
        Ok(())
    }

    /// The socket has nothing to read for now. Said again before the next bytes come, it changes nothing;
    /// without it, the peer takes this end for one that is slower than the link.
    pub fn handle_dry(&mut self, now: Time) {
        self.receiver.on_dry(now);
    }

    /// Whether the driver has said [`Self::handle_dry`] and nothing has come since.
    pub const fn is_dry(&self) -> bool {
        self.receiver.is_dry()
    }

    /// Whether more bytes from the peer should be read now.
    pub fn wants_input(&self) -> bool {
        !matches!(self.state, State::Closed(_)) && self.receiver.wants_input()
    }

    /// Takes in a block that was encoded in `elapsed`.
    pub fn handle_encoded(&mut self, now: Time, block: EncodedBlock, elapsed: Duration) {
        self.sender
            .on_encoded(now, block, elapsed, &mut self.streams, &mut self.path);
        self.after_output();
    }

    /// Takes in what other arms made of a block.
    pub fn handle_shadowed(&mut self, now: Time, block: ShadowedBlock) {
        self.sender
            .on_shadowed(now, block, &mut self.streams, &mut self.path);
    }

    /// Takes in a block that was decoded in `elapsed`.
    ///
    /// # Errors
    ///
    /// The block did not decode or broke the protocol: the session is over.
    pub fn handle_decoded(
        &mut self,
        block: DecodedBlock,
        elapsed: Duration,
    ) -> Result<(), SessionError> {
        self.check_open()?;
        let result = self
            .receiver
            .on_decoded(block, elapsed)
            .and_then(|()| self.deliver());
        self.fail_on(result)
    }

    /// The socket has taken `written` bytes of the output.
    ///
    /// # Panics
    ///
    /// If that is more than there was: the driver's mistake.
    pub fn handle_written(&mut self, now: Time, written: usize) {
        self.sender.on_written(now, written, &mut self.path);
        if written > 0 {
            self.path.blocked_since = None;
        }
    }

    /// The socket takes no more bytes for now, and output is left. Said again before
    /// [`Self::handle_written`], it changes nothing.
    pub fn handle_blocked(&mut self, now: Time) {
        self.path.blocked_since.get_or_insert(now);
        self.path.was_blocked = true;
    }

    /// How many bytes the socket should take before they are on their way: on a slow link few, so that
    /// decisions are not made long before they matter.
    pub fn unsent_limit(&self) -> u32 {
        let limit = late_bytes(&self.path.known.link).unwrap_or(usize::MAX);
        u32::try_from(limit).unwrap_or(u32::MAX)
    }

    /// Takes in what the system says of the socket.
    pub fn handle_socket_sample(&mut self, now: Time, sample: SocketSample) {
        self.path.on_socket_sample(now, sample);
    }

    /// The time of [`Self::poll_timeout`] has come, or any other time.
    ///
    /// # Errors
    ///
    /// The handshake took too long.
    pub fn handle_timeout(&mut self, now: Time) -> Result<(), SessionError> {
        self.check_open()?;
        if let State::Handshaking { deadline } = self.state {
            if now >= deadline {
                let error = SessionError::HandshakeTimeout {
                    limit: self.config.handshake_timeout,
                };
                self.end(Err(error.clone()));
                return Err(error);
            }
        }
        Ok(())
    }

    /// The connection has ended: no more bytes come from the peer. What has come and is still being
    /// decoded takes effect first.
    pub fn handle_eof(&mut self) {
        self.ending.input_ended = true;
        self.end_if_lost();
    }

    /// Ends the session now, whatever is still under way.
    pub fn abort(&mut self) {
        self.end(Err(SessionError::ConnectionLost));
    }

    /// Grants codec time at a rate, or with `None` without limit. A session begins with none (thesis
    /// 7.2.7, initial values).
    pub fn set_budget(&mut self, now: Time, rate: Option<BudgetRate>) {
        // A guard begins with nothing, before it has measured anything: that says nothing of this end.
        self.states_budget = self.has_budget || rate != Some(BudgetRate::ZERO);
        self.has_budget = true;
        match rate {
            Some(rate) => self.sender.budget.set_rate(now, rate),
            None => self.sender.budget.set_unlimited(),
        }
    }

    /// Takes in this side's processor load, to be told to the peer.
    pub fn set_load(&mut self, load: CpuLoad) {
        self.sender.load = load;
    }

    // ---- the driver's side: outputs

    /// A block to be decoded, if there is one. Several may be under way; results may come in any order.
    pub fn poll_decode(&mut self) -> Option<DecodeJob> {
        self.receiver.take_job()
    }

    /// Queues what is due for writing and gives out a block to be encoded, if there is one. Only one
    /// is under way at a time.
    pub fn poll_encode(&mut self, now: Time) -> Option<EncodeJob> {
        if !matches!(self.state, State::Established | State::Draining) {
            return None;
        }
        self.put_due_control(now);
        let blocks = self.sender.inflight.blocks_sent();
        self.sender
            .fill(now, &mut self.streams, &mut self.path, &mut self.events);
        if self.sender.inflight.blocks_sent() != blocks {
            self.after_output();
        }
        if self.sender.wants_probe {
            self.put_due_control(now);
        }
        self.sender.take_job()
    }

    /// A block to be encoded with other arms, if there is one: off the way of messages, on a processor
    /// that has nothing better to do. Only one is under way at a time; it may be dropped.
    pub fn poll_shadow(&mut self) -> Option<ShadowJob> {
        self.sender.take_shadow()
    }

    /// Whether messages wait for their block or a block for its codec: decisions are due, and
    /// [`Self::handle_socket_sample`] is worth its cost.
    pub fn has_queued(&self) -> bool {
        !self.sender.is_idle()
    }

    /// Bytes that wait to be written.
    pub fn output_len(&self) -> usize {
        self.sender.output.len()
    }

    /// Fills `slices` with what is to be written next, in order, and returns how many were filled.
    pub fn fill_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.sender.output.fill_slices(slices)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Self::handle_timeout`] and [`Self::poll_encode`] must be called at the latest; `None`
    /// if only input or the application can change anything.
    pub fn poll_timeout(&self) -> Option<Time> {
        match self.state {
            State::Handshaking { deadline } => Some(deadline),
            State::Closed(_) => None,
            State::Established | State::Draining => {
                [self.ack_due(), self.probe_due(), self.sender.held_until()]
                    .into_iter()
                    .flatten()
                    .min()
            }
        }
    }

    /// Grows with everything that brings the session nearer to its end: frames in order, both ways.
    pub const fn progress(&self) -> u64 {
        self.receiver.frames() + self.sender.inflight.sent()
    }

    /// Whether the session is over, and how.
    pub fn closed(&self) -> Option<&Result<(), SessionError>> {
        match &self.state {
            State::Closed(result) => Some(result),
            _ => None,
        }
    }

    // ---- inner workings

    /// When the acknowledgement of what was received must leave; not while the peer reads nothing.
    fn ack_due(&self) -> Option<Time> {
        let reads = self.sender.output.len() <= MAX_UNREAD;
        self.receiver
            .ack_due(self.config.ack_delay)
            .filter(|_| reads)
    }

    fn probe_due(&self) -> Option<Time> {
        let due = match self.last_probe {
            Some(last) if !self.sender.wants_probe => last + self.config.probe_interval,
            _ => Time::ZERO,
        };
        (self.sent_since_probe && self.sender.inflight.can_probe()).then_some(due)
    }

    /// Probes and their replies first, then acknowledgements; all of them ahead of data.
    fn put_due_control(&mut self, now: Time) {
        let reads = self.sender.output.len() <= MAX_UNREAD;
        let probed = self.probe_reply.take_if(|_| reads);
        // Who probes may be waiting for an acknowledgement.
        let replied = probed.is_some();
        if let Some((id, received)) = probed {
            let reply = ProbeReply {
                id,
                received_nanos: received.as_nanos(),
                held_nanos: crate::units::saturating_nanos(now.saturating_since(received)),
                load_permille: (self.sender.load.get() * 1000.0) as u16,
                codec_budget: self
                    .sender
                    .budget
                    .rate()
                    .filter(|_| self.states_budget)
                    .map_or(0, |rate| rate.as_nanos_per_sec().max(1)),
                decoded: self.receiver.decode_reports(),
            };
            self.put_control(&Control::ProbeReply(reply));
        }
        if self.probe_due().is_some_and(|due| now >= due) {
            if let Some(id) = self.sender.inflight.new_probe() {
                self.put_control(&Control::Probe(Probe { id }));
                self.sender
                    .inflight
                    .on_probe(id, self.sender.output.position());
                self.last_probe = Some(now);
                self.sent_since_probe = false;
                self.sender.wants_probe = false;
            }
        }
        if let Some(due) = self.ack_due() {
            let spaced = self
                .last_ack
                .is_none_or(|last| now.saturating_since(last) >= ACK_SPACING);
            let rides_along = spaced && !self.sender.is_idle();
            if now >= due || rides_along || replied {
                let ack = self.receiver.ack(now);
                self.put_control(&Control::Ack(ack));
                self.last_ack = Some(now);
            }
        }
    }

    fn put_control(&mut self, control: &Control) {
        if control.is_numbered() {
            self.sender.inflight.on_control();
        }
        self.sender.output.put_small(|out| control.put(out));
    }

    /// Blocks were put out: streams may have been drained, and the session with them.
    fn after_output(&mut self) {
        self.sent_since_probe = true;
        let finishing = core::mem::take(&mut self.finishing);
        for id in finishing {
            self.finish_if_drained(id);
        }
        self.go_away_if_drained();
    }
}

fn features(config: &SessionConfig) -> Features {
    let mut features = Features::default();
    if config.checksums {
        features.0 |= Features::CHECKSUMS.0;
    }
    if config.history_memory > 0 {
        features.0 |= Features::HISTORY.0;
    }
    features
}

fn hello(role: Role, config: &SessionConfig) -> Hello {
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
        max_message: config.max_message as u64,
        max_block: config.max_block as u64,
        max_streams: u64::from(config.max_streams),
        window: config.window,
        history_memory: config.history_memory as u64,
    }
}

#[cfg(test)]
mod tests;
