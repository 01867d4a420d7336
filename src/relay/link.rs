//! One direction of the link: who may send when, and the bytes of one connection on their way.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::sync::watch;
use tokio::time::Instant;

use super::faults::Faults;
use super::socket::Socket;
use super::timer::Timer;
use super::{LinkConfig, now};

/// One direction, shared by all connections.
#[derive(Debug)]
pub(super) struct Link {
    state: Mutex<State>,
    carried: AtomicU64,
    pub(super) faults: Faults,
}

#[derive(Debug)]
struct State {
    config: LinkConfig,
    /// When the link has sent everything that was put on it.
    free_at: Instant,
}

/// How far the link may be behind: a thread that wakes late, on a machine that is busy.
const CATCH_UP: Duration = Duration::from_millis(2);
/// What is put on the link in one piece takes this long: as coarse as timers and threads allow. With 1 ms, which is a packet at 12 Mbit/s, acknowledgements
/// of what a real link brings one by one came all at once. ..
const QUANTUM: f64 = 250e-6;
/// .. but is no less than an Ethernet packet's payload.
const PACKET: usize = 1448;
/// And no more than this, if unshaped.
const MAX_PIECE: usize = 256 * 1024;
/// Bytes in the delay line of an unshaped link. Arbitrary: 10 Gbit/s over 50 ms.
const MAX_IN_FLIGHT: usize = 64 << 20;

impl Link {
    pub(super) fn new(now: Instant, config: LinkConfig) -> Self {
        Self {
            state: Mutex::new(State {
                config,
                free_at: now,
            }),
            carried: AtomicU64::new(0),
            faults: Faults::default(),
        }
    }

    pub(super) fn configure(&self, now: Instant, config: LinkConfig) {
        let mut state = self.lock();
        state.config = config;
        // What was being sent at the old rate is sent anew at this one.
        state.free_at = now;
    }

    pub(super) fn carried(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }

    pub(super) fn config(&self) -> LinkConfig {
        self.lock().config
    }

    /// Puts a piece of `waiting` bytes on the link. `late` says that they have been waiting for the
    /// link and not the link for them, so that it may catch up on what it missed.
    fn reserve(&self, now: Instant, waiting: usize, late: bool) -> Piece {
        let mut state = self.lock();
        let Some(rate) = state.config.rate else {
            return Piece {
                len: waiting.min(MAX_PIECE),
                sent_at: now,
            };
        };
        let slack = if late { CATCH_UP } else { Duration::ZERO };
        let start = now
            .checked_sub(slack)
            .map_or(now, |earliest| earliest.max(state.free_at));
        let len = waiting.min(PACKET.max((rate.get() * QUANTUM) as usize));
        // A packet at an absurdly low rate takes for ever; a day is long enough.
        let nanos = rate.nanos_for(len as f64).min(86_400e9);
        state.free_at = start + Duration::from_nanos(nanos as u64);
        Piece {
            len,
            sent_at: state.free_at,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes being sent.
#[derive(Clone, Copy, Debug)]
struct Piece {
    len: usize,
    sent_at: Instant,
}

/// The bytes of one connection in one direction.
///
/// ```text
/// socket --> queue --[sending]--> flight --(delay)--> arrived --> socket
/// ```
#[derive(Debug, Default)]
struct Pipe {
    queue: BytesMut,
    /// The piece at the queue's head that is on the link.
    sending: Option<Piece>,
    flight: VecDeque<(Instant, Bytes)>,
    flight_len: usize,
    arrived: VecDeque<Bytes>,
    arrived_len: usize,
    end_of_input: bool,
    /// Everything is lost, from the socket on.
    is_silent: bool,
}

impl Pipe {
    /// Moves on whatever can move at `now`.
    fn advance(&mut self, now: Instant, link: &Link, config: &LinkConfig) {
        // A piece that follows another without a gap has been waiting.
        let mut late = false;
        loop {
            if self.sending.is_none() && !self.queue.is_empty() {
                if config.rate.is_none() && self.flight_len >= MAX_IN_FLIGHT {
                    break;
                }
                self.sending = Some(link.reserve(now, self.queue.len(), late));
            }
            let Some(piece) = self.sending.filter(|piece| piece.sent_at <= now) else {
                break;
            };
            let bytes = self.queue.split_to(piece.len).freeze();
            self.flight_len += bytes.len();
            self.flight.push_back((piece.sent_at + config.delay, bytes));
            self.sending = None;
            late = true;
        }
        while self.flight.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, bytes)) = self.flight.pop_front() else {
                break;
            };
            self.flight_len -= bytes.len();
            self.arrived_len += bytes.len();
            self.arrived.push_back(bytes);
        }
    }

    /// When [`Pipe::advance`] can do more.
    fn next_at(&self) -> Option<Instant> {
        let sent = self.sending.map(|piece| piece.sent_at);
        let due = self.flight.front().map(|(due, _)| *due);
        sent.into_iter().chain(due).min()
    }

    /// How much the queue takes. What the far end does not accept counts as queued.
    fn room(&self, config: &LinkConfig) -> usize {
        if self.end_of_input {
            return 0;
        }
        config
            .queue_len()
            .saturating_sub(self.queue.len() + self.arrived_len)
    }

    fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.flight.is_empty() && self.arrived.is_empty()
    }

    /// Gives what has arrived to `to`, as far as it accepts it.
    fn deliver(&mut self, to: &Socket, link: &Link) -> io::Result<()> {
        self.damage(&link.faults);
        while let Some(bytes) = self.arrived.front_mut() {
            let most = bytes.len().min(link.faults.most_written());
            let written = match to.try_write(&bytes[..most]) {
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            bytes.advance(written);
            if bytes.is_empty() {
                self.arrived.pop_front();
            }
            self.arrived_len -= written;
            link.carried.fetch_add(written as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Damages the piece that is delivered next, if that was asked for.
    fn damage(&mut self, faults: &Faults) {
        let Some(bytes) = self.arrived.front_mut() else {
            return;
        };
        let Some(damage) = faults.take_damage() else {
            return;
        };
        let (damaged, goes_on) = damage.apply(bytes);
        if goes_on {
            *bytes = damaged;
            return;
        }
        self.silence();
        self.arrived_len = damaged.len();
        if !damaged.is_empty() {
            self.arrived.push_back(damaged);
        }
    }

    /// Loses what is on its way, and all that comes.
    fn silence(&mut self) {
        *self = Self {
            end_of_input: self.end_of_input,
            is_silent: true,
            ..Self::default()
        };
    }

    /// Takes from `from` what it has, up to `room`.
    fn take(&mut self, from: &Socket, room: usize) -> io::Result<()> {
        match from.try_read(&mut self.queue, room) {
            Ok(0) => self.end_of_input = true,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if self.is_silent {
            self.queue.clear();
        }
        Ok(())
    }
}

/// Carries bytes until the end of `from`'s input, which it passes on to `to`.
pub(super) async fn carry(
    from: &Socket,
    to: &Socket,
    link: &Link,
    timer: &Timer,
    mut changed: watch::Receiver<()>,
) -> io::Result<()> {
    let mut pipe = Pipe::default();
    let mut config = link.config();
    let silences = link.faults.silences();
    from.set_buffers(&config);
    loop {
        pipe.advance(now(), link, &config);
        pipe.deliver(to, link)?;
        if pipe.end_of_input && pipe.is_drained() {
            return to.shutdown_write();
        }
        let next_at = pipe.next_at();
        let room = pipe.room(&config);
        tokio::select! {
            biased;
            // The sender lives as long as the relay, and so does this task.
            _ = changed.changed() => {
                config = link.config();
                from.set_buffers(&config);
                pipe.sending = None;
                if link.faults.silences() != silences {
                    pipe.silence();
                }
            }
            () = timer.sleep_until(next_at), if next_at.is_some() => {}
            writable = to.writable(), if pipe.arrived_len > 0 => writable?,
            readable = from.readable(), if room > 0 => {
                readable?;
                pipe.take(from, room)?;
            }
        }
    }
}

/// Takes what comes until its end, and tells nobody.
pub(super) async fn swallow(from: &Socket) -> io::Result<()> {
    let mut nothing = Pipe {
        is_silent: true,
        ..Pipe::default()
    };
    while !nothing.end_of_input {
        from.readable().await?;
        nothing.take(from, MAX_PIECE)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::BytesPerSec;

    fn link(bytes_per_sec: f64) -> (Link, Instant) {
        let start = now();
        let config = LinkConfig::with_rate(BytesPerSec::new(bytes_per_sec).unwrap());
        (Link::new(start, config), start)
    }

    #[test]
    fn pieces_follow_each_other_at_the_rate() {
        let (link, start) = link(1e6);
        let first = link.reserve(start, 1000, false);
        let second = link.reserve(start, 5000, false);
        assert_eq!(first.sent_at - start, Duration::from_millis(1));
        assert_eq!(second.len, PACKET);
        assert_eq!(second.sent_at - start, Duration::from_micros(2448));
    }

    #[test]
    fn an_idle_link_earns_nothing_and_a_late_one_catches_up_a_little() {
        let (link, start) = link(1e6);
        let later = start + Duration::from_secs(1);
        let idle = link.reserve(later, 1000, false);
        assert_eq!(idle.sent_at - later, Duration::from_millis(1));
        let much_later = start + Duration::from_secs(2);
        let late = link.reserve(much_later, 1000, true);
        assert_eq!(much_later - late.sent_at, Duration::from_millis(1));
    }

    #[test]
    fn bytes_arrive_after_rate_and_delay() {
        let (link, start) = link(1e6);
        let mut config = link.config();
        config.delay = Duration::from_millis(10);
        let mut pipe = Pipe::default();
        pipe.queue.extend_from_slice(&[7; 1000]);
        pipe.advance(start, &link, &config);
        assert_eq!(pipe.next_at(), Some(start + Duration::from_millis(1)));
        pipe.advance(start + Duration::from_millis(1), &link, &config);
        assert_eq!(pipe.next_at(), Some(start + Duration::from_millis(11)));
        assert_eq!((pipe.flight_len, pipe.arrived_len), (1000, 0));
        pipe.advance(start + Duration::from_millis(11), &link, &config);
        assert_eq!((pipe.flight_len, pipe.arrived_len), (0, 1000));
    }

    #[test]
    fn what_nobody_takes_fills_the_queue() {
        let (link, start) = link(1e9);
        let mut config = link.config();
        config.queue = Some(3000);
        let mut pipe = Pipe::default();
        assert_eq!(pipe.room(&config), 3000);
        pipe.queue.extend_from_slice(&[7; 2000]);
        assert_eq!(pipe.room(&config), 1000);
        pipe.advance(start, &link, &config);
        pipe.advance(start + Duration::from_secs(1), &link, &config);
        assert_eq!(pipe.arrived_len, 2000);
        assert_eq!(pipe.room(&config), 1000);
        pipe.end_of_input = true;
        assert_eq!(pipe.room(&config), 0);
    }
}
