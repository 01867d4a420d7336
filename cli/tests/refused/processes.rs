//! Processes that end, or never were.

use std::io::Write;
use std::process::{Command, Stdio};

use super::{Sleeper, can_count, ended, monitor, spawn};
use crate::support::{finish, wait_until};

#[test]
fn when_a_process_exits_that_is_told_and_the_others_are_watched_on() {
    let stays = Sleeper::start();
    let pid = stays.pid();
    let mut leaves = Command::new("sleep").arg("0.3").spawn().expect("sleep");
    let left = leaves.id().to_string();
    let begin = ["--only", "system", "--pid", &pid, "--pid", &left];
    let watcher = spawn(monitor(
        &[&begin[..], &["--for", "2", "--out", "-", "--format", "csv"]].concat(),
    ));
    leaves.wait().expect("a child");
    let output = finish(watcher);
    let (out, err) = (super::text(&output.stdout), super::text(&output.stderr));
    assert!(output.status.success(), "{err}");
    let line = format!("tautline: process {left} has exited; its samples end");
    assert!(err.contains(&line), "{err}");
    assert!(!err.contains(&format!("process {pid} has exited")), "{err}");
    let mut rows = out.lines().filter(|line| !line.starts_with('#'));
    let head: Vec<&str> = rows.next().expect("a head").split(',').collect();
    let column = |name: &str| head.iter().position(|it| *it == name).expect("a column");
    let (place, at) = (column("pid"), column("seconds"));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split(',').collect()).collect();
    let last = |process: &str| {
        let mut of = rows.iter().rev().filter(|row| row[place] == process);
        let last = of.next().and_then(|row| row[at].parse::<f64>().ok());
        last.expect("samples")
    };
    assert!(last(&left) < last(&pid), "{out}");
    assert!(last(&pid) > 1.9, "{out}");
}

#[test]
fn a_process_that_is_not_there_is_an_error_whoever_else_is() {
    let stays = Sleeper::start();
    let mut gone = Command::new("true").spawn().expect("true");
    gone.wait().expect("a child");
    // No kernel has numbers as high as the last.
    for pid in [
        gone.id().to_string(),
        "4194304".to_owned(),
        u32::MAX.to_string(),
    ] {
        let ended = ended(monitor(&[
            "--pid",
            &stays.pid(),
            "--pid",
            &pid,
            "--for",
            "0.1",
        ]));
        assert_eq!(ended.code, Some(1), "{}", ended.err);
        let line = format!(
            "tautline: process {pid} cannot be watched: there is no such process, or it has exited"
        );
        assert!(ended.err.contains(&line), "{}", ended.err);
    }
}

#[test]
fn a_process_may_call_itself_whatever_it_likes() {
    let script = r"printf '\377) Z' > /proc/self/comm; echo; read -r _";
    let mut child = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("a shell");
    let comm = format!("/proc/{}/comm", child.id());
    wait_until("it has its name", || {
        std::fs::read(&comm).is_ok_and(|name| name.starts_with(b"\xff"))
    });
    let pid = child.id().to_string();
    let can = can_count(["--pid", &pid]);
    // Longer than it takes to ask after a process that does nothing.
    let watched = ended(monitor(&[
        "--only", "system", "--pid", &pid, "--for", "1.2",
    ]));
    let mut stdin = child.stdin.take().expect("piped");
    writeln!(stdin).expect("it listens");
    child.wait().expect("a child");
    watched.is_well();
    assert!(!watched.err.contains("exited"), "{}", watched.err);
    let counts = format!("process {pid}  system in ");
    assert!(!can || watched.out.contains(&counts), "{}", watched.out);
}
