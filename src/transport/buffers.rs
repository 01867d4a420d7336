//! Buffers that connections of a node read into. One that nothing comes on has none.

use std::sync::Mutex;
use std::thread::available_parallelism;

use bytes::BytesMut;

/// What is read at once, if so much is there.
const READ_LEN: usize = 128 << 10;
/// A buffer with less room is not read into. Arbitrary: then as much is read with each call as small sockets hold.
const MIN_LEN: usize = READ_LEN / 8;

/// Those that nobody reads into for now: no more than may be in use at once.
#[derive(Debug)]
pub(super) struct ReadBuffers {
    shelf: Mutex<Vec<BytesMut>>,
    most: usize,
}

impl ReadBuffers {
    pub(super) fn new() -> Self {
        Self {
            shelf: Mutex::default(),
            most: available_parallelism().map_or(1, usize::from),
        }
    }

    /// Makes room to read into.
    pub(super) fn make_room(&self, buffer: &mut BytesMut) {
        if buffer.capacity() - buffer.len() >= MIN_LEN {
            return;
        }
        if buffer.is_empty() {
            // Another connection has them for a moment: then a new one costs less than to wait.
            let idle = self.shelf.try_lock().ok().and_then(|mut shelf| shelf.pop());
            if let Some(idle) = idle {
                *buffer = idle;
                return;
            }
        }
        buffer.reserve(READ_LEN);
    }

    /// Nothing more is to be read for now. What was read from it goes on sharing its memory.
    pub(super) fn put(&self, buffer: &mut BytesMut) {
        if !buffer.is_empty() || buffer.capacity() == 0 {
            return;
        }
        let mut idle = core::mem::take(buffer);
        // What shared it may be gone.
        let has_room = idle.try_reclaim(READ_LEN) || idle.capacity() >= MIN_LEN;
        let kept = self.shelf.try_lock().ok().filter(|_| has_room);
        if let Some(mut shelf) = kept {
            if shelf.len() < self.most {
                shelf.push(idle);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(buffer: &mut BytesMut, len: usize) -> BytesMut {
        buffer.resize(buffer.len() + len, 1);
        buffer.split()
    }

    #[test]
    fn who_reads_nothing_holds_nothing_and_the_next_one_reads_into_the_same() {
        let buffers = ReadBuffers::new();
        let (mut a, mut b) = (BytesMut::new(), BytesMut::new());
        buffers.make_room(&mut a);
        let at = a.as_ptr();
        let message = read(&mut a, 100);
        buffers.put(&mut a);
        assert_eq!(a.capacity(), 0);
        buffers.make_room(&mut b);
        assert_eq!(b.as_ptr(), at.wrapping_add(100), "behind the message");
        assert!(message.iter().all(|byte| *byte == 1));
        // Once nobody holds what was read, all of it is there again.
        drop(message);
        buffers.put(&mut b);
        buffers.make_room(&mut a);
        assert_eq!((a.as_ptr(), a.capacity()), (at, READ_LEN));
    }

    #[test]
    fn what_is_not_taken_in_yet_stays_and_too_little_room_goes() {
        let buffers = ReadBuffers::new();
        let mut buffer = BytesMut::new();
        buffers.make_room(&mut buffer);
        buffer.extend_from_slice(b"half a frame");
        buffers.put(&mut buffer);
        assert_eq!(&buffer[..], b"half a frame");
        let held = read(&mut buffer, READ_LEN - MIN_LEN);
        buffers.put(&mut buffer);
        assert!(buffers.shelf.lock().expect("no panic").is_empty());
        buffer = held;
        buffers.make_room(&mut buffer);
        assert!(buffer.capacity() - buffer.len() >= MIN_LEN && buffer.starts_with(b"half"));
    }
}
