//! Metrics of an interval from a monitor's samples: several sets that took turns, several places.

use crate::pmu::{Layout, Sample};
use crate::units::Time;

/// Where a metric comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A set's formula.
    Metric { set: usize, metric: usize },
    /// How many processors a clock of nanoseconds kept busy.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Clock { set: usize, event: usize },
    /// A gauge: its mean, or what came of it in a second.
    Gauge(usize),
}

impl Source {
    pub(super) fn find(layout: &Layout, name: &str) -> Option<Self> {
        for (set, sets) in layout.sets().sets().iter().enumerate() {
            let metric = sets
                .metrics()
                .iter()
                .position(|metric| metric.name() == name);
            if let Some(metric) = metric {
                return Some(Self::Metric { set, metric });
            }
        }
        layout
            .gauges()
            .iter()
            .position(|gauge| gauge == name)
            .map(Self::Gauge)
    }
}

#[derive(Clone, Debug, Default)]
struct Sums {
    /// Of each event, over all places; not a number if it was not counted somewhere.
    events: Vec<f64>,
    seconds: f64,
    at: Option<Time>,
}

/// Adds samples up. Rates are of all places together; ratios are of all that was counted.
#[derive(Clone, Debug)]
pub(super) struct Gatherer {
    sets: Vec<Sums>,
    gauges: Vec<(f64, f64)>,
    at: Option<Time>,
}

impl Gatherer {
    pub(super) fn new(layout: &Layout) -> Self {
        let mut gatherer = Self {
            sets: Vec::new(),
            gauges: Vec::new(),
            at: None,
        };
        gatherer.clear(layout);
        gatherer
    }

    pub(super) fn clear(&mut self, layout: &Layout) {
        let sets = layout.sets().sets().iter();
        self.sets = sets
            .map(|set| Sums {
                events: vec![0.0; set.events().len()],
                ..Sums::default()
            })
            .collect();
        self.gauges = vec![(0.0, 0.0); layout.gauges().len()];
    }

    pub(super) fn add(&mut self, sample: &Sample<'_>) {
        let head = sample.head();
        let seconds = head.interval.as_secs_f64();
        let sums = &mut self.sets[head.set];
        for (index, sum) in sums.events.iter_mut().enumerate() {
            *sum += sample.event(index).unwrap_or(f64::NAN);
        }
        // All places have the same interval.
        if sums.at != Some(head.at) {
            sums.at = Some(head.at);
            sums.seconds += seconds;
        }
        if self.at != Some(head.at) {
            self.at = Some(head.at);
            for (index, (sum, weight)) in self.gauges.iter_mut().enumerate() {
                if let Some(value) = sample.gauge(index) {
                    *sum += if sample.layout().is_count(index) {
                        value
                    } else {
                        value * seconds
                    };
                    *weight += seconds;
                }
            }
        }
    }

    /// What they were since the last time.
    pub(super) fn take(&mut self, layout: &Layout, sources: &[Source], into: &mut Vec<f64>) {
        into.clear();
        into.extend(sources.iter().map(|source| self.value(layout, *source)));
        self.clear(layout);
    }

    pub(super) fn value(&self, layout: &Layout, source: Source) -> f64 {
        let gauge = |index: usize| {
            let (sum, weight) = self.gauges[index];
            let value = sum / weight;
            value.is_finite().then_some(value)
        };
        let value = match source {
            Source::Gauge(index) => gauge(index),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Source::Clock { set, event } => {
                let sums = &self.sets[set];
                Some(sums.events[event] * 1e-9 / sums.seconds)
            }
            Source::Metric { set, metric } => {
                let sums = &self.sets[set];
                let set = &layout.sets().sets()[set];
                let event = |index: usize| Some(sums.events[index]).filter(|sum| sum.is_finite());
                let of_set = |index: usize| {
                    let name = set.gauges().get(index)?;
                    let index = layout.gauges().iter().position(|gauge| gauge == name)?;
                    // Formulas take what came in the interval of what counts.
                    let whole = if layout.is_count(index) {
                        sums.seconds
                    } else {
                        1.0
                    };
                    gauge(index).map(|value| value * whole)
                };
                set.metrics()
                    .get(metric)
                    .and_then(|metric| metric.value(event, of_set, sums.seconds))
            }
        };
        value.filter(|value| value.is_finite()).unwrap_or(f64::NAN)
    }
}
