//! What this build has: families, their levels and which one is meant when none is named.

use super::{Arm, CodecId, Level};

/// A codec family of this build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CodecInfo {
    /// The family.
    pub id: CodecId,
    /// The levels worth choosing among, from the least effort to the most; `[0]` for a family
    /// without levels. [`Self::accepts`] may take more.
    pub levels: &'static [Level],
    /// The level meant when none is named.
    pub default_level: Level,
}

impl CodecInfo {
    /// The lowest and the highest level that the family takes.
    pub fn level_range(&self) -> (Level, Level) {
        let bound = |level: Option<&Level>| level.copied().unwrap_or_default();
        (bound(self.levels.first()), bound(self.levels.last()))
    }

    /// Whether [`Codecs::encode`](super::Codecs::encode) takes this level: any between the lowest
    /// and the highest offered.
    pub fn accepts(&self, level: Level) -> bool {
        let (min, max) = self.level_range();
        (min..=max).contains(&level)
    }

    /// An arm for each level worth choosing.
    pub fn arms(&self) -> impl Iterator<Item = Arm> + use<> {
        let codec = self.id;
        self.levels
            .iter()
            .map(move |&level| Arm::new(codec, level.0))
    }
}

/// Levels from a list of numbers.
macro_rules! levels {
    ($($level:literal),+) => { &[$(Level($level)),+] };
}

const IDENTITY: CodecInfo = CodecInfo {
    id: CodecId::IDENTITY,
    levels: levels![0],
    default_level: Level(0),
};

const LZ4: CodecInfo = CodecInfo {
    id: CodecId::LZ4,
    levels: levels![0],
    default_level: Level(0),
};

const SNAPPY: CodecInfo = CodecInfo {
    id: CodecId::SNAPPY,
    levels: levels![0],
    default_level: Level(0),
};

const ZSTD: CodecInfo = CodecInfo {
    id: CodecId::ZSTD,
    levels: levels![-7, -5, -3, -1, 1, 2, 3, 4, 6, 9, 12, 15, 19],
    // zstd's own default is 3. For messages, 3 takes 10 to 30 % more time than 1 for 1 to 2 % fewer
    // bytes (measured, 256 B to 16 KiB).
    default_level: Level(1),
};

const DEFLATE: CodecInfo = CodecInfo {
    id: CodecId::DEFLATE,
    levels: levels![1, 2, 3, 4, 5, 6, 7, 8, 9],
    // zlib's own default, and what every other deflate is compared with.
    default_level: Level(6),
};

const BZIP2: CodecInfo = CodecInfo {
    id: CodecId::BZIP2,
    levels: levels![1, 2, 3, 4, 5, 6, 7, 8, 9],
    // bzip2's own default. The level is the block size, which is cut to the message anyway: it costs
    // nothing below 80 kB and gains above.
    default_level: Level(9),
};

const XZ: CodecInfo = CodecInfo {
    id: CodecId::XZ,
    levels: levels![0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    // Level 6, xz's own default, takes two (256 B) to five times (16 KiB) the time of 0, for 2 % and
    // 19 % fewer bytes (measured): 0 is already among the slowest things on the shelf.
    default_level: Level(0),
};

/// Every family there is, in this build or not.
const ALL: [CodecInfo; 7] = [IDENTITY, LZ4, SNAPPY, ZSTD, DEFLATE, BZIP2, XZ];

/// The families of this build, in the order of their numbers on the wire. Identity is always there.
pub const fn supported() -> &'static [CodecInfo] {
    const {
        &[
            IDENTITY,
            #[cfg(feature = "lz4")]
            LZ4,
            #[cfg(feature = "snappy")]
            SNAPPY,
            #[cfg(feature = "zstd")]
            ZSTD,
            #[cfg(feature = "deflate")]
            DEFLATE,
            #[cfg(feature = "bzip2")]
            BZIP2,
            #[cfg(feature = "xz")]
            XZ,
        ]
    }
}

/// The family of this number, or `None` if this build does not have it.
pub fn info(codec: CodecId) -> Option<&'static CodecInfo> {
    supported().iter().find(|info| info.id == codec)
}

/// The level meant when none is named, in this build or not: zstd 1, deflate 6, bzip2 9, xz 0; 0
/// for codecs without levels and for unknown ones.
///
/// [`Codecs::encode`](super::Codecs::encode) takes zstd's level 0, which is no level of its own, as
/// this one.
pub fn default_level(codec: CodecId) -> Level {
    ALL.iter()
        .find(|info| info.id == codec)
        .map_or(Level(0), |info| info.default_level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_well_formed() {
        for info in ALL {
            assert!(info.levels.is_sorted(), "{info:?}");
            assert!(info.levels.contains(&info.default_level), "{info:?}");
            assert_eq!(default_level(info.id), info.default_level);
            for arm in info.arms().filter(|arm| arm.level.0 != 0) {
                assert_eq!(arm.to_string().parse(), Ok(arm));
            }
            // Level 0 is not written, so reading back must give it where it is a level.
            assert_eq!(
                info.levels.contains(&Level(0)),
                info.default_level == Level(0)
            );
        }
    }

    #[test]
    fn supported_families_are_known_once_and_in_order() {
        assert!(supported().is_sorted_by_key(|info| info.id));
        assert_eq!(supported().first(), Some(&IDENTITY));
        assert_eq!(default_level(CodecId::from_wire(200)), Level(0));
        assert_eq!(info(CodecId::from_wire(200)), None);
    }
}
