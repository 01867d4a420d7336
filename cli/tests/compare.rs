//! `tautline load compare`, as a user runs it.
#![cfg(target_os = "linux")]

mod support;

use serde_json::Value;

use crate::support::{run, text};

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
        (
            vec!["--under", "/no/such/model"],
            TEN,
            "the replay of the model has ended",
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
