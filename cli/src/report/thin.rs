//! Lines of any length in bounded memory: spans of time that double when there are too many, with the least and the greatest value of each.

use std::collections::BTreeMap;

/// What of two spans becomes one.
pub(super) trait Merge: Default {
    fn merge(&mut self, other: Self);
}

/// Something for each span of time, of so many at most. Times may come in any order, and what comes out does not depend on it.
pub(super) struct Spans<T> {
    most: usize,
    /// A span is of 2^shift ns.
    shift: u32,
    kept: BTreeMap<u64, T>,
}

impl<T: Merge> Spans<T> {
    /// Two at least, so that times that are as far apart as can be have a span each.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most: most.max(2),
            shift: 0,
            kept: BTreeMap::new(),
        }
    }

    /// What the span of a time has, ns.
    pub(super) fn at(&mut self, at: u64) -> &mut T {
        while self.kept.len() >= self.most && !self.kept.contains_key(&(at >> self.shift)) {
            self.double();
        }
        self.kept.entry(at >> self.shift).or_default()
    }

    fn double(&mut self) {
        self.shift += 1;
        for (index, span) in std::mem::take(&mut self.kept) {
            self.kept.entry(index >> 1).or_default().merge(span);
        }
    }

    /// Beginning and end of each span that has anything, ns, and what it has, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64, &T)> {
        self.kept.iter().map(|(index, span)| {
            let from = index << self.shift;
            let to = from.saturating_add((1u64 << self.shift).saturating_sub(1));
            (from, to, span)
        })
    }

    /// How long a span is, ns.
    pub(super) fn length(&self) -> u64 {
        1 << self.shift
    }
}

impl Merge for f64 {
    fn merge(&mut self, other: Self) {
        *self += other;
    }
}

impl Merge for u64 {
    fn merge(&mut self, other: Self) {
        *self = self.saturating_add(other);
    }
}

/// Numbers that are added up one by one, such as counts by arm.
impl Merge for Vec<u64> {
    fn merge(&mut self, other: Self) {
        if self.len() < other.len() {
            self.resize(other.len(), 0);
        }
        for (sum, more) in self.iter_mut().zip(other) {
            *sum += more;
        }
    }
}

/// The least and the greatest of a span, each with its time.
#[derive(Clone, Copy, Default)]
pub(super) struct Extremes(Option<[(u64, f64); 2]>);

impl Merge for Extremes {
    fn merge(&mut self, other: Self) {
        for point in other.0.into_iter().flatten() {
            self.add(point);
        }
    }
}

impl Extremes {
    fn add(&mut self, point: (u64, f64)) {
        let [least, greatest] = self.0.get_or_insert([point; 2]);
        // Of equals the earliest, so that the order does not matter.
        if (point.1, point.0) < (least.1, least.0) {
            *least = point;
        }
        if point.1 > greatest.1 || (point.1 >= greatest.1 && point.0 < greatest.0) {
            *greatest = point;
        }
    }
}

/// A line of points, thinned where there are too many.
pub(super) struct Line {
    spans: Spans<Extremes>,
    points: u64,
    sum: f64,
}

impl Line {
    /// Of twice so many points at most.
    pub(super) fn new(spans: usize) -> Self {
        Self {
            spans: Spans::new(spans),
            points: 0,
            sum: 0.0,
        }
    }

    /// A value that is not finite is left out.
    pub(super) fn add(&mut self, at: u64, value: f64) {
        if value.is_finite() {
            self.points += 1;
            self.sum += value;
            self.spans.at(at).add((at, value));
        }
    }

    /// How many were added.
    pub(super) const fn points(&self) -> u64 {
        self.points
    }

    /// Of all that were added.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.points > 0).then(|| self.sum / self.points as f64)
    }

    /// The least and the greatest of all that were added.
    pub(super) fn range(&self) -> Option<(f64, f64)> {
        let pairs = self.spans.iter().filter_map(|(_, _, span)| span.0);
        pairs
            .map(|[least, greatest]| (least.1, greatest.1))
            .reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
    }

    /// What is drawn: ns and value, in order.
    pub(super) fn drawn(&self) -> Vec<(u64, f64)> {
        let mut points = Vec::new();
        for (_, _, span) in self.spans.iter() {
            let Some([least, greatest]) = span.0 else {
                continue;
            };
            let (first, second) = if least.0 <= greatest.0 {
                (least, greatest)
            } else {
                (greatest, least)
            };
            points.push(first);
            if second != first {
                points.push(second);
            }
        }
        points
    }

    /// How long the spans are of which two points are drawn, ns; `None` if every point is.
    pub(super) fn thinned(&self) -> Option<u64> {
        (self.drawn().len() as u64)
            .lt(&self.points)
            .then(|| self.spans.length())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(points: impl Iterator<Item = (u64, f64)>) -> Line {
        let mut line = Line::new(100);
        points.for_each(|(at, value)| line.add(at, value));
        line
    }

    #[test]
    fn few_points_stay_as_they_are() {
        let points: Vec<_> = (0..100).map(|n| (n * 1_000_003, (n % 7) as f64)).collect();
        let line = line(points.iter().copied());
        assert_eq!(line.drawn(), points);
        assert_eq!(line.thinned(), None);
    }

    #[test]
    fn of_many_points_no_peak_is_lost_and_memory_is_bounded() {
        let value = |n: u64| if n == 77_777 { -5.0 } else { (n % 1000) as f64 };
        let line = line((0..200_000).map(|n| (n * 1_000, value(n))));
        let drawn = line.drawn();
        assert!((100..=200).contains(&drawn.len()), "{}", drawn.len());
        assert!(drawn.contains(&(77_777_000, -5.0)));
        assert!(drawn.is_sorted_by_key(|(at, _)| *at));
        assert_eq!(line.range(), Some((-5.0, 999.0)));
        assert_eq!(line.points(), 200_000);
        assert!(line.thinned().is_some());
    }

    #[test]
    fn the_order_of_points_does_not_matter() {
        let points: Vec<_> = (0..5_000u64)
            .map(|n| (n * 977, (n * 31 % 101) as f64))
            .collect();
        let forth = line(points.iter().copied());
        let back = line(points.iter().rev().copied());
        assert_eq!(forth.drawn(), back.drawn());
        assert_eq!(forth.thinned(), back.thinned());
    }

    #[test]
    fn absurd_times_and_values_are_borne() {
        let line = line(
            [
                (0, 1e300),
                (u64::MAX, f64::NAN),
                (u64::MAX, -1e300),
                (5, f64::INFINITY),
            ]
            .into_iter(),
        );
        assert_eq!(line.drawn(), [(0, 1e300), (u64::MAX, -1e300)]);
        let mut spans: Spans<u64> = Spans::new(1);
        for at in [0, u64::MAX, 1 << 40] {
            *spans.at(at) += 1;
        }
        assert_eq!(spans.iter().map(|(_, _, count)| *count).sum::<u64>(), 3);
    }
}
