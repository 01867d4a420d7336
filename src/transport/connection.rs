//! The application's handles: a connection and its streams.

use core::task::Waker;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::PeerIdentity;
use super::error::{ConnectError, OpenStreamError, RecvError, RequestError};
use super::helm::YieldOnce;
use super::inbound::Popped;
use super::lane::Further;
use super::outbox::Refused;
use super::shared::{Command, DriverEnded, OpenCommand, Phase, Shared, StreamShared};
use crate::control::PolicyConfig;
use crate::dictionary::Dictionary;
use crate::session::{
    Decision, Delivery, Message, MessageQueue, OpenError, Outgoing, OutgoingQueue, Rejected,
    SendError, SessionError, SessionStats, StreamConfig, StreamStats,
};
use crate::wire::{GroupId, Part, RecordKind, StreamId};

/// A connection to a peer. Clones are handles of the same one; when the last handle and the last
/// [`Stream`] are gone, it closes.
#[derive(Clone, Debug)]
pub struct Connection {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    peer: String,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.push(Command::Abandon);
    }
}

impl Connection {
    pub(super) fn new(shared: Arc<Shared>, peer: String) -> Self {
        Self {
            handle: Arc::new(Handle { shared, peer }),
        }
    }

    /// The peer's address as text.
    pub fn peer(&self) -> &str {
        &self.handle.peer
    }

    /// Who the peer has proved to be, by a certificate that this side has judged to be valid; known once it is
    /// [`established`](Self::established). `None` without TLS, and of who connects without a certificate.
    pub fn peer_identity(&self) -> Option<PeerIdentity> {
        self.handle.shared.identity.get().copied()
    }

    /// What TLS failed by, if the connection was lost that way.
    #[cfg(feature = "tls")]
    pub fn tls_failure(&self) -> Option<&super::TlsError> {
        self.handle.shared.tls_failure.get()
    }

    /// Waits for the handshake.
    ///
    /// # Errors
    ///
    /// It failed.
    pub async fn established(&self) -> Result<(), ConnectError> {
        let mut phase = self.handle.shared.phase.subscribe();
        let failed = |source| {
            let address = self.handle.peer.clone();
            #[cfg(feature = "tls")]
            if let (SessionError::ConnectionLost, Some(failure)) = (&source, self.tls_failure()) {
                let source = failure.clone();
                return ConnectError::Tls { address, source };
            }
            ConnectError::Handshake { address, source }
        };
        match phase
            .wait_for(|phase| *phase != Phase::Handshaking)
            .await
            .as_deref()
        {
            Ok(Phase::Closed(Err(error))) => Err(failed(error.clone())),
            Ok(_) => Ok(()),
            Err(_) => Err(failed(SessionError::ConnectionLost)),
        }
    }

    /// Opens a stream with a name (at most 255 bytes) that the peer sees.
    ///
    /// # Errors
    ///
    /// The peer allows no more streams, or the session is over.
    pub async fn open(&self, name: &str, config: StreamConfig) -> Result<Stream, OpenStreamError> {
        let shared = &self.handle.shared;
        let failure = || {
            shared.failure().map_or(
                OpenStreamError::Open(OpenError::Closed),
                OpenStreamError::Session,
            )
        };
        self.established().await.map_err(|_| failure())?;
        let group = config.group_id();
        let further = match shared.lane.get() {
            Some(lane) if group != GroupId::default() => lane.of_group(group).await,
            _ => None,
        };
        if let Some(lane) = further {
            match self.open_on(lane, name, config).await {
                // The peer's limit is divided among lanes, and most of it the first's.
                Some(Err(OpenError::TooMany { .. })) => {}
                opened => return opened.ok_or_else(failure)?.map_err(Into::into),
            }
        }
        match self.open_on(Arc::clone(shared), name, config).await {
            Some(Ok(stream)) => Ok(stream),
            Some(Err(OpenError::Closed)) | None => Err(failure()),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// Opens a stream on a lane; `None` once the lane is over.
    async fn open_on(
        &self,
        lane: Arc<Shared>,
        name: &str,
        config: StreamConfig,
    ) -> Option<Result<Stream, OpenError>> {
        let (reply, answer) = oneshot::channel();
        let command = OpenCommand {
            name: name.to_owned(),
            config,
            reply,
        };
        lane.push(Command::Open(Box::new(command)));
        match answer.await.ok()? {
            Ok(opened) => Some(Ok(self.stream(lane, opened.take()?))),
            Err(OpenError::Closed) => None,
            Err(error) => Some(Err(error)),
        }
    }

    fn stream(&self, lane: Arc<Shared>, stream: Arc<StreamShared>) -> Stream {
        Stream {
            _handle: Arc::clone(&self.handle),
            lane,
            stream,
        }
    }

    /// The connection's lanes beside the first.
    fn further(&self) -> Further {
        let lane = self.handle.shared.lane.get();
        lane.map_or_else(Further::default, |lane| lane.further())
    }

    /// The next stream that the peer has opened; `None` when the session has ended cleanly.
    /// Cancel-safe.
    ///
    /// # Errors
    ///
    /// The session has failed.
    pub async fn accept(&self) -> Result<Option<Stream>, SessionError> {
        let shared = &self.handle.shared;
        loop {
            if let Some(opened) = shared.pop_opened() {
                let lane = opened.lane.unwrap_or_else(|| Arc::clone(shared));
                return Ok(Some(self.stream(lane, opened.stream)));
            }
            if shared.is_closed() {
                // One may have been opened just before.
                if let Some(opened) = shared.pop_opened() {
                    let lane = opened.lane.unwrap_or_else(|| Arc::clone(shared));
                    return Ok(Some(self.stream(lane, opened.stream)));
                }
                // Pass the word on to others who wait.
                shared.opened_notify.notify_one();
                return shared.failure().map_or(Ok(None), Err);
            }
            shared.opened_notify.notified().await;
        }
    }

    /// What the session has done and knows; `None` once it is over.
    pub async fn stats(&self) -> Option<SessionStats> {
        let ask = |reply| Command::SessionStats { reply };
        let mut stats = self.handle.shared.ask(ask).await?;
        let Further { lanes, done, .. } = self.further();
        stats.add(&done);
        for lane in lanes {
            if let Some(more) = lane.ask(ask).await {
                stats.add(&more);
                stats.further_lanes += 1;
            }
        }
        Some(stats)
    }

    /// The dictionaries for what this end sends, each with its class of traffic, those of one class the newest first; to
    /// keep one, or to give it to another node ([`NodeConfig::dictionary`]). `None` once the session is over.
    ///
    /// A dictionary is made of messages, and as secret as they are.
    ///
    /// [`NodeConfig::dictionary`]: super::NodeConfig::dictionary
    pub async fn dictionaries(&self) -> Option<Vec<(String, Dictionary)>> {
        let ask = |reply| Command::Dictionaries { reply };
        let mut all = self.handle.shared.ask(ask).await?;
        for lane in self.further().lanes {
            for known in lane.ask(ask).await.unwrap_or_default() {
                if !all.contains(&known) {
                    all.push(known);
                }
            }
        }
        Some(all)
    }

    /// The decisions since the last call, the latest [`MAX_DECISIONS`] at most; none unless
    /// [`SessionConfig::trace`](crate::session::SessionConfig::trace) is on. `None` once the session is over.
    /// Cancel-safe: what a call that is dropped while it waits would have given, the next one does.
    ///
    /// [`MAX_DECISIONS`]: crate::session::MAX_DECISIONS
    pub async fn take_decisions(&self) -> Option<VecDeque<Decision>> {
        let shared = &self.handle.shared;
        shared.take_decisions(&self.further().lanes).await
    }

    /// What became of the messages of each stream when a session that could be resumed ([`NodeConfig::resume`]) has failed:
    /// empty before that, and where everything was delivered.
    ///
    /// [`NodeConfig::resume`]: super::NodeConfig::resume
    pub fn deliveries(&self) -> Vec<Delivery> {
        let mut deliveries = self.handle.shared.deliveries();
        let Further { lanes, ended, .. } = self.further();
        for lane in ended.iter().chain(&lanes) {
            deliveries.extend(lane.deliveries());
        }
        deliveries
    }

    /// Closes the connection: what was sent is delivered first, and so is what the peer still sends. Streams that are held are to be read until their end
    /// meanwhile, or dropped: a message that finds no room at its receiver keeps the session from ending.
    ///
    /// # Errors
    ///
    /// The session has failed, or nothing moved for ten seconds.
    pub async fn close(&self) -> Result<(), SessionError> {
        self.handle.shared.push(Command::Close);
        self.closed().await
    }

    /// Waits for the session's end, whoever ends it, and for the last bytes to leave.
    ///
    /// # Errors
    ///
    /// The session failed.
    pub async fn closed(&self) -> Result<(), SessionError> {
        let shared = &self.handle.shared;
        let mut phase = shared.phase.subscribe();
        let result = match phase
            .wait_for(|phase| matches!(phase, Phase::Closed(_)))
            .await
            .as_deref()
        {
            Ok(Phase::Closed(result)) => result.clone(),
            _ => Err(SessionError::ConnectionLost),
        };
        shared.driver_ended().await;
        let Further { lanes, ended, .. } = self.further();
        for lane in ended.iter().chain(&lanes) {
            lane.driver_ended().await;
        }
        result
    }
}

/// A message as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its bytes. A small message shares its memory with the block that it came in: copy it to keep
    /// it for long.
    pub payload: Bytes,
    /// As it was in the session's message: made into anything else, each message would be moved once more, in pieces that the next move waits for.
    kind: RecordKind,
}

impl Received {
    #[inline]
    pub(super) fn new(Message { payload, kind }: Message) -> Self {
        Self { payload, kind }
    }

    /// Whether the sender waits for a [`Stream::reply`].
    pub const fn is_request(&self) -> bool {
        matches!(self.kind, RecordKind::Request { .. })
    }

    const fn answer_kind(&self) -> RecordKind {
        match self.kind {
            RecordKind::Request { correlation } => RecordKind::Reply { correlation },
            RecordKind::Message | RecordKind::Reply { .. } | RecordKind::Part(_) => {
                RecordKind::Message
            }
        }
    }
}

/// An ordered sequence of messages in each direction. Dropped, it finishes its sending direction
/// (what was sent is delivered) and drops what still comes.
#[derive(Debug)]
#[expect(
    clippy::struct_field_names,
    reason = "what its driver has of it, too, is called so"
)]
pub struct Stream {
    /// The connection lives as long as its streams.
    _handle: Arc<Handle>,
    /// The handle's, or that of another lane.
    pub(super) lane: Arc<Shared>,
    pub(super) stream: Arc<StreamShared>,
}

impl Stream {
    /// The stream's number within the connection.
    pub fn id(&self) -> StreamId {
        self.stream.id
    }

    /// The name that it was opened with.
    pub fn name(&self) -> &str {
        &self.stream.name
    }

    /// Sends a message; waits while the stream's queue is full. Whether and how it is compressed is
    /// decided when the link can take it. Cancel-safe: a call that is dropped while it waits has
    /// sent nothing.
    ///
    /// # Errors
    ///
    /// The message is longer than the peer receives, or the stream is closed or [stopped](SendError::Stopped).
    pub async fn send(&self, payload: Bytes) -> Result<(), SendError> {
        // As `send_as`, without a future inside the future: this is the path of every message.
        self.check_len(&payload)?;
        // Boxed, so that the future of every other message is small enough to be moved at no cost.
        if self.stream.sends.is_over() {
            let put = async {
                YieldOnce::default().await;
                self.put(payload, RecordKind::Message, false).await
            };
            return Box::pin(put).await.map(|_| ());
        }
        match self.try_put(payload, RecordKind::Message, false) {
            Ok(_) => Ok(()),
            Err((Refused::Full, payload)) => {
                self.lane.helm.help();
                let put = Box::pin(self.put(payload, RecordKind::Message, false));
                put.await.map(|_| ())
            }
            Err((Refused::Closed, _)) => Err(self.stream.why_closed()),
        }
    }

    /// Sends messages from the front of `messages`, in their order, and waits while the stream's queue is full: as [`Self::send`] for each of them, at a
    /// fraction of what that costs where they are short. Cancel-safe: what was not sent stays in `messages`.
    ///
    /// # Errors
    ///
    /// The message that is in front by then is longer than the peer receives, or the stream is closed.
    pub async fn send_many(&self, messages: &mut VecDeque<Bytes>) -> Result<(), SendError> {
        if let Some(done) = self.put_many(messages) {
            return done;
        }
        self.lane.helm.help();
        let outbox = &self.stream.outbox;
        outbox.wait_for_room(|| self.put_many(messages)).await
    }

    /// Puts what there is room for now, and says what came of it unless that is to wait for more.
    fn put_many(&self, messages: &mut VecDeque<Bytes>) -> Option<Result<(), SendError>> {
        let longest = self.lane.max_message.load(Ordering::Acquire);
        let longest = usize::try_from(longest).unwrap_or(usize::MAX);
        let limits = (self.lane.send_queue, longest);
        let outbox = &self.stream.outbox;
        match outbox.try_put_many(messages, limits, || self.tell()) {
            Ok(()) => Some(Ok(())),
            Err(Refused::Closed) => Some(Err(self.stream.why_closed())),
            Err(Refused::Full) => {
                let next = messages.front().filter(|next| next.len() > longest)?;
                Some(self.check_len(next))
            }
        }
    }

    /// .. of messages that are not too long.
    pub(super) fn put_queue(&self, messages: &mut OutgoingQueue) -> Option<Result<(), SendError>> {
        let outbox = &self.stream.outbox;
        match outbox.try_put_queue(messages, self.lane.send_queue, || self.tell()) {
            Ok(()) => Some(Ok(())),
            Err(Refused::Closed) => Some(Err(self.stream.why_closed())),
            Err(Refused::Full) => None,
        }
    }

    /// Sends a message if there is room for it now.
    ///
    /// # Errors
    ///
    /// The queue is full (the message is given back), or as for [`Self::send`].
    pub fn try_send(&self, payload: Bytes) -> Result<(), SendError> {
        self.try_send_as(payload, false)
    }

    /// The stream for messages that nothing else may be compressed with: passwords, tokens, keys.
    ///
    /// ```
    /// # use tautline::transport::Stream;
    /// # async fn log_in(stream: Stream, password: bytes::Bytes) -> Result<(), Box<dyn std::error::Error>> {
    /// stream.send("who I am".into()).await?;
    /// stream.sensitive().send(password).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// They keep their place among the other messages, and go uncompressed, in blocks of their own: no history
    /// or dictionary takes them in, and no policy learns from them. Compressed, even alone, their length would say
    /// something of their content (docs/security.md). The receiver is not told.
    pub const fn sensitive(&self) -> Sensitive<'_> {
        Sensitive { stream: self }
    }

    fn try_send_as(&self, payload: Bytes, sensitive: bool) -> Result<(), SendError> {
        self.check_len(&payload)?;
        match self.try_put(payload, RecordKind::Message, sensitive) {
            Ok(_) => Ok(()),
            Err((Refused::Closed, _)) => Err(self.stream.why_closed()),
            Err((Refused::Full, payload)) => Err(SendError::Full(Rejected(payload))),
        }
    }

    async fn send_as(
        &self,
        payload: Bytes,
        kind: RecordKind,
        sensitive: bool,
    ) -> Result<(), SendError> {
        self.check_len(&payload)?;
        self.put(payload, kind, sensitive).await?;
        Ok(())
    }

    /// How many messages of the stream go before this one.
    pub(super) async fn put(
        &self,
        payload: Bytes,
        kind: RecordKind,
        sensitive: bool,
    ) -> Result<u64, SendError> {
        let message = Outgoing {
            payload,
            kind,
            sensitive,
        };
        let outbox = &self.stream.outbox;
        outbox
            .put(message, self.lane.send_queue, || self.tell())
            .await
            .ok_or_else(|| self.stream.why_closed())
    }

    #[inline]
    fn try_put(
        &self,
        payload: Bytes,
        kind: RecordKind,
        sensitive: bool,
    ) -> Result<u64, (Refused, Bytes)> {
        let message = Outgoing {
            payload,
            kind,
            sensitive,
        };
        let outbox = &self.stream.outbox;
        outbox.try_put(message, self.lane.send_queue, || self.tell())
    }

    /// The message of which parts were sent has no end. What is closed says so by itself.
    pub(super) fn give_up(&self, sensitive: bool) {
        let message = Outgoing {
            payload: Bytes::new(),
            kind: RecordKind::Part(Part::GivenUp),
            sensitive,
        };
        // However full the queue is.
        let _ = self
            .stream
            .outbox
            .try_put(message, usize::MAX, || self.tell());
    }

    /// Has the driver come for what is in the outbox.
    pub(super) fn tell(&self) -> Result<Option<Waker>, DriverEnded> {
        let stream = self.stream.id;
        let driver = self.lane.push_quietly(Command::Send { stream })?;
        if driver.is_some() {
            self.stream.sends.ring();
        }
        Ok(driver)
    }

    pub(super) fn check_len(&self, payload: &Bytes) -> Result<(), SendError> {
        let max = self.lane.max_message.load(Ordering::Acquire);
        let given = payload.len();
        if given as u64 > max {
            Err(SendError::TooLong { given, max })
        } else {
            Ok(())
        }
    }

    /// The next message; `None` when the peer has finished the stream or the session has ended
    /// cleanly. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The next message comes in parts ([`Self::recv_reader`] takes it), the sender gave up, or the session has failed.
    pub async fn recv(&self) -> Result<Option<Received>, RecvError> {
        // Most are here already. What waits for others is written out here: a future inside the future would make it longer,
        // and every message moves one.
        if self.stream.receipts.is_over() {
            YieldOnce::default().await;
        }
        if let Some(received) = self.try_recv() {
            return Ok(Some(received));
        }
        self.stream.sends.pause();
        self.lane.helm.help();
        loop {
            let (_waiting, readable) = self.stream.wait();
            let mut readable = core::pin::pin!(readable);
            readable.as_mut().enable();
            // What came before the registration is seen here.
            if let Some(received) = self.try_recv() {
                return Ok(Some(received));
            }
            if let Some(why) = self.stream.why_none() {
                return why.map(|()| None);
            }
            self.stream.want(&self.lane);
            readable.await;
            // Before the next wait begins: it is here, mostly.
            if let Some(received) = self.try_recv() {
                return Ok(Some(received));
            }
        }
    }

    /// Waits for a message as [`Self::recv`], and appends it to `messages` with those that are here behind it, at most `most`: for short messages
    /// at a fraction of what `recv` costs for each. How many; 0 at the end, or if `most` is 0. Cancel-safe.
    ///
    /// # Errors
    ///
    /// As there. Errors come after the messages before them.
    pub async fn recv_many(
        &self,
        messages: &mut Vec<Received>,
        most: usize,
    ) -> Result<usize, RecvError> {
        if most == 0 {
            return Ok(0);
        }
        let before = messages.len();
        self.take_many(messages, most);
        if messages.len() == before {
            let Some(first) = self.recv().await? else {
                return Ok(0);
            };
            messages.push(first);
            self.take_many(messages, most - 1);
        }
        Ok(messages.len() - before)
    }

    fn take_many(&self, messages: &mut Vec<Received>, most: usize) {
        let take = |message| messages.push(Received::new(message));
        self.release(self.stream.pop_many(most, self.lane.release_at(), take));
    }

    /// Moves messages that are here to the end of `into`, about `most` and so many bytes.
    pub(super) fn move_many(&self, into: &mut MessageQueue, most: (usize, usize)) {
        self.release(self.stream.move_many(into, most, self.lane.release_at()));
    }

    /// The next message if it is here already, and comes in one piece.
    #[inline]
    pub fn try_recv(&self) -> Option<Received> {
        let popped = self.stream.pop(self.lane.release_at())?;
        Some(self.take(popped))
    }

    #[inline]
    pub(super) fn take(&self, Popped { message, release }: Popped) -> Received {
        self.release(release);
        Received::new(message)
    }

    #[inline]
    fn release(&self, charge: Option<usize>) {
        if let Some(charge) = charge {
            let stream = self.stream.id;
            self.lane.push(Command::Release { stream, charge });
        }
    }

    /// Sends a request and waits for its reply.
    ///
    /// # Errors
    ///
    /// It cannot be sent, or is [stopped](SendError::Stopped) before the peer has taken it; no reply comes within `timeout`, or the
    /// stream ends first.
    pub async fn request(&self, payload: Bytes, timeout: Duration) -> Result<Bytes, RequestError> {
        self.request_as(payload, timeout, false).await
    }

    async fn request_as(
        &self,
        payload: Bytes,
        timeout: Duration,
        sensitive: bool,
    ) -> Result<Bytes, RequestError> {
        let correlation = self.stream.next_request.fetch_add(1, Ordering::Relaxed);
        let reply = self.stream.add_request(correlation);
        self.stream.want(&self.lane);
        let _waiting = OpenRequest {
            stream: &self.stream,
            correlation,
        };
        if self.stream.has_ended() && !self.stream.outbox.is_closed() {
            return Err(RequestError::Ended);
        }
        let exchange = async {
            let kind = RecordKind::Request { correlation };
            self.check_len(&payload)?;
            let place = self.put(payload, kind, sensitive).await?;
            self.stream.place_request(correlation, place);
            reply.await.map_err(|_| {
                if self.stream.is_refused(place) {
                    RequestError::Send(self.stream.why_closed())
                } else {
                    RequestError::Ended
                }
            })
        };
        match tokio::time::timeout(timeout, exchange).await {
            Ok(result) => result,
            Err(_) => Err(RequestError::TimedOut { after: timeout }),
        }
    }

    /// Answers a request. A message that is none gets its answer as a message.
    ///
    /// # Errors
    ///
    /// As for [`Self::send`].
    pub async fn reply(&self, to: &Received, payload: Bytes) -> Result<(), SendError> {
        self.send_as(payload, to.answer_kind(), false).await
    }

    /// Ends the sending direction: the peer's `recv` answers `None` after what was sent. Messages
    /// still come.
    pub fn finish(&self) {
        self.stream.outbox.close();
        self.lane.push(Command::Finish {
            stream: self.stream.id,
        });
    }

    /// Sets the policy from here on; what its arms have shown is kept.
    pub fn set_policy(&self, policy: PolicyConfig) {
        self.lane.push(Command::SetPolicy {
            stream: self.stream.id,
            policy: Box::new(policy),
        });
    }

    /// Sets which streams go before this one and after it in this side's direction, from the next block on; see
    /// [`StreamConfig::priority`], which says it for streams that this side opens.
    pub fn set_priority(&self, priority: i8) {
        let stream = self.stream.id;
        self.lane.push(Command::SetPriority { stream, priority });
    }

    /// What the stream has done: which codecs carried how much, and at what cost. `None` once the
    /// stream or session is over.
    pub async fn stats(&self) -> Option<StreamStats> {
        let stream = self.stream.id;
        let asked = self
            .lane
            .ask(|reply| Command::StreamStats { stream, reply });
        asked.await.flatten()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.lane.push(Command::Drop {
            stream: self.stream.id,
        });
    }
}

/// A stream for sensitive messages; see [`Stream::sensitive`].
#[derive(Clone, Copy, Debug)]
pub struct Sensitive<'a> {
    pub(super) stream: &'a Stream,
}

impl Sensitive<'_> {
    /// As [`Stream::send`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn send(self, payload: Bytes) -> Result<(), SendError> {
        self.stream
            .send_as(payload, RecordKind::Message, true)
            .await
    }

    /// As [`Stream::try_send`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn try_send(self, payload: Bytes) -> Result<(), SendError> {
        self.stream.try_send_as(payload, true)
    }

    /// As [`Stream::request`]. Whether the reply is sensitive too, its sender says.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn request(self, payload: Bytes, timeout: Duration) -> Result<Bytes, RequestError> {
        self.stream.request_as(payload, timeout, true).await
    }

    /// As [`Stream::reply`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn reply(self, to: &Received, payload: Bytes) -> Result<(), SendError> {
        self.stream.send_as(payload, to.answer_kind(), true).await
    }
}

/// Forgets a request when nobody waits for its reply any more.
struct OpenRequest<'a> {
    stream: &'a StreamShared,
    correlation: u64,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.stream.remove_request(self.correlation);
    }
}
