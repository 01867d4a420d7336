//! LZ4 block format, without a length in front.
//!
//! The format has no end mark: a block cut between two sequences reads as a shorter block. Whoever
//! knows the plain length notices, see [`Codecs::decode_exact`](super::Codecs::decode_exact).

use core::fmt;

use lz4_flex::block::{
    CompressTable, DecompressError, compress_into_with_table, decompress_into,
    get_maximum_output_size,
};

use super::staging::Staging;
use super::{CodecId, DecodeError, EncodeError, Encoded, corrupt, encode_failed};

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
    decompress_into(wire, plain).map_err(|error| match error {
        DecompressError::OutputTooSmall { .. } => DecodeError::TooLong { max },
        error => corrupt(CodecId::LZ4, wire, &error),
    })
}
