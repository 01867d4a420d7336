use super::*;
use crate::report::lab::{Chunk, NodeTaken, Quantiles, Traffic};

const SCENARIO: &str = r#"
title = "t"
rounds = 3
nodes = [{ name = "a" }, { name = "b" }]
traffic = [{ name = "m", from = "a", to = "b", messages = 10, content = [{ of = "telecom" }] }]
variants = [{ name = "x" }, { name = "y" }]
figures = [
    { name = "x", variant = "x", metric = "rtt-mean", source = 1.57 },
    { name = "y", variant = "y", metric = "rtt-mean" },
    { name = "change", variant = "y", metric = "rtt-mean", against = "x", source = -8.8 },
    { name = "late", variant = "x", metric = "rtt-mean", from_message = 100 },
    { name = "early arm", variant = "x", metric = "arm", until_message = 100 },
    { name = "late arm", variant = "x", metric = "arm", from_message = 100 },
    { name = "compressed", variant = "x", metric = "compressed", from_message = 100 },
    { name = "budget", variant = "x", metric = "budget", from_message = 100 },
    { name = "taken", variant = "x", metric = "cpu-per-message", node = "b" },
    { name = "faults", variant = "x", metric = "counted:page-faults", node = "b" },
]
shapes = [
    { say = "y is less", less = "y", than = "x" },
    { say = "x is less", less = "x", than = "y" },
    { say = "y is less than one", less = "y", than = 1.0 },
    { say = "another arm", differ = ["early arm", "late arm"] },
]
"#;

fn run(variant: &str, round: u32, mean: f64) -> Run {
    let sample = |at: f64, messages: u64, rtt_sum: f64, arms: [u64; 2]| Sample {
        at,
        node: "a".to_owned(),
        budget: Some(at / 10.0),
        messages: Some(messages),
        rtt_sum: Some(rtt_sum),
        arms: arms.to_vec(),
        ..Sample::default()
    };
    Run {
        variant: variant.to_owned(),
        round,
        seconds: 2.0,
        traffic: vec![Traffic {
            from: "a".to_owned(),
            messages: 200,
            seconds: 2.0,
            rtt: Quantiles {
                mean,
                ..Quantiles::default()
            },
            ..Traffic::default()
        }],
        nodes: vec![NodeTaken {
            name: "b".to_owned(),
            cpu: 0.5,
            ..NodeTaken::default()
        }],
        counted: vec![("b".to_owned(), "page-faults".to_owned(), 7.0)],
        arms: vec!["identity".to_owned(), "lz4".to_owned()],
        samples: vec![
            sample(0.0, 0, 0.0, [0, 0]),
            sample(1.0, 100, 0.1, [100, 0]),
            sample(2.0, 200, 0.4, [125, 75]),
        ],
        ..Run::default()
    }
}

fn judged(y: [f64; 3]) -> (Vec<Figure>, Vec<Shape>) {
    let (scenario, _) = Scenario::read(SCENARIO).expect("a scenario");
    let mut runs = Vec::new();
    for (round, y) in y.into_iter().enumerate() {
        runs.push(run("x", round as u32, 0.002));
        runs.push(run("y", round as u32, y));
    }
    judge(&scenario, &runs)
}

#[test]
fn figures_are_medians_of_what_each_round_was() {
    let (figures, _) = judged([0.001, 0.0015, 0.003]);
    let ours = |name: &str| {
        let figure = figures.iter().find(|figure| figure.name == name);
        let figure = figure.expect("a figure");
        (figure.ours.as_str(), figure.unit.as_str())
    };
    assert_eq!(ours("x"), ("2.000", "ms"));
    assert_eq!(ours("change"), ("-25.0", "%"));
    // (0.4 - 0.1) s over 100 messages.
    assert_eq!(ours("late"), ("3.000", "ms"));
    assert_eq!(ours("early arm"), ("identity", ""));
    assert_eq!(ours("late arm"), ("lz4", ""));
    assert_eq!(ours("compressed"), ("75.000", "%"));
    assert_eq!(ours("budget"), ("150", "ms/s"));
    assert_eq!(ours("taken"), ("2500", "µs"));
    assert_eq!(ours("faults"), ("7.000", ""));
    assert_eq!(figures[0].source, "1.57");
    assert_eq!(figures[2].source, "-8.8");
    assert_eq!(figures[2].range, Some((-50.0, 50.0)));
}

#[test]
fn a_mean_of_some_messages_is_of_these_and_no_others() {
    let (scenario, _) = Scenario::read(SCENARIO).expect("a scenario");
    let chunk = |first, mean| Chunk {
        first,
        messages: 50,
        mean,
        ..Chunk::default()
    };
    let mut late = run("x", 0, 0.002);
    late.series = vec![
        chunk(0, 0.001),
        chunk(50, 0.002),
        chunk(100, 0.004),
        chunk(150, 0.005),
    ];
    let (figures, _) = judge(&scenario, &[late]);
    let late = figures.iter().find(|figure| figure.name == "late");
    assert_eq!(late.expect("a figure").ours, "4.500");
}

#[test]
fn shapes_are_found_round_by_round() {
    let findings = |y| {
        let (_, shapes) = judged(y);
        shapes
            .into_iter()
            .map(|shape| (shape.finding, shape.agreeing))
            .collect::<Vec<_>>()
    };
    let (agrees, differs, open) = (Finding::Agrees, Finding::Differs, Finding::Open);
    assert_eq!(
        findings([0.001, 0.001, 0.0005]),
        [(agrees, 3), (differs, 0), (open, 1), (agrees, 3)]
    );
    assert_eq!(
        findings([0.003, 0.003, 0.001]),
        [(open, 1), (open, 2), (differs, 0), (agrees, 3)]
    );
}

/// A change of some 4 % is less than 5 % though a third of the rounds say that it is more, and a difference in most rounds is none that is sure.
#[test]
fn shapes_are_of_what_is_typical() {
    let text = SCENARIO.replace("less = \"y\", than = 1.0", "less = \"change\", than = 5.0");
    let (scenario, _) = Scenario::read(&text).expect("a scenario");
    let bounded = |changes: &[f64]| {
        let mut runs = Vec::new();
        for (round, change) in changes.iter().enumerate() {
            runs.push(run("x", round as u32, 0.002));
            runs.push(run("y", round as u32, 0.002 * (1.0 + change / 100.0)));
        }
        let (_, shapes) = judge(&scenario, &runs);
        shapes[2].clone()
    };
    let changes = [
        0.7, 5.6, 3.8, 2.9, 6.1, -1.2, 4.4, 5.3, 3.1, 0.2, 5.9, 4.1, 2.2, 5.2, -6.0,
    ];
    let shape = bounded(&changes);
    assert_eq!((shape.finding, shape.agreeing), (Finding::Agrees, 10));
    let margin = shape.margin.expect("numbers");
    assert_eq!(margin.unit, "points");
    assert!(margin.low > 0.0 && margin.low < margin.middle && margin.middle < margin.high);
    assert!((0.95..0.96).contains(&margin.confidence), "{margin:?}");
    // Of five rounds all must be so, which is worth 94 %.
    let shape = bounded(&[0.7, 5.6, 3.8, 2.9, 1.1]);
    assert_eq!((shape.finding, shape.agreeing), (Finding::Open, 4));
    let shape = bounded(&[0.7, 4.6, 3.8, 2.9, 1.1]);
    assert_eq!(shape.finding, Finding::Agrees);
    let said = shape.margin.expect("numbers").to_string();
    assert!(said.ends_with(" points, 0.4000 to 4.300 at 94 %"), "{said}");
    // Four of five, but for as much in the fifth as in all others.
    let shape = bounded(&[4.6, 4.5, 4.7, 4.4, 60.0]);
    assert_eq!((shape.finding, shape.agreeing), (Finding::Open, 4));
    // One round is what it is.
    let shape = bounded(&[3.5]);
    assert_eq!(shape.finding, Finding::Agrees);
    let said = shape.margin.expect("numbers").to_string();
    assert!(
        said.starts_with("1.50") && said.ends_with(" points, which is worth nothing of one round"),
        "{said}"
    );
}

#[test]
fn what_was_not_run_is_not_known() {
    let (scenario, _) = Scenario::read(SCENARIO).expect("a scenario");
    let (figures, shapes) = judge(&scenario, &[]);
    assert!(figures.iter().all(|figure| figure.ours == "-"));
    assert!(
        shapes
            .iter()
            .all(|shape| shape.finding == Finding::Open && shape.known == 0)
    );
}

/// Runs of any number of rounds, and more only while a shape is open.
#[test]
fn there_are_more_rounds_while_a_shape_is_open() {
    let (mut scenario, _) = Scenario::read(SCENARIO).expect("a scenario");
    scenario.shapes.truncate(2);
    let mut runs = Vec::new();
    let mut open = Vec::new();
    let first = [0.0025].into_iter();
    for (round, y) in first.chain([0.001; 6]).enumerate() {
        runs.push(run("x", round as u32, 0.002));
        runs.push(run("y", round as u32, y));
        open.push(is_open(&scenario, &runs));
    }
    // None of one; then the one that is not so keeps it open until ranks may leave it out.
    assert_eq!(open, [false, true, true, true, true, true, false]);
    let (figures, shapes) = judge(&scenario, &runs);
    assert_eq!(shapes[0].known, 7, "beyond the scenario's three rounds");
    assert_eq!(figures[0].rounds.len(), 7);
    // What no run tells, no other will.
    assert!(!is_open(&scenario, &[]));
}
