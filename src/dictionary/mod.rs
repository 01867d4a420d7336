//! Dictionaries.
mod content;
mod evaluate;
mod grams;
mod reservoir;
mod train;
pub use self::content::{
    Dictionary, DictionaryError, DictionaryId, DictionaryKind, ID_LEN, MAX_DICTIONARY_LEN,
    MIN_DICTIONARY_LEN, ParseDictionaryIdError,
};
pub use self::evaluate::{Evaluation, dictionary_arms, evaluate};
pub use self::reservoir::Reservoir;
pub use self::train::{TrainConfig, TrainError, rare_bytes, train};
