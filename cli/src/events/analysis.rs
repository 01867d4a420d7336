//! Times of messages by stage, from rows in the order of their times.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use hdrhistogram::Histogram;
use tautline::codecs::Arm;
use tautline::eventlog::Accounts;
use tautline::transport::events::{Event, Messages};

use super::source::{Source, Timed};

/// Blocks and runs that wait for their next stage, of each connection or stream. Of more than that the oldest are forgotten: their next stage
/// was lost, or is not recorded.
const MOST_WAITING: usize = 1 << 16;

/// From one stage of a message to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// From `send` until its block is in the output.
    Encode,
    /// .. until the socket has taken the block.
    Write,
    /// .. until the peer has acknowledged it.
    Acknowledge,
    /// All three.
    Sent,
    /// From when its block was read until it is whole, in its turn.
    Decode,
    /// .. until `recv` gives it.
    Deliver,
    /// Both.
    Received,
}

impl Stage {
    pub(crate) const ALL: [Self; 7] = [
        Self::Encode,
        Self::Write,
        Self::Acknowledge,
        Self::Sent,
        Self::Decode,
        Self::Deliver,
        Self::Received,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Encode => "queued to encoded",
            Self::Write => "encoded to written",
            Self::Acknowledge => "written to acked",
            Self::Sent => "queued to acked",
            Self::Decode => "received to decoded",
            Self::Deliver => "decoded to delivered",
            Self::Received => "received to delivered",
        }
    }
}

/// Times, each message's counted once.
#[derive(Clone, Debug)]
pub(super) struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        // Up to an hour, to 1 in 100. It cannot fail with these bounds.
        let histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 2);
        Self(histogram.unwrap_or_else(|_| unreachable!("the bounds are constants")))
    }
}

impl Times {
    fn record(&mut self, nanos: u64, messages: u64) {
        self.0.saturating_record_n(nanos, messages);
    }

    pub(super) fn messages(&self) -> u64 {
        self.0.len()
    }

    pub(super) fn mean(&self) -> Duration {
        Duration::from_nanos(self.0.mean() as u64)
    }

    pub(super) fn at(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(quantile))
    }
}

/// What one stream, or all of one name, has done.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamFigures {
    pub(super) sent: u64,
    pub(super) sent_bytes: u64,
    pub(super) received: u64,
    pub(super) received_bytes: u64,
    /// From `send` until acknowledged, and from read until delivered.
    pub(super) out: Times,
    pub(super) within: Times,
}

/// What one arm has made of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ArmFigures {
    pub(super) blocks: u64,
    pub(super) plain: u64,
    pub(super) wire: u64,
    pub(super) encode: Duration,
}

/// What is known of a connection's way to its peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) rtt: Option<Duration>,
    /// The shortest of late.
    pub(super) rtt_min: Option<Duration>,
    /// Bytes a second.
    pub(super) link_rate: Option<u64>,
    /// When that was.
    pub(super) at: u64,
}

/// A connection of which nothing is measured for so long is over, or nothing goes over it. Arbitrary.
const LATELY: Duration = Duration::from_secs(10);

/// What has come of rows so far, or in a while.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    /// Times of the first and last row.
    pub(super) from: Option<u64>,
    pub(super) to: u64,
    pub(super) stages: BTreeMap<Stage, Times>,
    pub(super) streams: BTreeMap<String, StreamFigures>,
    pub(super) arms: BTreeMap<Arm, ArmFigures>,
    /// How often each event came.
    pub(super) events: BTreeMap<String, u64>,
    /// The latest of each connection.
    pub(super) paths: BTreeMap<u32, Path>,
    pub(super) load: Option<f64>,
    pub(super) decode: Duration,
    /// What domains accessed, were charged and had.
    pub(super) accounts: Accounts,
}

impl Figures {
    pub(super) fn span(&self) -> Duration {
        let from = self.from.unwrap_or(self.to);
        Duration::from_nanos(self.to.saturating_sub(from))
    }

    /// There was a row of this time.
    fn saw(&mut self, at: u64) {
        self.from.get_or_insert(at);
        self.to = self.to.max(at);
    }

    fn time(&mut self, stage: Stage, nanos: u64, messages: u64) {
        let times = self.stages.entry(stage).or_default();
        times.record(nanos, messages);
    }
}

/// Messages of a stream, of which something is known to have been at a time.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u64,
    count: u64,
    at: u64,
}

impl Run {
    /// How many messages are in another run too.
    const fn shared(&self, first: u64, count: u64) -> u64 {
        let from = if self.first > first {
            self.first
        } else {
            first
        };
        let (own, other) = (self.first + self.count, first + count);
        let to = if own < other { own } else { other };
        to.saturating_sub(from)
    }
}

/// A block on its way out.
#[derive(Debug, Default)]
struct Out {
    /// Streams, when their messages were queued if that is known, how many.
    messages: Vec<(u32, Option<u64>, u64)>,
    encoded: Option<u64>,
    written: Option<u64>,
}

/// What a stream waits for.
#[derive(Debug, Default)]
struct Waiting {
    queued: VecDeque<Run>,
    /// When they were received, and decoded.
    decoded: VecDeque<(Run, Option<u64>)>,
    name: String,
}

/// Brings the stages of messages together.
#[derive(Debug, Default)]
pub(super) struct Analysis {
    figures: Figures,
    streams: HashMap<(u32, u32), Waiting>,
    out: HashMap<(u32, u64), Out>,
    /// When blocks were received.
    arrived: HashMap<(u32, u64), u64>,
}

impl Analysis {
    /// What has come since this was last asked.
    pub(super) fn take_figures(&mut self) -> Figures {
        let taken = std::mem::take(&mut self.figures);
        // What was measured last stands until it is measured again, or long ago.
        self.figures.paths.clone_from(&taken.paths);
        let is_of_late = |path: &Path| {
            let ago = taken.to.saturating_sub(path.at);
            Duration::from_nanos(ago) <= LATELY
        };
        self.figures.paths.retain(|_, path| is_of_late(path));
        self.figures.load = taken.load;
        taken
    }

    pub(super) fn take(&mut self, source: &mut Source, row: &Timed) {
        if let Some(event) = row.row.event {
            let name = source.event(event).to_owned();
            *self.figures.events.entry(name).or_default() += 1;
        }
        if let Some(kind) = source.kind(&row.row) {
            self.figures.accounts.take(kind, &row.row);
        }
        if row.load.is_some() {
            self.figures.saw(row.at);
        }
        let Some(event) = &row.event else { return };
        let name = match (event, row.row.domain) {
            (
                Event::Queued { .. }
                | Event::Encoded { .. }
                | Event::Decoded { .. }
                | Event::Delivered { .. },
                Some(domain),
            ) => Some(source.domain(domain).to_owned()),
            _ => None,
        };
        self.on_event(row.at, event, name.as_deref());
    }

    fn on_event(&mut self, at: u64, event: &Event, name: Option<&str>) {
        self.figures.saw(at);
        match event {
            Event::Queued { messages, waited } => {
                let waited = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
                self.on_queued(at.saturating_sub(waited), messages, name);
            }
            Event::Encoded { messages, block } => self.on_encoded(messages, *block, name),
            Event::BlockEncoded {
                connection,
                block,
                arm,
                plain_len,
                wire_len,
                encode,
            } => {
                let figures = self.figures.arms.entry(*arm).or_default();
                figures.blocks += 1;
                figures.plain += u64::from(*plain_len);
                figures.wire += u64::from(*wire_len);
                figures.encode += *encode;
                self.on_block_encoded(at, (*connection, *block));
            }
            Event::Written {
                connection,
                first,
                count,
            } => {
                for block in blocks(*first, *count) {
                    self.on_written(at, (*connection, block));
                }
            }
            Event::Acked {
                connection,
                first,
                count,
            } => {
                for block in blocks(*first, *count) {
                    self.on_acked(at, (*connection, block));
                }
            }
            Event::Received {
                connection, block, ..
            } => {
                forget(&mut self.arrived);
                self.arrived.insert((*connection, *block), at);
            }
            Event::BlockDecoded { decode, .. } => self.figures.decode += *decode,
            Event::Decoded { messages, block } => self.on_decoded(at, messages, *block, name),
            Event::Delivered { messages } => self.on_delivered(at, messages, name),
            Event::Load { load, .. } => self.figures.load = Some(*load),
            Event::Path {
                connection,
                rtt,
                rtt_min,
                link_rate,
            } => {
                let path = Path {
                    rtt: *rtt,
                    rtt_min: *rtt_min,
                    link_rate: *link_rate,
                    at,
                };
                self.figures.paths.insert(*connection, path);
            }
            _ => {}
        }
    }

    fn stream(&mut self, messages: &Messages, name: Option<&str>) -> &mut Waiting {
        let key = (messages.connection, messages.stream);
        if self.streams.len() >= MOST_WAITING && !self.streams.contains_key(&key) {
            // Most are of connections that are over.
            let is_waited_for =
                |stream: &Waiting| !stream.queued.is_empty() || !stream.decoded.is_empty();
            self.streams.retain(|_, stream| is_waited_for(stream));
        }
        let stream = self.streams.entry(key).or_default();
        if let (true, Some(name)) = (stream.name.is_empty(), name) {
            name.clone_into(&mut stream.name);
        }
        stream
    }

    fn figures_of(&mut self, connection: u32, stream: u32) -> &mut StreamFigures {
        let known = self.streams.get(&(connection, stream));
        let name = known.map_or("", |stream| &stream.name);
        if !self.figures.streams.contains_key(name) {
            let name = name.to_owned();
            self.figures.streams.insert(name, StreamFigures::default());
        }
        let known = self.streams.get(&(connection, stream));
        let name = known.map_or("", |stream| &stream.name);
        self.figures.streams.entry(name.to_owned()).or_default()
    }

    fn on_queued(&mut self, at: u64, messages: &Messages, name: Option<&str>) {
        let stream = self.stream(messages, name);
        push(
            &mut stream.queued,
            Run {
                first: messages.first,
                count: messages.count,
                at,
            },
        );
        let figures = self.figures_of(messages.connection, messages.stream);
        figures.sent += messages.count;
        figures.sent_bytes += messages.bytes;
    }

    fn on_encoded(&mut self, messages: &Messages, block: u64, name: Option<&str>) {
        let (first, count) = (messages.first, messages.count);
        if count == 0 {
            return;
        }
        let queued = &mut self.stream(messages, name).queued;
        let mut parts = Vec::new();
        let mut known = 0;
        // Those before it are gone: they were lost, or sent again.
        while let Some(run) = queued.front() {
            let shared = run.shared(first, count);
            if shared > 0 {
                parts.push((messages.stream, Some(run.at), shared));
                known += shared;
            }
            if run.first + run.count > first + count {
                break;
            }
            queued.pop_front();
        }
        if known < count {
            parts.push((messages.stream, None, count - known));
        }
        forget(&mut self.out);
        let out = self.out.entry((messages.connection, block)).or_default();
        out.messages.extend(parts);
    }

    fn on_block_encoded(&mut self, at: u64, key: (u32, u64)) {
        let Some(out) = self.out.get_mut(&key) else {
            return;
        };
        out.encoded = Some(at);
        for (_, queued, count) in &out.messages {
            if let Some(queued) = queued {
                let nanos = at.saturating_sub(*queued);
                self.figures.time(Stage::Encode, nanos, *count);
            }
        }
    }

    fn on_written(&mut self, at: u64, key: (u32, u64)) {
        let Some(out) = self.out.get_mut(&key) else {
            return;
        };
        out.written = Some(at);
        if let Some(encoded) = out.encoded {
            let count = out.messages.iter().map(|(_, _, count)| count).sum();
            let nanos = at.saturating_sub(encoded);
            self.figures.time(Stage::Write, nanos, count);
        }
    }

    fn on_acked(&mut self, at: u64, key: (u32, u64)) {
        let Some(out) = self.out.remove(&key) else {
            return;
        };
        if let Some(written) = out.written {
            let count = out.messages.iter().map(|(_, _, count)| count).sum();
            let nanos = at.saturating_sub(written);
            self.figures.time(Stage::Acknowledge, nanos, count);
        }
        for (stream, queued, count) in out.messages {
            if let Some(queued) = queued {
                let nanos = at.saturating_sub(queued);
                self.figures.time(Stage::Sent, nanos, count);
                self.figures_of(key.0, stream).out.record(nanos, count);
            }
        }
    }

    fn on_decoded(&mut self, at: u64, messages: &Messages, block: u64, name: Option<&str>) {
        let received = self.arrived.get(&(messages.connection, block)).copied();
        if let Some(received) = received {
            let nanos = at.saturating_sub(received);
            self.figures.time(Stage::Decode, nanos, messages.count);
        }
        let run = Run {
            first: messages.first,
            count: messages.count,
            at,
        };
        push(&mut self.stream(messages, name).decoded, (run, received));
    }

    fn on_delivered(&mut self, at: u64, messages: &Messages, name: Option<&str>) {
        let (first, count) = (messages.first, messages.count);
        let decoded = &mut self.stream(messages, name).decoded;
        let mut parts = Vec::new();
        while let Some((run, received)) = decoded.front() {
            let shared = run.shared(first, count);
            if shared > 0 {
                parts.push((run.at, *received, shared));
            }
            if run.first + run.count > first + count {
                break;
            }
            decoded.pop_front();
        }
        for (decoded, received, shared) in parts {
            let nanos = at.saturating_sub(decoded);
            self.figures.time(Stage::Deliver, nanos, shared);
            if let Some(received) = received {
                let nanos = at.saturating_sub(received);
                self.figures.time(Stage::Received, nanos, shared);
                let figures = self.figures_of(messages.connection, messages.stream);
                figures.within.record(nanos, shared);
            }
        }
        let figures = self.figures_of(messages.connection, messages.stream);
        figures.received += count;
        figures.received_bytes += messages.bytes;
    }
}

/// The blocks of a row: no more than there can be under way, whatever it says.
fn blocks(first: u64, count: u64) -> impl Iterator<Item = u64> {
    (first..first.saturating_add(count)).take(MOST_WAITING)
}

fn push<T>(waiting: &mut VecDeque<T>, one: T) {
    if waiting.len() >= MOST_WAITING {
        waiting.pop_front();
    }
    waiting.push_back(one);
}

/// Makes room: what is there has waited in vain.
fn forget<K, T>(waiting: &mut HashMap<K, T>) {
    if waiting.len() >= MOST_WAITING {
        waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn messages(first: u64, count: u64) -> Messages {
        Messages {
            connection: 1,
            stream: 4,
            first,
            count,
            bytes: 100 * count,
        }
    }

    fn queued(first: u64, count: u64, waited: u64) -> Event {
        Event::Queued {
            messages: messages(first, count),
            waited: Duration::from_nanos(waited),
        }
    }

    fn encoded(first: u64, count: u64, block: u64) -> Event {
        let messages = messages(first, count);
        Event::Encoded { messages, block }
    }

    const fn block(block: u64) -> Event {
        Event::BlockEncoded {
            connection: 1,
            block,
            arm: Arm::IDENTITY,
            plain_len: 100,
            wire_len: 110,
            encode: Duration::ZERO,
        }
    }

    const fn written(first: u64, count: u64) -> Event {
        Event::Written {
            connection: 1,
            first,
            count,
        }
    }

    const fn acked(first: u64, count: u64) -> Event {
        Event::Acked {
            connection: 1,
            first,
            count,
        }
    }

    fn after(events: &[(u64, Event)]) -> Figures {
        let mut analysis = Analysis::default();
        for (at, event) in events {
            analysis.on_event(*at, event, Some("orders"));
        }
        analysis.take_figures()
    }

    /// Messages and the greatest time of a stage.
    fn of(figures: &Figures, stage: Stage) -> Option<(u64, u64)> {
        let times = figures.stages.get(&stage)?;
        // To 1 in 100.
        let greatest = times.at(1.0).as_nanos() as u64;
        Some((times.messages(), (greatest + 5) / 10 * 10))
    }

    #[test]
    fn stages_of_messages_are_brought_together_over_blocks() {
        // Three were queued at 0 and two at 40: one block takes four, the next one.
        let figures = after(&[
            (30, queued(0, 3, 30)),
            (40, queued(3, 2, 0)),
            (100, encoded(0, 4, 7)),
            (100, block(7)),
            (110, encoded(4, 1, 8)),
            (120, block(8)),
            (150, written(7, 2)),
            (250, acked(7, 2)),
        ]);
        assert_eq!(of(&figures, Stage::Encode), Some((5, 100)));
        assert_eq!(of(&figures, Stage::Write), Some((5, 50)));
        assert_eq!(of(&figures, Stage::Acknowledge), Some((5, 100)));
        assert_eq!(of(&figures, Stage::Sent), Some((5, 250)));
        let stream = &figures.streams["orders"];
        assert_eq!((stream.sent, stream.sent_bytes), (5, 500));
        assert_eq!(stream.out.messages(), 5);
        assert_eq!(figures.arms[&Arm::IDENTITY].blocks, 2);
        assert_eq!(figures.span(), Duration::from_nanos(220));
    }

    #[test]
    fn received_messages_are_timed_from_their_block() {
        let decoded = |first, count| Event::Decoded {
            messages: messages(first, count),
            block: 3,
        };
        let figures = after(&[
            (
                10,
                Event::Received {
                    connection: 1,
                    block: 3,
                    codec: tautline::codecs::CodecId::ZSTD,
                    body_len: 50,
                },
            ),
            (60, decoded(0, 2)),
            (
                80,
                Event::Delivered {
                    messages: messages(0, 2),
                },
            ),
        ]);
        assert_eq!(of(&figures, Stage::Decode), Some((2, 50)));
        assert_eq!(of(&figures, Stage::Deliver), Some((2, 20)));
        assert_eq!(of(&figures, Stage::Received), Some((2, 70)));
        let stream = &figures.streams["orders"];
        assert_eq!((stream.received, stream.received_bytes), (2, 200));
    }

    #[test]
    fn what_was_lost_or_left_out_counts_for_nothing() {
        // The queued row of the first two is not there, nor the encoded one of the second block.
        let figures = after(&[
            (10, queued(2, 1, 0)),
            (30, encoded(0, 3, 0)),
            (30, block(0)),
            (40, written(0, 2)),
            (90, acked(0, 2)),
            (95, acked(0, u64::MAX)),
        ]);
        assert_eq!(of(&figures, Stage::Encode), Some((1, 20)));
        assert_eq!(of(&figures, Stage::Sent), Some((1, 80)));
        assert_eq!(of(&figures, Stage::Acknowledge), Some((3, 50)));
    }

    #[test]
    fn connections_of_which_nothing_is_heard_are_forgotten() {
        let path = |connection| Event::Path {
            connection,
            rtt: Some(Duration::from_micros(50)),
            rtt_min: None,
            link_rate: None,
        };
        let mut analysis = Analysis::default();
        let mut known = |rows: &[(u64, Event)]| {
            for (seconds, event) in rows {
                analysis.on_event(seconds * 1_000_000_000, event, None);
            }
            let paths = analysis.take_figures().paths;
            paths.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(known(&[(0, path(1)), (5, path(2))]), [1, 2]);
        assert_eq!(known(&[(9, path(3))]), [1, 2, 3]);
        // That it was there until then is said once more.
        assert_eq!(known(&[(14, path(2))]), [1, 2, 3]);
        assert_eq!(known(&[]), [2, 3]);
    }

    #[test]
    fn a_message_that_is_sent_again_is_timed_once() {
        let figures = after(&[
            (0, queued(0, 1, 0)),
            (10, encoded(0, 1, 0)),
            (10, block(0)),
            (20, encoded(0, 1, 1)),
            (20, block(1)),
            (30, written(1, 1)),
            (90, acked(1, 1)),
        ]);
        assert_eq!(of(&figures, Stage::Encode), Some((1, 10)));
        assert_eq!(of(&figures, Stage::Sent), None);
        assert_eq!(of(&figures, Stage::Acknowledge), Some((1, 60)));
    }
}
