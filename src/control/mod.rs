//! What is known of link, processors and codecs, and what follows from it.
//!
//! Nothing here reads a clock, a file or a socket: times, texts and loads are arguments, so the same
//! code decides in production, in the simulator and under a fuzzer.
//!
//! ```text
//! blocks, acks, probes --> estimates, link, round trip --> Policy --> which arm carries the block
//! /proc, cgroup --text--> load::parse_* --Reading--> LoadMeter --CpuLoad--> CpuGuard --BudgetRate--> CodecBudget
//! ```

mod arms;
mod budget;
mod doubt;
mod estimate;
mod failures;
mod floor;
mod knowledge;
mod link;
pub mod load;
mod pid;
mod policy;
mod shares;
mod socket;
mod spending;
mod texture;

pub(crate) use self::arms::Arms;
pub(crate) use self::budget::affordable_nanos;
pub use self::budget::{BudgetRate, CodecBudget};
pub(crate) use self::estimate::StreamEstimates;
pub use self::knowledge::PeerKnowledge;
pub(crate) use self::knowledge::{BudgetPrice, PeerBudget, Prices, Shadowed};
pub(crate) use self::link::Caution;
pub use self::link::{Fed, LinkEstimator, LinkRate, RttEstimator};
pub use self::load::{CpuSet, LoadError, LoadMeter, LoadSource, Processors, Reading};
pub use self::pid::{CpuGuard, CpuGuardConfig, CpuGuardConfigError};
pub use self::policy::cost::{ArmReport, CostConfig, Objective, Verdict};
pub(crate) use self::policy::cost::{Backlog, BlockClass, Sent};
pub(crate) use self::policy::{Affordable, Choice, Policy, Prior, SentBlock, Situation};
pub use self::policy::{MajorityConfig, ParsePolicyError, PolicyConfig, Reason, Round};
pub use self::shares::{HistoryShareStats, HistoryShares, HistoryTerms, HistoryUse, HolderId};
pub use self::socket::SocketSample;
pub(crate) use self::spending::{BurstTime, CUT_NANOS, LEAST_CUT, MOST_CUT};
pub use self::spending::{MAX_INLINE, PARALLEL_FROM};
pub use self::texture::Texture;
pub(crate) use self::texture::TextureLook;
