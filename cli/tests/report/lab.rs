//! Results of `lab` that no lab would write: refused with the line, or a page all the same.

use serde_json::{Value, json};

use crate::bench::lines;
use crate::{file, folder, report, support};

fn head() -> Value {
    json!({
        "tautline_lab": 1, "row": "scenario", "title": "hostile", "source": "", "quick": false,
        "rounds": 1, "variants": ["a"], "machine": [["processor", "any"]], "notes": [],
        "plots": ["rtt", "cumulative-rtt", "arms", "budget"],
    })
}

fn chunk(first: u64, messages: u64) -> Value {
    json!({"first": first, "messages": messages, "mean": 0.001, "least": 0.0, "greatest": 0.002})
}

/// With every number that can be told from it as large as it may be.
fn run() -> Value {
    let most = u64::MAX;
    json!({
        "tautline_lab": 1, "row": "run", "variant": "a", "round": u32::MAX, "seconds": 0.0,
        "others": f64::MAX, "cut": null,
        "traffic": [{
            "name": "m", "from": "n", "to": "o", "messages": most, "asked": most, "seconds": 0.0,
            "plain_bytes": 0, "wire_bytes": 0, "switches": most, "out_of_budget": most,
            "rtt": {"mean": 1e15, "p50": f64::MAX, "p90": 0.0, "p99": -f64::MAX, "p999": 0.0, "max": f64::MAX},
            "arms": [["lz4", most], ["zstd:1", most]],
        }],
        "nodes": [{"name": "n", "processors": [u32::MAX], "cpu": 0.0}],
        "loads": [{
            "name": "l", "what": "leech cpu", "processor": u32::MAX, "asked": f64::MAX,
            "held": -f64::MAX, "from": [0.0, most], "until": [1e15, most],
        }],
        "counted": [["n", "page-faults", f64::MAX]],
        "arms": ["lz4", "zstd:1"],
        "samples": [
            {"at": 0.0, "node": "n", "cpu": 0.0, "load": 1e15, "budget": 1e15, "messages": 0, "rtt_sum": 0.0, "arms": []},
            {"at": 1e15, "node": "n", "cpu": 1e15, "load": 0.0, "budget": 0.0, "messages": 1_000_000_000_000_000_u64,
             "rtt_sum": 1e15, "arms": [most, most, most]},
        ],
        "series": vec![chunk(1_000_000_000_000_000, 1_000_000_000_000_000); 3000],
    })
}

fn with(row: &Value, pointer: &str, value: &Value) -> Value {
    let mut changed = row.clone();
    *changed.pointer_mut(pointer).expect("it is there") = value.clone();
    changed
}

fn without(row: &Value, name: &str) -> Value {
    let mut changed = row.clone();
    changed
        .as_object_mut()
        .and_then(|fields| fields.remove(name))
        .expect("it is there");
    changed
}

/// What comes of such a file: the page, or why there is none, in one line.
fn outcome(content: &str) -> Result<String, String> {
    let folder = folder();
    let path = file(folder.path(), "lab.jsonl", content);
    let output = report(&[&path], &[]);
    let error = support::text(&output.stderr);
    match output.status.code() {
        Some(0) => Ok(support::text(&output.stdout)),
        Some(1) => {
            assert_eq!(error.lines().count(), 1, "{error}");
            assert!(error.starts_with("tautline: "), "{error}");
            Err(error)
        }
        code => panic!("{code:?}: {error}"),
    }
}

#[test]
fn the_greatest_numbers_that_are_taken_make_a_page() {
    let figure = json!({
        "tautline_lab": 1, "row": "figure", "name": "f", "unit": "", "source": "1", "ours": "2",
        "range": [-f64::MAX, f64::MAX], "rounds": ["2"],
    });
    let shape = json!({
        "tautline_lab": 1, "row": "shape", "say": "s", "finding": "open", "agreeing": u32::MAX, "known": 0,
        "margin": {"middle": f64::MAX, "low": -f64::MAX, "high": f64::MAX, "confidence": f64::MAX, "unit": "<b>"},
    });
    let rows = [head(), run(), run(), figure, shape.clone()];
    let page = outcome(&lines(&rows)).expect("a page");
    assert!(page.contains("hostile") && page.contains("leech cpu"));
    // Nothing over no time is no number.
    assert!(!page.contains(">NaN<") && !page.contains(">inf<"));
    let shape = with(&shape, "/finding", &json!("perhaps"));
    let error = outcome(&lines(&[head(), shape])).expect_err("no finding");
    assert!(error.contains("line 2"), "{error}");
}

#[test]
fn numbers_that_mean_nothing_are_refused() {
    let most = json!(u64::MAX);
    for (place, value, reason) in [
        ("/series/0/first", &most, "line 2"),
        ("/series/0/messages", &most, "line 2"),
        ("/series/2/mean", &json!(1e300), "line 2"),
        ("/samples/1/messages", &most, "line 2"),
        ("/samples/1/at", &json!(-1.0), "line 2"),
        ("/loads/0/until", &json!([1e300, 0]), "line 2"),
        ("/seconds", &json!(1e16), "line 2"),
        ("/seconds", &Value::Null, "line 2"),
        ("/round", &most, "line 2"),
        ("/round", &json!(-1), "line 2"),
        ("/arms", &json!({"lz4": 1}), "line 2"),
        ("/samples/0", &json!("none"), "line 2"),
        ("/variant", &json!(7), "line 2"),
        ("/row", &json!("walk"), "line 2"),
        ("/tautline_lab", &json!(2), "version 2 of results"),
        ("/tautline_lab", &json!("one"), "line 2"),
        ("/arms", &json!(vec!["a"; 5001]), "more than 5000 arms"),
        (
            "/counted",
            &json!(vec![("n", "m", 1.0); 5001]),
            "more than 5000 metrics",
        ),
    ] {
        let content = lines(&[head(), with(&run(), place, value)]);
        let error = outcome(&content).expect_err(place);
        assert!(error.contains(reason), "{place}: {error}");
    }
    for field in [
        "variant", "round", "seconds", "traffic", "samples", "series", "row",
    ] {
        let error = outcome(&lines(&[head(), without(&run(), field)])).expect_err(field);
        assert!(error.contains("line 2"), "{field}: {error}");
    }
}

#[test]
fn what_would_take_for_ever_is_refused() {
    let names: Vec<String> = (0..2000).map(|number| number.to_string()).collect();
    let error = outcome(&lines(&[with(&head(), "/variants", &json!(names))]));
    let error = error.expect_err("so many variants");
    assert!(error.contains("line 1: more than 1000 variants"), "{error}");
    let run = with(&run(), "/series", &json!([]));
    let of_each = names
        .iter()
        .map(|name| with(&run, "/variant", &json!(name)));
    let runs: Vec<Value> = of_each.collect();
    let error = outcome(&lines(&runs)).expect_err("so many variants");
    assert!(
        error.contains("line 1001: more than 1000 variants"),
        "{error}"
    );
    let error = outcome(&lines(&[with(&head(), "/plots", &json!(vec!["rtt"; 9]))]));
    let error = error.expect_err("so many plots");
    assert!(error.contains("more than 8 plots"), "{error}");
}

#[test]
fn a_last_line_that_was_cut_is_left_out_wherever_that_was() {
    let run = with(&run(), "/series", &json!([chunk(0, 1)]));
    let whole = lines(&[head()]);
    let last = run.to_string();
    for end in (1..last.len()).step_by(97) {
        let page = outcome(&format!("{whole}{}", &last[..end])).expect("a page of the rest");
        assert!(page.contains("was cut"), "{end}");
    }
    // But not one in the middle.
    let cut = format!("{whole}{}\n{last}\n", &last[..last.len() / 2]);
    let error = outcome(&cut).expect_err("a line that is cut in the middle");
    assert!(error.contains("line 2"), "{error}");
}
