//! TLS over TCP, for addresses such as `tls:HOST:PORT`.
//!
//! rustls, with TLS 1.3 and 1.2 and the ALPN protocol `tautline/1`. Connections are not resumed by TLS itself, so that each
//! judges certificates anew.

mod config;
mod error;
mod handshake;
mod secured;
mod stream;

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::TlsStream;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::ServerName;

pub(super) use self::config::ClientSetup;
pub use self::config::{ClientAuth, ClientTls, ServerTls, TlsIdentity, TlsRoots};
pub use self::error::{TlsConfigError, TlsError};
pub(super) use self::handshake::Failure;
#[cfg(feature = "quic")]
pub(super) use self::handshake::identity_of;
pub(super) use self::secured::{Secured, SecuredStream};
pub(super) use self::stream::TlsCarrier;
use super::limits::Place;
use super::memory::KnownAs;
use super::node::connect_tcp;
use super::resume::Another;
use super::shared::{Shared, lock};
use super::{Address, ConnectError, Connection, Node, PeerIdentity, socket};
use crate::session::{Role, Session, SessionError};

/// The protocol within TLS (RFC 7301).
const ALPN: &[u8] = b"tautline/1";

/// Handshakes that a listener has under way at most; who connects meanwhile waits. Arbitrary: some tens of KB each, and
/// as many silent strangers must come within the handshake's time to keep others out.
pub(super) const MAX_HANDSHAKES: usize = 256;

/// What a node connects and listens with; replaced while connections go on.
#[derive(Debug, Default)]
pub(super) struct NodeTls {
    client: Mutex<Option<ClientSetup>>,
    server: Mutex<Option<Arc<ServerConfig>>>,
}

impl NodeTls {
    pub(super) fn new(
        client: Option<ClientTls>,
        server: Option<ServerTls>,
    ) -> Result<Self, TlsConfigError> {
        Ok(Self {
            client: Mutex::new(client.map(ClientTls::build).transpose()?),
            server: Mutex::new(server.map(ServerTls::build).transpose()?),
        })
    }

    pub(super) fn client(&self) -> Option<ClientSetup> {
        lock(&self.client).clone()
    }

    pub(super) fn server(&self) -> Option<Arc<ServerConfig>> {
        lock(&self.server).clone()
    }
}

/// TLS. The settings are those of connections that begin from here on; those that there are go on as they began.
impl Node {
    /// Replaces what this node connects to `tls:` and `quic:` addresses with: another certificate, or other roots.
    ///
    /// # Errors
    ///
    /// They cannot be used: what was set before stays.
    pub fn set_client_tls(&self, tls: ClientTls) -> Result<(), TlsConfigError> {
        *lock(&self.shared.tls.client) = Some(tls.build()?);
        Ok(())
    }

    /// Replaces what this node's listeners on `tls:` and `quic:` addresses prove their identity with, and whom they let in: all of
    /// it at once. A certificate is renewed this way while the listeners go on.
    ///
    /// # Errors
    ///
    /// They cannot be used: what was set before stays.
    pub fn set_server_tls(&self, tls: ServerTls) -> Result<(), TlsConfigError> {
        *lock(&self.shared.tls.server) = Some(tls.build()?);
        Ok(())
    }

    pub(super) async fn connect_tls(
        &self,
        host: &str,
        address: &Address,
    ) -> Result<Connection, ConnectError> {
        let dial = |node: Self, host: String, address: Address| async move {
            node.dial_tls(&host, &address).await
        };
        self.connect_secured(host, address, dial).await
    }

    /// Connects, with the settings of now, and completes TLS's handshake.
    async fn dial_tls(
        &self,
        host: &str,
        address: &Address,
    ) -> Result<Secured<TlsStream<TcpStream>>, ConnectError> {
        let limit = self.session.handshake_limit();
        let setup = self.shared.tls.client();
        let setup = setup.ok_or_else(|| ConnectError::NoTls {
            address: address.clone(),
        })?;
        let name = match setup.server_name {
            Some(name) => name,
            None => server_name(host).map_err(|error| Failure::Tls(error).of(address, limit))?,
        };
        let tcp = async {
            let tcp = connect_tcp(host).await?;
            socket::configure(&tcp)?;
            Ok(tcp)
        };
        let tcp = tcp.await.map_err(|source| ConnectError::Io {
            address: address.clone(),
            source,
        })?;
        let secured = handshake::connect(setup.config, name, tcp, limit).await;
        secured.map_err(|failure| failure.of(address, limit))
    }

    /// Whether the node can listen with TLS: what would fail with every connection fails before the first.
    pub(super) fn check_tls(&self, address: &Address) -> Result<(), ConnectError> {
        if self.shared.tls.server().is_none() {
            return Err(ConnectError::NoTls {
                address: address.clone(),
            });
        }
        Session::new(Role::Acceptor, (*self.session).clone(), self.clock.now())?;
        Ok(())
    }

    /// Takes a connection in: by itself if it must be the first of its session, after its handshake if it may be
    /// another one's. `None` if it is.
    pub(super) async fn take_in_tls(
        self,
        tcp: TcpStream,
        peer: SocketAddr,
        permit: OwnedSemaphorePermit,
        place: Place,
    ) -> Option<Result<Connection, ConnectError>> {
        if self.resume.is_none() {
            return Some(Ok(self.accept_tls(tcp, peer, permit, place)));
        }
        // Set when the listener was made, and never unset.
        let config = self.shared.tls.server()?;
        let shared = self.new_shared();
        let limit = self.session.handshake_limit();
        let result = handshake::accept(config, tcp, limit).await;
        drop(permit);
        self.take_in_secured(result, peer, shared, place).await
    }

    /// A connection whose handshakes, TLS's and then the session's, go on by themselves.
    pub(super) fn accept_tls(
        &self,
        tcp: TcpStream,
        peer: SocketAddr,
        permit: OwnedSemaphorePermit,
        place: Place,
    ) -> Connection {
        let shared = self.new_shared();
        let began = self.clock.now();
        let limit = self.session.handshake_limit();
        let config = self.shared.tls.server();
        let node = self.clone();
        let mut pending = Pending {
            shared: Arc::clone(&shared),
            is_over: false,
        };
        tokio::spawn(async move {
            // Set when the listener was made, and never unset.
            let Some(config) = config else { return };
            let result = handshake::accept(config, tcp, limit).await;
            match result {
                Ok(secured) => {
                    let role = (Role::Acceptor, Another::None, Some(place));
                    let met_at = peer.ip().to_string();
                    let started = node.secure(secured, role, &met_at, &pending.shared, began);
                    // Without random numbers there is no session.
                    pending.is_over = started.is_ok();
                }
                Err(failure) => note(&pending.shared, failure, limit),
            }
            // Who is let in by this finds the other's fate known.
            drop(pending);
            drop(permit);
        });
        Connection::new(shared, peer.to_string())
    }
}

/// A peer is remembered as who it has proved to be, wherever it is met. One that has not is met at its place, but is not
/// taken for who is met there without TLS. (No address has a space in it.)
fn known_as(identity: Option<PeerIdentity>, place: &str) -> KnownAs {
    KnownAs::Peer(match identity {
        Some(identity) => format!("identity {identity}"),
        None => format!("tls {place}"),
    })
}

/// The host of `HOST:PORT`.
pub(super) fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let bare = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let name = bare.unwrap_or(name).to_owned();
    ServerName::try_from(name.clone()).map_err(|_| TlsError::ServerName { given: name })
}

/// Keeps why there was no handshake for the connection's handles.
fn note(shared: &Shared, failure: Failure, limit: Duration) {
    match failure {
        Failure::Tls(error) => {
            shared.tls_failure.get_or_init(|| error);
        }
        Failure::Lost => {}
        Failure::TimedOut => shared.fail(SessionError::HandshakeTimeout { limit }),
    }
}

/// Says that the session has failed if it does not come about.
struct Pending {
    shared: Arc<Shared>,
    is_over: bool,
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.fail(SessionError::ConnectionLost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_not_taken_for_who_is_met_at_its_place_without_tls() {
        let place = "10.0.0.1";
        let names = [None, Some(b"one"), Some(b"two")].map(|key| {
            let identity = key.map(|key| PeerIdentity::of_public_key(key));
            match known_as(identity, place) {
                KnownAs::Peer(name) => name,
                KnownAs::Anybody(name) => panic!("{name}"),
            }
        });
        assert!(names.iter().all(|name| name != place), "{names:?}");
        assert!(names[0].contains(place), "{names:?}");
        // Who has proved who it is is so wherever it is met.
        assert!(!names[1].contains(place), "{names:?}");
        assert_ne!(names[1], names[2]);
    }

    #[test]
    fn the_hosts_name_is_looked_for() {
        for (host, name) in [
            ("example.org:7000", "example.org"),
            ("127.0.0.1:80", "127.0.0.1"),
            ("[::1]:80", "::1"),
        ] {
            let expected = ServerName::try_from(name).expect("a name");
            assert_eq!(server_name(host), Ok(expected.to_owned()));
        }
        let given = "a b".to_owned();
        assert_eq!(server_name("a b:80"), Err(TlsError::ServerName { given }));
    }
}
