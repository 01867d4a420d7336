//! Messages that are to be sent, and wait to be put into a block.

use core::iter;
use core::option;
use std::collections::VecDeque;

use bytes::Bytes;

use crate::wire::{MESSAGE_CHARGE, Packed, Payloads, RecordKind};

/// Payloads up to this length are copied, into blocks and where they wait behind others, longer ones go out as they are: below it
/// the copy costs less than one more slice in the write. Arbitrary within 512 to 4096.
pub(super) const MAX_COPIED: usize = 1024;
/// Bytes of records in one piece. Beyond some dozens of messages they cost no less each; a block of the usual length takes four, and has room
/// for another message before them.
const MAX_PACKED: usize = (16 << 10) - 512;
/// The first room for records, in messages as long as the first one: many streams may have two or three that wait. Arbitrary.
const FIRST_ROOM: usize = 8;

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its bytes.
    pub payload: Bytes,
    /// Whether it is a request or a reply.
    pub kind: RecordKind,
    /// Whether it goes as [`Session::send_sensitive`](super::Session::send_sensitive) says.
    pub sensitive: bool,
}

impl Outgoing {
    /// A message that is neither request nor reply, nor a part, nor sensitive.
    pub const fn new(payload: Bytes) -> Self {
        Self {
            payload,
            kind: RecordKind::Message,
            sensitive: false,
        }
    }

    /// Bytes of the stream's queue that it takes: [`SessionConfig::send_queue`](super::SessionConfig::send_queue).
    pub fn queued_len(&self) -> usize {
        self.payload.len() + MESSAGE_CHARGE as usize
    }

    fn may_be_packed(&self) -> bool {
        matches!(self.kind, RecordKind::Message)
            && !self.sensitive
            && self.payload.len() <= MAX_COPIED
    }
}

/// Messages to be sent on a stream, in their order. Short ones behind others are copied together, as a block has them: to hand on a hundred
/// of them costs as much as one.
#[derive(Clone, Debug, Default)]
pub struct OutgoingQueue {
    entries: VecDeque<Entry>,
    messages: usize,
    /// Bytes that likely follow the next message that comes to wait behind another.
    expected: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Entry {
    One(Outgoing),
    /// Never empty.
    Packed(Packed),
}

impl Entry {
    pub(super) const fn messages(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Packed(packed) => packed.messages(),
        }
    }

    /// The longest payload.
    pub(super) fn longest(&self) -> usize {
        match self {
            Self::One(message) => message.payload.len(),
            Self::Packed(packed) => packed.longest(),
        }
    }

    pub(super) fn queued_len(&self) -> usize {
        match self {
            Self::One(message) => message.queued_len(),
            Self::Packed(packed) => packed.charge(),
        }
    }

    pub(super) const fn kind(&self) -> RecordKind {
        match self {
            Self::One(message) => message.kind,
            Self::Packed(_) => RecordKind::Message,
        }
    }

    pub(super) const fn is_sensitive(&self) -> bool {
        match self {
            Self::One(message) => message.sensitive,
            Self::Packed(_) => false,
        }
    }

    pub(super) fn payloads(&self) -> EntryPayloads<'_> {
        let (one, packed) = match self {
            Self::One(message) => (Some(&*message.payload), None),
            Self::Packed(packed) => (None, Some(packed.payloads())),
        };
        one.into_iter().chain(packed.into_iter().flatten())
    }
}

type EntryPayloads<'a> =
    iter::Chain<option::IntoIter<&'a [u8]>, iter::Flatten<option::IntoIter<Payloads<'a>>>>;

impl OutgoingQueue {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            messages: 0,
            expected: 0,
        }
    }

    /// How many messages there are.
    pub const fn len(&self) -> usize {
        self.messages
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Bytes of the stream's queue that they take together: [`Outgoing::queued_len`].
    pub fn queued_len(&self) -> usize {
        self.entries.iter().map(Entry::queued_len).sum()
    }

    /// Appends a message.
    #[inline]
    pub fn push_back(&mut self, message: Outgoing) {
        self.messages += 1;
        if message.may_be_packed() {
            if let Some(Entry::Packed(packed)) = self.entries.back_mut() {
                if packed.plain_len() + message.payload.len() < MAX_PACKED
                    && packed.push(&message.payload)
                {
                    return;
                }
            }
            if !self.entries.is_empty() && self.begin_packed(&message) {
                return;
            }
        }
        self.entries.push_back(Entry::One(message));
    }

    /// A short message goes behind another like it.
    #[inline(never)]
    fn begin_packed(&mut self, message: &Outgoing) -> bool {
        let room = match self.entries.back() {
            Some(Entry::One(last)) if last.may_be_packed() => {
                let expected = core::mem::take(&mut self.expected);
                expected.max(FIRST_ROOM * (message.payload.len() + 3))
            }
            // It is full.
            Some(Entry::Packed(_)) => MAX_PACKED,
            _ => return false,
        };
        let mut packed = Packed::with_capacity(room.min(MAX_PACKED));
        let is_packed = packed.push(&message.payload);
        if is_packed {
            self.entries.push_back(Entry::Packed(packed));
        }
        is_packed
    }

    /// Takes the next message.
    pub fn pop_front(&mut self) -> Option<Outgoing> {
        self.separate_front();
        let Some(Entry::One(message)) = self.entries.pop_front() else {
            return None;
        };
        self.messages -= 1;
        Some(message)
    }

    /// A message comes before all others.
    pub(super) fn push_front(&mut self, message: Outgoing) {
        self.messages += 1;
        self.entries.push_front(Entry::One(message));
    }

    pub(super) fn front_entry(&self) -> Option<&Entry> {
        self.entries.front()
    }

    /// What is in front, and whether what comes behind it may be in the same block.
    pub(super) fn front_entry_mut(&mut self) -> Option<(&mut Entry, bool)> {
        let next = self.entries.get(1).map(Entry::is_sensitive);
        let front = self.entries.front_mut()?;
        let is_followed = next == Some(front.is_sensitive());
        Some((front, is_followed))
    }

    /// So many messages of what is in front were taken.
    pub(super) fn on_front_taken(&mut self, messages: usize) {
        self.messages -= messages;
        let is_left = matches!(self.entries.front(), Some(Entry::Packed(it)) if it.messages() > 0);
        if !is_left {
            self.entries.pop_front();
        }
    }

    /// The next message by itself, and whether what comes behind it may be in the same block.
    pub(super) fn front(&mut self) -> Option<(&Outgoing, bool)> {
        self.separate_front();
        match self.front_entry_mut()? {
            (Entry::One(message), is_followed) => Some((message, is_followed)),
            (Entry::Packed(_), _) => None,
        }
    }

    /// Has the next message stand by itself.
    #[inline]
    fn separate_front(&mut self) {
        if matches!(self.entries.front(), Some(Entry::Packed(_))) {
            self.separate_packed();
        }
    }

    #[inline(never)]
    fn separate_packed(&mut self) {
        let Some(Entry::Packed(packed)) = self.entries.front_mut() else {
            return;
        };
        let Some(payload) = packed.pop_front() else {
            return;
        };
        if packed.messages() == 0 {
            self.entries.pop_front();
        }
        self.entries.push_front(Entry::One(Outgoing::new(payload)));
    }

    /// The next message's length.
    pub(crate) fn front_len(&self) -> Option<usize> {
        match self.entries.front()? {
            Entry::One(message) => Some(message.payload.len()),
            Entry::Packed(packed) => packed.payloads().next().map(<[u8]>::len),
        }
    }

    pub(super) fn entry(&self, at: usize) -> Option<&Entry> {
        self.entries.get(at)
    }

    /// The first entries.
    pub(super) fn entries(&self, most: usize) -> impl Iterator<Item = &Entry> + Clone {
        self.entries.iter().take(most)
    }

    /// Has each message of an entry stand by itself.
    pub(super) fn unpack(&mut self, at: usize) {
        let mut behind = self.entries.split_off(at);
        if let Some(Entry::Packed(packed)) = behind.front_mut() {
            let ones = iter::from_fn(|| packed.pop_front());
            self.entries
                .extend(ones.map(|payload| Entry::One(Outgoing::new(payload))));
            behind.pop_front();
        }
        self.entries.append(&mut behind);
    }

    /// Moves so many entries from the front of `other` behind those that are here.
    pub(super) fn append_front(&mut self, other: &mut Self, entries: usize) {
        if self.entries.is_empty() && entries == other.entries.len() {
            core::mem::swap(self, other);
            return;
        }
        for entry in other.entries.drain(..entries) {
            self.messages += entry.messages();
            other.messages -= entry.messages();
            self.entries.push_back(entry);
        }
    }

    /// The payloads in front of the first sensitive one.
    pub(super) fn open_payloads(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let open = self.entries.iter().take_while(|it| !it.is_sensitive());
        open.flat_map(Entry::payloads)
    }
}

#[cfg(feature = "transport")]
impl OutgoingQueue {
    /// So many bytes of messages likely come: room for them need not grow.
    pub(crate) const fn expect(&mut self, bytes: usize) {
        self.expected = bytes;
    }

    /// Moves messages from the front to the end of `into`, which may take `room` bytes of a queue, or the next one whatever its length if `takes_any`; how many bytes
    /// that were.
    pub(crate) fn move_fitting(
        &mut self,
        into: &mut Self,
        room: usize,
        mut takes_any: bool,
    ) -> usize {
        let (mut entries, mut moved) = (0, 0);
        while let Some(entry) = self.entries.get_mut(entries) {
            let (len, left) = (entry.queued_len(), room.saturating_sub(moved));
            if len > left && !(takes_any && entry.messages() == 1) {
                let Entry::Packed(packed) = entry else {
                    break;
                };
                let front = packed.front_while(packed.messages(), |before, len| {
                    let is_any = takes_any && before.messages == 0;
                    is_any || before.charge() + len + MESSAGE_CHARGE as usize <= left
                });
                if front.messages > 0 {
                    moved += front.charge();
                    let fitting = packed.split_off_front(front);
                    self.entries.insert(entries, Entry::Packed(fitting));
                    entries += 1;
                }
                break;
            }
            takes_any = false;
            moved += len;
            entries += 1;
        }
        into.append_front(self, entries);
        moved
    }
}

impl Extend<Outgoing> for OutgoingQueue {
    fn extend<T: IntoIterator<Item = Outgoing>>(&mut self, messages: T) {
        messages
            .into_iter()
            .for_each(|message| self.push_back(message));
    }
}

impl FromIterator<Outgoing> for OutgoingQueue {
    fn from_iter<T: IntoIterator<Item = Outgoing>>(messages: T) -> Self {
        let mut queue = Self::new();
        queue.extend(messages);
        queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len: usize) -> Outgoing {
        Outgoing::new(vec![len as u8; len].into())
    }

    fn random(rng: &mut fastrand::Rng) -> Outgoing {
        let len = if rng.u8(..10) == 0 {
            rng.usize(..4000)
        } else {
            rng.usize(..200)
        };
        let kind = match rng.u8(..20) {
            0 => RecordKind::Reply { correlation: 5 },
            _ => RecordKind::Message,
        };
        Outgoing {
            kind,
            sensitive: rng.u8(..20) == 0,
            ..message(len)
        }
    }

    fn lens(queue: &OutgoingQueue) -> Vec<usize> {
        let payloads = queue.entries.iter().flat_map(Entry::payloads);
        payloads.map(<[u8]>::len).collect()
    }

    #[test]
    fn messages_come_out_as_they_went_in() {
        let mut rng = fastrand::Rng::with_seed(7);
        let sent: Vec<_> = (0..2000).map(|_| random(&mut rng)).collect();
        let mut queue: OutgoingQueue = sent.iter().cloned().collect();
        assert!(
            queue.entries.len() < 1000,
            "{} entries",
            queue.entries.len()
        );
        let len: usize = sent.iter().map(Outgoing::queued_len).sum();
        assert_eq!((queue.len(), queue.queued_len()), (2000, len));
        let open = sent.iter().take_while(|it| !it.sensitive);
        assert!(queue.open_payloads().eq(open.map(|it| &*it.payload)));
        for (at, message) in sent.iter().enumerate() {
            assert_eq!(queue.front_len(), Some(message.payload.len()));
            if rng.bool() {
                let next = sent.get(at + 1).map(|it| it.sensitive);
                let expected = (message, next == Some(message.sensitive));
                assert_eq!(queue.front(), Some(expected));
            }
            assert_eq!(queue.pop_front().as_ref(), Some(message));
        }
        assert!(queue.is_empty() && queue.front_len().is_none() && queue.front().is_none());
    }

    #[test]
    fn one_message_alone_is_never_copied() {
        let mut queue = OutgoingQueue::new();
        let sent = message(100);
        queue.push_back(sent.clone());
        let taken = queue.pop_front().expect("it is there");
        assert_eq!(taken.payload.as_ptr(), sent.payload.as_ptr());
    }

    #[test]
    fn entries_are_moved_taken_apart_and_put_in_front() {
        let mut from = OutgoingQueue::from_iter([1, 2, 3, 2000, 4, 5, 6].map(message));
        from.unpack(1);
        assert_eq!(from.entries.len(), 6);
        from.unpack(0);
        assert_eq!(lens(&from), [1, 2, 3, 2000, 4, 5, 6]);
        let mut into = OutgoingQueue::new();
        into.append_front(&mut from, 2);
        assert_eq!((into.len(), from.len()), (2, 5));
        into.append_front(&mut from, 3);
        assert_eq!((lens(&into), from.len()), (vec![1, 2, 3, 2000, 4], 2));
        into.push_front(message(9));
        into.append_front(&mut from, 1);
        assert_eq!(
            (lens(&into), from.len()),
            (vec![9, 1, 2, 3, 2000, 4, 5, 6], 0)
        );
        let (front, _) = into.front().expect("it is there");
        assert_eq!(*front, message(9));
        assert_eq!(into.len(), 8);
    }
    #[cfg(feature = "transport")]
    #[test]
    fn what_fits_is_moved_and_the_first_whatever_its_length_if_wanted() {
        let charge = MESSAGE_CHARGE as usize;
        let moved = |room, takes_any| {
            let mut from = OutgoingQueue::from_iter([10, 20, 30, 2000].map(message));
            let mut into = OutgoingQueue::new();
            let bytes = from.move_fitting(&mut into, room, takes_any);
            assert_eq!(into.queued_len(), bytes);
            assert_eq!(from.len() + into.len(), 4);
            into.len()
        };
        assert_eq!(moved(2060 + 4 * charge, false), 4);
        assert_eq!(moved(2060 + 4 * charge - 1, false), 3);
        assert_eq!(moved(30 + 2 * charge, false), 2);
        assert_eq!(moved(30 + 2 * charge - 1, false), 1);
        assert_eq!((moved(9, false), moved(9, true)), (0, 1));
        assert_eq!(
            (moved(10 + charge, true), moved(30 + 2 * charge, true)),
            (1, 2)
        );
    }
}
