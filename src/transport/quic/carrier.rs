//! One stream of a QUIC connection, as a carrier.

use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Context, Poll, ready};
use std::io::{self, IoSlice};
use std::sync::Arc;

use quinn::{RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::failure;
use crate::control::SocketSample;
use crate::transport::limits::Place;
use crate::transport::shared::Shared;
use crate::transport::socket::MOST_UNSENT;
use crate::transport::tls::Failure;

type Acknowledged = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// ```text
/// Open --shutdown--> Finishing --all acknowledged, or lost--> Finished
/// ```
enum Sending {
    Open,
    Finishing(Acknowledged),
    Finished,
}

/// A stream in both directions, and the connection that it is the only one of. The connection is closed when this is
/// dropped. Why it fails is kept for the session's handles; to the session, a carrier that fails has ended.
pub(in crate::transport) struct QuicCarrier {
    send: SendStream,
    recv: RecvStream,
    connection: quinn::Connection,
    sending: Sending,
    /// Bytes taken beyond those that the path takes.
    most_unsent: AtomicU32,
    /// As quinn was told last.
    send_window: u64,
    shared: Arc<Shared>,
    /// Of one that a listener has let in.
    _place: Option<Place>,
}

impl QuicCarrier {
    pub(super) fn new(
        connection: quinn::Connection,
        (send, recv): (SendStream, RecvStream),
        shared: Arc<Shared>,
        place: Option<Place>,
    ) -> Self {
        Self {
            send,
            recv,
            connection,
            sending: Sending::Open,
            most_unsent: AtomicU32::new(MOST_UNSENT),
            send_window: 0,
            shared,
            _place: place,
        }
    }

    /// What quinn knows of the path. It does not say how much of what it took has been sent.
    pub(in crate::transport) fn sample(&self) -> SocketSample {
        SocketSample {
            rtt: Some(self.connection.rtt()),
            min_rtt: Some(self.connection.min_rtt()),
            ..SocketSample::default()
        }
    }

    pub(in crate::transport) fn limit_unsent(&self, bytes: u32) {
        self.most_unsent.store(bytes, Ordering::Relaxed);
    }

    /// Has quinn take no more than the path takes and a little besides: what it has taken can no longer be decided
    /// otherwise.
    fn limit_window(&mut self) {
        let most_unsent = self.most_unsent.load(Ordering::Relaxed);
        let window = self.connection.stats().path.cwnd + u64::from(most_unsent);
        if window != self.send_window {
            self.send_window = window;
            self.connection.set_send_window(window);
        }
    }

    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if result.is_err() {
            if let Some(Failure::Tls(error)) = self.connection.close_reason().as_ref().map(failure)
            {
                self.shared.tls_failure.get_or_init(|| error);
            }
        }
        result
    }
}

impl AsyncRead for QuicCarrier {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = ready!(AsyncRead::poll_read(Pin::new(&mut self.recv), cx, buf));
        Poll::Ready(self.note(result))
    }
}

impl AsyncWrite for QuicCarrier {
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
        self.limit_window();
        let mut written = 0;
        for slice in slices.iter().filter(|slice| !slice.is_empty()) {
            match AsyncWrite::poll_write(Pin::new(&mut self.send), cx, slice) {
                Poll::Ready(Ok(len)) => {
                    written += len;
                    if len < slice.len() {
                        break;
                    }
                }
                // The next write says so.
                _ if written > 0 => break,
                Poll::Ready(Err(error)) => return Poll::Ready(self.note(Err(error))),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// quinn sends what it has as soon as it may.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the sending direction, and waits until the peer has all of it: what is not acknowledged yet is lost when the
    /// connection is closed.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if matches!(this.sending, Sending::Open) {
            // Refused only if it has ended already.
            let _ = this.send.finish();
            let acknowledged = this.send.stopped();
            this.sending = Sending::Finishing(Box::pin(async move {
                // A lost connection shows when it is read from.
                let _ = acknowledged.await;
            }));
        }
        if let Sending::Finishing(acknowledged) = &mut this.sending {
            ready!(acknowledged.as_mut().poll(cx));
            this.sending = Sending::Finished;
        }
        Poll::Ready(Ok(()))
    }
}
