//! Accepting connections.

use core::time::Duration;
use std::io;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Mutex, mpsc};
use tokio::task::{JoinHandle, JoinSet};

use super::limits::{Admission, Counted, ListenerStats, Place};
use super::memory::KnownAs;
#[cfg(feature = "quic")]
use super::quic;
#[cfg(feature = "tls")]
use super::tls;
use super::{Address, ConnectError, Connection, Node, socket};

/// Connections that have not said yet whose they are; no more are accepted meanwhile. Arbitrary.
const MOST_ARRIVING: usize = 1024;
/// Connections that wait to be taken by [`Listener::accept`]; more are closed again, so that those that belong to a
/// session get through. Arbitrary, a few MB.
const MOST_WAITING: usize = 1024;
/// After a failure of the system's (too many open files, say) it is left alone for so long. Arbitrary.
const PAUSE: Duration = Duration::from_millis(50);

/// A listening socket. Connections are accepted as long as it lives, whether [`Listener::accept`] is called or not:
/// those that belong to a session that is here already go there, of the others up to 1024 wait.
#[derive(Debug)]
pub struct Listener {
    socket: Arc<Socket>,
    accepted: Mutex<mpsc::Receiver<Result<Connection, ConnectError>>>,
    task: JoinHandle<()>,
    admission: Arc<Admission>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    /// With the handshakes that it may have under way yet.
    #[cfg(feature = "tls")]
    Tls(TcpListener, Arc<tokio::sync::Semaphore>),
    #[cfg(feature = "quic")]
    Quic(Box<quic::QuicListener>),
    #[cfg(unix)]
    Unix(tokio::net::UnixListener, std::path::PathBuf),
}

/// A connection as the system gives it.
enum Arrival {
    Tcp(TcpStream, std::net::SocketAddr),
    #[cfg(feature = "tls")]
    Tls(
        TcpStream,
        std::net::SocketAddr,
        tokio::sync::OwnedSemaphorePermit,
    ),
    #[cfg(feature = "quic")]
    Quic(Box<quic::Incoming>),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream, String),
}

impl Socket {
    fn local_address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Address::from),
            #[cfg(feature = "tls")]
            Self::Tls(listener, _) => Ok(Address::Tls(listener.local_addr()?.to_string())),
            #[cfg(feature = "quic")]
            Self::Quic(listener) => listener.local_address(),
            #[cfg(unix)]
            Self::Unix(_, path) => Ok(Address::Unix(path.clone())),
        }
    }

    async fn accept(&self) -> io::Result<Arrival> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                socket::configure(&stream)?;
                Ok(Arrival::Tcp(stream, peer))
            }
            #[cfg(feature = "tls")]
            Self::Tls(listener, handshakes) => {
                // Never closed.
                let permit = Arc::clone(handshakes).acquire_owned().await;
                let permit = permit.map_err(io::Error::other)?;
                let (stream, peer) = listener.accept().await?;
                socket::configure(&stream)?;
                Ok(Arrival::Tls(stream, peer, permit))
            }
            #[cfg(feature = "quic")]
            Self::Quic(listener) => {
                let incoming = listener.accept().await?;
                Ok(Arrival::Quic(Box::new(incoming)))
            }
            #[cfg(unix)]
            Self::Unix(listener, path) => {
                let (stream, _) = listener.accept().await?;
                Ok(Arrival::Unix(stream, format!("unix:{}", path.display())))
            }
        }
    }
}

impl Arrival {
    /// Whose it is, if that has an address.
    fn address(&self) -> Option<std::net::IpAddr> {
        match self {
            Self::Tcp(_, peer) => Some(peer.ip()),
            #[cfg(feature = "tls")]
            Self::Tls(_, peer, _) => Some(peer.ip()),
            #[cfg(feature = "quic")]
            Self::Quic(incoming) => Some(incoming.address()),
            #[cfg(unix)]
            Self::Unix(..) => None,
        }
    }

    /// Its session, unless it is one that is here already.
    async fn take_in(self, node: Node, place: Place) -> Option<Result<Connection, ConnectError>> {
        match self {
            Self::Tcp(stream, peer) => {
                let peer = peer.to_string();
                let known_as = KnownAs::connector(&peer);
                let shared = node.new_shared();
                let stream = Counted::new(stream, place);
                node.accepted(stream, peer, known_as, shared).await
            }
            #[cfg(feature = "tls")]
            Self::Tls(stream, peer, permit) => node.take_in_tls(stream, peer, permit, place).await,
            #[cfg(feature = "quic")]
            Self::Quic(incoming) => node.take_in_quic(*incoming, place).await,
            #[cfg(unix)]
            Self::Unix(stream, path) => {
                let known_as = KnownAs::Anybody(path.clone());
                let shared = node.new_shared();
                let stream = Counted::new(stream, place);
                node.accepted(stream, path, known_as, shared).await
            }
        }
    }
}

impl Listener {
    pub(super) async fn bind(node: Node, address: &Address) -> Result<Self, ConnectError> {
        let failed = |source| ConnectError::Io {
            address: address.clone(),
            source,
        };
        let socket = match address {
            Address::Tcp(host) => Socket::Tcp(TcpListener::bind(host).await.map_err(failed)?),
            #[cfg(feature = "tls")]
            Address::Tls(host) => {
                node.check_tls(address)?;
                let listener = TcpListener::bind(host).await.map_err(failed)?;
                let handshakes = tokio::sync::Semaphore::new(tls::MAX_HANDSHAKES);
                Socket::Tls(listener, Arc::new(handshakes))
            }
            #[cfg(feature = "quic")]
            Address::Quic(host) => {
                let listener = node.bind_quic(host, address).await?;
                Socket::Quic(Box::new(listener))
            }
            #[cfg(unix)]
            Address::Unix(path) => Socket::Unix(
                tokio::net::UnixListener::bind(path).map_err(failed)?,
                path.clone(),
            ),
        };
        let socket = Arc::new(socket);
        let (sender, accepted) = mpsc::channel(MOST_WAITING);
        let admission = Admission::new(node.session.limits);
        let task = run(node, Arc::clone(&socket), sender, Arc::clone(&admission));
        let task = tokio::spawn(task);
        Ok(Self {
            socket,
            accepted: Mutex::new(accepted),
            task,
            admission,
        })
    }

    /// Where it listens: with the port that the system chose, if it was asked to.
    ///
    /// # Errors
    ///
    /// The system does not say.
    pub fn local_address(&self) -> io::Result<Address> {
        self.socket.local_address()
    }

    /// What it has let in and refused.
    pub fn stats(&self) -> ListenerStats {
        self.admission.stats()
    }

    /// The next connection. Its handshake goes on meanwhile: what is opened on it waits for that,
    /// and a stranger shows as a failed session. With TLS, its handshake comes first, and 256 at most are under way: more
    /// wait to be accepted. Over QUIC, the connection comes here when that is done or has failed. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The system fails to accept (too many open files, say): waiting a little and trying again is
    /// in order. A session setting that makes no sense fails every time.
    pub async fn accept(&self) -> Result<Connection, ConnectError> {
        let next = self.accepted.lock().await.recv().await;
        // The task ends only with its runtime.
        next.unwrap_or_else(|| {
            Err(ConnectError::Io {
                address: self.address(),
                source: io::ErrorKind::NotConnected.into(),
            })
        })
    }

    fn address(&self) -> Address {
        address_of(&self.socket)
    }
}

fn address_of(socket: &Socket) -> Address {
    let local = socket.local_address();
    local.unwrap_or_else(|_| Address::Tcp(String::new()))
}

/// Accepts connections and hands them over once they have said whose they are.
async fn run(
    node: Node,
    socket: Arc<Socket>,
    accepted: mpsc::Sender<Result<Connection, ConnectError>>,
    admission: Arc<Admission>,
) {
    let mut arriving = JoinSet::new();
    loop {
        let has_room = arriving.len() < MOST_ARRIVING;
        tokio::select! {
            Some(done) = arriving.join_next(), if !arriving.is_empty() => {
                if let Ok(Some(connection)) = done {
                    match accepted.try_send(connection) {
                        Ok(()) => {}
                        Err(TrySendError::Full(_)) => admission.on_overflow(),
                        Err(TrySendError::Closed(_)) => return,
                    }
                }
            }
            arrival = socket.accept(), if has_room => match arrival {
                Ok(arrival) => {
                    // Without a place it is closed.
                    if let Some(place) = admission.admit(arrival.address()) {
                        arriving.spawn(arrival.take_in(node.clone(), place));
                    }
                }
                Err(source) => {
                    let address = address_of(&socket);
                    let failed = Err(ConnectError::Io { address, source });
                    if let Err(TrySendError::Closed(_)) = accepted.try_send(failed) {
                        return;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
        #[cfg(unix)]
        if let Socket::Unix(_, path) = &*self.socket {
            // Left behind, it would refuse the next one who listens there.
            let _ = std::fs::remove_file(path);
        }
    }
}
