//! What connections learn from the system about their sockets.

use bytes::Bytes;
use tautline::session::{Role, SessionConfig, SessionStats};
use tautline::transport::Connection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::support::{CARRIERS, Carrier, Pair, hello, next, node, open, within};

async fn stats(connection: &Connection) -> SessionStats {
    within(connection.stats())
        .await
        .expect("a session that goes on")
}

#[tokio::test]
async fn connections_know_of_their_sockets_what_the_system_says() {
    for &carrier in CARRIERS {
        let pair = Pair::over(carrier, SessionConfig::default()).await;
        let (client, server) = pair.stream().await;
        within(client.send("a message".into())).await.expect("room");
        assert_eq!(next(&server).await, Some("a message".into()));
        let sample = stats(&pair.client).await.socket;
        let sample = sample.expect("a decision was made, so the system was asked");
        let linux = cfg!(any(target_os = "linux", target_os = "android"));
        let (tcp, unix) = match carrier {
            Carrier::Tcp => (linux, false),
            #[cfg(unix)]
            Carrier::Unix => (false, linux),
            Carrier::Duplex => (false, false),
        };
        assert_eq!(sample.unsent.is_some(), tcp || unix, "{carrier:?}");
        assert_eq!(sample.acknowledged.is_some(), tcp, "{carrier:?}");
        assert_eq!(sample.rtt.is_some(), tcp, "{carrier:?}");
    }
}

#[tokio::test]
async fn a_socket_that_takes_no_more_is_known_until_it_does() {
    let (mut raw, theirs) = tokio::io::duplex(500);
    let connection = node(SessionConfig::default())
        .start(theirs, Role::Acceptor, "raw".into())
        .expect("a start");
    within(raw.write_all(&hello())).await.expect("a write");
    let stream = open(&connection, "s").await;
    within(stream.send(Bytes::from(vec![7; 10_000])))
        .await
        .expect("room");
    within(async {
        while !stats(&connection).await.is_blocked {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut answer = [0; 10_000];
    within(raw.read_exact(&mut answer)).await.expect("bytes");
    within(async {
        while stats(&connection).await.is_blocked {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
