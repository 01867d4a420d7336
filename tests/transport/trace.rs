//! The trace of decisions.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tautline::session::SessionConfig;
use tautline::transport::Connection;

use super::support::{Pair, next, numbered, within};

/// Asks for decisions and stops waiting: at once, or only when they are there.
async fn ask_in_vain(connection: &Connection, waits: bool) {
    let mut asked = pin!(connection.take_decisions());
    let mut nobody = Context::from_waker(Waker::noop());
    assert!(asked.as_mut().poll(&mut nobody).is_pending());
    if waits {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn decisions_that_nobody_waited_for_are_the_next_ones() {
    const COUNT: u32 = 60;
    let pair = Pair::tcp(SessionConfig::default().trace(true)).await;
    let (left, right) = pair.stream().await;
    let mut taken = Vec::new();
    for number in 0..COUNT {
        // Each is received before the next is sent, and so a block of its own.
        within(left.send(numbered(number, 100)))
            .await
            .expect("room");
        next(&right).await.expect("a message");
        match number % 5 {
            0 => taken.extend(within(pair.client.take_decisions()).await.expect("open")),
            number => ask_in_vain(&pair.client, number % 2 == 0).await,
        }
    }
    taken.extend(within(pair.client.take_decisions()).await.expect("open"));
    assert_eq!(taken.len(), COUNT as usize);
    assert!(taken.is_sorted_by_key(|decision| decision.at));

    // Nor does the session's end lose them.
    ask_in_vain(&pair.client, false).await;
    within(left.send(numbered(0, 100))).await.expect("room");
    next(&right).await.expect("a message");
    ask_in_vain(&pair.client, true).await;
    let (closed, _) =
        within(async { tokio::join!(pair.client.close(), pair.server.close()) }).await;
    closed.expect("a clean close");
    let last = within(pair.client.take_decisions()).await;
    assert_eq!(last.map(|decisions| decisions.len()), Some(1));
    assert!(within(pair.client.take_decisions()).await.is_none());
}
