//! Samples that the system takes by itself, a timer on each processor: they are taken out when there are many.

use core::time::Duration;

use super::super::counters::Counters;
use super::super::group::Count;
use super::super::pace::MIN_PERIOD;
use super::super::reason::Place;
use super::super::store::SampleHead;
use super::{Monitor, Watched, is_idle};
use crate::units::Time;

/// The longest period for which it is worth it: a tenth of a second, of which a monitor that is awake for each takes nothing that matters.
const MOST_PERIOD: Duration = Duration::from_millis(100);

/// How often to call [`Monitor::tick`] where the system takes samples ([`Monitor::is_sampled`]): it keeps those of a second, if it has that much memory for it, and
/// from a processor that idles, of which some systems take none, one is taken each time.
pub const TAKE_AFTER: Duration = Duration::from_millis(250);

/// How the system samples, and what was taken out last.
#[derive(Debug)]
pub(super) struct Sampling {
    period: Duration,
    /// When their share was asked for last, and what was lost until then.
    asked: Time,
    lost_before: u64,
    /// When samples were taken out last.
    taken: Time,
    lost: u64,
    samples: Vec<Taken>,
    /// Of each of those, one for each event of the set.
    counts: Vec<Count>,
    /// What gauges say of the time since they were asked last.
    values: Vec<f64>,
}

impl Sampling {
    pub(super) const fn period(&self) -> Duration {
        self.period
    }
}

#[derive(Debug)]
struct Taken {
    at: Time,
    interval: Duration,
    /// Index of the place.
    place: usize,
    /// Where its counts begin.
    counts: usize,
}

impl<C: Counters> Monitor<C> {
    /// Whether the system takes the samples.
    pub const fn is_sampled(&self) -> bool {
        self.sampling.is_some()
    }

    /// Samples of the system's that it had no room for, since they were not taken out in time.
    pub fn lost(&self) -> u64 {
        self.sampling.as_ref().map_or(0, |sampling| sampling.lost)
    }

    /// Of the samples that the system should have taken of a place since this was asked last (or since it began), the share that it took, where that is
    /// least; `None` if it takes none, or none was due. It is far less than 1 where the system takes none while a processor idles.
    pub fn sampled_share(&mut self) -> Option<f64> {
        let sampling = self.sampling.as_mut()?;
        let passed = sampling.taken.saturating_since(sampling.asked);
        sampling.asked = sampling.taken;
        let due = passed.div_duration_f64(sampling.period);
        let lost = sampling.lost - sampling.lost_before;
        sampling.lost_before = sampling.lost;
        let mut least: Option<u64> = None;
        for watched in self.watched.iter_mut().filter(|watched| !watched.is_gone) {
            if let Some(sampled) = watched.sampled.replace(0) {
                least = Some(least.map_or(sampled, |least| least.min(sampled)));
            }
        }
        let came = least?.saturating_add(lost);
        (due >= 1.0).then(|| (came as f64 / due).min(1.0))
    }

    /// Has the system sample, if it can all that is watched.
    pub(super) fn let_system_sample(&mut self, period: Duration) {
        let is_one = self.is_live.iter().filter(|is_live| **is_live).count() == 1;
        let is_group = self.layout.sets().sets()[self.current].is_group();
        let is_suitable = |watched: &Watched| {
            matches!(watched.place, Place::Cpu(_)) && watched.sets[self.current].is_open()
        };
        if !is_one || !is_group || period > MOST_PERIOD || !self.watched.iter().all(is_suitable) {
            return;
        }
        self.sampling = Some(Sampling {
            period: period.max(MIN_PERIOD),
            asked: self.since,
            lost_before: 0,
            taken: self.since,
            lost: 0,
            samples: Vec::new(),
            counts: Vec::new(),
            values: Vec::new(),
        });
        self.reopen();
        let is_open = |watched: &Watched| watched.sets[self.current].is_open();
        if !self.watched.iter().all(is_open) {
            self.sampling = None;
            self.reopen();
        }
    }

    fn reopen(&mut self) {
        for index in 0..self.watched.len() {
            let watched = &mut self.watched[index];
            let place = watched.place;
            for set in &mut watched.sets {
                set.close(&mut self.counters);
            }
            self.watched[index].sets = self.open(place);
        }
    }

    /// Keeps all samples that the system has taken, in the order of time; and for the last time, what was counted since.
    pub(super) fn take_samples(&mut self, mut sampling: Sampling, now: Time, is_last: bool) {
        self.ticks += 1;
        let since = now.saturating_since(sampling.taken);
        sampling.taken = now;
        let gauges = self.gauges.iter_mut();
        sampling.values.clear();
        sampling
            .values
            .extend(gauges.map(|gauge| gauge.value(now, since)));
        self.take_out(&mut sampling, now, is_last);
        for taken in &sampling.samples {
            let counts = &sampling.counts[taken.counts..];
            for (into, count) in self.scratch.iter_mut().zip(counts) {
                *into = *count;
            }
            let share = taken.interval.as_secs_f64() / since.as_secs_f64();
            for (index, (into, value)) in self.values.iter_mut().zip(&sampling.values).enumerate() {
                *into = if self.layout.is_count(index) {
                    value * share
                } else {
                    *value
                };
            }
            let head = SampleHead {
                at: taken.at,
                interval: taken.interval,
                set: self.current,
                place: self.watched[taken.place].place,
            };
            self.keep(taken.place, head);
        }
        self.sampling = Some(sampling);
    }

    fn take_out(&mut self, sampling: &mut Sampling, now: Time, is_last: bool) {
        sampling.samples.clear();
        sampling.counts.clear();
        let events = self.codes[self.current].len();
        let scratch = &mut self.scratch[..events];
        for (place, watched) in self.watched.iter_mut().enumerate() {
            if watched.is_gone {
                continue;
            }
            let (until, noted) = (&mut watched.sampled_until, &mut watched.sampled);
            let set = &mut watched.sets[self.current];
            let before = sampling.samples.len();
            let (samples, counts) = (&mut sampling.samples, &mut sampling.counts);
            let lost = set.take(&mut self.counters, now, scratch, |at, counted| {
                samples.push(Taken {
                    at,
                    interval: at.saturating_since(*until),
                    place,
                    counts: counts.len(),
                });
                counts.extend_from_slice(counted);
                *until = at;
                if let Some(noted) = noted {
                    *noted += 1;
                }
            });
            sampling.lost = sampling.lost.saturating_add(lost);
            let came = sampling.samples.len() > before;
            if !came || is_last && *until < now {
                // It idles, or it is gone.
                set.collect(&mut self.counters, scratch);
                if !is_idle(scratch) {
                    sampling.samples.push(Taken {
                        at: now,
                        interval: now.saturating_since(*until),
                        place,
                        counts: sampling.counts.len(),
                    });
                    sampling.counts.extend_from_slice(scratch);
                    *until = now;
                }
            }
            watched.note_idle(now, sampling.samples.len() == before);
        }
        sampling.samples.sort_by_key(|taken| taken.at);
    }
}
