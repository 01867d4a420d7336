//! Software metrics on the monitor's time base: processor load, round trips, queue lengths, whatever an application knows of itself.

use core::fmt;
use core::time::Duration;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::control::load::{LoadMeter, Reading, parse_stat};
use crate::reread::read_at_start;
use crate::units::Time;

/// How often the system's own gauges are read at most: the kernel takes hundreds of microseconds to write `/proc/stat` where it has many interrupts or
/// processors to add up.
const SYSTEM_WINDOW: Duration = Duration::from_secs(1);

type Read = Box<dyn FnMut(Time) -> Option<f64> + Send>;

enum Kind {
    /// What it says is what it is.
    Level,
    /// What it says was its value.
    Recorded { is_count: bool },
    /// What it says grows: what was added in the interval is its value.
    Count {
        /// It is not read more often; in between, as much is added in a second as was last.
        window: Duration,
        last: Option<(Time, f64)>,
        per_second: Option<f64>,
    },
}

/// A software metric: something that a function says when the monitor asks.
pub struct Gauge {
    name: String,
    kind: Kind,
    read: Read,
}

impl fmt::Debug for Gauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gauge")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Gauge {
    /// Something that is high or low: load, a queue's length, a round trip in seconds. Asked once a period, so it must be quick. `None` is no value, as is
    /// what is not finite.
    pub fn level(
        name: impl Into<String>,
        read: impl FnMut(Time) -> Option<f64> + Send + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            kind: Kind::Level,
            read: Box::new(read),
        }
    }

    /// Something that is counted: messages sent, bytes received. It says how many so far; the value of an interval is what came in it.
    pub fn count(
        name: impl Into<String>,
        read: impl FnMut(Time) -> Option<f64> + Send + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            kind: Kind::Count {
                window: Duration::ZERO,
                last: None,
                per_second: None,
            },
            read: Box::new(read),
        }
    }

    /// A level that is set from anywhere, with the handle to set it by.
    pub fn supplied(name: impl Into<String>) -> (Self, GaugeHandle) {
        let handle = GaugeHandle {
            bits: Arc::new(AtomicU64::new(f64::NAN.to_bits())),
        };
        let supplied = handle.clone();
        let gauge = Self::level(name, move |_| {
            Some(f64::from_bits(supplied.bits.load(Ordering::Relaxed)))
        });
        (gauge, handle)
    }

    /// One that was recorded: it says what its values were.
    pub(super) fn recorded(
        name: String,
        is_count: bool,
        read: impl FnMut(Time) -> Option<f64> + Send + 'static,
    ) -> Self {
        Self {
            name,
            kind: Kind::Recorded { is_count },
            read: Box::new(read),
        }
    }

    /// What Linux says of the whole system in `/proc/stat` under `root` (`/`, except in tests): `cpu-load`, the busy share of all processors,
    /// 0 to 1, and `interrupts`, how many there were. Read once a second at most; in between, the load stays, and interrupts are taken to come as fast as
    /// in the second before.
    ///
    /// # Errors
    ///
    /// There is no such file.
    pub fn system(root: &Path) -> io::Result<Vec<Self>> {
        let stat = Arc::new(Mutex::new(Stat {
            file: File::open(root.join("proc/stat"))?,
            buffer: vec![0; 1 << 16],
            len: 0,
            read: None,
        }));
        let mut meter = LoadMeter::new();
        let mut load = None;
        let loads = Arc::clone(&stat);
        let cpu_load = Self::level("cpu-load", move |now| {
            let mut stat = loads.lock().unwrap_or_else(PoisonError::into_inner);
            let (is_new, text) = stat.text(now)?;
            if is_new {
                let reading = parse_stat(text).map(Reading::Node);
                // Too short for a tick of the kernel's: what it was.
                if let Ok(Some(new)) = reading.and_then(|reading| meter.record(now, reading)) {
                    load = Some(new.get());
                }
            }
            load
        });
        let mut interrupts = Self::count("interrupts", move |now| {
            let mut stat = stat.lock().unwrap_or_else(PoisonError::into_inner);
            let (_, text) = stat.text(now)?;
            let line = text.lines().find_map(|line| line.strip_prefix("intr "))?;
            line.split(' ').next()?.parse().ok()
        });
        if let Kind::Count { window, .. } = &mut interrupts.kind {
            *window = SYSTEM_WINDOW;
        }
        Ok(vec![cpu_load, interrupts])
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it counts: its value is what came in the interval.
    pub const fn is_count(&self) -> bool {
        matches!(
            self.kind,
            Kind::Count { .. } | Kind::Recorded { is_count: true }
        )
    }

    /// Its value in an interval that ends now; not a number if there is none.
    pub(super) fn value(&mut self, now: Time, interval: Duration) -> f64 {
        let value = match &mut self.kind {
            Kind::Level | Kind::Recorded { .. } => (self.read)(now),
            Kind::Count {
                window,
                last,
                per_second,
            } => {
                let since = last.map(|(time, _)| now.saturating_since(time));
                if since.is_none_or(|since| since >= *window && !since.is_zero()) {
                    if let Some(count) = (self.read)(now).filter(|count| count.is_finite()) {
                        let before = last.replace((now, count));
                        *per_second = before.and_then(|(time, before)| {
                            let seconds = now.saturating_since(time).as_secs_f64();
                            // One that went back began anew.
                            (count >= before).then(|| (count - before) / seconds)
                        });
                    }
                }
                per_second.map(|rate| rate * interval.as_secs_f64())
            }
        };
        value.filter(|value| value.is_finite()).unwrap_or(f64::NAN)
    }
}

/// Sets a [`Gauge::supplied`]. Clones set the same.
#[derive(Clone, Debug)]
pub struct GaugeHandle {
    /// The bits of the value; those of no number until there is one.
    bits: Arc<AtomicU64>,
}

impl GaugeHandle {
    /// It is `value` from now on, until said otherwise. What is not finite is no value.
    pub fn set(&self, value: f64) {
        // Nothing else is published with it.
        self.bits.store(value.to_bits(), Ordering::Relaxed);
    }
}

/// `/proc/stat`, which more than one gauge reads.
struct Stat {
    file: File,
    buffer: Vec<u8>,
    len: usize,
    read: Option<Time>,
}

impl Stat {
    /// What it says, and whether that is new to who asks first.
    fn text(&mut self, now: Time) -> Option<(bool, &str)> {
        let is_old = |read: Time| now.saturating_since(read) >= SYSTEM_WINDOW;
        let is_new = self.read.is_none_or(is_old);
        if is_new {
            self.len = read_at_start(&self.file, &mut self.buffer).ok()?;
            self.read = Some(now);
        }
        let text = core::str::from_utf8(&self.buffer[..self.len]).ok()?;
        Some((is_new, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_supplied_gauge_says_what_it_was_told() {
        let (mut gauge, handle) = Gauge::supplied("rtt");
        assert!(gauge.value(at(0), SECOND).is_nan());
        handle.set(0.25);
        assert!((gauge.value(at(1), SECOND) - 0.25).abs() < 1e-12);
        handle.set(f64::INFINITY);
        assert!(gauge.value(at(2), SECOND).is_nan());
    }

    #[test]
    fn a_count_is_what_came_in_the_interval() {
        let counts = [10.0, 14.0, 14.0, 3.0, 5.0];
        let mut next = counts.into_iter();
        let mut gauge = Gauge::count("messages", move |_| next.next());
        assert!(gauge.value(at(0), SECOND).is_nan());
        assert!((gauge.value(at(1000), SECOND) - 4.0).abs() < 1e-9);
        assert!(gauge.value(at(2000), SECOND).abs() < 1e-9);
        // It began anew.
        assert!(gauge.value(at(3000), SECOND).is_nan());
        assert!((gauge.value(at(4000), SECOND) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn the_system_says_load_and_interrupts() {
        let root = tempfile::tempdir().unwrap();
        assert!(Gauge::system(root.path()).is_err());
        let write = |busy: u32, interrupts: u32| {
            let text = format!(
                "cpu  {busy} 0 0 100 0 0 0\ncpu0 1 0 0 1\nintr {interrupts} 1 2 3\nctxt 9\n"
            );
            fs::create_dir_all(root.path().join("proc")).unwrap();
            fs::write(root.path().join("proc/stat"), text).unwrap();
        };
        write(0, 1000);
        let mut gauges = Gauge::system(root.path()).unwrap();
        let mut values = |millis| -> Vec<f64> {
            let gauges = gauges.iter_mut();
            gauges
                .map(|gauge| gauge.value(at(millis), SECOND / 10))
                .collect()
        };
        assert!(values(0).iter().all(|value| value.is_nan()));
        write(60, 2000);
        // Not before a second is over.
        assert!(values(100).iter().all(|value| value.is_nan()));
        let found = values(1000);
        assert!((found[0] - 1.0).abs() < 1e-6, "{found:?}");
        // 1000 in 1 s are 100 in an interval of 100 ms.
        assert!((found[1] - 100.0).abs() < 1e-6, "{found:?}");
    }
}
