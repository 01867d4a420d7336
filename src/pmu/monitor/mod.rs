//! The monitor as a state machine: told the time, it reads what is due, keeps it, and lets the next set count.

mod sampling;

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use self::sampling::Sampling;
pub use self::sampling::TAKE_AFTER;
use super::config::MonitorConfig;
use super::counters::Counters;
use super::error::MonitorError;
use super::event::EventCode;
use super::gauge::Gauge;
use super::group::{Count, OpenSet};
use super::model::Names;
use super::reason::{Missing, Place, Reason};
use super::replay::ReplayCounters;
use super::sets::EventSet;
use super::store::{Layout, Sample, SampleHead, Store};
use super::subscribe::{Subscriber, Subscription, pair};
use super::totals::Totals;
use crate::units::Time;

/// The most samples that wait for a subscriber.
const MAX_ROOM: usize = 1 << 16;
/// How often a place that counts nothing is looked after. Arbitrary: seldom enough to cost nothing.
const LOOK_AFTER: Duration = Duration::from_millis(500);
/// The most notices that wait.
const MAX_NOTICES: usize = 256;

/// Something that happened to what is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A process has exited; the others are watched on.
    Exited(u32),
    /// A processor was switched off; it is watched again when it is back.
    Offline(u32),
    /// A processor is back.
    Online(u32),
}

#[derive(Debug)]
struct Watched {
    place: Place,
    is_gone: bool,
    sets: Vec<OpenSet>,
    /// Nothing was counted since then.
    idle_since: Option<Time>,
    /// The end of the last sample that the system took.
    sampled_until: Time,
    /// Samples that the system took since somebody asked for their share; `None` if it was not there all that time.
    sampled: Option<u64>,
}

impl Watched {
    fn note_idle(&mut self, now: Time, is_idle: bool) {
        if !is_idle {
            self.idle_since = None;
        } else if self.idle_since.is_none() {
            self.idle_since = Some(now);
        }
    }
}

/// Whether of a processor nothing could be opened, since it is not there.
fn is_offline(sets: &[OpenSet]) -> bool {
    let mut reasons = sets.iter().flat_map(|set| &set.reasons);
    !sets.iter().any(OpenSet::is_open) && reasons.any(|reason| *reason == Some(Reason::Offline))
}

/// Whether nothing was there to be counted.
fn is_idle(counts: &[Count]) -> bool {
    counts
        .iter()
        .all(|count| count.enabled == 0 || !count.is_present())
}

/// Sets of events that take turns, counted at places, kept in a store. Sets of which the machine counts nothing are left out.
///
/// ```text
/// tick(now):  stop set n, start set n + 1 -> gauges -> read set n at each place -> store, totals, subscribers
/// ```
///
/// Or, where the system takes samples by itself ([`MonitorConfig::period`]):
///
/// ```text
/// tick(now):  gauges -> take what each place's samples are -> by time -> store, totals, subscribers
/// ```
///
/// It reads no clock: who drives it says what time it is ([`Pace`](super::Pace) does, for real counters).
#[derive(Debug)]
pub struct Monitor<C: Counters> {
    counters: C,
    layout: Arc<Layout>,
    codes: Vec<Vec<Result<EventCode, Reason>>>,
    watched: Vec<Watched>,
    /// Of each set, whether anything of it is counted: turns are for those.
    is_live: Vec<bool>,
    /// The set that counts, and since when.
    current: usize,
    since: Time,
    /// How the system takes samples, if it does.
    sampling: Option<Sampling>,
    gauges: Vec<Gauge>,
    values: Vec<f64>,
    scratch: Vec<Count>,
    store: Store,
    /// By place, then set.
    totals: Vec<Totals>,
    missing: Vec<Missing>,
    notices: VecDeque<Notice>,
    subscribers: Vec<Subscriber>,
    ticks: u64,
}

impl<C: Counters> Monitor<C> {
    /// Opens all counters, and lets the first set count. What the machine lacks is left out, and [`Self::missing`] says why.
    ///
    /// # Errors
    ///
    /// There is nothing to watch or it is not there, a number is out of bounds, a name is none or there twice, or something is missing that
    /// is required.
    pub fn new(
        mut config: MonitorConfig,
        mut counters: C,
        now: Time,
    ) -> Result<Self, MonitorError> {
        config.check(&mut counters)?;
        for &place in &config.places {
            if !counters.is_present(place) {
                let reason = match place {
                    Place::Process(_) => Reason::Exited,
                    Place::Cpu(_) => Reason::Offline,
                };
                return Err(MonitorError::Place { place, reason });
            }
        }
        let codes = config.sets.sets().iter().map(|set| {
            let events = set.events().iter();
            events.map(|event| config.names.resolve(event)).collect()
        });
        let codes: Vec<Vec<_>> = codes.collect();
        let gauges = config.gauges.iter();
        let gauges = gauges.map(|gauge| (gauge.name().to_owned(), gauge.is_count()));
        let layout = Arc::new(Layout::new(config.sets, gauges.collect()));
        let sets = 0..codes.len();
        let totals = config.places.iter().flat_map(|&place| {
            let layout = &layout;
            sets.clone().map(move |set| Totals::new(set, place, layout))
        });
        let totals = totals.collect();
        let mut monitor = Self {
            counters,
            values: vec![f64::NAN; config.gauges.len()],
            gauges: config.gauges,
            scratch: vec![Count::ABSENT; layout.width()],
            store: Store::new(&layout, config.slots),
            totals,
            layout,
            codes,
            watched: Vec::with_capacity(config.places.len()),
            is_live: Vec::new(),
            current: 0,
            since: now,
            sampling: None,
            missing: Vec::new(),
            notices: VecDeque::new(),
            subscribers: Vec::new(),
            ticks: 0,
        };
        for &place in &config.places {
            let sets = monitor.open(place);
            // Said to be there, and is not: it may come.
            let is_gone = is_offline(&sets);
            monitor.watched.push(Watched {
                place,
                is_gone,
                sets,
                idle_since: is_gone.then_some(now),
                sampled_until: now,
                sampled: (!is_gone).then_some(0),
            });
        }
        monitor.missing = monitor.find_missing();
        monitor.is_live = monitor.find_live();
        monitor.current = monitor.next_set(monitor.codes.len() - 1);
        monitor.check_required(&config.required, &config.names)?;
        if let Some(period) = config.period {
            monitor.let_system_sample(period);
        }
        for gauge in &mut monitor.gauges {
            // Those that count begin here.
            gauge.value(now, Duration::ZERO);
        }
        monitor.start_current();
        Ok(monitor)
    }

    fn open(&mut self, place: Place) -> Vec<OpenSet> {
        let sets = self.codes.iter().zip(self.layout.sets().sets());
        let period = self.sampling.as_ref().map(Sampling::period);
        sets.enumerate()
            .map(|(number, (codes, set))| {
                // The others count nothing.
                let period = period.filter(|_| number == self.current);
                OpenSet::open(&mut self.counters, codes, set.is_group(), place, period)
            })
            .collect()
    }

    fn find_missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        for (number, set) in self.layout.sets().sets().iter().enumerate() {
            let of = |name: &String, place, reason| Missing {
                set: set.name().to_owned(),
                name: name.clone(),
                place,
                reason,
            };
            for (index, name) in set.events().iter().enumerate() {
                let reason = |watched: &Watched| watched.sets[number].reasons[index];
                let first = self.watched.first().and_then(reason);
                if let Some(first) =
                    first.filter(|_| self.watched.iter().all(|watched| reason(watched) == first))
                {
                    missing.push(of(name, None, first));
                    continue;
                }
                for watched in &self.watched {
                    if let Some(reason) = reason(watched) {
                        missing.push(of(name, Some(watched.place), reason));
                    }
                }
            }
            let used = self.layout.used_gauges(number).iter().zip(set.gauges());
            let unsupplied = used.filter(|(used, _)| used.is_none());
            missing.extend(unsupplied.map(|(_, name)| of(name, None, Reason::UnknownGauge)));
        }
        missing
    }

    fn find_live(&self) -> Vec<bool> {
        let sets = 0..self.codes.len();
        let is_live = sets.map(|set| {
            let is_open = |watched: &Watched| watched.sets[set].is_open();
            let mut used = self.layout.used_gauges(set).iter();
            self.watched.iter().any(is_open) || used.any(Option::is_some)
        });
        is_live.collect()
    }

    /// Whose turn is after that of `set`; without anything to count, the next.
    fn next_set(&self, set: usize) -> usize {
        let sets = self.codes.len();
        let mut others = (1..=sets).map(|step| (set + step) % sets);
        others
            .find(|&other| self.is_live[other])
            .unwrap_or((set + 1) % sets)
    }

    fn check_required(&self, required: &[String], names: &Names) -> Result<(), MonitorError> {
        let mut lacking = Vec::new();
        for name in required {
            let sets = self.layout.sets().sets();
            let is_gauge = self.layout.gauges().contains(name);
            if !is_gauge
                && !sets
                    .iter()
                    .any(|set| set.events().contains(name) || set.gauges().contains(name))
            {
                let mut metrics = sets.iter().flat_map(EventSet::metrics);
                let reason = if metrics.any(|metric| metric.name() == name) {
                    Reason::Metric
                } else {
                    match names.resolve(name) {
                        // No set can have what is no event.
                        Err(
                            reason @ (Reason::UnknownEvent
                            | Reason::UnknownTracepoint
                            | Reason::UnknownModifier),
                        ) => reason,
                        _ => Reason::NotInSets,
                    }
                };
                lacking.push(Missing {
                    set: String::new(),
                    name: name.clone(),
                    place: None,
                    reason,
                });
            }
            let is_lacking = |missing: &&Missing| {
                missing.name == *name && !matches!(missing.reason, Reason::UserOnly { .. })
            };
            lacking.extend(self.missing.iter().filter(is_lacking).cloned());
        }
        if lacking.is_empty() {
            Ok(())
        } else {
            Err(MonitorError::Required(lacking))
        }
    }

    fn start_current(&mut self) {
        for watched in &self.watched {
            watched.sets[self.current].start(&mut self.counters);
        }
    }

    /// Ends the interval of the set that counts: its counts become samples, and the next set counts from now on. Between two calls passes a period.
    ///
    /// Costs three system calls for each group (one with one set alone), and allocates nothing unless there are subscribers.
    ///
    /// Where the system takes samples ([`Self::is_sampled`]), it keeps those it has taken since the last call, which is to be soon enough:
    /// [`TAKE_AFTER`].
    pub fn tick(&mut self, now: Time) {
        if let Some(sampling) = self.sampling.take() {
            self.take_samples(sampling, now, false);
            self.look_after(now);
            return;
        }
        let interval = now.saturating_since(self.since);
        let set = self.current;
        self.current = self.next_set(set);
        self.since = now;
        self.ticks += 1;
        if self.current != set {
            // At once and at all places, before anything that takes time: what is stopped can be read later.
            for watched in &self.watched {
                watched.sets[set].stop(&mut self.counters);
            }
            self.start_current();
        }
        for (value, gauge) in self.values.iter_mut().zip(&mut self.gauges) {
            *value = gauge.value(now, interval);
        }
        let events = self.codes[set].len();
        for index in 0..self.watched.len() {
            let watched = &mut self.watched[index];
            if watched.is_gone {
                continue;
            }
            let counts = &mut self.scratch[..events];
            watched.sets[set].collect(&mut self.counters, counts);
            let is_idle = is_idle(counts);
            watched.note_idle(now, is_idle);
            let head = SampleHead {
                at: now,
                interval,
                set,
                place: watched.place,
            };
            self.keep(index, head);
        }
        self.look_after(now);
    }

    /// As [`Self::tick`], for the last time: where the system takes samples, what each place has counted since the last of them is one too.
    pub fn finish(&mut self, now: Time) {
        match self.sampling.take() {
            Some(sampling) => self.take_samples(sampling, now, true),
            None => self.tick(now),
        }
    }

    fn keep(&mut self, place: usize, head: SampleHead) {
        let counts = &self.scratch[..self.codes[head.set].len()];
        self.store.push(head, counts, &self.values);
        let sample = Sample {
            layout: &self.layout,
            head,
            counts,
            gauges: &self.values,
        };
        self.totals[place * self.codes.len() + head.set].add(&sample);
        let (layout, values) = (&self.layout, &self.values);
        self.subscribers
            .retain(|subscriber| subscriber.say(layout, head, counts, values));
    }

    /// Asks after places that have counted nothing for a while: they may be gone, or back.
    fn look_after(&mut self, now: Time) {
        for index in 0..self.watched.len() {
            let watched = &mut self.watched[index];
            let is_due = |since: Time| now.saturating_since(since) >= LOOK_AFTER;
            if !watched.idle_since.is_some_and(is_due) {
                continue;
            }
            watched.idle_since = Some(now);
            let place = watched.place;
            let is_present = match (place, watched.is_gone) {
                // Numbers of processes are used again, by others.
                (Place::Process(_), true) => false,
                _ => self.counters.is_present(place),
            };
            match (is_present, watched.is_gone) {
                (false, false) => {
                    watched.is_gone = true;
                    for set in &mut watched.sets {
                        set.close(&mut self.counters);
                    }
                    self.notice(match place {
                        Place::Process(process) => Notice::Exited(process),
                        Place::Cpu(cpu) => Notice::Offline(cpu),
                    });
                }
                (true, true) => {
                    let sets = self.open(place);
                    if is_offline(&sets) {
                        continue;
                    }
                    sets[self.current].start(&mut self.counters);
                    let watched = &mut self.watched[index];
                    (watched.sets, watched.is_gone, watched.idle_since) = (sets, false, None);
                    (watched.sampled_until, watched.sampled) = (now, None);
                    if let Place::Cpu(cpu) = place {
                        self.notice(Notice::Online(cpu));
                    }
                }
                _ => {}
            }
        }
    }

    fn notice(&mut self, notice: Notice) {
        if self.notices.len() == MAX_NOTICES {
            self.notices.pop_front();
        }
        self.notices.push_back(notice);
    }

    /// What happened to what is watched since the last time, oldest first; the last 256.
    pub fn take_notices(&mut self) -> impl Iterator<Item = Notice> + '_ {
        self.notices.drain(..)
    }

    /// Whether nothing is left to watch: all processes have exited, and there are no processors.
    pub fn is_over(&self) -> bool {
        let is_over =
            |watched: &Watched| watched.is_gone && matches!(watched.place, Place::Process(_));
        self.watched.iter().all(is_over)
    }

    /// What was asked for and is not counted, and why, as it was when the monitor began.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Whether anything but gauges is counted anywhere now.
    pub fn counts_events(&self) -> bool {
        let mut sets = self.watched.iter().flat_map(|watched| &watched.sets);
        sets.any(OpenSet::is_open)
    }

    /// What should have been counted for a second or longer and never was: others keep its counters.
    pub fn never_free(&self) -> Vec<Missing> {
        const LONG: u64 = 1_000_000_000;
        let mut found = Vec::new();
        for totals in &self.totals {
            let set = &self.layout.sets().sets()[totals.set];
            for (count, name) in totals.counts().iter().zip(set.events()) {
                if count.is_present() && count.enabled >= LONG && count.running == 0 {
                    found.push(Missing {
                        set: set.name().to_owned(),
                        name: name.clone(),
                        place: Some(totals.place),
                        reason: Reason::NeverFree,
                    });
                }
            }
        }
        found
    }

    /// The sets, and the gauges beside them.
    pub const fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The newest samples.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// All samples that ever were, added up: for each place, each set.
    pub fn totals(&self) -> &[Totals] {
        &self.totals
    }

    /// Ticks so far.
    pub const fn ticks(&self) -> u64 {
        self.ticks
    }

    /// What counts.
    pub const fn counters(&self) -> &C {
        &self.counters
    }

    /// What counts.
    pub const fn counters_mut(&mut self) -> &mut C {
        &mut self.counters
    }

    /// Samples as they come, for another thread; up to `room` (65 536 at most) of them wait there. Each costs two allocations.
    pub fn subscribe(&mut self, room: usize) -> Subscription {
        let (subscriber, subscription) = pair(room.clamp(1, MAX_ROOM));
        self.subscribers.push(subscriber);
        subscription
    }
}

impl Monitor<ReplayCounters> {
    /// Ticks as it was recorded, next in time; whether there was anything left.
    pub fn replay_tick(&mut self) -> bool {
        let Some(tick) = self.counters.peek() else {
            return false;
        };
        if tick.set != self.current {
            // Samples in between were lost.
            for watched in &self.watched {
                watched.sets[self.current].stop(&mut self.counters);
            }
            self.current = tick.set;
            self.start_current();
        }
        for watched in &mut self.watched {
            // Whoever was not there then is not there now; nobody is asked after.
            watched.is_gone = !tick.places.contains(&watched.place);
            watched.idle_since = None;
        }
        self.since = tick.at - tick.interval;
        self.counters.advance();
        self.tick(tick.at);
        true
    }
}

impl<C: Counters> Drop for Monitor<C> {
    fn drop(&mut self) {
        for watched in &mut self.watched {
            for set in &mut watched.sets {
                set.close(&mut self.counters);
            }
        }
    }
}
