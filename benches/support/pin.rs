//! A thread on one processor.

/// Where it may not, it runs wherever it is put.
#[cfg(target_os = "linux")]
pub(crate) fn pin(processor: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

#[cfg(not(target_os = "linux"))]
pub(crate) const fn pin(_processor: usize) {}
