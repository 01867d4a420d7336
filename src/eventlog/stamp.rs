//! The times of rows.
#![expect(
    unsafe_code,
    reason = "to read the time stamp counter is an instruction that the language calls unsafe"
)]

use core::time::Duration;

/// The processor's time stamp counter. It goes on at one rate, whatever the processor's clock does, on x86-64 since 2008 and on
/// 64-bit ARM by definition; elsewhere it is nanoseconds of the monotonic clock.
#[inline]
pub(super) fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: RDTSC reads a register. Every x86-64 processor has it, and a process that was forbidden it (prctl
        // PR_SET_TSC, which nobody does by accident) is ended, not corrupted.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: reads a register that the architecture gives to user mode, and touches neither memory nor flags.
        unsafe {
            core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags))
        };
        count
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        nanos()
    }
}

/// A number after `before`: the time stamp counter, as whoever else makes one, in whichever process, is to make another; or the next, where the counter has
/// not come so far.
pub(super) fn after(before: u64) -> u64 {
    cycles().max(before.wrapping_add(1))
}

/// Nanoseconds of the system's monotonic clock, which all processes read alike.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn nanos() -> u64 {
    read(rustix::time::ClockId::Monotonic)
}

/// The same as of the system's last tick.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[inline]
pub(super) fn tick() -> u64 {
    read(rustix::time::ClockId::MonotonicCoarse)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[inline]
fn read(clock: rustix::time::ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    (time.tv_sec as u64).saturating_mul(1_000_000_000) + time.tv_nsec as u64
}

/// Nanoseconds since this process first asked: other systems have no clock here that all processes read alike.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[expect(
    clippy::disallowed_methods,
    reason = "the clock of rows, on systems without another"
)]
pub(super) fn nanos() -> u64 {
    static BEGUN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let begun = BEGUN.get_or_init(std::time::Instant::now);
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn tick() -> u64 {
    nanos()
}

/// When something happened, by the counter that rows have their times from: to read it takes less than half of what a clock of the system does (8.8 and 20 ns on an EPYC host),
/// and as much as all else of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(u64);

impl Moment {
    #[inline]
    pub(crate) fn now() -> Self {
        Self(cycles())
    }

    /// The counter then; `None` of 0, which it never is once a system runs.
    #[cfg(feature = "transport")]
    #[inline]
    pub(crate) fn from_cycles(cycles: u64) -> Option<Self> {
        (cycles > 0).then_some(Self(cycles))
    }

    #[inline]
    pub(crate) const fn cycles(self) -> u64 {
        self.0
    }
}

/// Both clocks at (nearly) the same time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) cycles: u64,
    pub(super) nanos: u64,
}

impl Reading {
    /// Of a few, the one between whose readings of the counter the least time passed: nothing came between.
    pub(super) fn now() -> Self {
        let once = || {
            let before = cycles();
            let nanos = nanos();
            let took = cycles().wrapping_sub(before);
            let cycles = before.wrapping_add(took / 2);
            (took, Self { cycles, nanos })
        };
        let best = (0..8).map(|_| once()).min_by_key(|(took, _)| *took);
        best.map_or(
            Self {
                cycles: 0,
                nanos: 0,
            },
            |(_, reading)| reading,
        )
    }
}

/// What cycles of rows are in time: from two readings of both clocks, one when the area was made and one now, so that it becomes better
/// with time.
#[derive(Clone, Copy, Debug)]
pub struct Timebase {
    begun: Reading,
    nanos_per_cycle: f64,
    /// The same in 2^32nds, for who has no time for floating point, whose constants lie in other cache lines than all else.
    #[cfg(feature = "transport")]
    nanos_per_cycle_32: u64,
}

impl Timebase {
    pub(super) fn new(begun: Reading, now: Reading) -> Self {
        let cycles = now.cycles.wrapping_sub(begun.cycles);
        let nanos = now.nanos.saturating_sub(begun.nanos);
        let nanos_per_cycle = if cycles == 0 || nanos == 0 {
            1.0
        } else {
            nanos as f64 / cycles as f64
        };
        Self {
            begun,
            nanos_per_cycle,
            #[cfg(feature = "transport")]
            nanos_per_cycle_32: (nanos_per_cycle * (1_u64 << 32) as f64) as u64,
        }
    }

    /// Time on the system's monotonic clock at a [`Stamp::Cycles`](super::Stamp::Cycles).
    pub fn time(&self, cycles: u64) -> Duration {
        let begun = self.begun.cycles;
        let since = if cycles < begun {
            -((begun - cycles) as f64)
        } else {
            (cycles - begun) as f64
        };
        let nanos = self.begun.nanos as f64 + since * self.nanos_per_cycle;
        Duration::from_nanos(nanos as u64)
    }

    /// Nanoseconds from one moment to another.
    #[cfg(feature = "transport")]
    #[inline]
    pub(crate) fn nanos_between(&self, from: Moment, to: Moment) -> u64 {
        let cycles = to.0.saturating_sub(from.0);
        let nanos = (u128::from(cycles) * u128::from(self.nanos_per_cycle_32)) >> 32;
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// What so many cycles last.
    pub fn duration(&self, cycles: u64) -> Duration {
        Duration::from_nanos((cycles as f64 * self.nanos_per_cycle) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_become_time() {
        let begun = Reading {
            cycles: 1_000_000,
            nanos: 5_000_000_000,
        };
        let now = Reading {
            cycles: 26_000_000,
            nanos: 5_010_000_000,
        };
        let base = Timebase::new(begun, now);
        assert_eq!(base.time(13_500_000), Duration::from_millis(5005));
        assert_eq!(
            base.time(0),
            Duration::from_micros(4_999_600),
            "before it was made"
        );
        assert_eq!(base.duration(2500), Duration::from_micros(1));
        assert_eq!(
            Timebase::new(begun, begun).duration(7),
            Duration::from_nanos(7)
        );
    }

    #[cfg(feature = "transport")]
    #[test]
    fn time_between_moments_is_the_same_without_floating_point() {
        let at = |cycles, nanos| Reading { cycles, nanos };
        for (cycles, nanos) in [(2_500, 1_000), (1_000, 1_000), (24, 1_000), (7, 3)] {
            let base = Timebase::new(at(0, 0), at(cycles, nanos));
            for passed in [0, 1, 1_000, 3_000_000_000, 1 << 50] {
                let nanos = base.nanos_between(Moment(5), Moment(5 + passed));
                let expected = base.duration(passed).as_nanos() as f64;
                let error = (nanos as f64 - expected).abs();
                assert!(error <= 1.0 + 1e-8 * expected, "{nanos} for {expected}");
            }
            assert_eq!(base.nanos_between(Moment(9), Moment(5)), 0);
        }
        let slow = Timebase::new(at(0, 0), at(1, 1_000));
        assert_eq!(slow.nanos_between(Moment(0), Moment(u64::MAX)), u64::MAX);
    }

    #[test]
    fn numbers_come_one_after_another_whatever_the_counter_does() {
        let ahead = cycles() + (1 << 60);
        assert_eq!(after(ahead), ahead + 1);
        assert!(after(0) > 0);
        // Of a word that somebody else has written.
        assert!(after(u64::MAX) < u64::MAX);
    }

    #[test]
    fn both_clocks_go_on() {
        let begun = Reading::now();
        std::thread::sleep(Duration::from_millis(20));
        let now = Reading::now();
        let base = Timebase::new(begun, now);
        let passed = base
            .time(now.cycles)
            .saturating_sub(base.time(begun.cycles));
        assert!(passed >= Duration::from_millis(19), "{passed:?}");
        assert!(tick() <= nanos());
    }
}
