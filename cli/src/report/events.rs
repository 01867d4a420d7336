//! Analyses of `events analyse --json`: times of messages by stage, streams, codecs, rows lost.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Deserialize;

use super::input::{Input, Kind, Refused, measured};
use super::number::{self, Unit, cell, one_size, one_time, percent, share};
use super::page::{Part, Section, clean, text_table};
use super::plot::{Mark, Row, RowPlot};
use crate::events::Stage;
use crate::failure::Failure;

/// Analyses in one file.
const MAX_ANALYSES: usize = 100;
/// Rows of a table.
const MAX_ROWS: usize = 200;
/// Names of quantiles, in the order of the fields.
const QUANTILES: [&str; 4] = ["p50", "p90", "p99", "greatest"];

#[derive(Deserialize)]
struct RawAnalysis {
    seconds: f64,
    stages: BTreeMap<String, RawTimes>,
    streams: BTreeMap<String, RawStream>,
    arms: BTreeMap<String, RawArm>,
    events: BTreeMap<String, u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    load: Option<f64>,
    rows: u64,
    rows_lost: u64,
    unrecorded: u64,
    ring_bytes: u64,
    ring_bytes_to_lose_nothing: u64,
}

#[derive(Deserialize)]
struct RawTimes {
    messages: u64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    most_ns: u64,
}

impl RawTimes {
    /// Seconds, as in [`QUANTILES`].
    fn seconds(&self) -> [f64; 4] {
        [self.p50_ns, self.p90_ns, self.p99_ns, self.most_ns].map(|nanos| nanos as f64 / 1e9)
    }
}

#[derive(Deserialize)]
struct RawStream {
    sent: u64,
    sent_bytes: u64,
    received: u64,
    received_bytes: u64,
    #[serde(rename = "queued to acked")]
    out: RawTimes,
    #[serde(rename = "received to delivered")]
    within: RawTimes,
}

#[derive(Deserialize)]
struct RawArm {
    blocks: u64,
    plain: u64,
    wire: u64,
    encode_ns: u64,
}

pub(super) fn section(id: &str, input: &mut Input) -> Result<Section, Failure> {
    let mut analyses: Vec<RawAnalysis> = Vec::new();
    let cut = input.each(|raw: RawAnalysis| {
        check(&raw)?;
        if analyses.len() == MAX_ANALYSES {
            return Err(Refused::TooMany("analyses", MAX_ANALYSES));
        }
        analyses.push(raw);
        Ok(())
    })?;
    let mut parts = Vec::new();
    for (number, analysis) in analyses.iter().enumerate() {
        let of = if analyses.len() > 1 {
            format!(", analysis {}", number + 1)
        } else {
            String::new()
        };
        parts.push(Part::new(format!("Stages{of}"), stages(analysis)?));
        parts.push(Part::new(format!("Streams{of}"), streams(analysis)));
        parts.push(Part::new(format!("Codecs{of}"), codecs(analysis)));
        parts.push(Part::new(format!("Rows{of}"), rows(analysis)));
    }
    let extent = match analyses.as_slice() {
        [one] => format!("{} rows of {}", one.rows, one_time(one.seconds)),
        all => format!("{} analyses", all.len()),
    };
    Ok(Section {
        id: id.to_owned(),
        file: input.name().to_owned(),
        kind: Kind::Events,
        extent,
        cut,
        parts,
    })
}

fn check(raw: &RawAnalysis) -> Result<(), Refused> {
    measured("seconds", raw.seconds)?;
    if let Some(load) = raw.load {
        measured("load", load)?;
    }
    for (stage, times) in &raw.stages {
        if !times.seconds().is_sorted() {
            return Err(Refused::Wrong(format!(
                "the quantiles of stage `{stage}` are not in order"
            )));
        }
    }
    Ok(())
}

/// In the order in which messages go through them; others that are not known after those.
fn in_order(analysis: &RawAnalysis) -> Vec<(String, &RawTimes)> {
    let place = |name: &str| {
        Stage::ALL
            .iter()
            .position(|stage| stage.name() == name)
            .unwrap_or(Stage::ALL.len())
    };
    let mut stages: Vec<_> = analysis.stages.iter().collect();
    stages.sort_by_key(|(name, _)| place(name));
    stages
        .into_iter()
        .take(MAX_ROWS)
        .map(|(name, times)| (clean(name, 80), times))
        .collect()
}

fn stages(analysis: &RawAnalysis) -> Result<Markup, Failure> {
    let stages = in_order(analysis);
    if stages.is_empty() {
        return Ok(
            html! { p { "No message went through any stage in " (one_time(analysis.seconds)) "." } },
        );
    }
    let unit = number::time(stages.iter().map(|(_, times)| times.seconds()[0]));
    let rows: Vec<Row> = stages
        .iter()
        .map(|(name, times)| row(name, times, unit))
        .collect();
    let names = QUANTILES.map(str::to_owned);
    let plot = RowPlot {
        title: "Times of messages by stage",
        label: format!("time of a message, {} (log)", unit.name),
        line: None,
        names: &names,
        others: None,
        is_joined: true,
        rows: &rows,
    };
    let mut heads = vec!["stage".to_owned(), "messages".to_owned()];
    heads.extend(QUANTILES.map(|name| format!("{name}, {}", unit.name)));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let table = text_table(
        &heads,
        1,
        stages.iter().map(|(name, times)| {
            let texts = times.seconds().map(|seconds| unit.digits(seconds));
            [name.clone(), times.messages.to_string()]
                .into_iter()
                .chain(texts)
                .collect()
        }),
    );
    Ok(html! {
        @if let Some(figure) = plot.figure()? { (figure) }
        (table)
        @if let Some(load) = analysis.load { p.note { "Processor load, the latest: " (percent(load)) " %." } }
    })
}

fn row(name: &str, times: &RawTimes, unit: Unit) -> Row {
    let marks = times
        .seconds()
        .into_iter()
        .enumerate()
        .map(|(look, seconds)| {
            // What is shorter than a clock tells, or has one time for both its ends, is drawn at about what a clock's reading takes.
            let at = unit.of(seconds.max(1e-8));
            Mark {
                look: Some(look),
                at,
                from: at,
                to: at,
            }
        });
    Row {
        name: name.to_owned(),
        marks: marks.collect(),
    }
}

/// What is said where a table does not show everything.
fn left_out(count: usize, what: &str) -> Markup {
    html! { @if count > MAX_ROWS { p.note { "and " (count - MAX_ROWS) " more " (what) } } }
}

fn streams(analysis: &RawAnalysis) -> Markup {
    let per_second = |amount: u64| amount as f64 / analysis.seconds.max(1e-9);
    let sizes = analysis
        .streams
        .values()
        .flat_map(|stream| [stream.sent_bytes, stream.received_bytes]);
    let bytes = number::bytes(sizes.map(per_second));
    let of = |times: fn(&RawStream) -> &RawTimes| {
        let times = analysis.streams.values().map(times);
        let times = times.filter(|times| times.messages > 0);
        number::time(times.map(|times| times.seconds()[0]))
    };
    let (out, within) = (of(|stream| &stream.out), of(|stream| &stream.within));
    let heads = [
        "stream".to_owned(),
        "sent".to_owned(),
        "sent, messages/s".to_owned(),
        format!("sent, {}/s", bytes.name),
        "received".to_owned(),
        "received, messages/s".to_owned(),
        format!("received, {}/s", bytes.name),
        format!("queued to acked, p50, {}", out.name),
        format!("queued to acked, p99, {}", out.name),
        format!("received to delivered, p50, {}", within.name),
        format!("received to delivered, p99, {}", within.name),
    ];
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let rows = analysis
        .streams
        .iter()
        .take(MAX_ROWS)
        .map(|(name, stream)| {
            let quantile = |unit: Unit, times: &RawTimes, at: usize| {
                unit.cell((times.messages > 0).then(|| times.seconds()[at]))
            };
            vec![
                clean(name, 80),
                stream.sent.to_string(),
                cell(Some(per_second(stream.sent))),
                bytes.digits(per_second(stream.sent_bytes)),
                stream.received.to_string(),
                cell(Some(per_second(stream.received))),
                bytes.digits(per_second(stream.received_bytes)),
                quantile(out, &stream.out, 0),
                quantile(out, &stream.out, 2),
                quantile(within, &stream.within, 0),
                quantile(within, &stream.within, 2),
            ]
        });
    html! {
        (text_table(&heads, 1, rows))
        (left_out(analysis.streams.len(), "streams"))
    }
}

fn codecs(analysis: &RawAnalysis) -> Markup {
    let mut arms: Vec<_> = analysis.arms.iter().collect();
    arms.sort_by_key(|(name, arm)| (std::cmp::Reverse(arm.plain), *name));
    let plain = number::bytes(arms.iter().map(|(_, arm)| arm.plain as f64));
    let all = arms
        .iter()
        .fold(0u64, |sum, (_, arm)| sum.saturating_add(arm.plain));
    let each =
        |arm: &RawArm| (arm.blocks > 0).then(|| arm.encode_ns as f64 / 1e9 / arm.blocks as f64);
    let time = number::time(arms.iter().filter_map(|(_, arm)| each(arm)));
    let heads = [
        "codec".to_owned(),
        "blocks".to_owned(),
        format!("plain, {}", plain.name),
        "of all plain bytes, %".to_owned(),
        format!("wire, {}", plain.name),
        "ratio, plain/wire".to_owned(),
        "encoding in all, ms".to_owned(),
        format!("encoding of a block, mean, {}", time.name),
        "encoding, MB/s".to_owned(),
    ];
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let rows = arms.iter().take(MAX_ROWS).map(|(name, arm)| {
        let ratio = (arm.wire > 0).then(|| arm.plain as f64 / arm.wire as f64);
        let rate = (arm.encode_ns > 0).then(|| arm.plain as f64 / arm.encode_ns as f64 * 1e3);
        vec![
            clean(name, 80),
            arm.blocks.to_string(),
            plain.digits(arm.plain as f64),
            percent(share(arm.plain, all)),
            plain.digits(arm.wire as f64),
            cell(ratio),
            number::digits(arm.encode_ns as f64 / 1e6),
            time.cell(each(arm)),
            cell(rate),
        ]
    });
    html! {
        (text_table(&heads, 1, rows))
        (left_out(arms.len(), "codecs"))
    }
}

fn rows(analysis: &RawAnalysis) -> Markup {
    let rows = analysis
        .events
        .iter()
        .take(MAX_ROWS)
        .map(|(name, count)| vec![clean(name, 80), count.to_string()]);
    html! {
        @if analysis.rows_lost > 0 {
            p.warning {
                (analysis.rows_lost) " rows were overwritten before they were read: times and counts lack them. "
                (one_size(analysis.ring_bytes_to_lose_nothing)) " for each thread would have lost nothing."
            }
        } @else {
            p { "No rows lost, with " (one_size(analysis.ring_bytes)) " for each thread; " (one_size(analysis.ring_bytes_to_lose_nothing)) " would have lost nothing." }
        }
        @if analysis.unrecorded > 0 {
            p.warning { (analysis.unrecorded) " events of threads beyond the log's writers are in no figure." }
        }
        p { (analysis.rows) " rows of " (one_time(analysis.seconds)) "." }
        (text_table(&["event", "rows"], 1, rows))
        (left_out(analysis.events.len(), "events"))
    }
}
