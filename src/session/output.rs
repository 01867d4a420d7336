//! Bytes on their way to the socket: small pieces in one reused arena, large ones shared or owned.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::Bytes;

/// A piece of output.
#[derive(Debug)]
enum Chunk {
    /// The next so many bytes of the arena.
    Small(usize),
    /// A payload as the application gave it.
    Shared(Bytes),
    /// An encoded body or plain block; its buffer goes back to the pool.
    Owned { buffer: Vec<u8>, end: usize },
}

impl Chunk {
    fn len(&self) -> usize {
        match self {
            Self::Small(len) => *len,
            Self::Shared(bytes) => bytes.len(),
            Self::Owned { end, .. } => *end,
        }
    }
}

/// The queue of bytes that the driver writes.
#[derive(Debug, Default)]
pub(super) struct Output {
    arena: Vec<u8>,
    arena_head: usize,
    chunks: VecDeque<Chunk>,
    /// Bytes of the front chunk that are written already.
    front_written: usize,
    len: usize,
    queued_total: u64,
    pool: Vec<Vec<u8>>,
}

/// Written bytes that may stay at the front of the arena. Arbitrary: moving the rest costs less.
const ARENA_SLACK: usize = 64 << 10;
/// Buffers kept for reuse: one being encoded, one on its way out, and one spare.
const POOL: usize = 3;

impl Output {
    /// Bytes not yet written.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Bytes queued since the connection began: the position that the next byte will have.
    pub(super) const fn position(&self) -> u64 {
        self.queued_total
    }

    /// Lets `put` append small pieces to the arena.
    pub(super) fn put_small<T>(&mut self, put: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let before = self.arena.len();
        let result = put(&mut self.arena);
        let added = self.arena.len() - before;
        if added > 0 {
            match self.chunks.back_mut() {
                Some(Chunk::Small(len)) => *len += added,
                _ => self.chunks.push_back(Chunk::Small(added)),
            }
            self.count(added);
        }
        result
    }

    pub(super) fn put_shared(&mut self, bytes: Bytes) {
        self.count(bytes.len());
        self.chunks.push_back(Chunk::Shared(bytes));
    }

    pub(super) fn put_owned(&mut self, buffer: Vec<u8>, end: usize) {
        debug_assert!(end <= buffer.len(), "the end lies within the buffer");
        self.count(end);
        self.chunks.push_back(Chunk::Owned { buffer, end });
    }

    fn count(&mut self, added: usize) {
        self.len += added;
        self.queued_total += added as u64;
    }

    /// Fills `slices` with what is to be written next and returns how many were filled.
    pub(super) fn fill_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut arena = &self.arena[self.arena_head..];
        let mut skip = self.front_written;
        let mut filled = 0;
        for (slice, chunk) in slices.iter_mut().zip(&self.chunks) {
            let bytes = match chunk {
                Chunk::Small(len) => {
                    let (bytes, rest) = arena.split_at(*len);
                    arena = rest;
                    bytes
                }
                Chunk::Shared(bytes) => bytes,
                Chunk::Owned { buffer, end } => &buffer[..*end],
            };
            *slice = IoSlice::new(&bytes[skip..]);
            skip = 0;
            filled += 1;
        }
        filled
    }

    /// Appends what is not written yet.
    pub(super) fn copy_into(&self, into: &mut Vec<u8>) {
        let mut slices = vec![IoSlice::new(&[]); self.chunks.len()];
        self.fill_slices(&mut slices);
        for slice in slices {
            into.extend_from_slice(&slice);
        }
    }

    /// Drops `written` bytes from the front.
    pub(super) fn advance(&mut self, written: usize) {
        assert!(
            written <= self.len,
            "more bytes reported written ({written}) than there were ({})",
            self.len
        );
        self.len -= written;
        let mut rest = self.front_written + written;
        while let Some(chunk) = self.chunks.front() {
            let len = chunk.len();
            if rest < len {
                break;
            }
            rest -= len;
            match self.chunks.pop_front() {
                Some(Chunk::Small(len)) => self.arena_head += len,
                Some(Chunk::Owned { buffer, .. }) => self.recycle(buffer),
                Some(Chunk::Shared(_)) | None => {}
            }
        }
        self.front_written = rest;
        if self.chunks.is_empty() {
            self.arena.clear();
            self.arena_head = 0;
        } else if self.arena_head > ARENA_SLACK {
            self.arena.drain(..self.arena_head);
            self.arena_head = 0;
        }
    }

    /// A buffer from the pool; its content is unspecified.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        self.pool.pop().unwrap_or_default()
    }

    pub(super) fn recycle(&mut self, buffer: Vec<u8>) {
        if self.pool.len() < POOL {
            self.pool.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(output: &Output) -> Vec<u8> {
        let mut bytes = Vec::new();
        output.copy_into(&mut bytes);
        bytes
    }

    #[test]
    fn bytes_leave_in_order_however_they_are_written() {
        for step in 1..20 {
            let mut output = Output::default();
            output.put_small(|out| out.extend_from_slice(b"head"));
            output.put_small(|out| out.extend_from_slice(b"er"));
            output.put_shared(Bytes::from_static(b"payload"));
            output.put_owned(b"body, spare".to_vec(), 4);
            output.put_small(|out| out.extend_from_slice(b"end"));
            let mut seen = Vec::new();
            while output.len() > 0 {
                let bytes = gather(&output);
                assert_eq!(bytes.len(), output.len());
                let step = step.min(bytes.len());
                seen.extend_from_slice(&bytes[..step]);
                output.advance(step);
            }
            assert_eq!(seen, b"headerpayloadbodyend", "step {step}");
            assert_eq!(output.position(), 20);
        }
    }
}
