//! Decisions.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::bench::lines;
use crate::page::{Page, cell, close, figure};
use crate::support::{self, Echo};
use crate::{file, folder, page_of, report};

pub(crate) fn decision(at_ns: u64, arm: &str, regret_ns: u64) -> Value {
    json!({
        "at_ns": at_ns, "stream": "orders", "plain_len": 1000, "block_len": 4096, "texture": "text", "arm": arm, "reason": "cheapest",
        "link_bps": 2e6, "link_backlog": 10, "queued_behind": 500, "run": 0, "budget_left": true, "peer_starved": false, "regret_ns": regret_ns,
    })
}

#[test]
fn shares_sums_and_the_link_are_right() {
    let folder = folder();
    let mut rows: Vec<Value> = (0..10u64)
        .map(|number| {
            decision(
                1_000_000_000 + number * 500_000_000,
                if number < 7 { "lz4" } else { "zstd:3+history" },
                number * 1000,
            )
        })
        .collect();
    rows[9]["link_bps"] = Value::Null;
    rows[8]["link_bps"] = json!(11e6);
    rows[8]["reason"] = json!("explored");
    rows[7]["plain_len"] = json!(4000);
    rows[6]["stream"] = json!("bulk");
    rows[5]["budget_left"] = json!(false);
    let page = page_of(&[&file(folder.path(), "trace.jsonl", &lines(&rows))]);
    let value = |name: &str| cell(&page.row("Summary</h3>", name), "value").to_owned();
    assert_eq!(value("decisions"), "10");
    assert_eq!(value("from the first to the last"), "4.500 s");
    assert_eq!(value("regret, sum"), "45.00 µs");
    assert_eq!(value("regret, mean of a decision"), "4.500 µs");
    assert_eq!(value("regret, greatest"), "9.000 µs");
    assert_eq!(value("decisions without a known link rate"), "1 (10.0 %)");
    assert_eq!(value("decisions with the codec budget spent"), "1 (10.0 %)");
    let lz4 = page.row("Arms over time", "lz4");
    assert_eq!(
        (cell(&lz4, "decisions"), cell(&lz4, "of all, %")),
        ("7", "70.0")
    );
    assert!(
        close(figure(&lz4, "of all plain bytes, %"), 100.0 * 7.0 / 13.0)
            || cell(&lz4, "of all plain bytes, %") == "53.8"
    );
    let zstd = page.row("Arms over time", "zstd:3+history");
    assert_eq!(
        (
            cell(&zstd, "block, mean, B"),
            cell(&zstd, "regret, sum, µs")
        ),
        ("2000", "24.00")
    );
    assert_eq!(
        cell(&page.row("Reasons</h3>", "explored"), "decisions"),
        "1"
    );
    assert_eq!(cell(&page.row("Streams</h3>", "bulk"), "of all, %"), "10.0");
    // Nine rates are known: eight of 2 Mbit/s and one of 11.
    let link = page.row("Link</h3>", "link rate, as estimated, Mbit/s");
    assert_eq!(
        (
            cell(&link, "least"),
            cell(&link, "greatest"),
            cell(&link, "mean")
        ),
        ("2.000", "11.00", "3.000")
    );
    let plots = page.plots().concat();
    for words in [
        "time, s",
        "link rate, as estimated, Mbit/s",
        "regret, added up, µs",
        "zstd:3+history",
    ] {
        assert!(plots.contains(words), "{words}");
    }
}

#[test]
fn a_long_trace_is_thinned_and_its_sums_are_not() {
    const COUNT: u64 = 150_000;

    let folder = folder();
    let mut text = String::new();
    for number in 0..COUNT {
        // One peak of the link, between all others.
        let link = if number == 77_777 {
            9e6
        } else {
            1e6 + (number % 1000) as f64
        };
        let mut row = decision(
            number * 20_000,
            if number % 3 == 0 { "lz4" } else { "identity" },
            7,
        );
        row["link_bps"] = json!(link);
        writeln!(text, "{row}").expect("memory");
    }
    let page = page_of(&[&file(folder.path(), "trace.jsonl", &text)]);
    assert!(page.html.len() < 400_000, "{}", page.html.len());
    assert!(
        page.html
            .contains("thinned from 150000 points: the least and the greatest of each")
    );
    let link = page.row("Link</h3>", "link rate, as estimated, Mbit/s");
    assert_eq!(cell(&link, "greatest"), "9.000");
    let summary = page.row("Summary</h3>", "regret, sum");
    assert_eq!(cell(&summary, "value"), "1.050 ms");
    assert_eq!(
        cell(&page.row("Arms over time", "lz4"), "decisions"),
        "50000"
    );
    // The peak is drawn: the highest point of its line stands alone.
    let plot = page
        .plots()
        .into_iter()
        .find(|plot| plot.contains("link rate"))
        .expect("a plot");
    let points = plot
        .split("points=\"")
        .filter_map(|part| part.split('"').next());
    let longest = points.max_by_key(|points| points.len()).expect("a line");
    let heights: Vec<i32> = longest
        .split_whitespace()
        .filter_map(|point| point.split_once(',')?.1.parse().ok())
        .collect();
    assert!(
        heights.len() > 500 && heights.len() <= 2000,
        "{}",
        heights.len()
    );
    let top = heights.iter().min().expect("points");
    assert_eq!(
        heights.iter().filter(|height| **height < top + 100).count(),
        1
    );
}

#[test]
fn more_than_one_run_in_a_file_is_said() {
    let folder = folder();
    let rows = [
        decision(5_000_000_000, "lz4", 1),
        decision(1_000_000_000, "lz4", 1),
    ];
    let page = page_of(&[&file(folder.path(), "trace.jsonl", &lines(&rows))]);
    assert!(
        page.html
            .contains("Times go back by more than a second, 1 times")
    );
}

#[test]
fn what_a_sender_and_a_log_have_written_is_shown_together() {
    let folder = folder();
    let echo = Echo::start_with(&["--no-guard", "--event-log"]);
    let corpus: String = (0..400).fold(String::new(), |mut text, line| {
        writeln!(text, "order {line}: three of article {}", line * 7).expect("memory");
        text
    });
    let corpus = file(folder.path(), "orders.txt", &corpus);
    let trace = folder.path().join("trace.jsonl");
    let sender = support::start(&[
        "send",
        "--no-guard",
        "--rate",
        "400",
        "--connect",
        &echo.address,
        "--corpus",
        corpus.to_str().expect("text"),
        "--trace",
        trace.to_str().expect("text"),
    ]);
    let pid = echo.child.id().to_string();
    let analysis = support::run(&[
        "events",
        "analyse",
        "--pid",
        &pid,
        "--seconds",
        "0.6",
        "--json",
    ]);
    assert!(
        analysis.status.success(),
        "{}",
        support::text(&analysis.stderr)
    );
    assert!(support::finish(sender).status.success());
    let analysis = file(
        folder.path(),
        "events.json",
        &support::text(&analysis.stdout),
    );
    let output = report(&[&trace, &analysis], &[]);
    assert!(output.status.success(), "{}", support::text(&output.stderr));
    let page = Page::new(support::text(&output.stdout));
    let written = std::fs::read_to_string(&trace).expect("a trace");
    let decisions = cell(&page.row("Summary</h3>", "decisions"), "value").to_owned();
    assert_eq!(decisions, written.lines().count().to_string());
    let regret: u64 = written
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).expect("JSON")["regret_ns"]
                .as_u64()
                .expect("a number")
        })
        .sum();
    let by_arm = page
        .rows()
        .into_iter()
        .filter(|row| row.len() == 7 && row[0] == "orders.txt");
    assert_eq!(by_arm.count(), 1, "one stream");
    assert!(regret == 0 || page.html.contains("Regret, added up"));
    assert!(page.html.contains("Rows</h3>"));
}
