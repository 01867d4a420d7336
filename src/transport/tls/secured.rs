//! Connections whose peer TLS's handshake has judged, whatever carries them.

use core::future::Future;
use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Failure, known_as, note};
use crate::session::{Role, SessionError};
use crate::transport::limits::Place;
use crate::transport::resume::{Another, Carrier};
use crate::transport::shared::Shared;
use crate::transport::{Address, ConnectError, Connection, Node, PeerIdentity};
use crate::units::Time;

/// An encrypted stream, and who the peer has proved to be on it.
#[derive(Debug)]
pub(in crate::transport) struct Secured<S> {
    pub(in crate::transport) stream: S,
    pub(in crate::transport) identity: Option<PeerIdentity>,
}

/// What a handshake leaves, of which a carrier is made for a session.
pub(in crate::transport) trait SecuredStream: Send + 'static {
    type Carrier: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Why it fails is told to `shared`; of one that a listener has let in, `place` is kept.
    fn carrier(self, shared: &Arc<Shared>, place: Option<Place>) -> Self::Carrier;
}

impl Failure {
    /// What connecting to `address` failed with.
    pub(in crate::transport) fn of(self, address: &Address, limit: Duration) -> ConnectError {
        let address = address.to_string();
        let source = match self {
            Self::Tls(source) => return ConnectError::Tls { address, source },
            Self::Lost => SessionError::ConnectionLost,
            Self::TimedOut => SessionError::HandshakeTimeout { limit },
        };
        ConnectError::Handshake { address, source }
    }
}

impl Node {
    /// Connects by `dial`, and again to the same peer if the session may be resumed.
    pub(in crate::transport) async fn connect_secured<S, F>(
        &self,
        host: &str,
        address: &Address,
        dial: impl Fn(Self, String, Address) -> F + Send + 'static,
    ) -> Result<Connection, ConnectError>
    where
        S: SecuredStream,
        F: Future<Output = Result<Secured<S>, ConnectError>> + Send + 'static,
    {
        let began = self.clock.now();
        let secured = dial(self.clone(), host.to_owned(), address.clone()).await?;
        let shared = self.new_shared();
        let identity = secured.identity;
        let again = {
            let (node, host, address) = (self.clone(), host.to_owned(), address.clone());
            let shared = Arc::clone(&shared);
            move || {
                let dialed = dial(node.clone(), host.clone(), address.clone());
                let shared = Arc::clone(&shared);
                async move {
                    let secured = dialed.await.map_err(io::Error::other)?;
                    if secured.identity != identity {
                        return Err(io::Error::other("another peer than before"));
                    }
                    Ok(secured.stream.carrier(&shared, None))
                }
            }
        };
        let another = self.redial(again)?;
        let role = (Role::Connector, another, None);
        self.secure(secured, role, host, &shared, began)?;
        Ok(Connection::new(shared, address.to_string()))
    }

    /// Begins the session over an encrypted stream, with who is met at `met_at` if it has not proved who it is.
    pub(super) fn secure<S: SecuredStream>(
        &self,
        Secured { stream, identity }: Secured<S>,
        (role, another, place): (Role, Another<S::Carrier>, Option<Place>),
        met_at: &str,
        shared: &Arc<Shared>,
        began: Time,
    ) -> Result<(), ConnectError> {
        if let Some(identity) = identity {
            shared.identity.get_or_init(|| identity);
        }
        let carrier = Carrier {
            io: stream.carrier(shared, place),
            input: BytesMut::new(),
            another,
        };
        self.drive(carrier, role, known_as(identity, met_at), shared, began)
    }

    /// Takes a connection in after its handshake: as the first of its session, or as another one's. `None` if it is the
    /// latter.
    pub(in crate::transport) async fn take_in_secured<S: SecuredStream>(
        self,
        result: Result<Secured<S>, Failure>,
        peer: SocketAddr,
        shared: Arc<Shared>,
        place: Place,
    ) -> Option<Result<Connection, ConnectError>> {
        match result {
            Ok(Secured { stream, identity }) => {
                if let Some(identity) = identity {
                    shared.identity.get_or_init(|| identity);
                }
                let known_as = known_as(identity, &peer.ip().to_string());
                let carrier = stream.carrier(&shared, Some(place));
                self.accepted(carrier, peer.to_string(), known_as, shared)
                    .await
            }
            Err(failure) => {
                note(&shared, failure, self.session.handshake_limit());
                shared.fail(SessionError::ConnectionLost);
                Some(Ok(Connection::new(shared, peer.to_string())))
            }
        }
    }
}
