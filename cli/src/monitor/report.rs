//! What the monitor says to people.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tautline::pmu::{
    CacheSizes, Calibration, Counters, CpiStack, Cursor, EventSets, Layout, Missing, Monitor,
    Names, Place, ProbeEffect, Reason, RecordedMissing,
};

use crate::failure::{Failure, say, tell};
use crate::text::{self, number};

/// At so many places something is missing, and these are named; of more, the first.
const PLACES: usize = 3;
/// Of fewer of the kernel's samples than this share it is told. Arbitrary: few are late, and of what idles nearly all are lacking.
const LEAST_SHARE: f64 = 0.5;

/// The names of what is missing, by the reason for it.
pub(crate) fn by_reason(missing: &[Missing]) -> BTreeMap<String, Vec<String>> {
    let mut by_reason: BTreeMap<String, Vec<(String, BTreeSet<Place>)>> = BTreeMap::new();
    for missing in missing {
        let (name, place) = match (missing.reason, missing.place) {
            // Then it is all of it.
            (Reason::Offline | Reason::Exited, Some(place)) => (place.to_string(), None),
            (Reason::TooMany { .. }, place) => {
                (format!("{} of set {}", missing.name, missing.set), place)
            }
            (_, place) => (missing.name.clone(), place),
        };
        let names = by_reason.entry(missing.reason.to_string()).or_default();
        let known = names.iter().position(|(known, _)| *known == name);
        let index = known.unwrap_or(names.len());
        if known.is_none() {
            names.push((name, BTreeSet::new()));
        }
        names[index].1.extend(place);
    }
    let named = |names: Vec<_>| names.into_iter().map(|(name, places)| at(name, &places));
    let by_reason = by_reason.into_iter();
    by_reason
        .map(|(reason, names)| (reason, named(names).collect()))
        .collect()
}

fn at(name: String, places: &BTreeSet<Place>) -> String {
    if places.is_empty() {
        return name;
    }
    let named: Vec<_> = places.iter().take(PLACES).map(Place::to_string).collect();
    let more = match places.len().saturating_sub(PLACES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{name} ({}{more})", named.join(", "))
}

fn not_counted(missing: &[Missing]) {
    let (partly, not): (Vec<_>, Vec<_>) = missing
        .iter()
        .cloned()
        .partition(|missing| matches!(missing.reason, Reason::UserOnly { .. }));
    for (what, missing) in [("not counted", not), ("counted in part", partly)] {
        for (reason, names) in by_reason(&missing) {
            tell!("tautline: {what}: {}: {reason}", names.join(", "));
        }
    }
}

/// What is missing, on stderr: a line for each reason, and what there is all the same.
pub(crate) fn missing<C: Counters>(monitor: &Monitor<C>) {
    if monitor.missing().is_empty() {
        return;
    }
    not_counted(monitor.missing());
    counted(monitor);
}

/// The same of a recording, which mostly says itself why it lacks what it does.
pub(crate) fn missing_in_recording<C: Counters>(
    recorded: &[RecordedMissing],
    monitor: &Monitor<C>,
) {
    let mut by_reason: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for missing in recorded {
        let place = missing.place.as_ref();
        let place = place.map_or(String::new(), |place| format!(" ({place})"));
        let names = by_reason.entry(&missing.reason).or_default();
        names.insert(format!("{}{place}", missing.name));
    }
    for (reason, names) in by_reason {
        let names: Vec<_> = names.into_iter().collect();
        tell!(
            "tautline: not counted in the recording: {}: {reason}",
            names.join(", ")
        );
    }
    let is_said = |missing: &&Missing| {
        let same = |it: &RecordedMissing| it.set == missing.set && it.name == missing.name;
        recorded.iter().any(same)
    };
    let missing = monitor.missing().iter();
    let rest: Vec<_> = missing.filter(|it| !is_said(it)).cloned().collect();
    not_counted(&rest);
    if !recorded.is_empty() || !rest.is_empty() {
        counted(monitor);
    }
}

fn counted<C: Counters>(monitor: &Monitor<C>) {
    let gauges = monitor.layout().gauges();
    if monitor.counts_events() {
        tell!("tautline: all else is counted");
    } else if gauges.is_empty() {
        tell!("tautline: no event is counted at all");
    } else {
        tell!(
            "tautline: no event is counted at all; software metrics are, all the same: {}",
            gauges.join(", ")
        );
    }
}

/// Lines of what was counted since the last ones.
pub(crate) struct Report {
    is_talking: bool,
    cursor: Cursor,
    has_told_idle: bool,
}

impl Report {
    pub(crate) fn new(is_talking: bool) -> Self {
        Self {
            is_talking,
            cursor: Cursor::default(),
            has_told_idle: false,
        }
    }

    /// Says once that most of the kernel's samples of a processor are lacking, if so: some kernels take none while it idles.
    pub(crate) fn tell_idle<C: Counters>(&mut self, monitor: &mut Monitor<C>) {
        let share = monitor.sampled_share();
        if !self.has_told_idle && share.is_some_and(|share| share < LEAST_SHARE) {
            self.has_told_idle = true;
            tell!(
                "tautline: the kernel takes no samples of a processor while it idles: each is as long as that, a quarter of a second at most (a thread takes them all: --sampler thread)"
            );
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
        let mut is_silent = true;
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
                .filter_map(|(name, value)| Some(format!("{name} {}", amount(value?))))
                .collect();
            if values.is_empty() {
                continue;
            }
            is_silent = false;
            let scaled = scaled(sample.share());
            let at = sample.head().at.as_secs_f64();
            say!(
                "{at:9.3} s  {place}  {}: {}{scaled}",
                set.name(),
                values.join(", ")
            )?;
        }
        match store.get(layout, store.newest()) {
            Some(sample) if is_silent => {
                let values = gauges(layout, |index| sample.gauge(index));
                let at = sample.head().at.as_secs_f64();
                match values.as_str() {
                    "" => Ok(()),
                    values => say!("{at:9.3} s  software metrics: {values}"),
                }
            }
            _ => Ok(()),
        }
    }
}

/// A number, but a small whole one as such: most are counts.
fn amount(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 100.0 {
        format!("{value:.0}")
    } else {
        number(value)
    }
}

/// What is said of counts that are scaled, by the share of the time in which they were counted.
fn scaled(share: Option<f64>) -> String {
    share
        .filter(|share| *share < 0.995)
        .map(|share| format!(" (counted {:.0} % of the time)", 100.0 * share))
        .unwrap_or_default()
}

/// Those of the software metrics that have a value.
fn gauges(layout: &Layout, value: impl Fn(usize) -> Option<f64>) -> String {
    let names = layout.gauges().iter().enumerate();
    let values: Vec<_> = names
        .filter_map(|(index, name)| Some(format!("{name} {}", amount(value(index)?))))
        .collect();
    values.join(", ")
}

/// A gauge over the whole time: they are the same at all places, so at the one that was watched longest.
fn whole<C: Counters>(monitor: &Monitor<C>, gauge: usize) -> Option<f64> {
    let (layout, totals) = (monitor.layout(), monitor.totals());
    let mut samples: BTreeMap<Place, u64> = BTreeMap::new();
    for of_set in totals {
        *samples.entry(of_set.place).or_default() += of_set.samples;
    }
    let (place, _) = samples.into_iter().max_by_key(|(_, samples)| *samples)?;
    let there = totals.iter().filter(|totals| totals.place == place);
    let known = there.filter_map(|totals| Some((totals.gauge(layout, gauge)?, totals.samples)));
    let (sum, weighted, samples) = known.fold((0.0, 0.0, 0), |sums, (value, samples)| {
        let weighted = value * samples as f64;
        (sums.0 + value, sums.1 + weighted, sums.2 + samples)
    });
    (samples > 0).then(|| {
        if layout.is_count(gauge) {
            sum
        } else {
            weighted / samples as f64
        }
    })
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
            .filter_map(|(name, value)| Some(format!("{name} {}", amount(value?))))
            .collect();
        if !values.is_empty() && totals.samples > 0 {
            let time = text::time(totals.time);
            say!(
                "  {}  {} in {time}: {}{}",
                totals.place,
                set.name(),
                values.join(", "),
                scaled(totals.share())
            )?;
        }
    }
    match gauges(layout, |index| whole(monitor, index)).as_str() {
        "" => {}
        values => say!("  software metrics: {values}")?,
    }
    let mut has_stack = false;
    for place in places {
        if let Some(stack) = CpiStack::of(place, monitor.totals(), layout, &penalty) {
            say!("{}", stack.to_string().trim_end())?;
            has_stack = true;
        }
    }
    not_counted(&monitor.never_free());
    let (samples, kept) = (monitor.store().end().number(), monitor.store().len());
    say!(
        "{samples} samples, the newest {kept} in memory ({} at most)",
        text::bytes(monitor.store().memory() as u64)
    )?;
    Ok(has_stack)
}

/// Samples that the kernel takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelSamples {
    /// Time of its processor that one takes, which is in nobody's account but of whoever is interrupted; `None` if it could not be measured.
    cost: Option<Duration>,
    hz: f64,
}

impl KernelSamples {
    /// So many in a second, of which this measures what one takes.
    pub(crate) fn measure(hz: f64) -> Self {
        let cost = tautline::pmu::sample_cost().ok().flatten();
        Self { cost, hz }
    }

    /// What they take of each processor, if that is known.
    pub(crate) fn share(&self) -> Option<f64> {
        Some(self.cost?.as_secs_f64() * self.hz)
    }

    fn tell(&self) -> String {
        let (Some(cost), Some(share)) = (self.cost, self.share()) else {
            return "samples are taken by the kernel, in interrupts whose time is not in it"
                .to_owned();
        };
        format!(
            "the kernel's interrupts for samples, which are not in it, take {} each, {:.3} % of each processor",
            text::fine_time(cost),
            100.0 * share,
        )
    }
}

/// What the monitor took, and what the kernel's samples did, if it took them.
pub(crate) fn probe(
    beginning: ProbeEffect,
    probe: ProbeEffect,
    by_kernel: Option<KernelSamples>,
) -> String {
    let missed = match (probe.missed, by_kernel.is_some()) {
        (0, _) => String::new(),
        (missed, true) => format!("; {missed} samples were lost, and are part of the next"),
        (missed, false) => format!("; ticks that came too late and were left out: {missed}"),
    };
    let interrupts = by_kernel.map_or(String::new(), |samples| format!("; {}", samples.tell()));
    format!(
        "the monitor took {:.4} % of one processor ({} in {}, {} of it at work, the rest to wake and to sleep), and {} to begin{interrupts}{missed}",
        100.0 * probe.share(),
        text::fine_time(probe.processor),
        text::time(probe.wall),
        text::fine_time(probe.working),
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
    if names.models().is_empty() {
        say!("  none fits")?;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_no_decimals_and_say_what_they_are_scaled_by() {
        let values = [0.0, 27.0, -3.0, 27.5, 2000.0, 1e6];
        assert_eq!(
            values.map(amount),
            ["0", "27", "-3", "27.500", "2000", "1.000M"]
        );
        assert_eq!(scaled(Some(0.5)), " (counted 50 % of the time)");
        assert_eq!((scaled(Some(0.999)), scaled(None)), Default::default());
    }
}
