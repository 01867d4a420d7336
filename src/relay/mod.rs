//! A link of a chosen rate and delay between two sockets of one machine, without privileges: for
//! demonstrations, tests and benches.
//!
//! ```text
//!  client --socket--> [ queue ] --rate--> [ delay line ] --socket--> target    and the same back
//! ```
//!
//! Each direction is a link of its own, shared by all connections of the relay. The queue is read
//! into only while it has room and the kernel's buffers are kept small, so that a sender feels the
//! link's backpressure and not the memory of this machine.
//!
//! Bytes arrive a few tens of microseconds late, more on a machine that is busy: a thread's sleep is
//! that exact. The *rate* is kept nevertheless, since the link knows when it ought to be free and
//! catches up on at most 2 ms of bytes.

mod faults;
mod link;
mod socket;
mod timer;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use self::faults::{Damage, End, Ends};
use self::link::{Link, carry, swallow};
pub use self::socket::RelayAddr;
use self::socket::{Listener, Socket};
use self::timer::Timer;
use crate::units::BytesPerSec;

/// The properties of a link, the same in both directions. The default is unshaped.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkConfig {
    /// How fast bytes leave the queue; `None` (default) for as fast as this machine can.
    pub rate: Option<BytesPerSec>,
    /// Propagation delay in one direction, from the queue's end to the target's socket. Default 0.
    /// Bytes on their way take memory: the rate times the delay for each connection and direction.
    pub delay: Duration,
    /// Bytes that wait for the link, for each connection and direction. Default: 32 KiB or 20 ms at
    /// the rate, whichever is more (256 KiB if unshaped); 20 ms outlast a few late timers. Longer
    /// queues make a sender's data older before it leaves, as in a router with a bloated buffer.
    pub queue: Option<usize>,
}

impl LinkConfig {
    /// A link of `rate`, without delay, with the default queue.
    pub fn with_rate(rate: BytesPerSec) -> Self {
        Self {
            rate: Some(rate),
            ..Self::default()
        }
    }

    fn queue_len(&self) -> usize {
        const LEAST: usize = 32 * 1024;
        const UNSHAPED: usize = 256 * 1024;
        let queue = self.queue.unwrap_or_else(|| match self.rate {
            Some(rate) => LEAST.max((rate.get() * 0.02) as usize),
            None => UNSHAPED,
        });
        queue.max(1)
    }
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayFault {
    /// The connections are cut: what is on its way is lost, and both ends see the end.
    Cut,
    /// The connections are cut for one side alone. To the other they stay open: nothing comes on them, what it sends is lost, and nobody tells it, until it
    /// closes them itself or the next fault of these does.
    HalfOpen {
        /// To the client, so that the target sees the end.
        client: bool,
    },
    /// Everything in one direction is lost from now on, and nobody is told. That the sender closes the connection is told all the same.
    Silence {
        /// From the client to the target.
        forward: bool,
    },
    /// One bit changes of what arrives next in one direction.
    Damage {
        /// From the client to the target.
        forward: bool,
        /// Which bit of the piece, modulo their number.
        bit: u64,
    },
    /// Up to eight bytes in a row change of what arrives next in one direction.
    Garble {
        /// From the client to the target.
        forward: bool,
        /// Where in the piece, modulo its length.
        at: u64,
        /// Bits to change; zero bytes stay as they are.
        with: [u8; 8],
    },
    /// What arrives next in one direction ends in its middle, and nothing comes after it, as with [`RelayFault::Silence`].
    Truncate {
        /// From the client to the target.
        forward: bool,
        /// Where in the piece, modulo its length.
        at: u64,
    },
    /// What arrives next in one direction is written a few bytes at a time. Nothing is lost.
    Short {
        /// From the client to the target.
        forward: bool,
        /// Bytes at a time, at least 1.
        len: usize,
        /// For so many writes, those of all connections together.
        writes: u64,
    },
}

/// What a relay has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayStats {
    /// Bytes given to the target.
    pub forward: u64,
    /// Bytes given back to the clients.
    pub backward: u64,
    /// Connections that were accepted.
    pub connections: u64,
    /// Connections that ended with an error, the target's refusal and those that were [`cut`](Self::cut) among them.
    pub failures: u64,
    /// Connections that [`RelayFault::Cut`] ended, or [`RelayFault::HalfOpen`] for one side.
    pub cut: u64,
}

/// A running relay. Dropping it closes its connections and the address it listens on.
#[derive(Debug)]
pub struct Relay {
    local_addr: RelayAddr,
    shared: Arc<Shared>,
    /// Tells the connections to look at the links again.
    changes: watch::Sender<()>,
    acceptor: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    forward: Link,
    backward: Link,
    timer: Timer,
    ends: Ends,
    connections: AtomicU64,
    failures: AtomicU64,
    cut: AtomicU64,
}

impl Relay {
    /// Listens on `listen` (port 0 chooses one) and connects each client to `target` through a link.
    /// Runs on the current tokio runtime, which needs I/O and time.
    ///
    /// # Errors
    ///
    /// The system's, if it cannot listen there or start a thread.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(
        listen: impl Into<RelayAddr>,
        target: impl Into<RelayAddr>,
        config: LinkConfig,
    ) -> io::Result<Self> {
        let listener = Listener::bind(listen.into(), &config)?;
        let local_addr = listener.local_addr()?;
        let now = now();
        let shared = Arc::new(Shared {
            forward: Link::new(now, config),
            backward: Link::new(now, config),
            timer: Timer::start()?,
            ends: Ends::default(),
            connections: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            cut: AtomicU64::new(0),
        });
        let (changes, watcher) = watch::channel(());
        let accept = accept(listener, target.into(), Arc::clone(&shared), watcher);
        Ok(Self {
            local_addr,
            shared,
            changes,
            acceptor: tokio::spawn(accept).abort_handle(),
        })
    }

    /// The address to connect to, with the port that was chosen.
    pub const fn local_addr(&self) -> &RelayAddr {
        &self.local_addr
    }

    /// Changes the link in both directions, for the connections there are and those to come. Takes
    /// effect at once: a packet that is being sent is sent anew. The windows of TCP connections that
    /// were opened at a higher rate stay as wide as they were announced, 64 KiB at most (256 KiB if
    /// unshaped): a bench that starts slow feels the link best.
    pub fn set_link(&self, config: LinkConfig) {
        let now = now();
        self.shared.forward.configure(now, config);
        self.shared.backward.configure(now, config);
        self.changes.send_replace(());
    }

    /// Has something go wrong, once, with the connections that there are; what is done to what arrives next waits for it, also on a connection to come.
    pub fn inject(&self, fault: RelayFault) {
        let on = |forward: bool| {
            let link = if forward {
                &self.shared.forward
            } else {
                &self.shared.backward
            };
            &link.faults
        };
        match fault {
            RelayFault::Cut => self.shared.ends.add(End::Both),
            RelayFault::HalfOpen { client: true } => self.shared.ends.add(End::Target),
            RelayFault::HalfOpen { client: false } => self.shared.ends.add(End::Client),
            RelayFault::Silence { forward } => on(forward).silence(),
            RelayFault::Damage { forward, bit } => on(forward).damage(Damage::Bit(bit)),
            RelayFault::Garble { forward, at, with } => {
                on(forward).damage(Damage::Bytes { at, with });
            }
            RelayFault::Truncate { forward, at } => on(forward).damage(Damage::End { at }),
            RelayFault::Short {
                forward,
                len,
                writes,
            } => on(forward).shorten(len, writes),
        }
        self.changes.send_replace(());
    }

    /// The counters so far.
    pub fn stats(&self) -> RelayStats {
        RelayStats {
            forward: self.shared.forward.carried(),
            backward: self.shared.backward.carried(),
            connections: self.shared.connections.load(Ordering::Relaxed),
            failures: self.shared.failures.load(Ordering::Relaxed),
            cut: self.shared.cut.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // The connections are the acceptor's, and end with it.
        self.acceptor.abort();
    }
}

async fn accept(
    listener: Listener,
    target: RelayAddr,
    shared: Arc<Shared>,
    changed: watch::Receiver<()>,
) {
    /// After a failure (no file descriptors left, usually). Arbitrary.
    const PAUSE: Duration = Duration::from_millis(10);

    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(client) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        shared.connections.fetch_add(1, Ordering::Relaxed);
        let (target, shared, changed) = (target.clone(), Arc::clone(&shared), changed.clone());
        connections.spawn(async move {
            if connect(client, target, &shared, changed).await.is_err() {
                shared.failures.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}

async fn connect(
    client: Socket,
    target: RelayAddr,
    shared: &Shared,
    changed: watch::Receiver<()>,
) -> io::Result<()> {
    let target = Socket::connect(target, &shared.forward.config()).await?;
    let before = shared.ends.done();
    let broken = ended(shared, before, changed.clone());
    let again = changed.clone();
    let carried = async {
        // Either direction may end before the other; an error in one ends both.
        tokio::try_join!(
            carry(
                &client,
                &target,
                &shared.forward,
                &shared.timer,
                changed.clone()
            ),
            carry(&target, &client, &shared.backward, &shared.timer, changed),
        )
    };
    let end = tokio::select! {
        biased;
        end = broken => end,
        carried = carried => return carried.map(|_| ()),
    };
    shared.cut.fetch_add(1, Ordering::Relaxed);
    let open = match end {
        End::Both => None,
        End::Target => {
            drop(target);
            Some(client)
        }
        End::Client => {
            drop(client);
            Some(target)
        }
    };
    if let Some(open) = open {
        let broken = ended(shared, shared.ends.done(), again);
        tokio::select! {
            biased;
            _ = broken => {}
            taken = swallow(&open) => taken?,
        }
    }
    Err(io::ErrorKind::ConnectionAborted.into())
}

/// Waits until a connection, which began when `before` had been done, is to end.
async fn ended(shared: &Shared, before: [u64; 3], mut changed: watch::Receiver<()>) -> End {
    loop {
        if let Some(end) = shared.ends.since(before) {
            return end;
        }
        if changed.changed().await.is_err() {
            // The relay is being dropped, and this task with it.
            return End::Both;
        }
    }
}

/// The one place where the relay reads a clock.
fn now() -> Instant {
    Instant::now()
}

impl From<PathBuf> for RelayAddr {
    fn from(path: PathBuf) -> Self {
        Self::Unix(path)
    }
}
