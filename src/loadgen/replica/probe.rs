//! How long an access to memory takes, estimated: now and then, a thread on each processor walks through memory that it has just walked through.
#![expect(
    clippy::disallowed_methods,
    reason = "it measures time, and drives itself"
)]

use core::hint::black_box;
use core::time::Duration;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustix::thread::{CpuSet, sched_setaffinity};

/// What is walked through, bytes: more than a first cache holds, and a fraction of a second.
const WORKING_SET: usize = 64 << 10;
/// Bytes of a line.
const LINE: usize = 64;
/// How long others have the processor between two walks, of which the second is timed.
const BETWEEN: Duration = Duration::from_micros(150);
/// How long it is from one to the next, but for the walks.
const PAUSE: Duration = Duration::from_micros(700);
/// Walks that were interrupted took longer, and say nothing of memory: so many of the slowest are left out.
const LEFT_OUT: f64 = 0.05;
/// The most that are kept between two readings.
const MAX_KEPT: usize = 1 << 13;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line {
    next: u32,
}

/// Probes on some processors. Each takes about 3 % of its processor, and wakes twice in a millisecond, which the context switches that are counted contain.
#[derive(Debug)]
pub(super) struct Probe {
    is_over: Arc<AtomicBool>,
    walks: Arc<Mutex<Vec<f64>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Probe {
    /// One on each of these processors.
    pub(super) fn start(processors: &[u32]) -> io::Result<Self> {
        let mut probe = Self {
            is_over: Arc::default(),
            walks: Arc::default(),
            threads: Vec::new(),
        };
        for &processor in processors {
            let mut only = CpuSet::new();
            if processor as usize >= CpuSet::MAX_CPU {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            only.set(processor as usize);
            let (is_over, walks) = (Arc::clone(&probe.is_over), Arc::clone(&probe.walks));
            let (tell, told) = std::sync::mpsc::sync_channel(1);
            let thread = thread::Builder::new().name("latency".to_owned());
            probe.threads.push(thread.spawn(move || {
                let pinned = sched_setaffinity(None, &only);
                let is_pinned = pinned.is_ok();
                if tell.send(pinned).is_ok() && is_pinned {
                    walk(&is_over, &walks);
                }
            })?);
            told.recv().map_err(|_| io::ErrorKind::BrokenPipe)??;
        }
        Ok(probe)
    }

    /// Nanoseconds of an access since the last time; not a number if there was none.
    pub(super) fn take(&self) -> f64 {
        let mut walks =
            core::mem::take(&mut *self.walks.lock().unwrap_or_else(PoisonError::into_inner));
        walks.sort_by(f64::total_cmp);
        let kept = walks.len() - (walks.len() as f64 * LEFT_OUT) as usize;
        walks[..kept].iter().sum::<f64>() / kept as f64
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

fn walk(is_over: &AtomicBool, walks: &Mutex<Vec<f64>>) {
    let ring = ring();
    let once = |mut at: u32| {
        for _ in 0..ring.len() {
            at = ring[at as usize].next;
        }
        black_box(at)
    };
    while !is_over.load(Ordering::Relaxed) {
        once(0);
        thread::sleep(BETWEEN);
        let begun = Instant::now();
        once(0);
        let nanos = begun.elapsed().as_nanos() as f64 / ring.len() as f64;
        {
            let mut walks = walks.lock().unwrap_or_else(PoisonError::into_inner);
            if walks.len() < MAX_KEPT {
                walks.push(nanos);
            }
        }
        thread::sleep(PAUSE);
    }
}

/// All lines once, each after one that is nowhere near.
fn ring() -> Vec<Line> {
    let lines = WORKING_SET / LINE;
    let mut order: Vec<u32> = (0..lines as u32).collect();
    fastrand::Rng::with_seed(0).shuffle(&mut order);
    let mut ring = vec![Line { next: 0 }; lines];
    for (index, line) in order.iter().enumerate() {
        ring[*line as usize].next = order[(index + 1) % lines];
    }
    ring
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_comes_by_every_line() {
        let ring = ring();
        let (mut at, mut seen) = (0, vec![false; ring.len()]);
        for _ in 0..ring.len() {
            seen[at] = true;
            at = ring[at].next as usize;
        }
        assert!(at == 0 && seen.iter().all(|seen| *seen));
    }

    #[test]
    fn a_probe_says_some_nanoseconds_and_ends() {
        let probe = Probe::start(&[]).unwrap();
        assert!(probe.take().is_nan());
        drop(probe);
        assert!(Probe::start(&[u32::MAX]).is_err());
        // The processor that this thread may be on, whichever that is.
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let processor = (0..CpuSet::MAX_CPU)
            .find(|cpu| allowed.is_set(*cpu))
            .unwrap();
        let probe = Probe::start(&[processor as u32]).unwrap();
        let mut nanos = f64::NAN;
        for _ in 0..1000 {
            thread::sleep(Duration::from_millis(10));
            nanos = probe.take();
            if nanos.is_finite() {
                break;
            }
        }
        assert!(nanos > 0.1, "{nanos}");
    }
}
