//! What a cycle goes to: how often something happens for each instruction, times what it costs on average.
//!
//! CPI = CPI(L1) + CPI(L2) + CPI(LLC) + CPI(TLB) + CPI(branch) + CPI(base and other) (Jägemar 2018, section 5.4.2). That is blunt, as its author says: processors
//! hide part of what misses cost, so that a level may be drawn larger than it is, and the rest smaller.

use core::fmt;

use super::reason::Place;
use super::store::Layout;
use super::totals::Totals;

/// One level's part.
#[derive(Clone, Debug, PartialEq)]
pub struct CpiPart {
    /// What the level is called.
    pub level: String,
    /// How often it happens, for each instruction; `None` if it is not counted.
    pub per_instruction: Option<f64>,
    /// What it costs each time, in cycles; `None` if nobody says.
    pub penalty: Option<f64>,
}

impl CpiPart {
    /// Its cycles for each instruction.
    pub fn cycles(&self) -> Option<f64> {
        Some(self.per_instruction? * self.penalty?)
    }
}

/// Cycles for each instruction at one place, and what they go to.
#[derive(Clone, Debug, PartialEq)]
pub struct CpiStack {
    /// Whose.
    pub place: Place,
    /// All of them.
    pub cpi: f64,
    /// Levels in the order of their file.
    pub parts: Vec<CpiPart>,
}

impl CpiStack {
    /// The stack of a place, from all that was counted there: levels as the sets' file has them, penalties by name. `None` where no set counted both cycles and
    /// instructions.
    pub fn of(
        place: Place,
        totals: &[Totals],
        layout: &Layout,
        penalty: impl Fn(&str) -> Option<f64>,
    ) -> Option<Self> {
        let of_place = || totals.iter().filter(|totals| totals.place == place);
        let cpi = of_place().find_map(|totals| {
            let events = layout.sets().sets()[totals.set].events();
            let event = |names: &[&str]| {
                let index = events
                    .iter()
                    .position(|event| names.contains(&event.as_str()))?;
                totals.event(index)
            };
            let cycles = event(&["cycles", "cpu-cycles"])?;
            event(&["instructions"])
                .filter(|count| *count > 0.0)
                .map(|count| cycles / count)
        })?;
        let parts = layout.sets().stack().iter().map(|level| CpiPart {
            level: level.name().to_owned(),
            per_instruction: of_place()
                .find(|totals| totals.set == level.set())
                .and_then(|totals| totals.compute(layout, level.per_instruction())),
            penalty: penalty(level.penalty()),
        });
        Some(Self {
            place,
            cpi,
            parts: parts.collect(),
        })
    }

    /// What no level explains: work, and all that is not counted. Below zero, the penalties are too high for what was measured.
    pub fn base(&self) -> f64 {
        let explained: f64 = self.parts.iter().filter_map(CpiPart::cycles).sum();
        self.cpi - explained
    }
}

/// Characters of a bar as long as all cycles.
const BAR: f64 = 40.0;

impl fmt::Display for CpiStack {
    /// Drawn: a line for each level.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {:.3} cycles an instruction", self.place, self.cpi)?;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, cycles: f64| {
            let share = if self.cpi > 0.0 {
                cycles / self.cpi
            } else {
                0.0
            };
            let bar = "#".repeat((share.clamp(0.0, 2.0) * BAR).round() as usize);
            let text = format!("  {name:<14}{cycles:>8.3} {:>5.1} %  {bar}", 100.0 * share);
            writeln!(f, "{}", text.trim_end())
        };
        for part in &self.parts {
            match (part.cycles(), part.per_instruction) {
                (Some(cycles), _) => line(f, &part.level, cycles)?,
                (None, None) => writeln!(f, "  {:<14}       - not counted", part.level)?,
                (None, Some(_)) => writeln!(f, "  {:<14}       - no penalty known", part.level)?,
            }
        }
        line(f, "base and other", self.base())?;
        if self.base() < 0.0 {
            writeln!(
                f,
                "  penalties are too high: levels hide part of each other's cost"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::super::group::Count;
    use super::super::sets::EventSets;
    use super::super::store::{Sample, SampleHead};
    use super::*;
    use crate::units::Time;

    const SETS: &str = "
        sets = [
            { name = 'cpi', events = ['cycles', 'instructions'] },
            { name = 'l1', events = ['instructions', 'misses'] },
            { name = 'l2', events = ['instructions', 'misses2'] },
        ]
        stack = [
            { level = 'L1', set = 'l1', per_instruction = 'misses / instructions', penalty = 'l2' },
            { level = 'L2', set = 'l2', per_instruction = 'misses2 / instructions', penalty = 'memory' },
            { level = 'X', set = 'cpi', per_instruction = '0.5', penalty = 'none' },
        ]
    ";

    fn totals(counts: [[Option<u64>; 2]; 3]) -> (Layout, Vec<Totals>) {
        let layout = Layout::new(EventSets::parse(SETS).unwrap(), vec![]);
        let place = Place::Cpu(0);
        let totals = counts.iter().enumerate().map(|(set, counts)| {
            let mut totals = Totals::new(set, place, &layout);
            let count = |count: &Option<u64>| match count {
                None => Count::ABSENT,
                Some(count) => Count {
                    count: *count,
                    enabled: 10,
                    running: 10,
                },
            };
            let head = SampleHead {
                at: Time::ZERO,
                interval: Duration::from_secs(1),
                set,
                place,
            };
            totals.add(&Sample {
                layout: &layout,
                head,
                counts: &counts.each_ref().map(count),
                gauges: &[],
            });
            totals
        });
        let totals = totals.collect();
        (layout, totals)
    }

    fn penalty(name: &str) -> Option<f64> {
        [("l2", 10.0), ("memory", 100.0)]
            .into_iter()
            .find(|(known, _)| *known == name)
            .map(|(_, cycles)| cycles)
    }

    #[test]
    fn levels_take_misses_times_penalty_and_the_rest_is_base() {
        let counts = [
            [Some(300), Some(100)],
            [Some(1000), Some(50)],
            [Some(2000), Some(10)],
        ];
        let (layout, totals) = totals(counts);
        let stack = CpiStack::of(Place::Cpu(0), &totals, &layout, penalty).unwrap();
        assert!((stack.cpi - 3.0).abs() < 1e-12);
        let cycles: Vec<_> = stack.parts.iter().map(CpiPart::cycles).collect();
        assert_eq!(cycles, [Some(0.5), Some(0.5), None]);
        assert!((stack.base() - 2.0).abs() < 1e-12);
        let drawn = stack.to_string();
        assert!(
            drawn.contains("L1               0.500  16.7 %  #######\n"),
            "{drawn}"
        );
        assert!(
            drawn.contains("X                    - no penalty known"),
            "{drawn}"
        );
        assert!(CpiStack::of(Place::Cpu(1), &totals, &layout, penalty).is_none());
    }

    #[test]
    fn what_is_not_counted_is_said_and_penalties_that_are_too_high_too() {
        let counts = [
            [Some(110), Some(100)],
            [Some(100), Some(50)],
            [Some(100), None],
        ];
        let (layout, totals) = totals(counts);
        let stack = CpiStack::of(Place::Cpu(0), &totals, &layout, penalty).unwrap();
        assert!(stack.base() < 0.0);
        let drawn = stack.to_string();
        assert!(
            drawn.contains("not counted") && drawn.contains("too high"),
            "{drawn}"
        );
    }

    #[test]
    fn without_cycles_there_is_no_stack() {
        let counts = [[None, Some(100)], [Some(100), Some(50)], [Some(100), None]];
        let (layout, totals) = totals(counts);
        assert!(CpiStack::of(Place::Cpu(0), &totals, &layout, penalty).is_none());
    }
}
