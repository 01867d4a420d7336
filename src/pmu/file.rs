//! Files of TOML or JSON, from anybody.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

use super::error::FileError;

/// The longest file, bytes: far more than any processor's events take.
const MAX_FILE: u64 = 1 << 20;

/// The text of a file.
pub(super) fn read(path: &Path) -> Result<String, FileError> {
    let failure = |source| FileError::Io {
        path: path.to_owned(),
        source,
    };
    let mut text = String::new();
    let file = File::open(path).map_err(failure)?;
    // One byte more than is taken: then it is too long.
    let read = file.take(MAX_FILE + 1).read_to_string(&mut text);
    read.map_err(failure)?;
    Ok(text)
}

/// What a text says: JSON, if it begins like it, and else TOML.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, FileError> {
    if text.len() as u64 > MAX_FILE {
        return Err(FileError::TooLong { max: MAX_FILE });
    }
    if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| FileError::Syntax(error.to_string()))
    } else {
        toml::from_str(text).map_err(|error| FileError::Syntax(error.to_string()))
    }
}

/// As much of a name as a message has room for.
pub(super) fn shorten(name: &str) -> String {
    name.chars().take(80).collect()
}

/// A number of 64 bits: as such, or as text in decimal or after `0x` (JSON has no other way to say it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(pub(super) u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(u64),
            Text(String),
        }
        match Either::deserialize(deserializer)? {
            Either::Number(number) => Ok(Self(number)),
            Either::Text(text) => number(&text)
                .map(Self)
                .ok_or_else(|| D::Error::custom(format!("{:?} is no number", shorten(&text)))),
        }
    }
}

/// A number in decimal or after `0x`.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
