//! `peers` as a user runs it: small, since what it measures is not what is tested.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn peers(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_peers"))
        .args(arguments)
        .output()
        .expect("the program runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// 200 messages, much alike.
fn corpus(folder: &Path) -> PathBuf {
    let file = folder.join("some.jsonl");
    let lines: Vec<_> = (0..200)
        .map(|number| format!("{{\"number\": {number}, \"content\": \"much alike\"}}\n"))
        .collect();
    std::fs::write(&file, lines.concat()).expect("room");
    file
}

#[test]
fn every_contestant_has_a_line_of_json_for_every_corpus_and_link() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = corpus(folder.path());
    let file = file.to_str().expect("a plain path");
    let output = peers(&[
        "--corpus",
        file,
        "--link",
        "10Mbit,none",
        "--peer",
        "ld,sketch:1,tautline:cost",
        "--rounds",
        "2",
        "--take",
        "50",
        "--json",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    let names: Vec<_> = rows.iter().map(|row| row["peer"].as_str()).collect();
    let cell = ["ld:none", "ld:lz4", "ld:zstd", "sketch:1", "tautline:cost"].map(Some);
    assert_eq!(names, [cell, cell].concat());
    for (number, row) in rows.iter().enumerate() {
        let link = if number < 5 { Some(1e7) } else { None };
        assert_eq!(row["link_bps"].as_f64(), link);
        assert_eq!(row["corpus"], "some.jsonl");
        assert_eq!(row["messages"], 50);
        assert_eq!(row["times"].as_array().map(Vec::len), Some(2));
        assert_eq!(row["trips"], 100);
        for field in [
            "seconds",
            "messages_per_s",
            "wire_bytes",
            "to_best_peer",
            "to_best_sketch",
            "trip_p50_s",
            "trip_p99_s",
            "cpu_s_per_gb",
            "memory_bytes",
        ] {
            assert!(
                row[field].as_f64().is_some_and(|it| it > 0.0),
                "{field} in {row}"
            );
        }
    }
}

#[test]
fn without_files_messages_are_made_up_and_one_table_ends_it() {
    let output = peers(&[
        "--peer",
        "ld:none,tautline:none",
        "--take",
        "5",
        "--rounds",
        "1",
        "--no-guard",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(printed.contains("made-up telecom over an unlimited link: 5 messages"));
    let (short, table) = printed.split_once("| corpus, link |").expect("a table");
    assert!(short.contains(" met\n"), "{short}");
    let rows = table.lines().filter(|line| line.starts_with("| made-up"));
    assert_eq!(rows.count(), 7);
}

#[test]
fn bad_input_is_named() {
    for (arguments, word) in [
        (&["--peer", "grpc"][..], "`grpc` is no contestant"),
        (&["--peer", "tautline:fastest"], "fastest"),
        (&["--peer", "tautline:zstd:99"], "zstd:99"),
        (&["--link", "fast"], "`fast` is not a link's rate"),
        (&["--take", "0"], "`0` is neither"),
        (&["--rounds", "0"], "0 is not in 1..=10000"),
        (&["--corpus", "/nowhere/at/all"], "/nowhere/at/all"),
    ] {
        let output = peers(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        let said = text(&output.stderr);
        assert!(said.contains(word), "{arguments:?}: {said}");
    }
}
