//! Both ends of dictionaries: what one has trained or been given it offers, uses and retires, and the other takes, has, refuses or has lost,
//! over connections and sessions, while answers and pieces are lost, come twice, late or from somebody else.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use tautline::codecs::{Arm, CodecId};
use tautline::control::{BudgetRate, PolicyConfig};
use tautline::dictionary::{Acceptance, AcceptancePolicy, Dictionary, DictionaryId, TrainConfig, TrainerConfig, train};
use tautline::generate::{Content, Generator};
use tautline::session::{DictionaryMemory, SessionConfig, StreamConfig};
use tautline::units::Time;
use tautline::wire::{Control, DictionaryAnswer, DictionaryFrame, DictionaryNews, DictionaryVerdict, GroupId, RecordKind};

use crate::disorder::{Disorder, Which};
use crate::pair::{self, Pair};
use crate::script::Script;

const RETRANSMIT_MEMORY: usize = 64 << 10;
/// What streams are called; the last two are of one class.
const NAMES: [&str; 4] = ["a", "b", "c/1", "c/2"];
const CLASSES: [&str; 3] = ["a", "b", "c"];

/// Short; longer than a piece whatever packs it; one that no zstd can use; and as they are trained.
static CONTENTS: LazyLock<[Dictionary; 5]> = LazyLock::new(|| {
    let next = |state: &u32| Some(state.wrapping_mul(1_103_515_245).wrapping_add(12345));
    let noise: Vec<u8> = std::iter::successors(Some(1_u32), next).map(|state| (state >> 16) as u8).take(5000).collect();
    let broken = [&b"\x37\xa4\x30\xec"[..], &noise[..60]].concat();
    let messages: Vec<_> = Generator::new(Content::Telecom, 1).take(300).collect();
    let text = b"attach request imsi 26201987; paging request; timer 54; cause 15; accepted".to_vec();
    let trained = train(&messages, &TrainConfig::default()).expect("much in common");
    let all = [text, noise.clone(), broken, noise[1000..1400].to_vec()].map(|content| Dictionary::new(content).expect("a length between"));
    let [text, noise, broken, other] = all;
    [text, noise, broken, other, trained]
});

/// Trains of a few messages, adopts what it finds, and soon retires it.
fn trainer() -> TrainerConfig {
    let mut config = TrainerConfig::default();
    config.train.min_samples = 4;
    config.train.min_sources = 2;
    config.train.max_len = 600;
    config.sample_bytes = 4 << 10;
    config.min_messages = 6;
    config.horizon = 1 << 40;
    config.time_to_live = Duration::from_secs(20);
    config.interval = Duration::from_millis(100);
    config
}

fn policy(number: u8) -> PolicyConfig {
    let arm = match number >> 3 & 3 {
        0 => Arm::new(CodecId::LZ4, 0),
        1 => Arm::new(CodecId::ZSTD, -3),
        _ => Arm::new(CodecId::ZSTD, 3),
    };
    match number & 7 {
        0 | 1 => PolicyConfig::default(),
        2 => PolicyConfig::RoundRobin,
        3 => PolicyConfig::Fixed(arm.with_history()),
        4 => PolicyConfig::Fixed(arm),
        _ => PolicyConfig::Fixed(arm.with_dictionary()),
    }
}

/// What one side begins with: what it sends with, what it holds, and what it takes.
struct Side {
    memory: DictionaryMemory,
    takes: AcceptancePolicy,
    trains: bool,
    history: u8,
}

impl Side {
    fn read(script: &mut Script<'_>) -> Self {
        let (sends, holds, takes) = (script.byte(), script.byte(), script.byte());
        let mut memory = DictionaryMemory::default();
        for (at, dictionary) in CONTENTS.iter().enumerate() {
            if sends >> at & 1 == 1 {
                // One that has not long to live among them.
                let age = Duration::from_secs(if at == 1 { 18 } else { 0 });
                let class = CLASSES[at % CLASSES.len()];
                memory.adopt(Time::ZERO, class, dictionary.clone(), age, (trainer(), 1));
            }
            if holds >> at & 1 == 1 {
                memory.receive(dictionary.clone());
            }
        }
        let from = if takes & 0x70 == 0x70 { Acceptance::Never } else { Acceptance::Always };
        let mut policy = AcceptancePolicy::new(from);
        policy.max_held = 1 + usize::from(takes & 3);
        policy.max_len = [112 << 10, 4000, 100, 20_000][usize::from(takes >> 2 & 3)];
        Self { memory, takes: policy, trains: sends < 0xe0, history: holds >> 6 }
    }

    fn config(&self) -> SessionConfig {
        pair::config()
            .history_memory(if self.history == 0 { 0 } else { 2 << 20 })
            .heartbeat(Some(Duration::from_millis(300)))
            .dead_after(Some(Duration::from_secs(1)))
            .accept_dictionaries(self.takes)
            .train_dictionaries(self.trains.then(trainer))
            .traffic_class("c/*", "c")
            .dictionary_memory(self.memory.clone())
    }
}

/// A frame that its sender would say at another time, or of something else.
fn forged(script: &mut Script<'_>) -> Control {
    let (what, number, which) = (script.byte(), u64::from(script.byte() % 12).max(1), script.byte());
    let dictionary = &CONTENTS[usize::from(which) % CONTENTS.len()];
    let content = dictionary.content();
    let verdict = match what >> 3 & 3 {
        0 => DictionaryVerdict::Held,
        1 => DictionaryVerdict::Wanted,
        _ => DictionaryVerdict::Refused,
    };
    let what = match what & 7 {
        0..=2 => return Control::DictionaryAnswer(DictionaryAnswer { number, verdict }),
        3 | 4 => {
            let codec = CodecId::from_wire(what >> 5);
            let len = content.len() as u64;
            DictionaryNews::Offer { hash: *DictionaryId::of(content).as_bytes(), len, codec, wire_len: len.min(2000) }
        }
        5 | 6 => DictionaryNews::Piece(content[..content.len().min(2000)].to_vec()),
        _ => DictionaryNews::Retire,
    };
    Control::Dictionary(DictionaryFrame { number, what })
}

/// Much of it stands in a dictionary; all else depends on `salt`.
fn payload(script: &mut Script<'_>, salt: u8) -> Bytes {
    let (which, at, len) = (script.byte(), script.byte(), script.byte());
    let content = CONTENTS[usize::from(which) % CONTENTS.len()].content();
    let begin = usize::from(at) * 16 % content.len();
    let end = content.len().min(begin + usize::from(len) * 2);
    [&[which.wrapping_add(salt), at ^ salt], &content[begin..end], &[salt]].concat().into()
}

/// The next session of the two, with what each of them has kept of this one.
fn renew(pair: &Pair, sides: &mut [Side; 2], lost: u8) -> Option<Pair> {
    for (who, side) in sides.iter_mut().enumerate() {
        side.memory = pair.ends[who].session.dictionaries();
        let lost = lost >> (4 * who);
        let received: Vec<_> = side.memory.received().iter().map(Dictionary::id).collect();
        for (at, id) in received.iter().enumerate() {
            if lost >> (at % 3) & 1 == 1 {
                side.memory.forget(*id);
            }
        }
        if lost & 8 != 0 {
            side.memory.forget_histories();
        }
    }
    Pair::of([sides[0].config(), sides[1].config()], RETRANSMIT_MEMORY, pair.now)
}

fn check(pair: &Pair, sides: &[Side; 2]) {
    for (end, [own, other]) in pair.ends.iter().zip([[&sides[0], &sides[1]], [&sides[1], &sides[0]]]) {
        let stats = end.session.stats().dictionaries;
        assert!(stats.accepted <= stats.offered, "{stats:?}");
        if other.takes.from == Acceptance::Never || !own.trains {
            assert_eq!((stats.offered, stats.blocks_sent), (0, 0), "nobody takes any");
        }
    }
}

/// What comes of a script; `None` if all was as it should be.
pub fn exchange(script: &mut Script<'_>, salt: u8) -> Option<String> {
    let mut sides = [Side::read(script), Side::read(script)];
    let configs = [sides[0].config(), sides[1].config()];
    let mut pair = Pair::of(configs, RETRANSMIT_MEMORY, Time::ZERO)?;
    let mut passed = Duration::ZERO;
    while let Some(op) = script.next() {
        let who = usize::from(op >> 7);
        match op & 15 {
            0 => {
                let number = script.byte();
                if pair.ends[who].open.len() < 10 {
                    let config = StreamConfig::default().policy(policy(number));
                    pair.open(who, NAMES[usize::from(number >> 5) % NAMES.len()], GroupId::default(), config);
                }
            }
            1..=4 => {
                let (number, times) = (usize::from(script.byte()), 1 + (op >> 4 & 7));
                let open = &pair.ends[who].open;
                let Some(id) = open.get(number % open.len().max(1)).copied() else { continue };
                let payload = payload(script, salt);
                for time in 0..times {
                    let message = [&payload, &[time][..]].concat().into();
                    pair.send(who, id, (message, RecordKind::Message), false);
                    // Each in a block of its own.
                    if op & 15 == 1 {
                        pair.run(who, 0);
                    }
                }
            }
            5 => {
                let len = usize::from(script.byte());
                pair.run(who, len << (op >> 4 & 7));
            }
            6 | 7 => pair.settle(),
            8 | 9 => {
                let time = Duration::from_millis(u64::from(script.byte()) << (op >> 4 & 7));
                passed += time;
                pair.excused |= passed > pair::TOO_LONG / 2;
                pair.pass(time);
            }
            10 => {
                let frame = forged(script);
                pair.forge(who, &frame);
            }
            11 => {
                let what = script.byte();
                let which = [Which::Dictionaries, Which::Dictionaries, Which::Blocks, Which::Any][usize::from(op >> 4 & 3)];
                let disorder = match what >> 6 {
                    0 => Disorder::Lose,
                    1 => Disorder::Repeat,
                    2 => Disorder::Swap,
                    _ => Disorder::Replay(1 + usize::from(what >> 3 & 7)),
                };
                pair.disturb(who, usize::from(what & 7), which, disorder);
            }
            12 => {
                if op & 0x10 == 0 {
                    pair.cut();
                } else {
                    pair.cut_one(who);
                }
                pair.connect();
            }
            13 => {
                let budget = (op & 0x10 == 0).then_some(BudgetRate::ZERO);
                pair.ends[who].session.set_budget(pair.now, budget);
            }
            14 => {
                check(&pair, &sides);
                let next = renew(&pair, &mut sides, script.byte());
                let before = pair.garbled();
                if before.is_some() {
                    return before;
                }
                (pair, passed) = (next?, Duration::ZERO);
            }
            _ => match op >> 4 & 3 {
                0 | 1 => pair.ends[who].slow = op & 0x10 != 0,
                2 => pair.hand_back(who),
                _ => pair.connect(),
            },
        }
    }
    pair.subside();
    check(&pair, &sides);
    pair.garbled()
}
