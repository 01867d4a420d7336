//! What the bench and its two nodes say to each other: one JSON object a line over stdin and stdout.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::plan::{Sending, Take};

/// To a node. Each is answered by one [`Reply`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Command {
    /// Read these corpora; [`Reply::Loaded`].
    Load {
        files: Vec<PathBuf>,
        format: Option<String>,
        take: Option<Take>,
    },
    /// Begin with nodes that know nothing yet; [`Reply::Ready`].
    Reset { guard: bool },
    /// Have a node for this policy whose guard has found its budget; [`Reply::Ready`].
    Prepare { policy: String },
    /// Send or receive a corpus; [`Reply::Sent`] or [`Reply::Received`].
    Pass(Pass),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pass {
    /// Number among those loaded.
    pub(super) corpus: usize,
    pub(super) sending: Sending,
    pub(super) policy: String,
    /// Where the sender connects to.
    pub(super) address: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    Loaded(Vec<Loaded>),
    /// With the address that the receiver listens on.
    Ready(Option<String>),
    Sent(Sent),
    Received(Received),
    Failed(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Loaded {
    pub(super) name: String,
    pub(super) messages: usize,
    pub(super) plain_bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Sent {
    /// When each message was sent or due, monotonic ns.
    pub(super) times: Vec<u64>,
    pub(super) wire_bytes: u64,
    pub(super) processor_nanos: u64,
    /// Plain bytes that each arm carried.
    pub(super) arms: Vec<(String, u64)>,
    /// Blocks, and how many of them were left as they are because the codec budget was spent.
    pub(super) blocks: u64,
    pub(super) out_of_budget: u64,
    pub(super) switches: u64,
    pub(super) regret_nanos: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Received {
    /// When each message was received, monotonic ns.
    pub(super) times: Vec<u64>,
    pub(super) processor_nanos: u64,
}
