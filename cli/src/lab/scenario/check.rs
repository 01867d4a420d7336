//! Whether a scenario makes sense, and how much it may be.

use std::collections::BTreeSet;

use tautline::codecs::Arm;
use tautline::control::PolicyConfig;
use tautline::loadgen::Resource;

use super::{
    Carrier, FigureSpec, LinkSpec, LoadSpec, Metric, NodeSpec, Scenario, ShapeSpec, Side,
    TrafficSpec,
};
use crate::lab::stage::link_rate;
use crate::load::LeechSpec;

/// The name of the only variant of a scenario that has none.
pub(in crate::lab) const PLAIN: &str = "as it is";
/// Bounds of a sample's length, seconds.
pub(super) const SAMPLE: (f64, f64) = (0.01, 10.0);

const MAX_NODES: usize = 16;
const MAX_LINKS: usize = 32;
const MAX_LOADS: usize = 64;
const MAX_TRAFFIC: usize = 16;
const MAX_VARIANTS: usize = 32;
const MAX_FIGURES: usize = 100;
const MAX_CHANGES: usize = 100;
const MAX_ROUNDS: u32 = 100;
/// An hour.
const MAX_LIMIT: f64 = 3600.0;
/// Of each a node keeps when it was sent and answered, 32 bytes.
const MAX_MESSAGES: u64 = 2_000_000;
const MAX_NAME: usize = 60;
const MAX_TEXT: usize = 2000;

/// What is wrong with a scenario.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::lab) struct Problem {
    line: Option<usize>,
    text: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.text)
    }
}

impl std::error::Error for Problem {}

impl Problem {
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self {
            line: None,
            text: text.into(),
        }
    }

    /// What the reader of TOML says, with the line.
    pub(super) fn of(error: &toml::de::Error, text: &str) -> Self {
        let line = error.span().map(|span| {
            let before = text.get(..span.start).unwrap_or(text);
            before.bytes().filter(|byte| *byte == b'\n').count() + 1
        });
        let words: Vec<&str> = error.message().split_whitespace().collect();
        Self {
            line,
            text: words.join(" "),
        }
    }

    pub(super) fn within(self, what: &str) -> Self {
        Self {
            line: self.line,
            text: format!("{what}: {}", self.text),
        }
    }
}

type Checked = Result<(), Problem>;

fn require(holds: bool, text: impl FnOnce() -> String) -> Checked {
    if holds {
        Ok(())
    } else {
        Err(Problem::plain(text()))
    }
}

fn most(what: &str, given: usize, most: usize) -> Checked {
    require(given <= most, || {
        format!("{given} {what}, and there may be {most}")
    })
}

fn within(what: &str, given: f64, (least, most): (f64, f64)) -> Checked {
    require((least..=most).contains(&given), || {
        format!("{what} is {given}, and may be {least} to {most}")
    })
}

/// Names stand in paths, files and tables.
fn name(what: &str, name: &str) -> Checked {
    let is_fine =
        |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_' | '+' | ':' | '(' | ')');
    let fits = (1..=MAX_NAME).contains(&name.chars().count());
    require(fits && name.chars().all(is_fine), || {
        format!(
            "`{}`: a {what}'s name is 1 to {MAX_NAME} letters, digits, spaces or - _ + : ( )",
            name.escape_default()
        )
    })
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Checked {
    let mut known = BTreeSet::new();
    for name in names {
        self::name(what, name)?;
        require(known.insert(name), || format!("two {what}s named `{name}`"))?;
    }
    Ok(())
}

impl Scenario {
    /// What is the same for all variants.
    pub(super) fn check_whole(&self) -> Checked {
        require(!self.title.is_empty(), || "no title".to_owned())?;
        for (what, text) in [("title", &self.title), ("source", &self.source)] {
            most(
                &format!("letters of {what}"),
                text.chars().count(),
                MAX_TEXT,
            )?;
        }
        within(
            "rounds",
            f64::from(self.rounds),
            (1.0, f64::from(MAX_ROUNDS)),
        )?;
        if let Some(most) = self.most_rounds {
            let bounds = (f64::from(self.rounds), f64::from(MAX_ROUNDS));
            within("most_rounds", f64::from(most), bounds)?;
        }
        self.check_quick()?;
        most("variants", self.variants.len(), MAX_VARIANTS)?;
        unique(
            "variant",
            self.variants.iter().map(|variant| variant.name.as_str()),
        )?;
        most("figures", self.figures.len(), MAX_FIGURES)?;
        most("shapes", self.shapes.len(), MAX_FIGURES)?;
        most("plots", self.plots.len(), 8)?;
        for figure in &self.figures {
            self.check_figure(figure)
                .map_err(|problem| problem.within(&format!("figure `{}`", figure.name)))?;
        }
        let mut names = BTreeSet::new();
        for figure in &self.figures {
            most(
                "letters of a figure's name",
                figure.name.chars().count(),
                200,
            )?;
            require(names.insert(&figure.name), || {
                format!("two figures named `{}`", figure.name)
            })?;
        }
        for shape in &self.shapes {
            self.check_shape(shape)
                .map_err(|problem| problem.within(&format!("shape `{}`", shape.say)))?;
        }
        Ok(())
    }

    fn check_figure(&self, figure: &FigureSpec) -> Checked {
        let is_known = match self.variants.as_slice() {
            [] => figure.variant == PLAIN,
            variants => variants.iter().any(|known| known.name == figure.variant),
        };
        require(is_known, || format!("no variant `{}`", figure.variant))?;
        if let Some(node) = &figure.node {
            self.expect_node(node)?;
        }
        if let Some(other) = &figure.against {
            let other = self.figure(other)?;
            require(other.against.is_none(), || {
                format!("against `{}`, which is a change itself", other.name)
            })?;
            require(
                figure.metric != Metric::Arm && other.metric == figure.metric,
                || format!("against `{}`, which is of another metric", other.name),
            )?;
        }
        let is_whole = figure.from_message.is_none() && figure.until_message.is_none();
        let is_of_all = matches!(
            figure.metric,
            Metric::RttP50 | Metric::RttP99 | Metric::Ratio | Metric::Counted(_)
        );
        require(is_whole || !is_of_all, || {
            format!("{} is known of whole runs only", figure.metric)
        })
    }

    pub(in crate::lab) fn figure(&self, name: &str) -> Result<&FigureSpec, Problem> {
        let found = self.figures.iter().find(|figure| figure.name == name);
        found.ok_or_else(|| Problem::plain(format!("no figure `{name}`")))
    }

    fn check_shape(&self, shape: &ShapeSpec) -> Checked {
        most("letters", shape.say.chars().count(), 200)?;
        let is_word = |name: &str| self.figure(name).map(|figure| figure.metric == Metric::Arm);
        match (&shape.less, &shape.than, &shape.differ) {
            (Some(less), Some(than), None) => {
                for side in [less, than] {
                    if let Side::Figure(name) = side {
                        require(!is_word(name)?, || format!("`{name}` is no number"))?;
                    }
                }
                Ok(())
            }
            (None, None, Some((one, other))) => {
                for name in [one, other] {
                    require(is_word(name)?, || {
                        format!("`{name}` is a number: less and than compare those")
                    })?;
                }
                Ok(())
            }
            _ => Err(Problem::plain("either less and than, or differ")),
        }
    }

    fn check_quick(&self) -> Checked {
        within("quick", self.quick, (0.0001, 1.0))
    }

    /// One variant.
    pub(super) fn check(&self) -> Checked {
        self.check_quick()?;
        within("limit", self.limit, (0.1, MAX_LIMIT))?;
        within("sample", self.sample, SAMPLE)?;
        within("settle", self.settle, (0.0, 60.0))?;
        require(self.limit / self.sample <= 36_000.0, || {
            "more than 36000 samples: a longer sample, or a shorter limit".to_owned()
        })?;
        require(!self.nodes.is_empty(), || "no nodes".to_owned())?;
        require(!self.traffic.is_empty(), || "no traffic".to_owned())?;
        most("nodes", self.nodes.len(), MAX_NODES)?;
        most("links", self.links.len(), MAX_LINKS)?;
        most("loads", self.loads.len(), MAX_LOADS)?;
        most("traffic", self.traffic.len(), MAX_TRAFFIC)?;
        unique("node", self.nodes.iter().map(|node| node.name.as_str()))?;
        unique("load", self.loads.iter().map(|load| load.name.as_str()))?;
        unique("traffic", self.traffic.iter().map(|one| one.name.as_str()))?;
        for node in &self.nodes {
            check_node(node).map_err(|problem| problem.within(&format!("node `{}`", node.name)))?;
        }
        for link in &self.links {
            let what = format!("link between `{}` and `{}`", link.between.0, link.between.1);
            self.check_link(link)
                .map_err(|problem| problem.within(&what))?;
        }
        for load in &self.loads {
            self.check_load(load)
                .map_err(|problem| problem.within(&format!("load `{}`", load.name)))?;
        }
        for traffic in &self.traffic {
            self.check_traffic(traffic)
                .map_err(|problem| problem.within(&format!("traffic `{}`", traffic.name)))?;
        }
        if let Some(monitor) = &self.monitor {
            within("monitor: hz", monitor.hz, (1.0, 1000.0))?;
            monitor
                .nodes
                .iter()
                .try_for_each(|node| self.expect_node(node))
                .map_err(|problem| problem.within("monitor"))?;
        }
        Ok(())
    }

    fn expect_node(&self, name: &str) -> Checked {
        require(self.node(name).is_some(), || format!("no node `{name}`"))
    }

    fn check_link(&self, link: &LinkSpec) -> Checked {
        self.expect_node(&link.between.0)?;
        self.expect_node(&link.between.1)?;
        let same = self
            .links
            .iter()
            .filter(|other| {
                let (one, two) = (&link.between.0, &link.between.1);
                (&other.between.0, &other.between.1) == (one, two)
                    || (&other.between.0, &other.between.1) == (two, one)
            })
            .count();
        require(same == 1 && link.between.0 != link.between.1, || {
            "there is one between two nodes".to_owned()
        })?;
        link_rate(&link.rate).map_err(Problem::plain)?;
        within("delay_ms", link.delay_ms, (0.0, 10_000.0))?;
        if let Some(queue) = link.queue_kib {
            within("queue_kib", f64::from(queue), (1.0, 1_048_576.0))?;
        }
        most("changes", link.changes.len(), MAX_CHANGES)?;
        for change in &link.changes {
            check_moment("at", change.at, change.at_message)?;
            require(change.at.is_some() || change.at_message.is_some(), || {
                "a change without at or at_message".to_owned()
            })?;
            if let Some(rate) = &change.rate {
                link_rate(rate).map_err(Problem::plain)?;
            }
            if let Some(delay) = change.delay_ms {
                within("delay_ms", delay, (0.0, 10_000.0))?;
            }
        }
        Ok(())
    }

    fn check_load(&self, load: &LoadSpec) -> Checked {
        self.expect_node(&load.node)?;
        let kinds = [
            load.leech.is_some(),
            load.model.is_some(),
            load.replica.is_some(),
        ];
        require(
            kinds.iter().filter(|is_there| **is_there).count() == 1,
            || "it is a leech, a model or a replica, one of them".to_owned(),
        )?;
        require(!load.open || load.model.is_some(), || {
            "open is for models".to_owned()
        })?;
        check_moment("from", load.from, load.from_message)?;
        check_moment("until", load.until, load.until_message)?;
        if let Some(leech) = &load.leech {
            let spec = leech.parse::<LeechSpec>().map_err(Problem::plain)?;
            require(spec.resource != Resource::Network, || {
                "leeches of the network need another node: traffic is for that".to_owned()
            })?;
            require(spec.processor.is_none(), || {
                "a leech is on its node's processors, and names none itself".to_owned()
            })?;
        }
        if let Some(replica) = &load.replica {
            most("metrics", replica.metrics.len(), 8)?;
            most("rows", replica.rows.len(), 3600)?;
            within("interval", replica.interval, (0.1, MAX_LIMIT))?;
            require(
                !replica.metrics.is_empty() && !replica.rows.is_empty(),
                || "a replica has metrics and rows".to_owned(),
            )?;
            for row in &replica.rows {
                let is_fine = row.len() == replica.metrics.len()
                    && row.iter().all(|value| (0.0..=1e12).contains(value));
                require(is_fine, || {
                    "each row has a value, 0 or more, for each metric".to_owned()
                })?;
            }
        }
        Ok(())
    }

    fn check_traffic(&self, traffic: &TrafficSpec) -> Checked {
        self.expect_node(&traffic.from)?;
        self.expect_node(&traffic.to)?;
        require(traffic.from != traffic.to, || {
            "from a node to itself".to_owned()
        })?;
        within(
            "messages",
            traffic.messages as f64,
            (1.0, MAX_MESSAGES as f64),
        )?;
        require(!traffic.content.is_empty(), || "no content".to_owned())?;
        most("contents", traffic.content.len(), 64)?;
        require(traffic.content[0].from_message == 0, || {
            "the first content is from message 0 on".to_owned()
        })?;
        require(
            traffic
                .content
                .is_sorted_by(|before, after| before.from_message < after.from_message),
            || "contents are in the order of their messages".to_owned(),
        )?;
        for text in traffic
            .content
            .iter()
            .map(|content| &content.of)
            .chain([&traffic.arrivals])
        {
            most("letters", text.len(), 1000)?;
        }
        let to_unix = self
            .node(&traffic.to)
            .is_some_and(|node| node.carrier == Carrier::Unix);
        let is_shaped = self
            .link(&traffic.from, &traffic.to)
            .is_some_and(|link| link.rate != "none" || link.delay_ms > 0.0);
        require(!(to_unix && is_shaped), || {
            "over a link of a rate or delay nodes are reached by TCP".to_owned()
        })
    }
}

fn check_node(node: &NodeSpec) -> Checked {
    node.policy
        .parse::<PolicyConfig>()
        .map_err(|error| Problem::plain(error.to_string()))?;
    if let Some(arms) = &node.rotation {
        most("rotation", arms.len(), 64)?;
        for arm in arms {
            arm.parse::<Arm>()
                .map_err(|error| Problem::plain(error.to_string()))?;
        }
    }
    within("setpoint", node.setpoint, (0.05, 1.0))?;
    within("workers", node.workers as f64, (1.0, 64.0))?;
    most("processors", node.processors.len(), 1024)?;
    if let Some(work) = node.work {
        within("work: kib", f64::from(work.kib), (1.0, 262_144.0))?;
        within(
            "work: touches",
            f64::from(work.touches),
            (0.0, 10_000_000.0),
        )?;
    }
    Ok(())
}

fn check_moment(what: &str, seconds: Option<f64>, message: Option<u64>) -> Checked {
    require(seconds.is_none() || message.is_none(), || {
        format!("{what} and {what}_message: one of them")
    })?;
    if let Some(seconds) = seconds {
        within(what, seconds, (0.0, MAX_LIMIT))?;
    }
    Ok(())
}
