//! Pieces under criterion.

use core::time::Duration;
use std::time::Instant;

use criterion::Criterion;

use crate::pieces::Named;

/// Short measurements, many of them: pieces take little and always the same.
pub(crate) fn config() -> Criterion {
    Criterion::default()
        .sample_size(50)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500))
}

/// Times each of them, in one group.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures time; a piece is a loop itself"
)]
pub(crate) fn time(c: &mut Criterion, group: &str, pieces: &[Named]) {
    let mut group = c.benchmark_group(group);
    for (name, make) in pieces {
        let mut piece = make();
        group.bench_function(*name, |bencher| {
            bencher.iter_custom(|times| {
                let begun = Instant::now();
                piece(times);
                begun.elapsed()
            });
        });
    }
    group.finish();
}
