//! What a replay did with its last reading: for whoever wants to see why it went as it did.

use serde::{Serialize, Serializer};

/// What a controller is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Everything is as it was: what is there without us?
    Rest,
    /// The actuator of this index has moved: what does it do?
    Step(usize),
    /// What is asked is held.
    Hold,
}

/// One reading, and what came of it. Values are by metric and by actuator, in the plant's order. What is not known is not a number (in JSON `null`): among it what a filter
/// would know of metrics that are [direct](super::Plant::direct).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// When, seconds since the first.
    #[serde(serialize_with = "of_millis")]
    pub seconds: f64,
    /// What the controller is at, after it; none has an open-loop replay.
    pub phase: Option<Phase>,
    /// What was asked since the step before.
    pub asked: Vec<f64>,
    /// What was read in that time.
    pub readings: Vec<f64>,
    /// Where actuators are from now on.
    pub intensities: Vec<f64>,
    /// Where metrics stand, as the controller's filters have it.
    pub levels: Vec<f64>,
    /// What means of a second vary by whatever actuators do, in units of the metric: a standard deviation; 0 as long as it is not known.
    pub noise: Vec<f64>,
    /// How much each metric is taken to change when an actuator goes all the way: a row for each metric.
    pub sensitivities: Vec<Vec<f64>>,
    /// By how much each of those may be wrong: standard deviations.
    pub deviations: Vec<Vec<f64>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn of_millis<S: Serializer>(seconds: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((seconds * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_one_object_of_json_in_which_what_is_not_known_is_null() {
        let step = Step {
            seconds: 0.200_000_4,
            phase: Some(Phase::Step(1)),
            asked: vec![2.0],
            readings: vec![f64::NAN],
            intensities: vec![0.0, 0.12],
            levels: vec![1.5],
            noise: vec![0.0],
            sensitivities: vec![vec![1.0, -1.0]],
            deviations: vec![vec![0.5, 0.25]],
        };
        let json = serde_json::to_string(&step).unwrap();
        assert_eq!(
            json,
            r#"{"seconds":0.2,"phase":{"step":1},"asked":[2.0],"readings":[null],"intensities":[0.0,0.12],"levels":[1.5],"noise":[0.0],"sensitivities":[[1.0,-1.0]],"deviations":[[0.5,0.25]]}"#
        );
    }
}
