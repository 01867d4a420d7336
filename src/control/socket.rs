//! The socket as its system sees it.

use core::time::Duration;

use crate::units::BytesPerSec;

/// What the system says of a connection's socket at one time. Every part may be missing: Unix
/// sockets know little, other systems and other carriers nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SocketSample {
    /// Bytes written to the socket that still wait on this machine. TCP: bytes never sent so far.
    /// Unix: what the peer has not read, as the memory that holds it: more than the bytes. Measured
    /// on Linux 6.18: a fifth more for writes of 4 KiB, 768 for a write of one byte.
    pub unsent: Option<u64>,
    /// Bytes that the peer's system has acknowledged since the connection began. The opening of the
    /// connection may count as one byte.
    pub acknowledged: Option<u64>,
    /// The latest rate at which bytes were delivered.
    pub delivery_rate: Option<BytesPerSec>,
    /// Whether [`Self::delivery_rate`] was held down by too little being written, rather than by
    /// the path. Says nothing where there is no rate.
    pub app_limited: bool,
    /// The shortest round trip of late (Linux: of five minutes, unless it is told otherwise).
    pub min_rtt: Option<Duration>,
    /// The smoothed round trip.
    pub rtt: Option<Duration>,
    /// Time that the receiver's window held up sending, since the connection began.
    pub rwnd_limited: Option<Duration>,
    /// Time with anything to send or unacknowledged, since the connection began;
    /// [`Self::rwnd_limited`] is part of it.
    pub busy: Option<Duration>,
}
