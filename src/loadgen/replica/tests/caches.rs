//! Simulated caches as the plant: the miss ratios of all that goes on there, of which a leech makes a part.

use core::time::Duration;

use super::super::plant::Plant;
use super::super::replay::Replay;
use super::super::schedule::Schedule;
use crate::loadgen::cache::{CacheGeometry, CacheSim, Replacement};
use crate::loadgen::{Intensity, MissRatios, Pattern, Reach};
use crate::units::Time;

/// Accesses in a second: few, for the sake of the test's time, and enough that one more or less does not show.
const RATE: f64 = 300e3;
/// Of four accesses one is the application's.
const OF_APPLICATION: u64 = 4;
/// The leech's ratios at full intensity.
const FULL: f64 = 0.5;

/// An application that walks at random through 12 KiB, and now and then beyond, and a leech with a pattern, on one processor's caches.
struct Machine {
    metrics: [String; 2],
    actuators: [String; 2],
    caches: CacheSim,
    pattern: Pattern,
    wanted: MissRatios,
    random: fastrand::Rng,
    at: Time,
    count: u64,
}

impl Machine {
    fn new(replacement: Replacement) -> Self {
        let cache = |kib: u64, ways| CacheGeometry::new(kib << 10, ways, 64).unwrap();
        let caches = [cache(32, 8), cache(256, 16)];
        let mut machine = Self {
            metrics: ["l1d-miss-ratio", "llc-miss-ratio"].map(str::to_owned),
            actuators: ["l1d", "llc"].map(str::to_owned),
            caches: CacheSim::new(&caches, replacement),
            pattern: Pattern::new(&caches, Reach::Second, MissRatios::default()).unwrap(),
            wanted: MissRatios::default(),
            random: fastrand::Rng::with_seed(7),
            at: Time::ZERO,
            count: 0,
        };
        // It has been running for some time, and caches are full.
        machine
            .pattern
            .set_ratios(MissRatios::new(0.2, 0.2))
            .unwrap();
        machine.run(1_000_000);
        machine.pattern.set_ratios(MissRatios::default()).unwrap();
        machine
    }

    fn run(&mut self, accesses: u64) {
        for _ in 0..accesses {
            self.count += 1;
            let address = if self.count % OF_APPLICATION == 0 {
                self.of_application()
            } else {
                self.pattern.next().unwrap()
            };
            self.caches.access(address);
        }
    }

    fn of_application(&mut self) -> u64 {
        /// Nowhere near the leech's memory.
        const BASE: u64 = 1 << 40;
        let is_far = self.random.u8(..) < 4;
        let reach = if is_far { 48 << 10 } else { 12 << 10 };
        BASE + self.random.u64(..reach)
    }
}

impl Plant for Machine {
    fn metrics(&self) -> &[String] {
        &self.metrics
    }

    fn actuators(&self) -> &[String] {
        &self.actuators
    }

    fn set(&mut self, actuator: usize, intensity: Intensity) {
        let share = FULL * intensity.share();
        match actuator {
            0 => self.wanted.l1d = share,
            _ => self.wanted.llc = share,
        }
    }

    fn measure(&mut self, now: Time, readings: &mut [f64]) {
        let seconds = now.saturating_since(self.at).as_secs_f64();
        self.at = now;
        // What was set last holds from now on: these accesses come before.
        self.caches.forget_counts();
        self.run((seconds * RATE) as u64);
        readings[0] = self.caches.counts(0).miss_ratio();
        readings[1] = self.caches.counts(1).miss_ratio();
    }
}

/// Sets the ratios that were wished, as a leech's thread does between two batches.
fn follow(machine: &mut Machine) {
    if machine.pattern.ratios() != machine.wanted {
        machine.pattern.set_ratios(machine.wanted).unwrap();
    }
}

#[test]
fn miss_ratios_asked_of_two_levels_are_reached_in_simulated_caches() {
    for replacement in [Replacement::Lru, Replacement::PseudoLru] {
        for l1d in [0.033, 0.1, 0.25] {
            for llc in [0.05, 0.2] {
                if replacement == Replacement::PseudoLru && l1d < 0.1 {
                    // With so few misses, a reading has less than a hundred accesses to memory, and what a tree keeps of them changes by 5 % from second to second.
                    continue;
                }
                let mut machine = Machine::new(replacement);
                let targets = Schedule::constant(vec![l1d, llc]);
                // Without misses of the first there is no ratio of the last: the leech begins with some.
                let mut replay = Replay::closed(targets, &[Intensity::new(0.1); 2]);
                for step in 0..200 {
                    let now = Time::ZERO + Duration::from_millis(200) * step;
                    replay.tick(now, &mut machine);
                    follow(&mut machine);
                }
                let found = replay.outcome();
                let what = format!("{replacement:?}, {l1d} and {llc}");
                println!("{what}: {found:?}");
                assert!(found.converged.is_some(), "{what}: {found:?}");
                for metric in &found.metrics {
                    let ratio = metric.ratio().unwrap();
                    assert!((ratio - 1.0).abs() <= 0.02, "{what}: {metric:?}");
                    assert!(metric.ripple <= 0.02, "{what}: {metric:?}");
                }
            }
        }
    }
}
