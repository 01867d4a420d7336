//! Room for encoders that want the worst case as output and cannot stop early.

use super::{EncodeError, Encoded};

/// A buffer that grows to the largest worst case seen and is reused.
#[derive(Debug, Default)]
pub(super) struct Staging {
    buffer: Vec<u8>,
}

impl Staging {
    /// Runs `encode` over an output of at least `worst_case` bytes and leaves the result in `wire`
    /// if it is shorter than `plain_len` and fits. Where `wire` itself has the room, nothing is copied.
    pub(super) fn encode(
        &mut self,
        worst_case: usize,
        plain_len: usize,
        wire: &mut [u8],
        encode: impl FnOnce(&mut [u8]) -> Result<usize, EncodeError>,
    ) -> Result<Encoded, EncodeError> {
        if wire.len() >= worst_case {
            let len = encode(wire)?;
            return Ok(Encoded::smaller_than(plain_len, len));
        }
        if self.buffer.len() < worst_case {
            self.buffer.resize(worst_case, 0);
        }
        let len = encode(&mut self.buffer)?;
        match (
            Encoded::smaller_than(plain_len, len),
            wire.get_mut(..len),
            self.buffer.get(..len),
        ) {
            (encoded @ Encoded::Written(_), Some(target), Some(source)) => {
                target.copy_from_slice(source);
                Ok(encoded)
            }
            _ => Ok(Encoded::NotSmaller),
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.buffer.capacity()
    }
}
