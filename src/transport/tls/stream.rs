//! TLS over a TCP socket, as a carrier.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io::{self, IoSlice};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use super::{SecuredStream, TlsError};
use crate::transport::limits::Place;
use crate::transport::shared::Shared;

/// Plain bytes taken by one write: those of the longest record (RFC 8446, 5.1). What is taken can no longer be decided
/// otherwise, so that there is never more than one record besides what the system holds.
const MAX_WRITE: usize = 16 << 10;
/// Pieces of output given to one write; as the driver gives.
const MAX_SLICES: usize = 16;

/// The encrypted stream after its handshake. Why it fails is kept for the connection's handles; to the session, a
/// carrier that fails has ended, as one does that ends without the peer's word (`close_notify`): only a go-away ends a session
/// cleanly.
#[derive(Debug)]
pub(in crate::transport) struct TlsCarrier {
    stream: TlsStream<TcpStream>,
    shared: Arc<Shared>,
    /// Of one that a listener has let in.
    _place: Option<Place>,
}

impl TlsCarrier {
    /// The socket below.
    #[cfg_attr(
        not(any(target_os = "linux", target_os = "android")),
        expect(dead_code, reason = "other systems are not asked about their sockets")
    )]
    pub(in crate::transport) fn socket(&self) -> &TcpStream {
        self.stream.get_ref().0
    }

    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            if let Some(failure) = TlsError::behind(error) {
                self.shared.tls_failure.get_or_init(|| failure);
            }
        }
        result
    }
}

impl SecuredStream for TlsStream<TcpStream> {
    type Carrier = TlsCarrier;

    fn carrier(self, shared: &Arc<Shared>, place: Option<Place>) -> TlsCarrier {
        TlsCarrier {
            stream: self,
            shared: Arc::clone(shared),
            _place: place,
        }
    }
}

impl AsyncRead for TlsCarrier {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        Poll::Ready(self.note(result))
    }
}

impl AsyncWrite for TlsCarrier {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // What was taken before goes first: the socket is full, and more would only be decided too early.
        ready!(self.as_mut().poll_flush(cx))?;
        let mut pieces = [IoSlice::new(&[]); MAX_SLICES];
        let mut room = MAX_WRITE;
        let mut count = 0;
        for (piece, slice) in pieces.iter_mut().zip(slices) {
            let len = slice.len().min(room);
            *piece = IoSlice::new(&slice[..len]);
            room -= len;
            count += 1;
            if room == 0 {
                break;
            }
        }
        let result = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, &pieces[..count]));
        Poll::Ready(self.note(result))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = ready!(Pin::new(&mut self.stream).poll_flush(cx));
        Poll::Ready(self.note(result))
    }

    /// Says `close_notify`, and ends the sending direction of the socket.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = ready!(Pin::new(&mut self.stream).poll_shutdown(cx));
        Poll::Ready(self.note(result))
    }
}
