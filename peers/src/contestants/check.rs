//! What comes is compared with what was sent, and timed.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{Messages, now};
use crate::failure::Failure;

/// Compares what comes with what was sent.
#[derive(Debug)]
pub struct Inbox {
    sent: Messages,
    count: usize,
    complete_at: Option<Instant>,
}

impl Inbox {
    pub(crate) fn new(sent: Messages) -> Self {
        Self {
            sent,
            count: 0,
            complete_at: None,
        }
    }

    /// The next message, as the application gets it.
    ///
    /// # Errors
    ///
    /// It is not the one that was sent, or one too many.
    pub fn deliver(&mut self, payload: &[u8]) -> Result<(), Failure> {
        let number = self.count;
        let Some(sent) = self.sent.get(number) else {
            let text = format!("more than the {number} messages that were sent");
            return Err(Failure::Error(text));
        };
        same(number, sent, payload)?;
        self.count += 1;
        if self.is_complete() {
            self.complete_at = Some(now());
        }
        Ok(())
    }

    /// Whether all have come.
    pub fn is_complete(&self) -> bool {
        self.count == self.sent.len()
    }

    /// When the last message came.
    pub(crate) fn finish(&self) -> Result<Instant, Failure> {
        self.complete_at.ok_or_else(|| {
            let (came, all) = (self.count, self.sent.len());
            Failure::Error(format!("the end came after {came} of {all} messages"))
        })
    }
}

/// Messages of which each is asked once the one before it has come back, and how long that took.
#[derive(Debug)]
pub struct Trips {
    messages: Messages,
    times: Vec<Duration>,
    asked: Option<Instant>,
}

impl Trips {
    pub(crate) fn new(messages: Messages) -> Self {
        let times = Vec::with_capacity(messages.len());
        Self {
            messages,
            times,
            asked: None,
        }
    }

    /// The next message; its time begins. `None` if all have come back.
    pub fn ask(&mut self) -> Option<Bytes> {
        let message = self.messages.get(self.times.len())?.clone();
        self.asked = Some(now());
        Some(message)
    }

    /// What came back of the message that was asked.
    ///
    /// # Errors
    ///
    /// It is not that message, or none was asked.
    pub fn answered(&mut self, payload: &[u8]) -> Result<(), Failure> {
        let number = self.times.len();
        let (Some(asked), Some(sent)) = (self.asked.take(), self.messages.get(number)) else {
            return Err(Failure::Error("an answer to nothing".to_owned()));
        };
        let time = now().duration_since(asked);
        same(number, sent, payload)?;
        self.times.push(time);
        Ok(())
    }

    /// How long each took.
    pub(crate) fn finish(self) -> Result<Vec<Duration>, Failure> {
        let (came, all) = (self.times.len(), self.messages.len());
        if came == all {
            return Ok(self.times);
        }
        let text = format!("{came} of {all} messages came back");
        Err(Failure::Error(text))
    }
}

fn same(number: usize, sent: &[u8], came: &[u8]) -> Result<(), Failure> {
    if sent == came {
        return Ok(());
    }
    Err(Failure::Error(format!(
        "message {number} came changed: {} bytes were sent, {} came",
        sent.len(),
        came.len()
    )))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_inbox_wants_what_was_sent_all_of_it_and_no_more() {
        let sent: Messages = vec![Bytes::from_static(b"one"), Bytes::new()].into();
        let mut inbox = Inbox::new(Arc::clone(&sent));
        assert!(inbox.deliver(b"two").is_err());
        inbox.deliver(b"one").expect("as sent");
        assert!(inbox.finish().is_err());
        assert!(!inbox.is_complete());
        inbox.deliver(b"").expect("as sent");
        assert!(inbox.is_complete());
        inbox.finish().expect("complete");
        assert!(inbox.deliver(b"").is_err());
    }

    #[test]
    fn trips_are_timed_one_by_one_and_want_the_same_back() {
        let mut trips = Trips::new(vec![Bytes::from_static(b"one"), Bytes::new()].into());
        assert!(trips.answered(b"one").is_err());
        assert_eq!(trips.ask().as_deref(), Some(&b"one"[..]));
        trips.answered(b"one").expect("the same");
        assert!(trips.answered(b"one").is_err());
        assert_eq!(trips.ask().as_deref(), Some(&b""[..]));
        trips.answered(b"").expect("the same");
        assert_eq!(trips.ask(), None);
        assert_eq!(trips.finish().expect("all").len(), 2);

        let mut trips = Trips::new(vec![Bytes::from_static(b"one")].into());
        trips.ask();
        assert!(trips.answered(b"two").is_err());
        assert!(trips.finish().is_err());
    }
}
