//! Workloads over real connections: what is counted, and that nothing is left out of it.
#![cfg(target_os = "linux")]

use std::time::Duration;

use tautline::loadgen::workload::{
    Arrivals, Content, Corpora, Drive, DriveConfig, DriveReport, Ended, KindReport, Latency, Mix,
    StreamKind, Workload,
};
use tautline::session::{Limits, SessionConfig};
use tautline::transport::{Connection, Listener, Node, NodeConfig, ResumeConfig, Stream};
use tokio::runtime::Runtime;

const MILLI: u64 = 1_000_000;

/// What the peer does with the messages of a stream.
#[derive(Clone, Copy, Debug)]
enum Peer {
    /// Sends each back, and stops once for so long before it does so with the message of this number.
    Echo(Option<(u64, Duration)>),
    /// Reads nothing.
    Deaf,
    /// Reads, and sends nothing back.
    Sink,
    /// Sends back something else.
    Liar,
    /// Goes after so many.
    Leaves(u64),
}

async fn serve(stream: Stream, connection: Connection, peer: Peer) {
    let mut count = 0;
    if matches!(peer, Peer::Deaf) {
        return std::future::pending().await;
    }
    while let Ok(Some(message)) = stream.recv().await {
        let payload = message.payload.clone();
        let payload = match peer {
            Peer::Sink => {
                count += 1;
                continue;
            }
            Peer::Liar => payload.iter().map(|byte| byte ^ 1).collect(),
            Peer::Leaves(after) if count >= after => {
                let _ = connection.close().await;
                return;
            }
            Peer::Echo(Some((at, stall))) if count == at => {
                tokio::time::sleep(stall).await;
                payload
            }
            _ => payload,
        };
        if stream.reply(&message, payload).await.is_err() {
            return;
        }
        count += 1;
    }
}

async fn accept(listener: Listener, peer: Peer) {
    while let Ok(connection) = listener.accept().await {
        tokio::spawn(async move {
            while let Ok(Some(stream)) = connection.accept().await {
                tokio::spawn(serve(stream, connection.clone(), peer));
            }
        });
    }
}

/// Without a guard, so that a busy machine changes nothing.
fn node(resume: bool) -> Node {
    let limits = Limits::default().window(256 << 10);
    let config = NodeConfig::default()
        .guard(None)
        .session(SessionConfig::default().limits(limits))
        .resume(resume.then(ResumeConfig::default));
    Node::new(config).expect("a node")
}

/// A connection to a peer of this kind, and the nodes at its ends.
async fn connected(peer: Peer, resume: bool) -> ([Node; 2], Connection) {
    let (server, client) = (node(resume), node(resume));
    let anywhere = "127.0.0.1:0".parse().expect("an address");
    let listener = server.listen(&anywhere).await.expect("a listener");
    let address = listener.local_address().expect("an address");
    tokio::spawn(accept(listener, peer));
    let connection = client.connect(&address).await.expect("a connection");
    ([server, client], connection)
}

/// Drives a workload against a peer of this kind to its end.
fn drive(peer: Peer, workload: &Workload, config: &DriveConfig, resume: bool) -> DriveReport {
    let runtime = Runtime::new().expect("a runtime");
    let report = runtime.block_on(async {
        let (_nodes, connection) = connected(peer, resume).await;
        let drive = Drive::start(&connection, workload, config).await;
        let drive = drive.expect("a drive");
        drive.over().await;
        let soon = drive.report();
        let report = drive.finish().await;
        for (soon, kind) in soon.kinds.iter().zip(&report.kinds) {
            assert_eq!(soon.due, soon.sent + soon.not_sent + soon.queued);
            assert_eq!(kind.due, kind.sent + kind.not_sent, "{kind:?}");
            assert!(kind.due >= soon.due && kind.queued == 0);
        }
        report
    });
    runtime.shutdown_background();
    report
}

fn kind(name: &str, arrivals: &str, content: &str) -> StreamKind {
    let corpora = &mut Corpora::none();
    let arrivals = Arrivals::parse(arrivals, corpora).expect("arrivals");
    let content = Content::parse(content, corpora).expect("content");
    StreamKind::new(name, arrivals, Mix::of(content))
}

fn workload(kinds: Vec<StreamKind>, millis: u64) -> Workload {
    let workload = Workload::new(kinds).expect("a workload");
    workload.length(Duration::from_millis(millis))
}

fn patience(millis: u64) -> DriveConfig {
    DriveConfig::default().patience(Duration::from_millis(millis))
}

#[test]
fn all_that_is_due_is_sent_answered_and_counted() {
    let kinds = vec![
        kind("even", "constant:2000", "telecom").streams(3),
        kind("few", "poisson:1000", "random:10-2000").messages(Some(50)),
        kind("closed", "closed:4", "logs")
            .streams(2)
            .messages(Some(500)),
    ];
    let config = patience(30_000).rows(100_000);
    let report = drive(Peer::Echo(None), &workload(kinds, 1000), &config, false);
    assert_eq!(report.ended, Ended::Done);
    assert!(report.sending >= Duration::from_secs(1));
    let due: Vec<u64> = report.kinds.iter().map(|kind| kind.due).collect();
    assert_eq!((due[0], due[1]), (2000, 50));
    // A closed loop is as fast as it is.
    assert!((1..=500).contains(&due[2]));
    for kind in &report.kinds {
        assert_eq!((kind.answered, kind.unanswered), (kind.sent, 0), "{kind:?}");
        assert_eq!(kind.from_intended.len(), kind.answered);
        assert_eq!(kind.from_sending.len(), kind.answered);
        assert_eq!(kind.latency, Latency::Replies);
    }
    assert_eq!(report.kinds[0].lateness.len(), 2000);
    let answered: u64 = report.kinds.iter().map(|kind| kind.answered).sum();
    assert_eq!(report.rows.len() as u64, answered);
    assert_eq!(report.rows_left_out, 0);
    for row in &report.rows {
        assert!(
            row.intended <= row.sent && row.sent <= row.answered,
            "{row:?}"
        );
    }
    let bytes: u64 = report.rows.iter().map(|row| u64::from(row.len)).sum();
    let sent: u64 = report.kinds.iter().map(|kind| kind.bytes).sum();
    assert_eq!(bytes, sent);
}

fn p99(kind: &KindReport) -> u64 {
    kind.from_intended.value_at_quantile(0.99)
}

#[test]
fn a_stall_shows_from_intended_times_and_a_closed_loop_hides_it() {
    const STALL: u64 = 300;
    let peer = Peer::Echo(Some((200, Duration::from_millis(STALL))));
    // A thousand messages each: message 200 cannot be answered before 200 + 300 ms, and so none behind it. A hundred of
    // the thousand are due in the first 100 ms of that and wait for 200 ms at least, however fast the machine is.
    let open = vec![kind("open", "constant:1000", "zeros:100").messages(Some(1000))];
    let open = drive(peer, &workload(open, 60_000), &patience(30_000), false);
    let open = &open.kinds[0];
    assert_eq!(open.answered, 1000);
    assert!(open.from_intended.value_at_quantile(0.95) >= (STALL - 100) * MILLI);
    // The same peer, one message at a time: the stall is in one message of a thousand.
    let closed = vec![kind("closed", "closed:1", "zeros:100").messages(Some(1000))];
    let closed = drive(peer, &workload(closed, 60_000), &patience(30_000), false);
    let closed = &closed.kinds[0];
    assert_eq!(closed.answered, 1000);
    assert!(closed.from_intended.max() >= STALL * MILLI);
    assert!(
        p99(closed) * 2 < p99(open),
        "closed {} ns, open {} ns",
        p99(closed),
        p99(open)
    );
}

#[test]
fn what_waits_for_the_queue_counts_from_its_intended_time() {
    // 32 MB/s into a window of 256 KiB that nobody empties for 300 ms: most messages of that time are not even taken by the queue before its end.
    let peer = Peer::Echo(Some((0, Duration::from_millis(300))));
    let kinds = vec![
        kind("bulk", "constant:500", "random:65536")
            .policy("none".parse().ok())
            .messages(Some(200)),
    ];
    let report = drive(peer, &workload(kinds, 60_000), &patience(30_000), false);
    let kind = &report.kinds[0];
    assert_eq!((kind.answered, kind.not_sent), (200, 0));
    // Those due in the first 150 ms waited for 150 ms and more.
    assert!(kind.from_intended.value_at_quantile(0.75) >= 100 * MILLI);
    assert!(
        kind.from_intended.mean() > 1.3 * kind.from_sending.mean(),
        "{} ns, from sending {} ns",
        kind.from_intended.mean(),
        kind.from_sending.mean()
    );
}

#[test]
fn what_cannot_be_kept_is_counted_as_not_sent() {
    let kinds = vec![
        kind("deaf", "constant:2000", "random:1000"),
        kind("beside", "constant:100", "random:65536"),
    ];
    let config = patience(100).outstanding(64).backlog(1 << 20);
    let report = drive(Peer::Deaf, &workload(kinds, 500), &config, false);
    let kind = &report.kinds[0];
    assert_eq!((kind.due, kind.answered), (1000, 0));
    assert!(kind.sent <= 64 && kind.not_sent >= 936, "{kind:?}");
    assert_eq!(kind.unanswered, kind.sent);
    assert_eq!(report.kinds[1].due, 50);
    assert_eq!(report.ended, Ended::Done);
}

#[test]
fn without_replies_there_is_throughput_and_acknowledgements_where_they_are_known() {
    let kinds = || {
        vec![
            kind("out", "constant:1000", "logs")
                .replies(false)
                .streams(2),
        ]
    };
    let report = drive(
        Peer::Sink,
        &workload(kinds(), 300),
        &patience(30_000),
        false,
    );
    let kind = &report.kinds[0];
    assert_eq!((kind.due, kind.sent, kind.answered), (300, 300, 0));
    assert_eq!((kind.latency, kind.unanswered), (Latency::Nothing, 0));
    assert!(kind.from_intended.is_empty());
    let config = patience(30_000).acknowledged(true);
    let report = drive(Peer::Sink, &workload(kinds(), 300), &config, true);
    let kind = &report.kinds[0];
    assert_eq!((kind.sent, kind.answered, kind.unanswered), (300, 300, 0));
    assert_eq!(kind.latency, Latency::Acknowledged);
    assert!(kind.from_intended.min() > 0);
}

#[test]
fn other_answers_and_lost_connections_end_it_with_the_reason() {
    let kinds = || vec![kind("a", "constant:1000", "random:100")];
    for (peer, word) in [
        (Peer::Liar, "answered with others"),
        (Peer::Leaves(5), "a-0"),
    ] {
        let report = drive(peer, &workload(kinds(), 20_000), &patience(100), false);
        let Ended::Lost(why) = &report.ended else {
            panic!("{:?}", report.ended);
        };
        assert!(why.contains(word), "{peer:?}: {why}");
        assert!(report.sending < Duration::from_secs(20));
    }
}

#[test]
fn it_stops_when_asked() {
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let (server, client) = (node(false), node(false));
        let anywhere = "127.0.0.1:0".parse().expect("an address");
        let listener = server.listen(&anywhere).await.expect("a listener");
        let address = listener.local_address().expect("an address");
        tokio::spawn(accept(listener, Peer::Deaf));
        let connection = client.connect(&address).await.expect("a connection");
        let kinds = vec![
            kind("open", "constant:100", "logs"),
            kind("closed", "closed:2", "logs"),
        ];
        let workload = workload(kinds, 3_600_000);
        let config = DriveConfig::default();
        let drive = Drive::start(&connection, &workload, &config).await;
        let drive = drive.expect("a drive");
        while drive.report().kinds.iter().any(|kind| kind.sent < 2) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drive.stop();
        drive.over().await;
        let report = drive.finish().await;
        assert_eq!(report.ended, Ended::Stopped);
        assert_eq!(report.kinds[1].sent, 2);
    });
    runtime.shutdown_background();
}

/// What a drive says in an event log of its own, beside its report.
#[cfg(feature = "eventlog")]
mod recorded {
    use tautline::eventlog::{
        EventLog, EventLogConfig, Fields, LogId, Route, Row, RowFormat, Stamp,
    };
    use tautline::loadgen::events::{Event, Events, OfMessage, config};
    use tautline::loadgen::workload::DriveError;

    use super::*;

    fn log() -> EventLog {
        let rows = RowFormat::new(Fields::ALL, Stamp::Cycles);
        let area = EventLogConfig::default()
            .log("all", 1 << 19, rows)
            .domains(16);
        EventLog::new(&config(area)).expect("room")
    }

    /// What is recorded of a drive with all that is on.
    fn events_of(
        peer: Peer,
        kinds: Vec<StreamKind>,
        config: DriveConfig,
    ) -> (DriveReport, Vec<(Row, Event)>, EventLog) {
        let log = log();
        let mut reader = log.reader();
        let events = Events::of(&mut reader).expect("there").expect("these");
        for event in events.all() {
            let route = Some(Route::to(LogId::new(0)));
            log.route(event, None, route).expect("known");
        }
        let config = config.event_log(log.clone());
        let report = drive(peer, &workload(kinds, 500), &config, false);
        let mut rows = Vec::new();
        reader.pass(&mut rows).expect("of this process");
        assert_eq!(reader.stats().lost, 0);
        let read = |row: Row| (row, Event::of(&row, events).expect("of a drive"));
        (report, rows.into_iter().map(read).collect(), log)
    }

    #[test]
    fn every_message_has_rows_of_what_became_of_it() {
        let kinds = vec![
            kind("even", "constant:1000", "telecom").streams(2),
            kind("closed", "closed:2", "logs").messages(Some(100)),
        ];
        let config = patience(30_000).rows(100_000);
        let (report, rows, log) = events_of(Peer::Echo(None), kinds, config);
        let mut due = Vec::new();
        let (mut sent, mut answered) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        for (row, event) in &rows {
            match event {
                Event::Due { message, .. } => due.push(*message),
                Event::Sent {
                    message,
                    bytes: these,
                    ..
                } => {
                    sent.push(*message);
                    bytes += these;
                }
                Event::Answered {
                    message,
                    from_intended,
                    from_sending,
                } => {
                    assert!(from_intended >= from_sending);
                    answered.push((*message, *from_intended));
                }
                other => panic!("{other:?}"),
            }
            let mut reader = log.reader();
            let name = reader.domain_name(row.domain.expect("a field"));
            assert!(
                ["even-0", "even-1", "closed-0"].contains(&name.expect("there").as_str()),
                "{row:?}"
            );
        }
        let sums = |of: fn(&KindReport) -> u64| report.kinds.iter().map(of).sum::<u64>();
        assert_eq!(due.len() as u64, sums(|kind| kind.due));
        assert_eq!(sent.len() as u64, sums(|kind| kind.sent));
        assert_eq!(bytes, sums(|kind| kind.bytes));
        // The same messages as in the report, with the same times.
        let key = |message: &OfMessage| (message.kind, message.intended);
        let mut answered: Vec<_> = answered
            .iter()
            .map(|(message, time)| (key(message), *time))
            .collect();
        let nanos = Duration::from_nanos;
        let mut reported: Vec<_> = report
            .rows
            .iter()
            .map(|row| {
                let time = nanos(row.answered - row.intended);
                ((row.kind, nanos(row.intended)), time)
            })
            .collect();
        answered.sort();
        reported.sort();
        assert_eq!(answered, reported);
        assert!(sent.iter().all(|message| due.contains(message)));
        // Of both streams of the first kind.
        for stream in [0, 1] {
            assert!(due.iter().any(|it| (it.kind, it.stream) == (0, stream)));
        }
    }

    #[test]
    fn what_is_late_or_not_sent_is_told() {
        let kinds = vec![kind("deaf", "constant:2000", "random:10000")];
        let config = patience(100).outstanding(64).backlog(1 << 20);
        let (report, rows, log) = events_of(Peer::Deaf, kinds, config);
        let kind = &report.kinds[0];
        let (mut due, mut late, mut unsent) = (0, 0, 0);
        for (row, event) in &rows {
            match event {
                Event::Due { .. } => due += 1,
                Event::Late { bytes, .. } => {
                    assert_eq!(*bytes, 10_000);
                    late += 1;
                }
                Event::Unsent { kind: 0, messages } => {
                    let name = log.reader().domain_name(row.domain.expect("a field"));
                    assert_eq!(name.expect("there"), "deaf");
                    unsent += messages;
                }
                _ => {}
            }
        }
        assert_eq!(due + unsent, kind.due);
        // Of a window of 256 KiB and a queue there is no room for all 64.
        assert!(late > 0 && unsent >= 936, "{late} late, {unsent} unsent");
        assert_eq!(due - late, kind.sent, "what was late was never sent");
    }

    #[test]
    fn nothing_is_recorded_before_it_is_switched_on_and_other_logs_are_refused() {
        let log = log();
        let config = patience(30_000).event_log(log.clone());
        let kinds = || vec![kind("even", "constant:1000", "telecom")];
        let report = drive(Peer::Echo(None), &workload(kinds(), 100), &config, false);
        assert_eq!(report.kinds[0].answered, 100);
        let mut rows = Vec::new();
        log.reader().pass(&mut rows).expect("of this process");
        assert!(rows.is_empty());

        let other = EventLogConfig::default().log("all", 4096, RowFormat::default());
        let other = EventLog::new(&other.event("own", tautline::eventlog::EventKind::Access));
        let config = DriveConfig::default().event_log(other.expect("room"));
        let runtime = Runtime::new().expect("a runtime");
        let refused = runtime.block_on(async {
            let (_nodes, connection) = connected(Peer::Deaf, false).await;
            Drive::start(&connection, &workload(kinds(), 100), &config).await
        });
        assert!(matches!(refused, Err(DriveError::EventLog)), "{refused:?}");
        runtime.shutdown_background();
    }
}
