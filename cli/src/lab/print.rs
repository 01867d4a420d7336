//! What the lab says on the terminal.

use std::time::Duration;

use crate::failure::{Failure, say};
use crate::report::lab::{Figure, Head, Run, Shape};
use crate::text::{self, number};

/// Processors that others keep busy, from which on it is said. Arbitrary.
const BUSY: f64 = 0.1;

pub(super) fn head(head: &Head) -> Result<(), Failure> {
    say!("{}", head.title)?;
    if !head.source.is_empty() {
        say!("{}", head.source.trim())?;
    }
    for (name, value) in &head.machine {
        say!("  {name}: {value}")?;
    }
    for note in &head.notes {
        say!("note: {note}")?;
    }
    say!("")
}

/// A line for each traffic of a run.
pub(super) fn run(run: &Run) -> Result<(), Failure> {
    let time = |seconds: f64| text::fine_time(Duration::from_secs_f64(seconds.max(0.0)));
    for traffic in &run.traffic {
        let cpu: Vec<String> = run
            .nodes
            .iter()
            .map(|node| format!("{} {:.0} %", node.name, 100.0 * node.cpu / run.seconds))
            .collect();
        say!(
            "round {}, {}: {}: {} messages in {:.1} s, round trip mean {} p50 {} p99 {}, ratio {}, cpu {}",
            run.round + 1,
            run.variant,
            traffic.name,
            traffic.messages,
            traffic.seconds,
            time(traffic.rtt.mean),
            time(traffic.rtt.p50),
            time(traffic.rtt.p99),
            number(traffic.plain_bytes as f64 / traffic.wire_bytes.max(1) as f64),
            cpu.join(", ")
        )?;
    }
    if let Some(others) = run.others.filter(|others| *others >= BUSY) {
        say!("  others kept {others:.2} processors busy meanwhile")?;
    }
    if let Some(cut) = &run.cut {
        say!("  cut: {cut}")?;
    }
    Ok(())
}

/// The table at the end.
pub(super) fn figures(figures: &[Figure], shapes: &[Shape]) -> Result<(), Failure> {
    let wide = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let names = wide(&mut figures.iter().map(|figure| figure.name.chars().count())).max(6);
    let sources = wide(&mut figures.iter().map(|figure| figure.source.chars().count())).max(6);
    say!("")?;
    say!(
        "{:<names$}  {:<12} {:>sources$} {:>10}  rounds",
        "figure",
        "unit",
        "source",
        "here"
    )?;
    for figure in figures {
        say!(
            "{:<names$}  {:<12} {:>sources$} {:>10}  {}",
            figure.name,
            figure.unit,
            figure.source,
            figure.ours,
            figure.rounds.join(" ")
        )?;
    }
    if !shapes.is_empty() {
        say!("")?;
    }
    for shape in shapes {
        let margin = shape.margin.as_ref();
        say!(
            "{:<8} {} ({}{} of {} rounds)",
            shape.finding,
            shape.say,
            margin.map_or_else(String::new, |margin| format!("by {margin}; ")),
            shape.agreeing,
            shape.known
        )?;
    }
    Ok(())
}
