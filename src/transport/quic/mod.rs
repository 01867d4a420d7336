//! QUIC, for addresses such as `quic:HOST:PORT`: docs/quic.md.
//!
//! quinn, with rustls's TLS 1.3 in it and the settings of `tls:` addresses. Each stream of a connection carries a session: the first
//! one's, and those of further lanes.

mod carrier;
mod lanes;
mod settings;

use core::future::Future;
use core::time::Duration;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use quinn::{ConnectionError, Endpoint, EndpointConfig, ServerConfig, TokioRuntime};
use tokio::net::lookup_host;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{self, AlertDescription};

pub(super) use self::carrier::QuicCarrier;
pub(super) use self::lanes::join;
use super::limits::Place;
use super::shared::Shared;
use super::tls::{
    Failure, MAX_HANDSHAKES, Secured, SecuredStream, TlsError, identity_of, server_name,
};
use super::{Address, ConnectError, Connection, Node};

/// How long an address of a host has for its answer before the next one is tried beside it: RFC 8305, section 8
/// ("Connection Attempt Delay").
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// Handshakes under way from which on who connects must show that it is where it says: a round trip more for each, and
/// nothing is kept meanwhile. Arbitrary: half of what there may be.
const DOUBT_FROM: usize = MAX_HANDSHAKES / 2;

/// A UDP socket that takes connections in.
#[derive(Debug)]
pub(super) struct QuicListener {
    endpoint: Endpoint,
    /// But for the certificates, which are those of the time when a connection comes.
    settings: ServerConfig,
    handshakes: Arc<Semaphore>,
}

/// A connection that begins.
pub(super) struct Incoming {
    begun: quinn::Incoming,
    settings: ServerConfig,
    permit: OwnedSemaphorePermit,
}

impl Incoming {
    pub(super) fn address(&self) -> IpAddr {
        self.begun.remote_address().ip()
    }
}

impl QuicListener {
    pub(super) fn local_address(&self) -> io::Result<Address> {
        Ok(Address::Quic(self.endpoint.local_addr()?.to_string()))
    }

    /// The next one, once fewer than [`MAX_HANDSHAKES`] are under way.
    pub(super) async fn accept(&self) -> io::Result<Incoming> {
        loop {
            let permit = Arc::clone(&self.handshakes).acquire_owned().await;
            // Never closed.
            let permit = permit.map_err(io::Error::other)?;
            let incoming = self.endpoint.accept().await;
            let incoming = incoming.ok_or(io::ErrorKind::NotConnected)?;
            let is_doubtful = self.handshakes.available_permits() < MAX_HANDSHAKES - DOUBT_FROM;
            if is_doubtful && !incoming.remote_address_validated() {
                // Refused only to one that has been asked before.
                let _ = incoming.retry();
                continue;
            }
            return Ok(Incoming {
                begun: incoming,
                settings: self.settings.clone(),
                permit,
            });
        }
    }
}

impl Drop for QuicListener {
    fn drop(&mut self) {
        // Without a runtime nothing is answered any more.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(refuse(self.endpoint.clone()));
        }
    }
}

/// The socket goes on as long as it has connections: others are refused meanwhile.
async fn refuse(endpoint: Endpoint) {
    loop {
        tokio::select! {
            Some(incoming) = endpoint.accept() => incoming.refuse(),
            () = endpoint.wait_idle() => return,
        }
    }
}

/// A stream to a peer.
struct QuicStream {
    connection: quinn::Connection,
    streams: (quinn::SendStream, quinn::RecvStream),
}

impl SecuredStream for QuicStream {
    type Carrier = QuicCarrier;

    fn carrier(self, shared: &Arc<Shared>, place: Option<Place>) -> QuicCarrier {
        QuicCarrier::new(self.connection, self.streams, Arc::clone(shared), place)
    }
}

impl Node {
    pub(super) async fn connect_quic(
        &self,
        host: &str,
        address: &Address,
    ) -> Result<Connection, ConnectError> {
        let dial = |node: Self, host: String, address: Address| async move {
            node.dial_quic(&host, &address).await
        };
        self.connect_secured(host, address, dial).await
    }

    /// Connects, with the settings of now, to the first address of the host that answers.
    async fn dial_quic(
        &self,
        host: &str,
        address: &Address,
    ) -> Result<Secured<QuicStream>, ConnectError> {
        let limit = self.session.handshake_limit();
        let impossible = |source| ConnectError::Io {
            address: address.clone(),
            source,
        };
        let setup = self.shared.tls.client();
        let setup = setup.ok_or_else(|| ConnectError::NoTls {
            address: address.clone(),
        })?;
        let name = match &setup.server_name {
            Some(name) => name.clone(),
            None => server_name(host).map_err(|error| Failure::Tls(error).of(address, limit))?,
        };
        let config = settings::client(&setup.config, self.quic_lanes).map_err(impossible)?;
        let addresses: Vec<_> = lookup_host(host).await.map_err(impossible)?.collect();
        if addresses.is_empty() {
            let none = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
            return Err(impossible(none));
        }
        let attempts = addresses.into_iter().map(|at| {
            let (config, name) = (config.clone(), name.to_str().into_owned());
            async move {
                let endpoint = endpoint(at, None).map_err(Unreached::System)?;
                let connecting = endpoint.connect_with(config, at, &name);
                let connecting =
                    connecting.map_err(|error| Unreached::System(io::Error::other(error)))?;
                let connection = connecting.await.map_err(|error| failure(&error))?;
                let streams = connection.open_bi().await;
                let streams = streams.map_err(|error| failure(&error))?;
                Ok::<_, Unreached>((connection, streams))
            }
        });
        let result = tokio::time::timeout(limit, first_of(attempts)).await;
        let result = result.unwrap_or(Err(Unreached::Failed(Failure::TimedOut)));
        let secured = result.and_then(|(connection, streams)| Ok(secure(connection, streams)?));
        secured.map_err(|error| match error {
            Unreached::System(error) => impossible(error),
            Unreached::Failed(failure) => failure.of(address, limit),
        })
    }

    pub(super) async fn bind_quic(
        &self,
        host: &str,
        address: &Address,
    ) -> Result<QuicListener, ConnectError> {
        self.check_tls(address)?;
        let failed = |source| ConnectError::Io {
            address: address.clone(),
            source,
        };
        // Just checked, and never unset.
        let tls = self.shared.tls.server();
        let tls = tls.ok_or_else(|| ConnectError::NoTls {
            address: address.clone(),
        })?;
        let settings = settings::server(&tls, self.quic_lanes).map_err(failed)?;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for at in lookup_host(host).await.map_err(failed)? {
            match endpoint(at, Some(settings.clone())) {
                Ok(endpoint) => {
                    return Ok(QuicListener {
                        endpoint,
                        settings,
                        handshakes: Arc::new(Semaphore::new(MAX_HANDSHAKES)),
                    });
                }
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }

    /// Takes a connection in after its handshake: as the first of its session, or as another one's. `None` if it is the latter.
    pub(super) async fn take_in_quic(
        self,
        incoming: Incoming,
        place: Place,
    ) -> Option<Result<Connection, ConnectError>> {
        let peer = incoming.begun.remote_address();
        // Set when the listener was made, and never unset.
        let tls = self.shared.tls.server()?;
        let shared = self.new_shared();
        let limit = self.session.handshake_limit();
        let result = tokio::time::timeout(limit, accept(incoming, &tls)).await;
        let result = result.unwrap_or(Err(Failure::TimedOut));
        self.take_in_secured(result, peer, shared, place).await
    }
}

/// Why there is no stream to a peer.
enum Unreached {
    /// The system or quinn refuses.
    System(io::Error),
    Failed(Failure),
}

impl From<Failure> for Unreached {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// A socket: where it is told to listen, or, to connect to `at`, anywhere.
fn endpoint(at: SocketAddr, settings: Option<ServerConfig>) -> io::Result<Endpoint> {
    let local = match (&settings, at) {
        (Some(_), at) => at,
        (None, SocketAddr::V4(_)) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        (None, SocketAddr::V6(_)) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(local)?;
    let runtime = Arc::new(TokioRuntime);
    Endpoint::new(EndpointConfig::default(), settings, socket, runtime)
}

/// The first attempt that succeeds. Each begins when the one before has failed, or has taken a while; when all have failed,
/// the failure that says most.
async fn first_of<F, T>(attempts: impl Iterator<Item = F>) -> Result<T, Unreached>
where
    F: Future<Output = Result<T, Unreached>> + Send + 'static,
    T: Send + 'static,
{
    let mut waiting = attempts;
    let mut under_way = JoinSet::new();
    let mut worst = Unreached::Failed(Failure::Lost);
    loop {
        let next = waiting.next();
        let has_more = next.is_some();
        if let Some(attempt) = next {
            under_way.spawn(attempt);
        } else if under_way.is_empty() {
            return Err(worst);
        }
        tokio::select! {
            Some(done) = under_way.join_next() => match done {
                Ok(Ok(reached)) => return Ok(reached),
                Ok(Err(error)) => {
                    if !matches!(worst, Unreached::Failed(Failure::Tls(_))) {
                        worst = error;
                    }
                }
                // The runtime shuts down.
                Err(_) => {}
            },
            () = tokio::time::sleep(NEXT_ADDRESS_AFTER), if has_more => {}
        }
    }
}

/// The handshake at the listening end, and the stream that the peer opens with its hello.
async fn accept(
    incoming: Incoming,
    tls: &rustls::ServerConfig,
) -> Result<Secured<QuicStream>, Failure> {
    let Incoming {
        begun,
        mut settings,
        permit,
    } = incoming;
    // The certificates may have been replaced.
    settings.crypto = settings::server_crypto(tls).map_err(|_| Failure::Lost)?;
    let connecting = begun.accept_with(Arc::new(settings));
    let connecting = connecting.map_err(|error| failure(&error))?;
    let connection = connecting.await.map_err(|error| failure(&error))?;
    let streams = connection.accept_bi().await;
    let streams = streams.map_err(|error| failure(&error))?;
    drop(permit);
    secure(connection, streams)
}

fn secure(
    connection: quinn::Connection,
    streams: (quinn::SendStream, quinn::RecvStream),
) -> Result<Secured<QuicStream>, Failure> {
    // QUIC has no connection without an agreed protocol (RFC 9001, 8.1), so that it is this one. Only a certificate that
    // was judged to be valid gets here.
    let certificates = connection
        .peer_identity()
        .and_then(|certificates| certificates.downcast::<Vec<CertificateDer<'static>>>().ok());
    let certificate = certificates
        .as_ref()
        .and_then(|certificates| certificates.first());
    let identity = certificate.map(identity_of).transpose()?;
    let stream = QuicStream {
        connection,
        streams,
    };
    Ok(Secured { stream, identity })
}

/// Why a connection ended, as far as it is to be told.
fn failure(error: &ConnectionError) -> Failure {
    let (code, reason) = match error {
        ConnectionError::TransportError(error) => (error.code, Some(&error.reason)),
        ConnectionError::ConnectionClosed(close) => (close.error_code, None),
        _ => return Failure::Lost,
    };
    // TLS's alerts are a range of QUIC's codes (RFC 9001, section 4.8).
    let Some(alert) = u64::from(code)
        .checked_sub(0x100)
        .and_then(|alert| u8::try_from(alert).ok())
        .map(AlertDescription::from)
    else {
        return Failure::Lost;
    };
    Failure::Tls(match reason {
        _ if alert == AlertDescription::NoApplicationProtocol => TlsError::Protocol,
        Some(reason) => TlsError::Refused {
            alert,
            reason: reason.clone(),
        },
        None => TlsError::Rustls(rustls::Error::AlertReceived(alert)),
    })
}

#[cfg(test)]
mod tests {
    use core::future::pending;
    use core::pin::Pin;

    use tokio::sync::Notify;

    use super::*;

    type Attempt = Pin<Box<dyn Future<Output = Result<u32, Unreached>> + Send>>;

    fn fails(failure: Failure) -> Attempt {
        Box::pin(async { Err(Unreached::Failed(failure)) })
    }

    fn succeeds(number: u32) -> Attempt {
        Box::pin(async move { Ok(number) })
    }

    async fn reached(attempts: impl IntoIterator<Item = Attempt>) -> Option<u32> {
        first_of(attempts.into_iter()).await.ok()
    }

    #[tokio::test]
    async fn an_address_that_does_not_answer_holds_up_no_other() {
        let silent: Attempt = Box::pin(pending());
        assert_eq!(reached([silent, succeeds(1)]).await, Some(1));
        assert_eq!(reached([fails(Failure::Lost), succeeds(1)]).await, Some(1));
        // One that is slow is not given up when the next begins.
        let begun = Arc::new(Notify::new());
        let slow: Attempt = {
            let begun = Arc::clone(&begun);
            Box::pin(async move {
                begun.notified().await;
                Ok(0)
            })
        };
        let silent: Attempt = Box::pin(async move {
            begun.notify_one();
            pending().await
        });
        assert_eq!(reached([slow, silent]).await, Some(0));
    }

    #[tokio::test]
    async fn when_none_answers_it_is_said_who_was_refused() {
        let attempts = [
            fails(Failure::Lost),
            fails(Failure::Tls(TlsError::Protocol)),
            fails(Failure::TimedOut),
        ];
        let error = first_of(attempts.into_iter()).await.err();
        let expected = Failure::Tls(TlsError::Protocol);
        let Some(Unreached::Failed(failure)) = error else {
            panic!("a failure");
        };
        assert_eq!(format!("{failure:?}"), format!("{expected:?}"));
    }
}
