//! How long an access to memory takes, estimated: now and then, a thread on each processor walks through memory that it walked through a moment ago.
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
/// From the beginning of one walk to that of the next, if the processor can be had then. Origin: as many wakes, and half the processor time, of the two walks in each millisecond that there were before.
const PERIOD: Duration = Duration::from_micros(500);
/// A walk stands for the time since the one before, but for no more than this: a process that was stopped has seen nothing in that time.
const LONGEST: Duration = Duration::from_millis(20);
/// Nanoseconds of an access that none takes: the walk was interrupted, and says nothing of memory. Origin: an access to memory takes about 100.
const INTERRUPTED: f64 = 200.0;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line {
    next: u32,
}

/// What walks have said since the last reading.
#[derive(Clone, Copy, Debug, Default)]
struct Walks {
    /// Nanoseconds of an access, each walk's times the seconds that it stands for.
    sum: f64,
    seconds: f64,
}

impl Walks {
    /// A walk of which an access took `nanos`, begun so long after the one before. While others keep the processor the probe waits, and finds what they have left of the caches once: what any access had found
    /// that came in that time. Were each walk to count alike, others that take the processor for long would be seen as seldom as those that take it for a moment.
    fn add(&mut self, nanos: f64, since: Duration) {
        if nanos < INTERRUPTED {
            let seconds = since.min(LONGEST).as_secs_f64();
            self.sum += seconds * nanos;
            self.seconds += seconds;
        }
    }

    fn mean(self) -> f64 {
        self.sum / self.seconds
    }
}

/// Probes on some processors. Each takes about 2 % of its processor, and wakes twice in a millisecond, which the context switches that are counted contain.
#[derive(Debug)]
pub(super) struct Probe {
    is_over: Arc<AtomicBool>,
    walks: Arc<Mutex<Walks>>,
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
        let mut walks = self.walks.lock().unwrap_or_else(PoisonError::into_inner);
        core::mem::take(&mut *walks).mean()
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

fn walk(is_over: &AtomicBool, walks: &Mutex<Walks>) {
    let ring = ring();
    let once = |mut at: u32| {
        for _ in 0..ring.len() {
            at = ring[at as usize].next;
        }
        black_box(at)
    };
    once(0);
    let mut before = Instant::now();
    let mut due = before;
    while !is_over.load(Ordering::Relaxed) {
        due += PERIOD;
        let now = Instant::now();
        // What is late is not made up for.
        due = due.max(now);
        thread::sleep(due - now);
        let begun = Instant::now();
        once(0);
        let nanos = begun.elapsed().as_nanos() as f64 / ring.len() as f64;
        let mut walks = walks.lock().unwrap_or_else(PoisonError::into_inner);
        walks.add(nanos, begun - before);
        before = begun;
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
    fn walks_stand_for_the_time_since_the_one_before() {
        let millis = Duration::from_millis;
        let mut walks = Walks::default();
        assert!(walks.mean().is_nan());
        // Others took 2 of 10 ms at a stretch.
        for _ in 0..16 {
            walks.add(4.0, Duration::from_micros(500));
        }
        walks.add(14.0, millis(2));
        assert!((walks.mean() - 6.0).abs() < 1e-9, "{walks:?}");
        // Interrupted, and stopped.
        walks.add(5000.0, millis(2));
        assert!((walks.mean() - 6.0).abs() < 1e-9);
        walks.add(4.0, Duration::from_secs(9));
        assert!((walks.mean() - 14.0 / 3.0).abs() < 1e-9, "{walks:?}");
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
