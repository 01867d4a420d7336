//! What an arm typically costs and how strong it is: where an estimate begins, and the shape that
//! measurements scale.

use super::{Arm, CodecId, Level};

/// Typical figures of one arm for a block of one length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Typical {
    /// Time to encode, ns.
    pub(crate) encode_nanos: f64,
    /// Time to decode, ns.
    pub(crate) decode_nanos: f64,
    /// Logarithm of the ratio over that of zstd 1 on the same block.
    pub(crate) strength: f64,
}

/// An arm's figures at 256 B, 4 KiB and 64 KiB.
#[derive(Debug)]
pub(crate) struct Row {
    arm: Arm,
    encode: [f64; 3],
    decode: [f64; 3],
    strength: [f64; 3],
    begin: Work,
}

/// Processor time at either end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Work {
    pub(crate) encode_nanos: f64,
    pub(crate) decode_nanos: f64,
}

impl Work {
    /// The share of each of so many blocks.
    pub(crate) const fn over(self, blocks: f64) -> Self {
        Self {
            encode_nanos: self.encode_nanos / blocks,
            decode_nanos: self.decode_nanos / blocks,
        }
    }
}

const fn row(
    codec: CodecId,
    level: i8,
    encode: [u32; 3],
    decode: [u32; 3],
    percent: [u8; 3],
) -> Row {
    const fn nanos(of: [u32; 3]) -> [f64; 3] {
        [of[0] as f64, of[1] as f64, of[2] as f64]
    }
    Row {
        arm: Arm::new(codec, level),
        encode: nanos(encode),
        decode: nanos(decode),
        strength: [
            percent[0] as f64 / 100.0,
            percent[1] as f64 / 100.0,
            percent[2] as f64 / 100.0,
        ],
        begin: Work {
            encode_nanos: 0.0,
            decode_nanos: 0.0,
        },
    }
}

impl Row {
    const fn with_history(mut self, encode_begin: u32, decode_begin: u32) -> Self {
        self.arm = self.arm.with_history();
        self.begin = Work {
            encode_nanos: encode_begin as f64,
            decode_nanos: decode_begin as f64,
        };
        self
    }
}

/// Lengths that the rows stand for.
const LENGTHS: [f64; 3] = [256.0, 4096.0, 65536.0];

// Medians over ten corpora of messages (JSON, logs, CSV, FIX orders, telecom signalling, bulk data)
// cut into blocks of each length, one core of a 2.5 GHz Xeon, release profile, best of two runs.
// Strengths are means; their standard deviation over the corpora is given by `strength_deviation`.
const ROWS: &[Row] = &[
    row(CodecId::IDENTITY, 0, [0; 3], [0; 3], [0; 3]),
    row(
        CodecId::LZ4,
        0,
        [400, 3_000, 32_000],
        [91, 750, 8_800],
        [64, 76, 79],
    ),
    row(
        CodecId::SNAPPY,
        0,
        [250, 2_400, 27_000],
        [100, 940, 13_000],
        [59, 73, 73],
    ),
    row(
        CodecId::ZSTD,
        -7,
        [950, 4_300, 39_000],
        [92, 1_700, 15_000],
        [25, 62, 70],
    ),
    row(
        CodecId::ZSTD,
        -5,
        [1_000, 4_100, 40_000],
        [120, 1_600, 14_000],
        [35, 70, 75],
    ),
    row(
        CodecId::ZSTD,
        -3,
        [1_100, 4_400, 42_000],
        [140, 1_600, 15_000],
        [48, 77, 82],
    ),
    row(
        CodecId::ZSTD,
        -1,
        [1_300, 4_900, 45_000],
        [170, 1_700, 14_000],
        [63, 85, 90],
    ),
    row(
        CodecId::ZSTD,
        1,
        [3_500, 8_800, 62_000],
        [1_500, 3_500, 18_000],
        [100, 100, 100],
    ),
    row(
        CodecId::ZSTD,
        2,
        [3_500, 9_100, 63_000],
        [1_400, 3_600, 19_000],
        [99, 100, 100],
    ),
    row(
        CodecId::ZSTD,
        3,
        [3_800, 11_000, 78_000],
        [1_500, 3_500, 18_000],
        [102, 101, 101],
    ),
    row(
        CodecId::ZSTD,
        4,
        [4_500, 19_000, 87_000],
        [1_400, 3_700, 19_000],
        [102, 103, 100],
    ),
    row(
        CodecId::ZSTD,
        5,
        [5_000, 21_000, 230_000],
        [1_400, 3_300, 20_000],
        [104, 105, 102],
    ),
    row(
        CodecId::ZSTD,
        6,
        [4_900, 22_000, 300_000],
        [1_400, 3_300, 20_000],
        [104, 105, 105],
    ),
    row(
        CodecId::ZSTD,
        7,
        [4_800, 21_000, 320_000],
        [1_400, 3_300, 18_000],
        [104, 105, 105],
    ),
    row(
        CodecId::ZSTD,
        9,
        [6_000, 37_000, 340_000],
        [1_400, 3_500, 17_000],
        [104, 105, 106],
    ),
    row(
        CodecId::ZSTD,
        12,
        [9_100, 140_000, 1_100_000],
        [1_500, 3_900, 19_000],
        [104, 106, 106],
    ),
    row(
        CodecId::ZSTD,
        15,
        [16_000, 430_000, 5_000_000],
        [1_600, 4_400, 27_000],
        [110, 107, 109],
    ),
    row(
        CodecId::ZSTD,
        19,
        [22_000, 830_000, 19_000_000],
        [1_600, 5_100, 41_000],
        [110, 107, 109],
    ),
    row(
        CodecId::DEFLATE,
        1,
        [3_100, 9_500, 100_000],
        [970, 4_100, 45_000],
        [88, 82, 79],
    ),
    row(
        CodecId::DEFLATE,
        2,
        [8_600, 22_000, 180_000],
        [1_800, 6_200, 50_000],
        [116, 99, 93],
    ),
    row(
        CodecId::DEFLATE,
        6,
        [9_000, 31_000, 380_000],
        [1_600, 6_000, 44_000],
        [117, 104, 101],
    ),
    row(
        CodecId::DEFLATE,
        9,
        [9_200, 41_000, 620_000],
        [1_500, 6_400, 49_000],
        [120, 104, 102],
    ),
    row(
        CodecId::BZIP2,
        9,
        [48_000, 530_000, 4_600_000],
        [12_000, 86_000, 860_000],
        [41, 89, 104],
    ),
    row(
        CodecId::XZ,
        0,
        [14_000, 110_000, 1_100_000],
        [4_400, 29_000, 240_000],
        [100, 104, 105],
    ),
    row(
        CodecId::XZ,
        1,
        [19_000, 120_000, 1_100_000],
        [4_300, 28_000, 240_000],
        [101, 105, 107],
    ),
    row(
        CodecId::XZ,
        3,
        [17_000, 120_000, 1_300_000],
        [4_300, 28_000, 230_000],
        [101, 106, 108],
    ),
    row(
        CodecId::XZ,
        4,
        [24_000, 240_000, 3_700_000],
        [4_500, 31_000, 250_000],
        [107, 109, 109],
    ),
    row(
        CodecId::XZ,
        5,
        [26_000, 320_000, 5_800_000],
        [4_500, 32_000, 250_000],
        [107, 109, 111],
    ),
    row(
        CodecId::XZ,
        6,
        [27_000, 460_000, 7_600_000],
        [4_400, 33_000, 240_000],
        [107, 110, 111],
    ),
];

// With a dictionary of 16 KiB. At 256 B measured on signalling (docs/benchmarks.md, "Dictionaries"), in the
// proportions of the same run to the rows above; beyond that, what the codec takes without.
const DICTIONARY_ROWS: &[Row] = &[
    row(
        CodecId::LZ4,
        0,
        [240, 3_000, 32_000],
        [110, 750, 8_800],
        [93, 85, 80],
    ),
    row(
        CodecId::ZSTD,
        -1,
        [850, 4_900, 45_000],
        [210, 1_700, 14_000],
        [92, 90, 90],
    ),
    row(
        CodecId::ZSTD,
        1,
        [900, 8_800, 62_000],
        [290, 3_500, 18_000],
        [100, 100, 100],
    ),
    row(
        CodecId::ZSTD,
        3,
        [1_000, 11_000, 78_000],
        [300, 3_500, 18_000],
        [103, 101, 101],
    ),
    row(
        CodecId::ZSTD,
        19,
        [29_000, 830_000, 19_000_000],
        [380, 5_100, 41_000],
        [110, 107, 109],
    ),
];

// With `context_table --rows` over the same corpora and `telecom-volte`, `json-metrics`: up to 1 MiB of each, cut to
// the byte; windows of 2^19, the best of three runs. Strengths are over that of zstd 1 with history. Beginning was measured
// on another machine, and is in the proportions of the same run to the blocks of 64 KiB here.
const HISTORY_ROWS: &[Row] = &[
    row(
        CodecId::LZ4,
        0,
        [240, 3_000, 34_000],
        [93, 870, 12_000],
        [88, 81, 76],
    )
    .with_history(27_000, 21_000),
    row(
        CodecId::ZSTD,
        -7,
        [980, 4_200, 36_000],
        [170, 1_300, 12_500],
        [72, 71, 68],
    )
    .with_history(44_000, 25_000),
    row(
        CodecId::ZSTD,
        -5,
        [1_020, 4_600, 37_000],
        [190, 1_460, 12_500],
        [78, 77, 74],
    )
    .with_history(50_000, 29_000),
    row(
        CodecId::ZSTD,
        -3,
        [1_000, 4_700, 38_000],
        [180, 1_500, 12_800],
        [86, 84, 81],
    )
    .with_history(47_000, 27_000),
    row(
        CodecId::ZSTD,
        -1,
        [1_060, 4_900, 41_000],
        [180, 1_520, 12_500],
        [95, 92, 89],
    )
    .with_history(52_000, 28_000),
    row(
        CodecId::ZSTD,
        1,
        [1_140, 8_200, 49_000],
        [220, 2_000, 15_000],
        [100, 100, 100],
    )
    .with_history(57_000, 32_000),
    row(
        CodecId::ZSTD,
        2,
        [1_150, 8_200, 57_000],
        [225, 1_820, 14_600],
        [99, 100, 100],
    )
    .with_history(80_000, 31_000),
    row(
        CodecId::ZSTD,
        3,
        [1_270, 8_500, 67_000],
        [210, 1_810, 14_100],
        [103, 102, 100],
    )
    .with_history(160_000, 34_000),
    row(
        CodecId::ZSTD,
        4,
        [1_220, 8_200, 70_000],
        [195, 1_830, 14_700],
        [103, 101, 99],
    )
    .with_history(380_000, 43_000),
    row(
        CodecId::ZSTD,
        5,
        [1_670, 15_800, 180_000],
        [190, 1_830, 14_000],
        [103, 104, 102],
    )
    .with_history(290_000, 38_000),
    row(
        CodecId::ZSTD,
        6,
        [2_830, 20_300, 221_000],
        [240, 1_500, 13_200],
        [112, 109, 106],
    )
    .with_history(290_000, 31_000),
    row(
        CodecId::ZSTD,
        7,
        [2_790, 22_900, 269_000],
        [230, 1_490, 14_200],
        [112, 110, 107],
    )
    .with_history(305_000, 35_000),
    row(
        CodecId::ZSTD,
        9,
        [3_420, 27_200, 300_000],
        [230, 1_460, 12_500],
        [114, 112, 108],
    )
    .with_history(335_000, 39_000),
    row(
        CodecId::ZSTD,
        12,
        [21_500, 138_000, 2_030_000],
        [235, 1_690, 13_600],
        [117, 112, 109],
    )
    .with_history(1_200_000, 57_000),
    row(
        CodecId::ZSTD,
        15,
        [25_500, 420_000, 6_990_000],
        [245, 1_660, 13_800],
        [120, 116, 112],
    )
    .with_history(1_000_000, 65_000),
    row(
        CodecId::ZSTD,
        19,
        [48_000, 768_000, 12_100_000],
        [232, 1_700, 14_200],
        [121, 117, 112],
    )
    .with_history(680_000, 60_000),
    row(
        CodecId::DEFLATE,
        1,
        [590, 6_900, 89_000],
        [440, 3_700, 38_000],
        [92, 81, 74],
    )
    .with_history(118_000, 12_000),
    row(
        CodecId::DEFLATE,
        6,
        [4_490, 33_000, 279_000],
        [355, 5_060, 35_700],
        [112, 102, 97],
    )
    .with_history(125_000, 5_000),
];

/// Logarithm of zstd 1's ratio at 256 B, 4 KiB and 64 KiB: medians as above.
const TYPICAL_LEVEL: [f64; 3] = [0.35, 1.26, 1.97];

/// The same with history of 2^19 bytes: in streams that have gone on for a while, medians over telecom, log, JSON,
/// CSV and FIX traffic (`context_table --rows`).
const TYPICAL_HISTORY_LEVEL: [f64; 3] = [1.97, 2.23, 2.37];

/// The same with a dictionary: at 256 B the mean over signalling and logs (docs/benchmarks.md); above that arbitrary,
/// between it and what blocks have without one.
const TYPICAL_DICTIONARY_LEVEL: [f64; 3] = [1.0, 1.5, 2.0];

/// Every arm that was measured and that this build has: codecs with all the levels that differ
/// from their neighbours.
pub fn measured_arms() -> impl Iterator<Item = Arm> {
    ROWS.iter()
        .map(|row| row.arm)
        .filter(|arm| *arm != Arm::IDENTITY && super::info(arm.codec).is_some())
}

/// Arms with a dictionary: those that were measured and that this build has.
pub(crate) fn dictionary_arms() -> impl Iterator<Item = Arm> {
    DICTIONARY_ROWS
        .iter()
        .map(|row| row.arm.with_dictionary())
        .filter(|arm| super::takes_dictionary(arm.codec))
}

/// Standard deviation of an arm's strength over the corpora: how far its typical strength may be
/// off on content that was never seen.
pub(crate) fn strength_deviation(arm: Arm) -> f64 {
    match arm.codec {
        CodecId::IDENTITY => 0.0,
        CodecId::ZSTD if arm.level >= Level(1) => 0.03,
        CodecId::DEFLATE if arm.level >= Level(2) => 0.05,
        CodecId::XZ => 0.05,
        _ => 0.13,
    }
}

/// Logarithm of the ratio that zstd 1 typically reaches on blocks of `plain_len` bytes: nothing below
/// some 64 B.
pub(crate) fn typical_level(plain_len: Length) -> f64 {
    let at = plain_len.octaves;
    if at < 0.0 {
        (TYPICAL_LEVEL[0] + (TYPICAL_LEVEL[1] - TYPICAL_LEVEL[0]) * at).max(0.0)
    } else {
        by_logarithm(TYPICAL_LEVEL, plain_len)
    }
}

/// Logarithm of the ratio that zstd 1 with history typically reaches on blocks of `plain_len` bytes.
pub(crate) fn typical_history_level(plain_len: Length) -> f64 {
    let level = by_logarithm(TYPICAL_HISTORY_LEVEL, plain_len);
    // Below the first point with the power 0.3 of the length, to a quarter of it.
    let shorter = plain_len.octaves.max(-0.5);
    if shorter < 0.0 {
        level * (0.3 * 4.0 * shorter).exp2()
    } else {
        level
    }
}

/// Logarithm of the ratio that zstd 1 with a dictionary typically reaches on blocks of `plain_len` bytes.
pub(crate) fn typical_dictionary_level(plain_len: Length) -> f64 {
    by_logarithm(TYPICAL_DICTIONARY_LEVEL, plain_len)
}

/// The plain length of a block, and where it lies between the lengths that the rows stand for: found once for all arms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length {
    bytes: f64,
    /// Distance from the first of them, in steps between them: a factor of 16 each.
    octaves: f64,
}

impl Length {
    pub(crate) fn of(bytes: f64) -> Self {
        let octaves = (bytes.max(1.0) / LENGTHS[0]).log2() / 4.0;
        Self { bytes, octaves }
    }

    /// A length of 4^`fours` times 64 bytes, whose place needs no logarithm.
    pub(crate) const fn of_fours(fours: u8) -> Self {
        Self {
            bytes: 64.0 * (1_u64 << (2 * fours)) as f64,
            octaves: (fours as f64 - 1.0) / 2.0,
        }
    }

    pub(crate) const fn bytes(self) -> f64 {
        self.bytes
    }
}

impl Row {
    /// The figures for a block.
    pub(crate) fn at(&self, len: Length) -> Typical {
        Typical {
            encode_nanos: by_length(self.encode, len),
            decode_nanos: by_length(self.decode, len),
            strength: by_logarithm(self.strength, len),
        }
    }

    /// What a history takes that begins with as much as it may: its context and tables in memory that was not used before, and what it
    /// begins with taken in. Nothing if the arm has none.
    pub(crate) const fn begin(&self) -> Work {
        self.begin
    }
}

/// What `arm` typically does, with history if it has: for a level that was not measured, the next higher one's figures; for
/// an unknown codec, `None`.
pub(crate) fn typical(arm: Arm) -> Option<&'static Row> {
    let level = match arm.level {
        Level(0) => super::default_level(arm.codec),
        level => level,
    };
    let rows = if arm.history {
        HISTORY_ROWS
    } else if arm.dictionary {
        DICTIONARY_ROWS
    } else {
        ROWS
    };
    let mut family = rows.iter().filter(|row| row.arm.codec == arm.codec);
    family
        .clone()
        .find(|row| row.arm.level >= level)
        .or_else(|| family.next_back())
}

/// A line through each two neighbouring lengths, continued beyond the last. Below the first the
/// time hardly falls any more.
fn by_length(points: [f64; 3], len: Length) -> f64 {
    let len = len.bytes;
    let line = |i: usize| {
        points[i] + (points[i + 1] - points[i]) / (LENGTHS[i + 1] - LENGTHS[i]) * (len - LENGTHS[i])
    };
    let nanos = if len < LENGTHS[1] { line(0) } else { line(1) };
    nanos.max(points[0] / 2.0)
}

/// Between the points by the logarithm of the length; level beyond them.
fn by_logarithm(points: [f64; 3], len: Length) -> f64 {
    let at = len.octaves;
    if at <= 0.0 {
        points[0]
    } else if at <= 1.0 {
        points[0] + (points[1] - points[0]) * at
    } else {
        points[1] + (points[2] - points[1]) * (at - 1.0).min(1.5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_four_stand_where_they_would_by_their_logarithms() {
        for fours in 0..8 {
            let len = Length::of_fours(fours);
            let by_logarithm = Length::of(64.0 * 4_f64.powi(i32::from(fours)));
            assert!((len.bytes - by_logarithm.bytes).abs() < 1e-9, "{len:?}");
            assert!(
                (len.octaves - by_logarithm.octaves).abs() < 1e-12,
                "{len:?}"
            );
        }
    }

    #[test]
    fn every_arm_has_finite_figures_at_every_length() {
        for info in super::super::supported() {
            let with_history = info.arms().map(Arm::with_history);
            let with_history = with_history.filter(|arm| super::super::supports_context(arm.codec));
            for arm in info.arms().chain(with_history) {
                for len in [0.0, 1.0, 256.0, 5000.0, 65_536.0, 1e7] {
                    let typical = typical(arm)
                        .expect("a codec of this build")
                        .at(Length::of(len));
                    assert!(
                        typical.encode_nanos >= 0.0 && typical.encode_nanos.is_finite(),
                        "{arm} {len}"
                    );
                    assert!((0.0..3.0).contains(&typical.strength), "{arm} {len}");
                }
            }
        }
        assert!(typical(Arm::new(CodecId::from_wire(99), 1)).is_none());
    }

    #[test]
    fn figures_pass_through_what_was_measured() {
        let zstd = typical(Arm::new(CodecId::ZSTD, 3))
            .expect("a row")
            .at(Length::of(65_536.0));
        assert!((zstd.encode_nanos - 78_000.0).abs() < 1.0);
        assert!((zstd.strength - 1.01).abs() < 1e-9);
        assert!((typical_level(Length::of(4096.0)) - 1.26).abs() < 1e-9);
    }

    #[test]
    fn measured_arms_are_the_builds_own() {
        assert!(measured_arms().all(|arm| super::super::info(arm.codec).is_some()));
    }
}
