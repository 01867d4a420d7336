//! Passes of a bench.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::page::{cell, close, figure};
use crate::{file, folder, page_of, report, support};

/// A pass as `bench --json` prints it.
pub(crate) fn pass(corpus: &str, policy: &str, round: u32, seconds: f64) -> Value {
    json!({
        "corpus": corpus, "link_bps": 1e7, "delay_ms": 0.0, "mode": "throughput", "busy_cores": 0, "policy": policy,
        "round": round, "messages": 100, "plain_bytes": 1_000_000, "wire_bytes": 250_000 + u64::from(round), "seconds": seconds,
        "mean_us": seconds * 1e5, "p50_us": seconds * 2e5, "p99_us": seconds * 3e5, "sender_cpu_s": 0.002, "receiver_cpu_s": 0.001,
        "codecs": {"identity": 0.25, "zstd:1": 0.75}, "blocks": 10, "out_of_budget": 0, "switches": 3, "regret": 0.0005,
    })
}

pub(crate) fn lines(rows: &[Value]) -> String {
    rows.iter().fold(String::new(), |mut text, row| {
        writeln!(text, "{row}").expect("memory");
        text
    })
}

fn rounds(corpus: &str, policy: &str, seconds: &[f64]) -> Vec<Value> {
    let rounds = seconds.iter().zip(0..);
    rounds
        .map(|(seconds, round)| pass(corpus, policy, round, *seconds))
        .collect()
}

/// By sorting and taking the middle, as anybody would.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 {
        values[half]
    } else {
        f64::midpoint(values[half - 1], values[half])
    }
}

#[test]
fn medians_ranges_and_efficiencies_are_right() {
    let folder = folder();
    let rows = [
        rounds("a.msgs", "none", &[0.4, 0.2, 0.3]),
        rounds("a.msgs", "zstd:1", &[0.12, 0.10, 0.50]),
        // Faster, but with history: not what efficiency is over.
        rounds("a.msgs", "zstd:1+history", &[0.08, 0.09, 0.07]),
        rounds("a.msgs", "cost", &[0.15, 0.16, 0.11]),
        // Better than all, and yet no reference.
        rounds("a.msgs", "of tomorrow", &[0.01, 0.01, 0.01]),
    ];
    let page = page_of(&[&file(folder.path(), "a.jsonl", &lines(&rows.concat()))]);
    let heading = "a.msgs: 100 messages, 1.000 MB";
    for (policy, expected, efficiency, of_all) in [
        ("none", "300.0", 0.4, 0.08 / 0.3),
        ("zstd:1 *", "120.0", 1.0, 0.08 / 0.12),
        ("zstd:1+history", "80.00", 1.5, 1.0),
        ("cost", "150.0", 0.8, 0.08 / 0.15),
        ("of tomorrow", "10.00", 12.0, 8.0),
    ] {
        let row = page.row(heading, policy);
        assert_eq!(cell(&row, "time, ms"), expected, "{policy}");
        assert!(close(figure(&row, "efficiency"), efficiency), "{row:?}");
        assert!(close(figure(&row, "over best static"), of_all), "{row:?}");
        assert_eq!(cell(&row, "passes"), "3");
        // The median of three rounds' bytes is that of the middle one.
        assert!(close(figure(&row, "ratio, plain/wire"), 1e6 / 250_001.0));
        assert_eq!(
            (cell(&row, "sender CPU, ms"), cell(&row, "receiver CPU, ms")),
            ("2.000", "1.000")
        );
    }
    let row = page.row(heading, "cost");
    assert_eq!(cell(&row, "least to greatest, ms"), "110.0 to 160.0");
    assert!(
        close(figure(&row, "message, mean, ms"), 15.0)
            && close(figure(&row, "message, p99, ms"), 45.0)
    );
    let summary = page.row("10Mbit/s, throughput</h3>", "a.msgs");
    assert_eq!(cell(&summary, "best static stateless arm"), "zstd:1");
    assert_eq!(cell(&summary, "its time"), "120.0 ms");
    assert_eq!(cell(&summary, "best static arm of all"), "zstd:1+history");
    assert_eq!(cell(&summary, "cost: of its passes"), "0.7500 to 1.091");
    assert!(page.html.contains("zstd:1 75.0 %, identity 25.0 %"));
    // A plot with its axis, and a legend with every policy.
    let plot = page.plots()[0];
    assert!(plot.contains("time of the best static stateless arm (log; smaller is better)"));
    assert!(plot.contains("a.msgs"));
    let legend = page
        .html
        .split("class=\"legend\"")
        .nth(1)
        .expect("a legend")
        .split("</ul>")
        .next()
        .expect("its end");
    for policy in ["none", "zstd:1", "zstd:1+history", "cost", "of tomorrow"] {
        assert!(
            legend.contains(&format!("</svg>{policy}</li>")),
            "{policy}: {legend}"
        );
    }
}

#[test]
fn in_latency_mode_the_mean_message_time_is_judged() {
    let folder = folder();
    let of = |policy: &str, mean: f64, seconds: f64| {
        let mut row = pass("a.msgs", policy, 0, seconds);
        row["mode"] = json!("latency");
        row["mean_us"] = json!(mean);
        row
    };
    let rows = [
        of("none", 50.0, 9.0),
        of("lz4", 80.0, 1.0),
        of("cost", 40.0, 5.0),
    ];
    let page = page_of(&[&file(folder.path(), "a.jsonl", &lines(&rows))]);
    let row = page.row("a.msgs: 100 messages", "cost");
    assert_eq!(cell(&row, "message, mean, µs"), "40.00");
    assert!(close(figure(&row, "efficiency"), 1.25), "{row:?}");
    assert_eq!(cell(&row, "all messages, s"), "5.000");
}

#[test]
fn what_is_not_comparable_is_kept_apart() {
    let folder = folder();
    let mut rows = rounds("a.msgs", "none", &[0.2]);
    rows.extend(rounds("a.msgs", "cost", &[0.1]));
    for (field, value) in [
        ("plain_bytes", json!(500_000)),
        ("link_bps", Value::Null),
        ("busy_cores", json!(2)),
        ("delay_ms", json!(5.0)),
    ] {
        for policy in ["none", "cost"] {
            let mut other = pass("a.msgs", policy, 0, 0.4);
            other[field] = value.clone();
            rows.push(other);
        }
    }
    let page = page_of(&[&file(folder.path(), "a.jsonl", &lines(&rows))]);
    for heading in [
        "unlimited link, throughput</h3>",
        "10Mbit/s, throughput, 2 busy cores</h3>",
        "10Mbit/s, 5 ms delay, throughput</h3>",
    ] {
        let (_, after) = page.html.split_once(heading).expect(heading);
        assert!(after.contains("a.msgs: 100 messages"));
    }
    assert!(
        page.html.contains("a.msgs: 100 messages, 500.0 kB")
            && page.html.contains("a.msgs: 100 messages, 1.000 MB")
    );
    let overview = page.row("All conditions</h3>", "10Mbit/s, throughput");
    assert_eq!(cell(&overview, "corpora"), "2");
    assert!(
        close(
            figure(&overview, "cost: efficiency, geometric mean"),
            2f64.sqrt()
        ),
        "{overview:?}"
    );
    assert_eq!(
        (
            figure(&overview, "cost: least"),
            figure(&overview, "cost: greatest")
        ),
        (1.0, 2.0)
    );
}

#[test]
fn without_a_static_arm_nothing_is_compared_and_doubtful_rounds_are_said() {
    let folder = folder();
    let mut rows = rounds("a.msgs", "cost", &[0.1, 0.2]);
    rows.extend(rounds("a.msgs", "majority", &[0.3]));
    rows.extend(rounds("a.msgs", "cost", &[0.3]));
    let page = page_of(&[&file(folder.path(), "a.jsonl", &lines(&rows))]);
    let row = page.row("a.msgs: 100 messages", "cost");
    assert_eq!(cell(&row, "efficiency"), "-");
    assert!(page.html.contains("No static stateless arm was run"));
    assert!(page.html.contains("from 1 to 3 passes"));
    assert!(page.html.contains("a.msgs, cost: a round comes twice"));
}

#[test]
fn many_policies_share_a_mark_and_none_is_lost_from_the_table() {
    let folder = folder();
    let names = [
        "none", "lz4", "snappy", "zstd:-5", "zstd:1", "zstd:3", "zstd:6", "zstd:9", "xz:3", "cost",
    ];
    let rows: Vec<Value> = names
        .iter()
        .zip(1..)
        .map(|(name, place)| pass("a.msgs", name, 0, f64::from(place)))
        .collect();
    let page = page_of(&[&file(folder.path(), "a.jsonl", &lines(&rows))]);
    assert!(page.html.contains("3 other policies, without their ranges"));
    for name in names {
        let name = if name == "none" { "none *" } else { name };
        page.row("a.msgs: 100 messages", name);
    }
}

#[test]
fn what_a_bench_has_written_is_what_is_shown() {
    let folder = folder();
    let corpus: String = (0..300).fold(String::new(), |mut text, line| {
        writeln!(text, "order {line}: three of article {}", line * 7).expect("memory");
        text
    });
    let corpus = file(folder.path(), "orders.txt", &corpus);
    let bench = [
        "bench",
        "--corpus",
        corpus.to_str().expect("text"),
        "--rounds",
        "3",
        "--no-guard",
        "--link",
        "10Mbit",
        "--policy",
        "none,zstd:1,cost",
        "--json",
    ];
    let output = support::run(&bench);
    let rows = support::json_lines(&output);
    assert_eq!(rows.len(), 9);
    let path = file(folder.path(), "bench.jsonl", &support::text(&output.stdout));
    let output = report(&[&path], &["--title", "One & all"]);
    let page = crate::page::Page::new(support::text(&output.stdout));
    assert!(
        page.html.contains("<h1>One &amp; all</h1>") && page.html.contains("9 passes, 1 condition")
    );
    let seconds = |policy: &str| {
        let rows = rows.iter().filter(|row| row["policy"] == policy);
        median(
            rows.map(|row| row["seconds"].as_f64().expect("a number"))
                .collect(),
        )
    };
    let best = seconds("none").min(seconds("zstd:1"));
    let row = page.row("orders.txt: 300 messages", "cost");
    assert!(
        close(figure(&row, "efficiency"), best / seconds("cost")),
        "{row:?}"
    );
    let wire = rows
        .iter()
        .filter(|row| row["policy"] == "cost")
        .map(|row| row["wire_bytes"].as_f64().expect("a number"));
    let ratio = rows[0]["plain_bytes"].as_f64().expect("a number") / median(wire.collect());
    assert!(close(figure(&row, "ratio, plain/wire"), ratio), "{row:?}");
}
