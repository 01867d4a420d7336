//! The side that sends: a workload of the library, and what samples say of it while it goes on.

use std::sync::{Arc, Mutex, PoisonError};

use tautline::loadgen::workload::hdrhistogram::Histogram;
use tautline::loadgen::workload::{self, DriveConfig, DriveReport, Ended};
use tautline::session::{MAX_DECISIONS, StreamStats};
use tautline::transport::{Address, Connection, Node};
use tokio::sync::RwLock;

use super::sampling::Sampler;
use super::series::Series;
use crate::failure::Failure;
use crate::lab::protocol::{Drive, Driven, Switch, TrafficSample, Word};
use crate::lab::traffic::workload;
use crate::report::lab::Quantiles;

/// Switches of one sample that are said; more are counted.
const MAX_SWITCHES: usize = 32;

/// Traffic that goes on.
pub(super) struct Driving {
    name: String,
    connection: Connection,
    /// Gone when it has ended.
    drive: RwLock<Option<workload::Drive>>,
    /// The arm of the last block.
    arm: Mutex<Option<String>>,
}

fn arms(stats: &StreamStats) -> Vec<(String, u64)> {
    let arms = stats.arms.iter();
    arms.map(|arm| (arm.arm.to_string(), arm.messages))
        .collect()
}

/// The sum of all that was measured, seconds.
fn sum(times: &Histogram<u64>) -> f64 {
    times.mean() * times.len() as f64 / 1e9
}

impl Driving {
    /// What it is at; `None` when it has ended.
    pub(super) async fn sample(&self) -> Option<TrafficSample> {
        let drive = self.drive.read().await;
        let drive = drive.as_ref()?;
        let report = drive.report();
        let kind = report.kinds.first()?;
        let mut sample = TrafficSample {
            name: self.name.clone(),
            messages: kind.answered,
            rtt_sum: sum(&kind.from_intended),
            arms: Vec::new(),
        };
        if let Some(stream) = drive.streams(0).next() {
            sample.arms = arms(&stream.stats().await.unwrap_or_default());
        }
        Some(sample)
    }

    /// Blocks that were given another arm than the one before, since the last time; `None` if there are none.
    pub(super) async fn switches(&self) -> Option<Word> {
        let decisions = self.connection.take_decisions().await?;
        let mut left_out = u64::from(decisions.len() >= MAX_DECISIONS);
        let mut last = self.arm.lock().unwrap_or_else(PoisonError::into_inner);
        let mut switches = Vec::new();
        for decision in decisions {
            let arm = decision.arm.to_string();
            let before = last.replace(arm.clone());
            let Some(from) = before.filter(|before| *before != arm) else {
                continue;
            };
            if switches.len() >= MAX_SWITCHES {
                left_out += 1;
                continue;
            }
            switches.push(Switch {
                at: decision.at.as_nanos(),
                from,
                to: arm,
                reason: decision.reason.name().to_owned(),
            });
        }
        let is_any = !switches.is_empty() || left_out > 0;
        is_any.then(|| Word::Switches {
            traffic: self.name.clone(),
            switches,
            left_out,
        })
    }
}

/// Sends all messages, or as many as the time is enough for.
pub(super) async fn drive(node: &Node, order: Drive, sampler: &Sampler) -> Result<Driven, Failure> {
    let workload = workload(&order)?;
    let address: Address = order.to.parse()?;
    let connection = node.connect(&address).await?;
    let before = wire_sent(&connection).await;
    let most = usize::try_from(order.messages).unwrap_or(usize::MAX);
    let config = DriveConfig::default().rows(most);
    let drive = workload::Drive::start(&connection, &workload, &config).await?;
    let driving = Arc::new(Driving {
        name: order.name.clone(),
        connection,
        drive: RwLock::new(Some(drive)),
        arm: Mutex::default(),
    });
    sampler.add(Arc::clone(&driving)).await;
    // Samples are taken meanwhile: both read.
    if let Some(drive) = driving.drive.read().await.as_ref() {
        drive.over().await;
    }
    // What came since the last sample, or all that there was.
    sampler.say().await?;
    let gone = || Failure::Error(format!("traffic `{}` has no drive", order.name));
    let drive = driving.drive.write().await.take().ok_or_else(gone)?;
    let stats = match drive.streams(0).next() {
        Some(stream) => stream.stats().await.unwrap_or_default(),
        None => StreamStats::default(),
    };
    let report = drive.finish().await;
    let wire = wire_sent(&driving.connection).await;
    if let Ended::Lost(why) = &report.ended {
        return Err(Failure::Error(format!("traffic `{}`: {why}", order.name)));
    }
    summary(&order, &report, &stats, wire.saturating_sub(before)).ok_or_else(gone)
}

fn summary(order: &Drive, report: &DriveReport, stats: &StreamStats, wire: u64) -> Option<Driven> {
    let kind = report.kinds.first()?;
    let mut series = Series::default();
    for row in &report.rows {
        series.add(row.answered.saturating_sub(row.intended) as f64 / 1e9);
    }
    Some(Driven {
        name: order.name.clone(),
        messages: kind.answered,
        asked: order.messages,
        plain_bytes: kind.bytes,
        wire_bytes: wire,
        seconds: report.sending.as_secs_f64(),
        rtt: quantiles(&kind.from_intended),
        series: series.chunks(),
        switches: stats.switches,
        out_of_budget: stats.out_of_budget,
        arms: arms(stats),
    })
}

async fn wire_sent(connection: &Connection) -> u64 {
    connection.stats().await.unwrap_or_default().wire_sent
}

fn quantiles(times: &Histogram<u64>) -> Quantiles {
    let at = |quantile: f64| times.value_at_quantile(quantile) as f64 / 1e9;
    Quantiles {
        mean: times.mean() / 1e9,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: times.max() as f64 / 1e9,
    }
}
