//! Who this side is, and whom it trusts.

use core::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::{ALPN, TlsConfigError};

/// ring: it builds with the C compiler that other dependencies need too, where aws-lc-rs, rustls's own default, brings a far
/// larger C library.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn read(path: &Path) -> Result<Vec<u8>, TlsConfigError> {
    fs::read(path).map_err(|source| TlsConfigError::Read {
        path: path.to_owned(),
        source,
    })
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(TlsConfigError::Pem)
}

/// A certificate with the chain to its root, and its private key: what a side proves its identity with.
#[derive(Clone)]
pub struct TlsIdentity {
    key: Arc<CertifiedKey>,
}

/// The key is not printed.
impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsIdentity({} certificates)", self.key.cert.len())
    }
}

impl TlsIdentity {
    /// Reads two files of PEM: the certificate, followed by those between it and its root, and the key (PKCS #8, SEC 1 or
    /// PKCS #1, not encrypted). One file may hold both.
    ///
    /// # Errors
    ///
    /// A file cannot be read or does not hold what it should, or the key is another certificate's. Whether the certificate
    /// is valid today is for the peer to judge.
    pub fn from_pem_files(
        certificates: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Self, TlsConfigError> {
        let (at, key_at) = (certificates.as_ref(), key.as_ref());
        let chain = chain(&read(at)?).map_err(|error| error.in_file(at))?;
        let key = private_key(&read(key_at)?).map_err(|error| error.in_file(key_at))?;
        Self::from_parts(chain, key)
    }

    /// As [`Self::from_pem_files`], of what such files hold.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsConfigError> {
        Self::from_parts(chain(certificates)?, private_key(key)?)
    }

    /// As [`Self::from_pem_files`], of certificates and a key in DER.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn from_der(certificates: Vec<Vec<u8>>, key: &[u8]) -> Result<Self, TlsConfigError> {
        if certificates.is_empty() {
            return Err(TlsConfigError::NoCertificate);
        }
        let key = PrivateKeyDer::try_from(key).map_err(|_| TlsConfigError::NoKey)?;
        let chain = certificates.into_iter().map(CertificateDer::from).collect();
        Self::from_parts(chain, key.clone_key())
    }

    fn from_parts(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, TlsConfigError> {
        let key = CertifiedKey::from_der(chain, key, &provider())?;
        Ok(Self { key: Arc::new(key) })
    }
}

fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    let chain = certificates(pem)?;
    if chain.is_empty() {
        return Err(TlsConfigError::NoCertificate);
    }
    Ok(chain)
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsConfigError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsConfigError::NoKey,
        error => TlsConfigError::Pem(error),
    })
}

/// Certificates of authorities: who has one that they have signed is who it says. None are trusted but these; those of the system
/// are in a file, on most systems `/etc/ssl/certs/ca-certificates.crt`.
#[derive(Clone, Debug)]
pub struct TlsRoots {
    store: Arc<RootCertStore>,
}

impl TlsRoots {
    /// Reads a file of PEM with one or more certificates.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or does not hold certificates that can be used.
    pub fn from_pem_file(path: impl AsRef<Path>) -> Result<Self, TlsConfigError> {
        let path = path.as_ref();
        Self::from_pem(&read(path)?).map_err(|error| error.in_file(path))
    }

    /// As [`Self::from_pem_file`], of what such a file holds.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn from_pem(pem: &[u8]) -> Result<Self, TlsConfigError> {
        Self::from_certificates(certificates(pem)?)
    }

    /// As [`Self::from_pem_file`], of certificates in DER.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn from_der(certificates: Vec<Vec<u8>>) -> Result<Self, TlsConfigError> {
        Self::from_certificates(certificates.into_iter().map(CertificateDer::from).collect())
    }

    fn from_certificates(
        certificates: Vec<CertificateDer<'static>>,
    ) -> Result<Self, TlsConfigError> {
        let mut store = RootCertStore::empty();
        for certificate in certificates {
            store.add(certificate)?;
        }
        if store.is_empty() {
            return Err(TlsConfigError::NoCertificate);
        }
        Ok(Self {
            store: Arc::new(store),
        })
    }
}

/// How a node connects to `tls:` addresses, and to `quic:` ones.
#[derive(Clone, Debug)]
pub struct ClientTls {
    roots: TlsRoots,
    identity: Option<TlsIdentity>,
    server_name: Option<ServerName<'static>>,
}

impl ClientTls {
    /// Connects to servers whose certificate comes from one of `roots` and names the host of the address.
    pub const fn new(roots: TlsRoots) -> Self {
        Self {
            roots,
            identity: None,
            server_name: None,
        }
    }

    /// Proves to servers that ask for it who this side is. Default: connects without a name.
    #[must_use]
    pub fn identity(mut self, identity: TlsIdentity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Looks for this DNS name or IP address in the server's certificate, whatever the host of the address is.
    ///
    /// # Errors
    ///
    /// It is neither.
    pub fn server_name(mut self, name: &str) -> Result<Self, TlsConfigError> {
        let given = || name.to_owned();
        self.server_name = Some(
            ServerName::try_from(given())
                .map_err(|_| TlsConfigError::ServerName { given: given() })?,
        );
        Ok(self)
    }

    pub(super) fn build(self) -> Result<ClientSetup, TlsConfigError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(self.roots.store);
        let mut config = match self.identity {
            Some(identity) => {
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity.key)))
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        // Every connection judges the other side's certificate anew.
        config.resumption = Resumption::disabled();
        Ok(ClientSetup {
            config: Arc::new(config),
            server_name: self.server_name,
        })
    }
}

/// [`ClientTls`] as connections use it.
#[derive(Clone, Debug)]
pub(in crate::transport) struct ClientSetup {
    pub(in crate::transport) config: Arc<ClientConfig>,
    pub(in crate::transport) server_name: Option<ServerName<'static>>,
}

/// Whether those who connect must prove who they are.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum ClientAuth {
    /// They are not asked, and have no [`PeerIdentity`](crate::transport::PeerIdentity).
    #[default]
    None,
    /// They may, with a certificate from one of these; who shows a wrong one is refused.
    Optional(TlsRoots),
    /// They must, with a certificate from one of these.
    Required(TlsRoots),
}

/// How a node listens on `tls:` addresses, and on `quic:` ones.
#[derive(Clone, Debug)]
pub struct ServerTls {
    identity: TlsIdentity,
    clients: ClientAuth,
}

impl ServerTls {
    /// Proves to who connects that it is `identity`.
    pub const fn new(identity: TlsIdentity) -> Self {
        Self {
            identity,
            clients: ClientAuth::None,
        }
    }

    /// Whether those who connect must prove who they are (mutual authentication). Default: they are not asked.
    #[must_use]
    pub fn clients(mut self, clients: ClientAuth) -> Self {
        self.clients = clients;
        self
    }

    pub(super) fn build(self) -> Result<Arc<ServerConfig>, TlsConfigError> {
        let verifier =
            |roots: TlsRoots| WebPkiClientVerifier::builder_with_provider(roots.store, provider());
        // No lists of revoked certificates are given, so that only the lack of roots could be refused.
        let failed = |_| TlsConfigError::NoCertificate;
        let verifier = match self.clients {
            ClientAuth::None => WebPkiClientVerifier::no_client_auth(),
            ClientAuth::Optional(roots) => verifier(roots)
                .allow_unauthenticated()
                .build()
                .map_err(failed)?,
            ClientAuth::Required(roots) => verifier(roots).build().map_err(failed)?,
        };
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(self.identity.key)));
        config.alpn_protocols = vec![ALPN.to_vec()];
        // Every connection judges the other side's certificate anew, and sees the current one of this side.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    /// A certificate and its key, in PEM.
    fn made(name: &str) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    #[test]
    fn an_identity_may_come_from_one_file() {
        let (certificate, key) = made("a.example");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("both.pem");
        fs::write(&path, format!("{key}{certificate}")).expect("a file");
        let identity = TlsIdentity::from_pem_files(&path, &path).expect("an identity");
        let text = format!("{identity:?}");
        assert_eq!(text, "TlsIdentity(1 certificates)");
        let config = ServerTls::new(identity).build().expect("a configuration");
        assert_eq!(config.alpn_protocols, [ALPN.to_vec()]);
    }

    #[test]
    fn files_that_do_not_fit_are_told_apart() {
        let ((certificate, key), (other, _)) = (made("a.example"), made("b.example"));
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("a file");
            path
        };
        let good = file("good", &certificate);
        let good_key = file("key", &key);
        let load = |certificates: &Path, key: &Path| {
            TlsIdentity::from_pem_files(certificates, key).expect_err("an error")
        };
        let missing = folder.path().join("missing");
        for (error, at) in [
            (load(&missing, &good_key), &missing),
            (load(&good, &missing), &missing),
        ] {
            assert!(error.to_string().contains("missing"), "{error}");
            let TlsConfigError::Read { path, source } = error else {
                panic!("{error}");
            };
            assert_eq!(
                (&path, source.kind()),
                (at, std::io::ErrorKind::NotFound),
                "{source}"
            );
        }
        let inside = |error: TlsConfigError| match error {
            TlsConfigError::File { path, source } => (path, *source),
            other => panic!("{other}"),
        };
        let (path, error) = inside(load(&good_key, &good_key));
        assert!(matches!(error, TlsConfigError::NoCertificate), "{error}");
        assert_eq!(path, good_key);
        for empty in [&good, &file("empty", ""), &file("noise", "\0\u{ff}\n-----")] {
            let (path, error) = inside(load(&good, empty));
            assert!(matches!(error, TlsConfigError::NoKey), "{error}");
            assert_eq!(path, *empty);
        }
        let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        let (_, error) = inside(load(&good, &file("encrypted", &encrypted)));
        assert!(matches!(error, TlsConfigError::NoKey), "{error}");
        let cut = file("cut", &key[..key.len() / 2]);
        let (_, error) = inside(load(&good, &cut));
        assert!(matches!(error, TlsConfigError::Pem(_)), "{error}");
        let error = load(&file("other", &other), &good_key);
        assert!(matches!(error, TlsConfigError::KeyMismatch), "{error}");
        let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let error = load(&file("junk", junk), &good_key);
        assert!(matches!(error, TlsConfigError::Rustls(_)), "{error}");
        let junk_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        let error = load(&good, &file("junk key", junk_key));
        assert!(matches!(error, TlsConfigError::Rustls(_)), "{error}");
    }

    #[test]
    fn roots_and_names_that_are_none_are_refused() {
        let (certificate, key) = made("a.example");
        let error = TlsRoots::from_pem(key.as_bytes()).expect_err("no certificate");
        assert!(matches!(error, TlsConfigError::NoCertificate), "{error}");
        let error = TlsRoots::from_der(vec![vec![1, 2, 3]]).expect_err("no certificate");
        assert!(matches!(error, TlsConfigError::Rustls(_)), "{error}");
        let error = TlsIdentity::from_der(Vec::new(), &[]).expect_err("nothing");
        assert!(matches!(error, TlsConfigError::NoCertificate), "{error}");
        let error = TlsIdentity::from_der(vec![vec![1]], &[1, 2]).expect_err("no key");
        assert!(matches!(error, TlsConfigError::NoKey), "{error}");
        let roots = TlsRoots::from_pem(certificate.as_bytes()).expect("a root");
        for name in ["", "a b", "*", "256.1.1.1.1:7"] {
            let error = ClientTls::new(roots.clone()).server_name(name);
            let error = error.expect_err("no name");
            assert!(
                matches!(&error, TlsConfigError::ServerName { given } if given == name),
                "{error}"
            );
        }
    }
}
