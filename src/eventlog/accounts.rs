//! What rows say of each event and domain, taken together as the event's kind has it.

use std::collections::BTreeMap;

use super::format::{Domain, EventId, EventKind};
use super::reader::Row;

/// What rows of one event and domain come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Account {
    /// [`EventKind::Access`].
    Accessed {
        /// Rows.
        rows: u64,
        /// How often, the rows' counters together.
        times: u64,
    },
    /// [`EventKind::Exit`].
    Charged {
        /// Rows.
        rows: u64,
        /// What was used, the rows' counters together.
        amount: u64,
    },
    /// [`EventKind::Gauge`]: what there was had come about before each row, so that rows add up to nothing.
    Sampled {
        /// Rows.
        rows: u64,
        /// The first.
        first: u64,
        /// The last.
        latest: u64,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
}

impl Account {
    const fn of(kind: EventKind, counter: u64) -> Self {
        match kind {
            EventKind::Access => Self::Accessed {
                rows: 1,
                times: counter,
            },
            EventKind::Exit => Self::Charged {
                rows: 1,
                amount: counter,
            },
            EventKind::Gauge => Self::Sampled {
                rows: 1,
                first: counter,
                latest: counter,
                least: counter,
                most: counter,
            },
        }
    }

    fn add(&mut self, counter: u64) {
        match self {
            Self::Accessed { rows, times: sum } | Self::Charged { rows, amount: sum } => {
                *rows += 1;
                *sum = sum.saturating_add(counter);
            }
            Self::Sampled {
                rows,
                latest,
                least,
                most,
                ..
            } => {
                *rows += 1;
                *latest = counter;
                *least = counter.min(*least);
                *most = counter.max(*most);
            }
        }
    }

    /// How many rows there were.
    pub const fn rows(&self) -> u64 {
        match self {
            Self::Accessed { rows, .. }
            | Self::Charged { rows, .. }
            | Self::Sampled { rows, .. } => *rows,
        }
    }

    /// Of samples, by how much the last is more than the first.
    pub const fn change(&self) -> Option<i128> {
        match self {
            Self::Sampled { first, latest, .. } => Some(*latest as i128 - *first as i128),
            _ => None,
        }
    }
}

/// What each domain accessed, was charged and had, by event. It has room for as many as there are events and domains in the rows.
///
/// ```
/// use tautline::eventlog::*;
///
/// let all = RowFormat::new(Fields::USUAL, Stamp::Cycles);
/// let config = EventLogConfig::default()
///     .event("parser.left", EventKind::Exit)
///     .log("all", 4096, all)
///     .domains(3);
/// let log = EventLog::new(&config)?;
/// let (left, orders) = (EventId::new(0), Domain::new(1));
/// log.route(left, None, Some(Route::to(LogId::new(0))))?;
///
/// let recorder = log.recorder();
/// let mut phases = Phases::new(Domain::new(0));
/// for (step, nanos) in [(Step::Enter(orders), 500), (Step::Exit(orders), 620)] {
///     recorder.charge(left, &mut phases, step, || nanos);
/// }
///
/// let mut rows = Vec::new();
/// let mut reader = log.reader();
/// reader.pass(&mut rows)?;
/// let mut accounts = Accounts::default();
/// for row in &rows {
///     accounts.take(EventKind::Exit, row);
/// }
/// let charged = Account::Charged { rows: 1, amount: 120 };
/// # // Variants of an enum that may grow cannot be made outside.
/// assert_eq!(format!("{:?}", accounts.get(left, orders)), format!("{:?}", Some(charged)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    all: BTreeMap<(EventId, Domain), Account>,
}

impl Accounts {
    /// Takes a row of an event of this kind, as [`Reader::event`](super::Reader::event) says; rows in the order of their times, as far as there are gauges. Whether it has the
    /// fields that this takes: event, domain and counter.
    ///
    /// Rows of logs that count ([`RowFormat::counting`](super::RowFormat::counting)) are sums already and not for this.
    pub fn take(&mut self, kind: EventKind, row: &Row) -> bool {
        let (Some(event), Some(domain), Some(counter)) = (row.event, row.domain, row.counter)
        else {
            return false;
        };
        self.all
            .entry((event, domain))
            .and_modify(|account| account.add(counter))
            .or_insert_with(|| Account::of(kind, counter));
        true
    }

    /// That of one event and domain, if there was a row.
    pub fn get(&self, event: EventId, domain: Domain) -> Option<Account> {
        self.all.get(&(event, domain)).copied()
    }

    /// All of them, by event and domain.
    pub fn iter(&self) -> impl Iterator<Item = (EventId, Domain, Account)> {
        let all = self.all.iter();
        all.map(|((event, domain), account)| (*event, *domain, *account))
    }
}

#[cfg(all(test, not(tautline_loom)))]
mod tests {
    use super::super::{
        EventLog, EventLogConfig, Fields, LogId, Phases, Route, RowFormat, Stamp, Step,
    };
    use super::*;

    const USED: EventId = EventId::new(0);
    const LEFT: EventId = EventId::new(1);
    const QUEUE: EventId = EventId::new(2);
    const KINDS: [EventKind; 3] = [EventKind::Access, EventKind::Exit, EventKind::Gauge];
    const NOBODY: Domain = Domain::new(0);
    const A: Domain = Domain::new(1);
    const B: Domain = Domain::new(2);

    fn log() -> EventLog {
        let names = ["used", "left", "queue"].into_iter().zip(KINDS);
        let config = names.fold(EventLogConfig::default(), |config, (name, kind)| {
            config.event(name, kind)
        });
        let format = RowFormat::new(Fields::USUAL, Stamp::Virtual);
        let log = EventLog::new(&config.log("all", 1 << 12, format).domains(3)).expect("small");
        for event in [USED, LEFT, QUEUE] {
            let route = Some(Route::to(LogId::new(0)));
            log.route(event, None, route).expect("known");
        }
        log
    }

    /// What there is to read, by the kinds that the log says.
    fn accounts(log: &EventLog) -> Accounts {
        let mut reader = log.reader();
        let mut rows = Vec::new();
        reader.pass(&mut rows).expect("of this process");
        let mut accounts = Accounts::default();
        for row in &rows {
            let (_, kind) = reader.event(row.event.expect("a field")).expect("there");
            assert!(accounts.take(kind, row));
        }
        accounts
    }

    #[test]
    fn accesses_are_counted_and_phases_are_charged_to_who_leaves() {
        let log = log();
        let recorder = log.recorder();
        for (domain, times) in [(A, 1), (B, 1), (A, 1), (A, 5)] {
            recorder.record(USED, domain, times, NOBODY);
        }
        let mut phases = Phases::new(NOBODY);
        for (step, counter) in [
            (Step::Enter(A), 100),
            (Step::Enter(B), 130),
            (Step::Exit(B), 135),
            (Step::Exit(A), 145),
        ] {
            recorder.charge(LEFT, &mut phases, step, || counter);
        }
        let found: Vec<_> = accounts(&log).iter().collect();
        let accessed = |rows, times| Account::Accessed { rows, times };
        let charged = |rows, amount| Account::Charged { rows, amount };
        assert_eq!(
            found,
            [
                (USED, A, accessed(3, 7)),
                (USED, B, accessed(1, 1)),
                (LEFT, A, charged(2, 40)),
                (LEFT, B, charged(1, 5)),
            ]
        );
    }

    #[test]
    fn samples_of_what_has_come_about_are_not_added_up() {
        let log = log();
        let mut writer = log.writer("main").unwrap();
        for len in [40, 3, 90, 25] {
            writer.record(QUEUE, A, len, A);
        }
        writer.record(QUEUE, B, u64::MAX, B);
        let accounts = accounts(&log);
        let queue = accounts.get(QUEUE, A).unwrap();
        assert_eq!(
            queue,
            Account::Sampled {
                rows: 4,
                first: 40,
                latest: 25,
                least: 3,
                most: 90,
            }
        );
        assert_eq!((queue.change(), queue.rows()), (Some(-15), 4));
        let other = accounts.get(QUEUE, B).unwrap();
        assert_eq!(other.change(), Some(0));
        assert_eq!(accounts.get(QUEUE, NOBODY), None);
    }

    #[test]
    fn while_an_event_is_off_nothing_is_asked_and_nothing_charged_for_it_later() {
        let log = log();
        let mut writer = log.writer("main").unwrap();
        let mut phases = Phases::new(NOBODY);
        writer.charge(LEFT, &mut phases, Step::Enter(A), || 10);
        log.route(LEFT, None, None).unwrap();
        writer.charge(LEFT, &mut phases, Step::Exit(A), || {
            unreachable!("it is off")
        });
        writer.charge(LEFT, &mut phases, Step::Enter(B), || {
            unreachable!("it is off")
        });
        let on = Some(Route::to(LogId::new(0)));
        log.route(LEFT, None, on).unwrap();
        // Since when B has been there nobody knows, and A is not any more.
        writer.charge(LEFT, &mut phases, Step::Exit(B), || 1000);
        writer.charge(LEFT, &mut phases, Step::Enter(A), || 1100);
        writer.charge(LEFT, &mut phases, Step::Exit(A), || 1104);
        let found: Vec<_> = accounts(&log).iter().collect();
        assert_eq!(found, [(LEFT, A, Account::Charged { rows: 1, amount: 4 })]);
        assert_eq!(phases.unmatched(), 2);
    }

    #[test]
    fn a_row_without_the_fields_is_in_no_account() {
        let log = log();
        log.recorder().record(USED, A, 1, A);
        let mut rows = Vec::new();
        log.reader().pass(&mut rows).unwrap();
        let mut accounts = Accounts::default();
        for row in [
            Row {
                counter: None,
                ..rows[0]
            },
            Row {
                domain: None,
                ..rows[0]
            },
            Row {
                event: None,
                ..rows[0]
            },
        ] {
            assert!(!accounts.take(EventKind::Access, &row));
        }
        assert_eq!(accounts.iter().count(), 0);
    }
}
