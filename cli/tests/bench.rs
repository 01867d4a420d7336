//! `tautline bench` as a user runs it: small, since what it measures is not what is tested. Every
//! child is ended, and every wait is bounded.
#![cfg(unix)]

mod support;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::Duration;

use serde_json::Value;

use crate::support::{LIMIT, deadline, finish, json_lines, text};

/// 200 messages, much alike.
fn corpus(folder: &Path) -> PathBuf {
    let file = folder.join("some.jsonl");
    let lines: Vec<_> = (0..200)
        .map(|number| {
            let content = "much alike ".repeat(number % 30);
            format!("{{\"number\": {number}, \"content\": \"{content}\"}}\n")
        })
        .collect();
    std::fs::write(&file, lines.concat()).expect("room");
    file
}

fn start(file: &Path, arguments: &[&str]) -> Child {
    let file = file.to_str().expect("a plain path");
    support::start(&[&["bench", "--corpus", file], arguments].concat())
}

fn bench(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    finish(start(&corpus(folder.path()), arguments))
}

fn number(row: &Value, field: &str) -> f64 {
    row[field]
        .as_f64()
        .unwrap_or_else(|| panic!("{field} in {row}"))
}

#[test]
fn every_mode_measures_every_policy_in_every_round() {
    let arguments = [
        "--link",
        "10Mbit",
        "--delay",
        "1",
        "--mode",
        "throughput,latency,paced:50%",
        "--policy",
        "none,zstd:3",
        "--rounds",
        "2",
        "--take",
        "50",
        "--no-guard",
        "--json",
    ];
    let rows = json_lines(&bench(&arguments));
    let named: Vec<_> = rows
        .iter()
        .map(|row| (row["mode"].as_str(), row["round"].as_u64()))
        .collect();
    let mut expected = Vec::new();
    for mode in ["throughput", "latency", "paced:50%"] {
        for round in [0, 0, 1, 1] {
            expected.push((Some(mode), Some(round)));
        }
    }
    assert_eq!(named, expected);
    for row in &rows {
        assert_eq!(row["corpus"], "some.jsonl");
        assert_eq!(row["link_bps"], 1e7);
        assert_eq!(row["delay_ms"], 1.0);
        assert_eq!(row["busy_cores"], 0);
        assert_eq!(row["messages"], 50);
        // Nothing arrives before the delay is over.
        for field in ["mean_us", "p50_us", "p99_us"] {
            assert!(number(row, field) >= 1e3, "{field} in {row}");
        }
        assert!(number(row, "p50_us") <= number(row, "p99_us"), "{row}");
        assert!(
            number(row, "mean_us") / 1e6 <= number(row, "seconds"),
            "{row}"
        );
        for field in ["sender_cpu_s", "receiver_cpu_s"] {
            let cpu = number(row, field);
            assert!(cpu > 0.0 && cpu < LIMIT.as_secs_f64(), "{field} in {row}");
        }
        assert!(
            row["switches"].is_u64() && row["regret"].is_number(),
            "{row}"
        );
        let (plain, wire) = (number(row, "plain_bytes"), number(row, "wire_bytes"));
        let codecs = row["codecs"].as_object().expect("shares");
        let shares: f64 = codecs.values().filter_map(Value::as_f64).sum();
        assert!((shares - 1.0).abs() < 1e-6, "{row}");
        match row["policy"].as_str() {
            Some("none") => assert!(wire > plain && codecs.contains_key("identity"), "{row}"),
            Some("zstd:3") => assert!(wire < plain && codecs.contains_key("zstd:3"), "{row}"),
            _ => panic!("{row}"),
        }
    }
}

/// Why there can be no network namespaces here.
fn no_namespaces() -> Option<String> {
    let is_done = |words: &[&str]| -> Result<(), String> {
        let output = Command::new(words[0]).args(&words[1..]).output();
        let output = output.map_err(|error| format!("`{}`: {error}", words.join(" ")))?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("`{}`: {}", words.join(" "), text(&output.stderr)))
    };
    let name = format!("tautline-test-{}", std::process::id());
    let made = is_done(&["tc", "-Version"]).and_then(|()| is_done(&["ip", "netns", "add", &name]));
    // A kernel without the shaper has no use for the namespace.
    let shaped = made.and_then(|()| {
        let limit = [
            "tc", "-n", &name, "qdisc", "replace", "dev", "lo", "root", "tbf", "rate", "1mbit",
            "burst", "4kb", "limit", "32kb",
        ];
        let shaped = is_done(&limit);
        is_done(&["ip", "netns", "delete", &name]).and(shaped)
    });
    shaped.err()
}

/// Namespaces that benches have made: whoever finds some of a bench that has ended has them from one that left them.
fn namespaces_of(pid: u32) -> usize {
    let output = Command::new("ip").args(["netns", "list"]).output();
    let list = text(&output.expect("ip").stdout);
    list.matches(&format!("tautline-{pid}-")).count()
}

#[test]
fn namespaces_carry_what_a_limited_link_does_and_are_gone_afterwards() {
    if let Some(reason) = no_namespaces() {
        println!("skipped: {}", reason.trim());
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let arguments = [
        "--netns",
        "--link",
        "10Mbit",
        "--take",
        "64KiB",
        "--rounds",
        "1",
        "--policy",
        "none,zstd:1",
        "--json",
        "--seed",
        "1",
        "--no-guard",
    ];
    let child = start(&corpus(folder.path()), &arguments);
    let pid = child.id();
    let mut rows = json_lines(&finish(child));
    assert_eq!(namespaces_of(pid), 0);
    // In each round, policies go in an order of its own.
    rows.sort_by_key(|row| row["policy"].to_string());
    let policies: Vec<_> = rows.iter().map(|row| row["policy"].as_str()).collect();
    assert_eq!(policies, [Some("none"), Some("zstd:1")]);
    for row in &rows {
        assert_eq!(row["link_bps"], 1e7);
        let (plain, wire) = (number(row, "plain_bytes"), number(row, "wire_bytes"));
        assert_eq!(row["policy"] == "none", wire >= plain, "{row}");
        // What fits the shaper's burst, two packets, goes at once; a busy machine may take its time.
        let (seconds, link) = (number(row, "seconds"), (wire - 3028.0) * 8.0 / 1e7);
        println!(
            "{}: {seconds:.4} s, the link alone {link:.4}",
            row["policy"]
        );
        assert!(seconds >= 0.9 * link, "{row}");
        assert!(seconds <= 20.0 * link + 1.0, "{row}");
    }
    assert!(number(&rows[0], "seconds") > 0.02, "{rows:?}");
}

#[test]
fn a_table_names_the_oracle_and_what_was_chosen() {
    let arguments = ["--policy", "none,lz4,majority", "--rounds", "1", "--cold"];
    let output = bench(&[&arguments[..], &["--take", "10kB"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(
        table.contains("some.jsonl over an unlimited link, throughput"),
        "{table}"
    );
    let marked: Vec<_> = table.lines().filter(|line| line.starts_with('*')).collect();
    assert_eq!(marked.len(), 2, "{table}");
    assert!(
        marked[0].ends_with("1.000") && marked[1].contains("oracle"),
        "{table}"
    );
    assert!(table.contains("  majority: "), "{table}");
    for line in table.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn busy_cores_are_reported_and_end_with_the_bench() {
    let arguments = ["--policy", "lz4", "--rounds", "1", "--busy-cores", "2"];
    let rows = json_lines(&bench(
        &[&arguments[..], &["--no-guard", "--json"]].concat(),
    ));
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["busy_cores"], 2);
    assert_eq!(rows[0]["link_bps"], Value::Null);
    assert_eq!(rows[0]["messages"], 200);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (arguments, code, word) in [
        (&["--mode", "paced:50%"][..], 1, "share"),
        (&["--netns", "--delay", "5"], 1, "--delay"),
        (&["--policy", "fastest"], 1, "fastest"),
        (&["--policy", "zstd:99"], 1, "zstd:99"),
        (&["--link", "10"], 2, "rate"),
        (&["--take", "0"], 2, "number"),
        (&["--rounds", "0"], 2, "--rounds"),
    ] {
        let output = bench(arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(word), "{arguments:?}: {error}");
    }
    let output = finish(start(Path::new("nowhere.msgs"), &["--policy", "none"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("nowhere.msgs"));
}

#[test]
fn a_pass_that_takes_too_long_fails() {
    let arguments = ["--link", "1kbit", "--policy", "none", "--pass-limit", "0.5"];
    let output = bench(&[&arguments[..], &["--no-guard"]].concat());
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("longer than 0.5 s"), "{error}");
}

#[test]
fn the_wait_for_a_budget_ends_and_is_not_the_passes() {
    // On a machine this busy the guard grants nothing, and is waited for as long as ever.
    let arguments = ["--policy", "none,cost", "--rounds", "2", "--busy-cores"];
    let busy = std::thread::available_parallelism().map_or(2, usize::from) * 4;
    let limits = [&busy.to_string(), "--pass-limit", "0.9", "--take", "20"];
    let rows = json_lines(&bench(&[&arguments[..], &limits[..], &["--json"]].concat()));
    assert_eq!(rows.len(), 4);
}

#[test]
fn an_interrupt_ends_the_nodes_too() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let arguments = ["--policy", "none", "--rounds", "1000000", "--json"];
    let mut child = start(&corpus(folder.path()), &arguments);
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("the first pass");
    let children = children_of(child.id());
    let status = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .expect("kill");
    assert!(status.success());
    // It goes on printing until it is interrupted.
    let rest = std::thread::spawn(move || stdout.read_to_end(&mut Vec::new()));
    assert_eq!(finish(child).status.code(), Some(130));
    rest.join().expect("no panic").expect("readable");
    let until = deadline();
    for pid in children {
        while is_running(pid) {
            assert!(until.elapsed() == Duration::ZERO, "process {pid} goes on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The processes that a process has started, as far as this system says.
fn children_of(pid: u32) -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok())
        .flat_map(|children| {
            let children = children.split_whitespace();
            children
                .filter_map(|child| child.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}

fn is_running(pid: u32) -> bool {
    // One that has ended and that nobody has waited for is a zombie.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
}
