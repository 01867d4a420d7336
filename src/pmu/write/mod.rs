//! Samples as text and arrays: each format makes bytes, and says nothing of where they go.

mod csv;
mod jsonl;
mod npy;
mod output;

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::path::Path;

pub(super) use self::jsonl::VERSION;
pub use self::output::{Flushed, Output, OutputError};
use super::pace::ProbeEffect;
use super::reason::RecordedMissing;
use super::store::{Layout, Sample};

/// What is said of a recording before its first sample.
#[derive(Clone, Debug)]
pub struct Preamble {
    /// Ticks in a second.
    pub hz: f64,
    /// Slots of the store.
    pub slots: usize,
    /// Nanoseconds since 1970 at the origin of the samples' times.
    pub origin_unix_nanos: u64,
    /// What is not counted.
    pub missing: Vec<RecordedMissing>,
}

/// What is said of a recording after its last sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epilogue {
    /// What the monitor itself took; `None` where that is not known.
    pub probe: Option<ProbeEffect>,
    /// What the system's interrupts for its samples took of each processor besides, 0 to 1 ([`sample_cost`](super::sample_cost())); `None` if it took no
    /// samples, or where that is not known.
    pub interrupts: Option<f64>,
    /// Samples that were overwritten before they were written.
    pub lost: u64,
}

/// A format of recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RecordFormat {
    /// Comma-separated values: a column for each event, metric and gauge, a row for each sample, and lines that begin with `#` before and after.
    Csv,
    /// A JSON object in each line: what is recorded, then each sample, then what it took. It can be [replayed](super::Recording).
    JsonLines,
    /// An array of numpy's (`.npy`) with a typed column for each event, metric and gauge.
    Npy,
}

impl RecordFormat {
    /// By the end of a file's name; `None` for one that says nothing.
    pub fn of(path: &Path) -> Option<Self> {
        path.extension()?.to_str()?.parse().ok()
    }
}

impl fmt::Display for RecordFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Csv => "csv",
            Self::JsonLines => "jsonl",
            Self::Npy => "npy",
        })
    }
}

/// There is no such format.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("formats are csv, jsonl and npy")]
pub struct UnknownFormat;

impl FromStr for RecordFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        match text {
            "csv" => Ok(Self::Csv),
            "jsonl" | "json" => Ok(Self::JsonLines),
            "npy" => Ok(Self::Npy),
            _ => Err(UnknownFormat),
        }
    }
}

/// Makes bytes of samples. Whoever writes them writes them in order, and what [`Self::patch`] gives over the beginning whenever it is whole.
#[derive(Debug)]
pub struct Encoder(Form);

#[derive(Debug)]
enum Form {
    Csv(csv::Csv),
    JsonLines,
    Npy(npy::Npy),
}

impl Encoder {
    /// Begins a recording: what comes first is appended to `out`.
    pub fn begin(
        format: RecordFormat,
        layout: &Layout,
        preamble: &Preamble,
        out: &mut Vec<u8>,
    ) -> Self {
        Self(match format {
            RecordFormat::Csv => Form::Csv(csv::Csv::begin(layout, preamble, out)),
            RecordFormat::JsonLines => {
                jsonl::begin(layout, preamble, out);
                Form::JsonLines
            }
            RecordFormat::Npy => Form::Npy(npy::Npy::begin(layout, out)),
        })
    }

    /// Appends a sample.
    pub fn sample(&mut self, sample: &Sample<'_>, out: &mut Vec<u8>) {
        match &self.0 {
            Form::Csv(csv) => csv.sample(sample, out),
            Form::JsonLines => jsonl::sample(sample, out),
            Form::Npy(npy) => npy.sample(sample, out),
        }
    }

    /// Appends what comes last.
    pub fn finish(&self, epilogue: &Epilogue, out: &mut Vec<u8>) {
        match &self.0 {
            Form::Csv(_) => csv::finish(epilogue, out),
            Form::JsonLines => jsonl::finish(epilogue, out),
            // An array has no room for it.
            Form::Npy(_) => {}
        }
    }

    /// Whether it writes lines of text.
    pub const fn writes_lines(&self) -> bool {
        matches!(self.0, Form::Csv(_) | Form::JsonLines)
    }

    /// What stands at the very beginning of what has so many bytes, in place of what was there.
    pub fn patch(&self, bytes: u64) -> Option<Vec<u8>> {
        match &self.0 {
            Form::Npy(npy) => Some(npy.header(npy.records(bytes))),
            Form::Csv(_) | Form::JsonLines => None,
        }
    }
}

/// Every column of a table over all sets: what it is called, and where its value is from.
fn columns(layout: &Layout) -> Vec<(String, Column)> {
    let mut columns: Vec<(String, Column)> = Vec::new();
    let mut of_set = |name: &str, set: usize, index: usize, is_metric: bool| {
        let found = columns.iter().position(|(known, _)| known == name);
        let at = found.unwrap_or_else(|| {
            let column = Column {
                of_set: vec![None; layout.sets().sets().len()],
                gauge: None,
            };
            columns.push((name.to_owned(), column));
            columns.len() - 1
        });
        columns[at].1.of_set[set] = Some(if is_metric {
            Source::Metric(index)
        } else {
            Source::Event(index)
        });
    };
    for (number, set) in layout.sets().sets().iter().enumerate() {
        for (index, event) in set.events().iter().enumerate() {
            of_set(event, number, index, false);
        }
        for (index, metric) in set.metrics().iter().enumerate() {
            of_set(metric.name(), number, index, true);
        }
    }
    for (index, gauge) in layout.gauges().iter().enumerate() {
        let column = Column {
            of_set: Vec::new(),
            gauge: Some(index),
        };
        columns.push((gauge.clone(), column));
    }
    columns
}

#[derive(Clone, Copy, Debug)]
enum Source {
    Event(usize),
    Metric(usize),
}

/// Where a column's values are from: in each set, or a gauge.
#[derive(Clone, Debug)]
struct Column {
    of_set: Vec<Option<Source>>,
    gauge: Option<usize>,
}

impl Column {
    fn value(&self, sample: &Sample<'_>) -> Option<f64> {
        match (self.gauge, self.of_set.get(sample.head.set)?) {
            (Some(_), _) | (_, None) => None,
            (None, Some(Source::Event(index))) => sample.event(*index),
            (None, Some(Source::Metric(index))) => sample.metric(*index),
        }
    }

    fn of(&self, sample: &Sample<'_>) -> Option<f64> {
        match self.gauge {
            Some(index) => sample.gauge(index),
            None => self.value(sample),
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    crate::units::saturating_nanos(duration)
}

#[cfg(test)]
mod tests;
