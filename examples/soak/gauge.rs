//! What a process holds, as the system, the runtime and its allocator say.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What the process holds at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Resident memory, bytes, once the system's allocator has given back what it only keeps for later.
    pub(crate) resident: u64,
    /// What Rust has allocated, bytes: not what codecs in C have.
    pub(crate) heap: usize,
    pub(crate) descriptors: usize,
    /// Tasks of the current runtime.
    pub(crate) tasks: usize,
}

impl Held {
    /// # Errors
    ///
    /// There is no `/proc` to read, or it has another form.
    pub(crate) fn now() -> io::Result<Self> {
        give_back();
        let status = fs::read_to_string("/proc/self/status")?;
        let resident = status.lines().find_map(|line| {
            let number = line.strip_prefix("VmRSS:")?.strip_suffix("kB")?;
            number.trim().parse::<u64>().ok()
        });
        Ok(Self {
            resident: resident.ok_or(io::ErrorKind::InvalidData)? << 10,
            heap: HEAP.load(Relaxed),
            // Reading the directory takes one itself.
            descriptors: fs::read_dir("/proc/self/fd")?.count() - 1,
            tasks: tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks(),
        })
    }
}

/// What is freed stays with the allocator, more or less of it as lengths and threads take turns: up to a tenth of what is resident (docs/benchmarks.md).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a function of the C library")]
fn give_back() {
    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> core::ffi::c_int;
    }
    // SAFETY: it takes any number, and touches nothing but the allocator's own free memory, under its locks.
    let _ = unsafe { malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
const fn give_back() {}

static HEAP: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counting what is held.
struct Counting;

#[expect(unsafe_code, reason = "an allocator is an unsafe trait")]
// SAFETY: every method passes its arguments on to the system's allocator, which keeps the contract; counting touches
// nothing but a number.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HEAP.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promises about `layout` are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        HEAP.fetch_add(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        HEAP.fetch_add(new_size, Relaxed);
        HEAP.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `block` came from this allocator, thus from the system's, with this layout.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HEAP.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as for `realloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
