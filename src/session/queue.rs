//! Messages that were received and wait to be taken.

use core::mem;
use std::collections::VecDeque;

use bytes::Bytes;

use super::stream::Message;
use crate::wire::{RecordKind, Run};

/// Messages of a stream, in the order in which they came. Those that a block had one after another stay as they were in it until each is taken: to
/// hand on a thousand of them costs as much as one.
#[derive(Clone, Debug, Default)]
pub struct MessageQueue {
    entries: VecDeque<Entry>,
    messages: usize,
    replies: usize,
}

#[derive(Clone, Debug)]
enum Entry {
    One(Message),
    /// Never empty.
    Run(Run),
}

impl Entry {
    const fn messages(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Run(run) => run.messages(),
        }
    }

    fn charge(&self) -> usize {
        match self {
            Self::One(message) => message.charge(),
            Self::Run(run) => run.charge(),
        }
    }

    const fn kind(&self) -> RecordKind {
        match self {
            Self::One(message) => message.kind,
            Self::Run(_) => RecordKind::Message,
        }
    }

    const fn is_reply(&self) -> bool {
        matches!(self.kind(), RecordKind::Reply { .. })
    }
}

impl MessageQueue {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            messages: 0,
            replies: 0,
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

    /// Bytes of the stream's window that they take together: [`Message::charge`].
    pub fn charge(&self) -> usize {
        self.entries.iter().map(Entry::charge).sum()
    }

    /// Takes the next message.
    #[expect(
        clippy::inline_always,
        reason = "each message is moved from call to call: a tenth of what it takes (docs/benchmarks.md)"
    )]
    #[inline(always)]
    pub fn pop_front(&mut self) -> Option<Message> {
        match self.entries.front_mut()? {
            Entry::Run(run) => {
                let payload = run.pop_front()?;
                if run.messages() == 0 {
                    self.entries.pop_front();
                }
                self.messages -= 1;
                let kind = RecordKind::Message;
                Some(Message { payload, kind })
            }
            Entry::One(_) => self.pop_one(),
        }
    }

    fn pop_one(&mut self) -> Option<Message> {
        match self.pop_entry()? {
            Entry::One(message) => Some(message),
            Entry::Run(_) => None,
        }
    }

    fn pop_entry(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.messages -= entry.messages();
        self.replies -= usize::from(entry.is_reply());
        Some(entry)
    }

    /// Appends a message.
    pub fn push_back(&mut self, message: Message) {
        self.push_entry(Entry::One(message));
    }

    /// .. and those that followed it in its block.
    pub(super) fn push_run(&mut self, run: Run) {
        if run.messages() > 0 {
            self.push_entry(Entry::Run(run));
        }
    }

    fn push_entry(&mut self, entry: Entry) {
        self.messages += entry.messages();
        self.replies += usize::from(entry.is_reply());
        self.entries.push_back(entry);
    }

    /// Moves all messages of `other` behind those that are here.
    pub fn append(&mut self, other: &mut Self) {
        if self.is_empty() {
            // With the memory that it had.
            mem::swap(self, other);
        } else {
            self.entries.append(&mut other.entries);
            self.messages += mem::take(&mut other.messages);
            self.replies += mem::take(&mut other.replies);
        }
    }

    /// Drops all messages.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.messages = 0;
        self.replies = 0;
    }

    /// What the next message is.
    pub fn front_kind(&self) -> Option<RecordKind> {
        self.entries.front().map(Entry::kind)
    }

    /// The last `messages` hold the memory of their block no longer; they begin where an entry does.
    pub(super) fn copy_last(&mut self, mut messages: usize) {
        for entry in self.entries.iter_mut().rev() {
            let Some(before) = messages.checked_sub(entry.messages()) else {
                break;
            };
            messages = before;
            match entry {
                Entry::One(message) => message.payload = Bytes::copy_from_slice(&message.payload),
                Entry::Run(run) => run.copy(),
            }
        }
    }
}

#[cfg(feature = "transport")]
impl Entry {
    fn payload(&self) -> usize {
        match self {
            Self::One(message) => message.payload.len(),
            Self::Run(run) => run.payload(),
        }
    }
}

#[cfg(feature = "transport")]
impl MessageQueue {
    /// Moves messages from the front to the end of `into` until there are so many of them, or bytes, those of one block together, and none that `stops`
    /// are moved; what they take of the window.
    pub(crate) fn move_front(
        &mut self,
        into: &mut Self,
        (most, most_bytes): (usize, usize),
        stops: impl Fn(RecordKind) -> bool,
    ) -> usize {
        let (mut messages, mut bytes, mut charge) = (0, 0, 0);
        while messages < most && bytes < most_bytes {
            let next = self.front_kind().filter(|kind| !stops(*kind));
            let Some(entry) = next.and_then(|_| self.pop_entry()) else {
                break;
            };
            messages += entry.messages();
            bytes += entry.payload();
            charge += entry.charge();
            into.push_entry(entry);
        }
        charge
    }

    /// Takes the replies out: at the cost of what has come since the first of them.
    pub(crate) fn take_replies(&mut self, mut each: impl FnMut(u64, Message)) {
        let (mut first, mut left) = (self.entries.len(), self.replies);
        while left > 0 && first > 0 {
            first -= 1;
            left -= usize::from(self.entries[first].is_reply());
        }
        for entry in self.entries.split_off(first) {
            self.messages -= entry.messages();
            match entry {
                Entry::One(message) => match message.kind {
                    RecordKind::Reply { correlation } => each(correlation, message),
                    _ => self.push_back(message),
                },
                Entry::Run(run) => self.push_run(run),
            }
        }
        self.replies = 0;
    }
}

impl Iterator for MessageQueue {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        self.pop_front()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.messages, Some(self.messages))
    }
}

impl Extend<Message> for MessageQueue {
    fn extend<T: IntoIterator<Item = Message>>(&mut self, messages: T) {
        messages
            .into_iter()
            .for_each(|message| self.push_back(message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{RecordWriter, StreamId};

    fn message(payload: &'static str, kind: RecordKind) -> Message {
        let payload = Bytes::from_static(payload.as_bytes());
        Message { payload, kind }
    }

    /// A queue of messages, of which those between equal signs are a run.
    fn queue(text: &'static str) -> MessageQueue {
        let mut queue = MessageQueue::new();
        for (at, part) in text.split('=').enumerate() {
            let words = part.split_whitespace();
            if at % 2 == 0 {
                queue.extend(words.map(|word| {
                    let kind = match word.strip_prefix("re") {
                        Some(correlation) => RecordKind::Reply {
                            correlation: correlation.parse().expect("a number"),
                        },
                        None => RecordKind::Message,
                    };
                    message(word, kind)
                }));
                continue;
            }
            let stream = StreamId::new(0).expect("in range");
            let (mut writer, mut out) = (RecordWriter::default(), Vec::new());
            for word in core::iter::once("").chain(words) {
                writer.put_whole(&mut out, stream, RecordKind::Message, Some(word.len()));
                out.extend_from_slice(word.as_bytes());
            }
            let mut plain = Bytes::from(out).slice(3..);
            queue.push_run(Run::take_from(&mut plain, 100, u64::MAX));
            assert!(plain.is_empty());
        }
        queue
    }

    fn text(queue: MessageQueue) -> String {
        let (count, charge) = (queue.len(), queue.charge());
        let messages: Vec<_> = queue.collect();
        assert_eq!(messages.len(), count);
        assert_eq!(messages.iter().map(Message::charge).sum::<usize>(), charge);
        let words = messages
            .iter()
            .map(|it| core::str::from_utf8(&it.payload).expect("text"));
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn messages_come_out_in_order_one_by_one_or_many_at_once() {
        assert_eq!(
            text(queue("a b =c d e= f =g= =h i= j")),
            "a b c d e f g h i j"
        );
        let mut all = MessageQueue::new();
        all.append(&mut queue("=a b="));
        all.append(&mut queue("c =d="));
        all.append(&mut MessageQueue::new());
        assert_eq!(text(all.clone()), "a b c d");
        all.copy_last(2);
        all.copy_last(0);
        assert_eq!(text(all.clone()), "a b c d");
        all.clear();
        assert!(all.is_empty() && all.pop_front().is_none());
    }

    #[cfg(feature = "transport")]
    #[test]
    fn replies_are_taken_out_and_the_rest_stays_in_order() {
        let mut queue = queue("a re7 =b c= re8 d");
        let mut replies = Vec::new();
        queue.take_replies(|correlation, message| {
            replies.push((correlation, message.payload));
        });
        assert_eq!(replies, [(7, "re7".into()), (8, "re8".into())]);
        queue.take_replies(|_, _| unreachable!("there are no more"));
        queue.push_back(message("re9", RecordKind::Reply { correlation: 9 }));
        queue.take_replies(|correlation, _| assert_eq!(correlation, 9));
        assert_eq!(text(queue), "a b c d");
    }

    #[cfg(feature = "transport")]
    #[test]
    fn who_takes_many_is_given_those_of_one_block_together() {
        let moved = |most, bytes| {
            let (mut from, mut into) = (queue("a =b c d= e re1 f"), MessageQueue::new());
            let is_reply = |kind| matches!(kind, RecordKind::Reply { .. });
            let charge = from.move_front(&mut into, (most, bytes), is_reply);
            assert_eq!(into.charge(), charge);
            let moved = text(into);
            assert_eq!(
                moved.len() + text(from).len(),
                "a b c d e re1 f".len() - usize::from(!moved.is_empty())
            );
            moved
        };
        assert_eq!(moved(1, 100), "a");
        assert_eq!(moved(2, 100), "a b c d");
        assert_eq!(moved(100, 2), "a b c d");
        assert_eq!(moved(100, 100), "a b c d e");
        assert_eq!(moved(0, 100), "");
    }
}
