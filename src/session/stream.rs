//! Both directions of one stream, and the table of all of them.

use core::hash::{BuildHasherDefault, Hasher};
use core::time::Duration;
use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use super::credit::StreamCredit;
use super::observer::MessageRun;
use super::outgoing::{Entry, Outgoing, OutgoingQueue};
use super::partial::Partial;
use super::queue::MessageQueue;
use super::stats::StreamStats;
use crate::control::{Policy, Texture, TextureLook};
use crate::units::Time;
use crate::wire::{CloseCode, GroupId, MESSAGE_CHARGE, RecordKind, StreamId};

/// A message as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its bytes. A small message shares its memory with the block that it came in: copy it to keep
    /// it for long.
    pub payload: Bytes,
    /// Whether it is a request or a reply.
    pub kind: RecordKind,
}

impl Message {
    /// Bytes of the stream's window that it takes until it is [released](super::Session::release).
    pub fn charge(&self) -> usize {
        self.payload.len() + MESSAGE_CHARGE as usize
    }
}

#[derive(Debug)]
pub(super) struct Stream {
    /// Whether it counts as open: until both directions are closed.
    pub(super) is_open: bool,
    pub(super) name: String,
    pub(super) send: SendStream,
    pub(super) recv: RecvStream,
    pub(super) policy: Policy,
    /// Which dictionaries its messages share.
    pub(super) class: TrafficClass,
    /// Plain length and texture of the latest block that began with this stream's messages.
    pub(super) latest_block: (usize, Texture),
    pub(super) texture_look: TextureLook,
    pub(super) stats: StreamStats,
}

impl Stream {
    /// Messages that wait for the application, if any do.
    pub(super) fn waiting(&self, id: StreamId) -> Option<MessageRun> {
        let count = self.recv.queue.len() as u64;
        (count > 0).then(|| MessageRun {
            stream: id,
            first: self.stats.messages_received.saturating_sub(count),
            count,
            bytes: self.recv.queue_bytes,
        })
    }
}

/// The class of traffic that a stream's messages belong to, known once something is sent on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TrafficClass {
    #[default]
    Unasked,
    None,
    Of(usize),
}

impl TrafficClass {
    pub(super) const fn get(self) -> Option<usize> {
        match self {
            Self::Of(class) => Some(class),
            Self::Unasked | Self::None => None,
        }
    }
}

/// Which streams go first: the higher.
pub(super) type Priority = i8;

/// Bytes of a record header, usually: kind, stream and length as short numbers.
const LIKELY_HEADER: usize = 3;

/// Sending direction.
///
/// ```text
/// Open --finish--> Finishing --queue empty, close frame queued--> Finished
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendState {
    Open,
    Finishing,
    Finished,
}

/// The peer takes nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stopped {
    /// The length of the message that was too long, as the peer was told.
    pub(super) given: u64,
    /// Messages that were dropped from the queue.
    pub(super) dropped: u64,
}

/// Whether a stream waits for credit of the connection, and the peer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Starved {
    No,
    Unsaid,
    Said,
}

/// What messages must have in common to share a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Company {
    pub(super) group: GroupId,
    /// It goes as it is, and nothing is learned from it.
    pub(super) sensitive: bool,
}

#[derive(Debug)]
pub(super) struct SendStream {
    pub(super) state: SendState,
    pub(super) stopped: Option<Stopped>,
    pub(super) group: GroupId,
    pub(super) priority: Priority,
    pub(super) queue: OutgoingQueue,
    /// The message that was queued last has parts to come.
    pub(super) in_parts: bool,
    /// Payload bytes in the queue, without what of the front message is sent already, and
    /// [`MESSAGE_CHARGE`] for each message.
    pub(super) queued_bytes: usize,
    /// Bytes of the front message that are sent already.
    pub(super) front_sent: usize,
    /// What was sent has taken of the window since the stream opened.
    pub(super) sent: u64,
    /// The window since the stream opened.
    pub(super) limit: u64,
    /// Credit of the connection that is for this stream alone.
    pub(super) own: u64,
    /// .. and has been on this connection.
    pub(super) had: u64,
    pub(super) starved: Starved,
    /// How often it has waited for credit.
    pub(super) waits: u32,
    /// Whether the stream stands in the list of those that have something to send.
    pub(super) is_ready: bool,
    /// Payload bytes that it may send in its turn, or has sent beyond it (deficit round robin).
    pub(super) deficit: isize,
    /// The latest block that it is a member of, and where among the members.
    pub(super) place_in_block: (u64, usize),
    /// Pieces of messages, and closes, that are kept until they are acknowledged.
    pub(super) unacked: u32,
    /// What is in the queue once more and was counted when it left it first.
    pub(super) counted: usize,
}

impl SendStream {
    pub(super) const fn new(group: GroupId, limit: u64) -> Self {
        Self {
            state: SendState::Open,
            stopped: None,
            group,
            priority: 0,
            queue: OutgoingQueue::new(),
            in_parts: false,
            queued_bytes: 0,
            front_sent: 0,
            sent: 0,
            limit,
            own: 0,
            had: 0,
            starved: Starved::No,
            waits: 0,
            is_ready: false,
            deficit: 0,
            place_in_block: (0, 0),
            unacked: 0,
            counted: 0,
        }
    }

    /// About how many plain bytes the queue makes: payloads and record headers.
    pub(super) fn plain_len(&self) -> usize {
        let messages = self.queue.len();
        let payload = self.queued_bytes - messages * MESSAGE_CHARGE as usize;
        payload + messages * LIKELY_HEADER
    }

    /// What beginning the front message takes of the window; nothing once it has begun.
    pub(super) const fn front_charge(&self) -> u64 {
        if self.front_sent == 0 {
            MESSAGE_CHARGE
        } else {
            0
        }
    }

    /// Payload bytes of the front message that the peer takes now, with so much credit for all streams; `None` if it may
    /// not even begin.
    pub(super) fn front_room(&self, credit: u64) -> Option<u64> {
        self.limit
            .saturating_sub(self.sent)
            .min(credit.saturating_add(self.own))
            .checked_sub(self.front_charge())
    }

    /// Queues a message that nobody has reserved room for.
    pub(super) fn queue_uncounted(&mut self, message: Outgoing) {
        let len = message.queued_len();
        self.queued_bytes += len;
        self.counted += len;
        self.queue.push_back(message);
    }

    /// Messages that have not left the queue, or never will.
    pub(super) fn unsent(&self) -> u64 {
        self.queue.len() as u64 + self.stopped.map_or(0, |stopped| stopped.dropped)
    }

    /// Drops what waits to be sent; how much of it counted as queued.
    pub(super) fn drop_queue(&mut self) -> usize {
        if let Some(stopped) = &mut self.stopped {
            stopped.dropped += self.queue.len() as u64;
        }
        let counted = core::mem::take(&mut self.counted);
        let queued = core::mem::take(&mut self.queued_bytes).saturating_sub(counted);
        self.queue = OutgoingQueue::new();
        self.front_sent = 0;
        self.in_parts = false;
        queued
    }

    /// What may share a block with the front message.
    pub(super) fn company(&self) -> Company {
        Company {
            group: self.group,
            sensitive: self.queue.front_entry().is_some_and(Entry::is_sensitive),
        }
    }

    /// Whether the front message, or a part of it, can be sent now.
    pub(super) fn can_send(&self, credit: u64) -> bool {
        let Some(len) = self.queue.front_len() else {
            return false;
        };
        let remaining = len - self.front_sent;
        self.front_room(credit)
            .is_some_and(|room| room > 0 || remaining == 0)
    }
}

#[derive(Debug)]
pub(super) struct RecvStream {
    pub(super) queue: MessageQueue,
    /// Payload in it.
    pub(super) queue_bytes: u64,
    pub(super) partial: Option<Partial>,
    /// The message that came last has parts to come.
    pub(super) in_parts: bool,
    /// Why nothing more comes.
    pub(super) ended: Option<CloseCode>,
    /// Whether the application lost interest: messages are dropped as they come.
    pub(super) discards: bool,
    /// The length of a message that was too long, after which nothing is taken: what comes is dropped, within the window that there was.
    pub(super) refused: Option<u64>,
    /// What was received has taken of the window since the stream opened.
    pub(super) received: u64,
    /// So much of it as the application is done with.
    pub(super) released: u64,
    /// The window since the stream opened, as the peer was told ..
    pub(super) limit: u64,
    /// .. at this time, and what it had been told before.
    told_at: Time,
    limit_before: u64,
    /// The peer had used that up before it can have heard of more, and the application had taken what came.
    was_used_up: bool,
    /// What the peer may send ahead of the application.
    pub(super) window: u64,
    /// What it has of the connection's credit for itself.
    pub(super) credit: StreamCredit,
}

impl RecvStream {
    pub(super) fn new(now: Time, window: u64) -> Self {
        Self {
            queue: MessageQueue::new(),
            queue_bytes: 0,
            partial: None,
            in_parts: false,
            ended: None,
            discards: false,
            refused: None,
            received: 0,
            released: 0,
            limit: window,
            told_at: now,
            limit_before: window,
            was_used_up: false,
            window,
            credit: StreamCredit::default(),
        }
    }

    /// What of it the application is not done with, and what has come of a message that is not whole.
    pub(super) const fn held(&self) -> u64 {
        self.received.saturating_sub(self.released)
    }

    /// Whether what comes is dropped.
    pub(super) const fn drops(&self) -> bool {
        self.discards || self.refused.is_some()
    }

    /// What whole messages have taken of the window since the stream opened, and those that nobody wants.
    pub(super) fn complete(&self) -> u64 {
        self.received - self.partial.as_ref().map_or(0, Partial::held)
    }

    /// The limit that the peer should be told, if it has grown enough to be worth a frame.
    ///
    /// Bytes of an unfinished message count as released while the application has hardly anything
    /// else to take: a message longer than the window could not come otherwise.
    pub(super) fn new_limit(&mut self, room: WindowRoom) -> Option<u64> {
        if self.ended.is_some() || self.refused.is_some() {
            return None;
        }
        let partial = self.received - self.complete();
        let only_partial = self.complete() - self.released <= self.window / 4;
        self.was_used_up |= only_partial
            && self.received >= self.limit_before
            && room.now < self.told_at + room.rtt;
        let taken = self.released + if only_partial { partial } else { 0 };
        if taken + self.window < self.limit + (room.first / 2).max(1) {
            return None;
        }
        if core::mem::take(&mut self.was_used_up) {
            let grown = self.window.saturating_mul(2).min(room.most);
            self.window = self.window.max(grown);
        }
        self.limit_before = self.limit;
        self.limit = taken + self.window;
        self.told_at = room.now;
        Some(self.limit)
    }
}

/// What a stream's window is judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowRoom {
    pub(super) now: Time,
    /// Of the connection, or what takes longer than that at its ends.
    pub(super) rtt: Duration,
    /// What it begins with, and what it may grow to.
    pub(super) first: u64,
    pub(super) most: u64,
}

/// All streams of a session.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// Boxed, since a table has up to twice as many places as streams.
    map: HashMap<StreamId, Box<Stream>, BuildIdHasher>,
    connectors: u32,
    acceptors: u32,
    /// How many streams there are of groups other than 0.
    groups: BTreeMap<GroupId, u32>,
    /// What streams that are gone held, and had of the credit for messages, until the connection's account takes it.
    pub(super) let_go: u64,
    pub(super) promises_let_go: u64,
}

impl Streams {
    pub(super) fn insert(&mut self, id: StreamId, stream: Stream) {
        if stream.send.group != GroupId::default() {
            *self.groups.entry(stream.send.group).or_default() += 1;
        }
        self.map.insert(id, Box::new(stream));
        *self.count_mut(id) += 1;
    }

    const fn count_mut(&mut self, id: StreamId) -> &mut u32 {
        if id.is_connectors() {
            &mut self.connectors
        } else {
            &mut self.acceptors
        }
    }

    #[inline]
    pub(super) fn find(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.map.get_mut(&id).map(|stream| &mut **stream)
    }

    pub(super) fn peek(&self, id: StreamId) -> Option<&Stream> {
        self.map.get(&id).map(|stream| &**stream)
    }

    /// Forgets a stream once both directions are over and everything was taken. It stops counting
    /// as open before that, with its second close: the peer cannot know what was taken.
    pub(super) fn remove_if_over(&mut self, id: StreamId) -> bool {
        let Some(stream) = self.map.get_mut(&id) else {
            return false;
        };
        if stream.send.state != SendState::Finished || stream.recv.ended.is_none() {
            return false;
        }
        let over = stream.recv.queue.is_empty() && stream.send.unacked == 0;
        let group = stream.send.group;
        let (held, promised) = (stream.recv.held(), stream.recv.promised());
        if core::mem::replace(&mut stream.is_open, false) {
            *self.count_mut(id) -= 1;
        }
        if over {
            self.let_go += held;
            self.promises_let_go += promised;
            self.map.remove(&id);
            if let Some(count) = self.groups.get_mut(&group) {
                *count -= 1;
                if *count == 0 {
                    self.groups.remove(&group);
                }
            }
        }
        over
    }

    /// Whether a stream, if there is one, is in a group.
    pub(super) fn is_in(&self, id: StreamId, group: GroupId) -> bool {
        if self.groups.is_empty() {
            return group == GroupId::default();
        }
        self.peek(id)
            .is_none_or(|stream| stream.send.group == group)
    }

    /// Whether there may be blocks of a group: some stream is in it, or it is group 0.
    pub(super) fn has_group(&self, group: GroupId) -> bool {
        group == GroupId::default() || self.groups.contains_key(&group)
    }

    /// How many streams of one side there are.
    pub(super) const fn count(&self, connectors: bool) -> u32 {
        if connectors {
            self.connectors
        } else {
            self.acceptors
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.map.values().map(|stream| &**stream)
    }

    /// Numbers of all streams, in order, so that what follows from them does not depend on hashing.
    pub(super) fn ids(&self) -> Vec<StreamId> {
        let mut ids: Vec<_> = self.map.keys().copied().collect();
        ids.sort_unstable();
        ids
    }
}

pub(crate) type BuildIdHasher = BuildHasherDefault<IdHasher>;

/// Streams are numbered one after another by the protocol, so spreading their bits is enough.
#[derive(Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        // 2^64 over the golden ratio (Knuth, The Art of Computer Programming 3, 6.4).
        self.0 = (self.0 ^ u64::from(number))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: u64 = 1000;

    fn room(now_ms: u64) -> WindowRoom {
        WindowRoom {
            now: Time::from_nanos(now_ms * 1_000_000),
            rtt: Duration::from_millis(10),
            first: FIRST,
            most: 4 * FIRST,
        }
    }

    /// The window after rounds in which all that the peer may send comes `after_ms` the last limit was told, of which the
    /// application then takes all but `left`.
    fn window_after(rounds: u64, after_ms: u64, left: u64) -> u64 {
        let mut recv = RecvStream::new(room(0).now, FIRST);
        for round in 0..rounds {
            recv.received = recv.limit;
            recv.released = recv.received - left;
            recv.new_limit(room(round * 20 + after_ms));
            recv.told_at = room((round + 1) * 20).now;
        }
        recv.window
    }

    #[test]
    fn a_window_grows_while_the_peer_waits_for_it_and_the_application_takes_what_comes() {
        assert_eq!(window_after(1, 5, 0), 2 * FIRST);
        assert_eq!(window_after(2, 5, 0), 4 * FIRST);
        assert_eq!(window_after(9, 5, 0), 4 * FIRST);
        // It may have been used up only because more was told of.
        assert_eq!(window_after(9, 15, 0), FIRST);
        // The application is behind.
        assert_eq!(window_after(9, 5, FIRST / 2), FIRST);
    }

    #[test]
    fn where_streams_hold_much_a_window_stays_as_it_is() {
        let mut recv = RecvStream::new(room(0).now, FIRST);
        recv.received = FIRST;
        recv.released = FIRST;
        let none = WindowRoom { most: 0, ..room(5) };
        assert_eq!(recv.new_limit(none), Some(2 * FIRST));
        assert_eq!(recv.window, FIRST);
    }
}
