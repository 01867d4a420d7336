//! Work that no message waits for, on a thread that gets a processor when others leave one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use tokio::sync::{Semaphore, oneshot};

/// The nicest that a thread can be.
#[cfg(any(target_os = "linux", target_os = "android"))]
const LEAST_PRIORITY: i32 = 19;

type Job = Box<dyn FnOnce() + Send>;

/// A thread of a node for what may as well be done later: one job after another. It is started with the first, and ends
/// after the last one that was begun before this is dropped.
#[derive(Debug)]
pub(super) struct Aside {
    /// Empty if the system had no thread to give.
    jobs: OnceLock<Option<Sender<Job>>>,
    /// One place: where no processor is left, jobs wait for long, and only the one that is next has what it works with.
    turn: Arc<Semaphore>,
}

impl Aside {
    pub(super) fn new() -> Self {
        Self {
            jobs: OnceLock::new(),
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// Does the work that `begin` makes once its turn has come, and says what it came to, or nothing if it has panicked. Without a thread of its own, it is
    /// done by one that the runtime keeps for what blocks.
    pub(super) async fn run<T, W>(&self, begin: impl FnOnce() -> W) -> Option<T>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        // Nobody closes it.
        let turn = Arc::clone(&self.turn).acquire_owned().await.ok()?;
        let work = begin();
        let (done, result) = oneshot::channel();
        let job: Job = Box::new(move || {
            // Who asked may be gone: then the turn is over, and what it had given back.
            let _ = done.send((work(), turn));
        });
        let refused = match self.jobs.get_or_init(start) {
            Some(jobs) => jobs.send(job).err().map(|refused| refused.0),
            None => Some(job),
        };
        if let Some(job) = refused {
            tokio::task::spawn_blocking(job);
        }
        let (result, _turn) = result.await.ok()?;
        Some(result)
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
    use core::cell::Cell;
    use core::pin::pin;

    use futures_util::future::{join_all, poll_immediate};

    use super::*;

    fn name() -> Option<String> {
        thread::current().name().map(str::to_owned)
    }

    #[tokio::test]
    async fn jobs_are_done_in_their_order_and_a_panic_is_its_own() {
        let aside = Aside::new();
        let done = tokio::join!(
            aside.run(|| || 1),
            aside.run(|| || -> i32 { panic!("as it is meant to") }),
            aside.run(|| || 3),
        );
        assert_eq!(done, (Some(1), None, Some(3)));
    }

    /// Where the thread gets no processor, one job has what it works with, however many wait.
    #[tokio::test]
    async fn who_waits_for_his_turn_holds_nothing() {
        let aside = Aside::new();
        let (held, most) = (Cell::new(0), Cell::new(0));
        let (go, wait) = channel();
        let blocked = aside.run(|| move || wait.recv().is_ok());
        let waiting = (0..20).map(async |number| {
            let begin = || {
                held.set(held.get() + 1);
                most.set(most.get().max(held.get()));
                move || number
            };
            let done = aside.run(begin).await;
            held.set(held.get() - 1);
            done
        });
        let release = async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert_eq!(held.get(), 0);
            go.send(()).expect("the job waits for it");
        };
        let (first, others, ()) = tokio::join!(blocked, join_all(waiting), release);
        assert_eq!(first, Some(true));
        assert!(others.into_iter().eq((0..20).map(Some)));
        assert_eq!((held.get(), most.get()), (0, 1));
    }

    #[tokio::test]
    async fn what_was_begun_is_done_after_who_asked_and_the_node_are_gone() {
        let aside = Aside::new();
        let (go, wait) = channel();
        let (say, mut said) = tokio::sync::mpsc::unbounded_channel();
        {
            let run = pin!(aside.run(|| {
                move || {
                    let told = wait.recv();
                    say.send((told, name()))
                }
            }));
            assert!(poll_immediate(run).await.is_none());
        }
        drop(aside);
        go.send(()).expect("the job waits for it");
        let (told, name) = said.recv().await.expect("it is done");
        assert_eq!((told, name.as_deref()), (Ok(()), Some("tautline-aside")));
    }

    #[tokio::test]
    async fn whose_asker_is_gone_leaves_its_turn() {
        let aside = Aside::new();
        let (go, wait) = channel();
        {
            let run = pin!(aside.run(|| move || wait.recv()));
            assert!(poll_immediate(run).await.is_none());
        }
        {
            let never = pin!(aside.run(|| || unreachable!("nobody waits for it")));
            let none: Option<Option<()>> = poll_immediate(never).await;
            assert!(none.is_none());
        }
        let next = aside.run(|| || 2);
        let release = async { go.send(()).expect("the job waits for it") };
        assert_eq!(tokio::join!(next, release).0, Some(2));
    }

    #[tokio::test]
    async fn without_a_thread_the_runtime_has_one() {
        let aside = Aside {
            jobs: OnceLock::from(None),
            ..Aside::new()
        };
        let name = aside.run(|| name).await.expect("done");
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
        let aside = Aside::new();
        assert_eq!(aside.run(|| class).await, Some(libc::SCHED_IDLE));
        assert_eq!(class(), before);
    }
}
