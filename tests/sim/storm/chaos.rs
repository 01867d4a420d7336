//! What the early mix of faults does not have: connections that end for each side at its own time, clocks that are wrong, longer damage,
//! dictionaries that come and go.

use core::time::Duration;
use std::sync::LazyLock;

use fastrand::Rng;
use tautline::codecs::{Arm, CodecId};
use tautline::control::PolicyConfig;
use tautline::dictionary::{
    Acceptance, AcceptancePolicy, Dictionary, TrainConfig, TrainerConfig, train,
};
use tautline::generate::{Content, Generator};
use tautline::session::{DictionaryMemory, SessionConfig};
use tautline::sim::{End, Fault};
use tautline::units::Time;

use super::Storm;

/// What sessions did with dictionaries, over all seeds; sessions that crashed count too.
#[derive(Debug, Default)]
pub(super) struct Dictionaries {
    trained: u64,
    received: u64,
    warm: u64,
    recalled: u64,
    retired: u64,
    refused: u64,
    pub(super) blocks_sent: u64,
}

impl Dictionaries {
    pub(super) fn add(&mut self, other: &Self) {
        self.trained += other.trained;
        self.received += other.received;
        self.warm += other.warm;
        self.recalled += other.recalled;
        self.retired += other.retired;
        self.refused += other.refused;
        self.blocks_sent += other.blocks_sent;
    }
}

/// Policies that use dictionaries, where there are any.
pub(super) fn policies() -> impl Iterator<Item = PolicyConfig> {
    let arms = [
        Arm::new(CodecId::LZ4, 0),
        Arm::new(CodecId::ZSTD, -3),
        Arm::new(CodecId::ZSTD, 3),
    ];
    let arms = arms.into_iter().flat_map(|arm| [arm.with_dictionary(); 3]);
    arms.map(PolicyConfig::Fixed)
}

/// Dictionaries that ends may know before they begin. The first two fit the traffic at first.
static KNOWN: LazyLock<Vec<Dictionary>> = LazyLock::new(|| {
    let parts = [
        (Content::Telecom, 1),
        (Content::Telecom, 2),
        (Content::Logs, 3),
    ];
    let samples = parts.map(|(content, seed)| Generator::new(content, seed).take(300));
    let mut config = TrainConfig::default();
    config.max_len = 4096;
    let dictionaries = samples.map(|it| train(&it.collect::<Vec<_>>(), &config));
    dictionaries.map(|it| it.expect("enough in common")).into()
});

/// Dictionaries are soon made and soon given up.
fn trainer(chaos: &mut Rng) -> TrainerConfig {
    let mut trainer = TrainerConfig::default();
    trainer.train.max_len = 1 << chaos.u32(10..14);
    trainer.sample_bytes = 1 << chaos.u32(15..17);
    trainer.min_messages = chaos.usize(25..40);
    trainer.margin = 0.0;
    trainer.horizon = 1 << 20;
    trainer.max_live = chaos.usize(1..3);
    trainer.time_to_live = Duration::from_millis(chaos.u64(1000..100_000));
    trainer.interval = Duration::from_millis(chaos.u64(10..500));
    trainer
}

/// In seven sessions of eight dictionaries are taken.
pub(super) fn with_dictionaries(session: SessionConfig, chaos: &mut Rng) -> SessionConfig {
    let mut takes = AcceptancePolicy::new(Acceptance::Always);
    takes.max_held = chaos.usize(1..5);
    match chaos.u8(..8) {
        0 => takes.from = Acceptance::Never,
        // Some are refused.
        1 => takes.max_len = 2048,
        _ => {}
    }
    let session = session
        .accept_dictionaries(takes)
        .train_dictionaries(Some(trainer(chaos)))
        .recall_history(chaos.bool())
        .traffic_class("a*", "all");
    let memory = memory(chaos, Time::ZERO);
    session.dictionary_memory(memory)
}

/// What an end may know when a session begins: dictionaries for what it sends, and some that it got.
pub(super) fn memory(chaos: &mut Rng, now: Time) -> DictionaryMemory {
    let mut memory = DictionaryMemory::default();
    for known in KNOWN.iter() {
        if chaos.bool() {
            let settings = (trainer(chaos), chaos.u64(..));
            memory.adopt(now, "all", known.clone(), Duration::ZERO, settings);
        }
        if chaos.bool() {
            memory.receive(known.clone());
        }
    }
    memory
}

impl Storm {
    pub(super) fn stream_name(&mut self) -> &'static str {
        let names = ["a stream", "a call", "notes"];
        let chaos = self.chaos.as_mut();
        chaos.map_or(names[0], |chaos| names[chaos.usize(..3)])
    }

    /// Something now and then that the early mix does not have.
    pub(super) fn disturb(&mut self) {
        let Some(chaos) = &mut self.chaos else {
            return;
        };
        if chaos.u16(..400) == 0 {
            self.crash();
        } else if chaos.u8(..12) == 0 {
            self.fail_otherwise();
        }
    }

    fn fail_otherwise(&mut self) {
        let Some(chaos) = &mut self.chaos else {
            return;
        };
        let mut millis = |most: u64| Duration::from_micros(chaos.u64(..most * 1000));
        let (short, long) = (millis(1000), millis(5000));
        let (first, mut pattern) = (chaos.u64(..), chaos.u64(..).to_le_bytes());
        pattern[0] |= 1;
        let at = if chaos.bool() { End::A } else { End::B };
        let (name, fault) = match chaos.u8(..20) {
            0..=3 => (
                "part at a",
                Fault::Part {
                    at: End::A,
                    lag: short,
                },
            ),
            4..=6 => (
                "part at b",
                Fault::Part {
                    at: End::B,
                    lag: short,
                },
            ),
            // B does not hear of it but by the next connection, or A by itself.
            7 => {
                let lag = Duration::from_secs(60);
                ("half-open", Fault::Part { at, lag })
            }
            8 => ("clock forward", Fault::ClockForward { at, by: 4 * long }),
            9 | 10 => ("clock back", Fault::ClockBack { at, by: long }),
            11 => ("clock stop", Fault::ClockStop { at, time: long }),
            12 | 13 => {
                let from = at;
                let fault = Fault::Garble {
                    from,
                    first,
                    pattern,
                };
                ("garble", fault)
            }
            14..=16 => {
                let (from, left) = (at, first);
                ("truncate", Fault::Truncate { from, left })
            }
            17 => {
                // A few bytes at a time.
                let mut link = Self::link(chaos);
                link.buffer = chaos.usize(1..16);
                self.world.set_link(link);
                *self.tally.faults.entry("trickle").or_default() += 1;
                return;
            }
            _ => {
                let kinds = [
                    Content::Telecom,
                    Content::Logs,
                    Content::Events,
                    Content::Metrics,
                ];
                let content = kinds[chaos.usize(..4)];
                self.traffic = Generator::new(content, chaos.u64(..4));
                *self.tally.faults.entry("other traffic").or_default() += 1;
                return;
            }
        };
        self.inject(name, fault);
    }

    /// Of the session that there is, before it is forgotten.
    pub(super) fn count_dictionaries(&mut self) {
        for end in [End::A, End::B] {
            let stats = self.world.session(end).stats().dictionaries;
            self.tally.dictionaries.add(&Dictionaries {
                trained: stats.trained,
                received: stats.received,
                warm: stats.warm,
                recalled: stats.recalled,
                retired: stats.retired,
                refused: stats.refused,
                blocks_sent: stats.blocks_sent,
            });
        }
    }
}
