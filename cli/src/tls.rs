//! Certificates on the command line.

use std::path::PathBuf;

use clap::Args;
use tautline::transport::{
    Address, ClientAuth, ClientTls, Node, NodeConfig, ServerTls, TlsConfigError, TlsIdentity,
    TlsRoots,
};

use crate::failure::{Failure, say, tell};

#[derive(Debug, Args)]
pub(crate) struct TlsArguments {
    /// This side's certificate with those between it and its root: PEM. For addresses such as tls:HOST:PORT.
    #[arg(long = "tls-cert", value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The certificate's private key: PEM, not encrypted.
    #[arg(long = "tls-key", value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Certificates of the authorities whom the other side's must come from: PEM. Who listens lets nobody else in with
    /// it, and without it anybody.
    #[arg(long = "tls-ca", value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// Whether TLS is spoken there.
const fn is_secured(address: &Address) -> bool {
    matches!(address, Address::Tls(_) | Address::Quic(_))
}

impl TlsArguments {
    /// Whether `address` is one with TLS; what is given must fit that.
    fn is_for(&self, address: &Address) -> Result<bool, Failure> {
        let is_tls = is_secured(address);
        if !is_tls && (self.cert.is_some() || self.ca.is_some()) {
            return Err(Failure::Error(format!(
                "{address} is without TLS: certificates are for addresses such as tls:HOST:PORT or quic:HOST:PORT"
            )));
        }
        Ok(is_tls)
    }

    fn identity(&self) -> Result<Option<TlsIdentity>, TlsConfigError> {
        let files = self.cert.as_ref().zip(self.key.as_ref());
        files
            .map(|(certificates, key)| TlsIdentity::from_pem_files(certificates, key))
            .transpose()
    }

    fn roots(&self) -> Result<Option<TlsRoots>, TlsConfigError> {
        self.ca.as_ref().map(TlsRoots::from_pem_file).transpose()
    }

    fn server(&self) -> Result<ServerTls, Failure> {
        let identity = self.identity()?.ok_or_else(|| {
            Failure::Error("to listen with TLS takes --tls-cert and --tls-key".to_owned())
        })?;
        let clients = match self.roots()? {
            Some(roots) => ClientAuth::Required(roots),
            None => ClientAuth::None,
        };
        Ok(ServerTls::new(identity).clients(clients))
    }

    /// `config` with what listening at `address` takes.
    pub(crate) fn listening(
        &self,
        address: &Address,
        config: NodeConfig,
    ) -> Result<NodeConfig, Failure> {
        Ok(if self.is_for(address)? {
            config.server_tls(self.server()?)
        } else {
            config
        })
    }

    /// `config` with what connecting to `address` takes, where its certificate may have another `name`.
    pub(crate) fn connecting(
        &self,
        address: &Address,
        name: Option<&str>,
        config: NodeConfig,
    ) -> Result<NodeConfig, Failure> {
        if !self.is_for(address)? {
            return Ok(config);
        }
        let roots = self
            .roots()?
            .ok_or_else(|| Failure::Error("to connect with TLS takes --tls-ca".to_owned()))?;
        let mut tls = ClientTls::new(roots);
        if let Some(identity) = self.identity()? {
            tls = tls.identity(identity);
        }
        if let Some(name) = name {
            tls = tls.server_name(name)?;
        }
        Ok(config.client_tls(tls))
    }

    /// Reads the files again, for who connects from now on. What cannot be used leaves all as it was.
    pub(crate) fn reload(&self, node: &Node) -> Result<(), Failure> {
        let read = self
            .server()
            .and_then(|tls| node.set_server_tls(tls).map_err(Failure::from));
        match read {
            Ok(()) => say!("the certificates were read again"),
            Err(Failure::Error(text)) => {
                tell!("tautline: {text}; the certificates stay as they were");
                Ok(())
            }
            Err(failure) => Err(failure),
        }
    }
}

/// Waits for the user's word (SIGHUP) that certificates have changed. Without TLS, the signal does what it always does.
pub(crate) struct Changes {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Changes {
    pub(crate) fn at(address: &Address) -> std::io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let is_tls = is_secured(address);
            let signal = is_tls.then(|| signal(SignalKind::hangup())).transpose()?;
            Ok(Self { signal })
        }
        #[cfg(not(unix))]
        {
            let _ = address;
            Ok(Self {})
        }
    }

    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}
