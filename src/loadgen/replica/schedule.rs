//! Values that go with time, interval by interval.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::ModelError;
use crate::units::Time;

/// The most intervals: a day of seconds.
pub const MAX_INTERVALS: usize = 86_400;
/// The shortest interval.
pub const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// What comes after the last interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The first.
    #[default]
    Repeat,
    /// The last goes on.
    Hold,
}

/// Rows of values, one row for each interval of the same length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    interval_ms: u64,
    end: End,
    rows: Vec<Vec<f64>>,
}

impl Schedule {
    /// The same for ever.
    pub fn constant(row: Vec<f64>) -> Self {
        Self {
            interval_ms: 1000,
            end: End::Hold,
            rows: vec![row],
        }
    }

    /// A row for each `interval`, in whole milliseconds.
    ///
    /// # Errors
    ///
    /// There are no rows or too many ([`MAX_INTERVALS`]), they are not of one length, a value is not finite or below 0, or the interval is shorter than
    /// [`MIN_INTERVAL`] or longer than a day.
    pub fn new(interval: Duration, end: End, rows: Vec<Vec<f64>>) -> Result<Self, ModelError> {
        let width = rows.first().map_or(0, Vec::len);
        let schedule = Self {
            interval_ms: u64::try_from(interval.as_millis()).unwrap_or(u64::MAX),
            end,
            rows,
        };
        schedule.check(width)?;
        Ok(schedule)
    }

    pub(super) fn check(&self, width: usize) -> Result<(), ModelError> {
        let (least, most) = (MIN_INTERVAL.as_millis() as u64, 86_400_000);
        if !(least..=most).contains(&self.interval_ms) {
            return Err(ModelError::Interval {
                given: self.interval_ms,
                min: least,
                max: most,
            });
        }
        if !(1..=MAX_INTERVALS).contains(&self.rows.len()) {
            return Err(ModelError::Count {
                what: "intervals",
                given: self.rows.len(),
                max: MAX_INTERVALS,
            });
        }
        for (interval, row) in self.rows.iter().enumerate() {
            if row.len() != width {
                return Err(ModelError::Width {
                    interval,
                    given: row.len(),
                    expected: width,
                });
            }
            if let Some(value) = row
                .iter()
                .find(|value| !(value.is_finite() && **value >= 0.0))
            {
                return Err(ModelError::Value {
                    interval,
                    given: *value,
                });
            }
        }
        Ok(())
    }

    /// The length of an interval.
    pub const fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }

    /// What comes after the last.
    pub const fn end(&self) -> End {
        self.end
    }

    /// The rows.
    pub fn rows(&self) -> &[Vec<f64>] {
        &self.rows
    }

    /// Whether it is the same for ever.
    pub fn is_constant(&self) -> bool {
        self.rows.len() == 1
    }

    /// How long it is until it is over, or begins anew.
    pub fn length(&self) -> Duration {
        self.interval()
            .saturating_mul(u32::try_from(self.rows.len()).unwrap_or(u32::MAX))
    }

    /// Which interval it is, so long after the beginning.
    pub fn index(&self, elapsed: Duration) -> usize {
        let interval = elapsed.as_millis() / u128::from(self.interval_ms.max(1));
        let rows = self.rows.len() as u128;
        let index = match self.end {
            End::Repeat => interval % rows.max(1),
            End::Hold => interval.min(rows.saturating_sub(1)),
        };
        index as usize
    }

    /// The row so long after the beginning.
    pub fn at(&self, elapsed: Duration) -> &[f64] {
        self.rows
            .get(self.index(elapsed))
            .map_or(&[], Vec::as_slice)
    }

    /// The mean of the rows between two times after the beginning.
    pub fn mean(&self, from: Duration, to: Duration) -> Vec<f64> {
        /// No interval between readings is as long.
        const MOST: usize = 1000;
        let mut sum = vec![0.0; self.rows.first().map_or(0, Vec::len)];
        let (mut at, mut seconds) = (from, 0.0);
        for _ in 0..MOST {
            if at >= to {
                break;
            }
            let whole = at.as_millis() / u128::from(self.interval_ms.max(1)) + 1;
            let next = Time::ZERO
                + Duration::from_millis(
                    u64::try_from(whole)
                        .unwrap_or(u64::MAX)
                        .saturating_mul(self.interval_ms),
                );
            let next = next.saturating_since(Time::ZERO).min(to);
            let part = next.saturating_sub(at).as_secs_f64();
            for (sum, value) in sum.iter_mut().zip(self.at(at)) {
                *sum += part * value;
            }
            seconds += part;
            if next <= at {
                break;
            }
            at = next;
        }
        if seconds <= 0.0 {
            return self.at(from).to_vec();
        }
        sum.iter().map(|sum| sum / seconds).collect()
    }

    /// The greatest of each column.
    pub(super) fn greatest(&self) -> Vec<f64> {
        let mut greatest = vec![0.0_f64; self.rows.first().map_or(0, Vec::len)];
        for row in &self.rows {
            for (greatest, value) in greatest.iter_mut().zip(row) {
                *greatest = greatest.max(*value);
            }
        }
        greatest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn schedule(end: End) -> Schedule {
        Schedule::new(SECOND, end, vec![vec![1.0], vec![3.0], vec![5.0]]).unwrap()
    }

    #[test]
    fn rows_come_in_turn_and_then_again_or_the_last_for_ever() {
        let values = |end| -> Vec<f64> {
            let schedule = schedule(end);
            (0..8)
                .map(|half| schedule.at(SECOND / 2 * half)[0])
                .collect()
        };
        assert_eq!(
            values(End::Repeat),
            [1.0, 1.0, 3.0, 3.0, 5.0, 5.0, 1.0, 1.0]
        );
        assert_eq!(values(End::Hold), [1.0, 1.0, 3.0, 3.0, 5.0, 5.0, 5.0, 5.0]);
        assert!((Schedule::constant(vec![7.0]).at(SECOND * 1000)[0] - 7.0).abs() < 1e-12);
    }

    #[test]
    fn means_are_by_time() {
        let mean = |from, to| schedule(End::Repeat).mean(SECOND / 10 * from, SECOND / 10 * to)[0];
        assert!((mean(0, 30) - 3.0).abs() < 1e-9);
        assert!((mean(5, 15) - 2.0).abs() < 1e-9);
        assert!((mean(25, 35) - 3.0).abs() < 1e-9);
        assert!((mean(7, 7) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        let new = |interval, rows| Schedule::new(interval, End::Hold, rows);
        assert!(matches!(new(SECOND, vec![]), Err(ModelError::Count { .. })));
        assert!(matches!(
            new(SECOND / 1000, vec![vec![1.0]]),
            Err(ModelError::Interval { .. })
        ));
        assert!(matches!(
            new(SECOND, vec![vec![1.0], vec![]]),
            Err(ModelError::Width { interval: 1, .. })
        ));
        for value in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(matches!(
                new(SECOND, vec![vec![value]]),
                Err(ModelError::Value { .. })
            ));
        }
    }
}
