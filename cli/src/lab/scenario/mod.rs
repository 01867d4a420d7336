//! What is to be run, as a TOML file says it (docs/lab.md).

mod check;
mod overrides;
mod scale;
mod times;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::report::lab::Plot;

pub(super) use self::check::{PLAIN, Problem};
pub(super) use self::times::{Moment, When};

/// The longest file, bytes.
pub(super) const MAX_FILE: usize = 1 << 20;

/// A whole scenario. Every key has a meaning: others are refused.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenario {
    pub(super) title: String,
    /// What it is after: the source's table or figure, in a few sentences.
    #[serde(default)]
    pub(super) source: String,
    #[serde(default = "one")]
    pub(super) seed: u64,
    /// How often each variant runs; they take turns.
    #[serde(default = "three")]
    pub(super) rounds: u32,
    /// With open shapes it goes on up to so many rounds. Nothing: not beyond `rounds`.
    #[serde(default)]
    pub(super) most_rounds: Option<u32>,
    /// What a run may take at most, seconds, its preparation not counted.
    #[serde(default = "minute")]
    pub(super) limit: f64,
    /// From one sample to the next, seconds.
    #[serde(default = "tenth")]
    pub(super) sample: f64,
    /// How long loads go on before traffic begins, seconds.
    #[serde(default)]
    pub(super) settle: f64,
    /// What `--quick` multiplies numbers of messages and times by.
    #[serde(default = "twentieth")]
    pub(super) quick: f64,
    pub(super) nodes: Vec<NodeSpec>,
    #[serde(default)]
    pub(super) links: Vec<LinkSpec>,
    #[serde(default)]
    pub(super) loads: Vec<LoadSpec>,
    #[serde(default)]
    pub(super) monitor: Option<MonitorSpec>,
    pub(super) traffic: Vec<TrafficSpec>,
    #[serde(default)]
    pub(super) variants: Vec<VariantSpec>,
    #[serde(default)]
    pub(super) figures: Vec<FigureSpec>,
    #[serde(default)]
    pub(super) shapes: Vec<ShapeSpec>,
    #[serde(default)]
    pub(super) plots: Vec<Plot>,
}

/// A node: a process of its own.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeSpec {
    pub(super) name: String,
    /// Places among the processors that the lab may use, from 0; beyond the last it begins again. Empty for all.
    #[serde(default)]
    pub(super) processors: Vec<u32>,
    /// Whether codec time is limited by the load of the node's processors.
    #[serde(default = "yes")]
    pub(super) guard: bool,
    #[serde(default = "setpoint")]
    pub(super) setpoint: f64,
    /// As `--policy` of `send` takes it.
    #[serde(default = "cost")]
    pub(super) policy: String,
    /// What `round_robin` takes in turn and `majority` chooses from, besides sending as it is; nothing: what they do by default.
    #[serde(default)]
    pub(super) rotation: Option<Vec<String>>,
    /// Has an event log that `tautline events` finds by the process's number.
    #[serde(default)]
    pub(super) event_log: bool,
    #[serde(default = "two")]
    pub(super) workers: usize,
    #[serde(default)]
    pub(super) carrier: Carrier,
    /// What the node does with each message before it answers.
    #[serde(default)]
    pub(super) work: Option<WorkSpec>,
}

/// How others reach a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Carrier {
    #[default]
    Tcp,
    Unix,
}

/// Memory that is touched for each message: cheap while caches keep it.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkSpec {
    /// Of how much memory, KiB.
    pub(super) kib: u32,
    /// How many lines of it for each message, one after the other.
    pub(super) touches: u32,
}

/// A link between two nodes, the same both ways.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkSpec {
    pub(super) between: (String, String),
    /// 100kbit, 10Mbit, or none.
    #[serde(default = "none")]
    pub(super) rate: String,
    /// In one direction.
    #[serde(default)]
    pub(super) delay_ms: f64,
    #[serde(default)]
    pub(super) queue_kib: Option<u32>,
    #[serde(default)]
    pub(super) changes: Vec<ChangeSpec>,
}

/// What becomes of a link, and when; what is not said stays.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeSpec {
    #[serde(default)]
    pub(super) at: Option<f64>,
    #[serde(default)]
    pub(super) at_message: Option<u64>,
    #[serde(default)]
    pub(super) rate: Option<String>,
    #[serde(default)]
    pub(super) delay_ms: Option<f64>,
}

/// Load on a node's processors: a leech, or metrics that leeches are to make.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoadSpec {
    pub(super) name: String,
    /// Whose processors.
    pub(super) node: String,
    /// Off, it is as if it were not there.
    #[serde(default = "yes")]
    pub(super) on: bool,
    /// As `load run --leech` takes it, without a processor: cpu, l2:0.3.
    #[serde(default)]
    pub(super) leech: Option<String>,
    /// The leech takes only what nobody else wants of the processors.
    #[serde(default)]
    pub(super) gives_way: bool,
    /// What `load model` has written, or a replay saved; beside the scenario.
    #[serde(default)]
    pub(super) model: Option<String>,
    /// With the intensities that the model has, not with a controller.
    #[serde(default)]
    pub(super) open: bool,
    /// What leeches are to make of the processors, in place of a file.
    #[serde(default)]
    pub(super) replica: Option<ReplicaSpec>,
    /// When it begins, seconds after traffic does; with neither of both, before traffic.
    #[serde(default)]
    pub(super) from: Option<f64>,
    #[serde(default)]
    pub(super) from_message: Option<u64>,
    /// When it ends; with neither of both, with the run.
    #[serde(default)]
    pub(super) until: Option<f64>,
    #[serde(default)]
    pub(super) until_message: Option<u64>,
}

/// Metrics over time, as `load replay` knows them.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplicaSpec {
    pub(super) metrics: Vec<String>,
    /// How long a row holds, seconds; then the next, and after the last the first.
    #[serde(default = "second")]
    pub(super) interval: f64,
    pub(super) rows: Vec<Vec<f64>>,
}

/// What hardware and kernel count of nodes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MonitorSpec {
    /// Of those that `monitor --list` shows; empty for all.
    #[serde(default)]
    pub(super) sets: Vec<String>,
    #[serde(default = "hundred")]
    pub(super) hz: f64,
    /// Which nodes; empty for all.
    #[serde(default)]
    pub(super) nodes: Vec<String>,
}

/// Messages from one node to another, which answers each with the same message.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrafficSpec {
    pub(super) name: String,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) messages: u64,
    /// When messages are sent: `load drive` says what there is.
    #[serde(default = "closed")]
    pub(super) arrivals: String,
    pub(super) content: Vec<ContentSpec>,
}

/// What messages hold, from a message on.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContentSpec {
    #[serde(default)]
    pub(super) from_message: u64,
    /// telecom, zeros:64-1000, or a file of messages beside the scenario: `load drive` says what there is.
    pub(super) of: String,
}

/// The scenario with some things otherwise.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VariantSpec {
    pub(super) name: String,
    /// Path (`nodes.a.policy`, `loads.*.on`, `limit`) and value.
    #[serde(default)]
    pub(super) set: toml::Table,
}

/// A figure of the source and what corresponds to it here.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FigureSpec {
    pub(super) name: String,
    pub(super) variant: String,
    pub(super) metric: Metric,
    /// Of which node, where metrics are of nodes: the first traffic's sender otherwise.
    #[serde(default)]
    pub(super) node: Option<String>,
    /// Only of these messages of the first traffic.
    #[serde(default)]
    pub(super) from_message: Option<u64>,
    #[serde(default)]
    pub(super) until_message: Option<u64>,
    /// As a change against another figure, by its name.
    #[serde(default)]
    pub(super) against: Option<String>,
    /// What the source says, in the metric's unit, or % of change.
    #[serde(default)]
    pub(super) source: Option<f64>,
    #[serde(default)]
    pub(super) source_text: Option<String>,
}

/// What is measured of a run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(super) enum Metric {
    /// Round trips, ms.
    RttMean,
    RttP50,
    RttP99,
    /// Messages in a second.
    Rate,
    /// Processors that a node's process kept busy.
    CpuLoad,
    /// Processor time of a node's process for each message of the first traffic, µs.
    CpuPerMessage,
    /// Messages that were compressed, %.
    Compressed,
    /// Codec time that the guard allows, ms in a second.
    Budget,
    /// Of a node's processors, as its guard reads it.
    Load,
    /// Plain over wire bytes.
    Ratio,
    /// The arm that carried most messages, identity apart: a word, no number.
    Arm,
    /// A metric of the monitor.
    Counted(String),
}

/// What ought to be, of figures by their names.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShapeSpec {
    pub(super) say: String,
    #[serde(default)]
    pub(super) less: Option<Side>,
    #[serde(default)]
    pub(super) than: Option<Side>,
    /// Two figures that are words, and not the same.
    #[serde(default)]
    pub(super) differ: Option<(String, String)>,
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum Side {
    Number(f64),
    Figure(String),
}

impl Scenario {
    /// The variants, one of them named `as it is` if there are none: name and scenario with its changes.
    pub(super) fn read(text: &str) -> Result<(Self, Vec<(String, Self)>), Problem> {
        let scenario: Self = toml::from_str(text).map_err(|error| Problem::of(&error, text))?;
        scenario.check_whole()?;
        let plain: toml::Table = toml::from_str(text).map_err(|error| Problem::of(&error, text))?;
        let mut variants = Vec::new();
        for variant in &scenario.variants {
            let changed = overrides::apply(&plain, &variant.set)
                .and_then(|table| {
                    let changed: Result<Self, _> = toml::Value::Table(table).try_into();
                    changed.map_err(|error| Problem::plain(error.message()))
                })
                .and_then(|changed| changed.check().map(|()| changed))
                .map_err(|problem| problem.within(&format!("variant `{}`", variant.name)))?;
            variants.push((variant.name.clone(), changed));
        }
        if variants.is_empty() {
            scenario.check()?;
            variants.push((PLAIN.to_owned(), scenario.clone()));
        }
        Ok((scenario, variants))
    }

    pub(super) fn node(&self, name: &str) -> Option<&NodeSpec> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// The link between two nodes, whichever way.
    pub(super) fn link(&self, from: &str, to: &str) -> Option<&LinkSpec> {
        self.links.iter().find(|link| {
            let (one, other) = (link.between.0.as_str(), link.between.1.as_str());
            (one, other) == (from, to) || (one, other) == (to, from)
        })
    }
}

const METRICS: [(&str, Metric); 11] = [
    ("rtt-mean", Metric::RttMean),
    ("rtt-p50", Metric::RttP50),
    ("rtt-p99", Metric::RttP99),
    ("rate", Metric::Rate),
    ("cpu-load", Metric::CpuLoad),
    ("cpu-per-message", Metric::CpuPerMessage),
    ("compressed", Metric::Compressed),
    ("budget", Metric::Budget),
    ("load", Metric::Load),
    ("ratio", Metric::Ratio),
    ("arm", Metric::Arm),
];

impl TryFrom<String> for Metric {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if let Some(name) = text.strip_prefix("counted:") {
            return Ok(Self::Counted(name.to_owned()));
        }
        let found = METRICS.iter().find(|(name, _)| *name == text);
        found.map(|(_, metric)| metric.clone()).ok_or_else(|| {
            let names: Vec<&str> = METRICS.iter().map(|(name, _)| *name).collect();
            format!(
                "no metric `{text}`; there are {}, and counted:NAME for those of the monitor",
                names.join(", ")
            )
        })
    }
}

impl From<Metric> for String {
    fn from(metric: Metric) -> Self {
        metric.to_string()
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Counted(name) = self {
            return write!(f, "counted:{name}");
        }
        let found = METRICS.iter().find(|(_, metric)| metric == self);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}

impl Metric {
    /// The unit that figures are in, `source` among them.
    pub(super) const fn unit(&self) -> &'static str {
        match self {
            Self::RttMean | Self::RttP50 | Self::RttP99 => "ms",
            Self::Rate => "messages/s",
            Self::CpuLoad => "processors",
            Self::CpuPerMessage => "µs",
            Self::Compressed => "%",
            Self::Budget => "ms/s",
            Self::Load | Self::Ratio | Self::Arm | Self::Counted(_) => "",
        }
    }
}

fn one() -> u64 {
    1
}
fn two() -> usize {
    2
}
fn three() -> u32 {
    3
}
fn second() -> f64 {
    1.0
}
fn minute() -> f64 {
    60.0
}
fn tenth() -> f64 {
    0.1
}
fn twentieth() -> f64 {
    0.05
}
fn hundred() -> f64 {
    100.0
}
fn setpoint() -> f64 {
    0.8
}
fn yes() -> bool {
    true
}
fn cost() -> String {
    "cost".to_owned()
}
fn none() -> String {
    "none".to_owned()
}
fn closed() -> String {
    "closed:1".to_owned()
}

#[cfg(test)]
mod tests;
