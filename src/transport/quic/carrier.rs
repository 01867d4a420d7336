//! One stream of a QUIC connection, as a carrier.

use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::task::{Context, Poll, ready};
use std::io::{self, IoSlice};
use std::sync::Arc;

use quinn::{RecvStream, SendStream, VarInt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::failure;
use crate::control::SocketSample;
use crate::session::UNSENT;
use crate::transport::limits::Place;
use crate::transport::shared::Shared;
use crate::transport::tls::Failure;
use crate::wire::LaneNumber;

/// What a connection is closed with that a session has given up.
const GIVEN_UP: VarInt = VarInt::from_u32(1);
/// So many lanes at most have room of their own in quinn's send window. Arbitrary: a few are busy at once.
const MOST_ROOMS: usize = 8;

/// quinn's send window as it was told last, shared by the lanes of a connection.
#[derive(Debug, Default)]
pub(super) struct SendWindow(AtomicU64);

/// Gives a connection up: every session on it has lost it.
pub(super) fn sever(connection: &quinn::Connection) {
    connection.close(GIVEN_UP, b"");
}

type Acknowledged = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// ```text
/// Open --shutdown--> Finishing --all acknowledged, or lost--> Finished
/// ```
enum Sending {
    Open,
    Finishing(Acknowledged),
    Finished,
}

/// A stream in both directions, and its connection, which is closed when the last of its lanes is dropped. Why it fails is kept for the session's handles; to the session, a carrier that fails has ended.
pub(in crate::transport) struct QuicCarrier {
    send: SendStream,
    recv: RecvStream,
    connection: quinn::Connection,
    sending: Sending,
    /// Bytes taken beyond those that the path takes.
    most_unsent: AtomicU32,
    window: Arc<SendWindow>,
    /// What the stream begins with that is not written yet.
    preamble: Vec<u8>,
    /// The first lane's.
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
            most_unsent: AtomicU32::new(UNSENT),
            window: Arc::default(),
            preamble: Vec::new(),
            shared,
            _place: place,
        }
    }

    /// Another lane of a connection, which says its number if this side opens the stream.
    pub(super) fn further(
        (connection, window): (&quinn::Connection, &Arc<SendWindow>),
        streams: (SendStream, RecvStream),
        shared: Arc<Shared>,
        number: Option<LaneNumber>,
    ) -> Self {
        let mut carrier = Self::new(connection.clone(), streams, shared, None);
        carrier.window = Arc::clone(window);
        if let Some(number) = number {
            number.put(&mut carrier.preamble);
        }
        carrier
    }

    /// What other lanes share with it.
    pub(super) const fn link(&self) -> (&quinn::Connection, &Arc<SendWindow>) {
        (&self.connection, &self.window)
    }

    pub(super) fn sever(&self) {
        sever(&self.connection);
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
    /// otherwise. What is besides is for each lane, so that one that is held up leaves room for others.
    fn limit_window(&mut self) {
        let most_unsent = u64::from(self.most_unsent.load(Ordering::Relaxed));
        // Lanes have it, and what takes them in.
        let lanes = Arc::strong_count(&self.window).clamp(1, MOST_ROOMS);
        let window = self.connection.stats().path.cwnd + most_unsent * lanes as u64;
        if window != self.window.0.swap(window, Ordering::Relaxed) {
            self.connection.set_send_window(window);
        }
    }

    /// Writes what the stream begins with.
    fn poll_preamble(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.preamble.is_empty() {
            let written = AsyncWrite::poll_write(Pin::new(&mut self.send), cx, &self.preamble);
            let len = ready!(written)?;
            self.preamble.drain(..len);
        }
        Poll::Ready(Ok(()))
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
        if let Err(error) = ready!(self.poll_preamble(cx)) {
            return Poll::Ready(self.note(Err(error)));
        }
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
