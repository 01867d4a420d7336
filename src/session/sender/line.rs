//! Streams that wait for their turns.

use core::cmp::Reverse;
use std::collections::VecDeque;

use crate::session::stream::Priority;
use crate::wire::StreamId;

/// A stream in line, and its priority.
pub(super) type Place = (StreamId, Priority);

/// Streams that have something to send, in the order of their turns: those of a higher priority first, those of the same
/// by turns.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Before all others, once.
    first: Option<Place>,
    /// The highest in front. They stay when they are empty: there are few.
    classes: Vec<(Priority, VecDeque<StreamId>)>,
    len: usize,
}

impl Line {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The stream whose turn it is, and whether nobody waits to have turns with it.
    pub(super) fn front(&self) -> Option<(StreamId, bool)> {
        if let Some((id, _)) = self.first {
            return Some((id, true));
        }
        let (_, class) = self.classes.iter().find(|(_, class)| !class.is_empty())?;
        Some((*class.front()?, class.len() == 1))
    }

    pub(super) fn pop_front(&mut self) -> Option<Place> {
        if self.is_empty() {
            return None;
        }
        self.len -= 1;
        self.first.take().or_else(|| {
            let mut classes = self.classes.iter_mut();
            classes.find_map(|(priority, class)| Some((class.pop_front()?, *priority)))
        })
    }

    /// Behind those of its priority.
    pub(super) fn push_back(&mut self, (id, priority): Place) {
        self.class(priority).push_back(id);
        self.len += 1;
    }

    /// In front of those of its priority.
    pub(super) fn push_front(&mut self, (id, priority): Place) {
        self.class(priority).push_front(id);
        self.len += 1;
    }

    /// The one in front gives its turn to the others of its priority.
    pub(super) fn pass_on(&mut self) {
        if let Some(place) = self.pop_front() {
            self.push_back(place);
        }
    }

    /// A stream that waits has another priority.
    pub(super) fn reorder(&mut self, id: StreamId, from: Priority, to: Priority) {
        if self.remove_behind(id, from) {
            self.push_back((id, to));
        }
    }

    /// A stream does not wait any more.
    pub(super) fn remove(&mut self, id: StreamId, priority: Priority) {
        if self.first.take_if(|(first, _)| *first == id).is_some() {
            self.len -= 1;
        } else {
            self.remove_behind(id, priority);
        }
    }

    /// Takes a stream that is not first out of those of its priority; whether it was there.
    fn remove_behind(&mut self, id: StreamId, priority: Priority) -> bool {
        let class = self.class(priority);
        let Some(at) = class.iter().position(|waiting| *waiting == id) else {
            return false;
        };
        class.remove(at);
        self.len -= 1;
        true
    }

    /// Lets the next stream behind the front go first that `may`, of at most `most`; false without one.
    pub(super) fn put_first(&mut self, most: usize, mut may: impl FnMut(StreamId) -> bool) -> bool {
        let places = self.classes.iter().enumerate();
        let mut behind = places
            .flat_map(|(class, (_, ids))| {
                ids.iter().enumerate().map(move |(at, id)| (class, at, *id))
            })
            .skip(usize::from(self.first.is_none()))
            .take(most);
        let Some((class, at, id)) = behind.find(|(.., id)| may(*id)) else {
            return false;
        };
        let (priority, ids) = &mut self.classes[class];
        ids.remove(at);
        if let Some((before, priority)) = self.first.replace((id, *priority)) {
            self.class(priority).push_front(before);
        }
        true
    }

    fn class(&mut self, priority: Priority) -> &mut VecDeque<StreamId> {
        let found = self
            .classes
            .binary_search_by_key(&Reverse(priority), |(of, _)| Reverse(*of));
        let at = found.unwrap_or_else(|at| {
            self.classes.insert(at, (priority, VecDeque::new()));
            at
        });
        &mut self.classes[at].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> StreamId {
        StreamId::new(number).expect("in range")
    }

    fn line(places: &[(u32, Priority)]) -> Line {
        let mut line = Line::default();
        for (number, priority) in places {
            line.push_back((id(*number), *priority));
        }
        line
    }

    fn order(mut line: Line) -> Vec<(u32, Priority)> {
        let len = line.len();
        let order: Vec<_> = core::iter::from_fn(|| line.pop_front())
            .map(|(id, priority)| (id.get(), priority))
            .collect();
        assert!(line.is_empty() && order.len() == len);
        order
    }

    #[test]
    fn higher_priorities_go_first_and_equal_ones_by_turns() {
        let mut line = line(&[(0, 0), (1, -5), (2, 7), (3, 0), (4, 7)]);
        assert_eq!(line.front(), Some((id(2), false)));
        line.pass_on();
        assert_eq!(line.front(), Some((id(4), false)));
        line.push_front((id(5), 0));
        assert_eq!(
            order(line),
            [(4, 7), (2, 7), (5, 0), (0, 0), (3, 0), (1, -5)]
        );
    }

    #[test]
    fn a_stream_takes_its_place_with_its_priority() {
        let mut line = line(&[(0, 0), (1, 0), (2, 1)]);
        line.reorder(id(1), 0, 9);
        line.reorder(id(7), 0, 9);
        assert_eq!(line.front(), Some((id(1), true)));
        line.reorder(id(2), 1, 0);
        assert_eq!(order(line), [(1, 9), (0, 0), (2, 0)]);
    }

    #[test]
    fn who_does_not_wait_any_more_leaves_the_line_wherever_it_stands() {
        let mut line = line(&[(0, 0), (1, 0), (2, 1), (3, 0)]);
        assert!(line.put_first(64, |it| it == id(3)));
        line.remove(id(3), 0);
        line.remove(id(0), 0);
        line.remove(id(9), 0);
        assert_eq!(order(line), [(2, 1), (1, 0)]);
    }

    #[test]
    fn the_first_goes_once_and_whatever_its_priority() {
        let mut line = line(&[(0, 1), (1, 1), (2, 0), (3, -1)]);
        assert!(!line.put_first(64, |it| it == id(0)), "it is the front");
        assert!(!line.put_first(2, |it| it == id(3)), "too far behind");
        assert!(line.put_first(3, |it| it == id(3)));
        assert_eq!(line.front(), Some((id(3), true)));
        assert!(line.put_first(64, |it| it == id(2)), "another instead");
        line.pass_on();
        assert_eq!(order(line), [(0, 1), (1, 1), (2, 0), (3, -1)]);
    }
}
