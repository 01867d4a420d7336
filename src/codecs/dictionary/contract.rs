//! The contract of coding with a dictionary, run over every codec that takes one.

use super::super::contract::{
    CONTENTS, Content, GUARD, GUARD_LEN, SIZES, arms, damage, generate, sample,
};
use super::super::{Arm, CodecId, Codecs, DecodeError, EncodeError, Encoded};
use super::MAX_PREPARED;
use crate::dictionary::Dictionary;

/// Raw text like the samples'.
fn raw(seed: u64, len: usize) -> Dictionary {
    Dictionary::new(generate(Content::Text, len, seed)).expect("a length between")
}

/// Both kinds, short, and longer than an offset of 16 bits.
fn dictionaries() -> Vec<Dictionary> {
    let mut all = vec![raw(1, 3000), raw(2, 100), raw(3, 100_000), raw(4, 8)];
    if cfg!(feature = "zstd") {
        let samples: Vec<_> = (0..200).map(sample).collect();
        let config = crate::dictionary::TrainConfig::default();
        let trained = crate::dictionary::train(&samples, &config).expect("much in common");
        assert_eq!(trained.kind(), crate::dictionary::DictionaryKind::Zstd);
        all.push(trained);
    }
    all
}

fn encode(codecs: &mut Codecs, arm: Arm, dictionary: &Dictionary, plain: &[u8]) -> Option<Vec<u8>> {
    let mut wire = vec![GUARD; plain.len() + GUARD_LEN];
    let (room, guard) = wire.split_at_mut(plain.len());
    let encoded = codecs.encode_with(arm, dictionary, plain, room);
    assert!(guard.iter().all(|&byte| byte == GUARD), "{arm}");
    match encoded.expect("encodes") {
        Encoded::Written(len) => {
            assert!(len < plain.len(), "{arm}: {len} of {}", plain.len());
            wire.truncate(len);
            Some(wire)
        }
        Encoded::NotSmaller => None,
    }
}

fn decode(
    codecs: &mut Codecs,
    codec: CodecId,
    dictionary: &Dictionary,
    wire: &[u8],
    len: usize,
    fill: u8,
) -> Result<Vec<u8>, DecodeError> {
    let mut plain = vec![fill; len];
    plain.resize(len + GUARD_LEN, GUARD);
    let (room, guard) = plain.split_at_mut(len);
    let decoded = codecs.decode_with(codec, dictionary, wire, room);
    assert!(guard.iter().all(|&byte| byte == GUARD), "{codec}");
    let decoded = decoded?;
    assert!(decoded <= len, "{codec}: {decoded} of {len}");
    plain.truncate(decoded);
    Ok(plain)
}

fn check_round_trips(codec: CodecId) {
    let mut codecs = Codecs::new();
    for dictionary in dictionaries() {
        for arm in arms(codec) {
            for content in CONTENTS {
                for len in SIZES {
                    let plain = generate(content, len, 1);
                    let Some(wire) = encode(&mut codecs, arm, &dictionary, &plain) else {
                        let shrinks = matches!(content, Content::Zeros | Content::Pattern);
                        assert!(!shrinks || len < 256, "{arm}: {len} bytes of {content:?}");
                        continue;
                    };
                    for room in [len, len + 100] {
                        let back = decode(&mut codecs, codec, &dictionary, &wire, room, 0);
                        assert!(back.as_ref() == Ok(&plain), "{arm}: {len} of {content:?}");
                    }
                }
            }
        }
    }
}

fn check_gain(codec: CodecId) {
    let mut codecs = Codecs::new();
    // The end of the dictionary stands in no message, so that matches end inside it too.
    let text = generate(Content::Text, 3000, 5);
    let dictionary = Dictionary::new(text.clone()).expect("a length between");
    for arm in arms(codec) {
        let plain = &text[1000..1300];
        let wire = encode(&mut codecs, arm, &dictionary, plain).expect("shrinks");
        assert!(wire.len() < 30, "{arm}: {}", wire.len());
        // Bytes that the dictionary has and that do not shrink by themselves.
        let random = generate(Content::Random, 4000, 6);
        let dictionary = Dictionary::new(random.clone()).expect("a length between");
        let wire = encode(&mut codecs, arm, &dictionary, &random[500..900]).expect("shrinks");
        assert!(wire.len() < 40, "{arm}: {}", wire.len());
    }
}

fn check_small_room(codec: CodecId) {
    let mut codecs = Codecs::new();
    let dictionary = raw(1, 3000);
    for arm in arms(codec) {
        let plain = sample(3);
        let wire = encode(&mut codecs, arm, &dictionary, &plain).expect("shrinks");
        for room in [0, 1, wire.len() / 2, wire.len() - 1] {
            let mut small = vec![GUARD; room + GUARD_LEN];
            let encoded = codecs.encode_with(arm, &dictionary, &plain, &mut small[..room]);
            assert_eq!(encoded, Ok(Encoded::NotSmaller), "{arm}: {room}");
            assert!(small[room..].iter().all(|&byte| byte == GUARD), "{arm}");
        }
        let mut large = vec![GUARD; 4 * plain.len()];
        let encoded = codecs.encode_with(arm, &dictionary, &plain, &mut large);
        assert_eq!(encoded, Ok(Encoded::Written(wire.len())), "{arm}");
        assert_eq!(large[..wire.len()], wire, "{arm}");
    }
}

fn check_short_output(codec: CodecId) {
    let mut codecs = Codecs::new();
    let dictionary = raw(1, 3000);
    for arm in arms(codec) {
        for plain in [sample(4), generate(Content::Text, 65_536, 4)] {
            let wire = encode(&mut codecs, arm, &dictionary, &plain).expect("shrinks");
            let max = plain.len() - 1;
            assert_eq!(
                decode(&mut codecs, codec, &dictionary, &wire, max, 0),
                Err(DecodeError::TooLong { max }),
                "{arm}"
            );
            for max in [0, 1, plain.len() / 2] {
                let short = decode(&mut codecs, codec, &dictionary, &wire, max, 0);
                assert!(short.is_err(), "{arm}");
            }
            let mut long = vec![0; plain.len() + 1];
            assert_eq!(
                codecs.decode_exact_with(codec, &dictionary, &wire, &mut long),
                Err(DecodeError::TooShort {
                    given: plain.len(),
                    expected: plain.len() + 1
                }),
                "{arm}"
            );
        }
    }
}

fn check_cut_and_extended(codec: CodecId) {
    let mut codecs = Codecs::new();
    let dictionary = raw(1, 3000);
    for arm in arms(codec) {
        let plain = sample(5);
        let wire = encode(&mut codecs, arm, &dictionary, &plain).expect("shrinks");
        let mut back = vec![0; plain.len()];
        for len in 0..wire.len() {
            let exact = codecs.decode_exact_with(codec, &dictionary, &wire[..len], &mut back);
            assert!(exact.is_err(), "{arm}: {len} of {}", wire.len());
        }
        for tail in [&[0][..], &[0xFF], &[0, 0, 1, 0, 0], &wire] {
            let long = [&wire, tail].concat();
            let exact = codecs.decode_exact_with(codec, &dictionary, &long, &mut back);
            assert!(exact.is_err(), "{arm}: {tail:?}");
        }
    }
}

fn check_corruptions(codec: CodecId) {
    let mut codecs = Codecs::new();
    let mut rng = fastrand::Rng::with_seed(6);
    let (arms, dictionaries): (Vec<_>, _) = (arms(codec).collect(), dictionaries());
    for round in 0..2000 {
        let arm = arms[round % arms.len()];
        let dictionary = &dictionaries[rng.usize(..dictionaries.len())];
        let plain = sample(rng.u64(..));
        let Some(mut wire) = encode(&mut codecs, arm, dictionary, &plain) else {
            // A dictionary hardly longer than a match only disturbs the fastest levels.
            assert!(arm.level.0 < 0 && dictionary.len() < 100, "{arm}");
            continue;
        };
        damage(&mut wire, &mut rng, 7);
        // The same over any content, and with another dictionary no more than wrong bytes.
        let clean = decode(&mut codecs, codec, dictionary, &wire, plain.len(), 0);
        let dirty = decode(&mut codecs, codec, dictionary, &wire, plain.len(), 0xFF);
        assert_eq!(clean.is_ok(), dirty.is_ok(), "{arm}: {wire:?}");
        if let (Ok(clean), Ok(dirty)) = (clean, dirty) {
            assert_eq!(clean, dirty, "{arm}: {wire:?}");
        }
        let other = &dictionaries[rng.usize(..dictionaries.len())];
        let _ = decode(&mut codecs, codec, other, &wire, plain.len(), 0);

        // Nothing of it stays behind.
        let wire = encode(&mut codecs, arm, dictionary, &plain).expect("shrinks");
        let back = decode(&mut codecs, codec, dictionary, &wire, plain.len(), 0);
        assert!(back.as_ref() == Ok(&plain), "{arm}: round {round}");
    }
}

fn check_reuse(codec: CodecId) {
    let arms: Vec<_> = arms(codec).collect();
    let many: Vec<_> = (0..2 * MAX_PREPARED as u64)
        .map(|seed| raw(seed, 2000))
        .collect();
    let plains: Vec<_> = [300, 5_000, 70_000]
        .map(|len| generate(Content::Text, len, 8))
        .into();
    let mut rng = fastrand::Rng::with_seed(8);
    let mut shared = Codecs::new();
    for round in 0..100 {
        let arm = arms[rng.usize(..arms.len())];
        let dictionary = &many[rng.usize(..many.len())];
        let plain = &plains[rng.usize(..plains.len())];
        let wire = encode(&mut shared, arm, dictionary, plain);
        let fresh = encode(&mut Codecs::new(), arm, dictionary, plain);
        assert!(wire == fresh, "{arm}: round {round}");
        if let Some(wire) = wire {
            let back = decode(&mut shared, codec, dictionary, &wire, plain.len(), 0);
            assert!(back.as_ref() == Ok(plain), "{arm}: round {round}");
        }
        // What is encoded without one knows of none.
        let mut bare = vec![0; plain.len()];
        let without = shared.encode(arm, plain, &mut bare);
        let expected = Codecs::new().encode(arm, plain, &mut vec![0; plain.len()]);
        assert_eq!(without, expected, "{arm}: round {round}");
    }
    let one = arms.len().min(MAX_PREPARED);
    assert!(shared.memory() < one * (16 << 20), "{}", shared.memory());
}

#[test]
fn codecs_without_dictionaries_say_so() {
    let mut codecs = Codecs::new();
    let (codec, dictionary) = (CodecId::IDENTITY, raw(1, 100));
    assert_eq!(
        codecs.encode_with(Arm::IDENTITY, &dictionary, &[0; 9], &mut [0; 9]),
        Err(EncodeError::NoDictionary { codec })
    );
    assert_eq!(
        codecs.decode_with(codec, &dictionary, &[0; 9], &mut [0; 9]),
        Err(DecodeError::NoDictionary { codec })
    );
    assert_eq!(
        codecs.check_dictionary(codec, &dictionary),
        Err(DecodeError::NoDictionary { codec })
    );
}

#[test]
#[cfg(feature = "zstd")]
fn damaged_tables_are_noticed_and_cost_nothing_later() {
    let mut bytes = generate(Content::Random, 500, 9);
    bytes[..4].copy_from_slice(&[0x37, 0xA4, 0x30, 0xEC]);
    let damaged = Dictionary::new(bytes).expect("a length between");
    let codec = CodecId::ZSTD;
    let mut codecs = Codecs::new();
    for _ in 0..3 {
        assert!(matches!(
            codecs.check_dictionary(codec, &damaged),
            Err(DecodeError::BadDictionary { .. })
        ));
        let arm = Arm::new(codec, 3);
        assert!(matches!(
            codecs.encode_with(arm, &damaged, &[0; 100], &mut [0; 100]),
            Err(EncodeError::BadDictionary { .. })
        ));
    }
    assert_eq!(codecs.memory(), 0);
    assert_eq!(codecs.check_dictionary(codec, &raw(1, 100)), Ok(()));
}

#[test]
#[cfg(feature = "zstd")]
fn windows_keep_to_the_limit_with_a_dictionary_beside() {
    let limits = super::super::DecodeLimits { window_log: 17 };
    let mut codecs = Codecs::with_limits(limits);
    let dictionary = raw(1, 100_000);
    for len in [10_000, 60_000, 131_072, 300_000] {
        let plain = generate(Content::Text, len, 2);
        let arm = Arm::new(CodecId::ZSTD, 19);
        let wire = encode(&mut codecs, arm, &dictionary, &plain).expect("shrinks");
        let back = decode(&mut codecs, arm.codec, &dictionary, &wire, len, 0);
        assert!(back.as_ref() == Ok(&plain), "{len}");
    }
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
            fn what_the_dictionary_has_costs_next_to_nothing() {
                check_gain($codec);
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
            fn truncations_and_trailing_bytes_are_noticed() {
                check_cut_and_extended($codec);
            }
            #[test]
            fn corruption_neither_panics_nor_stays() {
                check_corruptions($codec);
            }
            #[test]
            fn reused_contexts_write_what_fresh_ones_write() {
                check_reuse($codec);
            }
        }
    };
}

contract!(lz4, "lz4", CodecId::LZ4);
contract!(zstd, "zstd", CodecId::ZSTD);
