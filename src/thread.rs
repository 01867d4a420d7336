//! What the system says of the thread that asks: the processor time it took, for how long it waited for a processor, and when it wakes.

use core::time::Duration;

/// Processor time; `None` if the system does not tell.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn processor_time() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Some(Duration::new(
        u64::try_from(time.tv_sec).ok()?,
        u32::try_from(time.tv_nsec).ok()?,
    ))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) const fn processor_time() -> Option<Duration> {
    None
}

/// Nanoseconds of the system's monotonic clock, which the kernel's records and other processes have as well.
#[cfg(all(
    any(feature = "pmu", feature = "transport"),
    any(target_os = "linux", target_os = "android")
))]
#[inline]
pub(crate) fn monotonic_nanos() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// Has the kernel wake this thread at the time asked: by default it may be 50 µs late, to wake it with others. Where it does not, lateness shows it.
#[cfg(all(
    any(feature = "relay", all(feature = "loadgen", feature = "transport")),
    any(target_os = "linux", target_os = "android")
))]
pub(crate) fn wake_in_time() {
    let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
}

#[cfg(all(
    feature = "relay",
    not(any(target_os = "linux", target_os = "android"))
))]
pub(crate) const fn wake_in_time() {}

/// What the scheduler did with a thread since it began.
#[cfg(all(
    any(feature = "transport", feature = "loadgen"),
    any(target_os = "linux", target_os = "android")
))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// It ran.
    pub(crate) running: Duration,
    /// It was ready to, and others ran.
    pub(crate) ready: Duration,
}

#[cfg(all(
    any(feature = "transport", feature = "loadgen"),
    any(target_os = "linux", target_os = "android")
))]
impl Schedule {
    /// Of the thread that asks it is open for; not there where the kernel does not count this (`CONFIG_SCHED_INFO`).
    pub(crate) fn open() -> Option<std::fs::File> {
        std::fs::File::open("/proc/thread-self/schedstat").ok()
    }

    pub(crate) fn read(file: &std::fs::File) -> Option<Self> {
        let mut text = [0; 80];
        let read = std::os::unix::fs::FileExt::read_at(file, &mut text, 0).ok()?;
        Self::parse(text.get(..read)?)
    }

    /// Both times, ns, are the first two numbers of the line.
    fn parse(text: &[u8]) -> Option<Self> {
        let mut numbers = core::str::from_utf8(text).ok()?.split_ascii_whitespace();
        let mut next = || numbers.next()?.parse().ok().map(Duration::from_nanos);
        Some(Self {
            running: next()?,
            ready: next()?,
        })
    }
}

#[cfg(all(
    test,
    any(feature = "transport", feature = "loadgen"),
    any(target_os = "linux", target_os = "android")
))]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_line_of_the_kernels_is_not_known() {
        let schedule = Schedule::parse(b"100 20 3\n");
        let (running, ready) = (Duration::from_nanos(100), Duration::from_nanos(20));
        assert_eq!(schedule, Some(Schedule { running, ready }));
        for text in [&b""[..], b"100", b"100 x 3", b"-1 2 3", b"\xff\xff"] {
            assert_eq!(Schedule::parse(text), None);
        }
    }

    #[test]
    fn a_thread_that_works_runs() {
        let (Some(file), Some(began)) = (Schedule::open(), processor_time()) else {
            return;
        };
        let before = Schedule::read(&file).expect("it was read before");
        while processor_time().expect("it was told before") < began + Duration::from_millis(20) {}
        let after = Schedule::read(&file).expect("it was read before");
        // The kernel counts what runs now at its next tick.
        assert!(after.running >= before.running + Duration::from_millis(5));
    }
}
