//! Messages, requests, back-pressure, many streams and connections.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tautline::codecs::{Arm, supported};
use tautline::control::{MajorityConfig, PolicyConfig, Reason};
use tautline::session::{Limits, OpenError, Rejected, SendError, SessionConfig, StreamConfig};
use tautline::transport::{OpenStreamError, RequestError, Stream};

use super::support::{
    CARRIERS, Carrier, Pair, accept, listen, next, node, number, numbered, open, payloads, within,
};

const MAX_LEN: usize = 300 << 10;

#[tokio::test]
async fn many_at_once_arrive_as_one_by_one() {
    let limits = Limits::default().max_message(5000);
    let session = SessionConfig::default().limits(limits).send_queue(20_000);
    let pair = Pair::tcp(session).await;
    let (left, right) = pair.stream().await;
    let sent: Vec<_> = payloads(3, 3000, 5000).collect();
    let sending = async {
        let mut waiting: VecDeque<_> = sent.iter().cloned().collect();
        within(left.send_many(&mut waiting)).await.expect("room");
        assert!(waiting.is_empty());
        left.send_many(&mut waiting).await.expect("nothing to do");
        // What is too long ends it, and stays with those behind it.
        let lens = [1, 5000, 5001, 1];
        waiting.extend(lens.map(|len| Bytes::from(vec![0; len])));
        let (given, max) = (5001, 5000);
        let too_long = Err(SendError::TooLong { given, max });
        assert_eq!(within(left.send_many(&mut waiting)).await, too_long);
        assert_eq!(waiting.len(), 2);
        left.finish();
        waiting.pop_front();
        let closed = Err(SendError::Closed(left.id()));
        assert_eq!(within(left.send_many(&mut waiting)).await, closed);
    };
    let receiving = async {
        let mut received = Vec::new();
        assert_eq!(right.recv_many(&mut received, 0).await, Ok(0));
        loop {
            let before = received.len();
            let count = within(right.recv_many(&mut received, 100))
                .await
                .expect("no failure");
            assert!(count <= 100 && received.len() == before + count);
            if count == 0 {
                break;
            }
        }
        assert_eq!(received.len(), sent.len() + 2);
        assert!(
            received
                .iter()
                .zip(&sent)
                .all(|(got, sent)| got.payload == sent)
        );
    };
    tokio::join!(sending, receiving);
}

#[tokio::test]
async fn what_a_send_of_many_has_not_sent_when_it_is_dropped_is_still_there() {
    let pair = Pair::tcp(SessionConfig::default().send_queue(1000)).await;
    let (left, right) = pair.stream().await;
    let mut waiting: VecDeque<_> = (0..50_000).map(|at| numbered(at, 100)).collect();
    let receiving = async {
        for at in 0..50_000 {
            assert_eq!(next(&right).await, Some(numbered(at, 100)));
        }
    };
    let sending = async {
        let mut dropped = 0;
        while !waiting.is_empty() {
            tokio::select! {
                biased;
                sent = left.send_many(&mut waiting) => sent.expect("room"),
                () = tokio::task::yield_now() => dropped += 1,
            }
        }
        assert!(dropped > 0, "the queue was full at times");
    };
    within(async { tokio::join!(sending, receiving) }).await;
}

/// Sends one sequence of messages while it receives another one.
async fn exchange(stream: Stream, send_seed: u64, recv_seed: u64, count: usize) {
    let send = async {
        for payload in payloads(send_seed, count, MAX_LEN) {
            within(stream.send(payload)).await.expect("room");
        }
        stream.finish();
    };
    let receive = async {
        for (at, expected) in payloads(recv_seed, count, MAX_LEN).enumerate() {
            let received = next(&stream).await.expect("a message");
            assert!(
                received == expected,
                "message {at} of seed {recv_seed} differs"
            );
        }
        assert_eq!(next(&stream).await, None);
    };
    tokio::join!(send, receive);
}

async fn exchange_on_streams(carrier: Carrier, policy: PolicyConfig, streams: u64, count: usize) {
    let pair = Pair::over(carrier, SessionConfig::default().policy(policy)).await;
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..streams {
        // Both sides open streams.
        let (opener, acceptor) = if at % 2 == 0 {
            (&pair.client, &pair.server)
        } else {
            (&pair.server, &pair.client)
        };
        let name = format!("stream {at}");
        let left = open(opener, &name).await;
        let right = accept(acceptor).await;
        assert_eq!((right.name(), right.id()), (name.as_str(), left.id()));
        tasks.spawn(exchange(left, at, at + 100, count));
        tasks.spawn(exchange(right, at + 100, at, count));
    }
    while let Some(result) = tasks.join_next().await {
        result.expect("a task that ends");
    }
    within(pair.client.close()).await.expect("a clean close");
    within(pair.server.closed()).await.expect("a clean close");
}

#[tokio::test]
async fn messages_arrive_equal_and_in_order_over_every_carrier() {
    let policies = [
        PolicyConfig::None,
        PolicyConfig::RoundRobin,
        PolicyConfig::Majority(MajorityConfig::default()),
    ];
    for carrier in CARRIERS {
        for policy in policies {
            exchange_on_streams(*carrier, policy, 4, 12).await;
        }
    }
}

#[tokio::test]
async fn messages_arrive_equal_and_in_order_with_every_codec() {
    for info in supported() {
        let arm = Arm::new(info.id, info.default_level.0);
        exchange_on_streams(Carrier::Tcp, PolicyConfig::Fixed(arm), 3, 8).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn messages_arrive_equal_and_in_order_on_several_threads() {
    exchange_on_streams(Carrier::Tcp, PolicyConfig::default(), 6, 12).await;
}

#[tokio::test]
async fn a_finished_stream_ends_for_its_receiver_and_goes_on_the_other_way() {
    let pair = Pair::tcp(SessionConfig::default()).await;
    let (left, right) = pair.stream().await;
    within(left.send("last".into())).await.expect("room");
    left.finish();
    assert_eq!(
        within(left.send("late".into())).await,
        Err(SendError::Closed(left.id()))
    );
    assert_eq!(next(&right).await, Some("last".into()));
    assert_eq!(next(&right).await, None);
    assert_eq!(next(&right).await, None, "and it stays so");
    within(right.send("answer".into())).await.expect("room");
    assert_eq!(next(&left).await, Some("answer".into()));
    drop(right);
    assert_eq!(next(&left).await, None);
}

#[tokio::test]
async fn a_message_over_the_peers_limit_is_refused() {
    let pair =
        Pair::tcp(SessionConfig::default().limits(Limits::default().max_message(1000))).await;
    let (left, right) = pair.stream().await;
    let given = Bytes::from(vec![0; 1001]);
    let too_long = SendError::TooLong {
        given: 1001,
        max: 1000,
    };
    assert_eq!(
        within(left.send(given.clone())).await,
        Err(too_long.clone())
    );
    assert_eq!(left.try_send(given.clone()), Err(too_long));
    within(left.send(given.slice(1..))).await.expect("room");
    assert_eq!(next(&right).await, Some(given.slice(1..)));
}

// ---- requests

#[tokio::test]
async fn many_requests_at_once_get_their_own_replies() {
    const COUNT: u32 = 300;
    let pair = Pair::tcp(SessionConfig::default()).await;
    let (client, server) = pair.stream().await;
    let client = Arc::new(client);
    let asking: Vec<_> = (0..COUNT)
        .map(|at| {
            let client = Arc::clone(&client);
            tokio::spawn(async move {
                let reply = client.request(numbered(at, 100), Duration::from_secs(60));
                assert_eq!(reply.await, Ok(numbered(at + 1, 50)));
            })
        })
        .collect();
    let mut requests = Vec::new();
    for _ in 0..COUNT {
        let request = within(server.recv()).await.expect("a stream that goes on");
        requests.push(request.expect("a request"));
    }
    // The last first: replies are told apart by more than their order.
    for request in requests.iter().rev() {
        assert!(request.is_request());
        let reply = numbered(number(&request.payload) + 1, 50);
        within(server.reply(request, reply)).await.expect("room");
    }
    for task in asking {
        within(task).await.expect("a reply");
    }
}

#[tokio::test]
async fn a_late_reply_is_dropped_and_nothing_else() {
    let pair = Pair::tcp(SessionConfig::default()).await;
    let (client, server) = pair.stream().await;
    let after = Duration::from_millis(10);
    assert_eq!(
        within(client.request("slow".into(), after)).await,
        Err(RequestError::TimedOut { after })
    );
    let late = within(server.recv()).await.expect("goes on");
    let late = late.expect("a request");
    within(server.reply(&late, "too late".into()))
        .await
        .expect("room");
    let answering = async {
        let request = within(server.recv()).await.expect("goes on");
        let request = request.expect("a request");
        within(server.send("in between".into()))
            .await
            .expect("room");
        within(server.reply(&request, "in time".into()))
            .await
            .expect("room");
    };
    let (reply, ()) = tokio::join!(
        client.request("fast".into(), Duration::from_secs(60)),
        answering
    );
    assert_eq!(reply, Ok("in time".into()));
    assert_eq!(next(&client).await, Some("in between".into()));
    assert_eq!(client.try_recv(), None);
}

#[tokio::test]
async fn requests_end_with_the_stream_or_the_session() {
    let forever = Duration::from_secs(3600);
    let pair = Pair::tcp(SessionConfig::default()).await;
    let (client, server) = pair.stream().await;
    let leaving = async {
        let request = within(server.recv()).await.expect("goes on");
        let request = request.expect("a request");
        server.finish();
        let refused = within(server.reply(&request, "after the end".into())).await;
        assert_eq!(refused, Err(SendError::Closed(server.id())));
    };
    let (reply, ()) = tokio::join!(within(client.request("?".into(), forever)), leaving);
    assert_eq!(reply, Err(RequestError::Ended));
    assert_eq!(
        within(client.request("again".into(), forever)).await,
        Err(RequestError::Ended),
        "nobody can answer any more"
    );

    let (client, server) = pair.stream().await;
    let closing = async {
        within(server.recv()).await.expect("goes on");
        pair.server.close().await
    };
    let (reply, closed) = tokio::join!(within(client.request("?".into(), forever)), closing);
    assert_eq!(reply, Err(RequestError::Ended));
    assert_eq!(closed, Ok(()));
    let closed = SendError::Closed(client.id());
    let late = within(client.request("?".into(), forever)).await;
    assert!(
        late == Err(closed.into()) || late == Err(RequestError::Ended),
        "{late:?}"
    );
}

// ---- back-pressure

#[tokio::test]
async fn a_receiver_that_stops_holds_up_its_sender_and_nobody_else() {
    const WINDOW: usize = 64 << 10;
    const QUEUE: usize = 32 << 10;
    const LEN: usize = 5000;
    // What is in a block or with the socket is counted in neither.
    const SLACK: usize = 64 << 10;
    for policy in [PolicyConfig::None, PolicyConfig::default()] {
        let session = SessionConfig::default()
            .policy(policy)
            .limits(Limits::default().window(WINDOW as u64))
            .send_queue(QUEUE);
        let pair = Pair::tcp(session).await;
        let (slow, slow_end) = pair.stream().await;
        let (other, other_end) = pair.stream().await;
        let mut taken = 0;
        // On a slow machine this gives up early and has sent less: the bound holds all the same.
        while let Ok(sent) =
            tokio::time::timeout(Duration::from_millis(300), slow.send(numbered(taken, LEN))).await
        {
            sent.expect("an open stream");
            taken += 1;
            assert!(
                taken as usize * LEN <= WINDOW + QUEUE + SLACK,
                "{taken} messages taken of which none was received"
            );
        }
        let more = numbered(taken, LEN);
        assert_eq!(
            slow.try_send(more.clone()),
            Err(SendError::Full(Rejected(more)))
        );
        let stats = within(slow.stats()).await.expect("statistics");
        assert!(stats.queued_bytes <= QUEUE as u64, "{stats:?}");

        let sending = async {
            for at in 0..200 {
                within(other.send(numbered(at, LEN))).await.expect("room");
            }
        };
        let receiving = async {
            for at in 0..200 {
                assert_eq!(next(&other_end).await, Some(numbered(at, LEN)));
            }
        };
        tokio::join!(sending, receiving);

        let sending = async {
            for at in taken..taken + 50 {
                within(slow.send(numbered(at, LEN))).await.expect("room");
            }
        };
        let receiving = async {
            for at in 0..taken + 50 {
                assert_eq!(next(&slow_end).await, Some(numbered(at, LEN)));
            }
        };
        tokio::join!(sending, receiving);
    }
}

#[tokio::test]
async fn a_dropped_receiver_holds_nobody_up() {
    let session = SessionConfig::default().limits(Limits::default().window(64 << 10));
    let pair = Pair::tcp(session).await;
    let (left, right) = pair.stream().await;
    // The window fills with what nobody takes.
    for at in 0..20 {
        within(left.send(numbered(at, 5000))).await.expect("room");
    }
    assert_eq!(next(&right).await, Some(numbered(0, 5000)));
    drop(right);
    for at in 0..400 {
        within(left.send(numbered(at, 5000))).await.expect("room");
    }
    within(pair.client.close()).await.expect("a clean close");
}

#[tokio::test]
async fn try_send_gives_the_message_back_when_the_queue_is_full() {
    let pair = Pair::tcp(SessionConfig::default().send_queue(1000)).await;
    let (left, right) = pair.stream().await;
    // Nothing of this is awaited: the queue cannot drain meanwhile.
    left.try_send(numbered(0, 600)).expect("room");
    let second = numbered(1, 600);
    assert_eq!(
        left.try_send(second.clone()),
        Err(SendError::Full(Rejected(second.clone())))
    );
    assert_eq!(next(&right).await, Some(numbered(0, 600)));
    within(left.send(second.clone())).await.expect("room");
    assert_eq!(next(&right).await, Some(second));
}

// ---- cancelling

#[tokio::test]
async fn cancelled_calls_lose_nothing() {
    const COUNT: u32 = 500;
    let pair = Pair::tcp(
        SessionConfig::default()
            .send_queue(1000)
            .limits(Limits::default().window(4096)),
    )
    .await;
    let sending = async {
        for at in 0..COUNT {
            let name = at.to_string();
            let stream = open(&pair.client, &name).await;
            for part in 0..4 {
                loop {
                    tokio::select! {
                        biased;
                        () = tokio::task::yield_now() => {}
                        sent = stream.send(numbered(part, 700)) => {
                            sent.expect("an open stream");
                            break;
                        }
                    }
                }
            }
        }
    };
    let mut cancelled = 0;
    let receiving = async {
        for at in 0..COUNT {
            let stream = loop {
                tokio::select! {
                    biased;
                    stream = pair.server.accept() => {
                        break stream.expect("goes on").expect("a stream");
                    }
                    () = tokio::task::yield_now() => cancelled += 1,
                }
            };
            assert_eq!(stream.name(), at.to_string());
            let mut part = 0;
            loop {
                tokio::select! {
                    biased;
                    message = stream.recv() => match message.expect("goes on") {
                        Some(message) => {
                            assert_eq!(message.payload, numbered(part, 700));
                            part += 1;
                        }
                        None => break,
                    },
                    () = tokio::task::yield_now() => cancelled += 1,
                }
            }
            assert_eq!(part, 4);
        }
    };
    within(async { tokio::join!(sending, receiving) }).await;
    assert!(cancelled > 0, "nothing was cancelled");
}

#[tokio::test]
async fn streams_whose_opening_was_cancelled_are_closed() {
    const MAX: u32 = 8;
    let pair = Pair::tcp(SessionConfig::default().limits(Limits::default().max_streams(MAX))).await;
    let accepting = async {
        while let Ok(Some(stream)) = pair.server.accept().await {
            drop(stream);
        }
    };
    let opening = async {
        for _ in 0..100 {
            // Before anybody has seen the call, and when its answer is on the way.
            tokio::select! {
                biased;
                _ = pair.client.open("cancelled", StreamConfig::default()) => {}
                () = std::future::ready(()) => {}
            }
            tokio::select! {
                biased;
                () = tokio::task::yield_now() => {}
                _ = pair.client.open("cancelled", StreamConfig::default()) => {}
            }
        }
        loop {
            match pair.client.open("kept", StreamConfig::default()).await {
                Ok(stream) => break stream,
                // The others have yet to close on both sides.
                Err(OpenStreamError::Open(OpenError::TooMany { .. })) => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::select! {
        stream = within(opening) => drop(stream),
        () = accepting => panic!("the session has ended"),
    }
}

#[tokio::test]
async fn several_receivers_of_one_stream_are_all_woken() {
    let pair = Pair::tcp(SessionConfig::default()).await;
    let (left, right) = pair.stream().await;
    for _ in 0..20 {
        let sending = async {
            // Both receivers wait by now; the messages leave in one block.
            tokio::task::yield_now().await;
            left.try_send("one".into()).expect("room");
            left.try_send("two".into()).expect("room");
        };
        let (a, b, ()) = tokio::join!(next(&right), next(&right), sending);
        let mut both = [a.expect("a message"), b.expect("a message")];
        both.sort();
        assert_eq!(both, ["one", "two"]);
    }
}

// ---- many

#[tokio::test]
async fn a_thousand_streams_at_once() {
    const STREAMS: u32 = 1000;
    let pair = Pair::tcp(SessionConfig::default()).await;
    let mut streams = Vec::new();
    for at in 0..STREAMS {
        streams.push(open(&pair.client, &at.to_string()).await);
    }
    let echoing = async {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..STREAMS {
            let stream = accept(&pair.server).await;
            tasks.spawn(async move {
                while let Some(payload) = next(&stream).await {
                    within(stream.send(payload)).await.expect("room");
                }
            });
        }
        tasks.join_all().await;
    };
    let asking = async {
        for round in 0..3 {
            for (at, stream) in streams.iter().enumerate() {
                let message = numbered(at as u32, 20 + round);
                within(stream.send(message)).await.expect("room");
            }
        }
        for (at, stream) in streams.iter().enumerate() {
            for round in 0..3 {
                assert_eq!(next(stream).await, Some(numbered(at as u32, 20 + round)));
            }
        }
        for stream in &streams {
            stream.finish();
        }
    };
    tokio::join!(echoing, asking);
}

#[tokio::test]
async fn two_hundred_connections_at_once() {
    const CONNECTIONS: u32 = 200;
    let (client, server) = (
        node(SessionConfig::default()),
        node(SessionConfig::default()),
    );
    let listener = listen(&server).await;
    let address = listener.local_address().expect("an address");
    let serving = tokio::spawn(async move {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..CONNECTIONS {
            let connection = listener.accept().await.expect("a connection");
            tasks.spawn(async move {
                let stream = accept(&connection).await;
                while let Some(payload) = next(&stream).await {
                    within(stream.send(payload)).await.expect("room");
                }
                within(connection.closed()).await.expect("a clean close");
            });
        }
        tasks.join_all().await;
    });
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..CONNECTIONS {
        let (client, address) = (client.clone(), address.clone());
        tasks.spawn(async move {
            let connection = within(client.connect(&address))
                .await
                .expect("a connection");
            let stream = open(&connection, "echo").await;
            for round in 0..5 {
                let message = numbered(at * 10 + round, 3000);
                within(stream.send(message.clone())).await.expect("room");
                assert_eq!(next(&stream).await, Some(message));
            }
            within(connection.close()).await.expect("a clean close");
        });
    }
    within(tasks.join_all()).await;
    within(serving).await.expect("a server that ends");
}

#[tokio::test]
async fn sensitive_messages_requests_and_replies_come_in_their_order() {
    let pair = Pair::tcp(SessionConfig::default()).await;
    let (left, right) = pair.stream().await;
    let answer = async {
        for number in 0..10_u8 {
            let message = within(right.recv())
                .await
                .expect("no failure")
                .expect("one");
            assert_eq!(message.payload, [number; 100][..]);
            if message.is_request() {
                within(right.sensitive().reply(&message, "the token".into()))
                    .await
                    .expect("room");
            }
        }
    };
    let ask = async {
        for number in 0..10_u8 {
            let payload = Bytes::from(vec![number; 100]);
            match number % 4 {
                0 => within(left.send(payload)).await.expect("room"),
                1 => within(left.sensitive().send(payload)).await.expect("room"),
                2 => left.sensitive().try_send(payload).expect("room"),
                _ => {
                    let asked = left.sensitive().request(payload, Duration::from_secs(20));
                    assert_eq!(asked.await.expect("a reply"), "the token");
                }
            }
        }
    };
    tokio::join!(answer, ask);
    let stats = within(left.stats()).await.expect("open");
    assert!(matches!(
        stats.latest,
        Some((Arm::IDENTITY, Reason::Sensitive))
    ));
}

/// Every message moves one of each: beyond 128 bytes that is a call of `memcpy`, which shows.
#[tokio::test]
async fn what_sends_and_receives_a_message_is_small() {
    let pair = Pair::over(CARRIERS[0], SessionConfig::default()).await;
    let stream = open(&pair.client, "small").await;
    let send = stream.send(Bytes::new());
    assert!(size_of_val(&send) <= 128, "{} bytes", size_of_val(&send));
    let recv = stream.recv();
    assert!(size_of_val(&recv) <= 128, "{} bytes", size_of_val(&recv));
}
