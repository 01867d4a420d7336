//! The room in a stream's queue: who sends takes of it, the driver gives it back, and who finds none waits.

use std::sync::Mutex;

use tokio::sync::Notify;

use super::shared::lock;

/// Why there is none to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// For now.
    Full,
    /// The stream has closed.
    Closed,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes taken that are not yet in a block.
    taken: usize,
    /// How many wait, so that nobody is woken where nobody waits.
    waiting: usize,
    is_closed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Room {
    state: Mutex<State>,
    given_back: Notify,
}

impl Room {
    /// Takes `len` bytes of `limit`; where none are taken, any length is.
    pub(super) fn try_take(&self, len: usize, limit: usize) -> Result<(), NoRoom> {
        let mut state = lock(&self.state);
        if state.is_closed {
            return Err(NoRoom::Closed);
        }
        if state.taken > 0 && state.taken + len > limit {
            return Err(NoRoom::Full);
        }
        state.taken += len;
        Ok(())
    }

    /// Waits until there is room and takes it; false if the stream has closed.
    pub(super) async fn take(&self, len: usize, limit: usize) -> bool {
        loop {
            match self.try_take(len, limit) {
                Ok(()) => return true,
                Err(NoRoom::Closed) => return false,
                Err(NoRoom::Full) => {}
            }
            let _waiting = Waiting::new(self);
            let given_back = self.given_back.notified();
            tokio::pin!(given_back);
            given_back.as_mut().enable();
            // What was given back between the first look and the registration is seen here.
            match self.try_take(len, limit) {
                Ok(()) => return true,
                Err(NoRoom::Closed) => return false,
                Err(NoRoom::Full) => given_back.await,
            }
        }
    }

    /// `len` bytes have left the queue.
    pub(super) fn give_back(&self, len: usize) {
        let waiting = {
            let mut state = lock(&self.state);
            state.taken = state.taken.saturating_sub(len);
            state.waiting
        };
        if waiting > 0 {
            self.given_back.notify_waiters();
        }
    }

    /// Nobody takes any more.
    pub(super) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.given_back.notify_waiters();
    }

    pub(super) fn is_closed(&self) -> bool {
        lock(&self.state).is_closed
    }
}

/// Counts one who waits, for as long as it lives.
struct Waiting<'a>(&'a Room);

impl<'a> Waiting<'a> {
    fn new(room: &'a Room) -> Self {
        lock(&room.state).waiting += 1;
        Self(room)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_empty_queue_takes_any_length_and_a_full_one_none() {
        let room = Room::default();
        assert_eq!(room.try_take(1000, 10), Ok(()));
        assert_eq!(room.try_take(1, 10), Err(NoRoom::Full));
        room.give_back(995);
        assert_eq!(room.try_take(5, 10), Ok(()));
        assert_eq!(room.try_take(1, 10), Err(NoRoom::Full));
        room.close();
        room.give_back(10);
        assert_eq!(room.try_take(1, 10), Err(NoRoom::Closed));
    }

    /// One that missed its wake-up would wait for ever.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn many_who_wait_all_get_their_turn() {
        const SENDERS: usize = 8;
        const ROUNDS: usize = 2000;
        let room = Arc::new(Room::default());
        let (sent, mut arrived) = tokio::sync::mpsc::unbounded_channel();
        for number in 0..SENDERS {
            let (room, sent) = (Arc::clone(&room), sent.clone());
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    let len = 1 + (number + round) % 3;
                    assert!(room.take(len, 4).await);
                    sent.send(len).expect("somebody listens");
                }
            });
        }
        drop(sent);
        let mut count = 0;
        while let Some(len) = arrived.recv().await {
            room.give_back(len);
            count += 1;
        }
        assert_eq!(count, SENDERS * ROUNDS);
        let state = lock(&room.state);
        assert_eq!((state.taken, state.waiting), (0, 0));
    }

    #[tokio::test]
    async fn who_waits_hears_of_the_end_and_who_gives_up_is_not_counted() {
        let room = Room::default();
        assert!(room.take(4, 4).await);
        let (waited, gave_up, ()) = tokio::join!(
            biased;
            room.take(1, 4),
            async {
                tokio::select! {
                    biased;
                    taken = room.take(1, 4) => taken,
                    () = tokio::task::yield_now() => true,
                }
            },
            async {
                assert_eq!(lock(&room.state).waiting, 2);
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
                assert_eq!(lock(&room.state).waiting, 1);
                room.close();
            },
        );
        assert!(!waited && gave_up && room.is_closed());
        assert_eq!(lock(&room.state).waiting, 0);
    }
}
