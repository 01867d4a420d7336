//! Names of codecs, levels and their pairing.

use core::fmt;
use core::str::FromStr;

/// A codec family as named on the wire (one byte; assigned in docs/wire.md, never reused).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodecId(u8);

impl CodecId {
    /// Bytes as they are.
    pub const IDENTITY: Self = Self(0);
    /// LZ4 block format.
    pub const LZ4: Self = Self(1);
    /// Snappy raw format.
    pub const SNAPPY: Self = Self(2);
    /// Zstandard, magicless frames.
    pub const ZSTD: Self = Self(3);
    /// Raw DEFLATE (RFC 1951).
    pub const DEFLATE: Self = Self(4);
    /// bzip2 streams.
    pub const BZIP2: Self = Self(5);
    /// Raw LZMA1 with an end mark: what xz does, without its container.
    pub const XZ: Self = Self(6);

    const NAMES: [(Self, &'static str); 7] = [
        (Self::IDENTITY, "identity"),
        (Self::LZ4, "lz4"),
        (Self::SNAPPY, "snappy"),
        (Self::ZSTD, "zstd"),
        (Self::DEFLATE, "deflate"),
        (Self::BZIP2, "bzip2"),
        (Self::XZ, "xz"),
    ];

    /// The codec with this number on the wire, known to this build or not.
    pub const fn from_wire(byte: u8) -> Self {
        Self(byte)
    }

    /// The number on the wire.
    pub const fn to_wire(self) -> u8 {
        self.0
    }

    /// The family's usual name, or `None` for a number this version does not know.
    pub fn name(self) -> Option<&'static str> {
        Self::NAMES
            .iter()
            .find(|(id, _)| *id == self)
            .map(|(_, name)| *name)
    }
}

impl fmt::Display for CodecId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "codec {}", self.0),
        }
    }
}

impl fmt::Debug for CodecId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How hard a codec tries, on the codec's own scale; 0 where it has no levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(pub i8);

/// One thing that a policy can choose: a codec at a level, with history, with a dictionary, or with neither.
/// Written `zstd:3`, `lz4` where the codec has no levels or the default one is meant, `zstd:3+history` and
/// `zstd:3+dictionary`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arm {
    /// The codec.
    pub codec: CodecId,
    /// Its level.
    pub level: Level,
    /// Whether each block is encoded with those before it as its past.
    pub history: bool,
    /// Whether it is encoded with the dictionary of its class of traffic. Blocks with history need no such arm:
    /// their past begins with the dictionary where there is one.
    pub dictionary: bool,
}

impl Arm {
    /// Bytes as they are.
    pub const IDENTITY: Self = Self::new(CodecId::IDENTITY, 0);

    /// `codec` at `level`, each block by itself.
    pub const fn new(codec: CodecId, level: i8) -> Self {
        Self {
            codec,
            level: Level(level),
            history: false,
            dictionary: false,
        }
    }

    /// The same codec and level with history.
    #[must_use]
    pub const fn with_history(self) -> Self {
        Self {
            history: true,
            dictionary: false,
            ..self
        }
    }

    /// The same codec and level with a dictionary, each block otherwise by itself.
    #[must_use]
    pub const fn with_dictionary(self) -> Self {
        Self {
            history: false,
            dictionary: true,
            ..self
        }
    }

    /// The same codec and level, each block by itself.
    #[must_use]
    pub const fn alone(self) -> Self {
        Self {
            history: false,
            dictionary: false,
            ..self
        }
    }
}

/// What follows the name of an arm with history, and of one with a dictionary.
const HISTORY: &str = "+history";
const DICTIONARY: &str = "+dictionary";

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let past = match (self.history, self.dictionary) {
            (true, _) => HISTORY,
            (_, true) => DICTIONARY,
            _ => "",
        };
        match self.level.0 {
            0 => f.pad(&format!("{}{past}", self.codec)),
            level => f.pad(&format!("{}:{level}{past}", self.codec)),
        }
    }
}

impl fmt::Debug for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text does not name an [`Arm`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseArmError {
    /// No codec has this name.
    #[error("no codec is called `{0}`")]
    UnknownCodec(String),
    /// The part after the colon is not a level.
    #[error("`{0}` is not a level (a whole number from -128 to 127)")]
    BadLevel(String),
}

impl FromStr for Arm {
    type Err = ParseArmError;

    /// Reads `zstd:3`, `zstd` (default level of the family), `lz4`, `zstd:3+history` or `zstd:3+dictionary`. Whether this build has the
    /// codec and the codec has the level is for [`Codecs`](super::Codecs) to say.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (text, history) = match text.strip_suffix(HISTORY) {
            Some(text) => (text, true),
            None => (text, false),
        };
        let (text, dictionary) = match text.strip_suffix(DICTIONARY) {
            Some(text) if !history => (text, true),
            _ => (text, false),
        };
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level)),
            None => (text, None),
        };
        let codec = CodecId::NAMES
            .iter()
            .find(|(_, known)| *known == name)
            .map(|(id, _)| *id)
            .ok_or_else(|| ParseArmError::UnknownCodec(name.to_owned()))?;
        let level = match level {
            Some(level) => Level(
                level
                    .parse()
                    .map_err(|_| ParseArmError::BadLevel(level.to_owned()))?,
            ),
            None => super::default_level(codec),
        };
        Ok(Self {
            codec,
            level,
            history,
            dictionary,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for text in [
            "identity",
            "lz4",
            "zstd:-5",
            "zstd:19",
            "deflate:6",
            "lz4+history",
            "zstd:3+history",
            "lz4+dictionary",
            "zstd:3+dictionary",
        ] {
            assert_eq!(text.parse::<Arm>().expect("a known arm").to_string(), text);
        }
        assert!("brotli:3".parse::<Arm>().is_err());
        assert!("zstd:999".parse::<Arm>().is_err());
        assert!("zstd+past".parse::<Arm>().is_err());
        assert!("zstd+dictionary+history".parse::<Arm>().is_err());
    }
}
