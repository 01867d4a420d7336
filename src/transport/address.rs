//! Where a node listens or connects.

use core::fmt;
use core::str::FromStr;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An address: `HOST:PORT` for TCP, `tls:HOST:PORT` for TLS over it (feature `tls`), `quic:HOST:PORT` for QUIC
/// (feature `quic`), `unix:PATH` for a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Address {
    /// A host's name or number and a port.
    Tcp(String),
    /// The same, for TLS over TCP.
    #[cfg(feature = "tls")]
    Tls(String),
    /// A host's name or number and a port of UDP, for QUIC.
    #[cfg(feature = "quic")]
    Quic(String),
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
        if let Some(host) = text.strip_prefix("tls:") {
            #[cfg(feature = "tls")]
            if is_host(host) {
                return Ok(Self::Tls(host.to_owned()));
            }
            // Not to be taken for a host without TLS.
            if host.parse::<u16>().is_err() {
                return Err(ParseAddressError {
                    text: text.to_owned(),
                });
            }
        }
        if let Some(host) = text.strip_prefix("quic:") {
            #[cfg(feature = "quic")]
            if is_host(host) {
                return Ok(Self::Quic(host.to_owned()));
            }
            // Not to be taken for a host without TLS.
            if host.parse::<u16>().is_err() {
                return Err(ParseAddressError {
                    text: text.to_owned(),
                });
            }
        }
        if is_host(text) {
            Ok(Self::Tcp(text.to_owned()))
        } else {
            Err(ParseAddressError {
                text: text.to_owned(),
            })
        }
    }
}

/// Whether this is a host and a port.
fn is_host(text: &str) -> bool {
    let host = text
        .rsplit_once(':')
        .filter(|(_, port)| port.parse::<u16>().is_ok());
    host.is_some_and(|(host, _)| !host.is_empty())
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
            #[cfg(feature = "tls")]
            Self::Tls(address) => write!(f, "tls:{address}"),
            #[cfg(feature = "quic")]
            Self::Quic(address) => write!(f, "quic:{address}"),
            #[cfg(unix)]
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an address (HOST:PORT, tls:HOST:PORT, quic:HOST:PORT or unix:PATH)")]
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
        for text in [
            "",
            "localhost",
            ":80",
            "localhost:99999",
            "unix:",
            "tls::80",
            "quic::80",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_with_tls_is_never_taken_for_one_without() {
        for text in ["tls:localhost:1", "tls:[::1]:9000"] {
            let address = text.parse::<Address>();
            assert_eq!(address.is_ok(), cfg!(feature = "tls"), "{text}");
            if let Ok(address) = address {
                assert_eq!(address.to_string(), text);
                assert!(!matches!(address, Address::Tcp(_)), "{text}");
            }
        }
        // A host may be called so.
        for text in ["quic:localhost:1", "quic:[::1]:9000"] {
            let address = text.parse::<Address>();
            assert_eq!(address.is_ok(), cfg!(feature = "quic"), "{text}");
            if let Ok(address) = address {
                assert_eq!(address.to_string(), text);
                assert!(!matches!(address, Address::Tcp(_)), "{text}");
            }
        }
        for text in ["tls:80", "quic:80"] {
            let host = text.parse::<Address>();
            assert_eq!(host, Ok(Address::Tcp(text.to_owned())));
        }
    }
}
