//! A stream's messages as a `Stream` and a `Sink` of the `futures` crates.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, TryStreamExt, future};
use tautline::session::{Limits, SendError, SessionConfig, SessionError};
use tautline::transport::{RecvError, Stream};

use super::lifecycle::pair_cut_after;
use super::support::{CARRIERS, Pair, next, numbered, payloads, within};

async fn feed(stream: &Stream, messages: impl IntoIterator<Item = Bytes>) {
    let mut sink = stream.sink();
    for message in messages {
        within(sink.feed(message)).await.expect("room");
    }
    within(sink.close()).await.expect("room");
}

/// Waits until so many messages are where they can be taken.
async fn until_here(stream: &Stream, count: u64) {
    let here = async {
        while stream.stats().await.expect("a stream").messages_received < count {
            tokio::task::yield_now().await;
        }
    };
    within(here).await;
}

#[tokio::test]
async fn what_is_fed_arrives_in_its_order_and_then_nothing() {
    for carrier in CARRIERS {
        let session = SessionConfig::default().send_queue(20_000);
        let pair = Pair::over(*carrier, session).await;
        let (left, right) = pair.stream().await;
        let sent: Vec<_> = payloads(5, 2000, 5000).collect();
        let receiving = async {
            let mut messages = right.messages();
            for (at, expected) in sent.iter().enumerate() {
                let message = within(messages.next()).await.expect("not the end");
                let message = message.expect("no failure");
                assert!(message.payload == expected, "message {at} over {carrier:?}");
            }
            assert!(within(messages.next()).await.is_none());
            assert!(within(messages.next()).await.is_none(), "nor after that");
        };
        tokio::join!(feed(&left, sent.iter().cloned()), receiving);
        let closed = Err(SendError::Closed(left.id()));
        assert_eq!(within(left.sink().send(numbered(0, 4))).await, closed);
    }
}

#[tokio::test]
async fn one_that_waits_is_woken_by_each_message() {
    let pair = Pair::tcp(SessionConfig::default()).await;
    let (left, right) = pair.stream().await;
    let echo = async {
        let mut messages = right.messages();
        while let Some(message) = within(messages.try_next()).await.expect("no failure") {
            let answer = within(right.sink().send(message.payload)).await;
            answer.expect("room");
        }
    };
    let exchange = async {
        for at in 0..200 {
            within(left.send(numbered(at, 50))).await.expect("room");
            assert_eq!(next(&left).await, Some(numbered(at, 50)));
        }
        left.finish();
    };
    tokio::join!(echo, exchange);
}

/// Whoever comes next gets what was taken and not given, before what came since, and the end after that.
#[tokio::test]
async fn what_was_taken_and_not_given_comes_again() {
    let pair = Pair::tcp(SessionConfig::default()).await;
    let (left, right) = pair.stream().await;
    feed(&left, (0..500).map(|at| numbered(at, 20))).await;
    for at in 0..500 {
        let payload = match at % 3 {
            // It takes 64 that are here, and gives one.
            0 => {
                let message = within(right.messages().try_next()).await;
                message.expect("no failure").map(|message| message.payload)
            }
            1 => next(&right).await,
            _ => {
                let mut some = Vec::new();
                let count = within(right.recv_many(&mut some, 1)).await;
                assert_eq!(count, Ok(1));
                some.pop().map(|message| message.payload)
            }
        };
        assert_eq!(payload, Some(numbered(at, 20)));
    }
    assert_eq!(next(&right).await, None);
}

/// One who has taken more than he has use for leaves them to one who waits.
#[tokio::test]
async fn who_waits_is_woken_for_what_another_gives_back() {
    let pair = Pair::tcp(SessionConfig::default()).await;
    let (left, right) = pair.stream().await;
    for at in 0..3 {
        within(left.send(numbered(at, 20))).await.expect("room");
    }
    let mut messages = right.messages();
    until_here(&right, 3).await;
    let first = within(messages.try_next()).await.expect("no failure");
    assert_eq!(first.map(|message| message.payload), Some(numbered(0, 20)));
    let mut another = Box::pin(right.recv());
    assert!(future::poll_immediate(&mut another).await.is_none());
    drop(messages);
    let second = within(another).await.expect("no failure");
    assert_eq!(second.map(|message| message.payload), Some(numbered(1, 20)));
    assert_eq!(next(&right).await, Some(numbered(2, 20)));
}

/// Waiting is given up at any moment, and nothing is lost with it.
#[tokio::test]
async fn nothing_is_lost_with_one_that_is_dropped_while_it_waits() {
    let session = SessionConfig::default().send_queue(1000);
    let pair = Pair::tcp(session).await;
    let (left, right) = pair.stream().await;
    let receiving = async {
        let mut expected = 0;
        loop {
            let mut messages = right.messages();
            for _ in 0..10 {
                tokio::select! {
                    biased;
                    message = messages.try_next() => {
                        let Some(message) = message.expect("no failure") else {
                            assert_eq!(expected, 5000);
                            return;
                        };
                        assert_eq!(message.payload, numbered(expected, 100));
                        expected += 1;
                    }
                    () = tokio::task::yield_now() => break,
                }
            }
        }
    };
    within(async {
        tokio::join!(
            feed(&left, (0..5000).map(|at| numbered(at, 100))),
            receiving
        )
    })
    .await;
}

#[tokio::test]
async fn one_in_parts_is_said_until_it_is_taken() {
    let pair = Pair::tcp(SessionConfig::default()).await;
    let (left, right) = pair.stream().await;
    let long = vec![7; 300_000];
    let sending = async {
        within(left.send(numbered(1, 10))).await.expect("room");
        within(left.send_reader(&long[..])).await.expect("room");
        feed(&left, [numbered(2, 10)]).await;
    };
    let receiving = async {
        let mut messages = right.messages();
        let payload = |message: Option<tautline::transport::Received>| message.map(|it| it.payload);
        let first = within(messages.try_next()).await.map(payload);
        assert_eq!(first, Ok(Some(numbered(1, 10))));
        for _ in 0..2 {
            let next = within(messages.try_next()).await.map(payload);
            assert_eq!(next, Err(RecvError::InParts));
        }
        let mut reader = within(right.recv_reader())
            .await
            .expect("no failure")
            .expect("a message");
        let mut all = Vec::new();
        within(tokio::io::AsyncReadExt::read_to_end(&mut reader, &mut all))
            .await
            .expect("all of it");
        assert!(all == long);
        drop(reader);
        let last = within(messages.try_next()).await.map(payload);
        assert_eq!(last, Ok(Some(numbered(2, 10))));
        assert_eq!(within(messages.try_next()).await.map(payload), Ok(None));
    };
    tokio::join!(sending, receiving);
}

#[tokio::test]
async fn a_failure_is_said_once() {
    let pair = pair_cut_after(100_000).await;
    let (left, right) = pair.stream().await;
    let sending = async {
        let mut sink = left.sink();
        let mut at = 0;
        while within(sink.feed(numbered(at, 1000))).await.is_ok() {
            at += 1;
        }
        let again = within(sink.flush()).await;
        assert_eq!(again, Err(SendError::Closed(left.id())));
    };
    let receiving = async {
        let mut messages = right.messages();
        let mut count = 0;
        let failure = loop {
            match within(messages.next()).await.expect("not the end") {
                Ok(_) => count += 1,
                Err(failure) => break failure,
            }
        };
        assert!(count > 0);
        assert_eq!(failure, RecvError::Session(SessionError::ConnectionLost));
        assert!(within(messages.next()).await.is_none());
    };
    tokio::join!(sending, receiving);
}

#[tokio::test]
async fn one_that_is_too_long_is_refused_and_the_others_go() {
    let limits = Limits::default().max_message(1000);
    let pair = Pair::tcp(SessionConfig::default().limits(limits)).await;
    let (left, right) = pair.stream().await;
    let mut sink = left.sink();
    within(sink.feed(numbered(0, 1000))).await.expect("room");
    let (given, max) = (1001, 1000);
    let too_long = Err(SendError::TooLong { given, max });
    assert_eq!(within(sink.feed(numbered(1, 1001))).await, too_long);
    within(sink.feed(numbered(2, 1000))).await.expect("room");
    within(sink.flush()).await.expect("room");
    assert_eq!(next(&right).await, Some(numbered(0, 1000)));
    assert_eq!(next(&right).await, Some(numbered(2, 1000)));
}

/// A task that finds messages, and room, whenever it looks leaves its thread to others, too.
#[tokio::test]
async fn the_other_tasks_of_a_thread_have_their_turn() {
    let pair = Pair::tcp(SessionConfig::default()).await;
    let (left, right) = pair.stream().await;
    let turns = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let other = tokio::spawn({
        let turns = Arc::clone(&turns);
        async move {
            loop {
                turns.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }
    });
    // A block is taken whole, however many messages it has: here no more than a hundred.
    let mut sink = left.sink();
    for at in 0..4000 {
        within(sink.feed(numbered(at, 4))).await.expect("room");
        if at % 100 == 99 {
            within(sink.flush()).await.expect("room");
            until_here(&right, u64::from(at) + 1).await;
        }
    }
    let before = turns.load(std::sync::atomic::Ordering::Relaxed);
    let mut messages = right.messages();
    for at in 0..4000 {
        let message = within(messages.try_next()).await.expect("no failure");
        assert_eq!(message.map(|it| it.payload), Some(numbered(at, 4)));
    }
    let since = turns.load(std::sync::atomic::Ordering::Relaxed) - before;
    assert!(since >= 3, "{since} turns");
    other.abort();
}
