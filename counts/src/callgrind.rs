//! Pieces under valgrind's callgrind: this program runs itself there, a process for each piece.

use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use crate::pieces::Piece;

/// The function that is counted, with all that it calls: by this name callgrind finds it.
pub(crate) const WINDOW: &str = "counted_window";

/// How often a piece is done, once to warm up and once to be counted: a multiple of the 64 messages of a block, and of the 8 and 64 blocks that a choice may stand.
const TIMES: u64 = 2048;

/// Instructions of each piece, each time it is done.
pub(crate) struct Counted {
    pub(crate) counts: BTreeMap<String, f64>,
    /// What the processor is to programs under valgrind.
    pub(crate) processor: String,
}

/// What valgrind says of itself; `None` if it is not there.
pub(crate) fn version() -> Option<String> {
    let output = Command::new("valgrind").arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Runs a piece so many times, and then again in the window.
pub(crate) fn run(piece: &mut Piece, times: u64) {
    piece(times);
    counted_window(piece, times);
}

#[inline(never)]
fn counted_window(piece: &mut Piece, times: u64) {
    piece(black_box(times));
}

/// Counts all of them, as many at once as there are processors.
pub(crate) fn count(pieces: &[&str]) -> Result<Counted, Box<dyn Error>> {
    let waiting = Mutex::new(pieces.iter());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let next = || waiting.lock().ok()?.next().copied();
    let results: Vec<_> = thread::scope(|scope| {
        let count_some = || {
            std::iter::from_fn(next)
                .map(|piece| (piece, count_one(piece).map_err(|error| error.to_string())))
                .collect::<Vec<_>>()
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(count_some)).collect();
        running
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect()
    });
    let mut counted = Counted {
        counts: BTreeMap::new(),
        processor: String::new(),
    };
    for results in results {
        for (piece, result) in results.map_err(|_| "a thread has panicked")? {
            let (count, processor) = result.map_err(|error| format!("{piece}: {error}"))?;
            counted.counts.insert(piece.to_owned(), count);
            counted.processor = processor;
        }
    }
    Ok(counted)
}

#[expect(
    clippy::disallowed_methods,
    reason = "what valgrind is found by; nothing else of the environment is passed on"
)]
fn count_one(piece: &str) -> Result<(f64, String), Box<dyn Error>> {
    let out = std::env::temp_dir().join(format!(
        "tautline-counts-{}-{}",
        std::process::id(),
        piece.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-")
    ));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--toggle-collect=*{WINDOW}*"))
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe()?)
        .args(["run", piece, &TIMES.to_string()])
        // The environment lies on the stack, whose place and length are then always the same.
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .output()?;
    let read = read_total(&out);
    // Whatever came of it, nothing is left behind.
    let _ = std::fs::remove_file(&out);
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{}: {said}", output.status).into());
    }
    let processor = String::from_utf8(output.stdout)?.trim().to_owned();
    Ok((read? / TIMES as f64, processor))
}

fn read_total(out: &Path) -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string(out)?;
    total(&text).ok_or_else(|| "callgrind's file has no total".into())
}

/// Instructions in all. Only these are counted, so they are the first number.
fn total(text: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix("totals:"))?;
    let count: f64 = rest.split_whitespace().next()?.parse().ok()?;
    Some(count).filter(|count| *count > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_and_an_empty_window_is_none() {
        let file = "version: 1\nevents: Ir\nfn=(1) main\n0 12\n\ntotals: 4321\n";
        assert_eq!(total(file), Some(4321.0));
        assert_eq!(total("events: Ir\ntotals: 0\n"), None);
        assert_eq!(total("events: Ir\n"), None);
    }
}
