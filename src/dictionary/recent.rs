//! Some of the latest messages of a class, now and then, to see whether its dictionary still serves.

use bytes::Bytes;

/// One in so many messages is taken, so that a burst is not taken for what there is. Arbitrary.
const EVERY: u64 = 4;

/// ```text
/// idle --begin--> taking --enough--> full --take--> idle
/// ```
#[derive(Clone, Debug, Default)]
pub(super) struct RecentMessages {
    taking: bool,
    passed: u64,
    kept: Vec<Bytes>,
    bytes: usize,
}

impl RecentMessages {
    /// Takes messages from now on.
    pub(super) fn begin(&mut self) {
        self.taking = true;
    }

    /// Copies the message, if it is one of those that are taken.
    pub(super) fn offer(&mut self, message: &[u8], max_message: usize) {
        if !self.taking || message.is_empty() || message.len() > max_message {
            return;
        }
        self.passed += 1;
        if self.passed % EVERY == 0 {
            self.bytes += message.len();
            self.kept.push(Bytes::copy_from_slice(message));
        }
    }

    /// Whether there are so many messages or bytes; nothing more is taken then.
    pub(super) fn is_enough(&mut self, messages: usize, bytes: usize) -> bool {
        let is_enough = self.kept.len() >= messages || self.bytes >= bytes;
        self.taking &= !is_enough;
        is_enough
    }

    /// Gives out what was taken, and is idle again.
    pub(super) fn take(&mut self) -> Vec<Bytes> {
        core::mem::take(self).kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_some_until_there_are_enough() {
        let mut recent = RecentMessages::default();
        let offer = |recent: &mut RecentMessages| {
            for number in 0..100_u8 {
                recent.offer(&[number; 10], 10);
                recent.offer(&[number; 11], 10);
                if recent.is_enough(5, 1000) {
                    break;
                }
            }
        };
        offer(&mut recent);
        assert_eq!(recent.take(), Vec::<Bytes>::new(), "nobody has asked");
        for _ in 0..2 {
            recent.begin();
            offer(&mut recent);
            offer(&mut recent);
            let taken = recent.take();
            let firsts: Vec<_> = taken.iter().map(|it| it[0]).collect();
            assert_eq!(firsts, [3, 7, 11, 15, 19]);
        }
        recent.begin();
        for _ in 0..8 {
            recent.offer(&[0; 10], 10);
        }
        assert!(recent.is_enough(5, 20), "so many bytes");
    }
}
