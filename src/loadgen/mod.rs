//! Load: leeches that take a resource from others, the replication of a recorded system by them, and workloads of messages.
//!
//! ```
//! # #[cfg(any(target_os = "linux", target_os = "android"))]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use tautline::loadgen::{Intensity, Leech, LeechConfig, Resource};
//!
//! let config = LeechConfig::new(Resource::Cpu)
//!     .intensity(Intensity::new(0.2))
//!     .length(Duration::from_secs(1));
//! let leech = Leech::start(config)?;
//! std::thread::sleep(Duration::from_millis(50));
//! leech.set_intensity(Intensity::new(0.1));
//! let stats = leech.stop();
//! println!("{:.1} % of a processor, {} operations", 100.0 * stats.share(), stats.operations);
//! # Ok(())
//! # }
//! # #[cfg(not(any(target_os = "linux", target_os = "android")))]
//! # fn main() {}
//! ```
//!
//! * **A [`Leech`]** is a thread of this process that takes one [`Resource`] for a share of one processor's time (its [`Intensity`]), pinned or not, for a time that is bounded.
//!   It cannot outlive its process.
//! * **[`Topology`]** says which processors and caches there are, and what of it the system says and what is assumed.
//! * **A [`Pattern`]** is a walk through memory that misses caches as often as was asked ([`MissRatios`]); [`cache`] simulates those caches.
//! * **[`replica`]** records the load of a system and makes it again: profile, model, and a replay that finds how much each leech is to take.
//! * **A [`workload`]** sends messages over the transport at times of their own and says how long their answers take.
//! * **`events`** (feature `eventlog`) has what leeches and drives record in an event log.
//! * **A [`Comparison`]** says from runs by turns whether one thing takes longer than another, and when that is sure enough.
//!
//! Source: M. Jägemar, *Utilizing hardware monitoring to improve the quality of service and performance of industrial systems* (2018), chapter 6.

pub mod cache;
mod compare;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod duty;
#[cfg(feature = "eventlog")]
pub mod events;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod idle;
mod intensity;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod leech;
mod pattern;
pub mod replica;
mod resource;
mod topology;
#[cfg(all(
    not(feature = "eventlog"),
    any(target_os = "linux", target_os = "android")
))]
mod unrecorded;
pub mod workload;

#[cfg(all(feature = "eventlog", any(target_os = "linux", target_os = "android")))]
use self::events as recording;
#[cfg(all(
    not(feature = "eventlog"),
    any(target_os = "linux", target_os = "android")
))]
use self::unrecorded as recording;

pub use self::compare::{CompareConfig, Comparison, Effect, Finding, Middle};
pub use self::intensity::Intensity;
#[cfg(all(feature = "transport", any(target_os = "linux", target_os = "android")))]
pub use self::leech::NetworkConfig;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use self::leech::{Leech, LeechConfig, LeechError, LeechStats, MAX_LENGTH};
pub use self::pattern::{LINE, MAX_PATTERN, MissRatios, Pattern, PatternError, Reach};
pub use self::resource::{DataLevel, Resource, UnknownResource};
pub use self::topology::{
    CacheInfo, CacheKind, DataCaches, Doubt, Processor, Source, Topology, Why,
};
