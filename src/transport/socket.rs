//! Socket options.

use std::io;

use tokio::net::TcpStream;

/// Unsent bytes that the kernel takes at first before it says that the socket is full. Little, so that a
/// decision is never made long before its block meets the link; two blocks' worth, so that the
/// link has something to send while the next block is being encoded. Once more is known of the link, the session asks
/// for less or more ([`crate::session::Session::unsent_limit`]).
pub(super) const FIRST_UNSENT: u32 = 128 << 10;

pub(super) fn configure(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(FIRST_UNSENT)?;
    Ok(())
}
