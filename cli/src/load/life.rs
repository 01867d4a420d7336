//! When the program is to end before its time: the user's wish, and the death of who started it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;

/// How often it is looked whether the program is to end.
const LOOK: Duration = Duration::from_millis(20);

/// Whether the program is to end: Ctrl-C, SIGTERM, or the program that started it is gone, whatever ended it.
///
/// Leeches are threads and die with this process; but this process would go on, and take a machine's resources for who is no longer there to stop it. So the kernel is asked for a
/// signal when the parent ends (`PR_SET_PDEATHSIG`). That comes when the parent's *thread* that started us ends, too: only with another parent than before is it the end. And a
/// parent that ended before the kernel was asked is found by asking for it afterwards. (One that was gone before this function is not: then this program was started to be
/// by itself, or it is for [`watch_of`].)
pub(crate) fn watch() -> Result<Arc<AtomicBool>, Failure> {
    watch_of(getppid())
}

/// The same for a program that was told who its parent is: one that was gone before this function is found, too.
pub(super) fn watch_of(parent: Option<Pid>) -> Result<Arc<AtomicBool>, Failure> {
    let is_over = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (mut interrupt, mut terminate, mut orphaned) = {
        let _context = runtime.enter();
        (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::user_defined2())?,
        )
    };
    // After the handler: by itself the signal would end the process in the middle of a line.
    set_parent_process_death_signal(Some(Signal::USR2))?;
    if getppid() != parent {
        is_over.store(true, Ordering::Relaxed);
    }
    let told = Arc::clone(&is_over);
    std::thread::spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => break,
                    _ = terminate.recv() => break,
                    _ = orphaned.recv() => if getppid() != parent { break },
                }
            }
        });
        told.store(true, Ordering::Relaxed);
    });
    Ok(is_over)
}

/// Does what may wait for others, such as reading a file that is a pipe, unless the program is to end meanwhile.
pub(crate) fn unless_over<T: Send + 'static>(
    is_over: &AtomicBool,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let worker = std::thread::spawn(work);
    while !worker.is_finished() {
        if is_over.load(Ordering::Relaxed) {
            // The thread ends with the program.
            return Err(Failure::Interrupted);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    match worker.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Until the program is to end, as [`watch`] says.
pub(crate) async fn interrupted(is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        tokio::time::sleep(LOOK).await;
    }
}
