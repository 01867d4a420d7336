//! The monitor over this machine's own counters: those of the kernel, which count everywhere unless it is forbidden, and those of the hardware where there are any.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tautline::pmu::{
    Epilogue, EventSets, Monitor, MonitorConfig, Names, Notice, Output, Pace, Perf, Place,
    Preamble, Reason, RecordFormat, Recording,
};

const SYSTEM: &str =
    "[[sets]]\nname = 'system'\nevents = ['task-clock', 'context-switches', 'page-faults']";

fn names() -> Names {
    Names::of_system(Path::new("/"))
}

fn monitor(sets: &str, pace: &Pace, of: impl Fn(MonitorConfig) -> MonitorConfig) -> Monitor<Perf> {
    let config = MonitorConfig::new(EventSets::parse(sets).expect("sets")).names(names());
    Monitor::new(of(config), Perf::new(), pace.now()).expect("a monitor")
}

/// Whether nobody may count here; then every event must say why, and the reason must be one of permission.
fn is_forbidden(monitor: &Monitor<Perf>, events: usize) -> bool {
    let missing = monitor.missing();
    for missing in missing {
        println!("not counted: {missing}");
        let is_permission = matches!(
            missing.reason,
            Reason::Paranoid { .. }
                | Reason::Seccomp
                | Reason::NotPermitted
                | Reason::NoPerf
                | Reason::UserOnly { .. }
        );
        assert!(is_permission, "{missing}");
    }
    let forbidden = missing
        .iter()
        .filter(|missing| !matches!(missing.reason, Reason::UserOnly { .. }));
    let is_forbidden = forbidden.count() == events;
    if is_forbidden {
        println!("skipped: nothing may be counted here, for the reasons above");
    }
    is_forbidden
}

fn has(monitor: &Monitor<Perf>, event: &str) -> bool {
    !monitor
        .missing()
        .iter()
        .any(|missing| missing.name == event)
}

fn total(monitor: &Monitor<Perf>, event: &str) -> f64 {
    let totals = &monitor.totals()[0];
    let events = monitor.layout().sets().sets()[totals.set].events();
    let index = events
        .iter()
        .position(|known| known == event)
        .expect("an event of the set");
    totals.event(index).unwrap_or(f64::NAN)
}

#[test]
fn what_this_process_does_is_counted() {
    const SLEEPS: u32 = 50;
    const BYTES: usize = 64 << 20;

    let pace = Pace::new(Duration::from_millis(1));
    let mut monitor = monitor(SYSTEM, &pace, |config| config.process(std::process::id()));
    if is_forbidden(&monitor, 3) {
        return;
    }
    for _ in 0..SLEEPS {
        std::thread::sleep(Duration::from_millis(1));
    }
    monitor.tick(pace.now());
    let (slept, faults) = (
        total(&monitor, "context-switches"),
        total(&monitor, "page-faults"),
    );
    // Which whoever optimises may not leave out.
    let memory = std::hint::black_box(vec![1_u8; BYTES]);
    assert_eq!(memory[BYTES / 2], 1);
    monitor.tick(pace.now());
    if has(&monitor, "context-switches") {
        // Each sleep gives the processor away once.
        assert!(slept >= f64::from(SLEEPS), "{slept}");
    }
    // A fault for each page, which has 2 MiB at most.
    let more = total(&monitor, "page-faults") - faults;
    assert!(more >= (BYTES >> 21) as f64, "{more}");
    if has(&monitor, "task-clock") {
        assert!(total(&monitor, "task-clock") > 0.0);
    }
}

#[test]
fn threads_that_come_later_are_counted_too() {
    let pace = Pace::new(Duration::from_millis(1));
    let mut monitor = monitor(SYSTEM, &pace, |config| config.process(std::process::id()));
    if is_forbidden(&monitor, 3) || !has(&monitor, "context-switches") {
        return;
    }
    monitor.tick(pace.now());
    let before = total(&monitor, "context-switches");
    let sleeper = || (0..30).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
    std::thread::spawn(sleeper).join().expect("no panic");
    monitor.tick(pace.now());
    let more = total(&monitor, "context-switches") - before;
    assert!(more >= 30.0, "{more}");
}

#[test]
fn a_process_that_exits_ends_its_monitor() {
    let mut child = Command::new("sleep")
        .arg("0.1")
        .stdin(Stdio::null())
        .spawn()
        .expect("sleep");
    let mut pace = Pace::new(Duration::from_millis(20));
    let id = child.id();
    let mut monitor = monitor(SYSTEM, &pace, |config| config.process(id));
    let _ = is_forbidden(&monitor, 3);
    for _ in 0..1000 {
        if monitor.is_over() {
            break;
        }
        let now = pace.wait();
        monitor.tick(now);
    }
    assert!(monitor.is_over());
    assert_eq!(
        monitor.take_notices().collect::<Vec<_>>(),
        [Notice::Exited(id)]
    );
    child.wait().expect("a child");
}

#[test]
fn the_hardware_is_counted_or_each_event_says_why_not() {
    let pace = Pace::new(Duration::from_millis(1));
    let sets = EventSets::shipped();
    let config = MonitorConfig::new(sets)
        .names(names())
        .process(std::process::id());
    let mut monitor = Monitor::new(config, Perf::new(), pace.now()).expect("a monitor");
    for missing in monitor.missing() {
        println!("not counted: {missing}");
    }
    for _ in 0..20 {
        monitor.tick(pace.now());
    }
    for totals in monitor.totals() {
        let set = &monitor.layout().sets().sets()[totals.set];
        for (index, name) in set.events().iter().enumerate() {
            let is_missing = monitor
                .missing()
                .iter()
                .any(|missing| missing.name == *name && missing.set == set.name());
            assert!(is_missing || totals.counts()[index].is_present(), "{name}");
        }
    }
}

#[test]
fn processors_are_counted_one_by_one() {
    let pace = Pace::new(Duration::from_millis(1));
    let mut monitor = monitor(SYSTEM, &pace, MonitorConfig::system);
    if is_forbidden(&monitor, 3) {
        return;
    }
    std::thread::sleep(Duration::from_millis(20));
    monitor.tick(pace.now());
    let places: Vec<_> = monitor.totals().iter().map(|totals| totals.place).collect();
    assert!(places.iter().all(|place| matches!(place, Place::Cpu(_))) && !places.is_empty());
    let switches: f64 = monitor
        .totals()
        .iter()
        .filter_map(|totals| totals.event(1))
        .sum();
    assert!(switches > 0.0);
}

/// A recording of this machine, replayed: real captures are data for tests elsewhere.
#[test]
fn a_real_recording_is_replayed_as_it_was() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("capture.jsonl");
    let mut pace = Pace::new(Duration::from_millis(2));
    let sets = "[[sets]]\nname = 'a'\nevents = ['page-faults', 'task-clock']\nmetrics = { f = 'page-faults / seconds' }
                [[sets]]\nname = 'b'\nevents = ['context-switches', 'task-clock']";
    let mut live = monitor(sets, &pace, |config| config.process(std::process::id()));
    let preamble = Preamble {
        hz: 500.0,
        slots: live.store().slots(),
        origin_unix_nanos: 0,
        missing: Vec::new(),
    };
    let format = RecordFormat::of(&path).expect("jsonl");
    let mut output = Output::create(&path, format, live.layout(), &preamble).expect("a file");
    for _ in 0..40 {
        let now = pace.wait();
        live.tick(now);
        output.flush(live.store(), live.layout()).expect("room");
    }
    let end = Epilogue {
        probe: Some(pace.probe_effect()),
        interrupts: None,
        lost: 0,
    };
    let flushed = output
        .finish(live.store(), live.layout(), Some(&end))
        .expect("room");
    assert_eq!((flushed.samples, flushed.lost), (40, 0));

    let file = std::fs::File::open(&path).expect("the capture");
    let recording = Recording::read(std::io::BufReader::new(file)).expect("a recording");
    let mut replay = recording.monitor(|config| config).expect("a monitor");
    while replay.replay_tick() {}
    assert_eq!(replay.totals(), live.totals());
}

#[test]
fn the_kernel_takes_samples_and_nobody_wakes_for_them() {
    const PERIOD: Duration = Duration::from_millis(2);

    /// Some kernels take none while a processor idles.
    struct Busy(std::process::Child);

    impl Drop for Busy {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    let status = std::fs::read_to_string("/proc/self/status").expect("of this process");
    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let mut allowed = allowed.expect("a line").split(['-', ',']);
    let cpu = allowed.next().expect("a processor").trim();
    let busy = Command::new("taskset")
        .args(["-c", cpu, "sh", "-c", "ulimit -t 20; while :; do :; done"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _busy = Busy(busy.expect("taskset"));
    let mut shares = [0.0; 2];
    for (share, is_sampled) in shares.iter_mut().zip([true, false]) {
        let period = if is_sampled {
            Duration::from_millis(100)
        } else {
            PERIOD
        };
        let mut pace = Pace::new(period);
        let mut monitor = monitor(SYSTEM, &pace, |config| {
            let config = config.cpu(cpu.parse().expect("a number"));
            if is_sampled {
                config.period(PERIOD)
            } else {
                config
            }
        });
        if is_forbidden(&monitor, 3) {
            return;
        }
        assert_eq!(monitor.is_sampled(), is_sampled);
        pace.restart();
        while pace.now().as_nanos() < 1_000_000_000 {
            let now = pace.wait();
            monitor.tick(now);
        }
        *share = pace.probe_effect().share();
        assert_eq!(monitor.lost(), 0);
        let (store, layout) = (monitor.store(), monitor.layout());
        let mut cursor = store.start();
        let (mut samples, mut last, mut counted) = (0, 0, Duration::ZERO);
        while let Some(sample) = store.get(layout, cursor) {
            cursor = cursor.next();
            let head = sample.head();
            assert!(head.at.as_nanos() > last, "in the order of time");
            last = head.at.as_nanos();
            counted += head.interval;
            samples += 1;
        }
        // Late timers leave some out, but no time.
        assert!(samples > 100, "{samples}");
        assert!(
            counted >= Duration::from_nanos(last * 9 / 10) && counted.as_nanos() <= last.into(),
            "{counted:?} of {last} ns"
        );
    }
    println!("{shares:?} of a processor");
    // Ten wake-ups a second and 500.
    assert!(shares[0] < shares[1] / 2.0, "{shares:?}");
}

/// Prints what the monitor takes here, and judges nothing but that it is known: machines differ.
#[test]
fn the_probe_effect_is_measured() {
    for hz in [100_u32, 1000] {
        let mut pace = Pace::new(Duration::from_secs(1) / hz);
        let mut monitor = monitor(SYSTEM, &pace, |config| config.process(std::process::id()));
        pace.restart();
        for _ in 0..hz / 2 {
            let now = pace.wait();
            monitor.tick(now);
        }
        let probe = pace.probe_effect();
        println!(
            "{hz} Hz: {:.4} % of a processor, {} ticks missed",
            100.0 * probe.share(),
            probe.missed
        );
        assert!(probe.share() > 0.0 && probe.processor < probe.wall);
    }
}
