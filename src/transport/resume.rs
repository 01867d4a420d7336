//! Sessions that go on over another connection: how a connector connects again, and how an acceptor finds the session
//! that a connection is for.

use core::any::Any;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, Weak};

use bytes::BytesMut;
use tokio::sync::mpsc;
use tokio::time::Sleep;

use super::PeerIdentity;
use super::shared::lock;

/// How sessions outlive their connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeConfig {
    pub(super) within: Duration,
    pub(super) memory: usize,
    pub(super) first_wait: Duration,
    pub(super) most_wait: Duration,
}

impl Default for ResumeConfig {
    /// Arbitrary: an outage of half a minute, and the windows of 16 streams.
    fn default() -> Self {
        Self {
            within: Duration::from_secs(30),
            memory: 16 << 20,
            first_wait: Duration::from_millis(50),
            most_wait: Duration::from_secs(5),
        }
    }
}

impl ResumeConfig {
    /// How long a session waits for another connection. Default 30 s.
    #[must_use]
    pub const fn within(mut self, limit: Duration) -> Self {
        self.within = limit;
        self
    }

    /// About how many bytes of messages that were sent are kept until they are acknowledged; with so many, nothing more
    /// is sent for a while. Default 16 MiB.
    #[must_use]
    pub const fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// How long a connector waits before it connects again: up to `first` before the first attempt, up to twice as
    /// long before each further one, up to `most`; how long within that is drawn at random, so that many whose
    /// peer comes back do not all come at once. Default 50 ms and 5 s.
    #[must_use]
    pub const fn wait(mut self, first: Duration, most: Duration) -> Self {
        self.first_wait = first;
        self.most_wait = most;
        self
    }
}

/// How long one attempt to connect may take. Arbitrary.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

type Dialing<I> = Pin<Box<dyn Future<Output = io::Result<I>> + Send>>;
pub(super) type Dial<I> = Box<dyn Fn() -> Dialing<I> + Send>;

/// A connector's way to another connection.
pub(super) struct Redial<I> {
    dial: Dial<I>,
    config: ResumeConfig,
    rng: fastrand::Rng,
    /// Attempts since a connection last stood.
    attempts: u32,
    state: RedialState<I>,
}

enum RedialState<I> {
    Idle,
    Waiting(Pin<Box<Sleep>>),
    Dialing(Dialing<I>),
}

impl<I: 'static> Redial<I> {
    pub(super) fn new(dial: Dial<I>, config: ResumeConfig, seed: u64) -> Self {
        Self {
            dial,
            config,
            rng: fastrand::Rng::with_seed(seed),
            attempts: 0,
            state: RedialState::Idle,
        }
    }

    /// The connection is lost, the last of so many that were of no use.
    pub(super) fn begin_after(&mut self, fruitless: u32) {
        self.attempts = self.attempts.max(fruitless);
        self.begin();
    }

    fn begin(&mut self) {
        let wait = self.next_wait();
        self.state = RedialState::Waiting(Box::pin(tokio::time::sleep(wait)));
    }

    /// How long to wait before the next attempt, drawn anew for each.
    fn next_wait(&mut self) -> Duration {
        let most = most_wait(&self.config, self.attempts);
        self.attempts = self.attempts.saturating_add(1);
        most.mul_f64(self.rng.f64())
    }

    /// Another connection, once there is one.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Option<I> {
        loop {
            match &mut self.state {
                RedialState::Idle => return None,
                RedialState::Waiting(sleep) => {
                    if sleep.as_mut().poll(cx).is_pending() {
                        return None;
                    }
                    let dialing = (self.dial)();
                    self.state = RedialState::Dialing(Box::pin(async move {
                        tokio::time::timeout(DIAL_TIMEOUT, dialing)
                            .await
                            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
                    }));
                }
                RedialState::Dialing(dialing) => match dialing.as_mut().poll(cx) {
                    Poll::Pending => return None,
                    Poll::Ready(Ok(io)) => {
                        self.state = RedialState::Idle;
                        return Some(io);
                    }
                    Poll::Ready(Err(_)) => self.begin(),
                },
            }
        }
    }
}

/// Where another connection comes from when this one is lost.
pub(super) enum Another<I> {
    /// From nowhere: the session ends with it.
    None,
    Dialed(Redial<I>),
    Arriving(Arrivals<I>),
}

impl<I: 'static> Another<I> {
    /// A connection stands.
    pub(super) fn on_connected(&mut self) {
        if let Self::Dialed(redial) = self {
            redial.attempts = 0;
        }
    }
}

/// A connection, what was read of it already, and where another one would come from.
pub(super) struct Carrier<I> {
    pub(super) io: I,
    pub(super) input: BytesMut,
    pub(super) another: Another<I>,
}

impl<I> Carrier<I> {
    /// One that no other takes the place of.
    pub(super) fn only(io: I, input: BytesMut) -> Self {
        Self {
            io,
            input,
            another: Another::None,
        }
    }
}

/// The longest wait before an attempt after so many.
fn most_wait(config: &ResumeConfig, attempts: u32) -> Duration {
    let factor = 2_u32.saturating_pow(attempts);
    config
        .first_wait
        .saturating_mul(factor)
        .min(config.most_wait)
}

/// Takes a connection whose hello says that it is for this session, with what was read of it.
trait Attach: Send + Sync {
    /// It is given back if it is of another kind, or if the session is over.
    fn attach(
        &self,
        io: Box<dyn Any + Send>,
        input: BytesMut,
    ) -> Result<(), (Box<dyn Any + Send>, BytesMut)>;
}

struct Door<I>(mpsc::UnboundedSender<(I, BytesMut)>);

impl<I: Send + 'static> Attach for Door<I> {
    fn attach(
        &self,
        io: Box<dyn Any + Send>,
        input: BytesMut,
    ) -> Result<(), (Box<dyn Any + Send>, BytesMut)> {
        // A session over one kind of carrier does not go on over another.
        match io.downcast::<I>() {
            Ok(io) => self.0.send((*io, input)).map_err(|back| {
                let (io, input) = back.0;
                (Box::new(io) as Box<dyn Any + Send>, input)
            }),
            Err(io) => Err((io, input)),
        }
    }
}

/// The sessions of a node that may be resumed, by their secret names.
#[derive(Default)]
pub(super) struct Resumable {
    doors: Mutex<HashMap<[u8; 16], Entrance>>,
}

/// Who may come in, and where.
type Entrance = (Option<PeerIdentity>, Arc<dyn Attach>);

impl core::fmt::Debug for Resumable {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // Not the names.
        f.debug_struct("Resumable")
            .field("sessions", &lock(&self.doors).len())
            .finish()
    }
}

/// Where a session's further connections come in; as long as it lives, they find it.
pub(super) struct Arrivals<I> {
    inbox: mpsc::UnboundedReceiver<(I, BytesMut)>,
    token: [u8; 16],
    registry: Weak<Resumable>,
}

impl<I> Drop for Arrivals<I> {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            lock(&registry.doors).remove(&self.token);
        }
    }
}

impl<I> Arrivals<I> {
    /// Of a lane beside the first, which is found by its connection's: where its carriers come in, and out.
    #[cfg(feature = "quic")]
    pub(super) fn of_lane(token: [u8; 16]) -> (mpsc::UnboundedSender<(I, BytesMut)>, Self) {
        let (sender, inbox) = mpsc::unbounded_channel();
        let arrivals = Self {
            inbox,
            token,
            registry: Weak::new(),
        };
        (sender, arrivals)
    }

    /// The secret name of the session.
    pub(super) const fn token(&self) -> &[u8; 16] {
        &self.token
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Option<(I, BytesMut)> {
        match self.inbox.poll_recv(cx) {
            Poll::Ready(arrival) => arrival,
            Poll::Pending => None,
        }
    }
}

impl Resumable {
    /// Has connections with this token find their session, if their peer has proved to be the same.
    pub(super) fn register<I: Send + 'static>(
        self: &Arc<Self>,
        token: [u8; 16],
        identity: Option<PeerIdentity>,
    ) -> Arrivals<I> {
        let (sender, inbox) = mpsc::unbounded_channel();
        lock(&self.doors).insert(token, (identity, Arc::new(Door(sender))));
        Arrivals {
            inbox,
            token,
            registry: Arc::downgrade(self),
        }
    }

    /// Gives a connection to the session that it is for, or back if there is none.
    pub(super) fn attach<I: Send + 'static>(
        &self,
        token: &[u8; 16],
        identity: Option<PeerIdentity>,
        io: I,
        input: BytesMut,
    ) -> Result<(), (I, BytesMut)> {
        let door = lock(&self.doors).get(token).cloned();
        let Some((_, door)) = door.filter(|(of, _)| *of == identity) else {
            return Err((io, input));
        };
        door.attach(Box::new(io), input)
            .map_err(|(io, input)| match io.downcast::<I>() {
                Ok(io) => (*io, input),
                Err(_) => unreachable!("what is given back is what was given"),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let config =
            ResumeConfig::default().wait(Duration::from_millis(10), Duration::from_millis(100));
        let waits: Vec<_> = [0, 1, 2, 3, 4, 40]
            .map(|attempts| most_wait(&config, attempts).as_millis())
            .into();
        assert_eq!(waits, [10, 20, 40, 80, 100, 100]);
    }

    const FIRST: Duration = Duration::from_millis(10);
    const MOST: Duration = Duration::from_millis(100);

    fn redial(seed: u64) -> Redial<()> {
        let config = ResumeConfig::default().wait(FIRST, MOST);
        Redial::new(Box::new(|| Box::pin(core::future::pending())), config, seed)
    }

    #[test]
    fn waits_of_the_same_attempt_differ_and_keep_to_their_bounds() {
        let bounds = [10, 20, 40, 80, 100, 100].map(Duration::from_millis);
        let waits: Vec<Vec<Duration>> = (0..200)
            .map(|seed| {
                let mut redial = redial(seed);
                bounds.iter().map(|_| redial.next_wait()).collect()
            })
            .collect();
        for (attempt, most) in bounds.into_iter().enumerate() {
            let mut of: Vec<_> = waits.iter().map(|waits| waits[attempt]).collect();
            of.sort_unstable();
            // Of 200 that come back together no two come at the same time, and they are spread over all of the wait.
            assert!(
                of.windows(2).all(|two| two[0] < two[1]),
                "{attempt}: {of:?}"
            );
            assert!(of[of.len() - 1] <= most, "{attempt}: {of:?}");
            for tenth in 0..10 {
                let [from, to] = [tenth, tenth + 1].map(|it| most * it / 10);
                let count = of.iter().filter(|it| (from..to).contains(*it)).count();
                assert!(
                    count > 4,
                    "{attempt}: {count} of 200 from {from:?} to {to:?}"
                );
            }
        }
        // One that waits with the same settings again and again draws anew as well.
        let mut redial = redial(1);
        let capped: Vec<_> = (0..20).map(|_| redial.next_wait()).skip(4).collect();
        assert!(capped.windows(2).all(|two| two[0] != two[1]), "{capped:?}");
    }

    #[tokio::test]
    async fn what_was_drawn_is_waited_and_a_connection_that_stands_ends_the_growth() {
        let (mut redial, mut same) = (redial(7), redial(7));
        for attempts in 1..10 {
            let before = tokio::time::Instant::now();
            redial.begin_after(0);
            let after = tokio::time::Instant::now();
            let wait = same.next_wait();
            let RedialState::Waiting(sleep) = &redial.state else {
                panic!("it does not wait");
            };
            let due = sleep.deadline();
            assert!(before + wait <= due && due <= after + wait, "{wait:?}");
            assert_eq!(redial.attempts, attempts);
        }
        let mut another = Another::Dialed(redial);
        another.on_connected();
        let Another::Dialed(mut redial) = another else {
            panic!("it is dialed");
        };
        assert!(redial.next_wait() <= FIRST);
        // It stood each time, and was of no use.
        let attempts = [1, 2, 3, 4].map(|fruitless| {
            redial.attempts = 0;
            redial.begin_after(fruitless);
            redial.attempts
        });
        assert_eq!(attempts, [2, 3, 4, 5]);
    }

    #[test]
    fn a_connection_finds_its_session_while_that_lives() {
        let registry = Arc::new(Resumable::default());
        let [one, other] = [&b"one"[..], b"another"]
            .map(PeerIdentity::of_public_key)
            .map(Some);
        let arrivals: Arrivals<u32> = registry.register([7; 16], one);
        let hello = || BytesMut::from(&b"hello"[..]);
        let attach = |token: u8| registry.attach(&[token; 16], one, 1_u32, hello());
        assert_eq!(attach(7), Ok(()));
        assert_eq!(attach(8), Err((1, hello())), "another session");
        for identity in [None, other] {
            let taken = registry.attach(&[7; 16], identity, 1_u32, hello());
            assert_eq!(taken, Err((1, hello())), "another peer");
        }
        let taken = registry.attach(&[7; 16], one, "another carrier", hello());
        assert_eq!(taken, Err(("another carrier", hello())));
        drop(arrivals);
        assert_eq!(attach(7), Err((1, hello())));
    }
}
