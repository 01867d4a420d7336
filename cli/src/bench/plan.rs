//! What is to be measured: links, modes, policies and their order, as the arguments name them.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tautline::codecs::{Arm, CodecId};
use tautline::control::{MajorityConfig, PolicyConfig};

use crate::rate::Rate;

/// Bits a second, or no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Link(pub(super) Option<f64>);

impl FromStr for Link {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(None)),
            text => match text.parse() {
                Ok(Rate::Bits(rate)) => Ok(Self(Some(rate))),
                _ => Err(format!(
                    "`{text}` is not a link's rate (100kbit, 10Mbit, 1Gbit, none)"
                )),
            },
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("an unlimited link"),
            Some(rate) => write!(f, "{}/s", Rate::Bits(rate)),
        }
    }
}

/// How messages are sent, and what is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mode {
    /// As fast as back-pressure lets it; judged by the time for all.
    Throughput,
    /// One at a time; judged by the mean message time.
    Latency,
    /// On a schedule; judged by the mean message time.
    Paced(Pace),
}

/// The rate of a schedule, in plain bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pace {
    /// So much of the link's rate, 1 for all of it.
    Share(f64),
    At(Rate),
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "throughput" => Ok(Self::Throughput),
            "latency" => Ok(Self::Latency),
            text => match text.strip_prefix("paced:") {
                Some(pace) => pace.parse().map(Self::Paced),
                None => Err(format!(
                    "`{text}` is not a mode (throughput, latency, paced:50%, paced:10Mbit, paced:500)"
                )),
            },
        }
    }
}

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(share) = text.strip_suffix('%') else {
            return text.parse().map(Self::At);
        };
        match share.parse::<f64>() {
            Ok(share) if share.is_finite() && share > 0.0 => Ok(Self::Share(share / 100.0)),
            _ => Err(format!(
                "`{text}` is not a share of the link's rate (such as 50%)"
            )),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Throughput => f.write_str("throughput"),
            Self::Latency => f.write_str("latency"),
            Self::Paced(Pace::Share(share)) => write!(f, "paced:{}%", share * 100.0),
            Self::Paced(Pace::At(rate)) => write!(f, "paced:{rate}"),
        }
    }
}

impl Mode {
    /// What the sender is told, or `None` for a share of an unlimited link.
    pub(super) fn sending(self, link: Link) -> Option<Sending> {
        Some(match self {
            Self::Throughput => Sending::Streamed,
            Self::Latency => Sending::Single,
            Self::Paced(Pace::At(rate)) => Sending::Paced(rate),
            Self::Paced(Pace::Share(share)) => Sending::Paced(Rate::Bits(link.0? * share)),
        })
    }

    /// Whether the time for all messages is judged, not the mean of each.
    pub(super) fn judges_total(self) -> bool {
        self == Self::Throughput
    }
}

/// When the next message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Sending {
    /// At once.
    Streamed,
    /// When the one before was answered.
    Single,
    /// When it is due.
    Paced(Rate),
}

/// How much of a corpus is sent: its first messages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Take {
    Messages(usize),
    Bytes(u64),
}

impl FromStr for Take {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const UNITS: [(&str, u64); 8] = [
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
            ("kB", 1_000),
            ("KB", 1_000),
            ("MB", 1_000_000),
            ("GB", 1_000_000_000),
            ("B", 1),
        ];
        let failed =
            || format!("`{text}` is neither a number of messages nor of bytes (500, 64KiB, 1MB)");
        let bytes = UNITS
            .iter()
            .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
        let (number, factor) = bytes.unwrap_or((text, 1));
        let number: u64 = number.parse().map_err(|_| failed())?;
        let number = number
            .checked_mul(factor)
            .filter(|&number| number > 0)
            .ok_or_else(failed)?;
        Ok(match bytes {
            Some(_) => Self::Bytes(number),
            None => Self::Messages(usize::try_from(number).map_err(|_| failed())?),
        })
    }
}

impl Take {
    /// The first of `messages`, at least one of them.
    pub(super) fn of(self, messages: &[Bytes]) -> &[Bytes] {
        let count = match self {
            Self::Messages(count) => count,
            Self::Bytes(most) => {
                let sums = messages.iter().scan(0, |sum: &mut u64, message| {
                    *sum += message.len() as u64;
                    Some(*sum)
                });
                sums.take_while(|sum| *sum <= most).count().max(1)
            }
        };
        &messages[..count.min(messages.len())]
    }
}

/// The codecs and levels that the oracle chooses from, if this build has them.
pub(super) fn static_arms() -> Vec<Arm> {
    const LEVELS: [(CodecId, &[i8]); 6] = [
        (CodecId::LZ4, &[0]),
        (CodecId::SNAPPY, &[0]),
        (
            CodecId::ZSTD,
            &[-7, -5, -3, -1, 1, 2, 3, 4, 6, 9, 12, 15, 19],
        ),
        (CodecId::DEFLATE, &[1, 6, 9]),
        (CodecId::BZIP2, &[9]),
        (CodecId::XZ, &[0, 1, 4, 6]),
    ];
    let arms = |(codec, levels): (CodecId, &'static [i8])| {
        levels.iter().map(move |&level| Arm::new(codec, level))
    };
    LEVELS
        .into_iter()
        .flat_map(arms)
        .filter(|&arm| has(arm))
        .collect()
}

/// The same that carry history from block to block, if this build has them.
pub(super) fn history_arms() -> Vec<Arm> {
    let zstd = [-5, -3, -1, 1, 3, 6, 9, 15, 19].map(|level| Arm::new(CodecId::ZSTD, level));
    [Arm::new(CodecId::LZ4, 0)]
        .into_iter()
        .chain(zstd)
        .filter(|arm| tautline::codecs::supports_context(arm.codec))
        .map(Arm::with_history)
        .collect()
}

/// Whether this build can encode with the arm.
fn has(arm: Arm) -> bool {
    tautline::codecs::info(arm.codec).is_some_and(|info| info.accepts(arm.level))
}

/// The policies that the words name, each once.
pub(super) fn policies(words: &[String]) -> Result<Vec<PolicyConfig>, String> {
    let mut policies: Vec<PolicyConfig> = Vec::new();
    for word in words {
        let fixed = static_arms().into_iter().map(PolicyConfig::Fixed);
        let history = history_arms().into_iter().map(PolicyConfig::Fixed);
        let meant = match word.as_str() {
            "static" => fixed.collect(),
            "history" => history.collect(),
            "all" => [PolicyConfig::None]
                .into_iter()
                .chain(fixed)
                .chain(history)
                .chain([
                    PolicyConfig::RoundRobin,
                    PolicyConfig::Majority(MajorityConfig::default()),
                    PolicyConfig::default(),
                ])
                .collect(),
            word => vec![word.parse().map_err(|error| format!("{error}"))?],
        };
        for policy in meant {
            match policy {
                PolicyConfig::Fixed(arm) if !has(arm) => {
                    return Err(format!("this build does not have {arm}"));
                }
                _ => {}
            }
            // Two that print alike could not be told apart in what is reported.
            if !policies
                .iter()
                .any(|known| known.to_string() == policy.to_string())
            {
                policies.push(policy);
            }
        }
    }
    Ok(policies)
}

/// In which order `count` policies take their turns in a round: each round begins elsewhere, so that
/// over the rounds every policy is early and late, and every other one runs backwards, so that it is
/// not always the same that goes before.
pub(crate) fn order(count: usize, round: usize, rounds: usize, seed: u64) -> Vec<usize> {
    if count == 0 {
        return Vec::new();
    }
    let step = (count / rounds.max(1)).max(1);
    let start = (seed % count as u64) as usize + round * step;
    let mut order: Vec<_> = (0..count).map(|place| (start + place) % count).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::is_static;

    #[test]
    fn links_and_modes_are_read() {
        assert_eq!("none".parse(), Ok(Link(None)));
        assert_eq!("100kbit".parse(), Ok(Link(Some(1e5))));
        for text in ["", "10", "fast", "-1Mbit"] {
            assert!(text.parse::<Link>().is_err(), "{text}");
        }
        for text in [
            "throughput",
            "latency",
            "paced:50%",
            "paced:10Mbit",
            "paced:500",
        ] {
            let mode: Mode = text.parse().expect("a mode");
            assert_eq!(mode.to_string(), text);
        }
        for text in ["", "paced", "paced:", "paced:0%", "paced:-1", "slow"] {
            assert!(text.parse::<Mode>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_is_of_the_links_rate() {
        let half = Mode::Paced(Pace::Share(0.5));
        let sending = half.sending(Link(Some(1e6)));
        assert_eq!(sending, Some(Sending::Paced(Rate::Bits(5e5))));
        assert_eq!(half.sending(Link(None)), None);
    }

    #[test]
    fn a_prefix_is_taken_by_messages_or_bytes() {
        let messages = vec![Bytes::from_static(b"12345"); 10];
        let taken = |text: &str| text.parse::<Take>().expect("so much").of(&messages).len();
        assert_eq!(taken("3"), 3);
        assert_eq!(taken("30"), 10);
        assert_eq!(taken("20B"), 4);
        assert_eq!(taken("1B"), 1);
        assert_eq!(taken("1KiB"), 10);
        for text in ["", "0", "0MB", "much", "-1", "1.5MB", "99999999999999GB"] {
            assert!(text.parse::<Take>().is_err(), "{text}");
        }
    }

    #[test]
    fn all_policies_are_named_once_with_the_default_one() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let all = policies(&words(&["all", "zstd:3", "static"])).expect("policies");
        let mut names: Vec<_> = all.iter().map(ToString::to_string).collect();
        assert!(names.contains(&PolicyConfig::default().to_string()));
        assert_eq!(
            all.iter().filter(|policy| is_static(**policy)).count(),
            static_arms().len() + history_arms().len() + 1
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        for wrong in ["zstd:99", "fastest", ""] {
            assert!(policies(&words(&[wrong])).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_policy_runs_once_a_round_and_begins_elsewhere() {
        for (count, rounds) in [(1, 3), (2, 5), (27, 5), (27, 40)] {
            let mut firsts = Vec::new();
            for round in 0..rounds {
                let mut order = order(count, round, rounds, 7);
                firsts.push(order[0]);
                order.sort_unstable();
                assert_eq!(order, (0..count).collect::<Vec<_>>());
            }
            firsts.dedup();
            assert!(count <= 2 || firsts.len() > 1, "{count} {rounds}");
        }
    }
}
