//! Phases of `load compare`: two commands by turns, without load and under it.

use std::path::Path;

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use super::input::{Input, Kind, Refused};
use super::number::{self, digits, so_many};
use super::out::Target;
use super::page::{Part, Section, clean, page, text_table};
use super::plot::{Mark, Row, RowPlot};
use crate::failure::Failure;
use crate::figures;

/// Phases and pairs of a file at most.
const MAX_PHASES: usize = 100;
const MAX_PAIRS: usize = 100_000;

/// One phase as it is written: a line of JSON.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Phase {
    /// Version of the format.
    pub(crate) tautline_compare: u32,
    /// `without load`, or `under` a model.
    #[serde(rename = "phase")]
    pub(crate) under: String,
    pub(crate) first: String,
    pub(crate) second: String,
    /// `seconds`, or whatever the commands printed.
    pub(crate) unit: String,
    /// What the two runs of each pair took, in the order of the runs.
    pub(crate) pairs: Vec<(f64, f64)>,
    /// How many times as much as the first the second takes; missing with too few pairs.
    pub(crate) ratio: Option<f64>,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    pub(crate) confidence: f64,
    /// What counts as a difference, as a share.
    pub(crate) least: f64,
    /// `slower`, `faster`, `same` or `open`.
    pub(crate) finding: String,
    /// What the replay said of the load in the end, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) load: Option<String>,
}

impl Phase {
    fn check(&self) -> Result<(), Refused> {
        if self.tautline_compare != 1 {
            return Err(Refused::Wrong(format!(
                "version {} of comparisons, and this program knows version 1",
                self.tautline_compare
            )));
        }
        if self.pairs.len() > MAX_PAIRS {
            return Err(Refused::TooMany("pairs", MAX_PAIRS));
        }
        Ok(())
    }

    /// The ratio in words.
    pub(crate) fn words(&self) -> String {
        let least = digits(100.0 * self.least);
        let change = self.ratio.map_or_else(String::new, change);
        match self.finding.as_str() {
            "slower" => format!("slower: {change}"),
            "faster" => format!("faster: {change}"),
            "same" => format!("no difference of {least} % or more"),
            _ => format!("undecided: more runs would be needed to tell {least} %"),
        }
    }
}

pub(super) fn section(id: &str, input: &mut Input) -> Result<Section, Failure> {
    let mut phases: Vec<Phase> = Vec::new();
    let cut = input.each(|phase: Phase| {
        phase.check()?;
        if phases.len() >= MAX_PHASES {
            return Err(Refused::TooMany("phases", MAX_PHASES));
        }
        phases.push(phase);
        Ok(())
    })?;
    of(id, input.name().to_owned(), &phases, cut)
}

/// Whether a page may go there, as far as that is known before there is one.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    Target::of(Some(path)).map(|_| ())
}

/// Writes the page of what was just compared.
pub(crate) fn write(path: &Path, phases: &[Phase]) -> Result<(), Failure> {
    let target = Target::of(Some(path))?;
    let section = of("compare", "this run".to_owned(), phases, None)?;
    let page = page("tautline load compare", &[section]);
    target.write(page.into_string().as_bytes())
}

fn of(id: &str, file: String, phases: &[Phase], cut: Option<String>) -> Result<Section, Failure> {
    let pairs = phases.iter().map(|phase| phase.pairs.len()).sum();
    Ok(Section {
        id: id.to_owned(),
        file,
        kind: Kind::Compare,
        extent: format!(
            "{}, {}",
            so_many(phases.len(), "phase", "phases"),
            so_many(pairs, "pair of runs", "pairs of runs")
        ),
        cut,
        parts: vec![
            Part::new("What was found", findings(phases)?),
            Part::new("Runs", runs(phases)?),
        ],
    })
}

fn findings(phases: &[Phase]) -> Result<Markup, Failure> {
    let rows: Vec<Row> = phases
        .iter()
        .map(|phase| Row {
            name: clean(&phase.under, 40),
            marks: phase
                .ratio
                .map(|at| Mark {
                    look: Some(0),
                    at,
                    from: phase.low.unwrap_or(at),
                    to: phase.high.unwrap_or(at),
                })
                .into_iter()
                .collect(),
        })
        .collect();
    let names = ["second over first".to_owned()];
    let plot = RowPlot {
        title: "How many times as much the second command takes; lines are the range at the confidence of the table",
        label: "second / first (log; 1 is no difference)".to_owned(),
        line: Some(1.0),
        names: &names,
        others: None,
        is_joined: false,
        rows: &rows,
    };
    let percent = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), change);
    let table = text_table(
        &[
            "phase",
            "finding",
            "change",
            "from",
            "to",
            "confidence",
            "pairs",
        ],
        2,
        phases.iter().map(|phase| {
            vec![
                clean(&phase.under, 200),
                clean(&phase.words(), 200),
                percent(phase.ratio),
                percent(phase.low),
                percent(phase.high),
                format!("{:.1} %", 100.0 * phase.confidence),
                phase.pairs.len().to_string(),
            ]
        }),
    );
    let figure = plot.figure()?;
    Ok(html! {
        @if let Some(phase) = phases.first() {
            p { "First: " code { (clean(&phase.first, 1000)) } br; "Second: " code { (clean(&phase.second, 1000)) } }
        }
        (table)
        @for phase in phases {
            @if let Some(load) = &phase.load {
                p { "The load " (clean(&phase.under, 200)) ": " (clean(load, 1000)) }
            }
        }
        @if let Some(figure) = figure { (figure) }
    })
}

fn runs(phases: &[Phase]) -> Result<Markup, Failure> {
    let mut rows = Vec::new();
    let mut cells = Vec::new();
    for phase in phases {
        let of = |pick: fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = phase.pairs.iter().map(pick).collect();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        for (which, values) in [("first", of(|pair| pair.0)), ("second", of(|pair| pair.1))] {
            let (Some(least), Some(median), Some(most)) =
                (values.first(), figures::median(&values), values.last())
            else {
                continue;
            };
            rows.push(Row {
                name: format!("{which}, {}", clean(&phase.under, 30)),
                marks: vec![Mark {
                    look: Some(usize::from(which == "second")),
                    at: median,
                    from: *least,
                    to: *most,
                }],
            });
            cells.push(vec![
                clean(&phase.under, 200),
                which.to_owned(),
                digits(median),
                digits(*least),
                digits(*most),
            ]);
        }
    }
    let unit = phases.first().map_or("", |phase| phase.unit.as_str());
    let names = ["first".to_owned(), "second".to_owned()];
    let plot = RowPlot {
        title: "What a run takes: marks are medians, lines go from the least to the greatest run",
        label: format!("{} (log)", clean(unit, 40)),
        line: None,
        names: &names,
        others: None,
        is_joined: true,
        rows: &rows,
    };
    let heads = ["phase", "command", "median", "least", "greatest"];
    let figure = plot.figure()?;
    Ok(html! {
        p { "In " (clean(unit, 40)) "." }
        (text_table(&heads, 2, cells.into_iter()))
        @if let Some(figure) = figure { (figure) }
    })
}

/// A ratio as a change with its unit: `+3.02 %`.
pub(crate) fn change(ratio: f64) -> String {
    format!("{:+.2} %", 100.0 * (ratio - 1.0))
}

/// One time with its unit, or a plain number.
pub(crate) fn amount(value: f64, unit: &str) -> String {
    if unit == "seconds" {
        number::one_time(value)
    } else {
        digits(value)
    }
}
