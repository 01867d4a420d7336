//! The task that owns a connection's session and socket.

mod farewell;
mod lanes;
mod wakers;
mod work;
mod writing;

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::task::coop::has_budget_remaining;
use tokio::time::Sleep;
use tokio_util::io::poll_read_buf;

use self::farewell::Farewell;
use self::wakers::Wakers;
pub(super) use self::work::max_turn;
use self::work::{Done, steps_aside};
use super::SessionEvents;
use super::awake::Awake;
use super::clock::Clock;
use super::error::RecvError;
use super::guard::{Grant, Granted};
use super::history::HistoryPart;
use super::lane::Lane;
use super::node::NodeShared;
use super::path;
use super::resume::{Another, Carrier};
use super::shared::{
    Command, OpenCommand, OpenedStream, PeerStream, Phase, Shared, Stopped, StreamShared,
};
use crate::session::{
    BuildIdHasher, EncodeJob, Event, MessageQueue, OpenError, OutgoingQueue, Session, SessionError,
    UNSENT,
};
use crate::units::{Time, earliest};
use crate::wire::{CloseCode, StreamId};

/// Rounds of a poll after which other tasks get their turn.
const MAX_ROUNDS: usize = 16;
/// The system is asked about the socket no more often. An answer takes about 1 µs (see `path`), so
/// that at most a thousandth of a processor goes there.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(1);
/// How long the last bytes of a closed connection may wait for the socket to take some of them.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a closed connection's peer may take to close too, so that our last words reach it: a
/// socket that is closed with unread input is reset.
const LINGER: Duration = Duration::from_millis(500);

/// How long a connection that is closing may stand still before it is given up.
const STALL: Duration = Duration::from_secs(10);

/// So many bytes are read and delivered in about as long as it takes to read the clock, a few times. Arbitrary.
const AT_ONCE: usize = 2 << 10;

/// .. and so many take some µs: the turn has lasted longer. Arbitrary.
const LONG_MOVE: usize = 8 * AT_ONCE;

/// Output that is more than answers and control frames.
const LARGE_OUTPUT: usize = 4 << 10;

/// How the end comes on, once the application has asked for it.
#[derive(Clone, Copy, Debug)]
enum Closing {
    /// Other lanes' comes first.
    AfterOthers,
    /// When the session last came nearer to it.
    Begun { since: Time, progress: u64 },
}

/// ```text
/// Open --session closed--> Flushing --all written, failed or stuck--> Lingering --eof or time--> over
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Flushing { until: Time },
    Lingering { until: Time },
}

pub(super) struct Driver<I> {
    /// `None` while the session waits for another connection.
    io: Option<I>,
    another: Another<I>,
    /// The connection before, while it still says why it has ended.
    farewell: Option<Farewell<I>>,
    session: Session,
    shared: Arc<Shared>,
    events: SessionEvents,
    /// If the connection may have several.
    lane: Option<Arc<dyn Lane>>,
    node: Arc<NodeShared>,
    clock: Clock,
    /// The time as it was read last: when this was polled, before the latest write or after the latest codec.
    now: Time,
    /// Bytes that were read or written since; each write counts for [`AT_ONCE`] more.
    moved_since: usize,
    grant: Arc<Grant>,
    granted: watch::Receiver<Granted>,
    history: HistoryPart,
    streams: HashMap<StreamId, Arc<StreamShared>, BuildIdHasher>,
    commands: Vec<Command>,
    /// On their way from an outbox to the session.
    outgoing: OutgoingQueue,
    input: BytesMut,
    /// Bytes came with the connection that the session has not seen.
    has_input: bool,
    input_ended: bool,
    awake: Awake,
    work: JoinSet<Done>,
    /// A block that is the first thing to be encoded in the next turn.
    put_off: Option<EncodeJob>,
    timer: Pin<Box<Sleep>>,
    timer_at: Option<Time>,
    wakers: Wakers,
    /// When the system was last asked about the socket.
    sampled: Option<Time>,
    /// Whether the executor's other tasks can go on elsewhere while this thread encodes.
    steps_aside: bool,
    /// After so long other tasks get their turn.
    max_turn: Duration,
    /// When the poll began.
    turn_since: Time,
    /// Codec work done on this thread since then.
    inline: Duration,
    /// What the socket takes before it is full.
    unsent_limit: u32,
    closing: Option<Closing>,
    state: State,
    /// What the node knows the peer as.
    known_as: String,
}

impl<I: AsyncRead + AsyncWrite + Unpin + 'static> Driver<I> {
    pub(super) fn new(
        carrier: Carrier<I>,
        session: Session,
        shared: Arc<Shared>,
        node: Arc<NodeShared>,
        clock: Clock,
        (grant, history): (Arc<Grant>, HistoryPart),
        known_as: String,
    ) -> Self {
        let Carrier { io, input, another } = carrier;
        Self {
            io: Some(io),
            another,
            farewell: None,
            session,
            lane: shared.lane.get().cloned(),
            events: shared.events.get().cloned().unwrap_or_default(),
            shared,
            node,
            now: clock.now(),
            moved_since: 0,
            clock,
            granted: grant.subscribe(),
            grant,
            history,
            streams: HashMap::default(),
            commands: Vec::new(),
            outgoing: OutgoingQueue::new(),
            has_input: !input.is_empty(),
            input,
            input_ended: false,
            awake: Awake::new(),
            work: JoinSet::new(),
            put_off: None,
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            timer_at: None,
            wakers: Wakers::new(Waker::noop()),
            sampled: None,
            steps_aside: steps_aside(),
            max_turn: max_turn(),
            turn_since: clock.now(),
            inline: Duration::ZERO,
            unsent_limit: UNSENT,
            closing: None,
            state: State::Open,
            known_as,
        }
    }

    /// One round of the session's drain rule; whether there may be more to do.
    fn round(&mut self, cx: &mut Context<'_>) -> bool {
        self.events.keep_up(&mut self.session);
        let has_taken = self.take_commands(cx);
        let mut moved = has_taken | self.poll_work(cx);
        moved |= self.poll_another(cx);
        self.poll_farewell(cx);
        let has_read = self.poll_read();
        moved |= has_read;
        self.start_decoding();
        moved |= self.run_timers();
        self.sample_socket();
        self.start_encoding();
        self.start_shadow();
        self.start_dictionary();
        moved |= self.take_events();
        moved |= self.poll_write(cx);
        self.watch_closing(moved);
        // Most rounds leave nothing but the question whether there is more of what there was.
        moved
            && (!self.is_settled()
                || has_taken && self.take_commands(cx)
                || has_read && self.poll_read())
    }

    fn read_clock(&mut self) {
        self.now = self.clock.now();
        self.moved_since = 0;
    }

    fn end_turn(&mut self) {
        if self.moved_since > LONG_MOVE {
            self.read_clock();
        }
        self.history.update(self.now, &mut self.session);
        let taken = self.now.saturating_since(self.turn_since);
        self.shared.helm.on_turn(taken);
    }

    /// Whether it is others' turn, by when the clock was last read.
    fn is_turn_over(&self) -> bool {
        self.now.saturating_since(self.turn_since) >= self.max_turn
    }

    /// Whether another round would find no more than what wakes this when it comes, once it was asked for.
    fn is_settled(&self) -> bool {
        self.state == State::Open
            && self.io.is_some()
            && self.lane.is_none()
            && self.closing.is_none()
            && self.farewell.is_none()
            && self.work.is_empty()
            && self.put_off.is_none()
            && !self.has_input
            && !self.input_ended
            && self.session.is_settled()
    }

    fn begin_close(&mut self) {
        if self.lane.as_ref().is_some_and(|lane| !lane.may_close()) {
            self.closing.get_or_insert(Closing::AfterOthers);
            self.streams
                .values()
                .for_each(|stream| stream.outbox.close());
            return;
        }
        if !matches!(self.closing, Some(Closing::Begun { .. })) {
            self.closing = Some(Closing::Begun {
                since: self.now,
                progress: 0,
            });
        }
        self.session.close();
    }

    /// Gives a connection up that is closing and comes no nearer to its end.
    fn watch_closing(&mut self, moved: bool) {
        let Some(Closing::Begun {
            since,
            progress: at,
        }) = &mut self.closing
        else {
            return;
        };
        if !self.session.is_connected() {
            // It has a limit of its own.
            *since = self.now;
            return;
        }
        let progress = self.session.progress();
        // A large block on a slow link is written for long; small answers are no progress.
        let writes = moved && self.session.output_len() >= LARGE_OUTPUT;
        if writes || progress != *at {
            (*since, *at) = (self.now, progress);
        } else if self.now.saturating_since(*since) >= STALL {
            self.input_ended = true;
            self.session.abort();
            self.session
                .handle_written(self.now, self.session.output_len());
            self.take_events();
        }
    }

    fn take_commands(&mut self, cx: &Context<'_>) -> bool {
        let mut commands = core::mem::take(&mut self.commands);
        let since = self.shared.take_commands(&mut commands, cx.waker());
        let any = !commands.is_empty();
        self.events.take_since(since);
        for command in commands.drain(..) {
            self.on_command(command);
        }
        self.commands = commands;
        any
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Send { stream } => self.take_outbox(stream),
            Command::Release { stream, charge } => self.session.release(stream, charge),
            Command::Want { stream } => self.session.want(stream),
            Command::Open(command) => {
                let OpenCommand {
                    name,
                    config,
                    reply,
                } = *command;
                let opened = match &self.lane {
                    _ if self.closing.is_some() => Err(OpenError::Closed),
                    Some(lane) => lane.open(&mut self.session, &name, config),
                    None => self.session.open(&name, config),
                };
                let result = opened.map(|id| {
                    self.events.on_stream(id, &name);
                    let stream = Arc::new(StreamShared::new(id, name));
                    self.streams.insert(id, Arc::clone(&stream));
                    self.shared.count_streams(self.streams.len());
                    OpenedStream::new(Arc::clone(&self.shared), stream)
                });
                // Who asked may have stopped waiting: then the stream is dropped at once.
                let _ = reply.send(result);
            }
            Command::Drop { stream } => {
                self.session.finish(stream);
                self.session.discard(stream);
                self.streams.remove(&stream);
                self.shared.count_streams(self.streams.len());
            }
            Command::Finish { stream } => self.session.finish(stream),
            Command::SetPolicy { stream, policy } => self.session.set_policy(stream, *policy),
            Command::SetPriority { stream, priority } => {
                self.session.set_priority(stream, priority);
            }
            Command::StreamStats { stream, reply } => {
                let _ = reply.send(self.session.stream_stats(stream));
            }
            Command::SessionStats { reply } => {
                let _ = reply.send(self.session.stats());
            }
            Command::Dictionaries { reply } => {
                let own = self.session.sent_dictionaries();
                let own = own.map(|(class, it)| (class.to_owned(), it.clone()));
                let _ = reply.send(own.collect());
            }
            Command::HistoryMemory { bytes } => {
                self.history.set(self.now, &mut self.session, bytes);
            }
            Command::TakeDecisions { reply } => reply.send(self.session.take_decisions()),
            Command::Lane(command) => self.on_lane_command(command),
            Command::Close => self.begin_close(),
            Command::Abandon => {
                while let Some(PeerStream { lane, stream }) = self.shared.pop_opened() {
                    let stream = stream.id;
                    match lane {
                        Some(lane) => {
                            lane.push(Command::Drop { stream });
                        }
                        None => self.session.discard(stream),
                    }
                }
                self.begin_close();
            }
        }
    }

    /// Takes what a stream's handles have sent.
    fn take_outbox(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(&id) else {
            return;
        };
        let messages = &mut self.outgoing;
        stream.outbox.take(messages);
        // The handle has reserved the room; a session that is over drops messages.
        let _ = self.session.send_all(id, messages);
        if !messages.is_empty() {
            stream.outbox.give_back(messages.queued_len());
            *messages = OutgoingQueue::new();
            stream.outbox.close();
        }
    }

    fn poll_read(&mut self) -> bool {
        if self.has_input && self.session.wants_input() {
            self.has_input = false;
            self.take_input(self.now);
        }
        if self.input_ended || (self.state == State::Open && !self.session.wants_input()) {
            return false;
        }
        let Some(io) = &mut self.io else {
            return false;
        };
        let Some(mut cx) = self.wakers.input() else {
            return false;
        };
        self.node.read_buffers.make_room(&mut self.input);
        let len = match poll_read_buf(Pin::new(io), &mut cx, &mut self.input) {
            Poll::Pending => {
                self.node.read_buffers.put(&mut self.input);
                if !self.session.is_dry() {
                    if self.moved_since > AT_ONCE {
                        self.read_clock();
                    }
                    self.session.handle_dry(self.now);
                    self.awake.on_dry(self.now);
                }
                return false;
            }
            Poll::Ready(read) => read.unwrap_or(0),
        };
        self.wakers.ring();
        if len == 0 {
            self.input_ended = true;
            self.session.handle_eof();
            return true;
        }
        if self.state == State::Open {
            // The peer's round trips are measured by when its probes came.
            self.read_clock();
            self.moved_since = len;
            self.session.handle_awake(self.awake.on_read(self.now));
            self.take_input(self.now);
        } else {
            self.input.clear();
        }
        true
    }

    fn take_input(&mut self, now: Time) {
        // A failed session says so with an event.
        let _ = self.session.handle_input(now, &mut self.input);
        // It may not want more before a time of its own, when nothing else has happened.
        self.has_input |= !self.session.wants_input() && !self.input.is_empty();
    }

    /// Whether what comes from the peer is wanted again.
    fn run_timers(&mut self) -> bool {
        let now = self.now;
        // The sender is `self.grant`'s.
        if self.granted.has_changed().unwrap_or_default() {
            let Granted { rate, load } = *self.granted.borrow_and_update();
            self.session.set_budget(now, rate);
            self.session.set_load(load);
        }
        let wanted = self.session.wants_input();
        self.heed_lanes(now);
        let _ = self.session.handle_timeout(now);
        !wanted && self.session.wants_input()
    }

    /// Tells the session what the system says of the socket, if that is of use for what comes next.
    fn sample_socket(&mut self) {
        let now = self.now;
        let Some(io) = &self.io else { return };
        let due = self
            .sampled
            .is_none_or(|last| now.saturating_since(last) >= SAMPLE_INTERVAL);
        if due && self.session.has_queued() {
            self.sampled = Some(now);
            self.session.handle_socket_sample(now, path::sample(io));
            let limit = self.session.unsent_limit();
            // Not for every little change.
            if limit.abs_diff(self.unsent_limit) > self.unsent_limit / 2 {
                self.unsent_limit = limit;
                path::limit_unsent(io, limit);
            }
        }
    }

    fn take_events(&mut self) -> bool {
        let mut any = false;
        while let Some(event) = self.session.poll_event() {
            any = true;
            match event {
                Event::Established => {
                    self.history.on_established(&self.session);
                    self.shared.max_message.store(
                        self.session.peer_max_message(),
                        core::sync::atomic::Ordering::Release,
                    );
                    self.shared.phase.send_replace(Phase::Established);
                    self.on_connected();
                }
                Event::StreamOpened(id) => {
                    let name = self.session.stream_name(id).unwrap_or_default().to_owned();
                    self.events.on_stream(id, &name);
                    let stream = Arc::new(StreamShared::new(id, name));
                    self.streams.insert(id, Arc::clone(&stream));
                    self.shared.count_streams(self.streams.len());
                    self.on_opened(stream);
                }
                Event::Readable(id) => self.deliver(id),
                Event::Starved(id) => self.on_starved(id),
                Event::Drained { stream, bytes } => {
                    if let Some(stream) = self.streams.get(&stream) {
                        stream.outbox.give_back(bytes);
                    }
                }
                Event::StreamEnded(id, code) => {
                    self.deliver(id);
                    if let Some(stream) = self.streams.get(&id) {
                        stream.end(match code {
                            CloseCode::Finished => Ok(()),
                            CloseCode::Aborted(code) => Err(RecvError::Aborted { code }),
                        });
                    }
                }
                Event::StreamRefused { stream, given, max } => {
                    self.node.faults.on_stream_refused();
                    self.deliver(stream);
                    if let Some(stream) = self.streams.get(&stream) {
                        stream.end(Err(RecvError::TooLong { given, max }));
                    }
                }
                Event::StreamStopped {
                    stream,
                    taken,
                    given,
                    max,
                } => {
                    if let Some(stream) = self.streams.get(&stream) {
                        stream.stop(Stopped { taken, given, max });
                    }
                }
                Event::Closing => {
                    self.streams
                        .values()
                        .for_each(|stream| stream.outbox.close());
                    if let Some(lane) = &self.lane {
                        lane.on_closing();
                    }
                }
                Event::Dictionary(event) => self.node.dictionaries.on_event(&self.known_as, &event),
                Event::Disconnected(cause) => {
                    self.count_loss(cause);
                    self.on_disconnected();
                }
                Event::Resumed => {
                    self.history.on_established(&self.session);
                    self.another.on_connected();
                    self.on_connected();
                }
                Event::Closed(result) => self.on_closed(result),
            }
        }
        any
    }

    /// The connection is lost, and the session waits for another.
    fn on_disconnected(&mut self) {
        let words = self.session.take_farewell();
        self.farewell = self
            .io
            .take()
            .filter(|_| !words.is_empty())
            .map(|io| Farewell::new(self.now, io, words));
        self.input.clear();
        self.has_input = false;
        self.input_ended = false;
        self.sampled = None;
        if let Another::Dialed(redial) = &mut self.another {
            redial.begin_after(self.session.fruitless_connections());
        }
    }

    /// Another connection for the session, once there is one.
    fn poll_another(&mut self, cx: &mut Context<'_>) -> bool {
        if self.state != State::Open {
            return false;
        }
        let arrival = match &mut self.another {
            Another::None => None,
            Another::Dialed(redial) => redial.poll(cx).map(|io| (io, BytesMut::new())),
            Another::Arriving(arrivals) => arrivals.poll(cx),
        };
        let Some((io, input)) = arrival else {
            return false;
        };
        self.now = self.clock.now();
        if let Some((error, answer)) = self.session.refusal(&input) {
            self.node.faults.on_failed(&error);
            self.farewell = Some(Farewell::new(self.now, io, answer));
            return true;
        }
        // Whatever the session has to say is of the connection before.
        self.take_events();
        if self.session.reconnect(self.now).is_ok() {
            self.io = Some(io);
            self.wakers.ring();
            self.has_input = !input.is_empty();
            self.input = input;
            self.input_ended = false;
            self.sampled = None;
            self.unsent_limit = UNSENT;
        }
        true
    }

    fn poll_farewell(&mut self, cx: &mut Context<'_>) {
        let now = self.now;
        self.farewell
            .take_if(|farewell| farewell.poll(now, cx).is_ready());
    }

    fn deliver(&mut self, id: StreamId) {
        let released = if let Some(stream) = self.streams.get(&id) {
            let short = self.session.is_short_of_memory();
            stream.deliver(short, |into| self.session.recv_all(id, into))
        } else {
            let mut dropped = MessageQueue::new();
            self.session.recv_all(id, &mut dropped);
            dropped.charge()
        };
        if released > 0 {
            self.session.release(id, released);
        }
    }

    /// A stream lacks credit of the connection.
    fn on_starved(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(&id) else {
            return;
        };
        let (unreleased, is_awaited) = stream.on_starved();
        if unreleased > 0 {
            self.session.release(id, unreleased);
        }
        if is_awaited {
            self.session.want(id);
        }
    }

    fn on_closed(&mut self, result: Result<(), SessionError>) {
        self.another = Another::None;
        if let Err(error) = &result {
            // A connection fails once: the first lane is told of the others'.
            if !self.shared.is_further_lane() {
                self.node.faults.on_failed(error);
            }
            self.shared.set_deliveries(self.session.deliveries());
        }
        // What a peer that broke the protocol has shown is not worth keeping.
        let broken = matches!(result, Err(SessionError::Peer(_)));
        if !broken && (self.session.has_decided() || self.session.leaves_histories()) {
            let dictionaries = self.session.dictionaries();
            self.node
                .dictionaries
                .remember(self.now, &self.known_as, dictionaries);
        }
        if !broken && self.session.has_decided() {
            let knowledge = self.session.knowledge();
            self.node
                .remember(core::mem::take(&mut self.known_as), knowledge);
        }
        for (_, stream) in self.streams.drain() {
            // In this order: a request that can still be made is ended with the others.
            stream.outbox.abandon();
            stream.end(result.clone().map_err(RecvError::Session));
        }
        let tells = match &self.lane {
            Some(lane) => lane.on_closed(&result, &self.session.stats()),
            None => true,
        };
        if tells {
            self.shared.end(result);
        }
        self.closing = None;
        self.state = State::Flushing {
            until: self.now + FLUSH_TIMEOUT,
        };
    }

    /// After the session's end: the last bytes out, and a moment for the peer to read them.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let State::Flushing { until } = self.state {
            let stuck = self.now >= until;
            if self.session.output_len() > 0 && !stuck {
                return Poll::Pending;
            }
            let Some(io) = &mut self.io else {
                return Poll::Ready(());
            };
            if Pin::new(io).poll_shutdown(cx).is_pending() && !stuck {
                return Poll::Pending;
            }
            self.state = State::Lingering {
                until: self.now + LINGER,
            };
        }
        let State::Lingering { until } = self.state else {
            return Poll::Pending;
        };
        if self.input_ended || self.now >= until {
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Registers the timer for the session's next time; whether that has come already.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> bool {
        let at = match self.state {
            State::Flushing { until } | State::Lingering { until } => Some(until),
            State::Open => {
                let stall = match self.closing {
                    Some(Closing::Begun { since, .. }) => Some(since + STALL),
                    Some(Closing::AfterOthers) | None => None,
                };
                let idle = self.lane.as_ref().and_then(|lane| lane.idle_due(self.now));
                let farewell = self.farewell.as_ref().map(Farewell::until);
                let due = earliest(self.session.poll_timeout(), stall);
                earliest(earliest(due, idle), farewell)
            }
        };
        let Some(at) = at else { return false };
        // An earlier alarm may stand: it costs one look in vain, less than setting it for each message.
        if self.timer_at.is_none_or(|set| at < set) {
            self.timer
                .as_mut()
                .reset(tokio::time::Instant::from_std(self.clock.instant(at)));
            self.timer_at = Some(at);
            self.wakers.has_timer = false;
        }
        if self.wakers.has_timer && !self.timer.is_elapsed() {
            return false;
        }
        // Without budget it wakes the task at once, and not when it is due.
        self.wakers.has_timer = has_budget_remaining();
        let fired = self.timer.as_mut().poll(cx).is_ready();
        if fired {
            self.read_clock();
            self.timer_at = None;
        }
        fired
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin + 'static> Future for Driver<I> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        this.wakers.keep_up(cx.waker());
        this.read_clock();
        this.turn_since = this.now;
        this.inline = Duration::ZERO;
        for _ in 0..MAX_ROUNDS {
            let moved = this.round(cx);
            if moved {
                this.read_clock();
            }
            if this.state != State::Open && this.poll_end(cx).is_ready() {
                return Poll::Ready(());
            }
            if this.inline >= this.max_turn || this.is_turn_over() && moved {
                break;
            }
            if !moved && !this.poll_timer(cx) {
                this.end_turn();
                // To hold less memory leaves a few bytes to write.
                if this.poll_write(cx) {
                    cx.waker().wake_by_ref();
                }
                return Poll::Pending;
            }
        }
        this.end_turn();
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<I> Drop for Driver<I> {
    fn drop(&mut self) {
        // Reached without a closed session only when the runtime drops its tasks.
        self.shared.close_inbox();
        let lost = Err(SessionError::ConnectionLost);
        for (_, stream) in self.streams.drain() {
            stream.end(lost.clone().map_err(RecvError::Session));
            stream.outbox.abandon();
        }
        let is_told = self
            .lane
            .as_ref()
            .is_some_and(|lane| lane.on_driver_ended());
        if !is_told && !self.shared.is_closed() {
            self.shared.end(lost);
        }
    }
}
