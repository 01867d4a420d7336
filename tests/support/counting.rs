//! The system's allocator, counting what is held.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::RangeBounds;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

/// Bytes held, by the binary logarithm of the size they were asked for in.
static HELD: [AtomicUsize; usize::BITS as usize] =
    [const { AtomicUsize::new(0) }; usize::BITS as usize];

fn of_size(size: usize) -> &'static AtomicUsize {
    &HELD[size.max(1).ilog2() as usize]
}

fn count(size: usize) {
    of_size(size).fetch_add(size, Ordering::Relaxed);
}

fn uncount(size: usize) {
    of_size(size).fetch_sub(size, Ordering::Relaxed);
}

#[expect(unsafe_code, reason = "an allocator is an unsafe trait")]
// SAFETY: every method passes its arguments on to the system's allocator, which keeps the contract;
// counting touches nothing but numbers.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises about `layout` are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        uncount(layout.size());
        // SAFETY: `block` came from this allocator, thus from the system's, with this layout.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        uncount(layout.size());
        // SAFETY: as for `realloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that Rust holds in pieces of these sizes, each a binary logarithm.
pub(crate) fn held(sizes: impl RangeBounds<usize>) -> usize {
    let sizes = (sizes.start_bound().cloned(), sizes.end_bound().cloned());
    let held = HELD[sizes].iter().map(|held| held.load(Ordering::Relaxed));
    held.fold(0, usize::wrapping_add)
}
