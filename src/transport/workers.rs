//! The codec workers of a node: how many are at work, and those that have nothing to do, with the scratch and contexts that they have made.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread::available_parallelism;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::shared::lock;
use crate::session::CodecWorker;

/// A worker that was not needed for so many jobs goes. Arbitrary: making another, some 0.1 ms, is then a hundredth of what the
/// jobs took, if they are short.
const UNUSED: u64 = 4096;

/// Jobs that are at work at once for each processor. Arbitrary: one more than what keeps it busy, so that short ones do not all
/// wait for a heavy codec's.
const JOBS_A_PROCESSOR: usize = 2;

/// The workers of one node, each up to a few MB.
#[derive(Debug)]
pub(super) struct Workers {
    /// Window of the histories that they decode, binary logarithm.
    window_log: u8,
    shelf: Mutex<Shelf<CodecWorker>>,
    /// Jobs that may be at work on threads of their own.
    places: Arc<Semaphore>,
    processors: usize,
}

impl Workers {
    pub(super) fn new(window_log: u8) -> Self {
        // By the processors that the process may run on, and its control group's quota.
        let processors = available_parallelism().map_or(1, usize::from);
        let places = JOBS_A_PROCESSOR * processors;
        Self {
            window_log,
            // Others work on their executor's thread.
            shelf: Mutex::new(Shelf::new(places + processors)),
            places: Arc::new(Semaphore::new(places)),
            processors,
        }
    }

    /// Blocks of one connection that may be encoded at once: as many as there are processors.
    pub(super) const fn encoders(&self) -> usize {
        self.processors
    }

    /// Does a job on a thread of its own, as soon as there is a place.
    pub(super) fn hand_over<T: Send + 'static>(
        &self,
        jobs: &mut JoinSet<T>,
        job: impl FnOnce() -> T + Send + 'static,
    ) {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            jobs.spawn_blocking(move || {
                let _place = place;
                job()
            });
            return;
        }
        let places = Arc::clone(&self.places);
        jobs.spawn(async move {
            // Nobody closes it.
            let place = places.acquire_owned().await;
            let done = tokio::task::spawn_blocking(move || {
                let _place = place;
                job()
            });
            match done.await {
                Ok(done) => done,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The runtime shuts down, and this with it.
                    Err(_) => core::future::pending().await,
                },
            }
        });
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn no_more_jobs_are_at_work_than_there_are_places() {
        let workers = Workers::new(17);
        let places = workers.places.available_permits();
        let (at_work, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut jobs = JoinSet::new();
        for number in 0..20 * places {
            let (at_work, most) = (Arc::clone(&at_work), Arc::clone(&most));
            workers.hand_over(&mut jobs, move || {
                let now = at_work.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_micros(200));
                at_work.fetch_sub(1, Ordering::SeqCst);
                assert!(number % 7 > 0, "as it is meant to");
                number
            });
        }
        let mut done: Vec<_> = Vec::new();
        while let Some(job) = jobs.join_next().await {
            done.extend(job.ok());
        }
        done.sort_unstable();
        let expected: Vec<_> = (0..20 * places).filter(|number| number % 7 > 0).collect();
        assert_eq!(done, expected, "a panic is its job's alone");
        let most = most.load(Ordering::SeqCst);
        assert!((1..=places).contains(&most), "{most} of {places}");
        assert_eq!(workers.places.available_permits(), places);
    }

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
