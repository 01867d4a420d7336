//! The transport over real sockets. No test depends on how fast the machine is: whatever waits has
//! a bound of a minute, and counts are compared instead of times.

mod batches;
#[cfg(all(feature = "relay", feature = "generate", feature = "zstd"))]
mod change;
#[cfg(all(feature = "dictionary-cache", feature = "generate", feature = "zstd"))]
mod dictionaries;
#[cfg(feature = "eventlog")]
mod events;
mod executor;
mod faults;
mod hostile;
mod lifecycle;
#[cfg(feature = "zstd")]
mod memory;
mod messages;
mod parts;
mod path;
#[cfg(all(feature = "relay", feature = "lz4", feature = "zstd"))]
mod resume;
mod support;
#[cfg(feature = "tls")]
mod tls;
mod trace;
