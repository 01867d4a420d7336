//! What is known of the messages of one stream until they are answered.

use std::collections::VecDeque;

use bytes::Bytes;

/// A message that waits for room in the stream's queue.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) intended: u64,
    pub(super) payload: Bytes,
}

/// A message that was sent, as much of it as answers are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) intended: u64,
    /// `None` until the queue has taken it.
    pub(super) sent: Option<u64>,
    pub(super) len: u32,
    sum: u32,
}

/// The messages of one stream in their order: those that wait to be sent, and those that wait for their answers.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    backlog: VecDeque<Pending>,
    waiting: VecDeque<Waiting>,
    /// How many were taken from the front of `waiting`.
    taken: u64,
    is_sending: bool,
}

impl Ledger {
    /// Whether a message can be sent without overtaking others.
    pub(super) fn is_free(&self) -> bool {
        self.backlog.is_empty() && !self.is_sending
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn keep(&mut self, intended: u64, payload: Bytes) {
        self.backlog.push_back(Pending { intended, payload });
    }

    /// The next message of the backlog. Until [`Self::sent`], nothing else may be sent.
    pub(super) fn next(&mut self) -> Option<Pending> {
        let pending = self.backlog.pop_front()?;
        self.is_sending = true;
        Some(pending)
    }

    pub(super) fn sent(&mut self) {
        self.is_sending = false;
    }

    /// Expects an answer to a message; its number.
    pub(super) fn expect(&mut self, intended: u64, sent: Option<u64>, payload: &Bytes) -> u64 {
        self.waiting.push_back(Waiting {
            intended,
            sent,
            len: u32::try_from(payload.len()).unwrap_or(u32::MAX),
            sum: crc32fast::hash(payload),
        });
        self.taken + self.waiting.len() as u64 - 1
    }

    /// The message expected last was not sent after all.
    pub(super) fn unexpect(&mut self) {
        self.waiting.pop_back();
    }

    /// When the message of this number was sent; one that is answered already is gone.
    pub(super) fn set_sent(&mut self, number: u64, at: u64) {
        let place = number.checked_sub(self.taken);
        let place = place.and_then(|place| usize::try_from(place).ok());
        if let Some(waiting) = place.and_then(|place| self.waiting.get_mut(place)) {
            waiting.sent = Some(at);
        }
    }

    /// What this answers, if it is the oldest message that was sent.
    pub(super) fn answer(&mut self, payload: &Bytes) -> Result<Waiting, String> {
        let Some(waiting) = self.take() else {
            return Err("an answer to nothing that was sent".to_owned());
        };
        if payload.len() == waiting.len as usize && crc32fast::hash(payload) == waiting.sum {
            Ok(waiting)
        } else {
            Err(format!(
                "a message of {} bytes was answered with others ({} bytes)",
                waiting.len,
                payload.len()
            ))
        }
    }

    /// The oldest message that was sent.
    pub(super) fn take(&mut self) -> Option<Waiting> {
        let waiting = self.waiting.pop_front()?;
        self.taken += 1;
        Some(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_keeps_its_intended_time_whenever_it_is_sent() {
        let mut ledger = Ledger::default();
        let (first, second) = (Bytes::from("first"), Bytes::from("second"));
        assert!(ledger.is_free());
        ledger.expect(100, Some(110), &first);
        ledger.keep(200, second.clone());
        assert!(!ledger.is_free());
        let pending = ledger.next().unwrap();
        assert_eq!(pending.intended, 200);
        // Nothing overtakes what is being sent.
        assert!(!ledger.is_free());
        let number = ledger.expect(pending.intended, None, &pending.payload);
        let answered = ledger.answer(&first).unwrap();
        assert_eq!((answered.intended, answered.sent), (100, Some(110)));
        ledger.set_sent(number, 900);
        ledger.sent();
        assert!(ledger.is_free());
        let answered = ledger.answer(&second).unwrap();
        assert_eq!((answered.intended, answered.sent), (200, Some(900)));
        // Too late, and of no harm.
        ledger.set_sent(number, 1000);
        assert_eq!(ledger.waiting(), 0);
    }

    #[test]
    fn other_answers_than_those_expected_are_told() {
        let mut ledger = Ledger::default();
        assert!(ledger.answer(&"x".into()).unwrap_err().contains("nothing"));
        ledger.expect(0, Some(0), &"abc".into());
        assert!(ledger.answer(&"abd".into()).unwrap_err().contains("others"));
        ledger.expect(0, Some(0), &"abc".into());
        ledger.unexpect();
        assert_eq!(ledger.take(), None);
    }
}
