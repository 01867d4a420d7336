//! Certificates made for a test.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use tautline::session::SessionConfig;
use tautline::transport::rustls::pki_types::CertificateDer;
use tautline::transport::{
    ClientAuth, ClientTls, Connection, Listener, Node, NodeConfig, ServerTls, TlsIdentity, TlsRoots,
};

use crate::support::within;

/// Who signs certificates.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new() -> Self {
        Self::named("ours")
    }

    pub(super) fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        Self { issuer }
    }

    pub(super) fn root_pem(&self) -> String {
        self.issuer.pem()
    }

    pub(super) fn roots(&self) -> TlsRoots {
        TlsRoots::from_pem(self.root_pem().as_bytes()).expect("a root")
    }

    /// An identity with a new key.
    pub(super) fn identity(&self, name: &str) -> TlsIdentity {
        let key = KeyPair::generate().expect("a key");
        self.identity_of(name, &key, None)
    }

    /// An identity with this key, valid up to a year.
    pub(super) fn identity_of(&self, name: &str, key: &KeyPair, until: Option<i32>) -> TlsIdentity {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        if let Some(year) = until {
            params.not_after = date_time_ymd(year, 1, 1);
        }
        let certificate = params.signed_by(key, &self.issuer).expect("a certificate");
        let chain = vec![certificate.der().to_vec()];
        TlsIdentity::from_der(chain, &key.serialize_der()).expect("an identity")
    }

    /// A certificate of this authority for a client that is made by hand.
    pub(super) fn certify(&self, name: &str, key: &KeyPair) -> CertificateDer<'static> {
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let certificate = params.signed_by(key, &self.issuer).expect("a certificate");
        certificate.der().clone()
    }

    /// Settings of a client that knows this authority, and has no name.
    pub(super) fn client(&self) -> ClientTls {
        ClientTls::new(self.roots())
            .server_name("localhost")
            .expect("a name")
    }

    pub(super) fn server(&self) -> ServerTls {
        ServerTls::new(self.identity("localhost"))
    }

    /// Settings of a server that lets nobody else in but those whom this authority knows.
    pub(super) fn mutual(&self) -> ServerTls {
        self.server().clients(ClientAuth::Required(self.roots()))
    }
}

pub(super) fn client_node(session: SessionConfig, tls: ClientTls) -> Node {
    let config = NodeConfig::default().session(session).guard(None);
    Node::new(config.client_tls(tls)).expect("a node")
}

pub(super) fn server_node(session: SessionConfig, tls: ServerTls) -> Node {
    let config = NodeConfig::default().session(session).guard(None);
    Node::new(config.server_tls(tls)).expect("a node")
}

pub(super) async fn listen_tls(node: &Node) -> Listener {
    let address = "tls:127.0.0.1:0".parse().expect("an address");
    node.listen(&address).await.expect("a listener")
}

/// Both ends of a new connection.
pub(super) async fn pair(client: &Node, listener: &Listener) -> (Connection, Connection) {
    let address = listener.local_address().expect("an address");
    let (client, server) =
        within(async { tokio::join!(client.connect(&address), listener.accept()) }).await;
    (client.expect("a connection"), server.expect("a connection"))
}
