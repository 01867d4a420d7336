//! Two threads that wake each other in turn.

use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use super::clock::thread_time;
use super::error::LeechError;
use super::lock;
use super::work::Work;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Leech,
    Partner,
    Over,
}

#[derive(Debug)]
struct State {
    turn: Turn,
    /// Processor time of the partner, when it had its turn last.
    partner: Duration,
}

#[derive(Debug)]
struct Baton {
    state: Mutex<State>,
    /// Waited for by one of the two at a time, but at the end.
    passed: Condvar,
}

impl Baton {
    /// Waits while the turn is `other`'s; whose it is then.
    fn wait(&self, other: Turn) -> Turn {
        let mut state = lock(&self.state);
        while state.turn == other {
            state = match self.passed.wait(state) {
                Ok(state) => state,
                Err(poisoned) => poisoned.into_inner(),
            };
        }
        state.turn
    }

    fn pass(&self, turn: Turn) {
        lock(&self.state).turn = turn;
        // After the lock, or who wakes would wait for that.
        self.passed.notify_all();
    }
}

/// The leech's half. The partner is kept where the leech is, as threads are where the one that starts them is kept.
#[derive(Debug)]
pub(super) struct Switches {
    baton: Arc<Baton>,
    partner: Option<JoinHandle<()>>,
}

impl Switches {
    pub(super) fn start() -> Result<Self, LeechError> {
        let baton = Arc::new(Baton {
            state: Mutex::new(State {
                turn: Turn::Leech,
                partner: Duration::ZERO,
            }),
            passed: Condvar::new(),
        });
        let theirs = Arc::clone(&baton);
        let builder = std::thread::Builder::new().name("leech-partner".to_owned());
        let partner = builder.spawn(move || partner(&theirs));
        let partner = partner.map_err(|source| LeechError::Thread { source })?;
        Ok(Self {
            baton,
            partner: Some(partner),
        })
    }
}

fn partner(baton: &Baton) {
    while baton.wait(Turn::Leech) == Turn::Partner {
        let mut state = lock(&baton.state);
        state.partner = thread_time();
        if state.turn == Turn::Partner {
            state.turn = Turn::Leech;
        }
        drop(state);
        baton.passed.notify_all();
    }
}

impl Work for Switches {
    fn run(&mut self, count: u64) -> u64 {
        // There and back are two.
        let rounds = count.div_ceil(2);
        for _ in 0..rounds {
            self.baton.pass(Turn::Partner);
            self.baton.wait(Turn::Partner);
        }
        2 * rounds
    }

    fn elsewhere(&mut self) -> Duration {
        lock(&self.baton.state).partner
    }
}

impl Drop for Switches {
    fn drop(&mut self) {
        self.baton.pass(Turn::Over);
        if let Some(partner) = self.partner.take() {
            let _ = partner.join();
        }
    }
}
