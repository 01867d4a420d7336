//! The busy share of processors, from how long the kernel says that they were idle.

use core::time::Duration;
use std::fs::File;
use std::io;
use std::path::Path;

use crate::loadgen::idle::{MAX_STAT, TICKS, of_stat};
use crate::reread::read_at_start;
use crate::units::Time;

/// Reads `/proc/stat`. Idle time is to the nanosecond there where nothing ticks, and then cut to ticks; busy time is sampled by ticks, which leeches that come
/// and go with a period of their own may miss. So what is not idle is busy: stolen time, too.
#[derive(Debug)]
pub(super) struct Stat {
    file: File,
    buffer: Vec<u8>,
    len: usize,
    processors: Vec<u32>,
    last: Option<(Time, f64)>,
}

impl Stat {
    pub(super) fn open(root: &Path, processors: &[u32]) -> io::Result<Self> {
        Ok(Self {
            file: File::open(root.join("proc/stat"))?,
            buffer: vec![0; MAX_STAT],
            len: 0,
            processors: processors.to_vec(),
            last: None,
        })
    }

    /// What it says now.
    pub(super) fn refresh(&mut self) {
        self.len = read_at_start(&self.file, &mut self.buffer).unwrap_or(0);
    }

    fn text(&self) -> &str {
        let bytes = &self.buffer[..self.len];
        core::str::from_utf8(bytes).unwrap_or("")
    }

    /// The busy share since the last time, 0 to 1; not a number the first time, or if a processor is not there.
    pub(super) fn load(&mut self, now: Time) -> f64 {
        let Some(idle) = self.idle() else {
            self.last = None;
            return f64::NAN;
        };
        let before = self.last.replace((now, idle));
        let Some((since, before)) = before else {
            return f64::NAN;
        };
        let whole = now.saturating_since(since);
        if whole < Duration::from_millis(10) {
            return f64::NAN;
        }
        let whole = whole.as_secs_f64() * self.processors.len() as f64;
        (1.0 - (idle - before) / whole).clamp(0.0, 1.0)
    }

    /// Seconds that all of them have been idle.
    fn idle(&self) -> Option<f64> {
        let (ticks, found) = of_stat(self.text(), |number| self.processors.contains(&number))?;
        (found == self.processors.len() && found > 0).then_some(ticks / TICKS)
    }

    /// Context switches of the whole system since it started.
    pub(super) fn switches(&self) -> Option<f64> {
        let line = self
            .text()
            .lines()
            .find_map(|line| line.strip_prefix("ctxt "))?;
        line.trim().parse().ok()
    }
}

/// Page faults of the whole system since it started.
pub(super) fn faults(root: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(root.join("proc/vmstat")).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("pgfault "))?
        .trim()
        .parse()
        .ok()
}

/// The rate of something that is counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    last: Option<(Time, f64)>,
}

impl Rate {
    /// In a second, since the last time.
    pub(super) fn per_second(&mut self, now: Time, count: Option<f64>) -> f64 {
        let Some(count) = count else {
            self.last = None;
            return f64::NAN;
        };
        let before = self.last.replace((now, count));
        before.map_or(f64::NAN, |(since, before)| {
            let seconds = now.saturating_since(since).as_secs_f64();
            if count >= before && seconds > 0.0 {
                (count - before) / seconds
            } else {
                f64::NAN
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_not_idle_is_busy() {
        let root = tempfile::tempdir().unwrap();
        assert!(Stat::open(root.path(), &[0]).is_err());
        fs::create_dir_all(root.path().join("proc")).unwrap();
        let write = |idle: u32, other: u32| {
            let text = format!(
                "cpu 1 2 3 4\ncpu0 9 9 9 {idle} 5 1\ncpu1 1 1 1 {other} 0\nctxt 77{idle}\n"
            );
            fs::write(root.path().join("proc/stat"), text).unwrap();
        };
        write(100, 100);
        let mut one = Stat::open(root.path(), &[0]).unwrap();
        let mut both = Stat::open(root.path(), &[0, 1]).unwrap();
        let mut gone = Stat::open(root.path(), &[7]).unwrap();
        let mut loads = |seconds: u64| {
            [&mut one, &mut both, &mut gone].map(|stat| {
                stat.refresh();
                stat.load(Time::from_nanos(seconds * 1_000_000_000))
            })
        };
        assert!(loads(1).iter().all(|load| load.is_nan()));
        write(125, 200);
        let found = loads(2);
        assert!((found[0] - 0.75).abs() < 1e-9, "{found:?}");
        assert!((found[1] - 0.375).abs() < 1e-9, "{found:?}");
        assert!(found[2].is_nan());
        assert_eq!(one.switches(), Some(77_125.0));
    }

    #[test]
    fn rates_are_of_what_came_since() {
        let mut rate = Rate::default();
        let at = |seconds: u64| Time::from_nanos(seconds * 1_000_000_000);
        assert!(rate.per_second(at(1), Some(10.0)).is_nan());
        assert!((rate.per_second(at(3), Some(30.0)) - 10.0).abs() < 1e-9);
        assert!(rate.per_second(at(3), Some(40.0)).is_nan());
        assert!(rate.per_second(at(4), Some(4.0)).is_nan());
        assert!(rate.per_second(at(5), None).is_nan());
    }
}
