//! bzip2 streams whose block size is no larger than the plain bytes need.
//!
//! The level of bzip2 is nothing but the block size, in units of 100 000 bytes. Encoder and decoder
//! allocate by it and the decoder's time for a hostile block grows with it, so a level above what
//! the plain length needs only costs: the encoder lowers it, the decoder refuses it.
//!
//! The library has no reset: every call allocates a state and frees it again.

use bzip2::{Action, Compress, Compression, Decompress, Status};

use super::{
    CodecId, DecodeError, DecodeLimits, EncodeError, Encoded, Level, corrupt, encode_failed,
    unended, worthwhile,
};

/// Bytes of a block at level 1.
const BLOCK_UNIT: usize = 100_000;
/// What a level takes of the limit: with [`is_small`] its block is then decoded in no more than a MiB beside it.
const WINDOW_UNIT: usize = 128 << 10;
/// What a decoder takes beside its block, rounded up (`DState` of bzip2).
const STATE_LEN: usize = 72 << 10;
/// The library stops a block this far before its end.
const BLOCK_SLACK: usize = 19;
/// What the encoding of a single byte takes: stream header 4, block header and tables 23, end 10.
/// Nothing of up to this size becomes smaller.
const MIN_WIRE_LEN: usize = 37;

pub(super) fn encode(
    level: Level,
    plain: &[u8],
    wire: &mut [u8],
    limits: DecodeLimits,
) -> Result<Encoded, EncodeError> {
    let room = worthwhile(plain, wire);
    if room.len() < MIN_WIRE_LEN {
        return Ok(Encoded::NotSmaller);
    }
    let level = u32::from(level.0.unsigned_abs())
        .min(level_for(plain.len()))
        .min(max_level(limits));
    let mut state = Compress::new(Compression::new(level), 0);
    let status = state
        .compress(plain, room, Action::Finish)
        .map_err(|error| encode_failed(CodecId::BZIP2, plain, &error))?;
    if status != Status::StreamEnd {
        return Ok(Encoded::NotSmaller);
    }
    if state.total_in() as usize != plain.len() {
        // The library takes 4 GiB at most in one call.
        return Err(encode_failed(CodecId::BZIP2, plain, &"not all was read"));
    }
    Ok(Encoded::smaller_than(
        plain.len(),
        state.total_out() as usize,
    ))
}

pub(super) fn decode(
    wire: &[u8],
    plain: &mut [u8],
    limits: DecodeLimits,
) -> Result<usize, DecodeError> {
    let max = plain.len();
    let level = match *wire {
        [b'B', b'Z', b'h', digit @ b'1'..=b'9', ..] => u32::from(digit - b'0'),
        _ => return Err(corrupt(CodecId::BZIP2, wire, &"no stream header")),
    };
    if level > max_level(limits) {
        return Err(DecodeError::WindowTooLarge {
            codec: CodecId::BZIP2,
            given_log: window_log(level),
            max_log: limits.effective_window_log(),
        });
    }
    if level > level_for(max) {
        return Err(corrupt(
            CodecId::BZIP2,
            wire,
            &"a larger block than the plain bytes need",
        ));
    }
    let mut state = Decompress::new(is_small(level, limits));
    let status = state
        .decompress(wire, plain)
        .map_err(|error| corrupt(CodecId::BZIP2, wire, &error))?;
    let (read, written) = (state.total_in() as usize, state.total_out() as usize);
    match status {
        Status::StreamEnd if read == wire.len() => Ok(written),
        Status::StreamEnd => Err(corrupt(
            CodecId::BZIP2,
            wire,
            &"bytes after the end of the stream",
        )),
        // "Ok" is also what truncated bytes give, for ever: one call must do.
        _ => Err(unended(CodecId::BZIP2, wire, written, max)),
    }
}

/// The lowest level that holds `plain_len` bytes in one block, or 9. The run-length stage in front
/// of the block writes five bytes for four at worst.
fn level_for(plain_len: usize) -> u32 {
    plain_len
        .saturating_add(plain_len / 4)
        .div_ceil(BLOCK_UNIT - BLOCK_SLACK)
        .clamp(1, 9) as u32
}

/// The highest level whose block is within the limit, and can be decoded within it and a MiB.
fn max_level(limits: DecodeLimits) -> u32 {
    (limits.window_bytes() / WINDOW_UNIT).clamp(1, 9) as u32
}

/// Whether a block must be decoded in 2.5 bytes for each of its own, which takes about twice as long as in 4, to need
/// no more than a MiB beside the limit.
fn is_small(level: u32, limits: DecodeLimits) -> bool {
    let fast = 4 * BLOCK_UNIT * level as usize + STATE_LEN;
    fast > limits.window_bytes() + (1 << 20)
}

/// Binary logarithm, rounded up, of a level's block.
fn window_log(level: u32) -> u8 {
    (level * BLOCK_UNIT as u32)
        .next_power_of_two()
        .trailing_zeros() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_cut_to_the_message_and_larger_ones_refused() {
        let plain = [7; 1000];
        let mut room = [0; 999];
        let Ok(Encoded::Written(len)) =
            encode(Level(9), &plain, &mut room, DecodeLimits::default())
        else {
            panic!("a run of one byte shrinks");
        };
        let wire = room.get_mut(..len).expect("written");
        assert_eq!(wire.get(3), Some(&b'1'));
        if let Some(digit) = wire.get_mut(3) {
            *digit = b'8';
        }
        let mut back = [0; 1000];
        assert!(matches!(
            decode(wire, &mut back, DecodeLimits::default()),
            Err(DecodeError::Corrupt { .. })
        ));
        assert_eq!(
            decode(wire, &mut back, DecodeLimits { window_log: 18 }),
            Err(DecodeError::WindowTooLarge {
                codec: CodecId::BZIP2,
                given_log: 20,
                max_log: 18
            })
        );
    }

    #[test]
    fn what_a_level_takes_to_decode_is_within_the_limit_and_a_mebibyte() {
        let most = [17, 18, 19, 20, 21, 27].map(|window_log| {
            let limits = DecodeLimits { window_log };
            let most = max_level(limits);
            for level in 1..=most {
                let block = BLOCK_UNIT * level as usize;
                let each = if is_small(level, limits) { 5 } else { 8 };
                let taken = block * each / 2 + STATE_LEN;
                assert!(taken <= limits.window_bytes() + (1 << 20), "{level}");
            }
            most
        });
        assert_eq!(most, [1, 2, 4, 8, 9, 9]);
    }

    #[test]
    fn one_byte_takes_the_least_there_is() {
        let mut state = Compress::new(Compression::new(1), 0);
        let mut wire = [0; 100];
        let status = state.compress(b"x", &mut wire, Action::Finish);
        assert_eq!(status, Ok(Status::StreamEnd));
        assert_eq!(state.total_out() as usize, MIN_WIRE_LEN);
    }
}
