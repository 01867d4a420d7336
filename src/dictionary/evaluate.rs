//! What a dictionary is worth.

use crate::codecs::{
    Arm, CodecId, Codecs, EncodeError, Encoded, default_level, supported, takes_dictionary,
};

use super::Dictionary;

/// The level that a dictionary is compressed with when it is sent: once for many messages.
const SENDING: Arm = Arm::new(CodecId::ZSTD, 19);

/// What messages that a dictionary was not trained on become with it and without.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Evaluation {
    /// The arm.
    pub arm: Arm,
    /// Messages that were tried.
    pub messages: usize,
    /// Bytes of them.
    pub plain: usize,
    /// Bytes of bodies without the dictionary, as they are where that is not smaller.
    pub without: usize,
    /// Bytes of bodies with it, or without where that is smaller still.
    pub with: usize,
    /// Bytes that sending the dictionary takes, itself compressed.
    pub cost: usize,
}

impl Evaluation {
    /// Plain bytes to bytes without the dictionary.
    pub fn ratio_without(&self) -> f64 {
        ratio(self.plain, self.without)
    }

    /// Plain bytes to bytes with the dictionary.
    pub fn ratio_with(&self) -> f64 {
        ratio(self.plain, self.with)
    }

    /// Bytes that a message saves on average; never less than none.
    pub fn saved_per_message(&self) -> f64 {
        self.without.saturating_sub(self.with) as f64 / self.messages.max(1) as f64
    }

    /// Messages after which the dictionary has saved what sending it took; `None` if it saves nothing.
    pub fn break_even_messages(&self) -> Option<u64> {
        let saved = self.saved_per_message();
        (saved > 0.0).then(|| (self.cost as f64 / saved).ceil() as u64)
    }

    /// Bytes gained over so many messages, once the dictionary is paid for `times` over.
    pub fn gain_over(&self, messages: u64, times: f64) -> f64 {
        self.saved_per_message() * messages as f64 - self.cost as f64 * times
    }
}

fn ratio(plain: usize, wire: usize) -> f64 {
    plain as f64 / wire.max(1) as f64
}

/// Encodes each message by itself, with the dictionary and without.
///
/// # Errors
///
/// The arm is not in this build, takes no dictionary or not this one.
pub fn evaluate<S: AsRef<[u8]>>(
    codecs: &mut Codecs,
    dictionary: &Dictionary,
    held_out: &[S],
    arm: Arm,
) -> Result<Evaluation, EncodeError> {
    Ok(Evaluation {
        cost: sending_len(codecs, dictionary)?,
        ..evaluate_sent(codecs, dictionary, held_out, arm)?
    })
}

/// The same of a dictionary that has been sent, whose cost is nothing any more.
pub(super) fn evaluate_sent<S: AsRef<[u8]>>(
    codecs: &mut Codecs,
    dictionary: &Dictionary,
    held_out: &[S],
    arm: Arm,
) -> Result<Evaluation, EncodeError> {
    let mut wire = Vec::new();
    let mut evaluation = Evaluation {
        arm,
        messages: held_out.len(),
        plain: 0,
        without: 0,
        with: 0,
        cost: 0,
    };
    for plain in held_out.iter().map(AsRef::as_ref) {
        wire.resize(wire.len().max(plain.len()), 0);
        let body = |encoded| match encoded {
            Encoded::Written(len) => len,
            Encoded::NotSmaller => plain.len(),
        };
        let without = body(codecs.encode(arm, plain, &mut wire[..plain.len()])?);
        let with = body(codecs.encode_with(arm, dictionary, plain, &mut wire[..plain.len()])?);
        evaluation.plain += plain.len();
        evaluation.without += without;
        evaluation.with += with.min(without);
    }
    Ok(evaluation)
}

/// Bytes that a dictionary takes on its way.
fn sending_len(codecs: &mut Codecs, dictionary: &Dictionary) -> Result<usize, EncodeError> {
    if !supported().iter().any(|info| info.id == SENDING.codec) {
        return Ok(dictionary.len());
    }
    let mut wire = vec![0; dictionary.len()];
    Ok(
        match codecs.encode(SENDING, dictionary.content(), &mut wire)? {
            Encoded::Written(len) => len,
            Encoded::NotSmaller => dictionary.len(),
        },
    )
}

/// The arms that dictionaries are tried with when nobody says which: zstd 3 and lz4, as far as this build
/// has them.
pub fn dictionary_arms() -> impl Iterator<Item = Arm> {
    let lz4 = Arm::new(CodecId::LZ4, default_level(CodecId::LZ4).0);
    [Arm::new(CodecId::ZSTD, 3), lz4]
        .into_iter()
        .filter(|arm| takes_dictionary(arm.codec))
}
