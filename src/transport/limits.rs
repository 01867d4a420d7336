//! How many connections a listener lets in, and what it counts.

use core::net::IpAddr;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::shared::lock;
use crate::session::Limits;

/// What a listener has done. A connection that is refused is closed at once, without a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenerStats {
    /// Connections that there are.
    pub connections: usize,
    /// Connections let in.
    pub accepted: u64,
    /// Connections refused because there were too many ([`Limits::connections`]).
    pub refused: u64,
    /// Connections refused because there were too many from their address
    /// ([`Limits::connections_per_address`]).
    pub refused_address: u64,
    /// Connections closed because too many waited for [`Listener::accept`](super::Listener::accept).
    pub overflowed: u64,
}

/// What all connections of a listener share.
#[derive(Debug)]
pub(super) struct Admission {
    limits: Limits,
    state: Mutex<(ListenerStats, HashMap<IpAddr, usize>)>,
}

impl Admission {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            state: Mutex::default(),
        })
    }

    /// Counts a connection, unless there are too many.
    pub(super) fn admit(self: &Arc<Self>, from: Option<IpAddr>) -> Option<Place> {
        // One host has both.
        let from = from.map(|address| address.to_canonical());
        let mut counts = lock(&self.state);
        let (stats, addresses) = &mut *counts;
        if stats.connections >= self.limits.connections {
            stats.refused += 1;
            return None;
        }
        if let Some(address) = from {
            let here = addresses.get(&address).copied().unwrap_or(0);
            if here >= self.limits.connections_per_address {
                stats.refused_address += 1;
                return None;
            }
            addresses.insert(address, here + 1);
        }
        stats.connections += 1;
        stats.accepted += 1;
        drop(counts);
        Some(Place {
            admission: Arc::clone(self),
            from,
        })
    }

    pub(super) fn on_overflow(&self) {
        lock(&self.state).0.overflowed += 1;
    }

    pub(super) fn stats(&self) -> ListenerStats {
        lock(&self.state).0
    }
}

/// A connection that is counted as long as this lives.
#[derive(Debug)]
pub(super) struct Place {
    admission: Arc<Admission>,
    from: Option<IpAddr>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = lock(&self.admission.state);
        let (stats, addresses) = &mut *counts;
        stats.connections -= 1;
        let Some(address) = self.from else { return };
        if let Some(count) = addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                addresses.remove(&address);
            }
        }
    }
}

/// A socket with its place.
#[derive(Debug)]
pub(super) struct Counted<I> {
    io: I,
    _place: Place,
}

impl<I> Counted<I> {
    pub(super) const fn new(io: I, place: Place) -> Self {
        Self { io, _place: place }
    }

    /// The socket.
    #[cfg_attr(
        not(any(target_os = "linux", target_os = "android")),
        expect(dead_code, reason = "other systems are not asked about their sockets")
    )]
    pub(super) const fn socket(&self) -> &I {
        &self.io
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Counted<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Counted<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn places_are_counted_while_they_live() {
        let limits = Limits::default().connections(3).connections_per_address(2);
        let admission = Admission::new(limits);
        let one = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
        let mapped = IpAddr::V6(Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped());
        let other = IpAddr::V6(Ipv6Addr::LOCALHOST);
        let first = admission.admit(Some(one));
        let second = admission.admit(Some(mapped));
        assert!(first.is_some() && second.is_some());
        assert!(admission.admit(Some(one)).is_none(), "two are from there");
        let third = admission.admit(None);
        assert!(third.is_some());
        assert!(admission.admit(Some(other)).is_none(), "three are there");
        let stats = admission.stats();
        assert_eq!((stats.connections, stats.accepted), (3, 3));
        assert_eq!((stats.refused, stats.refused_address), (1, 1));
        drop(first);
        assert!(admission.admit(Some(one)).is_some());
        drop((second, third));
        assert_eq!(admission.stats().connections, 0);
        assert!(lock(&admission.state).1.is_empty(), "no address is kept");
    }
}
