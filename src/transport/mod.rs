//! Sessions over sockets, on tokio.
//!
//! A [`Node`] is what all connections of a process share: settings, codec workers, and the guard
//! that limits codec time by the processor load. It connects and listens; a [`Connection`] opens and
//! accepts [`Stream`]s.

mod address;
mod aside;
mod awake;
mod batches;
mod bell;
mod buffers;
mod clock;
mod connection;
mod dictionaries;
mod driver;
mod error;
#[cfg(feature = "eventlog")]
pub mod events;
mod faults;
mod guard;
mod helm;
mod history;
mod identity;
mod inbound;
mod lane;
mod limits;
mod listener;
pub mod load;
mod memory;
mod node;
mod outbox;
mod parts;
mod path;
#[cfg(feature = "quic")]
mod quic;
mod resume;
mod shared;
mod socket;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "eventlog"))]
mod unrecorded;
mod wait;
mod workers;

#[cfg(feature = "eventlog")]
use self::events::{Moment, NodeEvents, SessionEvents};
#[cfg(not(feature = "eventlog"))]
use self::unrecorded::{Moment, NodeEvents, SessionEvents};

pub use self::address::{Address, ParseAddressError};
pub use self::batches::{MessageSink, Messages};
pub use self::connection::{Connection, Received, Sensitive, Stream};
pub use self::error::{ConnectError, OpenStreamError, RecvError, RequestError, SendReaderError};
pub use self::faults::FaultStats;
pub use self::history::{HistoryMemory, HistoryMemoryStats};
pub use self::identity::PeerIdentity;
pub use self::limits::ListenerStats;
pub use self::listener::Listener;
pub use self::node::{Node, NodeConfig, NodeError};
pub use self::parts::MessageReader;
pub use self::resume::ResumeConfig;
#[cfg(feature = "tls")]
pub use self::tls::{
    ClientAuth, ClientTls, ServerTls, TlsConfigError, TlsError, TlsIdentity, TlsRoots,
};
/// The rustls whose errors [`TlsError`] and [`TlsConfigError`] hold.
#[cfg(feature = "tls")]
pub use tokio_rustls::rustls;
