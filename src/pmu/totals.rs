//! All that was ever counted, by set and place: what summaries, the stack and Prometheus are made of, in memory that does not grow.

use core::time::Duration;

use super::group::{Count, least_share};
use super::reason::Place;
use super::store::{Layout, Sample};

/// All intervals of one set at one place together.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    /// Index of the set.
    pub set: usize,
    /// Whose events.
    pub place: Place,
    /// How many samples.
    pub samples: u64,
    /// How long the set was counted.
    pub time: Duration,
    /// Of each event, added up.
    counts: Vec<Count>,
    /// Of each event, the scaled counts added up.
    scaled: Vec<f64>,
    /// Of each of the layout's gauges, the sum, and of how many samples.
    gauges: Vec<(f64, u64)>,
}

impl Totals {
    pub(super) fn new(set: usize, place: Place, layout: &Layout) -> Self {
        let events = layout.sets().sets()[set].events().len();
        let gauges = layout.gauges().len();
        Self {
            set,
            place,
            samples: 0,
            time: Duration::ZERO,
            counts: vec![Count::ABSENT; events],
            scaled: vec![0.0; events],
            gauges: vec![(0.0, 0); gauges],
        }
    }

    pub(super) fn add(&mut self, sample: &Sample<'_>) {
        self.samples += 1;
        self.time = self.time.saturating_add(sample.head.interval);
        for (index, &count) in sample.counts.iter().enumerate() {
            if count.is_present() {
                let total = &mut self.counts[index];
                if !total.is_present() {
                    *total = Count::ZERO;
                }
                total.add(count);
                self.scaled[index] += count.value().unwrap_or(0.0);
            }
        }
        for (sum, &value) in self.gauges.iter_mut().zip(sample.gauges) {
            if !value.is_nan() {
                *sum = (sum.0 + value, sum.1 + 1);
            }
        }
    }

    /// What was counted of each event, not scaled.
    pub fn counts(&self) -> &[Count] {
        &self.counts
    }

    /// Of the event with this index, scaled; `None` if it has no counter, or never got one.
    pub fn event(&self, index: usize) -> Option<f64> {
        let count = self.counts.get(index)?;
        count.value().map(|_| self.scaled[index])
    }

    /// The least share of the time that an event was counted in, 0 to 1; `None` if there was nothing to count.
    pub fn share(&self) -> Option<f64> {
        least_share(&self.counts)
    }

    /// The set's metric with this index, of all that was counted.
    pub fn metric(&self, layout: &Layout, index: usize) -> Option<f64> {
        self.compute(layout, layout.sets().sets()[self.set].metrics().get(index)?)
    }

    /// Of the layout's gauge with this index: added up like the events if it counts, else the mean. `None` if it never had a value.
    pub fn gauge(&self, layout: &Layout, index: usize) -> Option<f64> {
        let &(sum, count) = self.gauges.get(index)?;
        let mean = (count > 0).then(|| sum / count as f64)?;
        // Samples without a value are taken to have had the mean.
        Some(if layout.is_count(index) {
            mean * self.samples as f64
        } else {
            mean
        })
    }

    pub(super) fn compute(&self, layout: &Layout, metric: &super::sets::Metric) -> Option<f64> {
        if self.samples == 0 {
            return None;
        }
        let used = layout.used_gauges(self.set);
        metric.value(
            |event| self.event(event),
            |gauge| self.gauge(layout, used[gauge]?),
            self.time.as_secs_f64(),
        )
    }
}
