//! placeholder
use crate::units::Time;
use core::time::Duration;
#[derive(Debug)]
pub struct CodecBudget {
    rate: Option<f64>,
}
impl CodecBudget {
    pub fn empty() -> Self {
        Self { rate: Some(0.0) }
    }
    pub fn set_rate(&mut self, _now: Time, rate: Option<f64>) {
        self.rate = rate;
    }
    pub fn rate(&self) -> Option<f64> {
        self.rate
    }
    pub fn is_available(&mut self, _now: Time) -> bool {
        self.rate.is_none_or(|r| r > 0.0)
    }
    pub fn spend(&mut self, _now: Time, _t: Duration) {}
}
