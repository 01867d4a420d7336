//! The kernel's counters: `perf_event_open(2)`.
#![expect(
    unsafe_code,
    reason = "the interface is a system call that libc has no function for"
)]

use core::time::Duration;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use super::counters::{CounterId, Counters, Facts, GroupReading, MAX_EVENTS, Task};
use super::event::{EventCode, EventSource, Privilege};
use super::reason::Place;
use super::ring::{MAX_RECORD, Ring};
use crate::thread::monotonic_nanos;
use crate::units::{Time, saturating_nanos};

/// `perf_event_attr` as it was in its fourth version (Linux 4.1), which every kernel since knows and takes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    source: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
}

impl Attributes {
    /// Times of records are to be of the monotonic clock, which programs read as well.
    fn set_clock(&mut self) {
        self.size = size_of::<Self>() as u32;
        self.flags |= USE_CLOCK;
        self.clock = libc::CLOCK_MONOTONIC;
    }
}

const _: () = assert!(size_of::<Attributes>() == 96);
/// As it was in its second version, which is all that counters need.
const OLD_SIZE: u32 = 72;

/// `PERF_COUNT_SW_CPU_CLOCK`: time, by a timer of its own.
const CPU_CLOCK: u64 = 0;
/// `PERF_SAMPLE_TIME` and `PERF_SAMPLE_READ`.
const SAMPLE_TYPE: u64 = 1 << 2 | 1 << 4;
/// How long what is noted is kept at least, if the system allows so much memory for it.
const KEPT: Duration = Duration::from_secs(1);

/// Times enabled and running, and the values of a whole group in one reading.
const READ_FORMAT: u64 = 1 | 1 << 1 | 1 << 3;

/// The bits of `flags` count from the side that the machine's bit fields begin at.
const fn flag(bit: u32) -> u64 {
    if cfg!(target_endian = "big") {
        1 << (63 - bit)
    } else {
        1 << bit
    }
}

const DISABLED: u64 = flag(0);
const INHERIT: u64 = flag(1);
const EXCLUDE_USER: u64 = flag(4);
const EXCLUDE_KERNEL: u64 = flag(5);
const EXCLUDE_HYPERVISOR: u64 = flag(6);
const WATERMARK: u64 = flag(14);
const USE_CLOCK: u64 = flag(25);

/// `PERF_EVENT_IOC_ENABLE`: without argument, which some processors' interfaces say by a bit of its own.
const ENABLE: libc::Ioctl = if cfg!(any(
    target_arch = "mips",
    target_arch = "mips64",
    target_arch = "powerpc",
    target_arch = "powerpc64",
    target_arch = "sparc",
    target_arch = "sparc64"
)) {
    0x2000_2400
} else {
    0x2400
};
/// `PERF_EVENT_IOC_DISABLE`.
const DISABLE: libc::Ioctl = ENABLE + 1;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// The counters of this machine's kernel.
#[derive(Debug)]
pub struct Perf {
    /// By number of the counter.
    open: Vec<Option<Open>>,
    free: Vec<u32>,
    facts: Facts,
    /// From this number on, descriptors are left to others.
    spare_from: u64,
    /// What the clock of notes shows more than that of who asks, nanoseconds: the least that was seen, for the one is read after the other.
    ahead: u64,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// Of a sampler.
    ring: Option<Ring>,
}

impl Perf {
    /// Counters of this machine, none open yet.
    pub fn new() -> Self {
        Self {
            open: Vec::new(),
            free: Vec::new(),
            facts: facts(Path::new("/")),
            spare_from: spare_from(),
            ahead: u64::MAX,
        }
    }

    fn counter(&self, counter: CounterId) -> io::Result<&Open> {
        let open = self.open.get(counter.0 as usize).and_then(Option::as_ref);
        open.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// A counter, unless it takes what others need: whoever counts has also to see what there is to count, and to write it.
    fn spare(&self, file: File) -> io::Result<File> {
        // The system gives the lowest number that is free.
        let number = u64::try_from(file.as_raw_fd()).unwrap_or(0);
        if number < self.spare_from {
            Ok(file)
        } else {
            Err(io::Error::from_raw_os_error(libc::EMFILE))
        }
    }

    fn keep(&mut self, file: File, ring: Option<Ring>) -> CounterId {
        let number = self.free.pop().unwrap_or(self.open.len() as u32);
        if number as usize == self.open.len() {
            self.open.push(None);
        }
        self.open[number as usize] = Some(Open { file, ring });
        CounterId(number)
    }
}

impl Default for Perf {
    fn default() -> Self {
        Self::new()
    }
}

impl Counters for Perf {
    fn open(
        &mut self,
        event: &EventCode,
        task: Task,
        leader: Option<CounterId>,
    ) -> io::Result<CounterId> {
        let mut flags = match event.privilege {
            Privilege::All => 0,
            Privilege::User => EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
            Privilege::Kernel => EXCLUDE_USER | EXCLUDE_HYPERVISOR,
        };
        if leader.is_none() {
            flags |= DISABLED;
        }
        let (process, cpu) = match task {
            Task::Thread(thread) => {
                flags |= INHERIT;
                let thread = i32::try_from(thread);
                (
                    thread.map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?,
                    -1,
                )
            }
            Task::Cpu(cpu) => (-1, number_of(cpu)?),
        };
        let mut attributes = Attributes {
            source: event.source.number(),
            size: OLD_SIZE,
            config: event.config,
            config1: event.config1,
            read_format: READ_FORMAT,
            flags,
            ..Attributes::default()
        };
        let group = match leader {
            None => -1,
            Some(leader) => {
                let leader = self.counter(leader)?;
                if leader.ring.is_some() {
                    // Who is of a group has its clock.
                    attributes.set_clock();
                }
                leader.file.as_raw_fd()
            }
        };
        let file = self.spare(open(&attributes, process, cpu, group)?)?;
        Ok(self.keep(file, None))
    }

    fn open_sampler(&mut self, cpu: u32, period: Duration) -> io::Result<CounterId> {
        let mut attributes = Attributes {
            source: EventSource::Software.number(),
            config: CPU_CLOCK,
            sample_period: saturating_nanos(period),
            sample_type: SAMPLE_TYPE,
            read_format: READ_FORMAT,
            flags: DISABLED | WATERMARK,
            // Nobody waits for it, and so nobody is to be woken.
            wakeup_events: u32::MAX,
            ..Attributes::default()
        };
        attributes.set_clock();
        let file = self.spare(open(&attributes, -1, number_of(cpu)?, -1)?)?;
        let records = KEPT.as_nanos() / period.as_nanos().max(1);
        let records = usize::try_from(records).unwrap_or(usize::MAX);
        let ring = Ring::map(&file, records.saturating_add(1).saturating_mul(MAX_RECORD))?;
        Ok(self.keep(file, Some(ring)))
    }

    fn take(
        &mut self,
        sampler: CounterId,
        now: Time,
        each: &mut dyn FnMut(Time, &GroupReading),
    ) -> io::Result<u64> {
        let open = self.open.get_mut(sampler.0 as usize);
        let ring = open
            .and_then(Option::as_mut)
            .and_then(|open| open.ring.as_mut());
        let ring = ring.ok_or(io::ErrorKind::NotFound)?;
        self.ahead = self
            .ahead
            .min(monotonic_nanos().saturating_sub(now.as_nanos()));
        let ahead = self.ahead;
        Ok(ring.drain(|at, reading| each(Time::from_nanos(at.saturating_sub(ahead)), reading)))
    }

    fn start(&mut self, leader: CounterId) -> io::Result<()> {
        control(&self.counter(leader)?.file, ENABLE)
    }

    fn stop(&mut self, leader: CounterId) -> io::Result<()> {
        control(&self.counter(leader)?.file, DISABLE)
    }

    fn read(&mut self, leader: CounterId, into: &mut GroupReading) -> io::Result<()> {
        let mut bytes = [0; 8 * (3 + MAX_EVENTS)];
        let read = (&self.counter(leader)?.file).read(&mut bytes)?;
        let mut words = bytes[..read]
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
        // A group in error reads as nothing at all.
        let (Some(len), Some(enabled), Some(running)) = (words.next(), words.next(), words.next())
        else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        into.enabled = enabled;
        into.running = running;
        into.len = words
            .len()
            .min(MAX_EVENTS)
            .min(usize::try_from(len).unwrap_or(0));
        for (slot, value) in into.values.iter_mut().zip(words) {
            *slot = value;
        }
        Ok(())
    }

    fn close(&mut self, counter: CounterId) {
        if let Some(open) = self.open.get_mut(counter.0 as usize) {
            if open.take().is_some() {
                self.free.push(counter.0);
            }
        }
    }

    fn is_present(&mut self, place: Place) -> bool {
        match place {
            Place::Process(process) => is_running(process),
            // Where nobody says which there are, that one cannot be opened tells.
            Place::Cpu(cpu) => self.online().map_or(true, |online| online.contains(&cpu)),
        }
    }

    fn threads(&mut self, process: u32) -> io::Result<Vec<u32>> {
        if !is_running(process) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let entries = fs::read_dir(format!("/proc/{process}/task"))?;
        let number =
            |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
        Ok(entries.filter_map(number).collect())
    }

    fn online(&mut self) -> io::Result<Vec<u32>> {
        match fs::read_to_string("/sys/devices/system/cpu/online") {
            Ok(text) => parse_list(&text).ok_or_else(|| io::ErrorKind::InvalidData.into()),
            // Some containers have no /sys.
            Err(error) => {
                let stat = fs::read_to_string("/proc/stat").ok();
                stat.as_deref().and_then(parse_stat).ok_or(error)
            }
        }
    }

    fn facts(&self) -> Facts {
        self.facts
    }
}

/// As many as what else a monitor has open takes: where it writes to, who asks for metrics, files of `/proc` while they are read. Arbitrary.
const SPARE: u64 = 16;

fn spare_from() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(u64::MAX, |limit| limit.saturating_sub(SPARE))
}

fn number_of(cpu: u32) -> io::Result<i32> {
    i32::try_from(cpu).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))
}

fn open(attributes: &Attributes, process: i32, cpu: i32, group: i32) -> io::Result<File> {
    // SAFETY: the kernel reads `size` bytes from `attributes`, which is as long as it says and lives until the call is over; it writes there
    // only to say which size it knows, when it refuses with E2BIG, and refuses none of this size. The other arguments are numbers.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            core::ptr::from_ref(attributes),
            process,
            cpu,
            group,
            CLOSE_ON_EXEC,
        )
    };
    let descriptor = i32::try_from(descriptor).unwrap_or(-1);
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call gave a new descriptor, checked above to be one, and nobody else has it.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

fn control(counter: &File, request: libc::Ioctl) -> io::Result<()> {
    // SAFETY: `ENABLE` and `DISABLE` take a number, not an address; the descriptor is open for as long as `counter` is borrowed.
    let result = unsafe { libc::ioctl(counter.as_raw_fd(), request, 0) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Whether there is such a process, which has not ended (a process that nobody has waited for has).
fn is_running(process: u32) -> bool {
    // The name, in parentheses, may hold anything, and need not be text.
    let stat = match fs::read(format!("/proc/{process}/stat")) {
        Ok(stat) => stat,
        // Whatever else keeps it from being read, it is there.
        Err(error) => {
            return error.kind() != io::ErrorKind::NotFound
                && error.raw_os_error() != Some(libc::ESRCH);
        }
    };
    let end = stat.iter().rposition(|byte| *byte == b')');
    let state = end.and_then(|end| stat[end + 1..].trim_ascii_start().first());
    !matches!(state, None | Some(b'Z' | b'X' | b'x'))
}

const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON: u64 = 1 << 38;
/// What the system's own user namespace shows: each user as himself.
const ALL_USERS: [&str; 3] = ["0", "0", "4294967295"];

fn facts(root: &Path) -> Facts {
    let devices = fs::read_dir(root.join("sys/bus/event_source/devices"));
    let is_pmu = |entry: io::Result<fs::DirEntry>| {
        let name = entry.map(|entry| entry.file_name()).unwrap_or_default();
        let name = name.to_string_lossy();
        // x86 and others `cpu`, hybrid ones `cpu_core`; ARM by architecture or core.
        ["cpu", "armv", "apple", "cpum_cf"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    };
    let paranoid = fs::read_to_string(root.join("proc/sys/kernel/perf_event_paranoid"));
    let status = fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
    let of = |name| status.lines().find_map(|line| line.strip_prefix(name));
    let seccomp: Option<&str> = of("Seccomp:");
    let capabilities = of("CapEff:").and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    let users = fs::read_to_string(root.join("proc/self/uid_map")).unwrap_or_default();
    Facts {
        pmu: devices.is_ok_and(|mut devices| devices.any(is_pmu)),
        paranoid: paranoid.ok().and_then(|level| level.trim().parse().ok()),
        seccomp: seccomp.is_some_and(|mode| mode.trim() != "0"),
        privileged: capabilities.is_some_and(|set| set & (CAP_PERFMON | CAP_SYS_ADMIN) != 0)
            && users.split_whitespace().eq(ALL_USERS),
    }
}

/// Numbers as the kernel lists them: `0-3,5`.
fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        // No machine has more.
        if last.checked_sub(first)? > 1 << 16 {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

/// Those that `/proc/stat` has a line of.
fn parse_stat(text: &str) -> Option<Vec<u32>> {
    let words = text
        .lines()
        .filter_map(|line| line.strip_prefix("cpu")?.split(' ').next());
    let numbers: Vec<u32> = words.filter_map(|word| word.parse().ok()).collect();
    (!numbers.is_empty()).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_listed_in_ranges() {
        assert_eq!(parse_list("0-3,5\n"), Some(vec![0, 1, 2, 3, 5]));
        assert_eq!(parse_list("\n"), Some(vec![]));
        assert_eq!(parse_list("3-1"), None);
        assert_eq!(parse_list("0-4294967295"), None);
        assert_eq!(parse_list("x"), None);
        let stat = "cpu  9 8 7\ncpu0 1 2 3\ncpu12 4 5 6\nintr 1\n";
        assert_eq!(parse_stat(stat), Some(vec![0, 12]));
        assert_eq!(parse_stat("intr 1\n"), None);
    }

    #[test]
    fn facts_are_what_the_system_shows() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(facts(root.path()), Facts::default());
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("sys/bus/event_source/devices/cpu_core/type", "4\n");
        write("proc/sys/kernel/perf_event_paranoid", "-1\n");
        write(
            "proc/self/status",
            "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n",
        );
        let expected = Facts {
            pmu: true,
            paranoid: Some(-1),
            seccomp: true,
            privileged: false,
        };
        assert_eq!(facts(root.path()), expected);
        let privileged = Facts {
            privileged: true,
            ..expected
        };
        let status = "CapEff:\t000001fffeffffff\nSeccomp:\t2\n";
        write("proc/self/status", status);
        for (users, expected) in [
            ("         0          0 4294967295\n", privileged),
            ("         0       1000          1\n", expected),
        ] {
            write("proc/self/uid_map", users);
            assert_eq!(facts(root.path()), expected, "{users}");
        }
    }

    #[test]
    fn a_process_that_has_ended_is_not_there() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let mut perf = Perf::new();
        assert!(!perf.is_present(Place::Process(child.id())));
        assert!(perf.threads(child.id()).is_err());
        let own = std::process::id();
        assert!(perf.is_present(Place::Process(own)));
        assert!(!perf.threads(own).unwrap().is_empty());
        assert!(!perf.is_present(Place::Cpu(u32::MAX)));
    }
}
