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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::recent::Recents;

    fn field<'a>(vector: &'a str, key: &str) -> Option<&'a str> {
        let lines = vector.lines();
        let mut values = lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        values.next()
    }

    fn bytes(count: usize, byte: impl Fn(u64) -> u64) -> Bytes {
        (0..count as u64).map(|number| byte(number) as u8).collect()
    }

    /// A session's number, whose bytes are all the same.
    fn session(hex: &str) -> [u8; 16] {
        [u8::from_str_radix(&hex[..2], 16).expect("hexadecimal"); 16]
    }

    #[test]
    fn what_is_left_and_its_names_are_as_the_vectors_say() {
        let text = include_str!("../../../tests/vectors/left.txt");
        let mut checked = 0;
        for vector in text.split("name: ").skip(1) {
            let number = |text: &str| text.parse::<usize>().expect("a number");
            let base = field(vector, "base").map(|len| bytes(number(len), |i| (i * i) >> 8));
            let blocks = field(vector, "blocks").expect("blocks").split(' ');
            let lens: Vec<_> = blocks.map(number).collect();
            let carried = bytes(lens.iter().sum(), |i| (3 * i * i) >> 9);
            let mut recents = Recents::default();
            let mut at = 0;
            for len in lens {
                recents.push((), &carried[at..at + len], base.as_ref());
                at += len;
            }
            let ids = ["connector", "acceptor"].map(|key| field(vector, key).expect("a number"));
            let ids = ids.map(session);
            let mut recalled = RecalledHistories::default();
            recalled.leave(recents.left((), false), false, [&ids[0], &ids[1]]);
            let found = recalled.kept.iter().rev().map(|it| &it.dictionary);
            let found = found.map(|it| format!("length={} name={}", it.len(), it.id()));
            let lines = vector.lines();
            let expected = lines.filter_map(|line| line.strip_prefix("expect: at="));
            let expected = expected.map(|line| line.split_once(' ').expect("a length").1);
            let expected: Vec<_> = expected.collect();
            // More points than a vector has are here in the last ones.
            let found: Vec<_> = found.take(expected.len()).collect();
            assert_eq!(found, expected, "{vector}");
            checked += 1;
        }
        assert!(checked > 5, "{checked}");
    }

    #[test]
    fn a_hello_lists_few_and_more_only_while_it_is_not_sure() {
        let left = |byte: u8| Bytes::from(vec![byte; 100]);
        let lens = |recalled: &RecalledHistories| recalled.listed(1000).len();
        let mut recalled = RecalledHistories::default();
        assert_eq!(lens(&recalled), 0);
        recalled.leave(vec![left(1)], true, [&[], &[]]);
        assert_eq!(lens(&recalled), 1);
        for byte in 2..20 {
            recalled.leave(vec![left(byte)], true, [&[], &[]]);
            assert_eq!(lens(&recalled), 2);
        }
        assert_eq!(recalled.bytes(), MOST_KEPT * 100);
        recalled.leave(vec![left(30), left(31), left(32)], false, [&[], &[]]);
        let listed = recalled.listed(1000);
        let firsts: Vec<_> = listed.iter().map(|it| it.content()[0]).collect();
        assert_eq!(firsts, [30, 31, 32], "the latest in front");
        assert!(recalled.listed(99).is_empty(), "longer than are taken");
        recalled.leave(
            vec![Bytes::from_static(b"too short to name")],
            true,
            [&[], &[]],
        );
        assert_eq!(recalled.listed(1000), listed);
    }
}
