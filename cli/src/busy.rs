//! Something else that wants the processors.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Keeps processors busy until it is dropped, or for so long at most.
#[derive(Debug)]
pub(crate) struct BusyProcessors {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyProcessors {
    /// All processors, for so long at most.
    pub(crate) fn all(at_most: Duration) -> Self {
        let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::start(count, Some(at_most))
    }

    /// As many threads as `count`, at normal priority.
    pub(crate) fn start(count: usize, at_most: Option<Duration>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let until = at_most.and_then(|at_most| now().checked_add(at_most));
        let threads = (0..count)
            .map(|_| {
                let stop = Arc::clone(&stop);
                std::thread::spawn(move || {
                    let is_over = || until.is_some_and(|until| now() >= until);
                    while !stop.load(Ordering::Relaxed) && !is_over() {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        Self { stop, threads }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the program decides how long it is busy"
)]
fn now() -> Instant {
    Instant::now()
}

impl Drop for BusyProcessors {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It has nothing that could panic.
            let _ = thread.join();
        }
    }
}
