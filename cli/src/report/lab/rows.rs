//! What the lab writes and the page reads: one JSON object a line.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::report::number::digits;

/// Version of the format.
pub(crate) const VERSION: u32 = 1;

/// A line of `lab.jsonl`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Line {
    pub(crate) tautline_lab: u32,
    #[serde(flatten)]
    pub(crate) row: Row,
}

impl Line {
    pub(crate) fn new(row: Row) -> Self {
        Self {
            tautline_lab: VERSION,
            row,
        }
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "row", rename_all = "kebab-case")]
pub(crate) enum Row {
    Scenario(Box<Head>),
    Run(Box<Run>),
    Figure(Figure),
    Shape(Shape),
}

/// What was run, and where.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Head {
    pub(crate) title: String,
    pub(crate) source: String,
    pub(crate) quick: bool,
    pub(crate) rounds: u32,
    pub(crate) variants: Vec<String>,
    /// Name and what it is.
    pub(crate) machine: Vec<(String, String)>,
    /// What is otherwise than the scenario says.
    pub(crate) notes: Vec<String>,
    pub(crate) plots: Vec<Plot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Plot {
    Rtt,
    CumulativeRtt,
    Arms,
    Budget,
}

/// One run of one variant.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Run {
    pub(crate) variant: String,
    pub(crate) round: u32,
    /// From the beginning of traffic to its end.
    pub(crate) seconds: f64,
    /// Processors that neither nodes nor lab kept busy meanwhile, of those that the lab may use.
    #[serde(default)]
    pub(crate) others: Option<f64>,
    /// Why it is not all that it should have been.
    pub(crate) cut: Option<String>,
    pub(crate) traffic: Vec<Traffic>,
    pub(crate) nodes: Vec<NodeTaken>,
    pub(crate) loads: Vec<LoadTaken>,
    /// Of the monitor: node, metric, value.
    pub(crate) counted: Vec<(String, String, f64)>,
    /// Arms of the first traffic, in the order of `Sample::arms`.
    pub(crate) arms: Vec<String>,
    pub(crate) samples: Vec<Sample>,
    /// Of the first traffic.
    pub(crate) series: Vec<Chunk>,
}

/// What came of one traffic; times in seconds.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Traffic {
    pub(crate) name: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) messages: u64,
    pub(crate) asked: u64,
    pub(crate) seconds: f64,
    pub(crate) plain_bytes: u64,
    pub(crate) wire_bytes: u64,
    pub(crate) rtt: Quantiles,
    pub(crate) switches: u64,
    pub(crate) out_of_budget: u64,
    /// Messages that each arm carried.
    pub(crate) arms: Vec<(String, u64)>,
}

/// Of a histogram, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct NodeTaken {
    pub(crate) name: String,
    pub(crate) processors: Vec<u32>,
    /// Processor time from the beginning of traffic to its end, seconds.
    pub(crate) cpu: f64,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct LoadTaken {
    pub(crate) name: String,
    pub(crate) what: String,
    pub(crate) processor: Option<u32>,
    /// Share of the processor, of a leech.
    pub(crate) asked: Option<f64>,
    pub(crate) held: Option<f64>,
    /// Seconds after traffic began, and messages of the first traffic.
    pub(crate) from: (f64, u64),
    pub(crate) until: (f64, u64),
}

/// One moment.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Sample {
    /// Seconds after traffic began.
    pub(crate) at: f64,
    pub(crate) node: String,
    pub(crate) cpu: f64,
    pub(crate) load: f64,
    /// Seconds of codec time in a second.
    pub(crate) budget: Option<f64>,
    /// Of the first traffic, by the node that sends it: messages, sum of round trips, messages by arm so far.
    pub(crate) messages: Option<u64>,
    pub(crate) rtt_sum: Option<f64>,
    pub(crate) arms: Vec<u64>,
}

/// Messages in a row: how many were before them, and their round trips, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct Chunk {
    pub(crate) first: u64,
    pub(crate) messages: u64,
    pub(crate) mean: f64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
}

impl Chunk {
    /// How many messages there were with it.
    pub(crate) fn end(&self) -> u64 {
        self.first.saturating_add(self.messages)
    }
}

/// A figure of the source beside ours.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: String,
    /// What the source says.
    pub(crate) source: String,
    /// The median of the rounds, or the word that most of them have.
    pub(crate) ours: String,
    /// The least and the greatest.
    pub(crate) range: Option<(f64, f64)>,
    /// By round; what is not known is missing.
    pub(crate) rounds: Vec<String>,
}

/// Something that ought to be, and whether it is.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Shape {
    pub(crate) say: String,
    pub(crate) finding: Finding,
    /// Rounds in which it is so, of those in which that is known.
    pub(crate) agreeing: u32,
    pub(crate) known: u32,
    /// By how much it is so, in the middle of the rounds; `None` of words, and in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) margin: Option<Margin>,
}

/// By how much one is less than the other; below 0, the other than the one.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Margin {
    pub(crate) middle: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Of the range, 0 to 1: little of few rounds.
    pub(crate) confidence: f64,
    pub(crate) unit: String,
}

/// As `0.35 ms, 0.3 to 0.41 at 75 %`, or `0.35 ms, which is worth nothing of one round`.
impl fmt::Display for Margin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&digits(self.middle))?;
        if !self.unit.is_empty() {
            write!(f, " {}", self.unit)?;
        }
        if self.confidence > 0.0 {
            let (low, high) = (digits(self.low), digits(self.high));
            write!(f, ", {low} to {high} at {:.0} %", 100.0 * self.confidence)
        } else {
            f.write_str(", which is worth nothing of one round")
        }
    }
}

/// Whether rounds say that it is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Finding {
    /// They do, as surely as they can.
    Agrees,
    /// They say that it is not.
    Differs,
    /// Neither.
    Open,
}

/// As it is written.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Agrees => "agrees",
            Self::Differs => "differs",
            Self::Open => "open",
        })
    }
}
