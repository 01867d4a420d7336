//! What does one block cost? Encoding and decoding of log lines at the sizes messages have.

#![expect(
    missing_docs,
    reason = "criterion's macro writes a public function without any"
)]

use core::time::Duration;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tautline::codecs::{Arm, Codecs, Encoded, supported};

#[path = "support/log_lines.rs"]
mod log_lines;

const SIZES: [usize; 3] = [256, 1024, 16 * 1024];

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

criterion_group! {
    name = benches;
    // Gaps of 25 % are noise on a shared machine; longer runs would not tell more.
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(300));
    targets = encode, decode
}
criterion_main!(benches);
