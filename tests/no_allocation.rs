//! After warm-up, encoding and decoding do not allocate.
//!
//! Rust's allocations are counted per thread. zstd allocates with C's `malloc`, which this does not
//! see: its contexts are asked for their size instead.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tautline::codecs::{Arm, CodecId, Codecs, Encoded, info};
use tautline::dictionary::Dictionary;

/// The system's allocator, counting.
struct Counting;

thread_local! {
    // Constant and without a destructor: reading it never allocates.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.with(|allocations| allocations.set(allocations.get() + 1));
}

#[expect(unsafe_code, reason = "an allocator is an unsafe trait")]
// SAFETY: every method passes its arguments on to the system's allocator, which keeps the contract;
// counting touches nothing but a thread-local number.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises about `layout` are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: `block` came from this allocator, thus from the system's, with this layout.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as for `realloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MAX_LEN: usize = 70_000;

/// Half words, half noise in stretches, so that some pieces shrink and some do not.
fn content() -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut bytes = Vec::new();
    while bytes.len() < 4 * MAX_LEN {
        for _ in 0..rng.usize(1..400) {
            bytes.extend_from_slice(
                ["queue", " depth=", "17 ", "node\n"][rng.usize(..4)].as_bytes(),
            );
        }
        let noise = rng.usize(1..2000);
        bytes.extend(std::iter::repeat_with(|| rng.u8(..)).take(noise));
    }
    bytes
}

#[derive(Clone, Copy, Debug)]
enum Lengths {
    /// Every magnitude up to [`MAX_LEN`].
    Any,
    /// Within a factor of three.
    Near,
}

/// What 1000 messages, encoded and decoded, did to memory after warm-up.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// Allocations in Rust.
    allocations: u64,
    /// How often the memory held was another than before.
    changes: u64,
}

const NOTHING: Seen = Seen {
    allocations: 0,
    changes: 0,
};

fn after_warm_up(arms: &[Arm], lengths: Lengths) -> Seen {
    let content = content();
    let mut codecs = Codecs::new();
    let mut wire = vec![0; MAX_LEN];
    let mut plain = vec![0; MAX_LEN];
    let mut rng = fastrand::Rng::with_seed(2);
    let mut message = |codecs: &mut Codecs, arm: Arm, len: usize| {
        let start = rng.usize(..content.len() - len);
        let message = &content[start..start + len];
        if let Ok(Encoded::Written(wire_len)) = codecs.encode(arm, message, &mut wire[..len]) {
            let decoded = codecs.decode(arm.codec, &wire[..wire_len], &mut plain[..len]);
            assert!(decoded == Ok(len) && plain[..len] == *message, "{arm}");
        }
    };
    // Contexts grow to the largest message and level.
    for _ in 0..3 {
        for &arm in arms {
            for len in [MAX_LEN, 60_000, 1000, 10] {
                message(&mut codecs, arm, len);
            }
        }
    }
    let mut lens = fastrand::Rng::with_seed(3);
    let mut changes = 0;
    let before = ALLOCATIONS.get();
    for round in 0..1000 {
        let len = match lengths {
            Lengths::Any => lens.usize(1..=MAX_LEN) >> lens.u8(..12),
            Lengths::Near => lens.usize(MAX_LEN / 3..=MAX_LEN),
        };
        let memory = codecs.memory();
        message(&mut codecs, arms[round % arms.len()], len);
        changes += u64::from(codecs.memory() != memory);
    }
    Seen {
        allocations: ALLOCATIONS.get() - before,
        changes,
    }
}

/// The arms of a codec up to level 9 (higher ones only take longer), or none.
fn arms(codec: CodecId) -> Vec<Arm> {
    let Some(info) = info(codec) else {
        println!("skipped: {codec} is not part of this build");
        return Vec::new();
    };
    info.arms().filter(|arm| arm.level.0 <= 9).collect()
}

fn assert_free_of_allocations(codec: CodecId) {
    let arms = arms(codec);
    if !arms.is_empty() {
        assert_eq!(after_warm_up(&arms, Lengths::Any), NOTHING, "{codec}");
    }
    for arm in arms {
        assert_eq!(after_warm_up(&[arm], Lengths::Any), NOTHING, "{arm}");
    }
}

#[test]
fn lz4_does_not_allocate_after_warm_up() {
    assert_free_of_allocations(CodecId::LZ4);
}

#[test]
fn snappy_does_not_allocate_after_warm_up() {
    assert_free_of_allocations(CodecId::SNAPPY);
}

#[test]
fn zstd_does_not_allocate_after_warm_up() {
    for arm in arms(CodecId::ZSTD) {
        assert_eq!(after_warm_up(&[arm], Lengths::Near), NOTHING, "{arm}");
    }
}

/// zstd gives a context's memory back after 128 messages that need less than a third of it, and
/// takes it again for the next large one. That is the most there may be.
#[test]
fn zstd_gives_memory_back_no_more_than_once_in_128_messages() {
    let arms = arms(CodecId::ZSTD);
    if arms.is_empty() {
        return;
    }
    let seen = after_warm_up(&arms, Lengths::Any);
    assert_eq!(seen.allocations, 0);
    // A shrink is followed by growth in at most as many steps as there are arms.
    assert!(
        seen.changes <= 1000 / 128 * (1 + arms.len() as u64),
        "{seen:?}"
    );
    println!("{seen:?}");
}

#[test]
fn deflate_does_not_allocate_after_warm_up() {
    assert_free_of_allocations(CodecId::DEFLATE);
}

#[test]
fn a_dictionary_that_is_prepared_costs_no_allocation() {
    let content = content();
    let dictionary = Dictionary::new(content[..16_384].to_vec()).expect("a length between");
    for codec in [CodecId::LZ4, CodecId::ZSTD] {
        for arm in arms(codec) {
            let mut codecs = Codecs::new();
            let (mut wire, mut plain) = (vec![0; 1000], vec![0; 1000]);
            let mut message = |len: usize| {
                let message = &content[20_000..20_000 + len];
                let encoded = codecs.encode_with(arm, &dictionary, message, &mut wire[..len]);
                if let Ok(Encoded::Written(wire_len)) = encoded {
                    let wire = &wire[..wire_len];
                    let decoded = codecs.decode_with(codec, &dictionary, wire, &mut plain[..len]);
                    assert!(decoded == Ok(len) && plain[..len] == *message, "{arm}");
                }
            };
            message(1000);
            let before = ALLOCATIONS.get();
            (1..1000).for_each(message);
            assert_eq!(ALLOCATIONS.get(), before, "{arm}");
        }
    }
}

/// The bindings of bzip2 and xz have no reset. Should one gain it, this says so.
#[test]
fn bzip2_and_xz_allocate_in_every_call() {
    for codec in [CodecId::BZIP2, CodecId::XZ] {
        let Some(info) = info(codec) else {
            println!("skipped: {codec} is not part of this build");
            continue;
        };
        let arm = Arm::new(codec, info.default_level.0);
        let seen = after_warm_up(&[arm], Lengths::Any);
        println!("{codec}: {seen:?} for 1000 messages");
        assert!(seen.allocations > 1000, "{codec}");
    }
}
