//! A wait for somebody's word, for who is polled.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use tokio::sync::futures::Notified;

/// A wait that has begun, or none.
pub(super) struct Wait<'a, W> {
    /// Counts whoever waits, for as long as it lives.
    counted: Option<W>,
    /// In a place of its own, which stays the same.
    notified: Pin<Box<Option<Notified<'a>>>>,
}

impl<'a, W> Wait<'a, W> {
    pub(super) fn new() -> Self {
        Self {
            counted: None,
            notified: Box::pin(None),
        }
    }

    /// What happens from now on is told; what happened before is to be looked for once more.
    pub(super) fn begin(&mut self, (counted, notified): (W, Notified<'a>)) {
        self.counted = Some(counted);
        self.notified.set(Some(notified));
        if let Some(notified) = self.notified.as_mut().as_pin_mut() {
            notified.enable();
        }
    }

    pub(super) const fn is_begun(&self) -> bool {
        self.counted.is_some()
    }

    /// Until it is told, which ends the wait. At once if none has begun.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(notified) = self.notified.as_mut().as_pin_mut() {
            ready!(notified.poll(cx));
            self.end();
        }
        Poll::Ready(())
    }

    /// Nobody waits any more: what was told goes to another.
    pub(super) fn end(&mut self) {
        self.counted = None;
        self.notified.set(None);
    }
}
