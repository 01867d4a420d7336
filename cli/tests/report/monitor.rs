//! Recordings of the monitor.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::page::{cell, close, figure};
use crate::{file, folder, page_and_said, page_of};

/// A recording of one set of cycles and instructions of two processors, and what a last line says.
pub(crate) fn recording(samples: u64) -> String {
    let header = json!({
        "tautline_monitor": 1, "version": "0.1.0", "hz": 10.0, "slots": 100, "origin_unix_ns": 1_700_000_000_000_000_000u64,
        "gauges": [{"name": "load", "is_count": false}],
        "missing": [{"set": "cpi", "name": "branches", "place": null, "reason": "the machine <has> none"}],
        "event_sets": {
            "sets": [{"name": "cpi", "description": "What a cycle does", "events": ["cycles", "instructions", "branches"], "metrics": {"ipc": "instructions / cycles"}}],
            "stack": [{"level": "L1", "set": "cpi", "per_instruction": "0.25 * instructions / instructions", "penalty": "no such penalty"}],
        },
    });
    let mut text = format!("{header}\n");
    for number in 1..=samples {
        for cpu in 0..2u64 {
            let count = |count: u64| json!({"count": count, "enabled_ns": 100_000_000, "running_ns": 100_000_000 / (1 + cpu)});
            let row = json!({
                "at_ns": number * 100_000_000, "interval_ns": 100_000_000, "set": "cpi", "cpu": cpu,
                "events": {"cycles": count(3000), "instructions": count(1000 + number)}, "metrics": {}, "gauges": {"load": 0.5},
            });
            writeln!(text, "{row}").expect("memory");
        }
    }
    text
}

const END: &str = "{\"end\":true,\"lost\":2,\"probe_share\":0.005,\"probe_ns\":10000000,\"working_ns\":4000000,\"wall_ns\":2000000000,\"missed_ticks\":4}\n";

#[test]
fn totals_rates_the_stack_and_what_is_missing_are_right() {
    let folder = folder();
    let page = page_of(&[&file(folder.path(), "m.jsonl", &(recording(20) + END))]);
    let value = |name: &str| cell(&page.row("Recording</h3>", name), "value").to_owned();
    assert_eq!(value("samples"), "40");
    assert_eq!(value("places"), "cpu 0, cpu 1");
    assert_eq!(value("times count from"), "2023-11-14 22:13:20 UTC");
    assert_eq!(
        value("from the first sample's beginning to the last one's end"),
        "2.000 s"
    );
    assert_eq!(
        value("samples that were overwritten before they were written"),
        "2"
    );
    assert_eq!(
        value("what the monitor itself took (the probe effect)"),
        "10.00 ms of processor time in 2.000 s: 0.5000 % of one processor, 0.2000 % at work and the rest to wake and to sleep; ticks that came too late and were left out: 4"
    );
    let missing = page.row("Not counted</h3>", "the machine <has> none");
    assert_eq!(
        (
            cell(&missing, "where"),
            cell(&missing, "events or gauges, of sets")
        ),
        ("everywhere", "branches of cpi")
    );
    let instructions: u64 = (1..=20).map(|number| 1000 + number).sum();
    let rows = page.rows();
    let total = |place: &str, name: &str| {
        let found = rows
            .iter()
            .find(|row| row.len() == 8 && row[1] == place && row[2] == name);
        found
            .unwrap_or_else(|| panic!("{place} {name}: {rows:?}"))
            .clone()
    };
    let cycles = total("cpu 0", "cycles");
    assert_eq!(
        (
            cycles[3].as_str(),
            cycles[4].as_str(),
            cycles[5].as_str(),
            cycles[6].as_str(),
            cycles[7].as_str()
        ),
        ("60000", "30000", "100.0", "2.000", "20")
    );
    assert_eq!(total("cpu 0", "instructions")[3], instructions.to_string());
    // Counted half of the time: scaled, and said.
    let scaled = total("cpu 1", "cycles");
    assert_eq!((scaled[3].as_str(), scaled[5].as_str()), ("120000", "50.0"));
    assert_eq!(total("cpu 0", "branches")[3], "-");
    let ipc = &total("cpu 0", "ipc = instructions / cycles")[3];
    assert!(
        close(
            ipc.parse().expect("a number"),
            instructions as f64 / 60_000.0
        ),
        "{ipc}"
    );
    let stack = page.row("cpu 0: 2.969 cycles an instruction", "L1");
    assert_eq!(
        (
            cell(&stack, "misses per instruction"),
            cell(&stack, "penalty, cycles"),
            cell(&stack, "cycles per instruction")
        ),
        ("0.2500", "not known", "-")
    );
    let base = page.row("cpu 0: 2.969 cycles an instruction", "base and other");
    assert!(close(
        figure(&base, "cycles per instruction"),
        60_000.0 / instructions as f64
    ));
    let plots = page.plots().concat();
    for words in [
        "cycles, events/s",
        "instructions, events/s",
        ">\nipc",
        ">\nload",
        "time, s",
        "cycles per instruction",
    ] {
        assert!(plots.contains(words), "{words}");
    }
    assert!(
        !page.html.contains("branches, events a second"),
        "nothing is drawn of what was not counted"
    );
    assert!(page.html.contains("</svg>cpu 1</li>") && page.html.contains("What a cycle does."));
}

#[test]
fn without_an_end_the_probe_effect_is_not_known() {
    let folder = folder();
    let (page, said) = page_and_said(&[&file(folder.path(), "m.jsonl", &recording(3))]);
    assert!(
        said.contains("m.jsonl: it was not brought to its end"),
        "{said}"
    );
    let probe = page.row(
        "Recording</h3>",
        "what the monitor itself took (the probe effect)",
    );
    assert!(cell(&probe, "value").starts_with("not known"), "{probe:?}");
}

#[test]
fn a_long_recording_is_thinned_and_its_totals_are_not() {
    let folder = folder();
    let page = page_of(&[&file(folder.path(), "m.jsonl", &(recording(20_000) + END))]);
    assert!(page.html.contains("thinned from 40000 points"));
    assert!(page.html.len() < 600_000, "{}", page.html.len());
    let cycles = page
        .rows()
        .into_iter()
        .find(|row| row.len() == 8 && row[2] == "cycles")
        .expect("a total");
    assert_eq!(
        (cycles[3].as_str(), cycles[7].as_str()),
        ("60000000", "20000")
    );
}

#[test]
fn absurd_counts_and_times_are_borne() {
    let folder = folder();
    let text = recording(2);
    let mut rows: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    rows[3]["events"]["cycles"]["count"] = json!(u64::MAX);
    rows[3]["gauges"]["load"] = json!(1e308);
    rows[4]["events"]["cycles"]["running_ns"] = json!(0);
    rows[4]["at_ns"] = json!(u64::MAX);
    rows[4]["interval_ns"] = json!(0);
    page_of(&[&file(
        folder.path(),
        "m.jsonl",
        &(crate::bench::lines(&rows) + END),
    )]);
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_monitor_has_written_is_shown() {
    let folder = folder();
    let path = folder.path().join("m.jsonl");
    let own = std::process::id().to_string();
    let output = crate::support::run(&[
        "monitor",
        "--pid",
        &own,
        "--only",
        "system",
        "--hz",
        "50",
        "--for",
        "0.5",
        "--quiet",
        "--out",
        path.to_str().expect("text"),
    ]);
    assert!(
        output.status.success(),
        "{}",
        crate::support::text(&output.stderr)
    );
    let written = std::fs::read_to_string(&path).expect("a recording");
    let samples = written
        .lines()
        .filter(|line| line.starts_with("{\"at_ns\""))
        .count();
    if samples == 0 {
        eprintln!("skipped: this machine counts nothing of the set");
        return;
    }
    let page = page_of(&[&path]);
    let shown = page.row("Recording</h3>", "samples");
    assert_eq!(cell(&shown, "value"), samples.to_string());
    let last: Value = serde_json::from_str(written.lines().last().expect("a line")).expect("JSON");
    let share = 100.0 * last["probe_share"].as_f64().expect("a number");
    assert!(
        page.html
            .contains(&format!(": {share:.4} % of one processor")),
        "{share}"
    );
}
