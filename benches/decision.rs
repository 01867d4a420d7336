//! What do a decision of the policy `cost` and learning from a block cost? At most 100 ns, is the target.
//!
//! `cargo bench --features sim --bench decision`. The same pieces, counted in instructions: docs/benchmarks.md, "Instruction counts".

#![expect(
    missing_docs,
    reason = "criterion's macro writes a public function without any"
)]

use criterion::{Criterion, criterion_group, criterion_main};

#[path = "support/pieces/decision.rs"]
mod decision;
#[path = "support/log_lines.rs"]
mod log_lines;
#[path = "support/pieces.rs"]
mod pieces;
#[path = "support/timed.rs"]
mod timed;

fn all(c: &mut Criterion) {
    timed::time(c, "decision", decision::PIECES);
}

criterion_group! {
    name = benches;
    config = timed::config();
    targets = all
}
criterion_main!(benches);
