//! What decoding a peer's bytes takes in memory, at its peak and to the byte: the codecs in C allocate with `malloc`, so that is
//! what is counted, below Rust's allocator and theirs.
//!
//! The limit of a decode is what was configured for it: the room for what it becomes ([`Limits::max_block`]), the window
//! ([`DecodeLimits`]) or history, and dictionaries. Whatever the bytes, a decode takes no more than that and a MiB.
//!
//! [`Limits::max_block`]: tautline::session::Limits::max_block
#![cfg(all(
    target_os = "linux",
    target_env = "gnu",
    feature = "lz4",
    feature = "snappy",
    feature = "zstd",
    feature = "deflate",
    feature = "bzip2",
    feature = "xz"
))]

mod malloc;
mod session;

use fastrand::Rng;
use malloc::peak;
use tautline::codecs::{
    Arm, CodecId, Codecs, DecodeContext, DecodeLimits, EncodeContext, Encoded, Level, info,
    supported, supports_context, takes_dictionary,
};
use tautline::dictionary::Dictionary;

/// What a decode may take beside its limit.
const BESIDE: usize = 1 << 20;
/// Rooms: of a message, of a block as they are by default, of the longest by default, and of a long message.
const ROOMS: [usize; 4] = [1000, 64 << 10, 256 << 10, 4 << 20];
/// As listeners accept of a peer by default.
const DICTIONARIES: usize = 4;
const DICTIONARY: usize = 112 << 10;

/// Text that repeats itself, and not too much.
fn text(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::with_seed(seed);
    let mut text = Vec::with_capacity(len + 100);
    while text.len() < len {
        let line = format!(
            "attach request imsi 26201{:010} cell {:04x}\n",
            rng.u64(..10_000_000_000),
            rng.u16(..)
        );
        text.extend_from_slice(line.as_bytes());
    }
    text.truncate(len);
    text
}

/// What is encoded by who keeps to no limit of ours.
fn unlimited() -> Codecs {
    Codecs::with_limits(DecodeLimits { window_log: 27 })
}

fn levels(codec: CodecId) -> Vec<i8> {
    let Some(info) = info(codec) else {
        return Vec::new();
    };
    let (min, max) = info.level_range();
    let mut levels = vec![min.0, info.default_level.0, max.0.min(12)];
    levels.dedup();
    levels
}

fn encoded(codec: CodecId, level: i8, plain: &[u8]) -> Option<Vec<u8>> {
    if codec == CodecId::IDENTITY {
        return Some(plain.to_vec());
    }
    let mut wire = vec![0; plain.len()];
    match unlimited().encode(Arm::new(codec, level), plain, &mut wire) {
        Ok(Encoded::Written(len)) => {
            wire.truncate(len);
            Some(wire)
        }
        _ => None,
    }
}

/// Units that are whole and well-formed: short and long ones, and such that become a thousand times as long.
fn honest(codec: CodecId) -> Vec<Vec<u8>> {
    let plains = [
        text(1, 300),
        text(2, 60_000),
        text(3, 1_500_000),
        vec![0; 100_000],
        vec![7; 16 << 20],
    ];
    let of = |plain: &Vec<u8>| {
        let levels = levels(codec).into_iter();
        levels
            .filter_map(|level| encoded(codec, level, plain))
            .collect::<Vec<_>>()
    };
    plains.iter().flat_map(of).collect()
}

/// What is said of lengths and windows and is not so.
fn declared(codec: CodecId) -> Vec<Vec<u8>> {
    let mut units = Vec::new();
    match codec {
        CodecId::ZSTD => {
            let whole = encoded(codec, 3, &text(4, 60_000)).expect("it shrinks");
            for window in 0..=u8::MAX {
                let mut of = whole.clone();
                of[1] = window;
                units.push(of);
                // An empty frame of that window; and blocks of 2 MiB of one byte.
                units.push(vec![0, window, 1, 0, 0]);
            }
            for window in [0, 80, 81, 168, 255] {
                let run = [0xfa, 0xff, 0xff, 0x55];
                units.push([&[0, window][..], &run.repeat(50), &[1, 0, 0]].concat());
            }
            // Frames that say their length, in one to eight bytes.
            for descriptor in [0x20, 0x60, 0xa0, 0xe0, 0xc0, 0x03] {
                units.push([&[descriptor][..], &[0xff; 12], &whole[2..]].concat());
            }
        }
        CodecId::BZIP2 => {
            for level in b'1'..=b'9' {
                for plain in [text(4, 5000), vec![0; 4 << 20], text(4, 1_500_000)] {
                    let mut of = encoded(codec, 9, &plain).expect("it shrinks");
                    of[3] = level;
                    units.push(of);
                }
            }
        }
        // Snappy's unit begins with its length.
        CodecId::SNAPPY => {
            for len in [
                &[0xff, 0xff, 0xff, 0xff, 0x0f][..],
                &[0x80, 0x80, 0x80, 0x08],
            ] {
                units.push([len, &[0xfe, 1, 0].repeat(1000)].concat());
            }
        }
        // A match whose length goes on and on.
        CodecId::LZ4 => {
            let mut endless = vec![0x1f, 0, 1, 0];
            endless.resize(60_004, 0xff);
            units.push(endless);
        }
        _ => {}
    }
    units
}

/// The units, cut off and with bytes changed at random.
fn damaged(units: &[Vec<u8>], seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut rng = Rng::with_seed(seed);
    let mut damaged = Vec::new();
    for unit in units.iter().filter(|unit| unit.len() < 100_000) {
        for _ in 0..count {
            let mut other = unit.clone();
            for _ in 0..rng.usize(1..6) {
                if let Some(byte) = rng.choice(other.iter_mut()) {
                    *byte = rng.u8(..);
                }
            }
            // Near its front stands what the rest depends on.
            let at = rng.usize(..other.len().min(8));
            if rng.bool() {
                other[at] = rng.u8(..);
            }
            if rng.u8(..4) == 0 {
                other.truncate(rng.usize(..other.len()));
            }
            damaged.push(other);
        }
    }
    for len in [1, 10, 1000, 60_000] {
        damaged.push(std::iter::repeat_with(|| rng.u8(..)).take(len).collect());
    }
    damaged
}

fn hostile(codec: CodecId) -> Vec<Vec<u8>> {
    let mut units = honest(codec);
    units.extend(damaged(&units, 9, 20));
    units.extend(declared(codec));
    units
}

/// The most that decoding these takes, one after another with the same codecs, into so much room; and how many it refused.
fn decode(codec: CodecId, units: &[Vec<u8>], room: usize, limits: DecodeLimits) -> (usize, usize) {
    let mut refused = 0;
    let most = peak(|| {
        let mut codecs = Codecs::with_limits(limits);
        let mut plain = vec![0xa5; room];
        for wire in units {
            refused += usize::from(codecs.decode(codec, wire, &mut plain).is_err());
        }
    });
    (most, refused)
}

#[test]
fn no_bytes_make_a_codec_take_more_than_its_limit_and_a_mebibyte() {
    for info in supported() {
        let units = hostile(info.id);
        let windows = [17, 18, 19, 21, 22].map(|log| (1 << 20, log));
        for (room, window_log) in ROOMS.map(|room| (room, 20)).into_iter().chain(windows) {
            let limits = DecodeLimits { window_log };
            let (most, refused) = decode(info.id, &units, room, limits);
            let limit = room + limits.window_bytes();
            println!(
                "{:<8} window 2^{window_log}, room {room:>7}: {most:>7} B, {:>7} beside the room; {refused} of {} refused",
                info.id,
                most - room,
                units.len()
            );
            assert!(most <= limit + BESIDE, "{}: {most} of {limit}", info.id);
            assert!(refused > 0, "{}", info.id);
        }
    }
}

/// Shows that the measure sees what codecs take, those in C too: without a limit, each of these bombs breaks the bound.
#[test]
fn without_limits_decoding_breaks_the_bound() {
    let none = DecodeLimits { window_log: 27 };
    let bound = (256 << 10) + DecodeLimits::default().window_bytes() + BESIDE;
    for info in supported() {
        let units = honest(info.id);
        let (most, refused) = decode(info.id, &units, 16 << 20, none);
        assert!(
            refused == 0 && most > bound,
            "{}: {most}, {refused}",
            info.id
        );
        // Dictionary and block are C's and bzip2's own: beside the room.
        let own = most - (16 << 20);
        match info.id {
            CodecId::XZ => assert!(own > 16 << 20, "{own}"),
            CodecId::BZIP2 => assert!(own > 3_600_000, "{own}"),
            CodecId::ZSTD => assert!(own > 90_000, "{own}"),
            _ => {}
        }
    }
    // A window that is taken at its word.
    let history = |window_log| {
        peak(|| {
            let context = DecodeContext::new(CodecId::ZSTD, window_log, b"");
            let mut plain = vec![0; 1000];
            let wire =
                EncodeContext::new(Arm::new(CodecId::ZSTD, 1), 10, b"").and_then(|mut it| {
                    let mut wire = Vec::new();
                    it.encode(&[7; 1000], &mut wire).map(|_| wire)
                });
            let wire = wire.expect("it encodes");
            let decoded = context.and_then(|mut it| it.decode_exact(&wire, &mut plain));
            decoded.expect("it decodes");
        })
    };
    let (short, long) = (history(16), history(24));
    assert!(long > short + (15 << 20), "{short} and {long}");
}

#[test]
fn no_bytes_make_a_history_take_more_than_its_limit_and_a_mebibyte() {
    let past = text(5, 32 << 10);
    for info in supported().iter().filter(|info| supports_context(info.id)) {
        // Blocks as they follow each other, and whatever bodies may be.
        let mut blocks = Vec::new();
        for prime in [&b""[..], &past] {
            for window_log in [10, 17, 24] {
                let arm = Arm {
                    level: Level(0),
                    ..Arm::new(info.id, 0)
                };
                let mut context = EncodeContext::new(arm, window_log, prime).expect("a context");
                for plain in [text(6, 5000), vec![0; 4 << 20], text(7, 200_000)] {
                    let mut wire = Vec::new();
                    context.encode(&plain, &mut wire).expect("it encodes");
                    blocks.push(wire);
                }
            }
        }
        blocks.extend(damaged(&blocks.clone(), 10, 20));
        blocks.extend(hostile(info.id));
        for room in ROOMS {
            for (window_log, prime) in [(10, &b""[..]), (15, &past), (19, &past), (22, &b""[..])] {
                let mut refused = 0;
                let most = peak(|| {
                    let mut plain = vec![0xa5; room];
                    let mut context =
                        DecodeContext::new(info.id, window_log, prime).expect("a context");
                    for wire in &blocks {
                        if context.decode(wire, &mut plain).is_err() {
                            refused += 1;
                            context.restart(prime).expect("memory");
                        }
                    }
                });
                let limit = room + (1 << window_log) + prime.len();
                println!(
                    "{:<8} history 2^{window_log}, room {room:>7}: {most:>7} B, {refused} of {} refused",
                    info.id,
                    blocks.len()
                );
                assert!(most <= limit + BESIDE, "{}: {most} of {limit}", info.id);
                assert!(refused > 0);
            }
        }
    }
}

#[test]
fn no_bytes_make_a_dictionary_take_more_than_its_limit_and_a_mebibyte() {
    // Plain content; of zstd's own form, with tables that are none; and zeros.
    let formed = |seed| {
        [
            &[0x37, 0xa4, 0x30, 0xec, 1, 0, 0, 0][..],
            &text(seed, 60_000),
        ]
        .concat()
    };
    let mut contents = vec![
        text(20, DICTIONARY),
        vec![0; DICTIONARY],
        text(21, DICTIONARY),
    ];
    contents.push(text(22, 9000));
    contents.push(formed(23));
    let mut rng = Rng::with_seed(24);
    let mut noise = formed(25);
    noise[8..].fill_with(|| rng.u8(..));
    contents.push(noise);
    let dictionaries: Vec<_> = contents
        .into_iter()
        .map(|content| Dictionary::with_limit(content, DICTIONARY).expect("not too long"))
        .collect();
    for info in supported().iter().filter(|info| takes_dictionary(info.id)) {
        let mut units = Vec::new();
        for dictionary in &dictionaries {
            for plain in [text(20, 5000), text(20, 60_000), vec![0; 4 << 20]] {
                let mut wire = vec![0; plain.len()];
                let arm = Arm::new(info.id, 0);
                let done = unlimited().encode_with(arm, dictionary, &plain, &mut wire);
                if let Ok(Encoded::Written(len)) = done {
                    wire.truncate(len);
                    units.push(wire);
                }
            }
        }
        assert!(units.len() > 9, "{}: {}", info.id, units.len());
        units.extend(damaged(&units.clone(), 11, 20));
        units.extend(hostile(info.id));
        for room in ROOMS {
            for held in dictionaries.chunks(DICTIONARIES) {
                let mut refused = 0;
                let limits = DecodeLimits::default();
                let most = peak(|| {
                    let mut codecs = Codecs::with_limits(limits);
                    let mut plain = vec![0xa5; room];
                    for (at, wire) in units.iter().enumerate() {
                        let dictionary = &held[at % held.len()];
                        let decoded = codecs.decode_with(info.id, dictionary, wire, &mut plain);
                        refused += usize::from(decoded.is_err());
                    }
                });
                let limit = room + limits.window_bytes() + DICTIONARIES * DICTIONARY;
                println!(
                    "{:<8} {} dictionaries, room {room:>7}: {most:>7} B, {refused} of {} refused",
                    info.id,
                    held.len(),
                    units.len()
                );
                assert!(most <= limit + BESIDE, "{}: {most} of {limit}", info.id);
                assert!(refused > 0);
            }
        }
    }
}
