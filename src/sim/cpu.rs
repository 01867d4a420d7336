//! Processors that codecs share with other services, and the guard that watches their load.

use core::time::Duration;

use crate::control::{BudgetRate, CpuGuard, CpuGuardConfig, CpuGuardConfigError, Processors};
use crate::units::{CpuLoad, Time, saturating_nanos};

/// A node's processors.
#[derive(Clone, Debug)]
pub struct CpuConfig {
    /// How many there are.
    pub processors: Processors,
    /// How many of them other services keep busy at first.
    pub background: f64,
    /// The guard that derives the codec budget from the load; `None` for no limit.
    pub guard: Option<CpuGuardConfig>,
    /// Processor time from the arrival of bytes until the session sees them, for each time that the
    /// node wakes for some. Other services stretch it as they do codec work, so that all a starved
    /// node does is late, its answers too. Default none.
    pub handling: Duration,
    /// Blocks that are encoded at once, at most ([`Session::set_encoders`](crate::session::Session::set_encoders)). Default 1.
    pub encoders: usize,
}

impl Default for CpuConfig {
    /// One idle processor without a guard.
    fn default() -> Self {
        Self {
            processors: Processors::ONE,
            background: 0.0,
            guard: None,
            handling: Duration::ZERO,
            encoders: 1,
        }
    }
}

/// Kinds of work of a node that run beside each other; of one kind, one after another, but for encoding by several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Encode,
    Decode,
    /// Reading what has arrived.
    Handling,
    /// Encoding what was sent once more, to learn from it.
    Shadow,
}

#[derive(Debug)]
pub(super) struct Cpu {
    processors: f64,
    background: f64,
    handling: Duration,
    guard: Option<CpuGuard>,
    period: Duration,
    period_began: Time,
    /// When the work that was begun in each lane is done.
    busy_until: [Time; 4],
    /// .. and, of encoders, by all but the one that was free first.
    encoding_until: Vec<Time>,
    codec_nanos: f64,
    /// Processor time of other services, and of handling.
    background_nanos: f64,
    background_since: Time,
    load: CpuLoad,
}

impl Cpu {
    pub(super) fn new(config: CpuConfig) -> Result<Self, CpuGuardConfigError> {
        let guard = config
            .guard
            .map(|guard| CpuGuard::new(guard, config.processors))
            .transpose()?;
        Ok(Self {
            processors: config.processors.get(),
            background: config.background.max(0.0),
            handling: config.handling,
            period: guard
                .as_ref()
                .map_or(Duration::from_millis(100), CpuGuard::period),
            guard,
            period_began: Time::ZERO,
            busy_until: [Time::ZERO; 4],
            encoding_until: vec![Time::ZERO; config.encoders.saturating_sub(1)],
            codec_nanos: 0.0,
            background_nanos: 0.0,
            background_since: Time::ZERO,
            load: CpuLoad::IDLE,
        })
    }

    pub(super) const fn load(&self) -> CpuLoad {
        self.load
    }

    pub(super) fn budget(&self) -> Option<BudgetRate> {
        self.guard.as_ref().map(CpuGuard::budget)
    }

    /// When the load is measured next.
    pub(super) fn next_period(&self) -> Option<Time> {
        self.guard.as_ref().map(|_| self.period_began + self.period)
    }

    pub(super) fn set_background(&mut self, now: Time, busy: f64) {
        self.count_background(now);
        self.background = busy.max(0.0);
    }

    fn count_background(&mut self, now: Time) {
        let nanos = saturating_nanos(now.saturating_since(self.background_since)) as f64;
        self.background_nanos += nanos * self.background;
        self.background_since = now;
    }

    /// Processor time to read what has arrived; zero where that is not modelled.
    pub(super) const fn handling(&self) -> Duration {
        self.handling
    }

    /// Begins work of `cost` ns once its lane is free: how long it takes, and when it is done. It is
    /// stretched where it, the other lanes and other services want more processors than there are.
    /// As things are when it begins: what comes later stretches only what begins later.
    pub(super) fn begin(&mut self, now: Time, lane: Lane, cost: u64) -> (Duration, Time) {
        if lane == Lane::Encode {
            let free = &mut self.busy_until[lane as usize];
            for other in &mut self.encoding_until {
                if *other < *free {
                    core::mem::swap(other, free);
                }
            }
        }
        let started = self.busy_until[lane as usize].max(now);
        let others = self.busy_until.iter().enumerate();
        let others = others.filter(|(at, _)| *at != lane as usize);
        let others = others.map(|(_, until)| until).chain(&self.encoding_until);
        let busy = others.filter(|until| **until > started).count();
        let wanted = self.background + 1.0 + busy as f64;
        let share = (self.processors / wanted).min(1.0);
        let elapsed = Duration::from_nanos((cost as f64 / share) as u64);
        let done = started + elapsed;
        self.busy_until[lane as usize] = done;
        match lane {
            Lane::Encode | Lane::Decode | Lane::Shadow => self.codec_nanos += cost as f64,
            Lane::Handling => self.background_nanos += cost as f64,
        }
        (elapsed, done)
    }

    /// Measures the load at the end of a period; whether one has ended.
    pub(super) fn advance(&mut self, now: Time) -> bool {
        let passed = now.saturating_since(self.period_began);
        if passed < self.period {
            return false;
        }
        self.count_background(now);
        let capacity = saturating_nanos(passed) as f64 * self.processors;
        self.load = CpuLoad::new((self.codec_nanos + self.background_nanos) / capacity);
        let spent = Duration::from_nanos(self.codec_nanos as u64);
        self.codec_nanos = 0.0;
        self.background_nanos = 0.0;
        self.period_began = now;
        if let Some(guard) = &mut self.guard {
            guard.record(now, self.load, Some(spent));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_share_what_processors_there_are() {
        let run = |processors| {
            let mut cpu = Cpu::new(CpuConfig {
                processors: Processors::new(processors).expect("above zero"),
                ..CpuConfig::default()
            })
            .expect("valid settings");
            let mut begin = |lane| {
                let (elapsed, done) = cpu.begin(Time::ZERO, lane, 1000);
                (elapsed.as_nanos(), done.as_nanos())
            };
            [Lane::Encode, Lane::Decode, Lane::Decode].map(&mut begin)
        };
        // The second decode waits for the first, and then has the processor to itself.
        assert_eq!(run(1.0), [(1000, 1000), (2000, 2000), (1000, 3000)]);
        assert_eq!(run(2.0), [(1000, 1000), (1000, 1000), (1000, 2000)]);
    }
}
