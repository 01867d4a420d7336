//! What a log area consists of, and where in it everything lies.
//!
//! ```text
//! header | switches of events | events | domains | logs | routes: domains x events | kept routes, formats | writer | writer | ..
//!
//! writer   who it is | registers of its logs | their rings
//! ```
//!
//! All of it is words of 64 bits. What producers write begins at cache lines of its own.

use super::error::{EventLogError, ReadError};
use super::format::{MAX_ROW_WORDS, RowFormat};

/// Words of a cache line.
pub(super) const LINE: usize = 8;
/// What a log area begins with: "tautlog" and the version of this layout.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"tautlog\x04");
/// Words of the header.
pub(super) const HEADER: usize = 2 * LINE;
/// Words of an event, a domain: a name, and one word more.
pub(super) const NAMED: usize = LINE;
/// Bytes of a name at most.
pub(super) const MAX_NAME: usize = 8 * (NAMED - 1);
/// Words of a log's description: its name, its ring's length, its format.
pub(super) const LOG: usize = 2 * LINE;
/// The most there may be of each, so that a peer's header makes nobody reserve more than this.
pub(super) const MAX_EVENTS: usize = 1024;
pub(super) const MAX_DOMAINS: usize = 4096;
pub(super) const MAX_LOGS: usize = 1024;
pub(super) const MAX_WRITERS: usize = 4096;
/// Words of a ring at most: 1 GiB.
pub(super) const MAX_RING: usize = 1 << 27;
/// Words of an area at most: 64 GiB.
const MAX_WORDS: usize = 1 << 33;

/// Words of the header.
pub(super) mod header {
    pub(in super::super) const MAGIC: usize = 0;
    pub(in super::super) const EVENTS: usize = 1;
    pub(in super::super) const DOMAINS: usize = 2;
    pub(in super::super) const LOGS: usize = 3;
    pub(in super::super) const WRITERS: usize = 4;
    pub(in super::super) const WORDS: usize = 5;
    pub(in super::super) const PROCESS: usize = 6;
    /// Events that found no writer free.
    pub(in super::super) const UNRECORDED: usize = 7;
    /// A reading of both clocks, when the area was made.
    pub(in super::super) const CYCLES: usize = 8;
    pub(in super::super) const NANOS: usize = 9;
    /// Whether routes and formats from before the visits that there are are kept.
    pub(in super::super) const KEPT: usize = 10;
    /// Which settings these are: routes or formats were set each time it changes, whichever process does it ([`stamp::after`](super::super::stamp::after)).
    pub(in super::super) const SET: usize = 11;
}

/// Words of a log's description.
pub(super) mod log {
    pub(in super::super) const RING: usize = super::LINE;
    pub(in super::super) const FORMAT: usize = super::LINE + 1;
}

/// Words of a writer's register of a log.
pub(super) mod register {
    /// The format of the rows there are, and the number of the first that has it.
    pub(in super::super) const FORMAT: usize = 0;
    /// Rows written.
    pub(in super::super) const INDEX: usize = 1;
    /// .. and begun, where one row counts.
    pub(in super::super) const BEGUN: usize = 2;
}

/// How many there are of each, and how long the rings are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) events: usize,
    pub(super) domains: usize,
    pub(super) writers: usize,
    /// Words of each log's ring.
    pub(super) rings: Vec<usize>,
    /// Where a ring begins within what is a writer's.
    ring_starts: Vec<usize>,
    writer_words: usize,
    /// Where descriptions of events, domains and logs, routes and writers begin.
    events_at: usize,
    domains_at: usize,
    logs_at: usize,
    routes_at: usize,
    writers_at: usize,
}

impl Shape {
    /// # Errors
    ///
    /// There are too many of something, or none, or a ring has a length that none may have.
    pub(super) fn new(
        events: usize,
        domains: usize,
        writers: usize,
        rings: Vec<usize>,
    ) -> Result<Self, EventLogError> {
        let most = [
            ("events", events, MAX_EVENTS),
            ("domains", domains, MAX_DOMAINS),
            ("logs", rings.len(), MAX_LOGS),
            ("writers", writers, MAX_WRITERS),
        ];
        for (what, given, max) in most {
            if given == 0 || given > max {
                return Err(EventLogError::Count { what, given, max });
            }
        }
        let mut next = LINE + rings.len() * LINE;
        let mut ring_starts = Vec::with_capacity(rings.len());
        for &ring in &rings {
            if !ring.is_power_of_two() || !(2..=MAX_RING).contains(&ring) {
                return Err(EventLogError::RingLen {
                    given: ring.saturating_mul(8),
                    max: MAX_RING * 8,
                });
            }
            ring_starts.push(next);
            next += ring.next_multiple_of(LINE);
        }
        let events_at = (HEADER + events).next_multiple_of(LINE);
        let domains_at = events_at + events * NAMED;
        let logs_at = Self::first_log(events, domains);
        let routes_at = logs_at + rings.len() * LOG;
        let routes = events * domains;
        let mut shape = Self {
            events,
            domains,
            writers,
            rings,
            ring_starts,
            writer_words: next,
            events_at,
            domains_at,
            logs_at,
            routes_at,
            writers_at: 0,
        };
        shape.writers_at = (shape.kept() + routes + shape.rings.len()).next_multiple_of(LINE);
        if shape.words() > MAX_WORDS {
            return Err(EventLogError::AreaLen {
                given: shape.words().saturating_mul(8),
                max: MAX_WORDS * 8,
            });
        }
        Ok(shape)
    }

    /// What the first words of an area, and those of its logs, say; `word` reads one. The area has `words`.
    ///
    /// # Errors
    ///
    /// It is no log area, or not one of a length such as it says.
    pub(super) fn read(
        words: usize,
        mut word: impl FnMut(usize) -> Result<u64, ReadError>,
    ) -> Result<Self, ReadError> {
        if words < HEADER || word(header::MAGIC)? != MAGIC {
            return Err(ReadError::NotALog);
        }
        let mut count = |at| Ok::<_, ReadError>(usize::try_from(word(at)?).unwrap_or(usize::MAX));
        let (events, domains) = (count(header::EVENTS)?, count(header::DOMAINS)?);
        let (logs, writers) = (count(header::LOGS)?, count(header::WRITERS)?);
        // Before anything is reserved.
        if events > MAX_EVENTS || domains > MAX_DOMAINS || logs > MAX_LOGS {
            return Err(ReadError::Damaged("its counts are beyond all bounds"));
        }
        let first = Self::first_log(events, domains);
        // What is cut off before the lengths of its logs has at least said how long it was.
        if words < first + logs * LOG {
            return Err(ReadError::Truncated {
                given: words * 8,
                expected: count(header::WORDS)?.saturating_mul(8),
            });
        }
        let rings = (0..logs).map(|number| count(first + number * LOG + log::RING));
        let rings = rings.collect::<Result<Vec<_>, _>>()?;
        let shape = Self::new(events, domains, writers, rings)
            .map_err(|_| ReadError::Damaged("its counts or lengths cannot be"))?;
        if shape.words() != words {
            return Err(ReadError::Truncated {
                given: words * 8,
                expected: shape.words() * 8,
            });
        }
        if count(header::WORDS)? != words {
            return Err(ReadError::Damaged(
                "its counts make another length than it says",
            ));
        }
        Ok(shape)
    }

    pub(super) const fn switch(event: usize) -> usize {
        HEADER + event
    }

    /// Where descriptions of logs begin: to be known before how long they are.
    const fn first_log(events: usize, domains: usize) -> usize {
        (HEADER + events).next_multiple_of(LINE) + (events + domains) * NAMED
    }

    pub(super) const fn event(&self, event: usize) -> usize {
        self.events_at + event * NAMED
    }

    pub(super) const fn domain(&self, domain: usize) -> usize {
        self.domains_at + domain * NAMED
    }

    pub(super) const fn log(&self, log: usize) -> usize {
        self.logs_at + log * LOG
    }

    pub(super) const fn route(&self, event: usize, domain: usize) -> usize {
        self.routes_at + Self::place(event, domain, self.events)
    }

    /// Among what there is for each event and domain. That of one domain is side by side: what happens to it one after another is in few lines.
    #[inline]
    pub(super) const fn place(event: usize, domain: usize, events: usize) -> usize {
        domain * events + event
    }

    /// Where routes, then formats, are kept while there are visits.
    pub(super) const fn kept(&self) -> usize {
        self.routes_at + self.events * self.domains
    }

    pub(super) const fn writer(&self, writer: usize) -> usize {
        self.writers_at + writer * self.writer_words
    }

    pub(super) const fn register(&self, writer: usize, log: usize) -> usize {
        self.writer(writer) + LINE + log * LINE
    }

    pub(super) fn ring(&self, writer: usize, log: usize) -> usize {
        self.writer(writer) + self.ring_starts[log]
    }

    /// Words of the area.
    pub(super) fn words(&self) -> usize {
        self.writer(self.writers)
    }

    /// Rows of a format that a log's ring has room for.
    pub(super) fn rows(&self, log: usize, format: RowFormat) -> u64 {
        (self.rings[log] / format.row_words().max(1)) as u64
    }

    /// # Errors
    ///
    /// Rows of this format are too long for the log: there must be two, of which one may be being written.
    pub(super) fn check(&self, log: usize, format: RowFormat) -> Result<(), EventLogError> {
        let least = if format.is_counting() { 1 } else { 2 };
        if self.rows(log, format) < least {
            return Err(EventLogError::RowLen {
                row: format.row_words() * 8,
                ring: self.rings[log] * 8,
            });
        }
        debug_assert!(format.row_words() <= MAX_ROW_WORDS);
        Ok(())
    }
}

/// A name as words, cut at a character if it is too long.
pub(super) fn name_words(name: &str) -> [u64; NAMED - 1] {
    let mut end = name.len().min(MAX_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let mut bytes = [0_u8; MAX_NAME];
    bytes[..end].copy_from_slice(&name.as_bytes()[..end]);
    let mut words = [0; NAMED - 1];
    for (at, byte) in bytes.into_iter().enumerate() {
        words[at / 8] |= u64::from(byte) << (8 * (at % 8));
    }
    words
}

/// The name that words hold: whatever is not text shows as that.
pub(super) fn name_of(words: &[u64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let end = bytes.iter().position(|byte| *byte == 0);
    let name = String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]);
    // It may go to a terminal.
    name.chars()
        .map(|c| {
            if c.is_control() {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps_and_what_producers_write_has_lines_of_its_own() {
        let shape = Shape::new(3, 5, 2, vec![2, 16, 4]).expect("small");
        let mut ends = vec![(0, HEADER), (HEADER, HEADER + 3)];
        ends.extend((0..3).map(|event| (shape.event(event), shape.event(event) + NAMED)));
        ends.extend((0..5).map(|domain| (shape.domain(domain), shape.domain(domain) + NAMED)));
        ends.extend((0..3).map(|log| (shape.log(log), shape.log(log) + LOG)));
        ends.push((shape.route(0, 0), shape.route(2, 4) + 1));
        ends.push((shape.kept(), shape.kept() + 3 * 5 + 3));
        for writer in 0..2 {
            ends.push((shape.writer(writer), shape.writer(writer) + LINE));
            for log in 0..3 {
                let (register, ring) = (shape.register(writer, log), shape.ring(writer, log));
                assert_eq!((register % LINE, ring % LINE), (0, 0));
                ends.push((register, register + LINE));
                ends.push((ring, ring + shape.rings[log]));
            }
        }
        ends.sort_unstable();
        assert!(
            ends.windows(2).all(|pair| pair[0].1 <= pair[1].0),
            "{ends:?}"
        );
        assert!(ends.last().expect("some").1 <= shape.words());
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        let with = |ring| Shape::new(1, 1, 1, vec![ring]);
        for ring in [0, 1, 3, 2 * MAX_RING] {
            assert!(matches!(with(ring), Err(EventLogError::RingLen { .. })));
        }
        assert!(matches!(
            Shape::new(1, 1, MAX_WRITERS, vec![MAX_RING]),
            Err(EventLogError::AreaLen { .. })
        ));
        assert!(Shape::new(0, 1, 1, vec![2]).is_err());
        let short = Shape::new(1, 1, 1, vec![2]).expect("small");
        assert!(short.check(0, RowFormat::from_code(15)).is_err());
        assert!(short.check(0, RowFormat::from_code(4)).is_ok());
    }

    #[test]
    fn names_are_cut_at_a_character() {
        assert_eq!(name_of(&name_words("queue")), "queue");
        let long = "é".repeat(40);
        assert_eq!(name_of(&name_words(&long)), "é".repeat(28));
        assert_eq!(
            name_of(&[u64::from_le_bytes(*b"\x1b[2J\0\0\0\0")]),
            "\u{fffd}[2J"
        );
    }
}
