//! What a session bears from its peer.

use core::time::Duration;

use super::config::ConfigError;
use super::credit::Shares;
use crate::units::{Time, saturating_nanos};
use crate::wire::{MESSAGE_CHARGE, WireError};

/// A stream's window is this part of what the connection may hold, if nothing else is said ..
const WINDOW_SHARE: u64 = 32;
/// .. and so much at least. Both arbitrary: what a loopback carries while the application's thread is woken.
const LEAST_DEFAULT_WINDOW: u64 = 1 << 20;
/// .. and may grow to this part, where the application takes what comes and the way is long. Arbitrary: 8 MiB, by default, are what
/// 1.5 Gbit/s carry in 40 ms.
const GROWN_SHARE: u64 = 8;

/// What a session bears from its peer. Every limit is judged before anything is reserved, and none of them is needed for a
/// peer that keeps to what it was told. How many connections there may be is for whoever accepts them
/// (`transport::Listener`), not for a session; how many dictionaries of what length are taken is a part of whose are
/// ([`SessionConfig::accept_dictionaries`]).
///
/// [`SessionConfig::accept_dictionaries`]: super::SessionConfig::accept_dictionaries
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub(super) max_message: usize,
    pub(super) max_block: usize,
    window: Option<u64>,
    pub(super) connection_memory: Option<usize>,
    pub(super) max_streams: u32,
    pub(super) streams_per_second: u32,
    pub(super) handshake_time: Duration,
    pub(super) idle_time: Option<Duration>,
    pub(super) decode_memory: Option<usize>,
    pub(super) decode_time: Option<Duration>,
    pub(super) expansion: u32,
    pub(crate) connections: usize,
    pub(crate) connections_per_address: usize,
    /// Blocks waiting to be decoded from which on no more input is wanted.
    pub(super) at_once: usize,
    /// Bytes waiting to be written from which on a peer that makes them grow is given up.
    pub(super) output: usize,
}

impl Default for Limits {
    /// Arbitrary where the setter gives no reason.
    fn default() -> Self {
        Self {
            max_message: 16 << 20,
            max_block: 256 << 10,
            window: None,
            connection_memory: None,
            max_streams: 16_384,
            streams_per_second: 16_384,
            handshake_time: Duration::from_secs(10),
            idle_time: None,
            decode_memory: None,
            decode_time: Some(Duration::from_secs(2)),
            expansion: 65_536,
            connections: 8192,
            connections_per_address: 1024,
            at_once: MOST_AT_ONCE as usize,
            output: MAX_OUTPUT,
        }
    }
}

impl Limits {
    /// The longest message received, bytes. The peer is told, and the stream of one that is longer all the same
    /// [ends](super::Event::StreamRefused). Default 16 MiB.
    #[must_use]
    pub const fn max_message(mut self, len: usize) -> Self {
        self.max_message = len;
        self
    }

    /// The longest block received, plain bytes: what decoding one takes in memory. The peer is told. Default 256 KiB; 4 KiB to
    /// 16 MiB.
    #[must_use]
    pub const fn max_block(mut self, len: usize) -> Self {
        self.max_block = len;
        self
    }

    /// What the peer may send ahead of the application on each stream, bytes: payloads and 32 for each
    /// message. The peer is told. At least 4 KiB.
    ///
    /// A stream carries no more than its window in a round trip. If none is set, it begins with 1/32 of
    /// [`Self::connection_memory`], at least 1 MiB: 2 MiB, if that is not set either. It becomes twice as long, and again, up to 1/8
    /// of that memory, where the application takes what comes, the peer has used up what it was given before it can have heard of
    /// more, and all streams together hold little. One that is set stays as it is.
    #[must_use]
    pub const fn window(mut self, bytes: u64) -> Self {
        self.window = Some(bytes);
        self
    }

    pub(super) const fn window_len(&self) -> u64 {
        if let Some(bytes) = self.window {
            return bytes;
        }
        let share = self.connection_memory_len() as u64 / WINDOW_SHARE;
        if share > LEAST_DEFAULT_WINDOW {
            share
        } else {
            LEAST_DEFAULT_WINDOW
        }
    }

    /// What a window may grow to.
    pub(super) fn most_window(&self) -> u64 {
        match self.window {
            Some(bytes) => bytes,
            None => self
                .window_len()
                .max(self.connection_memory_len() as u64 / GROWN_SHARE),
        }
    }

    /// What all streams of a connection together may hold here, bytes, payloads and 32 for each message: what has come and the
    /// application is not done with, and what has come of messages that are not whole. The peer is told half of it or so as credit
    /// and gets more as messages are taken; one that sends more than it was given is refused. At least 16 KiB more than
    /// [`Self::max_message`], for one whole message always finds room beside what nobody reads. Default 64 MiB, or four of
    /// the longest message if that is more. [`SessionStats`](super::SessionStats) has what is held, the most that was, and this
    /// limit.
    ///
    /// Over QUIC, each further lane (docs/quic.md) may hold a MiB more than the longest message besides, as long as it is there.
    ///
    /// # The memory of a connection
    ///
    /// Besides these bytes a connection holds, each with a bound of its own: up to 16 blocks that have come and are not
    /// delivered (encoded and plain, [`Self::max_block`] each), histories
    /// ([`Self::decode_memory`], [`SessionConfig::history_memory`](super::SessionConfig::history_memory)), dictionaries
    /// ([`SessionConfig::accept_dictionaries`](super::SessionConfig::accept_dictionaries)); of what is sent, the queue of each
    /// stream ([`SessionConfig::send_queue`](super::SessionConfig::send_queue)), output that the socket does not take (8 MiB) and, in
    /// sessions that can be resumed, what is not acknowledged
    /// ([`SessionConfig::retransmit_memory`](super::SessionConfig::retransmit_memory)); and some hundred bytes for each
    /// stream ([`Self::max_streams`]). Counted are bytes of messages: a message that is not whole may
    /// have four times its bytes reserved, one that came in a plain block may hold eight times its bytes of what was read with it, and small messages share
    /// the memory of the block that they came in, which is held as long as the last of them, a block for each stream at most.
    #[must_use]
    pub const fn connection_memory(mut self, bytes: usize) -> Self {
        self.connection_memory = Some(bytes);
        self
    }

    /// What is in force as [`Self::connection_memory`], bytes.
    pub const fn connection_memory_len(&self) -> usize {
        if let Some(bytes) = self.connection_memory {
            return bytes;
        }
        let messages = self.max_message.saturating_mul(4);
        if messages > DEFAULT_MEMORY {
            messages
        } else {
            DEFAULT_MEMORY
        }
    }

    /// A quarter for messages that the application waits for, or one of the longest if that is more, a third of the rest for
    /// windows of streams that it reads, and the others for whatever comes. Arbitrary.
    pub(super) fn shares(&self) -> Shares {
        let all = self.connection_memory_len() as u64;
        let longest = self.max_message as u64 + MESSAGE_CHARGE;
        let messages = longest.max(all / 4).min(all);
        let windows = (all - messages) / 3;
        Shares {
            general: all - messages - windows,
            windows,
            messages,
        }
    }

    /// How many streams the peer may have open at once. It is told. Default 16 384.
    #[must_use]
    pub const fn max_streams(mut self, streams: u32) -> Self {
        self.max_streams = streams;
        self
    }

    /// How many streams the peer may open in a second in the long run; in a row, as many as in a second or as it may have
    /// open at once, whichever is more. One that opens more is refused: it is not told the limit, which is above what
    /// streams that are used come to. Default 16 384, at least 1; with more than a thousand million there is no limit.
    #[must_use]
    pub const fn streams_per_second(mut self, streams: u32) -> Self {
        self.streams_per_second = streams;
        self
    }

    /// How long the peer's handshake may take, with that of TLS. Default 10 s.
    #[must_use]
    pub const fn handshake_time(mut self, limit: Duration) -> Self {
        self.handshake_time = limit;
        self
    }

    /// After how long without a message either way, and with none waiting, the session is closed as
    /// [`Session::close`](super::Session::close) does. A message counts when it is given to be sent, and when it has come.
    /// Default `None`: never.
    #[must_use]
    pub const fn idle_time(mut self, limit: Option<Duration>) -> Self {
        self.idle_time = limit;
        self
    }

    /// Memory for histories of what the peer sends, bytes: what it may have held here from block to block. It is told. It cannot
    /// change while the session lasts. Default `None`: as much as for those of what this side sends
    /// ([`SessionConfig::history_memory`](super::SessionConfig::history_memory)). Besides it, a block being decoded takes
    /// its own length.
    #[must_use]
    pub const fn decode_memory(mut self, bytes: Option<usize>) -> Self {
        self.decode_memory = bytes;
        self
    }

    /// Codec time that the peer's blocks may take in a second in the long run; a second's worth may come at once. Beyond it,
    /// nothing is read for a while, at most a second at a time so that heartbeats are heard: the peer is slowed
    /// down, not refused. Default 2 s, arbitrary: one connection keeps two processors busy at most. At least 1 ms; `None`: no limit.
    #[must_use]
    pub const fn decode_time(mut self, per_second: Option<Duration>) -> Self {
        self.decode_time = per_second;
        self
    }

    /// How many times its length on the wire a block may become, if it becomes more than 64 KiB. One that says it is longer
    /// is refused before it is decoded; one that does not say, when it is, up to [`Self::max_block`]. Default 65 536, above what
    /// the codecs here make of zeros in blocks of the default length: [`Self::max_block`] is what bounds a block, this one
    /// is for who lets long blocks in. At least 1.
    #[must_use]
    pub const fn expansion(mut self, times: u32) -> Self {
        self.expansion = times;
        self
    }

    /// How many connections a listener has at once, those counted that are shaking hands or wait to be taken. Default 8192, arbitrary: one
    /// without histories takes about 90 KB (docs/benchmarks.md, "What histories hold"), so that these are 0.7 GB.
    #[must_use]
    pub const fn connections(mut self, count: usize) -> Self {
        self.connections = count;
        self
    }

    /// How many of them there may be from one IP address; those over Unix sockets have none. Default 1024, arbitrary: what many behind
    /// one address have, or a load generator.
    #[must_use]
    pub const fn connections_per_address(mut self, count: usize) -> Self {
        self.connections_per_address = count;
        self
    }

    /// The most plain bytes that a block of so many bytes on the wire may become.
    pub(super) fn expanded(&self, wire_len: usize) -> usize {
        let times = usize::try_from(self.expansion).unwrap_or(usize::MAX);
        wire_len.saturating_mul(times).max(EXPANSION_FLOOR)
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let least = |field, given: u64, min: u64| {
            let (given, min) = (saturating_usize(given), saturating_usize(min));
            if given < min {
                Err(ConfigError::TooSmall { field, given, min })
            } else {
                Ok(())
            }
        };
        least("max_block", self.max_block as u64, 4 << 10)?;
        least("window", self.window_len(), 4 << 10)?;
        least("max_message", self.max_message as u64, 1)?;
        least(
            "connection_memory",
            self.connection_memory_len() as u64,
            self.max_message as u64 + LEAST_BESIDE,
        )?;
        least("streams_per_second", self.streams_per_second.into(), 1)?;
        least("expansion", self.expansion.into(), 1)?;
        if let Some(time) = self.decode_time {
            let (field, min) = ("decode_time, ns", LEAST_DECODE_TIME);
            least(field, saturating_nanos(time), saturating_nanos(min))?;
        }
        if self.max_block > MAX_BLOCK {
            return Err(ConfigError::TooLarge {
                field: "max_block",
                given: self.max_block,
                max: MAX_BLOCK,
            });
        }
        Ok(())
    }
}

/// Memory of a connection by default: in the middle of what comes to be used and what a node of a thousand connections has.
/// Arbitrary.
const DEFAULT_MEMORY: usize = 64 << 20;

/// What there must be beside the longest message. Arbitrary, four of the least windows.
const LEAST_BESIDE: u64 = 16 << 10;

/// The longest block there can be, plain: what one decode may cost in memory. Arbitrary.
const MAX_BLOCK: usize = 16 << 20;

/// Blocks that become no more are not judged by how many times their length that is: the shortest of zeros are a few bytes. As
/// blocks aim at by default.
const EXPANSION_FLOOR: usize = 64 << 10;

/// The least codec time in a second. Arbitrary: below, a connection would stand still.
const LEAST_DECODE_TIME: Duration = Duration::from_millis(1);

/// The longest time in one piece that nothing is read. Arbitrary, a part of what peers take for silence.
const MOST_PAUSE: Duration = Duration::from_secs(1);

/// Blocks that are decoded at once at most.
const MOST_AT_ONCE: u32 = 16;

/// Bytes waiting to be written from which on a peer that makes them grow is given up: what it asks
/// for and does not read. Arbitrary, far above what blocks and honest answers leave
/// there.
const MAX_OUTPUT: usize = 8 << 20;

const SECOND: Duration = Duration::from_secs(1);

/// Judges what a block becomes by [`Limits::expanded`].
pub(super) fn check_expansion(plain_len: usize, most: usize) -> Result<(), WireError> {
    if plain_len <= most {
        return Ok(());
    }
    Err(WireError::FieldTooLarge {
        field: "plain length for so short a block",
        given: plain_len as u64,
        max: most as u64,
    })
}

fn saturating_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// How fast the peer opens streams (a virtual scheduler, ITU-T I.371): each one moves the time at which all would have been
/// opened at the permitted rate, which may be so far ahead of now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenRate {
    /// Nanoseconds between two streams at the rate.
    interval: u64,
    burst: u32,
    due: Time,
}

impl OpenRate {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            interval: saturating_nanos(SECOND) / u64::from(limits.streams_per_second.max(1)),
            burst: limits.max_streams.max(limits.streams_per_second),
            due: Time::ZERO,
        }
    }

    /// Counts a stream that the peer opens.
    pub(crate) fn on_open(&mut self, now: Time) -> Result<(), WireError> {
        self.due = self.due.max(now) + Duration::from_nanos(self.interval);
        let ahead = saturating_nanos(self.due.saturating_since(now));
        let max = u64::from(self.burst);
        if ahead <= self.interval.saturating_mul(max) {
            return Ok(());
        }
        Err(WireError::FieldTooLarge {
            field: "streams opened in a row",
            given: max + 1,
            max,
        })
    }
}

/// The codec time that the peer's blocks take, and how long it is not listened to for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecodeTime {
    /// Seconds that a second of decoding takes at the permitted rate; `None` without a limit.
    stretch: Option<f64>,
    /// The time as it was said last, and what was decoded since.
    at: Time,
    spent: Duration,
    /// When all that was decoded would be at the permitted rate.
    due: Time,
    /// Since when and until when nothing is read.
    pause: Option<(Time, Time)>,
    /// How often reading was stopped.
    pub(super) pauses: u64,
}

impl DecodeTime {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            stretch: limits
                .decode_time
                .map(|time| SECOND.as_secs_f64() / time.max(LEAST_DECODE_TIME).as_secs_f64()),
            at: Time::ZERO,
            spent: Duration::ZERO,
            due: Time::ZERO,
            pause: None,
            pauses: 0,
        }
    }

    /// Counts a block that took so long.
    pub(crate) const fn on_decoded(&mut self, elapsed: Duration) {
        self.spent = self.spent.saturating_add(elapsed);
    }

    /// Judges what was decoded until `now`. No measurement stalls the session: no more than that many codecs at once can have
    /// taken counts, and a clock that goes back ends a pause.
    pub(crate) fn on_time(&mut self, now: Time) {
        let Some(stretch) = self.stretch else { return };
        if self
            .pause
            .is_some_and(|(since, until)| now >= until || now < since)
        {
            self.pause = None;
        }
        let passed = now.saturating_since(self.at);
        if now < self.at {
            self.due = now;
        }
        self.at = now;
        if self.spent.is_zero() {
            return;
        }
        let spent = core::mem::take(&mut self.spent).min(passed.saturating_mul(MOST_AT_ONCE));
        let takes = Duration::try_from_secs_f64(spent.as_secs_f64() * stretch);
        self.due = self.due.max(now) + takes.unwrap_or(Duration::MAX);
        let ahead = self.due.saturating_since(now);
        if ahead > SECOND && self.pause.is_none() {
            let pause = ahead.saturating_sub(SECOND).min(MOST_PAUSE);
            self.pause = Some((now, now + pause));
            self.pauses += 1;
        }
    }

    pub(crate) fn paused_until(&self) -> Option<Time> {
        self.pause.map(|(_, until)| until)
    }

    /// Has nothing be read until then.
    #[cfg(feature = "transport")]
    pub(crate) fn pause_until(&mut self, now: Time, until: Time) {
        if self.pause.is_none_or(|(_, last)| last < until) {
            self.pauses += u64::from(self.pause.is_none());
            self.pause = Some((now, until));
        }
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.pause.is_some()
    }
}

#[cfg(all(test, feature = "transport"))]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_a_small_part_of_what_a_connection_may_hold() {
        let of = |memory| Limits::default().connection_memory(memory).window_len();
        assert_eq!(Limits::default().window_len(), 2 << 20);
        assert_eq!(of(256 << 20), 8 << 20);
        assert_eq!(of(17 << 20), 1 << 20);
        assert_eq!(Limits::default().window(5000).window_len(), 5000);
        let most = |memory| Limits::default().connection_memory(memory).most_window();
        assert_eq!(Limits::default().most_window(), 8 << 20);
        assert_eq!((most(256 << 20), most(4 << 20)), (32 << 20, 1 << 20));
        assert_eq!(Limits::default().window(5000).most_window(), 5000);
    }

    /// Said again by several lanes, it is one pause, which ends with the last.
    #[test]
    fn a_pause_that_another_lane_causes_holds_until_it_ends() {
        let mut decodes = DecodeTime::new(&Limits::default());
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        decodes.pause_until(at(10), at(100));
        decodes.pause_until(at(20), at(90));
        assert_eq!(decodes.paused_until(), Some(at(100)));
        decodes.pause_until(at(30), at(200));
        assert_eq!((decodes.pauses, decodes.is_paused()), (1, true));
        decodes.on_time(at(199));
        assert!(decodes.is_paused());
        decodes.on_time(at(200));
        assert!(!decodes.is_paused());
        decodes.pause_until(at(300), at(400));
        assert_eq!(decodes.pauses, 2);
    }
}
