//! What handles and driver of a connection share. Every lock is held for a few moves only.

use core::task::Waker;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot};

use super::error::RecvError;
use super::helm::{Helm, Run};
use super::inbound::{Begun, Inbound, Popped, Waiting};
use super::lane::Lane;
use super::outbox::Outbox;
use super::{Moment, PeerIdentity, SessionEvents};
use crate::control::{PeerKnowledge, PolicyConfig};
use crate::dictionary::Dictionary;
use crate::session::{
    Decision, Delivery, MAX_DECISIONS, Message, MessageQueue, OpenError, SendError, SessionError,
    SessionStats, StreamConfig, StreamStats,
};
use crate::wire::{Part, StreamId};

/// What a handle asks of the driver.
#[derive(Debug)]
pub(super) enum Command {
    /// Messages are in the stream's outbox.
    Send {
        stream: StreamId,
    },
    Release {
        stream: StreamId,
        charge: usize,
    },
    /// Somebody waits for a message of a stream that lacks credit.
    Want {
        stream: StreamId,
    },
    /// Boxed, as [`Command::SetPolicy`]'s: commands stand in line by the thousand, nearly all of
    /// them small.
    Open(Box<OpenCommand>),
    /// The stream's handle is gone.
    Drop {
        stream: StreamId,
    },
    Finish {
        stream: StreamId,
    },
    SetPolicy {
        stream: StreamId,
        policy: Box<PolicyConfig>,
    },
    SetPriority {
        stream: StreamId,
        priority: i8,
    },
    StreamStats {
        stream: StreamId,
        reply: oneshot::Sender<Option<StreamStats>>,
    },
    /// Histories of what is sent may hold so much from now on.
    HistoryMemory {
        bytes: usize,
    },
    TakeDecisions {
        reply: DecisionsReply,
    },
    SessionStats {
        reply: oneshot::Sender<SessionStats>,
    },
    Dictionaries {
        reply: oneshot::Sender<Vec<(String, Dictionary)>>,
    },
    /// Of one lane to another.
    #[cfg_attr(
        not(feature = "quic"),
        expect(dead_code, reason = "only QUIC has several lanes")
    )]
    Lane(LaneCommand),
    Close,
    /// The last handle is gone: streams that nobody has accepted go with it.
    Abandon,
}

#[derive(Debug)]
#[cfg_attr(
    not(feature = "quic"),
    expect(dead_code, reason = "only QUIC has several lanes")
)]
pub(super) enum LaneCommand {
    /// What is known of the peer, for another lane.
    Knowledge {
        reply: oneshot::Sender<Box<PeerKnowledge>>,
    },
    /// Another lane has failed.
    Fail(Box<SessionError>),
    /// The peer is done with the connection, and so with this lane.
    EndIfDone,
}

#[derive(Debug)]
pub(super) struct OpenCommand {
    pub(super) name: String,
    pub(super) config: StreamConfig,
    pub(super) reply: oneshot::Sender<Result<OpenedStream, OpenError>>,
}

/// A stream on its way to who opened it: closed again if it doesn't arrive.
#[derive(Debug)]
pub(super) struct OpenedStream {
    shared: Arc<Shared>,
    stream: Option<Arc<StreamShared>>,
}

impl OpenedStream {
    pub(super) const fn new(shared: Arc<Shared>, stream: Arc<StreamShared>) -> Self {
        Self {
            shared,
            stream: Some(stream),
        }
    }

    /// It has arrived.
    pub(super) fn take(mut self) -> Option<Arc<StreamShared>> {
        self.stream.take()
    }
}

impl Drop for OpenedStream {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.shared.push(Command::Drop { stream: stream.id });
        }
    }
}

/// A stream that the peer has opened, on its way to the application.
#[derive(Debug)]
pub(super) struct PeerStream {
    /// If it is not the first.
    pub(super) lane: Option<Arc<Shared>>,
    pub(super) stream: Arc<StreamShared>,
}

/// Tells who asked for decisions that they are there. They are not on their way to it, but with
/// the connection: if it stops waiting at any point, they are the next one's.
#[derive(Debug)]
pub(super) struct DecisionsReply {
    shared: Arc<Shared>,
    arrived: oneshot::Sender<()>,
}

impl DecisionsReply {
    pub(super) fn send(self, decisions: VecDeque<Decision>) {
        {
            let mut kept = lock(&self.shared.decisions);
            kept.extend(decisions);
            let too_many = kept.len().saturating_sub(MAX_DECISIONS);
            kept.drain(..too_many);
        }
        // Who asked may have stopped waiting.
        let _ = self.arrived.send(());
    }
}

/// Commands go nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DriverEnded;

#[derive(Debug, Default)]
struct Inbox {
    commands: Vec<Command>,
    /// When the first of them came, if that is of use.
    since: Option<Moment>,
    driver: Option<Waker>,
    /// The driver has ended; commands go nowhere.
    is_closed: bool,
}

/// How the session stands, for those who wait for its beginning or end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Handshaking,
    Established,
    Closed(Result<(), SessionError>),
}

/// What all handles of a connection share with its driver.
#[derive(Debug)]
pub(super) struct Shared {
    inbox: Mutex<Inbox>,
    pub(super) helm: Helm,
    /// Of all lanes, where there are several.
    opened: Mutex<VecDeque<PeerStream>>,
    pub(super) opened_notify: Notify,
    /// Taken from the session and not yet by the application.
    decisions: Mutex<VecDeque<Decision>>,
    pub(super) phase: tokio::sync::watch::Sender<Phase>,
    /// The session's place among those of its connection, if there may be several.
    pub(super) lane: OnceLock<Arc<dyn Lane>>,
    /// Who the peer has proved to be, before the session begins.
    pub(super) identity: OnceLock<PeerIdentity>,
    #[cfg(feature = "tls")]
    pub(super) tls_failure: OnceLock<super::TlsError>,
    /// What the session records with, once it has begun.
    pub(super) events: OnceLock<SessionEvents>,
    driver_ended: tokio::sync::watch::Sender<bool>,
    /// What became of messages, where the session has failed and could have been resumed.
    deliveries: Mutex<Vec<Delivery>>,
    pub(super) max_message: AtomicU64,
    pub(super) send_queue: usize,
    window: u64,
    /// What streams may hold together, bytes.
    memory: u64,
    /// Payload bytes taken of a stream that are worth releasing.
    release_at: AtomicU64,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that can panic runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What may be taken of a stream and not be released: an eighth of its window, and all streams together not more than a sixteenth
/// of what they may hold. Arbitrary: a command for that much costs nothing.
fn worth_releasing(window: u64, memory: u64, streams: u64) -> u64 {
    (window / 8).min(memory / 16 / streams.max(1)).max(1)
}

impl Shared {
    pub(super) fn new(send_queue: usize, window: u64, memory: u64) -> Self {
        Self {
            inbox: Mutex::default(),
            helm: Helm::default(),
            opened: Mutex::default(),
            opened_notify: Notify::new(),
            decisions: Mutex::default(),
            phase: tokio::sync::watch::Sender::new(Phase::Handshaking),
            lane: OnceLock::new(),
            identity: OnceLock::new(),
            #[cfg(feature = "tls")]
            tls_failure: OnceLock::new(),
            events: OnceLock::new(),
            driver_ended: tokio::sync::watch::Sender::new(false),
            deliveries: Mutex::default(),
            max_message: AtomicU64::new(0),
            send_queue,
            window,
            memory,
            release_at: AtomicU64::new(worth_releasing(window, memory, 1)),
        }
    }

    /// There are so many streams.
    pub(super) fn count_streams(&self, streams: usize) {
        let worth_it = worth_releasing(self.window, self.memory, streams as u64);
        self.release_at.store(worth_it, Ordering::Relaxed);
    }

    pub(super) fn release_at(&self) -> u64 {
        self.release_at.load(Ordering::Relaxed)
    }

    /// Hands a command to the driver; false if it has ended.
    pub(super) fn push(&self, command: Command) -> bool {
        match self.push_quietly(command) {
            Ok(driver) => {
                if let Some(driver) = driver {
                    driver.wake();
                }
                true
            }
            Err(DriverEnded) => false,
        }
    }

    /// Hands a command to the driver, which is then to be woken if it sleeps.
    pub(super) fn push_quietly(&self, command: Command) -> Result<Option<Waker>, DriverEnded> {
        let mut inbox = lock(&self.inbox);
        if inbox.is_closed {
            return Err(DriverEnded);
        }
        if inbox.commands.is_empty() {
            inbox.since = self.events.get().and_then(SessionEvents::queued_at);
        }
        inbox.commands.push(command);
        Ok(inbox.driver.take())
    }

    /// Swaps the waiting commands into `into`, which is empty; with none, `waker` is woken by the next. When the first of
    /// them came, if anybody wants to know.
    pub(super) fn take_commands(&self, into: &mut Vec<Command>, waker: &Waker) -> Option<Moment> {
        let mut inbox = lock(&self.inbox);
        if inbox.commands.is_empty() {
            match &mut inbox.driver {
                Some(driver) => driver.clone_from(waker),
                driver => *driver = Some(waker.clone()),
            }
        } else {
            core::mem::swap(&mut inbox.commands, into);
        }
        inbox.since.take()
    }

    /// The driver ends; what was asked last goes nowhere.
    pub(super) fn close_inbox(&self) {
        let commands = {
            let mut inbox = lock(&self.inbox);
            inbox.is_closed = true;
            core::mem::take(&mut inbox.commands)
        };
        drop(commands);
        self.driver_ended.send_replace(true);
    }

    /// The session ends before it has a driver, if it has not ended already.
    #[cfg(feature = "tls")]
    pub(super) fn fail(&self, error: SessionError) {
        self.close_inbox();
        if !self.is_closed() {
            self.end(Err(error));
        }
    }

    /// The session is over.
    pub(super) fn end(&self, result: Result<(), SessionError>) {
        self.phase.send_replace(Phase::Closed(result));
        self.opened_notify.notify_waiters();
        self.opened_notify.notify_one();
    }

    /// Whether this is a lane beside the first.
    pub(super) fn is_further_lane(&self) -> bool {
        self.lane.get().is_some_and(|lane| lane.is_further())
    }

    /// What was asked with a command; `None` once the driver has ended.
    pub(super) async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.push(command(reply));
        answer.await.ok()
    }

    /// Waits until the driver has ended, with its socket.
    pub(super) async fn driver_ended(&self) {
        // The sender lives as long as `self`.
        let _ = self.driver_ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// The decisions since this was last asked to the end, further lanes' with them; `None` once the driver has ended and none
    /// are left.
    pub(super) async fn take_decisions(
        self: &Arc<Self>,
        further: &[Arc<Self>],
    ) -> Option<VecDeque<Decision>> {
        let ask = |lane: &Arc<Self>| {
            let (arrived, arrival) = oneshot::channel();
            let reply = DecisionsReply {
                shared: Arc::clone(self),
                arrived,
            };
            lane.push(Command::TakeDecisions { reply });
            arrival
        };
        let others: Vec<_> = further.iter().map(ask).collect();
        let has_arrived = ask(self).await.is_ok();
        for arrival in others {
            // Lanes may have ended.
            let _ = arrival.await;
        }
        let mut decisions = core::mem::take(&mut *lock(&self.decisions));
        if !further.is_empty() {
            decisions.make_contiguous().sort_by_key(|it| it.at);
        }
        (has_arrived || !decisions.is_empty()).then_some(decisions)
    }

    pub(super) fn push_opened(&self, stream: PeerStream) {
        lock(&self.opened).push_back(stream);
        self.opened_notify.notify_one();
    }

    pub(super) fn pop_opened(&self) -> Option<PeerStream> {
        let mut opened = lock(&self.opened);
        let stream = opened.pop_front();
        // A permit stands for one or many: who else waits is woken by who was.
        if !opened.is_empty() {
            self.opened_notify.notify_one();
        }
        stream
    }

    pub(super) fn set_deliveries(&self, deliveries: Vec<Delivery>) {
        *lock(&self.deliveries) = deliveries;
    }

    pub(super) fn deliveries(&self) -> Vec<Delivery> {
        lock(&self.deliveries).clone()
    }

    pub(super) fn failure(&self) -> Option<SessionError> {
        match &*self.phase.borrow() {
            Phase::Closed(Err(error)) => Some(error.clone()),
            _ => None,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(&*self.phase.borrow(), Phase::Closed(_))
    }
}

/// Why the peer takes nothing more of a stream: it was sent a message of `given` bytes, after `taken` others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopped {
    pub(super) taken: u64,
    pub(super) given: u64,
    pub(super) max: u64,
}

#[derive(Debug)]
struct Request {
    reply: oneshot::Sender<Bytes>,
    /// How many messages of the stream go before it, once it is one of them.
    place: Option<u64>,
}

/// What a stream's handle shares with the driver.
#[derive(Debug)]
pub(super) struct StreamShared {
    pub(super) id: StreamId,
    pub(super) name: String,
    inbound: Mutex<Inbound>,
    readable: Notify,
    /// For who reads a message in parts, while the others wait for its end.
    parts: Notify,
    /// What was sent.
    pub(super) outbox: Outbox,
    /// Why nothing more is, if the peer has said so.
    stopped: OnceLock<Stopped>,
    pub(super) sends: Run,
    pub(super) receipts: Run,
    requests: Mutex<HashMap<u64, Request>>,
    pub(super) next_request: AtomicU64,
}

impl StreamShared {
    pub(super) fn new(id: StreamId, name: String) -> Self {
        Self {
            id,
            name,
            inbound: Mutex::default(),
            readable: Notify::new(),
            parts: Notify::new(),
            outbox: Outbox::default(),
            stopped: OnceLock::new(),
            sends: Run::default(),
            receipts: Run::default(),
            requests: Mutex::default(),
            next_request: AtomicU64::new(0),
        }
    }

    /// Delivers messages; replies go to those who wait for them. What the application need not release
    /// is returned.
    /// Whether the session is short of memory is for streams that were starved.
    pub(super) fn deliver(
        &self,
        is_short: bool,
        messages: impl FnOnce(&mut MessageQueue),
    ) -> usize {
        let mut released = 0;
        let (wakes, is_read) = {
            let mut inbound = lock(&self.inbound);
            inbound.is_starved &= is_short;
            messages(&mut inbound.queue);
            inbound.queue.take_replies(|correlation, message| {
                released += message.charge();
                if let Some(request) = lock(&self.requests).remove(&correlation) {
                    let _ = request.reply.send(message.payload);
                }
            });
            released += inbound.skip();
            (inbound.wakes_receiver(), inbound.is_read)
        };
        if wakes {
            self.readable.notify_one();
        }
        if is_read {
            self.parts.notify_one();
        }
        released
    }

    /// The stream lacks credit: what was taken and not released yet, and whether anybody waits for a message.
    pub(super) fn on_starved(&self) -> (usize, bool) {
        let mut inbound = lock(&self.inbound);
        inbound.is_starved = true;
        let unreleased = core::mem::take(&mut inbound.unreleased);
        let waits = inbound.receiving > 0 && inbound.is_empty();
        (unreleased, waits || !lock(&self.requests).is_empty())
    }

    /// The next message, if it is here. What was taken is to be released once it comes to `release_at`.
    #[inline]
    pub(super) fn pop(&self, release_at: u64) -> Option<Popped> {
        let mut inbound = lock(&self.inbound);
        let popped = inbound.pop_whole(release_at)?;
        let wakes = inbound.wakes_receiver();
        drop(inbound);
        if wakes {
            // Several messages may have come with one call.
            self.readable.notify_one();
        }
        Some(popped)
    }

    /// Takes messages that are here, at most `most`, and says what is to be released, if that is worth it by now.
    pub(super) fn pop_many(
        &self,
        most: usize,
        release_at: u64,
        mut take: impl FnMut(Message),
    ) -> Option<usize> {
        let mut inbound = lock(&self.inbound);
        let mut release = None;
        for _ in 0..most {
            let Some(popped) = inbound.pop_whole(release_at) else {
                break;
            };
            take(popped.message);
            release = match (release, popped.release) {
                (Some(before), Some(more)) => Some(before + more),
                (before, more) => before.or(more),
            };
        }
        let wakes = inbound.wakes_receiver();
        drop(inbound);
        if wakes {
            self.readable.notify_one();
        }
        release
    }

    /// Moves messages that are here to the end of `into`, about `most` and so many bytes, and says what is to be released, if that is worth it by now.
    pub(super) fn move_many(
        &self,
        into: &mut MessageQueue,
        most: (usize, usize),
        release_at: u64,
    ) -> Option<usize> {
        let mut inbound = lock(&self.inbound);
        let release = inbound.move_whole(into, most, release_at);
        let wakes = inbound.wakes_receiver();
        drop(inbound);
        if wakes {
            self.readable.notify_one();
        }
        release
    }

    /// Messages that were taken come before all others again.
    pub(super) fn give_back(&self, messages: MessageQueue) {
        let wakes = {
            let mut inbound = lock(&self.inbound);
            inbound.give_back(messages);
            inbound.wakes_receiver()
        };
        if wakes {
            self.readable.notify_one();
        }
    }

    /// Begins to read the next message, if it is here and nobody reads another.
    pub(super) fn begin(&self, release_at: u64) -> Option<Begun> {
        if let Some(popped) = self.pop(release_at) {
            return Some(Begun::Whole(popped));
        }
        let mut inbound = lock(&self.inbound);
        if inbound.is_read || inbound.part_in_front().is_none() {
            return None;
        }
        inbound.is_read = true;
        Some(Begun::InParts)
    }

    /// The next part of the message that is read, if it is here.
    pub(super) fn pop_part(&self, release_at: u64) -> Option<(Part, Popped)> {
        let mut inbound = lock(&self.inbound);
        let popped = inbound.pop_part(release_at)?;
        let wakes = inbound.wakes_receiver();
        drop(inbound);
        if wakes {
            self.readable.notify_one();
        }
        Some(popped)
    }

    /// Nobody reads the message in parts any further; how much of it was here.
    pub(super) fn stop_reading(&self) -> usize {
        let mut inbound = lock(&self.inbound);
        inbound.is_read = false;
        inbound.skips = true;
        let dropped = inbound.skip();
        let wakes = inbound.wakes_receiver();
        drop(inbound);
        if wakes {
            self.readable.notify_one();
        }
        dropped
    }

    /// How it has ended, if no message is here.
    pub(super) fn ended(&self) -> Option<Result<(), RecvError>> {
        let inbound = lock(&self.inbound);
        let ended = inbound.ended.as_ref();
        ended.filter(|_| inbound.is_empty()).cloned()
    }

    /// Why there is no message for who wants a whole one: how the stream has ended, or that the next one comes in parts.
    pub(super) fn why_none(&self) -> Option<Result<(), RecvError>> {
        let inbound = lock(&self.inbound);
        if inbound.part_in_front().is_some() && !inbound.is_read {
            return Some(Err(RecvError::InParts));
        }
        drop(inbound);
        self.ended()
    }

    /// From now on whoever waits counts, until it is dropped, and is woken once there is something to take.
    pub(super) fn wait(&self) -> (Waiting<'_>, Notified<'_>) {
        (Waiting::new(&self.inbound), self.readable.notified())
    }

    /// .. for a part of the message that is read.
    pub(super) fn wait_for_part(&self) -> (Waiting<'_>, Notified<'_>) {
        (Waiting::new(&self.inbound), self.parts.notified())
    }

    /// Somebody waits for a message.
    pub(super) fn want(&self, shared: &Shared) {
        if lock(&self.inbound).is_starved {
            shared.push(Command::Want { stream: self.id });
        }
    }

    /// Nothing more comes.
    pub(super) fn end(&self, result: Result<(), RecvError>) {
        lock(&self.inbound).ended.get_or_insert(result);
        lock(&self.requests).clear();
        self.readable.notify_waiters();
        self.parts.notify_waiters();
    }

    /// The peer takes nothing more. Requests that it has taken may still be answered.
    pub(super) fn stop(&self, stopped: Stopped) {
        let _ = self.stopped.set(stopped);
        self.outbox.abandon();
        lock(&self.requests).retain(|_, request| request.place.is_none_or(|at| at < stopped.taken));
    }

    /// Why the outbox is closed.
    pub(super) fn why_closed(&self) -> SendError {
        let stream = self.id;
        match self.stopped.get() {
            Some(&Stopped { given, max, .. }) => SendError::Stopped { stream, given, max },
            None => SendError::Closed(stream),
        }
    }

    /// Whether nothing more comes than what is here.
    pub(super) fn has_ended(&self) -> bool {
        lock(&self.inbound).ended.is_some()
    }

    /// Waits for a reply from now on; in vain if nothing more comes.
    pub(super) fn add_request(&self, correlation: u64) -> oneshot::Receiver<Bytes> {
        let (sender, receiver) = oneshot::channel();
        let (reply, place) = (sender, None);
        lock(&self.requests).insert(correlation, Request { reply, place });
        if lock(&self.inbound).ended.is_some() {
            self.remove_request(correlation);
        }
        receiver
    }

    /// So many messages go before a request: if the peer has not taken it by now and takes nothing more, nobody need wait.
    pub(super) fn place_request(&self, correlation: u64, place: u64) {
        let mut requests = lock(&self.requests);
        if self.is_refused(place) {
            requests.remove(&correlation);
        } else if let Some(request) = requests.get_mut(&correlation) {
            request.place = Some(place);
        }
    }

    /// Whether the peer has stopped the stream before it took the message at `place`.
    pub(super) fn is_refused(&self, place: u64) -> bool {
        self.stopped.get().is_some_and(|it| place >= it.taken)
    }

    pub(super) fn remove_request(&self, correlation: u64) {
        lock(&self.requests).remove(&correlation);
    }
}
