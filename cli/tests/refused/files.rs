//! Each counter is an open file, of which there may be too few.

use super::confine::limit_files;
use super::{Sleeper, can_count, ended, monitor};

/// Of one process some two hundred files.
fn sets() -> String {
    let set = |number: u32| {
        format!(
            "[[sets]]\nname = 's{number}'\ngroup = false\nevents = ['page-faults', 'minor-faults', 'major-faults', 'task-clock', 'cpu-clock']\n"
        )
    };
    (0..40).map(set).collect()
}

#[test]
fn with_too_few_files_what_fits_is_counted_and_written() {
    let sleeper = Sleeper::start();
    let pid = sleeper.pid();
    if !can_count(["--pid", &pid]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("sets.toml");
    std::fs::write(&path, sets()).expect("room");
    let sets = path.to_str().expect("text");
    let out = folder.path().join("samples.csv");
    let begin = ["--sets", sets, "--pid", &pid, "--out"];
    // Longer than it takes to ask after a process that does nothing.
    let name = out.to_str().expect("text");
    let arguments = [&begin[..], &[name, "--for", "1.2"]].concat();
    for (files, some) in [(18, false), (48, true)] {
        let mut command = monitor(&arguments);
        limit_files(&mut command, files, files);
        let ended = ended(command);
        ended.is_well();
        ended.says(
            "page-faults",
            "too many open files: raise the limit (ulimit -n), or watch fewer processors, threads or sets",
        );
        assert!(!ended.err.contains("exited"), "{}", ended.err);
        assert_eq!(ended.out.contains("s0 in "), some, "{}", ended.out);
        let rest = if some {
            "all else is counted"
        } else {
            "no event is counted at all; software metrics are, all the same: cpu-load, interrupts"
        };
        assert!(ended.err.contains(rest), "{}", ended.err);
        let file = std::fs::read_to_string(&out).expect("a recording");
        let rows = file.lines().filter(|line| !line.starts_with('#')).count();
        assert!(rows > 20, "{file}");
    }
    let mut command = monitor(&[&arguments[..], &["--require", "minor-faults"]].concat());
    limit_files(&mut command, 48, 48);
    let required = ended(command);
    assert_eq!(required.code, Some(1), "{}", required.err);
    assert!(
        required.err.contains("required, but missing: minor-faults")
            && required.err.contains("too many open files"),
        "{}",
        required.err
    );
    // What the user may have is taken.
    let mut command = monitor(&arguments);
    limit_files(&mut command, 48, 400);
    let raised = ended(command);
    raised.is_well();
    assert!(!raised.err.contains("too many"), "{}", raised.err);
}

#[test]
fn processors_are_not_offline_because_nobody_can_look() {
    let mut command = monitor(&["--only", "system", "--all", "--for", "1.2"]);
    // Few more than the program has open itself.
    limit_files(&mut command, 16, 16);
    let ended = ended(command);
    ended.is_well();
    assert!(!ended.err.contains("offline"), "{}", ended.err);
    // For that reason, or the kernel's setting comes before it.
    ended.says("page-faults", "");
}
