//! Instructions that pieces of tautline take: counted by callgrind, which counts the same on a busy machine as on an idle one, and held against a baseline.
//!
//! `cargo run --profile counts --package tautline-counts`; docs/benchmarks.md, "Instruction counts".

mod baseline;
mod callgrind;
mod tools;

#[path = "../../benches/support/log_lines.rs"]
mod log_lines;
#[path = "../../benches/support/pair.rs"]
mod pair;
#[path = "../../benches/support/pieces.rs"]
mod pieces;

#[path = "../../benches/support/pieces/codecs.rs"]
mod codecs;
#[path = "../../benches/support/pieces/decision.rs"]
mod decision;
#[path = "../../benches/support/pieces/eventlog.rs"]
mod eventlog;
#[path = "../../benches/support/pieces/frames.rs"]
mod frames;
#[path = "../../benches/support/pieces/session.rs"]
mod session;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::baseline::{Baseline, Finding, Tolerance};
use crate::pieces::Named;
use crate::tools::Tools;

const USAGE: &str = "usage: counts [check | accept] [--baseline FILE]
       counts run PIECE TIMES

check    counts all pieces, and fails if one takes more than the baseline allows (the default)
accept   counts all pieces, and makes that the baseline
run      does a piece so many times twice, the second time to be counted: what callgrind runs";

/// The only profile whose counts are compared.
const PROFILE: &str = "counts";

fn pieces() -> impl Iterator<Item = Named> {
    [
        frames::PIECES,
        session::PIECES,
        decision::PIECES,
        codecs::PIECES,
        eventlog::PIECES,
    ]
    .into_iter()
    .flatten()
    .copied()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let committed = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/baseline.toml"));
    let done = match arguments[..] {
        [] | ["check"] => check(&committed),
        ["check", "--baseline", file] => check(&PathBuf::from(file)),
        ["accept"] => accept(&committed),
        ["accept", "--baseline", file] => accept(&PathBuf::from(file)),
        ["run", piece, times] => run(piece, times),
        _ => Err(USAGE.into()),
    };
    done.unwrap_or_else(|error| {
        eprintln!("counts: {error}");
        ExitCode::from(2)
    })
}

fn run(piece: &str, times: &str) -> Result<ExitCode, Box<dyn Error>> {
    let (_, make) = pieces()
        .find(|(name, _)| *name == piece)
        .ok_or_else(|| format!("there is no piece {piece:?}"))?;
    let times = times.parse()?;
    println!("{}", tools::processor());
    callgrind::run(&mut make(), times);
    Ok(ExitCode::SUCCESS)
}

/// The counts of all pieces in this build, and what they were read with; `None` where there is no valgrind.
fn count() -> Result<Option<Baseline>, Box<dyn Error>> {
    let profile = env!("COUNTS_PROFILE");
    if profile != PROFILE {
        return Err(format!(
            "built with the profile {profile:?}, whose counts say nothing: cargo run --profile {PROFILE} --package tautline-counts"
        )
        .into());
    }
    let Some(valgrind) = callgrind::version() else {
        return Ok(None);
    };
    let names: Vec<&str> = pieces().map(|(name, _)| name).collect();
    let counted = callgrind::count(&names)?;
    Ok(Some(Baseline {
        tools: Tools::of_this_build(valgrind, counted.processor),
        counts: counted.counts,
    }))
}

const NO_VALGRIND: &str = "skipped: there is no valgrind here (apt-get install valgrind)";

fn accept(file: &PathBuf) -> Result<ExitCode, Box<dyn Error>> {
    let Some(now) = count()? else {
        return Err(NO_VALGRIND.into());
    };
    std::fs::write(file, now.to_string())?;
    println!("{} counts in {}", now.counts.len(), file.display());
    Ok(ExitCode::SUCCESS)
}

fn check(file: &PathBuf) -> Result<ExitCode, Box<dyn Error>> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("{}: {error}; `accept` makes one", file.display()))?;
    let before: Baseline = text
        .parse()
        .map_err(|error| format!("{}: {error}", file.display()))?;
    let Some(now) = count()? else {
        println!("{NO_VALGRIND}");
        return Ok(ExitCode::SUCCESS);
    };
    let others = before.tools.differences(&now.tools);
    let tolerance = Tolerance::between(&before.tools, &now.tools);
    let findings = before.compare(&now, tolerance);
    println!(
        "{:<28} {:>12} {:>12} {:>8}",
        "instructions", "baseline", "now", ""
    );
    for finding in &findings {
        println!("{finding}");
    }
    for other in &others {
        println!("read with another {other}");
    }
    println!("{tolerance}");
    let worse = findings.iter().filter(|finding| finding.fails()).count();
    if findings.iter().any(Finding::is_stale) {
        println!("fewer than before: `accept` them, or they can be lost again unseen");
    }
    if worse == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "{worse} of {} pieces take more than the baseline allows, or are only here or there. Where from: \
         callgrind_annotate of `valgrind --tool=callgrind --toggle-collect='*{}*' target/{PROFILE}/counts run PIECE TIMES`. \
         If it is worth it: cargo run --profile {PROFILE} --package tautline-counts -- accept, and commit counts/baseline.toml with the reason",
        findings.len(),
        callgrind::WINDOW,
    );
    Ok(ExitCode::FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pieces_have_names_of_their_own_and_do_what_they_say() {
        let mut names: Vec<&str> = pieces().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), pieces().count());
        for (_, make) in pieces() {
            // They check what they do.
            make()(256);
        }
    }
}
