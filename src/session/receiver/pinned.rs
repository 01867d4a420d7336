//! What a message keeps in memory besides itself.
//!
//! What is decoded has memory of its own, which is freed with the last message of its block. A block that came plain is cut out of the input,
//! and what was read with it, whosever it was, is held until all is gone that was cut out of that: a message of one byte would
//! hold a driver's whole buffer.

use bytes::{Buf, Bytes, BytesMut};

/// How many times its own length a plain block, or a payload in a block of several streams, may hold in memory. Arbitrary: of
/// the 128 KiB that connections of a node read at once, plain blocks below 16 KiB are copied, which takes 10 ns for 64 bytes and .12 µs for
/// the longest (malloc, memcpy, free; glibc 2.36), where the call that reads one takes a microsecond or so. Messages that come many in a block
/// are copied with it, all at once.
const MAX_PINNED: usize = 8;

/// Whether so many bytes would hold far more memory than they are charged for.
pub(super) const fn is_pinning(len: usize, pinned: usize) -> bool {
    len.saturating_mul(MAX_PINNED) < pinned
}

/// Takes a plain block from the front of an input that has had room for so many bytes: copied, if that is far more. With the memory that it
/// is in.
pub(super) fn cut_plain(input: &mut BytesMut, len: usize, room: usize) -> (Bytes, usize) {
    if is_pinning(len, room) {
        let copied = Bytes::copy_from_slice(&input[..len]);
        input.advance(len);
        (copied, len)
    } else {
        (input.split_to(len).freeze(), room)
    }
}
