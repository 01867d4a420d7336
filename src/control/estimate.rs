//! What has been measured, decayed so that the present counts: time against bytes, ratio, and both
//! for every arm of a stream.

use core::time::Duration;

use crate::codecs::{Arm, CodecId, Length, default_level, typical};
use crate::few::push_few;
use crate::units::{Time, saturating_nanos};
use crate::wire::DecodeReport;

/// How much of the past one more sample leaves: the last 33 samples carry two thirds of the weight,
/// so that a change of content is followed within 100 messages (decisions.md).
const KEEP: f64 = 0.97;
/// Spread of lengths (standard deviation over mean) from which on a slope is told from an offset.
/// Arbitrary.
const MIN_SPREAD: f64 = 0.05;

/// Decayed least squares of time against bytes: `time = fixed + per_byte * bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CostEstimator {
    weight: f64,
    bytes: f64,
    nanos: f64,
    bytes_squared: f64,
    bytes_nanos: f64,
    nanos_squared: f64,
}

/// The line that a [`CostEstimator`] has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CostLine {
    /// Time that each block costs whatever its length, ns.
    pub fixed_nanos: f64,
    /// Time that each byte adds, ns.
    pub nanos_per_byte: f64,
}

impl CostLine {
    /// The time that `bytes` take, ns.
    pub(crate) fn nanos(&self, bytes: f64) -> f64 {
        self.fixed_nanos + self.nanos_per_byte * bytes
    }
}

impl CostEstimator {
    /// Takes in that `bytes` took `time`.
    pub(crate) fn record(&mut self, bytes: usize, time: Duration) {
        let (bytes, nanos) = (bytes as f64, saturating_nanos(time) as f64);
        self.weight = self.weight * KEEP + 1.0;
        self.bytes = self.bytes * KEEP + bytes;
        self.nanos = self.nanos * KEEP + nanos;
        self.bytes_squared = self.bytes_squared * KEEP + bytes * bytes;
        self.bytes_nanos = self.bytes_nanos * KEEP + bytes * nanos;
        self.nanos_squared = self.nanos_squared * KEEP + nanos * nanos;
    }

    /// Decayed number of samples: 0 without any, towards 33.
    pub(crate) const fn weight(&self) -> f64 {
        self.weight
    }

    /// The line through the samples, or `None` without any. Where lengths hardly differ, all of the
    /// time is laid to the bytes; neither part is below zero.
    pub(crate) fn line(&self) -> Option<CostLine> {
        if self.weight == 0.0 {
            return None;
        }
        let mean_bytes = self.bytes / self.weight;
        let mean_nanos = self.nanos / self.weight;
        let slope = self.slope().map_or(f64::NAN, |slope| slope.max(0.0));
        let fixed = mean_nanos - slope * mean_bytes;
        if fixed >= 0.0 {
            Some(CostLine {
                fixed_nanos: fixed,
                nanos_per_byte: slope,
            })
        } else if mean_bytes > 0.0 {
            Some(CostLine {
                fixed_nanos: 0.0,
                nanos_per_byte: mean_nanos / mean_bytes,
            })
        } else {
            Some(CostLine {
                fixed_nanos: mean_nanos,
                nanos_per_byte: 0.0,
            })
        }
    }

    /// The share of the variation in time that the slope explains, 0 to 1; 0 without a slope.
    pub(crate) fn explained(&self) -> f64 {
        let mean_nanos = self.nanos / self.weight;
        let variance = self.nanos_squared / self.weight - mean_nanos * mean_nanos;
        let mean_bytes = self.bytes / self.weight;
        let spread = self.bytes_squared / self.weight - mean_bytes * mean_bytes;
        match self.slope() {
            Some(slope) if variance > 0.0 => (slope * slope * spread / variance).clamp(0.0, 1.0),
            _ => 0.0,
        }
    }

    /// The time that the line through the samples gives for `bytes`, ns, and the standard deviation of
    /// the samples from it; where they have no slope, that of `known` counts. `None` without either.
    pub(crate) fn expect(&self, bytes: usize, known: Option<f64>) -> Option<(f64, f64)> {
        let slope = self.slope().or(known)?;
        let mean_bytes = self.bytes / self.weight;
        let mean_nanos = self.nanos / self.weight;
        let variance = self.nanos_squared / self.weight - mean_nanos * mean_nanos;
        let left = variance.max(0.0) * (1.0 - self.explained());
        Some((
            mean_nanos + slope * (bytes as f64 - mean_bytes),
            left.sqrt(),
        ))
    }

    /// The slope alone, ns per byte, or `None` while lengths differ too little to tell.
    pub(crate) fn slope(&self) -> Option<f64> {
        let mean_bytes = self.bytes / self.weight;
        let variance = self.bytes_squared / self.weight - mean_bytes * mean_bytes;
        let least = (MIN_SPREAD * mean_bytes).powi(2);
        if self.weight < 2.0 || variance.is_nan() || variance <= least {
            return None;
        }
        let covariance = self.bytes_nanos / self.weight - mean_bytes * (self.nanos / self.weight);
        Some(covariance / variance)
    }
}

/// Decayed ratio of plain to wire bytes, weighted by bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RatioEstimator {
    plain: f64,
    wire: f64,
}

impl RatioEstimator {
    /// Takes in a block.
    pub(crate) fn record(&mut self, plain: usize, wire: usize) {
        self.plain = self.plain * KEEP + plain as f64;
        self.wire = self.wire * KEEP + wire as f64;
    }

    /// Plain over wire bytes, or `None` without a sample.
    pub(crate) fn ratio(&self) -> Option<f64> {
        (self.wire > 0.0).then(|| self.plain / self.wire)
    }
}

/// What one arm has shown on one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ArmEstimate {
    /// Time to encode against plain bytes.
    pub encode: CostEstimator,
    /// Plain over wire bytes.
    pub ratio: RatioEstimator,
    /// When it was last measured.
    pub last_used: Option<Time>,
}

impl ArmEstimate {
    /// Takes in a block of `plain` bytes that became `wire` bytes in `time`.
    pub(crate) fn record(&mut self, now: Time, plain: usize, wire: usize, time: Duration) {
        self.encode.record(plain, time);
        self.ratio.record(plain, wire);
        self.last_used = Some(now);
    }
}

/// What each arm has shown on one stream; an arm's number is its place in the session's list.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamEstimates {
    arms: Vec<ArmEstimate>,
    block_len: RatioEstimator,
}

impl StreamEstimates {
    /// Takes in a block encoded with arm number `arm`.
    pub(crate) fn record(
        &mut self,
        arm: usize,
        now: Time,
        plain: usize,
        wire: usize,
        time: Duration,
    ) {
        if self.arms.len() <= arm {
            self.arms.resize(arm + 1, ArmEstimate::default());
        }
        self.arms[arm].record(now, plain, wire, time);
        self.block_len.record(plain, 1);
    }

    /// What arm number `arm` has shown, `None` if it was never used.
    pub(crate) fn arm(&self, arm: usize) -> Option<&ArmEstimate> {
        self.arms
            .get(arm)
            .filter(|estimate| estimate.last_used.is_some())
    }

    /// Mean plain length of the latest blocks: the thesis's typical message size s.
    pub(crate) fn typical_len(&self) -> Option<f64> {
        self.block_len.ratio()
    }
}

/// What decoding one codec's blocks costs the peer.
#[derive(Clone, Copy, Debug)]
struct CodecDecode {
    /// The totals as they were reported last.
    last: DecodeReport,
    cost: CostEstimator,
    /// Measured over typical time.
    factor: Option<f64>,
    /// Whether the latest report was far above the factor.
    jumped: bool,
    /// Whether it was reported since the last fading.
    fresh: bool,
    /// What reports of other codecs since the last of this one leave of its own factor.
    kept: f64,
    /// What the blocks sent lately typically take to decode, over what those of the usual arm do: with
    /// history short ones take a fraction, which must not be taken for a fast peer.
    usual: f64,
}

impl CodecDecode {
    fn new(codec: CodecId) -> Self {
        Self {
            last: no_blocks(codec),
            cost: CostEstimator::default(),
            factor: None,
            jumped: false,
            fresh: false,
            kept: 1.0,
            usual: 1.0,
        }
    }
}

const fn no_blocks(codec: CodecId) -> DecodeReport {
    DecodeReport {
        codec,
        blocks: 0,
        plain_bytes: 0,
        nanos: 0,
    }
}

/// What decoding costs the peer, by codec, from its reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecodeEstimates {
    codecs: Vec<CodecDecode>,
    /// Measured over typical time, for all codecs.
    factor: Option<f64>,
    fresh: bool,
    /// When the latest report came.
    reported_at: Time,
    /// Reports that cannot be true: counts that fell, or more time than has passed.
    absurd: u64,
}

/// No decoder is slower than this; what a peer reports beyond it is clamped. Arbitrary: a tenth of
/// the slowest decoder measured (bzip2 at 256 B, 7 MB/s).
const MAX_DECODE_NANOS_PER_BYTE: f64 = 1500.0;
/// Weight of a report in the factors, and how far off one may be to count in full. Arbitrary: as for
/// times measured here.
const FACTOR_GAIN: f64 = 0.3;
const MAX_FACTOR_JUMP: f64 = 3.0;
/// How many times as fast or slow as the table's a peer may look by its first report. Arbitrary.
const MAX_FIRST_FACTOR: f64 = 5.0;
/// Weight of a block in what the blocks of a codec usually take. Arbitrary: a report is of 32 at most.
const USUAL_GAIN: f64 = 1.0 / 16.0;
/// What fading leaves of a factor's logarithm. Arbitrary: half of it after three round trips.
const FADE: f64 = 0.8;
/// What of a codec's own factor each report of others leaves, that is of so many blocks or so long after the one before. Arbitrary: half of it
/// after seven.
const STALE_KEEP: f64 = 0.9;
const FULL_BLOCKS: f64 = 32.0;
const FULL_TIME: Duration = Duration::from_millis(10);
/// Nor costs more than this for a block, however short. Arbitrary, well over liblzma's 42 µs.
const MAX_DECODE_FIXED_NANOS: f64 = 1e6;

impl DecodeEstimates {
    /// Takes in the peer's totals for one codec.
    pub(crate) fn record(&mut self, now: Time, report: &DecodeReport) {
        let at = self.place(report.codec);
        let known = &mut self.codecs[at];
        let last = known.last;
        let deltas = (
            report.blocks.checked_sub(last.blocks),
            report.plain_bytes.checked_sub(last.plain_bytes),
            report.nanos.checked_sub(last.nanos),
        );
        let (Some(blocks), Some(bytes), Some(nanos)) = deltas else {
            self.absurd += 1;
            return;
        };
        known.last = *report;
        if blocks == 0 {
            return;
        }
        let passed = now.saturating_since(core::mem::replace(&mut self.reported_at, now));
        let share = (blocks as f64 / FULL_BLOCKS)
            .max(passed.as_secs_f64() / FULL_TIME.as_secs_f64())
            .min(1.0);
        let keep = STALE_KEEP.powf(share);
        let bytes = bytes as f64 / blocks as f64;
        let most = MAX_DECODE_FIXED_NANOS + MAX_DECODE_NANOS_PER_BYTE * bytes;
        let nanos = nanos as f64 / blocks as f64;
        if nanos > most {
            self.absurd += 1;
        }
        let nanos = nanos.min(most);
        known
            .cost
            .record(bytes as usize, Duration::from_nanos(nanos as u64));
        let sample = nanos / (usual_nanos(report.codec, Length::of(bytes)) * known.usual);
        if sample.is_finite() && sample > 0.0 {
            // A block that waited for the processor must not condemn its codec, but two in a row tell.
            let jumped = known
                .factor
                .is_some_and(|factor| sample > factor * MAX_FACTOR_JUMP);
            let again = core::mem::replace(&mut known.jumped, jumped) && jumped;
            known.fresh = true;
            self.fresh = true;
            for factor in [&mut known.factor, &mut self.factor] {
                // The first one too: the peer's machine is like those of the table, give or take.
                let known = factor
                    .unwrap_or_else(|| sample.clamp(1.0 / MAX_FIRST_FACTOR, MAX_FIRST_FACTOR));
                let bounded = if again {
                    sample
                } else {
                    sample.clamp(known / MAX_FACTOR_JUMP, known * MAX_FACTOR_JUMP)
                };
                *factor = Some(known + FACTOR_GAIN * (bounded - known));
            }
        }
        for (other, codec) in self.codecs.iter_mut().enumerate() {
            codec.kept = if other == at { 1.0 } else { codec.kept * keep };
        }
    }

    /// Takes in that a block was sent, which is part of what later reports are of.
    pub(crate) fn on_sent(&mut self, arm: Arm, plain_len: usize) {
        let len = Length::of(plain_len as f64);
        let typical = typical(arm).map_or(0.0, |row| row.at(len).decode_nanos);
        let share = typical / usual_nanos(arm.codec, len);
        if share.is_finite() && share > 0.0 {
            let at = self.place(arm.codec);
            let usual = &mut self.codecs[at].usual;
            *usual += USUAL_GAIN * (share - *usual);
        }
    }

    fn position(&self, codec: CodecId) -> Option<usize> {
        self.codecs
            .iter()
            .position(|known| known.last.codec == codec)
    }

    /// Where a codec stands, from now on.
    fn place(&mut self, codec: CodecId) -> usize {
        self.position(codec).unwrap_or_else(|| {
            push_few(&mut self.codecs, CodecDecode::new(codec));
            self.codecs.len() - 1
        })
    }

    /// The time that the peer takes to decode blocks of `codec`, or `None` without a report.
    pub(crate) fn line(&self, codec: CodecId) -> Option<CostLine> {
        self.codecs[self.position(codec)?].cost.line()
    }

    /// The time that the peer takes for a block of `codec` that typically takes `typical_nanos`:
    /// scaled by what it reported of this codec, or else of the others. `None` without any report.
    pub(crate) fn nanos(&self, codec: CodecId, typical_nanos: f64) -> Option<f64> {
        let all = self.factor?;
        let known = self.position(codec).map(|at| &self.codecs[at]);
        let factor = known
            .and_then(|known| Some((known.factor?, known.kept)))
            // What was measured long ago tells less than what others show now.
            .map_or(all, |(factor, kept)| all + (factor - all) * kept);
        Some(typical_nanos * factor)
    }

    /// Takes in that a while has passed: what nothing reported confirms any more fades, lest a codec that
    /// once looked dear to the peer is never tried again. Called with each round trip that is measured.
    pub(crate) fn fade(&mut self) {
        for known in &mut self.codecs {
            if !core::mem::take(&mut known.fresh) {
                known.factor = known.factor.map(|factor| factor.powf(FADE));
            }
        }
        if !core::mem::take(&mut self.fresh) {
            self.factor = self.factor.map(|factor| factor.powf(FADE));
        }
    }

    /// Forgets the totals but not what was learned from them: the next report counts from zero, as on a
    /// new connection to the same peer.
    pub(crate) fn restart(&mut self) {
        for known in &mut self.codecs {
            known.last = no_blocks(known.last.codec);
        }
        self.reported_at = Time::ZERO;
        self.absurd = 0;
    }

    /// How many reports could not be true.
    pub(crate) const fn absurd(&self) -> u64 {
        self.absurd
    }
}

/// What a codec's usual arm typically takes, which stands for all its levels: they differ far less in
/// decoding.
fn usual_nanos(codec: CodecId, plain_len: Length) -> f64 {
    let usual = typical(Arm::new(codec, default_level(codec).0));
    usual.map_or(0.0, |row| row.at(plain_len).decode_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_and_per_byte_cost_are_told_apart() {
        let mut cost = CostEstimator::default();
        for bytes in [100, 1000, 5000, 200, 3000, 100, 800] {
            cost.record(bytes, Duration::from_nanos(700 + 2 * bytes as u64));
        }
        let line = cost.line().expect("samples");
        assert!((line.fixed_nanos - 700.0).abs() < 1e-3, "{line:?}");
        assert!((line.nanos_per_byte - 2.0).abs() < 1e-6, "{line:?}");
    }

    #[test]
    fn equal_lengths_give_a_proportional_line() {
        let mut cost = CostEstimator::default();
        for _ in 0..5 {
            cost.record(200, Duration::from_micros(1));
        }
        assert_eq!(cost.slope(), None);
        assert!((cost.line().expect("samples").nanos(400.0) - 2000.0).abs() < 1e-6);
    }

    #[test]
    fn a_change_is_followed_within_a_hundred_samples() {
        let mut ratio = RatioEstimator::default();
        (0..1000).for_each(|_| ratio.record(1000, 100));
        (0..100).for_each(|_| ratio.record(1000, 1000));
        let ratio = ratio.ratio().expect("samples");
        assert!(ratio < 1.5, "{ratio}");
    }

    #[test]
    fn zero_lengths_and_zero_times_make_no_nan() {
        let mut cost = CostEstimator::default();
        cost.record(0, Duration::ZERO);
        cost.record(0, Duration::MAX);
        let line = cost.line().expect("samples");
        assert!(
            line.fixed_nanos.is_finite() && line.nanos_per_byte.is_finite(),
            "{line:?}"
        );
        assert_eq!(RatioEstimator::default().ratio(), None);
    }

    #[test]
    fn how_soon_a_codec_is_tried_again_does_not_hang_on_how_often_others_are_reported() {
        let after = |reports: u64, blocks: u64, apart: Duration| {
            let mut decode = DecodeEstimates::default();
            let report = |codec, blocks: u64, nanos_per_block: u64| DecodeReport {
                codec,
                blocks,
                plain_bytes: blocks * 65_536,
                nanos: blocks * nanos_per_block,
            };
            // zstd takes many times as long as here, lz4 as long as it typically does.
            let typical = |codec| usual_nanos(codec, Length::of(65_536.0));
            let dear = 4.0 * typical(CodecId::ZSTD);
            decode.record(Time::ZERO, &report(CodecId::ZSTD, 32, dear as u64));
            let lz4 = typical(CodecId::LZ4) as u64;
            for nth in 1..=reports {
                let now = Time::ZERO + apart * nth as u32;
                decode.record(now, &report(CodecId::LZ4, blocks * nth, lz4));
            }
            let typical = typical(CodecId::ZSTD);
            decode.nanos(CodecId::ZSTD, typical).expect("reports") / typical
        };
        let seldom = after(20, 32, Duration::from_millis(2));
        let often = after(20 * 16, 2, Duration::from_micros(125));
        assert!((1.0..2.0).contains(&seldom), "{seldom}");
        assert!((often / seldom - 1.0).abs() < 0.1, "{often} {seldom}");
        // One after each message, each by itself.
        let paused = after(20, 1, Duration::from_millis(10));
        assert!((paused / seldom - 1.0).abs() < 0.1, "{paused} {seldom}");
    }

    #[test]
    fn absurd_decode_reports_are_clamped_and_counted() {
        let mut decode = DecodeEstimates::default();
        let report = |blocks, plain_bytes, nanos| DecodeReport {
            codec: CodecId::ZSTD,
            blocks,
            plain_bytes,
            nanos,
        };
        decode.record(Time::ZERO, &report(10, 10_000, 40_000));
        let honest = decode.line(CodecId::ZSTD).expect("a report").nanos(1000.0);
        assert!((honest - 4000.0).abs() < 1e-6);
        decode.record(Time::ZERO, &report(11, 11_000, u64::MAX));
        decode.record(Time::ZERO, &report(3, 0, 0));
        assert_eq!(decode.absurd(), 2);
        let most = MAX_DECODE_FIXED_NANOS + MAX_DECODE_NANOS_PER_BYTE * 1000.0;
        assert!(decode.line(CodecId::ZSTD).expect("a report").nanos(1000.0) <= most);
    }
}
