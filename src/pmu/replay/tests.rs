//! Recordings of a machine that is made up, replayed.

use super::*;
use crate::pmu::fake::Fake;
use crate::pmu::write::{Encoder, Epilogue, RecordFormat};

const SETS: &str = "
    [[sets]]
    name = 'cpi'
    events = ['cycles', 'instructions', 'no-such-event']
    metrics = { cpi = 'cycles / instructions' }
    [[sets]]
    name = 'some'
    events = ['instructions', 'branches', 'branch-misses', 'page-faults']
    gauges = ['load', 'messages']
    group = false
    metrics = { rate = 'messages / seconds', both = 'instructions * load' }
";

fn encode<C: Counters>(monitor: &Monitor<C>, preamble: &Preamble) -> String {
    let (layout, store) = (monitor.layout(), monitor.store());
    let mut out = Vec::new();
    let mut encoder = Encoder::begin(RecordFormat::JsonLines, layout, preamble, &mut out);
    let mut cursor = store.start();
    while let Some(sample) = store.get(layout, cursor) {
        encoder.sample(&sample, &mut out);
        cursor = cursor.next();
    }
    encoder.finish(&Epilogue::default(), &mut out);
    String::from_utf8(out).unwrap()
}

/// Of a machine with two counters, so that the second set is multiplexed, until half of the samples are overwritten.
fn recorded() -> String {
    let (load, handle) = Gauge::supplied("load");
    let mut sent = 0.0;
    let messages = Gauge::count("messages", move |_| {
        sent += 3.0;
        Some(sent)
    });
    let sets = EventSets::parse(SETS).unwrap();
    let config = MonitorConfig::new(sets)
        .process(7)
        .cpu(1)
        .slots(101)
        .gauge(load)
        .gauge(messages);
    let mut fake = Fake::with_counters(2);
    fake.threads = vec![7, 8];
    let mut monitor = Monitor::new(config, fake, Time::from_nanos(5)).unwrap();
    for tick in 1..=100 {
        monitor.counters_mut().run(9_000 + tick % 17);
        handle.set(tick as f64 / 3.0);
        monitor.tick(Time::from_nanos(5 + tick * 10_000 + tick % 7));
    }
    let preamble = Preamble {
        hz: 100_000.0,
        slots: 101,
        origin_unix_nanos: 99,
        missing: Vec::new(),
    };
    encode(&monitor, &preamble)
}

fn replayed(text: &str) -> Monitor<ReplayCounters> {
    let recording = Recording::read(text.as_bytes()).unwrap();
    let mut monitor = recording.monitor(|config| config.slots(101)).unwrap();
    while monitor.replay_tick() {}
    monitor
}

#[test]
fn a_recording_replayed_is_the_same_recording() {
    let text = recorded();
    assert_eq!(text.lines().count(), 103);
    assert!(text.contains("\"scaled\"") && text.contains("\"rate\""));
    let preamble = Recording::read(text.as_bytes()).unwrap().preamble().clone();
    let monitor = replayed(&text);
    assert_eq!(encode(&monitor, &preamble), text);
    let missing: Vec<_> = monitor.missing().iter().map(ToString::to_string).collect();
    assert_eq!(
        missing,
        ["no-such-event of set cpi: the recording does not have it"]
    );
}

#[test]
fn a_process_that_left_in_the_recording_leaves_in_the_replay() {
    let text = recorded();
    // From the middle on, without the process.
    let lines = text.lines().enumerate();
    let kept = lines.filter(|(number, line)| *number < 50 || !line.contains("\"pid\":7"));
    let text = kept.map(|(_, line)| line).collect::<Vec<_>>().join("\n") + "\n";
    let preamble = Recording::read(text.as_bytes()).unwrap().preamble().clone();
    assert_eq!(encode(&replayed(&text), &preamble), text);
}

#[test]
fn a_recording_that_was_cut_is_read_to_its_last_whole_line() {
    let text = recorded();
    let cut = text.len() / 2 + 7;
    let whole = text[..cut].lines().count() - 2;
    assert_eq!(
        Recording::read(&text.as_bytes()[..cut]).unwrap().len(),
        whole
    );
}

#[test]
fn what_was_missing_and_what_it_took_is_known_of_a_recording() {
    let text = recorded();
    let recording = Recording::read(text.as_bytes()).unwrap();
    let epilogue = recording.epilogue().expect("it was brought to its end");
    assert_eq!((epilogue.probe, epilogue.lost), (None, 0));
    assert!(recording.missing().is_empty() && !recording.is_cut());
    // Without its last line it goes on, or was killed; cut within one, that is known too.
    let end = text.trim_end().rfind('\n').unwrap() + 1;
    let recording = Recording::read(&text.as_bytes()[..end]).unwrap();
    assert!(recording.epilogue().is_none() && !recording.is_cut());
    assert!(
        Recording::read(&text.as_bytes()[..end - 3])
            .unwrap()
            .is_cut()
    );

    let missing =
        r#""missing":[{"set":"cpi","name":"cycles","place":"cpu 1","reason":"no \"counters\""}]"#;
    let last = r#"{"end":true,"lost":5,"probe_share":0.5,"probe_ns":30,"working_ns":20,"wall_ns":60,"missed_ticks":2,"interrupt_share":0.25}"#;
    let text = text[..end].replace("\"missing\":[]", missing) + last;
    let recording = Recording::read(text.as_bytes()).unwrap();
    let [missing] = recording.missing() else {
        panic!("one is missing");
    };
    assert_eq!(
        (missing.set.as_str(), missing.name.as_str()),
        ("cpi", "cycles")
    );
    assert_eq!(missing.place.as_deref(), Some("cpu 1"));
    assert_eq!(missing.reason, "no \"counters\"");
    let again = encode(&replayed(&text), recording.preamble());
    assert!(again.contains("no \\\"counters\\\""), "written once more");
    let epilogue = recording.epilogue().unwrap();
    let probe = epilogue.probe.unwrap();
    assert_eq!((epilogue.lost, probe.missed), (5, 2));
    assert_eq!(epilogue.interrupts, Some(0.25));
    assert!((probe.share() - 0.5).abs() < 1e-12);
    assert!((probe.working_share() - 1.0 / 3.0).abs() < 1e-12);
}

#[test]
fn what_is_no_recording_is_refused_with_the_line() {
    let text = recorded();
    let lines: Vec<_> = text.lines().collect();
    let with = |line: &str| format!("{}\n{}\n{line}\n{}\n", lines[0], lines[1], lines[2]);
    let other = |from: &str, to: &str| with(&lines[1].replace(from, to));
    assert!(lines[1].contains("\"cpu\":1"));
    for (text, reason) in [
        (String::new(), "no samples"),
        (format!("{}\n", lines[0]), "no samples"),
        ("{}\n".into(), "line 1: missing field"),
        (
            lines[0].replace("\"tautline_monitor\":1", "\"tautline_monitor\":2"),
            "version 2",
        ),
        (
            lines[0].replace("cycles / instructions", "cycles / "),
            "metric cpi: expected",
        ),
        (with("nonsense"), "line 3: "),
        (with("[1]"), "line 3: "),
        (
            other("\"cpu\":1", "\"pid\":7,\"cpu\":1"),
            "line 3: a sample is of one",
        ),
        (other("\"cpu\":1", "\"x\":7"), "line 3: a sample is of one"),
        (other("\"set\":\"", "\"set\":\"x"), "line 3: its set"),
        (
            other("\"at_ns\":", "\"at_ns\":0,\"x\":"),
            "line 3: times go backwards",
        ),
        (
            format!("{}\n{}", lines[0], "x".repeat(MAX_LINE as usize + 1)),
            "longer than",
        ),
    ] {
        let error = Recording::read(text.as_bytes()).map(|recording| recording.len());
        let error = error.unwrap_err().to_string();
        assert!(error.contains(reason), "{reason}: {error}");
    }
}
