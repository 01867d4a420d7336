//! This machine as a plant: what the monitor, `/proc` and a probe say of it, and leeches.

use core::time::Duration;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::gather::{Gatherer, Source};
use super::load::{Rate, Stat, faults};
use super::machine::{Lacking, Machine, Metric};
use super::plant::{Direct, MetricName, Plant};
use super::probe::Probe;
use super::profile::unit;
use crate::loadgen::{DataLevel, Intensity, Leech, LeechConfig, LeechError, LeechStats, Resource};
use crate::pmu::{
    Counters, Cursor, EventSets, Missing, Monitor, MonitorConfig, MonitorError, Names, Perf,
};
use crate::units::Time;

/// The busy share, 0 to 1, of the processors; of a process, how many processors it keeps busy.
pub const CPU_LOAD: &str = "cpu-load";
/// Page faults in a second.
pub const PAGE_FAULTS: &str = "page-faults-per-second";
/// Context switches in a second.
pub const CONTEXT_SWITCHES: &str = "context-switches-per-second";
/// Nanoseconds of an access to 64 KiB that were in the second cache a moment ago, none counted for more than half as much again as when nobody takes anything of the caches: an estimate of how much
/// others do.
pub const MEMORY_LATENCY: &str = "memory-latency";

/// Of what metrics are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A process, with its threads.
    Process(u32),
    /// Logical processors, with all that runs there.
    Processors(Vec<u32>),
    /// All processors.
    System,
}

impl Scope {
    fn describe(&self) -> String {
        match self {
            Self::Process(process) => format!("process {process}"),
            Self::Processors(processors) => {
                let numbers: Vec<_> = processors.iter().map(ToString::to_string).collect();
                format!("processors {}", numbers.join(", "))
            }
            Self::System => "all processors".to_owned(),
        }
    }
}

/// Why this machine cannot be measured or loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LiveError {
    /// None of the metrics can be had.
    #[error("nothing to measure: {}", .0.iter().map(|lacking| format!("{}: {}", lacking.name, lacking.reason)).collect::<Vec<_>>().join("; "))]
    Nothing(Vec<Lacking>),
    /// Which processors there are is not known.
    #[error("which processors are online is not known: {0}")]
    Online(#[source] io::Error),
    /// There is no such processor, or it is switched off.
    #[error("processor {given} cannot be measured; online are {}", .online.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))]
    NoProcessor {
        /// Its number.
        given: u32,
        /// Those that are there.
        online: Vec<u32>,
    },
    /// The monitor cannot be had for a reason that is not a metric's.
    #[error(transparent)]
    Monitor(#[from] MonitorError),
    /// A leech does not start.
    #[error("leech {resource}: {source}")]
    Leech {
        /// Of what.
        resource: Resource,
        /// Why.
        source: LeechError,
    },
}

#[derive(Clone, Copy, Debug)]
enum From {
    Monitor(Source),
    Load,
    Switches,
    Faults,
    Latency,
}

/// Reads metrics of this machine.
#[derive(Debug)]
pub struct Meter {
    metrics: Vec<Metric>,
    names: Vec<MetricName>,
    sources: Vec<From>,
    missing: Vec<Lacking>,
    scope: Scope,
    root: PathBuf,
    /// Those that are measured; none of a process.
    processors: Vec<u32>,
    stat: Option<Stat>,
    switches: Rate,
    faults: Rate,
    probe: Option<Probe>,
    monitor: Option<Monitor<Perf>>,
    gatherer: Option<Gatherer>,
    cursor: Cursor,
}

impl Meter {
    /// Opens what is needed for these metrics: those of the monitor's own sets by their names, and the four that have a constant here. Those that cannot be had
    /// are [missing](Self::missing), with the reason.
    ///
    /// # Errors
    ///
    /// There is no such process or processor, or none of the metrics can be had.
    pub fn new(scope: Scope, names: &[String], now: Time) -> Result<Self, LiveError> {
        let root = PathBuf::from("/");
        let mut perf = Perf::new();
        let online = perf.online().map_err(LiveError::Online)?;
        let processors = match &scope {
            Scope::Process(_) => Vec::new(),
            Scope::Processors(processors) => processors.clone(),
            Scope::System => online.clone(),
        };
        if let Some(absent) = processors
            .iter()
            .find(|processor| !online.contains(processor))
        {
            return Err(LiveError::NoProcessor {
                given: *absent,
                online,
            });
        }
        let is_whole = online
            .iter()
            .all(|processor| processors.contains(processor));
        let (monitor, refused) = monitor(&scope, names, perf, now)?;
        let mut meter = Self {
            metrics: Vec::new(),
            names: Vec::new(),
            sources: Vec::new(),
            missing: Vec::new(),
            processors: Vec::new(),
            stat: Stat::open(&root, &processors).ok(),
            scope,
            root,
            switches: Rate::default(),
            faults: Rate::default(),
            probe: None,
            gatherer: monitor
                .as_ref()
                .map(|monitor| Gatherer::new(monitor.layout())),
            monitor,
            cursor: Cursor::default(),
        };
        for name in names {
            match meter.find(name, &processors, is_whole, &refused) {
                Ok(source) => {
                    meter.metrics.push(Metric {
                        name: name.clone(),
                        unit: if name == MEMORY_LATENCY {
                            "ns"
                        } else {
                            unit(name)
                        }
                        .to_owned(),
                        estimated: name == MEMORY_LATENCY,
                    });
                    meter.names.push(name.clone());
                    meter.sources.push(source);
                }
                Err(reason) => meter.missing.push(Lacking {
                    name: name.clone(),
                    reason,
                }),
            }
        }
        meter.processors = processors;
        if meter.metrics.is_empty() {
            return Err(LiveError::Nothing(meter.missing));
        }
        // The first reading is of the time since now.
        let mut nothing = vec![0.0; meter.metrics.len()];
        meter.measure(now, &mut nothing);
        Ok(meter)
    }

    /// Where a metric comes from, or why it does not.
    fn find(
        &mut self,
        name: &str,
        processors: &[u32],
        is_whole: bool,
        refused: &str,
    ) -> Result<From, String> {
        let is_process = matches!(self.scope, Scope::Process(_));
        match name {
            CPU_LOAD if is_process => {
                let monitor = self.monitor.as_ref().ok_or_else(|| refused.to_owned())?;
                let sets = monitor.layout().sets().sets();
                let found = sets.iter().enumerate().find_map(|(set, of)| {
                    let event = of.events().iter().position(|event| event == "task-clock")?;
                    Some(From::Monitor(Source::Clock { set, event }))
                });
                if let Some(reason) = why(monitor.missing(), &["task-clock".to_owned()]) {
                    return Err(reason);
                }
                found.ok_or_else(|| "no set has task-clock".to_owned())
            }
            CPU_LOAD if self.stat.is_none() => Err("/proc/stat cannot be read".to_owned()),
            CPU_LOAD => Ok(From::Load),
            MEMORY_LATENCY if is_process => {
                Err("it is probed on processors, and a process may be on any".to_owned())
            }
            MEMORY_LATENCY => {
                let probe =
                    Probe::start(processors).map_err(|error| format!("no probe: {error}"))?;
                self.probe = Some(probe);
                Ok(From::Latency)
            }
            _ => {
                let reason = match self.counted(name, refused) {
                    Ok(source) => return Ok(source),
                    Err(reason) => reason,
                };
                // What the kernel counts of the whole system, everybody may read.
                match name {
                    CONTEXT_SWITCHES if is_whole && self.stat.is_some() => Ok(From::Switches),
                    PAGE_FAULTS if is_whole && faults(&self.root).is_some() => Ok(From::Faults),
                    _ => Err(reason),
                }
            }
        }
    }

    fn counted(&self, name: &str, refused: &str) -> Result<From, String> {
        let Some(monitor) = &self.monitor else {
            return Err(refused.to_owned());
        };
        let layout = monitor.layout();
        let Some(source) = Source::find(layout, name) else {
            return Err("no set has such a metric".to_owned());
        };
        if let Source::Metric { set, metric } = source {
            let needed = layout.sets().sets()[set].metrics()[metric]
                .formula()
                .names();
            if let Some(reason) = why(monitor.missing(), needed) {
                return Err(reason);
            }
        }
        Ok(From::Monitor(source))
    }

    /// What is read.
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// What was asked for and cannot be had, and why.
    pub fn missing(&self) -> &[Lacking] {
        &self.missing
    }

    /// Of what, in words.
    pub fn scope(&self) -> String {
        self.scope.describe()
    }

    /// Whether all that was watched is gone.
    pub fn is_over(&self) -> bool {
        matches!(self.scope, Scope::Process(_))
            && self.monitor.as_ref().is_some_and(Monitor::is_over)
    }

    /// How often [`Self::tick`] is to be called in each interval, so that all of the monitor's sets get their turn.
    pub fn turns(&self) -> u32 {
        let sets = self
            .monitor
            .as_ref()
            .map_or(1, |monitor| monitor.layout().sets().sets().len());
        u32::try_from(sets).unwrap_or(1)
    }

    /// The next set's turn.
    pub fn tick(&mut self, now: Time) {
        let (Some(monitor), Some(gatherer)) = (&mut self.monitor, &mut self.gatherer) else {
            return;
        };
        monitor.tick(now);
        let layout = monitor.layout();
        while let Some(sample) = monitor.store().get(layout, self.cursor) {
            gatherer.add(&sample);
            self.cursor = self.cursor.next();
        }
    }

    /// What each metric was since the last call; not a number where that is not known.
    pub fn measure(&mut self, now: Time, readings: &mut [f64]) {
        self.tick(now);
        if let Some(stat) = &mut self.stat {
            stat.refresh();
        }
        for (reading, source) in readings.iter_mut().zip(&self.sources) {
            *reading = match source {
                From::Monitor(source) => match (&self.monitor, &self.gatherer) {
                    (Some(monitor), Some(gatherer)) => gatherer.value(monitor.layout(), *source),
                    _ => f64::NAN,
                },
                From::Load => self.stat.as_mut().map_or(f64::NAN, |stat| stat.load(now)),
                From::Switches => {
                    let count = self.stat.as_ref().and_then(Stat::switches);
                    self.switches.per_second(now, count)
                }
                From::Faults => self.faults.per_second(now, faults(&self.root)),
                From::Latency => self.probe.as_ref().map_or(f64::NAN, Probe::take),
            };
        }
        if let (Some(monitor), Some(gatherer)) = (&self.monitor, &mut self.gatherer) {
            gatherer.clear(monitor.layout());
        }
    }
}

/// A monitor of the sets that these metrics are in, or why there is none.
fn monitor(
    scope: &Scope,
    names: &[String],
    perf: Perf,
    now: Time,
) -> Result<(Option<Monitor<Perf>>, String), LiveError> {
    let shipped = EventSets::shipped();
    let is_process = matches!(scope, Scope::Process(_));
    let sets = shipped.sets().iter().filter(|set| {
        let needs_clock = is_process && names.iter().any(|name| name == CPU_LOAD);
        let of_set = |name: &String| set.metrics().iter().any(|metric| metric.name() == name);
        names.iter().any(of_set) || (needs_clock && set.name() == "system")
    });
    let sets: Vec<String> = sets.map(|set| set.name().to_owned()).collect();
    if sets.is_empty() {
        return Ok((None, "no set has such a metric".to_owned()));
    }
    let Ok(sets) = shipped.only(&sets) else {
        return Ok((None, "no set has such a metric".to_owned()));
    };
    let mut config = MonitorConfig::new(sets)
        .names(Names::of_system(Path::new("/")))
        .slots(4096);
    config = match scope {
        Scope::Process(process) => config.process(*process),
        Scope::Processors(processors) => processors
            .iter()
            .fold(config, |config, cpu| config.cpu(*cpu)),
        Scope::System => config.system(),
    };
    match Monitor::new(config, perf, now) {
        Ok(monitor) => Ok((Some(monitor), String::new())),
        Err(error) if is_process => Err(error.into()),
        Err(error) => Ok((None, error.to_string())),
    }
}

fn why(missing: &[Missing], needed: &[String]) -> Option<String> {
    let found = missing
        .iter()
        .find(|missing| needed.contains(&missing.name));
    found.map(|missing| format!("{}: {}", missing.name, missing.reason))
}

/// The load of the processors that leeches of load are on is what these are told.
fn direct(meter: &Meter, load: Option<usize>, processors: &[u32]) -> Vec<Direct> {
    let metric = meter.names.iter().position(|name| name == CPU_LOAD);
    let mut measured = meter.processors.clone();
    let mut loaded = processors.to_vec();
    measured.sort_unstable();
    loaded.sort_unstable();
    match (metric, load) {
        (Some(metric), Some(actuator)) if measured == loaded => vec![Direct {
            metric,
            actuator,
            intensity: 1.0,
        }],
        _ => Vec::new(),
    }
}

/// How busy each processor is to be so that all are as busy as asked in the mean: where others take more than that, the rest is shared by those that are left.
fn level(others: &[f64], asked: f64) -> f64 {
    let mut left: Vec<f64> = others.to_vec();
    left.sort_by(|a, b| b.total_cmp(a));
    let mut sum = asked * others.len() as f64;
    let mut count = others.len() as f64;
    for others in left {
        if others <= sum / count || count <= 1.0 {
            break;
        }
        sum -= others;
        count -= 1.0;
    }
    (sum / count.max(1.0)).clamp(0.0, 1.0)
}

/// The leech that moves a metric the most.
pub fn leech_for(metric: &str) -> Option<Resource> {
    Some(match metric {
        CPU_LOAD => Resource::Load,
        PAGE_FAULTS => Resource::PageFaults,
        CONTEXT_SWITCHES => Resource::ContextSwitches,
        MEMORY_LATENCY | "llc-miss-ratio" | "llc-misses-per-kilo-instruction" | "cpi" | "ipc" => {
            Resource::Data(DataLevel::Memory)
        }
        "l2-miss-ratio" | "l2-misses-per-kilo-instruction" => Resource::Data(DataLevel::Llc),
        "l1d-miss-ratio" | "l1d-misses-per-kilo-instruction" => Resource::Data(DataLevel::L2),
        "l1i-miss-ratio" | "l1i-misses-per-kilo-instruction" => Resource::Instructions,
        "dtlb-miss-ratio" | "dtlb-misses-per-kilo-instruction" => Resource::Tlb,
        "branch-miss-ratio" | "branch-misses-per-kilo-instruction" => Resource::Branches,
        _ => return None,
    })
}

/// Faults or switches in a second at full intensity. These leeches hold a number, whatever one costs at the time, so that what was found for them is the same
/// anywhere. Origin: about what one processor of a common machine can do.
const FULL_RATE: f64 = 300e3;

/// How quickly it is seen what others take: a fifth for each reading, so that one of 200 ms counts for a second.
const OTHERS_RATE: f64 = 0.2;

/// This machine, with leeches on some of its processors.
#[derive(Debug)]
pub struct LivePlant {
    meter: Meter,
    names: Vec<String>,
    leeches: Vec<Vec<Leech>>,
    direct: Vec<Direct>,
    /// What they said last, and the share of its processor that each has taken since what it had said before that.
    before: Vec<Vec<LeechStats>>,
    taken: Vec<Vec<f64>>,
    /// Which of them are of load, and the share that others take on each processor.
    load: Option<usize>,
    others: Vec<f64>,
}

impl LivePlant {
    /// Starts, for each of these resources, a leech on each of `processors`, which do nothing yet; after `length` they end by themselves.
    ///
    /// # Errors
    ///
    /// A leech does not start.
    pub fn new(
        meter: Meter,
        resources: &[Resource],
        processors: &[u32],
        length: Duration,
    ) -> Result<Self, LiveError> {
        let mut leeches = Vec::with_capacity(resources.len());
        for &resource in resources {
            let of_resource = processors.iter().map(|&processor| {
                let config = LeechConfig::new(resource)
                    .processor(processor)
                    .intensity(Intensity::NONE)
                    .length(length);
                let config = match resource {
                    Resource::PageFaults | Resource::ContextSwitches => config.rate(FULL_RATE),
                    _ => config,
                };
                Leech::start(config).map_err(|source| LiveError::Leech { resource, source })
            });
            leeches.push(of_resource.collect::<Result<Vec<_>, _>>()?);
        }
        let load = resources
            .iter()
            .position(|resource| *resource == Resource::Load);
        let before = leeches.iter().map(|of_resource: &Vec<Leech>| {
            let stats = of_resource.iter().map(Leech::stats);
            stats.collect::<Vec<_>>()
        });
        Ok(Self {
            direct: direct(&meter, load, processors),
            load,
            before: before.collect(),
            taken: vec![vec![0.0; processors.len()]; leeches.len()],
            others: vec![0.0; processors.len()],
            meter,
            names: resources.iter().map(ToString::to_string).collect(),
            leeches,
        })
    }

    /// What is read.
    pub const fn meter(&self) -> &Meter {
        &self.meter
    }

    /// The next set's turn ([`Meter::turns`]).
    pub fn tick(&mut self, now: Time) {
        self.meter.tick(now);
    }

    /// Processor time that each kind of leech took in the interval that was measured last, as a share of the leeches' processors. What load there is beside is of others.
    pub fn taken(&self) -> Vec<f64> {
        let taken = self.taken.iter();
        taken
            .map(|of_kind| of_kind.iter().sum::<f64>() / (of_kind.len() as f64).max(1.0))
            .collect()
    }
}

impl Plant for LivePlant {
    fn metrics(&self) -> &[MetricName] {
        &self.meter.names
    }

    fn actuators(&self) -> &[String] {
        &self.names
    }

    fn direct(&self) -> Vec<Direct> {
        self.direct.clone()
    }

    fn raises(&self) -> Vec<(usize, usize)> {
        let own = |metric: &MetricName| match metric.as_str() {
            MEMORY_LATENCY | PAGE_FAULTS | CONTEXT_SWITCHES => leech_for(metric),
            _ => None,
        };
        let metrics = self.metrics().iter().enumerate();
        let pairs = metrics.filter_map(|(metric, name)| {
            let leech = own(name)?.to_string();
            let actuator = self.names.iter().position(|name| *name == leech)?;
            Some((metric, actuator))
        });
        pairs.collect()
    }

    fn set(&mut self, actuator: usize, intensity: Intensity) {
        let intensity = if Some(actuator) == self.load {
            Intensity::new(level(&self.others, intensity.share()))
        } else {
            intensity
        };
        for leech in self.leeches.get(actuator).into_iter().flatten() {
            leech.set_intensity(intensity);
        }
    }

    fn measure(&mut self, now: Time, readings: &mut [f64]) {
        self.meter.measure(now, readings);
        let leeches = self.leeches.iter().zip(&mut self.before);
        for (kind, ((leeches, before), taken)) in leeches.zip(&mut self.taken).enumerate() {
            let leeches = leeches.iter().zip(before).zip(taken).zip(&mut self.others);
            for (((leech, before), taken), others) in leeches {
                let stats = leech.stats();
                let since = stats.since(before);
                *before = stats;
                if since.wall.is_zero() {
                    continue;
                }
                *taken = since.processor.as_secs_f64() / since.wall.as_secs_f64();
                if Some(kind) == self.load {
                    *others += OTHERS_RATE * ((since.share() - *taken).clamp(0.0, 1.0) - *others);
                }
            }
        }
    }
}

/// This machine, as a profile or model says it.
pub fn this_machine() -> Machine {
    Machine::of_system(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_others_take_more_than_is_asked_the_other_processors_make_up_for_it() {
        let mean = |others: &[f64], asked| {
            let level = level(others, asked);
            others.iter().map(|others| others.max(level)).sum::<f64>() / others.len() as f64
        };
        for (others, asked) in [
            (&[0.0, 0.0][..], 0.6),
            (&[0.9, 0.1], 0.6),
            (&[0.5, 0.0], 0.3),
            (&[0.9, 0.7, 0.1, 0.0], 0.5),
            (&[0.4], 0.6),
        ] {
            assert!((mean(others, asked) - asked).abs() < 1e-9, "{others:?}");
        }
        // It cannot be had: nothing is taken.
        assert!(level(&[0.9, 0.8], 0.1).abs() < 1e-9);
        assert!(level(&[0.9], 0.1) <= 0.1);
        assert!(level(&[], 0.1).is_finite());
    }
}
