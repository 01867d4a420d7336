//! TLS: who is let in, what is said of who is not, and what arrives.

mod attacks;
mod authority;
#[cfg(all(feature = "generate", feature = "zstd"))]
mod known;
#[cfg(feature = "quic")]
mod quic;
#[cfg(feature = "relay")]
mod resume;
mod stolen;

use std::time::Duration;

use rcgen::{KeyPair, PublicKeyData as _};
use sha2::{Digest, Sha256};
use tautline::session::{Limits, SessionConfig, SessionError};
use tautline::transport::rustls::{AlertDescription, CertificateError, Error as RustlsError};
use tautline::transport::{
    Address, ClientAuth, ClientTls, ConnectError, Connection, Listener, Node, ServerTls, TlsError,
};
use tokio::net::TcpStream;

use self::authority::{Authority, client_node, listen_tls, pair, server_node};
use super::support::{accept, listen, next, node, numbered, open, payloads, within};

/// What rustls says to a node that connects in vain, and to the listener.
async fn refused(client: &Node, listener: &Listener) -> (RustlsError, RustlsError) {
    let address = listener.local_address().expect("an address");
    let (connected, accepted) =
        within(async { tokio::join!(client.connect(&address), listener.accept()) }).await;
    let error = connected.expect_err("a client that is refused");
    let accepted = accepted.expect("a connection");
    let behind = within(accepted.established()).await;
    assert_eq!(
        within(accepted.closed()).await,
        Err(SessionError::ConnectionLost)
    );
    assert_eq!(accepted.peer_identity(), None);
    (
        reason(error, &address.to_string()),
        reason(behind.expect_err("a failed handshake"), accepted.peer()),
    )
}

fn reason(error: ConnectError, expected: &str) -> RustlsError {
    assert!(error.to_string().starts_with(expected), "{error}");
    match error {
        ConnectError::Tls {
            source: TlsError::Rustls(error),
            ..
        } => error,
        error => panic!("{error:?}"),
    }
}

/// A message from either end to the other.
async fn exchange(client: &Connection, server: &Connection) {
    let left = open(client, "s").await;
    let right = accept(server).await;
    within(left.send("to the right".into()))
        .await
        .expect("room");
    assert_eq!(next(&right).await, Some("to the right".into()));
    within(right.send("to the left".into()))
        .await
        .expect("room");
    assert_eq!(next(&left).await, Some("to the left".into()));
}

/// Sends so many messages and a large one from one end to the other and back, all of which come as they were sent; `at` is told
/// the number of each that has come.
async fn echo(
    client: &Connection,
    server: &Connection,
    (count, large): (usize, usize),
    at: impl Fn(usize),
) {
    let stream = open(client, "s").await;
    let messages = || payloads(1, count, 20_000).chain([numbered(7, large), bytes::Bytes::new()]);
    let back = async {
        let stream = accept(server).await;
        while let Some(message) = next(&stream).await {
            within(stream.send(message)).await.expect("room");
        }
    };
    let send = async {
        for message in messages() {
            within(stream.send(message)).await.expect("room");
        }
        stream.finish();
    };
    let receive = async {
        for (number, expected) in messages().enumerate() {
            let received = next(&stream).await.expect("an echo");
            assert!(received == expected, "message {number} differs");
            at(number);
        }
        assert_eq!(next(&stream).await, None);
    };
    tokio::join!(back, send, receive);
}

#[tokio::test]
async fn everything_arrives_as_it_was_sent_and_both_know_with_whom_they_speak() {
    const COUNT: usize = 3000;
    let authority = Authority::new();
    let keys = [0, 1].map(|_| KeyPair::generate().expect("a key"));
    let [client_key, server_key] = &keys;
    let tls = ServerTls::new(authority.identity_of("localhost", server_key, None))
        .clients(ClientAuth::Required(authority.roots()));
    let listener = listen_tls(&server_node(SessionConfig::default(), tls)).await;
    let tls = authority
        .client()
        .identity(authority.identity_of("somebody", client_key, None));
    let client = client_node(SessionConfig::default(), tls);
    let (client, server) = pair(&client, &listener).await;

    let hash = |key: &KeyPair| <[u8; 32]>::from(Sha256::digest(key.subject_public_key_info()));
    within(server.established()).await.expect("a handshake");
    let of_client = server.peer_identity().expect("a client with a name");
    assert_eq!(*of_client.as_bytes(), hash(client_key));
    let of_server = client.peer_identity().expect("a server with a name");
    assert_eq!(*of_server.as_bytes(), hash(server_key));

    echo(&client, &server, (COUNT, 3_000_000), |_| {}).await;
    let stats = within(client.stats()).await.expect("open");
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let sample = stats.socket.expect("the system is asked");
        assert!(
            sample.acknowledged > Some(stats.wire_sent / 2),
            "{sample:?}"
        );
    }
    assert!(stats.wire_sent > 0);
    let (a, b) = within(async { tokio::join!(client.close(), server.close()) }).await;
    assert_eq!((a, b), (Ok(()), Ok(())));
    assert_eq!((client.tls_failure(), server.tls_failure()), (None, None));
}

#[tokio::test]
async fn a_server_that_is_not_who_it_should_be_is_refused() {
    let (authority, stranger) = (Authority::new(), Authority::named("theirs"));
    let key = KeyPair::generate().expect("a key");
    let trusting = client_node(SessionConfig::default(), authority.client());
    let server = |identity| async {
        listen_tls(&server_node(
            SessionConfig::default(),
            ServerTls::new(identity),
        ))
        .await
    };

    let listener = server(authority.identity("elsewhere.example")).await;
    let (told, heard) = refused(&trusting, &listener).await;
    assert!(
        matches!(
            told,
            RustlsError::InvalidCertificate(CertificateError::NotValidForNameContext { .. })
        ),
        "{told}"
    );
    assert!(matches!(heard, RustlsError::AlertReceived(_)), "{heard}");

    // The address's host is what is looked for, unless another name is set.
    let listener = server(authority.identity("localhost")).await;
    let by_address = ClientTls::new(authority.roots());
    let (told, _) = refused(
        &client_node(SessionConfig::default(), by_address.clone()),
        &listener,
    )
    .await;
    assert!(told.to_string().contains("127.0.0.1"), "{told}");
    let listener = server(authority.identity("127.0.0.1")).await;
    let (client, server_end) = pair(
        &client_node(SessionConfig::default(), by_address),
        &listener,
    )
    .await;
    exchange(&client, &server_end).await;

    let listener = server(stranger.identity("localhost")).await;
    let (told, heard) = refused(&trusting, &listener).await;
    assert_eq!(
        told,
        RustlsError::InvalidCertificate(CertificateError::UnknownIssuer)
    );
    assert_eq!(
        heard,
        RustlsError::AlertReceived(AlertDescription::UnknownCA)
    );

    let listener = server(authority.identity_of("localhost", &key, Some(2001))).await;
    let (told, heard) = refused(&trusting, &listener).await;
    assert!(
        matches!(
            told,
            RustlsError::InvalidCertificate(CertificateError::ExpiredContext { .. })
        ),
        "{told}"
    );
    assert_eq!(
        heard,
        RustlsError::AlertReceived(AlertDescription::CertificateExpired)
    );
}

#[tokio::test]
async fn clients_are_let_in_as_the_server_says() {
    let (authority, stranger) = (Authority::new(), Authority::named("theirs"));
    let nobody = client_node(SessionConfig::default(), authority.client());
    let node = |identity| {
        client_node(
            SessionConfig::default(),
            authority.client().identity(identity),
        )
    };
    let known = node(authority.identity("known"));
    let unknown = node(stranger.identity("unknown"));
    let listener = listen_tls(&server_node(SessionConfig::default(), authority.mutual())).await;
    let (told, why) = refused(&nobody, &listener).await;
    assert_eq!(why, RustlsError::NoCertificatesPresented);
    assert_eq!(
        told,
        RustlsError::AlertReceived(AlertDescription::CertificateRequired)
    );
    let (told, why) = refused(&unknown, &listener).await;
    assert_eq!(
        why,
        RustlsError::InvalidCertificate(CertificateError::UnknownIssuer)
    );
    assert_eq!(
        told,
        RustlsError::AlertReceived(AlertDescription::UnknownCA)
    );
    let (client, server) = pair(&known, &listener).await;
    exchange(&client, &server).await;
    assert!(server.peer_identity().is_some());

    let optional = ClientAuth::Optional(authority.roots());
    let optional = server_node(
        SessionConfig::default(),
        authority.server().clients(optional),
    );
    let listener = listen_tls(&optional).await;
    let (_, why) = refused(&unknown, &listener).await;
    assert_eq!(
        why,
        RustlsError::InvalidCertificate(CertificateError::UnknownIssuer)
    );
    for (node, is_known) in [(&nobody, false), (&known, true)] {
        let (client, server) = pair(node, &listener).await;
        exchange(&client, &server).await;
        assert_eq!(server.peer_identity().is_some(), is_known);
        assert!(client.peer_identity().is_some());
    }

    // A server that does not ask is not told.
    let listener = listen_tls(&server_node(SessionConfig::default(), authority.server())).await;
    let (client, server) = pair(&known, &listener).await;
    exchange(&client, &server).await;
    assert_eq!(server.peer_identity(), None);
}

#[tokio::test]
async fn certificates_are_replaced_while_connections_go_on() {
    let (old, new) = (Authority::new(), Authority::named("later"));
    let key = KeyPair::generate().expect("a key");
    let server = server_node(SessionConfig::default(), old.server());
    let listener = listen_tls(&server).await;
    let client = client_node(SessionConfig::default(), old.client());
    let (before, before_server) = pair(&client, &listener).await;
    exchange(&before, &before_server).await;

    let renewed = ServerTls::new(new.identity_of("localhost", &key, None));
    server.set_server_tls(renewed).expect("good settings");
    // The client must be told too.
    let (told, _) = refused(&client, &listener).await;
    assert_eq!(
        told,
        RustlsError::InvalidCertificate(CertificateError::UnknownIssuer)
    );
    client.set_client_tls(new.client()).expect("good settings");
    let (after, after_server) = pair(&client, &listener).await;
    exchange(&after, &after_server).await;
    let identity = after.peer_identity();
    assert!(identity.is_some() && identity != before.peer_identity());
    exchange(&before, &before_server).await;

    // With the same key, the server stays who it is.
    let renewed = ServerTls::new(new.identity_of("localhost", &key, Some(3000)));
    server.set_server_tls(renewed).expect("good settings");
    let (again, _again_server) = pair(&client, &listener).await;
    assert_eq!(again.peer_identity(), identity);

    // Who is let in is replaced with it.
    let strict =
        ServerTls::new(new.identity("localhost")).clients(ClientAuth::Required(new.roots()));
    server.set_server_tls(strict).expect("good settings");
    let (_, why) = refused(&client, &listener).await;
    assert_eq!(why, RustlsError::NoCertificatesPresented);
    exchange(&after, &after_server).await;
}

#[tokio::test]
async fn a_node_without_settings_says_so() {
    let node = node(SessionConfig::default());
    let address: Address = "tls:127.0.0.1:9".parse().expect("an address");
    let connected = within(node.connect(&address)).await.map(drop);
    let listened = within(node.listen(&address)).await.map(drop);
    for error in [connected, listened].map(Result::unwrap_err) {
        assert!(matches!(error, ConnectError::NoTls { .. }), "{error}");
        assert!(
            error.to_string().starts_with("tls:127.0.0.1:9: "),
            "{error}"
        );
    }
    let authority = Authority::new();
    let tls = ClientTls::new(authority.roots());
    let client = client_node(SessionConfig::default(), tls);
    let address = Address::Tls("not a name:9".to_owned());
    let error = within(client.connect(&address)).await.expect_err("no name");
    let expected = TlsError::ServerName {
        given: "not a name".to_owned(),
    };
    assert!(
        matches!(&error, ConnectError::Tls { source, .. } if *source == expected),
        "{error}"
    );
    // A setting that makes no sense is found before anybody connects.
    let server = server_node(
        SessionConfig::default().limits(Limits::default().max_block(1)),
        authority.server(),
    );
    let address = "tls:127.0.0.1:0".parse().expect("an address");
    let error = within(server.listen(&address))
        .await
        .expect_err("a setting");
    assert!(matches!(error, ConnectError::Config(_)), "{error}");
}

#[tokio::test]
async fn plain_and_tls_do_not_mix() {
    let authority = Authority::new();
    let server = server_node(SessionConfig::default(), authority.server());
    let client = client_node(SessionConfig::default(), authority.client());

    let listener = listen_tls(&server).await;
    let Ok(Address::Tls(host)) = listener.local_address() else {
        panic!("a listener for TLS");
    };
    let plain = Address::Tcp(host);
    let (connected, accepted) =
        within(async { tokio::join!(client.connect(&plain), listener.accept()) }).await;
    let error = connected.expect_err("no handshake");
    assert!(
        matches!(
            &error,
            ConnectError::Handshake {
                source: SessionError::Peer(_),
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("TLS"), "{error}");
    let accepted = accepted.expect("a connection");
    let error = within(accepted.established()).await.expect_err("no TLS");
    let why = reason(error, accepted.peer());
    assert!(matches!(why, RustlsError::InvalidMessage(_)), "{why}");

    let listener = listen(&server).await;
    let host = listener.local_address().expect("an address").to_string();
    let (connected, accepted) = within(async {
        let tls = Address::Tls(host);
        tokio::join!(client.connect(&tls), listener.accept())
    })
    .await;
    let error = connected.expect_err("no TLS");
    let why = reason(error, "tls:127.0.0.1:");
    assert!(matches!(why, RustlsError::InvalidMessage(_)), "{why}");
    let accepted = accepted.expect("a connection");
    let error = within(accepted.closed()).await.expect_err("no handshake");
    assert!(matches!(error, SessionError::Peer(_)), "{error}");
    assert!(error.to_string().contains("TLS"), "{error}");
}

#[tokio::test]
async fn who_says_nothing_holds_nobody_up() {
    let authority = Authority::new();
    let client = client_node(SessionConfig::default(), authority.client());
    let server = server_node(SessionConfig::default(), authority.server());
    let listener = listen_tls(&server).await;
    let address = listener.local_address().expect("an address").to_string();
    let address = address.trim_start_matches("tls:");
    let mut silent = Vec::new();
    for _ in 0..20 {
        let socket = TcpStream::connect(address).await.expect("a socket");
        silent.push((socket, within(listener.accept()).await.expect("one")));
    }
    let (connected, accepted) = pair(&client, &listener).await;
    exchange(&connected, &accepted).await;
    drop(silent);
}

#[tokio::test]
async fn silence_is_given_up_and_so_many_handshakes_wait_at_once() {
    /// As the library has it.
    const MAX_HANDSHAKES: usize = 256;
    let limit = Duration::from_millis(300);
    let authority = Authority::new();
    let session = SessionConfig::default().limits(Limits::default().handshake_time(limit));
    let server = server_node(session, authority.server());
    let listener = listen_tls(&server).await;
    let address = listener.local_address().expect("an address").to_string();
    let address = address.trim_start_matches("tls:");
    let mut silent = Vec::new();
    for at in 0..=MAX_HANDSHAKES {
        let socket = TcpStream::connect(address).await.expect("a socket");
        let connection = within(listener.accept()).await.expect("a connection");
        if at == MAX_HANDSHAKES {
            let over = silent
                .iter()
                .filter(|(_, connection): &&(TcpStream, Connection)| {
                    use futures_util::FutureExt;
                    connection.closed().now_or_never().is_some()
                })
                .count();
            assert!(over > 0, "none was over, and another was let in");
        }
        silent.push((socket, connection));
    }
    for (_, connection) in &silent {
        let error = within(connection.established()).await.expect_err("silence");
        let expected = SessionError::HandshakeTimeout { limit };
        assert!(
            matches!(&error, ConnectError::Handshake { source, .. } if *source == expected),
            "{error}"
        );
        assert_eq!(within(connection.closed()).await, Err(expected));
    }
}
