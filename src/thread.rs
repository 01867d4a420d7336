//! What the system says of the thread that asks: the processor time it took, and for how long it waited for a processor.

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
