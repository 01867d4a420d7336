//! Axes: where values and round numbers lie between 0 and 1.

use super::super::number::short;
use super::super::page::clean;

/// One axis, linear or logarithmic. Numbers never reach the drawing as such: however large they are, places are 0 to 1.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// What it shows, with the unit.
    pub(super) label: String,
    low: f64,
    high: f64,
    is_log: bool,
    /// Place and label.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From `low` to `high`, which may be equal.
    pub(crate) fn linear(label: impl Into<String>, low: f64, high: f64) -> Self {
        let (low, high) = if high > low {
            (low, high)
        } else if low == 0.0 {
            (0.0, 1.0)
        } else {
            (low - low.abs() / 2.0, low + low.abs() / 2.0)
        };
        Self::new(label.into(), low, high, false, &round(low, high))
    }

    /// From zero, or below if there is anything, to `high` and a little more.
    pub(crate) fn from_zero(label: impl Into<String>, low: f64, high: f64) -> Self {
        let (low, high) = (low.min(0.0), high.max(0.0));
        let room = (high - low) / 20.0;
        Self::linear(label, if low < 0.0 { low - room } else { low }, high + room)
    }

    /// Logarithmic; both are above zero.
    pub(crate) fn log(label: impl Into<String>, low: f64, high: f64) -> Self {
        let low = low.max(f64::MIN_POSITIVE * 1e10);
        let (low, high) = if high > low {
            (low / 1.04, high * 1.04)
        } else {
            (low / 2.0, low * 2.0)
        };
        Self::new(label.into(), low, high, true, &round_log(low, high))
    }

    /// Of rows with names, the first on top; a name is cut after 30 characters.
    pub(super) fn rows<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Self {
        let count = names.len().max(1) as f64;
        let ticks = names
            .enumerate()
            .map(|(row, name)| (1.0 - (row as f64 + 0.5) / count, clean(name, 30)));
        Self {
            label: String::new(),
            low: 0.0,
            high: 1.0,
            is_log: false,
            ticks: ticks.collect(),
        }
    }

    fn new(label: String, low: f64, high: f64, is_log: bool, ticks: &[f64]) -> Self {
        let mut axis = Self {
            label,
            low,
            high,
            is_log,
            ticks: Vec::new(),
        };
        axis.ticks = ticks
            .iter()
            .map(|tick| (axis.place(*tick), short(*tick)))
            .collect();
        axis
    }

    /// Where a value lies, 0 to 1; beyond an end, at it.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let place = if self.is_log {
            (value.max(f64::MIN_POSITIVE).ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
        } else {
            // Halves, so that even the largest numbers have a difference.
            (value / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0)
        };
        if place.is_nan() {
            0.0
        } else {
            place.clamp(0.0, 1.0)
        }
    }
}

/// Round numbers from `low` to `high`, five or so.
fn round(low: f64, high: f64) -> Vec<f64> {
    let about = (high - low) / 5.0;
    let power = 10f64.powf(about.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= about * 0.999);
    let Some(step) = step.filter(|step| step.is_finite() && *step > 0.0) else {
        return vec![low, high];
    };
    let first = (low / step).ceil();
    let ticks = (0..12).map(|number| (first + f64::from(number)) * step);
    let ticks: Vec<f64> = ticks
        .take_while(|tick| *tick <= high * (1.0 + 1e-12))
        .collect();
    // Of numbers that differ less than they have digits nothing is round.
    if ticks.len() < 2 || ticks.windows(2).any(|pair| pair[0] >= pair[1]) {
        vec![low, high]
    } else {
        ticks
    }
}

/// Round numbers of a logarithmic axis.
fn round_log(low: f64, high: f64) -> Vec<f64> {
    let decades = high.log10() - low.log10();
    if decades < 0.7 {
        return round(low, high);
    }
    let factors: &[f64] = if decades < 3.5 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    let every = (decades / 8.0).ceil().max(1.0) as i32;
    let exponents = (low.log10().floor() as i32)..=(high.log10().ceil().min(309.0) as i32);
    let ticks = exponents
        .filter(|exponent| exponent.rem_euclid(every) == 0)
        .flat_map(|exponent| {
            factors
                .iter()
                .map(move |factor| factor * 10f64.powi(exponent))
        });
    ticks.filter(|tick| (low..=high).contains(tick)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(
            labels(&Axis::linear("", 0.0, 100.0)),
            ["0", "20", "40", "60", "80", "100"]
        );
        assert_eq!(
            labels(&Axis::linear("", 0.0, 0.7)),
            ["0", "0.2", "0.4", "0.6"]
        );
        assert_eq!(
            labels(&Axis::log("", 0.5, 30.0)),
            ["0.5", "1", "2", "5", "10", "20"]
        );
        assert_eq!(
            labels(&Axis::log("", 0.95, 1.3)),
            ["1", "1.1", "1.2", "1.3"]
        );
        assert_eq!(
            labels(&Axis::log("", 1.0, 1e6)),
            ["1", "10", "100", "1k", "10k", "100k", "1M"]
        );
    }

    #[test]
    fn any_numbers_have_a_place_and_a_few_ticks() {
        let numbers = [
            0.0,
            1e-300,
            1.0,
            1.0 + f64::EPSILON,
            1e15,
            1e300,
            f64::MAX,
            -f64::MAX,
            -1.0,
        ];
        for low in numbers {
            for high in numbers {
                for axis in [
                    Axis::linear("", low, high),
                    Axis::log("", low, high),
                    Axis::from_zero("", low, high),
                ] {
                    for value in numbers.into_iter().chain([f64::NAN, f64::INFINITY]) {
                        let place = axis.place(value);
                        assert!(
                            (0.0..=1.0).contains(&place),
                            "{low} {high} {value}: {place}"
                        );
                    }
                    assert!(axis.ticks.len() < 30, "{low} {high}: {axis:?}");
                }
            }
        }
    }

    #[test]
    fn values_are_between_their_neighbours() {
        let axis = Axis::log("", 1.0, 100.0);
        let middle = axis.place(10.0);
        assert!((middle - 0.5).abs() < 1e-12, "{middle}");
        let axis = Axis::linear("", 10.0, 20.0);
        assert!((axis.place(12.5) - 0.25).abs() < 1e-12);
    }
}
