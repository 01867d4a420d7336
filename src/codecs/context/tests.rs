//! The contract that contexts of every codec keep at every level and window.

use super::*;
use crate::codecs::contract::damage;
use crate::codecs::{Level, info, supported};

const WINDOW_LOGS: [u8; 6] = [10, 14, 15, 16, 17, 20];

/// What a byte past the end of a buffer holds, to see that nobody wrote there.
const GUARD: u8 = 0xA5;
const GUARD_LEN: usize = 64;

fn codecs() -> impl Iterator<Item = CodecId> {
    let codecs = supported().iter().map(|info| info.id);
    codecs.filter(|codec| supports(*codec))
}

/// Least, default and greatest effort, and some between.
fn arms(codec: CodecId) -> Vec<Arm> {
    let levels: &[i8] = match codec {
        CodecId::ZSTD => &[-7, -3, 1, 3, 6, 9, 15, 19],
        CodecId::DEFLATE => &[1, 3, 6, 9],
        _ => &[0],
    };
    levels.iter().map(|&level| Arm::new(codec, level)).collect()
}

/// Messages much like each other: what contexts are for.
fn message(rng: &mut fastrand::Rng) -> Vec<u8> {
    let words = [
        "attach",
        "detach",
        "bearer setup",
        "bearer release",
        "paging",
    ];
    let mut text = Vec::new();
    for _ in 0..rng.usize(1..6) {
        text.extend(
            format!(
                "{{\"imsi\":\"26201{:010}\",\"cell\":{},\"op\":\"{}\",\"cause\":{}}}",
                rng.u32(..) % 5000,
                rng.u8(..),
                words[rng.usize(..words.len())],
                rng.u8(..4),
            )
            .into_bytes(),
        );
    }
    text
}

fn messages(rng: &mut fastrand::Rng, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        bytes.extend(message(rng));
    }
    bytes.truncate(len);
    bytes
}

/// A block of some content and length.
fn block(rng: &mut fastrand::Rng, max_len: usize) -> Vec<u8> {
    let len = match rng.u8(..8) {
        0 => rng.usize(1..20),
        1..=5 => rng.usize(1..2000),
        6 => rng.usize(1..=max_len.min(70_000)),
        _ => rng.usize(1..=max_len),
    };
    match rng.u8(..8) {
        0 => vec![rng.u8(..); len],
        1 => core::iter::repeat_with(|| rng.u8(..)).take(len).collect(),
        2 => core::iter::repeat_with(|| rng.u8(..3)).take(len).collect(),
        _ => messages(rng, len),
    }
}

struct Pair {
    encoder: EncodeContext,
    decoder: DecodeContext,
}

impl Pair {
    fn new(arm: Arm, window_log: u8, prime: &[u8]) -> Self {
        Self {
            encoder: EncodeContext::new(arm, window_log, prime).expect("begins"),
            decoder: DecodeContext::new(arm.codec, window_log, prime).expect("begins"),
        }
    }

    fn restart(&mut self, arm: Arm, prime: &[u8]) {
        self.encoder.restart(arm, prime).expect("restarts");
        self.decoder.restart(prime).expect("restarts");
    }

    fn encode(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut wire = vec![GUARD; 7];
        let len = self.encoder.encode(plain, &mut wire).expect("encodes");
        assert!(len <= EncodeContext::bound(plain.len()), "{len}");
        assert_eq!(wire.len(), 7 + len);
        assert_eq!(wire[..7], [GUARD; 7]);
        wire.split_off(7)
    }

    /// Encodes, decodes, compares; the length on the wire.
    #[track_caller]
    fn pass(&mut self, plain: &[u8]) -> usize {
        let arm = self.encoder.arm();
        let wire = self.encode(plain);
        let back = decode(&mut self.decoder, &wire, plain.len(), 0x5A);
        assert!(back.as_deref() == Ok(plain), "{arm}: {back:.60?}");
        wire.len()
    }
}

/// Decodes into `len` bytes of `fill`, with a guard behind them.
fn decode(
    decoder: &mut DecodeContext,
    wire: &[u8],
    len: usize,
    fill: u8,
) -> Result<Vec<u8>, DecodeError> {
    let mut plain = vec![fill; len];
    plain.resize(len + GUARD_LEN, GUARD);
    let (room, guard) = plain.split_at_mut(len);
    let result = decoder.decode(wire, room);
    assert!(guard.iter().all(|&byte| byte == GUARD));
    let written = result?;
    assert!(written <= len);
    plain.truncate(written);
    Ok(plain)
}

fn each(mut check: impl FnMut(Arm, u8)) {
    for arm in codecs().flat_map(arms) {
        for window_log in WINDOW_LOGS {
            check(arm, window_log);
        }
    }
}

#[test]
fn long_sequences_of_all_sizes_come_back() {
    each(|arm, window_log| {
        let mut rng = fastrand::Rng::with_seed(u64::from(window_log));
        let slow = arm.level.0 >= 9;
        let prime = messages(&mut rng, 40_000);
        let mut pair = Pair::new(arm, window_log, &prime[..rng.usize(..prime.len())]);
        for _ in 0..if slow { 40 } else { 150 } {
            let plain = block(&mut rng, if slow { 140_000 } else { 300_000 });
            pair.pass(&plain);
        }
        for len in [1, 2, 127, 128, 4096, 65_536, 131_072, 131_073] {
            let plain = messages(&mut rng, len);
            pair.pass(&plain);
        }
    });
}

#[test]
fn messages_cost_a_fraction_of_what_they_do_alone() {
    for arm in codecs().flat_map(arms) {
        let mut rng = fastrand::Rng::with_seed(2);
        let mut pair = Pair::new(arm, 16, &[]);
        let (mut plain, mut wire) = (0, 0);
        for round in 0..400 {
            let message = message(&mut rng);
            let len = pair.pass(&message);
            if round >= 100 {
                plain += message.len();
                wire += len;
            }
        }
        assert!(wire * 2 < plain, "{arm}: {wire} of {plain}");
    }
}

#[test]
fn a_prime_makes_the_first_block_smaller() {
    each(|arm, window_log| {
        let mut rng = fastrand::Rng::with_seed(3);
        for prime_len in [500, 16_384, 200_000] {
            let prime = messages(&mut rng, prime_len);
            let plain = messages(&mut rng, 600);
            let alone = Pair::new(arm, window_log, &[]).pass(&plain);
            let primed = Pair::new(arm, window_log, &prime).pass(&plain);
            assert!(primed < alone, "{arm} 2^{window_log}: {primed} of {alone}");
            let again = Pair::new(arm, window_log, &[&prime[..], &plain].concat()).pass(&plain);
            assert!(again < 200, "{arm} 2^{window_log}: {again}");
        }
    });
}

#[test]
fn a_prime_that_looks_like_a_trained_dictionary_is_content() {
    let mut rng = fastrand::Rng::with_seed(4);
    for arm in codecs().flat_map(arms) {
        for len in [4, 5, 7, 8, 9, 3000] {
            let mut prime = vec![0x37, 0xA4, 0x30, 0xEC];
            prime.extend(messages(&mut rng, 3000));
            prime.truncate(len);
            let mut pair = Pair::new(arm, 15, &prime);
            pair.pass(&prime);
            pair.restart(arm, &prime);
            pair.pass(&[&prime[..], &prime].concat());
        }
    }
}

#[test]
fn another_prime_never_does_more_than_spoil_the_bytes() {
    each(|arm, window_log| {
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..8 {
            let len = rng.usize(..50_000);
            let prime = messages(&mut rng, len);
            let mut pair = Pair::new(arm, window_log, &prime);
            let other = &prime[..rng.usize(..=prime.len())];
            pair.decoder.restart(other).expect("restarts");
            for _ in 0..10 {
                let plain = block(&mut rng, 3000);
                let wire = pair.encode(&plain);
                let _ = decode(&mut pair.decoder, &wire, plain.len(), 0);
            }
        }
    });
}

#[test]
fn an_output_one_byte_too_small_is_refused() {
    each(|arm, window_log| {
        let mut rng = fastrand::Rng::with_seed(6);
        let mut pair = Pair::new(arm, window_log, &[]);
        for len in [2, 300, 20_000, 150_000] {
            let plain = messages(&mut rng, len);
            let wire = pair.encode(&plain);
            for room in [len - 1, len / 2, 0] {
                let refused = decode(&mut pair.decoder, &wire, room, 0);
                assert!(
                    matches!(refused, Err(DecodeError::TooLong { max }) if max == room),
                    "{arm} 2^{window_log}: {refused:.60?}"
                );
                pair.decoder.restart(&[]).expect("restarts");
            }
            pair.restart(arm, &[]);
        }
    });
}

#[test]
fn an_output_one_byte_too_large_is_refused_by_who_says_the_length() {
    for arm in codecs().flat_map(arms) {
        let mut pair = Pair::new(arm, 16, &[]);
        let wire = pair.encode(b"some bytes, and some bytes more");
        let mut back = [0; 32];
        assert_eq!(
            pair.decoder.decode_exact(&wire, &mut back),
            Err(DecodeError::TooShort {
                given: 31,
                expected: 32
            }),
            "{arm}"
        );
        assert!(pair.decoder.decode_exact(&wire, &mut back[1..]).is_err());
    }
}

#[test]
fn after_an_error_nothing_is_decoded_until_a_restart() {
    for arm in codecs().flat_map(arms) {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut pair = Pair::new(arm, 15, b"prime");
        pair.pass(&messages(&mut rng, 1000));
        let plain = messages(&mut rng, 300);
        let wire = pair.encode(&plain);
        assert!(decode(&mut pair.decoder, &wire, 299, 0).is_err());
        for _ in 0..3 {
            let wire = pair.encode(&plain);
            assert!(decode(&mut pair.decoder, &wire, 300, 0).is_err(), "{arm}");
        }
        pair.restart(arm, b"prime");
        pair.pass(&plain);
    }
}

#[test]
fn lost_repeated_and_moved_blocks_never_do_more_than_spoil_the_bytes() {
    each(|arm, window_log| {
        let mut rng = fastrand::Rng::with_seed(8);
        for round in 0..12 {
            let mut pair = Pair::new(arm, window_log, &[]);
            let mut wires: Vec<_> = (0..12)
                .map(|_| {
                    let plain = block(&mut rng, 5000);
                    (pair.encode(&plain), plain.len())
                })
                .collect();
            let at = rng.usize(1..11);
            match round % 3 {
                0 => drop(wires.remove(at)),
                1 => wires.insert(at, wires[at].clone()),
                _ => wires.swap(at, at - 1),
            }
            for (wire, len) in wires {
                let _ = decode(&mut pair.decoder, &wire, len, 0);
            }
        }
    });
}

#[test]
fn every_truncation_of_a_block_is_an_error_or_other_bytes() {
    for arm in codecs().flat_map(arms) {
        let mut rng = fastrand::Rng::with_seed(9);
        let prime = messages(&mut rng, 5000);
        for content in [messages(&mut rng, 500), vec![7; 500]] {
            let mut pair = Pair::new(arm, 15, &prime);
            let wire = pair.encode(&content);
            for len in 0..wire.len() {
                pair.decoder.restart(&prime).expect("restarts");
                let mut back = vec![0; content.len()];
                if pair.decoder.decode_exact(&wire[..len], &mut back).is_ok() {
                    // deflate's last bytes hold no more than the end of the block: without them the
                    // content is there, and it is the next block that does not decode.
                    let unnoticed = arm.codec == CodecId::DEFLATE && len + 2 >= wire.len();
                    assert!(back != content || unnoticed, "{arm}: {len}");
                }
            }
        }
    }
}

#[test]
fn damage_and_noise_never_do_more_than_spoil_the_bytes() {
    for (index, arm) in codecs().flat_map(arms).enumerate() {
        let mut rng = fastrand::Rng::with_seed(index as u64);
        let window_log = WINDOW_LOGS[index % WINDOW_LOGS.len()];
        let mut pair = Pair::new(arm, window_log, &[]);
        for round in 0..if cfg!(debug_assertions) { 600 } else { 20_000 } {
            let prime = messages(&mut rng, 200);
            pair.restart(arm, &prime);
            pair.pass(&messages(&mut rng, 300));
            let plain = block(&mut rng, if round % 50 == 0 { 100_000 } else { 2000 });
            let mut wire = pair.encode(&plain);
            damage(&mut wire, &mut rng, 5);
            // `decode` asserts what must hold whatever comes out; what it leaves must too.
            if decode(&mut pair.decoder, &wire, plain.len(), rng.u8(..)).is_ok() {
                let after = pair.encode(&plain);
                let _ = decode(&mut pair.decoder, &after, plain.len(), 0);
            }
            pair.decoder.restart(&prime).expect("restarts");
            let first = [0x0D, 0x1D, 0x2D, 0x3D, rng.u8(..)][rng.usize(..5)];
            let len = rng.usize(1..200);
            let noise: Vec<u8> = core::iter::once(first)
                .chain(core::iter::repeat_with(|| rng.u8(..)))
                .take(len)
                .collect();
            let _ = decode(&mut pair.decoder, &noise, rng.usize(..3000), rng.u8(..));
        }
    }
}

#[test]
fn the_outputs_old_content_does_not_matter() {
    each(|arm, window_log| {
        let mut rng = fastrand::Rng::with_seed(11);
        let prime = messages(&mut rng, 2000);
        let mut encoder = EncodeContext::new(arm, window_log, &prime).expect("begins");
        let mut decoders = [0, 0xFF].map(|fill| {
            let decoder = DecodeContext::new(arm.codec, window_log, &prime).expect("begins");
            (decoder, fill)
        });
        for round in 0..60 {
            let plain = block(&mut rng, 3000);
            let mut wire = Vec::new();
            encoder.encode(&plain, &mut wire).expect("encodes");
            if round >= 40 {
                let at = rng.usize(..wire.len());
                wire[at] = rng.u8(..);
            }
            let backs = decoders
                .each_mut()
                .map(|(decoder, fill)| decode(decoder, &wire, plain.len(), *fill).ok());
            assert_eq!(backs[0], backs[1], "{arm}");
        }
    });
}

#[test]
fn a_restarted_context_is_as_a_new_one_and_keeps_its_memory() {
    for codec in codecs() {
        for window_log in [15, 17] {
            let arms = arms(codec);
            let mut rng = fastrand::Rng::with_seed(12);
            let mut pair = Pair::new(arms[0], window_log, &[]);
            for round in 0..40 {
                let arm = arms[rng.usize(..arms.len())];
                let len = rng.usize(..30_000);
                let prime = messages(&mut rng, len);
                pair.restart(arm, &prime);
                assert_eq!(pair.encoder.arm(), arm);
                let mut fresh = Pair::new(arm, window_log, &prime);
                for _ in 0..3 {
                    let plain = block(&mut rng, 20_000);
                    let (old, new) = (pair.encode(&plain), fresh.encode(&plain));
                    assert!(old == new, "{arm}: round {round}");
                    let back = decode(&mut pair.decoder, &old, plain.len(), 0);
                    assert!(back.as_ref() == Ok(&plain), "{arm}: round {round}");
                }
            }
            let arm = arms[0];
            let prime = messages(&mut rng, 20_000);
            let steady: Vec<_> = (0..4)
                .map(|_| {
                    pair.restart(arm, &prime);
                    pair.pass(&prime);
                    (pair.encoder.memory(), pair.decoder.memory())
                })
                .collect();
            assert!(steady.iter().all(|held| *held == steady[0]), "{steady:?}");
        }
    }
}

#[test]
fn an_encoder_can_restart_as_another_codec() {
    let all: Vec<_> = codecs().flat_map(arms).collect();
    let mut rng = fastrand::Rng::with_seed(13);
    let mut encoder = EncodeContext::new(all[0], 16, &[]).expect("begins");
    for _ in 0..100 {
        let arm = all[rng.usize(..all.len())];
        let prime = messages(&mut rng, 1000);
        encoder.restart(arm, &prime).expect("restarts");
        let decoder = DecodeContext::new(arm.codec, 16, &prime).expect("begins");
        let mut pair = Pair { encoder, decoder };
        pair.pass(&prime);
        encoder = pair.encoder;
    }
}

#[test]
fn estimates_of_memory_are_good_to_a_tenth() {
    let off = |estimate: usize, held: usize| estimate.abs_diff(held) * 10 > held;
    let bytes = messages(&mut fastrand::Rng::with_seed(14), 1 << 15);
    let mut wrong = Vec::new();
    for arm in codecs().flat_map(|codec| info(codec).expect("in this build").arms()) {
        for window_log in 10..=if cfg!(debug_assertions) { 21 } else { 24 } {
            for prime in [&[][..], &bytes] {
                let mut pair = Pair::new(arm, window_log, prime);
                // zstd's make their buffers when they see the first block.
                pair.pass(&[7; 100]);
                let (mut encode, mut decode) = memory_estimate(arm, window_log);
                if arm.codec == CodecId::ZSTD && !prime.is_empty() {
                    let len = last(prime, 1 << window_log).len();
                    encode += len;
                    decode += len + (27 << 10);
                }
                let held = (pair.encoder.memory(), pair.decoder.memory());
                if off(encode, held.0) || off(decode, held.1) {
                    wrong.push(format!(
                        "{arm} 2^{window_log} {}: {encode} {decode}, held {held:?}",
                        prime.len()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn nothing_is_a_block_of_no_bytes() {
    for arm in codecs().flat_map(arms) {
        let mut pair = Pair::new(arm, 15, b"prime");
        for plain in [&b""[..], b"a", b"", b"a"] {
            let len = pair.pass(plain);
            assert_eq!(len == 0, plain.is_empty(), "{arm}");
        }
    }
}

#[test]
fn what_does_not_exist_is_refused() {
    let unknown = |codec| Err(EncodeError::UnknownCodec { codec });
    for codec in [CodecId::IDENTITY, CodecId::SNAPPY, CodecId::from_wire(99)] {
        assert!(!supports(codec));
        let arm = Arm::new(codec, 0);
        assert!(EncodeContext::new(arm, 15, &[]).is_err());
        assert!(matches!(
            DecodeContext::new(codec, 15, &[]),
            Err(DecodeError::UnknownCodec { .. })
        ));
        assert_eq!(memory_estimate(arm, 15), (0, 0));
    }
    for codec in codecs() {
        let arm = Arm::new(codec, 100);
        assert!(EncodeContext::new(arm, 15, &[]).is_err());
        let mut context = EncodeContext::new(Arm::new(codec, 0), 15, &[]).expect("begins");
        assert_eq!(
            context.restart(Arm::IDENTITY, &[]),
            unknown(CodecId::IDENTITY)
        );
        // It goes on as before.
        assert!(context.encode(b"abc", &mut Vec::new()).is_ok());
        let default = context.arm();
        assert_eq!(default.level, default_level(codec));
        assert_ne!(default.level, Level(100));
        for (given, effective) in [(0, 10), (10, 10), (24, 24), (200, 24)] {
            let context = DecodeContext::new(codec, given, &[]).expect("begins");
            assert_eq!(context.window_log(), effective);
        }
    }
}

#[test]
fn contexts_can_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<EncodeContext>();
    is_send::<DecodeContext>();
}
