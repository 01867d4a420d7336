//! Seeded generators of messages, for demonstrations, tests and loads that need no recorded data.
//!
//! ```
//! use tautline::generate::{Content, Generator};
//!
//! let once: Vec<_> = Generator::new(Content::Telecom, 7).take(100).collect();
//! let again: Vec<_> = Generator::new("telecom".parse()?, 7).take(100).collect();
//! assert_eq!(once, again);
//! # Ok::<(), tautline::generate::ParseContentError>(())
//! ```
//!
//! # What they resemble
//!
//! Ratios are plain bytes to bytes of zstd at level 3: of each message alone; of blocks of 64 KiB; and
//! of one stream that is flushed after every message, so that each finds all before it as history.
//! The unit tests keep every content within a tenth of these figures.
//!
//! | content | mean length | alone | blocks | stream | stands for |
//! |---|---|---|---|---|---|
//! | `telecom` | 190 | 1.35 | 7.0 | 5.0 | signalling of a mobile network |
//! | `metrics` | 5000 | 3.8 | 17.3 | 16.2 | a server's status documents |
//! | `events` | 280 | 1.37 | 13.5 | 7.7 | reports of small devices |
//! | `logs` | 215 | 1.15 | 8.0 | 5.7 | a web server's log |
//! | `csv` | 73 | 0.97 | 3.2 | 1.7 | measurements |
//! | `text` | 262144 | 2.4 | 2.4 | 2.6 | prose |
//! | `media` | 65536 | 1.0 | 1.0 | 1.0 | what was compressed before |
//! | `zeros` | 65536 | 3277 | 3277 | 13270 | the best case of every codec |
//! | `ones` | 65536 | 3277 | 3277 | 13270 | the same, of other bytes |
//!
//! Recorded 5G and LTE signalling has a mean of 150 to 190 bytes and ratios of 1.3 to 1.4 alone, 6.4 to
//! 6.8 in blocks and 5.6 to 5.7 as a stream. What is generated is a likeness in size, share of
//! repetition and pace of change. It is no valid message of any protocol.

mod bulk;
mod calendar;
mod lines;
mod records;
mod telecom;

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;

use self::bulk::{Media, Prose};
use self::lines::{Csv, Logs};
use self::records::{Events, Metrics};
use self::telecom::Telecom;

/// What a generator makes; the [module](self) has their figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Content {
    /// Control messages of a mobile network: binary elements, SIP-like text, JSON over HTTP. Name
    /// `telecom`.
    Telecom,
    /// JSON status documents with counters. Name `metrics`.
    Metrics,
    /// JSON events of small devices. Name `events`.
    Events,
    /// Lines of a web server's log. Name `logs`.
    Logs,
    /// Lines of comma-separated measurements. Name `csv`.
    Csv,
    /// Prose of invented words, 256 KiB a message. Name `text`.
    Text,
    /// Random bytes, 64 KiB a message, as media that were compressed before. Name `media`.
    Media,
    /// Bytes of all bits zero, 64 KiB a message. Name `zeros`.
    Zeros,
    /// Bytes of all bits one, 64 KiB a message. Name `ones`.
    Ones,
}

impl Content {
    /// Every content.
    pub const ALL: &'static [Self] = &[
        Self::Telecom,
        Self::Metrics,
        Self::Events,
        Self::Logs,
        Self::Csv,
        Self::Text,
        Self::Media,
        Self::Zeros,
        Self::Ones,
    ];

    /// The name, as [`FromStr`] takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Telecom => "telecom",
            Self::Metrics => "metrics",
            Self::Events => "events",
            Self::Logs => "logs",
            Self::Csv => "csv",
            Self::Text => "text",
            Self::Media => "media",
            Self::Zeros => "zeros",
            Self::Ones => "ones",
        }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is not one of a [`Content`].
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "no content is called `{given}` (there are telecom, metrics, events, logs, csv, text, media, \
     zeros, ones)"
)]
pub struct ParseContentError {
    given: String,
}

impl FromStr for Content {
    type Err = ParseContentError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|content| content.name() == name);
        found.copied().ok_or_else(|| ParseContentError {
            given: name.to_owned(),
        })
    }
}

/// An endless sequence of messages that content and seed determine. `next` never returns `None`.
///
/// The same seed gives the same bytes on every platform. A new version of this crate, or of `fastrand`,
/// may give others.
#[derive(Clone, Debug)]
pub struct Generator {
    content: Content,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Telecom(Telecom),
    Metrics(Metrics),
    Events(Events),
    Logs(Logs),
    Csv(Csv),
    Text(Prose),
    Media(Media),
    Constant(Bytes),
}

impl Generator {
    /// The messages of `content` from the start of the sequence that `seed` names.
    pub fn new(content: Content, seed: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        let source = match content {
            Content::Telecom => Source::Telecom(Telecom::new(rng)),
            Content::Metrics => Source::Metrics(Metrics::new(rng)),
            Content::Events => Source::Events(Events::new(rng)),
            Content::Logs => Source::Logs(Logs::new(rng)),
            Content::Csv => Source::Csv(Csv::new(rng)),
            Content::Text => Source::Text(Prose::new(rng)),
            Content::Media => Source::Media(Media::new(rng)),
            Content::Zeros => Source::Constant(bulk::constant(0x00)),
            Content::Ones => Source::Constant(bulk::constant(0xff)),
        };
        Self { content, source }
    }

    /// What it makes.
    pub fn content(&self) -> Content {
        self.content
    }
}

impl Iterator for Generator {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        Some(match &mut self.source {
            Source::Telecom(source) => source.message(),
            Source::Metrics(source) => source.message(),
            Source::Events(source) => source.message(),
            Source::Logs(source) => source.message(),
            Source::Csv(source) => source.message(),
            Source::Text(source) => source.message(),
            Source::Media(source) => source.message(),
            Source::Constant(message) => message.clone(),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

impl std::iter::FusedIterator for Generator {}

/// An index below `len`, each as likely. `Rng::usize` would depend on the width of a pointer.
fn index(rng: &mut fastrand::Rng, len: usize) -> usize {
    rng.u32(..len as u32) as usize
}

/// One of `choices`, the earlier the more likely: the first tenth is taken nearly half of the time.
fn skewed<'a, T>(rng: &mut fastrand::Rng, choices: &'a [T]) -> &'a T {
    // Only multiplication, which gives the same result on every platform.
    let uniform = rng.f64();
    let index = (uniform * uniform * uniform * choices.len() as f64) as usize;
    &choices[index.min(choices.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documented figures: mean length, and the ratios alone, in blocks and as a stream.
    fn figures(content: Content) -> (f64, [f64; 3]) {
        match content {
            Content::Telecom => (190.0, [1.35, 7.0, 5.0]),
            Content::Metrics => (5000.0, [3.8, 17.3, 16.2]),
            Content::Events => (280.0, [1.37, 13.5, 7.7]),
            Content::Logs => (215.0, [1.15, 8.0, 5.7]),
            Content::Csv => (73.0, [0.97, 3.2, 1.7]),
            Content::Text => (262_144.0, [2.4, 2.4, 2.6]),
            Content::Media => (65_536.0, [1.0, 1.0, 1.0]),
            Content::Zeros | Content::Ones => (65_536.0, [3277.0, 3277.0, 13_270.0]),
        }
    }

    fn sample(content: Content, seed: u64) -> Vec<Bytes> {
        let count = match content {
            Content::Text => 8,
            Content::Media | Content::Zeros | Content::Ones => 16,
            Content::Metrics => 300,
            _ => 5000,
        };
        Generator::new(content, seed).take(count).collect()
    }

    #[track_caller]
    fn assert_near(measured: f64, documented: f64, what: &str) {
        let ratio = measured / documented;
        assert!(
            (0.9..1.1).contains(&ratio),
            "{what}: {measured:.2}, documented {documented}"
        );
    }

    fn mean_len(messages: &[Bytes]) -> f64 {
        messages.concat().len() as f64 / messages.len() as f64
    }

    #[test]
    fn names_round_trip() {
        for content in Content::ALL {
            assert_eq!(content.to_string().parse(), Ok(*content));
        }
        assert!("noise".parse::<Content>().is_err());
    }

    #[test]
    fn a_seed_determines_the_messages() {
        for content in Content::ALL {
            let once = sample(*content, 3);
            assert_eq!(once, sample(*content, 3));
            if !matches!(content, Content::Zeros | Content::Ones) {
                assert_ne!(once, sample(*content, 4), "{content}");
            }
            assert!(once.iter().all(|message| !message.is_empty()));
        }
    }

    #[test]
    fn mean_lengths_are_as_documented() {
        for content in Content::ALL {
            for seed in 0..3 {
                let mean = mean_len(&sample(*content, seed));
                assert_near(mean, figures(*content).0, content.name());
            }
        }
    }

    #[test]
    #[cfg(feature = "corpus")]
    fn json_is_json() {
        for content in [Content::Metrics, Content::Events] {
            for message in sample(content, 1) {
                serde_json::from_slice::<serde_json::Value>(&message).unwrap();
            }
        }
    }

    #[cfg(feature = "zstd")]
    mod compressed {
        use super::*;
        use zstd_safe::zstd_sys::ZSTD_EndDirective;
        use zstd_safe::{CCtx, InBuffer, OutBuffer};

        const LEVEL: i32 = 3;

        fn compressed_len(plain: &[u8]) -> usize {
            let mut wire = vec![0; zstd_safe::compress_bound(plain.len())];
            zstd_safe::compress(&mut wire[..], plain, LEVEL).unwrap()
        }

        fn streamed_len(messages: &[Bytes]) -> usize {
            let mut context = CCtx::create();
            let mut total = 0;
            for message in messages {
                let mut wire = vec![0; zstd_safe::compress_bound(message.len()) + 64];
                let mut output = OutBuffer::around(&mut wire[..]);
                let mut input = InBuffer::around(message);
                let flush = ZSTD_EndDirective::ZSTD_e_flush;
                let left = context.compress_stream2(&mut output, &mut input, flush);
                assert_eq!(left, Ok(0));
                total += output.pos();
            }
            total
        }

        #[test]
        fn media_do_not_compress() {
            for message in sample(Content::Media, 5) {
                assert!(compressed_len(&message) >= message.len());
            }
        }

        #[test]
        fn ratios_are_as_documented() {
            for content in Content::ALL {
                for seed in 0..2 {
                    let messages = sample(*content, seed);
                    let together = messages.concat();
                    let plain = together.len() as f64;
                    let alone: usize = messages.iter().map(|m| compressed_len(m)).sum();
                    let blocks: usize = together.chunks(64 << 10).map(compressed_len).sum();
                    let measured =
                        [alone, blocks, streamed_len(&messages)].map(|len| plain / len as f64);
                    println!(
                        "{content:8} mean {:.0} ratios {measured:.2?}",
                        mean_len(&messages)
                    );
                    for (measured, documented) in measured.into_iter().zip(figures(*content).1) {
                        assert_near(measured, documented, content.name());
                    }
                }
            }
        }
    }
}
