//! Wakes tasks at a time, some ten microseconds late. The runtime's own timers are 1 ms coarse,
//! as long as it takes to send a packet at 12 Mbit/s: on an idle link that would be all that a
//! message's time shows.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use super::now;

/// A thread that sleeps until the next time. It ends with its last handle.
#[derive(Debug)]
pub(super) struct Timer {
    shared: Arc<Shared>,
    next_id: AtomicU64,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Those who sleep: two for each connection, so that looking at all of them is cheap.
    sleepers: HashMap<u64, (Instant, Waker)>,
    /// When the thread wakes next, if it is not to be told anything.
    wakes_at: Option<Instant>,
    ended: bool,
}

impl Timer {
    pub(super) fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("relay timer".to_owned())
            .spawn(move || thread.run())?;
        Ok(Self {
            shared,
            next_id: AtomicU64::new(0),
        })
    }

    /// Waits for `deadline`; for ever, if there is none.
    pub(super) fn sleep_until(&self, deadline: Option<Instant>) -> Sleep<'_> {
        Sleep {
            timer: self,
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            deadline,
            is_waiting: false,
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        crate::thread::wake_in_time();
        let mut state = self.lock();
        while !state.ended {
            let time = now();
            state.sleepers.retain(|_, (deadline, waker)| {
                let is_due = *deadline <= time;
                if is_due {
                    waker.wake_by_ref();
                }
                !is_due
            });
            let next = state.sleepers.values().map(|(deadline, _)| *deadline).min();
            state.wakes_at = next;
            state = match next {
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(next) => {
                    let pause = next.saturating_duration_since(now());
                    let woken = self.changed.wait_timeout(state, pause);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// See [`Timer::sleep_until`].
#[derive(Debug)]
pub(super) struct Sleep<'a> {
    timer: &'a Timer,
    id: u64,
    deadline: Option<Instant>,
    is_waiting: bool,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.deadline else {
            return Poll::Pending;
        };
        if deadline <= now() {
            return Poll::Ready(());
        }
        let mut state = self.timer.shared.lock();
        let sleeper = (deadline, context.waker().clone());
        state.sleepers.insert(self.id, sleeper);
        if state.wakes_at.is_none_or(|wakes_at| deadline < wakes_at) {
            self.timer.shared.changed.notify_one();
        }
        drop(state);
        self.is_waiting = true;
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if self.is_waiting {
            self.timer.shared.lock().sleepers.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn sleepers_wake_in_their_order_and_not_before_their_time() {
        let timer = Timer::start().expect("a thread");
        let start = now();
        let woken = |millis| {
            let timer = &timer;
            async move {
                let deadline = start + Duration::from_millis(millis);
                timer.sleep_until(Some(deadline)).await;
                assert!(now() >= deadline);
                now()
            }
        };
        let (late, early) = tokio::join!(woken(20), woken(5));
        assert!(early < late);
        woken(0).await;
    }

    #[tokio::test]
    async fn who_gives_up_is_forgotten() {
        let timer = Timer::start().expect("a thread");
        let hour = Some(now() + Duration::from_secs(3600));
        tokio::select! {
            biased;
            () = timer.sleep_until(hour) => unreachable!(),
            () = timer.sleep_until(None) => unreachable!(),
            () = timer.sleep_until(Some(now() + Duration::from_millis(1))) => {}
        }
        assert!(timer.shared.lock().sleepers.is_empty());
    }
}
