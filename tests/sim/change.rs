//! Content, link and processors that change: how soon the policy follows, and what it gains by that.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use tautline::codecs::Arm;
use tautline::control::PolicyConfig;
use tautline::generate::{Content, Generator};
use tautline::session::SessionConfig;
use tautline::sim::{At, Change, End, Experiment, Oracle, Outcome, Pace, Traffic};

use crate::common::{arms_worth_trying, megabits, messages};

/// The best arm's time over ours from which on we follow: 0.97, and what rounds to it.
const FOLLOWED: f64 = 0.965;
/// The policy has so many messages, or so much time if that is more, to follow.
const MESSAGES: usize = 100;
const TIME: Duration = Duration::from_millis(100);

/// Fewer than there are, so that all of them can be run on every trace.
const ARMS: [&str; 8] = [
    "lz4", "snappy", "zstd:-5", "zstd:-1", "zstd:1", "zstd:3", "zstd:6", "zstd:9",
];

/// What is sent, and over what, until the next change.
#[derive(Clone)]
struct Phase {
    name: &'static str,
    messages: Vec<Bytes>,
    link: f64,
    background: f64,
}

fn phase(name: &'static str, messages: Vec<Bytes>, link: f64, background: f64) -> Phase {
    Phase {
        name,
        messages,
        link,
        background,
    }
}

/// All phases one after another.
fn experiment(phases: &[Phase], pace: Pace) -> Experiment {
    let mut sent = 0;
    let mut changes = Vec::new();
    for phase in phases {
        changes.push((At::Message(sent), Change::Link(megabits(phase.link))));
        let busy = Change::Background(End::A, phase.background);
        changes.push((At::Message(sent), busy));
        sent += phase.messages.len();
    }
    let messages = phases.iter().flat_map(|phase| phase.messages.clone());
    let mut experiment = Experiment {
        link: megabits(phases[0].link),
        changes,
        ..Experiment::new(Traffic::new(messages, pace))
    };
    let arms = ARMS.map(|arm| arm.parse().expect("an arm")).to_vec();
    experiment.a.session = SessionConfig::default().trace(true).arms(arms);
    experiment
}

/// What the policy and every arm alone made of some phases: it is judged in two ways.
struct Trace<'a> {
    title: &'a str,
    phases: &'a [Phase],
    messages: Vec<Bytes>,
    ours: Outcome,
    oracle: Oracle,
}

fn trace<'a>(title: &'a str, phases: &'a [Phase], pace: Pace) -> Trace<'a> {
    let experiment = experiment(phases, pace);
    let arms = ARMS.map(|arm| arm.parse().expect("an arm"));
    let all: Vec<_> = [Arm::IDENTITY].into_iter().chain(arms).collect();
    Trace {
        title,
        phases,
        ours: experiment.run(PolicyConfig::default()).expect("a run"),
        oracle: experiment.oracle(&all).expect("runs"),
        messages: experiment.traffic.messages,
    }
}

/// What the messages from number `from` up to `until` took.
fn took(outcome: &Outcome, from: usize, until: usize) -> f64 {
    match outcome.pace {
        Pace::Throughput => delivered(outcome, until).saturating_sub(delivered(outcome, from)),
        _ => outcome.times[from..until].iter().sum(),
    }
    .as_secs_f64()
}

/// When that many messages were delivered, to the hundred.
fn delivered(outcome: &Outcome, message: usize) -> Duration {
    let window = (message / 100).checked_sub(1);
    window.map_or(Duration::ZERO, |window| {
        let known = outcome.timeline.get(window);
        known.map_or(outcome.duration, |window| window.until)
    })
}

/// When it was decided how a message goes out, and the arm.
type Carried = (Duration, Arm);

/// What a block takes for a message besides its payload, bytes: most of those here are so long that it is 3.
const RECORD: usize = 3;

/// For each message the decision on the block that it is in: the arm that was chosen, also where the block was not
/// made smaller by it and left as it was.
fn carried(outcome: &Outcome, messages: &[Bytes]) -> Vec<Carried> {
    let mut decisions = outcome.decisions.iter().peekable();
    let mut current = None;
    // One by one, by the times at which messages were sent. Else a block ends before a message that does not fit.
    let (mut now, mut room) = (0, 0);
    let of = |(message, time): (&Bytes, &Duration)| {
        now += time.as_nanos();
        while let Some(decision) = decisions.next_if(|next| match outcome.pace {
            Pace::Latency => u128::from(next.at.as_nanos()) < now,
            _ => room < message.len() + RECORD,
        }) {
            room = decision.plain_len;
            current = Some(decision);
        }
        room = room.saturating_sub(message.len() + RECORD);
        let decision = current.expect("one for the first");
        (Duration::from_nanos(decision.at.as_nanos()), decision.arm)
    };
    let carried = messages.iter().zip(&outcome.times).map(of).collect();
    // The end shows whether that was right.
    assert!(
        decisions.len() <= 1 && room <= 2 << 16,
        "{} left, {room}",
        decisions.len()
    );
    carried
}

/// From when on a change counts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Since {
    /// What is sent: from the first block that has any of it.
    Sent,
    /// Link and processors: from the change itself.
    Conditions,
}

/// Whether an arm was the one to take for a message.
type IsGood = Box<dyn Fn(usize, Arm) -> bool>;

/// What is as good as the best: what takes at most 3 % longer, alone in the same experiment. One by one that is judged for each
/// message by itself, since what is best differs by its length; else by the time of `judged` messages together.
fn as_good(oracle: Oracle, judged: Range<usize>) -> IsGood {
    let best = |times: &[(Arm, f64)]| times.iter().map(|run| run.1).fold(f64::INFINITY, f64::min);
    let good = move |times: &[(Arm, f64)], arm: Arm| {
        let own = times.iter().find(|run| run.0 == arm);
        own.is_some_and(|(_, own)| FOLLOWED * own <= best(times))
    };
    let times = move |oracle: &Oracle, of: &dyn Fn(&Outcome) -> f64| -> Vec<(Arm, f64)> {
        let runs = oracle.runs().iter();
        runs.map(|(arm, run)| (*arm, of(run))).collect()
    };
    if oracle.best().1.pace == Pace::Latency {
        Box::new(move |message, arm| {
            let of = |run: &Outcome| run.times[message].as_secs_f64();
            good(&times(&oracle, &of), arm)
        })
    } else {
        let of = |run: &Outcome| took(run, judged.start.next_multiple_of(100), judged.end);
        let times = times(&oracle, &of);
        Box::new(move |_, arm| good(&times, arm))
    }
}

/// For each change, the share of messages that went out with an arm as good as the best: of the first hundred (under backlog
/// also of 100 ms) that are not among the hundred (or 100 ms) after the change, and of all from there to the next change.
fn majorities(trace: &Trace<'_>, since: Since) -> Vec<[f64; 2]> {
    println!("| change | pace | content | Mbit/s | busy | majority after | share soon | share |");
    println!("|---|---|---|---|---|---|---|---|");
    let (title, ours, pace) = (trace.title, &trace.ours, trace.ours.pace);
    let carried = carried(ours, &trace.messages);
    let mut first = trace.phases[0].messages.len();
    let mut found = Vec::new();
    for phase in &trace.phases[1..] {
        let until = first + phase.messages.len();
        let change = match since {
            Since::Sent => carried[first].0,
            // The message before was handed over by then, so the change came no sooner.
            Since::Conditions => delivered(ours, first).saturating_sub(ours.times[first - 1]),
        };
        let begun = match pace {
            Pace::Latency => first,
            _ => carried.partition_point(|(at, _)| *at < change),
        };
        let later = |messages: usize, time: Duration| match pace {
            Pace::Latency => messages,
            _ => messages.max(carried.partition_point(|(at, _)| *at < time)),
        };
        let from = later(begun + MESSAGES, change + TIME);
        let soon = later(from + MESSAGES, change + 2 * TIME).min(until);
        assert!(soon >= from + MESSAGES, "{title}: too few messages");
        let is_good = as_good(trace.oracle.clone(), from..until);
        let is_good: Vec<_> = (begun..until)
            .map(|message| is_good(message, carried[message].1))
            .collect();
        let share = |range: Range<usize>| {
            let of = &is_good[range.start - begun..range.end - begun];
            of.iter().filter(|is_good| **is_good).count() as f64 / of.len() as f64
        };
        let majority = is_good.windows(MESSAGES).position(|window| {
            let good = window.iter().filter(|is_good| **is_good);
            2 * good.count() > MESSAGES
        });
        let majority = begun + majority.unwrap_or(until - begun - 1);
        let shares = [share(from..soon), share(from..until)];
        println!(
            "| {title} | {pace:?} | {} | {} | {} | {} in {:.1} ms | {:.3} | {:.3} |",
            phase.name,
            phase.link,
            phase.background,
            majority - begun,
            carried[majority].0.saturating_sub(change).as_secs_f64() * 1e3,
            shares[0],
            shares[1]
        );
        found.push(shares);
        first = until;
    }
    found
}

/// For each phase, once the policy should have followed: the time of the arm that is best in it, over
/// the policy's. An arm within 3 % of the best one is as good, so 0.97 says that the change was followed.
fn followed(trace: &Trace<'_>) -> Vec<f64> {
    println!("| change | pace | content | Mbit/s | busy | best | best over ours | taken |");
    println!("|---|---|---|---|---|---|---|---|");
    let (title, ours, pace) = (trace.title, &trace.ours, trace.ours.pace);
    let mut first = 0;
    let mut found = Vec::new();
    for phase in trace.phases {
        let until = first + phase.messages.len();
        let mut from = (first + MESSAGES).next_multiple_of(100);
        if pace == Pace::Throughput {
            let began = delivered(ours, first);
            while delivered(ours, from) < began + TIME && from < first + phase.messages.len() / 2 {
                from += 100;
            }
        }
        let alone = trace.oracle.runs().iter();
        let (arm, best) = alone
            .map(|(arm, run)| (*arm, took(run, from, until)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .expect("some arms");
        let efficiency = best / took(ours, from, until);
        let span = |from: usize, until: usize| {
            delivered(ours, from).as_nanos()..=delivered(ours, until).as_nanos()
        };
        let within = span(from, until);
        let mut taken: Vec<(Arm, usize)> = Vec::new();
        for decision in &ours.decisions {
            if within.contains(&u128::from(decision.at.as_nanos())) {
                match taken.iter_mut().find(|(arm, _)| *arm == decision.arm) {
                    Some((_, count)) => *count += 1,
                    None => taken.push((decision.arm, 1)),
                }
            }
        }
        taken.sort_by_key(|(_, count)| core::cmp::Reverse(*count));
        taken.truncate(3);
        let taken: Vec<_> = taken.iter().map(|(arm, n)| format!("{arm} {n}")).collect();
        println!(
            "| {title} | {pace:?} | {} | {} | {} | {arm} | {efficiency:.3} | {} |",
            phase.name,
            phase.link,
            phase.background,
            taken.join(", ")
        );
        found.push(efficiency);
        first = until;
    }
    found
}

/// Messages of `content` cut to the lengths of control messages.
fn short(content: Content, count: usize, seed: u64) -> Vec<Bytes> {
    let lengths = Generator::new(Content::Telecom, 8 + seed).map(|message| message.len());
    let mut source = Generator::new(content, seed);
    let mut text = source.next().expect("endless");
    let cut = |len: usize| {
        if text.len() < len {
            text = source.next().expect("endless");
        }
        text.split_to(len)
    };
    lengths.take(count).map(cut).collect()
}

/// Bulk in messages of 1 KiB, so that each hundred is soon delivered.
fn bulk(content: Content, bytes: usize) -> Vec<Bytes> {
    let whole = messages(content, bytes);
    let parts = whole.iter().flat_map(|message| {
        let starts = (0..message.len()).step_by(1024);
        starts.map(|at| message.slice(at..message.len().min(at + 1024)))
    });
    let mut parts: Vec<_> = parts.collect();
    parts.truncate(parts.len() / 100 * 100);
    parts
}

fn telecom(count: usize, seed: u64) -> Vec<Bytes> {
    Generator::new(Content::Telecom, seed).take(count).collect()
}

fn assert_followed(title: &str, found: &[f64]) {
    for (phase, efficiency) in found.iter().enumerate().skip(1) {
        assert!(
            *efficiency > FOLLOWED,
            "{title}, phase {phase}: {efficiency:.3}"
        );
    }
}

/// In every window that is judged more than half must be right.
fn assert_majority(title: &str, found: &[[f64; 2]]) {
    for (change, shares) in found.iter().enumerate() {
        let is_majority = shares.iter().all(|share| *share > 0.5);
        assert!(is_majority, "{title}, change {change}: {shares:?}");
    }
}

fn assert_both(trace: &Trace<'_>, since: Since) {
    assert_followed(trace.title, &followed(trace));
    assert_majority(trace.title, &majorities(trace, since));
}

fn median<const N: usize>(mut found: [f64; N]) -> f64 {
    found.sort_by(f64::total_cmp);
    found[N / 2]
}

#[test]
fn a_change_of_content_is_followed_within_a_hundred_messages() {
    for seed in 1..=6 {
        let one_by_one = [
            phase("zeros", short(Content::Zeros, 1000, seed), 10.0, 0.0),
            phase("telecom", telecom(1000, seed), 10.0, 0.0),
            phase("media", short(Content::Media, 1000, seed), 10.0, 0.0),
            phase("telecom", telecom(1000, seed), 10.0, 0.0),
        ];
        assert_both(&trace("content", &one_by_one, Pace::Latency), Since::Sent);
    }
}

#[test]
fn a_change_of_content_is_followed_under_backlog_within_100_ms() {
    let phases = [
        phase("zeros", bulk(Content::Zeros, 20_000_000), 10.0, 0.0),
        phase("telecom", telecom(30_000, 4), 10.0, 0.0),
        // So long that the 25 ms by which arms differ in what is on its way when it begins do not count.
        phase("media", bulk(Content::Media, 16_000_000), 100.0, 0.0),
        phase("telecom", telecom(30_000, 4), 10.0, 0.0),
    ];
    assert_both(&trace("content", &phases, Pace::Throughput), Since::Sent);
}

#[test]
fn a_change_of_the_link_is_followed_within_a_hundred_messages_whatever_they_are() {
    for seed in 1..=8 {
        let messages = telecom(1000, seed);
        let phases = [100.0, 1.0, 1000.0].map(|link| phase("telecom", messages.clone(), link, 0.0));
        assert_both(&trace("link", &phases, Pace::Latency), Since::Conditions);
    }
}

#[test]
fn a_change_of_the_link_is_followed_under_backlog_within_100_ms() {
    let phases = [(100.0, 20_000), (1.0, 10_000), (1000.0, 250_000)];
    let phases = phases.map(|(link, count)| phase("telecom", telecom(count, 4), link, 0.0));
    let trace = trace("link", &phases, Pace::Throughput);
    let found = followed(&trace);
    assert_followed("link", &found[..2]);
    // On one processor the shadows that show what is best on the faster link take a part of it.
    assert!(found[2] > 0.88, "after the rise: {:.3}", found[2]);
    assert_majority("link", &majorities(&trace, Since::Conditions));
}

/// What is sent while all processors become busy, and idle again.
fn loads(messages: &[Bytes]) -> [Phase; 3] {
    [0.0, 4.0, 0.0].map(|busy| phase("telecom", messages.to_vec(), 100.0, busy))
}

#[test]
fn busy_processors_are_followed_within_a_hundred_messages() {
    // The median of seven: which of two near arms a trace meets is a matter of microseconds.
    let runs = [1, 2, 3, 4, 5, 6, 7].map(|seed| {
        let phases = loads(&telecom(1000, seed));
        let trace = trace("processors", &phases, Pace::Latency);
        let shares = majorities(&trace, Since::Conditions);
        assert_majority("processors", &shares);
        followed(&trace)
    });
    let followed = [0, 1, 2].map(|phase| median(runs.each_ref().map(|run| run[phase])));
    assert_followed("processors", &followed);
}

#[test]
fn busy_processors_are_followed_under_backlog_within_100_ms() {
    let runs = [1, 2, 3, 4, 5, 6, 7].map(|seed| {
        let phases = loads(&telecom(60_000, seed));
        let trace = trace("processors", &phases, Pace::Throughput);
        (followed(&trace), majorities(&trace, Since::Conditions))
    });
    // The median, as above (over 24 seeds .917 to 1.020 in the last phase).
    let followed = [0, 1, 2].map(|phase| median(runs.each_ref().map(|run| run.0[phase])));
    assert_followed("processors", &followed);
    // Here neighbours take turns (zstd:-5, -1 and 1 on busy processors, zstd:3 and 6 on idle ones), which is as fast as the best of them
    // alone or faster, and the best alone has .40 to .85 of the messages.
    let shares = [0, 1]
        .map(|change| [0, 1].map(|which| median(runs.each_ref().map(|run| run.1[change][which]))));
    assert_majority("processors", &shares);
}

#[test]
fn with_several_changes_the_policy_is_ahead_of_every_arm_alone() {
    let phases = [
        phase("telecom", telecom(20_000, 4), 100.0, 0.0),
        phase("telecom", telecom(10_000, 4), 1.0, 0.0),
        phase("media", bulk(Content::Media, 4_000_000), 100.0, 0.0),
        phase("events", messages(Content::Events, 8_000_000), 1000.0, 0.0),
        phase("zeros", bulk(Content::Zeros, 8_000_000), 10.0, 0.0),
        phase("telecom", telecom(10_000, 4), 10.0, 0.0),
    ];
    let mut experiment = experiment(&phases, Pace::Throughput);
    experiment.a.session = SessionConfig::default();
    let oracle = experiment.oracle(&arms_worth_trying(&experiment));
    let oracle = oracle.expect("runs");
    let with_history = experiment.run(PolicyConfig::default()).expect("a run");
    // The arms that it is compared with have none.
    experiment.a.session = SessionConfig::default().history_memory(0);
    let ours = experiment.run(PolicyConfig::default()).expect("a run");
    let (arm, best) = oracle.best();
    println!(
        "best arm alone {arm} {:.3?}, policy {:.3?}: {:.3}; with histories {:.3?}: {:.3}",
        best.duration,
        ours.duration,
        ours.efficiency(&oracle),
        with_history.duration,
        with_history.efficiency(&oracle)
    );
    let mut first = 0;
    for phase in &phases {
        let until = first + phase.messages.len();
        println!(
            "  {} at {} Mbit/s: {:.1} ms, ours {:.1} ms",
            phase.name,
            phase.link,
            took(best, first, until) * 1e3,
            took(&ours, first, until) * 1e3
        );
        first = until;
    }
    assert!(ours.efficiency(&oracle) > 1.0);
}
