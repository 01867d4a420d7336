//! `tautline monitor`, as a user runs it.
#![cfg(target_os = "linux")]

mod support;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::fs::OFlags;

use crate::support::{finish, run, start, tautline, text, wait_until};

const SETS: &str = "
[[sets]]
name = 'kernel'
events = ['task-clock', 'page-faults', 'context-switches']
metrics = { faults-per-second = 'page-faults / seconds' }

[[sets]]
name = 'hardware'
events = ['cycles', 'instructions', 'no-such-event']
metrics = { cpi = 'cycles / instructions' }
";

fn sets(folder: &Path) -> PathBuf {
    let path = folder.join("sets.toml");
    std::fs::write(&path, SETS).expect("room");
    path
}

fn as_text(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn own_pid() -> String {
    std::process::id().to_string()
}

#[test]
fn what_the_machine_lacks_is_named_and_the_exit_code_is_0() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sets = sets(folder.path());
    let output = run(&[
        "monitor",
        "--sets",
        as_text(&sets),
        "--pid",
        &own_pid(),
        "--for",
        "0.3",
    ]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{err}");
    assert!(
        err.contains("no-such-event: no event has this name"),
        "{err}"
    );
    assert!(err.contains("all else is counted"), "{err}");
    assert!(out.contains("% of one processor"), "{out}");
    // Page faults of a process are counted, unless the reason is said.
    assert!(
        out.contains("page-faults") || err.contains("page-faults"),
        "{out}{err}"
    );
}

#[test]
fn what_is_required_and_missing_fails() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sets = sets(folder.path());
    for (more, word) in [
        (["--require", "no-such-event"], "no event has this name"),
        (["--require", "LLC-loads"], "no set has it"),
        (["--pid", "4194304"], "process 4194304 cannot be watched"),
        (["--cpu", "100000"], "cpu 100000 cannot be watched"),
        (
            ["--only", "nothing"],
            "no set \"nothing\"; there are kernel, hardware",
        ),
        (["--model", "/nowhere/m.toml"], "/nowhere/m.toml"),
        (["--out", "/nowhere/a.csv"], "/nowhere/a.csv"),
        (["--out", "samples"], "--format"),
        (["--slots", "0"], "0 slots"),
        (
            ["--prometheus", "203.0.113.1:1"],
            "metrics at 203.0.113.1:1",
        ),
    ] {
        let own = own_pid();
        let mut arguments = vec!["monitor", "--sets", as_text(&sets), "--for", "0.1"];
        if more[0] != "--pid" {
            arguments.extend(["--pid", &own]);
        }
        arguments.extend(more);
        let output = run(&arguments);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{more:?} {err}");
        assert!(err.contains(word), "{more:?} {err}");
    }
}

/// A process that always has something to be counted.
struct Busy(std::process::Child);

impl Busy {
    fn start() -> Self {
        let busy = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn();
        Self(busy.expect("a shell"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the machine lacks decides what is printed, but not whether that is right.
#[test]
fn penalties_are_calibrated_and_the_stack_is_drawn_or_it_is_said_what_is_missing() {
    let busy = Busy::start();
    let pid = busy.0.id().to_string();
    let begin = [
        "monitor",
        "--calibrate",
        "--only",
        "cpi",
        "--pid",
        &pid,
        "--for",
        "0.5",
    ];
    let output = run(&begin);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(
        output.status.code(),
        Some(0),
        "nobody has required it: {err}"
    );
    let penalties = out
        .lines()
        .find_map(|line| line.strip_prefix("penalties in cycles: "));
    if let Some(penalties) = penalties {
        let (penalties, said) = penalties.split_once(';').expect("what they are");
        assert!(said.contains("without counters"), "{out}");
        for (part, name) in penalties.split(", ").zip(["l2", "llc", "memory", "branch"]) {
            let cycles = part.strip_prefix(name).expect("its name").trim();
            let cycles: f64 = cycles.parse().expect("a number");
            assert!(cycles.is_finite() && cycles >= 0.0, "{penalties}");
        }
        // Of few processors who is busy takes enough to be said.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let said = err.contains("penalties may be far off: others took");
        assert!(processors > 4 || said, "{err}");
    } else {
        assert!(
            err.contains("not calibrated: the system does not say"),
            "{err}"
        );
    }
    let has_stack = out.contains("cycles an instruction");
    if has_stack {
        assert!(
            out.contains("base and other") && !err.contains("no stack"),
            "{out}{err}"
        );
    } else {
        assert!(err.contains("no stack, which calibration is for"), "{err}");
        let missing = err
            .lines()
            .find_map(|line| line.strip_prefix("tautline: not counted: "));
        let (names, why) = missing
            .and_then(|it| it.split_once(": "))
            .expect("what, and why");
        assert!(names.contains("cycles") && !why.is_empty(), "{err}");
    }

    // The same, by who cannot do without.
    let required = run(&[&begin[..], &["--require", "cycles"]].concat());
    let err = text(&required.stderr);
    assert_eq!(required.status.code(), Some(i32::from(!has_stack)), "{err}");
    assert_eq!(
        err.contains("required, but missing: cycles"),
        !has_stack,
        "{err}"
    );
}

#[test]
fn what_calibration_says_is_not_in_a_recording_on_stdout() {
    let own = own_pid();
    let begin = ["monitor", "--calibrate", "--only", "system", "--pid", &own];
    let output = run(&[&begin[..], &["--for", "0.2", "--out", "-"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!support::json_lines(&output).is_empty());
    assert!(
        text(&output.stderr).contains("calibrated") || text(&output.stderr).contains("penalties"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_hostile_file_of_sets_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("bad.toml");
    for (content, word) in [
        (
            "[[sets]]\nname = 'a'\nevents = ['x']\nmetrics = { m = 'x /' }",
            "metric m",
        ),
        ("{\"sets\": [", "line 1"),
        ("\u{0}", ""),
    ] {
        std::fs::write(&path, content).expect("room");
        let output = run(&["monitor", "--sets", as_text(&path), "--for", "0.1"]);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains("bad.toml") && err.contains(word), "{err}");
    }
}

#[test]
fn sets_that_never_come_are_not_waited_for_once_it_is_to_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    for option in ["--sets", "--model"] {
        let mut child = start(&["monitor", option, as_text(&pipe)]);
        // Once there is who reads, it can be written to.
        let mut writer = None;
        wait_until("it reads", || {
            let flags = OFlags::NONBLOCK.bits().cast_signed();
            let opened = File::options().write(true).custom_flags(flags).open(&pipe);
            writer = opened.ok();
            writer.is_some()
        });
        let terminated = Command::new("kill").arg(child.id().to_string()).status();
        assert!(terminated.expect("kill").success());
        wait_until("it ends", || child.try_wait().expect("a child").is_some());
        drop(writer);
    }
}

#[test]
fn the_kernel_takes_samples_or_it_is_said_why_not() {
    let arguments = ["monitor", "--only", "system", "--cpu", "0"];
    let kernel = ["--sampler", "kernel"];
    let seldom = run(&[&arguments[..], &kernel, &["--hz", "4", "--for", "0.3"]].concat());
    let said = text(&seldom.stderr);
    // Who may not count has nothing to wait for.
    assert!(said.contains("ten times a second"), "{said}");
    let pid = ["monitor", "--only", "system", "--pid", &own_pid()];
    let process = run(&[&pid[..], &kernel, &["--for", "0.3"]].concat());
    let said = text(&process.stderr);
    assert!(said.contains("not of processes: a thread"), "{said}");
    let often = ["--hz", "500", "--for", "0.5"];
    let by_kernel = run(&[&arguments[..], &kernel, &often].concat());
    let is_by_kernel = |output: &Output| {
        let printed = text(&output.stdout);
        printed.contains("by the kernel") || printed.contains("the kernel's interrupts")
    };
    let said = text(&by_kernel.stderr);
    assert!(
        is_by_kernel(&by_kernel) != said.contains(": a thread takes them"),
        "{}{said}",
        text(&by_kernel.stdout)
    );
    // Without a word it does where it can.
    let by_itself = run(&[&arguments[..], &often].concat());
    assert_eq!(is_by_kernel(&by_itself), is_by_kernel(&by_kernel));
    let by_thread = run(&[&arguments[..], &["--sampler", "thread"], &often].concat());
    assert!(!is_by_kernel(&by_thread) && by_thread.status.success());
    let of_process = run(&["monitor", "--pid", &own_pid(), "--for", "0.2"]);
    assert!(!is_by_kernel(&of_process));
}

#[test]
fn a_recording_is_written_in_each_format_and_replayed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sets = sets(folder.path());
    for name in ["a.csv", "a.jsonl", "a.npy"] {
        let out = folder.path().join(name);
        let output = run(&[
            "monitor",
            "--sets",
            as_text(&sets),
            "--pid",
            &own_pid(),
            "--for",
            "0.5",
            "--out",
            as_text(&out),
            "--quiet",
        ]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let bytes = std::fs::read(&out).expect("the recording");
        let content = String::from_utf8_lossy(&bytes).into_owned();
        match name {
            "a.csv" => {
                let rows = content.lines().filter(|line| !line.starts_with('#'));
                assert!(rows.clone().count() > 10, "{content}");
                let columns = |line: &str| line.split(',').count();
                let first = columns(rows.clone().next().expect("names"));
                assert!(rows.clone().all(|row| columns(row) == first), "{content}");
                assert!(content.contains("% of one processor"), "{content}");
            }
            "a.jsonl" => {
                let lines: Vec<serde_json::Value> = content
                    .lines()
                    .map(|line| serde_json::from_str(line).expect("JSON"))
                    .collect();
                assert!(lines.len() > 10);
                assert_eq!(lines.last().expect("an end")["end"], true);
            }
            _ => assert!(bytes.starts_with(b"\x93NUMPY")),
        }
    }
    let recorded = folder.path().join("a.jsonl");
    let again = folder.path().join("b.csv");
    let output = run(&[
        "monitor",
        "--replay",
        as_text(&recorded),
        "--out",
        as_text(&again),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("kernel in"),
        "{}",
        text(&output.stdout)
    );
    let content = std::fs::read_to_string(&again).expect("the replay");
    let rows = content
        .lines()
        .filter(|line| !line.starts_with('#'))
        .count();
    let recorded = std::fs::read_to_string(&recorded).expect("the recording");
    assert_eq!(rows - 1, recorded.lines().count() - 2);
    assert!(!text(&output.stderr).contains("a.jsonl"));
    // What it took is what it had taken.
    let jsonl = folder.path().join("c.jsonl");
    let replay = |from: &Path| {
        let arguments = [
            "monitor",
            "--replay",
            as_text(from),
            "--out",
            as_text(&jsonl),
        ];
        let output = run(&arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let content = std::fs::read_to_string(&jsonl).expect("the replay");
        (content, text(&output.stderr))
    };
    let (content, _) = replay(&folder.path().join("a.jsonl"));
    let end = |content: &str| -> serde_json::Value {
        serde_json::from_str(content.lines().next_back().expect("an end")).expect("JSON")
    };
    assert!(end(&recorded)["probe_ns"].is_u64(), "{recorded}");
    assert_eq!(end(&content), end(&recorded));
    // What is not all of it is said not to be, and is not when it is written again.
    let (whole, _end) = recorded.trim_end().rsplit_once('\n').expect("lines");
    let cut = folder.path().join("cut.jsonl");
    for (content, said) in [
        (format!("{whole}\n"), "not brought to its end"),
        (whole[..whole.len() - 9].to_owned(), "its last line is cut"),
    ] {
        std::fs::write(&cut, content).expect("room");
        let (content, err) = replay(&cut);
        assert!(err.contains("cut.jsonl") && err.contains(said), "{err}");
        assert!(end(&content)["end"].is_null(), "{content}");
    }
}

#[test]
fn a_full_disk_is_told_and_counting_goes_on() {
    let output = run(&[
        "monitor",
        "--only",
        "system",
        "--pid",
        &own_pid(),
        "--for",
        "0.3",
        "--out",
        "/dev/full",
        "--format",
        "jsonl",
    ]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(
        err.contains("cannot write /dev/full") && err.contains("counting goes on"),
        "{err}"
    );
    assert!(out.contains("% of one processor"), "{out}");
}

#[test]
fn it_ends_with_the_process_it_watches() {
    let mut child = Command::new("sleep").arg("0.5").spawn().expect("sleep");
    let pid = child.id().to_string();
    let watcher = start(&["monitor", "--only", "system", "--pid", &pid]);
    child.wait().expect("a child");
    let output = finish(watcher);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains(&format!("process {pid} has exited")));
}

#[test]
fn it_ends_when_nobody_reads_what_it_writes_any_more() {
    let mut child = start(&["monitor", "--only", "system", "--out", "-", "--quiet"]);
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let first = lines.next().expect("a line").expect("text");
    assert!(first.contains("tautline_monitor"), "{first}");
    drop(lines);
    let output = finish(child);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("tried again"));
}

#[test]
fn metrics_are_served_while_it_runs() {
    let mut child = tautline(&[
        "monitor",
        "--only",
        "system",
        "--all",
        "--prometheus",
        "127.0.0.1:0",
        "--for",
        "30",
    ])
    .stdout(Stdio::null())
    .stderr(Stdio::piped())
    .spawn()
    .expect("it starts");
    let stderr = BufReader::new(child.stderr.take().expect("piped"));
    let line = stderr
        .lines()
        .map_while(Result::ok)
        .find(|line| line.starts_with("metrics at"));
    let line = line.expect("where the metrics are");
    let address = line
        .trim_start_matches("metrics at http://")
        .trim_end_matches("/metrics");
    let ask = || {
        let mut stream = TcpStream::connect(address).expect("a listener");
        stream
            .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
            .expect("a connection");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let until = support::deadline();
    let answer = loop {
        let answer = ask();
        if answer.contains("tautline_samples_total") || until.elapsed() > std::time::Duration::ZERO
        {
            break answer;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(
        answer.contains("tautline_observed_seconds_total{set=\"system\",cpu=\"0\"}"),
        "{answer}"
    );
    child.kill().expect("a child");
    child.wait().expect("a child");
}

#[test]
fn sets_models_and_events_are_listed() {
    let output = run(&["monitor", "--list"]);
    let out = text(&output.stdout);
    assert!(output.status.success());
    assert!(
        out.contains("cpi = cycles / instructions") && out.contains("context-switches"),
        "{out}"
    );
}
