//! How long blocks grow: none delays its first message by more than it saves.

use std::time::Duration;

use tautline::codecs::Arm;
use tautline::control::{PeerKnowledge, PolicyConfig, Processors};
use tautline::generate::Content;
use tautline::session::{SessionConfig, StreamConfig};
use tautline::sim::{CodecCosts, End, Experiment, Happening, NodeConfig, Pace, Traffic, World};
use tautline::units::BytesPerSec;

use crate::common::{megabits, messages};

const HISTORY: &str = "zstd:3+history";
/// Bytes of messages that are due at once.
const BURST: usize = 64 << 10;
const KIB: [usize; 5] = [4, 8, 16, 32, 64];
/// Of the crate's table of upper bounds, what codecs take here (docs/benchmarks.md, "Block lengths").
const COSTS: f64 = 0.4;

fn node(session: SessionConfig) -> NodeConfig {
    let mut node = NodeConfig {
        session,
        ..NodeConfig::default()
    };
    node.cpu.processors = Processors::new(4.0).expect("above zero");
    node
}

/// The default policy with one arm with history to choose from, which then knows what a run before it knew.
fn deciding(known: Option<&PeerKnowledge>) -> SessionConfig {
    let arm: Arm = HISTORY.parse().expect("an arm");
    let config = SessionConfig::default().arms(vec![arm]);
    match known {
        Some(known) => config.knowledge(known.clone()),
        None => config,
    }
}

fn fixed() -> PolicyConfig {
    PolicyConfig::Fixed(HISTORY.parse().expect("an arm"))
}

/// Mean time of a message in bursts, so often that their plain bytes come to half of what the link carries.
fn bursts(session: SessionConfig, policy: PolicyConfig, rate: f64) -> (Duration, PeerKnowledge) {
    let a = node(session);
    let b = node(SessionConfig::default());
    let costs = CodecCosts::default().scaled(COSTS);
    let mut world = World::new(a, b, megabits(rate), costs).expect("settings");
    world.connect();
    let config = StreamConfig::default().policy(policy);
    let stream = world.open(End::A, "bursts", config).expect("a stream");
    let pace = BytesPerSec::new(rate * 125e3 / 2.0).expect("a rate");
    let began = world.now();
    let mut times: Vec<Duration> = Vec::new();
    let messages = messages(Content::Telecom, 8 * BURST);
    let mut due = Vec::new();
    let mut bytes = 0;
    for message in &messages {
        let burst = (bytes / BURST * BURST) as f64;
        due.push(began + Duration::from_nanos(pace.nanos_for(burst) as u64));
        bytes += message.len();
    }
    let mut sent = 0;
    while times.len() < due.len() {
        while sent < due.len() && due[sent] <= world.now() {
            let message = messages[sent].clone();
            world.send(End::A, stream, message).expect("room");
            sent += 1;
        }
        if let Some(at) = due.get(sent) {
            world.set_timer(*at, 0);
        }
        let limit = world.now() + Duration::from_secs(60);
        let happening = world.next(limit).expect("more to happen");
        if let Happening::Message { at: End::B, .. } = happening {
            times.push(world.now().saturating_since(due[times.len()]));
        }
    }
    let sum: Duration = times.iter().sum();
    let mean = sum / u32::try_from(times.len()).expect("few");
    (mean, world.session(End::A).knowledge())
}

/// What counts, of all the messages at a pace.
fn run(
    session: SessionConfig,
    policy: PolicyConfig,
    (rate, bytes, pace): (f64, usize, Pace),
) -> (Duration, PeerKnowledge) {
    let experiment = Experiment {
        a: node(session),
        b: node(SessionConfig::default()),
        link: megabits(rate),
        ..Experiment::new(Traffic::new(messages(Content::Telecom, bytes), pace))
    };
    let outcome = experiment.run(policy).expect("a run");
    (outcome.cost(), outcome.knowledge)
}

/// The decision's time, in a session that knows what one before it knew, over the best with blocks of any one length, and
/// over that with the longest.
fn judge(time: impl Fn(SessionConfig, PolicyConfig) -> (Duration, PeerKnowledge)) -> (f64, f64) {
    let times = KIB.map(|kib| time(SessionConfig::default().block_len(kib << 10), fixed()).0);
    let (_, known) = time(deciding(None), PolicyConfig::default());
    let (decided, _) = time(deciding(Some(&known)), PolicyConfig::default());
    let over = |time: Duration| decided.as_secs_f64() / time.as_secs_f64();
    let best = times.into_iter().map(over).fold(0.0, f64::max);
    (best, over(times[KIB.len() - 1]))
}

#[test]
fn messages_in_bursts_arrive_as_soon_as_with_the_best_length_of_all() {
    println!("| Mbit/s | decided over the best of {KIB:?} KiB | over the longest |");
    for rate in [1.0, 10.0, 100.0] {
        let (best, longest) = judge(|session, policy| bursts(session, policy, rate));
        println!("| {rate} | {best:.3} | {longest:.3} |");
        // The first burst comes before there is a history, and is not cut.
        assert!(best < 1.08, "{rate} Mbit/s: {best:.3} of the best length's");
        assert!(
            longest < 0.8,
            "{rate} Mbit/s: {longest:.3} of the longest's"
        );
    }
}

#[test]
fn where_messages_do_not_wait_or_nothing_but_their_sum_counts_the_length_costs_nothing() {
    println!("| pace | Mbit/s | decided over the best of {KIB:?} KiB |");
    for rate in [1.0, 10.0, 100.0] {
        let half = BytesPerSec::new(rate * 125e3 / 2.0).expect("a rate");
        for (pace, bytes) in [
            (Pace::Paced(half), 200_000),
            (Pace::Latency, 200_000),
            (Pace::Throughput, 2_000_000),
        ] {
            let (best, _) = judge(|session, policy| run(session, policy, (rate, bytes, pace)));
            println!("| {pace:?} | {rate} | {best:.3} |");
            assert!(best < 1.015, "{pace:?} at {rate} Mbit/s: {best:.3}");
        }
    }
}
