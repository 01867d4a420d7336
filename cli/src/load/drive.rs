//! `tautline load drive`: messages at times of their own, and how long their answers take.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tautline::control::PolicyConfig;
use tautline::loadgen::workload::hdrhistogram::Histogram;
use tautline::loadgen::workload::{
    Arrivals, Content, Corpora, Drive, DriveConfig, DriveReport, Ended, KindReport, Latency, Mix,
    StreamKind, Workload, percentiles,
};
use tautline::transport::{Address, Node, NodeConfig};

use super::{life, seconds};
use crate::events::EventLogArguments;
use crate::failure::{Failure, say};
use crate::text;
use crate::tls::TlsArguments;

/// How often a line is printed where somebody watches.
const LINE: Duration = Duration::from_secs(1);
/// How long the peer may take to say goodbye.
const FAREWELL: Duration = Duration::from_secs(1);

/// Sends messages to an echo at times that nothing moves, and says how long the answers take from these.
#[derive(Debug, Args)]
#[command(after_long_help = MEANING)]
pub(crate) struct DriveArguments {
    /// A workload: kinds of streams, with arrivals and contents each (docs/load.md). Or one kind by --arrivals.
    #[arg(
        value_name = "WORKLOAD.toml",
        required_unless_present = "arrivals",
        conflicts_with_all = ["arrivals", "content", "streams", "messages", "policy", "one_way"]
    )]
    workload: Option<PathBuf>,
    /// Where an echo listens: HOST:PORT, tls:HOST:PORT, quic:HOST:PORT or unix:PATH.
    #[arg(long, value_name = "ADDRESS")]
    to: Address,
    /// When messages are sent: closed:COUNT, constant:RATE, poisson:RATE, bursty:RATE,LENGTH,SHARE or recorded:FILE,SPEED.
    #[arg(long)]
    arrivals: Option<String>,
    /// What they hold: telecom, logs, .., random:SIZES, zeros:SIZES, or a file of messages.
    #[arg(long, default_value = "telecom")]
    content: String,
    /// How many streams the messages go to in turn.
    #[arg(long, default_value_t = 1)]
    streams: u32,
    /// How many messages at most.
    #[arg(long, value_name = "N")]
    messages: Option<u64>,
    /// cost, majority, `round_robin`, none, or a codec such as zstd:3; by default cost.
    #[arg(long)]
    policy: Option<PolicyConfig>,
    /// Waits for no answers: there is only how fast messages go.
    #[arg(long)]
    one_way: bool,
    /// How long messages are sent, seconds; as the workload says, or 10.
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    length: Option<Duration>,
    /// Seed of times and messages; as the workload says, or 1.
    #[arg(long)]
    seed: Option<u64>,
    /// How many messages of each kind may wait to be sent or for answers; what is due beyond is not sent, and counted.
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    outstanding: usize,
    /// How long the last answers are waited for, seconds.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    patience: Duration,
    /// Do not limit codec time by the processor load.
    #[arg(long)]
    no_guard: bool,
    /// One JSON object for each kind, and one for all.
    #[arg(long)]
    json: bool,
    /// Write the distributions, ms, as PREFIX.KIND.intended.hgrm, .sending.hgrm and .lateness.hgrm, for the plotters of `HdrHistogram`.
    #[arg(long, value_name = "PREFIX")]
    hdr: Option<PathBuf>,
    #[command(flatten)]
    event_log: EventLogArguments,
    #[command(flatten)]
    tls: TlsArguments,
    /// The name to look for in the echo's certificate, if not the host of its address.
    #[arg(long, value_name = "NAME")]
    tls_name: Option<String>,
}

const MEANING: &str = "\
Latency from intended times counts from when a message was to be sent, whatever kept it from that: what
who comes at that time sees. From sending it counts from when the stream's queue took the message. What
the generator itself is late by is part of the first and none of the transport's; it has a line of its own.";

pub(super) fn run(arguments: &DriveArguments) -> Result<(), Failure> {
    let workload = workload(arguments)?;
    let is_over = life::watch()?;
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::of("the runtime does not start", &error))?;
    let result = runtime.block_on(drive(arguments, &workload, &is_over));
    // Codec work that is still going on is of no use to anybody.
    runtime.shutdown_background();
    let report = result?;
    print(&report, arguments)?;
    if let Some(prefix) = &arguments.hdr {
        write_all(&report, prefix)?;
    }
    match report.ended {
        Ended::Lost(why) => Err(Failure::Error(why)),
        Ended::Done => Ok(()),
        _ => Err(Failure::Interrupted),
    }
}

/// What the arguments say is to be sent.
fn workload(arguments: &DriveArguments) -> Result<Workload, Failure> {
    let mut workload = match (&arguments.workload, &arguments.arrivals) {
        (Some(path), _) => Workload::read(path)?,
        (None, arrivals) => {
            let corpora = &mut Corpora::in_directory("");
            let option = |name| move |error| Failure::of(name, &error);
            let arrivals = arrivals.as_deref().unwrap_or_default();
            let arrivals = Arrivals::parse(arrivals, corpora).map_err(option("--arrivals"))?;
            let content = Content::parse(&arguments.content, corpora);
            let content = content.map_err(option("--content"))?;
            let kind = StreamKind::new("drive", arrivals, Mix::of(content))
                .streams(arguments.streams)
                .policy(arguments.policy)
                .replies(!arguments.one_way)
                .messages(arguments.messages);
            Workload::new(vec![kind])?
        }
    };
    if let Some(length) = arguments.length {
        workload = workload.length(length);
    }
    if let Some(seed) = arguments.seed {
        workload = workload.seed(seed);
    }
    Ok(workload)
}

async fn drive(
    arguments: &DriveArguments,
    workload: &Workload,
    is_over: &AtomicBool,
) -> Result<DriveReport, Failure> {
    let mut config = NodeConfig::default();
    if arguments.no_guard {
        config = config.guard(None);
    }
    let log = arguments.event_log.open()?;
    if let Some(log) = &log {
        config = config.event_log(log.clone());
    }
    let name = arguments.tls_name.as_deref();
    let config = arguments.tls.connecting(&arguments.to, name, config)?;
    let node = Node::new(config)?;
    let connection = node.connect(&arguments.to).await?;
    node.budget_settled().await;
    let mut config = DriveConfig::default()
        .outstanding(arguments.outstanding)
        .patience(arguments.patience);
    if let Some(log) = log {
        config = config.event_log(log);
    }
    let drive = Drive::start(&connection, workload, &config).await?;
    let is_watched = std::io::stdout().is_terminal() && !arguments.json;
    let result = tokio::select! {
        () = drive.over() => Ok(()),
        () = life::interrupted(is_over) => Ok(()),
        result = watch(&drive), if is_watched => result,
    };
    let report = drive.finish().await;
    // Whether the peer was still there to hear it does not matter.
    let _ = tokio::time::timeout(FAREWELL, connection.close()).await;
    result.map(|()| report)
}

/// Prints how it goes, until nobody reads any more.
async fn watch(drive: &Drive) -> Result<(), Failure> {
    let mut ticks = tokio::time::interval(LINE);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let report = drive.report();
        let sum = |of: fn(&KindReport) -> u64| report.kinds.iter().map(of).sum::<u64>();
        say!(
            "{:.0} s: {} sent, {} not sent, {} unanswered",
            report.sending.as_secs_f64(),
            sum(|kind| kind.sent),
            sum(|kind| kind.not_sent),
            sum(|kind| kind.unanswered)
        )?;
    }
}

const QUANTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("max", 1.0),
];

fn print(report: &DriveReport, arguments: &DriveArguments) -> Result<(), Failure> {
    if arguments.json {
        return print_json(report);
    }
    for kind in &report.kinds {
        print_kind(kind, report.sending)?;
    }
    Ok(())
}

fn print_kind(kind: &KindReport, sending: Duration) -> Result<(), Failure> {
    let streams = match kind.streams {
        1 => "1 stream".to_owned(),
        many => format!("{many} streams"),
    };
    say!("{}: {}, {streams}", kind.name, kind.arrivals)?;
    let wanted = kind.rate.map_or_else(
        || "as many as are answered".to_owned(),
        |rate| format!("{} messages/s", text::number(rate)),
    );
    say!(
        "  wanted {wanted}; reached {} messages/s, {}/s",
        text::number(kind.reached(sending)),
        text::bytes(text::per_second(kind.bytes, sending) as u64)
    )?;
    say!(
        "  {} due, {} sent ({}), {} not sent, {} unanswered",
        kind.due,
        kind.sent,
        text::bytes(kind.bytes),
        kind.not_sent,
        kind.unanswered
    )?;
    let heads = QUANTILES.map(|(name, _)| format!("{name:>9}"));
    say!("  {:<20}{}", "", heads.concat())?;
    if kind.latency != Latency::Nothing {
        print_times("from intended times", &kind.from_intended)?;
        print_times("from sending", &kind.from_sending)?;
    }
    if kind.rate.is_some() {
        print_times("generator late by", &kind.lateness)?;
    }
    for note in notes(kind) {
        say!("  {note}")?;
    }
    Ok(())
}

fn print_times(name: &str, times: &Histogram<u64>) -> Result<(), Failure> {
    let cells = QUANTILES.map(|(_, quantile)| {
        let cell = if times.is_empty() {
            "-".to_owned()
        } else {
            text::fine_time(Duration::from_nanos(times.value_at_quantile(quantile)))
        };
        format!("{cell:>9}")
    });
    say!("  {name:<20}{}", cells.concat())
}

/// What is to be known of the figures.
fn notes(kind: &KindReport) -> Vec<String> {
    let mut notes = Vec::new();
    if kind.latency == Latency::Nothing {
        notes.push("no latency: messages are not answered".to_owned());
    } else if kind.not_sent + kind.unanswered > 0 {
        notes.push(format!(
            "{} messages are in no latency: it is worse than this",
            kind.not_sent + kind.unanswered
        ));
    }
    if kind.rate.is_none() {
        notes.push(
            "a closed loop sends nothing while it waits: a stall is seen by those outstanding alone"
                .to_owned(),
        );
    }
    let p99 = |times: &Histogram<u64>| times.value_at_quantile(0.99);
    if !kind.from_intended.is_empty() && 2 * p99(&kind.lateness) > p99(&kind.from_intended) {
        notes.push("half of p99 and more may be the generator's own lateness".to_owned());
    }
    notes
}

fn print_json(report: &DriveReport) -> Result<(), Failure> {
    for kind in &report.kinds {
        let latency = match kind.latency {
            Latency::Replies => "replies",
            Latency::Acknowledged => "acknowledged",
            _ => "none",
        };
        say!(
            "{}",
            json!({
                "kind": kind.name, "streams": kind.streams, "arrivals": kind.arrivals,
                "wanted_per_s": kind.rate, "reached_per_s": kind.reached(report.sending),
                "due": kind.due, "sent": kind.sent, "not_sent": kind.not_sent,
                "answered": kind.answered, "unanswered": kind.unanswered, "bytes": kind.bytes,
                "latency": latency, "intended_us": micros(&kind.from_intended),
                "sending_us": micros(&kind.from_sending), "lateness_us": micros(&kind.lateness),
            })
        )?;
    }
    let (ended, why) = match &report.ended {
        Ended::Done => ("done", None),
        Ended::Lost(why) => ("lost", Some(why)),
        _ => ("stopped", None),
    };
    let sum = |of: fn(&KindReport) -> u64| report.kinds.iter().map(of).sum::<u64>();
    say!(
        "{}",
        json!({
            "total": {
                "seconds": report.sending.as_secs_f64(), "ended": ended, "why": why,
                "due": sum(|kind| kind.due), "sent": sum(|kind| kind.sent),
                "not_sent": sum(|kind| kind.not_sent), "answered": sum(|kind| kind.answered),
                "unanswered": sum(|kind| kind.unanswered), "bytes": sum(|kind| kind.bytes),
            },
        })
    )
}

/// Percentiles in µs; `null` where nothing was measured.
fn micros(times: &Histogram<u64>) -> serde_json::Value {
    if times.is_empty() {
        return serde_json::Value::Null;
    }
    let mut all = serde_json::Map::new();
    for (name, quantile) in QUANTILES {
        let value = times.value_at_quantile(quantile) as f64 / 1e3;
        all.insert(name.to_owned(), json!(value));
    }
    all.insert("mean".to_owned(), json!(times.mean() / 1e3));
    all.insert("count".to_owned(), json!(times.len()));
    all.into()
}

/// Writes the distributions of each kind that has some.
fn write_all(report: &DriveReport, prefix: &Path) -> Result<(), Failure> {
    let names = text::file_names(report.kinds.iter().map(|kind| kind.name.as_str()));
    for (kind, name) in report.kinds.iter().zip(names) {
        for (what, times) in [
            ("intended", &kind.from_intended),
            ("sending", &kind.from_sending),
            ("lateness", &kind.lateness),
        ] {
            if times.is_empty() {
                continue;
            }
            let mut path = prefix.as_os_str().to_owned();
            path.push(format!(".{name}.{what}.hgrm"));
            let path = PathBuf::from(path);
            std::fs::write(&path, percentiles(times, 1e6))
                .map_err(|error| Failure::of(&path.display().to_string(), &error))?;
        }
    }
    Ok(())
}
