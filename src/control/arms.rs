//! The arms of a session, with what they typically cost.

use core::ops::Index;

use crate::codecs::{Arm, TypicalRow, typical};

/// An arm that the cost policy chooses from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) arm: Arm,
    /// What is typical of it, if that is known ..
    pub(crate) row: Option<&'static TypicalRow>,
    /// .. and of the same arm by itself, without history or dictionary.
    pub(crate) alone: Option<&'static TypicalRow>,
}

/// The arms of a session: identity first, then those that both ends have and the thesis's policies
/// rotate through, then the others that the cost policy chooses from, then those that only a fixed
/// policy asks for.
#[derive(Clone, Debug)]
pub(crate) struct Arms {
    all: Vec<Arm>,
    electable: usize,
    candidates: Vec<Candidate>,
}

impl Arms {
    /// Identity, `rotation` and `wanted`, without those that `allowed` refuses and without repetition.
    pub(crate) fn new(rotation: &[Arm], wanted: &[Arm], allowed: impl Fn(Arm) -> bool) -> Self {
        let mut all = vec![Arm::IDENTITY];
        let mut add = |more: &[Arm]| {
            for arm in more {
                if !all.contains(arm) && allowed(*arm) {
                    all.push(*arm);
                }
            }
            all.len()
        };
        let electable = add(rotation);
        add(wanted);
        let candidates = all.iter().map(|arm| Candidate {
            arm: *arm,
            row: typical(*arm),
            alone: typical(arm.alone()),
        });
        Self {
            candidates: candidates.collect(),
            electable,
            all,
        }
    }

    /// Adds an arm for fixed policies only.
    pub(crate) fn add_fixed(&mut self, arm: Arm) {
        if !self.all.contains(&arm) {
            self.all.push(arm);
        }
    }

    /// All arms, identity first.
    pub(crate) fn as_slice(&self) -> &[Arm] {
        &self.all
    }

    /// How many of them, from the first, the thesis's policies take in turn or choose from.
    pub(crate) const fn electable(&self) -> usize {
        self.electable
    }

    /// Those of them that the cost policy chooses from, by number from the first.
    pub(crate) fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// The number of `arm`, if it is among them.
    pub(crate) fn position(&self, arm: Arm) -> Option<usize> {
        self.all.iter().position(|known| *known == arm)
    }
}

impl Index<usize> for Arms {
    type Output = Arm;

    fn index(&self, number: usize) -> &Arm {
        &self.all[number]
    }
}
