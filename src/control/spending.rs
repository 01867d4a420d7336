//! What this end spends on blocks besides their codecs, and on shadows: of the machine, not of one connection.

use core::time::Duration;

use super::budget::BudgetRate;
use crate::units::{CpuLoad, Time, saturating_nanos};

/// Codec work that is likely to take longer leaves the thread that drives the session, so that other tasks get their turn
/// (architecture.md, invariant 6): it is handed to a worker and back.
pub const MAX_INLINE: Duration = Duration::from_micros(100);
/// Of codec work that is likely to take longer than this, several blocks may be done at once. Arbitrary: below, to hand blocks over
/// and back takes as long as is won.
pub const PARALLEL_FROM: Duration = Duration::from_micros(300);
/// A block that is likely to take longer than [`MAX_INLINE`], but no longer than this, is cut to stay below that, if the link is no slower: to
/// hand it over takes longer than one block more does. Twice as long, so that it becomes two: where it becomes more, nothing is won (docs/benchmarks.md) ..
pub(crate) const MOST_CUT: Duration = Duration::from_micros(200);
/// .. if it has so many bytes: by cuts of what is shorter more is lost.
pub(crate) const LEAST_CUT: usize = 32 << 10;
/// What that costs, ns. Arbitrary: 5 to 40 µs are the same (docs/benchmarks.md).
pub(crate) const CUT_NANOS: f64 = 20e3;

/// The least weight of a new time in what blocks take.
const GAIN: f64 = 0.1;
/// More than so many times what is known, and this much, ns, is somebody else's doing.
const MOST: f64 = 3.0;
const SLACK: f64 = 50e3;
/// Two blocks that are so far apart had something to wait for. Arbitrary.
const MOST_BETWEEN: Duration = Duration::from_micros(500);
/// A block that took more than so many times its processor time waited for its turn once, which is not how all will go.
/// Arbitrary.
const MOST_STRETCHED: u32 = 16;

/// A mean of times, those of late more than others.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    nanos: f64,
    count: f64,
}

impl Mean {
    fn record(&mut self, time: Duration) {
        let given = saturating_nanos(time) as f64;
        let given = given.min(MOST * self.nanos + SLACK);
        self.count = (self.count + 1.0).min(1.0 / GAIN);
        self.nanos += (given - self.nanos) / self.count;
    }
}

/// What encoding took, over its processor time.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    elapsed: Mean,
    processor: Mean,
}

impl Stretch {
    fn record(&mut self, elapsed: Duration, processor: Duration) {
        self.elapsed
            .record(elapsed.min(processor.saturating_mul(MOST_STRETCHED)));
        self.processor.record(processor);
    }

    fn times(&self) -> f64 {
        (self.elapsed.nanos / self.processor.nanos.max(1.0)).max(1.0)
    }
}

/// The time from one block to the next that is not its codec's, while there is more to send and
/// the socket takes it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overhead {
    between: Mean,
    /// What of that this end was at work, whatever else there was to wait for.
    at_work: Mean,
    handover: Mean,
    /// What encoding took, and the processor time of it: others that have the processor meanwhile make every codec as
    /// much longer.
    alone: Stretch,
    /// .. and others of the session that are encoded beside it.
    beside: Stretch,
    emitted: Option<Emitted>,
    /// What `emitted` was, while a block is on its way that was decided on at the same time.
    at_once: Option<Emitted>,
}

/// Blocks that were put out since a time.
#[derive(Clone, Copy, Debug)]
struct Emitted {
    since: Time,
    blocks: u32,
    /// Since when it was at work on nothing but them, their codecs left out; `None` where something else held the next one back.
    at_work: Option<Time>,
}

impl Overhead {
    /// Another connection begins.
    pub(crate) fn restart(&mut self) {
        self.emitted = None;
        self.at_once = None;
    }

    /// A block was put out that was decided on at `since`, or so much later as its codec took; whether the next one follows at once.
    pub(crate) fn on_emitted(&mut self, since: Time, goes_on: bool) {
        let before = self.at_once.take();
        let at_work = Some(since);
        let (since, blocks) = before.map_or((since, 1), |before| (before.since, before.blocks + 1));
        self.emitted = goes_on.then_some(Emitted {
            since,
            blocks,
            at_work,
        });
    }

    /// The next one waits for something else than this end.
    pub(crate) fn on_wait(&mut self) {
        if let Some(emitted) = &mut self.emitted {
            emitted.at_work = None;
        }
    }

    /// The next one is decided on; whether the socket refused bytes meanwhile.
    pub(crate) fn on_decision(&mut self, now: Time, was_blocked: bool) {
        let Some(emitted) = self.emitted.take().filter(|_| !was_blocked) else {
            return;
        };
        if now > emitted.since {
            let time = now.saturating_since(emitted.since);
            if time < MOST_BETWEEN {
                self.between.record(time / emitted.blocks);
                if let Some(since) = emitted.at_work {
                    let at_work = now.saturating_since(since);
                    self.at_work.record(at_work / emitted.blocks);
                }
            }
        } else {
            self.at_once = Some(emitted);
        }
    }

    /// A block that was decided on at `decided` is back from its codec, which took `encode`; says since when the time is none of
    /// the codec's. Of one that a worker had, what it took besides is what handing it over took.
    pub(crate) fn on_returned(
        &mut self,
        now: Time,
        decided: Time,
        encode: Duration,
        was_handed_over: bool,
    ) -> Time {
        if was_handed_over {
            self.on_handed_over(now.saturating_since(decided), encode);
            now
        } else {
            now.min(decided + encode)
        }
    }

    /// A block that a worker encoded took so long from its decision on, `encode` of it the codec.
    fn on_handed_over(&mut self, taken: Duration, encode: Duration) {
        self.handover.record(taken.saturating_sub(encode));
    }

    /// A block was encoded in `elapsed`, of which its thread had a processor for so long, by itself or beside others.
    pub(crate) fn on_encoded(&mut self, elapsed: Duration, processor: Duration, is_alone: bool) {
        let stretch = if is_alone {
            &mut self.alone
        } else {
            &mut self.beside
        };
        stretch.record(elapsed, processor);
    }

    /// How many times its processor time encoding takes, at least 1.
    pub(crate) fn stretch(&self) -> f64 {
        self.alone.times()
    }

    /// .. where several blocks are encoded at once.
    pub(crate) fn stretch_beside(&self) -> f64 {
        self.beside.times().max(self.alone.times())
    }

    /// What each block takes, ns.
    pub(crate) const fn nanos(&self) -> f64 {
        self.between.nanos
    }

    /// What of that this end is at work, ns.
    pub(crate) const fn at_work_nanos(&self) -> f64 {
        self.at_work.nanos
    }

    /// What one takes besides that is encoded by a worker, ns.
    pub(crate) const fn handover_nanos(&self) -> f64 {
        self.handover.nanos
    }
}

/// Share of one processor, or of a smaller codec budget, that shadows may take over time. Arbitrary.
const SHARE: f64 = 0.1;
/// Idle share of the processors from which on shadows get all of their share, and what of it they get
/// without any. Arbitrary.
const IDLE_ENOUGH: f64 = 0.3;
const LEAST_IDLE: f64 = 0.1;
/// Processor time that they may have saved up: three of the heaviest encodes of a 64 KiB block.
const MOST_SAVED_NANOS: f64 = 100e6;
/// What the first connection to a peer begins with: one of the heaviest, or all of the others.
const FIRST_NANOS: f64 = 20e6;

/// Processor time that there is for shadows. What is left of one connection's is the next one's: that knows what they
/// have shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShadowTime {
    nanos: f64,
    filled_at: Option<Time>,
}

impl Default for ShadowTime {
    fn default() -> Self {
        Self {
            nanos: FIRST_NANOS,
            filled_at: None,
        }
    }
}

impl ShadowTime {
    /// Another connection begins, perhaps by another clock.
    pub(crate) fn restart(&mut self) {
        self.filled_at = None;
    }

    /// Adds what has come since the last time, little on processors that are busy with other things; says what there is, ns.
    pub(crate) fn fill(&mut self, now: Time, load: CpuLoad, budget: Option<BudgetRate>) -> f64 {
        let since = self.filled_at.replace(now).unwrap_or(now);
        let passed = saturating_nanos(now.saturating_since(since)) as f64;
        let granted = budget.map_or(1.0, |rate| rate.as_nanos_per_sec() as f64 * 1e-9);
        let idle = ((1.0 - load.get()) / IDLE_ENOUGH).clamp(LEAST_IDLE, 1.0);
        let more = passed * SHARE * idle * granted.min(1.0);
        self.nanos = (self.nanos + more).min(MOST_SAVED_NANOS);
        self.nanos
    }

    /// Shadows took so much.
    pub(crate) fn spend(&mut self, taken: Duration) {
        self.nanos -= saturating_nanos(taken) as f64;
    }
}

/// Share of a burst's time that shadows may take of a processor. Arbitrary, and not smooth: of 0.02, 0.05,
/// 0.1 and 0.2 some fail the rise of a link in virtual time where others do not (docs/benchmarks.md, fast links).
const BURST_SHARE: f64 = 0.05;
/// .. of which so many times what a block costs may lie between two blocks. Arbitrary.
const MOST_PAUSED: f64 = 8.0;

/// Processor time that there is for shadows of one stream while blocks wait behind each other on a fast link: then others are
/// on the processors too (who writes, the peer if it is on the same machine), and a burst may be over before what is found
/// out pays.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BurstTime {
    nanos: f64,
    looked: Time,
}

impl BurstTime {
    /// A block comes that costs so much, ns: adds a part of the time since the last one, as far as blocks filled it.
    pub(crate) fn grow(&mut self, now: Time, cost: f64) {
        let passed = saturating_nanos(now.saturating_since(self.looked)) as f64;
        self.looked = now;
        self.nanos += BURST_SHARE * passed.min(MOST_PAUSED * cost);
    }

    pub(crate) const fn left_nanos(&self) -> f64 {
        self.nanos
    }

    /// Shadows are to take so much, ns.
    pub(crate) fn spend(&mut self, nanos: f64) {
        self.nanos -= nanos;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_gives_a_burst_no_time_for_shadows() {
        let mut time = BurstTime::default();
        let at = |micros| Time::ZERO + Duration::from_micros(micros);
        for block in 0..100 {
            time.grow(at(1_000_000 + 100 * block), 100e3);
        }
        let after_burst = time.left_nanos();
        // A first block after a pause, and 99 of 100 µs each.
        let most = BURST_SHARE * (MOST_PAUSED + 99.0) * 100e3;
        assert!((after_burst - most).abs() < 1.0, "{after_burst}");
        time.spend(after_burst);
        time.grow(at(60_000_000), 100e3);
        assert!(time.left_nanos() <= BURST_SHARE * MOST_PAUSED * 100e3 + 1.0);
    }

    #[test]
    fn who_has_the_processors_meanwhile_stretches_encoding() {
        let mut overhead = Overhead::default();
        let micros = Duration::from_micros;
        assert!((overhead.stretch() - 1.0).abs() < 1e-9, "nothing is known");
        for _ in 0..50 {
            overhead.on_encoded(micros(300), micros(100), true);
        }
        assert!((overhead.stretch() - 3.0).abs() < 0.01);
        overhead.on_encoded(Duration::from_secs(3600), micros(100), true);
        assert!(overhead.stretch() < 5.0, "{}", overhead.stretch());
        for _ in 0..100 {
            // A clock that stands still, and one that runs backwards.
            overhead.on_encoded(Duration::ZERO, Duration::ZERO, true);
            overhead.on_encoded(Duration::ZERO, micros(100), true);
        }
        assert!(overhead.stretch() >= 1.0 && overhead.stretch() < 5.0);
    }

    #[test]
    fn blocks_that_are_decided_on_at_once_share_the_time() {
        let at = |micros| Time::ZERO + Duration::from_micros(micros);
        let mut overhead = Overhead::default();
        for round in 0..50 {
            // Two blocks while the clock is read once, every 80 µs.
            overhead.on_decision(at(80 * round), false);
            overhead.on_emitted(at(80 * round), true);
            overhead.on_decision(at(80 * round), false);
            overhead.on_emitted(at(80 * round), true);
        }
        assert!((overhead.nanos() - 40e3).abs() < 1.0, "{overhead:?}");
        // What follows a full socket says nothing, nor what waited for something else.
        overhead.on_decision(at(4_000), true);
        overhead.on_emitted(at(4_000), true);
        overhead.on_decision(at(9_000), false);
        assert!((overhead.nanos() - 40e3).abs() < 1.0, "{overhead:?}");
    }

    #[test]
    fn codecs_and_waits_are_no_work_of_this_ends() {
        let at = |micros: u64| Time::ZERO + Duration::from_micros(micros);
        let mut overhead = Overhead::default();
        for round in 1..30 {
            // The second of two that are decided on at once takes its codec 40 of 50 µs.
            overhead.on_emitted(at(1000 * round), true);
            overhead.on_decision(at(1000 * round), false);
            overhead.on_emitted(at(1000 * round + 40), true);
            overhead.on_decision(at(1000 * round + 50), false);
            // The next one waits for an acknowledgement.
            overhead.on_emitted(at(1000 * round + 100), true);
            overhead.on_wait();
            overhead.on_decision(at(1000 * round + 400), false);
        }
        assert!((overhead.at_work_nanos() - 5e3).abs() < 1.0, "{overhead:?}");
        assert!(overhead.nanos() > 20e3, "{overhead:?}");
    }

    #[test]
    fn one_that_waited_for_a_processor_hardly_counts() {
        let mut overhead = Overhead::default();
        let micros = Duration::from_micros;
        overhead.on_handed_over(micros(250), micros(210));
        assert!((overhead.handover_nanos() - 40e3).abs() < 1.0);
        overhead.on_handed_over(micros(900_000), micros(200));
        assert!(overhead.handover_nanos() < 110e3);
    }

    #[test]
    fn what_passes_between_connections_is_no_time_for_shadows() {
        let mut time = ShadowTime::default();
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        let idle = CpuLoad::new(0.0);
        let first = time.fill(at(0), idle, None);
        time.spend(Duration::from_millis(15));
        time.restart();
        let left = time.fill(at(60_000), idle, None);
        assert!((first - left - 15e6).abs() < 1.0);
        let later = time.fill(at(60_010), idle, None);
        assert!((later - left - 1e6).abs() < 1.0);
    }
}
