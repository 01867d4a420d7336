//! What connections before have carried last, as beginnings of histories: dictionaries that nobody trained and
//! nobody sends, since both ends have them (docs/wire.md, "What a connection leaves").

use core::time::Duration;

use bytes::Bytes;

use crate::dictionary::Dictionary;
use crate::units::Time;

/// How long what a connection has left is kept. Arbitrary: what is worth beginning with is recent, and what one
/// connection says of those before should not reach far back.
const TIME_TO_LIVE: Duration = Duration::from_secs(3600);
/// Beginnings of one direction that are kept, the latest. Arbitrary: all that a cut leaves, or a few connections side
/// by side.
const MOST_KEPT: usize = 6;
/// .. and that a hello lists, 8 bytes each. Arbitrary: the end, and two points before it if that is not known to be
/// the sender's too.
const MOST_LISTED: usize = 3;
/// Shorter ones are not kept. Arbitrary: hardly more than it takes to name them.
const LEAST_LEN: usize = 64;

/// One beginning.
#[derive(Clone, Debug)]
struct Recalled {
    dictionary: Dictionary,
    /// Both ends are known to have seen all of it.
    agreed: bool,
    /// `None` before it was first kept.
    until: Option<Time>,
}

/// Beginnings for one direction, the latest last.
#[derive(Clone, Debug, Default)]
pub(in crate::session) struct RecalledHistories {
    kept: Vec<Recalled>,
}

impl RecalledHistories {
    /// Puts in what a connection has left, the latest in front. `sessions` are the numbers of both its sides, the
    /// connector's in front: nobody else can name it, or guess from the name what it is.
    pub(in crate::session) fn leave(
        &mut self,
        left: Vec<Bytes>,
        agreed: bool,
        sessions: [&[u8]; 2],
    ) {
        let long = left.into_iter().filter(|it| it.len() >= LEAST_LEN);
        let mut named: Vec<_> = long
            .filter_map(|it| Dictionary::named(&sessions, it).ok())
            .collect();
        named.reverse();
        for dictionary in named {
            self.keep(Recalled {
                dictionary,
                agreed,
                until: None,
            });
        }
    }

    fn keep(&mut self, new: Recalled) {
        let id = new.dictionary.id();
        self.kept.retain(|it| it.dictionary.id() != id);
        if self.kept.len() == MOST_KEPT {
            self.kept.remove(0);
        }
        self.kept.push(new);
    }

    /// Takes in what another session has left meanwhile; what it only knew from before stays where it is.
    pub(super) fn absorb(&mut self, other: Self) {
        for new in other.kept {
            if new.until.is_none() || !self.contains(&new.dictionary) {
                self.keep(new);
            }
        }
    }

    /// Forgets what is too old.
    pub(super) fn expire(&mut self, now: Time) {
        for known in &mut self.kept {
            known.until.get_or_insert(now + TIME_TO_LIVE);
        }
        self.kept
            .retain(|known| known.until.is_some_and(|until| now < until));
    }

    /// Those that a hello lists, the latest in front: as far as one that both ends are sure to have had, and one more
    /// in case that connections ended side by side.
    pub(super) fn listed(&self, max_len: usize) -> Vec<Dictionary> {
        let fits = |it: &&Recalled| it.dictionary.len() <= max_len;
        let mut latest = self.kept.iter().rev().filter(fits);
        let sure = latest.position(|it| it.agreed);
        let most = sure.map_or(MOST_LISTED, |at| (at + 2).min(MOST_LISTED));
        let latest = self.kept.iter().rev().filter(fits).take(most);
        latest.map(|it| it.dictionary.clone()).collect()
    }

    /// The one whose name begins so.
    pub(super) fn find(&self, prefix: &[u8]) -> Option<&Dictionary> {
        let mut all = self.kept.iter().map(|it| &it.dictionary);
        all.find(|it| it.id().as_bytes().starts_with(prefix))
    }

    pub(super) fn contains(&self, dictionary: &Dictionary) -> bool {
        let id = dictionary.id();
        self.kept.iter().any(|it| it.dictionary.id() == id)
    }

    /// Bytes of them.
    pub(super) fn bytes(&self) -> usize {
        self.kept.iter().map(|it| it.dictionary.len()).sum()
    }
}
