//! Why a leech does not start.

use std::io;

use thiserror::Error;

use crate::loadgen::pattern::PatternError;
use crate::loadgen::resource::Resource;

/// Why a leech does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LeechError {
    /// There is no such processor, it is offline, or this process is kept from it.
    #[error("processor {given} cannot be had; this process may run on {}", list(.allowed))]
    NoProcessor {
        /// Its number.
        given: u32,
        /// Those that the process may run on.
        allowed: Vec<u32>,
    },
    /// The system refuses to keep a thread on a processor.
    #[error("cannot keep a thread on processor {processor}")]
    Pin {
        /// Its number.
        processor: u32,
        /// The system's reason.
        source: io::Error,
    },
    /// A leech of load counts what others take on its processor, and was given none.
    #[error("a leech of load needs a processor, whose load it is")]
    NoPin,
    /// The system does not say how long a processor was idle.
    #[error("how long processor {processor} was idle is not known")]
    Idle {
        /// Its number.
        processor: u32,
        /// The system's reason.
        source: io::Error,
    },
    /// Only leeches of caches for data and memory miss on purpose.
    #[error("a leech of {resource} has no miss ratios; those of l1, l2, llc and memory have")]
    NoMisses {
        /// What it takes.
        resource: Resource,
    },
    /// There is no pattern for the caches.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The system gives no memory.
    #[error("no memory of {needed} bytes is to be had")]
    Memory {
        /// Bytes.
        needed: u64,
    },
    /// The system gives no thread.
    #[error("cannot start a thread")]
    Thread {
        /// The system's reason.
        source: io::Error,
    },
    /// A leech of the network needs somebody to send to, and is started by `Leech::network`.
    #[error("a leech of the network needs an address")]
    NoAddress,
    /// The node of a leech of the network does not start.
    #[cfg(feature = "transport")]
    #[error(transparent)]
    Node(#[from] crate::transport::NodeError),
    /// Nobody accepts.
    #[cfg(feature = "transport")]
    #[error(transparent)]
    Connect(#[from] crate::transport::ConnectError),
    /// The peer takes no stream.
    #[cfg(feature = "transport")]
    #[error(transparent)]
    Open(#[from] crate::transport::OpenStreamError),
    /// The log area that it is to record in has other events than those of
    /// [`events::config`](crate::loadgen::events::config).
    #[cfg(feature = "eventlog")]
    #[error("the event log has other events than those of leeches")]
    EventLog,
    /// Its thread panicked before it was at work: a fault of this crate.
    #[error("the thread of a leech of {resource} has died")]
    Died {
        /// What it takes.
        resource: Resource,
    },
}

fn list(numbers: &[u32]) -> String {
    let numbers: Vec<_> = numbers.iter().map(u32::to_string).collect();
    numbers.join(", ")
}
