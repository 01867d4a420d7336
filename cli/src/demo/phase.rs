//! What changes during the demonstration, and when.

use std::time::Duration;

use tautline::generate::Content;

/// A stretch of time with one link, content and load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) link_mbit: f64,
    /// Whether control and media streams carry each other's kind of content.
    pub(super) swapped: bool,
    /// Whether every processor is kept busy by something else.
    pub(super) busy: bool,
}

pub(super) const PHASES: [Phase; 6] = [
    Phase {
        name: "calm",
        link_mbit: 20.0,
        swapped: false,
        busy: false,
    },
    Phase {
        name: "slow link",
        link_mbit: 4.0,
        swapped: false,
        busy: false,
    },
    Phase {
        name: "fast link",
        link_mbit: 200.0,
        swapped: false,
        busy: false,
    },
    Phase {
        name: "other content",
        link_mbit: 20.0,
        swapped: true,
        busy: false,
    },
    Phase {
        name: "busy processors",
        link_mbit: 20.0,
        swapped: false,
        busy: true,
    },
    Phase {
        name: "calm again",
        link_mbit: 20.0,
        swapped: false,
        busy: false,
    },
];

/// A stream of the demonstration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    pub(super) name: &'static str,
    pub(super) content: Content,
    /// What it carries while contents are swapped.
    pub(super) other: Content,
    /// Plain bytes that it would like to send each second: together half as much again as 20 Mbit/s
    /// carries, so that there is something to gain.
    pub(super) bytes_per_sec: f64,
}

pub(super) const TRAFFIC: [Traffic; 4] = [
    Traffic {
        name: "control",
        content: Content::Telecom,
        other: Content::Media,
        bytes_per_sec: 0.9e6,
    },
    Traffic {
        name: "metrics",
        content: Content::Metrics,
        other: Content::Metrics,
        bytes_per_sec: 1.2e6,
    },
    Traffic {
        name: "logs",
        content: Content::Logs,
        other: Content::Logs,
        bytes_per_sec: 1.2e6,
    },
    Traffic {
        name: "media",
        content: Content::Media,
        other: Content::Text,
        bytes_per_sec: 0.5e6,
    },
];

impl Phase {
    pub(super) fn content(&self, traffic: &Traffic) -> Content {
        if self.swapped {
            traffic.other
        } else {
            traffic.content
        }
    }

    pub(super) fn describe(&self) -> String {
        let mut text = format!("link {} Mbit/s", self.link_mbit);
        if self.swapped {
            text.push_str(", control and media swap contents");
        }
        if self.busy {
            text.push_str(", all processors busy");
        }
        text
    }
}

/// When phase number `number` ends, of `total` for all.
pub(super) fn end_of(number: usize, total: Duration) -> Duration {
    total.mul_f64((number + 1) as f64 / PHASES.len() as f64)
}
