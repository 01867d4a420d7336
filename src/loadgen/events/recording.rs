//! Rows of what leeches and drives do.

use core::time::Duration;

use super::row::intensity_code;
#[cfg(feature = "transport")]
use super::row::stream_code;
use super::{Events, Point};
use crate::eventlog::{Domain, EventLog, Recorder};
use crate::loadgen::intensity::Intensity;
use crate::loadgen::resource::Resource;
use crate::units::saturating_nanos;

/// So long at most is in one row of a leech that does not sleep: a window of its duty.
const LONGEST: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
struct Log {
    area: EventLog,
    recorder: Recorder,
    events: Events,
    others: Domain,
}

impl Log {
    /// `None` if the area has other events.
    fn new(area: &EventLog) -> Option<Self> {
        let events = Events::of(&mut area.reader()).ok().flatten()?;
        let others = area.domain_named("others").unwrap_or_default();
        Some(Self {
            recorder: area.recorder(),
            area: area.clone(),
            events,
            others,
        })
    }

    fn domain(&self, name: &str) -> Domain {
        self.area.domain_named(name).unwrap_or(self.others)
    }

    #[inline]
    fn wants(&self, point: Point) -> bool {
        self.recorder.is_on(self.events.id(point))
    }

    #[inline]
    fn record(&self, point: Point, of: [Domain; 2], counter: u64, arguments: [u64; 3]) {
        let [domain, correspondent] = of;
        let event = self.events.id(point);
        self.recorder
            .record_with(event, domain, counter, correspondent, arguments);
    }
}

/// What a leech records with, if it has a log.
#[derive(Debug, Default)]
pub(in crate::loadgen) struct LeechEvents(Option<Taker>);

#[derive(Debug)]
struct Taker {
    log: Log,
    domain: Domain,
    told: Taken,
}

/// What a leech had taken at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::loadgen) struct Taken {
    pub(in crate::loadgen) wall: Duration,
    pub(in crate::loadgen) processor: Duration,
    pub(in crate::loadgen) operations: u64,
}

impl LeechEvents {
    /// `None` if the log has other events.
    pub(in crate::loadgen) fn new(log: &EventLog, resource: Resource) -> Option<Self> {
        let log = Log::new(log)?;
        let domain = log.domain(&format!("leech {resource}"));
        let told = Taken::default();
        Some(Self(Some(Taker { log, domain, told })))
    }

    /// It is to take `new` from now on.
    pub(in crate::loadgen) fn intensity(&self, old: Intensity, new: Intensity) {
        if let Some(taker) = &self.0 {
            let arguments = [intensity_code(old), 0, 0];
            taker.record(Point::Intensity, intensity_code(new), arguments);
        }
    }

    /// It has taken this in all, and works on.
    #[inline]
    pub(in crate::loadgen) fn working(&mut self, taken: Taken, intensity: Intensity) {
        if let Some(taker) = &mut self.0 {
            if taken.wall.saturating_sub(taker.told.wall) >= LONGEST {
                taker.tell(taken, intensity);
            }
        }
    }

    /// It has taken this in all, and sleeps or ends.
    pub(in crate::loadgen) fn pauses(&mut self, taken: Taken, intensity: Intensity) {
        if let Some(taker) = &mut self.0 {
            taker.tell(taken, intensity);
        }
    }
}

impl Taker {
    fn tell(&mut self, taken: Taken, intensity: Intensity) {
        if !self.log.wants(Point::Worked) {
            // The first row after it is switched on is of what comes from here on.
            self.told = taken;
            return;
        }
        let operations = taken.operations.saturating_sub(self.told.operations);
        if operations == 0 {
            return;
        }
        let processor = taken.processor.saturating_sub(self.told.processor);
        let wall = taken.wall.saturating_sub(self.told.wall);
        self.told = taken;
        let arguments = [
            intensity_code(intensity),
            saturating_nanos(wall),
            operations,
        ];
        self.record(Point::Worked, saturating_nanos(processor), arguments);
    }

    fn record(&self, point: Point, counter: u64, arguments: [u64; 3]) {
        let of = [self.domain, self.domain];
        self.log.record(point, of, counter, arguments);
    }
}

/// What a drive's kinds record with, if it has a log.
#[cfg(feature = "transport")]
#[derive(Debug, Default)]
pub(in crate::loadgen) struct DriveEvents(Option<Log>);

/// .. and what one kind does.
#[cfg(feature = "transport")]
#[derive(Debug, Default)]
pub(in crate::loadgen) struct KindEvents(Option<(Log, Domain, u32)>);

/// .. and one of its streams.
#[cfg(feature = "transport")]
#[derive(Debug, Default)]
pub(in crate::loadgen) struct StreamEvents(Option<(Log, [Domain; 2], u64)>);

#[cfg(feature = "transport")]
impl DriveEvents {
    /// `None` if the log has other events.
    pub(in crate::loadgen) fn new(log: &EventLog) -> Option<Self> {
        Log::new(log).map(|log| Self(Some(log)))
    }

    pub(in crate::loadgen) fn kind(&self, name: &str, place: usize) -> KindEvents {
        let kind = |log: &Log| (log.clone(), log.domain(name), place as u32);
        KindEvents(self.0.as_ref().map(kind))
    }
}

#[cfg(feature = "transport")]
impl KindEvents {
    pub(in crate::loadgen) fn stream(&self, name: &str, number: usize) -> StreamEvents {
        StreamEvents(self.0.as_ref().map(|(log, kind, place)| {
            let of = [log.domain(name), *kind];
            (log.clone(), of, stream_code(*place, number as u32))
        }))
    }

    pub(in crate::loadgen) fn unsent(&self, messages: u64) {
        if let (Some((log, kind, place)), 1..) = (&self.0, messages) {
            let arguments = [stream_code(*place, 0), 0, 0];
            log.record(Point::Unsent, [*kind, *kind], messages, arguments);
        }
    }
}

#[cfg(feature = "transport")]
impl StreamEvents {
    /// A message is due that was intended for a time.
    #[inline]
    pub(in crate::loadgen) fn due(&self, intended: u64, now: u64) {
        self.record(Point::Due, 1, intended, now.saturating_sub(intended));
    }

    /// It was sent; `now` tells the time.
    #[inline]
    pub(in crate::loadgen) fn sent(&self, intended: u64, now: impl FnOnce() -> u64, bytes: usize) {
        if self
            .0
            .as_ref()
            .is_some_and(|(log, ..)| log.wants(Point::Sent))
        {
            let after = now().saturating_sub(intended);
            self.record(Point::Sent, bytes as u64, intended, after);
        }
    }

    /// It must wait for room.
    #[inline]
    pub(in crate::loadgen) fn late(&self, intended: u64, bytes: usize) {
        self.record(Point::Late, 1, intended, bytes as u64);
    }

    /// Of a message that was sent at a time.
    #[inline]
    pub(in crate::loadgen) fn answered(&self, intended: u64, sent: u64, now: u64) {
        let from_intended = now.saturating_sub(intended);
        let from_sending = now.saturating_sub(sent);
        self.record(Point::Answered, from_intended, intended, from_sending);
    }

    #[inline]
    fn record(&self, point: Point, counter: u64, second: u64, third: u64) {
        if let Some((log, of, stream)) = &self.0 {
            log.record(point, *of, counter, [*stream, second, third]);
        }
    }
}
