//! Async message transport that decides, per message, whether and how to compress.

pub mod codecs;
pub mod control;
#[cfg(feature = "corpus")]
pub mod corpus;
#[cfg(feature = "generate")]
pub mod generate;
#[cfg(feature = "relay")]
pub mod relay;
pub mod session;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(feature = "transport")]
pub mod transport;
pub mod units;
pub mod wire;
