//! A dictionary and its name.

use core::fmt;
use core::str::FromStr;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

/// Bytes of a [`DictionaryId`].
pub const ID_LEN: usize = 32;

/// The longest dictionary unless a caller says otherwise: 112 KiB, zstd's own default for training.
pub const MAX_DICTIONARY_LEN: usize = 112 << 10;

/// The shortest: zstd silently passes over fewer bytes.
pub const MIN_DICTIONARY_LEN: usize = 8;

/// First bytes of a dictionary with zstd's tables in front of its content (RFC 8878, section 5).
const ZSTD_MAGIC: [u8; 4] = [0x37, 0xA4, 0x30, 0xEC];

/// The name of a dictionary: the SHA-256 of its content. Written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DictionaryId([u8; ID_LEN]);

impl DictionaryId {
    /// The name of these bytes.
    pub fn of(content: &[u8]) -> Self {
        Self(Sha256::digest(content).into())
    }

    /// The name that these bytes are, as received.
    pub const fn from_bytes(bytes: [u8; ID_LEN]) -> Self {
        Self(bytes)
    }

    /// The bytes, as sent.
    pub const fn as_bytes(&self) -> &[u8; ID_LEN] {
        &self.0
    }
}

impl fmt::Display for DictionaryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for DictionaryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not 64 hexadecimal digits.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{given}` is not the name of a dictionary (64 hexadecimal digits)")]
pub struct ParseDictionaryIdError {
    given: String,
}

impl FromStr for DictionaryId {
    type Err = ParseDictionaryIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseDictionaryIdError {
            given: text.to_owned(),
        };
        let digit = |byte: u8| char::from(byte).to_digit(16).ok_or_else(bad);
        let text_bytes = text.as_bytes();
        if text_bytes.len() != 2 * ID_LEN {
            return Err(bad());
        }
        let mut id = [0; ID_LEN];
        for (byte, pair) in id.iter_mut().zip(text_bytes.chunks_exact(2)) {
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(Self(id))
    }
}

/// What the bytes of a dictionary are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DictionaryKind {
    /// Text that messages are expected to repeat.
    Raw,
    /// The same behind zstd's statistics of how its symbols are distributed. Other codecs take all of
    /// it as text.
    Zstd,
}

/// A trained beginning of the history, which both ends hold. Clones share the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Dictionary {
    id: DictionaryId,
    content: Bytes,
}

/// Why bytes are no dictionary.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DictionaryError {
    /// Shorter than any codec takes.
    #[error("a dictionary of {given} bytes: the shortest has {min}")]
    TooShort {
        /// Bytes given.
        given: usize,
        /// [`MIN_DICTIONARY_LEN`].
        min: usize,
    },
    /// Longer than the limit.
    #[error("a dictionary of {given} bytes: the limit is {max}")]
    TooLong {
        /// Bytes given.
        given: usize,
        /// The limit.
        max: usize,
    },
    /// Not the bytes that the name stands for.
    #[error("the dictionary's content has the name {computed}, not {expected}")]
    WrongHash {
        /// The name that was asked for.
        expected: DictionaryId,
        /// The name of the bytes given.
        computed: DictionaryId,
    },
}

impl Dictionary {
    /// A dictionary of these bytes.
    ///
    /// # Errors
    ///
    /// There are fewer than [`MIN_DICTIONARY_LEN`] or more than [`MAX_DICTIONARY_LEN`].
    pub fn new(content: impl Into<Bytes>) -> Result<Self, DictionaryError> {
        Self::with_limit(content, MAX_DICTIONARY_LEN)
    }

    /// A dictionary of these bytes, which may be `max` at most.
    ///
    /// # Errors
    ///
    /// There are fewer than [`MIN_DICTIONARY_LEN`] or more than `max`.
    pub fn with_limit(content: impl Into<Bytes>, max: usize) -> Result<Self, DictionaryError> {
        let content = content.into();
        check_len(content.len(), max)?;
        Ok(Self {
            id: DictionaryId::of(&content),
            content,
        })
    }

    /// The dictionary of this name, from bytes that somebody else says are it.
    ///
    /// # Errors
    ///
    /// They are too few, more than `max`, or others: [`DictionaryError::WrongHash`].
    pub fn verified(
        expected: DictionaryId,
        content: impl Into<Bytes>,
        max: usize,
    ) -> Result<Self, DictionaryError> {
        let dictionary = Self::with_limit(content, max)?;
        if dictionary.id == expected {
            Ok(dictionary)
        } else {
            Err(DictionaryError::WrongHash {
                expected,
                computed: dictionary.id,
            })
        }
    }

    /// Bytes under a name that only those can tell who know what stands before them in the hash.
    pub(crate) fn named(
        before: &[&[u8]],
        content: impl Into<Bytes>,
    ) -> Result<Self, DictionaryError> {
        let content = content.into();
        check_len(content.len(), MAX_DICTIONARY_LEN)?;
        let mut hash = Sha256::new();
        for bytes in before {
            hash.update(bytes);
        }
        hash.update(&content);
        Ok(Self {
            id: DictionaryId(hash.finalize().into()),
            content,
        })
    }

    /// Its name.
    pub const fn id(&self) -> DictionaryId {
        self.id
    }

    /// Its bytes.
    pub const fn content(&self) -> &Bytes {
        &self.content
    }

    /// How many bytes it has; never none.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a dictionary is never empty, so the question makes no sense"
    )]
    pub const fn len(&self) -> usize {
        self.content.len()
    }

    /// What its bytes are.
    pub fn kind(&self) -> DictionaryKind {
        if self.content.starts_with(&ZSTD_MAGIC) {
            DictionaryKind::Zstd
        } else {
            DictionaryKind::Raw
        }
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary")
            .field("id", &self.id)
            .field("len", &self.content.len())
            .finish()
    }
}

fn check_len(given: usize, max: usize) -> Result<(), DictionaryError> {
    if given < MIN_DICTIONARY_LEN {
        Err(DictionaryError::TooShort {
            given,
            min: MIN_DICTIONARY_LEN,
        })
    } else if given > max {
        Err(DictionaryError::TooLong { given, max })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_hash_of_the_content_and_reads_back() {
        let id = DictionaryId::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(id.to_string(), text);
        assert_eq!(text.parse(), Ok(id));
        assert_eq!(text.to_uppercase().parse(), Ok(id));
        for bad in ["", "ba", &text[1..], &text.replace('b', "x")] {
            assert!(bad.parse::<DictionaryId>().is_err(), "{bad}");
        }
        // Two characters of two bytes each are as long as a byte's digits.
        assert!("é".repeat(32).parse::<DictionaryId>().is_err());
    }

    #[test]
    fn lengths_and_names_are_checked() {
        assert_eq!(
            Dictionary::new(&b"short"[..]),
            Err(DictionaryError::TooShort { given: 5, min: 8 })
        );
        assert_eq!(
            Dictionary::with_limit(vec![1; 101], 100),
            Err(DictionaryError::TooLong {
                given: 101,
                max: 100
            })
        );
        let good = Dictionary::new(vec![1; 100]).expect("a length between");
        assert_eq!(
            Dictionary::verified(good.id(), vec![1; 100], 100),
            Ok(good.clone())
        );
        assert!(matches!(
            Dictionary::verified(good.id(), vec![2; 100], 100),
            Err(DictionaryError::WrongHash { expected, .. }) if expected == good.id()
        ));
    }
}
