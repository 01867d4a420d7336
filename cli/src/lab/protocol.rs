//! What the lab and its nodes say to each other: one JSON object a line over stdin and stdout.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::scenario::{ContentSpec, NodeSpec};
use crate::report::lab::{Chunk, Quantiles};

/// To a node.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Be this node; answered by [`Word::Ready`] when it can be reached and its guard has found its budget.
    Begin(Box<Setup>),
    /// Send these messages; answered by [`Word::Driven`].
    Drive(Box<Drive>),
    /// Say what was taken in all; answered by [`Word::Finished`].
    Finish,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    pub(super) node: NodeSpec,
    /// Where it listens.
    pub(super) listen: String,
    /// Seconds from sample to sample.
    pub(super) sample: f64,
}

/// One traffic.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Drive {
    pub(super) name: String,
    pub(super) to: String,
    pub(super) messages: u64,
    /// Seconds it may take.
    pub(super) limit: f64,
    pub(super) arrivals: String,
    pub(super) content: Vec<ContentSpec>,
    /// Where files are that it names.
    pub(super) beside: PathBuf,
    pub(super) seed: u64,
}

/// From a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Word {
    Ready {
        address: String,
    },
    Sample(Sample),
    /// So many switches of arms since the last were too many to say.
    Switches {
        traffic: String,
        switches: Vec<Switch>,
        left_out: u64,
    },
    Driven(Box<Driven>),
    Finished {
        cpu: f64,
    },
    Failed(String),
}

/// What a node is at, every so often.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Sample {
    /// Monotonic, ns.
    pub(super) at: u64,
    /// Processor time of its process so far, seconds.
    pub(super) cpu: f64,
    /// Of its processors.
    pub(super) load: f64,
    /// Codec time, seconds in a second; `None` without a guard.
    pub(super) budget: Option<f64>,
    /// What it sends, by traffic.
    pub(super) traffic: Vec<TrafficSample>,
}

/// So far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct TrafficSample {
    pub(super) name: String,
    /// Messages that were answered.
    pub(super) messages: u64,
    /// Sum of their round trips, seconds.
    pub(super) rtt_sum: f64,
    /// Messages that each arm carried.
    pub(super) arms: Vec<(String, u64)>,
}

/// A block that was given another arm than the one before.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Switch {
    /// Of the node's clock, ns.
    pub(super) at: u64,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) reason: String,
}

/// What came of one traffic.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Driven {
    pub(super) name: String,
    pub(super) messages: u64,
    /// Of all that were to be sent.
    pub(super) asked: u64,
    pub(super) plain_bytes: u64,
    pub(super) wire_bytes: u64,
    pub(super) seconds: f64,
    pub(super) rtt: Quantiles,
    /// By message, thinned.
    pub(super) series: Vec<Chunk>,
    pub(super) switches: u64,
    pub(super) out_of_budget: u64,
    pub(super) arms: Vec<(String, u64)>,
}
