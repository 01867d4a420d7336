//! The last plain bytes of the blocks with history, for each group by itself: what a context begins with.

use crate::wire::MAX_PRIME;

/// Memory that one group's last bytes may take at either end (docs/wire.md, "Contexts").
pub(super) const RECENT_MEMORY: usize = 2 * MAX_PRIME;

/// The last plain bytes of the blocks of one group in slots with history.
#[derive(Debug, Default)]
struct Recent {
    bytes: Vec<u8>,
}

impl Recent {
    fn push(&mut self, plain: &[u8]) {
        let plain = &plain[plain.len().saturating_sub(MAX_PRIME)..];
        if self.bytes.len() + plain.len() > RECENT_MEMORY {
            let keep = MAX_PRIME - plain.len();
            self.bytes.drain(..self.bytes.len() - keep);
        }
        let needed = self.bytes.len() + plain.len();
        if needed > self.bytes.capacity() {
            let room = needed.max(2 * self.bytes.capacity()).min(RECENT_MEMORY);
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        self.bytes.extend_from_slice(plain);
    }

    fn last(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(MAX_PRIME)..]
    }
}

/// The last bytes of all groups, by what stands for a group.
#[derive(Debug)]
pub(super) struct Recents<K> {
    groups: Vec<(K, Recent)>,
}

impl<K> Default for Recents<K> {
    fn default() -> Self {
        Self { groups: Vec::new() }
    }
}

impl<K: Copy + PartialEq> Recents<K> {
    pub(super) fn push(&mut self, group: K, plain: &[u8]) {
        let known = self.groups.iter().position(|(known, _)| *known == group);
        let at = known.unwrap_or_else(|| {
            self.groups.push((group, Recent::default()));
            self.groups.len() - 1
        });
        self.groups[at].1.push(plain);
    }

    pub(super) fn last(&self, group: K) -> &[u8] {
        let known = self.groups.iter().find(|(known, _)| *known == group);
        known.map_or(&[], |(_, recent)| recent.last())
    }

    /// Forgets those for which `keeps` is false.
    pub(super) fn retain(&mut self, keeps: impl Fn(K) -> bool) {
        self.groups.retain(|(group, _)| keeps(*group));
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        let held = self.groups.iter().map(|(_, recent)| &recent.bytes);
        held.map(Vec::capacity).sum()
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = &[u8]> {
        self.groups
            .iter()
            .map(|(_, recent)| recent.bytes.as_slice())
    }
}
