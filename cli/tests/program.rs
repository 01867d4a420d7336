//! The program as a user runs it. Every child is ended by the guard that holds it, and every wait is
//! bounded.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{Echo, json_lines, run, tautline, text};

fn write_msgs(path: &Path, messages: &[Vec<u8>]) {
    let mut file = std::fs::File::create(path).expect("a temporary file");
    for message in messages {
        let len = u32::try_from(message.len()).expect("short");
        file.write_all(&len.to_le_bytes()).expect("room");
        file.write_all(message).expect("room");
    }
}

fn some_messages() -> Vec<Vec<u8>> {
    (0..500_usize)
        .map(|number| {
            format!("message {number} of many, much alike; ")
                .repeat(number % 40)
                .into()
        })
        .collect()
}

#[test]
fn containers_are_described_and_converted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (lines, msgs) = (
        folder.path().join("some.txt"),
        folder.path().join("some.msgs"),
    );
    std::fs::write(&lines, "one\ntwo\nthree\n").expect("room");
    let (lines, msgs) = (lines.to_str().expect("text"), msgs.to_str().expect("text"));
    assert!(
        run(&["corpus", "import", lines, "--output", msgs])
            .status
            .success()
    );
    let info = json_lines(&run(&["corpus", "info", "--json", lines, msgs]));
    assert_eq!(info.len(), 2);
    for summary in &info {
        assert_eq!(
            (&summary["messages"], &summary["bytes"]),
            (&3.into(), &11.into()),
            "{summary}"
        );
    }
}

#[test]
fn what_is_sent_comes_back_equal_with_every_policy() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("some.msgs");
    let messages = some_messages();
    write_msgs(&file, &messages);
    let bytes: usize = messages.iter().map(Vec::len).sum();
    let echo = Echo::start_unguarded();
    for policy in [
        "none",
        "round_robin",
        "majority",
        "cost",
        "zstd:3",
        "lz4",
        "xz:6",
        "bzip2:9",
        "deflate:1",
        "snappy",
    ] {
        let arguments = [
            "send",
            "--connect",
            &echo.address,
            "--corpus",
            file.to_str().expect("text"),
            "--policy",
            policy,
        ];
        let rows = json_lines(&run(&[&arguments[..], &["--json", "--no-guard"]].concat()));
        assert_eq!(rows[0]["messages"], 500, "{policy}");
        assert_eq!(rows[0]["plain_bytes"], bytes, "{policy}");
        assert_eq!(rows[1]["total"]["messages"], 500, "{policy}");
        let ratio = rows[0]["ratio"].as_f64().expect("a number");
        // The default policy has reason to send most of it as it is over a loopback.
        let least = if matches!(policy, "none" | "cost") {
            0.95
        } else {
            1.5
        };
        assert!(ratio > least, "{policy}: {ratio}");
    }
}

#[test]
fn every_arm_is_explained() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("some.msgs");
    write_msgs(&file, &some_messages());
    let echo = Echo::start_unguarded();
    let send = |more: &[&str]| {
        let file = file.to_str().expect("text");
        let arguments = [
            "send",
            "--no-guard",
            "--connect",
            &echo.address,
            "--corpus",
            file,
        ];
        run(&[&arguments[..], more].concat())
    };
    let near = send(&["--explain"]);
    let (near, all) = (text(&near.stdout), text(&send(&["--explain=all"]).stdout));
    for table in [&near, &all] {
        assert!(
            table.lines().all(|line| line.chars().count() <= 100),
            "{table}"
        );
        assert!(table.contains("  taken\n"), "{table}");
        assert!(table.contains("\n  identity "), "{table}");
        assert!(
            table.contains("round trip") && table.contains(" switches"),
            "{table}"
        );
    }
    assert!(all.lines().count() > near.lines().count(), "{near}{all}");
    assert!(near.contains("--explain=all"), "{near}");
    let fixed = text(&send(&["--explain", "--policy", "lz4"]).stdout);
    assert!(fixed.contains("lz4 does not estimate"), "{fixed}");

    let rows = json_lines(&send(&["--explain", "--json"]));
    let arms = rows[0]["explain"].as_array().expect("an array");
    assert!(arms.len() > 10, "{}", rows[0]);
    let taken = arms.iter().filter(|arm| arm["verdict"] == "taken");
    assert_eq!(taken.count(), 1, "{}", rows[0]);
    for arm in arms {
        assert!(arm["arm"].is_string(), "{arm}");
        for field in ["encode_ns", "link_ns", "decode_ns", "cost_ns", "samples"] {
            assert!(arm[field].is_u64(), "{field}: {arm}");
        }
        assert!(
            arm["ratio"].as_f64().is_some_and(|ratio| ratio >= 1.0),
            "{arm}"
        );
        assert_eq!(
            arm["dearer_by"].is_number(),
            arm["verdict"] == "dearer",
            "{arm}"
        );
    }
    let rows = json_lines(&send(&["--json"]));
    assert!(rows[0]["explain"].is_null(), "{}", rows[0]);
}

#[cfg(unix)]
#[test]
fn every_decision_is_traced() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, trace) = (
        folder.path().join("some.msgs"),
        folder.path().join("trace.jsonl"),
    );
    write_msgs(&file, &some_messages());
    let mut echo = Echo::start();
    let address = echo.address.clone();
    let send = |trace: &str| {
        let file = file.to_str().expect("text");
        run(&[
            "send",
            "--connect",
            &address,
            "--corpus",
            file,
            "--trace",
            trace,
        ])
    };
    let output = send(trace.to_str().expect("text"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("500 messages"));
    let in_file = std::fs::read_to_string(&trace).expect("a trace");
    // All of stdout is JSON then.
    let on_stdout = json_lines(&send("-"));
    let (summary, decisions): (Vec<_>, Vec<_>) = on_stdout
        .into_iter()
        .partition(|row| row["at_ns"].is_null());
    assert_eq!(summary.len(), 2, "{summary:?}");
    let blocks: u64 = summary[0]["arms"]
        .as_object()
        .expect("an object")
        .values()
        .filter_map(|arm| arm["blocks"].as_u64())
        .sum();
    assert_eq!(decisions.len() as u64, blocks);
    let in_file: Vec<serde_json::Value> = in_file
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert!(!in_file.is_empty());
    for decision in in_file.iter().chain(&decisions) {
        assert_eq!(decision["stream"], "some.msgs", "{decision}");
        for field in [
            "at_ns",
            "plain_len",
            "link_backlog",
            "queued_behind",
            "run",
            "regret_ns",
        ] {
            assert!(decision[field].is_u64(), "{field}: {decision}");
        }
        for field in ["texture", "arm", "reason"] {
            assert!(decision[field].is_string(), "{field}: {decision}");
        }
        for field in ["budget_left", "peer_starved"] {
            assert!(decision[field].is_boolean(), "{field}: {decision}");
        }
        let link = &decision["link_bps"];
        assert!(link.is_null() || link.is_number(), "{decision}");
    }

    let nowhere = folder.path().join("no such folder").join("trace");
    let mut hopeless = vec![nowhere];
    if cfg!(target_os = "linux") {
        hopeless.push("/dev/full".into());
    }
    for path in hopeless {
        let path = path.to_str().expect("text");
        let output = send(path);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(
            stderr.contains(path) && stderr.lines().count() == 1,
            "{stderr}"
        );
    }
    // Two have sent, and the one whose disk was full; the other did not get so far as to connect.
    interrupt(&echo.child);
    let mut rest = String::new();
    echo.stdout.read_to_string(&mut rest).expect("its summary");
    let connections = 2 + u8::from(cfg!(target_os = "linux"));
    assert!(
        rest.contains(&format!("{connections} connections")),
        "{rest}"
    );
}

#[test]
fn recorded_messages_come_back_equal() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/corpus");
    let Ok(entries) = std::fs::read_dir(folder) else {
        println!("skipped: no recorded corpora beside the project");
        return;
    };
    let files: Vec<_> = entries
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "msgs"))
        .map(|path| path.to_str().expect("text").to_owned())
        .collect();
    let echo = Echo::start();
    let mut arguments = vec![
        "send",
        "--json",
        "--no-guard",
        "--connect",
        &echo.address,
        "--corpus",
    ];
    arguments.extend(files.iter().map(String::as_str));
    let rows = json_lines(&run(&arguments));
    assert_eq!(rows.len(), files.len() + 1);
    let infos = json_lines(&run(
        &[&["corpus", "info", "--json"], &arguments[6..]].concat()
    ));
    for (row, info) in rows.iter().zip(&infos) {
        assert_eq!(row["messages"], info["messages"], "{row}");
        assert_eq!(row["plain_bytes"], info["bytes"], "{row}");
    }
}

/// Sends the interrupt of Ctrl-C to a child of this test.
#[cfg(unix)]
fn interrupt(child: &Child) {
    let status = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .expect("kill");
    assert!(status.success());
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_with_the_summary() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("some.msgs");
    write_msgs(&file, &some_messages());
    let file = file.to_str().expect("text");
    let mut echo = Echo::start();
    // At this rate it would take an hour.
    let arguments = [
        "send",
        "--connect",
        &echo.address,
        "--corpus",
        file,
        "--rate",
        "10",
        "--repeat",
        "100",
    ];
    let sender = tautline(&arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    std::thread::sleep(Duration::from_millis(1500));
    interrupt(&sender);
    let output = sender.wait_with_output().expect("a child");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("echoed and equal"),
        "{}",
        text(&output.stdout)
    );
    interrupt(&echo.child);
    let mut rest = String::new();
    echo.stdout.read_to_string(&mut rest).expect("its summary");
    assert!(rest.contains("1 connections"), "{rest}");
    assert!(echo.child.wait().expect("a child").success());
}

#[test]
fn a_stranger_is_reported_and_disturbs_nobody() {
    let mut echo = Echo::start();
    let mut stranger = TcpStream::connect(&echo.address).expect("it listens");
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("room");
    let line = echo.next_line();
    assert!(line.contains("not a tautline peer"), "{line}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("some.msgs");
    write_msgs(&file, &some_messages());
    let output = run(&[
        "send",
        "--connect",
        &echo.address,
        "--corpus",
        file.to_str().expect("text"),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("500 messages"));
}

#[test]
fn failures_are_said_in_words_and_in_the_exit_code() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("some.msgs");
    write_msgs(&file, &some_messages());
    let file = file.to_str().expect("text");
    let broken = folder.path().join("broken.msgs");
    std::fs::write(&broken, [200, 0, 0, 0, 1, 2, 3]).expect("room");
    let broken = broken.to_str().expect("text");
    // Port 1 needs privileges to listen on, and nobody does.
    let nobody = run(&["send", "--connect", "127.0.0.1:1", "--corpus", file]);
    let unreadable = run(&["corpus", "info", broken]);
    let missing = run(&["corpus", "info", "no such file"]);
    for (output, word) in [
        (nobody, "refused"),
        (unreadable, "broken.msgs"),
        (missing, "no such file"),
    ] {
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(
            stderr.starts_with("tautline: ") && stderr.contains(word),
            "{stderr}"
        );
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    assert_eq!(
        run(&["send", "--corpus", file, "--policy", "fastest"])
            .status
            .code(),
        Some(2)
    );
    assert_eq!(
        run(&["send", "--corpus", file, "--connect", "nowhere"])
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn the_demonstration_ends_by_itself_and_tells_every_phase() {
    let rows = json_lines(&run(&["demo", "--for", "3", "--json"]));
    assert_eq!(rows.len(), 6 * 4 + 1);
    let (total, rows) = rows.split_last().expect("rows");
    assert!(
        total["total"]["messages"]
            .as_u64()
            .is_some_and(|messages| messages > 100),
        "{total}"
    );
    for phase in rows.chunks(4) {
        let streams: Vec<_> = phase
            .iter()
            .filter_map(|row| row["stream"].as_str())
            .collect();
        assert_eq!(streams, ["control", "metrics", "logs", "media"]);
    }
}
