//! What a stream's handles have sent and its driver has not taken yet, and the room in the stream's queue: who sends
//! takes of it, the driver gives it back, and who finds none waits.

use core::task::Waker;
use std::collections::VecDeque;
use std::sync::Mutex;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::shared::{DriverEnded, lock};
use crate::session::{Outgoing, OutgoingQueue};
use crate::wire::MESSAGE_CHARGE;

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// There is no room for now.
    Full,
    /// The stream has closed.
    Closed,
}

#[derive(Debug, Default)]
struct State {
    /// What the driver has not taken.
    messages: OutgoingQueue,
    /// How many the driver has taken.
    count_taken: u64,
    /// Bytes taken that are not yet in a block.
    taken: usize,
    /// How many wait, so that nobody is woken where nobody waits.
    waiting: usize,
    /// Somebody sends a message in parts: there is room for those and for replies only.
    in_parts: bool,
    is_closed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    given_back: Notify,
}

impl Outbox {
    /// Takes a message if there is room for it within `limit` bytes; into an empty queue any length goes. `tell` has the driver
    /// come for what is here, and stands before whatever is asked of the driver later; it is not called while that is still to come.
    /// How many were taken before it: all are sent in this order.
    ///
    /// # Errors
    ///
    /// With the payload.
    #[inline]
    pub(super) fn try_put(
        &self,
        message: Outgoing,
        limit: usize,
        tell: impl FnOnce() -> Result<Option<Waker>, DriverEnded>,
    ) -> Result<u64, (Refused, Bytes)> {
        let len = message.queued_len();
        let mut state = lock(&self.state);
        if state.is_closed {
            return Err((Refused::Closed, message.payload));
        }
        let is_full = state.taken > 0 && state.taken + len > limit;
        if is_full || state.in_parts && !message.kind.may_interrupt_parts() {
            return Err((Refused::Full, message.payload));
        }
        let driver = if state.messages.is_empty() {
            match tell() {
                Ok(driver) => driver,
                Err(DriverEnded) => return Err((Refused::Closed, message.payload)),
            }
        } else {
            None
        };
        state.taken += len;
        let before = state.count_taken + state.messages.len() as u64;
        state.messages.push_back(message);
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        Ok(before)
    }

    /// Takes messages from the front, as [`Self::try_put`] would each of them, as long as there is room and none is longer than `longest`.
    ///
    /// # Errors
    ///
    /// The stream has closed, or there is no room for the next one, or it is too long.
    pub(super) fn try_put_many(
        &self,
        messages: &mut VecDeque<Bytes>,
        (limit, longest): (usize, usize),
        tell: impl FnOnce() -> Result<Option<Waker>, DriverEnded>,
    ) -> Result<(), Refused> {
        let first = messages.front().map(Bytes::len);
        let first = first.filter(|len| *len <= longest);
        self.put_some(first, limit, tell, |into, room, takes_any| {
            let mut taken = 0;
            while let Some(next) = messages.front() {
                let len = next.len() + MESSAGE_CHARGE as usize;
                let fits = taken + len <= room || takes_any && taken == 0;
                if !fits || next.len() > longest {
                    break;
                }
                taken += len;
                into.extend(messages.pop_front().map(Outgoing::new));
            }
            taken
        })?;
        all_taken(messages.is_empty())
    }

    /// .. of messages that are not too long.
    pub(super) fn try_put_queue(
        &self,
        messages: &mut OutgoingQueue,
        limit: usize,
        tell: impl FnOnce() -> Result<Option<Waker>, DriverEnded>,
    ) -> Result<(), Refused> {
        let first = messages.front_len();
        self.put_some(first, limit, tell, |into, room, takes_any| {
            messages.move_fitting(into, room, takes_any)
        })?;
        all_taken(messages.is_empty())
    }

    /// Has `put` take messages for so much room, or one of any length, and say how much of it they take, unless there is none for the `first` one.
    fn put_some(
        &self,
        first: Option<usize>,
        limit: usize,
        tell: impl FnOnce() -> Result<Option<Waker>, DriverEnded>,
        put: impl FnOnce(&mut OutgoingQueue, usize, bool) -> usize,
    ) -> Result<(), Refused> {
        let mut state = lock(&self.state);
        if state.is_closed {
            return Err(Refused::Closed);
        }
        let (room, takes_any) = (limit.saturating_sub(state.taken), state.taken == 0);
        let fits = first.is_some_and(|len| takes_any || len + MESSAGE_CHARGE as usize <= room);
        if !fits || state.in_parts {
            return Ok(());
        }
        let driver = if state.messages.is_empty() {
            tell().map_err(|DriverEnded| Refused::Closed)?
        } else {
            None
        };
        state.taken += put(&mut state.messages, room, takes_any);
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        Ok(())
    }

    /// From now on whoever waits counts, until it is dropped, and is woken once room was given back.
    pub(super) fn wait(&self) -> (Waiting<'_>, Notified<'_>) {
        (Waiting::new(self), self.given_back.notified())
    }

    /// Looks again each time room was given back, until something is found.
    pub(super) async fn wait_for_room<T>(&self, mut look_again: impl FnMut() -> Option<T>) -> T {
        loop {
            let (_waiting, given_back) = self.wait();
            tokio::pin!(given_back);
            given_back.as_mut().enable();
            // What was given back between the first look and the registration is seen here.
            if let Some(found) = look_again() {
                return found;
            }
            given_back.await;
        }
    }

    /// Takes a message as soon as there is room for it; how many were taken before it, `None` if the stream has closed.
    pub(super) async fn put(
        &self,
        message: Outgoing,
        limit: usize,
        tell: impl Fn() -> Result<Option<Waker>, DriverEnded>,
    ) -> Option<u64> {
        let mut message = Some(message);
        let mut put = || {
            let (kind, sensitive) = message.as_ref().map(|it| (it.kind, it.sensitive))?;
            match self.try_put(message.take()?, limit, &tell) {
                Ok(before) => Some(Some(before)),
                Err((Refused::Closed, _)) => Some(None),
                Err((Refused::Full, payload)) => {
                    message = Some(Outgoing {
                        payload,
                        kind,
                        sensitive,
                    });
                    None
                }
            }
        };
        match put() {
            Some(taken) => taken,
            None => self.wait_for_room(put).await,
        }
    }

    /// Waits until nobody else sends a message in parts; false if the stream has closed. [`Self::end_parts`] is to follow.
    pub(super) async fn begin_parts(&self) -> bool {
        let begin = || {
            let mut state = lock(&self.state);
            let begins = state.is_closed || !state.in_parts;
            state.in_parts |= !state.is_closed;
            begins.then_some(!state.is_closed)
        };
        match begin() {
            Some(is_mine) => is_mine,
            None => self.wait_for_room(begin).await,
        }
    }

    /// Other messages may be sent again.
    pub(super) fn end_parts(&self) {
        let waiting = {
            let mut state = lock(&self.state);
            state.in_parts = false;
            state.waiting
        };
        if waiting > 0 {
            self.given_back.notify_waiters();
        }
    }

    /// Swaps what is here into `into`, which is empty.
    pub(super) fn take(&self, into: &mut OutgoingQueue) {
        let mut state = lock(&self.state);
        core::mem::swap(&mut state.messages, into);
        state.count_taken += into.len() as u64;
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

    /// Nothing is taken any more.
    pub(super) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.given_back.notify_waiters();
    }

    /// .. and nobody comes for what is here.
    pub(super) fn abandon(&self) {
        self.close();
        let mut dropped = OutgoingQueue::new();
        self.take(&mut dropped);
    }

    pub(super) fn is_closed(&self) -> bool {
        lock(&self.state).is_closed
    }
}

const fn all_taken(is_all: bool) -> Result<(), Refused> {
    if is_all { Ok(()) } else { Err(Refused::Full) }
}

/// Counts one who waits, for as long as it lives.
#[derive(Debug)]
pub(super) struct Waiting<'a>(&'a Outbox);

impl<'a> Waiting<'a> {
    fn new(outbox: &'a Outbox) -> Self {
        lock(&outbox.state).waiting += 1;
        Self(outbox)
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const CHARGE: usize = MESSAGE_CHARGE as usize;

    fn message(len: usize) -> Outgoing {
        Outgoing::new(vec![0; len].into())
    }

    fn put(outbox: &Outbox, len: usize, limit: usize) -> Result<(), Refused> {
        let result = outbox.try_put(message(len), limit, || Ok(None));
        result.map(|_| ()).map_err(|(refused, payload)| {
            assert_eq!(payload.len(), len, "what is refused is given back");
            refused
        })
    }

    #[test]
    fn an_empty_queue_takes_any_length_and_a_full_one_none() {
        let outbox = Outbox::default();
        assert_eq!(put(&outbox, 1000, 10), Ok(()));
        assert_eq!(put(&outbox, 1, 10), Err(Refused::Full));
        outbox.give_back(1000 + CHARGE - 5);
        assert_eq!(put(&outbox, 0, 5 + CHARGE), Ok(()));
        assert_eq!(put(&outbox, 0, 5 + CHARGE), Err(Refused::Full));
        outbox.close();
        outbox.give_back(10 + CHARGE);
        assert_eq!(put(&outbox, 1, 1000), Err(Refused::Closed));
    }

    #[test]
    fn the_driver_is_told_once_for_all_that_it_then_takes() {
        let outbox = Outbox::default();
        let told = AtomicUsize::new(0);
        let tell = || {
            told.fetch_add(1, Ordering::Relaxed);
            Ok(None)
        };
        let mut taken = OutgoingQueue::new();
        for round in 1..=3 {
            for len in 0..4 {
                outbox
                    .try_put(message(len), 1 << 20, tell)
                    .expect("there is room");
            }
            assert_eq!(told.load(Ordering::Relaxed), round);
            outbox.take(&mut taken);
            let all = core::iter::from_fn(|| taken.pop_front());
            let lens: Vec<_> = all.map(|it| it.payload.len()).collect();
            assert_eq!(lens, [0, 1, 2, 3]);
        }
        let ended = outbox.try_put(message(7), 1 << 20, || Err(DriverEnded));
        assert_eq!(ended.map_err(|(why, _)| why), Err(Refused::Closed));
        outbox.take(&mut taken);
        assert_eq!(taken.len(), 0);
        put(&outbox, 5, 1 << 20).expect("there is room");
        outbox.abandon();
        outbox.take(&mut taken);
        assert_eq!(taken.len(), 0);
    }

    #[test]
    fn many_are_taken_as_far_as_there_is_room_and_none_is_too_long() {
        let outbox = Outbox::default();
        let told = AtomicUsize::new(0);
        let tell = || {
            told.fetch_add(1, Ordering::Relaxed);
            Ok(None)
        };
        let lens = [10, 20, 30, 40, 50];
        let mut many: VecDeque<Bytes> = lens.iter().map(|len| vec![0; *len].into()).collect();
        let mut queue: OutgoingQueue = lens.iter().map(|len| message(*len)).collect();
        let limit = 60 + 3 * CHARGE;
        let of_many = |many: &mut _, longest| outbox.try_put_many(many, (limit, longest), tell);
        assert_eq!(of_many(&mut many, 20), Err(Refused::Full));
        assert_eq!(many.len(), 3, "30 is too long");
        assert_eq!(of_many(&mut many, 100), Err(Refused::Full));
        assert_eq!(
            (many.len(), told.load(Ordering::Relaxed)),
            (2, 1),
            "no room"
        );
        let of_queue = |queue: &mut _| outbox.try_put_queue(queue, limit, tell);
        assert_eq!(of_queue(&mut queue), Err(Refused::Full));
        let mut taken = OutgoingQueue::new();
        outbox.take(&mut taken);
        assert_eq!(taken.len(), 3);
        assert_eq!(of_queue(&mut queue), Err(Refused::Full));
        assert_eq!((queue.len(), told.load(Ordering::Relaxed)), (5, 1));
        outbox.give_back(taken.queued_len());
        assert_eq!(of_queue(&mut queue), Err(Refused::Full));
        assert_eq!((queue.len(), told.load(Ordering::Relaxed)), (2, 2));
        outbox.give_back(usize::MAX);
        assert_eq!(of_queue(&mut queue), Ok(()));
        assert_eq!(of_queue(&mut queue), Ok(()), "nothing is always taken");
        // What goes nowhere stays with who sends it.
        outbox.take(&mut OutgoingQueue::new());
        outbox.give_back(usize::MAX);
        let ended = outbox.try_put_many(&mut many, (limit, 100), || Err(DriverEnded));
        assert_eq!((ended, many.len()), (Err(Refused::Closed), 2));
    }

    /// One that missed its wake-up would wait for ever.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn many_who_wait_all_get_their_turn() {
        const SENDERS: usize = 8;
        const ROUNDS: usize = 2000;
        let outbox = Arc::new(Outbox::default());
        let (told, mut tellings) = tokio::sync::mpsc::unbounded_channel();
        for number in 0..SENDERS {
            let (outbox, told) = (Arc::clone(&outbox), told.clone());
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    let tell = || told.send(()).map(|()| None).map_err(|_| DriverEnded);
                    let len = 1 + (number + round) % 3;
                    let put = outbox.put(message(len), 2 * CHARGE, tell).await;
                    assert!(put.is_some());
                }
            });
        }
        drop(told);
        let (mut count, mut taken) = (0, OutgoingQueue::new());
        while let Some(()) = tellings.recv().await {
            outbox.take(&mut taken);
            while let Some(message) = taken.pop_front() {
                outbox.give_back(message.queued_len());
                count += 1;
            }
        }
        assert_eq!(count, SENDERS * ROUNDS);
        let state = lock(&outbox.state);
        assert_eq!((state.taken, state.waiting), (0, 0));
    }

    #[tokio::test]
    async fn who_waits_hears_of_the_end_and_who_gives_up_is_not_counted() {
        let outbox = Outbox::default();
        let put = |len| outbox.put(message(len), 4, || Ok(None));
        assert!(put(4).await.is_some());
        let (waited, gave_up, ()) = tokio::join!(
            biased;
            put(1),
            async {
                tokio::select! {
                    biased;
                    taken = put(1) => taken.is_some(),
                    () = tokio::task::yield_now() => true,
                }
            },
            async {
                assert_eq!(lock(&outbox.state).waiting, 2);
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
                assert_eq!(lock(&outbox.state).waiting, 1);
                outbox.close();
            },
        );
        assert!(waited.is_none() && gave_up && outbox.is_closed());
        assert_eq!(lock(&outbox.state).waiting, 0);
    }
}
