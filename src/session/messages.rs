//! Messages that the application gives and takes.

use bytes::Bytes;

use super::error::{Rejected, SendError};
use super::observer::{MessageRun, Observations};
use super::outgoing::{Entry, Outgoing, OutgoingQueue};
use super::queue::MessageQueue;
use super::stream::{Message, SendState, Stopped, TrafficClass};
use super::{Session, State};
use crate::wire::{GroupId, MESSAGE_CHARGE, RecordKind, StreamId};

impl Session {
    /// Queues a message.
    ///
    /// # Errors
    ///
    /// The queue is full (the message is given back; wait for [`Event::Drained`](super::Event::Drained)), the message is
    /// longer than the peer receives, or the stream is closed or [stopped](super::Event::StreamStopped).
    pub fn send(
        &mut self,
        id: StreamId,
        payload: Bytes,
        kind: RecordKind,
    ) -> Result<(), SendError> {
        self.queue(id, (payload, kind), false)
    }

    /// Queues a message that nothing else may be compressed with: a password, a token, a key. It keeps its
    /// place in its stream, but goes uncompressed, in blocks with none but others like it. No history or
    /// dictionary takes it in, and no policy learns from it (docs/security.md). The peer is not told that
    /// it is sensitive.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub fn send_sensitive(
        &mut self,
        id: StreamId,
        payload: Bytes,
        kind: RecordKind,
    ) -> Result<(), SendError> {
        self.queue(id, (payload, kind), true)
    }

    fn queue(
        &mut self,
        id: StreamId,
        (payload, kind): (Bytes, RecordKind),
        sensitive: bool,
    ) -> Result<(), SendError> {
        let mut one = core::mem::take(&mut self.one);
        one.push_back(Outgoing {
            payload,
            kind,
            sensitive,
        });
        let result = self.send_all(id, &mut one);
        let rejected = one.pop_front();
        self.one = one;
        match (result?, rejected) {
            (_, Some(message)) => Err(SendError::Full(Rejected(message.payload))),
            (_, None) => Ok(()),
        }
    }

    /// Queues messages in their order, which costs less than one by one, and says how many: those for which there was
    /// no room stay in `messages`.
    ///
    /// # Errors
    ///
    /// The next message is longer than the peer receives, or the stream is closed or [stopped](super::Event::StreamStopped): it
    /// stays with those behind it.
    pub fn send_all(
        &mut self,
        id: StreamId,
        messages: &mut OutgoingQueue,
    ) -> Result<usize, SendError> {
        let is_established = matches!(self.state, State::Established);
        let stream = self.streams.find(id);
        let max = self.peer.max_message;
        let Some(stream) = stream.filter(|_| is_established) else {
            return Err(SendError::Closed(id));
        };
        if let Some(Stopped { given, .. }) = stream.send.stopped {
            let stream = id;
            return Err(SendError::Stopped { stream, given, max });
        }
        if stream.send.state != SendState::Open {
            return Err(SendError::Closed(id));
        }
        let send = &mut stream.send;
        // What is to be sent again has had its place before.
        let mut queued = send.queued_bytes - send.counted;
        let mut in_parts = send.in_parts;
        let (before, mut entries, mut count, mut error) = (queued, 0, 0, None);
        while let Some(entry) = messages.entry(entries) {
            let (given, len, kind) = (entry.longest(), entry.queued_len(), entry.kind());
            let is_too_long = given as u64 > max;
            let is_full = queued + len > self.config.send_queue;
            if entry.messages() > 1 && (is_too_long || is_full) {
                // Some of them may go.
                messages.unpack(entries);
                continue;
            }
            if is_too_long {
                error = Some(SendError::TooLong { given, max });
                break;
            }
            if queued > 0 && is_full {
                break;
            }
            if in_parts || !matches!(kind, RecordKind::Message) {
                if in_parts && !kind.may_interrupt_parts() {
                    error = Some(SendError::InParts(id));
                    break;
                }
                in_parts = kind.goes_on(in_parts);
            }
            queued += len;
            count += entry.messages();
            entries += 1;
        }
        if count > 0 {
            let bytes = queued - before;
            let run = MessageRun {
                stream: id,
                first: stream.stats.messages_sent,
                count: count as u64,
                bytes: (bytes - count * MESSAGE_CHARGE as usize) as u64,
            };
            stream.stats.messages_sent += run.count;
            stream.stats.payload_sent += run.bytes;
            if let Some(observer) = self.sender.told.of(Observations::MESSAGES_QUEUED) {
                observer.messages_queued(run);
            }
            send.queued_bytes += bytes;
            send.in_parts = in_parts;
            let dictionaries = &mut self.sender.dictionaries;
            // What is made of one group's messages would tell the others of them.
            if dictionaries.is_agreed() && send.group == GroupId::default() {
                let open = messages.entries(entries).filter(|it| !it.is_sensitive());
                for payload in open.flat_map(Entry::payloads) {
                    if stream.class == TrafficClass::Unasked && stream.policy.may_use_dictionary() {
                        let class = dictionaries.class_of(&stream.name);
                        stream.class = class.map_or(TrafficClass::None, TrafficClass::Of);
                    }
                    let Some(class) = stream.class.get() else {
                        break;
                    };
                    dictionaries.offer(class, payload);
                }
            }
            send.queue.append_front(messages, entries);
            self.used_at = self.now;
            self.sender.on_sendable(id, send);
        }
        error.map_or(Ok(count), Err)
    }

    /// Takes the next message of a stream. Call [`Self::release`] when the application is done with it.
    pub fn recv(&mut self, id: StreamId) -> Option<Message> {
        let stream = self.streams.find(id)?;
        let waiting = stream.waiting(id);
        let Some(message) = stream.recv.queue.pop_front() else {
            self.streams.remove_if_over(id);
            return None;
        };
        let bytes = message.payload.len() as u64;
        stream.recv.queue_bytes -= bytes;
        let count = 1;
        self.tell_taken(waiting.map(|all| MessageRun {
            count,
            bytes,
            ..all
        }));
        Some(message)
    }

    /// Moves all messages of a stream to the end of `into`, as [`Self::recv`] would one by one.
    pub fn recv_all(&mut self, id: StreamId, into: &mut MessageQueue) {
        let Some(stream) = self.streams.find(id) else {
            return;
        };
        let run = stream.waiting(id);
        let recv = &mut stream.recv;
        recv.queue_bytes = 0;
        into.append(&mut recv.queue);
        self.streams.remove_if_over(id);
        self.tell_taken(run);
    }

    fn tell_taken(&self, messages: Option<MessageRun>) {
        let observer = self.receiver.told.of(Observations::MESSAGES_TAKEN);
        if let (Some(observer), Some(messages)) = (observer, messages) {
            observer.messages_taken(messages);
        }
    }

    /// The messages that [`Self::recv_all`] would give of a stream; `None` if it would give none.
    pub fn messages_waiting(&self, id: StreamId) -> Option<MessageRun> {
        self.streams.peek(id)?.waiting(id)
    }
}
