//! Tables and plots of a lab.

use maud::{Markup, html};

use super::{Lab, Plot, Run};
use crate::failure::Failure;
use crate::figures::median;
use crate::report::number::{self, Unit, cell, digits};
use crate::report::page::{Part, clean, text_table};
use crate::report::plot::{LOOKS, LinePlot, TimeLine};
use crate::report::thin::Line;

/// Spans of one line of a plot.
const SPANS: usize = 500;
/// Arms and nodes of one plot, as many as are told apart.
const MOST: usize = LOOKS.len();

pub(super) fn parts(lab: &Lab) -> Result<Vec<Part>, Failure> {
    let mut parts = vec![
        Part::new("What was found", found(lab)),
        Part::new("Variants", variants(lab)),
    ];
    for plot in &lab.head.plots {
        let (title, body) = match plot {
            Plot::Rtt => ("Round trips", rtt(lab)?),
            Plot::CumulativeRtt => ("Mean round trip so far", cumulative(lab)?),
            Plot::Arms => ("Messages by arm", arms(lab)?),
            Plot::Budget => ("Load and budget", budget(lab)?),
        };
        parts.push(Part::new(title, body));
    }
    parts.push(Part::new("Nodes and loads", taken(lab)));
    if lab.runs.iter().any(|run| !run.counted.is_empty()) {
        parts.push(Part::new("What was counted", counted(lab)));
    }
    parts.push(Part::new("Where it ran", machine(lab)));
    Ok(parts)
}

fn found(lab: &Lab) -> Markup {
    let figures = lab.figures.iter().map(|figure| {
        let range = figure.range.map_or_else(
            || "-".to_owned(),
            |(least, most)| format!("{} to {}", digits(least), digits(most)),
        );
        vec![
            clean(&figure.name, 200),
            clean(&figure.unit, 40),
            clean(&figure.source, 80),
            clean(&figure.ours, 80),
            range,
            figure.rounds.len().to_string(),
        ]
    });
    let shapes = lab.shapes.iter().map(|shape| {
        vec![
            clean(&shape.say, 300),
            shape.finding.to_string(),
            shape
                .margin
                .as_ref()
                .map_or_else(|| "-".to_owned(), |margin| clean(&margin.to_string(), 200)),
            format!("{} of {}", shape.agreeing, shape.known),
        ]
    });
    html! {
        h4 { (clean(&lab.head.title, 300)) }
        @if !lab.head.source.is_empty() { p { (clean(lab.head.source.trim(), 3000)) } }
        @for note in &lab.head.notes { p.warning { (clean(note, 500)) "." } }
        @if lab.figures.is_empty() {
            p.note { "The scenario has no figures, or was ended before they were found." }
        } @else {
            (text_table(&["figure", "unit", "source", "here, median", "least to greatest", "rounds"], 2, figures))
        }
        @if !lab.shapes.is_empty() {
            (text_table(&["what ought to be", "finding", "by", "rounds"], 3, shapes))
        }
    }
}

/// The runs of each variant, in the order of the scenario.
fn by_variant(lab: &Lab) -> Vec<(&str, Vec<&Run>)> {
    let mut found: Vec<(&str, Vec<&Run>)> = Vec::new();
    let names = lab.head.variants.iter().map(String::as_str);
    let of_runs = lab.runs.iter().map(|run| run.variant.as_str());
    for name in names.chain(of_runs) {
        if !found.iter().any(|(known, _)| *known == name) {
            let runs = lab.runs.iter().filter(|run| run.variant == name);
            found.push((name, runs.collect()));
        }
    }
    found.retain(|(_, runs)| !runs.is_empty());
    found
}

/// What is no number, such as a rate over no time, is left out.
fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    median(&values.filter(|value| value.is_finite()).collect::<Vec<_>>())
}

fn variants(lab: &Lab) -> Markup {
    let mut rows = Vec::new();
    for (name, runs) in by_variant(lab) {
        let Some(first) = runs.first() else { continue };
        for (place, traffic) in first.traffic.iter().enumerate() {
            let of = |pick: &dyn Fn(&super::Traffic) -> f64| {
                middle(
                    runs.iter()
                        .filter_map(|run| run.traffic.get(place))
                        .map(pick),
                )
            };
            let millis = |pick: &dyn Fn(&super::Traffic) -> f64| cell(of(&|one| 1e3 * pick(one)));
            rows.push(vec![
                clean(name, 80),
                clean(&traffic.name, 80),
                clean(&arm_words(&traffic.arms), 200),
                runs.len().to_string(),
                cell(of(&|one| one.messages as f64)),
                cell(of(&|one| one.messages as f64 / one.seconds)),
                millis(&|one| one.rtt.mean),
                millis(&|one| one.rtt.p50),
                millis(&|one| one.rtt.p99),
                millis(&|one| one.rtt.p999),
                millis(&|one| one.rtt.max),
                cell(of(&|one| one.plain_bytes as f64 / one.wire_bytes as f64)),
                cell(of(&|one| one.switches as f64)),
                cell(middle(runs.iter().filter_map(|run| run.others))),
            ]);
        }
    }
    let cuts = lab.runs.iter().filter_map(|run| {
        let cut = run.cut.as_ref()?;
        Some(format!(
            "{}, round {}: {cut}",
            run.variant,
            run.round.saturating_add(1)
        ))
    });
    html! {
        p { "Medians over the rounds; arms are those of the first round. Others are whoever else kept processors busy meanwhile that the lab may use." }
        (text_table(&[
            "variant", "traffic", "arms", "rounds", "messages", "messages/s", "round trip mean, ms", "p50, ms", "p99, ms", "p99.9, ms", "max, ms",
            "ratio, plain/wire", "switches", "others, processors",
        ], 3, rows.into_iter()))
        @for cut in cuts { p.warning { (clean(&cut, 500)) "." } }
    }
}

/// `lz4 92 %, zstd:3 5 %`.
fn arm_words(arms: &[(String, u64)]) -> String {
    let all = arms
        .iter()
        .fold(0_u64, |all, (_, messages)| all.saturating_add(*messages));
    let mut sorted: Vec<&(String, u64)> = arms.iter().filter(|(_, count)| *count > 0).collect();
    sorted.sort_by_key(|(_, messages)| std::cmp::Reverse(*messages));
    let words = sorted.iter().take(5).map(|(arm, messages)| {
        format!("{arm} {} %", number::percent(number::share(*messages, all)))
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The first run of each variant, which plots are of.
fn firsts(lab: &Lab) -> Vec<(&str, &Run)> {
    by_variant(lab)
        .into_iter()
        .filter_map(|(name, runs)| Some((name, *runs.first()?)))
        .collect()
}

fn figure(
    lab: &Lab,
    title: &str,
    label: &str,
    is_small: bool,
    lines: &[(String, Line)],
) -> Result<Markup, Failure> {
    let plot = LinePlot {
        title,
        label: label.to_owned(),
        factor: 1.0,
        span: (0, lab.last_message.max(1)),
        unit: Unit::MESSAGES,
        is_small,
        lines: lines
            .iter()
            .take(MOST)
            .map(|(name, line)| TimeLine { name, line })
            .collect(),
    };
    Ok(plot.figure()?.unwrap_or_default())
}

/// For each variant its first run: mean, least and greatest of messages in a row.
fn rtt(lab: &Lab) -> Result<Markup, Failure> {
    let mut figures = Vec::new();
    for (name, run) in firsts(lab) {
        let mut lines = ["mean", "least", "greatest"].map(|of| (of.to_owned(), Line::new(SPANS)));
        for chunk in &run.series {
            let values = [chunk.mean, chunk.least, chunk.greatest];
            for ((_, line), value) in lines.iter_mut().zip(values) {
                line.add(chunk.first, 1e3 * value);
            }
        }
        let title = format!("{}: round trip by message, first round", clean(name, 80));
        figures.push(figure(lab, &title, "round trip, ms", true, &lines)?);
    }
    Ok(html! {
        p { "Of messages in a row: the mean, the least and the greatest." }
        @for figure in &figures { (figure) }
    })
}

fn cumulative(lab: &Lab) -> Result<Markup, Failure> {
    let mut lines = Vec::new();
    for (name, run) in firsts(lab) {
        let mut line = Line::new(SPANS);
        let (mut sum, mut messages) = (0.0, 0_u64);
        for chunk in &run.series {
            sum += chunk.mean * chunk.messages as f64;
            messages = messages.saturating_add(chunk.messages);
            line.add(chunk.end(), 1e3 * sum / messages.max(1) as f64);
        }
        lines.push((clean(name, 60), line));
    }
    figure(
        lab,
        "The mean of all round trips so far, first round",
        "mean round trip, ms",
        false,
        &lines,
    )
}

fn arms(lab: &Lab) -> Result<Markup, Failure> {
    let mut figures = Vec::new();
    for (name, run) in firsts(lab) {
        let last = run
            .samples
            .iter()
            .rev()
            .find(|sample| !sample.arms.is_empty());
        let Some(last) = last else { continue };
        // Those that carried most.
        let mut order: Vec<usize> = (0..run.arms.len()).collect();
        order.sort_by_key(|arm| std::cmp::Reverse(last.arms.get(*arm).copied().unwrap_or(0)));
        let mut lines = Vec::new();
        for arm in order.into_iter().take(MOST) {
            let mut line = Line::new(SPANS);
            for sample in &run.samples {
                if let (Some(messages), Some(count)) = (sample.messages, sample.arms.get(arm)) {
                    line.add(messages, *count as f64);
                }
            }
            lines.push((clean(&run.arms[arm], 40), line));
        }
        let title = format!("{}: messages by arm so far, first round", clean(name, 80));
        figures.push(figure(lab, &title, "messages", true, &lines)?);
    }
    Ok(html! {
        p { "Up to " (MOST) " arms, those that carried most." }
        @for figure in &figures { (figure) }
    })
}

fn budget(lab: &Lab) -> Result<Markup, Failure> {
    let mut figures = Vec::new();
    for (name, run) in firsts(lab) {
        let Some(sender) = run.traffic.first().map(|traffic| traffic.from.as_str()) else {
            continue;
        };
        let (mut load, mut budget) = (Line::new(SPANS), Line::new(SPANS));
        for sample in run.samples.iter().filter(|sample| sample.node == sender) {
            if let Some(messages) = sample.messages {
                load.add(messages, sample.load);
                if let Some(seconds) = sample.budget {
                    budget.add(messages, seconds);
                }
            }
        }
        let lines = [
            ("load of its processors".to_owned(), load),
            ("codec time allowed, seconds in a second".to_owned(), budget),
        ];
        let title = format!("{}: {}, first round", clean(name, 80), clean(sender, 80));
        figures.push(figure(lab, &title, "share", true, &lines)?);
    }
    Ok(html! { @for figure in &figures { (figure) } })
}

fn taken(lab: &Lab) -> Markup {
    let mut nodes = Vec::new();
    for (name, runs) in by_variant(lab) {
        for (place, node) in runs
            .first()
            .map_or(&[][..], |run| &run.nodes)
            .iter()
            .enumerate()
        {
            let of = |pick: &dyn Fn(&Run, f64) -> f64| {
                let values = runs.iter().filter_map(|run| {
                    let cpu = run.nodes.get(place)?.cpu;
                    Some(pick(run, cpu))
                });
                middle(values)
            };
            let on: Vec<String> = node.processors.iter().map(ToString::to_string).collect();
            let on = if on.is_empty() {
                "any".to_owned()
            } else {
                on.join(", ")
            };
            nodes.push(vec![
                clean(name, 80),
                clean(&node.name, 80),
                on,
                cell(of(&|_, cpu| cpu)),
                cell(of(&|run, cpu| cpu / run.seconds)),
            ]);
        }
    }
    let loads = lab.runs.iter().flat_map(|run| {
        run.loads.iter().map(move |load| {
            vec![
                clean(&run.variant, 80),
                clean(&load.name, 80),
                clean(&load.what, 200),
                run.round.saturating_add(1).to_string(),
                load.processor
                    .map_or_else(|| "-".to_owned(), |one| one.to_string()),
                cell(load.asked),
                cell(load.held),
                format!("{:.2} to {:.2}", load.from.0, load.until.0),
                format!("{} to {}", load.from.1, load.until.1),
            ]
        })
    });
    let loads: Vec<Vec<String>> = loads.collect();
    html! {
        p { "Processor time of each node's process while traffic went on, medians over the rounds." }
        (text_table(&["variant", "node", "processors", "CPU, s", "share of a processor"], 3, nodes.into_iter()))
        @if loads.is_empty() {
            p.note { "No loads were on." }
        } @else {
            (text_table(&["variant", "load", "what", "round", "processor", "asked", "held", "seconds", "messages"], 3, loads.into_iter()))
        }
    }
}

fn counted(lab: &Lab) -> Markup {
    let mut rows = Vec::new();
    for (name, runs) in by_variant(lab) {
        let mut known: Vec<(&str, &str)> = Vec::new();
        for (node, metric, _) in runs.iter().flat_map(|run| &run.counted) {
            if !known.contains(&(node, metric)) && known.len() < 200 {
                known.push((node, metric));
            }
        }
        for (node, metric) in known {
            let values = runs.iter().filter_map(|run| {
                let mut counted = run.counted.iter();
                let found = counted.find(|(of, what, _)| of == node && what == metric);
                found.map(|(_, _, value)| *value)
            });
            rows.push(vec![
                clean(name, 80),
                clean(node, 80),
                clean(metric, 80),
                cell(middle(values)),
            ]);
        }
    }
    html! {
        p { "Metrics of the monitor, of each node's process, medians over the rounds. What is not here could not be counted: the recordings in runs/ say why." }
        (text_table(&["variant", "node", "metric", "value"], 3, rows.into_iter()))
    }
}

fn machine(lab: &Lab) -> Markup {
    let rows = lab
        .head
        .machine
        .iter()
        .map(|(name, value)| vec![clean(name, 80), clean(value, 300)]);
    text_table(&["what", "value"], 2, rows)
}
