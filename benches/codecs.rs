//! What does one block cost? Encoding and decoding of log lines at the sizes messages have, alone and with history.

#![expect(
    missing_docs,
    reason = "criterion's macro writes a public function without any"
)]

use core::time::Duration;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tautline::codecs::{Arm, Codecs, DecodeContext, EncodeContext, Encoded, supported};

#[path = "support/log_lines.rs"]
mod log_lines;

const SIZES: [usize; 3] = [256, 1024, 16 * 1024];

/// With history. Their text is longer than the window, so that no block is found in it as a whole.
const HISTORY_SIZES: [usize; 2] = [192, 256];
const WINDOW_LOG: u8 = 17;

/// Levels measured where a family has more than two; the example `codec_table` has them all.
const LEVELS: [i8; 6] = [-5, -1, 1, 3, 6, 9];

fn arms() -> impl Iterator<Item = Arm> {
    supported().iter().flat_map(|info| {
        let has_few = info.levels.len() < 3;
        info.arms().filter(move |arm| {
            let level = arm.level;
            has_few || level == info.default_level || LEVELS.contains(&level.0)
        })
    })
}

fn encode(c: &mut Criterion) {
    let mut codecs = Codecs::new();
    for size in SIZES {
        let text = log_lines::log_lines(16 * size, 1);
        let chunks: Vec<_> = text.chunks_exact(size).collect();
        let mut wire = vec![0; 2 * size + 64];
        let mut group = c.benchmark_group(format!("encode/{size}"));
        group.throughput(Throughput::Bytes(size as u64));
        for arm in arms().filter(|arm| *arm != Arm::IDENTITY) {
            let mut chunks = chunks.iter().cycle();
            group.bench_function(arm.to_string(), |bencher| {
                bencher.iter(|| {
                    let plain = chunks.next().map_or(&[][..], |chunk| chunk);
                    codecs.encode(arm, black_box(plain), &mut wire)
                });
            });
        }
        group.finish();
    }
}

fn decode(c: &mut Criterion) {
    let mut codecs = Codecs::new();
    for size in SIZES {
        let text = log_lines::log_lines(16 * size, 1);
        let mut plain = vec![0; size];
        let mut group = c.benchmark_group(format!("decode/{size}"));
        group.throughput(Throughput::Bytes(size as u64));
        for arm in arms() {
            let wires: Vec<_> = text
                .chunks_exact(size)
                .map(|chunk| {
                    let mut wire = vec![0; size];
                    match codecs.encode(arm, chunk, &mut wire) {
                        Ok(Encoded::Written(len)) => wire.truncate(len),
                        _ => wire.copy_from_slice(chunk),
                    }
                    wire
                })
                .collect();
            if arm != Arm::IDENTITY && wires.iter().any(|wire| wire.len() == size) {
                // What does not shrink travels plain; there is nothing to decode.
                continue;
            }
            let mut wires = wires.iter().cycle();
            group.bench_function(arm.to_string(), |bencher| {
                bencher.iter(|| {
                    let wire = wires.next().map_or(&[][..], Vec::as_slice);
                    codecs.decode(arm.codec, black_box(wire), &mut plain)
                });
            });
        }
        group.finish();
    }
}

/// One block after another with those before it as history: encoded alone, and there and back.
fn with_history(c: &mut Criterion) {
    let arms = arms().map(Arm::with_history).filter(|arm| {
        // As there are, and at levels that messages one by one are sent with.
        (-1..=3).contains(&arm.level.0) && EncodeContext::new(*arm, WINDOW_LOG, &[]).is_ok()
    });
    let arms: Vec<_> = arms.collect();
    let text = log_lines::log_lines(4 << WINDOW_LOG, 1);
    for size in HISTORY_SIZES {
        let mut group = c.benchmark_group(format!("history/{size}"));
        group.throughput(Throughput::Bytes(size as u64));
        for arm in &arms {
            for back in [false, true] {
                let mut encoder = EncodeContext::new(*arm, WINDOW_LOG, &[]).expect("as before");
                let mut decoder = DecodeContext::new(arm.codec, WINDOW_LOG, &[]).expect("memory");
                let (mut wire, mut plain) = (Vec::with_capacity(2 * size), vec![0; size]);
                let mut at = 0;
                let way = if back { "there and back" } else { "there" };
                group.bench_function(format!("{arm}/{way}"), |bencher| {
                    bencher.iter(|| {
                        let block = &text[at..at + size];
                        at = (at + size) % (text.len() - size);
                        wire.clear();
                        encoder.encode(black_box(block), &mut wire).expect("memory");
                        if back {
                            let result = decoder.decode_exact(black_box(&wire), &mut plain);
                            result.expect("what was encoded");
                        }
                        black_box((&wire, &plain));
                    });
                });
            }
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    // Gaps of 25 % are noise on a shared machine; longer runs would not tell more.
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(300));
    targets = encode, decode, with_history
}
criterion_main!(benches);
