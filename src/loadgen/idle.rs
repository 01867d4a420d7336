//! How long a processor has been idle, as the system says.

use core::time::Duration;
use std::fs::File;
use std::io;
use std::path::Path;

use crate::reread::read_at_start;

/// Ticks of a second in `/proc`: 100 on every Linux, whatever the kernel's own.
pub(super) const TICKS: f64 = 100.0;
/// No processor has so many idle states.
const MAX_STATES: usize = 16;
/// The longest `/proc/stat` that is read.
pub(super) const MAX_STAT: usize = 1 << 18;

/// The idle time of one processor, which does not go on while who asks runs there.
///
/// Where the system has idle states, each says how long the processor was in it, to the microsecond; else `/proc/stat` says it in steps of a hundredth of a second.
#[derive(Debug)]
pub(super) struct Idle {
    files: Files,
    buffer: Vec<u8>,
}

#[derive(Debug)]
enum Files {
    States(Vec<File>),
    Stat { file: File, processor: u32 },
}

impl Idle {
    /// Of `processor`, under `root` (`/`, except in tests).
    pub(super) fn open(root: &Path, processor: u32) -> io::Result<Self> {
        let folder = root.join(format!("sys/devices/system/cpu/cpu{processor}/cpuidle"));
        let states: Vec<File> = (0..MAX_STATES)
            .map_while(|state| File::open(folder.join(format!("state{state}/time"))).ok())
            .collect();
        let files = if states.is_empty() {
            let file = File::open(root.join("proc/stat"))?;
            Files::Stat { file, processor }
        } else {
            Files::States(states)
        };
        let length = match files {
            Files::States(_) => 32,
            Files::Stat { .. } => MAX_STAT,
        };
        let mut idle = Self {
            files,
            buffer: vec![0; length],
        };
        match idle.read() {
            Some(_) => Ok(idle),
            None => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// How long it has been idle since the system started.
    pub(super) fn read(&mut self) -> Option<Duration> {
        match &self.files {
            Files::States(states) => {
                let mut sum: u64 = 0;
                for state in states {
                    let micros = text(state, &mut self.buffer)?.trim().parse().ok()?;
                    sum = sum.checked_add(micros)?;
                }
                Some(Duration::from_micros(sum))
            }
            Files::Stat { file, processor } => {
                let ticks = of_stat(text(file, &mut self.buffer)?, |number| number == *processor);
                let (ticks, found) = ticks?;
                if found == 0 {
                    return None;
                }
                Duration::try_from_secs_f64(ticks / TICKS).ok()
            }
        }
    }
}

fn text<'a>(file: &File, buffer: &'a mut [u8]) -> Option<&'a str> {
    let read = read_at_start(file, buffer).ok()?;
    core::str::from_utf8(buffer.get(..read)?).ok()
}

/// From the text of `/proc/stat`: ticks that processors of these numbers have been idle, or waited for a disk, together; and how many of them there are.
pub(super) fn of_stat(text: &str, is_of: impl Fn(u32) -> bool) -> Option<(f64, usize)> {
    let (mut ticks, mut found) = (0.0, 0);
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        let number = fields
            .next()
            .and_then(|name| name.strip_prefix("cpu")?.parse::<u32>().ok());
        if number.is_some_and(&is_of) {
            let idle: f64 = fields.nth(3)?.parse().ok()?;
            let waiting = fields.next().and_then(|text| text.parse().ok());
            ticks += idle + waiting.unwrap_or(0.0);
            found += 1;
        }
    }
    Some((ticks, found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn states_are_added_up_and_without_them_the_ticks_are_read() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert!(Idle::open(root, 1).is_err());
        fs::create_dir_all(root.join("proc")).unwrap();
        fs::write(
            root.join("proc/stat"),
            "cpu 9 9 9 9\ncpu0 1 1 1 7 0\ncpu1 1 1 1 240 10 3\n",
        )
        .unwrap();
        let mut ticks = Idle::open(root, 1).unwrap();
        assert_eq!(ticks.read(), Some(Duration::from_millis(2500)));
        assert!(Idle::open(root, 2).is_err());
        for (state, micros) in [(0, "17\n"), (1, "1000000\n")] {
            let folder = root.join(format!("sys/devices/system/cpu/cpu1/cpuidle/state{state}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("time"), micros).unwrap();
        }
        let mut states = Idle::open(root, 1).unwrap();
        assert_eq!(states.read(), Some(Duration::from_micros(1_000_017)));
        let state = root.join("sys/devices/system/cpu/cpu1/cpuidle/state0/time");
        fs::write(state, "nonsense").unwrap();
        assert_eq!(states.read(), None);
    }

    #[test]
    fn a_processor_of_this_machine_says_how_long_it_was_idle() {
        let allowed = crate::loadgen::Topology::of_system(Path::new("/"), None).allowed();
        let mut idle = Idle::open(Path::new("/"), allowed[0]).unwrap();
        let before = idle.read().unwrap();
        assert!(idle.read().unwrap() >= before);
    }
}
