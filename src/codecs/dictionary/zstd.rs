//! Zstandard with a dictionary. A context for each dictionary and level: it digests the dictionary
//! once, and every message then refers to the digest.

use core::fmt;

use zstd_safe::{DCtx, ErrorCode};

use super::super::zstd::{Encoder, NO_MEMORY, OUTPUT_FULL, Params, check_frame, new_decoder};
use super::super::{
    CodecId, DecodeError, DecodeLimits, EncodeError, Encoded, Level, corrupt, encode_failed,
    worthwhile,
};
use super::recent;
use crate::dictionary::{Dictionary, DictionaryId};

/// Contexts by dictionary, those used last first.
#[derive(Default)]
pub(super) struct ZstdPrepared {
    encoders: Vec<Encoding>,
    decoders: Vec<Decoding>,
}

struct Encoding {
    id: DictionaryId,
    level: Level,
    encoder: Encoder,
}

struct Decoding {
    id: DictionaryId,
    limits: DecodeLimits,
    context: DCtx<'static>,
}

impl ZstdPrepared {
    pub(super) fn encode(
        &mut self,
        level: Level,
        dictionary: &Dictionary,
        plain: &[u8],
        wire: &mut [u8],
        limits: DecodeLimits,
    ) -> Result<Encoded, EncodeError> {
        let failed = |code| encode_failed(CodecId::ZSTD, plain, &zstd_safe::get_error_name(code));
        let id = dictionary.id();
        let entry = recent(
            &mut self.encoders,
            |it| it.is_it(id, level),
            || Encoding::new(level, dictionary),
        )?;
        // zstd makes the window large enough for both unless told.
        let window_log = if plain.len().saturating_add(dictionary.len()) > limits.window_bytes() {
            u32::from(limits.effective_window_log())
        } else {
            0
        };
        let encoder = &mut entry.encoder;
        encoder
            .set(Params {
                level: i32::from(level.0),
                window_log,
            })
            .map_err(failed)?;
        match encoder.run(plain, worthwhile(plain, wire)) {
            Ok(len) => Ok(Encoded::smaller_than(plain.len(), len)),
            Err(OUTPUT_FULL) => Ok(Encoded::NotSmaller),
            Err(code) => Err(failed(code)),
        }
    }

    pub(super) fn decode(
        &mut self,
        dictionary: &Dictionary,
        wire: &[u8],
        plain: &mut [u8],
        limits: DecodeLimits,
    ) -> Result<usize, DecodeError> {
        let id = dictionary.id();
        let entry = recent(
            &mut self.decoders,
            |it| it.is_it(id, limits),
            || Decoding::new(dictionary, limits),
        )?;
        check_frame(wire, limits)?;
        let max = plain.len();
        entry.context.decompress(plain, wire).map_err(|code| {
            if code == OUTPUT_FULL {
                DecodeError::TooLong { max }
            } else {
                corrupt(CodecId::ZSTD, wire, &zstd_safe::get_error_name(code))
            }
        })
    }

    pub(super) fn has_encoder(&self, id: DictionaryId, level: Level) -> bool {
        self.encoders.iter().any(|it| it.is_it(id, level))
    }

    pub(super) fn has_decoder(&self, id: DictionaryId, limits: DecodeLimits) -> bool {
        self.decoders.iter().any(|it| it.is_it(id, limits))
    }

    pub(super) fn memory(&self) -> usize {
        let encoders = self.encoders.iter().map(|it| it.encoder.memory());
        let decoders = self.decoders.iter().map(|it| it.context.sizeof());
        encoders.chain(decoders).sum()
    }
}

impl fmt::Debug for ZstdPrepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZstdPrepared")
            .field("encoders", &self.encoders.len())
            .field("decoders", &self.decoders.len())
            .finish()
    }
}

impl Encoding {
    fn is_it(&self, id: DictionaryId, level: Level) -> bool {
        self.id == id && self.level == level
    }

    fn new(level: Level, dictionary: &Dictionary) -> Result<Self, EncodeError> {
        let bad = |code| EncodeError::BadDictionary {
            codec: CodecId::ZSTD,
            id: dictionary.id(),
            detail: detail(code).to_owned(),
        };
        let params = Params {
            level: i32::from(level.0),
            window_log: 0,
        };
        let mut encoder = Encoder::new(params).map_err(bad)?;
        encoder.load(dictionary.content()).map_err(bad)?;
        // The dictionary is digested when it is first used, and only then found to be damaged.
        match encoder.run(&[0; 16], &mut [0; 64]) {
            Ok(_) | Err(OUTPUT_FULL) => Ok(Self {
                id: dictionary.id(),
                level,
                encoder,
            }),
            Err(code) => Err(bad(code)),
        }
    }
}

impl Decoding {
    fn is_it(&self, id: DictionaryId, limits: DecodeLimits) -> bool {
        self.id == id && self.limits == limits
    }

    fn new(dictionary: &Dictionary, limits: DecodeLimits) -> Result<Self, DecodeError> {
        let bad = |code| DecodeError::BadDictionary {
            codec: CodecId::ZSTD,
            id: dictionary.id(),
            detail: detail(code).to_owned(),
        };
        let mut context = new_decoder(limits).map_err(bad)?;
        context.load_dictionary(dictionary.content()).map_err(bad)?;
        Ok(Self {
            id: dictionary.id(),
            limits,
            context,
        })
    }
}

/// zstd says that it has no memory where it means a damaged dictionary.
fn detail(code: ErrorCode) -> &'static str {
    if code == NO_MEMORY {
        "the tables in front of its content are damaged, or there is no memory"
    } else {
        zstd_safe::get_error_name(code)
    }
}
