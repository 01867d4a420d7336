//! Each family by itself, over the same link as when it is measured: whatever it delivers is compared
//! with what was sent.

#![cfg(any(
    feature = "nats",
    feature = "omq",
    feature = "tonic",
    feature = "ws",
    feature = "zenoh"
))]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const MESSAGES: usize = 400;

/// Hundreds of messages of any length, in the container that a length stands before each in.
fn corpus(folder: &Path) -> String {
    let mut records = Vec::new();
    for number in 0..MESSAGES {
        let len = match number % 8 {
            0 => 0,
            1 => 1,
            7 if number % 100 == 7 => 200_000,
            place => (number * 31) % (40 << place),
        };
        let message: Vec<_> = (0..len)
            .map(|at| ((at * at) >> 9) as u8 ^ number as u8)
            .collect();
        let len = u32::try_from(len).expect("short");
        records.extend_from_slice(&len.to_le_bytes());
        records.extend_from_slice(&message);
    }
    let file = folder.join("any-length.msgs");
    std::fs::write(&file, records).expect("room");
    file.to_str().expect("a plain path").to_owned()
}

/// Runs a family, and has its members and why they could not run, if so.
fn run(family: &str) -> Vec<(String, Option<String>)> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(env!("CARGO_BIN_EXE_peers-more"))
        .args(["--corpus", &corpus(folder.path()), "--link", "none,200Mbit"])
        .args(["--peer", family, "--rounds", "2", "--json"])
        .output()
        .expect("the program runs");
    let rows: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    assert!(!rows.is_empty(), "{output:?}");
    let mut members = Vec::new();
    for row in rows {
        assert_eq!(row["failed"], Value::Null, "{row}");
        assert_eq!(row["messages"], MESSAGES, "{row}");
        let reason = row["cannot_run"].as_str().map(str::to_owned);
        let passes = row["times"].as_array().map_or(0, Vec::len);
        assert_eq!(passes, if reason.is_none() { 2 } else { 0 }, "{row}");
        let trips = row["trips"].as_u64().expect("a number");
        assert_eq!(trips > 200, reason.is_none(), "{row}");
        assert_eq!(row["memory_bytes"].is_f64(), reason.is_none(), "{row}");
        members.push((row["peer"].to_string(), reason));
    }
    assert!(output.status.success(), "{output:?}");
    members
}

/// Whoever is built here runs here.
#[cfg(any(feature = "omq", feature = "tonic", feature = "ws", feature = "zenoh"))]
fn delivers(family: &str, members: usize) {
    let ran = run(family);
    // Over two links.
    assert_eq!(ran.len(), 2 * members);
    for (name, reason) in ran {
        assert_eq!(reason, None, "{name}");
    }
}

#[cfg(feature = "tonic")]
#[test]
fn tonic_delivers_messages_of_any_length() {
    delivers("tonic", 3);
}

#[cfg(feature = "ws")]
#[test]
fn websockets_deliver_messages_of_any_length() {
    delivers("ws", 3);
}

#[cfg(feature = "omq")]
#[test]
fn omq_delivers_messages_of_any_length() {
    delivers("omq", 5);
}

#[cfg(feature = "zenoh")]
#[test]
fn zenoh_delivers_messages_of_any_length() {
    delivers("zenoh", 2);
}

#[cfg(feature = "nats")]
#[test]
fn nats_delivers_messages_of_any_length_or_names_its_server_as_missing() {
    for (name, reason) in run("nats") {
        let missing = reason.is_none_or(|reason| reason.contains("nats-server"));
        assert!(missing, "{name}");
    }
}
