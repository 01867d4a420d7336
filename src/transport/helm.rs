//! Who polls a connection's driver: its own task, or an application's that comes to where it would have to wait for that.
//!
//! What an application sends is taken up by the driver, and what arrives is handed over by it. Where the two are tasks on two threads, every message goes from one
//! processor's cache to another's, and each waits for the other to be woken. So an application that finds its queue full, or nothing to receive, lets the driver have its turn first,
//! on the spot, and goes on with what came of it. What the driver's task was woken for may be done by then: it has no turn of its own for that.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::runtime::{Handle, Id};

use super::bell::Bell;
use super::driver::max_turn;
use super::shared::{Shared, lock};
use crate::units::saturating_nanos;

/// So often an application goes on without having waited, if that takes no longer than a turn may; then the other tasks of its thread have their turn. Arbitrary.
const MOST_HELPS: u32 = 16;

type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The driver, and what rings for it.
struct Post {
    driver: Driver,
    /// Wakes the driver's task, and remembers it: what a helper has seen to meanwhile need not be looked for again.
    bell: Arc<Bell>,
    waker: Waker,
}

impl Post {
    fn new(driver: Driver, task: &Waker) -> Self {
        let bell = Bell::new(task);
        let waker = Waker::from(Arc::clone(&bell));
        Self {
            driver,
            bell,
            waker,
        }
    }

    fn poll(&mut self) -> Poll<()> {
        let mut cx = Context::from_waker(&self.waker);
        self.driver.as_mut().poll(&mut cx)
    }
}

#[derive(Default)]
struct Seat {
    /// Not here while somebody polls it.
    post: Option<Post>,
    /// The driver's task came while an application polled.
    missed: Option<Waker>,
    /// The driver has ended, or its task has.
    is_over: bool,
    /// Turns since its task had one.
    helps: u32,
    /// What they have taken, and may take.
    helped: Duration,
    max_turn: Duration,
    /// Where the driver's task runs: its timers, sockets and workers are known in no other.
    runtime: Option<Id>,
}

/// The driver, for whoever polls it next.
#[derive(Default)]
pub(super) struct Helm {
    seat: Mutex<Seat>,
    is_helped: AtomicBool,
    /// What the turn that somebody helps with has taken, as the driver says.
    turn_nanos: AtomicU64,
}

impl fmt::Debug for Helm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Helm").finish_non_exhaustive()
    }
}

impl Helm {
    /// Has the driver take a turn on this thread if something has rung for it, unless it is at it on another one, has had many, or does not run here.
    /// Whether it had one.
    pub(super) fn help(&self) -> bool {
        self.take_turn(Bell::has_rung)
    }

    fn take_turn(&self, is_due: impl FnOnce(&Bell) -> bool) -> bool {
        let mut post = {
            let mut seat = lock(&self.seat);
            let is_here = Handle::try_current().is_ok_and(|here| Some(here.id()) == seat.runtime);
            if seat.helps >= MOST_HELPS || seat.helped >= seat.max_turn || !is_here {
                return false;
            }
            let Some(post) = seat.post.take_if(|post| is_due(&post.bell)) else {
                return false;
            };
            seat.helps += 1;
            post
        };
        self.is_helped.store(true, Ordering::Relaxed);
        post.bell.answer();
        self.turn_nanos.store(0, Ordering::Relaxed);
        // Whatever it waits for wakes its own task.
        let polled = catch_unwind(AssertUnwindSafe(|| post.poll()));
        self.is_helped.store(false, Ordering::Relaxed);
        // A panic ends the connection, as it does in the driver's task, and not who has helped.
        let has_ended = !matches!(polled, Ok(Poll::Pending));
        let (missed, over) = {
            let mut seat = lock(&self.seat);
            seat.is_over |= has_ended;
            seat.helped += Duration::from_nanos(self.turn_nanos.load(Ordering::Relaxed));
            let over = if seat.is_over {
                Some(post)
            } else {
                seat.post = Some(post);
                None
            };
            (seat.missed.take(), over)
        };
        if let Some(Post { driver, bell, .. }) = over {
            drop(driver);
            bell.task().wake_by_ref();
        }
        if let Some(task) = missed {
            task.wake();
        }
        true
    }

    /// The driver's turn has taken so long.
    pub(super) fn on_turn(&self, taken: Duration) {
        if self.is_helped() {
            self.turn_nanos
                .store(saturating_nanos(taken), Ordering::Relaxed);
        }
    }

    /// Whether it is an application's task that polls the driver: what that runs in, besides the runtime, is not known.
    pub(super) fn is_helped(&self) -> bool {
        self.is_helped.load(Ordering::Relaxed)
    }
}

/// Messages that go to or from a stream without a wait before the other tasks of the thread have a turn: some 50 µs. Arbitrary.
const RUN: u32 = 1024;

/// Messages one after another each of which woke the driver: it runs on another thread then and is asleep again before the next, and to wake a thread takes as long as to send
/// two hundred of them. A turn of the scheduler's lets it run on this one, with all that has come by then. Arbitrary.
const MOST_RINGS: u32 = 3;

/// Counts messages for which nobody had to wait.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// Not exact where several count: it need not be.
    messages: AtomicU32,
    /// How many in succession have woken the driver, and which was the last.
    rings: AtomicU32,
}

impl Run {
    /// Counts another: whether the other tasks of the thread are to have a turn before.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        let run = self.messages.load(Ordering::Relaxed);
        self.messages.store((run + 1) % RUN, Ordering::Relaxed);
        run == RUN - 1
    }

    /// The message that was counted last wakes the driver. If others before it did so too, this run is over.
    pub(super) fn ring(&self) {
        let message = self.messages.load(Ordering::Relaxed);
        let (rings, last) = unpacked(self.rings.load(Ordering::Relaxed));
        let follows = rings > 0 && message == (last + 1) % RUN;
        let rings = if follows { rings + 1 } else { 1 };
        if rings < MOST_RINGS {
            self.rings.store(packed(rings, message), Ordering::Relaxed);
        } else {
            self.messages.store(RUN - 1, Ordering::Relaxed);
            self.pause();
        }
    }

    /// Whoever sends waits for something: others have their turn meanwhile.
    pub(super) fn pause(&self) {
        self.rings.store(0, Ordering::Relaxed);
    }
}

const fn packed(rings: u32, last: u32) -> u32 {
    rings << 16 | last
}

const fn unpacked(rings: u32) -> (u32, u32) {
    (rings >> 16, rings & 0xffff)
}

const _: () = assert!(RUN <= 1 << 16);

/// The other tasks of this thread that are ready have a turn. Those of the runtime that yield wait until none is.
#[derive(Debug, Default)]
pub(super) struct YieldOnce {
    has_yielded: bool,
}

impl Future for YieldOnce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if core::mem::replace(&mut self.has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The driver's own task. The driver ends with it.
pub(super) struct Steering {
    shared: Arc<Shared>,
    /// Until it is polled first.
    driver: Option<Driver>,
}

impl Steering {
    pub(super) fn new(shared: Arc<Shared>, driver: Driver) -> Self {
        let driver = Some(driver);
        Self { shared, driver }
    }
}

impl Future for Steering {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let first = self.driver.take();
        let helm = &self.shared.helm;
        let mut post = {
            let mut seat = lock(&helm.seat);
            seat.helps = 0;
            seat.helped = Duration::ZERO;
            if let Some(driver) = first {
                seat.runtime = Handle::try_current().ok().map(|here| here.id());
                seat.max_turn = max_turn();
                Post::new(driver, cx.waker())
            } else if seat.is_over {
                return Poll::Ready(());
            } else if let Some(mut post) = seat.post.take() {
                if !post.bell.task().will_wake(cx.waker()) {
                    post = Post::new(post.driver, cx.waker());
                }
                post
            } else {
                seat.missed = Some(cx.waker().clone());
                return Poll::Pending;
            }
        };
        // What panics here is dropped with its streams told, and this with it.
        let polled = if post.bell.answer() {
            post.poll()
        } else {
            Poll::Pending
        };
        let mut seat = lock(&helm.seat);
        if polled.is_ready() {
            seat.is_over = true;
            drop(seat);
            drop(post);
        } else {
            seat.post = Some(post);
        }
        polled
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        let post = {
            let mut seat = lock(&self.shared.helm.seat);
            seat.is_over = true;
            seat.post.take()
        };
        drop(post);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
    use std::task::Wake;
    use std::thread::JoinHandle;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    type Turn = Box<dyn FnMut(&Waker) -> Poll<()> + Send>;

    /// What a driver does at each turn, which is told there, and whether it has been dropped.
    struct Turns {
        turn: Turn,
        waker: Arc<Mutex<Option<Waker>>>,
        dropped: Arc<AtomicBool>,
    }

    impl Future for Turns {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            *lock(&self.waker) = Some(cx.waker().clone());
            (self.turn)(cx.waker())
        }
    }

    impl Drop for Turns {
        fn drop(&mut self) {
            self.dropped.store(true, Ordering::SeqCst);
        }
    }

    struct Stage {
        shared: Arc<Shared>,
        steering: Pin<Box<Steering>>,
        woken: Arc<Woken>,
        waker: Arc<Mutex<Option<Waker>>>,
        dropped: Arc<AtomicBool>,
    }

    impl Stage {
        fn new(mut turn: impl FnMut() -> Poll<()> + Send + 'static) -> Self {
            Self::with_waker(move |_| turn())
        }

        fn with_waker(turn: impl FnMut(&Waker) -> Poll<()> + Send + 'static) -> Self {
            let (shared, dropped) = (Arc::new(Shared::new(1, 1, 1)), Arc::default());
            let waker = Arc::default();
            let turns = Turns {
                turn: Box::new(turn),
                waker: Arc::clone(&waker),
                dropped: Arc::clone(&dropped),
            };
            let steering = Steering::new(Arc::clone(&shared), Box::pin(turns));
            Self {
                shared,
                steering: Box::pin(steering),
                woken: Arc::default(),
                waker,
                dropped,
            }
        }

        fn poll(&mut self) -> Poll<()> {
            let waker = Waker::from(Arc::clone(&self.woken));
            self.steering
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
        }

        /// Something has come that the driver waits for.
        fn ring(&self) {
            let waker = lock(&self.waker).clone();
            waker.expect("it has had a turn").wake();
        }

        /// Whether or not it has rung.
        fn help(&self) -> bool {
            self.shared.helm.take_turn(|_| true)
        }

        fn help_on_another_thread(&self) -> JoinHandle<bool> {
            let (shared, here) = (Arc::clone(&self.shared), Handle::current());
            std::thread::spawn(move || {
                let _here = here.enter();
                shared.helm.take_turn(|_| true)
            })
        }

        fn woken(&self) -> u32 {
            self.woken.0.load(Ordering::SeqCst)
        }

        fn is_dropped(&self) -> bool {
            self.dropped.load(Ordering::SeqCst)
        }
    }

    /// A driver that says that it has a turn, and ends it when told.
    fn slow() -> (Stage, Receiver<()>, SyncSender<()>) {
        let ((begun, begins), (end, ended)) = (sync_channel(1), sync_channel(1));
        let mut first = true;
        let stage = Stage::new(move || {
            // The first turn is its task's.
            if !core::mem::take(&mut first) {
                begun.send(()).expect("somebody listens");
                let told = ended.recv_timeout(Duration::from_secs(30));
                told.expect("somebody tells");
            }
            Poll::Pending
        });
        (stage, begins, end)
    }

    #[tokio::test]
    async fn an_application_helps_until_the_task_must_have_its_turn() {
        let turns = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&turns);
        let mut stage = Stage::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Poll::Pending
        });
        assert!(!stage.shared.helm.help(), "before its task has begun");
        assert!(stage.poll().is_pending());
        for _ in 0..2 {
            let helped = (0..100).filter(|_| {
                stage.ring();
                stage.shared.helm.help()
            });
            assert_eq!(helped.count(), MOST_HELPS as usize);
            assert!(stage.poll().is_pending());
        }
        assert_eq!(turns.load(Ordering::SeqCst), 3 + 2 * MOST_HELPS);
        drop(stage.steering);
        assert!(stage.dropped.load(Ordering::SeqCst) && !stage.shared.helm.help());
    }

    #[tokio::test]
    async fn where_nothing_has_rung_there_is_nothing_to_help_with() {
        let turns = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&turns);
        let mut stage = Stage::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Poll::Pending
        });
        let had = || turns.load(Ordering::SeqCst);
        assert!(stage.poll().is_pending() && had() == 1);
        assert!(!stage.shared.helm.help() && had() == 1);
        stage.ring();
        assert!(stage.shared.helm.help() && had() == 2);
        assert!(!stage.shared.helm.help() && had() == 2);
    }

    #[tokio::test]
    async fn the_task_has_no_turn_for_what_a_helper_has_seen_to() {
        let turns = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&turns);
        let mut stage = Stage::with_waker(move |waker| {
            // The fourth is not enough for all there is to do.
            if counted.fetch_add(1, Ordering::SeqCst) == 3 {
                waker.wake_by_ref();
            }
            Poll::Pending
        });
        let had = || turns.load(Ordering::SeqCst);
        assert!(stage.poll().is_pending() && had() == 1);
        stage.ring();
        assert!(stage.help() && had() == 2);
        assert!(stage.poll().is_pending() && had() == 2, "seen to");
        stage.ring();
        assert!(stage.poll().is_pending() && had() == 3, "and this is not");
        assert!(stage.help() && had() == 4);
        assert!(stage.poll().is_pending() && had() == 5, "nor is its rest");
        assert!(stage.poll().is_pending() && had() == 5);
        assert_eq!(stage.woken(), 3);
    }

    #[tokio::test]
    async fn what_comes_while_it_is_helped_is_its_tasks() {
        let (mut stage, begins, end) = slow();
        assert!(stage.poll().is_pending());
        let helper = stage.help_on_another_thread();
        begins.recv().expect("a turn");
        stage.ring();
        end.send(()).expect("it waits");
        assert!(helper.join().expect("no panic"));
        end.send(()).expect("it will wait");
        assert!(stage.poll().is_pending());
        begins.try_recv().expect("a turn");
    }

    /// Messages that are sent, each of which wakes the driver or does not, until the run is over: how many.
    fn until_over(run: &Run, mut rings: impl FnMut(u32) -> bool) -> u32 {
        let is_next = |message: &u32| {
            let is_over = run.is_over();
            if rings(*message) {
                run.ring();
            }
            !is_over
        };
        (0..2 * RUN).take_while(is_next).count() as u32
    }

    #[test]
    fn a_run_ends_early_where_each_message_wakes_the_driver() {
        let run = Run::default();
        for _ in 0..3 {
            assert_eq!(until_over(&run, |message| message < MOST_RINGS), MOST_RINGS);
        }
        let run = Run::default();
        assert_eq!(until_over(&run, |_| false), RUN - 1);
        // Batches: the driver has not come to sleep before each.
        assert_eq!(until_over(&run, |message| message % 2 == 0), RUN - 1);
        // Whoever waits for an answer to each has left others their turn.
        let waits = |_| {
            run.pause();
            true
        };
        assert_eq!(until_over(&run, waits), RUN - 1);
    }

    #[tokio::test]
    async fn another_task_is_woken_from_then_on() {
        let mut stage = Stage::new(|| Poll::Pending);
        assert!(stage.poll().is_pending());
        let before = core::mem::take(&mut stage.woken);
        assert!(stage.poll().is_pending());
        stage.ring();
        assert!(stage.woken() == 1 && before.0.load(Ordering::SeqCst) == 0);
    }

    #[test]
    fn only_where_the_driver_runs_it_is_helped() {
        let here = tokio::runtime::Builder::new_current_thread().build();
        let there = tokio::runtime::Builder::new_current_thread().build();
        let (here, there) = (here.expect("a runtime"), there.expect("a runtime"));
        let mut stage = Stage::new(|| Poll::Pending);
        assert!(here.block_on(async { stage.poll() }).is_pending());
        assert!(!stage.help(), "in no runtime");
        assert!(!there.block_on(async { stage.help() }));
        assert!(here.block_on(async { stage.help() }));
    }

    #[tokio::test]
    async fn a_driver_that_ends_while_it_is_helped_ends_its_task() {
        let mut turns = 0;
        let mut stage = Stage::new(move || {
            turns += 1;
            if turns == 1 {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        });
        assert!(stage.poll().is_pending());
        assert!(stage.help() && stage.is_dropped());
        assert_eq!(stage.woken(), 1);
        assert!(!stage.help());
        assert!(stage.poll().is_ready());
    }

    #[tokio::test]
    async fn a_panic_is_the_drivers_end_and_not_the_helpers() {
        let mut first = true;
        let mut stage = Stage::new(move || {
            assert!(core::mem::take(&mut first), "as it is meant to");
            Poll::Pending
        });
        assert!(stage.poll().is_pending());
        assert!(stage.help() && stage.is_dropped());
        assert!(stage.woken() == 1 && stage.poll().is_ready());
    }

    #[tokio::test]
    async fn a_task_that_comes_meanwhile_is_woken_afterwards() {
        let (mut stage, begins, end) = slow();
        assert!(stage.poll().is_pending());
        let helper = stage.help_on_another_thread();
        begins.recv().expect("a turn");
        assert!(stage.shared.helm.is_helped());
        assert!(stage.poll().is_pending() && !stage.help());
        assert_eq!(stage.woken(), 0);
        end.send(()).expect("it waits");
        assert!(helper.join().expect("no panic"));
        assert!(stage.woken() == 1 && !stage.shared.helm.is_helped());
        end.send(()).expect("it will wait");
        assert!(stage.poll().is_pending());
    }

    #[tokio::test]
    async fn a_task_that_is_dropped_meanwhile_takes_the_driver_with_it() {
        let (mut stage, begins, end) = slow();
        assert!(stage.poll().is_pending());
        let helper = stage.help_on_another_thread();
        begins.recv().expect("a turn");
        drop(stage.steering);
        assert!(!stage.dropped.load(Ordering::SeqCst));
        end.send(()).expect("it waits");
        assert!(helper.join().expect("no panic"));
        assert!(stage.dropped.load(Ordering::SeqCst) && !stage.shared.helm.help());
    }
}
