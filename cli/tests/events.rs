//! `events` and `top` beside a running echo.
#![cfg(any(target_os = "linux", target_os = "android"))]

mod support;

#[cfg(target_os = "linux")]
use std::fs::{File, OpenOptions};
#[cfg(target_os = "linux")]
use std::io::Read;
use std::io::{BufRead, BufReader};
#[cfg(target_os = "linux")]
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Output};

#[cfg(target_os = "linux")]
use support::tautline;
use support::{Echo, deadline, finish, json_lines, run, start, text};
use tautline::eventlog::{EventKind, EventLog, EventLogConfig, Route, RowFormat};
use tautline::session::StreamConfig;
use tautline::transport::{Node, NodeConfig, events};

/// Messages at a steady rate until it is dropped.
struct Traffic {
    child: Child,
    _directory: tempfile::TempDir,
}

impl Traffic {
    fn to(echo: &Echo) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("orders.txt");
        let lines: Vec<_> = (0..100)
            .map(|number| format!("order {number}: three of article {}", number * 7))
            .collect();
        std::fs::write(&file, lines.join("\n")).expect("room");
        let arguments = [
            "send",
            "--no-guard",
            "--rate",
            "500",
            "--repeat",
            "1000000",
            "--connect",
            &echo.address,
            "--corpus",
            file.to_str().expect("text"),
        ];
        Self {
            child: start(&arguments),
            _directory: directory,
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the program again until what it prints is of some traffic, which may take a while to begin.
fn until<T>(arguments: &[&str], found: impl Fn(&str) -> Option<T>) -> T {
    let end = deadline();
    loop {
        let output = run(arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let out = text(&output.stdout);
        if let Some(found) = found(&out) {
            return found;
        }
        assert!(end.elapsed().is_zero(), "nothing came: {out}");
    }
}

#[test]
fn a_running_process_is_analysed_and_left_as_it_was() {
    let echo = Echo::start_with(&["--no-guard", "--event-log"]);
    let _traffic = Traffic::to(&echo);
    let pid = echo.child.id().to_string();
    let of = |command: &'static str, more: &[&'static str]| {
        let begin = ["events", command, "--pid", &pid];
        [&begin[..], more]
            .concat()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let analyse = of("analyse", &["--seconds", "0.5", "--json"]);
    let analyse: Vec<_> = analyse.iter().map(String::as_str).collect();
    let analysis = until(&analyse, |out| {
        let found: serde_json::Value = serde_json::from_str(out).expect("JSON");
        let acked = found["stages"]["queued to acked"]["messages"].as_u64();
        acked.is_some_and(|messages| messages > 10).then_some(found)
    });
    for stage in [
        "queued to encoded",
        "encoded to written",
        "written to acked",
        "received to decoded",
        "decoded to delivered",
        "received to delivered",
    ] {
        let times = &analysis["stages"][stage];
        assert!(times["messages"].as_u64() > Some(10), "{stage}: {analysis}");
        assert!(times["p50_ns"].as_u64() <= times["p99_ns"].as_u64());
    }
    assert_eq!(analysis["rows_lost"], 0);
    assert_eq!(analysis["ring_bytes"], 512 << 10);
    let streams = analysis["streams"].as_object().expect("an object");
    assert!(!streams.is_empty());
    assert!(
        streams
            .values()
            .all(|stream| stream["received"].as_u64() > Some(0))
    );

    // It is off again: whoever looks and switches nothing sees nothing.
    let passive = of("dump", &["--seconds", "0.3", "--passive", "--json"]);
    let passive: Vec<_> = passive.iter().map(String::as_str).collect();
    assert!(json_lines(&run(&passive)).is_empty());

    let dump = of("dump", &["--seconds", "0.5", "--every", "2", "--json"]);
    let dump: Vec<_> = dump.iter().map(String::as_str).collect();
    until(&dump, |out| {
        let rows: Vec<serde_json::Value> = out
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert!(
            rows.iter()
                .filter_map(|row| row["at_ns"].as_u64())
                .is_sorted()
        );
        let has = |event| rows.iter().any(|row| row["event"] == event);
        let all = has("message.queued") && has("block.acked") && has("block.decided");
        all.then_some(())
    });
    // Nor does one that is asked to end leave them on.
    let endless: Vec<_> = of("dump", &["--json"]);
    let endless: Vec<_> = endless.iter().map(String::as_str).collect();
    let mut viewer = start(&endless);
    let mut line = String::new();
    let mut out = BufReader::new(viewer.stdout.take().expect("piped"));
    out.read_line(&mut line).expect("a row");
    let asked = Command::new("kill").arg(viewer.id().to_string()).status();
    assert!(asked.expect("a program of every system").success());
    // It goes on as long as somebody reads.
    std::io::copy(&mut out, &mut std::io::sink()).expect("readable");
    assert!(finish(viewer).status.success());
    assert!(json_lines(&run(&passive)).is_empty());

    let text_of = of("analyse", &["--seconds", "0.5"]);
    let text_of: Vec<_> = text_of.iter().map(String::as_str).collect();
    until(&text_of, |out| {
        // Blocks that were written have no amount, and stand in a table all the same.
        let accesses = out.split_once("accessed by")?.1;
        let is_whole = accesses.contains("block.written") && out.contains("lose nothing");
        (out.contains("queued to acked") && is_whole).then_some(())
    });
}

/// A viewer that has shown a row, and what it shows from there on.
fn viewer(pid: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut viewer = start(&["events", "dump", "--pid", pid, "--json"]);
    let mut out = BufReader::new(viewer.stdout.take().expect("piped"));
    out.read_line(&mut String::new()).expect("a row");
    (viewer, out)
}

#[test]
fn the_last_of_several_viewers_leaves_a_process_as_it_was() {
    let echo = Echo::start_with(&["--no-guard", "--event-log"]);
    let _traffic = Traffic::to(&echo);
    let pid = echo.child.id().to_string();
    let passive = [
        "events",
        "dump",
        "--pid",
        &pid,
        "--seconds",
        "0.3",
        "--passive",
        "--json",
    ];
    let is_on = || !json_lines(&run(&passive)).is_empty();
    let end = |viewer: Child, mut out: BufReader<_>| {
        let asked = Command::new("kill").arg(viewer.id().to_string()).status();
        assert!(asked.expect("a program of every system").success());
        std::io::copy(&mut out, &mut std::io::sink()).expect("readable");
        assert!(finish(viewer).status.success());
    };
    let (first, first_out) = viewer(&pid);
    let (second, second_out) = viewer(&pid);
    end(first, first_out);
    assert!(is_on(), "there is another");
    end(second, second_out);
    assert!(!is_on(), "nobody is left");

    let (mut killed, _out) = viewer(&pid);
    killed.kill().expect("a child");
    killed.wait().expect("a child");
    assert!(is_on(), "it could put nothing back");
    let (next, next_out) = viewer(&pid);
    end(next, next_out);
    assert!(!is_on(), "the next one has");
}

#[test]
fn top_shows_a_line_a_period_where_there_is_no_terminal() {
    let echo = Echo::start_with(&["--no-guard", "--event-log"]);
    let _traffic = Traffic::to(&echo);
    let pid = echo.child.id().to_string();
    let top = ["top", "--pid", &pid, "--seconds", "1", "--period", "0.2"];
    until(&top, |out| {
        let whole = |line: &str| line.contains("queued to acked p50") && line.contains("lost 0");
        out.lines().any(whole).then_some(())
    });
}

#[test]
fn an_ending_process_ends_its_viewers() {
    let mut echo = Echo::start_with(&["--no-guard", "--event-log"]);
    let pid = echo.child.id().to_string();
    let viewer = start(&["top", "--pid", &pid, "--period", "0.1"]);
    // Until it has looked once.
    std::thread::sleep(std::time::Duration::from_millis(300));
    echo.child.kill().expect("a child");
    echo.child.wait().expect("a child");
    let output = finish(viewer);
    assert!(output.status.success() || text(&output.stderr).contains("No such"));
}

/// A program that is not of its terminal's session hears nothing when that is closed.
#[cfg(target_os = "linux")]
#[test]
fn a_view_ends_with_its_terminal() {
    let echo = Echo::start_with(&["--no-guard", "--event-log"]);
    let pid = echo.child.id().to_string();
    let top = ["top", "--pid", &pid, "--period", "0.1"];
    for arguments in [&top[..], &["demo", "--for", "60"]] {
        let (mut master, program) = terminal();
        let copy = || program.try_clone().expect("a terminal");
        let mut command = tautline(arguments);
        command.stdin(copy()).stdout(copy()).stderr(copy());
        let viewer = command.spawn().expect("it starts");
        // Of which the program alone has the other end.
        drop((command, program));
        // Until it draws.
        let mut drawn = [0; 2000];
        master.read_exact(&mut drawn).expect("a picture");
        drop(master);
        finish(viewer);
    }
    // And what it had switched on is off.
    let passive = ["events", "dump", "--pid", &pid, "--passive", "--seconds"];
    let rows = run(&[&passive[..], &["0.5"]].concat());
    assert_eq!(text(&rows.stdout), "");
}

/// A terminal: the end that shows it, and the one that programs have.
#[cfg(target_os = "linux")]
fn terminal() -> (File, File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{Winsize, tcsetwinsize};

    let master =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&master).expect("ours");
    unlockpt(&master).expect("ours");
    let size = Winsize {
        ws_row: 40,
        ws_col: 120,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&master, size).expect("a size");
    let name = ptsname(&master, Vec::new()).expect("a name");
    let program = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY)
        .open(name.to_str().expect("a path"))
        .expect("its other end");
    (master.into(), program)
}

#[test]
fn the_monitor_counts_messages_and_has_their_times() {
    let echo = Echo::start_with(&["--no-guard", "--event-log"]);
    let _traffic = Traffic::to(&echo);
    let pid = echo.child.id().to_string();
    let begin = ["monitor", "--pid", &pid, "--messages", "--only", "system"];
    let more = [
        "--hz", "20", "--for", "1", "--out", "-", "--format", "jsonl",
    ];
    let column = |out: &str, name: &str| -> Vec<f64> {
        let lines = out
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let values = lines.filter_map(|line: serde_json::Value| line["gauges"][name].as_f64());
        values.collect()
    };
    // It may take a while until traffic comes.
    until(&[&begin[..], &more].concat(), |out| {
        let received: f64 = column(out, "messages-received").iter().sum();
        let sent: f64 = column(out, "messages-sent").iter().sum();
        let times = column(out, "message-seconds");
        let is_one = |seconds: &f64| (0.0..5.0).contains(seconds) && *seconds > 0.0;
        (received > 100.0 && sent > 100.0 && times.iter().any(is_one)).then(|| {
            assert!(
                received < 2000.0 && sent < 2000.0,
                "{received} {sent}: of 500 a second"
            );
            assert!(times.iter().all(is_one), "{times:?}");
            assert!(column(out, "round-trip-seconds").iter().all(is_one));
        })
    });
}

#[test]
fn what_has_no_event_log_is_said() {
    let echo = Echo::start_with(&["--no-guard"]);
    let pid = echo.child.id().to_string();
    let output = run(&["events", "analyse", "--pid", &pid, "--seconds", "0.1"]);
    assert!(!output.status.success());
    assert!(
        text(&output.stderr).contains("no event log"),
        "{}",
        text(&output.stderr)
    );
    let output = run(&["events", "dump", "/nowhere/at/all"]);
    assert!(!output.status.success());
    let output = run(&["monitor", "--pid", &pid, "--messages", "--for", "0.1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no event log"));
}

/// Messages that the log of [`recorded`] has.
const MESSAGES: u64 = 50;

/// A log in a file that two nodes of this process have recorded everything in; how many rows it has.
fn recorded(path: &Path) -> usize {
    let log = EventLog::create(path, &events::config(1 << 16).writers(4)).expect("room");
    for event in events::all() {
        let route = Some(Route::to(events::LOG));
        log.route(event, None, route).expect("known");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let node = || Node::new(NodeConfig::default().guard(None).event_log(log.clone()));
        let (left, right) = (node().expect("a node"), node().expect("a node"));
        let any = "127.0.0.1:0".parse().expect("an address");
        let listener = right.listen(&any).await.expect("a listener");
        let address = listener.local_address().expect("an address");
        let (client, server) = tokio::join!(left.connect(&address), listener.accept());
        let (client, server) = (client.expect("a connection"), server.expect("a connection"));
        let sent = client.open("orders", StreamConfig::default()).await;
        let sent = sent.expect("a stream");
        let received = server.accept().await.expect("open").expect("a stream");
        for number in 0..MESSAGES {
            sent.send(format!("order {number}").into())
                .await
                .expect("room");
            received.recv().await.expect("open").expect("a message");
        }
        while client.stats().await.expect("open").frames_unacked > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let (closed, _) = tokio::join!(client.close(), server.close());
        closed.expect("a clean close");
    });
    drop(runtime);
    let mut rows = Vec::new();
    let mut reader = log.reader();
    reader.pass(&mut rows).expect("of this process");
    assert_eq!(reader.stats().lost, 0);
    rows.len()
}

#[test]
fn a_log_in_a_file_is_dumped_and_analysed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("events");
    let rows = recorded(&path);
    let file = path.to_str().expect("text");
    let dumped = run(&["events", "dump", file, "--json"]);
    assert_eq!(dumped.status.code(), Some(0), "{}", text(&dumped.stderr));
    let lines = json_lines(&dumped);
    assert_eq!(lines.len(), rows);
    assert!(
        lines
            .iter()
            .filter_map(|row| row["at_ns"].as_u64())
            .is_sorted()
    );
    let plain = run(&["events", "dump", file]);
    assert_eq!(text(&plain.stdout).lines().count(), rows);
    let analysed = run(&["events", "analyse", file, "--json"]);
    assert_eq!(
        analysed.status.code(),
        Some(0),
        "{}",
        text(&analysed.stderr)
    );
    let analysis: serde_json::Value = serde_json::from_str(&text(&analysed.stdout)).expect("JSON");
    for stage in ["queued to acked", "received to delivered"] {
        let messages = &analysis["stages"][stage]["messages"];
        assert_eq!(messages.as_u64(), Some(MESSAGES), "{stage}: {analysis}");
    }
    assert_eq!(analysis["rows_lost"], 0);
    let analysed = run(&["events", "analyse", file]);
    let out = text(&analysed.stdout);
    assert!(out.contains("queued to acked"), "{out}");
    // What rows say together, as their events' kinds have it.
    let accounts = &analysis["accounts"];
    let sum_of = |event: &str, field: &str| -> u64 {
        let rows = lines.iter().filter(|row| row["event"] == event);
        rows.filter_map(|row| row[field].as_u64()).sum()
    };
    let of = |event: &str, domain: &str, field: &str| accounts[event][domain][field].as_u64();
    let payload = sum_of("message.queued", "bytes");
    assert_eq!(
        of("message.queued", "orders", "charged"),
        Some(payload),
        "{accounts}"
    );
    let domains = accounts["block.encoded"].as_object().expect("an object");
    let charged = domains
        .values()
        .filter_map(|account| account["charged"].as_u64());
    assert_eq!(charged.sum::<u64>(), sum_of("block.encoded", "encode_ns"));
    let acked = accounts["block.acked"].as_object().expect("an object");
    let times = acked
        .values()
        .filter_map(|account| account["times"].as_u64());
    assert_eq!(times.sum::<u64>(), sum_of("block.acked", "blocks"));
    // A gauge is what it was last, and no sum.
    for (domain, account) in accounts["path.measured"].as_object().expect("an object") {
        let of_domain = |row: &&serde_json::Value| {
            row["event"] == "path.measured" && row["domain"] == domain.as_str()
        };
        let samples = lines.iter().filter(of_domain);
        let samples: Vec<_> = samples
            .map(|row| row["rtt_ns"].as_u64().unwrap_or(0))
            .collect();
        assert_eq!(account["rows"], samples.len());
        assert_eq!(account["latest"].as_u64(), samples.last().copied());
        assert!(account.get("charged").is_none(), "{account}");
    }
    let line = out
        .lines()
        .find(|line| line.starts_with("message.queued"))
        .expect("a line");
    assert!(line.contains("orders"), "{line}");
}

/// Of one thread only the last rows are there, so that what another's say of the time before says nothing of rates.
#[test]
fn of_a_file_whose_rows_were_overwritten_only_the_time_since_counts() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("events");
    let log = EventLog::create(&path, &events::config(1 << 10).writers(2)).expect("room");
    let queued = events::MESSAGE_QUEUED;
    let route = Some(Route::to(events::LOG));
    log.route(queued, None, route).expect("known");
    let domain = log.domain_named("orders").expect("room");
    let [mut few, mut many] = ["few", "many"].map(|name| log.writer(name).expect("room"));
    let one = 1;
    for number in 0..5 {
        few.record_with(queued, domain, 10, domain, [0, number << 20 | one, 0]);
    }
    // Sixteen rows have room, of which one may always be another's next.
    for number in 0..100 {
        many.record_with(queued, domain, 10, domain, [4, number << 20 | one, 0]);
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
    let file = path.to_str().expect("text");
    let analysed = run(&["events", "analyse", file, "--json"]);
    let analysis: serde_json::Value = serde_json::from_str(&text(&analysed.stdout)).expect("JSON");
    assert_eq!(analysis["rows_lost"], 85, "{analysis}");
    assert_eq!(analysis["rows_left_out"], 5, "{analysis}");
    assert_eq!(analysis["events"]["message.queued"], 15, "{analysis}");
    let said = text(&run(&["events", "analyse", file]).stdout);
    assert!(said.starts_with("15 rows of 0.0"), "{said}");
    assert!(
        said.contains("85 rows lost")
            && said.contains("5 rows of the time before that are left out"),
        "{said}"
    );
    let dumped = run(&["events", "dump", file]);
    assert_eq!(text(&dumped.stdout).lines().count(), 20);
    assert!(text(&dumped.stderr).contains("85 rows were overwritten"));
}

/// The program has said, in one line, what it could not do with which file, and has not panicked.
fn refused(file: &Path, output: &Output) -> String {
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    let name = file.to_str().expect("text");
    assert!(err.starts_with(&format!("tautline: {name}")), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    err
}

fn both(file: &Path) -> [Output; 2] {
    let name = file.to_str().expect("text");
    ["dump", "analyse"].map(|command| run(&["events", command, name]))
}

#[test]
fn a_log_that_is_cut_off_is_refused_with_both_lengths() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("events");
    recorded(&path);
    let whole = std::fs::read(&path).expect("a file");
    let cut = directory.path().join("cut");
    for len in [4096, whole.len() / 2, whole.len() - 8, whole.len() - 1] {
        std::fs::write(&cut, &whole[..len]).expect("room");
        for output in both(&cut) {
            let err = refused(&cut, &output);
            assert!(
                err.contains(&(len / 8 * 8).to_string()) && err.contains(&whole.len().to_string()),
                "{len} of {}: {err}",
                whole.len()
            );
        }
    }
    // Of its beginning there is not enough to say how long it was.
    for len in [0, 7, 8, 100] {
        std::fs::write(&cut, &whole[..len]).expect("room");
        for output in both(&cut) {
            refused(&cut, &output);
        }
    }
}

#[test]
fn what_is_no_log_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("garbage");
    let mut noise = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        noise = noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (noise >> 56) as u8
    })
    .take(1 << 20)
    .collect();
    for content in [
        &noise[..],
        &[0; 1 << 13],
        &[0xFF; 1 << 13],
        b"order 1\norder 2\n",
    ] {
        std::fs::write(&path, content).expect("room");
        for output in both(&path) {
            let err = refused(&path, &output);
            assert!(err.contains("no log area"), "{err}");
        }
    }
    for (path, word) in [
        (directory.path(), "directory"),
        (&*directory.path().join("nothing"), "No such file"),
        (Path::new("/dev/null"), "no log area"),
    ] {
        for output in both(path) {
            let err = refused(path, &output);
            assert!(err.contains(word), "{err}");
        }
    }
    // A log, but of somebody else's events.
    let config = EventLogConfig::default()
        .event("theirs", EventKind::Access)
        .log("all", 4096, RowFormat::default());
    let _log = EventLog::create(&path, &config).expect("room");
    for output in both(&path) {
        let err = refused(&path, &output);
        assert!(err.contains("not of the transport's events"), "{err}");
    }
}

/// Whatever words of it have changed, it is read or refused.
#[test]
fn a_damaged_log_is_read_or_refused_and_nothing_panics() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("events");
    recorded(&path);
    let whole = std::fs::read(&path).expect("a file");
    let damaged = directory.path().join("damaged");
    let mut refusals = 0;
    for number in 0..40 {
        let mut bytes = whole.clone();
        // Where settings and names are, and in the rows behind them.
        let at = if number < 30 {
            8 * number
        } else {
            whole.len() / 40 * number
        };
        for byte in &mut bytes[at..at + 8] {
            *byte ^= [0xFF, 0x80, 0x01][number % 3];
        }
        std::fs::write(&damaged, &bytes).expect("room");
        for output in both(&damaged) {
            if output.status.success() {
                continue;
            }
            refused(&damaged, &output);
            refusals += 1;
        }
    }
    assert!(refusals > 0, "the first word says that it is a log");
}
