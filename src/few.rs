//! Lists that stay short.

use std::collections::VecDeque;

/// Adds to a list that stays short: it grows by a few and not to twice as much, since each connection keeps it for as long as it lasts.
#[cold]
#[inline(never)]
pub(crate) fn push_few<T>(list: &mut Vec<T>, element: T) {
    if list.len() == list.capacity() {
        list.reserve_exact(2);
    }
    list.push(element);
}

/// .. to a queue, which grows by `few`, or by a quarter where that is more.
pub(crate) fn push_back_few<T>(queue: &mut VecDeque<T>, element: T, few: usize) {
    if queue.len() == queue.capacity() {
        queue.reserve_exact(few.max(queue.len() / 4));
    }
    queue.push_back(element);
}
