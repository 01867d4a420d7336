//! A session's place among those of its connection, where that may have several: over QUIC (docs/quic.md, "Lanes").

use core::any::Any;
use core::fmt::Debug;
use core::future::Future;
use core::pin::Pin;
use core::time::Duration;
use std::sync::Arc;

use super::shared::Shared;
use crate::session::{OpenError, Session, SessionError, SessionStats, StreamConfig};
use crate::units::Time;
use crate::wire::{GroupId, StreamId, WireError};

/// The lane of a group, once it stands.
pub(super) type Found<'a> = Pin<Box<dyn Future<Output = Option<Arc<Shared>>> + Send + 'a>>;

/// The further lanes of a connection.
#[derive(Debug, Default)]
pub(super) struct Further {
    /// Those that there are.
    pub(super) lanes: Vec<Arc<Shared>>,
    /// Those that have ended.
    pub(super) ended: Vec<Arc<Shared>>,
    /// What those have done.
    pub(super) done: SessionStats,
}

/// What the driver of a lane, and handles of the connection, tell and ask the others.
pub(super) trait Lane: Debug + Send + Sync {
    /// Whether this is not the first.
    fn is_further(&self) -> bool;

    /// The first lane, if that still lives.
    fn first(&self) -> Option<Arc<Shared>>;

    // ---- of the first lane alone

    /// The lane for streams that this side opens in a group; `None` for the first.
    fn of_group(&self, group: GroupId) -> Found<'_>;

    fn further(&self) -> Further;

    /// When the connection is to be closed because it is not used, as known `now`.
    fn idle_due(&self, now: Time) -> Option<Time>;

    // ---- of every lane

    /// The session is established, or goes on, over `io`.
    fn on_connected(&self, io: &dyn Any);

    /// `io` is lost to the session, which waits for another. What its connection was lost by, if that is to be counted here.
    fn on_disconnected(
        &self,
        cause: SessionError,
        io: &dyn Any,
        is_done: bool,
    ) -> Option<SessionError>;

    /// The session begins to close: so does the connection.
    fn on_closing(&self);

    /// Whether the session may close now. If not, it is told to again: the first lane closes last.
    fn may_close(&self) -> bool;

    /// The session is over; whether its handles may be told now.
    fn on_closed(&self, result: &Result<(), SessionError>, stats: &SessionStats) -> bool;

    /// The driver has ended; whether its handles are told of the session's end by somebody else.
    fn on_driver_ended(&self) -> bool;

    /// Opens a stream with a number that no other lane has.
    fn open(
        &self,
        session: &mut Session,
        name: &str,
        config: StreamConfig,
    ) -> Result<StreamId, OpenError>;

    /// The peer has opened a stream: whether it may, as often.
    fn on_opened(&self, now: Time) -> Result<(), WireError>;

    /// A block was decoded.
    fn on_decoded(&self, now: Time, elapsed: Duration);

    /// Until when nothing is to be read.
    fn paused_until(&self) -> Option<Time>;

    /// Whether the session must say when it was used.
    fn counts_use(&self) -> bool;

    /// The session was last used then; `None` while it is in use.
    fn on_used(&self, at: Option<Time>);
}
