//! The TLS handshake, at either end.

use core::future::Future;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::task::Wake;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::Secured;
use super::{ALPN, TlsError};
use crate::transport::PeerIdentity;

/// How long a peer whose handshake failed may take to read why; as the driver's.
const LINGER: Duration = Duration::from_millis(500);

/// Why there is no stream.
#[derive(Debug)]
pub(in crate::transport) enum Failure {
    Tls(TlsError),
    /// The connection ended.
    Lost,
    /// It did not end in time.
    TimedOut,
}

impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Self {
        TlsError::behind(error).map_or(Self::Lost, Self::Tls)
    }
}

pub(super) async fn connect(
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    socket: TcpStream,
    limit: Duration,
) -> Result<Secured<TlsStream<TcpStream>>, Failure> {
    let handshake = TlsConnector::from(config).connect(name, socket);
    finish(limit, handshake.into_fallible()).await
}

pub(super) async fn accept(
    config: Arc<ServerConfig>,
    socket: TcpStream,
    limit: Duration,
) -> Result<Secured<TlsStream<TcpStream>>, Failure> {
    let handshake = TlsAcceptor::from(config).accept(socket);
    finish(limit, handshake.into_fallible()).await
}

async fn finish<F, S>(
    limit: Duration,
    handshake: F,
) -> Result<Secured<TlsStream<TcpStream>>, Failure>
where
    F: Future<Output = Result<S, (io::Error, TcpStream)>> + Send + 'static,
    S: Send,
    TlsStream<TcpStream>: From<S>,
{
    match tokio::time::timeout(limit, off_the_executor(handshake)).await {
        Err(_) => Err(Failure::TimedOut),
        Ok(None) => Err(Failure::Lost),
        Ok(Some(Ok(stream))) => secure(stream.into()),
        Ok(Some(Err((error, socket)))) => {
            let failure = Failure::from(&error);
            if matches!(failure, Failure::Tls(_)) {
                let _ = tokio::time::timeout(LINGER, linger(socket)).await;
            }
            Err(failure)
        }
    }
}

/// Waits until the peer has closed: the socket that is closed with unread input is reset, and the alert which says why with
/// it.
async fn linger(mut socket: TcpStream) -> io::Result<()> {
    socket.shutdown().await?;
    let mut unread = [0; 1024];
    while socket.read(&mut unread).await? > 0 {}
    Ok(())
}

fn secure(stream: TlsStream<TcpStream>) -> Result<Secured<TlsStream<TcpStream>>, Failure> {
    let (_, session) = stream.get_ref();
    // A peer that names no protocol is let through by rustls.
    if session.alpn_protocol() != Some(ALPN) {
        return Err(Failure::Tls(TlsError::Protocol));
    }
    // Only a certificate that was judged to be valid gets here.
    let certificate = session.peer_certificates().and_then(<[_]>::first);
    let identity = certificate.map(identity_of).transpose()?;
    Ok(Secured { stream, identity })
}

/// Whose certificate this is, which was judged to be valid.
pub(in crate::transport) fn identity_of(
    certificate: &CertificateDer<'_>,
) -> Result<PeerIdentity, Failure> {
    match ParsedCertificate::try_from(certificate) {
        Ok(parsed) => Ok(PeerIdentity::of_public_key(
            &parsed.subject_public_key_info(),
        )),
        Err(error) => Err(Failure::Tls(TlsError::Rustls(error))),
    }
}

struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// Polls a future on the threads for work that takes long: the signatures of a handshake take up to some milliseconds
/// (architecture.md, invariant 6). While it waits it holds no thread. `None` if it panics, or the runtime shuts down.
async fn off_the_executor<F>(future: F) -> Option<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    let mut future = Box::pin(future);
    let woken = Arc::new(Woken(Notify::new()));
    loop {
        let waker = Waker::from(Arc::clone(&woken));
        let turn = tokio::task::spawn_blocking(move || {
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            (future, polled)
        });
        let (back, polled) = turn.await.ok()?;
        match polled {
            Poll::Ready(output) => return Some(output),
            Poll::Pending => future = back,
        }
        woken.0.notified().await;
    }
}
