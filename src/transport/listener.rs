//! Accepting connections.

use std::io;

use tokio::net::TcpListener;

#[cfg(unix)]
use super::memory::KnownAs;
use super::{Address, ConnectError, Connection, Node, socket};
use crate::session::Role;

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    node: Node,
    socket: Socket,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(tokio::net::UnixListener, std::path::PathBuf),
}

impl Listener {
    pub(super) async fn bind(node: Node, address: &Address) -> Result<Self, ConnectError> {
        let failed = |source| ConnectError::Io {
            address: address.clone(),
            source,
        };
        let socket = match address {
            Address::Tcp(host) => Socket::Tcp(TcpListener::bind(host).await.map_err(failed)?),
            #[cfg(unix)]
            Address::Unix(path) => Socket::Unix(
                tokio::net::UnixListener::bind(path).map_err(failed)?,
                path.clone(),
            ),
        };
        Ok(Self { node, socket })
    }

    /// Where it listens: with the port that the system chose, if it was asked to.
    ///
    /// # Errors
    ///
    /// The system does not say.
    pub fn local_address(&self) -> io::Result<Address> {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr().map(Address::from),
            #[cfg(unix)]
            Socket::Unix(_, path) => Ok(Address::Unix(path.clone())),
        }
    }

    /// The next connection. Its handshake goes on meanwhile: what is opened on it waits for that,
    /// and a stranger shows as a failed session. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The system fails to accept (too many open files, say): waiting a little and trying again is
    /// in order. A session setting that makes no sense fails every time.
    pub async fn accept(&self) -> Result<Connection, ConnectError> {
        match &self.socket {
            Socket::Tcp(listener) => {
                let failed = |source| match listener.local_addr() {
                    Ok(address) => ConnectError::Io {
                        address: address.into(),
                        source,
                    },
                    Err(source) => ConnectError::Io {
                        address: Address::Tcp(String::new()),
                        source,
                    },
                };
                let (stream, peer) = listener.accept().await.map_err(failed)?;
                socket::configure(&stream).map_err(failed)?;
                self.node.start(stream, Role::Acceptor, peer.to_string())
            }
            #[cfg(unix)]
            Socket::Unix(listener, path) => {
                let failed = |source| ConnectError::Io {
                    address: Address::Unix(path.clone()),
                    source,
                };
                let (stream, _) = listener.accept().await.map_err(failed)?;
                let place = format!("unix:{}", path.display());
                self.node.start_known(
                    stream,
                    Role::Acceptor,
                    place.clone(),
                    KnownAs::Anybody(place),
                )
            }
        }
    }
}

#[cfg(unix)]
impl Drop for Listener {
    fn drop(&mut self) {
        if let Socket::Unix(_, path) = &self.socket {
            // Left behind, it would refuse the next one who listens there.
            let _ = std::fs::remove_file(path);
        }
    }
}
