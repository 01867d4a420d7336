//! The relay over real sockets. Rates are compared with each other in one run, never with the clock
//! alone, except in the measurement at the end, which is run by hand.
#![cfg(feature = "relay")]
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test fail as the test does"
)]

use std::time::Duration;

use tautline::relay::{LinkConfig, Relay, RelayAddr, RelayFault};
use tautline::units::BytesPerSec;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

fn mbit(rate: f64) -> LinkConfig {
    LinkConfig::with_rate(BytesPerSec::new(rate * 125_000.0).unwrap())
}

/// A relay and both ends of a connection through it.
async fn connected(config: LinkConfig) -> (Relay, TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    let relay = Relay::start(any, target, config).unwrap();
    let addr = relay.local_addr().tcp().unwrap();
    let (client, server) = tokio::join!(TcpStream::connect(addr), listener.accept());
    (relay, client.unwrap(), server.unwrap().0)
}

fn noise(len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(len as u64);
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

/// Sends both ways at once, then closes one half after the other.
async fn exchange(
    client: impl AsyncRead + AsyncWrite + Send + 'static,
    server: impl AsyncRead + AsyncWrite + Send + 'static,
) {
    async fn send_and_receive(
        stream: impl AsyncRead + AsyncWrite + Send + 'static,
        bytes: Vec<u8>,
    ) -> Vec<u8> {
        let (mut read, mut write) = tokio::io::split(stream);
        let sender = tokio::spawn(async move {
            write.write_all(&bytes).await.unwrap();
            write.shutdown().await.unwrap();
        });
        let mut received = Vec::new();
        read.read_to_end(&mut received).await.unwrap();
        sender.await.unwrap();
        received
    }

    let (forth, back) = (noise(1_000_003), noise(300_007));
    let (at_client, at_server) = tokio::join!(
        send_and_receive(client, forth.clone()),
        send_and_receive(server, back.clone()),
    );
    assert!(at_server == forth);
    assert!(at_client == back);
}

#[tokio::test]
async fn bytes_arrive_unchanged_both_ways() {
    for config in [
        LinkConfig::default(),
        mbit(100.0),
        LinkConfig {
            delay: Duration::from_millis(5),
            queue: Some(3000),
            ..mbit(50.0)
        },
    ] {
        let (relay, client, server) = connected(config).await;
        exchange(client, server).await;
        let stats = relay.stats();
        assert_eq!((stats.forward, stats.backward), (1_000_003, 300_007));
        assert_eq!((stats.connections, stats.failures), (1, 0));
    }
}

#[cfg(unix)]
#[tokio::test]
async fn unix_sockets_are_relayed_too() {
    use tokio::net::{UnixListener, UnixStream};

    let dir = tempfile::tempdir().unwrap();
    let (target, listen) = (dir.path().join("target"), dir.path().join("listen"));
    let listener = UnixListener::bind(&target).unwrap();
    let relay = Relay::start(listen.clone(), target, mbit(100.0)).unwrap();
    assert_eq!(relay.local_addr(), &RelayAddr::Unix(listen.clone()));
    let (client, server) = tokio::join!(UnixStream::connect(&listen), listener.accept());
    exchange(client.unwrap(), server.unwrap().0).await;
}

#[tokio::test]
async fn a_half_closed_connection_still_answers() {
    let (_relay, mut client, mut server) = connected(mbit(10.0)).await;
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    let mut question = Vec::new();
    server.read_to_end(&mut question).await.unwrap();
    assert_eq!(question, b"question");
    server.write_all(b"answer").await.unwrap();
    drop(server);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"answer");
}

#[tokio::test]
async fn a_connection_that_fails_leaves_the_others_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    let relay = Relay::start(any, target, mbit(100.0)).unwrap();
    let addr = relay.local_addr().tcp().unwrap();
    let (client, server) = tokio::join!(TcpStream::connect(addr), listener.accept());
    let (other, broken) = tokio::join!(TcpStream::connect(addr), listener.accept());
    let mut other = other.unwrap();
    other.write_all(&noise(100_000)).await.unwrap();
    // Closed with bytes unread: a reset.
    drop(broken.unwrap());
    let _ = other.read_to_end(&mut Vec::new()).await;
    exchange(client.unwrap(), server.unwrap().0).await;

    drop(listener);
    let mut refused = TcpStream::connect(addr).await.unwrap();
    assert!(!matches!(refused.read(&mut [0; 8]).await, Ok(1..)));
    assert!(relay.stats().failures >= 1);
}

#[tokio::test]
async fn dropping_the_relay_closes_everything() {
    let (relay, mut client, _server) = connected(LinkConfig::default()).await;
    let addr = relay.local_addr().tcp().unwrap();
    drop(relay);
    assert!(!matches!(client.read(&mut [0; 8]).await, Ok(1..)));
    assert!(TcpStream::connect(addr).await.is_err());
}

/// More than anything here takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Reads until the end, however it comes; it must.
async fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = tokio::time::timeout(LIMIT, stream.read_to_end(&mut bytes))
        .await
        .expect("an end");
    bytes
}

#[tokio::test]
async fn a_cut_ends_the_connections_that_there_are_and_no_other() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    // What was sent is on its way for longer than the test takes.
    let slow = LinkConfig {
        delay: Duration::from_secs(3600),
        ..LinkConfig::default()
    };
    let relay = Relay::start(any, target, slow).unwrap();
    let addr = relay.local_addr().tcp().unwrap();
    let mut ends = Vec::new();
    for _ in 0..2 {
        let (client, server) = tokio::join!(TcpStream::connect(addr), listener.accept());
        ends.extend([client.unwrap(), server.unwrap().0]);
    }
    ends[0].write_all(b"lost").await.unwrap();
    // Both are carried once the target was reached, which it was.
    tokio::time::sleep(Duration::from_millis(50)).await;
    relay.inject(RelayFault::Cut);
    for end in &mut ends {
        assert_eq!(read_all(end).await, b"");
    }
    assert_eq!((relay.stats().cut, relay.stats().failures), (2, 2));
    relay.set_link(LinkConfig::default());
    let (client, server) = tokio::join!(TcpStream::connect(addr), listener.accept());
    exchange(client.unwrap(), server.unwrap().0).await;
    let stats = relay.stats();
    assert_eq!((stats.connections, stats.cut), (3, 2));
}

#[tokio::test]
async fn a_silent_direction_loses_everything_and_the_other_goes_on() {
    let (relay, mut client, mut server) = connected(LinkConfig::default()).await;
    client.write_all(b"heard").await.unwrap();
    let mut heard = [0; 5];
    server.read_exact(&mut heard).await.unwrap();
    relay.inject(RelayFault::Silence { forward: true });
    let before = relay.stats().forward;
    client.write_all(&noise(100_000)).await.unwrap();
    client.shutdown().await.unwrap();
    server.write_all(b"answer").await.unwrap();
    server.shutdown().await.unwrap();
    assert_eq!(read_all(&mut client).await, b"answer");
    assert_eq!(relay.stats().forward, before);
    let nothing = tokio::time::timeout(Duration::from_millis(20), server.read(&mut heard)).await;
    // Not even the end, unless the relay has closed everything by now.
    assert!(!matches!(nothing, Ok(Ok(1..))), "{nothing:?}");
}

#[tokio::test]
async fn damage_changes_one_bit_of_one_direction() {
    for forward in [true, false] {
        let (relay, client, server) = connected(LinkConfig::default()).await;
        relay.inject(RelayFault::Damage { forward, bit: 77 });
        let (mut from, mut to) = if forward {
            (client, server)
        } else {
            (server, client)
        };
        let sent = noise(10_000);
        from.write_all(&sent).await.unwrap();
        from.shutdown().await.unwrap();
        let arrived = read_all(&mut to).await;
        assert_eq!(arrived.len(), sent.len());
        let changed = sent.iter().zip(&arrived).map(|(a, b)| (a ^ b).count_ones());
        assert_eq!(changed.sum::<u32>(), 1);
        // And nothing of the other.
        to.write_all(&sent).await.unwrap();
        to.shutdown().await.unwrap();
        assert!(read_all(&mut from).await == sent);
    }
}

#[tokio::test]
async fn a_half_open_connection_ends_for_one_side_and_stays_with_the_other() {
    for to_client in [true, false] {
        let (relay, client, server) = connected(LinkConfig::default()).await;
        let (mut kept, mut closed) = if to_client {
            (client, server)
        } else {
            (server, client)
        };
        kept.write_all(b"heard").await.unwrap();
        let mut heard = [0; 5];
        closed.read_exact(&mut heard).await.unwrap();
        relay.inject(RelayFault::HalfOpen { client: to_client });
        assert_eq!(read_all(&mut closed).await, b"");
        // More than any buffer on the way: all of it is taken, and nobody has it.
        let lost = noise(4 << 20);
        let sent = tokio::time::timeout(LIMIT, kept.write_all(&lost)).await;
        sent.expect("somebody reads").unwrap();
        let nothing = tokio::time::timeout(Duration::from_millis(20), kept.read(&mut heard)).await;
        assert!(nothing.is_err(), "{nothing:?}");
        let stats = relay.stats();
        assert_eq!((stats.cut, stats.failures), (1, 0));
        assert_eq!(stats.forward + stats.backward, 5);
        drop(kept);
        let gone = async {
            while relay.stats().failures == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LIMIT, gone).await.expect("it ends");
    }
}

#[tokio::test]
async fn a_few_bytes_in_a_row_are_garbled() {
    for forward in [true, false] {
        let (relay, client, server) = connected(LinkConfig::default()).await;
        let with = [0xff, 0, 3, 0, 0, 0, 0, 0x80];
        let at = u64::MAX;
        relay.inject(RelayFault::Garble { forward, at, with });
        let (mut from, mut to) = if forward {
            (client, server)
        } else {
            (server, client)
        };
        let sent = noise(10_000);
        from.write_all(&sent).await.unwrap();
        from.shutdown().await.unwrap();
        let arrived = read_all(&mut to).await;
        assert_eq!(arrived.len(), sent.len());
        let changed: Vec<u8> = sent.iter().zip(&arrived).map(|(a, b)| a ^ b).collect();
        let first = changed.iter().position(|change| *change != 0);
        let changed: Vec<u8> = changed.into_iter().skip(first.expect("a change")).collect();
        // Fewer where the piece ended.
        assert!(
            with.iter()
                .zip(&changed)
                .any(|(with, change)| with == change)
        );
        assert!(changed.iter().skip(8).all(|change| *change == 0));
    }
}

#[tokio::test]
async fn after_a_piece_that_is_cut_short_nothing_comes() {
    let (relay, mut client, mut server) = connected(LinkConfig::default()).await;
    let sent = noise(1000);
    relay.inject(RelayFault::Truncate {
        forward: true,
        at: 1000 + 77,
    });
    client.write_all(&sent).await.unwrap();
    let mut arrived = vec![0; 77];
    let read = tokio::time::timeout(LIMIT, server.read_exact(&mut arrived)).await;
    read.expect("the first bytes").unwrap();
    assert!(arrived == sent[..77]);
    client.write_all(&sent).await.unwrap();
    let nothing = tokio::time::timeout(Duration::from_millis(20), server.read(&mut arrived)).await;
    assert!(nothing.is_err(), "{nothing:?}");
    // The other direction goes on.
    server.write_all(&sent).await.unwrap();
    server.shutdown().await.unwrap();
    assert!(read_all(&mut client).await == sent);
}

#[tokio::test]
async fn short_writes_lose_nothing_and_end() {
    let (relay, mut client, mut server) = connected(LinkConfig::default()).await;
    let (len, writes) = (3, 40);
    relay.inject(RelayFault::Short {
        forward: true,
        len,
        writes,
    });
    let sent = noise(1000);
    client.write_all(&sent).await.unwrap();
    client.shutdown().await.unwrap();
    let mut arrived = vec![0; 1];
    server.read_exact(&mut arrived).await.unwrap();
    arrived.extend(read_all(&mut server).await);
    assert!(arrived == sent);
    server.write_all(&sent).await.unwrap();
    drop(server);
    assert!(read_all(&mut client).await == sent);
}

/// Bytes a second that arrive within `window`, while the client sends all it can.
async fn rate_over(server: &mut TcpStream, window: Duration) -> f64 {
    let mut buffer = vec![0; 256 * 1024];
    let start = Instant::now();
    let mut received = 0;
    while start.elapsed() < window {
        received += server.read(&mut buffer).await.unwrap();
    }
    received as f64 / start.elapsed().as_secs_f64()
}

fn flood(mut client: TcpStream) {
    tokio::spawn(async move {
        let bytes = vec![7; 64 * 1024];
        while client.write_all(&bytes).await.is_ok() {}
    });
}

/// The rates at 8 Mbit/s, 64, 8 again, and without a limit.
async fn rates_of_a_link_that_changes() -> [f64; 4] {
    let window = Duration::from_millis(300);
    let (relay, client, mut server) = connected(mbit(8.0)).await;
    flood(client);
    let mut rates = [0.0; 4];
    let links = [mbit(8.0), mbit(64.0), mbit(8.0), LinkConfig::default()];
    for (rate, link) in rates.iter_mut().zip(links) {
        relay.set_link(link);
        rate_over(&mut server, window / 3).await;
        *rate = rate_over(&mut server, window).await;
    }
    rates
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rate_is_followed_and_so_is_its_change() {
    // Eight, with room for a machine that is busy with other tests; one that stands still meanwhile gets another try.
    let mut tries = Vec::new();
    for _ in 0..5 {
        let rates = rates_of_a_link_that_changes().await;
        let [slow, fast, slow_again, unshaped] = rates;
        let is_eightfold = |slow: f64| (3.0..16.0).contains(&(fast / slow));
        if is_eightfold(slow) && is_eightfold(slow_again) && unshaped > fast {
            return;
        }
        tries.push(rates);
    }
    panic!("{tries:?}");
}

#[tokio::test]
async fn a_sender_feels_the_link_and_not_this_machines_memory() {
    let (relay, client, server) = connected(LinkConfig {
        queue: Some(8192),
        ..mbit(0.1)
    })
    .await;
    socket2::SockRef::from(&client)
        .set_send_buffer_size(4096)
        .unwrap();
    let mut accepted = 0;
    let bytes = [7; 4096];
    while let Ok(Ok(written)) = tokio::time::timeout(Duration::from_millis(100), async {
        client.writable().await?;
        client.try_write(&bytes)
    })
    .await
    {
        accepted += written;
        assert!(accepted < 128 * 1024, "the sender is never held back");
    }
    println!("accepted {accepted} bytes ahead of a queue of 8192");
    drop((relay, server));
}

/// `cargo test --release --all-features --test relay -- --ignored --nocapture`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures rates by the clock, which needs an idle machine"]
async fn measured_rates() {
    for rate in [1.0, 10.0, 100.0, 1000.0] {
        let (relay, client, mut server) = connected(mbit(rate)).await;
        flood(client);
        rate_over(&mut server, Duration::from_millis(500)).await;
        let measured = rate_over(&mut server, Duration::from_secs(3)).await / 125_000.0;
        println!(
            "{rate} Mbit/s: {measured:.3}, {:+.2} %",
            (measured / rate - 1.0) * 100.0
        );
        drop(relay);
    }
    let (_relay, client, mut server) = connected(LinkConfig::default()).await;
    flood(client);
    let measured = rate_over(&mut server, Duration::from_secs(2)).await / 125_000.0;
    println!("unshaped: {measured:.0} Mbit/s");
}
