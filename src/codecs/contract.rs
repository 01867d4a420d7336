//! The contract that every codec keeps at every level offered, as one suite run over all of them.

use proptest::prelude::*;

use super::{Arm, CodecId, Codecs, DecodeError, EncodeError, Encoded, info};

pub(super) const SIZES: [usize; 15] = [
    0, 1, 2, 15, 16, 17, 63, 64, 255, 256, 1000, 4096, 65_535, 65_536, 262_144,
];

/// What a byte past the end of a buffer holds, to see that nobody wrote there.
pub(super) const GUARD: u8 = 0xA5;
pub(super) const GUARD_LEN: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    Zeros,
    Text,
    Random,
    Pattern,
    Mixed,
}

pub(super) const CONTENTS: [Content; 5] = [
    Content::Zeros,
    Content::Text,
    Content::Random,
    Content::Pattern,
    Content::Mixed,
];

pub(super) fn generate(content: Content, len: usize, seed: u64) -> Vec<u8> {
    const WORDS: [&str; 12] = [
        "level=info",
        "level=warn",
        "shard",
        "replica",
        "latency_us=",
        "user",
        "GET",
        "/v1/items/",
        "status=200",
        "status=503",
        "retry",
        "connection reset",
    ];
    let mut rng = fastrand::Rng::with_seed(seed ^ len as u64);
    let mut bytes = Vec::with_capacity(len + 32);
    while bytes.len() < len {
        match content {
            Content::Zeros => bytes.resize(len, 0),
            Content::Text => {
                bytes.extend_from_slice(WORDS[rng.usize(..WORDS.len())].as_bytes());
                bytes.extend_from_slice(rng.u16(..).to_string().as_bytes());
                bytes.push(if rng.u8(..8) == 0 { b'\n' } else { b' ' });
            }
            Content::Random => bytes.extend_from_slice(&rng.u64(..).to_le_bytes()),
            Content::Pattern => bytes.extend_from_slice(b"tick=1;tock=2;"),
            Content::Mixed => {
                let part = CONTENTS[rng.usize(..4)];
                let part_len = rng.usize(1..300);
                bytes.extend(generate(part, part_len, rng.u64(..)));
            }
        }
    }
    bytes.truncate(len);
    bytes
}

/// Encodes into as much room as the plain bytes take, with a guard behind it.
fn encode(codecs: &mut Codecs, arm: Arm, plain: &[u8]) -> Option<Vec<u8>> {
    let mut wire = vec![GUARD; plain.len() + GUARD_LEN];
    let (room, guard) = wire.split_at_mut(plain.len());
    let encoded = codecs.encode(arm, plain, room).expect("encodes");
    assert!(guard.iter().all(|&byte| byte == GUARD), "{arm}");
    match encoded {
        Encoded::Written(len) => {
            assert!(len < plain.len(), "{arm}: {len} of {}", plain.len());
            wire.truncate(len);
            Some(wire)
        }
        Encoded::NotSmaller => None,
    }
}

/// Decodes into `len` bytes of `fill`, with a guard behind them.
fn decode(
    codecs: &mut Codecs,
    codec: CodecId,
    wire: &[u8],
    len: usize,
    fill: u8,
) -> Result<Vec<u8>, DecodeError> {
    let mut plain = vec![fill; len];
    plain.resize(len + GUARD_LEN, GUARD);
    let (room, guard) = plain.split_at_mut(len);
    let decoded = codecs.decode(codec, wire, room);
    assert!(guard.iter().all(|&byte| byte == GUARD), "{codec}");
    let decoded = decoded?;
    assert!(decoded <= len, "{codec}: {decoded} of {len}");
    plain.truncate(decoded);
    Ok(plain)
}

/// Changes, inserts or removes up to `most` bytes.
pub(super) fn damage(wire: &mut Vec<u8>, rng: &mut fastrand::Rng, most: usize) {
    for _ in 0..rng.usize(1..=most) {
        let at = rng.usize(..wire.len());
        match rng.u8(..4) {
            0 => wire[at] ^= 1 << rng.u8(..8),
            1 => wire[at] = rng.u8(..),
            2 => wire.insert(at, rng.u8(..)),
            _ if wire.len() > 1 => drop(wire.remove(at)),
            _ => {}
        }
    }
}

/// A text of 300 bytes that every codec but identity makes smaller.
pub(super) fn sample(seed: u64) -> Vec<u8> {
    let mut text = generate(Content::Text, 100, seed);
    text.extend_from_within(..);
    text.extend_from_within(..100);
    text
}

pub(super) fn arms(codec: CodecId) -> impl Iterator<Item = Arm> {
    info(codec).expect("in this build").arms()
}

fn check_round_trips(codec: CodecId) {
    let mut codecs = Codecs::new();
    for arm in arms(codec) {
        for content in CONTENTS {
            for len in SIZES {
                let plain = generate(content, len, 1);
                let Some(wire) = encode(&mut codecs, arm, &plain) else {
                    let shrinks = matches!(content, Content::Zeros | Content::Pattern);
                    assert!(!shrinks || len < 256, "{arm}: {len} bytes of {content:?}");
                    continue;
                };
                let back = decode(&mut codecs, codec, &wire, len, 0);
                assert!(back.as_ref() == Ok(&plain), "{arm}: {len} of {content:?}");
                let back = decode(&mut codecs, codec, &wire, len + 100, 0);
                assert!(back.as_ref() == Ok(&plain), "{arm}: {len} of {content:?}");
            }
        }
    }
}

fn check_random_is_not_smaller(codec: CodecId) {
    let mut codecs = Codecs::new();
    for arm in arms(codec) {
        for len in SIZES {
            let plain = generate(Content::Random, len, 2);
            assert_eq!(encode(&mut codecs, arm, &plain), None, "{arm}: {len}");
        }
    }
}

fn check_small_room(codec: CodecId) {
    let mut codecs = Codecs::new();
    for arm in arms(codec) {
        let plain = sample(3);
        let wire = encode(&mut codecs, arm, &plain).expect("shrinks");
        for room in [0, 1, wire.len() / 2, wire.len() - 1] {
            let mut small = vec![GUARD; room + GUARD_LEN];
            let encoded = codecs.encode(arm, &plain, &mut small[..room]);
            assert_eq!(encoded, Ok(Encoded::NotSmaller), "{arm}: {room}");
            assert!(small[room..].iter().all(|&byte| byte == GUARD), "{arm}");
        }
        // Exactly enough, and far too much.
        for room in [wire.len(), 4 * plain.len()] {
            let mut other = vec![GUARD; room];
            let encoded = codecs.encode(arm, &plain, &mut other);
            if codec == CodecId::ZSTD && encoded == Ok(Encoded::NotSmaller) {
                // It wants some bytes more than it writes.
                assert_eq!(room, wire.len(), "{arm}");
                continue;
            }
            assert_eq!(encoded, Ok(Encoded::Written(wire.len())), "{arm}: {room}");
            assert_eq!(other[..wire.len()], wire, "{arm}: {room}");
        }
    }
}

fn check_short_output(codec: CodecId) {
    let mut codecs = Codecs::new();
    for arm in arms(codec) {
        for plain in [sample(4), generate(Content::Text, 65_536, 4)] {
            let wire = encode(&mut codecs, arm, &plain).expect("shrinks");
            let max = plain.len() - 1;
            assert_eq!(
                decode(&mut codecs, codec, &wire, max, 0),
                Err(DecodeError::TooLong { max }),
                "{arm}"
            );
            for max in [0, 1, plain.len() / 2] {
                assert!(decode(&mut codecs, codec, &wire, max, 0).is_err(), "{arm}");
            }
            let mut long = vec![0; plain.len() + 1];
            assert_eq!(
                codecs.decode_exact(codec, &wire, &mut long),
                Err(DecodeError::TooShort {
                    given: plain.len(),
                    expected: plain.len() + 1
                }),
                "{arm}"
            );
        }
    }
}

fn check_truncations(codec: CodecId) {
    let mut codecs = Codecs::new();
    for arm in arms(codec) {
        for seed in 0..4 {
            let plain = sample(seed);
            let wire = encode(&mut codecs, arm, &plain).expect("shrinks");
            for len in 0..wire.len() {
                let cut = &wire[..len];
                let mut back = vec![0; plain.len()];
                let exact = codecs.decode_exact(codec, cut, &mut back);
                assert!(exact.is_err(), "{arm}: {len} of {}", wire.len());
                for room in [plain.len(), 2 * plain.len()] {
                    match decode(&mut codecs, codec, cut, room, 0) {
                        Err(_) => {}
                        // The one format that does not say where it ends.
                        Ok(back) => {
                            assert_eq!(codec, CodecId::LZ4, "{arm}: {len}");
                            assert!(back.len() < plain.len(), "{arm}: {len}");
                        }
                    }
                }
            }
        }
    }
}

fn check_trailing_bytes(codec: CodecId) {
    let mut codecs = Codecs::new();
    for arm in arms(codec) {
        let plain = sample(5);
        let wire = encode(&mut codecs, arm, &plain).expect("shrinks");
        for tail in [&[0][..], &[0xFF], &[0, 0, 1, 0, 0], &wire] {
            let long = [&wire, tail].concat();
            let mut back = vec![0; plain.len()];
            let exact = codecs.decode_exact(codec, &long, &mut back);
            assert!(exact.is_err(), "{arm}: {tail:?}");
            // Where the format has no end, more bytes are more content.
            let loose = decode(&mut codecs, codec, &long, 4 * plain.len(), 0);
            assert!(loose.is_err() || codec == CodecId::LZ4, "{arm}: {tail:?}");
        }
    }
}

fn check_corruptions(codec: CodecId) {
    let mut codecs = Codecs::new();
    let mut rng = fastrand::Rng::with_seed(6);
    let arms: Vec<_> = arms(codec).collect();
    for round in 0..2000 {
        let arm = arms[round % arms.len()];
        let len = if round % 50 == 0 { 20_000 } else { 300 };
        let plain = if len == 300 {
            sample(rng.u64(..))
        } else {
            generate(Content::Text, len, rng.u64(..))
        };
        let mut wire = encode(&mut codecs, arm, &plain).expect("shrinks");
        damage(&mut wire, &mut rng, 7);
        // `decode` asserts what must hold whatever comes out.
        let _ = decode(&mut codecs, codec, &wire, plain.len(), rng.u8(..));
        let noise = generate(Content::Random, rng.usize(1..200), rng.u64(..));
        let _ = decode(&mut codecs, codec, &noise, plain.len(), rng.u8(..));

        // Nothing of it stays behind.
        let wire = encode(&mut codecs, arm, &plain).expect("shrinks");
        let back = decode(&mut codecs, codec, &wire, plain.len(), 0);
        assert!(back.as_ref() == Ok(&plain), "{arm}: round {round}");
    }
}

fn check_dirty_output(codec: CodecId) {
    let mut codecs = Codecs::new();
    let mut rng = fastrand::Rng::with_seed(7);
    for arm in arms(codec) {
        let plain = sample(7);
        let wire = encode(&mut codecs, arm, &plain).expect("shrinks");
        for fill in [0, 1, 0xFF] {
            let back = decode(&mut codecs, codec, &wire, plain.len(), fill);
            assert_eq!(back.as_ref(), Ok(&plain), "{arm}: {fill}");
        }
        // Corrupt units that decode at all must decode to the same over any content.
        for _ in 0..200 {
            let mut broken = wire.clone();
            let at = rng.usize(..broken.len());
            broken[at] = rng.u8(..);
            let clean = decode(&mut codecs, codec, &broken, plain.len(), 0);
            let dirty = decode(&mut codecs, codec, &broken, plain.len(), 0xFF);
            assert_eq!(clean.is_ok(), dirty.is_ok(), "{arm}: {broken:?}");
            if let (Ok(clean), Ok(dirty)) = (clean, dirty) {
                assert_eq!(clean, dirty, "{arm}: {broken:?}");
            }
        }
    }
}

fn check_interleaved_levels(codec: CodecId) {
    let arms: Vec<_> = arms(codec).collect();
    let plains: Vec<_> = [300, 5_000, 70_000]
        .map(|len| generate(Content::Text, len, 8))
        .into();
    // Once each with a shelf of its own, then all mixed on one shelf: same bytes.
    let fresh = |arm, plain: &[u8]| encode(&mut Codecs::new(), arm, plain);
    let mut rng = fastrand::Rng::with_seed(8);
    let mut shared = Codecs::new();
    for round in 0..60 {
        let arm = arms[rng.usize(..arms.len())];
        let plain = &plains[rng.usize(..plains.len())];
        let wire = encode(&mut shared, arm, plain);
        assert!(wire == fresh(arm, plain), "{arm}: round {round}");
        if let Some(wire) = wire {
            let back = decode(&mut shared, codec, &wire, plain.len(), 0);
            assert!(back.as_ref() == Ok(plain), "{arm}: round {round}");
        }
    }
}

fn check_refusals(codec: CodecId) {
    let mut codecs = Codecs::new();
    let (min, max) = info(codec).expect("in this build").level_range();
    for level in [min.0 - 1, max.0 + 1, i8::MIN, i8::MAX] {
        assert_eq!(
            codecs.encode(Arm::new(codec, level), &[0; 100], &mut [0; 100]),
            Err(EncodeError::UnknownLevel {
                codec,
                given: level,
                min: min.0,
                max: max.0
            })
        );
    }
    for level in min.0..=max.0 {
        let arm = Arm::new(codec, level);
        let wire = encode(&mut codecs, arm, &sample(9)).expect("shrinks");
        let back = decode(&mut codecs, codec, &wire, 300, 0);
        assert_eq!(back, Ok(sample(9)), "{arm}");
    }
    assert!(codecs.decode(codec, &[], &mut [0; 100]).is_err());
    assert!(codecs.decode(codec, &[], &mut []).is_err());
}

fn check_property(codec: CodecId) {
    let arms: Vec<_> = arms(codec).collect();
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        (any::<u8>(), 0..400_usize).prop_map(|(byte, len)| vec![byte; len]),
        "[a-e ]{0,60}".prop_map(String::into_bytes),
    ];
    let plain = proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat());
    let config = ProptestConfig {
        cases: 128,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let shared = core::cell::RefCell::new(Codecs::new());
    let strategy = (plain, proptest::sample::select(arms));
    let result = runner.run(&strategy, |(plain, arm)| {
        let mut codecs = shared.borrow_mut();
        if let Some(wire) = encode(&mut codecs, arm, &plain) {
            let back = decode(&mut codecs, codec, &wire, plain.len(), GUARD);
            prop_assert_eq!(back, Ok(plain));
        }
        Ok(())
    });
    result.expect("round trip");
}

/// The suite for one family.
macro_rules! contract {
    ($module:ident, $feature:literal, $codec:expr) => {
        #[cfg(feature = $feature)]
        mod $module {
            use super::*;

            #[test]
            fn round_trips_all_sizes_and_contents() {
                check_round_trips($codec);
            }
            #[test]
            fn random_bytes_are_not_smaller() {
                check_random_is_not_smaller($codec);
            }
            #[test]
            fn an_encoded_form_that_does_not_fit_is_not_written() {
                check_small_room($codec);
            }
            #[test]
            fn an_output_one_byte_too_small_is_refused() {
                check_short_output($codec);
            }
            #[test]
            fn every_truncation_is_noticed() {
                check_truncations($codec);
            }
            #[test]
            fn trailing_bytes_are_noticed() {
                check_trailing_bytes($codec);
            }
            #[test]
            fn corruption_neither_panics_nor_stays() {
                check_corruptions($codec);
            }
            #[test]
            fn what_the_output_held_before_does_not_matter() {
                check_dirty_output($codec);
            }
            #[test]
            fn reused_contexts_write_what_fresh_ones_write() {
                check_interleaved_levels($codec);
            }
            #[test]
            fn levels_outside_the_range_and_empty_units_are_refused() {
                check_refusals($codec);
            }
            #[test]
            fn any_bytes_round_trip() {
                check_property($codec);
            }
        }
    };
}

contract!(lz4, "lz4", CodecId::LZ4);
contract!(snappy, "snappy", CodecId::SNAPPY);
contract!(zstd, "zstd", CodecId::ZSTD);
contract!(deflate, "deflate", CodecId::DEFLATE);
contract!(bzip2, "bzip2", CodecId::BZIP2);
contract!(xz, "xz", CodecId::XZ);
