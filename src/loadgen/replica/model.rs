//! The model file: what is asked of a replay, and how it was once reached.

use std::io::Read;

use serde::{Deserialize, Serialize};

use super::error::{ModelError, other_kind};
use super::machine::{Machine, Metric, check_names};
use super::schedule::Schedule;

/// Of the file.
pub const MODEL_VERSION: u64 = 1;
/// The longest file, bytes: a day of seconds, eight metrics and eight actuators.
pub const MAX_MODEL: u64 = 32 << 20;

/// Intensities that made the metrics what the model says, on the machine where they were found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Where they were found.
    pub machine: Machine,
    /// A column each.
    pub actuators: Vec<String>,
    /// Intensities, 0 to 1.
    pub intensities: Schedule,
}

/// A model of a system: its metrics as they are to be again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    #[serde(rename = "tautline_model")]
    version: u64,
    machine: Machine,
    scope: String,
    metrics: Vec<Metric>,
    means: Vec<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    profile: Option<Schedule>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parameters: Option<Parameters>,
}

impl Model {
    /// A model of the means, and of how the metrics went with time, if `profile` says so: a column for each metric.
    ///
    /// # Errors
    ///
    /// Something is out of its bounds, no name or no value.
    pub fn new(
        machine: Machine,
        scope: String,
        metrics: Vec<Metric>,
        means: Vec<f64>,
        profile: Option<Schedule>,
    ) -> Result<Self, ModelError> {
        let model = Self {
            version: MODEL_VERSION,
            machine,
            scope,
            metrics,
            means,
            profile,
            parameters: None,
        };
        model.check()?;
        Ok(model)
    }

    /// Reads a file, which may be anybody's.
    ///
    /// # Errors
    ///
    /// It cannot be read, is longer than [`MAX_MODEL`], of another version, or no model.
    pub fn read(file: impl Read) -> Result<Self, ModelError> {
        let mut text = String::new();
        let read = file.take(MAX_MODEL + 1).read_to_string(&mut text)?;
        if read as u64 > MAX_MODEL {
            return Err(ModelError::TooLong {
                given: read as u64,
                max: MAX_MODEL,
            });
        }
        Self::parse(&text)
    }

    /// From the text of a file.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        #[derive(Deserialize)]
        struct Version {
            tautline_model: u64,
        }
        let syntax = |error: serde_json::Error| ModelError::Syntax(error.to_string());
        if text.len() as u64 > MAX_MODEL {
            return Err(ModelError::TooLong {
                given: text.len() as u64,
                max: MAX_MODEL,
            });
        }
        let version: Version = serde_json::from_str(text)
            .map_err(|error| other_kind(text, "model").unwrap_or_else(|| syntax(error)))?;
        if version.tautline_model != MODEL_VERSION {
            return Err(ModelError::Version {
                what: "model",
                given: version.tautline_model,
                known: MODEL_VERSION,
            });
        }
        let model: Self = serde_json::from_str(text).map_err(syntax)?;
        model.check()?;
        Ok(model)
    }

    fn check(&self) -> Result<(), ModelError> {
        Metric::check_all(&self.metrics)?;
        let width = self.metrics.len();
        Schedule::constant(self.means.clone()).check(width)?;
        if let Some(profile) = &self.profile {
            profile.check(width)?;
        }
        if let Some(parameters) = &self.parameters {
            let most = super::controller::MAX_METRICS;
            if !(1..=most).contains(&parameters.actuators.len()) {
                return Err(ModelError::Count {
                    what: "actuators",
                    given: parameters.actuators.len(),
                    max: most,
                });
            }
            check_names("actuator", parameters.actuators.iter().map(String::as_str))?;
            parameters.intensities.check(parameters.actuators.len())?;
            for (interval, row) in parameters.intensities.rows().iter().enumerate() {
                if let Some(given) = row.iter().copied().find(|value| *value > 1.0) {
                    return Err(ModelError::Value { interval, given });
                }
            }
        }
        Ok(())
    }

    /// As a file says it.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
    pub fn to_json(&self) -> Result<String, ModelError> {
        serde_json::to_string(self).map_err(|error| ModelError::Syntax(error.to_string()))
    }

    /// Where it was recorded.
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Of what: processes or processors, in words.
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// What it is of.
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// The mean of each metric, as the thesis models it.
    pub fn means(&self) -> &[f64] {
        &self.means
    }

    /// What is asked: as it went with time, or the means.
    pub fn targets(&self) -> Schedule {
        self.profile
            .clone()
            .unwrap_or_else(|| Schedule::constant(self.means.clone()))
    }

    /// How it was reached, if it ever was.
    pub const fn parameters(&self) -> Option<&Parameters> {
        self.parameters.as_ref()
    }

    /// With intensities that reach it.
    ///
    /// # Errors
    ///
    /// They are none.
    pub fn with_parameters(mut self, parameters: Parameters) -> Result<Self, ModelError> {
        self.parameters = Some(parameters);
        self.check()?;
        Ok(self)
    }

    /// Of these metrics alone, by index; how it was reached is forgotten.
    ///
    /// # Errors
    ///
    /// None is left.
    pub fn only(&self, indices: &[usize]) -> Result<Self, ModelError> {
        let pick = |row: &[f64]| -> Vec<f64> {
            indices
                .iter()
                .filter_map(|index| row.get(*index).copied())
                .collect()
        };
        let metrics = indices
            .iter()
            .filter_map(|index| self.metrics.get(*index).cloned())
            .collect();
        let profile = match &self.profile {
            None => None,
            Some(profile) => {
                let rows = profile.rows().iter().map(|row| pick(row)).collect();
                Some(Schedule::new(profile.interval(), profile.end(), rows)?)
            }
        };
        Self::new(
            self.machine.clone(),
            self.scope.clone(),
            metrics,
            pick(&self.means),
            profile,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loadgen::replica::End;
    use core::time::Duration;
    use proptest::prelude::*;

    fn metrics(count: usize) -> Vec<Metric> {
        let metric = |index| Metric {
            name: format!("metric-{index}"),
            unit: "1/s".into(),
            estimated: index % 2 == 1,
        };
        (0..count).map(metric).collect()
    }

    fn model() -> Model {
        let profile = Schedule::new(
            Duration::from_secs(2),
            End::Repeat,
            vec![vec![0.1, 20.0], vec![0.3, 40.0]],
        )
        .unwrap();
        let machine = Machine {
            vendor: "X".into(),
            processors: 2,
            ..Machine::default()
        };
        let model = Model::new(
            machine.clone(),
            "processors 1".into(),
            metrics(2),
            vec![0.2, 30.0],
            Some(profile),
        )
        .unwrap();
        let parameters = Parameters {
            machine,
            actuators: vec!["cpu".into()],
            intensities: Schedule::constant(vec![0.5]),
        };
        model.with_parameters(parameters).unwrap()
    }

    #[test]
    fn a_model_is_read_as_it_was_written() {
        let model = model();
        assert_eq!(Model::parse(&model.to_json().unwrap()).unwrap(), model);
        let one = model.only(&[1]).unwrap();
        assert_eq!(
            (one.means(), one.targets().rows()),
            (&[30.0][..], &[vec![20.0], vec![40.0]][..])
        );
        assert!(one.parameters().is_none());
        assert!(model.only(&[]).is_err());
    }

    #[test]
    fn a_profile_is_said_to_be_one_and_a_model_too() {
        let model = model();
        let said = |error: ModelError| error.to_string();
        let line = r#"{"tautline_profile":1,"anything":[]}"#;
        assert_eq!(
            said(Model::parse(&format!("{line}\n[1,2]\n")).unwrap_err()),
            "a profile, where a model is wanted (`tautline load model` makes models of profiles)"
        );
        let file = std::io::Cursor::new(model.to_json().unwrap());
        let error = super::super::Profile::read(file).unwrap_err();
        assert!(said(error).starts_with("a model, where a profile is wanted"));
        let error = Model::parse("{}").unwrap_err();
        assert!(matches!(error, ModelError::Syntax(_)), "{error}");
    }

    #[test]
    fn another_version_is_refused_with_both_numbers() {
        let text = model().to_json().unwrap().replacen(":1,", ":2,", 1);
        let error = Model::parse(&text).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a model of version 2; this program reads 1"
        );
        // Whatever else such a one may have.
        let error = Model::parse(r#"{"tautline_model": 99, "new": []}"#).unwrap_err();
        assert!(matches!(
            error,
            ModelError::Version {
                given: 99,
                known: 1,
                ..
            }
        ));
    }

    #[test]
    fn bad_files_are_refused() {
        let good = model().to_json().unwrap();
        for (from, to) in [
            ("[0.2,30.0]", "[0.2]"),
            ("[0.2,30.0]", "[0.2,-30.0]"),
            ("[0.2,30.0]", "[0.2,1e999]"),
            ("[0.1,20.0]", "[0.1,20.0,1]"),
            ("[[0.5]]", "[[1.5]]"),
            ("[[0.5]]", "[[]]"),
            ("[[0.5]]", "[]"),
            ("[\"cpu\"]", "[]"),
            ("[\"cpu\"]", "[\"cpu\",\"cpu\"]"),
            ("metric-1", "metric-0"),
            ("metric-1", "no name"),
            ("\"interval_ms\":2000", "\"interval_ms\":0"),
            ("\"interval_ms\":2000", "\"interval_ms\":-1"),
            ("\"repeat\"", "\"never\""),
            ("\"scope\"", "\"scop\""),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good, "{from}");
            assert!(Model::parse(&bad).is_err(), "{bad}");
        }
        let deep = format!("{{\"tautline_model\":1,\"machine\":{}", "[".repeat(100_000));
        assert!(Model::parse(&deep).is_err());
        let endless = std::io::repeat(b' ');
        assert!(matches!(
            Model::read(endless),
            Err(ModelError::TooLong { .. })
        ));
    }

    proptest! {
        #[test]
        fn any_model_survives_its_file(
            rows in (1_usize..=8).prop_flat_map(|width| prop::collection::vec(prop::collection::vec(0.0..1e15, width), 1..30)),
            millis in 100_u64..10_000,
            holds in any::<bool>(),
        ) {
            let width = rows[0].len();
            let end = if holds { End::Hold } else { End::Repeat };
            let profile = Schedule::new(Duration::from_millis(millis), end, rows.clone()).unwrap();
            let model = Model::new(Machine::default(), String::new(), metrics(width), rows[0].clone(), Some(profile)).unwrap();
            prop_assert_eq!(Model::parse(&model.to_json().unwrap()).unwrap(), model);
        }

        #[test]
        fn whatever_is_read_is_a_model_or_an_error(text in "[ -~]{0,200}", at in any::<prop::sample::Index>(), cut in any::<prop::sample::Index>()) {
            let _ = Model::parse(&text);
            let mut good = model().to_json().unwrap();
            good.insert_str(at.index(good.len()), &text);
            if let Ok(model) = Model::parse(&good) {
                prop_assert!(model.targets().rows().iter().flatten().all(|value| value.is_finite()));
            }
            good.truncate(cut.index(good.len()));
            let _ = Model::parse(&good);
        }
    }
}
