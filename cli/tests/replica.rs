//! `tautline load record`, `model` and `replay`, as a user runs them.
#![cfg(target_os = "linux")]

mod support;

use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use crate::support::{deadline, finish, processor, run, start, tautline, text, wait_until};

fn as_text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// The words of a replay for so many seconds.
fn replay<'a>(model: &'a Path, cpu: &'a str, seconds: &'a str) -> [&'a str; 7] {
    let model = as_text(model);
    ["load", "replay", model, "--pin", cpu, "--for", seconds]
}

/// The lines of a trace.
fn steps(path: &Path) -> Vec<serde_json::Value> {
    let lines = std::fs::read_to_string(path).expect("a trace");
    let parse = |line: &str| serde_json::from_str(line).expect("JSON");
    lines.lines().map(parse).collect()
}

#[test]
fn what_is_recorded_is_modelled_and_replayed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let (profile, model, saved) = (path("p.jsonl"), path("m.json"), path("s.json"));
    let cpu = processor();
    let output = run(&[
        "load",
        "record",
        "--cpu",
        &cpu,
        "--for",
        "0.6",
        "--interval",
        "0.2",
        "--metrics",
        "cpu-load",
        "--out",
        as_text(&profile),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("cpu-load"),
        "{}",
        text(&output.stdout)
    );
    let output = run(&[
        "load",
        "model",
        as_text(&profile),
        "--mean",
        "--out",
        as_text(&model),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    // How near it comes depends on the machine; that it goes all the way does not.
    let words = replay(&model, &cpu, "4");
    let trace = path("t.jsonl");
    let also = ["--save", as_text(&saved), "--trace", as_text(&trace)];
    let output = run(&[&words[..], &also].concat());
    let out = text(&output.stdout);
    assert!(output.status.success(), "{out}{}", text(&output.stderr));
    assert!(
        out.contains("converged") && out.contains("intensities: load"),
        "{out}"
    );
    let steps = steps(&trace);
    assert_eq!(steps[0]["metrics"][0], "cpu-load");
    assert_eq!(steps[0]["leeches"][0], "load");
    assert!(steps.len() > 10, "{steps:?}");
    for step in &steps[1..] {
        let taken = step["taken"][0].as_f64().expect("a share");
        let is_one = step["intensities"][0].is_f64() && step["asked"][0].is_f64();
        assert!(is_one && (0.0..=1.5).contains(&taken), "{step}");
        assert!(step["phase"].is_string(), "{step}");
    }
    // An open loop has no controller that could be at anything.
    let also = ["--open", "--trace", as_text(&trace)];
    let output = run(&[&replay(&saved, &cpu, "1.5")[..], &also].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(self::steps(&trace)[1]["phase"].is_null());
    // Without intensities there is nothing to replay so.
    let output = run(&["load", "replay", as_text(&model), "--open", "--pin", &cpu]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("has no intensities"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn an_estimate_is_called_one_wherever_it_is_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let (profile, model) = (path("p.jsonl"), path("m.json"));
    let cpu = processor();
    let words = ["load", "record", "--metrics", "memory-latency,cpu-load"];
    let length = ["--for", "0.6", "--interval", "0.2", "--cpu", &cpu];
    let recorded = run(&[&words[..], &length, &["--out", as_text(&profile)]].concat());
    let modelled = run(&["load", "model", as_text(&profile), "--out", as_text(&model)]);
    for output in [recorded, modelled] {
        let out = text(&output.stdout);
        assert!(output.status.success(), "{out}{}", text(&output.stderr));
        for (name, is_estimate) in [("memory-latency", true), ("cpu-load", false)] {
            let line = out.lines().find(|line| line.contains(name));
            let line = line.unwrap_or_else(|| panic!("no {name}: {out}"));
            assert_eq!(line.ends_with(" (an estimate)"), is_estimate, "{line}");
        }
    }
    let profile = std::fs::read_to_string(&profile).expect("a profile");
    let header = profile.lines().next().expect("a line").to_owned();
    let model = std::fs::read_to_string(&model).expect("a model");
    for json in [header, model] {
        let read: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let metrics = read["metrics"].as_array().expect("metrics");
        let marks: Vec<_> = metrics
            .iter()
            .map(|metric| (metric["name"].as_str(), metric["estimated"].as_bool()))
            .collect();
        assert_eq!(
            marks,
            [
                (Some("memory-latency"), Some(true)),
                (Some("cpu-load"), Some(false))
            ],
            "{json}"
        );
    }
}

#[test]
fn a_replay_whose_parent_is_gone_does_not_begin() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = folder.path().join("m.json");
    let written = r#"{"tautline_model":1,"machine":{"vendor":"Other","family":1,"model":2,"processors":77,"caches":null},
        "scope":"","metrics":[{"name":"cpu-load","unit":"","estimated":false}],"means":[0.5]}"#;
    std::fs::write(&model, written).expect("room");
    let mut gone = Command::new("true").spawn().expect("it starts");
    gone.wait().expect("a child");
    let cpu = processor();
    let words = replay(&model, &cpu, "600");
    let gone = gone.id().to_string();
    let output = run(&[&words[..], &["--anyway", "--parent", &gone]].concat());
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(out.is_empty(), "{out}");
}

#[test]
fn a_model_that_never_comes_is_not_waited_for_once_it_is_to_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    let mut child = start(&["load", "replay", as_text(&pipe)]);
    let id = child.id();
    wait_until("it listens to signals", || catches_interrupts(id));
    let status = Command::new("kill")
        .args(["-INT", &id.to_string()])
        .status();
    assert!(status.expect("kill").success());
    wait_until("it ends", || child.try_wait().expect("a child").is_some());
    assert_eq!(finish(child).status.code(), Some(130));
}

/// Whether a process has a handler for SIGINT.
fn catches_interrupts(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    caught.is_some_and(|set| set & (1 << 1) != 0)
}

#[test]
fn a_model_of_another_machine_is_refused_unless_it_is_to_go_on_anyway() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = folder.path().join("m.json");
    let written = r#"{"tautline_model":1,"machine":{"vendor":"Other","family":1,"model":2,"processors":77,"caches":null},
        "scope":"","metrics":[{"name":"cpu-load","unit":"","estimated":false},{"name":"no-such-metric","unit":"","estimated":false}],"means":[0.0,1.0]}"#;
    std::fs::write(&model, written).expect("room");
    let cpu = processor();
    let words = replay(&model, &cpu, "1");
    let output = run(&words);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        err.contains("another machine") && err.contains("77 processors"),
        "{err}"
    );
    let output = run(&[&words[..], &["--anyway", "--require"]].concat());
    let err = text(&output.stderr);
    assert!(
        err.contains("cannot be had here: no-such-metric: no set has such a metric"),
        "{err}"
    );
    // A second is too short, and that was required.
    assert!(err.contains("did not converge"), "{err}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn bad_files_places_and_metrics_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bad = folder.path().join("bad.json");
    std::fs::write(&bad, r#"{"tautline_model":9}"#).expect("room");
    let out = folder.path().join("out");
    for (arguments, expected) in [
        (
            vec!["load", "replay", as_text(&bad)],
            "a model of version 9; this program reads 1",
        ),
        (vec!["load", "replay", "/no/such/file"], "No such file"),
        (
            vec!["load", "model", as_text(&bad), "--out", as_text(&out)],
            "a model, where a profile is wanted",
        ),
        (
            vec![
                "load",
                "record",
                "--cpu",
                "60000",
                "--for",
                "1",
                "--out",
                as_text(&out),
            ],
            "processor 60000 cannot be measured; online are ",
        ),
        (
            vec![
                "load",
                "record",
                "--all",
                "--for",
                "1",
                "--metrics",
                "no-such",
                "--out",
                as_text(&out),
            ],
            "no-such: no set has such a metric",
        ),
    ] {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let err = text(&output.stderr);
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
}

/// A process that ends with its test.
struct Other(Child);

impl Other {
    /// Once it is the program that it is to be.
    fn start(mut command: Command, name: &str) -> Self {
        let other = Self(command.spawn().expect("it starts"));
        let comm = format!("/proc/{}/comm", other.0.id());
        let until = deadline();
        while std::fs::read_to_string(&comm).expect("a process").trim() != name {
            assert!(until.elapsed().is_zero(), "it is not {name}");
            std::thread::sleep(Duration::from_millis(10));
        }
        other
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn a_process_is_recorded_and_none_but_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let (profile, model) = (path("p.jsonl"), path("m.json"));
    let words = |process: u32| {
        let words = [
            "load",
            "record",
            "--interval",
            "0.2",
            "--metrics",
            "cpu-load",
        ];
        let words = words
            .into_iter()
            .chain(["--out", as_text(&profile), "--pid"]);
        let words = words.map(str::to_owned);
        words.chain([process.to_string()]).collect::<Vec<_>>()
    };
    let load = |other: &Other| {
        let words = words(other.0.id());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = run(&[&words[..], &["--for", "0.6"]].concat());
        let err = text(&output.stderr);
        if err.contains("not recorded: cpu-load") || err.contains("cannot be watched") {
            eprintln!("skipped: {err}");
            return None;
        }
        assert!(output.status.success(), "{err}");
        let output = run(&["load", "model", as_text(&profile), "--out", as_text(&model)]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let read = std::fs::read(&model).expect("a model");
        let read: serde_json::Value = serde_json::from_slice(&read).expect("JSON");
        assert_eq!(read["scope"], format!("process {}", other.0.id()));
        assert_eq!(read["metrics"][0]["name"], "cpu-load");
        read["means"][0].as_f64()
    };
    let mut sleep = Command::new("sleep");
    sleep.arg("20");
    let idle = Other::start(sleep, "sleep");
    let mut busy = tautline(&["load", "run", "--leech", "cpu", "--for", "20"]);
    busy.stdout(std::process::Stdio::null());
    let mut busy = Other::start(busy, "tautline");
    let (Some(idle), Some(share)) = (load(&idle), load(&busy)) else {
        return;
    };
    assert!(share > 0.0 && idle < share / 10.0, "{idle} and {share}");
    // Without a time it goes on until the process has ended.
    let words = words(busy.0.id());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let recorder = start(&words);
    std::thread::sleep(Duration::from_millis(300));
    busy.end();
    let output = finish(recorder);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("samples in "));
}
