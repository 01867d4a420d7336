//! `tautline load run` and `load drive`, as a user runs them.
#![cfg(target_os = "linux")]

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{
    Echo, finish, has_leech, is_alive, json_lines, run, start, tautline, text, wait_until,
};

#[test]
fn each_leech_has_a_line_with_what_it_held() {
    let output = run(&[
        "load",
        "run",
        "--for",
        "0.4",
        "--leech",
        "cpu:0.1",
        "--leech",
        "l2:0.1",
        "--leech",
        "page-faults:0.1",
        "--leech",
        "context-switches:0.1",
        "--misses",
        "3.3,0",
    ]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 4, "{out}");
    for (line, words) in lines.iter().zip([
        ["cpu", "of 0.1, ", "operations/s"],
        ["l2", "ns each", "misses 3.30 % L1D, 0.00 % LLC"],
        ["page-faults", "of 0.1, ", "faults/s"],
        ["context-switches", "of 0.1, ", "switches/s"],
    ]) {
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
    }
}

#[test]
fn a_leech_of_the_network_sends_to_an_echo() {
    let mut echo = Echo::start_unguarded();
    let address = echo.address.clone();
    let output = run(&[
        "load",
        "run",
        "--for",
        "0.5",
        "--leech",
        "network:0.1",
        "--to",
        &address,
    ]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{err}");
    let rate = out
        .split(" messages/s")
        .next()
        .and_then(|text| text.rsplit(' ').next());
    assert!(
        rate.and_then(|rate| rate.parse::<f64>().ok())
            .is_some_and(|rate| rate > 0.0),
        "{out}"
    );
    echo.child.kill().expect("a child");
    echo.child.wait().expect("a child");
    for (arguments, word) in [
        (&["--to", address.as_str()][..], "leech network: "),
        (&[], "--to says where it sends"),
    ] {
        let output = run(&[&["load", "run", "--leech", "network"], arguments].concat());
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains(word), "{err}");
    }
}

#[test]
fn the_list_says_what_is_detected_and_what_assumed() {
    let output = run(&["load", "run", "--list"]);
    let out = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for name in ["context-switches", "processors (", "L1D", "LLC"] {
        assert!(out.contains(name), "{out}");
    }
    let caches: Vec<&str> = out.lines().filter(|line| line.contains(" KiB, ")).collect();
    assert!(caches.len() >= 2, "{out}");
    assert!(
        caches
            .iter()
            .all(|line| line.contains("(detected)") || line.contains("(assumed: ")),
        "{out}"
    );
}

#[test]
fn bad_input_is_refused_with_the_reason() {
    for (arguments, code, word) in [
        (
            &["--leech", "gpu"][..],
            2,
            "there are cpu, load, fpu, l1, l2, llc, memory",
        ),
        (&["--leech", "cpu:1.5"], 2, "0 to 1"),
        (&["--leech", "cpu@x"], 2, "no number of a processor"),
        (&[], 2, "--leech"),
        (&["--leech", "cpu", "--for", "1e9"], 2, "seconds, from 0"),
        (&["--leech", "l1", "--misses", "x"], 2, "two percentages"),
        (
            &["--leech", "cpu", "--misses", "1,1"],
            1,
            "none of these leeches has miss ratios",
        ),
        (
            &["--leech", "cpu@1000"],
            1,
            "processor 1000 cannot be had; this process may run on ",
        ),
        (
            &["--leech", "cpu", "--pin", "4000000000"],
            1,
            "processor 4000000000 cannot be had",
        ),
    ] {
        let output = run(&[&["load", "run"], arguments].concat());
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?} {err}");
        assert!(err.contains(word), "{arguments:?} {err}");
    }
}

fn wait_for_leech(process: u32) {
    wait_until("a leech", || has_leech(process));
}

fn signal(name: &str, child: &Child) {
    let status = Command::new("kill")
        .args([name, &child.id().to_string()])
        .status();
    assert!(status.expect("kill").success());
}

#[test]
fn ctrl_c_ends_it_with_its_summary() {
    for name in ["-INT", "-TERM"] {
        let child = start(&["load", "run", "--leech", "cpu:0.05", "--for", "600"]);
        wait_for_leech(child.id());
        signal(name, &child);
        let output = finish(child);
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
        assert!(
            text(&output.stdout).starts_with("cpu "),
            "{}",
            text(&output.stdout)
        );
    }
}

#[test]
fn the_signal_of_a_parent_that_still_lives_changes_nothing() {
    let mut child = start(&["load", "run", "--leech", "cpu:0.05", "--for", "600"]);
    wait_for_leech(child.id());
    signal("-USR2", &child);
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().expect("a child").is_none());
    signal("-INT", &child);
    assert_eq!(finish(child).status.code(), Some(130));
}

/// What was started by a program that is killed ends, too.
#[test]
fn it_does_not_outlive_the_program_that_started_it() {
    let program = tautline(&[]);
    let script = "\"$0\" load run --leech cpu:0.05 --for 600 & echo $!; read -r line";
    let mut shell = Command::new("sh")
        .arg("-c")
        .arg(script)
        .arg(program.get_program())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut line = String::new();
    BufReader::new(shell.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("a line");
    let process: u32 = line.trim().parse().expect("a process");
    wait_for_leech(process);
    shell.kill().expect("a child");
    shell.wait().expect("a child");
    wait_until("nothing is left", || !is_alive(process));
}

/// A capture of UDP datagrams, one every so many microseconds.
fn capture(gap: u32, payloads: &[&[u8]]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65_535, 101] {
        file.extend_from_slice(&word.to_be_bytes());
    }
    for (number, payload) in (0..).zip(payloads) {
        let len = 28 + payload.len() as u32;
        for word in [0, number * gap, len, len] {
            file.extend_from_slice(&u32::to_be_bytes(word));
        }
        let (of_ip, of_udp) = ((len as u16).to_be_bytes(), (len as u16 - 20).to_be_bytes());
        file.extend_from_slice(&[0x45, 0, of_ip[0], of_ip[1], 0, 0, 0, 0, 64, 17, 0, 0]);
        file.extend_from_slice(&[127, 0, 0, 1, 127, 0, 0, 1]);
        file.extend_from_slice(&[0, 1, 0, 2, of_udp[0], of_udp[1], 0, 0]);
        file.extend_from_slice(payload);
    }
    file
}

#[test]
fn a_workload_is_driven_as_its_file_says() {
    let echo = Echo::start_unguarded();
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    // Every 5 ms, twice as fast: 400 messages a second.
    let pcap = capture(5_000, &[b"one", b"three"]);
    std::fs::write(at("some.pcap"), pcap).expect("written");
    let text = r#"
        seconds = 0.5
        [[streams]]
        name = "recorded / one"
        arrivals = "recorded:some.pcap,2"
        content = "some.pcap"
        [[streams]]
        name = "even"
        count = 2
        arrivals = "constant:1000"
        content = "random:100"
        policy = "none"
        [[streams.then]]
        from_message = 400
        content = "random:200"
    "#;
    std::fs::write(at("workload.toml"), text).expect("written");
    let (file, prefix) = (at("workload.toml"), at("out"));
    let output = run(&[
        "load",
        "drive",
        file.to_str().expect("text"),
        "--to",
        &echo.address,
        "--no-guard",
        "--patience",
        "30",
        "--json",
        "--hdr",
        prefix.to_str().expect("text"),
    ]);
    let rows = json_lines(&output);
    let of = |row: usize, key: &str| rows[row][key].as_u64();
    assert_eq!((of(0, "due"), of(1, "due")), (Some(200), Some(500)));
    assert_eq!(of(0, "answered"), Some(200));
    assert_eq!(of(0, "bytes"), Some(100 * (3 + 5)));
    assert_eq!(of(1, "bytes"), Some(400 * 100 + 100 * 200));
    assert_eq!(rows[2]["total"]["ended"], "done");
    for row in &rows[..2] {
        let time = |key: &str| row[key]["p99"].as_f64().expect("a time");
        assert!(time("intended_us") > 0.0 && time("intended_us") >= time("sending_us"));
        assert_eq!(row["lateness_us"]["count"], row["due"]);
    }
    for name in ["recorded___one", "even"] {
        for what in ["intended", "sending", "lateness"] {
            let path = at(&format!("out.{name}.{what}.hgrm"));
            let text = std::fs::read_to_string(path).expect("written");
            assert!(
                text.contains("Percentile") && text.contains("#[Max"),
                "{text}"
            );
        }
    }
}

#[test]
fn flags_drive_one_kind_and_the_table_says_what_came_of_it() {
    let echo = Echo::start_unguarded();
    let drive = |more: &[&str]| {
        let start = ["load", "drive", "--to", &echo.address, "--no-guard"];
        let output = run(&[&start, more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let out = drive(&[
        "--arrivals",
        "poisson:1000",
        "--content",
        "logs",
        "--messages",
        "100",
        "--streams",
        "2",
        "--patience",
        "30",
    ]);
    for words in [
        "drive: poisson:1000, 2 streams",
        "wanted 1000 messages/s; reached ",
        "100 due, 100 sent (",
        "0 not sent, 0 unanswered",
        "p99.9",
        "from intended times",
        "from sending",
        "generator late by",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    let out = drive(&["--arrivals", "closed:2", "--messages", "50"]);
    assert!(out.contains("a closed loop sends nothing"), "{out}");
    let out = drive(&["--arrivals", "constant:500", "--for", "0.1", "--one-way"]);
    assert!(
        out.contains("no latency: messages are not answered"),
        "{out}"
    );
    assert!(!out.contains("from intended times"), "{out}");
}

#[test]
fn workloads_that_cannot_be_are_refused_with_the_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("workload.toml");
    let path = file.to_str().expect("text");
    std::fs::write(&file, "[[streams]]\nname = \"a\"\nrate = 5\n").expect("written");
    for (arguments, code, word) in [
        (&["--to", "127.0.0.1:1"][..], 2, "WORKLOAD.toml"),
        (&["--arrivals", "poisson:1"], 2, "--to"),
        (
            &["--to", "127.0.0.1:1", "--arrivals", "often"],
            1,
            "poisson:RATE",
        ),
        (
            &[
                "--to",
                "127.0.0.1:1",
                "--arrivals",
                "poisson:1",
                "--content",
                "prose",
            ],
            1,
            "telecom, metrics",
        ),
        (
            &[
                "--to",
                "127.0.0.1:1",
                "--arrivals",
                "poisson:1",
                "--streams",
                "0",
            ],
            1,
            "1 to 4096",
        ),
        (&["--to", "127.0.0.1:1", "absent.toml"], 1, "absent.toml"),
        (&["--to", "127.0.0.1:1", path], 1, "unknown field `rate`"),
        (
            &["--to", "127.0.0.1:1", path, "--policy", "none"],
            2,
            "cannot be used",
        ),
        (
            &["--to", "127.0.0.1:1", "--arrivals", "poisson:1"],
            1,
            "refused",
        ),
    ] {
        let output = run(&[&["load", "drive"], arguments].concat());
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {err}");
        assert!(err.contains(word), "{arguments:?}: {err}");
    }
}

/// Rows of an event log in a file, by their events.
fn dumped(file: &str) -> Vec<serde_json::Value> {
    json_lines(&run(&["events", "dump", file, "--json"]))
}

fn of<'a>(
    rows: &'a [serde_json::Value],
    event: &'a str,
) -> impl Iterator<Item = &'a serde_json::Value> {
    rows.iter().filter(move |row| row["event"] == event)
}

#[test]
fn what_leeches_take_is_in_an_event_log() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("events");
    let file = file.to_str().expect("text");
    let option = format!("--event-log={file}");
    let leeches = ["--leech", "cpu:0.2", "--leech", "page-faults:0.1"];
    let begin = ["load", "run", "--for", "0.5", &option];
    let output = run(&[&begin[..], &leeches].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = dumped(file);
    for (domain, share) in [("leech cpu", 0.2), ("leech page-faults", 0.1)] {
        let is_its = |row: &&serde_json::Value| row["domain"] == domain;
        let asked: Vec<_> = of(&rows, "leech.intensity").filter(is_its).collect();
        assert_eq!(asked.len(), 1, "{rows:?}");
        assert_eq!(asked[0]["intensity"], share);
        let worked: Vec<_> = of(&rows, "leech.worked").filter(is_its).collect();
        assert!(worked.len() > 2, "{rows:?}");
        let sum = |field: &str| worked.iter().filter_map(|row| row[field].as_u64()).sum();
        let [processor, wall, operations]: [u64; 3] =
            ["processor_ns", "wall_ns", "operations"].map(sum);
        assert!(operations > 0 && (1..wall).contains(&processor));
        assert!(wall < 10_000_000_000, "{wall}");
    }
    let nowhere = run(&[
        "load",
        "run",
        "--leech",
        "cpu",
        "--event-log=/nowhere/events",
    ]);
    let err = text(&nowhere.stderr);
    assert_eq!(nowhere.status.code(), Some(1), "{err}");
    assert!(err.contains("/nowhere/events"), "{err}");
}

#[test]
fn what_becomes_of_the_messages_of_a_drive_is_in_an_event_log() {
    let mut echo = Echo::start_unguarded();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("events");
    let file = file.to_str().expect("text");
    let option = format!("--event-log={file}");
    let lines = json_lines(&run(&[
        "load",
        "drive",
        "--no-guard",
        "--to",
        &echo.address,
        "--arrivals",
        "constant:200",
        "--for",
        "0.5",
        "--json",
        &option,
    ]));
    let total = &lines.last().expect("a line")["total"];
    let rows = dumped(file);
    for (event, key) in [
        ("drive.due", "due"),
        ("drive.sent", "sent"),
        ("drive.answered", "answered"),
    ] {
        let count = of(&rows, event).count() as u64;
        assert_eq!(Some(count), total[key].as_u64(), "{event}: {total}");
    }
    // Beside those of its node.
    for event in ["message.queued", "message.delivered"] {
        assert!(of(&rows, event).any(|row| row["domain"] == "drive-0"));
    }
    let answered = of(&rows, "drive.answered").next().expect("a row");
    assert_eq!(answered["domain"], "drive-0");
    assert!(answered["from_intended_ns"].as_u64() >= answered["from_sending_ns"].as_u64());
    echo.child.kill().expect("a child");
    echo.child.wait().expect("a child");
}

#[test]
fn what_a_leech_of_the_network_sends_is_in_an_event_log() {
    let echo = Echo::start_unguarded();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("events");
    let file = file.to_str().expect("text");
    let option = format!("--event-log={file}");
    let leech = ["--leech", "network:0.05", "--to", &echo.address];
    let begin = ["load", "run", "--for", "0.3", &option];
    let output = run(&[&begin[..], &leech].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = dumped(file);
    for event in ["leech.worked", "message.queued", "block.written"] {
        assert!(of(&rows, event).count() > 0, "{event}: {rows:?}");
    }
}

#[test]
fn leeches_of_a_running_process_are_looked_at_from_outside() {
    let mut load = start(&[
        "load",
        "run",
        "--for",
        "60",
        "--leech",
        "cpu:0.1",
        "--event-log",
    ]);
    wait_until("it has a leech", || has_leech(load.id()));
    let pid = load.id().to_string();
    let look = |more: &[&str]| {
        let begin = [
            "events",
            "dump",
            "--pid",
            &pid,
            "--seconds",
            "0.5",
            "--json",
        ];
        json_lines(&run(&[&begin[..], more].concat()))
    };
    assert!(look(&["--passive"]).is_empty(), "nobody has switched it on");
    let rows = look(&[]);
    assert!(of(&rows, "leech.worked").count() > 2, "{rows:?}");
    assert!(look(&["--passive"]).is_empty(), "it is off again");
    load.kill().expect("a child");
    load.wait().expect("a child");
}
