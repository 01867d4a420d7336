//! What a row holds, and which events become rows of which log: words that control writes and producers read.

use core::fmt;
use core::ops::BitOr;

/// The most words of a row: seven fields and a stamp, a cache line.
pub(super) const MAX_ROW_WORDS: usize = 8;

/// Number of an event in its log's list of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub(super) u16);

/// Number of an *accounting domain*: those whose events are counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Domain(pub(super) u16);

/// Number of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogId(pub(super) u16);

macro_rules! index {
    ($name:ident, $what:literal) => {
        impl $name {
            #[doc = concat!("The ", $what, " at a place of its list. One that is not there is never recorded.")]
            pub const fn new(index: u16) -> Self {
                Self(index)
            }

            /// Its place in the list.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index!(EventId, "event");
index!(Domain, "domain");
index!(LogId, "log");

/// What an event's counter says (Stöß 2005, section 3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// Something was used or changed: the counter is how often, mostly 1.
    Access,
    /// Who used something leaves it: the counter is what was used in between, such as nanoseconds or bytes. [`Phases`](super::Phases) makes it of entries and exits.
    Exit,
    /// A sample of what has come about before: the counter is how much of it there is.
    Gauge,
}

impl EventKind {
    pub(super) const fn code(self) -> u64 {
        match self {
            Self::Access => 0,
            Self::Exit => 1,
            Self::Gauge => 2,
        }
    }

    pub(super) const fn from_code(code: u64) -> Option<Self> {
        match code {
            0 => Some(Self::Access),
            1 => Some(Self::Exit),
            2 => Some(Self::Gauge),
            _ => None,
        }
    }
}

/// When a row was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stamp {
    /// Nobody knows.
    #[default]
    Off,
    /// How many stamps the writer gave before: an order, for next to nothing.
    Virtual,
    /// Nanoseconds of the system's monotonic clock at its last tick, of 1 to 10 ms. On systems without such a clock, the clock.
    Tick,
    /// The processor's time stamp counter: the finest there is. [`Timebase`](super::Timebase) makes nanoseconds of it.
    Cycles,
}

/// Fields of a row.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Fields(u8);

impl Fields {
    /// None: a log without fields only counts its rows.
    pub const NONE: Self = Self(0);
    /// Which event.
    pub const EVENT: Self = Self(1);
    /// The domain whose event it is.
    pub const DOMAIN: Self = Self(2);
    /// How much.
    pub const COUNTER: Self = Self(4);
    /// The domain on the other side.
    pub const CORRESPONDENT: Self = Self(8);
    /// The event's arguments: what each is, whoever makes the event says ([`Writer::record_with`](super::Writer::record_with)).
    pub const FIRST: Self = Self(16);
    /// The second argument.
    pub const SECOND: Self = Self(32);
    /// The third argument.
    pub const THIRD: Self = Self(64);
    /// The four that every event has.
    pub const USUAL: Self = Self(15);
    /// All seven. With a stamp, they fill a row of 64 bytes.
    pub const ALL: Self = Self(127);

    /// Whether these hold all of `fields`.
    pub const fn contain(self, fields: Self) -> bool {
        self.0 & fields.0 == fields.0
    }
}

impl BitOr for Fields {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::EVENT, "event"),
            (Self::DOMAIN, "domain"),
            (Self::COUNTER, "counter"),
            (Self::CORRESPONDENT, "correspondent"),
            (Self::FIRST, "first"),
            (Self::SECOND, "second"),
            (Self::THIRD, "third"),
        ];
        let held = names.iter().filter(|(field, _)| self.contain(*field));
        f.debug_set().entries(held.map(|(_, name)| name)).finish()
    }
}

/// What the rows of a log are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowFormat {
    fields: Fields,
    stamp: Stamp,
    counting: bool,
}

impl RowFormat {
    /// Rows of these fields, one after another, the oldest overwritten.
    pub const fn new(fields: Fields, stamp: Stamp) -> Self {
        Self {
            fields,
            stamp,
            counting: false,
        }
    }

    /// One row, whose counter is the sum of all counters and whose other fields are the last event's.
    #[must_use]
    pub const fn counting(self) -> Self {
        Self {
            counting: true,
            ..self
        }
    }

    /// Which fields.
    pub const fn fields(self) -> Fields {
        self.fields
    }

    /// Which time.
    pub const fn stamp(self) -> Stamp {
        self.stamp
    }

    /// Whether there is one row, which adds up.
    pub const fn is_counting(self) -> bool {
        self.counting
    }

    /// Words of a row: a power of two, or none.
    pub(super) const fn row_words(self) -> usize {
        match self.used_words() {
            0 => 0,
            fields => fields.next_power_of_two(),
        }
    }

    /// .. of which so many are used.
    pub(super) const fn used_words(self) -> usize {
        let stamp = match self.stamp {
            Stamp::Off => 0,
            Stamp::Virtual | Stamp::Tick | Stamp::Cycles => 1,
        };
        self.fields.0.count_ones() as usize + stamp
    }

    pub(super) const fn code(self) -> u64 {
        let stamp = match self.stamp {
            Stamp::Off => 0,
            Stamp::Virtual => 1,
            Stamp::Tick => 2,
            Stamp::Cycles => 3,
        };
        self.fields.0 as u64 | stamp << 8 | (self.counting as u64) << 10
    }

    /// What the low bits of `code` say: there is no code that says nothing.
    pub(super) const fn from_code(code: u64) -> Self {
        Self {
            fields: Fields((code & 127) as u8),
            stamp: match code >> 8 & 3 {
                0 => Stamp::Off,
                1 => Stamp::Virtual,
                2 => Stamp::Tick,
                _ => Stamp::Cycles,
            },
            counting: code >> 10 & 1 == 1,
        }
    }
}

/// Bits of a format's code.
pub(super) const FORMAT_BITS: u32 = 16;

/// Where an event of a domain goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    log: LogId,
    every: u32,
    skips_internal: bool,
}

impl Route {
    /// Every event becomes a row of this log.
    pub const fn to(log: LogId) -> Self {
        Self {
            log,
            every: 1,
            skips_internal: false,
        }
    }

    /// Only every `n`-th of each domain does, in each thread; 0 is taken for 1. What a row counts is its own event's.
    #[must_use]
    pub const fn every(self, n: u32) -> Self {
        Self {
            every: if n == 0 { 1 } else { n },
            ..self
        }
    }

    /// Events whose two domains are one do not.
    #[must_use]
    pub const fn skip_internal(self) -> Self {
        Self {
            skips_internal: true,
            ..self
        }
    }

    /// The log.
    pub const fn log(self) -> LogId {
        self.log
    }

    /// Of how many events one becomes a row.
    pub const fn threshold(self) -> u32 {
        self.every
    }

    /// Whether events within one domain are left out.
    pub const fn skips_internal(self) -> bool {
        self.skips_internal
    }

    pub(super) const fn code(self) -> u64 {
        (self.log.0 as u64 + 1) | (self.skips_internal as u64) << 17 | (self.every as u64) << 32
    }

    /// The code of the route by which every event becomes a row of the first log.
    pub(super) const FIRST: u64 = Self::to(LogId(0)).code();

    /// The place of the log of a route by which every event becomes a row; `None` for any other.
    #[inline]
    pub(super) const fn plain(code: u64) -> Option<usize> {
        match code.wrapping_sub(Self::FIRST) {
            log @ 0..=0xffff => Some(log as usize),
            _ => None,
        }
    }

    /// `None` for what goes nowhere.
    pub(super) const fn from_code(code: u64) -> Option<Self> {
        match code & 0x1_ffff {
            log @ 1..=0x1_0000 => Some(Self {
                log: LogId((log - 1) as u16),
                every: (code >> 32) as u32,
                skips_internal: code >> 17 & 1 == 1,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_back() {
        for code in (0..1 << 11).filter(|code| code & 128 == 0) {
            assert_eq!(RowFormat::from_code(code).code(), code);
        }
        for route in [
            Route::to(LogId(0)),
            Route::to(LogId(u16::MAX)).every(u32::MAX).skip_internal(),
        ] {
            assert_eq!(Route::from_code(route.code()), Some(route));
        }
        assert_eq!(Route::from_code(0), None);
        for log in [0, 1, u16::MAX] {
            let route = Route::to(LogId(log));
            assert_eq!(Route::plain(route.code()), Some(log.into()));
            assert_eq!(Route::plain(route.every(2).code()), None);
            assert_eq!(Route::plain(route.skip_internal().code()), None);
        }
        assert_eq!(Route::plain(0), None);
    }

    #[test]
    fn rows_are_powers_of_two() {
        let words = |fields, stamp| RowFormat::new(fields, stamp).row_words();
        assert_eq!(words(Fields::NONE, Stamp::Off), 0);
        assert_eq!(words(Fields::COUNTER, Stamp::Off), 1);
        assert_eq!(words(Fields::COUNTER, Stamp::Virtual), 2);
        assert_eq!(words(Fields::EVENT | Fields::COUNTER, Stamp::Tick), 4);
        assert_eq!(words(Fields::USUAL, Stamp::Off), 4);
        assert_eq!(words(Fields::USUAL, Stamp::Cycles), 8);
        assert_eq!(words(Fields::ALL, Stamp::Off), MAX_ROW_WORDS);
        assert_eq!(words(Fields::ALL, Stamp::Cycles), MAX_ROW_WORDS);
    }
}
