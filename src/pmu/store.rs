//! Where samples are kept: so many slots, taken once, the oldest overwritten.

use core::time::Duration;

use super::group::{Count, least_share};
use super::reason::Place;
use super::sets::{EventSet, EventSets};
use crate::units::Time;

/// What samples consist of: the sets, and the gauges that stand in each.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    sets: EventSets,
    gauges: Vec<String>,
    /// Whether they count, or are high and low.
    counting: Vec<bool>,
    /// Of each set, which of the gauges its own are; `None` for those that nobody supplies.
    used: Vec<Vec<Option<usize>>>,
}

impl Layout {
    pub(super) fn new(sets: EventSets, gauges: Vec<(String, bool)>) -> Self {
        let (gauges, counting): (Vec<_>, Vec<_>) = gauges.into_iter().unzip();
        let index = |name: &String| gauges.iter().position(|gauge| gauge == name);
        let used = sets.sets().iter();
        let used = used
            .map(|set| set.gauges().iter().map(index).collect())
            .collect();
        Self {
            sets,
            gauges,
            counting,
            used,
        }
    }

    /// The sets, in the order of their turns, and the stack over them.
    pub const fn sets(&self) -> &EventSets {
        &self.sets
    }

    /// The gauges' names.
    pub fn gauges(&self) -> &[String] {
        &self.gauges
    }

    /// Whether the gauge of this index counts: its value is what came in the interval.
    pub fn is_count(&self, gauge: usize) -> bool {
        self.counting.get(gauge).copied().unwrap_or(false)
    }

    pub(super) fn used_gauges(&self, set: usize) -> &[Option<usize>] {
        &self.used[set]
    }

    /// The most events of a set.
    pub(super) fn width(&self) -> usize {
        let events = self.sets.sets().iter().map(|set| set.events().len());
        events.max().unwrap_or(0)
    }
}

/// When, which and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleHead {
    /// The end of the interval.
    pub at: Time,
    /// How long the set was counted.
    pub interval: Duration,
    /// Index of the set.
    pub set: usize,
    /// Whose events.
    pub place: Place,
}

/// What one set counted at one place in one interval.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    pub(super) layout: &'a Layout,
    pub(super) head: SampleHead,
    pub(super) counts: &'a [Count],
    pub(super) gauges: &'a [f64],
}

impl<'a> Sample<'a> {
    /// When, which and where.
    pub const fn head(&self) -> SampleHead {
        self.head
    }

    /// The set.
    pub fn set(&self) -> &'a EventSet {
        &self.layout.sets.sets()[self.head.set]
    }

    /// All sets and gauges.
    pub const fn layout(&self) -> &'a Layout {
        self.layout
    }

    /// What was counted of each of the set's events.
    pub const fn counts(&self) -> &'a [Count] {
        self.counts
    }

    /// Of all the layout's gauges, by index; `None` without a value.
    pub fn gauge(&self, index: usize) -> Option<f64> {
        self.gauges
            .get(index)
            .copied()
            .filter(|value| !value.is_nan())
    }

    /// Of the event with this index in its set, scaled.
    pub fn event(&self, index: usize) -> Option<f64> {
        self.counts.get(index).and_then(|count| count.value())
    }

    /// Of the set's metric with this index.
    pub fn metric(&self, index: usize) -> Option<f64> {
        let used = self.layout.used_gauges(self.head.set);
        self.set().metrics().get(index)?.value(
            |event| self.event(event),
            |gauge| self.gauge(used[gauge]?),
            self.head.interval.as_secs_f64(),
        )
    }

    /// Of what is called so: an event or a metric of the set, or a gauge.
    pub fn value(&self, name: &str) -> Option<f64> {
        let set = self.set();
        if let Some(index) = set.events().iter().position(|event| event == name) {
            return self.event(index);
        }
        if let Some(index) = set
            .metrics()
            .iter()
            .position(|metric| metric.name() == name)
        {
            return self.metric(index);
        }
        let mut gauges = self.layout.gauges.iter();
        self.gauge(gauges.position(|gauge| gauge == name)?)
    }

    /// The least share of the time that any of its events was counted, 0 to 1: below 1, counts are scaled. `None` if there was nothing to
    /// count.
    pub fn share(&self) -> Option<f64> {
        least_share(self.counts)
    }
}

/// How far someone has read a store: to the sample of this number, counted from the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(u64);

impl Cursor {
    /// Samples before it.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// One sample further.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Samples in slots of one size, the oldest overwritten. All memory is reserved when it is made; the system gives it when it is first used.
#[derive(Clone, Debug)]
pub struct Store {
    slots: usize,
    width: usize,
    gauges: usize,
    /// Number of the next sample.
    next: u64,
    heads: Vec<SampleHead>,
    counts: Vec<Count>,
    values: Vec<f64>,
}

impl Store {
    pub(super) fn new(layout: &Layout, slots: usize) -> Self {
        let (width, gauges) = (layout.width(), layout.gauges.len());
        Self {
            slots,
            width,
            gauges,
            next: 0,
            heads: Vec::with_capacity(slots),
            counts: Vec::with_capacity(slots * width),
            values: Vec::with_capacity(slots * gauges),
        }
    }

    /// The bytes that it takes when it is full.
    pub const fn memory(&self) -> usize {
        let slot = size_of::<SampleHead>()
            + self.width * size_of::<Count>()
            + self.gauges * size_of::<f64>();
        self.slots * slot
    }

    /// How many samples it holds at most.
    pub const fn slots(&self) -> usize {
        self.slots
    }

    /// How many it holds.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Behind the newest sample.
    pub const fn end(&self) -> Cursor {
        Cursor(self.next)
    }

    /// Before the newest sample; at the end if there is none.
    pub fn newest(&self) -> Cursor {
        Cursor(self.next - u64::from(!self.is_empty()))
    }

    /// Before the oldest sample that is still there.
    pub fn start(&self) -> Cursor {
        Cursor(self.next - self.heads.len() as u64)
    }

    /// The sample behind a cursor, if it is there (any more).
    pub fn get<'a>(&'a self, layout: &'a Layout, cursor: Cursor) -> Option<Sample<'a>> {
        if !(self.start()..self.end()).contains(&cursor) {
            return None;
        }
        let slot = (cursor.0 % self.slots as u64) as usize;
        let head = self.heads[slot];
        let events = layout.sets.sets()[head.set].events().len();
        Some(Sample {
            layout,
            head,
            counts: &self.counts[slot * self.width..][..events],
            gauges: &self.values[slot * self.gauges..][..self.gauges],
        })
    }

    /// Keeps a sample.
    pub(super) fn push(&mut self, head: SampleHead, counts: &[Count], gauges: &[f64]) {
        let slot = (self.next % self.slots as u64) as usize;
        self.next += 1;
        if slot == self.heads.len() {
            self.heads.push(head);
            self.counts.resize((slot + 1) * self.width, Count::ABSENT);
            self.values.resize((slot + 1) * self.gauges, f64::NAN);
        }
        self.heads[slot] = head;
        self.counts[slot * self.width..][..counts.len()].copy_from_slice(counts);
        self.values[slot * self.gauges..][..gauges.len()].copy_from_slice(gauges);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        let sets = "[[sets]]\nname = 'a'\nevents = ['cs', 'faults']\ngauges = ['g', 'none']\n\
                    metrics = { m = 'cs / seconds', n = 'cs * g', o = 'cs * none' }\n\
                    [[sets]]\nname = 'b'\nevents = ['cs']";
        Layout::new(
            EventSets::parse(sets).unwrap(),
            vec![("f".into(), false), ("g".into(), false)],
        )
    }

    fn head(number: u64, set: usize) -> SampleHead {
        SampleHead {
            at: Time::from_nanos(number),
            interval: Duration::from_secs(2),
            set,
            place: Place::Cpu(0),
        }
    }

    fn count(count: u64) -> Count {
        Count {
            count,
            enabled: 4,
            running: 2,
        }
    }

    #[test]
    fn samples_have_events_metrics_and_gauges_by_name() {
        let layout = layout();
        let mut store = Store::new(&layout, 4);
        store.push(head(1, 0), &[count(10), Count::ABSENT], &[f64::NAN, 3.0]);
        let sample = store.get(&layout, Cursor::default()).unwrap();
        for (name, expected) in [
            ("cs", Some(20.0)),
            ("faults", None),
            ("m", Some(10.0)),
            ("n", Some(60.0)),
            ("o", None),
            ("f", None),
            ("g", Some(3.0)),
            ("x", None),
        ] {
            assert_eq!(sample.value(name), expected, "{name}");
        }
        assert_eq!(sample.share(), Some(0.5));
    }

    #[test]
    fn the_oldest_are_overwritten_and_memory_stays_as_it_is() {
        let layout = layout();
        let mut store = Store::new(&layout, 3);
        let capacities = (
            store.heads.capacity(),
            store.counts.capacity(),
            store.values.capacity(),
        );
        let memory = store.memory();
        for number in 0..1000 {
            store.push(
                head(number, (number % 2) as usize),
                &[count(number)],
                &[0.0, 1.0],
            );
        }
        let now = (
            store.heads.capacity(),
            store.counts.capacity(),
            store.values.capacity(),
        );
        assert_eq!((capacities, memory), (now, store.memory()));
        assert_eq!(
            (store.len(), store.start().number(), store.end().number()),
            (3, 997, 1000)
        );
        assert!(
            store.get(&layout, Cursor(996)).is_none() && store.get(&layout, Cursor(1000)).is_none()
        );
        let mut cursor = store.start();
        while let Some(sample) = store.get(&layout, cursor) {
            assert_eq!(sample.head().at.as_nanos(), cursor.number());
            assert_eq!(sample.counts()[0].count, cursor.number());
            cursor = cursor.next();
        }
        assert_eq!(cursor, store.end());
    }
}
