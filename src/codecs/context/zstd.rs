//! One zstd frame, flushed at each block, without what both ends know: its header, and the header of
//! a block that fills the body.
//!
//! ```text
//! x...                 one compressed block, where the low four bits of x are not 0xD
//! 0x0D  plain bytes    one raw block
//! 0x1D  x...           one compressed block all the same
//! 0x2D  blocks         zstd's blocks as they are, each with its header of three bytes
//! ```
//!
//! A compressed block begins with the header of its literals, and 0xD there would say that more than
//! 4095 equal bytes are literals: that happens, but in no block for which a byte matters.

#![expect(
    unsafe_code,
    reason = "zstd refers to a prefix until the frame's end, which no lifetime here can say; and what a level stands for is only in zstd-sys"
)]

use core::fmt;

use zstd_safe::zstd_sys::{ZSTD_EndDirective, ZSTD_getCParams};
use zstd_safe::{
    CCtx, CParameter, DCtx, DParameter, ErrorCode, FrameFormat, InBuffer, OutBuffer, ResetDirective,
};

use super::{EncodeContext, MIN_WINDOW_LOG, last};
use crate::codecs::{CodecId, DecodeError, EncodeError, Level, corrupt, encode_failed};

/// The low bits of a first byte that begins no compressed block of its own.
const ESCAPE: u8 = 0xD;
const RAW: u8 = 0x0D;
const COMPRESSED: u8 = 0x1D;
const BLOCKS: u8 = 0x2D;

const FRAME_HEADER_LEN: usize = 2;
const BLOCK_HEADER_LEN: usize = 3;
/// The longest block that zstd knows (RFC 8878, 3.1.1.2.4).
const MAX_BLOCK_LOG: u8 = 17;
/// The longest block that the encoder makes: a quarter of the window, since zstd's fast levels reach
/// back a window from a block's *end*, and at most the session's usual 64 KiB. Against zstd's own
/// choice, the window up to 128 KiB (measured with `context_table` at level 1, signalling): with a window of
/// 2^15, 64 KiB come to 13.3 instead of 16 % and the context takes 138 instead of 279 KB; with 2^17,
/// the same and 378 instead of 943 KB. Levels 6 and 9 lose 1 to 3 % of ratio.
fn encoded_block_log(window_log: u8) -> u8 {
    (window_log - 2).clamp(MIN_WINDOW_LOG, 16)
}

/// The longest window whose own tables are taken; with longer ones the tables are as for this. zstd would
/// take some of 8 MB at level 9 with 2^20 bytes. With 2^19 and these, signalling message by message comes to
/// 29.79 bytes a message instead of 29.78, log lines to 24.33 instead of 24.07, CSV to 39.36 instead of 38.77,
/// JSON documents to 158.2 instead of 157.7; the context takes 1.6 instead of 3.5 MB.
const MAX_TABLES_LOG: u8 = 17;

/// Minus `ZSTD_error_memory_allocation`, a number that `zstd_errors.h` calls stable.
const NO_MEMORY: ErrorCode = 64_usize.wrapping_neg();

/// What a trained dictionary begins with. A decoder takes a prime that does for one, so its first
/// byte is left out at both ends.
const DICTIONARY_MAGIC: [u8; 4] = [0x37, 0xA4, 0x30, 0xEC];

/// What of `prime` both ends have as content.
fn as_content(prime: &[u8], window_log: u8) -> &[u8] {
    let prime = last(prime, 1 << window_log);
    &prime[usize::from(prime.starts_with(&DICTIONARY_MAGIC))..]
}

/// Descriptor (nothing optional), window descriptor (RFC 8878, 3.1.1.1).
fn frame_header(window_log: u8) -> [u8; FRAME_HEADER_LEN] {
    [0, (window_log - MIN_WINDOW_LOG) << 3]
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Raw,
    RunLength,
    Compressed,
}

/// What a block says of itself (RFC 8878, 3.1.1.2).
#[derive(Clone, Copy)]
struct BlockHeader {
    is_last: bool,
    kind: BlockKind,
    /// Bytes of the block, but of its plain form where it is a run.
    size: usize,
}

impl BlockHeader {
    /// The first block's header, and what comes after it.
    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (&[a, b, c], rest) = bytes.split_first_chunk::<BLOCK_HEADER_LEN>()?;
        let value = u32::from_le_bytes([a, b, c, 0]);
        let kind = match value >> 1 & 3 {
            0 => BlockKind::Raw,
            1 => BlockKind::RunLength,
            2 => BlockKind::Compressed,
            _ => return None,
        };
        let header = Self {
            is_last: value & 1 != 0,
            kind,
            size: (value >> 3) as usize,
        };
        Some((header, rest))
    }

    /// The header of a block that is not the last and fills `body`.
    fn write(kind: BlockKind, body: &[u8]) -> [u8; BLOCK_HEADER_LEN] {
        let [a, b, c, ..] = (body.len() << 3 | (kind as usize) << 1).to_le_bytes();
        [a, b, c]
    }
}

pub(super) struct Encoder {
    context: CCtx<'static>,
    /// What the frame's history begins with; the context refers to it, so it must not change
    /// or go before the context is reset or gone.
    prefix: Vec<u8>,
    window_log: u8,
    /// Whether the frame's header has been written.
    begun: bool,
}

impl Encoder {
    pub(super) fn new(level: Level, window_log: u8, prime: &[u8]) -> Result<Self, EncodeError> {
        let mut context = CCtx::try_create().ok_or_else(|| failed(prime, NO_MEMORY))?;
        for parameter in [
            CParameter::Format(FrameFormat::Magicless),
            CParameter::ContentSizeFlag(false),
            CParameter::ChecksumFlag(false),
            CParameter::DictIdFlag(false),
            CParameter::WindowLog(u32::from(window_log)),
            CParameter::MaxBlockSize(1 << encoded_block_log(window_log)),
        ] {
            context
                .set_parameter(parameter)
                .map_err(|code| failed(prime, code))?;
        }
        let mut encoder = Self {
            context,
            prefix: Vec::new(),
            window_log,
            begun: false,
        };
        encoder.restart(level, prime)?;
        Ok(encoder)
    }

    pub(super) fn restart(&mut self, level: Level, prime: &[u8]) -> Result<(), EncodeError> {
        self.begin(level, prime).map_err(|code| failed(prime, code))
    }

    fn begin(&mut self, level: Level, prime: &[u8]) -> Result<(), ErrorCode> {
        self.context.reset(ResetDirective::SessionOnly)?;
        self.begun = false;
        self.prefix.clear();
        // One byte less than the window, so that the hint below is not 0.
        let most = (1 << self.window_log) - 1;
        let prime = last(as_content(prime, self.window_log), most);
        self.prefix.extend_from_slice(prime);
        self.context
            .set_parameter(CParameter::CompressionLevel(i32::from(level.0)))?;
        // zstd chooses its tables by the length of input and prefix together: as if both filled
        // the window once.
        self.context
            .set_parameter(CParameter::SrcSizeHint((most + 1 - prime.len()) as u32))?;
        if self.window_log > MAX_TABLES_LOG {
            self.take_tables(level)?;
        }
        if !self.prefix.is_empty() {
            // `load_dictionary`, which copies, takes four times as long and twice the tables
            // (measured: 55 against 10 µs at level 1 with 32 KiB).
            //
            // SAFETY: pointer and length are those of a vector, so they are valid for reads. The
            // context reads them until it is reset or dropped: `begin`, the only function
            // that changes the vector, resets it first; fields are dropped in the order of their
            // declaration, and the vector is declared after the context.
            let prefix: &'static [u8] =
                unsafe { core::slice::from_raw_parts(self.prefix.as_ptr(), self.prefix.len()) };
            self.context.ref_prefix(prefix)?;
        }
        Ok(())
    }

    /// Sets everything that the level stands for, the window apart, as for the longest window that has
    /// tables of its own.
    fn take_tables(&mut self, level: Level) -> Result<(), ErrorCode> {
        // SAFETY: a function of three numbers; it reads a constant table and takes levels out of range for
        // the nearest.
        let like = unsafe { ZSTD_getCParams(i32::from(level.0), 1 << MAX_TABLES_LOG, 0) };
        for parameter in [
            CParameter::HashLog(like.hashLog),
            CParameter::ChainLog(like.chainLog),
            CParameter::SearchLog(like.searchLog),
            CParameter::MinMatch(like.minMatch),
            CParameter::TargetLength(like.targetLength),
            CParameter::Strategy(like.strategy),
        ] {
            self.context.set_parameter(parameter)?;
        }
        Ok(())
    }

    pub(super) fn encode(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), EncodeError> {
        let start = wire.len();
        let mut input = InBuffer::around(plain);
        loop {
            wire.reserve(EncodeContext::bound(plain.len() - input.pos()));
            let at = wire.len();
            let mut output = OutBuffer::around_pos(wire, at);
            let left = self
                .context
                .compress_stream2(&mut output, &mut input, ZSTD_EndDirective::ZSTD_e_flush)
                .map_err(|code| failed(plain, code))?;
            if left == 0 {
                break;
            }
        }
        let mut at = start;
        if !self.begun {
            if !wire[start..].starts_with(&frame_header(self.window_log)) {
                let detail = &"another frame header than asked for";
                return Err(encode_failed(CodecId::ZSTD, plain, detail));
            }
            at += FRAME_HEADER_LEN;
            self.begun = true;
        }
        shorten(wire, start, at);
        Ok(())
    }

    pub(super) fn memory(&self) -> usize {
        self.context.sizeof() + self.prefix.capacity()
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zstd")
            .field("memory", &self.memory())
            .finish()
    }
}

fn failed(plain: &[u8], code: ErrorCode) -> EncodeError {
    encode_failed(CodecId::ZSTD, plain, &zstd_safe::get_error_name(code))
}

/// Makes the body that goes on the wire, from `start` on, of the blocks from `at` on.
fn shorten(wire: &mut Vec<u8>, start: usize, at: usize) {
    let single = BlockHeader::read(&wire[at..])
        .filter(|(header, rest)| header.size == rest.len())
        .map(|(header, rest)| (header.kind, rest.first().copied().unwrap_or_default()));
    match single {
        Some((BlockKind::Compressed, first)) if first & 0xF != ESCAPE => {
            wire.drain(start..at + BLOCK_HEADER_LEN);
        }
        Some((kind @ (BlockKind::Compressed | BlockKind::Raw), _)) => {
            let mark = at + BLOCK_HEADER_LEN - 1;
            wire[mark] = match kind {
                BlockKind::Raw => RAW,
                _ => COMPRESSED,
            };
            wire.drain(start..mark);
        }
        _ => {
            wire.splice(start..at, [BLOCKS]);
        }
    }
}

pub(super) struct Decoder {
    context: DCtx<'static>,
    window_log: u8,
    begun: bool,
}

impl Decoder {
    pub(super) fn new(window_log: u8, prime: &[u8]) -> Result<Self, DecodeError> {
        let context = DCtx::try_create().ok_or_else(|| broken(prime, NO_MEMORY))?;
        let mut decoder = Self {
            context,
            window_log,
            begun: false,
        };
        for parameter in [
            DParameter::Format(FrameFormat::Magicless),
            DParameter::WindowLogMax(u32::from(window_log)),
        ] {
            decoder
                .context
                .set_parameter(parameter)
                .map_err(|code| broken(prime, code))?;
        }
        decoder.restart(prime)?;
        Ok(decoder)
    }

    pub(super) fn restart(&mut self, prime: &[u8]) -> Result<(), DecodeError> {
        self.begun = false;
        self.context
            .reset(ResetDirective::SessionOnly)
            .and_then(|_| {
                self.context
                    .load_dictionary(as_content(prime, self.window_log))
            })
            .map(drop)
            .map_err(|code| broken(prime, code))
    }

    pub(super) fn decode(&mut self, wire: &[u8], plain: &mut [u8]) -> Result<usize, DecodeError> {
        let (kind, body) = match wire {
            [RAW, body @ ..] => (Some(BlockKind::Raw), body),
            [COMPRESSED, body @ ..] => (Some(BlockKind::Compressed), body),
            [BLOCKS, body @ ..] => (None, body),
            [first, ..] if first & 0xF == ESCAPE => {
                return Err(corrupt(CodecId::ZSTD, wire, &"an unknown form of body"));
            }
            body => (Some(BlockKind::Compressed), body),
        };
        let header = match kind {
            Some(_) if body.is_empty() || body.len() > self.max_block_len() => {
                return Err(corrupt(CodecId::ZSTD, wire, &"an impossible block length"));
            }
            Some(kind) => Some(BlockHeader::write(kind, body)),
            None => {
                check_blocks(body).map_err(|detail| corrupt(CodecId::ZSTD, wire, &detail))?;
                None
            }
        };
        let frame_header = (!self.begun).then(|| frame_header(self.window_log));
        self.begun = true;
        let mut written = 0;
        for part in [
            frame_header.as_ref().map_or(&[][..], |header| &header[..]),
            header.as_ref().map_or(&[][..], |header| &header[..]),
            body,
        ] {
            self.feed(part, wire, plain, &mut written)?;
        }
        // Output that found no room would come now.
        if written == plain.len() && self.step(&mut InBuffer::around(&[]), wire, &mut [0], 0)? != 0
        {
            return Err(DecodeError::TooLong { max: plain.len() });
        }
        Ok(written)
    }

    /// Has all of `part` read.
    fn feed(
        &mut self,
        part: &[u8],
        wire: &[u8],
        plain: &mut [u8],
        written: &mut usize,
    ) -> Result<(), DecodeError> {
        let mut input = InBuffer::around(part);
        while input.pos() < part.len() {
            let before = (input.pos(), *written);
            *written = self.step(&mut input, wire, plain, *written)?;
            if before == (input.pos(), *written) {
                return Err(if *written == plain.len() {
                    DecodeError::TooLong { max: plain.len() }
                } else {
                    corrupt(CodecId::ZSTD, wire, &"no progress")
                });
            }
        }
        Ok(())
    }

    /// One call of the library; how far `plain` is written then.
    fn step(
        &mut self,
        input: &mut InBuffer<'_>,
        wire: &[u8],
        plain: &mut [u8],
        written: usize,
    ) -> Result<usize, DecodeError> {
        let mut output = OutBuffer::around_pos(plain, written);
        self.context
            .decompress_stream(&mut output, input)
            .map_err(|code| broken(wire, code))?;
        Ok(output.pos())
    }

    fn max_block_len(&self) -> usize {
        1 << self.window_log.min(MAX_BLOCK_LOG)
    }

    pub(super) fn memory(&self) -> usize {
        self.context.sizeof()
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zstd")
            .field("memory", &self.memory())
            .finish()
    }
}

fn broken(wire: &[u8], code: ErrorCode) -> DecodeError {
    corrupt(CodecId::ZSTD, wire, &zstd_safe::get_error_name(code))
}

/// Whether `body` is blocks to its end and does not end the frame: what the library has read must
/// never stop inside a block, or the next body would be taken for its rest.
fn check_blocks(mut body: &[u8]) -> Result<(), &'static str> {
    while !body.is_empty() {
        let (header, rest) = BlockHeader::read(body).ok_or("no block header")?;
        if header.is_last {
            return Err("the frame ends");
        }
        let len = match header.kind {
            BlockKind::RunLength => 1,
            _ => header.size,
        };
        body = rest.get(len..).ok_or("ends inside a block")?;
    }
    Ok(())
}

/// What zstd 1.5.7 takes for levels -7 to 19, by the size of what is to be encoded: `clevels.h`.
struct Tables {
    /// Binary logarithms of the entries in the tables, for the negative levels and from level 1 on.
    chain_logs: [u8; 20],
    hash_logs: [u8; 20],
    /// The first level of each strategy: two tables, rows, trees, optimal; and of matches of three.
    from_level: [i8; 5],
}

/// For windows of up to 2^14 bytes, and longer ones.
const TABLES: [(u8, Tables); 2] = [
    (
        14,
        Tables {
            chain_logs: [
                12, 14, 14, 14, 14, 14, 14, 14, 14, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
            ],
            hash_logs: [
                13, 15, 15, 15, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 15, 15, 15, 15, 15, 15,
            ],
            from_level: [3, 4, 9, 11, 12],
        },
    ),
    (
        u8::MAX,
        Tables {
            chain_logs: [
                12, 12, 13, 15, 17, 16, 16, 16, 16, 16, 16, 17, 18, 18, 18, 18, 18, 18, 18, 18,
            ],
            hash_logs: [
                12, 13, 15, 16, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17,
            ],
            from_level: [3, 5, 11, 13, 14],
        },
    ),
];

/// As `ZSTD_estimateCStreamSize_usingCCtxParams` and `ZSTD_decodingBufferSize_min` reckon.
pub(super) fn memory_estimate(level: Level, window_log: u8) -> (usize, usize) {
    let tables = TABLES
        .iter()
        .find(|(max_log, _)| window_log <= *max_log)
        .map_or(&TABLES[1].1, |(_, tables)| tables);
    let row = usize::from(level.0.max(0).unsigned_abs()).min(19);
    let [two_tables, rows, trees, optimal, of_three] =
        tables.from_level.map(|first| level.0 >= first);
    let hash_log = tables.hash_logs[row].min(window_log + 1);
    // A tree has two entries for a position.
    let chain_log = tables.chain_logs[row].min(window_log + u8::from(trees));
    let in_rows = rows && !trees && window_log > 14;

    let window = 1_usize << window_log;
    let block = 1_usize << encoded_block_log(window_log);
    let sequences = block / if of_three { 3 } else { 4 };
    let encode = [
        // Fixed: the context, entropy tables, work space.
        28 << 10,
        4 << hash_log,
        if two_tables && !in_rows {
            4 << chain_log
        } else {
            0
        },
        if in_rows { 1 << hash_log } else { 0 },
        if of_three { 4 << window_log.min(17) } else { 0 },
        if optimal { 150 << 10 } else { 0 },
        // Sequences with their codes, and literals.
        sequences * 11 + block,
        // Buffers for input and output.
        window + block,
        block + block / 256,
    ];
    let longest = 1 << window_log.min(MAX_BLOCK_LOG);
    // The fixed part, then buffers for input and output.
    let decode = (94 << 10) + longest + window + 2 * longest;
    (encode.iter().sum(), decode)
}
