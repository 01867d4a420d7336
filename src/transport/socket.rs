//! Socket options.

use std::io;

use tokio::net::TcpStream;

#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::session::UNSENT;

/// Has the kernel say that the socket is full once little is unsent in it, so that a decision is never made long before its block meets
/// the link. Once more is known of that, the session asks for less or more ([`crate::session::Session::unsent_limit`]).
pub(super) fn configure(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT)?;
    Ok(())
}
