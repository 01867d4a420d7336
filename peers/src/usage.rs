//! What a pass takes of the machine, as the system counts it: processor time and memory.

use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};

/// Threads that belong to nobody who is compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bystanders(Arc<Mutex<Vec<i32>>>);

impl Bystanders {
    /// The calling thread is one of them.
    pub(crate) fn add_this(&self) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(gettid().as_raw_nonzero().get());
    }

    /// Seconds of a processor that this process has had, its bystanders apart, and `processes` with it.
    /// `None` where the system does not say.
    pub(crate) fn others(&self, processes: &[u32]) -> Option<f64> {
        // A system that says nothing of threads would have bystanders count.
        on_processor("/proc/thread-self")?;
        let threads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bystanders = 0;
        for thread in threads.iter() {
            // One that has ended had done nothing for long.
            bystanders += on_processor(&format!("/proc/self/task/{thread}")).unwrap_or(0);
        }
        let own = clock_gettime(ClockId::ProcessCPUTime);
        let own =
            u64::try_from(own.tv_sec).ok()? * 1_000_000_000 + u64::try_from(own.tv_nsec).ok()?;
        let mut all = own.saturating_sub(bystanders);
        for process in processes {
            for thread in fs::read_dir(format!("/proc/{process}/task")).ok()? {
                let path = thread.ok()?.path();
                all += on_processor(path.to_str()?).unwrap_or(0);
            }
        }
        Some(all as f64 / 1e9)
    }
}

/// Nanoseconds of a processor that a thread has had.
fn on_processor(thread: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("{thread}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Bytes of memory that this process has now.
pub(crate) fn resident() -> Option<u64> {
    status("self", "VmRSS:")
}

/// The most that it has had since the last [`forget_peak`], or since it began.
pub(crate) fn peak() -> Option<u64> {
    status("self", "VmHWM:")
}

/// The most that another process has had.
pub(crate) fn peak_of(process: u32) -> Option<u64> {
    status(&process.to_string(), "VmHWM:")
}

/// The peak becomes what there is now. Where that is not allowed, it stays what it was.
pub(crate) fn forget_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

fn status(process: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Until this thread has had so much of a processor.
    fn work(nanos: u64) {
        let mine = || on_processor("/proc/thread-self").expect("it says");
        let until = mine() + nanos;
        while mine() < until {
            std::hint::black_box((0..10_000_u64).sum::<u64>());
        }
    }

    #[test]
    fn what_bystanders_do_does_not_count() {
        const WORK: u64 = 200_000_000;
        let (all, others) = (Bystanders::default(), Bystanders::default());
        // Other tests of this process may work between the two: half of it must be left.
        let theirs = || all.others(&[]).expect("it says") - others.others(&[]).expect("it says");
        let (done, works) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn({
            let others = others.clone();
            move || {
                others.add_this();
                work(WORK);
                done.send(()).expect("it is waited for");
                // It is still there to be looked at.
                let _ = ended.recv();
            }
        });
        works.recv().expect("it works");
        let found = theirs();
        assert!(found >= WORK as f64 / 2e9, "{found}");
        let before = others.others(&[]).expect("it says");
        work(WORK);
        let own = others.others(&[]).expect("it says") - before;
        assert!(own >= WORK as f64 / 1e9 * 0.99, "{own}");
        drop(end);
        thread.join().expect("it ends");
    }

    #[test]
    fn peaks_are_of_the_time_since_they_were_forgotten() {
        const MUCH: usize = 64 << 20;
        forget_peak();
        let before = resident().expect("it says");
        let much = std::hint::black_box(vec![1_u8; MUCH]);
        drop(much);
        let most = peak().expect("it says");
        assert!(most >= before + MUCH as u64 * 9 / 10, "{before} {most}");
        assert!(peak_of(std::process::id()).expect("it says") >= most);
        assert_eq!(peak_of(u32::MAX), None);
    }
}
