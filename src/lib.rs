//! Async message transport that decides, per message, whether and how to compress.

pub mod codecs;
pub mod control;
pub mod units;
pub mod wire;
