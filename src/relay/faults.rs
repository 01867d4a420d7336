//! What is asked to go wrong with connections and on the link.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::{Bytes, BytesMut};

/// What becomes of a piece that arrives. Places are modulo its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// One bit changes.
    Bit(u64),
    /// Bytes from a place on change in the bits of these.
    Bytes { at: u64, with: [u8; 8] },
    /// It ends at a place, and nothing comes after it.
    End { at: u64 },
}

impl Damage {
    /// The piece, damaged, and whether anything may come after it.
    pub(super) fn apply(self, piece: &Bytes) -> (Bytes, bool) {
        let mut damaged = BytesMut::from(&piece[..]);
        let len = (damaged.len() as u64).max(1);
        match self {
            Self::Bit(bit) => {
                let at = (bit / 8 % len) as usize;
                if let Some(byte) = damaged.get_mut(at) {
                    *byte ^= 1 << (bit % 8);
                }
            }
            Self::Bytes { at, with } => {
                let at = (at % len) as usize;
                for (byte, with) in damaged.iter_mut().skip(at).zip(with) {
                    *byte ^= with;
                }
            }
            Self::End { at } => damaged.truncate((at % len) as usize),
        }
        (damaged.freeze(), !matches!(self, Self::End { .. }))
    }
}

/// How a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// For both sides.
    Both,
    /// For the target alone: the client keeps its socket, on which nothing comes.
    Target,
    /// For the client alone.
    Client,
}

/// How often all connections were ended, by [`End`].
#[derive(Debug, Default)]
pub(super) struct Ends([AtomicU64; 3]);

impl Ends {
    /// Ends the connections that there are; they must be told to look.
    pub(super) fn add(&self, end: End) {
        self.0[end as usize].fetch_add(1, Ordering::SeqCst);
    }

    /// How often that was, so far.
    pub(super) fn done(&self) -> [u64; 3] {
        [0, 1, 2].map(|end: usize| self.0[end].load(Ordering::SeqCst))
    }

    /// What ends a connection that began when `before` had been done.
    pub(super) fn since(&self, before: [u64; 3]) -> Option<End> {
        let done = self.done();
        let ends = [End::Both, End::Target, End::Client];
        ends.into_iter()
            .find(|end| done[*end as usize] != before[*end as usize])
    }
}

/// Faults of one direction, for all connections.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// How often all connections were silenced.
    silences: AtomicU64,
    /// What becomes of what is carried next, and whether there is anything.
    damage: Mutex<Option<Damage>>,
    is_damaged: AtomicBool,
    /// How many of the next writes are short, and of how many bytes those are.
    shorts: AtomicU64,
    short_len: AtomicUsize,
}

impl Faults {
    /// Drops everything on the connections that there are; they must be told to look.
    pub(super) fn silence(&self) {
        self.silences.fetch_add(1, Ordering::SeqCst);
    }

    /// How often connections were silenced so far.
    pub(super) fn silences(&self) -> u64 {
        self.silences.load(Ordering::SeqCst)
    }

    /// Damages what is carried next.
    pub(super) fn damage(&self, damage: Damage) {
        *self.damage.lock().unwrap_or_else(PoisonError::into_inner) = Some(damage);
        self.is_damaged.store(true, Ordering::Relaxed);
    }

    /// What becomes of the next piece, once.
    pub(super) fn take_damage(&self) -> Option<Damage> {
        if !self.is_damaged.load(Ordering::Relaxed) {
            return None;
        }
        self.is_damaged.store(false, Ordering::Relaxed);
        let mut damage = self.damage.lock().unwrap_or_else(PoisonError::into_inner);
        damage.take()
    }

    /// Has so many writes take no more than `len` bytes each.
    pub(super) fn shorten(&self, len: usize, writes: u64) {
        self.short_len.store(len.max(1), Ordering::SeqCst);
        self.shorts.store(writes, Ordering::SeqCst);
    }

    /// How many bytes the next write may take.
    pub(super) fn most_written(&self) -> usize {
        if self.shorts.load(Ordering::Relaxed) == 0 {
            return usize::MAX;
        }
        let less = |left: u64| left.checked_sub(1);
        let order = Ordering::SeqCst;
        match self.shorts.fetch_update(order, order, less) {
            Ok(_) => self.short_len.load(order),
            Err(_) => usize::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_writes_are_short_as_was_asked_for() {
        let faults = Faults::default();
        assert_eq!(faults.most_written(), usize::MAX);
        faults.shorten(3, 2);
        let writes = [(); 3].map(|()| faults.most_written());
        assert_eq!(writes, [3, 3, usize::MAX]);
        faults.shorten(0, 1);
        assert_eq!(faults.most_written(), 1);
    }

    #[test]
    fn damage_is_done_once_and_where_it_was_asked_for() {
        let faults = Faults::default();
        assert_eq!(faults.take_damage(), None);
        faults.damage(Damage::Bit(11));
        assert_eq!(faults.take_damage(), Some(Damage::Bit(11)));
        assert_eq!(faults.take_damage(), None);

        let piece = Bytes::from_static(&[0; 4]);
        let done = |damage: Damage| {
            let (piece, goes_on) = damage.apply(&piece);
            (piece.to_vec(), goes_on)
        };
        assert_eq!(done(Damage::Bit(11)), (vec![0, 8, 0, 0], true));
        assert_eq!(done(Damage::Bit(32 + 11)), (vec![0, 8, 0, 0], true));
        let with = [1, 2, 3, 4, 5, 6, 7, 8];
        let damage = Damage::Bytes { at: 4 + 2, with };
        assert_eq!(done(damage), (vec![0, 0, 1, 2], true));
        assert_eq!(done(Damage::End { at: 7 }), (vec![0; 3], false));
        let (nothing, goes_on) = Damage::Bit(9).apply(&Bytes::new());
        assert!(nothing.is_empty() && goes_on);
    }
}
