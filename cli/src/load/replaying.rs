//! A replay on this machine, from reading to reading: what `load replay` prints, and the lab has beside its traffic.

use std::time::Duration;

use tautline::loadgen::replica::{
    LivePlant, Machine, Meter, Model, Replay, Schedule, Scope, leech_for,
};
use tautline::loadgen::{Intensity, Resource};
use tautline::pmu::Pace;
use tautline::units::Time;

use crate::failure::Failure;

/// Between readings. Shorter is noisier, longer is slower to find out; loads are to a hundredth of a second, so no shorter.
const PERIOD: Duration = Duration::from_millis(200);

/// Readings at equal intervals, each of so many turns: the monitor's sets take theirs in each.
pub(crate) struct Turns {
    pace: Pace,
    of_each: u32,
    turn: u32,
}

impl Turns {
    pub(crate) fn new(period: Duration, of_each: u32) -> Self {
        let of_each = of_each.max(1);
        Self {
            pace: Pace::new(period / of_each),
            of_each,
            turn: 0,
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.pace.now()
    }

    /// Waits for the end of a turn: when that is, and whether a reading is due.
    pub(crate) fn wait(&mut self) -> (Time, bool) {
        let now = self.pace.wait();
        self.turn = (self.turn + 1) % self.of_each;
        (now, self.turn == 0)
    }
}

/// What reads these metrics; it says which of them cannot be had.
pub(crate) fn meter(scope: Scope, metrics: &[String]) -> Result<Meter, Failure> {
    Ok(Meter::new(scope, metrics, Pace::new(PERIOD).now())?)
}

/// The leeches that move these metrics, and the metrics that none is known to move.
pub(crate) fn leeches_for<'a>(
    metrics: impl Iterator<Item = &'a str>,
) -> (Vec<Resource>, Vec<&'a str>) {
    let (mut leeches, mut unmoved) = (Vec::new(), Vec::new());
    for metric in metrics {
        match leech_for(metric) {
            Some(leech) if !leeches.contains(&leech) => leeches.push(leech),
            Some(_) => {}
            None => unmoved.push(metric),
        }
    }
    (leeches, unmoved)
}

/// The leeches that a model's intensities are of.
pub(crate) fn leeches_of(actuators: &[String]) -> Result<Vec<Resource>, Failure> {
    let parsed = actuators.iter().map(|name| Ok(name.parse()?));
    parsed.collect()
}

/// The machine that a model was recorded on, or with `open` its intensities were found on; `None` if it has none.
pub(crate) fn machine_of(model: &Model, open: bool) -> Option<&Machine> {
    if open {
        model.parameters().map(|parameters| &parameters.machine)
    } else {
        Some(model.machine())
    }
}

/// A replay and its leeches, which end with it.
pub(crate) struct Replaying {
    pub(crate) plant: LivePlant,
    pub(crate) replay: Replay,
    turns: Turns,
    begun: Time,
}

impl Replaying {
    /// Begins on these processors, of which each gets one of each leech for so long at most. With `open` intensities, a column for each leech, it is these that are replayed.
    pub(crate) fn begin(
        meter: Meter,
        leeches: &[Resource],
        processors: &[u32],
        length: Duration,
        targets: Schedule,
        open: Option<Schedule>,
    ) -> Result<Self, Failure> {
        let mut plant = LivePlant::new(meter, leeches, processors, length)?;
        let mut replay = match open {
            Some(intensities) => Replay::open(targets, intensities),
            None => Replay::closed(targets, &vec![Intensity::NONE; leeches.len()]),
        };
        let turns = Turns::new(PERIOD, plant.meter().turns());
        let begun = turns.now();
        replay.tick(begun, &mut plant);
        Ok(Self {
            plant,
            replay,
            turns,
            begun,
        })
    }

    /// Waits for the end of a turn and does what is due then. With a reading, how long it has gone on.
    pub(crate) fn turn(&mut self) -> Option<Duration> {
        let (now, is_reading) = self.turns.wait();
        if is_reading {
            self.replay.tick(now, &mut self.plant);
        } else {
            self.plant.tick(now);
        }
        is_reading.then(|| now.saturating_since(self.begun))
    }
}
