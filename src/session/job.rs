//! Codec work that the session hands out: it has no clock to measure it with, and a driver may run
//! it on another thread.

use core::time::Duration;

use bytes::Bytes;

use super::dictionaries::{DictionaryJob, DictionaryWork};
use super::history::{DecodeHistory, EncodeHistory, HistoryPlace};
use super::limits::check_expansion;
use crate::codecs::{
    Arm, CodecId, Codecs, DecodeContext, DecodeError, DecodeLimits, EncodeContext, EncodeError,
    Encoded,
};
use crate::dictionary::Dictionary;
use crate::units::Time;
use crate::wire::{WireError, plain_crc};

/// How long a job took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobTime {
    /// From its beginning to its end.
    pub elapsed: Duration,
    /// Of that, what its thread had a processor for: what the codec takes whoever else is running.
    pub processor: Duration,
}

/// Where the processor time is not known apart.
impl From<Duration> for JobTime {
    fn from(elapsed: Duration) -> Self {
        Self {
            elapsed,
            processor: elapsed,
        }
    }
}

/// A block to be encoded. Run it with [`CodecWorker::encode`], measure the time, and give the
/// result to [`Session::handle_encoded`](super::Session::handle_encoded).
#[derive(Debug)]
pub struct EncodeJob {
    pub(super) arm: Arm,
    pub(super) likely: Duration,
    pub(super) connection: u64,
    pub(super) number: u64,
    pub(super) plain: Vec<u8>,
    pub(super) wire: Vec<u8>,
    pub(super) with_check: bool,
    pub(super) history: Option<EncodeHistory>,
    pub(super) dictionary: Option<Dictionary>,
}

impl EncodeJob {
    /// The codec and level.
    pub const fn arm(&self) -> Arm {
        self.arm
    }

    /// Bytes to encode.
    pub fn plain_len(&self) -> usize {
        self.plain.len()
    }

    /// How long that will likely take, by what the arm has taken for such blocks here.
    pub const fn likely(&self) -> Duration {
        self.likely
    }
}

/// An [`EncodeJob`] that was run.
#[derive(Debug)]
pub struct EncodedBlock {
    pub(super) connection: u64,
    pub(super) number: u64,
    pub(super) plain: Vec<u8>,
    pub(super) wire: Vec<u8>,
    pub(super) crc: u32,
    pub(super) result: Result<Encoded, EncodeError>,
    pub(super) context: Option<Box<EncodeContext>>,
}

/// A block to be decoded. Run it with [`CodecWorker::decode`], measure the time, and give the
/// result to [`Session::handle_decoded`](super::Session::handle_decoded).
#[derive(Debug)]
pub struct DecodeJob {
    pub(super) number: u64,
    pub(super) codec: CodecId,
    pub(super) wire: Bytes,
    pub(super) plain_len: Option<usize>,
    /// The longest block: by it, codecs judge one that does not say its length (docs/wire.md, Codecs).
    pub(super) max_plain: usize,
    /// What one of this length on the wire may become.
    pub(super) most_plain: usize,
    pub(super) with_check: bool,
    pub(super) place: Option<HistoryPlace>,
    pub(super) history: Option<DecodeHistory>,
    pub(super) dictionary: Option<Dictionary>,
}

impl DecodeJob {
    /// The codec.
    pub const fn codec(&self) -> CodecId {
        self.codec
    }

    /// Bytes to decode.
    pub const fn wire_len(&self) -> usize {
        self.wire.len()
    }

    /// Bytes that they are likely to become: as the peer says, else a guess. To judge what the job
    /// will cost, not to reserve by.
    pub fn likely_plain_len(&self) -> usize {
        // A few bytes keep these two busy for long if the peer wants it.
        let ratio = match self.codec {
            CodecId::BZIP2 | CodecId::XZ => usize::MAX,
            _ => LIKELY_RATIO,
        };
        self.plain_len
            .unwrap_or_else(|| self.max_plain.min(self.wire.len().saturating_mul(ratio)))
    }
}

/// Ratio to expect of a block that does not say what it becomes. Arbitrary, above most of those
/// measured for messages (docs/benchmarks.md).
const LIKELY_RATIO: usize = 8;

/// A [`DecodeJob`] that was run.
#[derive(Debug)]
pub struct DecodedBlock {
    pub(super) number: u64,
    pub(super) codec: CodecId,
    pub(super) result: Result<(Bytes, u32), WireError>,
    pub(super) place: Option<HistoryPlace>,
    pub(super) context: Option<Box<DecodeContext>>,
}

impl DecodedBlock {
    /// Bytes that the block became; `None` if it did not decode.
    pub fn plain_len(&self) -> Option<usize> {
        self.result.as_ref().ok().map(|(plain, _)| plain.len())
    }
}

/// A block that was sent, to be encoded with other arms to learn what they would have made of it. Run
/// it with [`CodecWorker::shadow`] beside the way of messages, and give the result to
/// [`Session::handle_shadowed`](super::Session::handle_shadowed).
#[derive(Debug)]
pub struct ShadowJob {
    pub(super) arms: Vec<Arm>,
    pub(super) plain: Vec<u8>,
    /// For arms with one.
    pub(super) dictionary: Option<Dictionary>,
}

impl ShadowJob {
    /// The arms to try.
    pub fn arms(&self) -> &[Arm] {
        &self.arms
    }

    /// Bytes to encode with each.
    pub fn plain_len(&self) -> usize {
        self.plain.len()
    }
}

/// What one arm made of a [`ShadowJob`].
#[derive(Clone, Copy, Debug)]
pub struct ShadowResult {
    /// The arm.
    pub arm: Arm,
    /// Bytes it became; the plain length if not fewer.
    pub wire_len: usize,
    /// Time to encode.
    pub encode: Duration,
    /// Time to decode again, unless it was not smaller.
    pub decode: Option<Duration>,
}

/// A shadow that takes longer is timed once: caches matter little then, and twice would be dear.
/// Arbitrary.
const LONG_SHADOW: Duration = Duration::from_micros(500);

/// A [`ShadowJob`] that was run.
#[derive(Debug)]
pub struct ShadowedBlock {
    pub(super) plain: Vec<u8>,
    /// Arms that failed, or did not give back what they took.
    pub(super) failed: Vec<Arm>,
    /// What the arms made of it, those left out that failed. A driver without a clock of its own
    /// (the simulator) puts its times in.
    pub results: Vec<ShadowResult>,
}

impl ShadowedBlock {
    /// Processor time that all of it took.
    pub fn taken(&self) -> Duration {
        let times = self.results.iter().map(|result| {
            result
                .encode
                .saturating_add(result.decode.unwrap_or_default())
        });
        times.fold(Duration::ZERO, Duration::saturating_add)
    }
}

/// Runs codec jobs; holds the codecs' scratch and reuses it. One serves any number of sessions.
#[derive(Debug, Default)]
pub struct CodecWorker {
    codecs: Codecs,
    scratch: Vec<u8>,
    shadow_wire: Vec<u8>,
}

impl CodecWorker {
    /// A worker that decodes histories up to `window_log` (binary logarithm, bytes). Nothing is
    /// allocated before the first job.
    pub fn new(window_log: u8) -> Self {
        Self {
            codecs: Codecs::with_limits(DecodeLimits { window_log }),
            scratch: Vec::new(),
            shadow_wire: Vec::new(),
        }
    }

    /// Asks `memo` before it encodes.
    #[cfg(feature = "sim")]
    pub(crate) fn remember_in(&mut self, memo: crate::codecs::memo::Memo) {
        self.codecs.remember_in(memo);
    }

    /// Whether this worker must first make the tables of the dictionary that the job needs, which takes longer than a
    /// small block (docs/benchmarks.md): then not on an executor's thread.
    pub fn must_prepare_encoder(&self, job: &EncodeJob) -> bool {
        let mut needed = job.dictionary.iter();
        needed.any(|it| !self.codecs.has_prepared_encoder(job.arm, it))
    }

    /// The same to decode.
    pub fn must_prepare_decoder(&self, job: &DecodeJob) -> bool {
        let mut needed = job.dictionary.iter().filter(|_| job.history.is_none());
        needed.any(|it| !self.codecs.has_prepared_decoder(job.codec, it))
    }

    /// Encodes a block.
    pub fn encode(&mut self, job: EncodeJob) -> EncodedBlock {
        let EncodeJob {
            arm,
            likely: _,
            connection,
            number,
            plain,
            mut wire,
            with_check,
            history,
            dictionary,
        } = job;
        let (result, context) = if let Some(history) = history {
            encode_with(arm, history, &plain, &mut wire)
        } else {
            if wire.len() < plain.len() {
                wire.resize(plain.len(), 0);
            }
            let result = match &dictionary {
                Some(dictionary) => self.codecs.encode_with(arm, dictionary, &plain, &mut wire),
                None => self.codecs.encode(arm, &plain, &mut wire),
            };
            (result, None)
        };
        let crc = if with_check { plain_crc(&plain) } else { 0 };
        EncodedBlock {
            connection,
            number,
            plain,
            wire,
            crc,
            result,
            context,
        }
    }

    /// Encodes a block with each arm of the job and decodes it again, timed by `now`: the time of its thread's processor, if
    /// the system tells it.
    pub fn shadow(&mut self, job: ShadowJob, mut now: impl FnMut() -> Time) -> ShadowedBlock {
        let ShadowJob {
            arms,
            plain,
            dictionary,
        } = job;
        let mut wire = core::mem::take(&mut self.shadow_wire);
        let mut back = core::mem::take(&mut self.scratch);
        wire.resize(wire.len().max(plain.len()), 0);
        back.resize(back.len().max(plain.len()), 0);
        let back_len = plain.len();
        let mut results = Vec::with_capacity(arms.len());
        let mut failed = Vec::new();
        for arm in arms {
            let with = dictionary.as_ref().filter(|_| arm.dictionary);
            let mut encode = Duration::MAX;
            let mut encoded = Ok(Encoded::NotSmaller);
            for _ in 0..2 {
                let began = now();
                let wire = &mut wire[..plain.len()];
                encoded = match with {
                    Some(with) => self.codecs.encode_with(arm, with, &plain, wire),
                    None => self.codecs.encode(arm, &plain, wire),
                };
                // Blocks on their way find the codec's tables and the block in the caches, a shadow's
                // first encode does not.
                encode = encode.min(now().saturating_since(began));
                if encode > LONG_SHADOW {
                    break;
                }
            }
            let (wire_len, decode) = match encoded {
                Ok(Encoded::Written(len)) => {
                    let began = now();
                    let (wire, back_to) = (&wire[..len], &mut back[..back_len]);
                    let decoded = match with {
                        Some(with) => self
                            .codecs
                            .decode_exact_with(arm.codec, with, wire, back_to),
                        None => self.codecs.decode_exact(arm.codec, wire, back_to),
                    };
                    // A codec that does not give back what it took is not to be chosen.
                    if decoded.is_err() || back[..back_len] != plain {
                        failed.push(arm);
                        continue;
                    }
                    (len, Some(now().saturating_since(began)))
                }
                Ok(Encoded::NotSmaller) => (plain.len(), None),
                Err(_) => {
                    failed.push(arm);
                    continue;
                }
            };
            results.push(ShadowResult {
                arm,
                wire_len,
                encode,
                decode,
            });
        }
        self.shadow_wire = wire;
        self.scratch = back;
        ShadowedBlock {
            plain,
            failed,
            results,
        }
    }

    /// Does work on a dictionary.
    pub fn dictionary(&mut self, job: DictionaryJob) -> DictionaryWork {
        job.run(&mut self.codecs)
    }

    /// Decodes a block.
    pub fn decode(&mut self, job: DecodeJob) -> DecodedBlock {
        let DecodeJob {
            number,
            codec,
            wire,
            plain_len,
            max_plain,
            most_plain,
            with_check,
            place,
            history,
            dictionary,
        } = job;
        let (result, context) = if let Some(history) = history {
            self.decode_with(codec, history, &wire, plain_len, max_plain)
        } else {
            let result = match plain_len {
                Some(declared) => self.decode_declared(codec, dictionary.as_ref(), &wire, declared),
                None => self.decode_bounded(codec, dictionary.as_ref(), &wire, max_plain),
            };
            (result, None)
        };
        let result = result.and_then(|plain| {
            check_expansion(plain.len(), most_plain)?;
            let crc = if with_check { plain_crc(&plain) } else { 0 };
            Ok((plain, crc))
        });
        DecodedBlock {
            number,
            codec,
            result,
            place,
            context,
        }
    }

    /// Decodes a block with those before it as its past. A context that failed does not come back.
    fn decode_with(
        &mut self,
        codec: CodecId,
        history: DecodeHistory,
        wire: &[u8],
        plain_len: Option<usize>,
        max_plain: usize,
    ) -> (Result<Bytes, WireError>, Option<Box<DecodeContext>>) {
        let mut context = match history.context(codec) {
            Ok(context) => context,
            Err(error) => return (Err(undecodable(wire, &error)), None),
        };
        let decoded = if let Some(declared) = plain_len {
            let mut plain = vec![0; declared];
            let result = context.decode_exact(wire, &mut plain);
            result.map(|()| plain.into())
        } else {
            if self.scratch.len() < max_plain {
                self.scratch.resize(max_plain, 0);
            }
            let result = context.decode(wire, &mut self.scratch[..max_plain]);
            result.map(|len| Bytes::copy_from_slice(&self.scratch[..len]))
        };
        match decoded {
            Ok(plain) => (Ok(plain), Some(context)),
            Err(error) => (Err(undecodable(wire, &error)), None),
        }
    }

    fn decode_declared(
        &mut self,
        codec: CodecId,
        dictionary: Option<&Dictionary>,
        wire: &[u8],
        declared: usize,
    ) -> Result<Bytes, WireError> {
        let mut plain = vec![0; declared];
        let decoded = match dictionary {
            Some(it) => self.codecs.decode_exact_with(codec, it, wire, &mut plain),
            None => self.codecs.decode_exact(codec, wire, &mut plain),
        };
        match decoded {
            Ok(()) => Ok(plain.into()),
            Err(error) => Err(undecodable(wire, &error)),
        }
    }

    fn decode_bounded(
        &mut self,
        codec: CodecId,
        dictionary: Option<&Dictionary>,
        wire: &[u8],
        max_plain: usize,
    ) -> Result<Bytes, WireError> {
        if self.scratch.len() < max_plain {
            self.scratch.resize(max_plain, 0);
        }
        let plain = &mut self.scratch[..max_plain];
        let decoded = match dictionary {
            Some(it) => self.codecs.decode_with(codec, it, wire, plain),
            None => self.codecs.decode(codec, wire, plain),
        };
        match decoded {
            Ok(actual) => Ok(Bytes::copy_from_slice(&self.scratch[..actual])),
            Err(error) => Err(undecodable(wire, &error)),
        }
    }
}

/// Encodes a block with those before it as its past, at the front of `wire`. A context that failed does
/// not come back.
fn encode_with(
    arm: Arm,
    history: EncodeHistory,
    plain: &[u8],
    wire: &mut Vec<u8>,
) -> (Result<Encoded, EncodeError>, Option<Box<EncodeContext>>) {
    let mut context = match history.context(arm) {
        Ok(context) => context,
        Err(error) => return (Err(error), None),
    };
    wire.clear();
    match context.encode(plain, wire) {
        Ok(len) => (Ok(Encoded::Written(len)), Some(context)),
        Err(error) => (Err(error), None),
    }
}

fn undecodable(wire: &[u8], error: &DecodeError) -> WireError {
    WireError::Undecodable {
        wire_len: wire.len(),
        detail: error.to_string(),
    }
}
