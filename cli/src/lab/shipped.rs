//! Scenarios that come with the program.

use super::scenario::Scenario;
use crate::failure::{Failure, say};

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        /// Name and text.
        const SCENARIOS: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../scenarios/", $name, ".toml")))),*
        ];
    };
}

scenarios![
    "table-6.1",
    "table-6.2",
    "table-6.3",
    "table-6.4",
    "table-7.3",
    "figure-7.4",
    "figure-7.5",
    "figure-7.6",
    "figure-7.7",
];

pub(super) fn find(name: &str) -> Option<&'static str> {
    let found = SCENARIOS.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text)
}

pub(super) fn list() -> Result<(), Failure> {
    for (name, text) in SCENARIOS {
        let (scenario, variants) =
            Scenario::read(text).map_err(|problem| Failure::of(name, &problem))?;
        say!("{name:<12} {}", scenario.title)?;
        say!(
            "{:<12} {} of {}",
            "",
            match (scenario.rounds, scenario.most_rounds) {
                (1, None) => "one round".to_owned(),
                (rounds, None) => format!("{rounds} rounds"),
                (rounds, Some(most)) => format!("{rounds} to {most} rounds"),
            },
            variants
                .iter()
                .map(|(name, _)| name.as_str())
                .collect::<Vec<_>>()
                .join(" / ")
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_come_with_the_program_can_be_read_and_have_something_to_compare() {
        for (name, text) in SCENARIOS {
            let (scenario, variants) = Scenario::read(text).expect(name);
            assert!(variants.iter().all(|(_, one)| one.limit <= 120.0), "{name}");
            assert!(!scenario.source.is_empty(), "{name}");
            assert!(
                !scenario.figures.is_empty() && !scenario.shapes.is_empty(),
                "{name}"
            );
            assert!(!scenario.plots.is_empty(), "{name}");
        }
    }

    /// They run on any machine, and nanoseconds are of one: on the next the leech that is to make them stands at a bound, and which one is the machine's.
    #[test]
    fn none_that_come_with_the_program_replicates_what_only_one_machine_can_have() {
        for (name, text) in SCENARIOS {
            let (_, variants) = Scenario::read(text).expect(name);
            let loads = variants.iter().flat_map(|(_, one)| &one.loads);
            let mut metrics = loads.filter_map(|load| load.replica.as_ref());
            assert!(
                metrics.all(|replica| replica
                    .metrics
                    .iter()
                    .all(|metric| metric != "memory-latency")),
                "{name}"
            );
        }
    }
}
