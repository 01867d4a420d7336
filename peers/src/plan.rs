//! What is to be measured: links, messages and the order of turns.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use bytes::Bytes;
use tautline::corpus::Corpus;
use tautline::generate::{Content, Generator};
use tautline::relay::LinkConfig;
use tautline::units::BytesPerSec;

use crate::contestants::Messages;
use crate::failure::Failure;

/// Bits a second, or no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Link(pub(crate) Option<f64>);

const RATE_UNITS: [(&str, f64); 4] = [("Gbit", 1e9), ("Mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];

impl Link {
    pub(crate) fn config(self) -> LinkConfig {
        LinkConfig {
            rate: self.0.and_then(|bits| BytesPerSec::new(bits / 8.0)),
            ..LinkConfig::default()
        }
    }
}

impl FromStr for Link {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        let failed = || format!("`{text}` is not a link's rate (100kbit, 10Mbit, 1Gbit, none)");
        let (number, factor) = RATE_UNITS
            .iter()
            .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
            .ok_or_else(failed)?;
        match number.parse::<f64>() {
            Ok(number) if number.is_finite() && number > 0.0 => Ok(Self(Some(number * factor))),
            _ => Err(failed()),
        }
    }
}

/// As it is read.
impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(rate) = self.0 else {
            return f.write_str("none");
        };
        let unit = RATE_UNITS.iter().find(|(_, factor)| rate >= *factor);
        let (unit, factor) = unit.unwrap_or(&("bit", 1.0));
        write!(f, "{}{unit}", rate / factor)
    }
}

/// How much of a corpus is sent: its first messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Take {
    Messages(usize),
    Bytes(u64),
}

impl FromStr for Take {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const UNITS: [(&str, u64); 5] = [
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("kB", 1_000),
            ("MB", 1_000_000),
            ("B", 1),
        ];
        let failed =
            || format!("`{text}` is neither a number of messages nor of bytes (500, 64KiB, 1MB)");
        let bytes = UNITS
            .iter()
            .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
        let (number, factor) = bytes.unwrap_or((text, 1));
        let number = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(factor))
            .filter(|&number| number > 0)
            .ok_or_else(failed)?;
        match bytes {
            Some(_) => Ok(Self::Bytes(number)),
            None => usize::try_from(number)
                .map(Self::Messages)
                .map_err(|_| failed()),
        }
    }
}

/// As it is read.
impl fmt::Display for Take {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Messages(count) => write!(f, "{count}"),
            Self::Bytes(bytes) => write!(f, "{bytes}B"),
        }
    }
}

impl Take {
    /// The first of `messages`, at least one of them if there is any. Asks for no more than it takes
    /// and one: generators never end.
    fn of(self, messages: impl Iterator<Item = Bytes>) -> Vec<Bytes> {
        match self {
            Self::Messages(count) => messages.take(count).collect(),
            Self::Bytes(most) => {
                let (mut taken, mut sum) = (Vec::new(), 0);
                for message in messages {
                    sum += message.len() as u64;
                    if sum > most && !taken.is_empty() {
                        break;
                    }
                    taken.push(message);
                }
                taken
            }
        }
    }
}

/// Messages and what they are called.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) name: String,
    pub(crate) messages: Messages,
}

impl Load {
    pub(crate) fn plain_bytes(&self) -> u64 {
        let lens = self.messages.iter().map(|message| message.len() as u64);
        lens.sum()
    }

    pub(crate) fn longest(&self) -> usize {
        self.messages.iter().map(Bytes::len).max().unwrap_or(0)
    }

    /// How many messages, from the first, are asked one by one: no more than `most`, and than the
    /// link takes in so long, uncompressed. A few at least, as long as there are any.
    pub(crate) fn trips(&self, most: usize, link: Link) -> usize {
        /// Arbitrary, both.
        const SECONDS: f64 = 1.0;
        const FEW: usize = 3;
        /// Without a limit, as if it were so fast. Arbitrary.
        const FAST: f64 = 1e9;
        let mut left = link.0.unwrap_or(FAST) / 8.0 * SECONDS;
        let fitting = self.messages.iter().take_while(|message| {
            left -= message.len() as f64;
            left >= 0.0
        });
        fitting.count().max(FEW).min(self.messages.len()).min(most)
    }
}

/// The messages of the files, or made-up ones of every kind if there are no files; or `only` those at
/// one place of them.
pub(crate) fn loads(
    files: &[PathBuf],
    take: Option<Take>,
    only: Option<usize>,
) -> Result<Vec<Load>, Failure> {
    /// Of each kind. Arbitrary; a second at 10 Mbit/s, uncompressed.
    const MADE_UP: Take = Take::Bytes(1_250_000);
    const SEED: u64 = 7;
    const KINDS: [Content; 7] = [
        Content::Telecom,
        Content::Logs,
        Content::Events,
        Content::Csv,
        Content::Metrics,
        Content::Text,
        Content::Media,
    ];

    let is_wanted = |place: usize| only.is_none_or(|only| only == place);
    if files.is_empty() {
        let made_up = |content: Content| Load {
            name: format!("made-up {}", content.name()),
            messages: take
                .unwrap_or(MADE_UP)
                .of(Generator::new(content, SEED))
                .into(),
        };
        let kinds = KINDS.into_iter().enumerate();
        let wanted = kinds.filter(|(place, _)| is_wanted(*place));
        return Ok(wanted.map(|(_, kind)| made_up(kind)).collect());
    }
    let mut loads = Vec::new();
    for (place, file) in files.iter().enumerate() {
        if !is_wanted(place) {
            continue;
        }
        let corpus = Corpus::read(file, None)?;
        let name = corpus.name().to_owned();
        // Copies, each in memory of its own, as an application's are.
        let all = corpus.messages().iter();
        let all = all.map(|message| Bytes::copy_from_slice(message));
        let messages = match take {
            Some(take) => take.of(all),
            None => all.collect(),
        };
        if messages.is_empty() {
            return Err(Failure::Error(format!("{name} holds no messages")));
        }
        loads.push(Load {
            name,
            messages: messages.into(),
        });
    }
    Ok(loads)
}

/// In which order `count` contestants take their turns in a round: each round begins elsewhere, and
/// every other one runs backwards, so that it is not always the same that goes before.
pub(crate) fn order(count: usize, round: usize, rounds: usize) -> Vec<usize> {
    let step = (count / rounds.max(1)).max(1);
    let mut order: Vec<_> = (0..count)
        .map(|place| (round * step + place) % count)
        .collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_written_as_they_are_read() {
        for text in ["none", "100kbit", "1.5Mbit", "1Gbit", "0.5bit"] {
            let link: Link = text.parse().expect("a link");
            assert_eq!(link.to_string(), text);
        }
        for text in ["", "10", "fast", "-1Mbit", "0bit", "NaNMbit", "infMbit"] {
            assert!(text.parse::<Link>().is_err(), "{text}");
        }
        assert_eq!(Link(None).config().rate, None);
        let rate = Link(Some(1e6)).config().rate.map(BytesPerSec::get);
        assert_eq!(rate, Some(125_000.0));
    }

    #[test]
    fn a_prefix_is_taken_by_messages_or_bytes() {
        let taken = |text: &str, all: usize| {
            let messages = vec![Bytes::from_static(b"12345"); all];
            let take: Take = text.parse().expect("so much");
            take.of(messages.into_iter()).len()
        };
        assert_eq!(taken("3", 10), 3);
        assert_eq!(taken("30", 10), 10);
        assert_eq!(taken("20B", 10), 4);
        assert_eq!(taken("1B", 10), 1);
        assert_eq!(taken("1KiB", 10), 10);
        assert_eq!(taken("1KiB", 0), 0);
        for text in ["", "0", "0MB", "much", "-1", "1.5MB", "99999999999999999MB"] {
            assert!(text.parse::<Take>().is_err(), "{text}");
        }
    }

    #[test]
    fn without_files_every_kind_is_made_up() {
        let all = loads(&[], Some(Take::Messages(3)), None).expect("made up");
        assert_eq!(all.len(), 7);
        let one = loads(&[], Some(Take::Messages(3)), Some(4)).expect("made up");
        assert_eq!((one.len(), &one[0].name), (1, &all[4].name));
        for load in all {
            assert_eq!(load.messages.len(), 3, "{}", load.name);
            assert!(load.longest() as u64 * 3 >= load.plain_bytes());
        }
    }

    #[test]
    fn trips_fit_the_link_and_are_a_few_at_least() {
        let load = Load {
            name: "some".to_owned(),
            messages: vec![Bytes::from(vec![0; 1000]); 50].into(),
        };
        let trips = |most, link: &str| load.trips(most, link.parse().expect("a link"));
        assert_eq!(trips(400, "none"), 50);
        assert_eq!(trips(20, "1Gbit"), 20);
        assert_eq!(trips(400, "80kbit"), 10);
        assert_eq!(trips(400, "1kbit"), 3);
        assert_eq!(trips(0, "none"), 0);
    }

    #[test]
    fn everyone_runs_once_a_round_and_begins_elsewhere() {
        for (count, rounds) in [(0, 2), (1, 3), (2, 5), (17, 5), (17, 40)] {
            let mut firsts = Vec::new();
            for round in 0..rounds {
                let mut order = order(count, round, rounds);
                firsts.extend(order.first().copied());
                order.sort_unstable();
                assert_eq!(order, (0..count).collect::<Vec<_>>());
            }
            firsts.dedup();
            assert!(count <= 2 || firsts.len() > 1, "{count} {rounds}");
        }
    }
}
