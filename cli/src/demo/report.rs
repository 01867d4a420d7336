//! What each phase came to, as table or JSON.

use std::time::Duration;

use serde_json::json;
use tautline::control::BudgetRate;
use tautline::session::ArmStats;
use tautline::units::CpuLoad;

use super::phase::{PHASES, TRAFFIC};
use super::traffic::Times;
use crate::failure::{Failure, say};
use crate::text;

/// What one stream did in one phase.
#[derive(Debug)]
pub(super) struct StreamRow {
    pub(super) times: Times,
    pub(super) arms: Vec<ArmStats>,
}

/// What all did in one phase.
#[derive(Debug)]
pub(super) struct PhaseReport {
    pub(super) number: usize,
    pub(super) streams: Vec<StreamRow>,
    pub(super) load: CpuLoad,
    pub(super) budget: Option<BudgetRate>,
    pub(super) rtt: Option<Duration>,
}

pub(super) fn budget(budget: Option<BudgetRate>) -> String {
    budget.map_or_else(|| "no limit".to_owned(), text::budget)
}

impl PhaseReport {
    pub(super) fn print_json(&self) -> Result<(), Failure> {
        let phase = &PHASES[self.number];
        for (row, traffic) in self.streams.iter().zip(&TRAFFIC) {
            let all: u64 = row.arms.iter().map(|arm| arm.messages).sum();
            let shares: serde_json::Map<_, _> = row
                .arms
                .iter()
                .map(|arm| {
                    (
                        arm.arm.to_string(),
                        json!(arm.messages as f64 / all.max(1) as f64),
                    )
                })
                .collect();
            say!(
                "{}",
                json!({
                    "phase": phase.name, "link_mbit": phase.link_mbit, "busy": phase.busy,
                    "stream": traffic.name, "content": phase.content(traffic).to_string(),
                    "messages": row.times.messages(), "payload_bytes": row.times.bytes,
                    "plain_bytes": row.arms.iter().map(|arm| arm.plain_bytes).sum::<u64>(),
                    "wire_bytes": row.arms.iter().map(|arm| arm.wire_bytes).sum::<u64>(),
                    "ratio": text::ratio_of(&row.arms), "codecs": shares,
                    "mean_us": row.times.mean().as_micros() as u64, "p99_us": row.times.p99().as_micros() as u64,
                    "cpu_load": self.load.get(), "rtt_us": self.rtt.map(|rtt| rtt.as_micros() as u64),
                    "budget_ns_per_sec": self.budget.map(BudgetRate::as_nanos_per_sec),
                })
            )?;
        }
        Ok(())
    }

    fn print(&self) -> Result<(), Failure> {
        let phase = &PHASES[self.number];
        say!()?;
        say!(
            "{}: {}; load {}, codec budget {}, round trip {}",
            phase.name,
            phase.describe(),
            self.load,
            budget(self.budget),
            self.rtt.map_or_else(|| "-".to_owned(), text::time)
        )?;
        for (row, traffic) in self.streams.iter().zip(&TRAFFIC) {
            say!(
                "  {:<8} {:<8} {:>7} messages {:>9} {:>7}  mean {:>7}  p99 {:>7}  {}",
                traffic.name,
                phase.content(traffic).to_string(),
                row.times.messages(),
                text::bytes(row.times.bytes),
                text::ratio(text::ratio_of(&row.arms)),
                text::time(row.times.mean()),
                text::time(row.times.p99()),
                text::shares(&row.arms, 2)
            )?;
        }
        Ok(())
    }
}

/// The summary of all phases.
pub(super) fn print(reports: &[PhaseReport], json: bool) -> Result<(), Failure> {
    let arms = || {
        reports
            .iter()
            .flat_map(|report| &report.streams)
            .flat_map(|row| &row.arms)
    };
    let plain: u64 = arms().map(|arm| arm.plain_bytes).sum();
    let wire: u64 = arms().map(|arm| arm.wire_bytes).sum();
    let messages: u64 = reports
        .iter()
        .flat_map(|report| &report.streams)
        .map(|row| row.times.messages())
        .sum();
    if json {
        return say!(
            "{}",
            json!({ "total": { "messages": messages, "plain_bytes": plain, "wire_bytes": wire } })
        );
    }
    reports.iter().try_for_each(PhaseReport::print)?;
    say!()?;
    say!(
        "{messages} messages, {} plain, {} on the wire: {:.0} % saved",
        text::bytes(plain),
        text::bytes(wire),
        100.0 * (1.0 - wire as f64 / plain.max(1) as f64)
    )
}

/// What a change did to the choice: the leading codecs of each stream before and after.
pub(super) fn changes(before: &PhaseReport, after: &PhaseReport) -> Vec<String> {
    let mut lines = vec![format!(
        "{} -> {}",
        PHASES[before.number].name, PHASES[after.number].name
    )];
    for ((old, new), traffic) in before.streams.iter().zip(&after.streams).zip(&TRAFFIC) {
        lines.push(format!(
            "  {:<8} {:<28} -> {:<28} {} -> {}",
            traffic.name,
            text::shares(&old.arms, 2),
            text::shares(&new.arms, 2),
            text::ratio(text::ratio_of(&old.arms)),
            text::ratio(text::ratio_of(&new.arms))
        ));
    }
    lines
}
