//! What the system says of the threads that run drivers, from files that are open as long as there is any driver.
//!
//! To open one takes several times as long as to read it. One for each connection would be many; one that a thread keeps for itself
//! would stay when all connections are gone.

use core::cell::RefCell;
use core::time::Duration;
use std::fs::File;
use std::sync::{Arc, Mutex, Weak};

use crate::thread::Schedule;
use crate::transport::shared::lock;

/// Shared by all drivers of the process.
static OF_PROCESS: Mutex<Weak<Schedules>> = Mutex::new(Weak::new());

thread_local! {
    /// This thread's, as long as it is open.
    static MINE: RefCell<Weak<File>> = const { RefCell::new(Weak::new()) };
}

#[derive(Debug, Default)]
pub(super) struct Schedules {
    open: Mutex<Vec<Arc<File>>>,
}

impl Schedules {
    pub(super) fn of_process() -> Arc<Self> {
        let mut shared = lock(&OF_PROCESS);
        shared.upgrade().unwrap_or_else(|| {
            let schedules = Arc::default();
            *shared = Arc::downgrade(&schedules);
            schedules
        })
    }

    /// For how long this thread has been awake since it began, if the system tells: it ran, or was ready to.
    pub(super) fn awake(&self) -> Option<Duration> {
        // Not while the thread ends.
        let mine = MINE.try_with(|mine| self.mine(&mut mine.borrow_mut()));
        let schedule = Schedule::read(&*mine.ok()??)?;
        Some(schedule.running.saturating_add(schedule.ready))
    }

    fn mine(&self, mine: &mut Weak<File>) -> Option<Arc<File>> {
        if let Some(file) = mine.upgrade() {
            return Some(file);
        }
        let file = Arc::new(Schedule::open()?);
        *mine = Arc::downgrade(&file);
        let mut open = lock(&self.open);
        // Those of threads that have ended cannot be read.
        open.retain(|file| Schedule::read(file).is_some());
        open.push(Arc::clone(&file));
        Some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_one_file_as_long_as_it_is_there_and_somebody_asks() {
        let schedules = Schedules::default();
        let count = || lock(&schedules.open).len();
        assert!(schedules.awake().is_some() && schedules.awake().is_some());
        assert_eq!(count(), 1);
        for _ in 0..3 {
            std::thread::scope(|scope| scope.spawn(|| schedules.awake()).join().expect("no panic"));
            assert_eq!(count(), 2, "its own, and at most the last one's");
        }
        let mine = MINE.with(|mine| mine.borrow().clone());
        drop(schedules);
        assert!(mine.upgrade().is_none());
        assert!(Schedules::default().awake().is_some(), "opened again");
    }
}
