//! The clocks of the bench and the lab: comparable between processes, and without unsafe code.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds since the system's start, the same for every process on it, whatever its network
/// namespace.
pub(crate) fn monotonic_nanos() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// Processor time of this process, in user and system mode, all threads together (those that have
/// ended as well).
pub(crate) fn processor_nanos() -> u64 {
    nanos(clock_gettime(ClockId::ProcessCPUTime))
}

fn nanos(time: Timespec) -> u64 {
    let part = |part: i64| u64::try_from(part).unwrap_or_default();
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_advance() {
        let before = (monotonic_nanos(), processor_nanos());
        // Work that the processor clock must show.
        let sum: u64 = (0..100_000).map(std::hint::black_box).sum();
        assert!(sum > 0);
        assert!(monotonic_nanos() > before.0);
        assert!(processor_nanos() > before.1);
    }
}
