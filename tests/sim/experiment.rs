//! Experiments on given traffic: modes, changes, the oracle, what a starved node looks like.

use std::time::Duration;

use bytes::Bytes;
use tautline::codecs::{Arm, CodecId};
use tautline::control::{CpuGuardConfig, PolicyConfig};
use tautline::generate::{Content, Generator};
use tautline::session::{Limits, SendError, SessionConfig};
use tautline::sim::{
    At, Change, CodecCosts, End, Experiment, ExperimentError, LinkConfig, Outcome, Pace, Traffic,
};
use tautline::units::BytesPerSec;

const IDENTITY: PolicyConfig = PolicyConfig::Fixed(Arm::IDENTITY);
const LZ4: Arm = Arm::new(CodecId::LZ4, 0);
const ZSTD_3: Arm = Arm::new(CodecId::ZSTD, 3);
const ARMS: [Arm; 5] = [
    Arm::IDENTITY,
    LZ4,
    Arm::new(CodecId::ZSTD, 1),
    ZSTD_3,
    Arm::new(CodecId::ZSTD, 9),
];

fn megabits(rate: f64) -> LinkConfig {
    LinkConfig {
        rate: BytesPerSec::new(rate * 125e3),
        ..LinkConfig::default()
    }
}

fn telecom(messages: usize, pace: Pace) -> Experiment {
    let messages = Generator::new(Content::Telecom, 1).take(messages);
    Experiment::new(Traffic::new(messages, pace))
}

fn mean_rtt(outcome: &Outcome, windows: core::ops::Range<usize>) -> f64 {
    let rtts: Vec<_> = outcome.timeline[windows]
        .iter()
        .filter_map(|window| window.rtt)
        .map(|rtt| rtt.as_secs_f64())
        .collect();
    rtts.iter().sum::<f64>() / rtts.len() as f64
}

#[test]
fn the_link_decides_which_arm_is_best() {
    let over = |rate| {
        let experiment = Experiment {
            link: megabits(rate),
            ..telecom(5000, Pace::Throughput)
        };
        experiment.oracle(&ARMS).expect("runs")
    };
    let (slow, fast) = (over(1.0), over(10_000.0));
    for oracle in [&slow, &fast] {
        let costs: Vec<_> = oracle.runs().iter().map(|(_, run)| run.cost()).collect();
        assert!(costs.is_sorted(), "{costs:?}");
        assert_eq!(oracle.runs().len(), ARMS.len());
    }
    let (slow, fast) = (slow.best(), fast.best());
    println!(
        "1 Mbit/s: {} in {:?}; 10 Gbit/s: {} in {:?}",
        slow.0, slow.1.duration, fast.0, fast.1.duration
    );
    assert_ne!(slow.0, fast.0);
    assert_eq!(slow.0, Arm::new(CodecId::ZSTD, 9));
    assert!(slow.1.wire_bytes < slow.1.plain_bytes / 4);
}

#[test]
fn the_best_arm_is_as_good_as_itself_and_another_is_worse() {
    let experiment = Experiment {
        link: megabits(1.0),
        ..telecom(2000, Pace::Throughput)
    };
    let oracle = experiment.oracle(&ARMS).expect("runs");
    let best = experiment.run(PolicyConfig::Fixed(oracle.best().0));
    let best = best.expect("runs").efficiency(&oracle);
    assert!((best - 1.0).abs() < 1e-9, "{best}");
    let none = experiment.run(IDENTITY).expect("runs").efficiency(&oracle);
    assert!(none < 0.3, "{none}");
}

#[test]
fn the_same_seed_has_the_same_outcome() {
    let run = || {
        let mut experiment = telecom(3000, Pace::Throughput);
        experiment.a.session = SessionConfig::default().seed(5);
        experiment.link = megabits(10.0);
        let run = || format!("{:?}", experiment.run(PolicyConfig::default()));
        let (first, remembered) = (run(), run());
        assert_eq!(first, remembered, "whether encoded anew or remembered");
        first
    };
    assert_eq!(run(), run());
}

#[test]
fn messages_sent_one_by_one_take_the_link_and_the_delay() {
    let outcome = telecom(500, Pace::Latency).run(IDENTITY).expect("runs");
    assert_eq!((outcome.messages, outcome.times.len()), (500, 500));
    // 50 µs on the way, and at most 8 ns for a bit of the longest message and its header.
    let bounds = Duration::from_micros(50)..Duration::from_micros(50 + 200);
    assert!(bounds.contains(&outcome.mean()), "{:?}", outcome.mean());
    assert!(outcome.quantile(0.0) <= outcome.quantile(0.5));
    assert!(outcome.quantile(0.5) <= outcome.quantile(1.0));
    assert_eq!(Some(&outcome.quantile(1.0)), outcome.times.iter().max());
    assert!((outcome.share(Arm::IDENTITY) - 1.0).abs() < 1e-9);
    assert_eq!(outcome.encode_time, Duration::ZERO);
}

#[test]
fn one_stream_fills_a_link_that_is_long_and_fast() {
    let over = |messages: usize, memory: usize, delay: u64| {
        let messages = Generator::new(Content::Media, 1).take(messages);
        let mut experiment = Experiment::new(Traffic::new(messages, Pace::Throughput));
        experiment.link = LinkConfig {
            delay: Duration::from_millis(delay),
            ..megabits(1000.0)
        };
        let limits = Limits::default()
            .max_message(1 << 20)
            .connection_memory(memory);
        experiment.b.session = SessionConfig::default().limits(limits);
        experiment.run(IDENTITY).expect("runs")
    };
    // The rate of what comes once the window has grown.
    let rate = |memory, delay| {
        let (some, all) = (over(600, memory, delay), over(1800, memory, delay));
        let bytes = (all.plain_bytes - some.plain_bytes) as f64;
        bytes / all.duration.saturating_sub(some.duration).as_secs_f64() / 125e6
    };
    let short = rate(64 << 20, 1);
    assert!(short > 0.97, "{short} of the link's rate");
    // More than two windows as they are at first are under way at once.
    let long = rate(64 << 20, 20);
    assert!(long > 0.97, "{long} of the link's rate");
    // A window is no more than an eighth of what a connection may hold: 2 MiB, which is .4 of what is under way.
    let kept = rate(16 << 20, 20);
    assert!((0.3..0.45).contains(&kept), "{kept} of the link's rate");
}

#[test]
fn paced_messages_wait_only_where_the_link_is_slower_than_they_come() {
    let over = |rate, policy| {
        let pace = Pace::Paced(BytesPerSec::new(125e3).expect("a rate"));
        let experiment = Experiment {
            link: megabits(rate),
            ..telecom(3000, pace)
        };
        experiment.run(policy).expect("runs")
    };
    // They come at 1 Mbit/s.
    let wide = over(10.0, IDENTITY);
    let comes = wide.plain_bytes as f64 / 125e3;
    assert!((wide.duration.as_secs_f64() / comes - 1.0).abs() < 0.01);
    assert!(wide.mean() < Duration::from_millis(2), "{:?}", wide.mean());
    let narrow = over(0.5, IDENTITY);
    assert!(
        narrow.mean() > Duration::from_secs(1),
        "{:?}",
        narrow.mean()
    );
    let compressed = over(0.5, PolicyConfig::Fixed(ZSTD_3));
    println!(
        "1 Mbit/s through 0.5: {:?} each, compressed {:?}",
        narrow.mean(),
        compressed.mean()
    );
    assert!(compressed.mean() < narrow.mean() / 2);
}

#[test]
fn a_change_of_the_link_takes_effect_when_it_should() {
    let by_message = Experiment {
        changes: vec![(At::Message(500), Change::Link(megabits(1.0)))],
        ..telecom(1000, Pace::Latency)
    };
    let times = by_message.run(IDENTITY).expect("runs").times;
    let sum = |times: &[Duration]| times.iter().sum::<Duration>();
    assert_eq!(times.len(), 1000);
    assert!(sum(&times[500..]) > 5 * sum(&times[..500]));
    assert!(times[499] < Duration::from_micros(300) && times[500] > Duration::from_micros(300));

    let after = Duration::from_millis(500);
    let by_time = Experiment {
        link: megabits(1.0),
        changes: vec![(At::Time(after), Change::Link(megabits(100.0)))],
        ..telecom(2000, Pace::Throughput)
    };
    let outcome = by_time.run(IDENTITY).expect("runs");
    let [before, since] = [true, false].map(|early| {
        let windows = outcome.timeline.iter();
        windows
            .filter(|window| (window.until < after) == early)
            .count()
    });
    println!(
        "{before} windows in 0.5 s before, {since} since, in {:?} in all",
        outcome.duration
    );
    assert!(before < 5 && since > 15);
    assert!(outcome.duration < after + Duration::from_millis(200));
}

#[test]
fn a_starved_peer_shows_a_rising_round_trip() {
    let run = |handling| {
        let mut experiment = Experiment {
            changes: vec![(At::Message(2000), Change::Background(End::B, 19.0))],
            ..telecom(4000, Pace::Latency)
        };
        // A probe whenever there is something to probe, so that the round trip is known well.
        experiment.a.session = SessionConfig::default().probe_interval(Duration::from_millis(1));
        experiment.b.cpu.handling = handling;
        let outcome = experiment.run(IDENTITY).expect("runs");
        (mean_rtt(&outcome, 5..20), mean_rtt(&outcome, 30..40))
    };
    let (idle, starved) = run(Duration::from_micros(20));
    println!(
        "round trip {:.0} µs, starved {:.0} µs",
        idle * 1e6,
        starved * 1e6
    );
    // Each wake-up takes 400 µs instead of 20; a probe often comes while one is under way.
    assert!(
        (100e-6..400e-6).contains(&(starved - idle)),
        "{idle} {starved}"
    );
    let (idle, starved) = run(Duration::ZERO);
    assert!((starved / idle - 1.0).abs() < 0.1, "{idle} {starved}");
}

#[test]
fn busy_processors_stretch_codec_work() {
    let run = |busy| {
        let experiment = Experiment {
            changes: vec![(At::Message(0), Change::Background(End::A, busy))],
            ..telecom(500, Pace::Latency)
        };
        experiment.run(PolicyConfig::Fixed(ZSTD_3)).expect("runs")
    };
    let (idle, busy) = (run(0.0), run(1.0));
    // Its processor time is the same, but comes in twice the time.
    assert_eq!(busy.encode_time, idle.encode_time);
    let longer = busy.duration.saturating_sub(idle.duration);
    let stretch = 1.0 + longer.as_secs_f64() / idle.encode_time.as_secs_f64();
    assert!((stretch - 2.0).abs() < 0.01, "{stretch}");
    assert_eq!(busy.decode_time, idle.decode_time);
}

#[test]
fn costs_decide_too() {
    let best = |costs| {
        let experiment = Experiment {
            costs,
            link: megabits(10.0),
            ..telecom(2000, Pace::Throughput)
        };
        experiment.oracle(&ARMS).expect("runs").best().0
    };
    assert_eq!(best(CodecCosts::default()).codec, CodecId::ZSTD);
    let slow = CodecCosts::default().codec_scaled(CodecId::ZSTD, 1000.0);
    assert_eq!(best(slow), LZ4);
    assert_eq!(best(CodecCosts::default().scaled(1e5)), Arm::IDENTITY);
}

#[test]
fn a_guard_gets_time_to_grant_a_budget() {
    let share = |warm_up| {
        let mut experiment = telecom(500, Pace::Latency);
        experiment.a.cpu.guard = Some(CpuGuardConfig::default());
        experiment.warm_up = warm_up;
        let outcome = experiment.run(PolicyConfig::Fixed(LZ4)).expect("runs");
        outcome.timeline[0].share(LZ4) + outcome.timeline[1].share(LZ4)
    };
    assert!(share(Some(Duration::ZERO)) < 1e-9);
    assert!(share(None) > 0.5);
}

#[test]
fn what_cannot_be_run_is_said() {
    let experiment = telecom(1, Pace::Latency);
    let unknown = Arm::new(CodecId::from_wire(99), 0);
    assert_eq!(
        experiment.oracle(&[unknown]).expect_err("no such codec"),
        ExperimentError::UnknownArm(unknown)
    );
    assert_eq!(
        experiment.oracle(&[]).expect_err("no arms"),
        ExperimentError::NoArms
    );
    let mut short = Experiment::new(Traffic::new([Bytes::from(vec![0; 5000])], Pace::Latency));
    short.b.session = SessionConfig::default().limits(Limits::default().max_message(4000));
    assert!(matches!(
        short.run(IDENTITY),
        Err(ExperimentError::NotSent {
            message: 0,
            error: SendError::TooLong { given: 5000, .. }
        })
    ));
    let nothing = telecom(0, Pace::Throughput).run(IDENTITY).expect("runs");
    assert_eq!((nothing.mean(), nothing.quantile(0.5)), Default::default());
}
