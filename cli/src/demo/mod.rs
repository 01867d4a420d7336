//! `tautline demo`: two nodes in one process, a rate-limited relay between them, four streams of
//! different content; link, content and processor load change, and the choice with them.

mod phase;
mod report;
mod traffic;
mod view;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use tautline::relay::{LinkConfig, Relay};
use tautline::session::{ArmStats, SessionConfig, StreamConfig};
use tautline::transport::{Address, Connection, Node, NodeConfig, Stream};
use tautline::units::BytesPerSec;
use tokio::task::JoinSet;

use self::phase::{PHASES, Phase, TRAFFIC, end_of};
use self::report::{PhaseReport, StreamRow};
use self::traffic::Gauge;
use self::view::{Snapshot, StreamView, View};
use crate::busy::BusyProcessors;
use crate::failure::Failure;
use crate::text;

/// How often the view is drawn and the end looked for.
const TICK: Duration = Duration::from_millis(100);
/// Over which the streams' current figures are taken.
const SPAN: Duration = Duration::from_secs(1);
/// One way through the relay.
const DELAY: Duration = Duration::from_millis(1);
/// Payload that may wait on each stream: little, so that messages do not grow old on the slow link.
const QUEUE: usize = 32 << 10;

#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// How long it takes in all, seconds.
    #[arg(long = "for", default_value_t = 30.0, value_parser = seconds)]
    seconds: f64,
    /// One JSON object for each phase and stream, and one for all.
    #[arg(long)]
    json: bool,
    /// Of the generated messages.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (1.0..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("seconds, from 1 to 3600".to_owned()),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the program measures what the user sees"
)]
fn now() -> Instant {
    Instant::now()
}

/// Both nodes and what is between them.
struct Stage {
    node: Node,
    relay: Relay,
    connection: Connection,
    streams: Vec<Arc<Stream>>,
    gauges: Vec<Arc<Gauge>>,
    /// What each arm had done on each stream when the phase, and the second, began.
    at_phase: Vec<Vec<ArmStats>>,
    at_second: Vec<Vec<ArmStats>>,
}

pub(crate) async fn run(arguments: DemoArguments) -> Result<(), Failure> {
    let total = Duration::from_secs_f64(arguments.seconds);
    let mut tasks = JoinSet::new();
    let phase = Arc::new(AtomicUsize::new(0));
    let mut stage = Stage::build(&mut tasks, &phase, arguments.seed).await?;
    let reports = play(&mut stage, &mut tasks, &phase, total, arguments.json).await?;
    tasks.abort_all();
    report::print(&reports, arguments.json)
}

/// Runs the phases, or as far as the user wants.
async fn play(
    stage: &mut Stage,
    tasks: &mut JoinSet<Result<(), Failure>>,
    phase: &AtomicUsize,
    total: Duration,
    json: bool,
) -> Result<Vec<PhaseReport>, Failure> {
    let mut view = View::new(json);
    let mut reports: Vec<PhaseReport> = Vec::new();
    let mut changes = Vec::new();
    let began = now();
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    'phases: for (number, current) in PHASES.iter().enumerate() {
        phase.store(number, Ordering::Relaxed);
        stage.relay.set_link(link(current));
        let ends = end_of(number, total);
        let _busy = current
            .busy
            .then(|| BusyProcessors::all(ends.saturating_sub(began.elapsed())));
        let mut ticks = tokio::time::interval(TICK);
        let mut second_began = began.elapsed();
        let mut stopped = false;
        while began.elapsed() < ends && !stopped {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = &mut interrupted => stopped = true,
                Some(ended) = tasks.join_next() => ended??,
            }
            stopped |= view.wants_end();
            let span = began.elapsed().saturating_sub(second_began);
            if span >= SPAN.min(total / 24) {
                second_began = began.elapsed();
                let snapshot = stage
                    .snapshot(number, began.elapsed(), total, span, &changes)
                    .await;
                view.show(&snapshot)?;
            }
        }
        let report = stage.report(number).await;
        if json {
            report.print_json()?;
        }
        if let Some(before) = reports.last() {
            changes = report::changes(before, &report);
        }
        reports.push(report);
        if stopped {
            break 'phases;
        }
    }
    Ok(reports)
}

fn link(phase: &Phase) -> LinkConfig {
    LinkConfig {
        rate: BytesPerSec::new(phase.link_mbit * 1e6 / 8.0),
        delay: DELAY,
        queue: None,
    }
}

impl Stage {
    async fn build(
        tasks: &mut JoinSet<Result<(), Failure>>,
        phase: &Arc<AtomicUsize>,
        seed: u64,
    ) -> Result<Self, Failure> {
        let config = || NodeConfig::default().session(SessionConfig::default().send_queue(QUEUE));
        let (node, peer) = (Node::new(config())?, Node::new(config())?);
        let loopback: Address = "127.0.0.1:0".parse()?;
        let listener = peer.listen(&loopback).await?;
        let target: SocketAddr = listener.local_address()?.to_string().parse()?;
        let relay = Relay::start(
            SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            target,
            link(&PHASES[0]),
        )?;
        let address = relay.local_addr().tcp().map(Address::from);
        let address =
            address.ok_or_else(|| Failure::Error("the relay has no address".to_owned()))?;
        let (accepted, connected) = tokio::join!(listener.accept(), node.connect(&address));
        let (accepted, connection) = (accepted?, connected?);

        let mut streams = Vec::new();
        let mut gauges = Vec::new();
        for (number, traffic) in TRAFFIC.iter().enumerate() {
            let stream = Arc::new(
                connection
                    .open(traffic.name, StreamConfig::default())
                    .await?,
            );
            let arrived = accepted
                .accept()
                .await?
                .ok_or_else(|| Failure::Error("the peer left".to_owned()))?;
            let gauge = Arc::new(Gauge::new()?);
            tasks.spawn({
                let (stream, gauge, phase) =
                    (Arc::clone(&stream), Arc::clone(&gauge), Arc::clone(phase));
                let seed = seed.wrapping_add(number as u64 * 2);
                async move { Ok(traffic::send(&stream, traffic, &phase, &gauge, seed).await?) }
            });
            tasks.spawn({
                let gauge = Arc::clone(&gauge);
                async move { Ok(traffic::receive(arrived, gauge).await?) }
            });
            streams.push(stream);
            gauges.push(gauge);
        }
        let unused = vec![Vec::new(); TRAFFIC.len()];
        Ok(Self {
            node,
            relay,
            connection,
            streams,
            gauges,
            at_phase: unused.clone(),
            at_second: unused,
        })
    }

    /// What each arm has done on each stream so far.
    async fn arms(&self) -> Vec<Vec<ArmStats>> {
        let mut all = Vec::new();
        for stream in &self.streams {
            all.push(
                stream
                    .stats()
                    .await
                    .map(|stats| stats.arms)
                    .unwrap_or_default(),
            );
        }
        all
    }

    async fn snapshot(
        &mut self,
        phase: usize,
        elapsed: Duration,
        total: Duration,
        span: Duration,
        changes: &[String],
    ) -> Snapshot {
        let arms = self.arms().await;
        let (load, budget) = self.node.load_and_budget();
        let streams = arms
            .iter()
            .zip(&self.at_second)
            .zip(&self.gauges)
            .map(|((after, before), gauge)| StreamView {
                times: gauge.take_recent(),
                arms: text::since(after, before),
            })
            .collect();
        self.at_second = arms;
        let session = self.connection.stats().await.unwrap_or_default();
        Snapshot {
            phase,
            elapsed,
            total,
            span,
            streams,
            session,
            load,
            budget,
            changes: changes.to_vec(),
        }
    }

    /// What the phase came to; the next begins.
    async fn report(&mut self, number: usize) -> PhaseReport {
        let arms = self.arms().await;
        let (load, budget) = self.node.load_and_budget();
        let streams = arms
            .iter()
            .zip(&self.at_phase)
            .zip(&self.gauges)
            .map(|((after, before), gauge)| StreamRow {
                times: gauge.take_phase(),
                arms: text::since(after, before),
            })
            .collect();
        self.at_phase = arms;
        let rtt = self.connection.stats().await.and_then(|stats| stats.rtt);
        PhaseReport {
            number,
            streams,
            load,
            budget,
            rtt,
        }
    }
}
