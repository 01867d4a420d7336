//! Making a dictionary of sample messages.
//!
//! The content is chosen like zstd's trainers do (Liao, Petri, Moffat, Wirth: "Effective Construction of
//! Relative Lempel-Ziv Dictionaries", 2016; zstd's COVER): pieces of samples, so that their substrings
//! of eight bytes occur in as many samples as possible for their length. But here only substrings that
//! enough distinct messages have in common can be part of a piece: the rule of [`TrainConfig::min_sources`]
//! holds by construction, and is checked once more where pieces meet.

use core::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet};

use super::grams::{GRAM_LEN, Grams};
use super::{Dictionary, DictionaryError, MAX_DICTIONARY_LEN, MIN_DICTIONARY_LEN};

/// Substrings that a piece has at most. Longer ones are cut, so that what is common in them is not
/// paid for together with what is not. Measured best with [`PIECE_COST`] among 32 to 1024 on recorded
/// signalling and logs.
const MAX_PIECE: usize = 512;

/// What a piece costs besides its bytes, in bytes: a short one saves less than its substrings promise,
/// since messages refer to each by itself. Measured among 0 to 128: 64 makes a dictionary of 16 KiB 10 %
/// better for logs than 0, 1 % for signalling.
const PIECE_COST: f64 = 64.0;

/// What stands between pieces whose bytes would otherwise join to what only few messages have.
const SEPARATORS: [&[u8]; 5] = [b"", &[0], b"\n", b"\t", &[0xFF]];

/// How a dictionary is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrainConfig {
    /// Bytes of the dictionary at most. Default 16 KiB: on recorded signalling and logs four times as many
    /// gain little more (docs/benchmarks.md), and both ends hold its tables.
    pub max_len: usize,
    /// Eight bytes in a row enter only if so many distinct messages have them, at least 1. Default 3:
    /// arbitrary, the least that tells a habit from a coincidence.
    pub min_sources: u32,
    /// Distinct messages without which nothing is tried. Default 20, arbitrary.
    pub min_samples: usize,
    /// Bytes of samples that are looked at, the first ones; bounds time (about 0.1 µs a byte, measured)
    /// and memory (up to 100 bytes a byte). Default 1 MiB.
    pub max_sample_bytes: usize,
    /// Whether zstd's statistics are put in front, if this build has zstd. Default yes. They take 100 to
    /// 200 bytes and save zstd as much in nearly every message.
    pub with_statistics: bool,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            max_len: 16 << 10,
            min_sources: 3,
            min_samples: 20,
            max_sample_bytes: 1 << 20,
            with_statistics: true,
        }
    }
}

impl TrainConfig {
    /// The same with dictionaries of `max_len` bytes at most.
    #[must_use]
    pub const fn with_max_len(mut self, max_len: usize) -> Self {
        self.max_len = max_len;
        self
    }

    /// The same with substrings that `min_sources` distinct messages have.
    #[must_use]
    pub const fn with_min_sources(mut self, min_sources: u32) -> Self {
        self.min_sources = min_sources;
        self
    }
}

/// Why there is no dictionary.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrainError {
    /// Too few distinct messages.
    #[error("{given} distinct messages, at least {min} are needed")]
    TooFewSamples {
        /// How many there are.
        given: usize,
        /// How many are needed.
        min: usize,
    },
    /// Messages have too little in common.
    #[error("only {given} bytes are common to {min_sources} messages, at least {min} are needed")]
    NothingShared {
        /// Bytes that could enter.
        given: usize,
        /// Bytes that a dictionary has at least.
        min: usize,
        /// How many messages must have them in common.
        min_sources: u32,
    },
    /// The configuration allows no dictionary.
    #[error("the longest dictionary allowed: {0}")]
    Config(DictionaryError),
}

/// Makes a dictionary of what `samples` have in common; equal samples count once.
///
/// Same samples in the same order, same dictionary. Takes time and memory in proportion to the samples:
/// not for an executor's thread.
///
/// # Errors
///
/// Too few distinct samples, nothing in common, or limits that allow none.
pub fn train<S: AsRef<[u8]>>(
    samples: &[S],
    config: &TrainConfig,
) -> Result<Dictionary, TrainError> {
    let max_len = config.max_len.min(MAX_DICTIONARY_LEN);
    if max_len < MIN_DICTIONARY_LEN {
        return Err(TrainError::Config(DictionaryError::TooShort {
            given: max_len,
            min: MIN_DICTIONARY_LEN,
        }));
    }
    let samples = distinct(samples, config.max_sample_bytes);
    if samples.len() < config.min_samples {
        return Err(TrainError::TooFewSamples {
            given: samples.len(),
            min: config.min_samples,
        });
    }
    let min_sources = config.min_sources.max(1);
    let grams = Grams::count(samples.iter().copied());
    let pieces = choose(&samples, &grams, min_sources, max_len);
    let mut content = arrange(&pieces, &grams, min_sources);
    // Separators may have made it longer; the least valuable comes first.
    content.drain(..content.len().saturating_sub(max_len));
    if content.len() < MIN_DICTIONARY_LEN {
        return Err(TrainError::NothingShared {
            given: content.len(),
            min: MIN_DICTIONARY_LEN,
            min_sources,
        });
    }
    #[cfg(feature = "zstd")]
    let content = if config.with_statistics {
        statistics::in_front_of(&content, &samples, max_len).unwrap_or(content)
    } else {
        content
    };
    Dictionary::with_limit(content, max_len).map_err(TrainError::Config)
}

/// Bytes of `dictionary`, its statistics left out, that stand in a substring of eight which some but
/// fewer than `min_sources` of the distinct `samples` have: 0 for what [`train`] made of the same samples.
pub fn rare_bytes<S: AsRef<[u8]>>(dictionary: &[u8], samples: &[S], min_sources: u32) -> usize {
    let samples = distinct(samples, usize::MAX);
    let grams = Grams::count(samples.iter().copied());
    let mut rare = vec![false; dictionary.len()];
    for (at, window) in dictionary.windows(GRAM_LEN).enumerate() {
        if is_rare(&grams, window, min_sources) {
            rare[at..at + GRAM_LEN].fill(true);
        }
    }
    rare.iter().filter(|&&rare| rare).count()
}

fn is_rare(grams: &Grams, window: &[u8], min_sources: u32) -> bool {
    (1..min_sources).contains(&grams.messages_with(window))
}

fn distinct<S: AsRef<[u8]>>(samples: &[S], max_bytes: usize) -> Vec<&[u8]> {
    let (mut seen, mut bytes) = (HashSet::new(), 0_usize);
    let mut kept = Vec::new();
    for sample in samples.iter().map(AsRef::as_ref) {
        if bytes.saturating_add(sample.len()) <= max_bytes && seen.insert(sample) {
            bytes += sample.len();
            kept.push(sample);
        }
    }
    kept
}

/// A part of a sample whose substrings all are common: a candidate for the dictionary.
struct Piece<'text, 'grams> {
    /// Bytes.
    text: &'text [u8],
    /// Numbers of its substrings.
    grams: &'grams [u32],
    /// What it would gain for each byte when it was last looked at.
    gain: f64,
}

impl PartialEq for Piece<'_, '_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Piece<'_, '_> {}

impl PartialOrd for Piece<'_, '_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Piece<'_, '_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let gain = self.gain.total_cmp(&other.gain);
        // Ties must not depend on where things lie in memory.
        gain.then_with(|| self.text.cmp(other.text))
    }
}

impl Piece<'_, '_> {
    /// The part from the first substring that still counts to the last, and what it gains.
    fn trimmed(&self, weights: &[u32]) -> Option<Self> {
        let counts = |&gram: &u32| weights[gram as usize] > 0;
        let first = self.grams.iter().position(counts)?;
        let end = self.grams.iter().rposition(counts)? + 1;
        let grams = &self.grams[first..end];
        let text = &self.text[first..end - 1 + GRAM_LEN];
        let gain: f64 = grams
            .iter()
            .map(|&gram| f64::from(weights[gram as usize]))
            .sum();
        Some(Self {
            text,
            grams,
            gain: gain / (text.len() as f64 + PIECE_COST),
        })
    }
}

/// The best pieces up to `max_len` bytes in all, the best first.
fn choose<'a>(
    samples: &[&'a [u8]],
    grams: &Grams,
    min_sources: u32,
    max_len: usize,
) -> Vec<&'a [u8]> {
    let mut weights = grams.weights(min_sources);
    let numbers: Vec<Vec<u32>> = samples
        .iter()
        .map(|sample| {
            sample
                .windows(GRAM_LEN)
                .map(|window| grams.number(window))
                .collect()
        })
        .collect();
    let mut candidates = BinaryHeap::new();
    for (sample, numbers) in samples.iter().zip(&numbers) {
        let mut start = 0;
        for run in numbers.chunk_by(|a, b| (weights[*a as usize] > 0) == (weights[*b as usize] > 0))
        {
            for part in run.chunks(MAX_PIECE) {
                let piece = Piece {
                    text: &sample[start..start + part.len() - 1 + GRAM_LEN],
                    grams: part,
                    gain: 0.0,
                };
                candidates.extend(piece.trimmed(&weights));
                start += part.len();
            }
        }
    }
    // What a piece gains only falls as others are taken, so whichever stays first when looked at
    // anew is the best.
    let (mut chosen, mut left) = (Vec::new(), max_len);
    while let Some(candidate) = candidates.pop() {
        let Some(mut piece) = candidate.trimmed(&weights) else {
            continue;
        };
        if candidates.peek().is_some_and(|next| piece < *next) {
            candidates.push(piece);
            continue;
        }
        if left < GRAM_LEN {
            break;
        }
        if piece.text.len() > left {
            piece.text = &piece.text[..left];
            piece.grams = &piece.grams[..=left - GRAM_LEN];
        }
        for &gram in piece.grams {
            weights[gram as usize] = 0;
        }
        left -= piece.text.len();
        chosen.push(piece.text);
    }
    chosen
}

/// The pieces one after another, the best last: what is nearer costs fewer bits to refer to.
fn arrange(pieces: &[&[u8]], grams: &Grams, min_sources: u32) -> Vec<u8> {
    let mut content = Vec::with_capacity(pieces.iter().map(|piece| piece.len()).sum());
    for piece in pieces.iter().rev() {
        for separator in SEPARATORS {
            if joins(&content, separator, piece, grams, min_sources) {
                content.extend_from_slice(separator);
                content.extend_from_slice(piece);
                break;
            }
        }
        // Where no separator helps, the piece is left out.
    }
    content
}

/// Whether nothing rare arises where `piece` follows `content`.
fn joins(content: &[u8], separator: &[u8], piece: &[u8], grams: &Grams, min_sources: u32) -> bool {
    let before = &content[content.len().saturating_sub(GRAM_LEN - 1)..];
    let after = &piece[..piece.len().min(GRAM_LEN - 1)];
    let joint = [before, separator, after].concat();
    let mut windows = joint.windows(GRAM_LEN);
    !windows.any(|window| is_rare(grams, window, min_sources))
}

#[cfg(feature = "zstd")]
mod statistics {
    #![expect(
        unsafe_code,
        reason = "zstd-safe wraps zstd's trainers, but not the call that only adds statistics"
    )]

    use zstd_safe::zstd_sys::{ZDICT_finalizeDictionary, ZDICT_params_t};

    /// The level whose choices are counted: between those that messages use.
    const LEVEL: i32 = 3;

    /// Less than that is not worth a header, nor allowed (`ZDICT_DICTSIZE_MIN`, zdict.h).
    const MIN_ROOM: usize = 256;
    /// What headers take at most; so much of the content may have to go for it.
    const MAX_HEADER_LEN: usize = 256;

    /// The content behind zstd's header for dictionaries, within `max_len`, or `None` if zstd finds that
    /// the samples give no statistics.
    pub(super) fn in_front_of(
        content: &[u8],
        samples: &[&[u8]],
        max_len: usize,
    ) -> Option<Vec<u8>> {
        let room = max_len
            .min(content.len() + MAX_HEADER_LEN)
            .max(content.len());
        if room < MIN_ROOM || content.len() < MIN_ROOM {
            return None;
        }
        let joined = samples.concat();
        let lens: Vec<usize> = samples.iter().map(|sample| sample.len()).collect();
        let count = u32::try_from(lens.len()).ok()?;
        let mut dictionary = vec![0_u8; room];
        let parameters = ZDICT_params_t {
            compressionLevel: LEVEL,
            notificationLevel: 0,
            dictID: 0,
        };
        // SAFETY: every pointer is that of a live slice and comes with its own length; `joined` has as
        // many bytes as `lens` add up to, because both were made of `samples` just now; the output does
        // not overlap the inputs and has at least `content.len()` and 256 bytes, as the call demands
        // (`room` was checked above). It keeps no pointer.
        let written = unsafe {
            ZDICT_finalizeDictionary(
                dictionary.as_mut_ptr().cast(),
                dictionary.len(),
                content.as_ptr().cast(),
                content.len(),
                joined.as_ptr().cast(),
                lens.as_ptr(),
                count,
                parameters,
            )
        };
        // Errors are numbers far above any length.
        (written <= room).then(|| {
            dictionary.truncate(written);
            dictionary
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(count: u32) -> Vec<Vec<u8>> {
        let mut rng = fastrand::Rng::with_seed(1);
        (0..count)
            .map(|number| {
                let secret = rng.u64(..);
                format!(
                    "INVITE sip:user@ims.example.org;method={} token={secret:016x} Content-Type: application/sdp",
                    number % 7
                )
                .into_bytes()
            })
            .collect()
    }

    #[test]
    fn what_messages_share_enters_and_what_one_has_alone_does_not() {
        let samples = messages(300);
        let dictionary = train(&samples, &TrainConfig::default()).expect("a lot in common");
        let text = String::from_utf8_lossy(dictionary.content());
        assert!(text.contains("Content-Type: application/sdp"), "{text}");
        assert_eq!(rare_bytes(dictionary.content(), &samples, 3), 0);
        for sample in &samples {
            let token = sample.split(|&byte| byte == b'=').nth(2).expect("a token");
            let secret = core::str::from_utf8(&token[..16]).expect("digits");
            for part in 0..=8 {
                assert!(!text.contains(&secret[part..part + 8]), "{secret}");
            }
        }
        // Without the rule they do, so the test would have seen it.
        let loose = TrainConfig {
            min_sources: 1,
            ..TrainConfig::default()
        };
        let dictionary = train(&samples, &loose).expect("more in common");
        assert!(rare_bytes(dictionary.content(), &samples, 3) > 100);
    }

    #[test]
    fn a_message_that_is_repeated_counts_once() {
        let mut samples = messages(100);
        let secret = b"the password of the day is swordfish".to_vec();
        samples.extend(core::iter::repeat_n(secret, 50));
        let dictionary = train(&samples, &TrainConfig::default()).expect("a lot in common");
        let text = String::from_utf8_lossy(dictionary.content());
        assert!(
            !text.contains("swordfish") && !text.contains("password"),
            "{text}"
        );
    }

    #[test]
    fn pieces_do_not_join_to_what_was_cut() {
        // The halves are common, the whole is one message's alone.
        let mut samples: Vec<Vec<u8>> = (0..40)
            .map(|number| match number % 2 {
                0 => format!("{number} left half ABCDEFGH").into_bytes(),
                _ => format!("IJKLMNOP right half {number}").into_bytes(),
            })
            .collect();
        samples.push(b"left half ABCDEFGHIJKLMNOP right half".to_vec());
        let dictionary = train(&samples, &TrainConfig::default()).expect("a lot in common");
        assert_eq!(rare_bytes(dictionary.content(), &samples, 3), 0);
    }

    #[test]
    fn too_little_is_said_to_be_too_little() {
        let config = TrainConfig::default();
        assert_eq!(
            train(&messages(19), &config),
            Err(TrainError::TooFewSamples { given: 19, min: 20 })
        );
        let random: Vec<[u8; 64]> = {
            let mut rng = fastrand::Rng::with_seed(2);
            (0..50)
                .map(|_| core::array::from_fn(|_| rng.u8(..)))
                .collect()
        };
        assert!(matches!(
            train(&random, &config),
            Err(TrainError::NothingShared { given: 0, .. })
        ));
        assert!(matches!(
            train(&messages(50), &config.with_max_len(7)),
            Err(TrainError::Config(_))
        ));
    }

    #[test]
    fn lengths_are_kept_to() {
        let samples = messages(300);
        for max_len in [8, 9, 100, 255, 256, 300, 1000, 1 << 20] {
            let config = TrainConfig::default().with_max_len(max_len);
            let dictionary = train(&samples, &config).expect("a lot in common");
            assert!(dictionary.len() <= max_len, "{max_len}");
            assert_eq!(train(&samples, &config), Ok(dictionary), "repeatable");
        }
    }
}
