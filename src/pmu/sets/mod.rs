//! Event sets: which events are counted together, and what is computed from them. In files, TOML or JSON.
//!
//! ```toml
//! [[sets]]
//! name = "cpi"
//! description = "How much work a cycle does"
//! events = ["cycles", "instructions"]
//! [sets.metrics]
//! cpi = "cycles / instructions"
//! ```

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::counters::MAX_EVENTS;
use super::error::FileError;
use super::event::is_name;
use super::file;
use super::formula::Formula;

/// The most sets in a file, and so in a monitor.
pub const MAX_SETS: usize = 64;
/// The most metrics in a set, and levels in a stack.
pub const MAX_METRICS: usize = 64;
/// The most gauges in a set, and in a monitor.
pub const MAX_GAUGES: usize = 64;

/// In formulas, besides events and gauges: how long it was counted, in seconds.
pub const SECONDS: &str = "seconds";

/// What a set's file says, and a recording too.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    sets: Vec<RawSet>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stack: Vec<RawLevel>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawSet {
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
    events: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gauges: Vec<String>,
    #[serde(default = "yes")]
    group: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metrics: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawLevel {
    level: String,
    set: String,
    per_instruction: String,
    penalty: String,
}

const fn yes() -> bool {
    true
}

/// Where a formula's name gets its value from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Event(usize),
    /// Index in the set's gauges.
    Gauge(usize),
    Seconds,
}

/// A value computed from a set's events and gauges.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    name: String,
    formula: Formula,
    sources: Vec<Source>,
}

impl Metric {
    fn new(what: &'static str, name: String, text: &str, set: &RawSet) -> Result<Self, FileError> {
        let formula = Formula::parse(text).map_err(|source| FileError::Formula {
            what,
            name: name.clone(),
            source,
        })?;
        let find = |name: &String| {
            let event = set.events.iter().position(|event| event == name);
            let gauge = set.gauges.iter().position(|gauge| gauge == name);
            let seconds = (name == SECONDS).then_some(Source::Seconds);
            event
                .map(Source::Event)
                .or(gauge.map(Source::Gauge))
                .or(seconds)
        };
        let sources = formula.names().iter().map(|needed| {
            find(needed).ok_or_else(|| FileError::Needs {
                what,
                metric: name.clone(),
                name: needed.clone(),
            })
        });
        let sources = sources.collect::<Result<_, _>>()?;
        Ok(Self {
            name,
            formula,
            sources,
        })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it is computed.
    pub const fn formula(&self) -> &Formula {
        &self.formula
    }

    /// Its value, given those of the set's events and gauges by index, and how long they were counted.
    pub(crate) fn value(
        &self,
        event: impl Fn(usize) -> Option<f64>,
        gauge: impl Fn(usize) -> Option<f64>,
        seconds: f64,
    ) -> Option<f64> {
        self.formula.value(|index| match self.sources[index] {
            Source::Event(index) => event(index),
            Source::Gauge(index) => gauge(index),
            Source::Seconds => Some(seconds),
        })
    }
}

/// Events that are counted together, and what is computed from them.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSet {
    name: String,
    description: String,
    events: Vec<String>,
    gauges: Vec<String>,
    group: bool,
    metrics: Vec<Metric>,
}

impl EventSet {
    fn new(raw: &RawSet) -> Result<Self, FileError> {
        check_name("set", &raw.name)?;
        // A set of gauges alone is one too.
        if raw.gauges.is_empty() {
            check_count("events in a set", raw.events.len(), MAX_EVENTS)?;
        } else {
            check_count("events in a set", raw.events.len().max(1), MAX_EVENTS)?;
            check_count("gauges in a set", raw.gauges.len(), MAX_GAUGES)?;
        }
        check_count("metrics in a set", raw.metrics.len().max(1), MAX_METRICS)?;
        let names = || {
            raw.events
                .iter()
                .chain(&raw.gauges)
                .chain(raw.metrics.keys())
        };
        names().try_for_each(|name| check_name("event, gauge or metric", name))?;
        // They stand beside each other in the log.
        check_unique("event, gauge or metric", names().map(String::as_str))?;
        let metrics = raw.metrics.iter();
        let metrics = metrics.map(|(name, text)| Metric::new("metric", name.clone(), text, raw));
        Ok(Self {
            name: raw.name.clone(),
            description: raw.description.clone(),
            events: raw.events.clone(),
            gauges: raw.gauges.clone(),
            group: raw.group,
            metrics: metrics.collect::<Result<_, _>>()?,
        })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is for.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The names of its events.
    pub fn events(&self) -> &[String] {
        &self.events
    }

    /// The gauges that its metrics use.
    pub fn gauges(&self) -> &[String] {
        &self.gauges
    }

    /// Whether its events are counted at the same time or not at all. If not, the kernel lets them take turns when there are more
    /// than the hardware counts, and what is counted is scaled.
    pub const fn is_group(&self) -> bool {
        self.group
    }

    /// What is computed from it, by name.
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    fn raw(&self) -> RawSet {
        let metrics = self.metrics.iter();
        let metrics = metrics.map(|metric| (metric.name.clone(), metric.formula.text().to_owned()));
        RawSet {
            name: self.name.clone(),
            description: self.description.clone(),
            events: self.events.clone(),
            gauges: self.gauges.clone(),
            group: self.group,
            metrics: metrics.collect(),
        }
    }
}

/// A level of the [stack](super::CpiStack): how often something costs cycles, and which penalty says how many.
#[derive(Clone, Debug, PartialEq)]
pub struct StackLevel {
    metric: Metric,
    set: usize,
    penalty: String,
}

impl StackLevel {
    /// What it is called.
    pub fn name(&self) -> &str {
        self.metric.name()
    }

    /// How often it happens, for each instruction.
    pub const fn per_instruction(&self) -> &Metric {
        &self.metric
    }

    /// The set whose events say so, by index in its file.
    pub const fn set(&self) -> usize {
        self.set
    }

    /// The name of its penalty.
    pub fn penalty(&self) -> &str {
        &self.penalty
    }
}

/// Sets in the order of their turns, and the levels of a stack.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventSets {
    sets: Vec<EventSet>,
    stack: Vec<StackLevel>,
}

impl EventSets {
    /// Those that come with the library: cycles for each instruction, caches, translations, branches, loads and stores, and what the kernel
    /// counts; with a stack over them. After Jägemar 2018, table 5.1 and listing 5.1.
    ///
    /// # Panics
    ///
    /// Never: they are tested.
    pub fn shipped() -> Self {
        Self::parse(include_str!("default.toml")).unwrap_or_default()
    }

    /// Reads a file, TOML or JSON.
    ///
    /// # Errors
    ///
    /// It cannot be read, or says what cannot be.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        Self::parse(&file::read(path)?)
    }

    /// From the text of a file: JSON, if it begins with `{`, and else TOML. It may be anybody's.
    ///
    /// # Errors
    ///
    /// It says what cannot be.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        Self::new(&file::parse::<RawFile>(text)?)
    }

    fn new(raw: &RawFile) -> Result<Self, FileError> {
        check_count("sets", raw.sets.len(), MAX_SETS)?;
        check_count("levels of the stack", raw.stack.len().max(1), MAX_METRICS)?;
        let sets = raw.sets.iter().map(EventSet::new);
        let sets: Vec<_> = sets.collect::<Result<_, _>>()?;
        check_unique("set", sets.iter().map(EventSet::name))?;
        let level = |level: &RawLevel| {
            check_name("level", &level.level)?;
            let set = sets.iter().position(|set| set.name == level.set);
            let set = set.ok_or_else(|| FileError::NoSet {
                level: level.level.clone(),
                set: file::shorten(&level.set),
            })?;
            let text = &level.per_instruction;
            Ok(StackLevel {
                metric: Metric::new("level", level.level.clone(), text, &raw.sets[set])?,
                set,
                penalty: level.penalty.clone(),
            })
        };
        let stack = raw.stack.iter().map(level);
        let stack = stack.collect::<Result<Vec<_>, FileError>>()?;
        check_unique("level", stack.iter().map(StackLevel::name))?;
        Ok(Self { sets, stack })
    }

    /// The sets, in the order of their turns.
    pub fn sets(&self) -> &[EventSet] {
        &self.sets
    }

    /// The levels of the stack.
    pub fn stack(&self) -> &[StackLevel] {
        &self.stack
    }

    /// Only the sets of these names, in this order; levels of others are left out.
    ///
    /// # Errors
    ///
    /// There is no set of a name, or none is named.
    pub fn only(&self, names: &[String]) -> Result<Self, FileError> {
        let find = |name: &String| {
            let found = self.sets.iter().find(|set| set.name == *name);
            found.ok_or_else(|| FileError::UnknownSet {
                given: file::shorten(name),
                known: self.sets.iter().map(|set| set.name.clone()).collect(),
            })
        };
        let kept: Vec<_> = names.iter().map(find).collect::<Result<_, _>>()?;
        let mut raw = self.raw();
        raw.sets = kept.into_iter().map(EventSet::raw).collect();
        raw.stack.retain(|level| names.contains(&level.set));
        Self::new(&raw)
    }

    /// As JSON in one line, for [`Self::parse`].
    pub fn to_json(&self) -> String {
        serde_json::to_string(&self.raw()).unwrap_or_default()
    }

    fn raw(&self) -> RawFile {
        let level = |level: &StackLevel| RawLevel {
            level: level.name().to_owned(),
            set: self.sets[level.set].name.clone(),
            per_instruction: level.metric.formula.text().to_owned(),
            penalty: level.penalty.clone(),
        };
        RawFile {
            sets: self.sets.iter().map(EventSet::raw).collect(),
            stack: self.stack.iter().map(level).collect(),
        }
    }
}

fn check_count(what: &'static str, given: usize, max: usize) -> Result<(), FileError> {
    if (1..=max).contains(&given) {
        Ok(())
    } else {
        Err(FileError::Count { what, given, max })
    }
}

fn check_name(what: &'static str, name: &str) -> Result<(), FileError> {
    if is_name(name) {
        Ok(())
    } else {
        Err(FileError::name(what, name))
    }
}

pub(super) fn check_unique<'a>(
    what: &'static str,
    mut names: impl Iterator<Item = &'a str>,
) -> Result<(), FileError> {
    let mut seen = HashSet::new();
    match names.find(|name| !seen.insert(*name)) {
        None => Ok(()),
        Some(name) => Err(FileError::Twice {
            what,
            name: name.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::generic;
    use super::*;

    #[test]
    fn shipped_sets_answer_every_question_of_the_thesis() {
        let sets = EventSets::parse(include_str!("default.toml")).unwrap();
        assert_eq!(EventSets::shipped(), sets);
        let names: Vec<_> = sets.sets().iter().map(EventSet::name).collect();
        let expected = [
            "cpi",
            "l1i",
            "l1d",
            "l2",
            "llc",
            "itlb",
            "dtlb",
            "branch",
            "loadstore",
            "system",
        ];
        assert_eq!(names, expected);
        for set in sets.sets() {
            assert!(!set.description().is_empty() && !set.metrics().is_empty());
            for event in set.events() {
                let is_of_a_model = event.starts_with("l2-");
                assert!(generic(event).is_some() || is_of_a_model, "{event}");
            }
        }
        assert_eq!(sets.stack().len(), 7);
    }

    #[test]
    fn toml_and_json_say_the_same() {
        let sets = EventSets::shipped();
        assert_eq!(EventSets::parse(&sets.to_json()).unwrap(), sets);
    }

    #[test]
    fn metrics_compute_from_events_gauges_and_time() {
        let sets = EventSets::parse(
            "[[sets]]\nname = 'a'\nevents = ['cs', 'faults']\ngauges = ['load']\n\
             metrics = { rate = 'cs / seconds', mix = 'faults * load' }",
        );
        let sets = sets.unwrap();
        let metrics = sets.sets()[0].metrics();
        let value =
            |metric: &Metric| metric.value(|index| [Some(10.0), None][index], |_| Some(0.5), 2.0);
        assert_eq!(metrics[1].name(), "rate");
        assert_eq!(value(&metrics[1]), Some(5.0));
        assert_eq!(value(&metrics[0]), None);
    }

    #[test]
    fn some_sets_can_be_chosen() {
        let some = EventSets::shipped()
            .only(&["dtlb".into(), "cpi".into()])
            .unwrap();
        assert_eq!(some.sets()[0].name(), "dtlb");
        assert_eq!(some.stack().len(), 1);
        assert_eq!(some.stack()[0].set(), 0);
        assert!(EventSets::shipped().only(&["none".into()]).is_err());
        assert!(EventSets::shipped().only(&[]).is_err());
    }

    #[test]
    fn bad_files_are_refused_with_the_reason() {
        let set = |rest: &str| format!("[[sets]]\nname = 'a'\n{rest}");
        let many = format!("events = [{}]", "'r1',".repeat(MAX_EVENTS + 1));
        for (text, reason) in [
            (String::new(), "missing field `sets`"),
            ("sets = []".into(), "0 sets"),
            ("{\"sets\":[}".into(), "line 1 column"),
            (set(""), "missing field `events`"),
            (set("events = []"), "0 events"),
            (set("events = ['a', 'a']"), "called a"),
            (set("events = ['a b']"), "no name"),
            (set(&many), "33 events"),
            (set("events = ['a']\nevent = 1"), "unknown field"),
            (set("events = ['a']\nmetrics = { a = '1' }"), "called a"),
            (set("events = ['a']\nmetrics = { m = 'a +' }"), "at byte 3"),
            (set("events = ['a']\nmetrics = { m = 'a / b' }"), "needs b"),
            (
                set("events = ['a']\n[[sets]]\nname = 'a'\nevents = ['a']"),
                "two sets",
            ),
            (
                set(
                    "events = ['a']\n[[stack]]\nlevel='x'\nset='b'\nper_instruction='1'\npenalty='p'",
                ),
                "not there",
            ),
            ("[".repeat(100_000), ""),
            (format!("{{\"sets\":{}", "[".repeat(100_000)), ""),
            (" ".repeat(1 << 21), "more than 1048576 bytes"),
        ] {
            let error = EventSets::parse(&text).unwrap_err().to_string();
            assert!(error.contains(reason), "{reason}: {error}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = EventSets::read(Path::new("/nowhere/sets.toml")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/sets.toml"));
    }
}
