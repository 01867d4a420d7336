//! What the monitor says to people.

use std::collections::BTreeMap;

use tautline::pmu::{
    CacheSizes, Calibration, Counters, CpiStack, Cursor, EventSets, Missing, Monitor, Names, Place,
    ProbeEffect, Reason,
};

use crate::failure::{Failure, say};
use crate::text::{self, number};

/// The names of what is missing, by the reason for it.
pub(crate) fn by_reason(missing: &[Missing]) -> BTreeMap<String, Vec<String>> {
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for missing in missing {
        let mut name = missing.name.clone();
        if let Some(place) = missing.place {
            name = format!("{name} ({place})");
        }
        let is_of_set = matches!(missing.reason, Reason::TooMany { .. });
        if is_of_set {
            name = format!("{name} of set {}", missing.set);
        }
        let names = by_reason.entry(missing.reason.to_string()).or_default();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    by_reason
}

/// What is missing, on stderr: a line for each reason.
pub(crate) fn missing(missing: &[Missing]) {
    for (reason, names) in by_reason(missing) {
        eprintln!("tautline: not counted: {}: {reason}", names.join(", "));
    }
    if !missing.is_empty() {
        eprintln!("tautline: all else is counted");
    }
}

/// Lines of what was counted since the last ones.
pub(crate) struct Report {
    is_talking: bool,
    cursor: Cursor,
}

impl Report {
    pub(crate) fn new(is_talking: bool) -> Self {
        Self {
            is_talking,
            cursor: Cursor::default(),
        }
    }

    /// For each set and place, the newest sample since the last time.
    pub(crate) fn lines<C: Counters>(&mut self, monitor: &Monitor<C>) -> Result<(), Failure> {
        if !self.is_talking {
            return Ok(());
        }
        let (store, layout) = (monitor.store(), monitor.layout());
        let mut newest: BTreeMap<(usize, Place), Cursor> = BTreeMap::new();
        let mut cursor = self.cursor.max(store.start());
        while let Some(sample) = store.get(layout, cursor) {
            newest.insert((sample.head().set, sample.head().place), cursor);
            cursor = cursor.next();
        }
        self.cursor = cursor;
        for ((_, place), cursor) in newest {
            let Some(sample) = store.get(layout, cursor) else {
                continue;
            };
            let set = sample.set();
            let events = set.events().iter().enumerate();
            let events = events.map(|(index, name)| (name.as_str(), sample.event(index)));
            let metrics = set.metrics().iter().enumerate();
            let metrics = metrics.map(|(index, metric)| (metric.name(), sample.metric(index)));
            let values: Vec<_> = events
                .chain(metrics)
                .filter_map(|(name, value)| Some(format!("{name} {}", number(value?))))
                .collect();
            if values.is_empty() {
                continue;
            }
            let scaled = match sample.share() {
                Some(share) if share < 0.995 => {
                    format!(" (counted {:.0} % of the time)", 100.0 * share)
                }
                _ => String::new(),
            };
            let at = sample.head().at.as_secs_f64();
            say!(
                "{at:9.3} s  {place}  {}: {}{scaled}",
                set.name(),
                values.join(", ")
            )?;
        }
        Ok(())
    }
}

/// All that was counted, and the stack; whether there is one.
pub(crate) fn summary<C: Counters>(
    monitor: &Monitor<C>,
    penalty: impl Fn(&str) -> Option<f64>,
) -> Result<bool, Failure> {
    let layout = monitor.layout();
    say!("in all:")?;
    let mut places = Vec::new();
    for totals in monitor.totals() {
        if !places.contains(&totals.place) {
            places.push(totals.place);
        }
        let set = &layout.sets().sets()[totals.set];
        let events = set.events().iter().enumerate();
        let events = events.map(|(index, name)| (name.as_str(), totals.event(index)));
        let metrics = set.metrics().iter().enumerate();
        let metrics = metrics.map(|(index, metric)| (metric.name(), totals.metric(layout, index)));
        let values: Vec<_> = events
            .chain(metrics)
            .filter_map(|(name, value)| Some(format!("{name} {}", number(value?))))
            .collect();
        if !values.is_empty() && totals.samples > 0 {
            let time = text::time(totals.time);
            say!(
                "  {}  {} in {time}: {}",
                totals.place,
                set.name(),
                values.join(", ")
            )?;
        }
    }
    let mut has_stack = false;
    for place in places {
        if let Some(stack) = CpiStack::of(place, monitor.totals(), layout, &penalty) {
            say!("{}", stack.to_string().trim_end())?;
            has_stack = true;
        }
    }
    missing(&monitor.never_free());
    let (samples, kept) = (monitor.store().end().number(), monitor.store().len());
    say!(
        "{samples} samples, the newest {kept} in memory ({} at most)",
        text::bytes(monitor.store().memory() as u64)
    )?;
    Ok(has_stack)
}

/// What the monitor took.
pub(crate) fn probe(beginning: ProbeEffect, probe: ProbeEffect, is_sampled: bool) -> String {
    let missed = match (probe.missed, is_sampled) {
        (0, _) => String::new(),
        (missed, true) => format!("; {missed} samples were lost, and are part of the next"),
        (missed, false) => format!("; {missed} ticks came too late and were left out"),
    };
    let sampled = if is_sampled {
        "; samples are taken by the kernel, in interrupts whose time is not in it"
    } else {
        ""
    };
    format!(
        "the monitor took {:.4} % of one processor ({} in {}), and {} to begin{sampled}{missed}",
        100.0 * probe.share(),
        text::fine_time(probe.processor),
        text::time(probe.wall),
        text::fine_time(beginning.processor),
    )
}

pub(crate) fn calibration(sizes: CacheSizes, measured: &Calibration) -> String {
    let [l1, l2, llc, memory] = measured.load_nanos;
    let bytes = |bytes: usize| text::bytes(bytes as u64);
    let loads = format!(
        "a load from L1 ({}) {l1:.1} ns, L2 ({}) {l2:.1} ns, last cache ({}) {llc:.1} ns, memory {memory:.1} ns",
        bytes(sizes.l1),
        bytes(sizes.l2),
        bytes(sizes.llc),
    );
    let penalties = ["l2", "llc", "memory", "branch"]
        .map(|name| format!("{name} {:.1}", measured.penalty(name).unwrap_or(f64::NAN)));
    format!(
        "{loads}\npenalties in cycles: {}; estimated, without counters",
        penalties.join(", ")
    )
}

pub(crate) fn list(sets: &EventSets, names: &Names) -> Result<(), Failure> {
    say!("sets:")?;
    for set in sets.sets() {
        say!("  {:<10} {}", set.name(), set.description())?;
        say!("  {:<10}   events {}", "", set.events().join(" "))?;
        for metric in set.metrics() {
            say!(
                "  {:<10}   {} = {}",
                "",
                metric.name(),
                metric.formula().text()
            )?;
        }
    }
    say!("models of this processor:")?;
    for model in names.models() {
        let penalties = model.penalties().iter();
        let penalties: Vec<_> = penalties
            .map(|(name, cycles)| format!("{name} {cycles}"))
            .collect();
        say!(
            "  {}; penalties in cycles: {}",
            model.name(),
            penalties.join(", ")
        )?;
    }
    Ok(())
}
