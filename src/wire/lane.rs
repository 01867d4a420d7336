//! What a further lane's stream of QUIC begins with.

use super::WireError;
use super::varint::{put_varint, read_varint};

/// A lane among those that one side has begun on a connection over QUIC: 1 and on. Lane 0 is the connector's first stream,
/// which does not say so (docs/quic.md, "Lanes").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneNumber(u32);

impl LaneNumber {
    /// The lane with this number; `None` for 0.
    pub const fn new(number: u32) -> Option<Self> {
        if number == 0 {
            None
        } else {
            Some(Self(number))
        }
    }

    /// The lane's number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Appends the number.
    pub fn put(self, out: &mut Vec<u8>) {
        put_varint(out, self.0.into());
    }

    /// Reads the number at the front of a stream, where there may be `most` lanes: the lane and how many bytes it took, or
    /// `None` when more bytes are needed.
    ///
    /// # Errors
    ///
    /// It is no number, 0, or above `most`.
    pub fn parse(bytes: &[u8], most: u32) -> Result<Option<(Self, usize)>, WireError> {
        let Some((given, len)) = read_varint(bytes)? else {
            return Ok(None);
        };
        let (field, max) = ("lane", u64::from(most));
        if given == 0 {
            return Err(WireError::FieldTooSmall {
                field,
                given,
                min: 1,
            });
        }
        match u32::try_from(given) {
            Ok(number) if given <= max => Ok(Some((Self(number), len))),
            _ => Err(WireError::FieldTooLarge { field, given, max }),
        }
    }
}
