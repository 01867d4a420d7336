//! What Prometheus scrapes: the text of version 0.0.4, and a server that gives it to one who asks at a time.

use core::fmt::Write as _;
use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::counters::Counters;
use super::monitor::Monitor;
use super::pace::ProbeEffect;
use super::reason::Place;

/// The longest request that is read, bytes.
const MAX_REQUEST: usize = 4096;
/// How long one who asks may take, with each reading and writing.
const PATIENCE: Duration = Duration::from_secs(2);
/// Readings of one request: whoever sends a byte at a time is not waited for longer than this times the patience.
const MAX_READS: usize = 8;
/// What the newest text may be old when it is made only for who asks.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text that Prometheus reads, made of a monitor's totals.
///
/// * `tautline_events_total{event,set,..}`: counts, scaled, of the time in which the set was counted;
/// * `tautline_observed_seconds_total{set,..}`: that time. Their ratio of rates is events in a second;
/// * `tautline_counted_ratio{set,..}`: below 1, counts are scaled;
/// * `tautline_metric{metric,set,..}`: of all that was counted so far;
/// * `tautline_gauge{gauge}`: the last value;
/// * `tautline_probe_seconds_total`, `tautline_missing_events`, `tautline_samples_total`.
///
/// Of a process there is the label `pid`, of a processor `cpu`.
#[derive(Clone, Debug, Default)]
pub struct Exposition {
    text: Arc<Mutex<String>>,
    is_wanted: Arc<AtomicBool>,
}

impl Exposition {
    /// Says what is so now. Without anybody who has asked since the last time it does nothing, so it may be called as often as one likes.
    pub fn publish<C: Counters>(&self, monitor: &Monitor<C>, probe: ProbeEffect) {
        let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        if text.is_empty() || self.is_wanted.swap(false, Ordering::Relaxed) {
            text.clear();
            write_text(&mut text, monitor, probe);
        }
    }

    /// What was said last.
    pub fn text(&self) -> String {
        self.is_wanted.store(true, Ordering::Relaxed);
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        text.clone()
    }
}

fn write_text<C: Counters>(text: &mut String, monitor: &Monitor<C>, probe: ProbeEffect) {
    let layout = monitor.layout();
    let set = |index: usize| &layout.sets().sets()[index];
    family(
        text,
        "tautline_events_total",
        "counter",
        "Events, scaled, while their set was counted.",
    );
    for totals in monitor.totals() {
        for (index, event) in set(totals.set).events().iter().enumerate() {
            if let Some(value) = totals.event(index) {
                let labels = format!(
                    "event=\"{event}\",{}",
                    labels(set(totals.set).name(), totals.place)
                );
                let _ = writeln!(text, "tautline_events_total{{{labels}}} {value}");
            }
        }
    }
    family(
        text,
        "tautline_observed_seconds_total",
        "counter",
        "How long a set was counted.",
    );
    for totals in monitor.totals() {
        let labels = labels(set(totals.set).name(), totals.place);
        let seconds = totals.time.as_secs_f64();
        let _ = writeln!(
            text,
            "tautline_observed_seconds_total{{{labels}}} {seconds}"
        );
    }
    family(
        text,
        "tautline_counted_ratio",
        "gauge",
        "The share of the time that a set's events had counters.",
    );
    for totals in monitor.totals() {
        let shares = totals.counts().iter().filter_map(|count| count.share());
        if let Some(share) = shares.reduce(f64::min) {
            let labels = labels(set(totals.set).name(), totals.place);
            let _ = writeln!(text, "tautline_counted_ratio{{{labels}}} {share}");
        }
    }
    family(
        text,
        "tautline_metric",
        "gauge",
        "A set's metric, over all that was counted.",
    );
    for totals in monitor.totals() {
        for (index, metric) in set(totals.set).metrics().iter().enumerate() {
            if let Some(value) = totals.metric(layout, index) {
                let labels = labels(set(totals.set).name(), totals.place);
                let _ = writeln!(
                    text,
                    "tautline_metric{{metric=\"{}\",{labels}}} {value}",
                    metric.name()
                );
            }
        }
    }
    family(
        text,
        "tautline_gauge",
        "gauge",
        "The last value of a software metric.",
    );
    // All sets and places have the same; the set that counted last has the newest.
    if let Some(newest) = monitor.store().get(layout, monitor.store().newest()) {
        for (index, name) in layout.gauges().iter().enumerate() {
            if let Some(value) = newest.gauge(index) {
                let _ = writeln!(text, "tautline_gauge{{gauge=\"{name}\"}} {value}");
            }
        }
    }
    for (name, kind, help, value) in [
        (
            "tautline_probe_seconds_total",
            "counter",
            "Processor time that the monitor itself took.",
            probe.processor.as_secs_f64(),
        ),
        (
            "tautline_missing_events",
            "gauge",
            "Events that were asked for and are not counted.",
            monitor.missing().len() as f64,
        ),
        (
            "tautline_samples_total",
            "counter",
            "Samples taken.",
            monitor.store().end().number() as f64,
        ),
    ] {
        family(text, name, kind, help);
        let _ = writeln!(text, "{name} {value}");
    }
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Names of sets, as all others, need no escapes.
fn labels(set: &str, place: Place) -> String {
    match place {
        Place::Process(process) => format!("set=\"{set}\",pid=\"{process}\""),
        Place::Cpu(cpu) => format!("set=\"{set}\",cpu=\"{cpu}\""),
    }
}

/// Serves an [`Exposition`] over HTTP at `/metrics`, from a thread of its own, until it is dropped.
///
/// Bounded in all that others can make it do: one connection at a time, 4 KiB of a request, seconds of patience, an answer without a body for anything else.
#[derive(Debug)]
pub struct PrometheusServer {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PrometheusServer {
    /// Listens there.
    ///
    /// # Errors
    ///
    /// The address cannot be listened to, or there is no thread to be had.
    pub fn start(address: impl ToSocketAddrs, exposition: Exposition) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = std::thread::Builder::new().name("tautline-metrics".to_owned());
        let thread = thread.spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                match stream {
                    // Whoever leaves in between has had what there was.
                    Ok(stream) => drop(answer(stream, &exposition)),
                    // Too many open files, most often: not at full speed.
                    Err(_) => std::thread::sleep(Duration::from_millis(100)),
                }
            }
        })?;
        Ok(Self {
            address,
            is_over,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for PrometheusServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // It waits for a connection: here is one.
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        let is_woken = TcpStream::connect_timeout(&address, PATIENCE).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| is_woken) {
            // It has nothing that could panic.
            let _ = thread.join();
        }
    }
}

fn answer(mut stream: TcpStream, exposition: &Exposition) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::with_capacity(MAX_REQUEST);
    let mut buffer = [0; 1024];
    for _ in 0..MAX_READS {
        let read = stream.read(&mut buffer)?;
        request.extend_from_slice(&buffer[..read]);
        let is_whole = request.windows(4).any(|window| window == b"\r\n\r\n");
        if read == 0 || is_whole || request.len() > MAX_REQUEST {
            break;
        }
    }
    let (status, body) = respond(&request, exposition);
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    if !request.starts_with(b"HEAD ") {
        stream.write_all(body.as_bytes())?;
    }
    stream.flush()?;
    // What was sent beyond what was read would make the system take the answer back.
    stream.shutdown(std::net::Shutdown::Write)?;
    for _ in 0..MAX_READS {
        if stream.read(&mut buffer)? == 0 {
            break;
        }
    }
    Ok(())
}

fn respond(request: &[u8], exposition: &Exposition) -> (&'static str, String) {
    let line = request
        .split(|byte| *byte == b'\r')
        .next()
        .unwrap_or_default();
    let mut words = core::str::from_utf8(line).unwrap_or_default().split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let path = target.map(|target| target.split('?').next().unwrap_or_default());
    match (method, path, version) {
        _ if request.len() > MAX_REQUEST => ("431 Request Header Fields Too Large", String::new()),
        (Some("GET" | "HEAD"), Some("/metrics"), Some(version))
            if version.starts_with("HTTP/1.") =>
        {
            ("200 OK", exposition.text())
        }
        (Some("GET" | "HEAD"), Some(_), Some(_)) => ("404 Not Found", String::new()),
        (Some(_), Some(_), Some(_)) => ("405 Method Not Allowed", String::new()),
        _ => ("400 Bad Request", String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::MonitorConfig;
    use super::super::fake::Fake;
    use super::super::gauge::Gauge;
    use super::super::sets::EventSets;
    use super::*;
    use crate::units::Time;

    fn exposition() -> Exposition {
        let sets = "[[sets]]\nname = 'cpi'\nevents = ['cycles', 'instructions', 'r1:x']\nmetrics = { cpi = 'cycles / instructions' }";
        let (gauge, handle) = Gauge::supplied("load");
        handle.set(0.5);
        let config = MonitorConfig::new(EventSets::parse(sets).unwrap())
            .cpu(1)
            .process(7)
            .gauge(gauge);
        let mut monitor = Monitor::new(config, Fake::with_counters(2), Time::ZERO).unwrap();
        monitor.counters_mut().run(1000);
        monitor.tick(Time::from_nanos(2_000_000_000));
        let probe = ProbeEffect {
            processor: Duration::from_millis(250),
            working: Duration::from_millis(100),
            wall: Duration::from_secs(2),
            missed: 0,
        };
        let exposition = Exposition::default();
        exposition.publish(&monitor, probe);
        exposition
    }

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let text = exposition().text();
        for line in [
            "# TYPE tautline_events_total counter",
            "tautline_events_total{event=\"cycles\",set=\"cpi\",cpu=\"1\"} 2000",
            "tautline_events_total{event=\"instructions\",set=\"cpi\",pid=\"7\"} 3000",
            "tautline_observed_seconds_total{set=\"cpi\",cpu=\"1\"} 2",
            "tautline_counted_ratio{set=\"cpi\",cpu=\"1\"} 1",
            "tautline_metric{metric=\"cpi\",set=\"cpi\",cpu=\"1\"} 0.6666666666666666",
            "tautline_gauge{gauge=\"load\"} 0.5",
            "tautline_probe_seconds_total 0.25",
            "tautline_missing_events 1",
            "tautline_samples_total 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        // Each family once, all its samples after its type.
        let mut types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let mut seen = std::collections::HashSet::new();
        assert!(types.all(|line| seen.insert(line.to_owned())));
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        for line in samples {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
            let name = name.split('{').next().unwrap();
            assert!(seen.iter().any(|family| family.starts_with(name)), "{line}");
        }
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn it_is_served_at_its_path_and_nothing_else_is() {
        let exposition = exposition();
        let server = PrometheusServer::start("127.0.0.1:0", exposition.clone()).unwrap();
        let address = server.address();
        let answer = ask(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("version=0.0.4"));
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
        assert_eq!(body, exposition.text());
        for (request, status) in [
            (&b"GET /metrics?x=1 HTTP/1.0\r\n\r\n"[..], "200"),
            (b"GET / HTTP/1.1\r\n\r\n", "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"\xff\xfe\r\n\r\n", "400"),
            (b"\r\n\r\n", "400"),
        ] {
            let answer = ask(address, request);
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{answer}"
            );
        }
        let head = ask(address, b"HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.ends_with("\r\n\r\n") && head.contains(" 200 "));
        let long = [
            b"GET /metrics HTTP/1.1\r\n".as_slice(),
            &[b'x'; 2 * MAX_REQUEST],
        ]
        .concat();
        assert!(ask(address, &long).starts_with("HTTP/1.1 431 "));
        drop(server);
        assert!(TcpListener::bind(address).is_ok());
    }
}
