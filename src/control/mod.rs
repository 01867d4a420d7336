//! What is known of link, processors and codecs, and what follows from it.
//!
//! Nothing here reads a clock or a file: times, loads and costs are given.

mod budget;
mod estimate;
mod link;
mod policy;

pub use self::budget::CodecBudget;
pub use self::estimate::{
    ArmEstimate, Arms, CostEstimator, CostLine, DecodeEstimates, RatioEstimator, StreamEstimates,
};
pub use self::link::{LinkEstimator, RttEstimator};
pub use self::policy::{
    Choice, MajorityConfig, ParsePolicyError, Policy, PolicyConfig, Reason, Round, Situation,
    transmission_nanos,
};
