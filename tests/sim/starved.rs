//! Processors that are short: the codec budget in windows of 20 ms, and the loop that broke another
//! system (a starved peer, a longer round trip, a heavier codec, a peer that is starved more).

use std::time::Duration;

use tautline::codecs::{Arm, prior_decode_nanos, prior_encode_nanos};
use tautline::control::{CpuGuardConfig, PolicyConfig, Processors};
use tautline::generate::{Content, Generator};
use tautline::session::{Decision, SendError, SessionConfig, StreamConfig};
use tautline::sim::{
    At, Change, CodecCosts, End, Experiment, Happening, NodeConfig, Pace, Traffic, World,
};

use crate::common::{megabits, messages};

/// The window of decisions.md.
const WINDOW: Duration = Duration::from_millis(20);

/// What one window of 20 ms saw at one end.
#[derive(Debug)]
struct Spent {
    at: f64,
    codec: f64,
    shadow: f64,
    budget: f64,
    load: f64,
}

fn guarded(processors: f64) -> NodeConfig {
    let mut node = NodeConfig::default();
    node.cpu.processors = Processors::new(processors).expect("above zero");
    node.cpu.guard = Some(CpuGuardConfig::default());
    node
}

/// Sends as much of `content` as goes for `secs`, both ends watched every 20 ms.
fn watch(content: Content, rate: f64, processors: f64, secs: u64) -> [Vec<Spent>; 2] {
    let node = guarded(processors);
    let mut world =
        World::new(node.clone(), node, megabits(rate), CodecCosts::default()).expect("valid");
    world.connect();
    let stream = world
        .open(End::A, "heavy", StreamConfig::default())
        .expect("connected");
    let mut messages = Generator::new(content, 3).peekable();
    let until = world.now() + Duration::from_secs(secs);
    let mut spent = [Vec::new(), Vec::new()];
    let mut before = [[0; 2]; 2];
    world.set_timer(world.now() + WINDOW, 0);
    loop {
        while let Some(message) = messages.peek() {
            match world.send(End::A, stream, message.clone()) {
                Ok(()) => messages.next(),
                Err(SendError::Full(_)) => break,
                Err(error) => panic!("{error}"),
            };
        }
        match world.next(until) {
            Some(Happening::Timer(_)) => {
                let now = world.now();
                world.set_timer(now + WINDOW, 0);
                for (at, end) in [End::A, End::B].into_iter().enumerate() {
                    let stats = world.session(end).stats();
                    let totals = [
                        stats.encode_nanos + stats.decode_nanos + stats.shadow_nanos,
                        stats.shadow_nanos,
                    ];
                    let seconds = |which: usize| (totals[which] - before[at][which]) as f64 * 1e-9;
                    spent[at].push(Spent {
                        at: now.as_nanos() as f64 * 1e-9,
                        codec: seconds(0),
                        shadow: seconds(1),
                        budget: stats.budget.map_or(f64::INFINITY, |budget| {
                            budget.as_nanos_per_sec() as f64 * 1e-9 * WINDOW.as_secs_f64()
                        }),
                        load: world.load(end).get(),
                    });
                    before[at] = totals;
                }
            }
            Some(_) => {}
            None => return spent,
        }
    }
}

#[test]
fn codec_time_keeps_to_the_budget_in_windows_of_20_ms() {
    println!("| content | Mbit/s | processors | end | used of budget, mean | p99 | most | load |");
    println!("|---|---|---|---|---|---|---|---|");
    for (content, rate, processors) in [
        (Content::Telecom, 1.0, 1.0),
        (Content::Telecom, 10.0, 1.0),
        (Content::Telecom, 100.0, 1.0),
        (Content::Telecom, 1000.0, 1.0),
        (Content::Telecom, 100.0, 0.2),
        (Content::Text, 10.0, 1.0),
        (Content::Text, 100.0, 0.5),
    ] {
        let spent = watch(content, rate, processors, 5);
        for (end, spent) in ["A", "B"].into_iter().zip(spent) {
            let late: Vec<_> = spent.iter().filter(|window| window.at > 1.0).collect();
            let mut over: Vec<_> = late
                .iter()
                .map(|window| window.codec / window.budget.max(1e-9))
                .collect();
            over.sort_by(f64::total_cmp);
            let p99 = over[over.len() * 99 / 100];
            let mean = |of: fn(&Spent) -> f64| {
                late.iter().map(|window| of(window)).sum::<f64>() / late.len() as f64
            };
            println!(
                "| {content} | {rate} | {processors} | {end} | {:.3} | {p99:.3} | {:.3} | {:.3} (budget {:.3} shadow {:.4}) |",
                mean(|window| window.codec) / mean(|window| window.budget),
                over[over.len() - 1],
                mean(|window| window.load),
                mean(|window| window.budget) / WINDOW.as_secs_f64(),
                mean(|window| window.shadow) / WINDOW.as_secs_f64(),
            );
            assert!(p99 <= 1.1, "{content}, {rate} Mbit/s, {end}: {p99:.3}");
        }
    }
}

/// The mean decode time per plain byte of decisions, as the table has it, ns.
fn decode_cost<'a>(decisions: impl Iterator<Item = &'a Decision>) -> f64 {
    let (mut nanos, mut bytes) = (0.0, 0.0);
    for decision in decisions {
        if decision.arm != Arm::IDENTITY {
            nanos += prior_decode_nanos(decision.arm.codec, decision.plain_len) as f64;
        }
        bytes += decision.plain_len as f64;
    }
    nanos / f64::max(bytes, 1.0)
}

/// The same of encoding.
fn encode_cost<'a>(decisions: impl Iterator<Item = &'a Decision>) -> f64 {
    let (mut nanos, mut bytes) = (0.0, 0.0);
    for decision in decisions {
        if decision.arm != Arm::IDENTITY {
            nanos += prior_encode_nanos(decision.arm, decision.plain_len) as f64;
        }
        bytes += decision.plain_len as f64;
    }
    nanos / f64::max(bytes, 1.0)
}

#[test]
fn a_starved_node_never_makes_its_sender_compress_more() {
    println!(
        "| starved | pace | Mbit/s | guards | busy | decode, ns/B | encode | RTT, µs | time, µs | arms |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for end in [End::B, End::A] {
        for pace in [Pace::Latency, Pace::Throughput] {
            for rate in [1.0, 10.0, 100.0] {
                for guard in [false, true] {
                    for busy in [1.0, 19.0] {
                        starve(end, pace, rate, guard, busy);
                    }
                }
            }
        }
    }
}

fn starve(end: End, pace: Pace, rate: f64, guard: bool, busy: f64) {
    let bytes = match (pace, rate as u64) {
        (Pace::Latency, _) => 1e6,
        (_, 1) => 5e6,
        (_, 10) => 12e6,
        _ => 30e6,
    };
    let messages = messages(Content::Telecom, bytes as usize);
    let half = messages.len() / 2;
    let mut experiment = Experiment {
        link: megabits(rate),
        changes: vec![(At::Message(half), Change::Background(end, busy))],
        ..Experiment::new(Traffic::new(messages, pace))
    };
    experiment.a.session = SessionConfig::default().trace(true);
    for node in [&mut experiment.a, &mut experiment.b] {
        node.cpu.handling = Duration::from_micros(5);
        if guard {
            node.cpu.guard = Some(CpuGuardConfig::default());
        }
    }
    let outcome = experiment.run(PolicyConfig::default()).expect("a run");
    let sent = |message: usize| outcome.timeline[message / 100 - 1].until;
    let (from, change) = (sent(half / 2), sent(half - 100));
    let after = sent(half + half / 3);
    let within = |from: Duration, to: Duration| {
        outcome.decisions.iter().filter(move |decision| {
            let at = Duration::from_nanos(decision.at.as_nanos());
            at >= from && at < to
        })
    };
    let before = (
        decode_cost(within(from, change)),
        encode_cost(within(from, change)),
    );
    let later = (
        decode_cost(within(after, Duration::MAX)),
        encode_cost(within(after, Duration::MAX)),
    );
    let rtt = |at: usize| {
        outcome.timeline[at / 100]
            .rtt
            .map_or(0, |rtt| rtt.as_micros())
    };
    let time = |range: core::ops::Range<usize>| {
        let of = &outcome.times[range];
        of.iter().sum::<Duration>().as_micros() / of.len() as u128
    };
    let top = |from, to| {
        let mut arms: Vec<(Arm, usize)> = Vec::new();
        let mut all = 0;
        for decision in within(from, to) {
            all += 1;
            match arms.iter_mut().find(|(arm, _)| *arm == decision.arm) {
                Some((_, count)) => *count += 1,
                None => arms.push((decision.arm, 1)),
            }
        }
        arms.sort_by_key(|(_, count)| core::cmp::Reverse(*count));
        let tops = arms.iter().take(3);
        tops.map(|(arm, count)| format!("{arm} {}%", 100 * count / all.max(1)))
            .collect::<Vec<_>>()
            .join(" ")
    };
    println!(
        "| {end:?} | {pace:?} | {rate} | {guard} | {busy} | {:.3} {:.3} | {:.3} {:.3} | {} {} | {} {} | {} -> {} |",
        before.0,
        later.0,
        before.1,
        later.1,
        rtt(half - 200),
        rtt(half + half * 9 / 10),
        time(half / 2..half),
        time(half + half / 3..2 * half),
        top(from, change),
        top(after, Duration::MAX),
    );
    let (was, is) = match end {
        End::B => (before.0, later.0),
        End::A => (before.1, later.1),
    };
    // Neighbouring levels take turns by what the messages of the moment are.
    let case = format!("{end:?} {pace:?} {rate} {guard} {busy}");
    assert!(is <= was * 1.1 + 0.01, "{case}: {was:.3}, then {is:.3}");
}

/// The best of some arms alone over the default policy, which has seen one run before, with guards at both
/// ends and `busy` processors of the peer's one taken from the start.
fn guarded_efficiency(pace: Pace, rate: f64, busy: f64) -> f64 {
    let bytes = if rate < 10.0 { 1e6 } else { 5e6 };
    let messages = messages(Content::Telecom, bytes as usize);
    let mut experiment = Experiment {
        link: megabits(rate),
        ..Experiment::new(Traffic::new(messages, pace))
    };
    experiment.b.cpu.background = busy;
    for node in [&mut experiment.a, &mut experiment.b] {
        node.cpu.handling = Duration::from_micros(5);
        node.cpu.guard = Some(CpuGuardConfig::default());
    }
    let run = |policy: &str| {
        let outcome = experiment.run(policy.parse().expect("a policy"));
        outcome.expect("a run").cost().as_secs_f64()
    };
    let best = ["none", "lz4", "zstd:1", "zstd:3", "zstd:9"]
        .map(|policy| (run(policy), policy))
        .into_iter()
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .expect("some");
    let first = experiment.run(PolicyConfig::default()).expect("a run");
    experiment.a.session = SessionConfig::default()
        .trace(true)
        .knowledge(first.knowledge);
    let ours = experiment.run(PolicyConfig::default()).expect("a run");
    let mut arms: Vec<(String, usize)> = Vec::new();
    for decision in &ours.decisions {
        let name = format!("{} {}", decision.arm, decision.reason.name());
        match arms.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => arms.push((name, 1)),
        }
    }
    arms.sort_by_key(|(_, count)| core::cmp::Reverse(*count));
    arms.truncate(4);
    let efficiency = best.0 / ours.cost().as_secs_f64();
    println!(
        "| {pace:?} | {rate} | {busy} | {} {:.3} s | {efficiency:.3} | {arms:?} |",
        best.1, best.0
    );
    efficiency
}

#[test]
fn a_guard_takes_little_of_what_the_processors_have_left() {
    println!("| pace | Mbit/s | busy at the peer | best alone | efficiency | taken |");
    println!("|---|---|---|---|---|---|");
    for pace in [Pace::Latency, Pace::Throughput] {
        for rate in [1.0, 10.0, 100.0] {
            // Above the setpoint nothing is granted, and nothing taken.
            for busy in [0.0, 0.5] {
                let efficiency = guarded_efficiency(pace, rate, busy);
                // At 100 Mbit/s all is over within 56 ms, less than a period of the guard.
                let least = if rate < 100.0 { 0.97 } else { 0.8 };
                assert!(efficiency > least, "{efficiency:.3}");
            }
        }
    }
}

#[test]
fn a_short_budget_makes_levels_fall_before_identity() {
    println!("| busy | encode, ns/B | processors | share of identity |");
    println!("|---|---|---|---|");
    // Of 0.8 of one processor, which the guard lets be busy, codecs have the rest.
    let found = [0.0, 0.5, 0.6, 0.7, 0.75, 0.79].map(|busy| {
        let mut experiment = Experiment {
            link: megabits(10.0),
            a: guarded(1.0),
            ..Experiment::new(Traffic::new(
                messages(Content::Telecom, 20_000_000),
                Pace::Throughput,
            ))
        };
        experiment.a.cpu.background = busy;
        experiment.a.session = SessionConfig::default().trace(true).history_memory(0);
        let outcome = experiment.run(PolicyConfig::default()).expect("a run");
        let half = outcome.decisions.len() / 2;
        let cost = encode_cost(outcome.decisions[half..].iter());
        let share = outcome.share(Arm::IDENTITY);
        let rate = outcome.plain_bytes as f64 / outcome.duration.as_secs_f64();
        let taken = cost * 1e-9 * rate;
        println!("| {busy} | {cost:.2} | {taken:.3} | {share:.3} |");
        assert!(taken < 0.8 - busy, "{taken:.3} beside {busy}");
        (cost, share)
    });
    let [free, short @ .., nothing] = found;
    for (cost, share) in short {
        // All but what went before the price had risen.
        assert!(share < 0.05 && cost < free.0, "{cost:.2}, {share:.3}");
    }
    assert!(found.is_sorted_by(|a, b| a.0 * 1.05 >= b.0), "{found:?}");
    assert!(nothing.1 > 0.9, "{nothing:?}");
}
