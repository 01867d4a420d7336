//! Processors that are offline, or go there. The kernel's list of them is another one for the program that is started, which nobody else sees.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::confine::{Calls, refuse};
use super::{Ended, can_count, ended, monitor};
use crate::support::{finish, text, wait_until};

/// One that no machine has.
const NONE: u32 = 60_000;
const LIST: &str = "/sys/devices/system/cpu/online";

/// Of the processors that are there, the first and the last.
fn first_and_last() -> (u32, u32) {
    let list = std::fs::read_to_string(LIST).expect("Linux");
    let mut numbers = list
        .trim()
        .split([',', '-'])
        .map(|number| number.parse().expect("a number"));
    let first = numbers.next().expect("a processor");
    (first, numbers.next_back().unwrap_or(first))
}

/// The monitor where `mount` was done before. `None` if that is not to be had, which is said.
fn elsewhere(mount: &str, arguments: &[&str]) -> Option<Command> {
    let may = |rights: &[&str]| {
        let tried = Command::new("unshare")
            .args(rights)
            .args(["sh", "-c", mount])
            .stderr(Stdio::null())
            .status();
        tried.is_ok_and(|status| status.success())
    };
    // Who is not root is so in a namespace of users, of whom the kernel lets nobody count processors.
    let rights: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];
    let Some(rights) = rights.into_iter().find(|rights| may(rights)) else {
        eprintln!("skipped: nothing can be mounted here that others do not see");
        return None;
    };
    let mut command = Command::new("unshare");
    command
        .args(rights)
        .args(["sh", "-c", &format!("{mount} && exec \"$@\""), "sh"])
        .arg(env!("CARGO_BIN_EXE_tautline"))
        .arg("monitor")
        .args(arguments)
        .stdin(Stdio::null());
    Some(command)
}

fn with_list(list: &Path) -> String {
    format!("mount --bind '{}' {LIST}", list.display())
}

#[test]
fn a_processor_that_cannot_be_opened_is_named_and_the_others_are_counted() {
    let (first, last) = first_and_last();
    if first == last {
        eprintln!("skipped: there is one processor");
        return;
    }
    if !can_count(["--cpu", &first.to_string()]) {
        return;
    }
    let begin = ["--only", "system", "--all", "--for", "0.7"];
    let offline = || {
        let mut command = monitor(&begin);
        refuse(&mut command, Calls::OfCpu(last), libc::ENODEV);
        command
    };
    let ended = ended(offline());
    ended.is_well();
    let place = format!("cpu {last}");
    ended.says(
        &place,
        "the processor is offline, or there is none of this number",
    );
    assert!(ended.err.contains("all else is counted"), "{}", ended.err);
    let counted = format!("cpu {first}  system in ");
    assert!(ended.out.contains(&counted), "{}", ended.out);
    assert!(!ended.out.contains(&place), "no samples: {}", ended.out);

    let mut command = offline();
    command.args(["--require", "page-faults"]);
    let required = super::ended(command);
    assert_eq!(required.code, Some(1), "{}", required.err);
    let line = format!("page-faults of set system, {place}: the processor is offline");
    assert!(required.err.contains(&line), "{}", required.err);
}

#[test]
fn a_processor_that_is_listed_and_not_there_is_named_and_the_others_are_counted() {
    let (first, _) = first_and_last();
    if !can_count(["--cpu", &first.to_string()]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let list = folder.path().join("online");
    std::fs::write(&list, format!("{first},{NONE}\n")).expect("room");
    let arguments = ["--only", "system", "--all", "--for", "0.7"];
    let Some(command) = elsewhere(&with_list(&list), &arguments) else {
        return;
    };
    let ended = ended(command);
    ended.is_well();
    if ended.err.contains("perf_event_paranoid") {
        eprintln!("skipped: processors are not counted in a namespace of users");
        return;
    }
    ended.says(&format!("cpu {NONE}"), "the processor is offline");
    let counted = format!("cpu {first}  system in ");
    assert!(ended.out.contains(&counted), "{}", ended.out);
    // It is not back, either, whatever the list says.
    assert!(!ended.err.contains("back"), "{}", ended.err);
}

#[test]
fn a_processor_that_nobody_has_is_an_error() {
    let ended = ended(monitor(&["--cpu", &NONE.to_string(), "--for", "0.1"]));
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    let line = format!(
        "tautline: cpu {NONE} cannot be watched: the processor is offline, or there is none of this number"
    );
    assert!(ended.err.contains(&line), "{}", ended.err);
}

#[test]
fn without_a_list_processors_are_found_all_the_same() {
    let (first, _) = first_and_last();
    let mount = "mount -t tmpfs none /sys/devices/system/cpu";
    let Some(command) = elsewhere(mount, &["--only", "system", "--for", "0.2"]) else {
        return;
    };
    let can = can_count(["--cpu", &first.to_string()]);
    let ended = ended(command);
    ended.is_well();
    let is_refused = !can || ended.err.contains("perf_event_paranoid");
    let counted = format!("cpu {first}  system in ");
    assert!(
        is_refused || ended.out.contains(&counted),
        "{}{}",
        ended.out,
        ended.err
    );
}

/// A monitor that runs until it is interrupted, and where what it says goes.
struct Running {
    child: Child,
    said: PathBuf,
}

impl Running {
    fn wait_for(&self, line: &str) {
        wait_until(line, || {
            let said = std::fs::read(&self.said).unwrap_or_default();
            text(&said).lines().any(|it| it == line)
        });
    }

    fn interrupt(self) -> Ended {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
        let mut ended = Ended::from(finish(self.child));
        ended.err = text(&std::fs::read(&self.said).expect("what it said"));
        ended
    }
}

#[test]
fn a_processor_that_goes_offline_and_comes_back_is_told_and_the_others_are_watched_on() {
    let (first, _) = first_and_last();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let list = folder.path().join("online");
    let said = folder.path().join("said");
    let out = folder.path().join("samples.csv");
    let write = |online: String| std::fs::write(&list, online).expect("room");
    write(format!("{first},{NONE}\n"));
    let (one, none) = (first.to_string(), NONE.to_string());
    let name = out.to_str().expect("text");
    let begin = ["--only", "system", "--cpu", &one, "--cpu", &none];
    let arguments = [&begin[..], &["--out", name]].concat();
    let Some(mut command) = elsewhere(&with_list(&list), &arguments) else {
        return;
    };
    // Nobody can count on a processor that is not there: so nobody can on any, and the list alone is judged.
    refuse(&mut command, Calls::All, libc::EPERM);
    let file = std::fs::File::create(&said).expect("room");
    let child = command.stdout(Stdio::piped()).stderr(file).spawn();
    let running = Running {
        child: child.expect("it starts"),
        said,
    };
    running.wait_for("tautline: no event is counted at all; software metrics are, all the same: cpu-load, interrupts");
    write(format!("{first}\n"));
    running.wait_for(&format!(
        "tautline: processor {NONE} is offline; its samples go on when it is back"
    ));
    write(format!("{first},{NONE}\n"));
    running.wait_for(&format!("tautline: processor {NONE} is back"));
    let ended = running.interrupt();
    ended.is_well();
    let about_first = format!("processor {first} is");
    assert!(!ended.err.contains(&about_first), "{}", ended.err);
    let rows = std::fs::read_to_string(&out).expect("a recording");
    let rows = rows.lines().filter(|line| !line.starts_with('#'));
    let of = |cpu: &str| {
        let is_of = |line: &&str| line.split(',').any(|field| field == cpu);
        rows.clone().filter(is_of).count()
    };
    // While it was gone it has none.
    assert!(
        of(&none) > 0 && of(&one) > of(&none),
        "{} {}",
        of(&one),
        of(&none)
    );
}
