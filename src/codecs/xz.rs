//! xz's algorithm without its container: raw LZMA1 with an end mark, literal context 3, literal
//! position 0, position bits 2 (every preset's own).
//!
//! LZMA1 and not LZMA2: its chunk headers cost more than the end mark. Measured over text, package
//! lists and XML at levels 0 and 6, LZMA1 was smaller by 1.7 to 1.9 bytes a block at 256 B and
//! 1 KiB and by 1.0 to 1.5 at 16 KiB, at the same speed.
//!
//! Nothing in the stream says how large the dictionary is. Both ends take the plain length, at most
//! the limit: distances beyond it cannot be followed, so the decoder's memory is bounded by the
//! caller's buffer and the limit, whatever the peer writes.
//!
//! The library's binding has no reset: every call allocates a state and frees it again.

use liblzma::stream::{Action, Error, Filters, LzmaOptions, Status, Stream};

use super::{
    CodecId, DecodeError, DecodeLimits, EncodeError, Encoded, Level, corrupt, encode_failed,
    unended, worthwhile,
};

/// The smallest dictionary of the format.
const MIN_DICTIONARY: usize = 4096;

pub(super) fn encode(
    level: Level,
    plain: &[u8],
    wire: &mut [u8],
    limits: DecodeLimits,
) -> Result<Encoded, EncodeError> {
    let failed = |error: Error| encode_failed(CodecId::XZ, plain, &error);
    let preset = u32::from(level.0.unsigned_abs());
    let filters = filters(preset, plain.len(), limits).map_err(failed)?;
    let mut state = Stream::new_raw_encoder(&filters).map_err(failed)?;
    let room = worthwhile(plain, wire);
    match state.process(plain, room, Action::Finish).map_err(failed)? {
        Status::StreamEnd => Ok(Encoded::smaller_than(
            plain.len(),
            state.total_out() as usize,
        )),
        _ => Ok(Encoded::NotSmaller),
    }
}

pub(super) fn decode(
    wire: &[u8],
    plain: &mut [u8],
    limits: DecodeLimits,
) -> Result<usize, DecodeError> {
    let failed = |error: Error| corrupt(CodecId::XZ, wire, &error);
    let max = plain.len();
    let filters = filters(0, max, limits).map_err(failed)?;
    let mut state = Stream::new_raw_decoder(&filters).map_err(failed)?;
    let status = state.process(wire, plain, Action::Finish).map_err(failed)?;
    let (read, written) = (state.total_in() as usize, state.total_out() as usize);
    match status {
        Status::StreamEnd if read == wire.len() => Ok(written),
        Status::StreamEnd => Err(corrupt(CodecId::XZ, wire, &"bytes after the end mark")),
        // "Ok" is also what truncated bytes give: one call must do.
        _ => Err(unended(CodecId::XZ, wire, written, max)),
    }
}

/// The chain of a preset with the dictionary that `plain_len` bytes need. The preset decides
/// nothing for a decoder.
fn filters(preset: u32, plain_len: usize, limits: DecodeLimits) -> Result<Filters, Error> {
    let dictionary = plain_len.clamp(MIN_DICTIONARY, limits.window_bytes());
    let mut options = LzmaOptions::new_preset(preset)?;
    options.dict_size(dictionary as u32);
    let mut filters = Filters::new();
    filters.lzma1(&options);
    Ok(filters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_beyond_the_dictionary_read_back() {
        let limits = DecodeLimits { window_log: 17 };
        // Repeats at a distance that only a larger dictionary would reach, and near ones.
        let mut plain: Vec<u8> = (0..200_000_u64).map(|i| ((i * i) >> 7) as u8).collect();
        plain.extend_from_within(..);
        let mut wire = vec![0; plain.len() - 1];
        let Ok(Encoded::Written(len)) = encode(Level(0), &plain, &mut wire, limits) else {
            panic!("does not shrink");
        };
        let mut back = vec![0; plain.len() + 5];
        let wire = wire.get(..len).expect("written");
        assert_eq!(decode(wire, &mut back, limits), Ok(plain.len()));
        assert_eq!(back.get(..plain.len()), Some(plain.as_slice()));
    }
}
