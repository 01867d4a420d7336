//! Passes of `bench --json`: how policies compare, condition by condition.

mod judge;
mod plot;
mod read;
mod table;

use std::fmt;

use self::judge::{Compared, compare};
use self::read::Results;
use super::input::{Input, Kind};
use super::number::so_many;
use super::page::{Part, Section};
use crate::failure::Failure;
use crate::rate::Rate;

/// All that passes share that may be compared.
#[derive(Clone, Debug, PartialEq)]
struct Condition {
    /// Bits a second; `None` for no limit.
    link: Option<f64>,
    /// Of propagation, ms.
    delay: f64,
    mode: String,
    busy: u64,
}

impl Condition {
    /// Whether the time for all messages is judged, not the mean of each.
    fn judges_total(&self) -> bool {
        self.mode == "throughput"
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.link {
            None => f.write_str("unlimited link")?,
            Some(rate) => write!(f, "{}/s", Rate::Bits(rate))?,
        }
        if self.delay > 0.0 {
            write!(f, ", {} ms delay", self.delay)?;
        }
        write!(f, ", {}", self.mode)?;
        match self.busy {
            0 => Ok(()),
            1 => f.write_str(", one busy core"),
            busy => write!(f, ", {busy} busy cores"),
        }
    }
}

/// One condition, judged.
struct Judged {
    condition: Condition,
    corpora: Vec<Compared>,
    /// What makes its figures less than they should be.
    warnings: Vec<String>,
}

pub(super) fn section(id: &str, input: &mut Input) -> Result<Section, Failure> {
    let mut results = Results::default();
    let cut = input.each(|row| results.take(row))?;
    let passes = results.passes();
    let judged: Vec<Judged> = results
        .conditions
        .into_iter()
        .map(|(condition, corpora)| Judged {
            warnings: read::warnings(&corpora),
            corpora: corpora
                .into_iter()
                .map(|corpus| compare(&condition, corpus))
                .collect(),
            condition,
        })
        .collect();
    let mut parts = Vec::new();
    if judged.len() > 1 {
        parts.push(Part::new("All conditions", table::overview(&judged)));
    }
    for one in &judged {
        parts.push(Part::new(one.condition.to_string(), table::condition(one)?));
    }
    Ok(Section {
        id: id.to_owned(),
        file: input.name().to_owned(),
        kind: Kind::Bench,
        extent: format!(
            "{}, {}",
            so_many(passes, "pass", "passes"),
            so_many(judged.len(), "condition", "conditions")
        ),
        cut,
        parts,
    })
}
