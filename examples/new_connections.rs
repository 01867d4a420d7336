//! Prints what new connections of a few messages each take, cold, with a dictionary that both ends hold from
//! before, and with what the connections before them carried last, as Markdown tables.
//!
//! ```text
//! cargo run --release --all-features --example new_connections -- FILE.msgs ...
//! ```
//!
//! The last 2000 messages of a file are sent one by one over 100 connections of 20 each, in virtual time at
//! 10 Mbit/s; the dictionary is made of the messages before them. Bytes are all that the sender writes: hello, stream,
//! dictionary frames, block headers, checksums, probes and acknowledgements.

use core::time::Duration;
use std::error::Error;
use std::path::Path;

use bytes::Bytes;
use tautline::codecs::{Arm, CodecId, measured_arms};
use tautline::control::{PeerKnowledge, PolicyConfig};
use tautline::corpus::Corpus;
use tautline::dictionary::{
    Acceptance, AcceptancePolicy, Dictionary, TrainConfig, TrainerConfig, train,
};
use tautline::session::{DictionaryMemory, SessionConfig};
use tautline::sim::{Experiment, LinkConfig, NodeConfig, Pace, Traffic};
use tautline::units::{BytesPerSec, Time};

const CONNECTIONS: usize = 100;
const MESSAGES: usize = 20;
/// The stream that an experiment sends on.
const STREAM: &str = "experiment";

/// What both ends have from before.
#[derive(Clone, Copy)]
enum Before<'a> {
    Nothing,
    Dictionary(&'a Dictionary),
    /// The same, and what the connections before have carried last.
    Recalled(Option<&'a Dictionary>),
}

/// What 100 connections took.
#[derive(Clone, Copy, Default)]
struct Taken {
    /// Bytes that the sender wrote, and those of its hellos.
    sent: u64,
    hellos: u64,
    /// Bytes that came back.
    back: u64,
    seconds: f64,
}

impl Taken {
    fn of(self, other: Self) -> (f64, f64) {
        let without = |it: Self| (it.sent - it.hellos) as f64;
        let all = self.sent as f64 / other.sent as f64;
        (all, without(self) / without(other))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    for name in std::env::args_os().skip(1) {
        let path = Path::new(&name);
        let corpus = Corpus::read(path, None)?;
        let label = path.file_stem().unwrap_or(&name).to_string_lossy();
        let messages = corpus.messages();
        let (before, new) =
            messages.split_at(messages.len().saturating_sub(CONNECTIONS * MESSAGES));
        let dictionary = train(before, &TrainConfig::default())?;
        let large = train(before, &TrainConfig::default().with_max_len(64 << 10))?;
        table(&label, &dictionary, &large, new)?;
    }
    Ok(())
}

fn table(
    label: &str,
    dictionary: &Dictionary,
    large: &Dictionary,
    new: &[Bytes],
) -> Result<(), Box<dyn Error>> {
    let plain: usize = new.iter().map(Bytes::len).sum();
    println!(
        "\n## {label}: {plain} bytes, a dictionary of {}\n",
        dictionary.len()
    );
    let alone = |policy| run(policy, new, Before::Nothing, 0);
    let mut best: Option<(Arm, Taken)> = None;
    for arm in measured_arms() {
        let taken = alone(PolicyConfig::Fixed(arm))?;
        if best.is_none_or(|(_, known)| taken.sent < known.sent) {
            best = Some((arm, taken));
        }
    }
    let (best_arm, best) = best.ok_or("no codec")?;
    println!(
        "| | bytes | without hellos | of the best stateless | without hellos | came back | s |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    let print = |name: &str, taken: Taken| {
        let (all, without) = taken.of(best);
        println!(
            "| {name} | {} | {} | {all:.3} | {without:.3} | {} | {:.3} |",
            taken.sent,
            taken.sent - taken.hellos,
            taken.back,
            taken.seconds
        );
    };
    print("as they are", alone(PolicyConfig::None)?);
    print(&format!("best stateless: {best_arm}"), best);
    let zstd = |level| Arm::new(CodecId::ZSTD, level);
    for arm in [Arm::new(CodecId::LZ4, 0), zstd(3), zstd(19)] {
        let arm = arm.with_dictionary();
        let taken = run(
            PolicyConfig::Fixed(arm),
            new,
            Before::Dictionary(dictionary),
            0,
        )?;
        print(&format!("{arm}, warm"), taken);
    }
    let memory = 8 << 20;
    for arm in [Arm::new(CodecId::LZ4, 0), zstd(3), zstd(9), zstd(19)] {
        let policy = PolicyConfig::Fixed(arm.with_history());
        let name = arm.with_history();
        let with = |before| run(policy, new, before, memory);
        print(&format!("{name}, cold"), with(Before::Nothing)?);
        let taken = with(Before::Dictionary(dictionary))?;
        print(&format!("{name}, warm"), taken);
        let taken = with(Before::Recalled(None))?;
        print(&format!("{name}, recalled"), taken);
        let taken = with(Before::Recalled(Some(dictionary)))?;
        print(&format!("{name}, warm and recalled"), taken);
    }
    for arm in [zstd(3), zstd(19)].map(Arm::with_history) {
        let taken = run(
            PolicyConfig::Fixed(arm),
            new,
            Before::Dictionary(large),
            memory,
        )?;
        print(&format!("{arm}, warm, {} bytes", large.len()), taken);
    }
    for (name, memory) in [("history off", 0), ("history on", memory)] {
        let policy = PolicyConfig::default();
        let with = |before| run(policy, new, before, memory);
        print(&format!("chosen, {name}, cold"), with(Before::Nothing)?);
        let warm = with(Before::Dictionary(dictionary))?;
        print(&format!("chosen, {name}, warm"), warm);
        if memory > 0 {
            let recalled = with(Before::Recalled(Some(dictionary)))?;
            print(&format!("chosen, {name}, warm and recalled"), recalled);
        }
    }
    Ok(())
}

fn run(
    policy: PolicyConfig,
    new: &[Bytes],
    before: Before<'_>,
    history_memory: usize,
) -> Result<Taken, Box<dyn Error>> {
    let config = SessionConfig::default().history_memory(history_memory);
    let (dictionary, recalls) = match before {
        Before::Nothing => (None, false),
        Before::Dictionary(dictionary) => (Some(dictionary), false),
        Before::Recalled(dictionary) => (dictionary, true),
    };
    // What is measured is what there was before.
    let mut trainer = TrainerConfig::default();
    trainer.min_messages = usize::MAX;
    let config = if dictionary.is_some() || recalls {
        config
            .accept_dictionaries(AcceptancePolicy::new(Acceptance::Always))
            .recall_history(recalls)
            .train_dictionaries(Some(trainer))
    } else {
        config
    };
    // What nodes keep of dictionaries from one connection to the next.
    let mut memories = <[DictionaryMemory; 2]>::default();
    if let Some(dictionary) = dictionary {
        let settings = (trainer, 1);
        let [sent, received] = &mut memories;
        received.receive(dictionary.clone());
        sent.adopt(
            Time::ZERO,
            STREAM,
            dictionary.clone(),
            Duration::ZERO,
            settings,
        );
    }
    let mut taken = Taken::default();
    // What a node remembers of a peer from one connection to the next.
    let mut knowledge: Option<PeerKnowledge> = None;
    for messages in new.chunks(MESSAGES) {
        let session = match knowledge.take() {
            Some(knowledge) => config.clone().knowledge(knowledge),
            None => config.clone(),
        };
        let [sent, received] = memories.clone();
        let node = |session: SessionConfig, memory| NodeConfig {
            session: session.dictionary_memory(memory),
            ..NodeConfig::default()
        };
        let traffic = Traffic::new(messages.iter().cloned(), Pace::Latency);
        let experiment = Experiment {
            a: node(session, sent),
            b: node(config.clone(), received),
            link: LinkConfig {
                rate: BytesPerSec::new(1.25e6),
                ..LinkConfig::default()
            },
            ..Experiment::new(traffic)
        };
        let outcome = experiment.run(policy)?;
        let [ours, theirs] = &outcome.sessions;
        taken.sent += ours.wire_sent;
        taken.back += theirs.wire_sent;
        taken.hellos += ours.hello_sent;
        taken.seconds += outcome.duration.as_secs_f64();
        knowledge = Some(outcome.knowledge);
        if recalls {
            memories = outcome.dictionaries;
        }
    }
    Ok(taken)
}
