//! What a codec costs before anything was measured on this machine: enough to tell what may run on
//! an executor's thread (up to about 100 µs) from what may not, and to rank arms at the start.

use super::{Arm, CodecId, Level};

/// A cost over the plain length: level up to 256 B, where setting up dominates, then a line.
#[derive(Clone, Copy, Debug)]
struct Cost {
    at_256_bytes: u64,
    /// Picoseconds for each byte beyond.
    picos_per_byte: u64,
}

impl Cost {
    /// Through two measured times, in nanoseconds.
    const fn through(at_256_bytes: u64, at_16_kib: u64) -> Self {
        Self {
            at_256_bytes,
            picos_per_byte: at_16_kib.saturating_sub(at_256_bytes) * 1000 / (16_384 - 256),
        }
    }

    const fn nanos(self, plain_len: usize) -> u64 {
        let beyond = (plain_len as u64).saturating_sub(256);
        self.at_256_bytes
            .saturating_add(beyond.saturating_mul(self.picos_per_byte) / 1000)
    }
}

/// A measured arm: nanoseconds to encode 256 B and 16 KiB.
struct Prior {
    arm: Arm,
    encode: Cost,
}

const fn prior(codec: CodecId, level: i8, at_256_bytes: u64, at_16_kib: u64) -> Prior {
    Prior {
        arm: Arm::new(codec, level),
        encode: Cost::through(at_256_bytes, at_16_kib),
    }
}

// Measured on one core of a 2.5 GHz Xeon with the example `codec_table` (release profile), over nine
// corpora of messages: JSON, logs, CSV, FIX orders, telecom signalling. Each number is the slowest
// corpus's, since to take a slow arm for a fast one is the worse mistake; the median is about three
// quarters of it at 256 B, and from a quarter to four fifths at 16 KiB. Identity is a copy.

/// By codec and rising level.
const ENCODE: &[Prior] = &[
    prior(CodecId::IDENTITY, 0, 8, 660),
    prior(CodecId::LZ4, 0, 410, 39_500),
    prior(CodecId::SNAPPY, 0, 250, 41_200),
    prior(CodecId::ZSTD, -7, 960, 26_000),
    prior(CodecId::ZSTD, -5, 1_030, 29_800),
    prior(CodecId::ZSTD, -3, 1_140, 36_000),
    prior(CodecId::ZSTD, -1, 1_280, 45_200),
    prior(CodecId::ZSTD, 1, 4_450, 53_800),
    prior(CodecId::ZSTD, 2, 4_520, 66_800),
    prior(CodecId::ZSTD, 3, 4_730, 78_400),
    prior(CodecId::ZSTD, 4, 5_880, 142_700),
    prior(CodecId::ZSTD, 6, 7_450, 285_000),
    prior(CodecId::ZSTD, 9, 8_750, 472_000),
    prior(CodecId::ZSTD, 12, 12_600, 981_000),
    prior(CodecId::ZSTD, 15, 20_000, 4_375_000),
    prior(CodecId::ZSTD, 19, 28_900, 8_770_000),
    prior(CodecId::DEFLATE, 1, 3_220, 75_300),
    prior(CodecId::DEFLATE, 2, 11_400, 129_000),
    prior(CodecId::DEFLATE, 3, 11_800, 151_000),
    prior(CodecId::DEFLATE, 4, 11_800, 166_000),
    prior(CodecId::DEFLATE, 5, 11_900, 173_000),
    prior(CodecId::DEFLATE, 6, 11_900, 180_000),
    prior(CodecId::DEFLATE, 7, 12_200, 265_000),
    prior(CodecId::DEFLATE, 8, 12_200, 350_000),
    prior(CodecId::DEFLATE, 9, 13_000, 362_000),
    // The same at every level, since the block is cut to the message.
    prior(CodecId::BZIP2, 9, 63_800, 1_480_000),
    prior(CodecId::XZ, 0, 19_400, 761_000),
    prior(CodecId::XZ, 1, 21_600, 821_000),
    prior(CodecId::XZ, 2, 21_600, 882_000),
    prior(CodecId::XZ, 3, 21_600, 913_000),
    prior(CodecId::XZ, 4, 29_900, 2_428_000),
    prior(CodecId::XZ, 5, 32_100, 2_703_000),
    prior(CodecId::XZ, 9, 36_300, 3_062_000),
];

/// The same with history, by `context_table --rows` over the corpora above, the best of three runs; where a lower
/// level was slower, its number. Decoding with history is cheaper than without.
const ENCODE_HISTORY: &[Prior] = &[
    prior(CodecId::LZ4, 0, 740, 47_500),
    prior(CodecId::ZSTD, -7, 1_440, 41_800),
    prior(CodecId::ZSTD, -5, 1_490, 44_800),
    prior(CodecId::ZSTD, -3, 1_550, 46_000),
    prior(CodecId::ZSTD, -1, 1_700, 55_400),
    prior(CodecId::ZSTD, 1, 2_840, 56_600),
    prior(CodecId::ZSTD, 2, 2_840, 74_700),
    prior(CodecId::ZSTD, 3, 2_840, 86_500),
    prior(CodecId::ZSTD, 4, 2_840, 95_600),
    prior(CodecId::ZSTD, 6, 5_140, 270_000),
    prior(CodecId::ZSTD, 9, 8_330, 463_000),
    prior(CodecId::ZSTD, 12, 28_800, 1_416_000),
    prior(CodecId::ZSTD, 15, 40_400, 2_450_000),
    prior(CodecId::ZSTD, 19, 61_700, 6_500_000),
    prior(CodecId::DEFLATE, 1, 1_510, 77_200),
    prior(CodecId::DEFLATE, 6, 8_290, 313_000),
];

/// The slowest level's nanoseconds to decode to 256 B and 16 KiB.
const DECODE: &[(CodecId, Cost)] = &[
    (CodecId::IDENTITY, Cost::through(9, 660)),
    (CodecId::LZ4, Cost::through(85, 5_070)),
    (CodecId::SNAPPY, Cost::through(100, 13_600)),
    (CodecId::ZSTD, Cost::through(1_520, 21_400)),
    (CodecId::DEFLATE, Cost::through(2_850, 37_000)),
    (CodecId::BZIP2, Cost::through(13_500, 340_000)),
    (CodecId::XZ, Cost::through(5_600, 215_000)),
];

/// About how long encoding `plain_len` bytes takes, in nanoseconds, on the processor that the table
/// was measured on (2.5 GHz Xeon); up to three times too high is usual. For a level that was not measured,
/// the next higher one's; for an unknown codec, `u64::MAX`, so that it is never taken for cheap.
pub fn prior_encode_nanos(arm: Arm, plain_len: usize) -> u64 {
    let level = match arm.level {
        Level(0) => super::default_level(arm.codec),
        level => level,
    };
    let table = if arm.history { ENCODE_HISTORY } else { ENCODE };
    let mut family = table.iter().filter(|prior| prior.arm.codec == arm.codec);
    family
        .clone()
        .find(|prior| prior.arm.level >= level)
        .or_else(|| family.next_back())
        .map_or(u64::MAX, |prior| prior.encode.nanos(plain_len))
}

/// About how long decoding to `plain_len` bytes takes, in nanoseconds, at the codec's slowest level,
/// on the processor that the table was measured on (2.5 GHz Xeon); up to three times too high is usual. For an unknown
/// codec, `u64::MAX`.
pub fn prior_decode_nanos(codec: CodecId, plain_len: usize) -> u64 {
    DECODE
        .iter()
        .find(|(known, _)| *known == codec)
        .map_or(u64::MAX, |(_, cost)| cost.nanos(plain_len))
}

#[cfg(test)]
mod tests {
    use super::super::supported;
    use super::*;

    #[test]
    fn every_arm_has_a_prior_that_grows_with_length_and_level() {
        for info in supported() {
            for len in [1, 256, 16_384, 1 << 20] {
                let history = super::super::supports_context(info.id);
                for history in [false, true].into_iter().take(1 + usize::from(history)) {
                    let costs: Vec<_> = info
                        .arms()
                        .map(|arm| prior_encode_nanos(Arm { history, ..arm }, len))
                        .collect();
                    assert!(costs.is_sorted(), "{info:?}: {costs:?}");
                    assert!(costs.iter().all(|&nanos| nanos < u64::MAX));
                }
                assert!(prior_decode_nanos(info.id, len) <= prior_decode_nanos(info.id, len + 9));
            }
            assert!(prior_decode_nanos(info.id, 1 << 20) < u64::MAX);
        }
    }

    #[test]
    fn lines_pass_through_what_was_measured() {
        let near = |nanos: u64, measured: u64| nanos.abs_diff(measured) <= measured / 50;
        let arm = Arm::new(CodecId::ZSTD, 3);
        assert_eq!(prior_encode_nanos(arm, 256), 4_730);
        assert!(near(prior_encode_nanos(arm, 16_384), 78_400));
        assert!(near(prior_decode_nanos(CodecId::XZ, 16_384), 215_000));
    }

    #[test]
    fn levels_between_count_as_the_next_and_none_as_the_default() {
        let at = |codec, level| prior_encode_nanos(Arm::new(codec, level), 1000);
        assert_eq!(at(CodecId::ZSTD, 5), at(CodecId::ZSTD, 6));
        assert_eq!(at(CodecId::ZSTD, 0), at(CodecId::ZSTD, 1));
        assert_eq!(at(CodecId::BZIP2, 1), at(CodecId::BZIP2, 9));
        assert_eq!(at(CodecId::ZSTD, 100), at(CodecId::ZSTD, 19));
        assert_eq!(at(CodecId::from_wire(99), 1), u64::MAX);
        assert_eq!(prior_decode_nanos(CodecId::from_wire(99), 1), u64::MAX);
    }
}
