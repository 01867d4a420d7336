//! What a monitor is asked for, and what of it cannot be.

use core::time::Duration;
use std::collections::BTreeSet;

use super::counters::Counters;
use super::error::{FileError, MonitorError};
use super::event::is_name;
use super::gauge::Gauge;
use super::model::Names;
use super::reason::Place;
use super::sets::{EventSet, EventSets, MAX_GAUGES, Metric, SECONDS, check_unique};

/// The most slots of a store.
pub const MAX_SLOTS: usize = 1 << 24;
/// The most processes and processors together.
pub const MAX_PLACES: usize = 4096;
/// The most sums: of as many processors as there are in one machine, as many events as there are questions.
const MAX_TOTALS: usize = 1 << 20;

/// What is watched, and how.
#[derive(Debug)]
pub struct MonitorConfig {
    pub(super) sets: EventSets,
    pub(super) names: Names,
    pub(super) places: Vec<Place>,
    pub(super) is_system: bool,
    pub(super) slots: usize,
    pub(super) gauges: Vec<Gauge>,
    pub(super) required: Vec<String>,
    pub(super) period: Option<Duration>,
}

impl MonitorConfig {
    /// These sets, of nothing yet: one of [`Self::process`], [`Self::cpu`], [`Self::system`] is to say of what.
    pub fn new(sets: EventSets) -> Self {
        Self {
            sets,
            names: Names::generic(),
            places: Vec::new(),
            is_system: false,
            slots: 30_000,
            gauges: Vec::new(),
            required: Vec::new(),
            period: None,
        }
    }

    /// Where names of events are looked up. Default: the generic ones.
    #[must_use]
    pub fn names(mut self, names: Names) -> Self {
        self.names = names;
        self
    }

    /// A process more: the threads it has when the monitor begins, and what those start from then on, processes too.
    #[must_use]
    pub fn process(mut self, process: u32) -> Self {
        self.places.push(Place::Process(process));
        self
    }

    /// A processor more.
    #[must_use]
    pub fn cpu(mut self, cpu: u32) -> Self {
        self.places.push(Place::Cpu(cpu));
        self
    }

    /// All processors that are online when the monitor begins.
    #[must_use]
    pub fn system(mut self) -> Self {
        self.is_system = true;
        self
    }

    /// How many samples are kept: one a period for each process and processor. Default: 30 000. Each takes 24 bytes for each event of the longest set, 8 for each
    /// gauge, and 32.
    #[must_use]
    pub fn slots(mut self, slots: usize) -> Self {
        self.slots = slots;
        self
    }

    /// A software metric more.
    #[must_use]
    pub fn gauge(mut self, gauge: Gauge) -> Self {
        self.gauges.push(gauge);
        self
    }

    /// An event or gauge without which there is to be no monitor.
    #[must_use]
    pub fn require(mut self, name: impl Into<String>) -> Self {
        self.required.push(name.into());
        self
    }

    /// Lets the system take a sample each period by itself where it can: of one set whose events are counted together, of processors, ten times a second or
    /// more often. No thread wakes for each, and each processor reads its own counters, at its time. Where it cannot, [`Monitor::tick`](super::Monitor::tick)
    /// takes them, as it does by default; [`Monitor::is_sampled`](super::Monitor::is_sampled) says which.
    ///
    /// Some kernels take none while a processor idles. Nothing is lost, for the next sample is as long as it has been, and one is taken when it is asked for
    /// ([`TAKE_AFTER`](super::TAKE_AFTER)): but when in that time it happened is not known.
    ///
    /// Gauges are read when samples are taken out, and stand in all of these: levels as they are then, counts by the length of each.
    #[must_use]
    pub fn period(mut self, period: Duration) -> Self {
        self.period = Some(period);
        self
    }

    /// How much is added up.
    fn totals_len(&self) -> usize {
        let of_set = |set: &EventSet| set.events().len() + self.gauges.len();
        let of_place: usize = self.sets.sets().iter().map(of_set).sum();
        self.places.len() * of_place
    }

    pub(super) fn check(&mut self, counters: &mut impl Counters) -> Result<(), MonitorError> {
        if self.is_system {
            let online = counters.online().map_err(MonitorError::Online)?;
            self.places.extend(online.into_iter().map(Place::Cpu));
        }
        self.places.sort_unstable();
        self.places.dedup();
        for (what, given, max) in [
            ("sets", self.sets.sets().len(), usize::MAX),
            ("processes and processors", self.places.len(), MAX_PLACES),
            ("slots", self.slots, MAX_SLOTS),
            ("gauges", self.gauges.len().max(1), MAX_GAUGES),
            (
                "counters and gauges, at all places together",
                self.totals_len(),
                MAX_TOTALS,
            ),
        ] {
            if !(1..=max).contains(&given) {
                return Err(MonitorError::Count { what, given, max });
            }
        }
        let gauges = self.gauges.iter().map(Gauge::name);
        if let Some(bad) = gauges
            .clone()
            .find(|name| !is_name(name) || *name == SECONDS)
        {
            return Err(FileError::name("gauge", bad).into());
        }
        // In a log they stand beside every set's events and metrics.
        let of_sets = self.sets.sets().iter().flat_map(|set| {
            let metrics = set.metrics().iter().map(Metric::name);
            set.events().iter().map(String::as_str).chain(metrics)
        });
        let of_sets: BTreeSet<_> = of_sets.collect();
        check_unique("event, metric or gauge", gauges.chain(of_sets))?;
        Ok(())
    }
}
