//! The monitor over a machine that is made up.

use core::time::Duration;

use super::fake::Fake;
use super::*;
use crate::units::Time;

const TWO: &str = "
    [[sets]]
    name = 'cpi'
    events = ['cycles', 'instructions']
    metrics = { cpi = 'cycles / instructions' }
    [[sets]]
    name = 'system'
    events = ['page-faults', 'context-switches']
    gauges = ['load']
    metrics = { faults-per-second = 'page-faults / seconds' }
";

fn config(sets: &str) -> MonitorConfig {
    MonitorConfig::new(EventSets::parse(sets).unwrap())
}

const PERIOD: u64 = 10_000;

fn at(ticks: u64) -> Time {
    Time::from_nanos(ticks * PERIOD)
}

fn monitor(config: MonitorConfig, fake: Fake) -> Monitor<Fake> {
    Monitor::new(config, fake, at(0)).unwrap()
}

fn run(monitor: &mut Monitor<Fake>, ticks: core::ops::RangeInclusive<u64>) {
    for tick in ticks {
        monitor.counters_mut().run(PERIOD);
        monitor.tick(at(tick));
    }
}

fn samples<C: Counters>(monitor: &Monitor<C>) -> Vec<Sample<'_>> {
    let (store, layout) = (monitor.store(), monitor.layout());
    let mut cursor = store.start();
    let next = || {
        let sample = store.get(layout, cursor);
        cursor = cursor.next();
        sample
    };
    core::iter::from_fn(next).collect()
}

#[test]
fn sets_take_turns_and_each_counts_only_in_its_own() {
    let mut monitor = monitor(config(TWO).cpu(0).cpu(1), Fake::with_counters(4));
    run(&mut monitor, 1..=4);
    let samples = samples(&monitor);
    assert_eq!(samples.len(), 8);
    let order: Vec<_> = samples
        .iter()
        .map(|sample| (sample.set().name(), sample.head().place))
        .collect();
    let expected = [
        ("cpi", Place::Cpu(0)),
        ("cpi", Place::Cpu(1)),
        ("system", Place::Cpu(0)),
        ("system", Place::Cpu(1)),
    ];
    assert_eq!(order[..4], expected);
    assert_eq!(order[4..], expected);
    for sample in &samples {
        assert_eq!(sample.head().interval, Duration::from_nanos(PERIOD));
        assert!(sample.counts().iter().all(|count| count.enabled == PERIOD));
        assert_eq!(sample.share(), Some(1.0));
    }
    // In the fake, 2 cycles and 3 instructions a nanosecond.
    assert_eq!(samples[0].value("cpi"), Some(2.0 / 3.0));
    assert_eq!(
        monitor.totals()[0].metric(monitor.layout(), 0),
        Some(2.0 / 3.0)
    );
    assert_eq!(monitor.totals()[0].samples, 2);
    let faults = samples[2].value("faults-per-second").unwrap();
    assert!((faults - 4e9).abs() < 1.0, "{faults}");
}

#[test]
fn a_set_alone_is_never_stopped_and_read_once_a_tick() {
    let sets = "[[sets]]\nname = 'a'\nevents = ['cycles']";
    let mut monitor = monitor(config(sets).cpu(0), Fake::with_counters(1));
    run(&mut monitor, 1..=10);
    assert_eq!(monitor.counters().reads, 10);
    assert!(
        samples(&monitor)
            .iter()
            .all(|sample| sample.counts()[0].enabled == PERIOD)
    );
}

#[test]
fn gauges_stand_in_every_sample_on_the_same_time_base() {
    let (gauge, handle) = Gauge::supplied("load");
    let mut monitor = monitor(config(TWO).cpu(0).gauge(gauge), Fake::with_counters(4));
    run(&mut monitor, 1..=1);
    handle.set(0.5);
    run(&mut monitor, 2..=3);
    let values: Vec<_> = samples(&monitor)
        .iter()
        .map(|sample| sample.value("load"))
        .collect();
    assert_eq!(values, [None, Some(0.5), Some(0.5)]);
}

#[test]
fn what_is_missing_is_named_and_the_rest_counts() {
    let mut monitor = monitor(config(TWO).cpu(0), Fake::with_counters(0));
    let names: Vec<_> = monitor
        .missing()
        .iter()
        .map(|missing| (&*missing.name, missing.reason))
        .collect();
    let expected = [
        ("cycles", Reason::NoPmu),
        ("instructions", Reason::NoPmu),
        ("load", Reason::UnknownGauge),
    ];
    assert_eq!(names, expected);
    run(&mut monitor, 1..=2);
    let samples = samples(&monitor);
    // The set of which nothing is counted has no turns.
    for sample in &samples {
        assert_eq!(sample.set().name(), "system");
        assert!(
            sample
                .value("page-faults")
                .is_some_and(|faults| faults > 0.0)
        );
        assert_eq!(sample.value("load"), None);
    }
}

#[test]
fn what_is_required_and_missing_is_an_error() {
    let build = |name: &str, counters| {
        let config = config(TWO).cpu(0).require(name);
        Monitor::new(config, Fake::with_counters(counters), at(0))
    };
    assert!(build("cycles", 4).is_ok());
    for (name, counters, reason) in [
        ("cycles", 0, "no hardware counters"),
        ("branches", 4, "no set has it"),
        ("load", 4, "nobody supplies"),
        ("brunches", 4, "no event has this name"),
        ("branches:x", 4, "no such modifier"),
        ("cpi", 4, "it is a metric"),
    ] {
        let error = build(name, counters).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(reason), "{error}");
    }
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let refused = |config: MonitorConfig| {
        Monitor::new(config, Fake::with_counters(4), at(0))
            .unwrap_err()
            .to_string()
    };
    assert!(refused(config(TWO)).contains("0 processes and processors"));
    assert!(
        refused(config(TWO).cpu(9)).contains("cpu 9 cannot be watched: the processor is offline")
    );
    assert!(
        refused(config(TWO).process(9))
            .contains("process 9 cannot be watched: there is no such process")
    );
    assert!(refused(config(TWO).cpu(0).slots(0)).contains("0 slots"));
    assert!(refused(config(TWO).cpu(0).slots(usize::MAX)).contains("slots"));
    let gauge = |name: &str| Gauge::supplied(name).0;
    assert!(refused(config(TWO).cpu(0).gauge(gauge("a b"))).contains("\"a b\""));
    assert!(refused(config(TWO).cpu(0).gauge(gauge("seconds"))).contains("seconds"));
    assert!(refused(config(TWO).cpu(0).gauge(gauge("g")).gauge(gauge("g"))).contains("called g"));
    assert!(refused(config(TWO).cpu(0).gauge(gauge("cycles"))).contains("called cycles"));
}

/// Ticks of 100 ms, of which ten are enough for who counts nothing to be asked after.
fn run_slowly(monitor: &mut Monitor<Fake>, ticks: core::ops::RangeInclusive<u64>) {
    for tick in ticks {
        monitor.counters_mut().skip(100_000_000);
        monitor.tick(Time::from_nanos(tick * 100_000_000));
    }
}

#[test]
fn a_process_that_exits_is_told_and_the_others_are_watched_on() {
    let mut fake = Fake::with_counters(4);
    fake.threads = vec![7];
    let mut monitor = monitor(config(TWO).process(7).cpu(0), fake);
    run_slowly(&mut monitor, 1..=2);
    monitor.counters_mut().threads.clear();
    run_slowly(&mut monitor, 3..=12);
    let notices: Vec<_> = monitor.take_notices().collect();
    assert_eq!(notices, [Notice::Exited(7)]);
    assert!(!monitor.is_over());
    let before = monitor.store().end();
    // Its number is used again: that is another process.
    monitor.counters_mut().threads = vec![7];
    run_slowly(&mut monitor, 13..=32);
    assert_eq!(monitor.store().end().number() - before.number(), 20);
    assert_eq!(monitor.take_notices().count(), 0);
}

#[test]
fn when_all_processes_are_gone_it_is_over() {
    let mut monitor = monitor(config(TWO).process(7), Fake::with_counters(4));
    assert!(!monitor.is_over());
    monitor.counters_mut().threads.clear();
    run_slowly(&mut monitor, 1..=10);
    assert!(monitor.is_over());
    assert_eq!(monitor.counters().open_counters(), 0);
}

#[test]
fn a_process_that_sleeps_is_not_gone() {
    let mut monitor = monitor(config(TWO).process(7), Fake::with_counters(4));
    for tick in 1..=10 {
        monitor.tick(Time::from_nanos(tick * 100_000_000));
    }
    assert!(!monitor.is_over());
    assert_eq!(samples(&monitor)[0].value("cycles"), Some(0.0));
}

#[test]
fn a_processor_that_goes_offline_comes_back() {
    let mut monitor = monitor(config(TWO).cpu(0).cpu(1), Fake::with_counters(4));
    run_slowly(&mut monitor, 1..=2);
    monitor.counters_mut().cpus = vec![0];
    run_slowly(&mut monitor, 3..=12);
    assert_eq!(
        monitor.take_notices().collect::<Vec<_>>(),
        [Notice::Offline(1)]
    );
    monitor.counters_mut().cpus = vec![0, 1];
    run_slowly(&mut monitor, 13..=22);
    assert_eq!(
        monitor.take_notices().collect::<Vec<_>>(),
        [Notice::Online(1)]
    );
    run_slowly(&mut monitor, 23..=24);
    let last = samples(&monitor);
    let last = last.last().unwrap();
    assert_eq!(last.head().place, Place::Cpu(1));
    assert!(last.counts()[0].count > 0);
}

#[test]
fn a_processor_that_is_said_to_be_there_and_is_not_is_awaited() {
    let mut fake = Fake::with_counters(4);
    fake.refuses = Some(reason::errno::ENODEV);
    let mut monitor = monitor(config(TWO).cpu(0), fake);
    assert!(!monitor.counts_events());
    assert!(!monitor.missing().is_empty());
    run_slowly(&mut monitor, 1..=12);
    assert_eq!(monitor.take_notices().count(), 0);
    assert!(monitor.store().is_empty());
    monitor.counters_mut().refuses = None;
    run_slowly(&mut monitor, 13..=22);
    let notices: Vec<_> = monitor.take_notices().collect();
    assert_eq!(notices, [Notice::Online(0)]);
    assert!(monitor.counts_events());
    assert!(samples(&monitor).last().unwrap().counts()[0].count > 0);
}

#[test]
fn counters_that_are_never_free_are_named() {
    // Two events that take turns with a group that is too long to ever run with another.
    let sets = "[[sets]]\nname = 'a'\nevents = ['cycles', 'page-faults']\ngroup = false";
    let mut monitor = monitor(config(sets).cpu(0), Fake::with_counters(1));
    monitor.counters_mut().take_hardware();
    for tick in 1..=3 {
        monitor.counters_mut().run(500_000);
        monitor.tick(Time::from_nanos(tick * 500_000));
    }
    assert_eq!(monitor.never_free(), []);
    monitor.counters_mut().skip(2_000_000_000);
    monitor.tick(Time::from_nanos(2_001_500_000));
    let never = monitor.never_free();
    assert_eq!(never.len(), 1);
    assert_eq!(
        (&*never[0].name, never[0].reason),
        ("cycles", Reason::NeverFree)
    );
    assert_eq!(samples(&monitor)[0].value("cycles"), None);
}

#[test]
fn subscribers_get_samples_and_the_slow_lose_them() {
    let mut monitor = monitor(config(TWO).cpu(0), Fake::with_counters(4));
    let subscription = monitor.subscribe(2);
    let dropped = monitor.subscribe(2);
    drop(dropped);
    run(&mut monitor, 1..=3);
    let first = subscription.next(Duration::ZERO).unwrap();
    assert_eq!(first.sample().value("cpi"), Some(2.0 / 3.0));
    assert_eq!(
        subscription.try_next().unwrap().sample().set().name(),
        "system"
    );
    assert!(subscription.try_next().is_none());
    assert_eq!(subscription.lost(), 1);
    run(&mut monitor, 4..=4);
    assert_eq!(subscription.try_next().unwrap().sample().head().at, at(4));
    drop(monitor);
    assert!(subscription.next(Duration::from_secs(10)).is_none());
}

#[test]
fn all_counters_are_closed_in_the_end() {
    let fake = Fake::with_counters(4);
    let mut counters = Shared(std::rc::Rc::new(std::cell::RefCell::new(fake)));
    let other = Shared(std::rc::Rc::clone(&counters.0));
    let mut monitor = Monitor::new(config(TWO).cpu(0).process(7), other, at(0)).unwrap();
    monitor.tick(at(1));
    assert!(counters.0.borrow().open_counters() > 0);
    drop(monitor);
    assert_eq!(counters.0.borrow().open_counters(), 0);
    assert_eq!(counters.online().unwrap(), [0, 1]);
}

/// One set that the fake can count without counters of hardware, and a gauge of each kind.
const ONE: &str = "
    [[sets]]
    name = 'system'
    events = ['page-faults', 'context-switches']
    gauges = ['load', 'messages']
    metrics = { faults-per-second = 'page-faults / seconds' }
";
const SAMPLED: Duration = Duration::from_micros(200);

fn sampled(fake: Fake, of: impl Fn(MonitorConfig) -> MonitorConfig) -> Monitor<Fake> {
    let config = of(config(ONE).period(SAMPLED))
        .gauge(Gauge::level("load", |_| Some(0.5)))
        .gauge(Gauge::count("messages", |now| Some(now.as_nanos() as f64)));
    Monitor::new(config, fake, at(0)).unwrap()
}

fn with_room(room: usize) -> Fake {
    let mut fake = Fake::with_counters(0);
    fake.room = room;
    fake
}

#[test]
fn samples_that_the_system_takes_are_as_those_of_ticks() {
    let mut monitor = sampled(with_room(100), MonitorConfig::system);
    assert!(monitor.is_sampled() && monitor.missing().is_empty());
    // Nobody reads in between.
    monitor.counters_mut().run(1_000_000);
    monitor.tick(at(100));
    monitor.counters_mut().run(400_000);
    monitor.tick(at(140));
    assert_eq!((monitor.counters().reads, monitor.lost()), (0, 0));
    let samples = samples(&monitor);
    let ends: Vec<_> = samples
        .iter()
        .map(|sample| sample.head().at.as_nanos())
        .collect();
    // Five of each of two processors, and two more.
    let expected: Vec<_> = (1..=7).flat_map(|number| [number * 200_000; 2]).collect();
    assert_eq!(ends, expected);
    let faults = Fake::rate(&generic("page-faults").unwrap());
    for (index, sample) in samples.iter().enumerate() {
        assert_eq!(sample.head().place, Place::Cpu(index as u32 % 2));
        assert_eq!(sample.head().interval, SAMPLED);
        assert_eq!(sample.event(0), Some((faults * 200_000) as f64));
        let per_second = sample.metric(0).unwrap();
        assert!(
            (per_second - faults as f64 * 1e9).abs() < 1.0,
            "{per_second}"
        );
        // A level as it was when it was asked, a count by the length of the sample.
        assert!((sample.gauge(0).unwrap() - 0.5).abs() < 1e-12);
        assert!((sample.gauge(1).unwrap() - 200_000.0).abs() < 1e-3);
    }
    assert_eq!(
        monitor.totals()[1].event(0),
        Some((faults * 1_400_000) as f64)
    );
}

#[test]
fn a_processor_that_the_system_takes_no_samples_of_is_read() {
    let mut fake = with_room(100);
    fake.withheld = Some(1);
    let mut monitor = sampled(fake, MonitorConfig::system);
    for (tick, nanos) in [(100, 1_000_000), (140, 400_000)] {
        monitor.counters_mut().run(nanos);
        monitor.tick(at(tick));
    }
    let faults = Fake::rate(&generic("page-faults").unwrap());
    let samples = samples(&monitor);
    let ends: Vec<_> = samples
        .iter()
        .filter(|sample| sample.head().place == Place::Cpu(1))
        .map(|sample| (sample.head().at, sample.event(0)))
        .collect();
    let counted = |nanos: u64| Some((faults * nanos) as f64);
    assert_eq!(
        ends,
        [(at(100), counted(1_000_000)), (at(140), counted(400_000))]
    );
    // What was noted before it was read, and is said only now, is not counted twice.
    monitor.counters_mut().withheld = None;
    monitor.counters_mut().run(200_000);
    monitor.tick(at(160));
    let all: f64 = monitor.totals()[1].event(0).unwrap();
    assert_eq!(Some(all), counted(1_600_000));
}

#[test]
fn what_was_counted_since_the_last_sample_is_one_at_the_end() {
    let mut fake = with_room(100);
    fake.withheld = Some(1);
    let mut monitor = sampled(fake, MonitorConfig::system);
    monitor.counters_mut().run(1_070_000);
    monitor.finish(at(107));
    let faults = Fake::rate(&generic("page-faults").unwrap());
    for place in 0..2 {
        let samples = samples(&monitor);
        let mut of_place = samples
            .iter()
            .filter(|sample| sample.head().place == Place::Cpu(place));
        let last = of_place.next_back().unwrap().head();
        let interval = if place == 0 { 70_000 } else { 1_070_000 };
        assert_eq!((last.at, last.interval.as_nanos()), (at(107), interval));
        let counted = monitor.totals()[place as usize].event(0);
        assert_eq!(counted, Some((faults * 1_070_000) as f64));
    }
    // By the length of each, no more than there was.
    let messages: f64 = samples(&monitor)
        .iter()
        .filter(|sample| sample.head().place == Place::Cpu(0))
        .map(|sample| sample.gauge(1).unwrap())
        .sum();
    assert!((messages - 1_070_000.0).abs() < 1e-3, "{messages}");
    // Where it has just taken one, there is nothing to add.
    let mut monitor = sampled(with_room(100), MonitorConfig::system);
    monitor.counters_mut().run(400_000);
    monitor.finish(at(40));
    assert_eq!(samples(&monitor).len(), 4);
}

#[test]
fn what_share_of_its_samples_the_system_takes_is_known() {
    let mut fake = with_room(100);
    fake.withheld = Some(1);
    let mut monitor = sampled(fake, MonitorConfig::system);
    assert_eq!(monitor.sampled_share(), None, "none is due yet");
    monitor.counters_mut().run(1_000_000);
    monitor.tick(at(100));
    assert_eq!(monitor.sampled_share(), Some(0.0));
    assert_eq!(monitor.sampled_share(), None, "none was due since");
    monitor.counters_mut().withheld = None;
    monitor.counters_mut().run(1_000_000);
    monitor.tick(at(200));
    assert_eq!(monitor.sampled_share(), Some(1.0));
    let ticked = Monitor::new(config(ONE).system(), with_room(0), at(0)).unwrap();
    assert_eq!({ ticked }.sampled_share(), None);
}

#[test]
fn samples_that_there_was_no_room_for_are_counted_and_missed_by_nothing() {
    let mut monitor = sampled(with_room(3), |config| config.cpu(0));
    monitor.counters_mut().run(1_000_000);
    monitor.tick(at(100));
    monitor.counters_mut().run(200_000);
    monitor.tick(at(120));
    assert_eq!(monitor.lost(), 2);
    let samples = samples(&monitor);
    assert_eq!(samples.len(), 4);
    // What happened meanwhile is in the next.
    assert_eq!(samples[3].head().interval, 3 * SAMPLED);
    let faults = Fake::rate(&generic("page-faults").unwrap());
    assert_eq!(
        monitor.totals()[0].event(0),
        Some((faults * 1_200_000) as f64)
    );
}

#[test]
fn where_the_system_takes_no_samples_ticks_do() {
    let ticked = |fake, of: fn(MonitorConfig) -> MonitorConfig| {
        let mut monitor = sampled(fake, of);
        assert!(!monitor.is_sampled());
        let opened = monitor.counters().open_counters();
        monitor.counters_mut().run(PERIOD);
        monitor.tick(at(1));
        assert_eq!(
            samples(&monitor)[0].head().interval,
            Duration::from_nanos(PERIOD)
        );
        opened
    };
    // It cannot; nothing that was tried stays open.
    assert_eq!(ticked(with_room(0), MonitorConfig::system), 4);
    // A process is not on a processor.
    assert_eq!(ticked(with_room(9), |config| config.process(7)), 2);
    // Seldom enough.
    ticked(with_room(9), |config| {
        config.cpu(0).period(Duration::from_secs(1))
    });
    // Sets that take turns.
    let two = config(TWO).cpu(0).period(SAMPLED);
    let mut fake = Fake::with_counters(4);
    fake.room = 9;
    assert!(!monitor(two, fake).is_sampled());
}

#[test]
fn a_processor_that_is_back_is_sampled_again() {
    let mut monitor = sampled(with_room(100), MonitorConfig::system);
    monitor.counters_mut().cpus = vec![0];
    let mut ticks = 0;
    let mut pass = |monitor: &mut Monitor<Fake>, nanos: u64| {
        monitor.counters_mut().skip(nanos);
        ticks += nanos / PERIOD;
        monitor.tick(at(ticks));
    };
    pass(&mut monitor, 250_000_000);
    pass(&mut monitor, 500_000_000);
    assert_eq!(
        monitor.take_notices().collect::<Vec<_>>(),
        [Notice::Offline(1)]
    );
    monitor.counters_mut().cpus = vec![0, 1];
    pass(&mut monitor, 500_000_000);
    assert_eq!(
        monitor.take_notices().collect::<Vec<_>>(),
        [Notice::Online(1)]
    );
    pass(&mut monitor, 250_000);
    let samples = samples(&monitor);
    let mut last = samples
        .iter()
        .filter(|sample| sample.head().place == Place::Cpu(1));
    assert_eq!(
        last.next_back().unwrap().head().interval,
        Duration::from_micros(250)
    );
}

/// A fake that can be looked at when its monitor is gone.
#[derive(Debug)]
struct Shared(std::rc::Rc<std::cell::RefCell<Fake>>);

impl Counters for Shared {
    fn open(
        &mut self,
        event: &EventCode,
        task: Task,
        leader: Option<CounterId>,
    ) -> std::io::Result<CounterId> {
        self.0.borrow_mut().open(event, task, leader)
    }
    fn start(&mut self, leader: CounterId) -> std::io::Result<()> {
        self.0.borrow_mut().start(leader)
    }
    fn stop(&mut self, leader: CounterId) -> std::io::Result<()> {
        self.0.borrow_mut().stop(leader)
    }
    fn read(&mut self, leader: CounterId, into: &mut GroupReading) -> std::io::Result<()> {
        self.0.borrow_mut().read(leader, into)
    }
    fn close(&mut self, counter: CounterId) {
        self.0.borrow_mut().close(counter);
    }
    fn is_present(&mut self, place: Place) -> bool {
        self.0.borrow_mut().is_present(place)
    }
    fn threads(&mut self, process: u32) -> std::io::Result<Vec<u32>> {
        self.0.borrow_mut().threads(process)
    }
    fn online(&mut self) -> std::io::Result<Vec<u32>> {
        self.0.borrow_mut().online()
    }
    fn facts(&self) -> Facts {
        self.0.borrow().facts()
    }
}
