//! What does a header or a control frame cost, to bytes and back? At most 20 ns a header, is the target.
//!
//! `cargo bench --bench frames`. The same pieces, counted in instructions: docs/benchmarks.md, "Instruction counts".

#![expect(
    missing_docs,
    reason = "criterion's macro writes a public function without any"
)]

use criterion::{Criterion, criterion_group, criterion_main};

#[path = "support/pieces/frames.rs"]
mod frames;
#[path = "support/pieces.rs"]
mod pieces;
#[path = "support/timed.rs"]
mod timed;

fn all(c: &mut Criterion) {
    timed::time(c, "frames", frames::PIECES);
}

criterion_group! {
    name = benches;
    config = timed::config();
    targets = all
}
criterion_main!(benches);
