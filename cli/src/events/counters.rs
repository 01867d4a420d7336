//! What hardware and kernel count of the process that is looked at.

use std::path::Path;

use tautline::pmu::{EventSets, Monitor, MonitorConfig, Names, Pace, Perf};

use super::PERIOD;
use crate::monitor::report::by_reason;

/// What the machine lacks of it is named.
const SET: &str = r#"
[[sets]]
name = "process"
events = ["task-clock", "context-switches", "cpu-migrations", "page-faults", "cycles", "instructions"]
"#;
/// Processor time, in ns; all others are numbers.
const PROCESSOR: &str = "task-clock";

/// Counters of one process and its threads.
pub(super) struct ProcessCounters {
    monitor: Monitor<Perf>,
    pace: Pace,
}

impl ProcessCounters {
    /// # Errors
    ///
    /// Why nothing is counted.
    pub(super) fn of(process: u32) -> Result<Self, String> {
        let names = Names::of_system(Path::new("/"));
        let sets = EventSets::parse(SET).map_err(|error| error.to_string())?;
        let config = MonitorConfig::new(sets);
        // Each sample is looked at once.
        let config = config.names(names).process(process).slots(1);
        let pace = Pace::new(PERIOD);
        let monitor = Monitor::new(config, Perf::new(), pace.now());
        let monitor = monitor.map_err(|error| error.to_string())?;
        Ok(Self { monitor, pace })
    }

    /// What of it is not counted, and why; empty if all is.
    pub(super) fn lacking(&self) -> String {
        let lines: Vec<_> = by_reason(self.monitor.missing())
            .iter()
            .map(|(reason, names)| format!("{}: {reason}", names.join(", ")))
            .collect();
        lines.join("; ")
    }

    /// How often each event has come in a second since the last time.
    pub(super) fn rates(&mut self) -> Vec<(String, f64)> {
        self.monitor.tick(self.pace.now());
        let store = self.monitor.store();
        let Some(sample) = store.get(self.monitor.layout(), store.newest()) else {
            return Vec::new();
        };
        let seconds = sample.head().interval.as_secs_f64().max(1e-9);
        let events = sample.set().events().iter().enumerate();
        events
            .filter_map(|(index, name)| Some((name.clone(), sample.event(index)? / seconds)))
            .collect()
    }
}

/// Rates in words.
pub(super) fn words(rates: &[(String, f64)]) -> String {
    let word = |(name, rate): &(String, f64)| match name.as_str() {
        PROCESSOR => format!("processor {:.1} %", 100.0 * rate / 1e9),
        name => format!("{name} {rate:.0}/s"),
    };
    if rates.is_empty() {
        return "nothing".to_owned();
    }
    rates.iter().map(word).collect::<Vec<_>>().join(", ")
}
