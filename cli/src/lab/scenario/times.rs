//! When something happens: so long after traffic began, or at a message of the first traffic.

use super::{ChangeSpec, LoadSpec};

/// A moment of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::lab) enum Moment {
    Seconds(f64),
    Message(u64),
}

impl Moment {
    /// Whether it has come, so many seconds after traffic began, with so many messages answered.
    pub(in crate::lab) fn has_come(self, seconds: f64, messages: u64) -> bool {
        match self {
            Self::Seconds(at) => seconds >= at,
            Self::Message(at) => messages >= at,
        }
    }

    fn of(seconds: Option<f64>, message: Option<u64>) -> Option<Self> {
        message.map(Self::Message).or(seconds.map(Self::Seconds))
    }
}

/// From when to when a load is on; open where it is not said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::lab) struct When {
    pub(in crate::lab) from: Option<Moment>,
    pub(in crate::lab) until: Option<Moment>,
}

impl LoadSpec {
    pub(in crate::lab) fn when(&self) -> When {
        When {
            from: Moment::of(self.from, self.from_message),
            until: Moment::of(self.until, self.until_message),
        }
    }
}

impl ChangeSpec {
    pub(in crate::lab) fn when(&self) -> Moment {
        Moment::of(self.at, self.at_message).unwrap_or(Moment::Seconds(0.0))
    }
}
