//! What leeches and drives record in an [event log](crate::eventlog), and what its rows say.
//!
//! ```
//! # #[cfg(any(target_os = "linux", target_os = "android"))]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use tautline::eventlog::{EventLog, EventLogConfig, Fields, LogId, Route, RowFormat, Stamp};
//! use tautline::loadgen::{Leech, LeechConfig, Resource, events};
//!
//! let all = RowFormat::new(Fields::ALL, Stamp::Cycles);
//! let config = EventLogConfig::default().log("load", 1 << 16, all).domains(16);
//! // After whatever events it has: a node's (`transport::events::config`), or one's own.
//! let log = EventLog::new(&events::config(config))?;
//! let leech = LeechConfig::new(Resource::Cpu).length(Duration::from_millis(50));
//! let leech = Leech::start(leech.event_log(log.clone()))?;
//! // Nothing is recorded yet.
//! let events = events::Events::of(&mut log.reader())?.ok_or("these are in")?;
//! for event in events.all() {
//!     log.route(event, None, Some(Route::to(LogId::new(0))))?;
//! }
//! # drop(leech);
//! # Ok(())
//! # }
//! # #[cfg(not(any(target_os = "linux", target_os = "android")))]
//! # fn main() {}
//! ```
//!
//! # Rows
//!
//! What a leech takes is of the *domain* `leech RESOURCE`, which leeches of one resource share. What concerns a message of a drive is of the domain that has its stream's
//! name, as the transport's rows of that stream are, and has that of its kind of streams as its correspondent; what concerns no stream is of the kind's alone. Where there
//! are more names than domains, the domain is `others`. Times are nanoseconds, lengths bytes, and intensities millionths of one processor.
//!
//! | event | kind | when | counter | first | second | third |
//! |---|---|---|---|---|---|---|
//! | `leech.intensity` | gauge | a leech begins, or is to take another share | the share | the share before | | |
//! | `leech.worked` | exit | it goes to sleep, 10 ms have passed, or it ends; not where it has done nothing | processor time since the row before | the share | all time since then, with sleep | operations since then |
//! | `drive.due` | access | a message's time has come, and there is room for it | 1 | stream | intended time | how late the generator is |
//! | `drive.sent` | exit | the stream's queue has taken it | payload | stream | intended time | how long after that |
//! | `drive.late` | access | it is due, but must wait for room in its stream's queue | 1 | stream | intended time | payload |
//! | `drive.unsent` | access | messages were due, and there was no room or no time left for them | how many | kind << 32 | | |
//! | `drive.answered` | exit | its answer has come, or it was acknowledged | time since it was intended | stream | intended time | time since it was sent |
//!
//! *Stream* is the kind's place in the workload << 32, and the stream's number in it. *Intended times* count from the start of the drive. Each message that was due has a row `drive.due` or is
//! counted in one of `drive.unsent`. [`Event`] reads all this.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod recording;
mod row;
#[cfg(test)]
mod tests;

#[cfg(all(feature = "transport", any(target_os = "linux", target_os = "android")))]
pub(super) use self::recording::{DriveEvents, KindEvents, StreamEvents};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use self::recording::{LeechEvents, Taken};
pub use self::row::{Event, OfMessage};
use crate::eventlog::{EventId, EventKind, EventLogConfig, ReadError, Reader};

/// A point at which something is recorded: see [Rows](self#rows).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Point {
    /// `leech.intensity`
    Intensity,
    /// `leech.worked`
    Worked,
    /// `drive.due`
    Due,
    /// `drive.sent`
    Sent,
    /// `drive.late`
    Late,
    /// `drive.unsent`
    Unsent,
    /// `drive.answered`
    Answered,
}

impl Point {
    /// All of them, in the order of their events.
    pub const ALL: [Self; 7] = [
        Self::Intensity,
        Self::Worked,
        Self::Due,
        Self::Sent,
        Self::Late,
        Self::Unsent,
        Self::Answered,
    ];

    /// The name of its event.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Intensity => "leech.intensity",
            Self::Worked => "leech.worked",
            Self::Due => "drive.due",
            Self::Sent => "drive.sent",
            Self::Late => "drive.late",
            Self::Unsent => "drive.unsent",
            Self::Answered => "drive.answered",
        }
    }

    /// What the counter of its rows says.
    pub const fn kind(self) -> EventKind {
        match self {
            Self::Intensity => EventKind::Gauge,
            Self::Worked | Self::Sent | Self::Answered => EventKind::Exit,
            Self::Due | Self::Late | Self::Unsent => EventKind::Access,
        }
    }
}

/// Adds these events to those that an area is to have. They may come after any others.
#[must_use]
pub fn config(config: EventLogConfig) -> EventLogConfig {
    let points = Point::ALL.iter();
    points.fold(config, |config, point| {
        config.event(point.name(), point.kind())
    })
}

/// Where these events are among those of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Events {
    first: u16,
}

impl Events {
    /// `None` if the area does not have them, one after the other.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn of(reader: &mut Reader) -> Result<Option<Self>, ReadError> {
        let count = reader.counts().events;
        let mut first = None;
        let mut matched = 0;
        for number in 0..count {
            let number = number as u16;
            let (name, _) = reader.event(EventId::new(number))?;
            // No name is there twice: what breaks off can only begin anew.
            if Point::ALL.get(matched).is_none_or(|it| it.name() != name) {
                matched = 0;
            }
            if Point::ALL.get(matched).is_some_and(|it| it.name() == name) {
                first = (matched == 0).then_some(number).or(first);
                matched += 1;
            }
            if matched == Point::ALL.len() {
                return Ok(first.map(|first| Self { first }));
            }
        }
        Ok(None)
    }

    /// The event of a point.
    pub const fn id(self, point: Point) -> EventId {
        EventId::new(self.first + point as u16)
    }

    /// All of them.
    pub fn all(self) -> impl Iterator<Item = EventId> {
        Point::ALL.into_iter().map(move |point| self.id(point))
    }

    /// Whose event it is; `None` for one that is not of these.
    pub fn point(self, event: EventId) -> Option<Point> {
        let place = event.index().checked_sub(self.first.into())?;
        Point::ALL.get(place).copied()
    }
}
