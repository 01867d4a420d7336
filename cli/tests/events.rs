//! `events` and `top` beside a running echo.
#![cfg(any(target_os = "linux", target_os = "android"))]

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command};

use support::{Echo, deadline, finish, json_lines, run, start, text};

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
        (out.contains("queued to acked") && out.contains("lose nothing")).then_some(())
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
}
