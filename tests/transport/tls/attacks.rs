//! Peers and networks that do not keep to TLS.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tautline::control::PolicyConfig;
use tautline::session::{Limits, SessionConfig, SessionError};
use tautline::transport::rustls::crypto::ring;
use tautline::transport::rustls::pki_types::pem::PemObject as _;
use tautline::transport::rustls::pki_types::{CertificateDer, ServerName};
use tautline::transport::rustls::{ClientConfig, Error as RustlsError, RootCertStore};
use tautline::transport::{Address, Connection, Listener, RecvError, TlsError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::super::support::{accept, next, numbered, open, within};
use super::authority::{Authority, client_node, listen_tls, server_node};
use super::exchange;

/// What the network does with what goes to the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Carries,
    /// Nothing is carried in this direction.
    Holds,
    /// One bit is changed in what comes next.
    Damages,
    /// Both directions end as if the peers had ended them.
    Ends,
}

/// Carries bytes between whoever connects first and `to`.
fn relay(to: Address) -> (Address, watch::Sender<Network>) {
    let Address::Tls(to) = to else {
        panic!("{to}");
    };
    let (control, mut network) = watch::channel(Network::Carries);
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    // Little, so that what is held fills the sender's side soon.
    socket.set_recv_buffer_size(64 << 10).expect("an option");
    let any = "127.0.0.1:0".parse().expect("an address");
    socket.bind(any).expect("a port");
    let listener: TcpListener = socket.listen(1).expect("a listener");
    let here = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let (mut left, _) = listener.accept().await.expect("a connection");
        let mut right = TcpStream::connect(to).await.expect("a connection");
        let (mut to_right, mut to_left) = (vec![0; 4096], vec![0; 4096]);
        loop {
            let state = *network.borrow();
            if state == Network::Ends {
                // Sent as the end of a stream, not as a reset: all that came has been read.
                let _ = (left.shutdown().await, right.shutdown().await);
                break;
            }
            tokio::select! {
                read = left.read(&mut to_right), if state != Network::Holds => {
                    let Ok(len @ 1..) = read else { break };
                    if state == Network::Damages {
                        to_right[len - 1] ^= 1;
                    }
                    if right.write_all(&to_right[..len]).await.is_err() {
                        break;
                    }
                }
                read = right.read(&mut to_left) => {
                    let Ok(len @ 1..) = read else { break };
                    if left.write_all(&to_left[..len]).await.is_err() {
                        break;
                    }
                }
                changed = network.changed() => if changed.is_err() {
                    break;
                }
            }
        }
    });
    (Address::Tls(here.to_string()), control)
}

/// Two ends of a connection through a network.
struct Through {
    client: Connection,
    server: Connection,
    network: watch::Sender<Network>,
    _listener: Listener,
}

async fn through() -> Through {
    let authority = Authority::new();
    let session = SessionConfig::default().policy(PolicyConfig::None);
    let listener = listen_tls(&server_node(session.clone(), authority.server())).await;
    let (address, network) = relay(listener.local_address().expect("an address"));
    let client = client_node(session, authority.client());
    let (client, server) =
        within(async { tokio::join!(client.connect(&address), listener.accept()) }).await;
    let (client, server) = (client.expect("a connection"), server.expect("one"));
    within(server.established()).await.expect("a handshake");
    Through {
        client,
        server,
        network,
        _listener: listener,
    }
}

#[tokio::test]
async fn an_end_that_the_peer_did_not_say_is_a_loss() {
    let it = through().await;
    let left = open(&it.client, "s").await;
    let right = accept(&it.server).await;
    within(left.send(numbered(1, 5000))).await.expect("room");
    assert_eq!(next(&right).await, Some(numbered(1, 5000)));
    // Between two records: nothing but the missing word tells it from a clean end.
    it.network.send_replace(Network::Ends);
    let lost = Err(RecvError::Session(SessionError::ConnectionLost));
    assert_eq!(within(right.recv()).await, lost);
    assert_eq!(within(left.recv()).await, lost);
    for end in [&it.client, &it.server] {
        assert_eq!(
            within(end.closed()).await,
            Err(SessionError::ConnectionLost)
        );
        assert_eq!(end.tls_failure(), None, "nobody broke TLS");
    }
}

#[tokio::test]
async fn what_was_changed_on_its_way_is_not_delivered() {
    let it = through().await;
    let left = open(&it.client, "s").await;
    let right = accept(&it.server).await;
    within(left.send(numbered(1, 5000))).await.expect("room");
    assert_eq!(next(&right).await, Some(numbered(1, 5000)));
    it.network.send_replace(Network::Damages);
    within(left.send(numbered(2, 5000))).await.expect("room");
    let lost = Err(RecvError::Session(SessionError::ConnectionLost));
    assert_eq!(within(right.recv()).await, lost);
    let expected = TlsError::Rustls(RustlsError::DecryptError);
    assert_eq!(it.server.tls_failure(), Some(&expected));
    assert_eq!(
        within(it.client.closed()).await,
        Err(SessionError::ConnectionLost)
    );
    let told = it.client.tls_failure();
    assert!(
        matches!(told, Some(TlsError::Rustls(RustlsError::AlertReceived(_)))),
        "{told:?}"
    );
}

#[tokio::test]
async fn what_a_full_socket_did_not_take_leaves_later() {
    const COUNT: u32 = 1000;
    let it = through().await;
    let mut streams = Vec::new();
    for _ in 0..16 {
        let left = open(&it.client, "s").await;
        streams.push((left, accept(&it.server).await));
    }
    it.network.send_replace(Network::Holds);
    let mut sent = 0;
    let mut refused = 0;
    // Until every queue is full, and stays so: then the socket is, too.
    while sent < COUNT && refused < 20 {
        let mut took = false;
        for (left, _) in &streams {
            if sent < COUNT && left.try_send(numbered(sent, 100_000)).is_ok() {
                sent += 1;
                took = true;
            }
        }
        if took {
            refused = 0;
        } else {
            refused += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    assert!(sent < COUNT, "the network held nothing back");
    it.network.send_replace(Network::Carries);
    for (left, _) in &streams {
        left.finish();
    }
    let mut received = 0;
    for (_, right) in &streams {
        while let Some(message) = next(right).await {
            assert_eq!(message.len(), 100_000);
            received += 1;
        }
    }
    assert_eq!(received, sent);
    let (a, b) = within(async { tokio::join!(it.client.close(), it.server.close()) }).await;
    assert_eq!((a, b), (Ok(()), Ok(())));
}

#[tokio::test]
async fn garbage_harms_nobody() {
    let authority = Authority::new();
    let session = SessionConfig::default();
    let listener = listen_tls(&server_node(session.clone(), authority.server())).await;
    let address = listener.local_address().expect("an address");
    let host = address.to_string().replace("tls:", "");
    let client = client_node(session, authority.client());
    let (left, right) =
        within(async { tokio::join!(client.connect(&address), listener.accept()) }).await;
    let (left, right) = (left.expect("a connection"), right.expect("one"));

    let mut rng = Rng::with_seed(1);
    let noise: Vec<u8> = std::iter::repeat_with(|| rng.u8(..))
        .take(100_000)
        .collect();
    let record = |kind: u8, len: u16, body: &[u8]| {
        let mut out = vec![kind, 3, 1];
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(body);
        out
    };
    // What is wrong in itself, and what ends too soon.
    let wrong = [
        noise.clone(),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        record(22, 500, &noise[..500]),
        record(22, u16::MAX, &noise),
        record(23, 300, &noise[..300]),
        // A hello of 16 MB: nothing of the kind is reserved.
        record(
            22,
            16_000,
            &[&[1, 0xff, 0xff, 0xff][..], &[0; 15_996]].concat(),
        ),
    ];
    for bytes in wrong {
        let mut socket = TcpStream::connect(&host).await.expect("a socket");
        let accepted = within(listener.accept()).await.expect("a connection");
        // It may be refused before all of it is written.
        let _ = socket.write_all(&bytes).await;
        within(accepted.established()).await.expect_err("no TLS");
        let why = accepted.tls_failure();
        assert!(matches!(why, Some(TlsError::Rustls(_))), "{why:?}");
        exchange(&left, &right).await;
    }
    for bytes in [&b""[..], b"\x16", &record(22, 500, &[1, 0, 1, 0xf0, 3, 3])] {
        let mut socket = TcpStream::connect(&host).await.expect("a socket");
        let accepted = within(listener.accept()).await.expect("a connection");
        socket.write_all(bytes).await.expect("a write");
        socket.shutdown().await.expect("a shutdown");
        let error = within(accepted.closed()).await;
        assert_eq!(error, Err(SessionError::ConnectionLost));
        assert_eq!(accepted.tls_failure(), None);
        exchange(&left, &right).await;
    }
}

/// A client of TLS that is made by hand, and speaks `protocols` within it.
async fn by_hand(
    authority: &Authority,
    listener: &Listener,
    protocols: &[&[u8]],
) -> (std::io::Result<TlsStream<TcpStream>>, Connection) {
    let root = CertificateDer::from_pem_slice(authority.root_pem().as_bytes());
    let mut roots = RootCertStore::empty();
    roots
        .add(root.expect("a certificate"))
        .expect("a certificate");
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let host = listener.local_address().expect("an address").to_string();
    let socket = TcpStream::connect(host.replace("tls:", "")).await;
    let name = ServerName::try_from("localhost").expect("a name");
    let shake = TlsConnector::from(Arc::new(config)).connect(name, socket.expect("a socket"));
    let (raw, accepted) = within(async { tokio::join!(shake, listener.accept()) }).await;
    (raw, accepted.expect("a connection"))
}

#[tokio::test]
async fn who_speaks_another_protocol_within_tls_is_refused() {
    let authority = Authority::new();
    let listener = listen_tls(&server_node(SessionConfig::default(), authority.server())).await;
    for (protocols, expected) in [
        (&[][..], TlsError::Protocol),
        (
            &[&b"h2"[..], b"tautline/2"],
            TlsError::Rustls(RustlsError::NoApplicationProtocol),
        ),
    ] {
        let (raw, accepted) = by_hand(&authority, &listener, protocols).await;
        within(accepted.established()).await.expect_err("a refusal");
        assert_eq!(accepted.tls_failure(), Some(&expected));
        // Nothing of ours is said to who does not ask for it.
        if let Ok(mut raw) = raw {
            let mut heard = Vec::new();
            let _ = within(raw.read_to_end(&mut heard)).await;
            assert_eq!(heard, b"");
        }
    }
}

#[tokio::test]
async fn who_says_nothing_within_tls_is_given_up() {
    let limit = Duration::from_millis(300);
    let session = SessionConfig::default().limits(Limits::default().handshake_time(limit));
    let authority = Authority::new();
    let listener = listen_tls(&server_node(session, authority.server())).await;
    let (raw, accepted) = by_hand(&authority, &listener, &[b"tautline/1"]).await;
    let error = within(accepted.closed()).await;
    assert_eq!(error, Err(SessionError::HandshakeTimeout { limit }));
    drop(raw);
}
