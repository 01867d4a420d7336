//! `tautline monitor`: what hardware and kernel count of processes and processors.

pub(crate) mod report;

use std::fs::File;
use std::io::{self, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use tautline::pmu::{
    CacheSizes, Calibration, Counters, Epilogue, EventSets, Exposition, Gauge, ModelFile, Monitor,
    MonitorConfig, Names, Notice, Output, OutputError, Pace, Perf, Preamble, PrometheusServer,
    RecordFormat, Recording, TAKE_AFTER, calibrate, generic_names,
};
use tautline::units::Time;

use crate::bench::clock::monotonic_nanos;
use crate::events::MessageGauges;
use crate::failure::{Failure, say, tell};
use crate::load::life::unless_over;
use crate::others::Others;

/// How often samples are written, and lines are printed.
const FLUSH: Duration = Duration::from_secs(1);
/// What is said of a recording without an end.
pub(crate) const NO_END: &str = "it was not brought to its end: there may have been more";
/// How long nobody is asked whether it is over, where samples are further apart than that.
const LOOK_UP: Duration = Duration::from_millis(250);
/// How often a disk that is full is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// Counts events of hardware and kernel in sets that take turns, of processes, processors or the whole system.
///
/// What the machine lacks is named with the reason, and the rest is counted.
#[derive(Debug, Args)]
#[command(after_long_help = MEANING)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct MonitorArguments {
    /// Sets of events, TOML or JSON. Default: those that come with the program (--list shows them).
    #[arg(long, value_name = "FILE")]
    sets: Option<PathBuf>,
    /// Only these of the sets, in this order.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Events and penalties of a processor's model, TOML or JSON, before those that come with the program.
    #[arg(long, value_name = "FILE")]
    model: Vec<PathBuf>,
    /// A process, with its threads and those they start. May be repeated.
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// What these processes say of their messages, too: messages-sent, messages-received, message-seconds and round-trip-seconds. They must have event logs,
    /// which record everything meanwhile.
    #[arg(long, requires = "pid")]
    messages: bool,
    /// A logical processor. May be repeated.
    #[arg(long, value_name = "N")]
    cpu: Vec<u32>,
    /// All processors, one by one. The default, if nothing else is said.
    #[arg(long)]
    all: bool,
    /// Sets in a second; each takes its turn for one period.
    #[arg(long, default_value = "100", value_parser = rate)]
    hz: f64,
    /// Who takes the samples. By default the kernel where it can: of one set, whose events are counted together, of processors, ten times a second or more
    /// often. No thread wakes for each then, which is most of the cost. Of a processor that idles some kernels take none: four a second then.
    #[arg(long, value_name = "WHO", value_enum)]
    sampler: Option<Sampler>,
    /// How long, seconds. Default: until interrupted, or until all processes have exited.
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    length: Option<Duration>,
    /// Where samples are written to: .csv, .jsonl or .npy; - is stdout.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// csv, jsonl or npy; by the file's name by default.
    #[arg(long)]
    format: Option<RecordFormat>,
    /// How many samples are kept in memory until they are written.
    #[arg(long, default_value_t = 30_000)]
    slots: usize,
    /// An event without which to fail. May be repeated.
    #[arg(long, value_name = "EVENT")]
    require: Vec<String>,
    /// Serves metrics for Prometheus there, at /metrics.
    #[arg(long, value_name = "ADDRESS")]
    prometheus: Option<SocketAddr>,
    /// Measures what misses cost on this machine first (a second or two), for the stack.
    #[arg(long)]
    calibrate: bool,
    /// Counts what a recording (JSON lines) says instead, as fast as it goes.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sets", "only", "pid", "messages", "cpu", "all", "sampler", "length", "prometheus"])]
    replay: Option<PathBuf>,
    /// Shows sets, models and generic events, and counts nothing.
    #[arg(long)]
    list: bool,
    /// Only the summary.
    #[arg(long)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sampler {
    /// The kernel, and it is said if it cannot
    Kernel,
    /// A thread
    Thread,
}

const MEANING: &str = "\
In a set, events are counted at the same time or not at all; a set with `group = false` is multiplexed by
the kernel when it has more events than the hardware counts, and its counts are scaled.

The exit code is 0 whatever the machine lacks, but 1 for what is asked for by name and cannot be had: a
process, a processor, an event that is --require'd, a file that could not be written to the end.";

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(hz) if (0.01..=10_000.0).contains(&hz) => Ok(hz),
        _ => Err("times a second, from 0.01 to 10000".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=1e9).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("seconds, from 0 to 1000000000".to_owned()),
    }
}

pub(crate) fn run(arguments: &MonitorArguments) -> Result<(), Failure> {
    raise_limit_of_files();
    let names = names(&arguments.model)?;
    if arguments.list {
        return list(arguments, &names);
    }
    let format = format(arguments)?;
    let is_stdout = arguments.out.as_deref() == Some(Path::new("-"));
    let calibration = if arguments.calibrate {
        measure(is_stdout)?
    } else {
        None
    };
    let penalty = |name: &str| {
        let measured = calibration
            .as_ref()
            .and_then(|measured| measured.penalty(name));
        measured.or_else(|| names.penalty(name))
    };
    // Until here a signal ends the program as it ends others: who waits for a pipe that nobody writes could not look whether there was one.
    let is_interrupted = Arc::new(AtomicBool::new(false));
    if let Some(path) = &arguments.replay {
        watch_for_signals(&is_interrupted)?;
        return replay(arguments, path, &is_interrupted, format, penalty);
    }
    let sets = sets(arguments)?;
    watch_for_signals(&is_interrupted)?;
    count(
        arguments,
        (names.clone(), sets),
        &is_interrupted,
        format,
        penalty,
    )
}

/// Each counter is an open file: as many as this user may have.
fn raise_limit_of_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let current = maximum;
    // Without that it stays as it is; what it is too low for is said.
    let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
}

/// A thread of its own, so that the one that counts is asked for nothing else.
pub(crate) fn watch_for_signals(is_interrupted: &Arc<AtomicBool>) -> Result<(), Failure> {
    use tokio::signal::unix::{SignalKind, signal};

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (interrupt, terminate) = {
        let _context = runtime.enter();
        (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        )
    };
    let is_interrupted = Arc::clone(is_interrupted);
    std::thread::spawn(move || {
        let (mut interrupt, mut terminate) = (interrupt, terminate);
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        is_interrupted.store(true, Ordering::Relaxed);
    });
    Ok(())
}

fn count(
    arguments: &MonitorArguments,
    events: (Names, EventSets),
    is_interrupted: &AtomicBool,
    format: Option<RecordFormat>,
    penalty: impl Fn(&str) -> Option<f64>,
) -> Result<(), Failure> {
    let is_stdout = arguments.out.as_deref() == Some(Path::new("-"));
    let mut pace = Pace::new(Duration::from_secs_f64(1.0 / arguments.hz));
    let messages = arguments.messages.then_some(&arguments.pid[..]);
    let (messages, gauges) = MessageGauges::start(messages.unwrap_or_default())?;
    let mut monitor = live(arguments, events, gauges, pace.now())?;
    let preamble = Preamble {
        hz: arguments.hz,
        slots: arguments.slots,
        origin_unix_nanos: unix_nanos(pace.now()),
        missing: monitor.missing().iter().map(Into::into).collect(),
    };
    let mut recorder = Recorder::begin(arguments, format, &monitor, &preamble)?;
    let exposition = Exposition::default();
    let server = arguments.prometheus.map(|address| {
        PrometheusServer::start(address, exposition.clone())
            .map_err(|error| Failure::of(&format!("metrics at {address}"), &error))
    });
    let server = server.transpose()?;
    report::missing(&monitor);
    if arguments.sampler == Some(Sampler::Kernel) && !monitor.is_sampled() {
        let only = match arguments {
            it if !it.pid.is_empty() => "of processors, not of processes",
            it if it.hz < 10.0 => "ten times a second and more often",
            _ if monitor.layout().sets().sets().len() > 1 => "of one set (--only)",
            _ => {
                "of a set whose events are counted together, where a processor's clock may be counted"
            }
        };
        tell!("tautline: the kernel takes samples {only}: a thread takes them");
    }
    if let Some(server) = &server {
        tell!("metrics at http://{}/metrics", server.address());
    }
    let by_kernel = monitor
        .is_sampled()
        .then(|| report::KernelSamples::measure(arguments.hz));
    let mut report = report::Report::new(!arguments.quiet && !is_stdout);
    let beginning = pace.restart();
    let end = arguments.length.map(|length| pace.now() + length);
    if monitor.is_sampled() {
        // After the end is known, so that the last of them is not before it.
        pace.set_period(take_after(arguments.length));
    }
    let mut due = pace.now() + FLUSH;
    let result = loop {
        let left = end.map_or(Duration::MAX, |end| end.saturating_since(pace.now()));
        let tick = pace.wait_at_most(left.min(LOOK_UP));
        let now = tick.unwrap_or_else(|| pace.now());
        let is_end = is_interrupted.load(Ordering::Relaxed) || end.is_some_and(|end| now >= end);
        if tick.is_none() && !is_end {
            continue;
        }
        if is_end {
            monitor.finish(now);
        } else {
            monitor.tick(now);
        }
        for notice in monitor.take_notices() {
            notify(notice);
        }
        let is_end = is_end || monitor.is_over();
        if now >= due || is_end {
            due = now + FLUSH;
            report.tell_idle(&mut monitor);
            exposition.publish(&monitor, pace.probe_effect());
            let flushed = recorder.flush(&monitor, now);
            let printed = flushed.and_then(|()| report.lines(&monitor));
            if is_end || printed.is_err() {
                break printed;
            }
        }
    };
    // Before it waits for others, which is no work.
    let mut probe = pace.probe_effect();
    messages.finish()?;
    if monitor.is_sampled() {
        // One that comes late takes out more of them.
        probe.missed = monitor.lost();
    }
    let interrupts = by_kernel.and_then(|samples| samples.share());
    let epilogue = Epilogue {
        probe: Some(probe),
        interrupts,
        lost: 0,
    };
    let written = recorder.finish(&monitor, Some(epilogue));
    result?;
    let said = report::probe(beginning, probe, by_kernel);
    if is_stdout {
        tell!("{said}");
    } else {
        let has_stack = report::summary(&monitor, penalty)?;
        tell_stack(arguments, has_stack);
        say!("{said}")?;
    }
    written?;
    if is_interrupted.load(Ordering::Relaxed) && end.is_some() {
        return Err(Failure::Interrupted);
    }
    Ok(())
}

/// How often to take out samples of the system's, so that the last time is when it ends.
fn take_after(length: Option<Duration>) -> Duration {
    let Some(length) = length.filter(|length| !length.is_zero()) else {
        return TAKE_AFTER;
    };
    length.div_f64(length.div_duration_f64(TAKE_AFTER).ceil())
}

fn names(models: &[PathBuf]) -> Result<Names, Failure> {
    let mut names = Names::of_system(Path::new("/"));
    // The first goes before the others.
    for path in models.iter().rev() {
        let model = ModelFile::read(path)
            .map_err(|error| Failure::of(&path.display().to_string(), &error))?;
        names = names.model(model);
    }
    Ok(names)
}

fn sets(arguments: &MonitorArguments) -> Result<EventSets, Failure> {
    let sets = match &arguments.sets {
        None => EventSets::shipped(),
        Some(path) => EventSets::read(path)
            .map_err(|error| Failure::of(&path.display().to_string(), &error))?,
    };
    if arguments.only.is_empty() {
        return Ok(sets);
    }
    Ok(sets.only(&arguments.only)?)
}

fn live(
    arguments: &MonitorArguments,
    (names, sets): (Names, EventSets),
    gauges: Vec<Gauge>,
    now: Time,
) -> Result<Monitor<Perf>, Failure> {
    let mut config = MonitorConfig::new(sets).names(names).slots(arguments.slots);
    // What messages there were is asked as often as samples are taken.
    let is_asked = arguments.sampler.is_none() && !arguments.messages;
    if is_asked || arguments.sampler == Some(Sampler::Kernel) {
        config = config.period(Duration::from_secs_f64(1.0 / arguments.hz));
    }
    for &process in &arguments.pid {
        config = config.process(process);
    }
    for &cpu in &arguments.cpu {
        config = config.cpu(cpu);
    }
    if arguments.all || (arguments.pid.is_empty() && arguments.cpu.is_empty()) {
        config = config.system();
    }
    for event in &arguments.require {
        config = config.require(event);
    }
    // Without /proc there are none, and sets that use them say so.
    let of_system = Gauge::system(Path::new("/")).unwrap_or_default();
    for gauge in of_system.into_iter().chain(gauges) {
        config = config.gauge(gauge);
    }
    Ok(Monitor::new(config, Perf::new(), now)?)
}

fn format(arguments: &MonitorArguments) -> Result<Option<RecordFormat>, Failure> {
    let Some(path) = &arguments.out else {
        return Ok(None);
    };
    let format = arguments.format.or_else(|| RecordFormat::of(path));
    // What is piped is read by programs.
    let format = format.or_else(|| (path == Path::new("-")).then_some(RecordFormat::JsonLines));
    match format {
        Some(format) => Ok(Some(format)),
        None => Err(Failure::Error(format!(
            "{}: which format is not to be told from the name: --format csv, jsonl or npy",
            path.display()
        ))),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the program says when a recording was made"
)]
pub(crate) fn unix_nanos(since: Time) -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    now.saturating_sub(since.as_nanos())
}

/// What others may take of the processors while penalties are measured. Arbitrary: two threads that compute, on two processors, made loads from the last cache
/// look a third to a half slower.
const MOST_OF_OTHERS: f64 = 0.1;

/// What misses cost here; said on stderr where stdout is a recording.
fn measure(is_stdout: bool) -> Result<Option<Calibration>, Failure> {
    let Some(sizes) = CacheSizes::of_system(Path::new("/")) else {
        tell!("tautline: not calibrated: the system does not say how large its caches are");
        return Ok(None);
    };
    let (pace, others) = (Pace::new(FLUSH), Others::begin());
    let calibration = calibrate(sizes, || pace.now().saturating_since(Time::ZERO));
    let said = report::calibration(sizes, &calibration);
    if is_stdout {
        tell!("{said}");
    } else {
        say!("{said}")?;
    }
    if let Some(taken) = others.share().filter(|taken| *taken > MOST_OF_OTHERS) {
        tell!(
            "tautline: penalties may be far off: others took {:.0} % of all processor time while they were measured",
            100.0 * taken
        );
    }
    Ok(Some(calibration))
}

/// Who calibrates wants the stack. Why counts are missing was said before.
fn tell_stack(arguments: &MonitorArguments, has_stack: bool) {
    if arguments.calibrate && !has_stack {
        tell!(
            "tautline: no stack, which calibration is for: nobody has counted cycles and instructions together"
        );
    }
}

fn list(arguments: &MonitorArguments, names: &Names) -> Result<(), Failure> {
    report::list(&sets(arguments)?, names)?;
    say!("generic events, besides those of caches (L1-dcache-loads, LLC-load-misses, ..):")?;
    say!("  {}", generic_names().collect::<Vec<_>>().join(" "))
}

fn notify(notice: Notice) {
    match notice {
        Notice::Exited(process) => {
            tell!("tautline: process {process} has exited; its samples end");
        }
        Notice::Offline(cpu) => {
            tell!("tautline: processor {cpu} is offline; its samples go on when it is back");
        }
        Notice::Online(cpu) => tell!("tautline: processor {cpu} is back"),
        _ => {}
    }
}

fn replay(
    arguments: &MonitorArguments,
    path: &Path,
    is_interrupted: &AtomicBool,
    format: Option<RecordFormat>,
    penalty: impl Fn(&str) -> Option<f64>,
) -> Result<(), Failure> {
    let name = path.display().to_string();
    let (from, of) = (path.to_owned(), name.clone());
    let recording = unless_over(is_interrupted, move || {
        let file = File::open(from).map_err(|error| Failure::of(&of, &error))?;
        Recording::read(BufReader::new(file)).map_err(|error| Failure::of(&of, &error))
    })?;
    if recording.is_cut() {
        tell!("tautline: {name}: its last line is cut, and left out");
    } else if recording.epilogue().is_none() {
        tell!("tautline: {name}: {NO_END}");
    }
    let (preamble, epilogue) = (recording.preamble().clone(), recording.epilogue());
    let mut monitor = recording.monitor(|mut config| {
        for event in &arguments.require {
            config = config.require(event);
        }
        config.slots(arguments.slots)
    })?;
    report::missing_in_recording(&preamble.missing, &monitor);
    let mut recorder = Recorder::begin(arguments, format, &monitor, &preamble)?;
    let is_whole = loop {
        if is_interrupted.load(Ordering::Relaxed) {
            break false;
        }
        if !monitor.replay_tick() {
            break true;
        }
        if monitor.ticks() % 64 == 0 {
            recorder.flush(&monitor, Time::from_nanos(monotonic_nanos()))?;
        }
    };
    // What had no end, or comes to none, has none when it is read again.
    recorder.finish(&monitor, epilogue.filter(|_| is_whole))?;
    if arguments.out.as_deref() == Some(Path::new("-")) {
        return Ok(());
    }
    let has_stack = report::summary(&monitor, penalty)?;
    tell_stack(arguments, has_stack);
    Ok(())
}

/// Why samples could not be written.
fn failure(error: &OutputError) -> Failure {
    match error {
        OutputError::Write { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => {
            Failure::BrokenPipe
        }
        error => Failure::of("", error),
    }
}

/// Samples to a file, if there is to be one, whatever the disk does.
struct Recorder {
    output: Option<Output>,
    failed: Option<Failed>,
}

/// A try to write that went wrong: when, and how much had been written by then.
#[derive(Clone, Copy)]
struct Failed {
    at: Time,
    written: u64,
}

impl Recorder {
    fn begin<C: Counters>(
        arguments: &MonitorArguments,
        format: Option<RecordFormat>,
        monitor: &Monitor<C>,
        preamble: &Preamble,
    ) -> Result<Self, Failure> {
        let output = match (&arguments.out, format) {
            (Some(path), Some(format)) => {
                Some(Output::create(path, format, monitor.layout(), preamble)?)
            }
            _ => None,
        };
        Ok(Self {
            output,
            failed: None,
        })
    }

    /// Writes what is new. Of a pipe that nobody reads any more nothing is to come.
    fn flush<C: Counters>(&mut self, monitor: &Monitor<C>, now: Time) -> Result<(), Failure> {
        let Some(output) = &mut self.output else {
            return Ok(());
        };
        if self
            .failed
            .is_some_and(|failed| now.saturating_since(failed.at) < RETRY)
        {
            return Ok(());
        }
        match output.flush(monitor.store(), monitor.layout()) {
            Ok(_) => {
                if self.failed.take().is_some() {
                    tell!("tautline: samples are written again");
                }
            }
            Err(error) => {
                let text = match failure(&error) {
                    Failure::Error(text) => text,
                    over => return Err(over),
                };
                let written = output.written();
                match self.failed {
                    None => tell!(
                        "tautline: {text}; counting goes on, the newest {} samples stay in memory, and writing is tried again",
                        monitor.store().slots()
                    ),
                    Some(before) if written > before.written => {
                        tell!("tautline: more was written, but not all: {text}");
                    }
                    Some(_) => {}
                }
                self.failed = Some(Failed { at: now, written });
            }
        }
        Ok(())
    }

    fn finish<C: Counters>(
        self,
        monitor: &Monitor<C>,
        epilogue: Option<Epilogue>,
    ) -> Result<(), Failure> {
        let Some(output) = self.output else {
            return Ok(());
        };
        let flushed = output.finish(monitor.store(), monitor.layout(), epilogue.as_ref());
        let flushed = flushed.map_err(|error| match failure(&error) {
            Failure::Error(text) => {
                Failure::Error(format!("{text}; samples since then are not in the file"))
            }
            other => other,
        })?;
        if flushed.lost > 0 {
            return Err(Failure::Error(format!(
                "{} samples were overwritten before they could be written: --slots keeps more",
                flushed.lost
            )));
        }
        Ok(())
    }
}
