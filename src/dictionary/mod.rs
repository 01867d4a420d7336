//! Dictionaries: what messages of a class have in common, held by both ends, so that short messages
//! need not say it.
//!
//! ```
//! # #[cfg(all(feature = "zstd", feature = "generate"))] {
//! use tautline::codecs::{Arm, Codecs, Encoded};
//! use tautline::dictionary::{TrainConfig, evaluate, train};
//! use tautline::generate::{Content, Generator};
//!
//! let messages: Vec<_> = Generator::new(Content::Telecom, 1).take(3000).collect();
//! let (samples, held_out) = messages.split_at(2000);
//! let dictionary = train(samples, &TrainConfig::default())?;
//! let arm: Arm = "zstd:3".parse()?;
//! let mut codecs = Codecs::new();
//! let worth = evaluate(&mut codecs, &dictionary, held_out, arm)?;
//! assert!(worth.ratio_with() > 1.5 * worth.ratio_without());
//!
//! let mut wire = vec![0; held_out[0].len()];
//! if let Encoded::Written(len) = codecs.encode_with(arm, &dictionary, &held_out[0], &mut wire)? {
//!     let mut back = vec![0; held_out[0].len()];
//!     codecs.decode_exact_with(arm.codec, &dictionary, &wire[..len], &mut back)?;
//!     assert_eq!(back, held_out[0]);
//! }
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The life of a dictionary
//!
//! A [`Reservoir`] keeps a uniform sample of distinct messages; [`train`] makes a [`Dictionary`] of what
//! enough of them have in common; [`evaluate`] says what it is worth on messages that it was not made
//! of, and after how many it has paid for its own way. A [`Trainer`] does all this at the right times, and
//! notices when messages have changed. The SHA-256 of its content names a dictionary
//! ([`DictionaryId`]), so that whoever holds it knows that it is the same.
//!
//! Nothing here reads a clock, a file or a global; a cache on disk is
//! [`DictionaryCache`](cache::DictionaryCache), with feature `dictionary-cache`.
//!
//! # Trust
//!
//! What a dictionary was made of can partly be read from it, and from the lengths of what is encoded with
//! it. So: one trainer, one cache directory and one set of dictionaries for each trust domain; what is
//! sensitive is never offered; a substring of eight bytes enters only if several distinct messages have it
//! ([`TrainConfig::min_sources`]); from others, dictionaries are taken only as [`AcceptancePolicy`] allows.
//! What these rules do not give is in docs/security.md.

mod acceptance;
#[cfg(feature = "dictionary-cache")]
pub mod cache;
mod content;
mod evaluate;
mod grams;
mod recent;
mod reservoir;
mod train;
mod trainer;

pub use self::acceptance::{Acceptance, AcceptancePolicy, Refusal};
pub use self::content::{
    Dictionary, DictionaryError, DictionaryId, DictionaryKind, ID_LEN, MAX_DICTIONARY_LEN,
    MIN_DICTIONARY_LEN, ParseDictionaryIdError,
};
pub use self::evaluate::{Evaluation, dictionary_arms, evaluate};
pub use self::reservoir::Reservoir;
pub use self::train::{TrainConfig, TrainError, rare_bytes, train};
pub use self::trainer::{
    NotTrained, Retirement, TrainJob, Trained, Trainer, TrainerConfig, TrainerEvent, TrainerStats,
};
