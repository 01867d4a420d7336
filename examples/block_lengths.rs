//! Prints what the longest block that a session builds does to the time that messages take.
//!
//! ```text
//! cargo run --release --all-features --example block_lengths [-- FILE ...]
//! ```
//!
//! A file is anything that the corpus readers take; without one, the traffic is made up. Everything is in
//! virtual time: the real codecs make the lengths, their times come from the crate's table, and each pass
//! is a new connection. A cell is the time with blocks of at most so many bytes over that with 64 KiB:
//!
//! * *all*: as fast as they go; the time for all messages;
//! * *one by one*, *paced* (at half the link's rate, in plain bytes), *bursts* (64 KiB at once, so often that they come to half the
//!   link's rate): the mean time of a message.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use tautline::codecs::Arm;
use tautline::control::{PeerKnowledge, PolicyConfig, Processors};
use tautline::corpus::Corpus;
use tautline::generate::{Content, Generator};
use tautline::session::{SessionConfig, StreamConfig};
use tautline::sim::{
    CodecCosts, CpuConfig, End, Experiment, Happening, LinkConfig, NodeConfig, Pace, Traffic, World,
};
use tautline::units::BytesPerSec;

const KIB: [usize; 7] = [2, 4, 8, 16, 32, 64, 128];
/// What the others are compared with, KiB.
const USUAL: usize = 64;
const MEGABITS: [f64; 4] = [1.0, 10.0, 100.0, 1000.0];
const ARMS: [&str; 6] = [
    "lz4+history",
    "zstd:-3+history",
    "zstd:1+history",
    "zstd:3+history",
    "zstd:9+history",
    "zstd:15+history",
];
/// The crate's table is of the slowest corpus; the medians over the corpora that it was measured on are
/// about so much of it.
const TYPICAL_COST: f64 = 0.4;
/// Plain bytes that are due at once in bursts.
const BURST: usize = 64 << 10;
/// Of each corpus so much is used.
const MAX_BYTES: usize = 2 << 20;
const GENERATED: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    All,
    OneByOne,
    Paced,
    Bursts,
}

const MODES: [(Mode, &str); 4] = [
    (Mode::All, "all"),
    (Mode::OneByOne, "one by one"),
    (Mode::Paced, "paced"),
    (Mode::Bursts, "bursts"),
];

/// A pass over a corpus.
#[derive(Clone, Copy, Debug)]
struct Pass<'a> {
    messages: &'a [Bytes],
    megabits: f64,
    mode: Mode,
    block_len: usize,
    policy: PolicyConfig,
    /// The only arm that the policy chooses from, beside identity.
    only: Option<Arm>,
    known: Option<&'a PeerKnowledge>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut corpora = Vec::new();
    for file in std::env::args_os().skip(1) {
        let corpus = Corpus::read(file, None)?;
        let name = corpus.name().to_owned();
        corpora.push((name, first(corpus.into_messages(), MAX_BYTES)));
    }
    if corpora.is_empty() {
        for (name, content) in [
            ("signalling", Content::Telecom),
            ("logs", Content::Logs),
            ("events", Content::Events),
        ] {
            corpora.push((
                name.to_owned(),
                first(Generator::new(content, 1), GENERATED),
            ));
        }
    }
    for (mode, title) in MODES {
        println!("\n{title}\n");
        print!("| corpus | Mbit/s | arm |");
        for kib in KIB {
            print!(" {kib} KiB |");
        }
        println!(" decided, first | then | default policy, first | then | ms with {USUAL} KiB |");
        println!("|---|--:|---|{}", "--:|".repeat(KIB.len() + 5));
        for (name, messages) in &corpora {
            for megabits in MEGABITS {
                let pass = Pass {
                    messages,
                    megabits,
                    mode,
                    block_len: USUAL << 10,
                    policy: PolicyConfig::default(),
                    only: None,
                    known: None,
                };
                rows(name, pass)?;
            }
        }
    }
    Ok(())
}

/// The best arm with history in blocks of any length, the same where the length is decided, and the default policy.
fn rows(name: &str, pass: Pass<'_>) -> Result<(), Box<dyn Error>> {
    let mut best: Option<(Duration, &str, Arm)> = None;
    for text in ARMS {
        let arm: Arm = text.parse()?;
        let policy = PolicyConfig::Fixed(arm);
        let (time, _) = Pass { policy, ..pass }.run()?;
        if best.is_none_or(|(least, ..)| time < least) {
            best = Some((time, text, arm));
        }
    }
    let (usual, text, arm) = best.ok_or("no arms")?;
    print!("| {name} | {} | {text} |", pass.megabits);
    for kib in KIB {
        let fixed = Pass {
            policy: PolicyConfig::Fixed(arm),
            block_len: kib << 10,
            ..pass
        };
        let (time, _) = fixed.run()?;
        print!(" {:.3} |", time.as_secs_f64() / usual.as_secs_f64());
    }
    for only in [Some(arm), None] {
        let pass = Pass { only, ..pass };
        let (first, known) = pass.run()?;
        let then = Pass {
            known: Some(&known),
            ..pass
        };
        let (then, _) = then.run()?;
        for time in [first, then] {
            print!(" {:.3} |", time.as_secs_f64() / usual.as_secs_f64());
        }
    }
    println!(" {:.3} |", usual.as_secs_f64() * 1e3);
    Ok(())
}

impl Pass<'_> {
    /// What counts, and what is known in the end.
    fn run(&self) -> Result<(Duration, PeerKnowledge), Box<dyn Error>> {
        let rate = self.megabits * 125e3;
        let mut session = SessionConfig::default().block_len(self.block_len);
        if let Some(arm) = self.only {
            session = session.arms(vec![arm]);
        }
        if let Some(known) = self.known {
            session = session.knowledge(known.clone());
        }
        let node = |session| NodeConfig {
            session,
            cpu: CpuConfig {
                processors: Processors::new(2.0).unwrap_or(Processors::ONE),
                ..CpuConfig::default()
            },
        };
        let (a, b) = (node(session), node(SessionConfig::default()));
        let link = LinkConfig {
            rate: BytesPerSec::new(rate),
            ..LinkConfig::default()
        };
        let costs = CodecCosts::default().scaled(TYPICAL_COST);
        let half = BytesPerSec::new(rate / 2.0).ok_or("no rate")?;
        let pace = match self.mode {
            Mode::All => Pace::Throughput,
            Mode::OneByOne => Pace::Latency,
            Mode::Paced => Pace::Paced(half),
            Mode::Bursts => return self.bursts(World::new(a, b, link, costs)?, half),
        };
        let traffic = Traffic::new(self.messages.iter().cloned(), pace);
        let experiment = Experiment {
            a,
            b,
            link,
            costs,
            ..Experiment::new(traffic)
        };
        let outcome = experiment.run(self.policy)?;
        Ok((outcome.cost(), outcome.knowledge))
    }

    fn bursts(
        &self,
        mut world: World,
        rate: BytesPerSec,
    ) -> Result<(Duration, PeerKnowledge), Box<dyn Error>> {
        world.connect();
        let config = StreamConfig::default().policy(self.policy);
        let stream = world.open(End::A, "bursts", config)?;
        let began = world.now();
        let mut due = Vec::new();
        let mut bytes = 0;
        for message in self.messages {
            let burst = bytes / BURST * BURST;
            due.push(began + Duration::from_nanos(rate.nanos_for(burst as f64) as u64));
            bytes += message.len();
        }
        let (mut sent, mut times) = (0, Vec::new());
        while times.len() < due.len() {
            while sent < due.len() && due[sent] <= world.now() {
                if world
                    .send(End::A, stream, self.messages[sent].clone())
                    .is_err()
                {
                    break;
                }
                sent += 1;
            }
            if let Some(at) = due.get(sent).filter(|at| **at > world.now()) {
                world.set_timer(*at, 0);
            }
            match world.next(world.now() + Duration::from_secs(60)) {
                Some(Happening::Message { .. }) => {
                    times.push(world.now().saturating_since(due[times.len()]));
                }
                Some(_) => {}
                None => return Err("a message was lost".into()),
            }
        }
        let sum: Duration = times.iter().sum();
        let mean = sum / u32::try_from(times.len().max(1))?;
        Ok((mean, world.session(End::A).knowledge()))
    }
}

/// The first bytes of the messages, the last one whole.
fn first(messages: impl IntoIterator<Item = Bytes>, bytes: usize) -> Vec<Bytes> {
    let mut left = bytes;
    let take = |message: &Bytes| {
        let more = left > 0;
        left = left.saturating_sub(message.len());
        more
    };
    messages.into_iter().take_while(take).collect()
}
