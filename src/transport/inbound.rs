//! What has come on a stream and its application has not taken yet, and who waits for it.

use std::sync::Mutex;

use super::error::RecvError;
use super::shared::lock;
use crate::session::{Message, MessageQueue};
use crate::wire::{Part, RecordKind};

/// What has come on a stream and was not taken yet.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    pub(super) queue: MessageQueue,
    /// What was taken and given back, before all else; it is released already.
    returned: MessageQueue,
    pub(super) ended: Option<Result<(), RecvError>>,
    /// How many wait for a message.
    pub(super) receiving: usize,
    /// Payload bytes taken by the application and not yet released.
    pub(super) unreleased: usize,
    /// The message in front is with a [`MessageReader`](super::MessageReader).
    pub(super) is_read: bool,
    /// .. or was, and nobody wants the rest of it.
    pub(super) skips: bool,
    /// It lacks credit of the connection: the session is told at once what is taken and that somebody waits.
    pub(super) is_starved: bool,
}

/// A message, and how many bytes to release with it, if that is worth it by now.
#[derive(Debug)]
pub(super) struct Popped {
    pub(super) message: Message,
    pub(super) release: Option<usize>,
}

/// What there is for who begins to read a message.
#[derive(Debug)]
pub(super) enum Begun {
    /// All of it.
    Whole(Popped),
    /// It comes in parts, which are now his.
    InParts,
}

impl Inbound {
    /// The next message that is not in parts.
    #[expect(
        clippy::inline_always,
        reason = "each message is moved from call to call: a tenth of what it takes (docs/benchmarks.md)"
    )]
    #[inline(always)]
    pub(super) fn pop_whole(&mut self, release_at: u64) -> Option<Popped> {
        if let Some(message) = self.returned.pop_front() {
            let release = None;
            return Some(Popped { message, release });
        }
        if self.is_read || self.part_in_front().is_some() {
            return None;
        }
        self.pop(release_at)
    }

    /// The next part of the message that is read.
    pub(super) fn pop_part(&mut self, release_at: u64) -> Option<(Part, Popped)> {
        let part = self.part_in_front()?;
        self.is_read = part == Part::More;
        Some((part, self.pop(release_at)?))
    }

    pub(super) fn part_in_front(&self) -> Option<Part> {
        part_of(self.queue.front_kind()?)
    }

    /// Drops what is here of a message that nobody wants; how much that was.
    pub(super) fn skip(&mut self) -> usize {
        let mut dropped = 0;
        while self.skips {
            let Some(part) = self.part_in_front() else {
                break;
            };
            self.skips = part == Part::More;
            dropped += self.queue.pop_front().map_or(0, |message| message.charge());
        }
        dropped
    }

    #[expect(
        clippy::inline_always,
        reason = "each message is moved from call to call: a tenth of what it takes (docs/benchmarks.md)"
    )]
    #[inline(always)]
    fn pop(&mut self, release_at: u64) -> Option<Popped> {
        let message = self.queue.pop_front()?;
        let release = self.on_taken(message.charge(), release_at);
        Some(Popped { message, release })
    }

    /// Messages that take so much of the window were taken; what is to be released, if that is worth it by now.
    fn on_taken(&mut self, charge: usize, release_at: u64) -> Option<usize> {
        self.unreleased += charge;
        let worth_it = self.is_starved || self.unreleased as u64 >= release_at;
        worth_it.then(|| core::mem::take(&mut self.unreleased))
    }

    /// Moves messages that are not in parts to the end of `into`, about `most` and so many bytes, and says what is to be released.
    pub(super) fn move_whole(
        &mut self,
        into: &mut MessageQueue,
        most: (usize, usize),
        release_at: u64,
    ) -> Option<usize> {
        if !self.returned.is_empty() {
            into.append(&mut self.returned);
            return None;
        }
        if self.is_read {
            return None;
        }
        let is_part = |kind| part_of(kind).is_some();
        let charge = self.queue.move_front(into, most, is_part);
        if charge == 0 {
            // The driver need not be told, however starved the stream is.
            return None;
        }
        self.on_taken(charge, release_at)
    }

    /// Messages that were taken come before all others again.
    pub(super) fn give_back(&mut self, mut messages: MessageQueue) {
        messages.append(&mut self.returned);
        self.returned = messages;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.returned.is_empty()
    }

    /// Whether a message is here for somebody who waits. Who counts himself after this was asked looks at the queue
    /// once more.
    pub(super) fn wakes_receiver(&self) -> bool {
        let is_there = !self.returned.is_empty() || !self.queue.is_empty() && !self.is_read;
        is_there && self.receiving > 0
    }
}

const fn part_of(kind: RecordKind) -> Option<Part> {
    match kind {
        RecordKind::Part(part) => Some(part),
        RecordKind::Message | RecordKind::Request { .. } | RecordKind::Reply { .. } => None,
    }
}

/// Counts one who waits for a message, for as long as it lives.
#[derive(Debug)]
pub(super) struct Waiting<'a>(&'a Mutex<Inbound>);

impl<'a> Waiting<'a> {
    pub(super) fn new(inbound: &'a Mutex<Inbound>) -> Self {
        lock(inbound).receiving += 1;
        Self(inbound)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        lock(self.0).receiving -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_at_once_is_released_and_nothing_where_nothing_was() {
        let message = |kind| Message {
            payload: "four".into(),
            kind,
        };
        let mut inbound = Inbound {
            is_starved: true,
            ..Inbound::default()
        };
        let mut into = MessageQueue::new();
        let take = |inbound: &mut Inbound, into: &mut _| inbound.move_whole(into, (9, 99), 1000);
        assert_eq!(take(&mut inbound, &mut into), None);
        let part = RecordKind::Part(Part::Last);
        let kinds = [RecordKind::Message, RecordKind::Message, part];
        inbound.queue.extend(kinds.map(message));
        assert_eq!(take(&mut inbound, &mut into), Some(into.charge()));
        assert_eq!((into.len(), take(&mut inbound, &mut into)), (2, None));
        // What was given back is released already.
        inbound.give_back(into);
        let mut again = MessageQueue::new();
        assert_eq!((take(&mut inbound, &mut again), again.len()), (None, 2));
        assert!(inbound.part_in_front().is_some());
    }
}
