//! Why TLS cannot be set up, or fails with a peer.

use std::io;
use std::path::PathBuf;

use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem;

/// Why certificates, keys or names cannot be used: this side's mistake.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsConfigError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<Self>,
    },
    /// What should be PEM is damaged.
    #[error("not well-formed PEM: {0}")]
    Pem(pem::Error),
    /// There is no certificate.
    #[error("no certificate in it")]
    NoCertificate,
    /// There is no private key.
    #[error("no private key in it (an encrypted one is not read)")]
    NoKey,
    /// The key belongs to another certificate.
    #[error("the private key is not that of the certificate")]
    KeyMismatch,
    /// What should be the name of a server is none.
    #[error("`{given}` is neither a DNS name nor an IP address")]
    ServerName {
        /// As given.
        given: String,
    },
    /// A certificate or key that rustls cannot use.
    #[error(transparent)]
    Rustls(rustls::Error),
}

impl TlsConfigError {
    pub(super) fn in_file(self, path: &std::path::Path) -> Self {
        Self::File {
            path: path.to_owned(),
            source: Box::new(self),
        }
    }
}

impl From<rustls::Error> for TlsConfigError {
    fn from(error: rustls::Error) -> Self {
        use rustls::InconsistentKeys::KeyMismatch;
        match error {
            rustls::Error::InconsistentKeys(KeyMismatch) => Self::KeyMismatch,
            error => Self::Rustls(error),
        }
    }
}

/// Why TLS with a peer failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// As rustls says: the peer's certificate is not accepted (`InvalidCertificate`), or the peer does not accept this side
    /// (`AlertReceived`), or what came is not TLS (`InvalidMessage`), or was changed on its way (`DecryptError`).
    #[error("TLS: {0}")]
    Rustls(rustls::Error),
    /// This side does not accept the peer, in QUIC; `alert` is what the peer is told.
    #[cfg(feature = "quic")]
    #[error("TLS: {reason} (the peer was told {alert:?})")]
    Refused {
        /// What the peer is told.
        alert: rustls::AlertDescription,
        /// As rustls says, in words.
        reason: String,
    },
    /// The peer speaks TLS, but has not agreed to speak tautline in it (ALPN).
    #[error("TLS: the peer did not agree to speak tautline (ALPN)")]
    Protocol,
    /// The address to connect to has no name to look for in the server's certificate.
    #[error("TLS: `{given}` is neither a DNS name nor an IP address")]
    ServerName {
        /// The host of the address.
        given: String,
    },
}

impl TlsError {
    /// What rustls says, if it is behind this.
    pub(super) fn behind(error: &io::Error) -> Option<Self> {
        let inner = error.get_ref()?.downcast_ref::<rustls::Error>()?;
        Some(Self::Rustls(inner.clone()))
    }
}
