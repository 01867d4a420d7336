//! Buffers that connections of a node read into. One that nothing comes on has none.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread::available_parallelism;

use bytes::BytesMut;

/// What is read at once, if so much is there.
const READ_LEN: usize = 128 << 10;
/// A buffer with less room is not read into. Arbitrary: then as much is read with each call as small sockets hold.
const MIN_LEN: usize = READ_LEN / 8;

/// How many that are still shared are kept, which are free again in the order in which they were read into: as many as the messages that wait for an
/// application within its first window mostly share (docs/benchmarks.md: 8 and 32).
const MOST_SPENT: usize = 32;
/// .. once nobody shares any of them. Arbitrary; a mebibyte, mostly.
const MOST_KEPT: usize = 8;

/// Those that nobody reads into for now.
#[derive(Debug)]
pub(super) struct ReadBuffers {
    shelf: Mutex<Shelf>,
    /// How many may be in use at once.
    most: usize,
}

#[derive(Debug, Default)]
struct Shelf {
    /// With room.
    idle: Vec<BytesMut>,
    /// Without, as long as what was read into them shares their memory; the oldest first. To give memory back to the system and take
    /// it anew costs more than to read into it.
    spent: VecDeque<BytesMut>,
}

impl Shelf {
    fn take(&mut self, len: usize) -> Option<BytesMut> {
        if len == 0 {
            if let Some(idle) = self.idle.pop() {
                return Some(idle);
            }
        }
        let at = (0..self.spent.len()).find(|at| self.spent[*at].try_reclaim(READ_LEN + len))?;
        self.spent.remove(at)
    }

    fn put_spent(&mut self, mut buffer: BytesMut) {
        buffer.clear();
        // Those before it are free sooner.
        if self.spent.len() < MOST_SPENT {
            self.spent.push_back(buffer);
        }
    }

    /// Who was behind has caught up if the one that was read into last is free.
    fn give_up_spent(&mut self) {
        let is_free = |newest: &mut BytesMut| newest.try_reclaim(READ_LEN);
        if self.spent.len() > MOST_KEPT && self.spent.back_mut().is_some_and(is_free) {
            self.spent.truncate(MOST_KEPT);
        }
    }
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
        if buffer.capacity() - buffer.len() >= MIN_LEN || buffer.try_reclaim(READ_LEN) {
            return;
        }
        // Another connection has them for a moment: then a new one costs less than to wait.
        let Ok(mut kept) = self.shelf.try_lock() else {
            return buffer.reserve(READ_LEN);
        };
        let another = kept.take(buffer.len());
        let mut another =
            another.unwrap_or_else(|| BytesMut::with_capacity(READ_LEN + buffer.len()));
        another.extend_from_slice(buffer);
        let spent = core::mem::replace(buffer, another);
        if spent.capacity() > 0 {
            kept.put_spent(spent);
        }
    }

    /// Nothing more is to be read for now. What was read from it goes on sharing its memory.
    pub(super) fn put(&self, buffer: &mut BytesMut) {
        if !buffer.is_empty() || buffer.capacity() == 0 {
            return;
        }
        let mut idle = core::mem::take(buffer);
        // What shared it may be gone.
        let has_room = idle.try_reclaim(READ_LEN) || idle.capacity() >= MIN_LEN;
        if let Ok(mut kept) = self.shelf.try_lock() {
            if !has_room {
                kept.put_spent(idle);
            } else if kept.idle.len() < self.most {
                kept.idle.push(idle);
            }
            kept.give_up_spent();
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

    /// Reads so often all but half a frame, which goes on in the next buffer, and holds what came `behind` times; how many buffers that takes,
    /// and what is held.
    fn read_on(buffers: &ReadBuffers, times: usize, behind: usize) -> (usize, VecDeque<BytesMut>) {
        let (mut buffer, mut seen) = (BytesMut::new(), Vec::new());
        let mut held = VecDeque::new();
        for _ in 0..times {
            buffers.make_room(&mut buffer);
            if !seen.contains(&buffer.as_ptr()) {
                seen.push(buffer.as_ptr());
            }
            let room = buffer.capacity() - buffer.len();
            held.push_back(read(&mut buffer, room - 100));
            buffer.resize(buffer.len() + 100, 2);
            if held.len() > behind {
                held.pop_front();
            }
        }
        assert!(held.iter().skip(1).all(|it| it.starts_with(&[2; 100])));
        buffer.clear();
        buffers.put(&mut buffer);
        (seen.len(), held)
    }

    #[test]
    fn who_leaves_what_came_for_a_while_reads_into_the_same_few_in_turn() {
        let buffers = ReadBuffers::new();
        let kept = || buffers.shelf.lock().expect("no panic").spent.len();
        let (seen, _) = read_on(&buffers, 100, 4);
        assert!(seen <= 8, "{seen} buffers");
        // However many are held, no more are kept than some, and a few once nobody holds any of them.
        let (_, held) = read_on(&buffers, 200, 2 * MOST_SPENT);
        assert_eq!(kept(), MOST_SPENT);
        drop(held);
        let mut buffer = BytesMut::new();
        buffers.make_room(&mut buffer);
        buffers.put(&mut buffer);
        assert_eq!(kept(), MOST_KEPT);
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
        assert!(buffers.shelf.lock().expect("no panic").idle.is_empty());
        buffer = held;
        buffers.make_room(&mut buffer);
        assert!(buffer.capacity() - buffer.len() >= MIN_LEN && buffer.starts_with(b"half"));
    }
}
