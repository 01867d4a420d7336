//! `tautline load compare`, as a user runs it.
#![cfg(target_os = "linux")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{has_leech, is_alive, json_lines, processor, run, tautline, text, wait_until};

const TEN: [&str; 3] = ["sh", "-c", "echo 10"];
const MORE: [&str; 3] = ["sh", "-c", "echo 10.4"];

/// What comes of two commands that print a number.
fn compare(options: &[&str], first: &[&str], second: &[&str]) -> std::process::Output {
    let mut words = vec!["load", "compare", "--value"];
    words.extend(options);
    words.push("--");
    words.extend(first);
    words.push("--");
    words.extend(second);
    run(&words)
}

#[test]
fn slower_faster_and_the_same_are_told_apart() {
    for (first, second, finding) in [
        (TEN, MORE, "slower: +4.00 %"),
        (MORE, TEN, "faster: -3.85 %"),
        (TEN, TEN, "no difference of 1.500 % or more"),
    ] {
        let output = compare(&[], &first, &second);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{err}");
        assert!(out.contains(finding), "{out}");
        assert!(out.contains("medians of 12 pairs"), "{out}");
    }
}

#[test]
fn a_gate_fails_by_what_is_slower_and_only_by_that() {
    let worse = compare(&["--require"], &TEN, &MORE);
    assert_eq!(worse.status.code(), Some(1));
    assert!(text(&worse.stderr).contains("slower: +4.00 %"));
    for second in [TEN, ["sh", "-c", "echo 9"]] {
        assert!(compare(&["--require"], &TEN, &second).status.success());
    }
}

#[test]
fn the_page_and_the_lines_say_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    let lines = folder.path().join("lines.jsonl");
    let page_name = page.to_str().expect("a name");
    let output = compare(&["--json", "--out", page_name], &TEN, &MORE);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let phase: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(phase["finding"], "slower");
    assert_eq!(phase["pairs"].as_array().map(Vec::len), Some(12));
    std::fs::write(&lines, &output.stdout).expect("written");
    let again = run(&["report", lines.to_str().expect("a name"), "--out", "-"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    let written = std::fs::read_to_string(&page).expect("a page");
    for page in [written.as_str(), &text(&again.stdout)] {
        assert!(page.contains("slower: +4.00 %"), "{page}");
        assert!(page.contains("sh -c echo 10.4") && page.contains("<svg"));
    }
}

#[test]
fn what_cannot_be_compared_is_said() {
    let failing = ["sh", "-c", "echo out of luck >&2; exit 3"];
    for (options, second, reason) in [
        (vec![], failing, "out of luck"),
        (vec![], ["sh", "-c", "echo none"], "prints no number"),
        (vec![], ["sh", "-c", "echo 0"], "more than 0"),
        (vec![], ["/no/such/program", "", ""], "does not start"),
        (
            vec!["--run-limit", "0.2"],
            ["sh", "-c", "sleep 20"],
            "--run-limit",
        ),
        // Before any command runs, as this one would fail.
        (
            vec!["--under", "/no/such/model"],
            failing,
            "/no/such/model: No such file",
        ),
    ] {
        let output = compare(&options, &TEN, &second);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains(reason), "{reason}: {err}");
    }
    let one = run(&["load", "compare", "--", "true"]);
    assert!(text(&one.stderr).contains("two commands are compared"));
}

fn as_text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// A model of this machine that asks for some load, with intensities as if they had been found.
fn model_in(folder: &Path) -> PathBuf {
    let (profile, model) = (folder.join("p.jsonl"), folder.join("m.json"));
    let words = ["load", "record", "--metrics", "cpu-load", "--cpu"];
    let length = ["--for", "0.4", "--interval", "0.2", "--out"];
    let recorded = run(&[&words[..], &[&processor()], &length, &[as_text(&profile)]].concat());
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    let words = ["load", "model", as_text(&profile), "--mean", "--out"];
    let modelled = run(&[&words[..], &[as_text(&model)]].concat());
    assert!(modelled.status.success(), "{}", text(&modelled.stderr));
    let written = std::fs::read(&model).expect("a model");
    let mut written: Value = serde_json::from_slice(&written).expect("JSON");
    written["means"] = json!([0.3]);
    written["parameters"] = json!({
        "machine": written["machine"], "actuators": ["load"],
        "intensities": {"interval_ms": 1000, "end": "hold", "rows": [[0.25]]},
    });
    std::fs::write(&model, written.to_string()).expect("room");
    model
}

#[test]
fn both_phases_are_found_and_shown_when_there_is_a_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = model_in(folder.path());
    let page = folder.path().join("page.html");
    let (model, cpu) = (as_text(&model), processor());
    for more in [&[][..], &["--open"]] {
        let words = ["--json", "--out", as_text(&page), "--under", model];
        let options = [&words[..], &["--pin", &cpu, "--settle", "0.5"], more].concat();
        let phases = json_lines(&compare(&options, &TEN, &MORE));
        let names: Vec<_> = phases.iter().map(|phase| phase["phase"].as_str()).collect();
        let under = format!("under {model}");
        assert_eq!(names, [Some("without load"), Some(under.as_str())]);
        for phase in &phases {
            assert_eq!(phase["finding"], "slower", "{phase}");
            assert_eq!(phase["pairs"].as_array().map(Vec::len), Some(12));
        }
        let page = std::fs::read_to_string(&page).expect("a page");
        assert!(page.contains("without load") && page.contains(&under));
        assert!(page.contains("2 phases, 24 pairs of runs"), "{page}");
    }
    wait_until("no replay is left", || processes_with(&[model]).is_empty());
}

/// Processes with all these words on their command lines. Those that have ended have none.
fn processes_with(words: &[&str]) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("Linux").flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has_words = |process: &u32| {
        let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let has = |word: &&str| {
            line.split(|byte| *byte == 0)
                .any(|it| it == word.as_bytes())
        };
        words.iter().all(has)
    };
    processes.filter(has_words).collect()
}

/// A comparison that goes on for long. All of it ends with its test.
struct Long {
    child: Child,
    model: String,
}

impl Long {
    fn start(model: &Path) -> Self {
        let model = as_text(model).to_owned();
        let words = ["load", "compare", "--value", "--settle", "600", "--pin"];
        let mut command = tautline(&words);
        command.args([&processor(), "--under", &model, "--"]);
        command.args(TEN).arg("--").args(TEN);
        command.stdout(Stdio::null());
        let child = command.spawn().expect("it starts");
        Self { child, model }
    }

    /// Its replay, once that is there. (A command that begins has the line of the comparison for a moment.)
    fn replay(&self) -> u32 {
        let mut found = None;
        wait_until("a replay", || {
            found = processes_with(&["replay", &self.model]).pop();
            found.is_some()
        });
        found.expect("waited for")
    }

    fn kill(&mut self) {
        self.child.kill().expect("a child");
        self.child.wait().expect("a child");
    }
}

impl Drop for Long {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for left in processes_with(&[&self.model]) {
            let _ = Command::new("kill")
                .args(["-KILL", &left.to_string()])
                .status();
        }
    }
}

#[test]
fn nothing_is_left_of_a_comparison_that_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = model_in(folder.path());
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    // Of a pipe nothing comes: that replay is always killed before it has its model.
    for (moment, model, has_replay, has_leeches) in [
        ("at once", &model, false, false),
        ("with its replay", &model, true, false),
        ("before the replay has read", &pipe, true, false),
        ("while leeches run", &model, true, true),
    ] {
        let mut long = Long::start(model);
        let replay = has_replay.then(|| long.replay());
        wait_until("leeches", || !has_leeches || replay.is_some_and(has_leech));
        long.kill();
        wait_until(&format!("nothing is left, killed {moment}"), || {
            !replay.is_some_and(is_alive) && processes_with(&[&long.model]).is_empty()
        });
    }
}
