//! Where a node listens or connects.

use core::fmt;
use core::str::FromStr;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An address: `HOST:PORT` for TCP, `unix:PATH` for a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Address {
    /// A host's name or number and a port.
    Tcp(String),
    /// A path in the file system.
    #[cfg(unix)]
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix("unix:") {
            #[cfg(unix)]
            if !path.is_empty() {
                return Ok(Self::Unix(path.into()));
            }
            return Err(ParseAddressError {
                text: text.to_owned(),
            });
        }
        let port = text
            .rsplit_once(':')
            .and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        match port {
            Some((host, _)) if !host.is_empty() => Ok(Self::Tcp(text.to_owned())),
            _ => Err(ParseAddressError {
                text: text.to_owned(),
            }),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address.to_string())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            #[cfg(unix)]
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an address (HOST:PORT or unix:PATH)")]
pub struct ParseAddressError {
    text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back() {
        for text in ["127.0.0.1:80", "[::1]:9000", "localhost:1"] {
            assert_eq!(
                text.parse::<Address>().expect("an address").to_string(),
                text
            );
        }
        for text in ["", "localhost", ":80", "localhost:99999", "unix:"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
