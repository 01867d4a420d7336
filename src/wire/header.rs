//! Frame headers: short and long blocks, control frames.
//!
//! ```text
//! short block   0 ssss lll  llllllll  check:2   body of l + 1 bytes
//! tiny block    110 lllll   check:2             body of l + 1 bytes, in the slot of the block before
//! long block    10 ssss e p  [epoch] [plain length] body length  check:4   body
//! control       111 kkkkk  length  body  crc:4
//! ```

use super::check::plain_crc;
use super::varint::{put_varint, read_varint};
use super::{Control, WireError};

/// How many slots a connection has in each direction.
pub const SLOTS: u8 = 16;
/// The longest body that a short block can have.
pub const MAX_SHORT_BODY: usize = 2048;
/// The longest body that a tiny block can have.
pub const MAX_TINY_BODY: usize = 32;
/// Checksum bytes of a short or tiny block.
pub const SHORT_CHECK_LEN: usize = 2;
/// Checksum bytes of a long block.
pub const LONG_CHECK_LEN: usize = 4;

const LONG: u8 = 0x80;
const LONG_EPOCH: u8 = 0x02;
const LONG_PLAIN: u8 = 0x01;
const TINY: u8 = 0xc0;
const CONTROL: u8 = 0xe0;
/// The longest body of a control frame.
const MAX_CONTROL_LEN: u64 = 4096;

/// A number from 0 to 15 that stands for codec, group and dictionary of a block. Slots 0 to 6 begin
/// as the codecs 0 to 6 without history in group 0; `define` changes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u8);

impl Slot {
    /// The slot with this number, or `None` from [`SLOTS`] on.
    pub const fn new(number: u8) -> Option<Self> {
        if number < SLOTS {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The slot's number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// The outside of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// What codec, group and dictionary the body is in; `None` for the slot of the block before, which
    /// makes a tiny block of one with at most [`MAX_TINY_BODY`] bytes of body and nothing else said.
    pub slot: Option<Slot>,
    /// The epoch that the group's context starts anew with, if it does.
    pub epoch: Option<u64>,
    /// How many bytes the body decodes to, where the sender says so.
    pub plain_len: Option<usize>,
    /// How many bytes the body has on the wire; above zero.
    pub body_len: usize,
    /// The checksum field: see [`Check`](super::Check); zero when checksums are off.
    pub check: u32,
}

impl BlockHeader {
    /// Whether this header has the short form, or the tiny one.
    pub const fn is_short(&self) -> bool {
        self.epoch.is_none() && self.plain_len.is_none() && self.body_len <= MAX_SHORT_BODY
    }

    /// Whether the block needs no slot in its header if the one before had the same.
    pub const fn can_be_tiny(&self) -> bool {
        self.is_short() && self.body_len <= MAX_TINY_BODY
    }

    /// How many bits of the chain the header carries.
    pub const fn check_bits(&self) -> u32 {
        if self.is_short() { 16 } else { 32 }
    }

    /// Appends the header. `with_check` says whether the connection carries checksums.
    ///
    /// # Panics
    ///
    /// Without a slot where there is no tiny form: the caller's mistake.
    pub fn put(&self, out: &mut Vec<u8>, with_check: bool) {
        debug_assert!(self.body_len > 0, "a block has a body");
        let [c0, c1] = (self.check as u16).to_le_bytes();
        let Some(slot) = self.slot.map(Slot::get) else {
            assert!(
                self.can_be_tiny(),
                "a block that is not tiny names its slot"
            );
            let header = [TINY | (self.body_len - 1) as u8, c0, c1];
            out.extend_from_slice(if with_check { &header } else { &header[..1] });
            return;
        };
        if self.is_short() {
            let length = (self.body_len - 1) as u16;
            let [high, low] = length.to_be_bytes();
            let header = [slot << 3 | high, low, c0, c1];
            out.extend_from_slice(if with_check { &header } else { &header[..2] });
            return;
        }
        let mut first = LONG | slot << 2;
        if self.epoch.is_some() {
            first |= LONG_EPOCH;
        }
        if self.plain_len.is_some() {
            first |= LONG_PLAIN;
        }
        out.push(first);
        if let Some(epoch) = self.epoch {
            put_varint(out, epoch);
        }
        if let Some(plain_len) = self.plain_len {
            put_varint(out, plain_len as u64);
        }
        put_varint(out, self.body_len as u64);
        if with_check {
            out.extend_from_slice(&self.check.to_le_bytes());
        }
    }
}

/// A frame at the front of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A block; its body of `header.body_len` bytes starts at `body_at` and is wholly there.
    Block {
        /// The header.
        header: BlockHeader,
        /// Where the body begins.
        body_at: usize,
    },
    /// A control frame of `len` bytes in all, or one of an unknown kind that may be skipped.
    Control {
        /// The frame, `None` if its kind is to be ignored.
        control: Option<Control>,
        /// How many bytes it took.
        len: usize,
    },
}

/// Reads the frame at the front of `bytes`, `None` when it is not there as a whole.
///
/// `max_body` bounds the body of a block, wire and plain alike.
///
/// # Errors
///
/// What is wrong with the bytes. Lengths are judged as soon as their header is there.
pub fn parse_frame(
    bytes: &[u8],
    max_body: usize,
    with_check: bool,
) -> Result<Option<Frame>, WireError> {
    let Some(&first) = bytes.first() else {
        return Ok(None);
    };
    match first {
        0..LONG => Ok(parse_short(bytes, with_check)),
        LONG..TINY => parse_long(bytes, max_body, with_check),
        TINY..CONTROL => Ok(parse_tiny(bytes, with_check)),
        CONTROL.. => parse_control(bytes),
    }
}

fn parse_short(bytes: &[u8], with_check: bool) -> Option<Frame> {
    let &[first, second, ..] = bytes else {
        return None;
    };
    let body_len = usize::from(u16::from_be_bytes([first & 0x07, second])) + 1;
    small_block(bytes, 2, Some(Slot(first >> 3)), body_len, with_check)
}

fn parse_tiny(bytes: &[u8], with_check: bool) -> Option<Frame> {
    let body_len = usize::from(bytes.first()? & !CONTROL) + 1;
    small_block(bytes, 1, None, body_len, with_check)
}

/// A block whose check, if it has one, stands at `at`.
fn small_block(
    bytes: &[u8],
    at: usize,
    slot: Option<Slot>,
    body_len: usize,
    with_check: bool,
) -> Option<Frame> {
    let (check, body_at) = if with_check {
        let check = bytes.get(at..at + SHORT_CHECK_LEN)?;
        let check = u16::from_le_bytes([check[0], check[1]]);
        (u32::from(check), at + SHORT_CHECK_LEN)
    } else {
        (0, at)
    };
    let header = BlockHeader {
        slot,
        epoch: None,
        plain_len: None,
        body_len,
        check,
    };
    (bytes.len() >= body_at + body_len).then_some(Frame::Block { header, body_at })
}

fn parse_long(bytes: &[u8], max_body: usize, with_check: bool) -> Result<Option<Frame>, WireError> {
    let first = bytes[0];
    let mut at = 1;
    let mut next = || -> Result<Option<u64>, WireError> {
        let Some((value, len)) = read_varint(&bytes[at..])? else {
            return Ok(None);
        };
        at += len;
        Ok(Some(value))
    };
    let epoch = if first & LONG_EPOCH == 0 {
        None
    } else {
        let Some(epoch) = next()? else {
            return Ok(None);
        };
        Some(epoch)
    };
    let plain_len = if first & LONG_PLAIN == 0 {
        None
    } else {
        let Some(plain_len) = next()? else {
            return Ok(None);
        };
        Some(bounded("plain length", plain_len, max_body)?)
    };
    let Some(body_len) = next()? else {
        return Ok(None);
    };
    let body_len = bounded("body length", body_len, max_body)?;
    let short = BlockHeader {
        slot: Some(Slot(first >> 2 & 0x0f)),
        epoch,
        plain_len,
        body_len,
        check: 0,
    };
    if short.is_short() {
        // One form for each block: else a peer could avoid the long checksum's cost or ours its test.
        return Err(WireError::FieldTooSmall {
            field: "body length of a long block",
            given: body_len as u64,
            min: MAX_SHORT_BODY as u64 + 1,
        });
    }
    let check = if with_check {
        let Some(check) = bytes.get(at..at + LONG_CHECK_LEN) else {
            return Ok(None);
        };
        at += LONG_CHECK_LEN;
        le_u32(check)
    } else {
        0
    };
    if bytes.len() - at < body_len {
        return Ok(None);
    }
    Ok(Some(Frame::Block {
        header: BlockHeader { check, ..short },
        body_at: at,
    }))
}

fn bounded(field: &'static str, given: u64, max: usize) -> Result<usize, WireError> {
    if given == 0 {
        Err(WireError::FieldTooSmall {
            field,
            given,
            min: 1,
        })
    } else if given > max as u64 {
        Err(WireError::FieldTooLarge {
            field,
            given,
            max: max as u64,
        })
    } else {
        Ok(given as usize)
    }
}

fn parse_control(bytes: &[u8]) -> Result<Option<Frame>, WireError> {
    let Some((length, length_len)) = read_varint(&bytes[1..])? else {
        return Ok(None);
    };
    if length > MAX_CONTROL_LEN {
        return Err(WireError::FieldTooLarge {
            field: "control frame length",
            given: length,
            max: MAX_CONTROL_LEN,
        });
    }
    let body_at = 1 + length_len;
    let body_end = body_at + length as usize;
    let len = body_end + 4;
    let Some(crc) = bytes.get(body_end..len) else {
        return Ok(None);
    };
    let given = le_u32(crc);
    let computed = plain_crc(&bytes[..body_end]);
    if given != computed {
        return Err(WireError::Checksum {
            what: "control frame",
            given,
            computed,
        });
    }
    let control = Control::parse(bytes[0] & !CONTROL, &bytes[body_at..body_end])?;
    Ok(Some(Frame::Control { control, len }))
}

impl Control {
    /// Appends the control frame.
    pub fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.push(CONTROL | self.kind());
        // Every control body here is shorter than 128 bytes but for texts and reports; leave one byte
        // for the length and widen where that does not do.
        out.push(0);
        let body_at = out.len();
        self.put_body(out);
        let length = out.len() - body_at;
        if length < 0x80 {
            out[body_at - 1] = length as u8;
        } else {
            let mut field = Vec::with_capacity(2);
            put_varint(&mut field, length as u64);
            out.splice(body_at - 1..body_at, field);
        }
        let crc = plain_crc(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
    }
}

pub(super) fn le_u32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_BODY: usize = 1 << 16;

    fn round_trip(header: BlockHeader, with_check: bool) -> usize {
        let mut bytes = Vec::new();
        header.put(&mut bytes, with_check);
        let header_len = bytes.len();
        bytes.resize(header_len + header.body_len, 0xaa);
        for cut in 0..bytes.len() {
            assert_eq!(
                parse_frame(&bytes[..cut], MAX_BODY, with_check),
                Ok(None),
                "cut at {cut}"
            );
        }
        let expected = BlockHeader {
            check: if with_check { header.check } else { 0 },
            ..header
        };
        assert_eq!(
            parse_frame(&bytes, MAX_BODY, with_check),
            Ok(Some(Frame::Block {
                header: expected,
                body_at: header_len
            }))
        );
        header_len
    }

    fn block(body_len: usize, plain_len: Option<usize>, epoch: Option<u64>) -> BlockHeader {
        let check = if epoch.is_none() && plain_len.is_none() && body_len <= 2048 {
            0xbeef
        } else {
            0xdead_beef
        };
        BlockHeader {
            slot: Some(Slot(11)),
            epoch,
            plain_len,
            body_len,
            check,
        }
    }

    #[test]
    fn block_headers_read_back_and_cost_what_the_spec_says() {
        assert_eq!(round_trip(block(1, None, None), true), 4);
        assert_eq!(round_trip(block(2048, None, None), true), 4);
        assert_eq!(round_trip(block(2048, None, None), false), 2);
        assert_eq!(round_trip(block(2049, None, None), true), 1 + 2 + 4);
        assert_eq!(
            round_trip(block(300, Some(1000), None), true),
            1 + 2 + 2 + 4
        );
        assert_eq!(round_trip(block(300, None, Some(7)), true), 1 + 1 + 2 + 4);
        assert_eq!(
            round_trip(block(60_000, Some(65_536), Some(900)), false),
            1 + 2 + 3 + 3
        );
    }

    #[test]
    fn tiny_headers_have_one_byte_and_the_check() {
        let tiny = |len| BlockHeader {
            slot: None,
            ..block(len, None, None)
        };
        for len in 1..=MAX_TINY_BODY {
            assert_eq!(round_trip(tiny(len), true), 3);
            assert_eq!(round_trip(tiny(len), false), 1);
        }
        assert!(!tiny(MAX_TINY_BODY + 1).can_be_tiny());
        assert!(!block(5, Some(5), None).can_be_tiny());
        assert!(!block(5, None, Some(1)).can_be_tiny());
    }

    #[test]
    fn lengths_are_judged_before_the_body_is_there() {
        let mut bytes = vec![LONG];
        put_varint(&mut bytes, MAX_BODY as u64 + 1);
        assert_eq!(
            parse_frame(&bytes, MAX_BODY, true),
            Err(WireError::FieldTooLarge {
                field: "body length",
                given: 65_537,
                max: 65_536
            })
        );
        let mut bytes = vec![LONG | LONG_PLAIN];
        put_varint(&mut bytes, u64::MAX);
        assert!(matches!(
            parse_frame(&bytes, MAX_BODY, true),
            Err(WireError::FieldTooLarge { .. })
        ));
        assert!(matches!(
            parse_frame(&[LONG, 0], MAX_BODY, true),
            Err(WireError::FieldTooSmall { .. })
        ));
    }

    #[test]
    fn a_long_header_for_a_short_block_is_refused() {
        assert!(matches!(
            parse_frame(&[LONG, 5, 0, 0, 0, 0, 1, 2, 3, 4, 5], MAX_BODY, true),
            Err(WireError::FieldTooSmall { .. })
        ));
    }
}
