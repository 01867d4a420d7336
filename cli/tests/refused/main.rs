//! `tautline monitor` where it is refused what it asks for, by the kernel's settings, filters, limits, or what is not there: it says what and why, and does the rest. Each
//! test confines the program that it starts, and no other. What cannot be made here is said, and judged is nothing then.
#![cfg(target_os = "linux")]

#[path = "../support/mod.rs"]
mod support;

mod confine;
mod files;
mod names;
mod permission;
mod processes;
mod processors;

use std::process::{Child, Command, Output, Stdio};

use crate::support::{finish, run, tautline, text};

/// The program with these arguments, as it ended: exit code, stdout, stderr.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }
}

impl Ended {
    /// The lines of what is not counted, each `names: reason`.
    fn not_counted(&self) -> Vec<&str> {
        let lines = self.err.lines();
        lines
            .filter_map(|line| line.strip_prefix("tautline: not counted: "))
            .collect()
    }

    /// Whether it was said that this is not counted, for that reason.
    #[track_caller]
    fn says(&self, name: &str, reason: &str) {
        let lines = self.not_counted();
        assert!(
            lines
                .iter()
                .any(|line| line.contains(name) && line.contains(reason)),
            "{name}: {reason}\n{}",
            self.err
        );
    }

    /// Nobody has required what is missing.
    #[track_caller]
    fn is_well(&self) {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        assert!(
            self.out.contains("% of one processor"),
            "{}{}",
            self.out,
            self.err
        );
    }
}

fn spawn(mut command: Command) -> Child {
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts")
}

fn ended(command: Command) -> Ended {
    finish(spawn(command)).into()
}

fn monitor(arguments: &[&str]) -> Command {
    tautline(&[&["monitor"], arguments].concat())
}

/// A process with one thread, which ends with the test.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("sleep").arg("60").spawn().expect("sleep"))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether anything is counted there where nothing is refused; if not, that is said.
fn can_count(place: [&str; 2]) -> bool {
    let begin = ["monitor", "--only", "system", "--for", "0.1"];
    let output = run(&[&begin[..], &place].concat());
    let can = text(&output.stdout).contains("page-faults");
    if !can {
        let said = text(&output.stderr);
        eprintln!("skipped: nothing is counted here of {place:?}: {said}");
    }
    can
}
