//! Who is charged for what was used between an entry and an exit.

use super::format::{Domain, EventId};
use super::recorder::Recorder;
use super::writer::Writer;

/// The most domains within one another; the outermost is forgotten beyond. Arbitrary.
const DEEPEST: usize = 64;

/// What happens at an instrumentation point of something that one domain at a time uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A domain begins to use it; whoever does so already goes on when that one exits.
    Enter(Domain),
    /// A domain has used it.
    Exit(Domain),
    /// A domain uses it instead of all that are inside, as at a switch between threads.
    Switch(Domain),
}

/// What a domain has used in a phase that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Who leaves.
    pub domain: Domain,
    /// How far the counter has gone since it came.
    pub amount: u64,
    /// Who comes.
    pub next: Domain,
}

/// The phases in which domains use something, one of them at a time: its entries and exits, brought together. Whoever leaves is charged how far a counter that goes on by
/// itself, such as the time, has come meanwhile (Stöß 2005, section 3.3.1, figure 3.2).
///
/// It is of the thread, or the lock, that sees all of them. [`Recorder::charge`] and [`Writer::charge`] make rows of [`EventKind::Exit`](super::EventKind::Exit) of it. These say *amounts* and not what the counter was, so that of rows that are
/// overwritten no more is missing than what they said themselves.
///
/// ```
/// use tautline::eventlog::{Charge, Domain, Phases, Step};
///
/// let [nobody, orders, audit] = [0, 1, 2].map(Domain::new);
/// let mut phases = Phases::new(nobody);
/// assert_eq!(phases.step(Step::Enter(orders), 1000), None);
/// // Audit works within orders, which does not pay for it.
/// let charge = |domain, amount, next| Some(Charge { domain, amount, next });
/// assert_eq!(phases.step(Step::Enter(audit), 1030), charge(orders, 30, audit));
/// assert_eq!(phases.step(Step::Exit(audit), 1035), charge(audit, 5, orders));
/// assert_eq!(phases.step(Step::Exit(orders), 1060), charge(orders, 25, nobody));
/// ```
#[derive(Clone, Debug)]
pub struct Phases {
    nobody: Domain,
    /// Those inside, the innermost last.
    inside: Vec<Domain>,
    /// What the counter was when the innermost came, or went on.
    since: u64,
    /// Bits that the counter has.
    mask: u64,
    unmatched: u64,
}

impl Phases {
    /// Nobody is inside; `nobody` is the domain that stands for that, as who comes when the last one leaves.
    pub const fn new(nobody: Domain) -> Self {
        Self {
            nobody,
            inside: Vec::new(),
            since: 0,
            mask: u64::MAX,
            unmatched: 0,
        }
    }

    /// How many bits the counter has, 1 to 64, after which it begins anew: a phase must be shorter than that takes. Default: 64. Counters of hardware mostly have 48.
    #[must_use]
    pub const fn bits(mut self, bits: u32) -> Self {
        self.mask = match bits {
            0 => 1,
            1..64 => (1 << bits) - 1,
            _ => u64::MAX,
        };
        self
    }

    /// What is to be charged at a step, at which the counter is `counter`: nothing if the same domain stays inside, or nobody was.
    ///
    /// Steps may be missing. An exit of who is not inside charges nobody, as its entry is not known: whoever is inside goes on. One of who is inside, but not the innermost, ends the phases
    /// of those within too.
    pub fn step(&mut self, step: Step, counter: u64) -> Option<Charge> {
        let before = self.inside.last().copied();
        match step {
            Step::Enter(domain) => self.enter(domain),
            Step::Exit(domain) => {
                let Some(place) = self.inside.iter().rposition(|known| *known == domain) else {
                    self.unmatched = self.unmatched.saturating_add(1);
                    return None;
                };
                let within = self.inside.len() - 1 - place;
                self.unmatched = self.unmatched.saturating_add(within as u64);
                self.inside.truncate(place);
            }
            Step::Switch(domain) => {
                self.inside.clear();
                self.enter(domain);
            }
        }
        let next = self.inside.last().copied();
        if next == before {
            return None;
        }
        let since = core::mem::replace(&mut self.since, counter);
        Some(Charge {
            domain: before?,
            amount: counter.wrapping_sub(since) & self.mask,
            next: next.unwrap_or(self.nobody),
        })
    }

    fn enter(&mut self, domain: Domain) {
        if self.inside.len() == DEEPEST {
            self.inside.remove(0);
            self.unmatched = self.unmatched.saturating_add(1);
        }
        self.inside.push(domain);
    }

    /// Who is inside, the innermost.
    pub fn inside(&self) -> Option<Domain> {
        self.inside.last().copied()
    }

    /// Entries without an exit, and exits without an entry, so far: those of phases in which the event was switched on or off are among them.
    pub const fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// Nobody is inside any more, and nobody is charged: what came of those who were is not known.
    pub fn forget(&mut self) {
        let inside = self.inside.len() as u64;
        self.unmatched = self.unmatched.saturating_add(inside);
        self.inside.clear();
    }

    /// The counter is not even asked while nobody wants to know.
    #[inline]
    fn step_if(
        &mut self,
        is_on: bool,
        step: Step,
        counter: impl FnOnce() -> u64,
    ) -> Option<Charge> {
        if is_on {
            return self.step(step, counter());
        }
        if !self.inside.is_empty() {
            self.forget();
        }
        None
    }
}

impl Writer {
    /// Records what is to be charged at a step: an event of who leaves, whose correspondent is who comes. `counter` says what the counter is; it is not called while the event is off.
    #[inline]
    pub fn charge(
        &mut self,
        event: EventId,
        phases: &mut Phases,
        step: Step,
        counter: impl FnOnce() -> u64,
    ) {
        if let Some(charge) = phases.step_if(self.is_on(event), step, counter) {
            self.record(event, charge.domain, charge.amount, charge.next);
        }
    }
}

impl Recorder {
    /// As [`Writer::charge`].
    #[inline]
    pub fn charge(
        &self,
        event: EventId,
        phases: &mut Phases,
        step: Step,
        counter: impl FnOnce() -> u64,
    ) {
        if let Some(charge) = phases.step_if(self.is_on(event), step, counter) {
            self.record(event, charge.domain, charge.amount, charge.next);
        }
    }
}

#[cfg(all(test, not(tautline_loom)))]
mod tests {
    use super::*;
    use Step::{Enter, Exit, Switch};

    const NOBODY: Domain = Domain::new(0);
    const A: Domain = Domain::new(1);
    const B: Domain = Domain::new(2);
    const C: Domain = Domain::new(3);

    fn phases() -> Phases {
        Phases::new(NOBODY)
    }

    /// Who is charged what, and who comes then.
    fn charges(phases: &mut Phases, steps: &[(Step, u64)]) -> Vec<(Domain, u64, Domain)> {
        let charge = |(step, counter): &(Step, u64)| phases.step(*step, *counter);
        let charges = steps.iter().filter_map(charge);
        charges
            .map(|charge| (charge.domain, charge.amount, charge.next))
            .collect()
    }

    #[test]
    fn who_leaves_is_charged_what_was_used_since_it_came() {
        let steps = [
            (Enter(A), 100),
            (Exit(A), 130),
            (Enter(B), 200),
            (Exit(B), 207),
        ];
        let mut phases = phases();
        let charged = charges(&mut phases, &steps);
        assert_eq!(charged, [(A, 30, NOBODY), (B, 7, NOBODY)]);
        assert_eq!((phases.inside(), phases.unmatched()), (None, 0));
    }

    #[test]
    fn at_a_switch_the_delta_is_of_the_one_before() {
        let steps = [
            (Switch(A), 100),
            (Switch(B), 110),
            (Switch(B), 115),
            (Switch(A), 125),
        ];
        let mut phases = phases();
        // From one to itself is no switch.
        assert_eq!(charges(&mut phases, &steps), [(A, 10, B), (B, 15, A)]);
        assert_eq!(phases.inside(), Some(A));
    }

    #[test]
    fn phases_within_a_phase_are_not_the_outer_ones() {
        let steps = [
            (Enter(A), 0),
            (Enter(B), 10),
            (Enter(B), 12),
            (Enter(C), 20),
            (Exit(C), 25),
            (Exit(B), 26),
            (Exit(B), 30),
            (Exit(A), 100),
        ];
        let mut phases = phases();
        let charged = charges(&mut phases, &steps);
        assert_eq!(
            charged,
            [
                (A, 10, B),
                (B, 10, C),
                (C, 5, B),
                (B, 5, A),
                (A, 70, NOBODY)
            ]
        );
        // Nothing is charged twice, and nothing to nobody.
        let sum: u64 = charged.iter().map(|(_, amount, _)| amount).sum();
        assert_eq!((sum, phases.unmatched()), (100, 0));
    }

    #[test]
    fn an_exit_without_an_entry_charges_nobody() {
        let mut phases = phases();
        assert_eq!(phases.step(Exit(A), 1_000_000), None);
        assert_eq!((phases.inside(), phases.unmatched()), (None, 1));
        // Nor does it spoil what comes then.
        let charged = charges(&mut phases, &[(Enter(A), 1_000_010), (Exit(A), 1_000_013)]);
        assert_eq!(charged, [(A, 3, NOBODY)]);
    }

    #[test]
    fn what_was_used_after_a_lost_entry_is_of_who_was_known_to_be_inside() {
        // B's entry at 10 is missing.
        let steps = [(Enter(A), 0), (Exit(B), 15), (Exit(A), 40)];
        let mut phases = phases();
        assert_eq!(charges(&mut phases, &steps), [(A, 40, NOBODY)]);
        assert_eq!(phases.unmatched(), 1);
    }

    #[test]
    fn a_lost_exit_ends_with_that_of_the_outer_phase() {
        // B's exit is missing, and C's.
        let steps = [(Enter(A), 0), (Enter(B), 10), (Enter(C), 11), (Exit(A), 40)];
        let mut phases = phases();
        let charged = charges(&mut phases, &steps);
        assert_eq!(charged, [(A, 10, B), (B, 1, C), (C, 29, NOBODY)]);
        assert_eq!((phases.inside(), phases.unmatched()), (None, 2));
    }

    #[test]
    fn a_counter_that_begins_anew_has_gone_on() {
        let wide = [(Enter(A), u64::MAX - 4), (Exit(A), 5)];
        assert_eq!(charges(&mut phases(), &wide), [(A, 10, NOBODY)]);
        let narrow = [(Enter(A), (1 << 48) - 3), (Exit(A), 4)];
        let mut of_hardware = phases().bits(48);
        assert_eq!(charges(&mut of_hardware, &narrow), [(A, 7, NOBODY)]);
        let mut of_a_bit = phases().bits(0);
        let steps = [(Enter(A), 1), (Exit(A), 0)];
        assert_eq!(charges(&mut of_a_bit, &steps), [(A, 1, NOBODY)]);
    }

    #[test]
    fn those_who_only_enter_take_no_more_memory_than_there_may_be() {
        let mut phases = phases();
        for number in 0..10_000_u16 {
            phases.step(Enter(Domain::new(number)), number.into());
        }
        assert_eq!(phases.inside.len(), DEEPEST);
        assert_eq!(phases.unmatched(), 10_000 - DEEPEST as u64);
        phases.forget();
        assert_eq!((phases.inside(), phases.unmatched()), (None, 10_000));
    }
}
