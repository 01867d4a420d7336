//! `--explain`: what the policy knows of each arm, and why it would or would not take it.

use std::convert::Infallible;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::{Value, json};
use tautline::codecs::Arm;
use tautline::control::{ArmReport, PolicyConfig, Verdict};
use tautline::session::{SessionStats, StreamStats};
use tautline::transport::Stream;

use crate::failure::{Failure, say};
use crate::text;

/// Which arms are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Explain {
    /// The one taken, identity, the cheapest, and others up to twice as dear; ten at most.
    Near,
    /// All.
    All,
}

/// Arms shown of those near. Arbitrary: with its heading it is a table that is read at a glance.
const MOST_NEAR: usize = 10;
/// So many are shown however dear.
const LEAST_NEAR: usize = 5;
/// How often an explanation is taken while messages are sent.
const PERIOD: Duration = Duration::from_millis(100);

/// Keeps the latest reports of a stream in `kept` for as long as it is polled: what is known once
/// the last message has arrived is about an idle link. What is over sooner is explained at its end.
pub(crate) async fn follow(stream: &Stream, kept: &mut Vec<ArmReport>) -> Infallible {
    loop {
        tokio::time::sleep(PERIOD).await;
        let stats = stream.stats().await.unwrap_or_default();
        if stats.messages_sent > 0 {
            *kept = stats.reports;
        }
    }
}

/// The arms of a stream, cheapest first.
pub(crate) fn print(
    explain: Explain,
    policy: PolicyConfig,
    stats: &StreamStats,
) -> Result<(), Failure> {
    let reports = &stats.reports;
    if reports.is_empty() {
        return match policy {
            PolicyConfig::Cost(_) => say!("  nothing is known of any arm"),
            policy => say!("  policy {policy} does not estimate: there is nothing to explain"),
        };
    }
    say!(
        "  {:<10} {:>7} {:>8} {:>8} {:>8} {:>8} {:>7} {:>8}  why",
        "arm",
        "ratio",
        "encode",
        "link",
        "decode",
        "cost",
        "samples",
        "age"
    )?;
    let shown = shown(explain, reports);
    for report in &shown {
        say!(
            "  {:<10} {:>7} {:>8} {:>8} {:>8} {:>8} {:>7} {:>8}  {}",
            report.arm.to_string(),
            text::ratio(Some(report.ratio)),
            text::fine_time(report.encode),
            text::fine_time(report.link),
            text::fine_time(report.decode),
            text::fine_time(report.cost),
            report.samples,
            report.age.map_or_else(|| "-".to_owned(), text::time),
            why(report.verdict)
        )?;
    }
    if let Some(len) = stats.block_len {
        say!("  blocks of up to {} at last", text::bytes(len as u64))?;
    }
    if shown.len() < reports.len() {
        let left = reports.len() - shown.len();
        say!("  and {left} more: --explain=all")?;
    }
    Ok(())
}

fn shown(explain: Explain, reports: &[ArmReport]) -> Vec<&ArmReport> {
    let must = |report: &ArmReport| report.arm == Arm::IDENTITY || report.verdict == Verdict::Taken;
    let near = |report: &ArmReport| matches!(report.verdict, Verdict::Dearer(share) if share < 1.0);
    let mut room = match explain {
        Explain::All => return reports.iter().collect(),
        Explain::Near => MOST_NEAR - reports.iter().filter(|report| must(report)).count(),
    };
    reports
        .iter()
        .enumerate()
        .filter(|(at, report)| {
            let fits = !must(report) && room > 0 && (near(report) || *at < LEAST_NEAR);
            room -= usize::from(fits);
            fits || must(report)
        })
        .map(|(_, report)| report)
        .collect()
}

fn why(verdict: Verdict) -> String {
    match verdict {
        // The link has changed since, or the gain is too small for a switch as yet.
        Verdict::Dearer(share) if share < -0.0005 => format!("{:.1} % cheaper now", -share * 100.0),
        Verdict::Dearer(share) if share < 0.0005 => "as dear".to_owned(),
        Verdict::PeerStarved => "the peer has no time".to_owned(),
        verdict => verdict.to_string(),
    }
}

/// What all arms are judged by, and what the choices have come to.
pub(crate) fn print_path(
    stats: &SessionStats,
    regret: Duration,
    switches: u64,
) -> Result<(), Failure> {
    let or = |text: Option<String>, other: &str| text.unwrap_or_else(|| other.to_owned());
    say!(
        "  link {}, round trip {}; codec budget {}, peer's load {}",
        or(
            stats.link_rate.map(|rate| rate.to_string()),
            "not known (1 Gbit/s is assumed)"
        ),
        or(stats.rtt.map(text::fine_time), "-"),
        or(stats.budget.map(text::budget), "no limit"),
        or(stats.peer_load.map(|load| load.to_string()), "-"),
    )?;
    say!(
        "  regret {} over the cheapest by the estimates, {switches} switches",
        text::fine_time(regret),
    )
}

/// All arms, as [`print()`] says it.
pub(crate) fn json(reports: &[ArmReport]) -> Value {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    reports
        .iter()
        .map(|report| {
            let dearer = match report.verdict {
                Verdict::Dearer(share) => Some(share),
                _ => None,
            };
            json!({
                "arm": report.arm.to_string(), "ratio": report.ratio, "encode_ns": nanos(report.encode),
                "link_ns": nanos(report.link), "decode_ns": nanos(report.decode), "cost_ns": nanos(report.cost),
                "samples": report.samples, "age_ns": report.age.map(nanos),
                "verdict": report.verdict.name(), "dearer_by": dearer,
            })
        })
        .collect()
}
