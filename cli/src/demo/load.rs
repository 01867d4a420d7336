//! Something else that wants the processors.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Keeps every processor busy until it is dropped, or for so long at most.
#[derive(Debug)]
pub(super) struct BusyProcessors {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyProcessors {
    pub(super) fn start(at_most: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = (0..count)
            .map(|_| {
                let stop = Arc::clone(&stop);
                std::thread::spawn(move || {
                    let until = super::now() + at_most;
                    while !stop.load(Ordering::Relaxed) && super::now() < until {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        Self { stop, threads }
    }
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
