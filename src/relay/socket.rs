//! TCP and Unix sockets as one.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::path::PathBuf;

use bytes::{BufMut, BytesMut};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};

use super::LinkConfig;

/// An address to listen on or to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayAddr {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket's path (on Unix; elsewhere an error). Its buffer is the sender's to choose, so
    /// backpressure reaches a client that sends through one by as much later.
    Unix(PathBuf),
}

impl RelayAddr {
    /// The address, if it is a TCP one.
    pub const fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(addr) => Some(*addr),
            Self::Unix(_) => None,
        }
    }
}

impl From<SocketAddr> for RelayAddr {
    fn from(addr: SocketAddr) -> Self {
        Self::Tcp(addr)
    }
}

/// The kernel's buffers hold 1 ms at the rate, within these bounds. Measured with `measured_rates` in
/// `tests/relay.rs`: with 4 KiB, 1 Gbit/s became 0.37; with 8 KiB every rate was kept within 0.1 %,
/// and a sender got 3 KiB ahead of the queue (with 16 KiB, 30).
const MIN_BUFFER: usize = 8 * 1024;
const MAX_BUFFER: usize = 64 * 1024;
/// Of an unshaped link's sockets. Arbitrary.
const UNSHAPED_BUFFER: usize = 256 * 1024;
/// An Ethernet packet's payload. Loopback's own packets of 64 KiB do not fit a small buffer, and the
/// connection would crawl from one zero window to the next.
#[cfg(unix)]
const SEGMENT: u32 = 1448;

#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    /// With the path, which is removed when it closes.
    #[cfg(unix)]
    Unix(UnixListener, PathBuf),
}

impl Listener {
    pub(super) fn bind(addr: RelayAddr, config: &LinkConfig) -> io::Result<Self> {
        match addr {
            RelayAddr::Tcp(addr) => {
                let socket = tcp_socket(addr, config)?;
                socket.set_reuseaddr(true)?;
                socket.bind(addr)?;
                Ok(Self::Tcp(socket.listen(128)?))
            }
            #[cfg(unix)]
            RelayAddr::Unix(path) => Ok(Self::Unix(UnixListener::bind(&path)?, path)),
            #[cfg(not(unix))]
            RelayAddr::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    pub(super) fn local_addr(&self) -> io::Result<RelayAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(RelayAddr::Tcp),
            #[cfg(unix)]
            Self::Unix(_, path) => Ok(RelayAddr::Unix(path.clone())),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }
            #[cfg(unix)]
            Self::Unix(listener, _) => Ok(Socket::Unix(listener.accept().await?.0)),
        }
    }
}

#[cfg(unix)]
impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // Nothing can be done about a failure here, and it harms nobody.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Socket {
    pub(super) async fn connect(addr: RelayAddr, config: &LinkConfig) -> io::Result<Self> {
        match addr {
            RelayAddr::Tcp(addr) => {
                let stream = tcp_socket(addr, config)?.connect(addr).await?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
            #[cfg(unix)]
            RelayAddr::Unix(path) => UnixStream::connect(path).await.map(Self::Unix),
            #[cfg(not(unix))]
            RelayAddr::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Sizes the kernel's buffers for a link that takes this socket's input. Only a wish: a kernel
    /// that refuses hides a little more of the link.
    pub(super) fn set_buffers(&self, config: &LinkConfig) {
        set_buffers(&self.as_ref(), config);
    }

    pub(super) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            #[cfg(unix)]
            Self::Unix(stream) => stream.readable().await,
        }
    }

    pub(super) async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.writable().await,
            #[cfg(unix)]
            Self::Unix(stream) => stream.writable().await,
        }
    }

    /// Appends up to `limit` bytes; 0 at the end of the input.
    pub(super) fn try_read(&self, into: &mut BytesMut, limit: usize) -> io::Result<usize> {
        into.reserve(limit);
        let mut into = into.limit(limit);
        match self {
            Self::Tcp(stream) => stream.try_read_buf(&mut into),
            #[cfg(unix)]
            Self::Unix(stream) => stream.try_read_buf(&mut into),
        }
    }

    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            #[cfg(unix)]
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    pub(super) fn shutdown_write(&self) -> io::Result<()> {
        match self.as_ref().shutdown(Shutdown::Write) {
            // The far end was quicker.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            done => done,
        }
    }

    fn as_ref(&self) -> SockRef<'_> {
        match self {
            Self::Tcp(stream) => SockRef::from(stream),
            #[cfg(unix)]
            Self::Unix(stream) => SockRef::from(stream),
        }
    }
}

fn set_buffers(socket: &SockRef<'_>, config: &LinkConfig) {
    let len = match config.rate {
        Some(rate) => ((rate.get() * 1e-3) as usize).clamp(MIN_BUFFER, MAX_BUFFER),
        None => UNSHAPED_BUFFER,
    };
    let _ = socket.set_recv_buffer_size(len);
    let _ = socket.set_send_buffer_size(len);
}

/// A socket whose peer sends small segments into a small window. The handshake announces both, so
/// they are set before it; what has been announced cannot be taken back.
fn tcp_socket(addr: SocketAddr, config: &LinkConfig) -> io::Result<TcpSocket> {
    let socket = match addr {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    set_buffers(&SockRef::from(&socket), config);
    #[cfg(unix)]
    SockRef::from(&socket).set_tcp_mss(SEGMENT)?;
    Ok(socket)
}
