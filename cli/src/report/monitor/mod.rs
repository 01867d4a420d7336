//! Recordings of `monitor --out FILE.jsonl`: replayed, so that what is drawn is what a replay counts.

mod show;
mod stack;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::Arc;

use tautline::pmu::{
    Cursor, Epilogue, Layout, MAX_PLACES, Monitor, Place, Preamble, RecordedMissing, Recording,
    ReplayCounters, Sample,
};

use super::error::InputError;
use super::input::{Counted, Input, Kind, cut};
use super::number::so_many;
use super::page::Section;
use super::thin::Line;
use crate::failure::Failure;
use crate::monitor::NO_END;

/// Points of all lines together: what a page may hold, some megabytes.
const MOST_POINTS: usize = 200_000;
/// Lines; of more places than fit, only totals are shown.
const MOST_LINES: usize = 4000;
/// Spans of one line.
const SPANS: (usize, usize) = (50, 500);

/// What a line shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Quantity {
    /// Index of a set's metric.
    Metric(usize),
    /// Index of a set's event: so many a second.
    Event(usize),
}

/// A recording that has been replayed to its end.
struct Replayed {
    monitor: Monitor<ReplayCounters>,
    layout: Arc<Layout>,
    preamble: Preamble,
    missing: Vec<RecordedMissing>,
    epilogue: Option<Epilogue>,
    samples: usize,
    /// Of the samples, ns.
    first: u64,
    last: u64,
    /// All places, and of how many of them there are lines.
    places: Vec<Place>,
    drawn_places: usize,
    /// By set, quantity and place.
    lines: BTreeMap<(usize, Quantity, Place), Line>,
    gauges: Vec<Line>,
}

pub(super) fn section(id: &str, input: Input) -> Result<Section, Failure> {
    let (file, mut reader) = input.into_reader();
    let recording = Recording::read(&mut reader).map_err(|source| InputError::Recording {
        file: file.clone(),
        source,
    })?;
    let cut = if recording.is_cut() {
        Some(cut(&file, reader.lines + 1))
    } else if recording.epilogue().is_none() {
        Some(format!("{file}: {NO_END}"))
    } else {
        None
    };
    check_end(&file, &mut reader)?;
    let replayed = replay(&file, recording)?;
    let sets = replayed.layout.sets().sets().len();
    Ok(Section {
        id: id.to_owned(),
        kind: Kind::Monitor,
        extent: format!(
            "{}, {}, {}",
            so_many(replayed.samples, "sample", "samples"),
            so_many(replayed.places.len(), "place", "places"),
            so_many(sets, "set", "sets")
        ),
        cut,
        parts: show::parts(&replayed)?,
        file,
    })
}

/// A replay stops at the end that a monitor has written; what comes after it would be missing without a word.
fn check_end(file: &str, reader: &mut Counted) -> Result<(), InputError> {
    let failed = |source| InputError::Io {
        file: file.to_owned(),
        source,
    };
    loop {
        let rest = reader.fill_buf().map_err(failed)?;
        if rest.is_empty() {
            return Ok(());
        }
        let blank = rest
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
        let is_more = blank < rest.len();
        reader.consume(blank);
        if is_more {
            return Err(InputError::Line {
                file: file.to_owned(),
                line: reader.lines + 1,
                kind: Kind::Monitor,
                reason: "the recording has ended on a line before, and a file holds one".to_owned(),
            });
        }
    }
}

fn replay(file: &str, recording: Recording) -> Result<Replayed, Failure> {
    let preamble = recording.preamble().clone();
    let missing = recording.missing().to_vec();
    let (epilogue, samples) = (recording.epilogue(), recording.len());
    // As many slots as there may be samples in one tick.
    let monitor = recording.monitor(|config| config.slots(MAX_PLACES));
    let mut monitor = monitor.map_err(|error| Failure::of(file, &error))?;
    let layout = Arc::clone(monitor.layout());
    let mut places: Vec<Place> = monitor.totals().iter().map(|totals| totals.place).collect();
    places.sort_unstable();
    places.dedup();
    let sets = layout.sets().sets().iter();
    let of_place: usize = sets
        .map(|set| set.events().len() + set.metrics().len())
        .sum();
    let drawn_places = (MOST_LINES / of_place.max(1)).clamp(1, places.len().max(1));
    let lines = of_place * drawn_places + layout.gauges().len();
    let spans = (MOST_POINTS / 2 / lines.max(1)).clamp(SPANS.0, SPANS.1);
    let mut gauges: Vec<Line> = layout.gauges().iter().map(|_| Line::new(spans)).collect();
    let mut lines: BTreeMap<(usize, Quantity, Place), Line> = BTreeMap::new();
    let (mut first, mut last) = (u64::MAX, 0);
    let mut cursor = Cursor::default();
    let mut of_gauges = None;
    while monitor.replay_tick() {
        while let Some(sample) = monitor.store().get(&layout, cursor) {
            cursor = cursor.next();
            let head = sample.head();
            let at = head.at.as_nanos();
            first = first.min((head.at - head.interval).as_nanos());
            last = last.max(at);
            // Those of one tick have the same.
            if of_gauges.replace(at) != Some(at) {
                for (index, line) in gauges.iter_mut().enumerate() {
                    if let Some(value) = gauge(&sample, index) {
                        line.add(at, value);
                    }
                }
            }
            if !places[..drawn_places.min(places.len())].contains(&head.place) {
                continue;
            }
            for (quantity, value) in values(&sample) {
                let line = lines.entry((head.set, quantity, head.place));
                line.or_insert_with(|| Line::new(spans)).add(at, value);
            }
        }
    }
    Ok(Replayed {
        monitor,
        layout,
        preamble,
        missing,
        epilogue,
        samples,
        first: first.min(last),
        last,
        places,
        drawn_places,
        lines,
        gauges,
    })
}

/// What of a sample is drawn: metrics, and events in a second.
fn values<'a>(sample: &'a Sample<'a>) -> impl Iterator<Item = (Quantity, f64)> + 'a {
    let seconds = sample.head().interval.as_secs_f64();
    let metrics = (0..sample.set().metrics().len())
        .filter_map(|index| Some((Quantity::Metric(index), sample.metric(index)?)));
    let events = (0..sample.set().events().len()).filter_map(move |index| {
        let count = sample.event(index)?;
        (seconds > 0.0).then(|| (Quantity::Event(index), count / seconds))
    });
    metrics.chain(events)
}

/// A level as it is, a count in a second.
fn gauge(sample: &Sample<'_>, index: usize) -> Option<f64> {
    let value = sample.gauge(index)?;
    if !sample.layout().is_count(index) {
        return Some(value);
    }
    let seconds = sample.head().interval.as_secs_f64();
    (seconds > 0.0).then(|| value / seconds)
}
