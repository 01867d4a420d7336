//! Figures and tables of a recording.

use std::collections::BTreeMap;

use maud::{Markup, html};
use tautline::pmu::{EventSet, Place, Totals};

use super::stack::stacks;
use super::{Quantity, Replayed};
use crate::failure::Failure;
use crate::report::number::{self, cell, date, digits, one_time, percent};
use crate::report::page::{Part, clean, text_table};
use crate::report::plot::{LOOKS, LinePlot, TimeLine};
use crate::report::thin::Line;

/// Figures of one recording, and rows of a table: more would not be looked at.
const MOST_FIGURES: usize = 300;
const MOST_ROWS: usize = 5000;

pub(super) fn parts(replayed: &Replayed) -> Result<Vec<Part>, Failure> {
    let mut parts = vec![
        Part::new("Recording", recording(replayed)),
        Part::new("Not counted", missing(replayed)),
        Part::new("Totals", totals(replayed)),
    ];
    if let Some(stacks) = stacks(replayed)? {
        parts.push(Part::new("Cycles per instruction", stacks));
    }
    let mut left = MOST_FIGURES;
    for (number, set) in replayed.layout.sets().sets().iter().enumerate() {
        if replayed.lines.keys().any(|(of, _, _)| *of == number) {
            parts.push(Part::new(
                format!("Set {}", set.name()),
                set_figures(replayed, number, set, &mut left)?,
            ));
        }
    }
    if replayed.gauges.iter().any(|line| line.points() > 0) {
        parts.push(Part::new("Gauges", gauges(replayed, &mut left)?));
    }
    if left == 0 {
        let note = html! { p.warning { "There are more than " (MOST_FIGURES) " figures: all beyond those are left out; the totals have everything." } };
        parts.push(Part::new("Left out", note));
    }
    Ok(parts)
}

fn seconds(replayed: &Replayed) -> f64 {
    (replayed.last - replayed.first) as f64 / 1e9
}

fn recording(replayed: &Replayed) -> Markup {
    let preamble = &replayed.preamble;
    let (probe, interrupts, lost) = match &replayed.epilogue {
        None => (
            "not known: the recording was not brought to its end, or goes on".to_owned(),
            None,
            "not known".to_owned(),
        ),
        Some(epilogue) => (
            epilogue.probe.map_or_else(
                || "not known: the recording was made of another one".to_owned(),
                |probe| {
                    let (processor, wall) = (probe.processor.as_secs_f64(), probe.wall.as_secs_f64());
                    format!(
                        "{} of processor time in {}: {:.4} % of one processor, {:.4} % at work and the rest to wake and to sleep; ticks that came too late and were left out: {}",
                        one_time(processor),
                        one_time(wall),
                        100.0 * probe.share(),
                        100.0 * probe.working_share(),
                        probe.missed
                    )
                },
            ),
            epilogue.interrupts,
            epilogue.lost.to_string(),
        ),
    };
    let interrupts = interrupts.map(|share| {
        let text = format!("{:.3} % of each processor", 100.0 * share);
        (
            "what the kernel's interrupts for samples took besides",
            text,
        )
    });
    let places: Vec<String> = replayed
        .places
        .iter()
        .take(16)
        .map(ToString::to_string)
        .collect();
    let more = replayed.places.len() - places.len();
    let places = if more > 0 {
        format!("{} and {more} more", places.join(", "))
    } else {
        places.join(", ")
    };
    // Its beginning is that of the monitor, which is when times count from.
    let began = match preamble.origin_unix_nanos {
        0 => "not known".to_owned(),
        origin => date(origin),
    };
    let rows = [
        ("times count from", began),
        (
            "from the first sample's beginning to the last one's end",
            one_time(seconds(replayed)),
        ),
        ("sets a second, as asked for", digits(preamble.hz)),
        ("samples", replayed.samples.to_string()),
        (
            "samples that were overwritten before they were written",
            lost,
        ),
        ("places", places),
        ("what the monitor itself took (the probe effect)", probe),
    ];
    text_table(
        &["", "value"],
        2,
        rows.into_iter()
            .chain(interrupts)
            .map(|(name, value)| vec![name.to_owned(), value]),
    )
}

fn missing(replayed: &Replayed) -> Markup {
    const EVERYWHERE: &str = "everywhere";

    let recorded = replayed.missing.iter().map(|missing| {
        let place = missing.place.as_deref().unwrap_or(EVERYWHERE);
        [&missing.reason, place, &missing.set, &missing.name].map(|text| clean(text, 200))
    });
    let never = replayed.monitor.never_free();
    let never = never.iter().map(|missing| {
        let place = missing.place.map(|place| place.to_string());
        let place = place.unwrap_or_else(|| EVERYWHERE.to_owned());
        [
            missing.reason.to_string(),
            place,
            missing.set.clone(),
            missing.name.clone(),
        ]
    });
    // What is missing for one reason stands together.
    let mut by_reason: BTreeMap<(String, String), BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for [reason, place, set, name] in recorded.chain(never) {
        let sets = by_reason.entry((reason, place)).or_default();
        sets.entry(set).or_default().push(name);
    }
    let rows = by_reason
        .into_iter()
        .take(MOST_ROWS)
        .map(|((reason, place), sets)| {
            let sets = sets.into_iter().map(|(set, names)| match set.as_str() {
                "" => names.join(", "),
                set => format!("{} of {set}", names.join(", ")),
            });
            vec![reason, place, sets.collect::<Vec<_>>().join("; ")]
        });
    let rows: Vec<Vec<String>> = rows.collect();
    html! {
        @if rows.is_empty() {
            p { "Everything that was asked for was counted." }
        } @else {
            p { "What was asked for and not counted, with the reason as it was when the recording was made." }
            (text_table(&["why", "where", "events or gauges, of sets"], 3, rows.into_iter()))
        }
    }
}

fn totals(replayed: &Replayed) -> Markup {
    let layout = &replayed.layout;
    let counted = replayed
        .monitor
        .totals()
        .iter()
        .filter(|totals| totals.samples > 0);
    let rows: Vec<Vec<String>> = counted
        .flat_map(|totals| {
            let set = &layout.sets().sets()[totals.set];
            let metrics = set.metrics().iter().enumerate();
            let metrics = metrics.map(|(index, metric)| {
                let value = totals.metric(layout, index);
                (
                    format!("{} = {}", metric.name(), metric.formula().text()),
                    [cell(value), "-".to_owned()],
                    None,
                )
            });
            let events = set.events().iter().enumerate();
            let events = events.map(|(index, name)| {
                let count = totals.event(index);
                let rate = count.map(|count| count / totals.time.as_secs_f64().max(1e-9));
                (
                    named(name),
                    [count.map_or_else(|| "-".to_owned(), whole), cell(rate)],
                    totals.counts()[index].share(),
                )
            });
            let head = move |name: String, [value, rate]: [String; 2], share: Option<f64>| {
                row(totals, set, name, value, rate, share)
            };
            metrics
                .chain(events)
                .map(move |(name, values, share)| head(name, values, share))
                .collect::<Vec<_>>()
        })
        .collect();
    let left = rows.len().saturating_sub(MOST_ROWS);
    let heads = [
        "set",
        "place",
        "event or metric",
        "in all",
        "a second",
        "counted, % of its time",
        "time of the set, s",
        "samples",
    ];
    html! {
        (text_table(&heads, 3, rows.into_iter().take(MOST_ROWS)))
        @if left > 0 { p.warning { "and " (left) " more rows" } }
        p.note { "A second is one of the time that the set was counted: sets take turns. Metrics are of the totals. - is what was not counted." }
    }
}

fn row(
    totals: &Totals,
    set: &EventSet,
    name: String,
    value: String,
    rate: String,
    share: Option<f64>,
) -> Vec<String> {
    vec![
        set.name().to_owned(),
        totals.place.to_string(),
        name,
        value,
        rate,
        share.map_or_else(|| "-".to_owned(), percent),
        digits(totals.time.as_secs_f64()),
        totals.samples.to_string(),
    ]
}

/// Whether what is counted is time, in ns.
fn is_time(event: &str) -> bool {
    matches!(event, "task-clock" | "cpu-clock")
}

/// With the unit, if it is another than one of what the name says.
fn named(event: &str) -> String {
    if is_time(event) {
        format!("{event}, ns")
    } else {
        event.to_owned()
    }
}

/// A count, every digit of it as long as that says anything.
fn whole(count: f64) -> String {
    if count < 1e15 {
        format!("{count:.0}")
    } else {
        digits(count)
    }
}

/// Lines of one quantity, as many places to a figure as there are colours.
fn figures<'a>(
    replayed: &'a Replayed,
    title: &str,
    label: &str,
    lines: &[(String, &'a Line)],
    left: &mut usize,
) -> Result<Vec<Markup>, Failure> {
    let mut figures = Vec::new();
    for some in lines.chunks(LOOKS.len()) {
        if *left == 0 {
            break;
        }
        let plot = LinePlot {
            title,
            label: label.to_owned(),
            factor: 1.0,
            span: (replayed.first, replayed.last),
            unit: number::span(seconds(replayed)),
            is_small: true,
            lines: some
                .iter()
                .map(|(name, line)| TimeLine { name, line })
                .collect(),
        };
        if let Some(figure) = plot.figure()? {
            figures.push(figure);
            *left -= 1;
        }
    }
    Ok(figures)
}

fn set_figures(
    replayed: &Replayed,
    number: usize,
    set: &EventSet,
    left: &mut usize,
) -> Result<Markup, Failure> {
    let metrics = (0..set.metrics().len()).map(Quantity::Metric);
    let events = (0..set.events().len()).map(Quantity::Event);
    let mut all = Vec::new();
    for quantity in metrics.chain(events) {
        let of = |place: Place| replayed.lines.get(&(number, quantity, place));
        let lines: Vec<(String, &Line)> = replayed
            .places
            .iter()
            .filter_map(|place| Some((place.to_string(), of(*place)?)))
            .collect();
        let (title, label) = match quantity {
            Quantity::Metric(index) => {
                let metric = &set.metrics()[index];
                (
                    format!("{} = {}", metric.name(), metric.formula().text()),
                    metric.name().to_owned(),
                )
            }
            Quantity::Event(index) => {
                let name = &set.events()[index];
                let unit = if is_time(name) { "ns" } else { "events" };
                (
                    format!("{name}, {unit} a second"),
                    format!("{name}, {unit}/s"),
                )
            }
        };
        all.extend(figures(replayed, &title, &label, &lines, left)?);
    }
    let beyond = replayed.places.len().saturating_sub(replayed.drawn_places);
    Ok(html! {
        @if !set.description().is_empty() { p { (clean(set.description(), 400)) "." } }
        @if beyond > 0 { p.warning { (beyond) " more places are not drawn: their totals are in the table." } }
        div.small { @for figure in &all { (figure) } }
    })
}

fn gauges(replayed: &Replayed, left: &mut usize) -> Result<Markup, Failure> {
    let mut all = Vec::new();
    for (index, (name, line)) in replayed
        .layout
        .gauges()
        .iter()
        .zip(&replayed.gauges)
        .enumerate()
    {
        let (title, label) = if replayed.layout.is_count(index) {
            (format!("{name}, a second"), format!("{name}/s"))
        } else {
            (format!("{name}, in its own unit"), name.clone())
        };
        all.extend(figures(
            replayed,
            &title,
            &label,
            &[(name.clone(), line)],
            left,
        )?);
    }
    Ok(html! { div.small { @for figure in &all { (figure) } } })
}
