//! Bytes as they are. The session does not call it (it frames plain bytes itself); it stands here so
//! that every arm can be measured and tested alike.

use super::{DecodeError, Encoded};

pub(super) fn encode(plain: &[u8], _wire: &mut [u8]) -> Encoded {
    // A copy is never smaller than its original.
    Encoded::smaller_than(plain.len(), plain.len())
}

pub(super) fn decode(wire: &[u8], plain: &mut [u8]) -> Result<usize, DecodeError> {
    let room = plain.len();
    let target = plain
        .get_mut(..wire.len())
        .ok_or(DecodeError::TooLong { max: room })?;
    target.copy_from_slice(wire);
    Ok(wire.len())
}
