//! A model once more: with the controller, which finds the intensities, or with those that it found before.

use core::time::Duration;

use super::controller::{Controller, Shortfall};
use super::direct::Split;
use super::judge::{Judge, Outcome};
use super::plant::{Direct, Plant};
use super::schedule::{End, Schedule};
use super::step::Step;
use crate::loadgen::Intensity;
use crate::units::Time;

/// How far a metric may be from what is asked, as a share: what a closed-loop replay converges to.
pub const CLOSED_TOLERANCE: f64 = 0.02;
/// ... and what an open-loop replay is judged by.
pub const OPEN_TOLERANCE: f64 = 0.05;

#[derive(Debug)]
enum Mode {
    Closed {
        controller: Box<Controller>,
        /// What the controller has, and what needs none.
        split: Split,
        shortfalls: Vec<Shortfall>,
        start: Vec<Intensity>,
        found: Found,
    },
    Open {
        parameters: Schedule,
    },
}

/// Intensities that held what was asked, interval by interval of the targets: of each its median, as others who take the processor for some seconds are to leave nothing in it.
#[derive(Debug)]
struct Found {
    interval: usize,
    /// Of this interval, every so-many-th step.
    every: usize,
    steps: usize,
    seen: Vec<Vec<f64>>,
    seconds: f64,
    rows: Vec<Option<Vec<f64>>>,
    is_converged: bool,
}

impl Found {
    /// So many steps of an interval are kept, spread over it. Origin: arbitrary; a median of half as many is as good.
    const MOST: usize = 1024;

    fn new(intervals: usize) -> Self {
        Self {
            interval: 0,
            every: 1,
            steps: 0,
            seen: Vec::new(),
            seconds: 0.0,
            rows: vec![None; intervals],
            is_converged: false,
        }
    }

    fn add(&mut self, interval: usize, seconds: f64, intensities: &[f64]) {
        if interval != self.interval {
            self.close();
            self.interval = interval;
        }
        self.seconds += seconds;
        if self.steps % self.every == 0 {
            self.seen.push(intensities.to_vec());
        }
        self.steps += 1;
        if self.seen.len() == Self::MOST {
            let mut at = 0;
            self.seen.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.every *= 2;
        }
    }

    fn median(&self) -> Option<Vec<f64>> {
        let width = self.seen.first()?.len();
        let of = |actuator: usize| {
            let mut values: Vec<f64> = self.seen.iter().map(|row| row[actuator]).collect();
            values.sort_by(f64::total_cmp);
            let middle = (values.len() - 1) / 2;
            f64::midpoint(values[middle], values[values.len() / 2])
        };
        Some((0..width).map(of).collect())
    }

    fn close(&mut self) {
        if let (Some(median), Some(row)) = (self.median(), self.rows.get_mut(self.interval)) {
            *row = Some(median);
        }
        self.clear();
    }

    fn clear(&mut self) {
        self.seconds = 0.0;
        (self.every, self.steps) = (1, 0);
        self.seen.clear();
    }
}

/// One replay. It reads no clock: who drives it calls [`Self::tick`], five times a second or so.
#[derive(Debug)]
pub struct Replay {
    targets: Schedule,
    mode: Mode,
    judge: Option<Judge>,
    scales: Vec<f64>,
    readings: Vec<f64>,
    /// Since the reading before.
    asked: Vec<f64>,
    /// What actuators were set to last.
    intensities: Vec<f64>,
    begun: Time,
    last: Option<Time>,
    /// Since when the schedule runs.
    origin: Option<Time>,
}

impl Replay {
    /// Finds the intensities that make the metrics what `targets` says, beginning with `start`: a column for each metric of the plant.
    pub fn closed(targets: Schedule, start: &[Intensity]) -> Self {
        let scales = targets.greatest();
        let found = Found::new(targets.rows().len());
        let mode = Mode::Closed {
            controller: Box::new(Controller::new(&scales, start)),
            split: Split::new(&[], scales.len(), start.len()),
            shortfalls: Vec::new(),
            start: start.to_vec(),
            found,
        };
        Self::new(targets, scales, mode)
    }

    /// Sets the intensities to `parameters`, a column for each actuator of the plant, and compares what that makes with `targets`.
    pub fn open(targets: Schedule, parameters: Schedule) -> Self {
        let scales = targets.greatest();
        Self::new(targets, scales, Mode::Open { parameters })
    }

    fn new(targets: Schedule, scales: Vec<f64>, mode: Mode) -> Self {
        Self {
            readings: vec![f64::NAN; scales.len()],
            asked: vec![f64::NAN; scales.len()],
            intensities: Vec::new(),
            begun: Time::ZERO,
            targets,
            mode,
            judge: None,
            scales,
            last: None,
            origin: None,
        }
    }

    /// Measures, and sets the actuators.
    pub fn tick(&mut self, now: Time, plant: &mut impl Plant) {
        if self.last.is_none() {
            self.split(&plant.direct(), &plant.raises());
            self.begun = now;
        }
        self.readings.fill(f64::NAN);
        plant.measure(now, &mut self.readings);
        let last = self.last.replace(now).unwrap_or(now);
        let period = now.saturating_since(last);
        let tolerance = match self.mode {
            Mode::Closed { .. } => CLOSED_TOLERANCE,
            Mode::Open { .. } => OPEN_TOLERANCE,
        };
        let judge = self
            .judge
            .get_or_insert_with(|| Judge::new(&self.scales, tolerance, now));
        let since = |time: Time| self.origin.map(|origin| time.saturating_since(origin));
        // Until the schedule runs, its first row is asked.
        let asked = match (since(last), since(now)) {
            (Some(from), Some(to)) => self.targets.mean(from, to),
            _ => self.targets.at(Duration::ZERO).to_vec(),
        };
        judge.record(last, now, &self.readings, &asked);
        self.asked.clone_from(&asked);
        match &mut self.mode {
            Mode::Closed {
                controller,
                split,
                shortfalls,
                found,
                ..
            } => {
                let seconds = period.as_secs_f64();
                if controller.is_holding() {
                    if judge.converged().is_some() && !found.is_converged {
                        // What was on the way there is not what holds it.
                        found.is_converged = true;
                        found.clear();
                    }
                    let interval = self.targets.index(since(last).unwrap_or_default());
                    let intensities = split.together(controller.intensities());
                    found.add(interval, seconds, &intensities);
                }
                let elapsed = since(now).unwrap_or_default();
                let next = self.targets.mean(elapsed, elapsed + period);
                for one in &mut split.direct {
                    let metric = one.of.metric;
                    let of = |row: &[f64]| row.get(metric).copied().unwrap_or(f64::NAN);
                    let reading = of(&self.readings);
                    one.tick(now, seconds, reading, of(&asked), of(&next));
                }
                let readings = split.of_metrics(&self.readings);
                controller.tick(now, &readings, &split.of_metrics(&next));
                self.intensities = split.together(controller.intensities());
                *shortfalls = split.shortfalls(controller.shortfalls());
                if controller.is_holding() && self.origin.is_none() {
                    self.origin = Some(now);
                }
            }
            Mode::Open { parameters } => {
                let origin = *self.origin.get_or_insert(now);
                let elapsed = now.saturating_since(origin);
                self.intensities = parameters.mean(elapsed, elapsed + period);
            }
        }
        set(plant, &self.intensities);
    }

    /// Leaves to the controller what is not direct.
    fn split(&mut self, of_plant: &[Direct], raises: &[(usize, usize)]) {
        let Mode::Closed {
            controller,
            split,
            start,
            ..
        } = &mut self.mode
        else {
            return;
        };
        *split = Split::new(of_plant, self.scales.len(), start.len());
        let scales = split.of_metrics(&self.scales);
        **controller =
            Controller::new(&scales, &split.of_actuators(start)).raised_by(split.of_pairs(raises));
    }

    /// Whether the controller knows the plant and holds what is asked; of an open-loop replay, always.
    pub fn is_holding(&self) -> bool {
        match &self.mode {
            Mode::Closed { controller, .. } => controller.is_holding(),
            Mode::Open { .. } => true,
        }
    }

    /// What was read last.
    pub fn readings(&self) -> &[f64] {
        &self.readings
    }

    /// Of each metric, what was asked and reached in the last whole second.
    pub fn last_second(&self) -> &[(f64, f64)] {
        self.judge.as_ref().map_or(&[], Judge::last_second)
    }

    /// What was read last, and what came of it.
    pub fn step(&self) -> Step {
        let since = self.last.map(|last| last.saturating_since(self.begun));
        let mut step = Step {
            seconds: since.unwrap_or_default().as_secs_f64(),
            phase: None,
            asked: self.asked.clone(),
            readings: self.readings.clone(),
            intensities: self.intensities.clone(),
            levels: Vec::new(),
            noise: Vec::new(),
            sensitivities: Vec::new(),
            deviations: Vec::new(),
        };
        if let Mode::Closed {
            controller, split, ..
        } = &self.mode
        {
            let rows = |rows: Vec<Vec<f64>>| {
                let rows = rows.iter().map(|row| split.spread_actuators(row, f64::NAN));
                let none = split.spread_actuators(&[], f64::NAN);
                split.spread(&rows.collect::<Vec<_>>(), none)
            };
            step.phase = Some(split.phase(controller.phase()));
            step.levels = split.spread(&controller.levels(), f64::NAN);
            step.noise = split.spread(&controller.noise(), f64::NAN);
            for (noise, scale) in step.noise.iter_mut().zip(&self.scales) {
                *noise *= scale;
            }
            step.sensitivities = rows(controller.sensitivities());
            step.deviations = rows(controller.deviations());
        }
        step
    }

    /// How near it is.
    pub fn outcome(&self) -> Outcome {
        let mut outcome = self.judge.as_ref().map(Judge::outcome).unwrap_or_default();
        if let Mode::Closed {
            controller, split, ..
        } = &self.mode
        {
            let noise = split.spread(&controller.noise(), 0.0);
            for (metric, noise) in outcome.metrics.iter_mut().zip(noise) {
                metric.noise = noise;
            }
        }
        outcome
    }

    /// What cannot be had. Of an open-loop replay nothing is known of that.
    pub fn shortfalls(&self) -> &[Shortfall] {
        match &self.mode {
            Mode::Closed { shortfalls, .. } => shortfalls,
            Mode::Open { .. } => &[],
        }
    }

    /// The controller, of a closed-loop replay, by numbers of its own: it has those metrics and actuators that are not [direct](Plant::direct).
    pub fn controller(&self) -> Option<&Controller> {
        match &self.mode {
            Mode::Closed { controller, .. } => Some(controller),
            Mode::Open { .. } => None,
        }
    }

    /// The intensities that it found: their medians over each interval of the targets. Intervals that it did not come to have those of the one before. `None` if it
    /// holds nothing yet, and of an open-loop replay.
    pub fn parameters(&self) -> Option<Schedule> {
        let Mode::Closed { found, .. } = &self.mode else {
            return None;
        };
        let mut rows = found.rows.clone();
        if let (Some(row), Some(median)) = (rows.get_mut(found.interval), found.median()) {
            // Of an interval that has only begun, what was found before is better.
            let is_long = found.seconds >= self.targets.interval().as_secs_f64() / 2.0;
            if row.is_none() || is_long {
                *row = Some(median);
            }
        }
        let mut known = rows.iter().flatten().next().cloned()?;
        let rows: Vec<Vec<f64>> = rows
            .into_iter()
            .map(|row| {
                if let Some(row) = row {
                    known = row;
                }
                known.clone()
            })
            .collect();
        let end = if rows.len() == 1 {
            End::Hold
        } else {
            self.targets.end()
        };
        Schedule::new(self.targets.interval(), end, rows).ok()
    }
}

fn set(plant: &mut impl Plant, intensities: &[f64]) {
    for (actuator, intensity) in intensities.iter().enumerate() {
        plant.set(actuator, Intensity::new(*intensity));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_seconds_of_others_leave_nothing_in_what_was_found() {
        let mut found = Found::new(1);
        for step in 0..100 {
            // A fifth of the time somebody else has the processor.
            let intensity = if (40..60).contains(&step) { 0.02 } else { 0.16 };
            found.add(0, 0.2, &[intensity, 0.5 - intensity]);
        }
        let median = found.median().expect("steps");
        assert!((median[0] - 0.16).abs() < 1e-12 && (median[1] - 0.34).abs() < 1e-12);
        assert!((found.seconds - 20.0).abs() < 1e-9);
    }

    #[test]
    fn long_intervals_are_kept_in_few_steps_spread_over_them() {
        let mut found = Found::new(2);
        let steps = 100_000;
        for step in 0..steps {
            found.add(0, 0.2, &[f64::from(step) / f64::from(steps)]);
            assert!(found.seen.len() < Found::MOST);
        }
        found.add(1, 0.2, &[0.25]);
        let row = found.rows[0].as_ref().expect("it is over");
        assert!((row[0] - 0.5).abs() < 0.005, "{row:?}");
        assert_eq!(found.median(), Some(vec![0.25]), "it begins anew");
    }
}
