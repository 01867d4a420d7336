//! Decisions of the policy `cost`, and what it learns from a block.

use core::time::Duration;
use std::hint::black_box;

use tautline::codecs::{Arm, CodecId, measured_arms};
use tautline::control::PolicyConfig;
use tautline::sim::Decider;
use tautline::units::{BytesPerSec, Time};

use crate::log_lines::log_lines;
use crate::pieces::{Named, Piece, over};

/// Between two blocks, ns.
const BETWEEN: u64 = 100_000;

pub(crate) const PIECES: &[Named] = &[
    // As it goes: most choices of small blocks stand for some blocks more.
    ("decision/nothing to gain", || {
        decision(&noise(1000), LOOPBACK)
    }),
    ("decision/small", || {
        decision(&log_lines(1000, 1)[..1000], TEN_MBIT)
    }),
    // Each of these looks at all arms.
    ("decision/large", || {
        decision(&log_lines(60_000, 1)[..60_000], TEN_MBIT)
    }),
    ("decision/learn", learn),
];

const LOOPBACK: f64 = 2e9;
const TEN_MBIT: f64 = 1.25e6;

fn noise(len: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(1);
    std::iter::repeat_with(|| rng.u8(..)).take(len).collect()
}

/// Those of a session by default, but for dictionaries: each measured one, and histories.
fn arms() -> Vec<Arm> {
    let zstd = [-5, -3, -1, 1, 3, 6, 9, 15, 19].map(|level| Arm::new(CodecId::ZSTD, level));
    let history = [Arm::new(CodecId::LZ4, 0)].into_iter().chain(zstd);
    measured_arms()
        .chain(history.map(Arm::with_history))
        .collect()
}

fn decider(rate: f64) -> Decider {
    let rate = BytesPerSec::new(rate).expect("a rate");
    let rtt = Duration::from_micros(200);
    Decider::new(PolicyConfig::default(), &arms(), rate, rtt)
}

/// What a block becomes, and how long that takes: made up, so that only the decision is paid for.
fn encoded(arm: Arm, len: usize) -> (usize, Duration) {
    let (ratio, nanos) = match arm.codec {
        CodecId::IDENTITY => (1, 0),
        CodecId::LZ4 => (2, len / 2),
        _ => (3, 4 * len),
    };
    (len / ratio, Duration::from_nanos(nanos as u64))
}

/// Decides on a block and learns from it.
fn decision(payload: &[u8], rate: f64) -> Piece {
    let payload = payload.to_vec();
    let mut decider = decider(rate);
    let mut now = 0;
    over(move || {
        now += BETWEEN;
        let at = Time::from_nanos(now);
        let arm = decider.decide(at, black_box(&payload));
        let (wire_len, encode) = encoded(arm, payload.len());
        decider.record(at, arm, wire_len, encode);
    })
}

/// Of that, what is learned from a block.
fn learn() -> Piece {
    let payload = &log_lines(1000, 1)[..1000];
    let mut decider = decider(TEN_MBIT);
    let arm = Arm::new(CodecId::ZSTD, 3);
    decider.decide(Time::ZERO, payload);
    let (wire_len, encode) = encoded(arm, payload.len());
    let mut now = 0;
    over(move || {
        now += BETWEEN;
        decider.record(Time::from_nanos(now), arm, black_box(wire_len), encode);
    })
}
