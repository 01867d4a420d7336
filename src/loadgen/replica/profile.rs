//! What was recorded of a system.

use core::time::Duration;
use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use super::error::{ModelError, other_kind};
use super::gather::{Gatherer, Source};
use super::machine::{Lacking, Machine, Metric};
use super::model::Model;
use super::schedule::{End, MAX_INTERVALS, Schedule};
use crate::pmu::{Cursor, MonitorError, Recording};
use crate::units::Time;

/// Of the file.
pub const PROFILE_VERSION: u64 = 1;
/// The most samples: a day and more, ten a second.
pub const MAX_SAMPLES: usize = 1 << 20;
/// The longest line, bytes.
const MAX_LINE: u64 = 1 << 16;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    tautline_profile: u64,
    machine: Machine,
    scope: String,
    metrics: Vec<Metric>,
    missing: Vec<Lacking>,
}

/// Metrics over time, and the machine they are of. As a file it is JSON lines: a header, and `[seconds, value, ..]` for each interval, by its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    header: Header,
    /// Ends of intervals, seconds since the beginning.
    ends: Vec<f64>,
    /// A row for each; not a number where nothing was read.
    rows: Vec<Vec<f64>>,
}

impl Profile {
    /// A profile without samples.
    ///
    /// # Errors
    ///
    /// There are no metrics, too many, or names are none.
    pub fn new(
        machine: Machine,
        scope: String,
        metrics: Vec<Metric>,
        missing: Vec<Lacking>,
    ) -> Result<Self, ModelError> {
        Metric::check_all(&metrics)?;
        Ok(Self {
            header: Header {
                tautline_profile: PROFILE_VERSION,
                machine,
                scope,
                metrics,
                missing,
            },
            ends: Vec::new(),
            rows: Vec::new(),
        })
    }

    /// What was read in the interval that ends at `end`, counted from the beginning. What is not finite, or below 0, was not read.
    ///
    /// # Errors
    ///
    /// It is not after the one before, or there are too many.
    pub fn push(&mut self, end: Duration, values: &[f64]) -> Result<(), ModelError> {
        let end = end.as_secs_f64();
        if end <= self.ends.last().copied().unwrap_or(0.0) {
            return Err(ModelError::Order {
                sample: self.ends.len(),
            });
        }
        if self.ends.len() == MAX_SAMPLES {
            return Err(ModelError::Count {
                what: "samples",
                given: MAX_SAMPLES + 1,
                max: MAX_SAMPLES,
            });
        }
        let value = |index: usize| {
            let value = values.get(index).copied().unwrap_or(f64::NAN);
            if value.is_finite() && value >= 0.0 {
                value
            } else {
                f64::NAN
            }
        };
        self.ends.push(end);
        self.rows
            .push((0..self.header.metrics.len()).map(value).collect());
        Ok(())
    }

    /// From what a monitor recorded: one value of each metric for each `interval`. `machine` is where it was recorded, which a recording does not say. Metrics that
    /// are not in it are [missing](Self::missing).
    ///
    /// # Errors
    ///
    /// None of the metrics is in it, or something is out of its bounds.
    pub fn of_recording(
        recording: Recording,
        machine: Machine,
        names: &[String],
        interval: Duration,
    ) -> Result<Self, ProfileError> {
        let said: Vec<_> = recording.missing().to_vec();
        let mut monitor = recording.monitor(|config| config)?;
        let layout = monitor.layout().clone();
        let (mut metrics, mut sources, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        for name in names {
            if let Some(source) = Source::find(&layout, name) {
                metrics.push(Metric {
                    name: name.clone(),
                    unit: unit(name).to_owned(),
                    estimated: false,
                });
                sources.push(source);
            } else {
                missing.push(Lacking {
                    name: name.clone(),
                    reason: "the recording has no such metric".to_owned(),
                });
            }
        }
        missing.extend(said.into_iter().map(|missing| Lacking {
            name: missing.name,
            reason: missing.reason,
        }));
        let mut profile = Self::new(
            machine,
            "a monitor's recording".to_owned(),
            metrics,
            missing,
        )?;
        let mut gatherer = Gatherer::new(&layout);
        let mut cursor = Cursor::default();
        let mut origin: Option<Time> = None;
        let mut values = Vec::new();
        while monitor.replay_tick() {
            let mut end = Duration::ZERO;
            while let Some(sample) = monitor.store().get(&layout, cursor) {
                let head = sample.head();
                let origin = *origin.get_or_insert(head.at - head.interval);
                gatherer.add(&sample);
                cursor = cursor.next();
                end = head.at.saturating_since(origin);
            }
            let last = profile.ends.last().copied().unwrap_or(0.0);
            // Not to miss an interval for the sake of a clock's grain.
            if end.as_secs_f64() - last >= 0.999 * interval.as_secs_f64() {
                gatherer.take(&layout, &sources, &mut values);
                profile.push(end, &values)?;
            }
        }
        Ok(profile)
    }

    /// Reads a file, which may be anybody's. A last line that was cut is left out.
    ///
    /// # Errors
    ///
    /// It cannot be read, is of another version, or no profile.
    pub fn read(mut file: impl BufRead) -> Result<Self, ModelError> {
        #[derive(Deserialize)]
        struct Version {
            tautline_profile: u64,
        }
        let syntax = |line: usize, error: &serde_json::Error| {
            ModelError::Syntax(format!("line {line}: {error}"))
        };
        let mut text = String::new();
        next_line(&mut file, &mut text)?;
        let version: Version = serde_json::from_str(&text)
            .map_err(|error| other_kind(&text, "profile").unwrap_or_else(|| syntax(1, &error)))?;
        if version.tautline_profile != PROFILE_VERSION {
            return Err(ModelError::Version {
                what: "profile",
                given: version.tautline_profile,
                known: PROFILE_VERSION,
            });
        }
        let header: Header = serde_json::from_str(&text).map_err(|error| syntax(1, &error))?;
        let mut profile = Self::new(header.machine, header.scope, header.metrics, header.missing)?;
        let width = profile.header.metrics.len() + 1;
        let mut line = 1;
        while next_line(&mut file, &mut text)? {
            line += 1;
            let row: Vec<Option<f64>> = match serde_json::from_str(&text) {
                Ok(row) => row,
                Err(_) if !text.ends_with('\n') => break,
                Err(error) => return Err(syntax(line, &error)),
            };
            if row.len() != width {
                return Err(ModelError::Width {
                    interval: line - 2,
                    given: row.len(),
                    expected: width,
                });
            }
            let end = row[0].and_then(|end| Duration::try_from_secs_f64(end).ok());
            let end = end.ok_or(ModelError::Order { sample: line - 2 })?;
            let values: Vec<f64> = row[1..]
                .iter()
                .map(|value| value.unwrap_or(f64::NAN))
                .collect();
            profile.push(end, &values)?;
        }
        Ok(profile)
    }

    /// Writes it as a file.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn write(&self, mut file: impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut file, &self.header)?;
        file.write_all(b"\n")?;
        for (end, row) in self.ends.iter().zip(&self.rows) {
            let values = row.iter().map(|value| value.is_finite().then_some(*value));
            let row: Vec<Option<f64>> = [Some(*end)].into_iter().chain(values).collect();
            serde_json::to_writer(&mut file, &row)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    }

    /// Where it was recorded.
    pub const fn machine(&self) -> &Machine {
        &self.header.machine
    }

    /// What was recorded.
    pub fn metrics(&self) -> &[Metric] {
        &self.header.metrics
    }

    /// What was asked for and not recorded.
    pub fn missing(&self) -> &[Lacking] {
        &self.header.missing
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The model of it: the mean of each metric, and, if there is an `interval`, those of each interval. Where a metric was not read, it is taken to have been what it
    /// was before.
    ///
    /// # Errors
    ///
    /// A metric was never read, or the interval is out of its bounds.
    pub fn model(&self, interval: Option<Duration>, end: End) -> Result<Model, ModelError> {
        let last = self.ends.last().copied().unwrap_or(0.0);
        let means = self.means(0.0, last);
        for (metric, mean) in self.header.metrics.iter().zip(&means) {
            if !mean.is_finite() {
                return Err(ModelError::Unread {
                    metric: metric.name.clone(),
                });
            }
        }
        let profile = match interval {
            None => None,
            Some(interval) => Some(self.pieces(interval, end, last, &means)?),
        };
        let header = &self.header;
        Model::new(
            header.machine.clone(),
            header.scope.clone(),
            header.metrics.clone(),
            means,
            profile,
        )
    }

    fn pieces(
        &self,
        interval: Duration,
        end: End,
        last: f64,
        means: &[f64],
    ) -> Result<Schedule, ModelError> {
        let seconds = interval.as_secs_f64().max(1e-3);
        // What is left over counts if it is half of one.
        let count = ((last / seconds).round().max(1.0)) as usize;
        if count > MAX_INTERVALS {
            return Err(ModelError::Count {
                what: "intervals",
                given: count,
                max: MAX_INTERVALS,
            });
        }
        let mut rows: Vec<Vec<f64>> = Vec::with_capacity(count);
        let mut first = 0;
        for index in 0..count {
            let (from, to) = (index as f64 * seconds, (index + 1) as f64 * seconds);
            while self.ends.get(first).is_some_and(|end| *end <= from) {
                first += 1;
            }
            let row = self.means_from(first, from, to);
            let before = rows.last().map_or(means, Vec::as_slice);
            let row = row.iter().zip(before);
            let row = row.map(|(value, before)| if value.is_finite() { *value } else { *before });
            let row = row.collect();
            rows.push(row);
        }
        Schedule::new(interval, end, rows)
    }

    fn means(&self, from: f64, to: f64) -> Vec<f64> {
        self.means_from(0, from, to)
    }

    /// Of each metric, by time; not a number if nothing was read. No sample before `first` is looked at.
    fn means_from(&self, first: usize, from: f64, to: f64) -> Vec<f64> {
        let metrics = self.header.metrics.len();
        let (mut sums, mut times) = (vec![0.0; metrics], vec![0.0; metrics]);
        for index in first..self.rows.len() {
            let begin = if index == 0 {
                0.0
            } else {
                self.ends[index - 1]
            };
            if begin >= to {
                break;
            }
            let part = self.ends[index].min(to) - begin.max(from);
            if part <= 0.0 {
                continue;
            }
            for (metric, value) in self.rows[index].iter().enumerate() {
                if value.is_finite() {
                    sums[metric] += part * value;
                    times[metric] += part;
                }
            }
        }
        sums.iter()
            .zip(&times)
            .map(|(sum, time)| sum / time)
            .collect()
    }
}

/// Why there is no profile of a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// It is no profile.
    #[error(transparent)]
    Profile(#[from] ModelError),
    /// It cannot be replayed.
    #[error(transparent)]
    Monitor(#[from] MonitorError),
}

/// By what a metric is called.
pub(super) fn unit(name: &str) -> &'static str {
    if name.ends_with("-per-second") {
        "1/s"
    } else {
        ""
    }
}

fn next_line(file: &mut impl BufRead, text: &mut String) -> Result<bool, ModelError> {
    text.clear();
    let read = io::Read::take(&mut *file, MAX_LINE + 1).read_line(text)?;
    if read as u64 > MAX_LINE {
        return Err(ModelError::TooLong {
            given: read as u64,
            max: MAX_LINE,
        });
    }
    Ok(read > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn metric(name: &str) -> Metric {
        Metric {
            name: name.to_owned(),
            unit: unit(name).to_owned(),
            estimated: false,
        }
    }

    fn profile(rows: &[[f64; 2]]) -> Profile {
        let metrics = vec![metric("cpu-load"), metric("page-faults-per-second")];
        let missing = vec![Lacking {
            name: "cpi".into(),
            reason: "no counters".into(),
        }];
        let mut profile =
            Profile::new(Machine::default(), "a test".into(), metrics, missing).unwrap();
        for (index, row) in rows.iter().enumerate() {
            profile
                .push(Duration::from_millis(500 * (index as u64 + 1)), row)
                .unwrap();
        }
        profile
    }

    fn written(profile: &Profile) -> String {
        let mut bytes = Vec::new();
        profile.write(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_model_has_the_mean_of_all_and_of_each_interval() {
        let nan = f64::NAN;
        let profile = profile(&[
            [0.2, 10.0],
            [0.4, nan],
            [0.8, 30.0],
            [0.6, 50.0],
            [0.1, nan],
        ]);
        let mean = profile.model(None, End::Hold).unwrap();
        assert!((mean.means()[0] - 0.42).abs() < 1e-9 && (mean.means()[1] - 30.0).abs() < 1e-9);
        assert!(mean.targets().is_constant());
        let model = profile
            .model(Some(Duration::from_secs(1)), End::Repeat)
            .unwrap();
        let expected = [[0.3, 10.0], [0.7, 40.0], [0.1, 40.0]];
        for (row, expected) in model.targets().rows().iter().zip(expected) {
            assert!(
                (row[0] - expected[0]).abs() < 1e-9 && (row[1] - expected[1]).abs() < 1e-9,
                "{row:?}"
            );
        }
        assert_eq!(model.targets().rows().len(), 3);
    }

    #[test]
    fn what_was_never_read_makes_no_model() {
        let never = profile(&[[0.2, f64::NAN], [0.2, -1.0], [0.2, f64::INFINITY]]);
        let found = never.model(None, End::Hold);
        assert!(
            matches!(found, Err(ModelError::Unread { metric }) if metric == "page-faults-per-second")
        );
        assert!(profile(&[]).model(None, End::Hold).is_err());
    }

    #[test]
    fn another_version_is_refused_with_both_numbers() {
        let text =
            written(&profile(&[])).replacen("\"tautline_profile\":1", "\"tautline_profile\":7", 1);
        let error = Profile::read(text.as_bytes()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a profile of version 7; this program reads 1"
        );
    }

    #[test]
    fn bad_files_are_refused_and_a_cut_one_is_read_as_far_as_it_goes() {
        let good = written(&profile(&[[0.1, 1.0], [0.2, 2.0]]));
        assert_eq!(Profile::read(good.as_bytes()).unwrap().len(), 2);
        let cut = &good[..good.len() - 4];
        assert_eq!(Profile::read(cut.as_bytes()).unwrap().len(), 1);
        for line in [
            "[0.2,1,1]\n",
            "[3]\n",
            "[3,1,1,1]\n",
            "[-1,0,0]\n",
            "[null,0,0]\n",
            "[1e300,0,0]\n",
            "{}\n",
            "[9,\"a\",1]\n",
        ] {
            assert!(
                Profile::read(format!("{good}{line}").as_bytes()).is_err(),
                "{line}"
            );
        }
        let long = format!("{good}[{}]\n", "1,".repeat(1 << 16));
        assert!(matches!(
            Profile::read(long.as_bytes()),
            Err(ModelError::TooLong { .. })
        ));
        assert!(Profile::read(&b""[..]).is_err());
        assert!(Profile::read(&b"\xff\xfe\n"[..]).is_err());
    }

    #[test]
    fn a_monitors_recording_becomes_a_profile() {
        let text = concat!(
            r#"{"tautline_monitor":1,"hz":2,"slots":9,"origin_unix_ns":0,"gauges":[{"name":"queue","is_count":false}],"missing":[],"#,
            r#""event_sets":{"sets":[{"name":"a","events":["cycles","instructions"],"metrics":{"cpi":"cycles / instructions"}},{"name":"b","events":["page-faults"],"metrics":{"faults":"page-faults / seconds"}}]}}"#,
            "\n",
            r#"{"at_ns":500000000,"interval_ns":500000000,"set":"a","cpu":0,"events":{"cycles":{"count":300,"enabled_ns":1,"running_ns":1},"instructions":{"count":100,"enabled_ns":1,"running_ns":1}},"gauges":{"queue":4}}"#,
            "\n",
            r#"{"at_ns":500000000,"interval_ns":500000000,"set":"a","cpu":1,"events":{"cycles":{"count":100,"enabled_ns":1,"running_ns":1},"instructions":{"count":100,"enabled_ns":1,"running_ns":1}},"gauges":{"queue":4}}"#,
            "\n",
            r#"{"at_ns":1000000000,"interval_ns":500000000,"set":"b","cpu":0,"events":{"page-faults":{"count":50,"enabled_ns":1,"running_ns":1}},"gauges":{"queue":2}}"#,
            "\n",
            r#"{"at_ns":1000000000,"interval_ns":500000000,"set":"b","cpu":1,"events":{"page-faults":{"count":10,"enabled_ns":1,"running_ns":1}},"gauges":{"queue":2}}"#,
            "\n",
            r#"{"at_ns":1500000000,"interval_ns":500000000,"set":"a","cpu":0,"events":{},"gauges":{}}"#,
            "\n",
        );
        let recording = Recording::read(text.as_bytes()).unwrap();
        let names = ["cpi", "faults", "queue", "none"].map(str::to_owned);
        let profile = Profile::of_recording(
            recording,
            Machine::default(),
            &names,
            Duration::from_secs(1),
        )
        .unwrap();
        assert_eq!(profile.missing()[0].name, "none");
        assert_eq!(profile.metrics().len(), 3);
        let row = &profile.rows[0];
        // Of both processors: 400 cycles for 200 instructions, and 60 faults in half a second.
        assert!(
            (row[0] - 2.0).abs() < 1e-9 && (row[1] - 120.0).abs() < 1e-9,
            "{row:?}"
        );
        assert!((row[2] - 3.0).abs() < 1e-9, "{row:?}");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(rows in prop::collection::vec(prop::array::uniform2(prop_oneof![Just(f64::NAN), 0.0..1e12]), 0..40)) {
            let profile = profile(&rows);
            let again = Profile::read(written(&profile).as_bytes()).unwrap();
            prop_assert_eq!(format!("{again:?}"), format!("{profile:?}"));
        }

        #[test]
        fn whatever_is_read_is_a_profile_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300), at in any::<prop::sample::Index>()) {
            let _ = Profile::read(&bytes[..]);
            let mut text = written(&profile(&[[0.1, 1.0], [0.2, 2.0]])).into_bytes();
            let index = at.index(text.len());
            text.splice(index..index, bytes);
            if let Ok(profile) = Profile::read(&text[..]) {
                let _ = profile.model(Some(Duration::from_secs(1)), End::Hold);
            }
        }
    }
}
