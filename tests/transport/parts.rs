//! Messages that are sent while they are read, and read while they come.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use tautline::session::{Limits, SendError, SessionConfig, SessionError};
use tautline::transport::{RecvError, SendReaderError, Stream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};

use super::lifecycle::cut_after;
use super::support::{CARRIERS, Pair, accept, listen, next, node, numbered, open, within};

/// Half of it compresses.
fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::with_seed(seed);
    let mut bytes = vec![b'x'; len];
    for chunk in bytes.chunks_mut(1000).step_by(2) {
        rng.fill(chunk);
    }
    bytes
}

/// Gives `left` bytes, then fails.
struct Failing {
    left: usize,
}

impl AsyncRead for Failing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::Error::other("the disk is gone")));
        }
        let len = self.left.min(buffer.remaining());
        self.left -= len;
        let mut noise = vec![0; len];
        Rng::with_seed(self.left as u64).fill(&mut noise);
        buffer.put_slice(&noise);
        Poll::Ready(Ok(()))
    }
}

/// Without end; counts what was taken of it.
#[derive(Clone, Default)]
struct Endless(Arc<AtomicU64>);

impl AsyncRead for Endless {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let len = buffer.remaining();
        buffer.put_slice(&vec![b'e'; len]);
        self.0.fetch_add(len as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

/// Far less than the messages here are long.
fn narrow() -> SessionConfig {
    let limits = Limits::default().max_message(100 << 10).window(50_000);
    SessionConfig::default().limits(limits).send_queue(60_000)
}

async fn read_all(stream: &Stream) -> io::Result<Vec<u8>> {
    let reader = within(stream.recv_reader()).await.expect("no failure");
    let mut bytes = Vec::new();
    within(reader.expect("a message").read_to_end(&mut bytes)).await?;
    Ok(bytes)
}

#[tokio::test]
async fn messages_longer_than_window_queue_and_limit_arrive_as_they_were() {
    for &carrier in CARRIERS {
        let pair = Pair::over(carrier, narrow()).await;
        let (left, right) = pair.stream().await;
        let long = content(1, 3_000_000);
        let sending = async {
            left.send("before".into()).await.expect("room");
            for (len, bytes) in [(long.len(), &*long), (0, &[]), (1, b"y")] {
                let sent = left.send_reader(bytes).await.expect("sent");
                assert_eq!(sent, len as u64);
                left.send("between".into()).await.expect("room");
            }
            left.finish();
        };
        let receiving = async {
            assert_eq!(next(&right).await, Some("before".into()));
            for expected in [&*long, b"", b"y"] {
                assert!(read_all(&right).await.expect("whole") == expected);
                assert_eq!(next(&right).await, Some("between".into()));
            }
            assert!(within(right.recv_reader()).await.expect("an end").is_none());
        };
        tokio::join!(sending, receiving);
    }
}

#[tokio::test]
async fn parts_come_while_the_message_is_still_read() {
    let pair = Pair::tcp(SessionConfig::default()).await;
    let (left, right) = pair.stream().await;
    let (mut source, given) = tokio::io::duplex(1 << 20);
    let sending = async { left.send_reader(given).await };
    let receiving = async {
        let mut reader = None;
        for at in 0..20_u32 {
            source.write_all(&numbered(at, 500)).await.expect("room");
            if reader.is_none() {
                reader = within(right.recv_reader()).await.expect("no failure");
            }
            let reader = reader.as_mut().expect("a message");
            let part = within(reader.next_part()).await.expect("no failure");
            assert_eq!(part, Some(numbered(at, 500)));
        }
        // Other streams and the other direction do not wait for it.
        let other = open(&pair.client, "other").await;
        within(other.send("on another stream".into()))
            .await
            .expect("room");
        let there = accept(&pair.server).await;
        assert_eq!(next(&there).await, Some("on another stream".into()));
        // A request to its sender is answered between its parts.
        let asking = right.request("what?".into(), Duration::from_secs(60));
        let answering = async {
            let request = within(left.recv()).await.expect("no failure");
            let request = request.expect("a request");
            within(left.reply(&request, "that".into()))
                .await
                .expect("room");
        };
        let (answer, ()) = tokio::join!(asking, answering);
        assert_eq!(answer, Ok("that".into()));
        assert!(matches!(
            left.try_send("not now".into()),
            Err(SendError::Full(_))
        ));
        drop(source);
        let end = within(reader.expect("a message").next_part()).await;
        assert_eq!(end, Ok(None));
    };
    let (sent, ()) = tokio::join!(sending, receiving);
    assert_eq!(sent.expect("sent"), 20 * 500);
    left.try_send("now".into()).expect("room");
    assert_eq!(next(&right).await, Some("now".into()));
}

#[tokio::test]
async fn who_wants_whole_messages_is_told_of_parts() {
    let pair = Pair::tcp(SessionConfig::default()).await;
    let (left, right) = pair.stream().await;
    left.send_reader(&b"in parts"[..]).await.expect("sent");
    left.send("whole".into()).await.expect("room");
    for _ in 0..2 {
        assert_eq!(within(right.recv()).await, Err(RecvError::InParts));
        assert_eq!(right.try_recv(), None);
    }
    assert_eq!(read_all(&right).await.expect("whole"), b"in parts");
    // And a reader takes what comes whole.
    assert_eq!(read_all(&right).await.expect("whole"), b"whole");
    let asking = left.request("request".into(), Duration::from_secs(60));
    let answering = async {
        let reader = within(right.recv_reader()).await.expect("no failure");
        let mut reader = reader.expect("a message");
        let request = reader.take_whole().expect("it came whole");
        assert!(request.is_request() && reader.take_whole().is_none());
        assert_eq!(reader.next_part().await, Ok(None));
        within(right.reply(&request, "reply".into()))
            .await
            .expect("room");
    };
    let (answer, ()) = tokio::join!(asking, answering);
    assert_eq!(answer, Ok("reply".into()));
}

#[tokio::test]
async fn two_receivers_of_one_stream_take_a_message_each() {
    let pair = Pair::tcp(narrow()).await;
    let (left, right) = pair.stream().await;
    let messages = [content(5, 400_000), content(6, 500_000)];
    let sending = async {
        for message in &messages {
            left.send_reader(&**message).await.expect("sent");
        }
    };
    let ((), a, b) = tokio::join!(sending, read_all(&right), read_all(&right));
    let mut got = [a.expect("whole"), b.expect("whole")];
    got.sort_by_key(Vec::len);
    assert!(got == messages);
}

#[tokio::test]
async fn the_rest_of_a_message_that_nobody_reads_on_is_dropped() {
    let pair = Pair::tcp(narrow()).await;
    let (left, right) = pair.stream().await;
    let sending = async {
        let long = content(2, 2_000_000);
        left.send_reader(&*long).await.expect("sent");
        left.send("after".into()).await.expect("room");
    };
    let receiving = async {
        let reader = within(right.recv_reader()).await.expect("no failure");
        let mut some = [0; 10];
        within(reader.expect("a message").read_exact(&mut some))
            .await
            .expect("ten bytes");
        assert_eq!(next(&right).await, Some("after".into()));
    };
    tokio::join!(sending, receiving);
}

#[tokio::test]
async fn a_reader_that_fails_gives_its_message_up_and_nothing_else() {
    for left_before in [0, 10, 300_000] {
        let pair = Pair::tcp(narrow()).await;
        let (left, right) = pair.stream().await;
        let sending = async {
            let failed = left.send_reader(Failing { left: left_before }).await;
            assert!(
                matches!(failed, Err(SendReaderError::Read(_))),
                "{failed:?}"
            );
            left.send("after".into()).await.expect("room");
        };
        let receiving = async {
            // Of which nothing could be read, nothing comes.
            if left_before > 0 {
                let failed = read_all(&right).await.expect_err("given up");
                assert_eq!(failed.kind(), io::ErrorKind::UnexpectedEof);
            }
            assert_eq!(next(&right).await, Some("after".into()));
        };
        tokio::join!(sending, receiving);
    }
}

#[tokio::test]
async fn a_send_that_is_dropped_gives_its_message_up() {
    let pair = Pair::tcp(narrow()).await;
    let (left, right) = pair.stream().await;
    let sending = tokio::time::timeout(
        Duration::from_millis(50),
        left.send_reader(Endless::default()),
    );
    assert!(sending.await.is_err(), "it has no end");
    within(async {
        let mut reader = right
            .recv_reader()
            .await
            .expect("no failure")
            .expect("a message");
        loop {
            match reader.next_part().await {
                Ok(Some(part)) => assert!(part.iter().all(|byte| *byte == b'e')),
                end => {
                    assert_eq!(end, Err(RecvError::GivenUp));
                    assert_eq!(reader.next_part().await, Err(RecvError::GivenUp));
                    break;
                }
            }
        }
    })
    .await;
    left.send("after".into()).await.expect("room");
    assert_eq!(next(&right).await, Some("after".into()));
}

#[tokio::test]
async fn a_stream_that_is_finished_inside_a_message_gives_it_up() {
    let pair = Pair::tcp(SessionConfig::default()).await;
    let (left, right) = pair.stream().await;
    let (mut source, given) = tokio::io::duplex(1 << 20);
    let sending = async {
        let failed = left.send_reader(given).await;
        let closed =
            |error: &SendReaderError| matches!(error, SendReaderError::Send(SendError::Closed(_)));
        assert!(failed.as_ref().is_err_and(closed), "{failed:?}");
    };
    let receiving = async {
        source.write_all(b"a part").await.expect("room");
        let mut reader = within(right.recv_reader())
            .await
            .expect("no failure")
            .expect("a message");
        assert_eq!(
            within(reader.next_part()).await,
            Ok(Some(Bytes::from_static(b"a part")))
        );
        left.finish();
        source.write_all(b"another").await.expect("room");
        assert_eq!(within(reader.next_part()).await, Err(RecvError::GivenUp));
        assert_eq!(next(&right).await, None);
    };
    tokio::join!(sending, receiving);
    // The session goes on.
    let other = open(&pair.client, "other").await;
    other.send("x".into()).await.expect("room");
    assert_eq!(next(&accept(&pair.server).await).await, Some("x".into()));
}

#[tokio::test]
async fn a_peer_that_stops_reading_stops_the_reader() {
    let pair = Pair::tcp(narrow()).await;
    let (left, right) = pair.stream().await;
    let endless = Endless::default();
    let taken = Arc::clone(&endless.0);
    let sending = tokio::spawn(async move { left.send_reader(endless).await.map_err(drop) });
    let mut reader = within(right.recv_reader())
        .await
        .expect("no failure")
        .expect("a message");
    within(reader.next_part())
        .await
        .expect("no failure")
        .expect("a part");
    let still = within(async {
        let mut before = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            match taken.load(Ordering::Relaxed) {
                now if now == before => return now,
                now => before = now,
            }
        }
    });
    // Window and queue, one part that waits for room in the queue, and one that has been read.
    let most = 50_000 + 60_000 + 3 * (64 << 10);
    let still = still.await;
    assert!(still <= most, "{still} bytes were read for nobody");
    // Others go on.
    let other = open(&pair.client, "other").await;
    other.send("x".into()).await.expect("room");
    assert_eq!(next(&accept(&pair.server).await).await, Some("x".into()));
    sending.abort();
}

#[tokio::test]
async fn a_session_that_fails_fails_what_is_read_and_what_is_sent() {
    let server = node(SessionConfig::default());
    let listener = listen(&server).await;
    let address = listener.local_address().expect("an address");
    let proxy = cut_after(address, 500_000).await;
    let client = node(SessionConfig::default());
    let (client, server) =
        within(async { tokio::join!(client.connect(&proxy), listener.accept()) }).await;
    let (client, server) = (client.expect("a connection"), server.expect("one"));
    let (left, right) = (open(&client, "s").await, accept(&server).await);
    let sending = async {
        let noise = Failing { left: usize::MAX };
        assert!(within(left.send_reader(noise)).await.is_err());
    };
    let receiving = async {
        let reader = within(right.recv_reader()).await.expect("no failure");
        let mut reader = reader.expect("a message");
        let failed = loop {
            match within(reader.next_part()).await {
                Ok(part) => assert!(part.is_some(), "it has no end"),
                Err(error) => break error,
            }
        };
        assert_eq!(failed, RecvError::Session(SessionError::ConnectionLost));
    };
    tokio::join!(sending, receiving);
}
