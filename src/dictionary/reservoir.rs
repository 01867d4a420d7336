//! A uniform sample of the distinct messages that were offered, within a number of bytes.

use core::hash::Hasher as _;
use std::collections::BTreeMap;
use std::hash::DefaultHasher;

use bytes::Bytes;

/// Messages kept so that each distinct one that was offered is as likely to be among them.
///
/// Each message has a draw: the keyed hash of its content and the seed. Kept are those with the lowest
/// draws that fit, so that a message offered twice counts once, and the order of offers does not matter.
///
/// What a dictionary is trained on can be found in it. Never offer what is sensitive, and never offer
/// messages of several trust domains to one reservoir.
#[derive(Clone, Debug)]
pub struct Reservoir {
    seed: u64,
    max_bytes: usize,
    max_message: usize,
    kept: BTreeMap<u64, Bytes>,
    bytes: usize,
    /// Draws from here on did not fit once, so they are not taken any more.
    limit: Option<u64>,
    offered: u64,
}

impl Reservoir {
    /// An empty reservoir for `max_bytes` of messages, each of `max_message` at most: longer ones are
    /// passed over. Those need no dictionary, and one alone could take all the room.
    pub const fn new(seed: u64, max_bytes: usize, max_message: usize) -> Self {
        Self {
            seed,
            max_bytes,
            max_message,
            kept: BTreeMap::new(),
            bytes: 0,
            limit: None,
            offered: 0,
        }
    }

    /// Takes the message if it is drawn; says whether it did. Copies it then: what it is a slice of
    /// need not live on.
    pub fn offer(&mut self, message: &[u8]) -> bool {
        self.offered += 1;
        if message.is_empty() || message.len() > self.max_message {
            return false;
        }
        let draw = self.draw(message);
        if self.limit.is_some_and(|limit| draw >= limit) || self.kept.contains_key(&draw) {
            return false;
        }
        self.bytes += message.len();
        self.kept.insert(draw, Bytes::copy_from_slice(message));
        while self.bytes > self.max_bytes {
            let Some((highest, gone)) = self.kept.pop_last() else {
                break;
            };
            self.bytes -= gone.len();
            self.limit = Some(highest);
        }
        self.limit.is_none_or(|limit| draw < limit)
    }

    /// The messages kept, in an order that has nothing to do with that of the offers.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = &Bytes> {
        self.kept.values()
    }

    /// How many messages are kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// How many bytes they have.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many messages were offered since the last [`clear`](Self::clear).
    pub const fn offered(&self) -> u64 {
        self.offered
    }

    /// Forgets everything but the seed.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.bytes = 0;
        self.limit = None;
        self.offered = 0;
    }

    fn draw(&self, message: &[u8]) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.seed);
        hasher.write(message);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u32) -> Vec<u8> {
        format!("message {number:05}").into_bytes()
    }

    #[test]
    fn every_message_is_as_likely_and_counts_once() {
        let mut kept = [0_u32; 1000];
        for seed in 0..200 {
            let mut reservoir = Reservoir::new(seed, 1300, 100);
            for number in 0..1000 {
                // The later ones are offered far more often.
                for _ in 0..=number / 100 {
                    reservoir.offer(&message(number));
                }
            }
            assert_eq!((reservoir.len(), reservoir.bytes()), (100, 1300));
            for message in reservoir.messages() {
                let digits = core::str::from_utf8(&message[8..]).expect("digits");
                kept[digits.parse::<usize>().expect("a number")] += 1;
            }
        }
        // 20 each on average; thirds within 5 standard deviations of the sum.
        for third in kept.chunks(333).take(3) {
            let sum: u32 = third.iter().sum();
            assert!((6260..7060).contains(&sum), "{sum}");
        }
    }

    #[test]
    fn it_keeps_to_its_bytes_and_passes_long_messages_over() {
        let mut reservoir = Reservoir::new(1, 100, 60);
        assert!(!reservoir.offer(&[0; 61]));
        assert!(!reservoir.offer(&[]));
        for len in 1..=60_u8 {
            reservoir.offer(&vec![len; usize::from(len)]);
            assert!(reservoir.bytes() <= 100);
        }
        let total: usize = reservoir.messages().map(Bytes::len).sum();
        assert_eq!(total, reservoir.bytes());
        assert_eq!(reservoir.offered(), 62);
        reservoir.clear();
        assert!(reservoir.is_empty());
        assert!(reservoir.offer(&[7; 50]));
    }
}
