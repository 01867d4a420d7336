//! What a pass has shown, and the tables.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use tautline::control::PolicyConfig;

use super::plan::{Link, Mode};
use super::protocol::{Loaded, Received, Sent};
use crate::failure::{Failure, say};
use crate::figures::{self, Judged, MessageTimes, is_stateless, is_static};
use crate::text;

/// All that passes of one table have in common.
pub(super) struct Cell<'a> {
    pub(super) corpus: &'a Loaded,
    pub(super) link: Link,
    pub(super) delay: Duration,
    pub(super) mode: Mode,
    pub(super) busy: usize,
    pub(super) rounds: usize,
}

/// One pass: one policy in one round.
pub(super) struct Row {
    policy: usize,
    round: usize,
    wire_bytes: u64,
    seconds: f64,
    messages: MessageTimes,
    sender_cpu: f64,
    receiver_cpu: f64,
    /// Share of the plain bytes by codec and level.
    codecs: BTreeMap<String, f64>,
    blocks: u64,
    out_of_budget: u64,
    switches: u64,
    regret: f64,
}

impl Row {
    pub(super) fn new(policy: usize, round: usize, sent: &Sent, received: &Received) -> Self {
        let all: u64 = sent.arms.iter().map(|(_, bytes)| bytes).sum();
        let share = |bytes: u64| bytes as f64 / all.max(1) as f64;
        let began = sent.times.first().copied().unwrap_or_default();
        let ended = received.times.last().copied().unwrap_or_default();
        Self {
            policy,
            round,
            wire_bytes: sent.wire_bytes,
            seconds: secs(ended.saturating_sub(began)),
            messages: MessageTimes::new(&sent.times, &received.times),
            sender_cpu: secs(sent.processor_nanos),
            receiver_cpu: secs(received.processor_nanos),
            codecs: sent
                .arms
                .iter()
                .map(|(arm, bytes)| (arm.clone(), share(*bytes)))
                .collect(),
            blocks: sent.blocks,
            out_of_budget: sent.out_of_budget,
            switches: sent.switches,
            regret: secs(sent.regret_nanos),
        }
    }

    pub(super) fn print_json(&self, cell: &Cell, policies: &[PolicyConfig]) -> Result<(), Failure> {
        let policy = policies.get(self.policy).map(ToString::to_string);
        say!(
            "{}",
            json!({
                "corpus": cell.corpus.name, "link_bps": cell.link.0, "delay_ms": cell.delay.as_secs_f64() * 1e3,
                "mode": cell.mode.to_string(), "busy_cores": cell.busy, "policy": policy, "round": self.round,
                "messages": cell.corpus.messages, "plain_bytes": cell.corpus.plain_bytes,
                "wire_bytes": self.wire_bytes, "seconds": self.seconds, "mean_us": self.messages.mean,
                "p50_us": self.messages.p50, "p99_us": self.messages.p99, "sender_cpu_s": self.sender_cpu,
                "receiver_cpu_s": self.receiver_cpu, "codecs": self.codecs, "blocks": self.blocks,
                "out_of_budget": self.out_of_budget, "switches": self.switches, "regret": self.regret,
            })
        )
    }

    /// The time by which the pass is judged, s.
    fn judged(&self, mode: Mode) -> f64 {
        if mode.judges_total() {
            self.seconds
        } else {
            self.messages.mean / 1e6
        }
    }
}

fn secs(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}

/// Prints a cell's table: medians over the rounds, best first.
pub(super) fn print_table(
    cell: &Cell,
    policies: &[PolicyConfig],
    rows: &[Row],
) -> Result<(), Failure> {
    let of = |policy: usize| rows.iter().filter(move |row| row.policy == policy);
    let judged: Vec<Judged> = policies
        .iter()
        .enumerate()
        .map(|(number, policy)| Judged {
            is_static: is_static(*policy),
            times: of(number).map(|row| row.judged(cell.mode)).collect(),
        })
        .collect();
    let oracle = figures::oracle(&judged);
    print_heading(cell)?;
    let mut order: Vec<usize> = (0..policies.len()).collect();
    let best = |policy: &usize| figures::median(&judged[*policy].times).unwrap_or(f64::INFINITY);
    order.sort_by(|left, right| best(left).total_cmp(&best(right)));
    for &number in &order {
        let median = |value: fn(&Row) -> f64| {
            let values: Vec<_> = of(number).map(value).collect();
            figures::median(&values).unwrap_or_default()
        };
        let time = |secs: f64| text::time(Duration::try_from_secs_f64(secs).unwrap_or_default());
        let times = &judged[number].times;
        let efficiency = oracle
            .and_then(|oracle| figures::efficiency(&judged[oracle], &judged[number]))
            .map_or_else(|| "-".to_owned(), |efficiency| format!("{efficiency:.3}"));
        let wire = median(|row| row.wire_bytes as f64);
        say!(
            "{} {:<15} {:>8} {:>6} {:>8} {:>8} {:>8} {:>7} {:>9} {:>9} {:>6}",
            if oracle == Some(number) { '*' } else { ' ' },
            policies[number].to_string(),
            time(median(|row| row.seconds)),
            format!("{:.1}%", 100.0 * figures::spread(times).unwrap_or_default()),
            time(median(|row| row.messages.mean) / 1e6),
            time(median(|row| row.messages.p50) / 1e6),
            time(median(|row| row.messages.p99) / 1e6),
            text::ratio((wire > 0.0).then(|| cell.corpus.plain_bytes as f64 / wire)),
            time(median(|row| row.sender_cpu)),
            time(median(|row| row.receiver_cpu)),
            efficiency,
        )?;
    }
    if let Some(oracle) = oracle {
        say!(
            "* the oracle: the static choice with the least median {}",
            if cell.mode.judges_total() {
                format!("time, {}", text::time(duration(best(&oracle))))
            } else {
                format!("message time, {}", text::time(duration(best(&oracle))))
            }
        )?;
    }
    if oracle.is_some_and(|oracle| !is_stateless(policies[oracle]))
        && let Some(alone) = order.iter().find(|at| is_stateless(policies[**at]))
    {
        let (name, best) = (policies[*alone], text::time(duration(best(alone))));
        say!("  the best that carries no history: {name}, {best}")?;
    }
    for number in order {
        if !is_static(policies[number]) {
            let rows: Vec<_> = of(number).collect();
            print_choices(&policies[number].to_string(), &rows)?;
        }
    }
    print_budget(policies, rows)?;
    say!()
}

/// Which policies the guard has kept from compressing: with a budget that is spent at once, even the
/// oracle is not what it could be.
fn print_budget(policies: &[PolicyConfig], rows: &[Row]) -> Result<(), Failure> {
    let mut shares: Vec<_> = policies
        .iter()
        .enumerate()
        .map(|(number, policy)| {
            let rows = || rows.iter().filter(|row| row.policy == number);
            let spent: u64 = rows().map(|row| row.out_of_budget).sum();
            let blocks: u64 = rows().map(|row| row.blocks).sum();
            (policy, spent as f64 / blocks.max(1) as f64)
        })
        .filter(|(_, share)| *share >= 0.01)
        .collect();
    shares.sort_by(|(_, left), (_, right)| right.total_cmp(left));
    let Some((most, share)) = shares.first() else {
        return Ok(());
    };
    say!(
        "  the codec budget was spent for blocks of {} policies ({most}: {:.0}%); see --no-guard",
        shares.len(),
        100.0 * share
    )
}

fn duration(secs: f64) -> Duration {
    Duration::try_from_secs_f64(secs).unwrap_or_default()
}

fn print_heading(cell: &Cell) -> Result<(), Failure> {
    let delay = match cell.delay {
        Duration::ZERO => String::new(),
        delay => format!(" with {} delay", text::time(delay)),
    };
    let busy = match cell.busy {
        0 => String::new(),
        busy => format!(", {busy} busy cores"),
    };
    say!(
        "{} over {}{delay}, {}{busy}: {} messages, {}, medians of {} rounds",
        cell.corpus.name,
        cell.link,
        cell.mode,
        cell.corpus.messages,
        text::bytes(cell.corpus.plain_bytes),
        cell.rounds,
    )?;
    say!(
        "  {:<15} {:>8} {:>6} {:>8} {:>8} {:>8} {:>7} {:>9} {:>9} {:>6}",
        "policy",
        "time",
        "spread",
        "message",
        "p50",
        "p99",
        "ratio",
        "cpu send",
        "cpu recv",
        "effic."
    )
}

/// What a policy with a choice chose.
fn print_choices(policy: &str, rows: &[&Row]) -> Result<(), Failure> {
    /// More would not fit a line.
    const NAMED: usize = 4;

    let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
    for row in rows {
        for (codec, share) in &row.codecs {
            *shares.entry(codec).or_default() += share / rows.len() as f64;
        }
    }
    let mut shares: Vec<_> = shares.into_iter().collect();
    shares.sort_by(|(_, left), (_, right)| right.total_cmp(left));
    let named: Vec<_> = shares
        .iter()
        .take(NAMED)
        .map(|(codec, share)| format!("{codec} {:.0}%", 100.0 * share))
        .collect();
    let switches: Vec<_> = rows.iter().map(|row| row.switches as f64).collect();
    let regrets: Vec<_> = rows.iter().map(|row| row.regret).collect();
    say!(
        "  {policy}: {}; {:.0} switches, regret {}",
        named.join(", "),
        figures::median(&switches).unwrap_or_default(),
        text::time(duration(figures::median(&regrets).unwrap_or_default())),
    )
}
