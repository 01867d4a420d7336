//! Processors that codecs share with other services, and the guard that watches their load.

use core::time::Duration;

use crate::codecs::{Arm, CodecId, prior_decode_nanos, prior_encode_nanos};
use crate::control::{BudgetRate, CpuGuard, CpuGuardConfig, CpuGuardConfigError, Processors};
use crate::units::{CpuLoad, Time, saturating_nanos};

/// What codecs cost on an otherwise idle processor.
#[derive(Clone, Copy, Debug)]
pub struct CodecCosts {
    /// Time to encode so many plain bytes, ns.
    pub encode_nanos: fn(Arm, usize) -> u64,
    /// Time to decode to so many plain bytes, ns.
    pub decode_nanos: fn(CodecId, usize) -> u64,
}

impl Default for CodecCosts {
    /// The table of measured costs that the crate carries.
    fn default() -> Self {
        Self {
            encode_nanos: prior_encode_nanos,
            decode_nanos: prior_decode_nanos,
        }
    }
}

/// A node's processors.
#[derive(Clone, Debug)]
pub struct CpuConfig {
    /// How many there are.
    pub processors: Processors,
    /// How many of them other services keep busy at first.
    pub background: f64,
    /// The guard that derives the codec budget from the load; `None` for no limit.
    pub guard: Option<CpuGuardConfig>,
}

impl Default for CpuConfig {
    /// One idle processor without a guard.
    fn default() -> Self {
        Self {
            processors: Processors::ONE,
            background: 0.0,
            guard: None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Cpu {
    processors: f64,
    background: f64,
    guard: Option<CpuGuard>,
    period: Duration,
    period_began: Time,
    codec_nanos: f64,
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
            background: config.background,
            period: guard
                .as_ref()
                .map_or(Duration::from_millis(100), CpuGuard::period),
            guard,
            period_began: Time::ZERO,
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
        self.background = busy;
    }

    fn count_background(&mut self, now: Time) {
        let nanos = saturating_nanos(now.saturating_since(self.background_since)) as f64;
        self.background_nanos += nanos * self.background;
        self.background_since = now;
    }

    /// How long codec work of `cost` ns takes: longer where others want the processors too.
    pub(super) fn elapsed(&self, cost: u64) -> Duration {
        let wanted = self.background + 1.0;
        let share = (self.processors / wanted).min(1.0);
        Duration::from_nanos((cost as f64 / share) as u64)
    }

    pub(super) fn spend(&mut self, cost: u64) {
        self.codec_nanos += cost as f64;
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
