//! LZ4 blocks whose matches may reach into the blocks before.
//!
//! The encoder is our own: the crates there are hash the whole history anew for each block, or wrap
//! blocks into frames. It keeps the plain bytes in one piece and their positions in one table, so
//! that a block costs what its own bytes do.

use core::fmt;

use super::{EncodeContext, last};
use crate::codecs::DecodeError;
use crate::codecs::lz4::{
    LAST_LITERALS, LAST_MATCH_DISTANCE, MAX_OFFSET, MIN_MATCH, common_prefix, decode_after,
};

/// The format reaches back 65 535 bytes.
const MAX_WINDOW_LOG: u8 = 16;
/// Table of positions: 2^13 of two bytes, half of a first-level cache. Arbitrary beyond that.
const TABLE_LOG: u32 = 13;
/// After so many misses (binary logarithm) in a row the search steps one byte further at a time, as in
/// the reference encoder.
const SKIP_LOG: usize = 6;

fn window(window_log: u8) -> usize {
    1 << window_log.min(MAX_WINDOW_LOG)
}

pub(super) fn memory_estimate(window_log: u8) -> (usize, usize) {
    let history = 2 * window(window_log);
    (history + size_of::<Table>(), history)
}

type Table = [u16; 1 << TABLE_LOG];

/// The plain bytes that count, in one piece: at least the last window's, where there were so many.
struct History {
    bytes: Vec<u8>,
    window: usize,
}

impl History {
    fn new(window_log: u8, prime: &[u8]) -> Self {
        let window = window(window_log);
        let bytes = Vec::with_capacity(2 * window);
        let mut history = Self { bytes, window };
        history.restart(prime);
        history
    }

    fn restart(&mut self, prime: &[u8]) {
        self.bytes.clear();
        // A large block may have made it larger than it need be.
        self.bytes.shrink_to(2 * self.window);
        self.bytes.extend_from_slice(last(prime, self.window));
    }

    /// Makes room for `more` bytes behind the last window's, which may move to the front; returns
    /// by how much.
    fn make_room(&mut self, more: usize) -> usize {
        let room = self.bytes.capacity().max(2 * self.window);
        if self.bytes.len() + more <= room {
            return 0;
        }
        let by = self.bytes.len().saturating_sub(self.window);
        self.bytes.copy_within(by.., 0);
        self.bytes.truncate(self.bytes.len() - by);
        self.bytes.reserve_exact(more);
        by
    }

    /// The bytes before the next block that it may refer to.
    fn recent(&self) -> &[u8] {
        last(&self.bytes, self.window)
    }
}

pub(super) struct Encoder {
    history: History,
    /// What must be added to a place in `history.bytes` to have its position, modulo 2^16.
    offset: usize,
    /// Positions modulo 2^16 of bytes with some hash. Entries may be stale, or never written: each is
    /// a guess at a distance, and the bytes there are compared.
    table: Box<Table>,
}

impl Encoder {
    pub(super) fn new(window_log: u8, prime: &[u8]) -> Self {
        let mut encoder = Self {
            history: History::new(window_log, &[]),
            offset: 0,
            table: Box::new([0; 1 << TABLE_LOG]),
        };
        encoder.restart(prime);
        encoder
    }

    pub(super) fn restart(&mut self, prime: &[u8]) {
        self.history.restart(prime);
        self.offset = 0;
        self.table.fill(0);
        let bytes = self.history.bytes.as_slice();
        // Every third position, as the reference's `LZ4_loadDict`: matches extend backwards.
        for at in (0..bytes.len().saturating_sub(8)).step_by(3) {
            self.table[hash(bytes, at)] = at as u16;
        }
    }

    pub(super) fn encode(&mut self, plain: &[u8], wire: &mut Vec<u8>) {
        wire.reserve(EncodeContext::bound(plain.len()));
        let moved = self.history.make_room(plain.len());
        self.offset = self.offset.wrapping_add(moved);
        let start = self.history.bytes.len();
        self.history.bytes.extend_from_slice(plain);

        let bytes = self.history.bytes.as_slice();
        let lowest = start.saturating_sub(self.history.window);
        let offset = self.offset;
        let table = &mut *self.table;
        let (search_end, match_end) = (
            bytes.len().saturating_sub(LAST_MATCH_DISTANCE),
            bytes.len().saturating_sub(LAST_LITERALS),
        );
        let mut anchor = start;
        let mut at = start;
        let mut misses = 1 << SKIP_LOG;
        while at < search_end {
            let slot = hash(bytes, at);
            let position = at.wrapping_add(offset) as u16;
            let distance = usize::from(position.wrapping_sub(table[slot]));
            table[slot] = position;
            // Distance 0 is the position itself, 2^16 bytes ago.
            if distance == 0
                || distance > at - lowest
                || load4(bytes, at) != load4(bytes, at - distance)
            {
                at += misses >> SKIP_LOG;
                misses += 1;
                continue;
            }
            let mut from = at;
            while from > anchor
                && from - distance > lowest
                && bytes[from - 1] == bytes[from - distance - 1]
            {
                from -= 1;
            }
            let to = at + MIN_MATCH;
            let to = to + common_prefix(&bytes[to..match_end], &bytes[to - distance..]);
            write_sequence(wire, bytes, anchor, from, Some((distance, to - from)));
            (anchor, at) = (to, to);
            misses = 1 << SKIP_LOG;
            if at < search_end {
                // One more position of the match, as in the reference encoder.
                table[hash(bytes, at - 2)] = (at - 2).wrapping_add(offset) as u16;
            }
        }
        write_sequence(wire, bytes, anchor, bytes.len(), None);
    }

    pub(super) fn memory(&self) -> usize {
        self.history.bytes.capacity() + size_of::<Table>()
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lz4")
            .field("memory", &self.memory())
            .finish()
    }
}

fn load4(bytes: &[u8], at: usize) -> u32 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

fn load8(bytes: &[u8], at: usize) -> u64 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// Of the five bytes from here on; the multiplier is the reference encoder's.
fn hash(bytes: &[u8], at: usize) -> usize {
    const PRIME: u64 = 889_523_592_379;
    ((load8(bytes, at) << 24).wrapping_mul(PRIME) >> (64 - TABLE_LOG)) as usize
}

/// Writes the literals from `anchor` to `from`, then a match of this distance and length.
fn write_sequence(
    wire: &mut Vec<u8>,
    bytes: &[u8],
    anchor: usize,
    from: usize,
    matched: Option<(usize, usize)>,
) {
    let literals = from - anchor;
    let match_code = matched.map_or(0, |(_, len)| len - MIN_MATCH);
    wire.push((literals.min(15) << 4 | match_code.min(15)) as u8);
    write_len(wire, literals);
    if let (0..=16, Some(chunk)) = (literals, bytes[anchor..].first_chunk::<16>()) {
        // A copy of known length is a single move.
        let end = wire.len() + literals;
        wire.extend_from_slice(chunk);
        wire.truncate(end);
    } else {
        wire.extend_from_slice(&bytes[anchor..from]);
    }
    if let Some((distance, _)) = matched {
        wire.extend_from_slice(&(distance.min(MAX_OFFSET) as u16).to_le_bytes());
        write_len(wire, match_code);
    }
}

/// What of a length does not go into four bits.
fn write_len(wire: &mut Vec<u8>, len: usize) {
    if let Some(mut rest) = len.checked_sub(15) {
        while rest >= 255 {
            wire.push(255);
            rest -= 255;
        }
        wire.push(rest as u8);
    }
}

pub(super) struct Decoder {
    history: History,
}

impl Decoder {
    pub(super) fn new(window_log: u8, prime: &[u8]) -> Self {
        Self {
            history: History::new(window_log, prime),
        }
    }

    pub(super) fn restart(&mut self, prime: &[u8]) {
        self.history.restart(prime);
    }

    pub(super) fn decode(&mut self, wire: &[u8], plain: &mut [u8]) -> Result<usize, DecodeError> {
        let written = decode_after(self.history.recent(), wire, plain)?;
        let plain = last(&plain[..written], self.history.window);
        self.history.make_room(plain.len());
        self.history.bytes.extend_from_slice(plain);
        Ok(written)
    }

    pub(super) fn memory(&self) -> usize {
        self.history.bytes.capacity()
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lz4")
            .field("memory", &self.memory())
            .finish()
    }
}
