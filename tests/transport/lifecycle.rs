//! How connections end: cleanly, or because one side is gone.

use std::time::Duration;

use tautline::control::PolicyConfig;
use tautline::session::{Role, SendError, SessionConfig, SessionError, StreamConfig};
use tautline::transport::{Address, Connection, OpenStreamError, RecvError, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::support::{
    CARRIERS, Pair, accept, listen, next, node, numbered, open, payloads, within,
};

const COUNT: usize = 200;

async fn receive_all(connection: &Connection) {
    let stream = accept(connection).await;
    for (at, expected) in payloads(1, COUNT, 20_000).enumerate() {
        let received = next(&stream).await.expect("a message");
        assert!(received == expected, "message {at} differs");
    }
    assert_eq!(next(&stream).await, None);
    assert!(matches!(within(connection.accept()).await, Ok(None)));
    within(connection.closed()).await.expect("a clean close");
}

async fn send_all(connection: &Connection) -> Stream {
    let stream = open(connection, "s").await;
    for payload in payloads(1, COUNT, 20_000) {
        within(stream.send(payload)).await.expect("room");
    }
    stream
}

#[tokio::test]
async fn what_was_sent_before_a_close_is_delivered() {
    for carrier in CARRIERS {
        for policy in [PolicyConfig::None, PolicyConfig::default()] {
            let pair = Pair::over(*carrier, SessionConfig::default().policy(policy)).await;
            let sending = async {
                let stream = send_all(&pair.client).await;
                within(pair.client.close()).await.expect("a clean close");
                assert_eq!(
                    within(stream.send("late".into())).await,
                    Err(SendError::Closed(stream.id()))
                );
                let again = within(pair.client.open("late", StreamConfig::default())).await;
                assert!(again.is_err());
            };
            tokio::join!(sending, receive_all(&pair.server));
        }
    }
}

#[tokio::test]
async fn what_was_sent_before_the_handles_were_dropped_is_delivered() {
    for carrier in CARRIERS {
        let Pair { client, server } = Pair::over(*carrier, SessionConfig::default()).await;
        let sending = async {
            drop(send_all(&client).await);
            drop(client);
        };
        tokio::join!(sending, receive_all(&server));
    }
}

#[tokio::test]
async fn both_sides_may_close_at_once() {
    for _ in 0..20 {
        let pair = Pair::tcp(SessionConfig::default()).await;
        let (left, right) = pair.stream().await;
        within(left.send("to the right".into()))
            .await
            .expect("room");
        within(right.send("to the left".into()))
            .await
            .expect("room");
        let (a, b) = within(async { tokio::join!(pair.client.close(), pair.server.close()) }).await;
        assert_eq!((a, b), (Ok(()), Ok(())));
        assert_eq!(next(&left).await, Some("to the left".into()));
        assert_eq!(next(&right).await, Some("to the right".into()));
        assert_eq!(next(&left).await, None);
    }
}

/// Carries `limit` bytes from who connects to `address` and then drops both sockets.
pub(super) async fn cut_after(address: Address, limit: usize) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let here = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let (left, _) = listener.accept().await.expect("a connection");
        let right = TcpStream::connect(address.to_string()).await;
        let (mut from_left, mut to_left) = left.into_split();
        let (mut from_right, mut to_right) = right.expect("a connection").into_split();
        let back = tokio::spawn(async move {
            let _ = tokio::io::copy(&mut from_right, &mut to_left).await;
        });
        let mut buffer = vec![0; 4096];
        let mut carried = 0;
        while carried < limit {
            let len = from_left.read(&mut buffer).await.expect("bytes");
            if len == 0 {
                break;
            }
            carried += len;
            to_right.write_all(&buffer[..len]).await.expect("a write");
        }
        back.abort();
    });
    here.into()
}

/// A connection that breaks after so many bytes of the client's, without codecs.
pub(super) async fn pair_cut_after(limit: usize) -> Pair {
    let server = node(SessionConfig::default());
    let listener = listen(&server).await;
    let address = listener.local_address().expect("an address");
    let proxy = cut_after(address, limit).await;
    let client = node(SessionConfig::default().policy(PolicyConfig::None));
    let (client, server) =
        within(async { tokio::join!(client.connect(&proxy), listener.accept()) }).await;
    Pair {
        client: client.expect("a connection"),
        server: server.expect("one"),
    }
}

#[tokio::test]
async fn a_peer_that_is_gone_ends_everything_with_an_error() {
    for limit in [1000, 50_000, 500_000] {
        let pair = pair_cut_after(limit).await;
        let (left, right) = pair.stream().await;
        let Pair { client, server } = pair;
        let sending = async {
            let mut at = 0;
            while within(left.send(numbered(at, 10_000))).await.is_ok() {
                at += 1;
            }
            let lost = Err(RecvError::Session(SessionError::ConnectionLost));
            assert_eq!(within(left.recv()).await, lost);
            let again = within(client.open("again", StreamConfig::default())).await;
            assert_eq!(
                again.map(|_| ()),
                Err(OpenStreamError::Session(SessionError::ConnectionLost))
            );
        };
        let receiving = async {
            let mut at = 0;
            let error = loop {
                match within(right.recv()).await {
                    Ok(message) => {
                        let payload = message.expect("no clean end").payload;
                        assert_eq!(payload, numbered(at, 10_000));
                        at += 1;
                    }
                    Err(error) => break error,
                }
            };
            assert_eq!(error, RecvError::Session(SessionError::ConnectionLost));
        };
        let asking = async {
            // On the other stream nothing goes on when the peer leaves.
            let other = open(&client, "other").await;
            let reply = within(other.request("?".into(), Duration::from_secs(3600))).await;
            assert!(reply.is_err());
        };
        tokio::join!(sending, receiving, asking);
        for connection in [&client, &server] {
            assert!(within(connection.closed()).await.is_err());
            assert!(within(connection.close()).await.is_err());
            assert!(within(connection.stats()).await.is_none());
        }
        while let Ok(stream) = within(server.accept()).await {
            drop(stream.expect("no clean end"));
        }
        assert!(within(client.accept()).await.is_err());
    }
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("an address").into();
    drop(listener);
    let error = within(node(SessionConfig::default()).connect(&address)).await;
    assert!(error.is_err());
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket_is_removed_with_its_listener() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let node = node(SessionConfig::default());
    for _ in 0..2 {
        let listener = node.listen(&Address::Unix(path.clone())).await;
        assert!(path.exists());
        drop(listener.expect("a listener"));
        assert!(!path.exists());
    }
}

#[tokio::test]
async fn a_carrier_that_holds_back_what_it_took_is_flushed() {
    let (a, b) = tokio::io::duplex(10_000);
    let [a, b] = [a, b].map(|end| tokio::io::BufWriter::with_capacity(1 << 20, end));
    let node = node(SessionConfig::default());
    let client = node.start(a, Role::Connector, "b".into()).expect("a start");
    let server = node.start(b, Role::Acceptor, "a".into()).expect("a start");
    let left = open(&client, "s").await;
    let right = accept(&server).await;
    within(left.send("short".into())).await.expect("room");
    assert_eq!(next(&right).await, Some("short".into()));
}
