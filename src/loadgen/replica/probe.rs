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

/// No walk counts for more than so many times what the quickest tenth takes. What a walk takes that finds its lines gone is not for this machine to say: it depends on who else has the last cache, and, of what
/// passes for some tenths of a millisecond, a second cache keeps all or nothing, for seconds, as it happens to guess. That it finds them gone counts. Origin: means of a second of walks beside leeches that stay as
/// they are vary by 1 to 6 % without a bound, by 1 to 3 % with one of 2, and by 0.6 to 2 % with this one, and still rise with the leech of memory, if by less (docs/load.md).
const MOST: f64 = 1.5;
/// So many walks are gone through together, to see what the quickest take. Origin: arbitrary, a third of a second.
const TOGETHER: usize = 512;
/// From so many on, it is known what the quickest tenth of them takes. Origin: arbitrary.
const KNOWN: usize = 50;

/// What walks on a processor have said since the last reading.
#[derive(Clone, Debug, Default)]
struct Walks {
    /// Those that are not in the sums yet: nanoseconds of an access, and the seconds that each stands for.
    open: Vec<(f64, f64)>,
    /// What the quickest tenth takes, the least so far: nobody took anything of the caches. It outlasts readings.
    quiet: Option<f64>,
    /// Nanoseconds of an access, each walk's times its seconds.
    sum: f64,
    seconds: f64,
}

impl Walks {
    /// A walk of which an access took `nanos`, begun so long after the one before. While others keep the processor the probe waits, and finds what they have left of the caches once: what any access had found
    /// that came in that time. Were each walk to count alike, others that take the processor for long would be seen as seldom as those that take it for a moment.
    fn add(&mut self, nanos: f64, since: Duration) {
        if nanos < INTERRUPTED {
            self.open.push((nanos, since.min(LONGEST).as_secs_f64()));
            if self.open.len() >= TOGETHER {
                self.close();
            }
        }
    }

    fn close(&mut self) {
        let count = self.open.len();
        if count == 0 {
            return;
        }
        let (_, (tenth, _), _) = self
            .open
            .select_nth_unstable_by(count / 10, |a, b| a.0.total_cmp(&b.0));
        let quiet = match self.quiet {
            Some(quiet) if count < KNOWN => quiet,
            Some(quiet) => quiet.min(*tenth),
            None => *tenth,
        };
        if count >= KNOWN {
            self.quiet = Some(quiet);
        }
        for (nanos, seconds) in self.open.drain(..) {
            self.sum += seconds * nanos.min(MOST * quiet);
            self.seconds += seconds;
        }
    }

    /// The sums until now, from which it begins anew.
    fn take(&mut self) -> (f64, f64) {
        self.close();
        (
            core::mem::take(&mut self.sum),
            core::mem::take(&mut self.seconds),
        )
    }
}

/// Probes on some processors. Each takes about 2 % of its processor, 4 % of one that halts between walks, and wakes twice in a millisecond, which the context switches that are counted contain.
#[derive(Debug)]
pub(super) struct Probe {
    is_over: Arc<AtomicBool>,
    /// Of each of them: what is quick on one processor need not be on another.
    walks: Vec<Arc<Mutex<Walks>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Probe {
    /// One on each of these processors.
    pub(super) fn start(processors: &[u32]) -> io::Result<Self> {
        let mut probe = Self {
            is_over: Arc::default(),
            walks: Vec::new(),
            threads: Vec::new(),
        };
        for &processor in processors {
            let mut only = CpuSet::new();
            if processor as usize >= CpuSet::MAX_CPU {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            only.set(processor as usize);
            let (is_over, walks) = (Arc::clone(&probe.is_over), Arc::default());
            probe.walks.push(Arc::clone(&walks));
            let (tell, told) = std::sync::mpsc::sync_channel(1);
            let thread = thread::Builder::new().name("latency".to_owned());
            probe.threads.push(thread.spawn(move || {
                let pinned = sched_setaffinity(None, &only);
                let is_pinned = pinned.is_ok();
                if tell.send(pinned).is_ok() && is_pinned {
                    walk(&is_over, &walks);
                }
            })?);
            let pinned = told.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
            pinned.map_err(|errno| {
                let error = io::Error::from(errno);
                io::Error::new(
                    error.kind(),
                    format!("cannot keep a thread on processor {processor}: {error}"),
                )
            })?;
        }
        Ok(probe)
    }

    /// Nanoseconds of an access since the last time; not a number if there was none.
    pub(super) fn take(&self) -> f64 {
        let (mut sum, mut seconds) = (0.0, 0.0);
        for walks in &self.walks {
            let taken = walks.lock().unwrap_or_else(PoisonError::into_inner).take();
            sum += taken.0;
            seconds += taken.1;
        }
        sum / seconds
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
    while !is_over.load(Ordering::Relaxed) {
        thread::sleep(pause(before.elapsed()));
        let begun = Instant::now();
        once(0);
        let nanos = begun.elapsed().as_nanos() as f64 / ring.len() as f64;
        let mut walks = walks.lock().unwrap_or_else(PoisonError::into_inner);
        walks.add(nanos, begun - before);
        before = begun;
    }
}

/// How long to sleep when the last walk has begun so long ago. A walk that was late is not followed by one at once, which would find what that one had left.
fn pause(since: Duration) -> Duration {
    PERIOD.saturating_sub(since)
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

    fn mean(walks: &mut Walks) -> f64 {
        let (sum, seconds) = walks.take();
        sum / seconds
    }

    #[test]
    fn walks_stand_for_the_time_since_the_one_before() {
        let millis = Duration::from_millis;
        // Others took 2 of 10 ms at a stretch.
        let some = || {
            let mut walks = Walks::default();
            for _ in 0..16 {
                walks.add(4.0, Duration::from_micros(500));
            }
            walks.add(5.0, millis(2));
            walks
        };
        assert!(mean(&mut Walks::default()).is_nan());
        assert!((mean(&mut some()) - 4.2).abs() < 1e-9);
        // Interrupted, and stopped.
        let mut walks = some();
        walks.add(5000.0, millis(2));
        assert!((mean(&mut walks) - 4.2).abs() < 1e-9);
        let mut walks = some();
        walks.add(5.0, Duration::from_secs(9));
        assert!((mean(&mut walks) - 142.0 / 30.0).abs() < 1e-9);
        // It begins anew.
        assert!(mean(&mut walks).is_nan());
    }

    #[test]
    fn a_walk_that_was_late_is_followed_by_the_next_after_a_period() {
        assert_eq!(pause(Duration::from_micros(5)), Duration::from_micros(495));
        assert_eq!(pause(Duration::from_millis(2)), Duration::ZERO);
    }

    /// Readings of 200 ms beside others who take the caches 140 times in a second, which then takes an access `taken` instead of 3.6 ns; how often it is seen goes from once to `most` times.
    fn readings(taken: impl Fn(u64) -> f64, most: u64) -> Vec<f64> {
        let mut walks = Walks::default();
        let mut random = fastrand::Rng::with_seed(9);
        let one = |reading| {
            for walk in 0..400 {
                let is_taken = walk % 14 < random.u64(1..=most);
                let quiet = 3.6 + 0.1 * random.f64();
                let nanos = if is_taken { taken(reading) } else { quiet };
                walks.add(nanos, PERIOD);
            }
            mean(&mut walks)
        };
        (0..50).map(one).collect()
    }

    #[test]
    fn what_it_takes_to_fetch_what_is_gone_does_not_count_but_how_often_it_is() {
        let spread = |readings: &[f64]| {
            let least = readings.iter().copied().fold(f64::MAX, f64::min);
            readings.iter().copied().fold(0.0, f64::max) / least - 1.0
        };
        // From the last cache in some seconds, from memory in others, as neighbours leave room there: a plain mean of these varies by a third.
        let neighbours = |reading: u64| {
            if reading.is_multiple_of(2) {
                11.0
            } else {
                30.0
            }
        };
        let varying = readings(neighbours, 1);
        assert!(spread(&varying) < 0.005, "{varying:?}");
        let mean = |readings: &[f64]| readings.iter().sum::<f64>() / readings.len() as f64;
        let means: Vec<f64> = [1, 3, 6, 10, 14]
            .into_iter()
            .map(|most| mean(&readings(neighbours, most)))
            .collect();
        let rises = means.windows(2).all(|pair| pair[1] > 1.02 * pair[0]);
        assert!(rises, "{means:?}");
        // So much is not bounded.
        assert!((mean(&readings(|_| 4.5, 1)) / mean(&readings(|_| 3.6, 1)) - 1.0) > 0.015);
    }

    #[test]
    fn where_all_is_gone_it_counts_by_what_was_quick_before() {
        let mut walks = Walks::default();
        for _ in 0..400 {
            walks.add(4.0, PERIOD);
        }
        assert!((mean(&mut walks) - 4.0).abs() < 1e-9);
        // Few, many, and more than are gone through together.
        for count in [5, 400, 3 * TOGETHER + 7] {
            for _ in 0..count {
                walks.add(12.0, PERIOD);
            }
            assert!((mean(&mut walks) - 6.0).abs() < 1e-9, "{count}");
        }
        // Some that happen to be quick say nothing.
        for nanos in [1.0, 12.0, 12.0] {
            walks.add(nanos, PERIOD);
        }
        assert!((mean(&mut walks) - 13.0 / 3.0).abs() < 1e-9);
        // Nothing is kept of what was gone through.
        assert!(walks.open.is_empty() && walks.open.capacity() <= 2 * TOGETHER);
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
