//! LZ4 block format, without a length in front.
//!
//! The format has no end mark: a block cut between two sequences reads as a shorter block. Whoever
//! knows the plain length notices, see [`Codecs::decode_exact`](super::Codecs::decode_exact).

use core::fmt;

use lz4_flex::block::{
    CompressTable, DecompressError, compress_into_with_table, decompress_into,
    decompress_into_with_dict, get_maximum_output_size,
};

use super::staging::Staging;
use super::{CodecId, DecodeError, EncodeError, Encoded, corrupt, encode_failed};

/// The farthest that a match can lie back: offsets have 16 bits (`lz4_Block_format.md`, as what follows).
pub(super) const MAX_OFFSET: usize = 65_535;
pub(super) const MIN_MATCH: usize = 4;
/// The last bytes of a block are literals, and no match begins nearer to its end than this.
pub(super) const LAST_LITERALS: usize = 5;
pub(super) const LAST_MATCH_DISTANCE: usize = 12;

/// Entries of 16 bits address this much; one byte more needs the table with 32 bits.
const SMALL_TABLE_MAX_LEN: usize = u16::MAX as usize - 1;

/// Match tables, made on first use. The library would make one on the heap for every call, and a
/// table that has once grown would never shrink, so that every small message after a large one had
/// to clear twice the memory: hence two.
#[derive(Default)]
pub(super) struct Lz4 {
    small: Option<CompressTable>,
    large: Option<CompressTable>,
}

impl Lz4 {
    pub(super) fn encode(
        &mut self,
        plain: &[u8],
        wire: &mut [u8],
        staging: &mut Staging,
    ) -> Result<Encoded, EncodeError> {
        let table = if plain.len() <= SMALL_TABLE_MAX_LEN {
            self.small.get_or_insert_with(CompressTable::small)
        } else {
            self.large.get_or_insert_with(CompressTable::large)
        };
        // The library refuses an output below its worst case at once, so it cannot stop early.
        staging.encode(
            get_maximum_output_size(plain.len()),
            plain.len(),
            wire,
            |output| {
                compress_into_with_table(plain, output, table)
                    .map_err(|error| encode_failed(CodecId::LZ4, plain, &error))
            },
        )
    }

    pub(super) fn memory(&self) -> usize {
        let small = self.small.as_ref().map_or(0, |_| 4096 * size_of::<u16>());
        let large = self.large.as_ref().map_or(0, |_| 4096 * size_of::<u32>());
        small + large
    }
}

impl fmt::Debug for Lz4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lz4")
            .field("memory", &self.memory())
            .finish()
    }
}

pub(super) fn decode(wire: &[u8], plain: &mut [u8]) -> Result<usize, DecodeError> {
    let max = plain.len();
    decompress_into(wire, plain).map_err(|error| refused(wire, max, &error))
}

/// Decodes a block whose matches may reach into the bytes `before` it.
pub(super) fn decode_after(
    before: &[u8],
    wire: &[u8],
    plain: &mut [u8],
) -> Result<usize, DecodeError> {
    let max = plain.len();
    decompress_into_with_dict(wire, plain, before).map_err(|error| refused(wire, max, &error))
}

fn refused(wire: &[u8], max: usize, error: &DecompressError) -> DecodeError {
    match error {
        DecompressError::OutputTooSmall { .. } => DecodeError::TooLong { max },
        error => corrupt(CodecId::LZ4, wire, error),
    }
}

/// How many bytes are the same in both from the beginning on.
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut len = 0;
    for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let word = |bytes: &[u8]| {
            bytes
                .first_chunk()
                .map_or(0, |word| u64::from_le_bytes(*word))
        };
        let differing = word(a) ^ word(b);
        if differing != 0 {
            return len + differing.trailing_zeros() as usize / 8;
        }
        len += 8;
    }
    let rest = a[len..].iter().zip(&b[len..]);
    len + rest.take_while(|(a, b)| a == b).count()
}
