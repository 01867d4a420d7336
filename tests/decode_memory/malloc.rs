//! C's `malloc` and its kin, counted for each thread: all that Rust and C allocate in this process goes through them.

#![expect(
    unsafe_code,
    reason = "these are C's functions, and have the names of C's functions"
)]

use core::cell::Cell;
use core::ffi::{c_int, c_void};

unsafe extern "C" {
    fn __libc_malloc(len: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, len: usize) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, len: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, len: usize) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
    fn malloc_usable_size(block: *mut c_void) -> usize;
}

thread_local! {
    /// Bytes that this thread has allocated and not freed, and the most that they have been. Blocks that another thread
    /// frees, and those of before, may make them less than they are: who measures does it on one thread.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(change: isize) {
    // A thread that ends has none any more, and nobody who asks.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        let now = now + change;
        held.set((now, most.max(now)));
    });
}

fn len_of(block: *mut c_void) -> isize {
    // SAFETY: the callers pass what the system's functions gave and was not freed, or null, for which it is 0.
    isize::try_from(unsafe { malloc_usable_size(block) }).unwrap_or(isize::MAX)
}

fn counted(block: *mut c_void) -> *mut c_void {
    count(len_of(block));
    block
}

/// The most bytes that this thread holds while it does this, beyond what it held before.
pub(crate) fn peak(does: impl FnOnce()) -> usize {
    let before = HELD.with(|held| {
        let (now, _) = held.get();
        held.set((now, now));
        now
    });
    does();
    let most = HELD.with(Cell::get).1;
    usize::try_from(most - before).unwrap_or_default()
}

#[unsafe(no_mangle)]
extern "C" fn malloc(len: usize) -> *mut c_void {
    // SAFETY: any length may be asked for.
    counted(unsafe { __libc_malloc(len) })
}

#[unsafe(no_mangle)]
extern "C" fn calloc(number: usize, len: usize) -> *mut c_void {
    // SAFETY: as above; it judges the product.
    counted(unsafe { __libc_calloc(number, len) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(block: *mut c_void, len: usize) -> *mut c_void {
    let before = len_of(block);
    // SAFETY: the caller's promise: a block of these functions, or none.
    let new = unsafe { __libc_realloc(block, len) };
    if !new.is_null() {
        // Both are there while the bytes are copied; where nothing moves, only the difference.
        let moved = new != block;
        if !moved {
            count(-before);
        }
        counted(new);
        if moved {
            count(-before);
        }
    } else if len == 0 {
        count(-before);
    }
    new
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(block: *mut c_void) {
    count(-len_of(block));
    // SAFETY: the caller's promise: a block of these functions, or none.
    unsafe { __libc_free(block) }
}

#[unsafe(no_mangle)]
extern "C" fn memalign(alignment: usize, len: usize) -> *mut c_void {
    // SAFETY: what is no alignment makes it fail.
    counted(unsafe { __libc_memalign(alignment, len) })
}

#[unsafe(no_mangle)]
extern "C" fn aligned_alloc(alignment: usize, len: usize) -> *mut c_void {
    memalign(alignment, len)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(to: *mut *mut c_void, alignment: usize, len: usize) -> c_int {
    /// As the system's `errno.h` has it.
    const NO_MEMORY: c_int = 12;
    let block = memalign(alignment, len);
    if block.is_null() {
        return NO_MEMORY;
    }
    // SAFETY: the caller's promise: a place for a pointer.
    unsafe { to.write(block) };
    0
}
