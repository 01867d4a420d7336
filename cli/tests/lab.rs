//! `tautline lab`, as a user runs it.
#![cfg(target_os = "linux")]

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::support::{deadline, finish, processor, run, tautline, text};

const TINY: &str = r#"
title = "a tiny lab"
source = "Nobody's table"
rounds = 2
limit = 15
sample = 0.02
settle = 0.05
plots = ["rtt", "cumulative-rtt", "arms", "budget"]
nodes = [
    { name = "a", processors = [0], guard = false },
    { name = "b", processors = [1], guard = false, work = { kib = 64, touches = 100 } },
]
links = [{ between = ["a", "b"], rate = "8Mbit", delay_ms = 0.5, changes = [{ at_message = 100, rate = "none", delay_ms = 0 }] }]
loads = [{ name = "hog", node = "b", leech = "cpu:0.1", from_message = 40, until_message = 90 }]
monitor = { sets = ["system"], hz = 50, nodes = ["b"] }
traffic = [{ name = "messages", from = "a", to = "b", messages = 200, content = [{ of = "zeros:400" }, { from_message = 100, of = "telecom" }] }]
variants = [
    { name = "plain", set = { "nodes.*.policy" = "none" } },
    { name = "packed", set = { "nodes.*.policy" = "zstd:1", "nodes.b.carrier" = "unix", "links.0.rate" = "none", "links.0.delay_ms" = 0, "links.0.changes" = [] } },
]
figures = [
    { name = "plain ratio", variant = "plain", metric = "ratio", source = 1 },
    { name = "packed ratio", variant = "packed", metric = "ratio" },
    { name = "packed early", variant = "packed", metric = "arm" },
    { name = "change", variant = "packed", metric = "ratio", against = "plain ratio" },
]
shapes = [
    { say = "what is packed is smaller", less = "plain ratio", than = "packed ratio" },
    { say = "nothing is smaller than nothing", less = "packed ratio", than = 0 },
]
"#;

fn path(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Of the tiny lab: tables, plots, and nothing from elsewhere.
fn page_is_whole(page: &str) {
    for words in [
        "Lab: ",
        "a tiny lab",
        "what is packed is smaller",
        "agrees",
        "Messages by arm",
        "Mean round trip so far",
        "leech cpu",
        "zstd:1",
        "2 of 2",
    ] {
        assert!(page.contains(words), "{words}");
    }
    for figure in [
        "plain: round trip by message",
        "packed: round trip by message",
        "The mean of all round trips so far",
        "plain: messages by arm so far",
        "packed: messages by arm so far",
        "plain: a, first round",
        "packed: a, first round",
    ] {
        assert!(page.contains(figure), "{figure}");
    }
    // A plot each, save that of a processor that has had no load.
    assert!(page.matches("<svg role=\"img\"").count() >= 5);
    assert!(!page.contains("<script") && !page.contains("href=\"http"));
}

#[test]
fn a_scenario_leaves_a_folder_with_all_that_was_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = folder.path().join("tiny.toml");
    std::fs::write(&scenario, TINY).expect("room");
    let out = folder.path().join("results");
    let output = run(&["lab", path(&scenario), "--out", path(&out)]);
    let (said, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}{err}");
    for words in [
        "a tiny lab",
        "Nobody's table",
        "agrees   what is packed is smaller (by 2.",
        " at 50 %; 2 of 2 rounds)",
        "differs  nothing is smaller than nothing (by -",
        " at 50 %; 0 of 2 rounds)",
        "packed ratio",
        "results in ",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }

    let lines = std::fs::read_to_string(out.join("lab.jsonl")).expect("lines");
    let rows: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object a line"))
        .collect();
    let of = |kind: &str| {
        rows.iter()
            .filter(|row| row["row"] == kind)
            .collect::<Vec<_>>()
    };
    assert_eq!((of("scenario").len(), of("run").len()), (1, 4));
    assert_eq!((of("figure").len(), of("shape").len()), (4, 2));
    for run in of("run") {
        let traffic = &run["traffic"][0];
        assert_eq!(
            (&traffic["messages"], &traffic["asked"]),
            (&200.into(), &200.into())
        );
        let arms: Vec<&str> = run["arms"]
            .as_array()
            .expect("arms")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let is_packed = run["variant"] == "packed";
        assert_eq!(arms.contains(&"zstd:1"), is_packed, "{arms:?}");
        let chunks = run["series"].as_array().expect("a series");
        let counted: u64 = chunks
            .iter()
            .filter_map(|one| one["messages"].as_u64())
            .sum();
        assert_eq!(counted, 200);
        // Half of them went over a link with a delay, each way.
        if !is_packed {
            let first = chunks[10]["least"].as_f64().expect("a time");
            assert!(first > 0.001, "{first}");
        }
        // The last is of all messages, however soon it was over.
        let samples = run["samples"].as_array().expect("samples");
        let last = samples
            .iter()
            .rfind(|one| one["node"] == "a" && one["messages"].is_u64());
        assert_eq!(last.expect("a sample")["messages"], 200);
        assert!(run["nodes"][1]["cpu"].as_f64() > Some(0.0));
        // Without the link it may all be over before the first sample.
        let loads = run["loads"].as_array().expect("loads");
        assert!(!loads.is_empty() || is_packed);
        let Some(load) = loads.first() else { continue };
        assert_eq!(load["what"], "leech cpu");
        let (from, until) = (&load["from"][1], &load["until"][1]);
        assert!(
            from.as_u64() >= Some(40) && until.as_u64() >= Some(90),
            "{load}"
        );
    }

    let first = std::fs::read_to_string(out.join("runs/plain.1.jsonl")).expect("a run");
    for word in ["\"Sample\"", "\"Driven\"", "\"Finished\"", "\"node\":\"b\""] {
        assert!(first.contains(word), "{word}");
    }
    let monitor = out.join("runs/packed.2.monitor.jsonl");
    let samples = std::fs::read_to_string(&monitor).expect("samples");
    assert!(samples.contains("\"tautline_monitor\":1"), "{samples}");
    assert_eq!(
        std::fs::read_to_string(out.join("scenario.toml")).expect("the scenario"),
        TINY
    );
    let machine = std::fs::read(out.join("machine.json")).expect("a machine");
    serde_json::from_slice::<Value>(&machine).expect("JSON");

    page_is_whole(&std::fs::read_to_string(out.join("report.html")).expect("a page"));
    // The same page from the lines alone.
    let again = run(&["report", path(&out.join("lab.jsonl")), "--out", "-"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert!(text(&again.stdout).contains("what is packed is smaller"));
    // What is there is not overwritten by mistake.
    let twice = run(&["lab", path(&scenario), "--out", path(&out)]);
    assert_eq!(twice.status.code(), Some(1));
    assert!(text(&twice.stderr).contains("the folder is not empty"));
}

#[test]
fn those_that_come_with_the_program_are_listed_and_one_runs_quickly() {
    let listed = run(&["lab", "--list"]);
    let said = text(&listed.stdout);
    for name in [
        "table-6.1",
        "table-6.4",
        "table-7.3",
        "figure-7.4",
        "figure-7.7",
    ] {
        assert!(said.contains(name), "{said}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let lab = tautline(&["lab", "figure-7.6", "--quick"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let output = finish(lab.expect("it starts"));
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    // The last of its name is no file's ending.
    let out = folder.path().join("lab-figure-7.6");
    assert!(
        said.contains("--quick: one round") && said.contains("chooses anew"),
        "{said}"
    );
    let page = std::fs::read_to_string(out.join("report.html")).expect("a page");
    assert!(
        !page.contains('\u{fffd}'),
        "what the scenario says, in several lines, can be shown"
    );
}

#[test]
fn what_cannot_be_run_is_said_before_anything_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = folder.path().join("bad.toml");
    let out = folder.path().join("results");
    for (content, reason) in [
        (
            TINY.replace("settle = 0.05", "setle = 0.05"),
            "line 7: unknown field `setle`",
        ),
        (
            TINY.replace("zeros:400", "no/such/file"),
            "traffic `messages`: content",
        ),
        (
            TINY.replace("limit = 15", "limit = -1"),
            "limit is -1, and may be 0.1 to 3600",
        ),
        (
            TINY.replace(
                "from = \"a\", to",
                "arrivals = \"sometimes\", from = \"a\", to",
            ),
            "says of no arrivals",
        ),
    ] {
        std::fs::write(&scenario, content).expect("room");
        let output = run(&["lab", path(&scenario), "--out", path(&out)]);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains(reason), "{reason}: {err}");
        assert!(!out.exists(), "{reason}");
    }
    for (words, reason) in [
        (&["lab", "table-9.9"][..], "no scenario of that name"),
        (&["lab", "/no/such/file.toml"], "No such file"),
        (
            &["lab", "table-7.3", "--only", "nobody"],
            "no variant `nobody`",
        ),
    ] {
        let err = text(&run(words).stderr);
        assert!(err.contains(reason), "{err}");
    }
}

/// Processes whose parent or ancestor is this one.
fn children(of: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("Linux");
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let parent = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let rest = stat.rsplit_once(')')?.1;
        rest.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    numbers
        .filter(|process| parent(process) == Some(of))
        .collect()
}

#[test]
fn nothing_outlives_a_lab_that_is_killed() {
    // Of sockets, which are in the way of nobody until the next lab removes them.
    let temporary = tempfile::Builder::new().prefix("t").tempdir_in("/tmp");
    let temporary = temporary.expect("a folder");
    let left = || {
        std::fs::read_dir(temporary.path())
            .expect("a folder")
            .count()
    };
    for signal in ["-KILL", "-TERM"] {
        let folder = tempfile::tempdir().expect("a folder");
        let scenario = folder.path().join("long.toml");
        let long = TINY.replace("messages = 200", "messages = 2000000");
        std::fs::write(&scenario, long).expect("room");
        let out = folder.path().join("results");
        let mut lab = tautline(&["lab", path(&scenario), "--out", path(&out)])
            .env("TMPDIR", temporary.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut said = BufReader::new(lab.stdout.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("its title");
        let until = deadline();
        let wait = |what: &str| {
            assert!(until.elapsed().is_zero(), "{what}");
            std::thread::sleep(Duration::from_millis(10));
        };
        // Both nodes are there, and say something.
        let mut nodes = children(lab.id());
        let file = |name: &str| std::fs::metadata(out.join(name)).is_ok();
        while nodes.len() < 2 || !file("runs") {
            wait("no nodes");
            nodes = children(lab.id());
        }
        let status = std::process::Command::new("kill")
            .args([signal, &lab.id().to_string()])
            .status()
            .expect("a signal");
        assert!(status.success());
        lab.wait().expect("a child");
        let is_alive = |process: &&u32| {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
            stat.is_ok_and(|stat| !stat.contains(") Z "))
        };
        while nodes.iter().find(is_alive).is_some() {
            wait("nodes that go on");
        }
        assert_eq!(left(), usize::from(signal == "-KILL"), "{signal}");
        let short = folder.path().join("short.toml");
        std::fs::write(&short, TINY).expect("room");
        let output = finish(
            tautline(&[
                "lab",
                path(&short),
                "--quick",
                "--force",
                "--out",
                path(&out),
            ])
            .env("TMPDIR", temporary.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts"),
        );
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(left(), 0, "{signal}");
    }
}

const BESIDE: &str = r#"
title = "a model beside"
rounds = 1
limit = 15
sample = 0.02
nodes = [
    { name = "a", guard = false },
    { name = "b", processors = [4294967295], guard = false },
]
loads = [{ name = "site", node = "b", model = "site.json" }]
traffic = [{ name = "messages", from = "a", to = "b", messages = 250, arrivals = "constant:100", content = [{ of = "zeros:100" }] }]
variants = [
    { name = "closed" },
    { name = "open", set = { "loads.site.open" = true } },
]
"#;

#[test]
fn a_model_is_replayed_beside_traffic() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let (profile, model, scenario) = (at("p.jsonl"), at("site.json"), at("s.toml"));
    let words = ["load", "record", "--metrics", "cpu-load", "--cpu"];
    let length = ["--for", "0.4", "--interval", "0.2", "--out"];
    let output = run(&[&words[..], &[&processor()], &length, &[path(&profile)]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let words = ["load", "model", path(&profile), "--mean", "--out"];
    assert!(
        run(&[&words[..], &[path(&model)]].concat())
            .status
            .success()
    );
    let recorded = std::fs::read(&model).expect("a model");
    let recorded: Value = serde_json::from_slice(&recorded).expect("JSON");
    // As if it had been found before.
    let mut known = recorded.clone();
    known["means"] = serde_json::json!([0.3]);
    known["parameters"] = serde_json::json!({
        "machine": recorded["machine"], "actuators": ["cpu"],
        "intensities": {"interval_ms": 1000, "end": "hold", "rows": [[0.25]]},
    });
    let lab = |model: Option<&Value>, out: &str, variant: &str| {
        match model {
            Some(model) => std::fs::write(at("site.json"), model.to_string()).expect("room"),
            None => std::fs::remove_file(at("site.json")).expect("it is there"),
        }
        std::fs::write(&scenario, BESIDE).expect("room");
        let out = at(out);
        let words = ["lab", path(&scenario), "--only", variant, "--out"];
        run(&[&words[..], &[path(&out)]].concat())
    };

    for variant in ["closed", "open"] {
        let output = lab(Some(&known), variant, variant);
        let said = text(&output.stdout);
        assert!(output.status.success(), "{said}{}", text(&output.stderr));
        assert!(said.contains("nodes on 4294967296 processors"), "{said}");
        let lines = at(variant).join("lab.jsonl");
        let lines = std::fs::read_to_string(lines).expect("lines");
        let mut rows = lines
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        let run = rows.find(|row: &Value| row["row"] == "run").expect("a run");
        let loads = run["loads"].as_array().expect("loads");
        let of = |number: usize| loads[number]["what"].as_str().expect("words");
        assert_eq!(loads.len(), 2, "{variant}: {loads:?}");
        // How near it comes depends on the machine; that it is measured does not.
        assert!(of(0).starts_with("cpu-load: "), "{variant}: {}", of(0));
        // In open loop those that the model was saved with; a closed one takes the leech that counts others' load, too.
        let leeches = match variant {
            "closed" => "leeches load",
            _ => "leeches cpu",
        };
        assert_eq!(of(1), leeches, "{variant}");
        assert_eq!(loads[0]["name"], "site");
    }

    let mut other = known.clone();
    other["machine"]["processors"] = 77.into();
    let mut foreign = known.clone();
    foreign["metrics"][0]["name"] = "no-such-metric".into();
    for (number, (model, variant, reason)) in [
        (Some(&recorded), "open", "the model has no intensities"),
        (Some(&other), "closed", "the model is of another machine: "),
        (Some(&foreign), "closed", "no set has such a metric"),
        (Some(&Value::Null), "closed", "site.json"),
        (None, "closed", "site.json: No such file"),
    ]
    .into_iter()
    .enumerate()
    {
        let output = lab(model, &format!("bad{number}"), variant);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{reason}: {err}");
        let begins = format!("tautline: {variant}: load `site`: ");
        assert!(
            err.starts_with(&begins) && err.contains(reason),
            "{reason}: {err}"
        );
    }
}
