//! The atomics that logs are made of: loom's where it explores their orders, else the processor's.

#[cfg(not(all(test, tautline_loom)))]
pub(super) use core::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(all(test, tautline_loom))]
pub(super) use loom::sync::atomic::{AtomicU64, Ordering, fence};
