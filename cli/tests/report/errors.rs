//! Files that are not what they should be: each is refused with its name, the line, and what is known.

use std::path::Path;

use serde_json::{Value, json};

use crate::bench::{lines, pass};
use crate::page::{Page, cell};
use crate::{events, file, folder, monitor, report, support, trace};

/// The page is refused, with these words and exit code 1.
fn refused(path: &Path, words: &[&str]) {
    let output = report(&[path], &[]);
    let error = support::text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(output.stdout.is_empty());
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .expect("a name");
    for word in words.iter().chain([&name]) {
        assert!(error.contains(word), "{word}: {error}");
    }
    assert!(
        error.starts_with("tautline: ") && error.lines().count() == 1,
        "{error}"
    );
}

const KNOWN: [&str; 4] = [
    "bench --json",
    "monitor --out FILE.jsonl",
    "events analyse --json",
    "send --trace",
];

#[test]
fn what_is_nothing_that_is_known() {
    let folder = folder();
    let at = |name: &str, content: &str| file(folder.path(), name, content);
    refused(&at("empty", ""), &["there is nothing in it"]);
    refused(&at("blank", "\n  \n"), &["there is nothing in it"]);
    for (name, content) in [
        ("text", "once upon a time\n"),
        ("csv", "# a recording\nat_ns,cpu\n"),
        ("json", "{\"some\": 1}\n"),
        ("array", "[1, 2]\n"),
        ("spread", "{\n  \"policy\": \"cost\"\n}\n"),
        // The first line of a file that was cut within it.
        ("cut", "{\"corpus\": \"a.msgs\", \"pol"),
    ] {
        refused(&at(name, content), &["line 1 is nothing that is known"]);
        refused(&at(name, content), &KNOWN);
    }
    refused(
        &at("later", "\n\nnonsense\n"),
        &["line 3 is nothing that is known"],
    );
    std::fs::write(folder.path().join("bytes"), [0xff, 0xfe, 0, b'\n']).expect("room");
    refused(
        &folder.path().join("bytes"),
        &["line 1 is nothing that is known"],
    );
    refused(
        &at("long", &"x".repeat(2 << 20)),
        &["line 1 is longer than 1048576 bytes"],
    );
    refused(Path::new("/nowhere/at/all"), &["No such file"]);
    refused(folder.path(), &["directory"]);
}

#[test]
fn kinds_are_not_mixed_in_a_file() {
    let folder = folder();
    let pass = pass("a.msgs", "none", 0, 0.1);
    let decision = trace::decision(1, "lz4", 1);
    let recording: Value =
        serde_json::from_str(monitor::recording(1).lines().next().expect("a line")).expect("JSON");
    for (first, second, words) in [
        (
            &pass,
            &decision,
            [
                "line 2 is a decision of `send --trace`",
                "begins with a pass of `bench --json`",
            ],
        ),
        (
            &decision,
            &pass,
            [
                "line 2 is a pass of `bench --json`",
                "begins with a decision of `send --trace`",
            ],
        ),
        (
            &events::analysis(),
            &pass,
            [
                "line 2 is a pass of `bench --json`",
                "begins with an analysis of `events analyse --json`",
            ],
        ),
        (
            &pass,
            &recording,
            ["line 2 is a recording of `monitor`", "begins with a pass"],
        ),
    ] {
        let path = file(
            folder.path(),
            "mixed",
            &lines(&[first.clone(), second.clone()]),
        );
        refused(&path, &words);
        refused(&path, &KNOWN);
    }
    let path = file(
        folder.path(),
        "mixed",
        &(monitor::recording(1) + &lines(&[pass])),
    );
    refused(&path, &["line 4", "a recording of `monitor`"]);
    let end = "{\"end\":true,\"lost\":0}\n";
    let twice = monitor::recording(2) + end + &monitor::recording(2) + end;
    refused(
        &file(folder.path(), "twice", &twice),
        &["line 7", "has ended"],
    );
}

#[test]
fn numbers_are_numbers_and_can_be() {
    let folder = folder();
    for (field, value, words) in [
        ("seconds", json!(-1.0), "`seconds` is -1"),
        ("seconds", json!(1e300), "`seconds` is 1e300"),
        ("seconds", Value::Null, "null, where a pass has a number"),
        ("mean_us", Value::Null, "null, where a pass has a number"),
        ("link_bps", json!(-5.0), "`link_bps` is -5"),
        ("wire_bytes", json!(-5), "invalid value"),
        ("wire_bytes", json!(u64::MAX), "`wire_bytes`"),
        ("round", json!(1e20), "invalid"),
        ("mode", json!("slowly"), "mode `slowly`"),
        ("policy", json!(3), "invalid type"),
        ("codecs", json!({"lz4": -1.0}), "`codecs` is -1"),
    ] {
        let mut rows = [
            pass("a.msgs", "none", 0, 0.1),
            pass("a.msgs", "cost", 0, 0.1),
        ];
        rows[1][field] = value;
        refused(
            &file(folder.path(), "bench", &lines(&rows)),
            &["line 2, a pass of `bench --json`", words],
        );
    }
    let text = lines(&[pass("a.msgs", "none", 0, 0.5)]);
    let beyond = text.replace("\"seconds\":0.5", "\"seconds\":1e999");
    refused(
        &file(folder.path(), "beyond", &(text.clone() + &beyond)),
        &["line 2", "out of range"],
    );
    let lacking = text.replace("\"link_bps\":10000000.0,", "");
    refused(
        &file(folder.path(), "lacking", &lacking),
        &["line 1", "missing field `link_bps`"],
    );
    let mut decision = trace::decision(1, "lz4", 1);
    decision["link_bps"] = json!(-1.0);
    refused(
        &file(folder.path(), "trace", &lines(&[decision])),
        &["line 1", "`link_bps` is -1"],
    );
    let mut analysis = events::analysis();
    analysis["stages"]["queued to acked"]["p50_ns"] = json!(u64::MAX);
    refused(
        &file(folder.path(), "events", &lines(&[analysis])),
        &["line 1", "not in order"],
    );
}

#[test]
fn a_line_that_is_broken_within_a_file_is_refused() {
    let folder = folder();
    let row = lines(&[pass("a.msgs", "none", 0, 0.1)]);
    let broken = format!("{row}{}\n{row}", &row[..row.len() / 2]);
    refused(
        &file(folder.path(), "broken", &broken),
        &["line 2, a pass of `bench --json`", "EOF"],
    );
    // Nor is what ends the file without being the beginning of a line.
    refused(
        &file(folder.path(), "more", &format!("{row}nonsense")),
        &["line 2"],
    );
    let recording = monitor::recording(3).replacen("\"cycles\":{", "\"cycles\":[", 1);
    refused(&file(folder.path(), "recording", &recording), &["line 1"]);
    // More than are counted one by one.
    let arms: Vec<Value> = (0..600)
        .map(|number| trace::decision(number, &format!("arm {number}"), 0))
        .collect();
    refused(
        &file(folder.path(), "arms", &lines(&arms)),
        &["line 513", "more than 512 arms"],
    );
}

#[test]
fn a_last_line_that_was_cut_is_left_out_and_said() {
    let folder = folder();
    let bench = lines(&[
        pass("a.msgs", "none", 0, 0.3),
        pass("a.msgs", "none", 1, 0.1),
        pass("a.msgs", "none", 2, 0.2),
    ]);
    let trace = lines(&[trace::decision(1, "lz4", 1), trace::decision(2, "lz4", 2)]);
    for (name, text, line) in [
        ("bench", bench.clone(), 3),
        ("trace", trace, 2),
        ("recording", monitor::recording(3), 7),
    ] {
        let last = text.trim_end().rfind('\n').expect("lines") + 1;
        for end in [last + 1, usize::midpoint(last, text.len()), text.len() - 2] {
            let path = file(folder.path(), name, &text[..end]);
            let output = report(&[&path], &[]);
            let error = support::text(&output.stderr);
            assert!(output.status.success(), "{name} {end}: {error}");
            let said = format!("{}: line {line}, the last, was cut", path.display());
            assert!(
                error.contains(&said) && error.lines().count() == 1,
                "{name} {end}: {error}"
            );
            let page = Page::new(support::text(&output.stdout));
            assert_eq!(
                page.html
                    .matches(&format!("line {line}, the last, was cut"))
                    .count(),
                2,
                "{name} {end}"
            );
        }
    }
    // Whole but for the end of the line.
    let path = file(folder.path(), "whole", bench.trim_end());
    let output = report(&[&path], &[]);
    assert_eq!(support::text(&output.stderr), "");
    let page = Page::new(support::text(&output.stdout));
    assert_eq!(
        cell(&page.row("a.msgs: 100 messages", "none *"), "passes"),
        "3"
    );
}

#[test]
fn one_file_that_is_wrong_is_no_page_at_all() {
    let folder = folder();
    let good = file(
        folder.path(),
        "good",
        &lines(&[pass("a.msgs", "none", 0, 0.1)]),
    );
    let bad = file(folder.path(), "bad", "nonsense\n");
    let out = folder.path().join("out.html");
    let output = report(&[&good, &bad], &["--out", out.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(support::text(&output.stderr).contains("bad: line 1"));
    assert!(!out.exists());
    let output = report(&[], &[]);
    assert_eq!(output.status.code(), Some(2), "arguments are clap's");
}
