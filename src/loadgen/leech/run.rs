//! The thread of a leech: works, sleeps, says what it took.

use core::time::Duration;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::clock::Clocks;
use super::work::Work;
use super::{Asked, LeechError, Shared, Wish, lock};
use crate::loadgen::duty::{Duty, DutyCycle};
use crate::loadgen::idle::Idle;
use crate::loadgen::intensity::Intensity;
use crate::loadgen::recording::{LeechEvents, Taken};
use crate::loadgen::topology::Topology;

/// Processor time of a batch, after which clocks are read (0.3 µs each time) and wishes looked at. Origin: a hundredth of it for that, and a four-hundredth of a window.
const BATCH: Duration = Duration::from_micros(25);
/// How often the kernel is asked how long the thread waited, which takes some microseconds.
const ASK_WAITED: Duration = Duration::from_millis(200);

/// Keeps this thread on `processor`.
pub(super) fn pin(processor: u32) -> Result<(), LeechError> {
    if processor as usize >= CpuSet::MAX_CPU {
        return Err(refused(Errno::INVAL, processor));
    }
    let mut only = CpuSet::new();
    only.set(processor as usize);
    sched_setaffinity(None, &only).map_err(|errno| refused(errno, processor))
}

/// Why a thread cannot be kept on `processor`, by what the system says.
fn refused(errno: Errno, processor: u32) -> LeechError {
    match errno {
        // What it says of processors that are not there, offline, or not the process's.
        Errno::INVAL => LeechError::NoProcessor {
            given: processor,
            allowed: Topology::of_system(Path::new("/"), None).allowed(),
        },
        // EPERM where a filter of system calls or a security module forbids it.
        errno => LeechError::Pin {
            processor,
            source: io::Error::from(errno),
        },
    }
}

/// The lowest priority of a thread.
const LOWEST: i32 = 19;

/// Lets others on this thread's processor go first. Lower priorities are everybody's to take.
pub(super) fn give_way() {
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), LOWEST);
}

/// Works until it is stopped or its time is over.
pub(super) fn run(
    mut work: Box<dyn Work>,
    shared: &Shared,
    asked: Asked,
    together: Option<Idle>,
    mut events: LeechEvents,
) {
    let clocks = Clocks::start();
    let mut together = together.map(Together::new);
    let length = asked.length;
    // What was wished since it was asked for is followed below.
    let mut wish = Wish {
        intensity: asked.intensity,
        misses: asked.misses,
        is_stopped: false,
    };
    let mut duty = DutyCycle::new(wish.intensity, Duration::ZERO, Duration::ZERO)
        .window(asked.resource.window());
    if together.is_some() {
        duty = duty.together();
    }
    events.intensity(Intensity::NONE, wish.intensity);
    let mut operations = 0;
    // Nanoseconds of one thing done, known after the first.
    let mut cost = 1000.0;
    let mut last_asked = Duration::ZERO;
    loop {
        let wall = clocks.wall();
        let processor = clocks.processor() + work.elsewhere();
        let busy = together.as_mut().map(|together| together.busy(wall));
        let is_over = wish.is_stopped || wall >= length || work.is_over();
        let ask_waited = is_over || wall.saturating_sub(last_asked) >= ASK_WAITED;
        let waited = if ask_waited { clocks.waited() } else { None };
        {
            let mut stats = lock(&shared.stats);
            stats.processor = processor;
            stats.wall = wall;
            stats.operations = operations;
            stats.busy = busy;
            stats.misses = work.misses();
            stats.is_over = is_over;
            if ask_waited {
                stats.waited = waited;
                last_asked = wall;
            }
        }
        let so_far = Taken {
            wall,
            processor,
            operations,
        };
        if is_over {
            events.pauses(so_far, wish.intensity);
            return;
        }
        // Where a rate is held, time counts by what is done in it.
        let taken = asked.rate.map_or(busy.unwrap_or(processor), |rate| {
            Duration::try_from_secs_f64(operations as f64 / rate).unwrap_or(Duration::MAX)
        });
        match duty.next(wall, taken) {
            Duty::Work(budget) => {
                events.working(so_far, wish.intensity);
                let due = asked
                    .rate
                    .map_or(f64::INFINITY, |rate| budget.as_secs_f64() * rate);
                let batch = match asked.rate {
                    Some(_) => BATCH,
                    None => budget.min(BATCH),
                };
                let count = (batch.as_nanos() as f64 / cost).min(due).clamp(1.0, 1e6) as u64;
                let done = work.run(count);
                operations += done;
                if done > 0 {
                    let spent = clocks.processor() + work.elsewhere();
                    let spent = spent.saturating_sub(processor).as_nanos() as f64;
                    // A page of a new cache level now and then must not make batches short for long, nor a quick one long.
                    cost = (0.7 * cost + 0.3 * spent / done as f64).max(0.01);
                }
            }
            Duty::Sleep(time) => {
                events.pauses(so_far, wish.intensity);
                work.rest(time.min(length.saturating_sub(wall)));
                if let Some(together) = &mut together {
                    together.is_known = false;
                }
            }
        }
        let next = *lock(&shared.wish);
        follow(&mut *work, &mut duty, &wish, &next);
        if wish.intensity != next.intensity {
            events.intensity(wish.intensity, next.intensity);
        }
        wish = next;
    }
}

/// How long the leech's processor has been busy with it and others: all of the time that it was not idle.
#[derive(Debug)]
struct Together {
    idle: Idle,
    /// When the leech began.
    before: Option<Duration>,
    /// Since then, when it was read last, and when that was.
    since: Duration,
    at: Duration,
    /// Whether nothing of it can have passed since it was read: the processor is not idle while the leech runs there.
    is_known: bool,
    busy: Duration,
}

impl Together {
    /// It is read anew so often even where the leech does not sleep: a quota may stop it, and leave the processor idle.
    const AGAIN: Duration = Duration::from_millis(10);

    fn new(mut idle: Idle) -> Self {
        Self {
            before: idle.read(),
            idle,
            since: Duration::ZERO,
            at: Duration::ZERO,
            is_known: true,
            busy: Duration::ZERO,
        }
    }

    fn busy(&mut self, wall: Duration) -> Duration {
        if !self.is_known || wall.saturating_sub(self.at) >= Self::AGAIN {
            // Unread, it is taken to be what it was.
            if let Some((now, before)) = self.idle.read().zip(self.before) {
                self.since = now.saturating_sub(before);
            }
            self.at = wall;
            self.is_known = true;
        }
        self.busy = self.busy.max(wall.saturating_sub(self.since));
        self.busy
    }
}

fn follow(work: &mut dyn Work, duty: &mut DutyCycle, before: &Wish, now: &Wish) {
    if before.intensity != now.intensity {
        duty.set_intensity(now.intensity);
    }
    if let (true, Some(misses)) = (before.misses != now.misses, now.misses) {
        work.set_misses(misses);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread may always be kept on the processors that it has, so that EPERM comes of filters of system calls alone, which a test has none of.
    #[test]
    fn a_refusal_to_pin_is_said_for_what_it_is() {
        let forbidden = refused(Errno::PERM, 3);
        let LeechError::Pin { processor, source } = &forbidden else {
            panic!("{forbidden:?}");
        };
        assert_eq!(*processor, 3);
        assert_eq!(source.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(forbidden.to_string(), "cannot keep a thread on processor 3");
        // The reason comes with it where errors are printed with what lies behind them.
        let behind = std::error::Error::source(&forbidden).map(ToString::to_string);
        assert!(behind.is_some_and(|it| it.contains("not permitted")));

        let absent = refused(Errno::INVAL, 999);
        assert!(
            matches!(&absent, LeechError::NoProcessor { given: 999, allowed } if !allowed.is_empty()),
            "{absent:?}"
        );
    }
}
