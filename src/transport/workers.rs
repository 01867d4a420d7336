//! The codec workers of a node that have nothing to do, with the scratch and contexts that they have made.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread::available_parallelism;

use super::shared::lock;
use crate::session::CodecWorker;

/// A worker that was not needed for so many jobs goes. Arbitrary: making another, some 0.1 ms, is then a hundredth of what the
/// jobs took, if they are short.
const UNUSED: u64 = 4096;

/// Idle workers of one node, each up to a few MB.
#[derive(Debug)]
pub(super) struct Workers {
    /// Window of the histories that they decode, binary logarithm.
    window_log: u8,
    shelf: Mutex<Shelf<CodecWorker>>,
}

impl Workers {
    pub(super) fn new(window_log: u8) -> Self {
        // More are not at work at once for long, whatever was handed over.
        let most = available_parallelism().map_or(1, usize::from).max(7) + 1;
        Self {
            window_log,
            shelf: Mutex::new(Shelf::new(most)),
        }
    }

    pub(super) fn take(&self) -> CodecWorker {
        let idle = lock(&self.shelf).take();
        idle.unwrap_or_else(|| CodecWorker::new(self.window_log))
    }

    pub(super) fn put(&self, worker: CodecWorker) {
        // Given back to the system where nobody waits for it.
        let surplus = lock(&self.shelf).put(worker);
        drop(surplus);
    }
}

/// The last one put here is the first one taken, so that those below it show how many are needed.
#[derive(Debug)]
struct Shelf<T> {
    /// Each with how many had been taken when it was put here, which only rises towards the back.
    idle: VecDeque<(u64, T)>,
    most: usize,
    taken: u64,
}

impl<T> Shelf<T> {
    fn new(most: usize) -> Self {
        Self {
            idle: VecDeque::with_capacity(most),
            most,
            taken: 0,
        }
    }

    fn take(&mut self) -> Option<T> {
        self.taken += 1;
        self.idle.pop_back().map(|(_, idle)| idle)
    }

    /// What there is no place for, or no need of.
    fn put(&mut self, idle: T) -> Option<T> {
        if self.idle.len() == self.most {
            return Some(idle);
        }
        self.idle.push_back((self.taken, idle));
        let (at, _) = self.idle.front()?;
        if self.taken - at < UNUSED {
            return None;
        }
        self.idle.pop_front().map(|(_, idle)| idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_than_were_needed_lately() {
        let mut shelf = Shelf::new(4);
        for number in 0..5 {
            assert_eq!(shelf.take(), None, "{number}");
        }
        let surplus: Vec<_> = (0..5).filter_map(|number| shelf.put(number)).collect();
        assert_eq!((surplus, shelf.idle.len()), (vec![4], 4));
        // Two at a time: the two below are not needed.
        let mut gone = Vec::new();
        for _ in 0..UNUSED {
            let two = [shelf.take(), shelf.take()].map(|idle| idle.expect("idle"));
            gone.extend(two.into_iter().filter_map(|idle| shelf.put(idle)));
        }
        assert_eq!((gone, shelf.idle.len()), (vec![0, 1], 2));
    }

    #[test]
    fn those_that_are_needed_now_and_then_stay() {
        let mut shelf = Shelf::new(4);
        for round in 0..10 {
            let all = [(); 4].map(|()| shelf.take());
            assert!(round == 0 || all.iter().all(Option::is_some), "{round}");
            for number in 0..4 {
                assert_eq!(shelf.put(number), None);
            }
            for _ in 0..UNUSED - 4 {
                let one = shelf.take().expect("idle");
                assert_eq!(shelf.put(one), None);
            }
        }
    }
}
