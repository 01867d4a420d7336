//! Variable-length integers: seven bits a byte, least significant first, the top bit set on all
//! but the last byte (LEB128). Only the shortest form of a number is valid.

use super::WireError;

/// Bytes of the longest number.
const MAX_LEN: usize = 10;

/// How many bytes `value` takes.
pub const fn varint_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Appends `value` to `out`.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a number from the front of `bytes`: the number and how many bytes it took, or `None` when
/// more bytes are needed.
///
/// # Errors
///
/// [`WireError::BadVarint`] if the number is not in its shortest form or exceeds 64 bits.
#[inline]
pub fn read_varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, WireError> {
    match bytes.first() {
        None => Ok(None),
        Some(&byte) if byte < 0x80 => Ok(Some((u64::from(byte), 1))),
        Some(_) => read_long(bytes),
    }
}

fn read_long(bytes: &[u8]) -> Result<Option<(u64, usize)>, WireError> {
    let mut value = 0_u64;
    for (at, &byte) in bytes.iter().take(MAX_LEN).enumerate() {
        if at == MAX_LEN - 1 && byte > 1 {
            return Err(WireError::BadVarint);
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return if byte == 0 {
                Err(WireError::BadVarint)
            } else {
                Ok(Some((value, at + 1)))
            };
        }
    }
    if bytes.len() >= MAX_LEN {
        Err(WireError::BadVarint)
    } else {
        Ok(None)
    }
}

/// Reads fields of a body that is there as a whole, so that a missing byte is an error.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Fields<'a> {
    pub(super) const fn new(what: &'static str, body: &'a [u8]) -> Self {
        Self { rest: body, what }
    }

    pub(super) fn varint(&mut self) -> Result<u64, WireError> {
        let (value, len) =
            read_varint(self.rest)?.ok_or(WireError::Truncated { what: self.what })?;
        self.rest = &self.rest[len..];
        Ok(value)
    }

    /// A number that must not exceed `max`.
    pub(super) fn varint_to(&mut self, field: &'static str, max: u64) -> Result<u64, WireError> {
        let given = self.varint()?;
        if given > max {
            Err(WireError::FieldTooLarge { field, given, max })
        } else {
            Ok(given)
        }
    }

    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (bytes, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(WireError::Truncated { what: self.what })?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(super) fn byte(&mut self) -> Result<u8, WireError> {
        Ok(self.bytes(1)?[0])
    }

    /// A length and so many bytes of UTF-8.
    pub(super) fn text(&mut self, field: &'static str, max: usize) -> Result<&'a str, WireError> {
        let len = self.varint_to(field, max as u64)? as usize;
        core::str::from_utf8(self.bytes(len)?).map_err(|_| WireError::NotText { field })
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Ends the reading; bytes left over are an error.
    pub(super) const fn finish(self) -> Result<(), WireError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(WireError::TrailingBytes {
                what: self.what,
                extra: self.rest.len(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back_in_their_shortest_form() {
        for value in [
            0,
            1,
            127,
            128,
            300,
            16_383,
            16_384,
            u64::from(u32::MAX),
            u64::MAX - 1,
            u64::MAX,
        ] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value), "{value}");
            assert_eq!(read_varint(&out), Ok(Some((value, out.len()))));
            assert_eq!(read_varint(&out[..out.len() - 1]), Ok(None));
        }
    }

    #[test]
    fn long_forms_and_overflow_are_refused() {
        assert_eq!(read_varint(&[0x80, 0x00]), Err(WireError::BadVarint));
        assert_eq!(read_varint(&[0xff; 10]), Err(WireError::BadVarint));
        assert_eq!(
            read_varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]),
            Err(WireError::BadVarint)
        );
    }
}
