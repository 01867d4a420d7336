//! Cycles per instruction, by what they go to.

use std::path::Path;

use maud::{Markup, html};
use tautline::pmu::{CpiStack, ModelFile, Names};

use super::Replayed;
use crate::failure::Failure;
use crate::report::number::{cell, digits, percent};
use crate::report::page::{clean, text_table};
use crate::report::plot::BarPlot;

/// The stack of each place; `None` where no set has counted cycles and instructions.
pub(super) fn stacks(replayed: &Replayed) -> Result<Option<Markup>, Failure> {
    /// Places with a stack of their own.
    const MOST: usize = 16;

    let names = Names::of_system(Path::new("/"));
    let places = replayed.places.iter();
    let stacks: Vec<CpiStack> = places
        .filter_map(|place| {
            CpiStack::of(
                *place,
                replayed.monitor.totals(),
                &replayed.layout,
                |name| names.penalty(name),
            )
        })
        .collect();
    if stacks.is_empty() {
        return Ok(None);
    }
    let models: Vec<&str> = names.models().iter().map(ModelFile::name).collect();
    let models = if models.is_empty() {
        "none that is known".to_owned()
    } else {
        models.join(", ")
    };
    let mut shown = Vec::new();
    for stack in stacks.iter().take(MOST) {
        shown.push(one_stack(stack)?);
    }
    Ok(Some(html! {
        p {
            "How often each level misses for each instruction, times what a miss costs. How often is of the recording. What it costs is not in it: penalties are those of the model of "
            "the processor that this page was made on (" (models) "); for a recording of another machine, read the first column only."
        }
        @for one in &shown { (one) }
        @if stacks.len() > MOST { p.warning { "and those of " (stacks.len() - MOST) " more places" } }
    }))
}

fn one_stack(stack: &CpiStack) -> Result<Markup, Failure> {
    let share = |cycles: f64| {
        if stack.cpi > 0.0 {
            percent(cycles / stack.cpi)
        } else {
            "-".to_owned()
        }
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut bars: Vec<(String, f64)> = Vec::new();
    for part in &stack.parts {
        let level = clean(&part.level, 60);
        let cycles = part.cycles();
        bars.extend(cycles.map(|cycles| (level.clone(), cycles)));
        rows.push(vec![
            level,
            part.per_instruction
                .map_or_else(|| "not counted".to_owned(), digits),
            part.penalty.map_or_else(|| "not known".to_owned(), digits),
            cell(cycles),
            cycles.map_or_else(|| "-".to_owned(), share),
        ]);
    }
    let base = stack.base();
    rows.push(vec![
        "base and other".to_owned(),
        "-".to_owned(),
        "-".to_owned(),
        digits(base),
        share(base),
    ]);
    bars.push(("base and other".to_owned(), base));
    let title = format!(
        "{}: {} cycles an instruction",
        stack.place,
        digits(stack.cpi)
    );
    let plot = BarPlot {
        title: &title,
        label: "cycles per instruction".to_owned(),
        bars: &bars,
    };
    let heads = [
        "level",
        "misses per instruction",
        "penalty, cycles",
        "cycles per instruction",
        "of all, %",
    ];
    Ok(html! {
        h4 { (title) }
        (plot.figure()?)
        (text_table(&heads, 1, rows.into_iter()))
        @if base < 0.0 { p.warning { "Penalties are too high: levels hide part of each other's cost." } }
    })
}
