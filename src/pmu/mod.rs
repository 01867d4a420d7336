//! Monitor: what hardware and kernel count of processes and processors, in sets of events that take turns, at a cost that does not show.
//!
//! ```
//! # #[cfg(any(target_os = "linux", target_os = "android"))]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::path::Path;
//! use std::time::Duration;
//! use tautline::pmu::{EventSets, Monitor, MonitorConfig, Names, Pace, Perf};
//!
//! let sets = EventSets::shipped().only(&["cpi".into(), "system".into()])?;
//! let config = MonitorConfig::new(sets)
//!     .names(Names::of_system(Path::new("/")))
//!     .process(std::process::id());
//! let mut pace = Pace::new(Duration::from_millis(10));
//! let mut monitor = Monitor::new(config, Perf::new(), pace.now())?;
//! for missing in monitor.missing() {
//!     println!("not counted: {missing}");
//! }
//! for _ in 0..4 {
//!     let now = pace.wait();
//!     monitor.tick(now);
//! }
//! println!("{:.3} % of a processor", 100.0 * pace.probe_effect().share());
//! # Ok(())
//! # }
//! # #[cfg(not(any(target_os = "linux", target_os = "android")))]
//! # fn main() {}
//! ```
//!
//! # The way of a count
//!
//! ```text
//! EventSets (files) --> Monitor --open, start, stop, read, take--> Counters: Perf (the kernel), ReplayCounters (a recording)
//!  Names (models)          |  tick(now)
//!                          +--> Store (bounded) --> Output: CSV, JSON lines, npy
//!                          +--> Totals ----------> CpiStack, Prometheus
//!                          +--> Subscription (closed loop)
//! ```
//!
//! * **An [`EventSet`]** is one question: its events, and metrics that are computed from them by a [`Formula`]. Sets take turns, a period each.
//! * **A group** is counted together or refused with the reason; a set that says `group = false` is multiplexed by the kernel when it has more events than the
//!   hardware counts, and what is counted is scaled ([`Count::value`]) and shown ([`Count::share`]).
//! * **What the machine lacks** is named with the [`Reason`] ([`Monitor::missing`]), and the rest is counted. Most virtual machines have no hardware counters.
//! * **[`Gauge`]s** are software metrics in the same samples: processor load, interrupts, whatever the application says.
//! * **A [`Store`]** has so many slots, taken once; an [`Output`] writes what is new in it, whole samples, whatever the disk does.
//! * **What it costs** is what its thread took ([`Pace::probe_effect`]). Of other processors' time, reading their counters takes a microsecond or so each
//!   time, which is not in it. Least where the kernel takes samples of processors by a timer of its own ([`MonitorConfig::period`]); what its interrupts take
//!   is measured ([`sample_cost()`]).
//!
//! Source: M. Jägemar, *Utilizing hardware monitoring to improve the quality of service and performance of industrial systems* (2018), chapter 5 and
//! section 8.4. Other than there, sets are files, groups are all or nothing, and what was not counted for lack of counters is said.

mod calibrate;
mod config;
mod counters;
mod cpi;
mod error;
mod event;
#[cfg(test)]
mod fake;
mod file;
mod formula;
mod gauge;
mod group;
mod model;
mod monitor;
mod pace;
mod prometheus;
mod reason;
mod replay;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod ring;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod sample_cost;
mod sets;
mod store;
mod subscribe;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod sys;
#[cfg(test)]
mod tests;
mod totals;
mod write;

pub use self::calibrate::{CacheSizes, Calibration, calibrate};
#[cfg(all(feature = "loadgen", any(target_os = "linux", target_os = "android")))]
pub(crate) use self::calibrate::{FIRST_RANDOM, branches};
pub use self::config::{MAX_PLACES, MAX_SLOTS, MonitorConfig};
pub use self::counters::{CounterId, Counters, Facts, GroupReading, MAX_EVENTS, Task};
pub use self::cpi::{CpiPart, CpiStack};
pub use self::error::{FileError, MonitorError};
pub use self::event::{
    EventCode, EventSource, MAX_NAME, Privilege, generic, generic_names, is_name,
};
pub use self::formula::{Formula, FormulaError, MAX_FORMULA};
pub use self::gauge::{Gauge, GaugeHandle};
pub use self::group::Count;
pub use self::model::{CpuIdentity, ModelFile, Names};
pub use self::monitor::{Monitor, Notice, TAKE_AFTER};
pub use self::pace::{MIN_PERIOD, Pace, ProbeEffect};
pub use self::prometheus::{Exposition, PrometheusServer};
pub use self::reason::{Missing, Place, Reason, RecordedMissing};
pub use self::replay::{Recording, ReplayCounters, ReplayError};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use self::sample_cost::sample_cost;
pub use self::sets::{
    EventSet, EventSets, MAX_GAUGES, MAX_METRICS, MAX_SETS, Metric, SECONDS, StackLevel,
};
pub use self::store::{Cursor, Layout, Sample, SampleHead, Store};
pub use self::subscribe::{OwnedSample, Subscription};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use self::sys::Perf;
pub use self::totals::Totals;
pub use self::write::{
    Encoder, Epilogue, Flushed, Output, OutputError, Preamble, RecordFormat, UnknownFormat,
};
