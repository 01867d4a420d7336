//! What wakes a driver that sleeps, and what of that need not be asked for again.

use core::task::{Context, Waker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

/// The driver's waker, and what was registered with it.
pub(super) struct Wakers {
    driver: Waker,
    input: Arc<InputBell>,
    input_waker: Waker,
    /// Whether the timer as it is set wakes the driver.
    pub(super) has_timer: bool,
    /// Whether the carrier holds nothing back of what it took.
    pub(super) is_flushed: bool,
}

/// Rings once there may be something to read.
struct InputBell {
    driver: Waker,
    /// Nobody has looked since, or not to the end.
    has_rung: AtomicBool,
}

impl Wake for InputBell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::Release);
        self.driver.wake_by_ref();
    }
}

impl Wakers {
    pub(super) fn new(driver: Waker) -> Self {
        let input = Arc::new(InputBell {
            driver: driver.clone(),
            has_rung: AtomicBool::new(true),
        });
        Self {
            driver,
            input_waker: Waker::from(Arc::clone(&input)),
            input,
            has_timer: false,
            is_flushed: false,
        }
    }

    /// The driver is polled with this one: what was registered with another is not any more.
    pub(super) fn keep_up(&mut self, driver: &Waker) {
        if !self.driver.will_wake(driver) {
            *self = Self::new(driver.clone());
        }
    }

    /// What to read with, if there may be something: not after a read that found nothing, until the socket has rung.
    pub(super) fn input(&self) -> Option<Context<'_>> {
        let may_have_any = self.input.has_rung.swap(false, Ordering::AcqRel);
        may_have_any.then(|| Context::from_waker(&self.input_waker))
    }

    /// There may be more to read, or it is another socket.
    pub(super) fn ring(&self) {
        self.input.has_rung.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn who_has_found_nothing_reads_again_once_the_socket_has_rung() {
        let woken = Arc::new(Woken::default());
        let driver = Waker::from(Arc::clone(&woken));
        let mut wakers = Wakers::new(driver.clone());
        let socket = wakers.input().map(|cx| cx.waker().clone());
        let socket = socket.expect("nobody has looked yet");
        assert!(wakers.input().is_none());
        socket.wake_by_ref();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        wakers.keep_up(&driver);
        assert!(wakers.input().is_some() && wakers.input().is_none());
        wakers.ring();
        assert!(wakers.input().is_some() && wakers.input().is_none());
        // Another task's: nothing is registered with that.
        wakers.has_timer = true;
        wakers.keep_up(&Waker::from(Arc::new(Woken::default())));
        assert!(wakers.input().is_some() && !wakers.has_timer);
    }
}
