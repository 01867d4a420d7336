//! How the memory for histories is shared among a process's connections.
//!
//! Half of it is for the histories of what is sent: each connection is granted a part, asks for more when its
//! session goes short, and loses it when it is idle or when another would save more bytes with it. The other half is
//! for what is received: a part of what is left is announced to the peer once, in the hello, and is the
//! connection's until it ends.
//!
//! ```text
//! admitted --granted a part--> used --(idle | worth less than half of another's)--> called back
//!     ^                                                                                  |
//!     '-------------- asks again, not sooner than after a while, <--confirmed------------'
//! ```

use core::time::Duration;

use crate::units::Time;

/// A new connection receives with this part of what is free. Arbitrary: of the default budget the first is granted
/// 2 MiB, several contexts.
const RECEIVED_PART: usize = 64;
/// Less memory than this does not hold the context of a zstd arm with histories of the default length: 606 KiB, 59 for
/// what it begins with, and 64 for the last bytes of its group (docs/benchmarks.md). It is not worth a part.
const LEAST_RECEIVED: usize = 768 << 10;
/// A connection that neither used nor wanted a history for so long has none. Arbitrary.
const IDLE: Duration = Duration::from_secs(60);
/// What was granted is not called back for less than idleness before so much time has passed, nor what was called
/// back granted again: a context begins with 32 KiB to be read in, and learns for longer. Arbitrary.
const TENURE: Duration = Duration::from_secs(10);
/// Memory moves to where it saves so many times as much. Arbitrary.
const HYSTERESIS: f64 = 2.0;
/// Bytes saved of each plain byte, before anything has shown it: what history saves on messages of 200 bytes,
/// about (docs/decisions.md).
const TYPICAL_WORTH: f64 = 0.4;
/// While there is plenty, a connection may hold so much more than it does, so that none of its contexts must give way
/// before it is granted room for another: what the one of zstd 15 takes with histories of the default length.
const SLACK: usize = 2688 << 10;
/// This part of the memory to send with is plenty, if it is free. Arbitrary.
const PLENTY: usize = 2;

/// What the histories of what a session sends hold, and what they are worth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct HistoryUse {
    /// Bytes that they may hold ([`Session::set_history_memory`](crate::session::Session::set_history_memory)).
    pub limit: usize,
    /// Bytes that they hold by what contexts like them take when their history is full, or that they hold now if that
    /// is more.
    pub held: usize,
    /// Bytes that they hold now.
    pub memory: usize,
    /// Bytes that they would hold if they might.
    pub wanted: usize,
    /// Bytes a second saved of late, as against blocks that stand by themselves.
    pub saved_rate: f64,
    /// Plain bytes a second of late in blocks that have a history or should have one.
    pub plain_rate: f64,
    /// When one was last used or wanted.
    pub used_at: Time,
}

/// A connection among those that share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HolderId(u64);

/// What a new connection may hold, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryTerms {
    /// For what it sends, to begin with.
    pub sent: usize,
    /// For what it receives: to be announced.
    pub received: usize,
}

#[derive(Debug)]
struct Holder {
    id: HolderId,
    most: usize,
    /// What it may hold from when it hears of it, and what it was last known to go by.
    granted: usize,
    confirmed: usize,
    received: usize,
    uses: HistoryUse,
    /// When `uses` was so.
    at: Time,
    began: Time,
    /// When `granted` last changed.
    since: Time,
    called_back: bool,
}

impl Holder {
    /// What it counts for: all that it may hold.
    fn counted(&self) -> usize {
        self.granted.max(self.confirmed).max(self.uses.held)
    }

    fn grant(&mut self, now: Time, bytes: usize) {
        self.called_back = bytes < self.granted;
        self.granted = bytes;
        self.since = now;
    }

    fn faded(&self, now: Time, rate: f64) -> f64 {
        // As the session has it fade (`session::gain`), which says nothing while nothing happens.
        rate * (-now.saturating_since(self.at).as_secs_f64() / 10.0).exp()
    }

    /// Bytes a second that it saves for each byte that it may hold.
    fn saves(&self, now: Time) -> f64 {
        self.faded(now, self.uses.saved_rate) / self.counted().max(1) as f64
    }

    /// Bytes a second that it would save for each byte that it wants: if it holds none, by what others save of their
    /// plain bytes.
    fn hopes(&self, now: Time, typical: f64) -> f64 {
        let rate = if self.uses.held == 0 {
            (self.uses.plain_rate * typical).max(self.uses.saved_rate)
        } else {
            self.uses.saved_rate
        };
        self.faded(now, rate) / self.uses.wanted.min(self.most).max(1) as f64
    }

    fn is_tenured(&self, now: Time) -> bool {
        now.saturating_since(self.since) >= TENURE
    }

    fn is_idle(&self, now: Time) -> bool {
        now.saturating_since(self.uses.used_at.max(self.began)) >= IDLE
    }

    /// Whether it is short and may have more.
    fn is_hungry(&self, now: Time) -> bool {
        let wanted = self.uses.wanted.min(self.most);
        wanted > self.granted && (!self.called_back || self.is_tenured(now))
    }
}

/// What is held, all connections together, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryShareStats {
    /// What there is.
    pub budget: usize,
    /// Granted for what is sent, and held.
    pub sent_granted: usize,
    /// See `sent_granted`.
    pub sent_held: usize,
    /// Announced for what is received.
    pub received_announced: usize,
    /// Connections that have a part.
    pub connections: usize,
}

/// The memory for histories and who has how much of it.
#[derive(Debug)]
pub struct HistoryShares {
    budget: usize,
    holders: Vec<Holder>,
    next: u64,
}

impl HistoryShares {
    /// Memory to be shared, bytes: half for what is sent, half for what is received.
    pub const fn new(budget: usize) -> Self {
        Self {
            budget,
            holders: Vec::new(),
            next: 0,
        }
    }

    fn free_to_send(&self) -> usize {
        let counted = self.holders.iter().map(Holder::counted).sum();
        (self.budget / 2).saturating_sub(counted)
    }

    /// What connections may have besides what they need.
    fn slack(&self) -> usize {
        if self.free_to_send() > self.budget / 2 / PLENTY {
            SLACK
        } else {
            0
        }
    }

    fn free_to_receive(&self) -> usize {
        let received = self.holders.iter().map(|holder| holder.received).sum();
        (self.budget / 2).saturating_sub(received)
    }

    fn find(&mut self, id: HolderId) -> Option<&mut Holder> {
        // They are added in the order of their numbers.
        let at = self.holders.binary_search_by_key(&id, |holder| holder.id);
        at.ok().map(|at| &mut self.holders[at])
    }

    /// A connection begins that may hold so much at most, for what it sends and for what it receives.
    pub fn admit(&mut self, now: Time, most: (usize, usize)) -> (HolderId, HistoryTerms) {
        let sent = most.0.min(self.slack());
        let free = self.free_to_receive();
        let part = (free / RECEIVED_PART).max(LEAST_RECEIVED).min(most.1);
        let received = if part <= free { part } else { 0 };
        let id = HolderId(self.next);
        self.next += 1;
        self.holders.push(Holder {
            id,
            most: most.0,
            granted: sent,
            confirmed: sent,
            received,
            uses: HistoryUse::default(),
            at: now,
            began: now,
            since: now,
            called_back: false,
        });
        (id, HistoryTerms { sent, received })
    }

    /// The peer keeps no histories, or none were agreed on: what was kept for them is free.
    pub fn release_received(&mut self, id: HolderId) {
        if let Some(holder) = self.find(id) {
            holder.received = 0;
        }
    }

    /// What a connection's histories hold and are worth.
    pub fn report(&mut self, now: Time, id: HolderId, uses: HistoryUse) {
        if let Some(holder) = self.find(id) {
            holder.uses = uses;
            holder.confirmed = uses.limit;
            holder.at = now;
        }
    }

    /// What a connection may hold for what it sends: more than before if it has [said](Self::report) that it wants
    /// more, and that is free.
    pub fn ask(&mut self, now: Time, id: HolderId) -> usize {
        let (free, slack) = (self.free_to_send(), self.slack());
        let Some(holder) = self.find(id) else {
            return 0;
        };
        if holder.is_hungry(now) {
            let wanted = holder.uses.wanted.min(holder.most);
            let there_is = holder.granted.max(holder.confirmed) + free;
            if wanted <= there_is {
                let grant = wanted.saturating_add(slack);
                holder.grant(now, grant.min(there_is).min(holder.most));
            }
        }
        holder.granted
    }

    /// A connection has ended.
    pub fn leave(&mut self, id: HolderId) {
        self.holders.retain(|holder| holder.id != id);
    }

    /// Moves memory to where it saves most. The connections that may hold another amount from now on; each must be
    /// told.
    pub fn rebalance(&mut self, now: Time) -> Vec<(HolderId, usize)> {
        let before: Vec<usize> = self.holders.iter().map(|holder| holder.granted).collect();
        let slack = self.slack();
        for holder in &mut self.holders {
            let used = holder.uses.held.max(holder.uses.wanted).min(holder.most);
            if holder.is_idle(now) {
                if holder.granted > 0 {
                    holder.grant(now, 0);
                    // It was not in anybody's way, and may come back at once.
                    holder.called_back = false;
                }
            } else if holder.granted > used + slack && holder.is_tenured(now) {
                holder.grant(now, used + slack);
                holder.called_back = false;
            }
        }
        self.move_to_the_best(now);
        let holders = self.holders.iter().zip(before);
        let changed = holders.filter(|(holder, before)| holder.granted != *before);
        changed
            .map(|(holder, _)| (holder.id, holder.granted))
            .collect()
    }

    /// Calls back what others would save more with, and grants what is free.
    fn move_to_the_best(&mut self, now: Time) {
        let rate = |of: fn(&HistoryUse) -> f64| {
            let holding = self.holders.iter().filter(|holder| holder.uses.held > 0);
            holding
                .map(|holder| holder.faded(now, of(&holder.uses)))
                .sum::<f64>()
        };
        let (saved, plain) = (rate(|uses| uses.saved_rate), rate(|uses| uses.plain_rate));
        let typical = if plain > 0.0 {
            (saved / plain).min(1.0)
        } else {
            TYPICAL_WORTH
        };
        let mut hungry = Vec::new();
        let mut victims = Vec::new();
        for (at, holder) in self.holders.iter().enumerate() {
            if holder.is_hungry(now) && !holder.is_idle(now) {
                hungry.push((holder.hopes(now, typical), at));
            }
            if holder.granted > 0 && holder.is_tenured(now) {
                victims.push((holder.saves(now), at));
            }
        }
        hungry.sort_by(|left, right| right.0.total_cmp(&left.0));
        victims.sort_by(|left, right| left.0.total_cmp(&right.0));
        let mut free = self.free_to_send();
        // What is called back is free once that is confirmed.
        let called_back = self.holders.iter();
        let mut coming: usize = called_back
            .map(|holder| holder.counted() - holder.granted)
            .sum();
        let mut next_victim = 0;
        for (hopes, at) in hungry {
            let holder = &mut self.holders[at];
            if !holder.is_hungry(now) {
                continue;
            }
            let wanted = holder.uses.wanted.min(holder.most);
            let more = wanted.saturating_sub(holder.counted());
            if more <= free {
                holder.grant(now, wanted);
                free -= more;
                continue;
            }
            let mut give_way = Vec::new();
            let mut got = free + coming;
            let mut looked_at = next_victim;
            while let Some((saves, victim)) = victims.get(looked_at).filter(|_| got < more) {
                if saves * HYSTERESIS >= hopes {
                    return;
                }
                looked_at += 1;
                if *victim != at && self.holders[*victim].is_tenured(now) {
                    got += self.holders[*victim].counted();
                    give_way.push(*victim);
                }
            }
            if got < more {
                return;
            }
            next_victim = looked_at;
            for victim in give_way {
                self.holders[victim].grant(now, 0);
            }
            // It asks again when the memory is there.
            coming = got - more;
            free = 0;
        }
    }

    /// What is held.
    pub fn stats(&self) -> HistoryShareStats {
        let sum = |of: fn(&Holder) -> usize| self.holders.iter().map(of).sum();
        HistoryShareStats {
            budget: self.budget,
            sent_granted: sum(|holder| holder.granted),
            sent_held: sum(|holder| holder.uses.memory),
            received_announced: sum(|holder| holder.received),
            connections: self.holders.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// Connections that take what they are granted, each with its traffic.
    struct World {
        shares: HistoryShares,
        now: Time,
        /// Who, what it wants, bytes a second, what part of them history saves; what it may hold.
        connections: Vec<(HolderId, usize, f64, f64, usize)>,
    }

    impl World {
        fn new(budget: usize) -> Self {
            Self {
                shares: HistoryShares::new(budget),
                now: Time::ZERO,
                connections: Vec::new(),
            }
        }

        fn add(&mut self, wants: usize, rate: f64, worth: f64) -> HistoryTerms {
            let (id, terms) = self.shares.admit(self.now, (8 * MIB, 8 * MIB));
            self.connections.push((id, wants, rate, worth, terms.sent));
            terms
        }

        fn held(&self, number: usize) -> usize {
            let (_, wants, rate, _, limit) = self.connections[number];
            if rate == 0.0 || limit < MIB {
                0
            } else {
                wants.min(limit)
            }
        }

        /// Everybody says what it does and asks; then memory moves; a second has passed.
        fn second(&mut self) {
            for number in 0..self.connections.len() {
                let held = self.held(number);
                let (id, wants, rate, worth, limit) = &mut self.connections[number];
                if *rate > 0.0 {
                    let uses = HistoryUse {
                        limit: *limit,
                        held,
                        memory: held,
                        wanted: *wants,
                        saved_rate: if held > 0 { *rate * *worth } else { 0.0 },
                        plain_rate: *rate,
                        used_at: self.now,
                    };
                    self.shares.report(self.now, *id, uses);
                    *limit = self.shares.ask(self.now, *id);
                }
            }
            for (id, limit) in self.shares.rebalance(self.now) {
                let known = self.connections.iter_mut().find(|known| known.0 == id);
                let known = known.expect("one of them");
                known.4 = limit;
                let uses = HistoryUse {
                    limit,
                    held: limit
                        .min(known.1)
                        .min(if known.2 > 0.0 { usize::MAX } else { 0 }),
                    wanted: limit.min(known.1),
                    plain_rate: known.2,
                    used_at: self.now,
                    ..HistoryUse::default()
                };
                if known.2 > 0.0 {
                    self.shares.report(self.now, id, uses);
                }
            }
            let limits: usize = self.connections.iter().map(|known| known.4).sum();
            assert!(limits <= self.shares.budget / 2, "{limits}");
            self.now = self.now + Duration::from_secs(1);
        }
    }

    #[test]
    fn whatever_comes_no_more_is_granted_than_there_is() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..30 {
            let mut world = World::new(rng.usize(0..300) * MIB);
            for _ in 0..200 {
                match rng.u8(..4) {
                    0 => {
                        world.add(rng.usize(..9 * MIB), rng.f64() * 1e6, rng.f64());
                    }
                    1 if !world.connections.is_empty() => {
                        let at = rng.usize(..world.connections.len());
                        let (id, ..) = world.connections.swap_remove(at);
                        world.shares.leave(id);
                    }
                    2 if !world.connections.is_empty() => {
                        let at = rng.usize(..world.connections.len());
                        world.connections[at].2 = rng.f64() * 1e6 * f64::from(rng.u8(..2));
                    }
                    _ => world.second(),
                }
                let stats = world.shares.stats();
                assert!(stats.received_announced <= stats.budget / 2);
            }
        }
    }

    #[test]
    fn memory_goes_where_it_saves_most_and_stays_there() {
        let mut world = World::new(16 * MIB);
        // Eight MiB to send with: four of two MiB each.
        for _ in 0..12 {
            world.add(2 * MIB, 1e4, 0.5);
        }
        for _ in 0..30 {
            world.second();
        }
        let holds = |world: &World| -> Vec<usize> {
            (0..12).filter(|at| world.held(*at) >= 2 * MIB).collect()
        };
        let first = holds(&world);
        assert_eq!(first.len(), 4, "{first:?}");
        // As much worth as the others: nothing moves.
        for _ in 0..60 {
            world.second();
            assert_eq!(holds(&world), first);
        }
        // One that had none gains ten times as much now.
        let poor = (0..12).find(|at| !first.contains(at)).expect("eight");
        world.connections[poor].2 = 1e5;
        for _ in 0..25 {
            world.second();
        }
        let then = holds(&world);
        assert!(then.contains(&poor) && then.len() == 4, "{then:?}");
        assert_eq!(then.iter().filter(|at| first.contains(at)).count(), 3);
        for _ in 0..60 {
            world.second();
            assert_eq!(holds(&world), then);
        }
    }

    #[test]
    fn idle_connections_hold_nothing_and_get_it_back() {
        let mut world = World::new(256 * MIB);
        let terms = world.add(3 * MIB, 1e5, 0.5);
        assert_eq!(terms.sent, SLACK);
        for _ in 0..30 {
            world.second();
        }
        assert_eq!(world.held(0), 3 * MIB);
        // What it does not use is free again, but for some.
        assert_eq!(world.connections[0].4, 3 * MIB + SLACK);
        world.connections[0].2 = 0.0;
        for _ in 0..70 {
            world.second();
        }
        assert_eq!(world.connections[0].4, 0);
        world.connections[0].2 = 1e5;
        for _ in 0..2 {
            world.second();
        }
        assert_eq!(world.held(0), 3 * MIB);
    }

    #[test]
    fn what_peers_are_told_is_less_the_more_there_are_and_never_useless() {
        let mut world = World::new(256 * MIB);
        let terms: Vec<usize> = (0..1000).map(|_| world.add(0, 0.0, 0.0).received).collect();
        assert_eq!(terms[0], 2 * MIB);
        assert!(terms.windows(2).all(|two| two[0] >= two[1]));
        assert!(
            terms
                .iter()
                .all(|bytes| *bytes == 0 || *bytes >= LEAST_RECEIVED)
        );
        let some = terms.iter().filter(|bytes| **bytes > 0).count();
        assert!(some > 90, "{some}");
        assert!(terms.iter().sum::<usize>() <= 128 * MIB);
        // Room comes back with those that leave.
        let (first, ..) = world.connections[0];
        world.shares.leave(first);
        assert!(world.add(0, 0.0, 0.0).received > 0);
    }
}
