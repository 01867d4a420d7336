//! Prints how many bytes a connection takes that carries one message at a time, or all at once, against one zstd
//! stream flushed at each message.
//!
//! ```text
//! cargo run --release --all-features --example wire_bytes [-- [--details] FILE ...]
//! ```
//!
//! A file is anything that the corpus readers take; without one, the traffic is made up. Each corpus is
//! passed once, over a fresh pair of sessions in virtual time, with a round trip of [`RTT`]: a message is
//! sent when the one before it was received and an answer would be back, or in the last rows ("all at once") as soon as the queue takes it. All bytes of the sender's
//! direction count, the peer's are shown beside them:
//!
//! * *blocks*: headers, checks and bodies of the blocks;
//! * *other*: hello, the stream's open frame, definitions of slots, probes, acknowledgements of what the peer sends;
//! * *back*: all that the peer sends, which is its hello, acknowledgements, answers to probes and windows.
//!
//! The reference is a zstd stream of level 3 with a window of 2^20 bytes, one frame over all messages,
//! each with its length in four bytes before it inside the stream (so do tokio-util's frames), flushed
//! at each message. It has no checksum, no handshake and nothing back. Beside it stands the same
//! without lengths, from which no receiver could tell messages apart.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use tautline::control::PolicyConfig;
use tautline::corpus::Corpus;
use tautline::generate::{Content, Generator};
use tautline::session::{SendError, StreamConfig};
use tautline::sim::{CodecCosts, End, Happening, LinkConfig, NodeConfig, World};
use tautline::units::{BytesPerSec, Time};
use tautline::wire::{Control, Frame, Hello, parse_frame};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

const ARMS: [&str; 7] = [
    "lz4+history",
    "zstd:-3+history",
    "zstd:1+history",
    "zstd:3+history",
    "zstd:9+history",
    "zstd:15+history",
    "zstd:19+history",
];
/// Links for the default policy, Mbit/s: what it sends depends on what a byte costs.
const MEGABITS: [f64; 3] = [1.0, 10.0, 100.0];
/// The link for fixed arms, where it only says how many probes there are.
const FIXED_MEGABITS: f64 = 10.0;
/// The crate's table is of the slowest corpus; the medians over the corpora that it was measured on are
/// about so much of it, for short blocks with history.
const TYPICAL_COST: f64 = 0.4;
const RTT: Duration = Duration::from_millis(1);
const GENERATED: usize = 6000;
/// The longest block that a session here sends or receives.
const MAX_BLOCK: usize = 256 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let mut details = false;
    let mut corpora = Vec::new();
    for argument in std::env::args_os().skip(1) {
        if argument == "--details" {
            details = true;
        } else {
            corpora.push(Corpus::read(argument, None)?);
        }
    }
    if corpora.is_empty() {
        for (name, content) in [
            ("signalling", Content::Telecom),
            ("logs", Content::Logs),
            ("csv", Content::Csv),
            ("events", Content::Events),
        ] {
            let messages = Generator::new(content, 1).take(GENERATED).collect();
            corpora.push(Corpus::new(name, messages));
        }
    }
    println!(
        "| corpus | mean | arm | blocks | other | total | back | reference | ratio | without lengths |"
    );
    println!("|---|--:|---|--:|--:|--:|--:|--:|--:|--:|");
    for corpus in corpora {
        let name = corpus.name().to_owned();
        let messages = corpus.into_messages();
        let plain: usize = messages.iter().map(Bytes::len).sum();
        let framed = reference(&messages, true)?;
        let bare = reference(&messages, false)?;
        let mut runs = Vec::new();
        for arm in ARMS {
            let policy = PolicyConfig::Fixed(arm.parse()?);
            runs.push((arm.to_owned(), policy, FIXED_MEGABITS, Pace::OneByOne));
        }
        for (pace, how) in [(Pace::OneByOne, ""), (Pace::AtOnce, ", all at once")] {
            for megabits in MEGABITS {
                let label = format!("default policy, {megabits} Mbit/s{how}");
                runs.push((label, PolicyConfig::default(), megabits, pace));
            }
        }
        for (label, policy, megabits, pace) in runs {
            let pass = pass(&messages, policy, megabits, pace)?;
            let total = pass.blocks.total() + pass.other();
            println!(
                "| {name} | {} | {label} | {} | {} | {total} | {} | {framed} | {:.3} | {:.3} |",
                plain / messages.len().max(1),
                pass.blocks.total(),
                pass.other(),
                pass.back,
                total as f64 / framed as f64,
                total as f64 / bare as f64,
            );
            if details {
                pass.print_details(messages.len());
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Pace {
    OneByOne,
    AtOnce,
}

/// Bytes of one zstd stream over all messages.
fn reference(messages: &[Bytes], with_lengths: bool) -> Result<usize, Box<dyn Error>> {
    let failed = |code| format!("zstd: {}", zstd_safe::get_error_name(code));
    let mut context = CCtx::create();
    for parameter in [CParameter::CompressionLevel(3), CParameter::WindowLog(20)] {
        context.set_parameter(parameter).map_err(failed)?;
    }
    let mut total = 0;
    let mut wire = Vec::new();
    let mut plain = Vec::new();
    for message in messages {
        plain.clear();
        if with_lengths {
            plain.extend_from_slice(&(message.len() as u32).to_be_bytes());
        }
        plain.extend_from_slice(message);
        wire.clear();
        wire.reserve(2 * plain.len() + (1 << 10));
        let mut output = OutBuffer::around(&mut wire);
        let left = context
            .compress_stream2(
                &mut output,
                &mut InBuffer::around(&plain),
                ZSTD_EndDirective::ZSTD_e_flush,
            )
            .map_err(failed)?;
        assert_eq!(left, 0, "there was room for all of it");
        total += wire.len();
    }
    Ok(total)
}

/// What went over the link.
#[derive(Default)]
struct Pass {
    blocks: Blocks,
    /// Frames and bytes by what they are.
    others: BTreeMap<&'static str, (usize, usize)>,
    back: usize,
    /// Blocks by the slot and the binary logarithm of their body's length.
    lens: BTreeMap<(u8, u32), usize>,
    switches: usize,
}

#[derive(Default)]
struct Blocks {
    count: usize,
    headers: usize,
    checks: usize,
    bodies: usize,
}

impl Blocks {
    const fn total(&self) -> usize {
        self.headers + self.checks + self.bodies
    }
}

impl Pass {
    fn other(&self) -> usize {
        self.others.values().map(|(_, bytes)| bytes).sum()
    }

    fn print_details(&self, messages: usize) {
        let Blocks {
            count,
            headers,
            checks,
            bodies,
        } = self.blocks;
        let of = |bytes: usize| bytes as f64 / messages as f64;
        println!(
            "  {count} blocks, {} times another slot; a message: headers {:.2}, checks {:.2}, bodies {:.2}",
            self.switches,
            of(headers),
            of(checks),
            of(bodies)
        );
        println!("  others (frames, bytes): {:?}", self.others);
        println!("  (slot, bits of body length): blocks {:?}", self.lens);
    }
}

fn pass(
    messages: &[Bytes],
    policy: PolicyConfig,
    megabits: f64,
    pace: Pace,
) -> Result<Pass, Box<dyn Error>> {
    let link = LinkConfig {
        rate: BytesPerSec::new(megabits * 125e3),
        delay: RTT / 2,
        ..LinkConfig::default()
    };
    let costs = CodecCosts::default().scaled(TYPICAL_COST);
    let mut world = World::new(NodeConfig::default(), NodeConfig::default(), link, costs)?;
    world.tap(End::A);
    world.tap(End::B);
    world.connect();
    let stream = world.open(End::A, "messages", StreamConfig::default().policy(policy))?;
    let (mut sent, mut arrived) = (0, 0);
    while arrived < messages.len() {
        while let Some(message) = messages.get(sent) {
            if pace == Pace::OneByOne && sent > arrived {
                break;
            }
            match world.send(End::A, stream, message.clone()) {
                Err(SendError::Full(_)) => break,
                done => done?,
            }
            sent += 1;
        }
        let limit = world.now() + Duration::from_secs(60);
        match world.next(limit) {
            Some(Happening::Message { .. }) => arrived += 1,
            Some(_) => continue,
            None => return Err("a message was lost".into()),
        }
        if pace == Pace::OneByOne {
            // An answer takes so long.
            let answered: Time = world.now() + RTT / 2;
            while world.next(answered).is_some() {}
        }
    }
    let mut pass = Pass {
        back: world.take_tapped(End::B).len(),
        ..Pass::default()
    };
    read(&world.take_tapped(End::A), &mut pass)?;
    Ok(pass)
}

/// Counts the frames of one direction.
fn read(bytes: &[u8], pass: &mut Pass) -> Result<(), Box<dyn Error>> {
    let (_, mut at) = Hello::parse(bytes)?.ok_or("no hello")?;
    pass.others.insert("hello", (1, at));
    let mut last_slot = None;
    while at < bytes.len() {
        let frame = parse_frame(&bytes[at..], MAX_BLOCK, true)?.ok_or("half a frame")?;
        match frame {
            Frame::Block { header, body_at } => {
                let check = header.check_bits() as usize / 8;
                pass.blocks.count += 1;
                pass.blocks.headers += body_at - check;
                pass.blocks.checks += check;
                pass.blocks.bodies += header.body_len;
                if let Some(slot) = header.slot {
                    pass.switches += usize::from(last_slot.replace(slot) != Some(slot));
                }
                let slot = last_slot.ok_or("a first block without a slot")?.get();
                *pass
                    .lens
                    .entry((slot, header.body_len.ilog2()))
                    .or_default() += 1;
                at += body_at + header.body_len;
            }
            Frame::Control { control, len } => {
                let entry = pass.others.entry(name(control.as_ref())).or_default();
                entry.0 += 1;
                entry.1 += len;
                at += len;
            }
        }
    }
    Ok(())
}

const fn name(control: Option<&Control>) -> &'static str {
    match control {
        Some(Control::Probe(_)) => "probe",
        Some(Control::ProbeReply(_)) => "probe reply",
        Some(Control::Ack(_)) => "ack",
        Some(Control::Open(_)) => "open",
        Some(Control::Define(_)) => "define",
        Some(Control::Window(_)) => "window",
        _ => "other",
    }
}
