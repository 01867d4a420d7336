//! What wakes a driver that sleeps, and what of that need not be asked for again.

use core::task::{Context, Waker};
use std::sync::Arc;

use crate::transport::bell::Bell;

/// What was registered with the driver's waker.
pub(super) struct Wakers {
    /// Wakes the driver once there may be something to read, and has rung until somebody has looked, to the end.
    input: Arc<Bell>,
    input_waker: Waker,
    /// Whether the timer as it is set wakes the driver.
    pub(super) has_timer: bool,
    /// Whether the carrier holds nothing back of what it took.
    pub(super) is_flushed: bool,
}

impl Wakers {
    pub(super) fn new(driver: &Waker) -> Self {
        let input = Bell::new(driver);
        Self {
            input_waker: Waker::from(Arc::clone(&input)),
            input,
            has_timer: false,
            is_flushed: false,
        }
    }

    /// The driver is polled with this one: what was registered with another is not any more.
    pub(super) fn keep_up(&mut self, driver: &Waker) {
        if !self.input.task().will_wake(driver) {
            *self = Self::new(driver);
        }
    }

    /// What to read with, if there may be something: not after a read that found nothing, until the socket has rung.
    pub(super) fn input(&self) -> Option<Context<'_>> {
        let may_have_any = self.input.answer();
        may_have_any.then(|| Context::from_waker(&self.input_waker))
    }

    /// There may be more to read, or it is another socket.
    pub(super) fn ring(&self) {
        self.input.set();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_found_nothing_reads_again_once_the_socket_has_rung() {
        let task = Bell::new(Waker::noop());
        let driver = Waker::from(Arc::clone(&task));
        let mut wakers = Wakers::new(&driver);
        let socket = wakers.input().map(|cx| cx.waker().clone());
        let socket = socket.expect("nobody has looked yet");
        assert!(wakers.input().is_none());
        task.answer();
        socket.wake_by_ref();
        assert!(task.answer(), "the driver is woken");
        wakers.keep_up(&driver);
        assert!(wakers.input().is_some() && wakers.input().is_none());
        wakers.ring();
        assert!(wakers.input().is_some() && wakers.input().is_none());
        assert!(!task.has_rung(), "who says so is awake");
        // Another task's: nothing is registered with that.
        wakers.has_timer = true;
        wakers.keep_up(&Waker::from(Bell::new(Waker::noop())));
        assert!(wakers.input().is_some() && !wakers.has_timer);
    }
}
