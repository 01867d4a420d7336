//! Leeches never outlive their process, whatever kills it.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tautline::loadgen::{Intensity, Leech, LeechConfig, Resource};

/// Tells this test that it is the child.
const CHILD: &str = "TAUTLINE_LEECH_CHILD";

/// Not a test by itself: the child that is killed.
#[test]
#[expect(clippy::disallowed_methods, reason = "what a test tells itself")]
fn told_by_the_environment() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let config = |resource| {
        LeechConfig::new(resource)
            .intensity(Intensity::new(0.05))
            .length(Duration::from_secs(30))
    };
    let leeches = [
        Resource::Cpu,
        Resource::ContextSwitches,
        Resource::PageFaults,
    ]
    .map(|resource| Leech::start(config(resource)).expect("a leech"));
    for entry in std::fs::read_dir("/proc/self/task")
        .expect("threads")
        .flatten()
    {
        let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        // The first thread has the name of this test's program, which begins like that, too.
        let is_first = entry.file_name().to_str() == Some(&std::process::id().to_string());
        if name.starts_with("leech-") && !is_first {
            println!("\nthread {}", entry.file_name().to_string_lossy());
        }
    }
    println!("\nready");
    std::thread::sleep(Duration::from_secs(30));
    drop(leeches);
}

#[test]
fn no_thread_of_a_killed_process_is_left() {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "told_by_the_environment", "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let stdout = BufReader::new(child.stdout.take().expect("piped"));
    let lines = stdout.lines().map_while(Result::ok);
    let lines: Vec<String> = lines.take_while(|line| line != "ready").collect();
    let threads: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("thread "))
        .collect();
    // Three leeches, and the partner of one.
    assert_eq!(threads.len(), 4, "{lines:?}");
    for thread in &threads {
        assert!(Path::new("/proc").join(thread).exists(), "{thread}");
    }
    // SIGKILL: nothing of the program runs any more.
    child.kill().expect("a child");
    child.wait().expect("a child");
    for thread in &threads {
        assert!(
            !Path::new("/proc").join(thread).exists(),
            "{thread} is left"
        );
    }
}
