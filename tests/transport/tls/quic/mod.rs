//! QUIC: what arrives, who is let in, and what a network may do to it.

mod lanes;
mod network;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures_util::FutureExt as _;
use quinn::crypto::rustls::QuicClientConfig;
use rcgen::{KeyPair, PublicKeyData as _};
use sha2::{Digest, Sha256};
use tautline::session::{Limits, SessionConfig, SessionError};
use tautline::transport::rustls::crypto::ring;
use tautline::transport::rustls::pki_types::CertificateDer;
use tautline::transport::rustls::pki_types::pem::PemObject as _;
use tautline::transport::rustls::{
    AlertDescription, ClientConfig, Error as RustlsError, RootCertStore,
};
use tautline::transport::{
    Address, ClientAuth, ClientTls, ConnectError, Connection, Listener, Node, NodeConfig,
    ResumeConfig, ServerTls, TlsError,
};

use self::network::{Network, Way};
use super::super::support::{accept, next, node, numbered, open, within};
use super::authority::{Authority, client_node, pair, server_node};
use super::{echo, exchange};

async fn listen_quic(node: &Node) -> Listener {
    let address = "quic:127.0.0.1:0".parse().expect("an address");
    node.listen(&address).await.expect("a listener")
}

/// Both ends of a connection that goes over a way of its own.
async fn pair_over(client: &Node, listener: &Listener) -> (Connection, Connection, Way) {
    let way = Way::to(&listener.local_address().expect("an address")).await;
    let (client, server) =
        within(async { tokio::join!(client.connect(&way.address), listener.accept()) }).await;
    let client = client.expect("a connection");
    (client, server.expect("a connection"), way)
}

async fn close(client: &Connection, server: &Connection) {
    let ends = within(async { tokio::join!(client.close(), server.close()) }).await;
    assert_eq!(ends, (Ok(()), Ok(())));
    assert_eq!((client.tls_failure(), server.tls_failure()), (None, None));
}

fn nodes(authority: &Authority) -> (Node, Node) {
    (
        client_node(SessionConfig::default(), authority.client()),
        server_node(SessionConfig::default(), authority.server()),
    )
}

/// The settings with sessions that outlive connections, a silent one of which counts as lost after `dead_after`, and that are given up
/// after `within`.
fn resumable(config: NodeConfig, dead_after: Duration, within: Duration) -> NodeConfig {
    let session = SessionConfig::default()
        .heartbeat(Some(dead_after / 8))
        .dead_after(Some(dead_after));
    let resume = ResumeConfig::default()
        .within(within)
        .wait(Duration::from_millis(1), Duration::from_millis(20));
    config.session(session).resume(Some(resume))
}

#[tokio::test]
async fn everything_arrives_as_it_was_sent_and_both_know_with_whom_they_speak() {
    let authority = Authority::new();
    let keys = [0, 1].map(|_| KeyPair::generate().expect("a key"));
    let [client_key, server_key] = &keys;
    let tls = ServerTls::new(authority.identity_of("localhost", server_key, None))
        .clients(ClientAuth::Required(authority.roots()));
    let listener = listen_quic(&server_node(SessionConfig::default(), tls)).await;
    let tls = authority
        .client()
        .identity(authority.identity_of("somebody", client_key, None));
    let client = client_node(SessionConfig::default(), tls);
    let (client, server) = pair(&client, &listener).await;
    within(server.established()).await.expect("a handshake");
    let hash = |key: &KeyPair| <[u8; 32]>::from(Sha256::digest(key.subject_public_key_info()));
    let of_client = server.peer_identity().expect("a client with a name");
    assert_eq!(*of_client.as_bytes(), hash(client_key));
    let of_server = client.peer_identity().expect("a server with a name");
    assert_eq!(*of_server.as_bytes(), hash(server_key));
    echo(&client, &server, (1000, 300_000), |_| {}).await;
    let stats = within(client.stats()).await.expect("open");
    assert!(stats.wire_sent > 0);
    let sample = stats.socket.expect("quinn is asked");
    assert!(sample.rtt.is_some() && sample.min_rtt <= sample.rtt);
    close(&client, &server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_network_loses_or_repeats_arrives_once() {
    let (client, server) = nodes(&Authority::new());
    let listener = listen_quic(&server).await;
    let (client, server, way) = pair_over(&client, &listener).await;
    way.network.send_replace(Network::Loses(20));
    echo(&client, &server, (300, 300_000), |_| {}).await;
    way.network.send_replace(Network::Carries);
    close(&client, &server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_goes_on_when_a_side_comes_from_another_port() {
    let (client, server) = nodes(&Authority::new());
    let listener = listen_quic(&server).await;
    let (client, server, way) = pair_over(&client, &listener).await;
    echo(&client, &server, (200, 300_000), |number| {
        if number % 60 == 30 {
            way.ports.send_modify(|changes| *changes += 1);
        }
    })
    .await;
    assert_eq!(*way.ports.borrow(), 3);
    // It was never made anew.
    assert_eq!(way.clients(), 1);
    close(&client, &server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_goes_on_over_another_connection_of_the_same_peer() {
    let authority = Authority::new();
    let config = || {
        let config = NodeConfig::default().guard(None);
        resumable(config, Duration::from_millis(400), Duration::from_secs(50))
    };
    let server = Node::new(config().server_tls(authority.mutual())).expect("a node");
    let listener = listen_quic(&server).await;
    let tls = authority.client().identity(authority.identity("somebody"));
    let client = Node::new(config().client_tls(tls)).expect("a node");
    let (client, server, way) = pair_over(&client, &listener).await;
    let (sending, receiving) = (open(&client, "s").await, accept(&server).await);
    let known = server.peer_identity();
    assert!(known.is_some());
    for number in 0..30_u32 {
        if number % 10 == 5 {
            let before = way.clients();
            way.network.send_replace(Network::Holds);
            within(sending.send(numbered(number, 5000)))
                .await
                .expect("room");
            within(async {
                while way.clients() == before {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
            .await;
            way.network.send_replace(Network::Carries);
        } else {
            within(sending.send(numbered(number, 5000)))
                .await
                .expect("room");
        }
        assert_eq!(next(&receiving).await, Some(numbered(number, 5000)));
    }
    assert!(way.clients() > 3);
    assert_eq!(server.peer_identity(), known);
    within(client.close()).await.expect("a clean close");
    within(server.closed()).await.expect("a clean close");
}

/// What a node that connects in vain is told, and the listener.
async fn refused(client: &Node, listener: &Listener) -> (TlsError, TlsError) {
    let address = listener.local_address().expect("an address");
    let (connected, accepted) =
        within(async { tokio::join!(client.connect(&address), listener.accept()) }).await;
    let told = reason(connected.expect_err("a client that is refused"));
    let accepted = accepted.expect("a connection");
    let why = reason(
        within(accepted.established())
            .await
            .expect_err("a failed handshake"),
    );
    assert_eq!(
        within(accepted.closed()).await,
        Err(SessionError::ConnectionLost)
    );
    assert_eq!(accepted.peer_identity(), None);
    (told, why)
}

fn reason(error: ConnectError) -> TlsError {
    match error {
        ConnectError::Tls { source, .. } => source,
        error => panic!("{error:?}"),
    }
}

/// As who refuses says it, and as who is refused hears it.
fn assert_refusal(says: &TlsError, hears: &TlsError, expected: AlertDescription) {
    let TlsError::Refused { alert, reason } = says else {
        panic!("{says:?}");
    };
    assert!(*alert == expected && !reason.is_empty(), "{says}");
    let told = TlsError::Rustls(RustlsError::AlertReceived(expected));
    assert_eq!(*hears, told);
}

#[tokio::test]
async fn who_is_not_who_it_should_be_is_refused() {
    let (authority, stranger) = (Authority::new(), Authority::named("theirs"));
    let trusting = client_node(SessionConfig::default(), authority.client());
    let server = |identity| async {
        let tls = ServerTls::new(identity);
        listen_quic(&server_node(SessionConfig::default(), tls)).await
    };
    let listener = server(stranger.identity("localhost")).await;
    let (refuses, hears) = refused(&trusting, &listener).await;
    assert_refusal(&refuses, &hears, AlertDescription::UnknownCA);
    let listener = server(authority.identity("elsewhere.example")).await;
    let (refuses, hears) = refused(&trusting, &listener).await;
    assert_refusal(&refuses, &hears, AlertDescription::BadCertificate);

    // The address's host is what is looked for, unless another name is set.
    let by_address = ClientTls::new(authority.roots());
    let by_address = client_node(SessionConfig::default(), by_address);
    let listener = server(authority.identity("127.0.0.1")).await;
    let (client, server_end) = pair(&by_address, &listener).await;
    exchange(&client, &server_end).await;

    let listener = listen_quic(&server_node(SessionConfig::default(), authority.mutual())).await;
    let (hears, refuses) = refused(&trusting, &listener).await;
    assert_refusal(&refuses, &hears, AlertDescription::CertificateRequired);
    let tls = authority.client().identity(stranger.identity("somebody"));
    let unknown = client_node(SessionConfig::default(), tls);
    let (hears, refuses) = refused(&unknown, &listener).await;
    assert_refusal(&refuses, &hears, AlertDescription::UnknownCA);
    let tls = authority.client().identity(authority.identity("somebody"));
    let known = client_node(SessionConfig::default(), tls);
    let (client, server) = pair(&known, &listener).await;
    exchange(&client, &server).await;
    assert!(server.peer_identity().is_some());
}

#[tokio::test]
async fn certificates_are_replaced_while_connections_go_on() {
    let (old, new) = (Authority::new(), Authority::named("later"));
    let (client, server) = nodes(&old);
    let listener = listen_quic(&server).await;
    let (before, before_server) = pair(&client, &listener).await;
    exchange(&before, &before_server).await;
    server
        .set_server_tls(new.server())
        .expect("settings that are good");
    // The client must be told too.
    let (refuses, hears) = refused(&client, &listener).await;
    assert_refusal(&refuses, &hears, AlertDescription::UnknownCA);
    client
        .set_client_tls(new.client())
        .expect("settings that are good");
    let (after, after_server) = pair(&client, &listener).await;
    exchange(&after, &after_server).await;
    assert_ne!(after.peer_identity(), before.peer_identity());
    exchange(&before, &before_server).await;
}

const ALPN: &[u8] = b"tautline-quic/2";

/// Connects with QUIC, and says no more than that it would speak `protocol`.
async fn silent(
    authority: &Authority,
    to: &Address,
    protocol: &[u8],
) -> Result<quinn::Connection, quinn::ConnectionError> {
    raw(authority, to, protocol, quinn::TransportConfig::default()).await
}

async fn raw(
    authority: &Authority,
    to: &Address,
    protocol: &[u8],
    transport: quinn::TransportConfig,
) -> Result<quinn::Connection, quinn::ConnectionError> {
    let Address::Quic(to) = to else {
        panic!("{to}");
    };
    let to: SocketAddr = to.parse().expect("a number");
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.root_pem().as_bytes()).expect("PEM");
    roots.add(root).expect("a root");
    let mut tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![protocol.to_vec()];
    let tls = QuicClientConfig::try_from(tls).expect("good settings");
    let any = "127.0.0.1:0".parse().expect("an address");
    let endpoint = quinn::Endpoint::client(any).expect("a socket");
    let mut config = quinn::ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport));
    let connecting = endpoint.connect_with(config, to, "localhost");
    within(connecting.expect("good settings")).await
}

#[tokio::test]
async fn who_says_nothing_is_given_up_and_holds_nobody_up() {
    let limit = Duration::from_millis(500);
    let authority = Authority::new();
    let session = SessionConfig::default().limits(Limits::default().handshake_time(limit));
    let server = server_node(session, authority.server());
    let listener = listen_quic(&server).await;
    let address = listener.local_address().expect("an address");
    let quiet = silent(&authority, &address, ALPN).await;
    let quiet = quiet.expect("a connection");
    let accepted = within(listener.accept()).await.expect("a connection");
    let error = within(accepted.established()).await.expect_err("silence");
    let expected = SessionError::HandshakeTimeout { limit };
    assert!(
        matches!(&error, ConnectError::Handshake { source, .. } if *source == expected),
        "{error}"
    );
    within(quiet.closed()).await;

    // No more streams than there may be lanes, and none of another kind, may be opened.
    let greedy = silent(&authority, &address, ALPN).await;
    let greedy = greedy.expect("a connection");
    let mut streams = within(greedy.open_bi()).await.expect("a stream");
    streams
        .0
        .write_all(b"GET / HTTP/1.1\r\n")
        .await
        .expect("room");
    let lanes: Vec<_> = (0..32).map(|_| greedy.open_bi().now_or_never()).collect();
    assert!(lanes.iter().all(Option::is_some));
    assert!(greedy.open_bi().now_or_never().is_none());
    assert!(greedy.open_uni().now_or_never().is_none());
    let accepted = within(listener.accept()).await.expect("a connection");
    let error = within(accepted.closed()).await.expect_err("no hello");
    assert!(matches!(error, SessionError::Peer(_)), "{error}");

    let other = silent(&authority, &address, b"h3").await;
    other.expect_err("another protocol");
    let accepted = within(listener.accept()).await.expect("a connection");
    let why = reason(
        within(accepted.established())
            .await
            .expect_err("no tautline"),
    );
    assert_eq!(why, TlsError::Protocol);

    // Datagrams that are no QUIC do nothing.
    let Address::Quic(to) = &address else {
        panic!("{address}");
    };
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0")
        .await
        .expect("a socket");
    let mut rng = Rng::with_seed(3);
    for _ in 0..300 {
        let len = rng.usize(..1400);
        let noise: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
        let _ = socket.send_to(&noise, to).await;
    }
    let client = client_node(SessionConfig::default(), authority.client());
    let (client, server) = pair(&client, &listener).await;
    exchange(&client, &server).await;
}

#[tokio::test]
async fn connections_go_on_without_their_listener() {
    let (client, server) = nodes(&Authority::new());
    let listener = listen_quic(&server).await;
    let address = listener.local_address().expect("an address");
    let (left, right) = pair(&client, &listener).await;
    drop(listener);
    let error = within(client.connect(&address)).await;
    let error = error.expect_err("nobody listens");
    assert!(
        matches!(&error, ConnectError::Handshake { source, .. } if *source == SessionError::ConnectionLost),
        "{error}"
    );
    exchange(&left, &right).await;
    close(&left, &right).await;
}

#[tokio::test]
async fn a_node_without_settings_says_so() {
    let node = node(SessionConfig::default());
    let address: Address = "quic:127.0.0.1:9".parse().expect("an address");
    let connected = within(node.connect(&address)).await.map(drop);
    let listened = within(node.listen(&address)).await.map(drop);
    for error in [connected, listened].map(Result::unwrap_err) {
        assert!(matches!(error, ConnectError::NoTls { .. }), "{error}");
        let text = error.to_string();
        assert!(text.starts_with("quic:127.0.0.1:9: "), "{text}");
    }
}
