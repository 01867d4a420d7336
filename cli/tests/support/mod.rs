//! The program as a child that ends with its test, and waits that are bounded.

#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long any single run may take; far more than it needs.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

#[expect(
    clippy::disallowed_methods,
    reason = "bounds how long a test waits, and judges nothing"
)]
pub(crate) fn deadline() -> Instant {
    Instant::now() + LIMIT
}

pub(crate) fn tautline(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tautline"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Starts the program, what it prints kept for [`finish`].
pub(crate) fn start(arguments: &[&str]) -> Child {
    tautline(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts")
}

/// Waits for the end of a program that was started.
pub(crate) fn finish(mut child: Child) -> Output {
    // Read meanwhile, unless the test does so itself: a full pipe would hold the program up.
    let reader = child.stdout.take().map(|mut stdout| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            stdout.read_to_end(&mut text).expect("readable");
            text
        })
    });
    let until = deadline();
    while child.try_wait().expect("a child").is_none() {
        if until.elapsed() > Duration::ZERO {
            child.kill().expect("a child");
            panic!("it did not end within {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut output = child.wait_with_output().expect("a child");
    if let Some(reader) = reader {
        output.stdout = reader.join().expect("no panic");
    }
    output
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    finish(start(arguments))
}

/// Whether a process is there that has not ended: nobody may have asked for its exit code yet.
pub(crate) fn is_alive(process: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else {
        return false;
    };
    !stat
        .rsplit(") ")
        .next()
        .is_some_and(|rest| rest.starts_with('Z'))
}

/// Whether leeches run in a process.
pub(crate) fn has_leech(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task"));
    threads.into_iter().flatten().flatten().any(|thread| {
        let name = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        name.starts_with("leech-")
    })
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = deadline();
    while !is_so() {
        assert!(until.elapsed().is_zero(), "not in {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn json_lines(output: &Output) -> Vec<serde_json::Value> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("a JSON object a line"))
        .collect()
}

/// The first processor that this program may use, on Linux.
pub(crate) fn processor() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first = list.and_then(|list| list.trim().split([',', '-']).next());
    first.expect("a processor").to_owned()
}

const ECHO: [&str; 3] = ["echo", "--listen", "127.0.0.1:0"];

/// An echo on a port of the system's choice.
pub(crate) struct Echo {
    pub(crate) child: Child,
    pub(crate) stdout: BufReader<ChildStdout>,
    pub(crate) address: String,
}

impl Echo {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// One that takes messages as they come however busy this machine is: a sender spares a peer
    /// that has no processor time.
    pub(crate) fn start_unguarded() -> Self {
        Self::start_with(&["--no-guard"])
    }

    pub(crate) fn start_with(more: &[&str]) -> Self {
        Self::spawn(tautline(&[&ECHO, more].concat()))
    }

    /// One that listens elsewhere.
    pub(crate) fn start_at(address: &str, more: &[&str]) -> Self {
        Self::spawn(tautline(&[&["echo", "--listen", address], more].concat()))
    }

    /// One at the lowest priority there is.
    pub(crate) fn start_nice() -> Self {
        let mut command = Command::new("nice");
        command
            .args(["-n", "19", env!("CARGO_BIN_EXE_tautline")])
            .args(ECHO)
            .stdin(Stdio::null());
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("its first line");
        let address = line
            .trim()
            .strip_prefix("listening on ")
            .expect("where it listens")
            .to_owned();
        Self {
            child,
            stdout,
            address,
        }
    }

    pub(crate) fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        line
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
