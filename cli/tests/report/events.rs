//! Analyses of event logs.

use serde_json::{Value, json};

use crate::page::{cell, close, figure};
use crate::{file, folder, page_of};

pub(crate) fn analysis() -> Value {
    let times = |p50: u64| json!({"messages": 10, "p50_ns": p50, "p90_ns": p50 * 2, "p99_ns": p50 * 10, "most_ns": p50 * 100});
    json!({
        "seconds": 2.0,
        "stages": {"queued to acked": times(50_000), "queued to encoded": times(2_000), "received to decoded": times(3_000)},
        "streams": {"orders": {
            "sent": 10, "sent_bytes": 4000, "received": 6, "received_bytes": 600,
            "queued to acked": times(50_000), "received to delivered": {"messages": 0, "p50_ns": 0, "p90_ns": 0, "p99_ns": 0, "most_ns": 0},
        }},
        "arms": {"identity": {"blocks": 1, "plain": 100, "wire": 110, "encode_ns": 0}, "zstd:1": {"blocks": 4, "plain": 3900, "wire": 1300, "encode_ns": 8000}},
        "events": {"block.acked": 5, "message.queued": 10},
        "load": 0.25, "rows": 15, "rows_lost": 0, "unrecorded": 0, "ring_bytes": 524_288, "ring_bytes_to_lose_nothing": 4096,
    })
}

#[test]
fn quantiles_streams_and_codecs_are_right() {
    let folder = folder();
    let page = page_of(&[&file(
        folder.path(),
        "events.json",
        &format!("{}\n", analysis()),
    )]);
    let stage = page.row("Stages</h3>", "queued to acked");
    assert_eq!(cell(&stage, "messages"), "10");
    assert_eq!(
        (
            cell(&stage, "p50, µs"),
            cell(&stage, "p90, µs"),
            cell(&stage, "p99, µs"),
            cell(&stage, "greatest, µs")
        ),
        ("50.00", "100.0", "500.0", "5000")
    );
    // In the order in which messages go through them.
    let names: Vec<String> = page
        .rows()
        .into_iter()
        .map(|mut row| row.swap_remove(0))
        .filter(|name| name.contains(" to "))
        .collect();
    assert_eq!(
        names,
        [
            "queued to encoded",
            "queued to acked",
            "received to decoded"
        ]
    );
    let stream = page.row("Streams</h3>", "orders");
    assert_eq!(
        (
            cell(&stream, "sent, messages/s"),
            cell(&stream, "received, messages/s")
        ),
        ("5.000", "3.000")
    );
    assert_eq!(
        (cell(&stream, "sent, kB/s"), cell(&stream, "received, kB/s")),
        ("2.000", "0.3000")
    );
    assert_eq!(cell(&stream, "received to delivered, p50, ns"), "-");
    let codec = page.row("Codecs</h3>", "zstd:1");
    assert_eq!(
        (
            cell(&codec, "ratio, plain/wire"),
            cell(&codec, "encoding of a block, mean, µs")
        ),
        ("3.000", "2.000")
    );
    assert!(
        close(figure(&codec, "encoding, MB/s"), 3900.0 / 8.0),
        "{codec:?}"
    );
    assert_eq!(cell(&codec, "of all plain bytes, %"), "97.5");
    assert!(
        page.html
            .contains("No rows lost, with 524.3 kB for each thread")
    );
    assert!(page.html.contains("Processor load, the latest: 25.0 %."));
    let plot = page.plots()[0];
    assert!(plot.contains("time of a message, µs (log)") && plot.contains("queued to encoded"));
    for quantile in ["p50", "p90", "p99", "greatest"] {
        assert!(
            page.html.contains(&format!("</svg>{quantile}</li>")),
            "{quantile}"
        );
    }
}

#[test]
fn lost_rows_are_said_and_so_is_what_would_have_kept_them() {
    let folder = folder();
    let mut lost = analysis();
    lost["rows_lost"] = json!(17);
    lost["unrecorded"] = json!(3);
    lost["ring_bytes_to_lose_nothing"] = json!(1_048_576);
    let page = page_of(&[&file(folder.path(), "events.json", &format!("{lost}\n"))]);
    assert!(
        page.html
            .contains("17 rows were overwritten before they were read")
    );
    assert!(
        page.html
            .contains("1.049 MB for each thread would have lost nothing")
    );
    assert!(
        page.html
            .contains("3 events of threads beyond the log's writers")
    );
}

#[test]
fn several_analyses_of_one_file_stand_one_after_the_other() {
    let folder = folder();
    let (first, mut second) = (analysis(), analysis());
    second["stages"] = json!({});
    let page = page_of(&[&file(
        folder.path(),
        "events.json",
        &format!("{first}\n{second}\n"),
    )]);
    assert!(
        page.html.contains("Stages, analysis 1</h3>")
            && page.html.contains("Stages, analysis 2</h3>")
    );
    assert!(
        page.html
            .contains("No message went through any stage in 2.000 s.")
    );
}
