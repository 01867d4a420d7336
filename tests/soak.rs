//! What `examples/soak` does for an hour, until each thing has happened a few times: whatever is sent comes back, and
//! descriptors and tasks are given back.

#![cfg(target_os = "linux")]

#[path = "../examples/soak/churn.rs"]
mod churn;
#[path = "../examples/soak/gauge.rs"]
mod gauge;
#[path = "../examples/soak/verdict.rs"]
mod verdict;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use churn::{Plan, Tally};
use gauge::Held;
use verdict::Verdict;

/// More than any of this takes on the slowest machine.
const LIMIT: Duration = Duration::from_secs(120);

async fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_churn_everything_came_back_and_nothing_is_held() {
    let plan = Plan {
        streams: 60,
        connections: 2,
        messages_per_fault: 1000,
        messages_per_connection: 4000,
        seed: 1,
    };
    let before = Held::now().expect("/proc");
    let tally = Arc::new(Tally::default());
    let soaking = tokio::spawn(churn::run(plan, Arc::clone(&tally)));
    let mut most = before.descriptors;
    let enough = || {
        most = most.max(Held::now().map_or(0, |held| held.descriptors));
        let [faults, connections] =
            [&tally.faults, &tally.connections].map(|count| count.load(Relaxed));
        soaking.is_finished() || faults > 10 && connections > 6
    };
    tokio::time::timeout(LIMIT, until(enough))
        .await
        .expect("faults and connections");
    assert!(
        soaking.is_finished() || most > before.descriptors,
        "what is counted says nothing"
    );
    tally.stop();
    let result = tokio::time::timeout(LIMIT, soaking).await;
    assert_eq!(result.expect("an end").expect("no panic"), Ok(()));
    assert_eq!(
        tally.streams_opened.load(Relaxed),
        tally.streams_ended.load(Relaxed)
    );
    assert!(tally.messages.load(Relaxed) > 10_000 && tally.bytes.load(Relaxed) > 0);
    // The last drivers, and what they hold, go after those who waited for them.
    let given_back = || {
        let now = Held::now().expect("/proc");
        (now.descriptors, now.tasks) == (before.descriptors, before.tasks)
    };
    let result = tokio::time::timeout(LIMIT, until(given_back)).await;
    assert!(
        result.is_ok(),
        "{:?} are held, and {before:?} were before",
        Held::now()
    );
}

/// The verdict on a heap and a resident memory that came to be so many times as much in the second half.
fn verdict(heap: f64, resident: f64) -> bool {
    let mut verdict = Verdict::default();
    for at in 0..600 {
        let grown = |by: f64| 1e8 * if at < 350 { 1.0 } else { by };
        verdict.sample(&Held {
            resident: grown(resident) as u64,
            heap: grown(heap) as usize,
            descriptors: 0,
            tasks: 0,
        });
    }
    verdict.print()
}

#[test]
fn growth_of_either_memory_fails_the_soak() {
    assert!(verdict(1.0, 1.0));
    assert!(verdict(1.019, 0.981));
    for grown in [1.021, 2.0, 0.5] {
        assert!(!verdict(grown, 1.0), "the heap, {grown}");
        assert!(!verdict(1.0, grown), "resident memory, {grown}");
        assert!(!verdict(grown, grown));
    }
}
