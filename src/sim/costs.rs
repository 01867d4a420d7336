//! What codec work costs on an otherwise idle processor.

use core::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::codecs::{
    Arm, CodecId, Codecs, EncodeError, Encoded, Level, default_level, prior_decode_nanos,
    prior_encode_nanos,
};
use crate::units::Time;

/// What codecs cost on an otherwise idle processor.
///
/// The numbers are fixed before a run, so that the run itself is the same on any machine.
#[derive(Clone, Debug, Default)]
pub struct CodecCosts {
    base: Base,
    /// All times by so much; absent for 1.
    scale: Option<f64>,
    /// One codec's times by so much, besides.
    codecs: Vec<(CodecId, f64)>,
}

#[derive(Clone, Debug, Default)]
enum Base {
    #[default]
    Prior,
    Measured(Arc<Measured>),
    Custom(Arc<Custom>),
}

type EncodeNanos = dyn Fn(Arm, usize) -> u64 + Send + Sync;
type DecodeNanos = dyn Fn(CodecId, usize) -> u64 + Send + Sync;

struct Custom {
    encode: Box<EncodeNanos>,
    decode: Box<DecodeNanos>,
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Custom")
    }
}

/// Default: the table of measured costs that the crate carries ([`prior_encode_nanos`]).
impl CodecCosts {
    /// Costs by functions: nanoseconds to encode so many plain bytes with an arm, and to decode to so
    /// many with a codec. They must always answer the same, or runs will not repeat.
    pub fn from_fns(
        encode_nanos: impl Fn(Arm, usize) -> u64 + Send + Sync + 'static,
        decode_nanos: impl Fn(CodecId, usize) -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            base: Base::Custom(Arc::new(Custom {
                encode: Box::new(encode_nanos),
                decode: Box::new(decode_nanos),
            })),
            ..Self::default()
        }
    }

    /// Measures `arms` with the real codecs on blocks made of `messages`, of 64 B, 256 B and so on up
    /// to 256 KiB, and keeps the times: between two of these lengths they are interpolated. Arms
    /// that are not among them cost what the crate's table says. Takes from some milliseconds to
    /// about a second an arm.
    ///
    /// `clock` says the time that has passed since any fixed point, from a monotonic clock; the
    /// machine should be idle.
    ///
    /// # Errors
    ///
    /// An arm does not exist in this build, or its codec failed.
    pub fn measured(
        messages: &[Bytes],
        arms: &[Arm],
        mut clock: impl FnMut() -> Time,
    ) -> Result<Self, EncodeError> {
        let measured = Measured::new(messages, arms, &mut clock)?;
        Ok(Self {
            base: Base::Measured(Arc::new(measured)),
            ..Self::default()
        })
    }

    /// All times multiplied: 2 is a processor half as fast.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        self.scale = Some(self.scale.unwrap_or(1.0) * factor);
        self
    }

    /// One codec's times multiplied, both ways: one that is slower, or faster, than its table says.
    #[must_use]
    pub fn codec_scaled(mut self, codec: CodecId, factor: f64) -> Self {
        self.codecs.push((codec, factor));
        self
    }

    /// Time to encode so many plain bytes, ns.
    pub fn encode_nanos(&self, arm: Arm, plain_len: usize) -> u64 {
        let nanos = match &self.base {
            Base::Prior => prior_encode_nanos(arm, plain_len),
            Base::Measured(measured) => measured
                .encode(arm, plain_len)
                .unwrap_or_else(|| prior_encode_nanos(arm, plain_len)),
            Base::Custom(custom) => (custom.encode)(arm, plain_len),
        };
        self.scale(arm.codec, nanos)
    }

    /// Time to decode to so many plain bytes, ns.
    pub fn decode_nanos(&self, codec: CodecId, plain_len: usize) -> u64 {
        let nanos = match &self.base {
            Base::Prior => prior_decode_nanos(codec, plain_len),
            Base::Measured(measured) => measured
                .decode(codec, plain_len)
                .unwrap_or_else(|| prior_decode_nanos(codec, plain_len)),
            Base::Custom(custom) => (custom.decode)(codec, plain_len),
        };
        self.scale(codec, nanos)
    }

    fn scale(&self, codec: CodecId, nanos: u64) -> u64 {
        let own = self.codecs.iter().filter(|(known, _)| *known == codec);
        let factors = own.map(|(_, factor)| *factor).chain(self.scale);
        factors.fold(nanos, |nanos, factor| (nanos as f64 * factor) as u64)
    }
}

/// Plain lengths that are measured: powers of four, as in the estimators' length classes.
const LENGTHS: [usize; 7] = [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10];
/// Measuring a length takes about so long by the crate's table, ns, a round; at least one block.
/// Together with the lengths and rounds some 20 ms an arm, a second for the heaviest.
const ROUND_NANOS: u64 = 1_000_000;
/// The fastest of so many rounds counts: what disturbs only adds.
const ROUNDS: usize = 3;
/// Blocks of a round, spread over the traffic.
const MAX_BLOCKS: usize = 64;

/// Nanoseconds by plain length, in the order of the lengths.
type Curve = Vec<(usize, f64)>;

#[derive(Debug, Default)]
struct Measured {
    encode: Vec<(Arm, Curve)>,
    /// The slowest arm's of each codec.
    decode: Vec<(CodecId, Curve)>,
}

impl Measured {
    fn new(
        messages: &[Bytes],
        arms: &[Arm],
        clock: &mut impl FnMut() -> Time,
    ) -> Result<Self, EncodeError> {
        let text = messages.concat();
        let mut codecs = Codecs::new();
        let mut measured = Self::default();
        for &arm in arms {
            let mut encode = Curve::new();
            let mut decode = Curve::new();
            for len in LENGTHS {
                let blocks = blocks(&text, len, prior_encode_nanos(arm, len));
                if blocks.is_empty() {
                    break;
                }
                let (encoding, decoding) = measure(&mut codecs, arm, &blocks, clock)?;
                encode.push((len, encoding));
                decode.extend(decoding.map(|nanos| (len, nanos)));
            }
            measured.encode.push((filled_in(arm), encode));
            measured.slower_decode(arm.codec, decode);
        }
        Ok(measured)
    }

    fn slower_decode(&mut self, codec: CodecId, curve: Curve) {
        let Some((_, known)) = self.decode.iter_mut().find(|(known, _)| *known == codec) else {
            self.decode.push((codec, curve));
            return;
        };
        for (len, nanos) in curve {
            match known.iter_mut().find(|(known, _)| *known == len) {
                Some((_, slowest)) => *slowest = slowest.max(nanos),
                None => known.push((len, nanos)),
            }
        }
        known.sort_unstable_by_key(|(len, _)| *len);
    }

    fn encode(&self, arm: Arm, plain_len: usize) -> Option<u64> {
        let arm = filled_in(arm);
        let (_, curve) = self.encode.iter().find(|(known, _)| *known == arm)?;
        interpolate(curve, plain_len)
    }

    fn decode(&self, codec: CodecId, plain_len: usize) -> Option<u64> {
        let (_, curve) = self.decode.iter().find(|(known, _)| *known == codec)?;
        interpolate(curve, plain_len)
    }
}

/// The arm with its codec's default level, if it names none.
fn filled_in(arm: Arm) -> Arm {
    match arm.level {
        Level(0) => Arm {
            level: default_level(arm.codec),
            ..arm
        },
        _ => arm,
    }
}

/// Blocks of `len` spread over the text, as many as are encoded in a round.
fn blocks(text: &[u8], len: usize, nanos_each: u64) -> Vec<&[u8]> {
    let all = text.chunks_exact(len);
    let wanted = (ROUND_NANOS / nanos_each.max(1)).clamp(1, MAX_BLOCKS as u64) as usize;
    let step = all.len().div_ceil(wanted).max(1);
    all.step_by(step).collect()
}

/// Nanoseconds a block to encode, and to decode what became smaller.
fn measure(
    codecs: &mut Codecs,
    arm: Arm,
    blocks: &[&[u8]],
    clock: &mut impl FnMut() -> Time,
) -> Result<(f64, Option<f64>), EncodeError> {
    let len = blocks[0].len();
    let mut wire = vec![0; len];
    let mut wires = Vec::new();
    for block in blocks {
        if let Encoded::Written(len) = codecs.encode(arm, block, &mut wire)? {
            wires.push(wire[..len].to_vec());
        }
    }
    // The arm was tried on every block above: it does not fail on them now.
    let encoding = fastest(clock, || {
        for block in blocks {
            let _ = codecs.encode(arm, block, &mut wire);
        }
    });
    let mut plain = vec![0; len];
    let decoding = fastest(clock, || {
        for wire in &wires {
            // A codec that does not read what it wrote shows when a run compares.
            let _ = codecs.decode_exact(arm.codec, wire, &mut plain);
        }
    });
    let decode = (!wires.is_empty()).then(|| decoding / wires.len() as f64);
    Ok((encoding / blocks.len() as f64, decode))
}

/// Nanoseconds of the fastest of a few rounds.
fn fastest(clock: &mut impl FnMut() -> Time, mut round: impl FnMut()) -> f64 {
    let mut best = u64::MAX;
    for _ in 0..ROUNDS {
        let began = clock().as_nanos();
        round();
        best = best.min(clock().as_nanos().saturating_sub(began));
    }
    best as f64
}

/// On the line through the two measured lengths around `len`; in proportion beyond the longest, and
/// the same below the shortest.
fn interpolate(curve: &[(usize, f64)], len: usize) -> Option<u64> {
    let after = curve.partition_point(|(known, _)| *known < len);
    let nanos = match (after.checked_sub(1).map(|at| curve[at]), curve.get(after)) {
        (None, None) => return None,
        (None, Some((_, nanos))) => *nanos,
        (Some((longest, nanos)), None) => nanos * len as f64 / longest as f64,
        (Some((below, low)), Some((above, high))) => {
            let share = (len - below) as f64 / (above - below) as f64;
            low + (high - low) * share
        }
    };
    Some(nanos as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_between_two_measured_ones_lie_between_them() {
        let curve = [(64, 100.0), (256, 292.0)];
        let at = |len| interpolate(&curve, len);
        assert_eq!(at(1), Some(100));
        assert_eq!(at(64), Some(100));
        assert_eq!(at(128), Some(164));
        assert_eq!(at(256), Some(292));
        assert_eq!(at(512), Some(584));
        assert_eq!(interpolate(&[], 512), None);
    }

    #[test]
    fn factors_multiply_and_custom_costs_are_asked() {
        let costs = CodecCosts::from_fns(|_, len| len as u64, |_, len| 2 * len as u64)
            .scaled(2.0)
            .codec_scaled(CodecId::LZ4, 10.0);
        assert_eq!(costs.encode_nanos(Arm::new(CodecId::ZSTD, 3), 100), 200);
        assert_eq!(costs.encode_nanos(Arm::new(CodecId::LZ4, 0), 100), 2000);
        assert_eq!(costs.decode_nanos(CodecId::LZ4, 100), 4000);
        let prior = CodecCosts::default();
        assert_eq!(
            prior.encode_nanos(Arm::new(CodecId::LZ4, 0), 256),
            prior_encode_nanos(Arm::new(CodecId::LZ4, 0), 256)
        );
    }

    #[cfg(feature = "lz4")]
    #[test]
    fn measured_costs_are_what_the_clock_said() {
        // A clock that moves by a microsecond whenever it is read.
        let mut now = 0;
        let clock = || {
            now += 1000;
            Time::from_nanos(now)
        };
        let messages = vec![Bytes::from(vec![7; 100]); 50];
        let arm = Arm::new(CodecId::LZ4, 0);
        let costs = CodecCosts::measured(&messages, &[arm], clock).expect("an arm of this build");
        // 78 blocks of 64 B: 39 are taken; 4 of 1 KiB.
        assert_eq!(costs.encode_nanos(arm, 10), 1000 / 39);
        assert_eq!(costs.encode_nanos(arm, 1024), 250);
        assert_eq!(costs.decode_nanos(arm.codec, 4096), 1000);
        assert_eq!(
            costs.encode_nanos(Arm::new(CodecId::ZSTD, 3), 1024),
            prior_encode_nanos(Arm::new(CodecId::ZSTD, 3), 1024)
        );
    }
}
