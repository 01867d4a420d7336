//! `perf_event_open` that is forbidden, or not there.

use std::os::unix::process::CommandExt;

use super::confine::{Calls, refuse};
use super::{Ended, Sleeper, can_count, ended, monitor, spawn};
use crate::support::finish;

const SECCOMP: &str = "a seccomp filter forbids perf_event_open";
const ALL: &str = "task-clock, context-switches, cpu-migrations, page-faults, major-faults";
/// What is left if no event is counted.
const REST: &str =
    "no event is counted at all; software metrics are, all the same: cpu-load, interrupts";

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What the kernel's setting is, if it has one.
fn paranoid() -> Option<i32> {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    level.trim().parse().ok()
}

#[test]
fn a_filter_of_system_calls_is_named_and_software_metrics_go_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let started = [libc::EPERM, libc::EACCES, libc::ENOSYS].map(|errno| {
        let out = folder.path().join(format!("{errno}.csv"));
        let name = out.to_str().expect("text").to_owned();
        // Gauges of the system are read once a second.
        let mut command = monitor(&["--only", "system", "--all", "--for", "1.3", "--out", &name]);
        refuse(&mut command, Calls::All, errno);
        (errno, out, spawn(command))
    });
    for (errno, out, child) in started {
        let ended = Ended::from(finish(child));
        ended.is_well();
        if errno == libc::EACCES && !is_root() {
            // As the kernel says it to those it forbids something.
            assert_eq!(ended.not_counted().len(), 1, "{}", ended.err);
        } else {
            ended.says(ALL, SECCOMP);
        }
        assert!(ended.err.contains(REST), "{}", ended.err);
        let metrics = "software metrics: cpu-load ";
        assert!(ended.out.contains(metrics), "{}", ended.out);
        let file = std::fs::read_to_string(out).expect("a recording");
        let mut rows = file.lines().filter(|line| !line.starts_with('#'));
        let head: Vec<&str> = rows.next().expect("a head").split(',').collect();
        let load = head.iter().position(|name| *name == "cpu-load");
        let load = load.expect("a column");
        let last = rows.next_back().and_then(|row| row.split(',').nth(load));
        let last = last.and_then(|load| load.parse::<f64>().ok());
        assert!(
            last.is_some_and(|load| (0.0..=1.0).contains(&load)),
            "{file}"
        );
    }
}

#[test]
fn lines_tell_of_software_metrics_where_there_is_nothing_else() {
    let pid = std::process::id().to_string();
    let mut command = monitor(&["--only", "cpi", "--pid", &pid, "--for", "1.3"]);
    refuse(&mut command, Calls::All, libc::EPERM);
    let ended = ended(command);
    ended.is_well();
    ended.says("cycles, instructions", SECCOMP);
    let (lines, summary) = ended.out.split_once("in all:").expect("a summary");
    assert!(lines.contains("s  software metrics: cpu-load "), "{lines}");
    assert!(summary.contains("software metrics: cpu-load "), "{summary}");
}

#[test]
fn what_is_required_and_forbidden_fails() {
    let pid = std::process::id().to_string();
    for place in [&["--all"][..], &["--pid", &pid]] {
        for errno in [libc::EPERM, libc::ENOSYS] {
            let required = ["--require", "page-faults", "--for", "0.1"];
            let mut command = monitor(&[&required[..], place].concat());
            refuse(&mut command, Calls::All, errno);
            let ended = ended(command);
            assert_eq!(ended.code, Some(1), "{}", ended.err);
            let line = format!("required, but missing: page-faults of set system: {SECCOMP}");
            assert!(ended.err.contains(&line), "{}", ended.err);
            assert!(ended.out.is_empty(), "{}", ended.out);
        }
    }
    // Software metrics may be required, too, and are there.
    let mut command = monitor(&["--all", "--require", "cpu-load", "--for", "0.1"]);
    refuse(&mut command, Calls::All, libc::EPERM);
    ended(command).is_well();
}

#[test]
fn events_that_do_not_fit_together_are_named_and_the_other_sets_go_on() {
    const SETS: &str = "
[[sets]]
name = 'together'
events = ['page-faults', 'minor-faults', 'major-faults']

[[sets]]
name = 'loose'
group = false
events = ['page-faults', 'minor-faults', 'major-faults']
";
    let sleeper = Sleeper::start();
    let pid = sleeper.pid();
    if !can_count(["--pid", &pid]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sets = folder.path().join("sets.toml");
    std::fs::write(&sets, SETS).expect("room");
    let sets = sets.to_str().expect("text");
    for errno in [libc::ENOSPC, libc::EINVAL] {
        let arguments = ["--sets", sets, "--pid", &pid, "--for", "0.2"];
        let mut command = monitor(&arguments);
        refuse(&mut command, Calls::InGroups, errno);
        let ended = ended(command);
        ended.is_well();
        ended.says(
            "page-faults of set together, minor-faults of set together, major-faults of set together",
            "3 events at once are more than the hardware counts (1 fitted): split the set, or let it be multiplexed with `group = false`",
        );
        assert!(ended.err.contains("all else is counted"), "{}", ended.err);
        assert!(!ended.err.contains("of set loose"), "{}", ended.err);
        let counts = "loose in ";
        assert!(ended.out.contains(counts), "{}", ended.out);
        assert!(!ended.out.contains("together in "), "{}", ended.out);

        let mut command = monitor(&[&arguments[..], &["--require", "minor-faults"]].concat());
        refuse(&mut command, Calls::InGroups, errno);
        let ended = super::ended(command);
        assert_eq!(ended.code, Some(1), "{}", ended.err);
        assert!(
            ended
                .err
                .contains("required, but missing: minor-faults of set together: 3 events at once"),
            "{}",
            ended.err
        );
    }
}

#[test]
fn counters_that_others_keep_are_no_disk_without_room() {
    for errno in [libc::ENOSPC, libc::EBUSY] {
        let mut command = monitor(&["--only", "system", "--all", "--for", "0.1"]);
        refuse(&mut command, Calls::All, errno);
        let ended = ended(command);
        ended.is_well();
        ended.says(
            ALL,
            "no counter was ever free for it: somebody else keeps them",
        );
        assert!(!ended.err.contains("os error"), "{}", ended.err);
    }
}

/// Who has no rights at all; nobody, if these tests have all.
fn as_nobody(arguments: &[&str]) -> Option<Ended> {
    let mut command = monitor(arguments);
    if is_root() {
        command.uid(65_534).gid(65_534);
    }
    command.stdout(std::process::Stdio::piped());
    command.stderr(std::process::Stdio::piped());
    match command.spawn() {
        Ok(child) => Some(finish(child).into()),
        Err(error) => {
            eprintln!("skipped: nobody may not run the program where it is: {error}");
            None
        }
    }
}

#[test]
fn who_has_no_rights_is_told_which_setting_forbids_it() {
    let Some(level) = paranoid().filter(|level| *level >= 1) else {
        eprintln!(
            "skipped: this kernel lets everybody count, or nobody: {:?}",
            paranoid()
        );
        return;
    };
    let Some(ended) = as_nobody(&["--only", "system", "--all", "--for", "0.2"]) else {
        return;
    };
    ended.is_well();
    assert!(ended.err.contains(REST), "{}", ended.err);
    // A container's filter is asked before the kernel is.
    if !ended.err.contains(SECCOMP) {
        let reason = format!(
            "kernel.perf_event_paranoid is {level}: lower it (sysctl), or run with CAP_PERFMON"
        );
        ended.says(ALL, &reason);
    }
}

#[test]
fn a_process_of_others_is_not_a_matter_of_that_setting() {
    if !is_root() || paranoid().is_none_or(|level| level > 2) {
        eprintln!("skipped: nobody can be asked, or is forbidden more than that");
        return;
    }
    let sleeper = Sleeper::start();
    let Some(ended) = as_nobody(&["--only", "system", "--pid", &sleeper.pid(), "--for", "0.2"])
    else {
        return;
    };
    ended.is_well();
    if !ended.err.contains(SECCOMP) {
        ended.says(
            ALL,
            "not permitted: run as the same user, or with CAP_PERFMON",
        );
    }
    assert!(ended.err.contains(REST), "{}", ended.err);
}
