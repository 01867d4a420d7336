//! What the words of a row say.

use core::time::Duration;

use super::{Events, Point};
use crate::eventlog::Row;
use crate::loadgen::intensity::Intensity;

/// Intensities are counted in these.
const MILLIONTHS: f64 = 1e6;

/// Which message of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OfMessage {
    /// Place of its kind of streams in the workload.
    pub kind: u32,
    /// Number of its stream in that kind.
    pub stream: u32,
    /// When it was to be sent, from the start of the drive.
    pub intended: Duration,
}

/// What a row of a leech's or a drive's says.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of the module's table")]
pub enum Event {
    /// [`Point::Intensity`].
    Intensity { old: Intensity, new: Intensity },
    /// [`Point::Worked`].
    Worked {
        intensity: Intensity,
        processor: Duration,
        wall: Duration,
        operations: u64,
    },
    /// [`Point::Due`].
    Due { message: OfMessage, late: Duration },
    /// [`Point::Sent`].
    Sent {
        message: OfMessage,
        bytes: u64,
        after: Duration,
    },
    /// [`Point::Late`].
    Late { message: OfMessage, bytes: u64 },
    /// [`Point::Unsent`].
    Unsent { kind: u32, messages: u64 },
    /// [`Point::Answered`].
    Answered {
        message: OfMessage,
        from_intended: Duration,
        from_sending: Duration,
    },
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn intensity_code(intensity: Intensity) -> u64 {
    (intensity.share() * MILLIONTHS).round() as u64
}

fn intensity_of(code: u64) -> Intensity {
    Intensity::new(code as f64 / MILLIONTHS)
}

#[cfg(all(feature = "transport", any(target_os = "linux", target_os = "android")))]
pub(super) const fn stream_code(kind: u32, stream: u32) -> u64 {
    (kind as u64) << 32 | stream as u64
}

impl Event {
    /// What a row says; `None` if it is of none of these events, or lacks a field.
    pub fn of(row: &Row, events: Events) -> Option<Self> {
        let point = events.point(row.event?)?;
        let (counter, first) = (row.counter?, row.first?);
        let (second, third) = (row.second?, row.third?);
        let kind = (first >> 32) as u32;
        let message = OfMessage {
            kind,
            stream: first as u32,
            intended: Duration::from_nanos(second),
        };
        Some(match point {
            Point::Intensity => Self::Intensity {
                old: intensity_of(first),
                new: intensity_of(counter),
            },
            Point::Worked => Self::Worked {
                intensity: intensity_of(first),
                processor: Duration::from_nanos(counter),
                wall: Duration::from_nanos(second),
                operations: third,
            },
            Point::Due => Self::Due {
                message,
                late: Duration::from_nanos(third),
            },
            Point::Sent => Self::Sent {
                message,
                bytes: counter,
                after: Duration::from_nanos(third),
            },
            Point::Late => Self::Late {
                message,
                bytes: third,
            },
            Point::Unsent => Self::Unsent {
                kind,
                messages: counter,
            },
            Point::Answered => Self::Answered {
                message,
                from_intended: Duration::from_nanos(counter),
                from_sending: Duration::from_nanos(third),
            },
        })
    }
}
