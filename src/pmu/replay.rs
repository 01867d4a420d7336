//! A recording as counters: what a monitor wrote as JSON lines counts once more, at the times it did then.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

use super::config::{MAX_PLACES, MonitorConfig};
use super::counters::{CounterId, Counters, Facts, GroupReading, Task};
use super::error::{FileError, MonitorError};
use super::event::EventCode;
use super::gauge::Gauge;
use super::group::Count;
use super::model::Names;
use super::monitor::Monitor;
use super::pace::ProbeEffect;
use super::reason::{Place, RecordedMissing, errno};
use super::sets::{EventSet, EventSets, MAX_GAUGES};
use super::write::{Epilogue, Preamble, VERSION};
use crate::units::Time;

/// The longest line, bytes.
const MAX_LINE: u64 = 1 << 20;
/// The most memory for samples, bytes: those of a set of five events, once a hundredth of a second, for ten days.
const MAX_MEMORY: usize = 2 << 30;

/// Why a recording cannot be replayed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// It cannot be read.
    #[error("the recording cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A line is longer than any that a monitor writes.
    #[error("line {line} is longer than {max} bytes")]
    TooLong {
        /// Which, from 1.
        line: usize,
        /// What is read, bytes.
        max: u64,
    },
    /// A line is not what it should be.
    #[error("line {line}: {reason}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// It is of another version.
    #[error("a recording of version {given}; this program reads {known}")]
    Version {
        /// Its version.
        given: u64,
        /// That of this program.
        known: u64,
    },
    /// The sets it is of cannot be.
    #[error("the recording's sets: {0}")]
    Sets(#[from] FileError),
    /// Too many of something.
    #[error("more than {max} {what}")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        max: usize,
    },
    /// There is nothing in it.
    #[error("the recording has no samples")]
    Empty,
}

#[derive(Deserialize)]
struct RawHeader<'a> {
    tautline_monitor: u64,
    hz: f64,
    slots: usize,
    origin_unix_ns: u64,
    gauges: Vec<RawGauge>,
    #[serde(default)]
    missing: Vec<RecordedMissing>,
    #[serde(borrow)]
    event_sets: &'a RawValue,
}

#[derive(Deserialize)]
struct RawGauge {
    name: String,
    is_count: bool,
}

#[derive(Deserialize)]
struct RawSample {
    #[serde(default)]
    end: bool,
    #[serde(default)]
    at_ns: u64,
    #[serde(default)]
    interval_ns: u64,
    #[serde(default)]
    set: String,
    pid: Option<u32>,
    cpu: Option<u32>,
    #[serde(default)]
    events: BTreeMap<String, RawCount>,
    #[serde(default)]
    gauges: BTreeMap<String, f64>,
    // Of the last line.
    #[serde(default)]
    lost: u64,
    probe_ns: Option<u64>,
    working_ns: Option<u64>,
    wall_ns: Option<u64>,
    #[serde(default)]
    missed_ticks: u64,
    interrupt_share: Option<f64>,
}

impl RawSample {
    fn epilogue(&self) -> Epilogue {
        let times = self.probe_ns.zip(self.wall_ns);
        Epilogue {
            probe: times.map(|(processor, wall)| ProbeEffect {
                processor: Duration::from_nanos(processor),
                working: Duration::from_nanos(self.working_ns.unwrap_or(processor)),
                wall: Duration::from_nanos(wall),
                missed: self.missed_ticks,
            }),
            interrupts: self.interrupt_share,
            lost: self.lost,
        }
    }
}

#[derive(Deserialize)]
struct RawCount {
    count: u64,
    enabled_ns: u64,
    running_ns: u64,
}

#[derive(Clone, Debug)]
struct Step {
    at: Time,
    interval: Duration,
    set: usize,
    place: Place,
    /// One for each event of its set.
    counts: Vec<Count>,
    /// One for each gauge.
    gauges: Vec<f64>,
}

/// A recording in memory.
#[derive(Clone, Debug)]
pub struct Recording {
    sets: EventSets,
    gauges: Vec<(String, bool)>,
    places: Vec<Place>,
    preamble: Preamble,
    origin: Time,
    epilogue: Option<Epilogue>,
    is_cut: bool,
    steps: Vec<Step>,
    /// Of the samples, bytes.
    memory: usize,
}

impl Recording {
    /// Reads JSON lines as a monitor wrote them. They may be anybody's; a last line that was cut is left out.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is no recording.
    pub fn read(mut lines: impl BufRead) -> Result<Self, ReplayError> {
        let mut text = String::new();
        let mut number = 0;
        if !next_line(&mut lines, &mut text, &mut number)? {
            return Err(ReplayError::Empty);
        }
        let mut recording = Self::header(&text)?;
        while next_line(&mut lines, &mut text, &mut number)? {
            let is_whole = text.ends_with('\n');
            let raw: RawSample = match serde_json::from_str(&text) {
                Ok(raw) => raw,
                Err(_) if !is_whole => {
                    recording.is_cut = true;
                    break;
                }
                Err(error) => {
                    return Err(ReplayError::Line {
                        line: number,
                        reason: error.to_string(),
                    });
                }
            };
            if raw.end {
                recording.epilogue = Some(raw.epilogue());
                break;
            }
            recording.add(&raw).map_err(|reason| match reason {
                Refused::Line(reason) => ReplayError::Line {
                    line: number,
                    reason: reason.to_owned(),
                },
                Refused::Count(what, max) => ReplayError::Count { what, max },
            })?;
        }
        if recording.steps.is_empty() {
            return Err(ReplayError::Empty);
        }
        Ok(recording)
    }

    fn header(text: &str) -> Result<Self, ReplayError> {
        let header: RawHeader<'_> =
            serde_json::from_str(text).map_err(|error| ReplayError::Line {
                line: 1,
                reason: error.to_string(),
            })?;
        if header.tautline_monitor != VERSION {
            return Err(ReplayError::Version {
                given: header.tautline_monitor,
                known: VERSION,
            });
        }
        if header.gauges.len() > MAX_GAUGES {
            return Err(ReplayError::Count {
                what: "gauges",
                max: MAX_GAUGES,
            });
        }
        let gauges = header.gauges.into_iter();
        Ok(Self {
            sets: EventSets::parse(header.event_sets.get())?,
            gauges: gauges.map(|gauge| (gauge.name, gauge.is_count)).collect(),
            places: Vec::new(),
            preamble: Preamble {
                hz: header.hz,
                slots: header.slots,
                origin_unix_nanos: header.origin_unix_ns,
                missing: header.missing,
            },
            origin: Time::ZERO,
            epilogue: None,
            is_cut: false,
            steps: Vec::new(),
            memory: 0,
        })
    }

    fn add(&mut self, raw: &RawSample) -> Result<(), Refused> {
        let place = match (raw.pid, raw.cpu) {
            (Some(pid), None) => Place::Process(pid),
            (None, Some(cpu)) => Place::Cpu(cpu),
            _ => return Err(Refused::Line("a sample is of one process or one processor")),
        };
        let sets = self.sets.sets();
        let set = sets.iter().position(|set| set.name() == raw.set);
        let set = set.ok_or(Refused::Line("its set is not among the recording's"))?;
        let at = Time::from_nanos(raw.at_ns);
        let interval = Duration::from_nanos(raw.interval_ns);
        match self.steps.last() {
            None => self.origin = at - interval,
            Some(last) if last.at > at => return Err(Refused::Line("times go backwards")),
            Some(_) => {}
        }
        if !self.places.contains(&place) {
            if self.places.len() == MAX_PLACES {
                return Err(Refused::Count("processes and processors", MAX_PLACES));
            }
            self.places.push(place);
        }
        let (events, gauges) = (sets[set].events().len(), self.gauges.len());
        self.memory += size_of::<Step>() + events * size_of::<Count>() + gauges * size_of::<f64>();
        if self.memory > MAX_MEMORY {
            return Err(Refused::Count("bytes of samples", MAX_MEMORY));
        }
        let counts = sets[set].events().iter().map(|event| {
            raw.events.get(event).map_or(Count::ABSENT, |raw| Count {
                count: raw.count,
                enabled: raw.enabled_ns.min(u64::MAX - 1),
                running: raw.running_ns,
            })
        });
        let gauges = self
            .gauges
            .iter()
            .map(|(name, _)| raw.gauges.get(name).copied().unwrap_or(f64::NAN));
        self.steps.push(Step {
            at,
            interval,
            set,
            place,
            counts: counts.collect(),
            gauges: gauges.collect(),
        });
        Ok(())
    }

    /// The sets it is of.
    pub const fn sets(&self) -> &EventSets {
        &self.sets
    }

    /// What was said of it before its first sample.
    pub const fn preamble(&self) -> &Preamble {
        &self.preamble
    }

    /// What was asked for and not counted when it was made.
    pub fn missing(&self) -> &[RecordedMissing] {
        &self.preamble.missing
    }

    /// What was said of it after its last sample; `None` if it was not brought to its end, or goes on.
    pub const fn epilogue(&self) -> Option<Epilogue> {
        self.epilogue
    }

    /// Whether its last line was cut, and left out.
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// How many samples it has.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether it has none: never, as it is read.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// A monitor over it, of the same sets, places and gauges. [`Monitor::replay_tick`] lets it run. What others add to the configuration goes through `also`.
    ///
    /// # Errors
    ///
    /// As [`Monitor::new`].
    pub fn monitor(
        self,
        also: impl FnOnce(MonitorConfig) -> MonitorConfig,
    ) -> Result<Monitor<ReplayCounters>, MonitorError> {
        let mut config = MonitorConfig::new(self.sets.clone()).names(Names::recorded(&self.sets));
        for place in &self.places {
            config = match *place {
                Place::Process(process) => config.process(process),
                Place::Cpu(cpu) => config.cpu(cpu),
            };
        }
        let values = Arc::new(Mutex::new(vec![f64::NAN; self.gauges.len()]));
        for (index, (name, is_count)) in self.gauges.iter().enumerate() {
            let values = Arc::clone(&values);
            let gauge = Gauge::recorded(name.clone(), *is_count, move |_| {
                let values = values.lock().unwrap_or_else(PoisonError::into_inner);
                values.get(index).copied()
            });
            config = config.gauge(gauge);
        }
        let origin = self.origin;
        let sets = self.sets.sets().iter();
        let names: Vec<_> = sets.map(|set| codes(&self.sets, set)).collect();
        let mut counted = BTreeSet::new();
        for step in &self.steps {
            let events = names[step.set].iter().zip(&step.counts);
            let events = events.filter(|(_, count)| count.is_present());
            counted.extend(events.map(|(code, _)| (step.place, *code)));
        }
        let counters = ReplayCounters {
            names,
            counted,
            of_place: BTreeMap::new(),
            recording: self,
            next: 0,
            values,
            open: Vec::new(),
        };
        Monitor::new(also(config), counters, origin)
    }
}

enum Refused {
    Line(&'static str),
    Count(&'static str, usize),
}

/// Whether there is another line, of which no more is read than one may have.
fn next_line(
    lines: &mut impl BufRead,
    text: &mut String,
    number: &mut usize,
) -> Result<bool, ReplayError> {
    text.clear();
    *number += 1;
    let read = io::Read::take(&mut *lines, MAX_LINE + 1).read_line(text)?;
    if read as u64 > MAX_LINE {
        return Err(ReplayError::TooLong {
            line: *number,
            max: MAX_LINE,
        });
    }
    Ok(read > 0)
}

/// What the names of a set's events are resolved to in a replay.
fn codes(sets: &EventSets, set: &EventSet) -> Vec<u64> {
    let names = Names::recorded(sets);
    let code = |name: &String| names.resolve(name).map_or(u64::MAX, |code| code.config);
    set.events().iter().map(code).collect()
}

#[derive(Clone, Debug)]
struct Open {
    event: u64,
    leader: u32,
    /// Of a leader: all of its group, itself first.
    group: Vec<u32>,
    is_started: bool,
    total: Count,
}

/// Counters that say what a recording says.
#[derive(Debug)]
pub struct ReplayCounters {
    recording: Recording,
    /// Of each set, the codes of its events.
    names: Vec<Vec<u64>>,
    /// What was ever counted, and where.
    counted: BTreeSet<(Place, u64)>,
    /// The first sample that is not yet counted.
    next: usize,
    /// Of the gauges.
    values: Arc<Mutex<Vec<f64>>>,
    open: Vec<Option<Open>>,
    of_place: BTreeMap<Place, Vec<u32>>,
}

/// What a tick was: when, how long after the one before, of which set, and where.
pub(super) struct RecordedTick {
    pub(super) at: Time,
    pub(super) interval: Duration,
    pub(super) set: usize,
    pub(super) places: Vec<Place>,
}

impl ReplayCounters {
    fn tick(&self) -> impl Iterator<Item = &Step> {
        let steps = &self.recording.steps[self.next..];
        let first = steps.first().map(|step| (step.at, step.set));
        steps
            .iter()
            .take_while(move |step| Some((step.at, step.set)) == first)
    }

    /// The next tick, `None` at the end.
    pub(super) fn peek(&self) -> Option<RecordedTick> {
        let first = self.recording.steps.get(self.next)?;
        Some(RecordedTick {
            at: first.at,
            interval: first.interval,
            set: first.set,
            places: self.tick().map(|step| step.place).collect(),
        })
    }

    /// Lets the next tick's samples count, for the groups that were started.
    pub(super) fn advance(&mut self) {
        let passed = self.tick().count();
        for number in self.next..self.next + passed {
            let step = &self.recording.steps[number];
            let codes = &self.names[step.set];
            for &index in self.of_place.get(&step.place).into_iter().flatten() {
                let is_started = self
                    .leader_of(index)
                    .is_some_and(|leader| leader.is_started);
                let Some(open) = &mut self.open[index as usize] else {
                    continue;
                };
                let event = codes.iter().position(|code| *code == open.event);
                let count = event.map(|event| step.counts[event]);
                if let Some(count) = count.filter(|count| is_started && count.is_present()) {
                    open.total.add(count);
                }
            }
            let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
            values.copy_from_slice(&step.gauges);
        }
        self.next += passed;
    }

    fn leader_of(&self, index: u32) -> Option<&Open> {
        let open = self.open.get(index as usize)?.as_ref()?;
        self.open.get(open.leader as usize)?.as_ref()
    }
}

impl Counters for ReplayCounters {
    fn open(
        &mut self,
        event: &EventCode,
        task: Task,
        leader: Option<CounterId>,
    ) -> io::Result<CounterId> {
        let place = match task {
            Task::Thread(process) => Place::Process(process),
            Task::Cpu(cpu) => Place::Cpu(cpu),
        };
        if !self.counted.contains(&(place, event.config)) {
            return Err(io::Error::from_raw_os_error(errno::ENODATA));
        }
        let number = self.open.len() as u32;
        let leader = leader.map_or(number, |leader| leader.0);
        self.open.push(Some(Open {
            event: event.config,
            leader,
            group: Vec::new(),
            is_started: false,
            total: Count::ZERO,
        }));
        self.of_place.entry(place).or_default().push(number);
        if let Some(Some(leader)) = self.open.get_mut(leader as usize) {
            leader.group.push(number);
        }
        Ok(CounterId(number))
    }

    fn start(&mut self, leader: CounterId) -> io::Result<()> {
        if let Some(Some(open)) = self.open.get_mut(leader.0 as usize) {
            open.is_started = true;
        }
        Ok(())
    }

    fn stop(&mut self, leader: CounterId) -> io::Result<()> {
        if let Some(Some(open)) = self.open.get_mut(leader.0 as usize) {
            open.is_started = false;
        }
        Ok(())
    }

    fn read(&mut self, leader: CounterId, into: &mut GroupReading) -> io::Result<()> {
        into.len = 0;
        let Some(leader) = self.open.get(leader.0 as usize).and_then(Option::as_ref) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let group = leader
            .group
            .iter()
            .filter_map(|member| self.open[*member as usize].as_ref());
        for (open, value) in group.zip(&mut into.values) {
            (into.enabled, into.running) = (open.total.enabled, open.total.running);
            *value = open.total.count;
            into.len += 1;
        }
        Ok(())
    }

    fn close(&mut self, counter: CounterId) {
        if let Some(open) = self.open.get_mut(counter.0 as usize) {
            *open = None;
        }
    }

    fn is_present(&mut self, place: Place) -> bool {
        self.recording.places.contains(&place)
    }

    fn threads(&mut self, process: u32) -> io::Result<Vec<u32>> {
        Ok(vec![process])
    }

    fn online(&mut self) -> io::Result<Vec<u32>> {
        let cpu = |place: &Place| match place {
            Place::Cpu(cpu) => Some(*cpu),
            Place::Process(_) => None,
        };
        Ok(self.recording.places.iter().filter_map(cpu).collect())
    }

    fn facts(&self) -> Facts {
        Facts {
            pmu: true,
            ..Facts::default()
        }
    }
}

#[cfg(test)]
mod tests;
