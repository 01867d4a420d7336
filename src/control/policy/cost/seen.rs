//! What histories have not seen: the price of going from one to another.

/// Plain bytes beyond which a history that lacks others of late loses no more by it, and the share of a block that
/// one which lacks them all loses, added up until it has caught up: 5 to 10 % over 16 to 64 KiB between turns
/// (docs/benchmarks.md, two arms in turns).
const MOST_LACKED: f64 = 262_144.0;
const LACKED_SHARE: f64 = 0.1;

/// Plain bytes that went by, and how many of them had gone by when each arm with a history was last used.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    plain: f64,
    /// By arm: of those that were used, which are few.
    used: Vec<(usize, f64)>,
}

impl Seen {
    /// A block leaves, with the history of an arm if it has one.
    pub(super) fn on_block(&mut self, arm: Option<usize>, plain_len: usize) {
        self.plain += plain_len as f64;
        let Some(arm) = arm else { return };
        match self.used.iter_mut().find(|(known, _)| *known == arm) {
            Some((_, at)) => *at = self.plain,
            None => self.used.push((arm, self.plain)),
        }
    }

    /// What the history of an arm loses by what went by without it, the last `primed` bytes excepted, in shares of the cost of a block of
    /// `plain_len`.
    pub(super) fn lost(&self, arm: usize, primed: usize, plain_len: usize) -> f64 {
        let used = self.used.iter().find(|(known, _)| *known == arm);
        let used = used.map_or(0.0, |(_, at)| *at);
        let lacked = (self.plain - used - primed as f64).clamp(0.0, MOST_LACKED);
        LACKED_SHARE * lacked / plain_len.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_went_by_since_an_arm_was_used_is_lacked() {
        let mut seen = Seen::default();
        seen.on_block(Some(3), 60_000);
        seen.on_block(None, 40_000);
        assert!((seen.lost(3, 0, 1000) - 4.0).abs() < 1e-9);
        assert!((seen.lost(1, 0, 1000) - 10.0).abs() < 1e-9);
        assert!((seen.lost(1, 90_000, 1000) - 1.0).abs() < 1e-9);
        seen.on_block(Some(3), 1000);
        seen.on_block(Some(1), 4000);
        assert!((seen.lost(3, 0, 1000) - 0.4).abs() < 1e-9);
        assert!(seen.lost(1, 0, 1000).abs() < 1e-9);
        seen.on_block(Some(1), usize::MAX);
        assert!(seen.lost(3, 0, 0).is_finite());
    }
}
