//! One raw DEFLATE stream, flushed at each block.
//!
//! A sync flush ends with an empty stored block, whose last four bytes are always the same: they
//! are not sent, as in RFC 7692.

use core::fmt;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::{EncodeContext, MIN_WINDOW_LOG, last};
use crate::codecs::{CodecId, DecodeError, EncodeError, Level, corrupt, encode_failed};

/// What every flush ends with.
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// The most that the format reaches back.
const MAX_WINDOW_LOG: u8 = 15;

fn window_bits(window_log: u8) -> u8 {
    window_log.clamp(MIN_WINDOW_LOG, MAX_WINDOW_LOG)
}

fn compression(level: Level) -> Compression {
    Compression::new(u32::from(level.0.unsigned_abs()))
}

/// The part of `prime` that the window holds.
fn recent(prime: &[u8], window_log: u8) -> &[u8] {
    last(prime, 1 << window_bits(window_log))
}

pub(super) fn memory_estimate(window_log: u8) -> (usize, usize) {
    let window = 1_usize << window_bits(window_log);
    // zlib-rs's windows (two for matching), positions, head table of 2^16 and pending buffer; as
    // for the shelf's deflate, by its manual and not by count.
    (4 * window + (132 << 10), window + (8 << 10))
}

pub(super) struct Encoder {
    state: Compress,
    level: Level,
    window_log: u8,
}

impl Encoder {
    pub(super) fn new(level: Level, window_log: u8, prime: &[u8]) -> Result<Self, EncodeError> {
        let mut state =
            Compress::new_with_window_bits(compression(level), false, window_bits(window_log));
        set_dictionary(&mut state, recent(prime, window_log))?;
        Ok(Self {
            state,
            level,
            window_log,
        })
    }

    pub(super) fn restart(&mut self, level: Level, prime: &[u8]) -> Result<(), EncodeError> {
        // A stream must come to its end: in zlib-rs 0.6.8, a reset within one leaves the pending
        // buffer's read position where it was, and a later block panics at the end of that buffer.
        let mut end = [0; 64];
        let ended = self.state.compress(&[], &mut end, FlushCompress::Finish);
        if level != self.level || !matches!(ended, Ok(Status::StreamEnd)) {
            *self = Self::new(level, self.window_log, prime)?;
            return Ok(());
        }
        self.state.reset();
        set_dictionary(&mut self.state, recent(prime, self.window_log))
    }

    pub(super) fn encode(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), EncodeError> {
        // Not `compress_vec`, which clears all the room that the vector has.
        let start = wire.len();
        wire.resize(start + EncodeContext::bound(plain.len()) + TAIL.len(), 0);
        let (read, written) = (self.state.total_in(), self.state.total_out());
        self.state
            .compress(plain, &mut wire[start..], FlushCompress::Sync)
            .map_err(|error| encode_failed(CodecId::DEFLATE, plain, &error))?;
        let read = self.state.total_in() - read;
        let end = start + (self.state.total_out() - written) as usize;
        // Room left is what says that the flush is complete (zlib's manual, deflate).
        let complete = read == plain.len() as u64 && end < wire.len();
        wire.truncate(end);
        if !complete || !wire.ends_with(&TAIL) {
            let detail = &"an unfinished flush";
            return Err(encode_failed(CodecId::DEFLATE, plain, detail));
        }
        wire.truncate(wire.len() - TAIL.len());
        Ok(())
    }

    pub(super) fn memory(&self) -> usize {
        memory_estimate(self.window_log).0
    }
}

fn set_dictionary(state: &mut Compress, prime: &[u8]) -> Result<(), EncodeError> {
    if prime.is_empty() {
        return Ok(());
    }
    state
        .set_dictionary(prime)
        .map(drop)
        .map_err(|error| encode_failed(CodecId::DEFLATE, prime, &error))
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deflate")
            .field("memory", &self.memory())
            .finish()
    }
}

pub(super) struct Decoder {
    state: Decompress,
    window_log: u8,
}

impl Decoder {
    pub(super) fn new(window_log: u8, prime: &[u8]) -> Result<Self, DecodeError> {
        let mut decoder = Self {
            state: Decompress::new_with_window_bits(false, window_bits(window_log)),
            window_log,
        };
        decoder.set_dictionary(prime)?;
        Ok(decoder)
    }

    pub(super) fn restart(&mut self, prime: &[u8]) -> Result<(), DecodeError> {
        self.state.reset(false);
        self.set_dictionary(prime)
    }

    fn set_dictionary(&mut self, prime: &[u8]) -> Result<(), DecodeError> {
        let prime = recent(prime, self.window_log);
        if prime.is_empty() {
            return Ok(());
        }
        self.state
            .set_dictionary(prime)
            .map(drop)
            .map_err(|error| corrupt(CodecId::DEFLATE, &[], &error))
    }

    pub(super) fn decode(&mut self, wire: &[u8], plain: &mut [u8]) -> Result<usize, DecodeError> {
        let mut written = 0;
        for part in [wire, &TAIL] {
            written += self.feed(part, wire, &mut plain[written..])?;
        }
        // Output that found no room would come now.
        if written == plain.len() && self.step(&[], &mut [0])?.1 != 0 {
            return Err(DecodeError::TooLong { max: plain.len() });
        }
        Ok(written)
    }

    /// Has all of `part` read.
    fn feed(
        &mut self,
        mut part: &[u8],
        wire: &[u8],
        plain: &mut [u8],
    ) -> Result<usize, DecodeError> {
        let mut written = 0;
        while !part.is_empty() {
            let (read, more) = self.step(part, &mut plain[written..])?;
            written += more;
            part = &part[read..];
            if read == 0 && more == 0 {
                return Err(if written == plain.len() {
                    DecodeError::TooLong { max: plain.len() }
                } else {
                    corrupt(CodecId::DEFLATE, wire, &"no progress")
                });
            }
        }
        Ok(written)
    }

    /// One call of the library: bytes read and written.
    fn step(&mut self, part: &[u8], plain: &mut [u8]) -> Result<(usize, usize), DecodeError> {
        let (read, written) = (self.state.total_in(), self.state.total_out());
        let status = self
            .state
            .decompress(part, plain, FlushDecompress::Sync)
            .map_err(|error| corrupt(CodecId::DEFLATE, part, &error))?;
        if status == Status::StreamEnd {
            return Err(corrupt(CodecId::DEFLATE, part, &"the stream ends"));
        }
        Ok((
            (self.state.total_in() - read) as usize,
            (self.state.total_out() - written) as usize,
        ))
    }

    pub(super) fn memory(&self) -> usize {
        memory_estimate(self.window_log).1
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deflate")
            .field("memory", &self.memory())
            .finish()
    }
}
