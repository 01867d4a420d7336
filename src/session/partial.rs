//! A message of which fragments are here.
//!
//! Each fragment is copied to its place at once. How long the message is to be is only announced: what is reserved grows with what has
//! come, in few and long steps, and ends with just what the message needs. (To keep fragments as they came until a quarter was here, so that each byte
//! is copied once whatever the allocator does, was measured: docs/benchmarks.md, "Large messages in fragments".)

use bytes::Bytes;

use crate::wire::{MESSAGE_CHARGE, RecordKind, WireError};

/// So many times what has come may be reserved: only that says how much a peer means to send. A longer step moves less of the message: with
/// this one seven twelfths at most in all, and nothing is copied by that where the allocator moves pages or has room behind: glibc's moves those of 128 KiB
/// and more, or, once a longer piece was freed, of more than that had (32 MiB at most); shorter ones it copies if something else stands behind them.
const GROWTH: usize = 4;

/// What is reserved for a message of which so much has come.
fn earned(came: usize, message_len: u64) -> usize {
    let most = came.saturating_mul(GROWTH);
    usize::try_from(message_len).map_or(most, |len| len.min(most))
}

#[derive(Debug)]
pub(super) struct Partial {
    pub(super) kind: RecordKind,
    pub(super) message_len: u64,
    /// Payload bytes that have come.
    came: u64,
    /// .. as they are kept; `None` where nobody wants the message.
    kept: Option<Vec<u8>>,
}

impl Partial {
    /// Nothing has come yet of a message of so many bytes.
    pub(super) fn new(kind: RecordKind, message_len: u64) -> Self {
        Self {
            kind,
            message_len,
            came: 0,
            kept: Some(Vec::new()),
        }
    }

    /// Nobody wants the message: what has come is dropped, and what comes is only counted.
    pub(super) fn drop_bytes(&mut self) {
        self.kept = None;
    }

    /// What it takes of the window and is kept.
    pub(super) const fn held(&self) -> u64 {
        match &self.kept {
            Some(_) => self.came + MESSAGE_CHARGE,
            None => 0,
        }
    }

    /// Appends a fragment.
    ///
    /// # Errors
    ///
    /// It is one too many or too few.
    pub(super) fn push(&mut self, payload: &[u8], more: bool) -> Result<(), WireError> {
        self.came = self.came.saturating_add(payload.len() as u64);
        if self.came > self.message_len || (!more && self.came < self.message_len) {
            return Err(WireError::Unexpected {
                what: "fragments longer or shorter than their message",
            });
        }
        if let Some(kept) = &mut self.kept {
            let len = kept.len() + payload.len();
            let earned = earned(len, self.message_len);
            // The last step is made as soon as it may be: later there would be more to move.
            let is_all = earned as u64 == self.message_len;
            if len > kept.capacity() || is_all && earned > kept.capacity() {
                kept.reserve_exact(earned - kept.len());
            }
            kept.extend_from_slice(payload);
        }
        Ok(())
    }

    /// The message; empty where nobody wants it.
    pub(super) fn join(self) -> Bytes {
        self.kept.map(Bytes::from).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 64 << 10;

    fn partial(len: usize) -> Partial {
        Partial::new(RecordKind::Message, len as u64)
    }

    fn capacity(partial: &Partial) -> usize {
        partial.kept.as_ref().map_or(0, Vec::capacity)
    }

    #[test]
    fn what_is_only_announced_takes_little_memory() {
        assert_eq!(earned(64 << 10, 256 << 10), 256 << 10);
        assert_eq!(earned(64 << 10, 70_000), 70_000);
        assert_eq!(earned(1, u64::MAX), GROWTH);
        assert_eq!(earned(usize::MAX, u64::MAX), usize::MAX);
        let mut partial = Partial::new(RecordKind::Message, u64::MAX);
        let mut came = 0;
        for len in [1, 1, 5, 100, 16 << 10, 1, 3000, BLOCK, 1, 20 * BLOCK] {
            partial.push(&vec![1; len], true).expect("it fits");
            came += len;
            assert!(capacity(&partial) <= GROWTH * came, "{came}");
            assert_eq!(partial.held(), came as u64 + MESSAGE_CHARGE);
        }
    }

    #[test]
    fn a_message_is_moved_seldom_and_ends_in_the_memory_that_it_needs() {
        for len in [2 * BLOCK, 5 * BLOCK + 1, 77 * BLOCK, 300 * BLOCK + 9] {
            let message: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let (mut partial, mut moved) = (partial(len), 0);
            for at in (0..len).step_by(BLOCK) {
                let before = (at, capacity(&partial));
                let fragment = &message[at..len.min(at + BLOCK)];
                let pushed = partial.push(fragment, at + BLOCK < len);
                pushed.expect("it fits");
                if capacity(&partial) != before.1 {
                    moved += before.0;
                }
            }
            assert!(moved <= len * 7 / 12, "{moved} of {len}");
            assert_eq!(capacity(&partial), len);
            assert_eq!(partial.join(), message);
        }
    }

    #[test]
    fn nothing_is_kept_of_what_nobody_wants() {
        let mut partial = partial(3 * BLOCK);
        partial.push(&[1; 100], true).expect("it fits");
        partial.drop_bytes();
        partial.push(&[1; 1000], true).expect("it fits");
        assert_eq!((partial.held(), capacity(&partial)), (0, 0));
        let more = partial.push(&vec![1; 3 * BLOCK], true);
        assert!(more.is_err(), "it would be longer than it was to be");
        assert!(partial.join().is_empty());
    }
}
