use super::*;

const GOOD: &str = r#"title = "two nodes"
nodes = [{ name = "a", processors = [0], policy = "zstd:3" }, { name = "b" }]
links = [{ between = ["a", "b"], rate = "2Mbit", changes = [{ at_message = 40, rate = "1Mbit" }] }]
loads = [{ name = "hog", node = "b", leech = "memory:0.5", from_message = 20, until = 3 }]
monitor = { sets = ["system"], hz = 50 }
variants = [
    { name = "as written" },
    { name = "none", set = { "nodes.*.policy" = "none", "loads.hog.on" = false, limit = 7 } },
    { name = "slow", set = { "links.0.rate" = "100kbit" } },
]
figures = [
    { name = "one", variant = "none", metric = "rtt-mean", source = 1.5 },
    { name = "arm", variant = "slow", metric = "arm", from_message = 10 },
    { name = "change", variant = "slow", metric = "rtt-mean", against = "one" },
]
shapes = [{ say = "less", less = "one", than = 3 }, { say = "other", differ = ["arm", "arm"] }]

[[traffic]]
name = "messages"
from = "a"
to = "b"
messages = 100
content = [{ of = "telecom" }, { from_message = 50, of = "zeros:10" }]
"#;

#[test]
fn a_scenario_is_read_with_its_variants() {
    let (scenario, variants) = Scenario::read(GOOD).expect("a scenario");
    assert_eq!(scenario.rounds, 3);
    let names: Vec<&str> = variants.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["as written", "none", "slow"]);
    let of = |place: usize| &variants[place].1;
    assert_eq!(of(0).nodes[0].policy, "zstd:3");
    assert_eq!(
        (of(0).nodes[1].policy.as_str(), of(0).limit),
        ("cost", 60.0)
    );
    assert!(of(1).nodes.iter().all(|node| node.policy == "none"));
    assert!(!of(1).loads[0].on && of(0).loads[0].on);
    assert!((of(1).limit - 7.0).abs() < 1e-9);
    assert_eq!(of(2).links[0].rate, "100kbit");
    let when = scenario.loads[0].when();
    assert!(when.from == Some(Moment::Message(20)) && when.until == Some(Moment::Seconds(3.0)));
}

#[test]
fn without_variants_there_is_one() {
    let plain = GOOD.split("variants = [").next().expect("text").to_owned();
    let traffic = &GOOD[GOOD.find("[[traffic]]").expect("traffic")..];
    let (_, variants) = Scenario::read(&(plain + traffic)).expect("a scenario");
    assert_eq!(variants.len(), 1);
    assert_eq!(variants[0].0, PLAIN);
}

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "a line for each thing that can be wrong"
)]
fn what_is_wrong_is_said_with_its_place() {
    for (from, to, reason) in [
        ("title = \"two nodes\"", "title = ", "line 1: "),
        (
            "policy = \"zstd:3\"",
            "polcy = \"none\"",
            "line 2: unknown field `polcy`",
        ),
        (
            "policy = \"zstd:3\"",
            "policy = \"fastest\"",
            "node `a`: `fastest` is neither a policy",
        ),
        (
            "policy = \"zstd:3\"",
            "rotation = [\"lz4\", \"quick\"]",
            "node `a`: no codec is called `quick`",
        ),
        (
            "processors = [0]",
            "processors = [-1]",
            "line 2: invalid value",
        ),
        (
            "{ name = \"b\" }",
            "{ name = \"a\" }",
            "two nodes named `a`",
        ),
        (
            "{ name = \"b\" }",
            "{ name = \"../b\" }",
            "a node's name is 1 to 60",
        ),
        (
            "rate = \"2Mbit\"",
            "rate = \"fast\"",
            "`fast` is not a link's rate",
        ),
        (
            "between = [\"a\", \"b\"]",
            "between = [\"a\", \"c\"]",
            "no node `c`",
        ),
        (
            "between = [\"a\", \"b\"]",
            "between = [\"a\", \"a\"]",
            "there is one between two nodes",
        ),
        (
            "title = \"two nodes\"",
            "title = \"two nodes\"\nmost_rounds = 2",
            "most_rounds is 2, and may be 3 to 100",
        ),
        ("at_message = 40, ", "", "a change without at or at_message"),
        (
            "rate = \"2Mbit\"",
            "delay_ms = -1",
            "delay_ms is -1, and may be 0 to 10000",
        ),
        ("memory:0.5", "gpu", "there are cpu, load, fpu"),
        ("memory:0.5", "network", "traffic is for that"),
        ("memory:0.5", "cpu@1", "names none itself"),
        ("leech = \"memory:0.5\", ", "", "one of them"),
        (
            "from_message = 20",
            "from_message = 20, from = 2",
            "from and from_message: one of them",
        ),
        (
            "hz = 50",
            "hz = 1e9",
            "monitor: hz is 1000000000, and may be 1 to 1000",
        ),
        (
            "\"nodes.*.policy\"",
            "\"nodes.c.policy\"",
            "variant `none`: `nodes.c.policy`: there is nothing of that name",
        ),
        (
            "\"nodes.*.policy\"",
            "\"nodes.a.polcy\"",
            "variant `none`: unknown field `polcy`",
        ),
        (
            "limit = 7",
            "limit = 1e9",
            "variant `none`: limit is 1000000000, and may be 0.1 to 3600",
        ),
        (
            "limit = 7",
            "quick = nan",
            "variant `none`: quick is NaN, and may be 0.0001 to 1",
        ),
        (
            "name = \"slow\"",
            "name = \"none\"",
            "two variants named `none`",
        ),
        (
            "metric = \"rtt-mean\", source",
            "metric = \"rtt\", source",
            "no metric `rtt`; there are rtt-mean",
        ),
        (
            "variant = \"none\"",
            "variant = \"nobody\"",
            "figure `one`: no variant `nobody`",
        ),
        (
            "against = \"one\"",
            "against = \"two\"",
            "figure `change`: no figure `two`",
        ),
        (
            "against = \"one\"",
            "against = \"arm\"",
            "which is of another metric",
        ),
        (
            "metric = \"arm\"",
            "metric = \"ratio\"",
            "ratio is known of whole runs only",
        ),
        (
            "than = 3",
            "differ = [\"arm\", \"arm\"]",
            "either less and than, or differ",
        ),
        (
            "differ = [\"arm\", \"arm\"]",
            "differ = [\"one\", \"arm\"]",
            "`one` is a number",
        ),
        ("less = \"one\"", "less = \"arm\"", "`arm` is no number"),
        ("to = \"b\"", "to = \"a\"", "from a node to itself"),
        (
            "messages = 100",
            "messages = 0",
            "messages is 0, and may be 1 to 2000000",
        ),
        (
            "{ of = \"telecom\" }, ",
            "",
            "the first content is from message 0 on",
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let problem = Scenario::read(&GOOD.replacen(from, to, 1)).expect_err(to);
        let text = problem.to_string();
        assert!(text.contains(reason), "{to}: {text}");
    }
}

#[test]
fn quick_is_less_of_everything() {
    let (mut scenario, _) = Scenario::read(GOOD).expect("a scenario");
    scenario.quicken();
    assert_eq!(scenario.rounds, 1);
    assert_eq!(scenario.traffic[0].messages, 5);
    assert_eq!(scenario.traffic[0].content[1].from_message, 3);
    assert_eq!(scenario.loads[0].from_message, Some(1));
    assert_eq!(scenario.links[0].changes[0].at_message, Some(2));
    assert_eq!(scenario.figures[1].from_message, Some(1));
    scenario.check().expect("still a scenario");
}
