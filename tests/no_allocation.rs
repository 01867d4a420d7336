//! After warm-up, encoding and decoding do not allocate, and a session does for what it receives only.
//!
//! Rust's allocations are counted per thread. zstd allocates with C's `malloc`, which this does not
//! see: its contexts are asked for their size instead.

use core::time::Duration;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Bytes, BytesMut};
use tautline::codecs::{Arm, CodecId, Codecs, Encoded, info};
use tautline::control::PolicyConfig;
use tautline::dictionary::Dictionary;
use tautline::session::{Message, SessionConfig};

#[path = "../benches/support/pair.rs"]
mod pair;

use self::pair::Pair;

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

/// The message that has arrived.
fn take(pair: &mut Pair) -> Message {
    let end = &mut pair.ends[1];
    let message = end.recv(pair.stream).expect("a message");
    end.release(pair.stream, message.charge());
    message
}

/// A message goes over.
fn pass(pair: &mut Pair, payload: &Bytes) -> Message {
    pair.send(payload);
    pair.exchange();
    let message = take(pair);
    assert!(message.payload == *payload);
    message
}

/// Of 1000 messages after as many to warm up, where the receiver keeps the latest `kept`.
fn allocations_of_a_session(len: usize, kept: usize) -> u64 {
    let mut pair = Pair::new(&SessionConfig::default().policy(PolicyConfig::None));
    let payload = Bytes::from(vec![7; len]);
    let mut held = VecDeque::with_capacity(kept + 1);
    let mut before = 0;
    for number in 0..2000 {
        if number == 1000 {
            before = ALLOCATIONS.get();
        }
        held.push_back(pass(&mut pair, &payload));
        if held.len() > kept {
            held.pop_front();
        }
    }
    ALLOCATIONS.get() - before
}

/// Of messages that are dropped before the next one comes, the input's buffer is used again: 1 in 1000 was seen. One that is
/// kept takes the buffer with it: the next buffer and its count of references are 2 a message.
#[test]
fn a_session_allocates_for_what_it_receives_only() {
    for len in [64, 4096] {
        let dropped = allocations_of_a_session(len, 0);
        let kept = allocations_of_a_session(len, 16);
        println!("{len} B: {dropped} for 1000 messages, {kept} if they are kept");
        assert!(dropped <= 4, "{len} B: {dropped} for 1000 messages");
        assert!(kept <= 2010, "{len} B: {kept} for 1000 that are kept");
    }
}

/// Of 100 blocks of `count` messages of 64 B, after as many to warm up, read into a driver's buffer and dropped.
fn allocations_of_blocks(count: usize) -> u64 {
    let mut pair = Pair::new(&SessionConfig::default().policy(PolicyConfig::None));
    pair.inputs[1] = BytesMut::with_capacity(128 << 10);
    let payload = Bytes::from(vec![7; 64]);
    let mut before = 0;
    for number in 0..200 {
        if number == 100 {
            before = ALLOCATIONS.get();
        }
        (0..count).for_each(|_| pair.send(&payload));
        pair.exchange();
        for _ in 0..count {
            assert_eq!(take(&mut pair).payload, payload);
        }
    }
    ALLOCATIONS.get() - before
}

/// A small plain block is copied out of the buffer, so that its messages do not hold that: once, however many they are, and their
/// count of references is another.
#[test]
fn a_block_that_is_copied_costs_no_more_for_many_messages() {
    for (count, most) in [(1, 1), (64, 2)] {
        let seen = allocations_of_blocks(count);
        println!("{count} messages in a block: {seen} for 100 blocks");
        assert!(seen <= 100 * most + 4, "{count}: {seen} for 100 blocks");
    }
}

#[test]
fn a_payload_above_1_kib_is_written_from_where_it_is() {
    let mut pair = Pair::new(&SessionConfig::default().policy(PolicyConfig::None));
    for (len, is_shared) in [(64, false), (1024, false), (1025, true), (2048, true)] {
        let payload = Bytes::from(vec![7; len]);
        pair.send(&payload);
        let sender = &mut pair.ends[0];
        assert!(sender.poll_encode(pair.now).is_none(), "policy none");
        let mut slices = [IoSlice::new(&[]); 16];
        let filled = sender.fill_slices(&mut slices);
        let is_payload = |slice: &IoSlice| slice.as_ptr() == payload.as_ptr() && slice.len() == len;
        let found = slices[..filled].iter().any(is_payload);
        assert_eq!(found, is_shared, "{len} bytes");
        pair.exchange();
        assert_eq!(take(&mut pair).payload, payload);
    }
}

#[test]
fn a_session_that_is_idle_waits_for_nothing_but_the_heartbeat() {
    let config = SessionConfig::default().policy(PolicyConfig::None);
    let interval = Duration::from_secs(10);
    for heartbeat in [Some(interval), None] {
        let mut pair = Pair::new(&config.clone().heartbeat(heartbeat));
        let payload = Bytes::from(vec![7; 2048]);
        for _ in 0..100 {
            pass(&mut pair, &payload);
        }
        // What is still to be acknowledged and asked.
        for _ in 0..3 {
            pair.now = pair.now + Duration::from_millis(100);
            pair.exchange();
        }
        let now = pair.now;
        for end in &pair.ends {
            let stats = end.stats();
            assert!(end.is_settled() && stats.frames_unacked == 0, "{stats:?}");
            let due = end.poll_timeout().map(|due| due.saturating_since(now));
            // Since the peer was last heard.
            let most =
                heartbeat.map(|interval| interval.saturating_sub(Duration::from_millis(310)));
            assert!(due >= most && due <= heartbeat, "{due:?}, {heartbeat:?}");
        }
    }
}
