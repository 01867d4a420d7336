//! Text that looks like what services log, from a seed.

use core::fmt::Write as _;

/// At least `len` bytes of whole lines; the same for the same seed.
pub(crate) fn log_lines(len: usize, seed: u64) -> Vec<u8> {
    const SERVICES: [&str; 6] = [
        "gateway", "billing", "search", "session", "ingest", "mailer",
    ];
    const LEVELS: [&str; 8] = [
        "INFO", "INFO", "INFO", "INFO", "INFO", "DEBUG", "WARN", "ERROR",
    ];
    const WHAT: [&str; 7] = [
        "request served",
        "cache miss, going to the store",
        "connection accepted",
        "retrying after timeout",
        "flushed batch to disk",
        "token refreshed",
        "peer closed the stream early",
    ];
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut text = String::with_capacity(len + 256);
    let mut micros = 41_000_000_000_u64;
    while text.len() < len {
        micros += rng.u64(20..90_000);
        let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "2026-03-14T{:02}:{:02}:{:02}.{rest:06}Z {} {} req={:08x} shard={} took_us={} {}",
            seconds / 3600 % 24,
            seconds / 60 % 60,
            seconds % 60,
            LEVELS[rng.usize(..LEVELS.len())],
            SERVICES[rng.usize(..SERVICES.len())],
            rng.u32(..),
            rng.u8(..32),
            rng.u32(40..30_000),
            WHAT[rng.usize(..WHAT.len())],
        );
    }
    text.into_bytes()
}
