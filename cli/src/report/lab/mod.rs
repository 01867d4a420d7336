//! What `lab` has written: runs of variants, figures beside the source's, and whether shapes agree.

mod rows;
mod show;

use std::collections::BTreeSet;
use std::path::Path;

pub(crate) use self::rows::{
    Chunk, Figure, Finding, Head, Line, LoadTaken, Margin, NodeTaken, Plot, Quantiles, Row, Run,
    Sample, Shape, Traffic,
};
use super::input::{Input, Refused, measured};
use super::number::so_many;
use super::out::Target;
use super::page::{Section, page};
use crate::failure::Failure;

/// Of one file at most.
const MAX_RUNS: usize = 10_000;
/// Far more than the 32 that a scenario may have.
const MAX_VARIANTS: usize = 1000;
/// As of a scenario.
const MAX_PLOTS: usize = 8;
const MAX_FINDINGS: usize = 1000;
const MAX_POINTS: usize = 5000;

/// All of a file.
#[derive(Default)]
struct Lab {
    head: Head,
    runs: Vec<Run>,
    figures: Vec<Figure>,
    shapes: Vec<Shape>,
    /// Names of variants, of the head and of runs.
    variants: BTreeSet<String>,
    /// Where the longest series ends.
    last_message: u64,
}

impl Lab {
    fn take(&mut self, line: Line) -> Result<(), Refused> {
        if line.tautline_lab != rows::VERSION {
            return Err(Refused::Wrong(format!(
                "version {} of results, and this program knows version {}",
                line.tautline_lab,
                rows::VERSION
            )));
        }
        match line.row {
            Row::Scenario(head) => {
                if !self.head.title.is_empty() {
                    return Err(Refused::Wrong("a second scenario".to_owned()));
                }
                if head.plots.len() > MAX_PLOTS {
                    return Err(Refused::TooMany("plots", MAX_PLOTS));
                }
                for name in &head.variants {
                    self.know(name)?;
                }
                self.head = *head;
            }
            Row::Run(run) => {
                if self.runs.len() >= MAX_RUNS {
                    return Err(Refused::TooMany("runs", MAX_RUNS));
                }
                check(&run)?;
                self.know(&run.variant)?;
                let ends = run.series.iter().map(Chunk::end);
                self.last_message = ends.fold(self.last_message, u64::max);
                self.runs.push(*run);
            }
            Row::Figure(figure) => {
                if self.figures.len() >= MAX_FINDINGS {
                    return Err(Refused::TooMany("figures", MAX_FINDINGS));
                }
                self.figures.push(figure);
            }
            Row::Shape(shape) => {
                if self.shapes.len() >= MAX_FINDINGS {
                    return Err(Refused::TooMany("shapes", MAX_FINDINGS));
                }
                self.shapes.push(shape);
            }
        }
        Ok(())
    }

    fn know(&mut self, variant: &str) -> Result<(), Refused> {
        if !self.variants.contains(variant) {
            if self.variants.len() >= MAX_VARIANTS {
                return Err(Refused::TooMany("variants", MAX_VARIANTS));
            }
            self.variants.insert(variant.to_owned());
        }
        Ok(())
    }
}

/// What is drawn is finite and not too much.
fn check(run: &Run) -> Result<(), Refused> {
    for (what, count) in [
        ("samples of a run", run.samples.len()),
        ("chunks of a run", run.series.len()),
        ("arms of a run", run.arms.len()),
        ("traffic of a run", run.traffic.len()),
        ("nodes of a run", run.nodes.len()),
        ("loads of a run", run.loads.len()),
        ("metrics of a run", run.counted.len()),
    ] {
        if count > MAX_POINTS {
            return Err(Refused::TooMany(what, MAX_POINTS));
        }
    }
    measured("seconds", run.seconds)?;
    for sample in &run.samples {
        measured("at", sample.at)?;
        measured("cpu", sample.cpu)?;
        measured("load", sample.load)?;
        measured("budget", sample.budget.unwrap_or(0.0))?;
        measured("rtt_sum", sample.rtt_sum.unwrap_or(0.0))?;
        measured("messages", sample.messages.unwrap_or(0) as f64)?;
    }
    for chunk in &run.series {
        measured("first", chunk.first as f64)?;
        measured("messages", chunk.messages as f64)?;
        for time in [chunk.mean, chunk.least, chunk.greatest] {
            measured("a round trip", time)?;
        }
    }
    for traffic in &run.traffic {
        measured("mean", traffic.rtt.mean)?;
        measured("seconds", traffic.seconds)?;
    }
    for node in &run.nodes {
        measured("cpu", node.cpu)?;
    }
    for load in &run.loads {
        measured("from", load.from.0)?;
        measured("until", load.until.0)?;
    }
    Ok(())
}

pub(super) fn section(id: &str, input: &mut Input) -> Result<Section, Failure> {
    let mut lab = Lab::default();
    let cut = input.each(|line: Line| lab.take(line))?;
    Ok(Section {
        id: id.to_owned(),
        file: input.name().to_owned(),
        kind: super::input::Kind::Lab,
        extent: format!(
            "{}, {}, {}",
            so_many(lab.runs.len(), "run", "runs"),
            so_many(lab.figures.len(), "figure", "figures"),
            so_many(lab.shapes.len(), "shape", "shapes")
        ),
        cut,
        parts: show::parts(&lab)?,
    })
}

/// Writes the page of a lab's file.
pub(crate) fn write(path: &Path, lines: &Path) -> Result<(), Failure> {
    let target = Target::of(Some(path))?;
    let section = section("lab", &mut Input::open(lines)?)?;
    let page = page("tautline lab", &[section]);
    target.write(page.into_string().as_bytes())
}
