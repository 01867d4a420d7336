//! Lists that stay short.

/// Adds to a list that stays short: it grows by a few and not to twice as much, since each connection keeps it for as long as it lasts.
#[cold]
#[inline(never)]
pub(crate) fn push_few<T>(list: &mut Vec<T>, element: T) {
    if list.len() == list.capacity() {
        list.reserve_exact(2);
    }
    list.push(element);
}
