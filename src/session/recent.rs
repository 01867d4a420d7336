//! The last plain bytes of the blocks with history, for each group by itself: what a context begins with, and what
//! the next connection's histories may begin with.

use bytes::Bytes;

use crate::wire::MAX_PRIME;

/// Memory that one group's last bytes may take at either end (docs/wire.md, "Contexts").
pub(super) const RECENT_MEMORY: usize = 2 * MAX_PRIME;

/// Where a connection may have been cut, as far as the other end has seen: every so many plain bytes (docs/wire.md, "What a
/// connection leaves"). Arbitrary: both ends find one in common where no more than 8 KiB were on their way, often where
/// 40 KiB were.
const POINT_EVERY: u64 = 8 << 10;
/// Bytes before such a point that count: fewer than at the end, since they must still be there after it.
const POINT_LEN: usize = MAX_PRIME / 2;

/// The last plain bytes of the blocks of one group in slots with history.
#[derive(Debug, Default)]
struct Recent {
    bytes: Vec<u8>,
    /// How many of them, from the end, follow each other without a gap.
    unbroken: usize,
    /// Bytes of all blocks.
    carried: u64,
    /// What the first slot began with.
    base: Option<Bytes>,
}

impl Recent {
    fn push(&mut self, plain: &[u8], begun_with: Option<&Bytes>) {
        if self.carried == 0 {
            self.base = begun_with.cloned();
        }
        self.carried += plain.len() as u64;
        let before = if plain.len() > MAX_PRIME {
            0
        } else {
            self.unbroken
        };
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
        self.unbroken = (before + plain.len()).min(self.bytes.len());
    }

    /// What the next connection may begin with: the last bytes, with what the first slot began with before them.
    /// Unless the other end is known to have seen all (`is_all_seen`), also those that there were at each point
    /// before, as far as they are still here; the latest in front.
    fn left(&self, is_all_seen: bool) -> Vec<Bytes> {
        let kept = &self.bytes[self.bytes.len() - self.unbroken..];
        let is_whole = self.unbroken as u64 == self.carried;
        let base = self.base.as_deref().filter(|_| is_whole);
        let base = base.unwrap_or_default();
        let base = &base[base.len().saturating_sub(MAX_PRIME)..];
        let all = Bytes::from([base, kept].concat());
        let last_point = self.carried.saturating_sub(1) / POINT_EVERY * POINT_EVERY;
        let points = (0..).map_while(|back| last_point.checked_sub(back * POINT_EVERY));
        let points = points.take_while(|point| *point > 0 && !is_all_seen);
        core::iter::once(self.carried)
            .chain(points)
            .map_while(|point| {
                let after = usize::try_from(self.carried - point).ok()?;
                let end = all.len().checked_sub(after)?;
                let most = if after == 0 { MAX_PRIME } else { POINT_LEN };
                let start = end.saturating_sub(most);
                (is_whole || end - start == most).then(|| all.slice(start..end))
            })
            .collect()
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
    /// A block of a group, in a slot that has begun with `begun_with`.
    pub(super) fn push(&mut self, group: K, plain: &[u8], begun_with: Option<&Bytes>) {
        let known = self.groups.iter().position(|(known, _)| *known == group);
        let at = known.unwrap_or_else(|| {
            self.groups.push((group, Recent::default()));
            self.groups.len() - 1
        });
        self.groups[at].1.push(plain, begun_with);
    }

    /// What a group leaves to the next connection, the latest in front.
    pub(super) fn left(&self, group: K, is_all_seen: bool) -> Vec<Bytes> {
        let known = self.groups.iter().find(|(known, _)| *known == group);
        known.map_or_else(Vec::new, |(_, recent)| recent.left(is_all_seen))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left at a point by the definition of docs/wire.md.
    fn by_definition(base: &[u8], carried: &[u8], point: usize, most: usize) -> Vec<u8> {
        let all = [base, &carried[..point]].concat();
        all[all.len().saturating_sub(most)..].to_vec()
    }

    #[test]
    fn both_ends_of_a_cut_connection_find_the_same() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut beyond_buffer = 0;
        for _ in 0..300 {
            let base: Vec<u8> = (0..rng.usize(..60_000)).map(|_| rng.u8(..)).collect();
            let base = Bytes::from(base);
            let begun_with = rng.bool().then_some(&base);
            let longest = [300, 5_000, 70_000][rng.usize(..3)];
            let (mut sender, mut receiver) = (Recent::default(), Recent::default());
            let mut carried = Vec::new();
            let mut seen = 0;
            let behind = rng.usize(..8192);
            let mut blocks = Vec::new();
            for _ in 0..rng.usize(1..200) {
                let block: Vec<u8> = (0..rng.usize(1..longest)).map(|_| rng.u8(..)).collect();
                sender.push(&block, begun_with);
                carried.extend_from_slice(&block);
                blocks.push(block);
            }
            for block in &blocks {
                if seen + block.len() + behind > carried.len() && behind > 0 {
                    break;
                }
                receiver.push(block, begun_with);
                seen += block.len();
            }
            let base = begun_with.map_or(&[][..], |base| base.as_ref());
            let ends = [(&sender, carried.len()), (&receiver, seen)];
            for (end, len) in ends.into_iter().filter(|(_, len)| *len > 0) {
                let left = end.left(false);
                assert_eq!(left[0], by_definition(base, &carried, len, MAX_PRIME));
                let mut point = len;
                for found in &left[1..] {
                    point = (point - 1) / POINT_EVERY as usize * POINT_EVERY as usize;
                    assert_eq!(*found, by_definition(base, &carried, point, POINT_LEN));
                }
                assert_eq!(end.left(true), left[..1]);
            }
            // What is on its way fits what the sender has at least, and there was a point before.
            if longest < 10_000 && seen >= POINT_EVERY as usize && carried.len() - seen <= 8192 {
                let theirs = receiver.left(false);
                let common = sender.left(false).iter().any(|it| theirs.contains(it));
                assert!(common, "{seen} of {}", carried.len());
                beyond_buffer += usize::from(carried.len() > RECENT_MEMORY);
            }
        }
        assert!(beyond_buffer > 20, "{beyond_buffer}");
    }
}
