//! A waker that remembers that it has woken: who looks for something that was waited for need not do so again before it rings.

use core::task::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

/// Wakes a task, and has rung since. Nobody has answered a new one.
pub(super) struct Bell {
    task: Waker,
    rung: AtomicBool,
}

impl Bell {
    pub(super) fn new(task: &Waker) -> Arc<Self> {
        Arc::new(Self {
            task: task.clone(),
            rung: AtomicBool::new(true),
        })
    }

    /// Whom it wakes.
    pub(super) const fn task(&self) -> &Waker {
        &self.task
    }

    pub(super) fn has_rung(&self) -> bool {
        self.rung.load(Ordering::Acquire)
    }

    /// Whether it has rung since the last time: what it rang for is seen by who looks from now on.
    pub(super) fn answer(&self) -> bool {
        self.rung.swap(false, Ordering::AcqRel)
    }

    /// As if it had rung, for who is awake.
    pub(super) fn set(&self) {
        self.rung.store(true, Ordering::Release);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set();
        self.task.wake_by_ref();
    }
}
