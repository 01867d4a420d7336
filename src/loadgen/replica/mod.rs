//! Replication: a system is recorded, and its load made again, here or on another machine.
//!
//! ```text
//! Profile --model()--> Model --Replay::closed--> Parameters --Replay::open--> ..
//!  recorded             asked   Controller        found        as they are
//! ```
//!
//! * **A [`Profile`]** is what was read of some metrics over time, and the machine they are of.
//! * **A [`Model`]** is what is asked: the mean of each metric, as in the thesis, or how it went with time ([`Schedule`]).
//! * **A [`Replay`]** in closed loop finds the intensities that make the metrics so, all at once, and keeps them; in open loop it sets those that were found
//!   before, as the thesis does to compare releases of a platform.
//! * **A [`Plant`]** is what is controlled: [`LivePlant`] this machine with its leeches, or whatever has metrics and actuators.
//!
//! ```
//! use std::time::Duration;
//! use tautline::loadgen::Intensity;
//! use tautline::loadgen::replica::{Plant, Replay, Schedule};
//! use tautline::units::Time;
//!
//! /// Page faults, of which half of what there is to take makes 60 000 a second.
//! struct Faults {
//!     names: [String; 1],
//!     intensity: f64,
//! }
//!
//! impl Plant for Faults {
//!     fn metrics(&self) -> &[String] {
//!         &self.names
//!     }
//!     fn actuators(&self) -> &[String] {
//!         &self.names
//!     }
//!     fn set(&mut self, _: usize, intensity: Intensity) {
//!         self.intensity = intensity.share();
//!     }
//!     fn measure(&mut self, _: Time, readings: &mut [f64]) {
//!         readings[0] = 500.0 + 160_000.0 * self.intensity - 80_000.0 * self.intensity.powi(2);
//!     }
//! }
//!
//! let mut plant = Faults { names: ["page-faults-per-second".into()], intensity: 0.0 };
//! let mut replay = Replay::closed(Schedule::constant(vec![40_000.0]), &[Intensity::NONE]);
//! for step in 0..50 {
//!     replay.tick(Time::from_nanos(step * 200_000_000), &mut plant);
//! }
//! let outcome = replay.outcome();
//! assert!(outcome.converged.is_some_and(|time| time < Duration::from_secs(10)));
//! assert!((outcome.metrics[0].reached / 40_000.0 - 1.0).abs() < 0.02);
//! ```
//!
//! Source: M. Jägemar, *Utilizing hardware monitoring to improve the quality of service and performance of industrial systems* (2018), section 6.2.1. Other than
//! there, metrics are controlled together, and what they do to each other is found out first; a profile may go with time.

mod controller;
mod direct;
mod error;
mod estimate;
mod gather;
mod identify;
mod judge;
mod lag;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod live;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod load;
mod machine;
mod matrix;
mod model;
mod plant;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod probe;
mod profile;
mod replay;
mod schedule;
#[cfg(test)]
mod simulated;
mod step;
#[cfg(test)]
mod tests;

pub use self::controller::{Bound, Controller, MAX_METRICS, Shortfall};
pub use self::error::ModelError;
pub use self::judge::{Judge, MetricOutcome, Outcome, WINDOW};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use self::live::{
    CONTEXT_SWITCHES, CPU_LOAD, LiveError, LivePlant, MEMORY_LATENCY, Meter, PAGE_FAULTS, Scope,
    leech_for, this_machine,
};
pub use self::machine::{Caches, Difference, Lacking, Machine, Metric};
pub use self::model::{MAX_MODEL, MODEL_VERSION, Model, Parameters};
pub use self::plant::{Direct, MetricName, Plant};
pub use self::profile::{MAX_SAMPLES, PROFILE_VERSION, Profile, ProfileError};
pub use self::replay::{CLOSED_TOLERANCE, OPEN_TOLERANCE, Replay};
pub use self::schedule::{End, MAX_INTERVALS, MIN_INTERVAL, Schedule};
pub use self::step::{Phase, Step};
