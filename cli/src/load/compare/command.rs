//! A command that is run again and again.

use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::{now, pause};
use crate::failure::Failure;

/// What is kept of a command's stdout and stderr: their ends, bytes.
const KEPT: usize = 4096;
/// How long the last of that may take to come after its end.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A command, and how its runs are judged.
pub(super) struct Runner {
    words: Vec<OsString>,
    /// By the last number that it prints, not by its time.
    by_value: bool,
    limit: Duration,
    /// The processors that it runs on; `None` for all that this program may.
    on: Option<CpuSet>,
}

impl fmt::Display for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self
            .words
            .iter()
            .map(|word| word.to_string_lossy())
            .collect();
        f.write_str(&words.join(" "))
    }
}

/// Ends a run that is given up.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            // With all that it has started.
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

impl Runner {
    pub(super) fn new(words: &[OsString], by_value: bool, limit: Duration) -> Self {
        Self {
            words: words.to_vec(),
            by_value,
            limit,
            on: None,
        }
    }

    /// Runs on these logical processors only, if there are any.
    ///
    /// # Errors
    ///
    /// This program may not use one of them.
    pub(super) fn on(mut self, processors: &[u32]) -> Result<Self, Failure> {
        let allowed = sched_getaffinity(None)?;
        for processor in processors {
            let place = *processor as usize;
            if place >= CpuSet::MAX_CPU || !allowed.is_set(place) {
                return Err(Failure::Error(format!(
                    "processor {processor} is not there, or not for this program"
                )));
            }
            self.on.get_or_insert_with(CpuSet::new).set(place);
        }
        Ok(self)
    }

    /// Starts it: a child begins where the thread that starts it may be.
    fn start(&self, command: &mut Command) -> Result<Child, Failure> {
        let spawn = |command: &mut Command| {
            let child = command.spawn();
            child.map_err(|error| Failure::of(&format!("{self} does not start"), &error))
        };
        let Some(on) = &self.on else {
            return spawn(command);
        };
        let pin = |to| {
            let pinned = sched_setaffinity(None, to);
            pinned
                .map_err(|error| Failure::of("--on: commands cannot be kept on processors", &error))
        };
        let before = sched_getaffinity(None)?;
        pin(on)?;
        let child = spawn(command);
        // Where this thread was before, or it would be in the way.
        pin(&before)?;
        child
    }

    /// One run: what it took, seconds, or the last number that it printed.
    ///
    /// # Errors
    ///
    /// It does not start, fails, takes too long, or prints no number; or this program is to end.
    pub(super) fn run(&self, is_over: &AtomicBool) -> Result<f64, Failure> {
        let Some((program, arguments)) = self.words.split_first() else {
            return Err(Failure::Error("no command".to_owned()));
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(if self.by_value {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stderr(Stdio::piped())
            .process_group(0);
        let began = now();
        let mut running = Running(self.start(&mut command)?);
        let (stdout, stderr) = (running.0.stdout.take(), running.0.stderr.take());
        let (stdout, stderr) = (Tail::of(stdout), Tail::of(stderr));
        let status = self.wait(&mut running, is_over)?;
        let took = began.elapsed();
        if !status.success() {
            let said = stderr.end();
            let said = said.trim();
            let said = if said.is_empty() {
                String::new()
            } else {
                format!(": {said}")
            };
            return Err(Failure::Error(format!("{self} failed, {status}{said}")));
        }
        if !self.by_value {
            return Ok(took.as_secs_f64());
        }
        let printed = stdout.end();
        last_number(&printed).ok_or_else(|| {
            Failure::Error(format!(
                "{self} prints no number on stdout, and --value is given"
            ))
        })
    }

    /// Waits for its end: closely at first, so that what is added to a short run is little.
    fn wait(
        &self,
        running: &mut Running,
        is_over: &AtomicBool,
    ) -> Result<std::process::ExitStatus, Failure> {
        let began = now();
        loop {
            if let Some(status) = running.0.try_wait()? {
                return Ok(status);
            }
            let elapsed = began.elapsed();
            if elapsed > self.limit {
                return Err(Failure::Error(format!(
                    "{self} takes longer than {} s (--run-limit)",
                    self.limit.as_secs_f64()
                )));
            }
            if is_over.load(Ordering::Relaxed) {
                return Err(Failure::Interrupted);
            }
            pause((elapsed / 1000).clamp(Duration::from_micros(50), Duration::from_millis(20)));
        }
    }
}

/// The end of what comes from a pipe, as it is read.
struct Tail {
    kept: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Tail {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&kept);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; KEPT];
            let Some(mut pipe) = pipe else { return };
            while let Ok(read @ 1..) = pipe.read(&mut buffer) {
                let mut end = into.lock().unwrap_or_else(PoisonError::into_inner);
                end.extend_from_slice(&buffer[..read]);
                let too_much = end.len().saturating_sub(KEPT);
                end.drain(..too_much);
            }
        });
        Self { kept, reader }
    }

    /// What there is, once the command has ended: what it leaves behind may hold the pipe for as long as it likes.
    fn end(self) -> String {
        let began = now();
        while !self.reader.is_finished() && began.elapsed() < LAST_WORDS {
            pause(Duration::from_millis(1));
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}

/// The last word that is a number.
fn last_number(text: &str) -> Option<f64> {
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | ':' | '=' | '"'));
    let mut numbers = words.filter_map(|word| word.parse::<f64>().ok());
    numbers.rfind(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runner(words: &[&str], by_value: bool) -> Runner {
        let words: Vec<OsString> = words.iter().map(Into::into).collect();
        Runner::new(&words, by_value, Duration::from_secs(5))
    }

    fn failure(result: Result<f64, Failure>) -> String {
        match result {
            Err(Failure::Error(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_last_number_counts() {
        assert_eq!(
            last_number("mean rtt: 12.5 us\nruns 3, p99=40.25\n"),
            Some(40.25)
        );
        assert_eq!(last_number("1e-3\n"), Some(1e-3));
        assert_eq!(last_number("nan inf none"), None);
        assert_eq!(last_number(""), None);
    }

    #[test]
    fn a_run_takes_time_or_prints_a_number() {
        let goes_on = AtomicBool::new(false);
        let took = runner(&["sleep", "0.05"], false)
            .run(&goes_on)
            .expect("a time");
        assert!(took >= 0.05, "{took}");
        let printed = runner(&["echo", "rtt", "7.5"], true).run(&goes_on);
        assert!((printed.expect("a number") - 7.5).abs() < 1e-9);
    }

    #[test]
    fn a_run_stays_where_it_is_told() {
        let goes_on = AtomicBool::new(false);
        let allowed = sched_getaffinity(None).expect("known");
        let last = (0..CpuSet::MAX_CPU).rfind(|place| allowed.is_set(*place));
        let last = last.expect("one at least") as u32;
        let words = ["sh", "-c", "grep Cpus_allowed_list /proc/self/status"];
        let told = runner(&words, true).on(&[last]).expect("allowed");
        let place = told.run(&goes_on).expect("a number");
        assert!((place - f64::from(last)).abs() < 0.5, "{place}");
        assert_eq!(sched_getaffinity(None).expect("known"), allowed);
        let nowhere = runner(&words, true).on(&[1_000_000]).map(|_| 0.0);
        assert!(failure(nowhere).contains("1000000"));
    }

    #[test]
    fn a_run_that_is_given_up_ends_with_all_it_has_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("alive");
        let script = format!("(sleep 2; echo > {}) & sleep 30", file.display());
        let mut slow = runner(&["sh", "-c", &script], false);
        slow.limit = Duration::from_millis(200);
        assert!(failure(slow.run(&AtomicBool::new(false))).contains("--run-limit"));
        pause(Duration::from_secs(3));
        assert!(!file.exists(), "it went on");
    }

    #[test]
    fn what_fails_says_so() {
        let goes_on = AtomicBool::new(false);
        let run = |words: &[&str]| failure(runner(words, true).run(&goes_on));
        let failed = run(&["sh", "-c", "echo out of luck >&2; exit 3"]);
        assert!(
            failed.contains("out of luck") && failed.contains('3'),
            "{failed}"
        );
        assert!(run(&["/no/such/program"]).contains("does not start"));
        assert!(run(&["true"]).contains("no number"));
        let mut slow = runner(&["sleep", "30"], false);
        slow.limit = Duration::from_millis(100);
        assert!(failure(slow.run(&goes_on)).contains("--run-limit"));
        // What it leaves behind holds its pipes, and nobody up.
        let began = now();
        let left = runner(&["sh", "-c", "echo 2; sleep 30 & exit 0"], true).run(&goes_on);
        assert!((left.expect("a number") - 2.0).abs() < 1e-9);
        assert!(began.elapsed() < Duration::from_secs(20));
        let is_over = AtomicBool::new(true);
        let stopped = runner(&["sleep", "30"], false).run(&is_over);
        assert!(matches!(stopped, Err(Failure::Interrupted)), "{stopped:?}");
    }
}
