//! One message of 256 B through a codec with history, and through an envelope.

use std::hint::black_box;

use bytes::Bytes;
use tautline::codecs::{Arm, CodecId, DecodeContext, DecodeLimits, EncodeContext};
use tautline::envelope::{
    EnvelopeDecoder, EnvelopeEncoder, EnvelopeLimits, NameForm, NoDictionaries,
};

use crate::log_lines::log_lines;
use crate::pieces::{Named, Piece, over};

const LEN: usize = 256;
const WINDOW_LOG: u8 = 17;

pub(crate) const PIECES: &[Named] = &[
    ("codec/lz4+history", || {
        there_and_back(Arm::new(CodecId::LZ4, 0))
    }),
    ("codec/zstd:1+history", || {
        there_and_back(Arm::new(CodecId::ZSTD, 1))
    }),
    ("envelope/seal", seal),
    ("envelope/open", open),
];

/// Encodes and decodes a message of log lines. Their text is longer than the history, so that no message is found in it.
fn there_and_back(arm: Arm) -> Piece {
    let text = log_lines(4 << WINDOW_LOG, 1);
    let mut encoder = EncodeContext::new(arm, WINDOW_LOG, &[]).expect("in this build");
    let mut decoder = DecodeContext::new(arm.codec, WINDOW_LOG, &[]).expect("in this build");
    let (mut wire, mut plain) = (Vec::with_capacity(2 * LEN), [0; LEN]);
    let mut at = 0;
    over(move || {
        let message = &text[at..at + LEN];
        at = (at + LEN) % (text.len() - LEN);
        wire.clear();
        encoder
            .encode(black_box(message), &mut wire)
            .expect("memory");
        decoder
            .decode_exact(black_box(&wire), &mut plain)
            .expect("what was encoded");
        black_box(&plain);
    })
}

fn encoder() -> EnvelopeEncoder {
    EnvelopeEncoder::new(NameForm::default(), DecodeLimits::default())
}

const ARM: Arm = Arm::new(CodecId::LZ4, 0);

fn seal() -> Piece {
    let (mut encoder, text) = (encoder(), log_lines(LEN, 1));
    over(move || {
        let sealed = encoder.encode(ARM, black_box(&text[..LEN]));
        assert!(black_box(sealed).is_ok());
    })
}

fn open() -> Piece {
    let text = log_lines(LEN, 1);
    let sealed = encoder().encode(ARM, &text[..LEN]).expect("in this build");
    let mut decoder = EnvelopeDecoder::new(EnvelopeLimits::new(LEN));
    over(move || {
        let opened: Result<Bytes, _> = decoder.decode(black_box(&sealed), &mut NoDictionaries);
        assert!(black_box(opened).is_ok());
    })
}
