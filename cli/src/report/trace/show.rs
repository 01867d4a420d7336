//! Figures and tables of a trace.

use maud::{Markup, html};

use super::{MAX_STREAMS, Tally, Trace};
use crate::failure::Failure;
use crate::report::number::{self, digits, one_size, one_time, percent, share};
use crate::report::page::{Part, text_table};
use crate::report::plot::{LinePlot, Strip, StripPlot, TimeLine};
use crate::report::thin::Line;

/// Strips in the figure; what is rarer is in the table.
const STRIPS: usize = 14;
/// Streams in the table.
const STREAMS: usize = 50;

pub(super) fn parts(trace: &mut Trace) -> Result<Vec<Part>, Failure> {
    let strips = arms_over_time(trace)?;
    for tallies in [&mut trace.arms, &mut trace.reasons, &mut trace.streams] {
        tallies.sort_by(|left, right| {
            right
                .decisions
                .cmp(&left.decisions)
                .then_with(|| left.name.cmp(&right.name))
        });
    }
    Ok(vec![
        Part::new("Summary", summary(trace)),
        Part::new(
            "Arms",
            html! { (strips) (tallies("arm", &trace.arms, &trace.all)) },
        ),
        Part::new("Reasons", tallies("reason", &trace.reasons, &trace.all)),
        Part::new("Link", link(trace)?),
        Part::new("Regret", regret(trace)?),
        Part::new("Streams", streams(trace)),
    ])
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

fn summary(trace: &Trace) -> Markup {
    let all = &trace.all;
    let span = seconds(trace.last - trace.first);
    let rows = [
        ("decisions", all.decisions.to_string()),
        ("from the first to the last", one_time(span)),
        (
            "since the origin of times, at the first",
            one_time(seconds(trace.first)),
        ),
        ("plain bytes expected in their blocks", one_size(all.plain)),
        ("regret, sum", one_time(seconds(all.regret_ns))),
        (
            "regret, mean of a decision",
            one_time(seconds(all.regret_ns) / all.decisions.max(1) as f64),
        ),
        ("regret, greatest", one_time(seconds(trace.greatest_regret))),
        (
            "decisions without a known link rate",
            of(trace.unknown_link, all.decisions),
        ),
        (
            "decisions with the codec budget spent",
            of(trace.out_of_budget, all.decisions),
        ),
        (
            "decisions with a peer short of processor time",
            of(trace.starved, all.decisions),
        ),
    ];
    html! {
        @if trace.backwards > 0 {
            p.warning { "Times go back by more than a second, " (trace.backwards) " times: the file holds more than one run, and its figures are of all of them together." }
        }
        (text_table(&["", "value"], 2, rows.into_iter().map(|(name, value)| vec![name.to_owned(), value])))
        p.note { "A trace may lack decisions that came faster than they were written; the sender said so then, on stderr." }
    }
}

fn of(part: u64, all: u64) -> String {
    format!("{part} ({} %)", percent(share(part, all)))
}

fn tallies(what: &str, tallies: &[Tally], all: &Tally) -> Markup {
    let plain = number::bytes(tallies.iter().map(|tally| tally.plain as f64));
    let regret = number::time(tallies.iter().map(|tally| seconds(tally.regret_ns)));
    let heads = [
        what.to_owned(),
        "decisions".to_owned(),
        "of all, %".to_owned(),
        format!("plain, {}", plain.name),
        "of all plain bytes, %".to_owned(),
        "block, mean, B".to_owned(),
        format!("regret, sum, {}", regret.name),
    ];
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    text_table(
        &heads,
        1,
        tallies.iter().map(|tally| {
            vec![
                tally.name.clone(),
                tally.decisions.to_string(),
                percent(share(tally.decisions, all.decisions)),
                plain.digits(tally.plain as f64),
                percent(share(tally.plain, all.plain)),
                digits(tally.plain as f64 / tally.decisions.max(1) as f64),
                regret.digits(seconds(tally.regret_ns)),
            ]
        }),
    )
}

/// Before the arms are sorted: spans know them by number.
fn arms_over_time(trace: &Trace) -> Result<Markup, Failure> {
    let mut order: Vec<usize> = (0..trace.arms.len()).collect();
    order.sort_by(|left, right| {
        let of = |arm: &usize| {
            (
                std::cmp::Reverse(trace.arms[*arm].decisions),
                &trace.arms[*arm].name,
            )
        };
        of(left).cmp(&of(right))
    });
    let rest = order.split_off(order.len().min(STRIPS));
    let shares = |is_meant: &dyn Fn(usize) -> bool| {
        let spans = trace.over_time.iter();
        let shares = spans.map(|(from, to, counts)| {
            let all: u64 = counts.iter().sum();
            let meant = counts.iter().enumerate().filter(|(arm, _)| is_meant(*arm));
            let (from, to) = (from.max(trace.first), to.min(trace.last));
            (from, to, share(meant.map(|(_, count)| count).sum(), all))
        });
        shares.filter(|(_, _, share)| *share > 0.0).collect()
    };
    let mut strips: Vec<Strip> = order
        .iter()
        .map(|&arm| Strip {
            name: trace.arms[arm].name.clone(),
            shares: shares(&|other| other == arm),
        })
        .collect();
    if !rest.is_empty() {
        strips.push(Strip {
            name: format!("{} other arms", rest.len()),
            shares: shares(&|other| rest.contains(&other)),
        });
    }
    let span = (trace.first, trace.last);
    let plot = StripPlot {
        title: "Arms over time",
        caption: format!(
            "a full bar is all decisions of a span of {}; where there is no bar in any row, nothing was decided",
            one_time(seconds(trace.over_time.length()))
        ),
        span,
        unit: number::span(seconds(trace.last - trace.first)),
        strips: &strips,
    };
    plot.figure()
}

fn one_line(
    trace: &Trace,
    title: &str,
    label: String,
    factor: f64,
    line: &Line,
) -> Result<Option<Markup>, Failure> {
    let plot = LinePlot {
        title,
        label,
        factor,
        span: (trace.first, trace.last),
        unit: number::span(seconds(trace.last - trace.first)),
        is_small: false,
        lines: vec![TimeLine { name: title, line }],
    };
    plot.figure()
}

fn link(trace: &Trace) -> Result<Markup, Failure> {
    let range = trace.link.range();
    let bits = number::bits(trace.link.mean().into_iter());
    let size = |line: &Line| number::bytes(line.range().map(|range| range.1).into_iter());
    let (backlog, queued) = (size(&trace.backlog), size(&trace.queued));
    let rows = [
        (
            format!("link rate, as estimated, {}", bits.name),
            bits,
            &trace.link,
        ),
        (
            format!("wire bytes not yet gone, {}", backlog.name),
            backlog,
            &trace.backlog,
        ),
        (
            format!("plain bytes waiting behind the block, {}", queued.name),
            queued,
            &trace.queued,
        ),
    ];
    let table = text_table(
        &["at decisions", "decisions", "least", "mean", "greatest"],
        1,
        rows.iter().map(|(name, unit, line)| {
            let range = line.range();
            vec![
                name.clone(),
                line.points().to_string(),
                unit.cell(range.map(|range| range.0)),
                unit.cell(line.mean()),
                unit.cell(range.map(|range| range.1)),
            ]
        }),
    );
    Ok(html! {
        @if range.is_none() { p { "The link's rate was never known." } }
        @for (name, unit, line) in &rows {
            @let title = name.split(',').next().unwrap_or_default();
            @if let Some(figure) = one_line(trace, title, name.clone(), unit.of(1.0), line)? { (figure) }
        }
        (table)
    })
}

/// Added up at the end of each span, which is exact there, and whatever order the decisions came in.
fn regret(trace: &Trace) -> Result<Markup, Failure> {
    let mut line = Line::new(super::LINE_SPANS);
    let mut sum = 0u64;
    for (_, to, regret) in trace.regret.iter() {
        sum = sum.saturating_add(*regret);
        line.add(to.min(trace.last), seconds(sum));
    }
    let unit = number::time(std::iter::once(seconds(sum)));
    let label = format!("regret, added up, {}", unit.name);
    let figure = one_line(trace, "Regret, added up", label, unit.of(1.0), &line)?;
    let length = trace.regret.length();
    Ok(html! {
        @if let Some(figure) = figure { (figure) }
        p.note {
            "In all " (one_time(seconds(sum))) " in " (one_time(seconds(trace.last - trace.first))) ", "
            (one_time(seconds(sum) / seconds(trace.last - trace.first).max(1e-9))) " of regret a second"
            @if length > 1 { "; each point is the sum at the end of a span of " (one_time(seconds(length))) }
            "."
        }
    })
}

fn streams(trace: &Trace) -> Markup {
    let shown = &trace.streams[..trace.streams.len().min(STREAMS)];
    let left = trace.streams.len() - shown.len();
    html! {
        (tallies("stream", shown, &trace.all))
        @if left > 0 { p.note { "and " (left) " streams with fewer decisions each" } }
        @if trace.other_streams.decisions > 0 {
            p.note { (trace.other_streams.decisions) " decisions of streams beyond the first " (MAX_STREAMS) " are counted in the figures above, and in no line of their own" }
        }
    }
}
