//! The arrivals of all kinds of a workload, in the order of their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Workload;
use super::arrivals::Times;
use crate::units::saturating_nanos;

/// A message that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    /// When, nanoseconds from the start.
    pub at: u64,
    /// The kind of streams, by index in [`Workload::kinds`].
    pub kind: usize,
    /// Which of the kind's messages it is, the first being 0.
    pub index: u64,
    /// To which of the kind's streams.
    pub stream: u32,
}

/// The messages of all open kinds until the workload's end, in the order of their times. Those of closed loops have none.
#[derive(Debug)]
pub struct Schedule {
    heap: BinaryHeap<Reverse<Due>>,
    times: Vec<Times>,
    streams: Vec<u32>,
    most: Vec<u64>,
    end: u64,
    is_cut: bool,
}

impl Schedule {
    /// From the start of a workload.
    pub fn new(workload: &Workload) -> Self {
        let kinds = workload.kinds();
        let times = kinds.iter().enumerate().map(|(place, kind)| {
            let (seed, _) = workload.seeds(place);
            kind.arrivals().times(seed)
        });
        let most = kinds
            .iter()
            .map(|kind| kind.message_count().unwrap_or(u64::MAX));
        let mut schedule = Self {
            heap: BinaryHeap::new(),
            times: times.collect(),
            streams: kinds
                .iter()
                .map(|kind| kind.stream_count().max(1))
                .collect(),
            most: most.collect(),
            end: saturating_nanos(workload.drive_length()),
            is_cut: false,
        };
        for kind in 0..kinds.len() {
            schedule.refill(kind, 0);
        }
        schedule
    }

    fn refill(&mut self, kind: usize, index: u64) {
        let (Some(times), Some(most), Some(streams)) = (
            self.times.get_mut(kind),
            self.most.get(kind),
            self.streams.get(kind),
        ) else {
            return;
        };
        if index >= *most {
            return;
        }
        let Some(at) = times.next() else {
            return;
        };
        if at >= self.end {
            self.is_cut = true;
            return;
        }
        let stream = (index % u64::from(*streams)) as u32;
        self.heap.push(Reverse(Due {
            at,
            kind,
            index,
            stream,
        }));
    }

    /// Whether the time's end has come before that of some kind's messages; so far.
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }
}

impl Iterator for Schedule {
    type Item = Due;

    fn next(&mut self) -> Option<Due> {
        let Reverse(due) = self.heap.pop()?;
        self.refill(due.kind, due.index + 1);
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::super::StreamKind;
    use super::*;

    #[test]
    fn kinds_are_merged_in_order_and_end_with_time_or_count() {
        let kinds = vec![
            StreamKind::of_zeros("a", "constant:1000").streams(3),
            StreamKind::of_zeros("b", "poisson:500"),
            StreamKind::of_zeros("c", "constant:10000").messages(Some(5)),
            StreamKind::of_zeros("d", "closed:4"),
        ];
        let workload = Workload::new(kinds).unwrap().length(Duration::from_secs(4));
        let due: Vec<Due> = Schedule::new(&workload).collect();
        assert!(due.is_sorted_by_key(|due| due.at));
        assert!(due.iter().all(|due| due.at < 4_000_000_000));
        let of = |kind| due.iter().filter(move |due| due.kind == kind);
        assert_eq!(of(0).count(), 4000);
        assert!(of(0).all(|due| u64::from(due.stream) == due.index % 3));
        assert!((1800..2200).contains(&of(1).count()));
        assert_eq!((of(2).count(), of(3).count()), (5, 0));
        let again: Vec<Due> = Schedule::new(&workload).collect();
        assert_eq!(due, again);
        let other: Vec<Due> = Schedule::new(&workload.seed(2)).collect();
        assert_ne!(due, other);
    }

    #[test]
    fn a_kind_has_its_times_whatever_stands_behind_it() {
        let alone = Workload::new(vec![StreamKind::of_zeros("a", "poisson:100")]).unwrap();
        let more = Workload::new(vec![
            StreamKind::of_zeros("a", "poisson:100"),
            StreamKind::of_zeros("b", "poisson:100"),
        ]);
        let more = more.unwrap();
        let times = |workload: &Workload, kind| -> Vec<u64> {
            let due = Schedule::new(workload).filter(|due| due.kind == kind);
            due.map(|due| due.at).collect()
        };
        assert_eq!(times(&alone, 0), times(&more, 0));
        assert_ne!(times(&more, 0), times(&more, 1));
    }
}
