//! Work that no message waits for, on a thread that gets a processor when others leave one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use tokio::sync::oneshot;

use crate::session::CodecWorker;

/// The nicest that a thread can be.
#[cfg(any(target_os = "linux", target_os = "android"))]
const LEAST_PRIORITY: i32 = 19;

type Job = Box<dyn FnOnce(&mut CodecWorker) + Send>;

/// A thread of a node for what may as well be done later: one job after another, with a codec worker of its own, so that jobs that
/// wait, for long where no processor is left, hold none. It is started with the first, and ends after the last one that was begun before this is dropped.
#[derive(Debug)]
pub(super) struct Aside {
    /// As in [`CodecWorker::new`].
    window_log: u8,
    /// Empty if the system had no thread to give.
    jobs: OnceLock<Option<Sender<Job>>>,
}

impl Aside {
    pub(super) const fn new(window_log: u8) -> Self {
        Self {
            window_log,
            jobs: OnceLock::new(),
        }
    }

    /// Does `work`, unless who asked is gone before it is begun, and says what it came to, or nothing if it has panicked.
    /// Without a thread of its own, it is done by one that the runtime keeps for what blocks.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut CodecWorker) -> T + Send + 'static,
    ) -> Option<T> {
        let (done, result) = oneshot::channel();
        let job: Job = Box::new(move |worker| {
            if !done.is_closed() {
                // Who asked may be gone meanwhile.
                let _ = done.send(work(worker));
            }
        });
        let window_log = self.window_log;
        let refused = match self.jobs.get_or_init(|| start(window_log)) {
            Some(jobs) => jobs.send(job).err().map(|refused| refused.0),
            None => Some(job),
        };
        if let Some(job) = refused {
            tokio::task::spawn_blocking(move || job(&mut CodecWorker::new(window_log)));
        }
        result.await.ok()
    }
}

fn start(window_log: u8) -> Option<Sender<Job>> {
    let (jobs, waiting) = channel();
    let thread = thread::Builder::new().name("tautline-aside".to_owned());
    thread.spawn(move || work_off(&waiting, window_log)).ok()?;
    Some(jobs)
}

fn work_off(waiting: &Receiver<Job>, window_log: u8) {
    step_back();
    let mut worker = CodecWorker::new(window_log);
    while let Ok(job) = waiting.recv() {
        // Others' jobs go on after one that panics; who waits for it finds that nothing comes.
        if catch_unwind(AssertUnwindSafe(|| job(&mut worker))).is_err() {
            worker = CodecWorker::new(window_log);
        }
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
    use core::pin::pin;

    use futures_util::future::poll_immediate;

    use super::*;

    fn name() -> Option<String> {
        thread::current().name().map(str::to_owned)
    }

    fn aside() -> Aside {
        Aside::new(17)
    }

    #[tokio::test]
    async fn jobs_are_done_in_their_order_and_a_panic_is_its_own() {
        let aside = aside();
        let done = tokio::join!(
            aside.run(|_| 1),
            aside.run(|_| -> i32 { panic!("as it is meant to") }),
            aside.run(|_| 3),
        );
        assert_eq!(done, (Some(1), None, Some(3)));
    }

    #[tokio::test]
    async fn what_was_begun_is_done_after_who_asked_and_the_node_are_gone() {
        let aside = aside();
        let (go, wait) = channel();
        let (start, mut started) = tokio::sync::mpsc::unbounded_channel();
        let (say, mut said) = tokio::sync::mpsc::unbounded_channel();
        {
            let run = pin!(aside.run(move |_| {
                start.send(()).expect("waited for");
                let told = wait.recv();
                say.send((told, name()))
            }));
            assert!(poll_immediate(run).await.is_none());
            started.recv().await.expect("it is begun");
        }
        drop(aside);
        go.send(()).expect("the job waits for it");
        let (told, name) = said.recv().await.expect("it is done");
        assert_eq!((told, name.as_deref()), (Ok(()), Some("tautline-aside")));
    }

    /// Nor does it keep others from theirs, whether it is driven or not.
    #[tokio::test]
    async fn whose_asker_is_gone_before_it_is_begun_is_not_done() {
        let aside = aside();
        let (go, wait) = channel();
        let mut first = pin!(aside.run(move |_| wait.recv()));
        assert!(poll_immediate(first.as_mut()).await.is_none());
        {
            let never = pin!(aside.run(|_| unreachable!("nobody waits for it")));
            let none: Option<Option<()>> = poll_immediate(never).await;
            assert!(none.is_none());
        }
        go.send(()).expect("the job waits for it");
        // The first has its result and does not take it.
        assert_eq!(aside.run(|_| 2).await, Some(2));
        assert_eq!(first.await, Some(Ok(())));
    }

    #[tokio::test]
    async fn without_a_thread_the_runtime_has_one() {
        let aside = Aside {
            jobs: OnceLock::from(None),
            ..aside()
        };
        let name = aside.run(|_| name()).await.expect("done");
        assert_ne!(name.as_deref(), Some("tautline-aside"));
    }

    #[tokio::test]
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[expect(unsafe_code, reason = "as above")]
    async fn it_gives_way_to_all_others_and_they_stay_as_they_are() {
        // SAFETY: 0 is this thread.
        let class = || unsafe { libc::sched_getscheduler(0) };
        let before = class();
        assert_ne!(before, libc::SCHED_IDLE);
        let aside = aside();
        assert_eq!(aside.run(move |_| class()).await, Some(libc::SCHED_IDLE));
        assert_eq!(class(), before);
    }
}
