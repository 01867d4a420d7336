//! Names that would be something else in a page, in a plot or on a terminal.

use serde_json::{Value, json};

use crate::bench::{lines, pass};
use crate::{events, file, folder, monitor, page_of, trace};

const HOSTILE: &str = "</svg></style><script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;&#60;\u{1b}[2J\u{0}\u{202e}]]>http://evil.example/";

/// What must not be anywhere: names are text, and steer nothing.
fn check(html: &str) {
    for wrong in [
        "<script",
        "<img",
        "<style></",
        "\u{1b}",
        "\u{0}",
        "\u{202e}",
    ] {
        assert!(!html.contains(wrong), "{wrong:?}");
    }
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

/// The name is there as text, address and all: what stands alone is checked without it.
fn page(name: &str, content: &str) {
    let folder = folder();
    let path = file(folder.path(), name, content);
    let output = crate::report(&[&path], &["--title", "</title><script>alert(1)</script>"]);
    assert!(
        output.status.success(),
        "{}",
        crate::support::text(&output.stderr)
    );
    let html = crate::support::text(&output.stdout);
    check(&html);
    crate::page::Page::new(
        html.replace("http://evil.example/", "")
            .replace("src=x", ""),
    );
}

#[test]
fn of_corpora_policies_and_codecs() {
    let rows = ["none", "cost", HOSTILE].map(|policy| {
        let mut row = pass(HOSTILE, policy, 0, 0.1);
        row["codecs"] = json!({HOSTILE: 1.0});
        row
    });
    page("bench.jsonl", &lines(&rows));
}

#[test]
fn of_streams_arms_and_reasons() {
    let mut row = trace::decision(1, HOSTILE, 5);
    row["stream"] = json!(HOSTILE);
    row["reason"] = json!(HOSTILE);
    page("trace.jsonl", &lines(&[row, trace::decision(2, "lz4", 5)]));
}

#[test]
fn of_stages_streams_codecs_and_events() {
    let mut analysis = events::analysis();
    for field in ["stages", "streams", "arms", "events"] {
        let one = analysis[field]
            .as_object()
            .and_then(|all| all.values().next())
            .expect("one")
            .clone();
        analysis[field][HOSTILE] = one;
    }
    page("events.json", &lines(&[analysis]));
}

#[test]
fn of_what_a_recording_lacks() {
    let text = monitor::recording(3);
    let mut rows: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    rows[0]["missing"] =
        json!([{"set": HOSTILE, "name": HOSTILE, "place": HOSTILE, "reason": HOSTILE}]);
    rows[0]["event_sets"]["sets"][0]["description"] = json!(HOSTILE);
    page("m.jsonl", &lines(&rows));
}

#[test]
fn of_files() {
    let folder = folder();
    let name = "<script>alert(1)<|script>&\"'.jsonl";
    let path = file(
        folder.path(),
        name,
        &lines(&[pass("a.msgs", "none", 0, 0.1)]),
    );
    let page = page_of(&[&path]);
    assert!(!page.html.contains("<script"));
    assert!(
        page.html
            .contains("&lt;script&gt;alert(1)&lt;|script&gt;&amp;&quot;")
    );
}
