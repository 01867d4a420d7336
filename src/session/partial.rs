//! A message of which fragments are here.

use bytes::{Bytes, BytesMut};

use crate::wire::{MESSAGE_CHARGE, RecordKind, WireError};

/// What is reserved for a message with its first fragment: only what has come says how much a peer means to send.
const FIRST_CAPACITY: usize = 4;

fn first_capacity(fragment: usize, message_len: u64) -> usize {
    let most = fragment.saturating_mul(FIRST_CAPACITY);
    usize::try_from(message_len).map_or(most, |len| len.min(most))
}

#[derive(Debug)]
pub(super) struct Partial {
    pub(super) kind: RecordKind,
    pub(super) message_len: u64,
    /// Payload bytes that have come.
    came: u64,
    /// .. as they are kept; `None` where nobody wants the message.
    kept: Option<BytesMut>,
}

impl Partial {
    /// Nothing has come yet of a message of so many bytes.
    pub(super) fn new(kind: RecordKind, message_len: u64) -> Self {
        Self {
            kind,
            message_len,
            came: 0,
            kept: Some(BytesMut::new()),
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
            if kept.is_empty() {
                kept.reserve(first_capacity(payload.len(), self.message_len));
            }
            kept.extend_from_slice(payload);
        }
        Ok(())
    }

    /// The message; empty where nobody wants it.
    pub(super) fn join(self) -> Bytes {
        self.kept.map(BytesMut::freeze).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_only_announced_takes_little_memory() {
        assert_eq!(first_capacity(64 << 10, 256 << 10), 256 << 10);
        assert_eq!(first_capacity(64 << 10, 70_000), 70_000);
        assert_eq!(first_capacity(1, u64::MAX), FIRST_CAPACITY);
        assert_eq!(first_capacity(usize::MAX, u64::MAX), usize::MAX);
    }
}
