//! The atomics that logs are made of: loom's where it explores their orders, else the processor's.

#[cfg(not(all(test, tautline_loom)))]
pub(super) use core::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(all(test, tautline_loom))]
pub(super) use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// A word that only the thread that asks ever writes.
#[cfg(not(all(test, tautline_loom)))]
#[inline]
pub(super) fn own(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

/// The same. To loom it is no access that others' orders depend on: with one that is, it tries a single order.
#[cfg(all(test, tautline_loom))]
#[expect(unsafe_code, reason = "the crate's word for it")]
pub(super) fn own(word: &AtomicU64) -> u64 {
    // SAFETY: nobody else stores to it.
    unsafe { word.unsync_load() }
}
