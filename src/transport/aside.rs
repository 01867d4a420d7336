//! Work that no message waits for, on a thread that gets a processor when others leave one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use tokio::sync::oneshot;

/// The nicest that a thread can be.
#[cfg(any(target_os = "linux", target_os = "android"))]
const LEAST_PRIORITY: i32 = 19;

type Job = Box<dyn FnOnce() + Send>;

/// A thread of a node for what may as well be done later: one job after another. It is started with the first, and ends
/// after the last one that was begun before this is dropped.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// Empty if the system had no thread to give.
    jobs: OnceLock<Option<Sender<Job>>>,
}

impl Aside {
    /// Does `work`, whose result comes by what is returned: an error if it has panicked. Without a thread of its own, it is
    /// done by one that the runtime keeps for what blocks.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (done, result) = oneshot::channel();
        let job: Job = Box::new(move || {
            // Who asked may be gone.
            let _ = done.send(work());
        });
        let refused = match self.jobs.get_or_init(start) {
            Some(jobs) => jobs.send(job).err().map(|refused| refused.0),
            None => Some(job),
        };
        if let Some(job) = refused {
            tokio::task::spawn_blocking(job);
        }
        result
    }
}

fn start() -> Option<Sender<Job>> {
    let (jobs, waiting) = channel();
    let thread = thread::Builder::new().name("tautline-aside".to_owned());
    thread.spawn(move || work_off(&waiting)).ok()?;
    Some(jobs)
}

fn work_off(waiting: &Receiver<Job>) {
    step_back();
    while let Ok(job) = waiting.recv() {
        // Others' jobs go on after one that panics; who waits for it finds that nothing comes.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

/// Makes this thread one that runs where a processor would be idle (`SCHED_IDLE`), which every thread may: whoever wakes takes the
/// processor from it at once. At the lowest priority it was seen to be given a processor that others could have used, for 0.3 to 0.7 ms at a time
/// (docs/benchmarks.md), which is what it has where that class is refused. Where threads have neither, nothing changes.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[expect(unsafe_code, reason = "no safe crate here has the call")]
fn step_back() {
    // SAFETY: the parameters outlive the call; 0 is this thread.
    let refused = unsafe {
        let parameters: libc::sched_param = core::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters)
    };
    if refused != 0 {
        // Of this thread alone, here; every thread may.
        let _ = rustix::process::setpriority_process(None, LEAST_PRIORITY);
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
const fn step_back() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn jobs_are_done_in_their_order_and_a_panic_is_its_own() {
        let aside = Aside::default();
        let first = aside.run(|| 1);
        let failed = aside.run(|| -> i32 { panic!("as it is meant to") });
        let last = aside.run(|| 3);
        assert_eq!(first.await, Ok(1));
        assert!(failed.await.is_err());
        assert_eq!(last.await, Ok(3));
    }

    #[tokio::test]
    async fn what_was_begun_is_done_after_the_node_is_gone() {
        let aside = Aside::default();
        let (go, wait) = channel();
        let first = aside.run(move || wait.recv());
        let second = aside.run(|| thread::current().name().map(str::to_owned));
        drop(aside);
        go.send(()).expect("the job waits for it");
        assert_eq!(first.await.expect("done"), Ok(()));
        let name = second.await.expect("done");
        assert_eq!(name.as_deref(), Some("tautline-aside"));
    }

    #[tokio::test]
    async fn without_a_thread_the_runtime_has_one() {
        let aside = Aside {
            jobs: OnceLock::from(None),
        };
        let name = aside.run(|| thread::current().name().map(str::to_owned));
        assert_ne!(name.await.expect("done").as_deref(), Some("tautline-aside"));
    }

    #[tokio::test]
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[expect(unsafe_code, reason = "as above")]
    async fn it_gives_way_to_all_others_and_they_stay_as_they_are() {
        // SAFETY: 0 is this thread.
        let class = || unsafe { libc::sched_getscheduler(0) };
        let before = class();
        assert_ne!(before, libc::SCHED_IDLE);
        let aside = Aside::default();
        assert_eq!(aside.run(class).await.expect("done"), libc::SCHED_IDLE);
        assert_eq!(class(), before);
    }
}
