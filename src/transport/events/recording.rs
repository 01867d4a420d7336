//! Rows of what sessions and drivers do.

use core::fmt;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::row::{MOST_IN_RUN, NODE, arm_code, decision_code, of_connection, rate_code, run_code};
use super::{
    BLOCK_ACKED, BLOCK_DECIDED, BLOCK_DECODED, BLOCK_ENCODED, BLOCK_RECEIVED, BLOCK_WRITTEN,
    BUDGET_CHANGED, CONTEXT_BEGUN, CONTEXT_EVICTED, CONTEXT_PRIMED, CONTEXT_RESET,
    DICTIONARY_ADOPTED, DICTIONARY_OFFERED, DICTIONARY_REFUSED, DICTIONARY_RETIRED,
    DICTIONARY_TRAINED, LOAD_MEASURED, MESSAGE_DECODED, MESSAGE_DELIVERED, MESSAGE_ENCODED,
    MESSAGE_QUEUED, PATH_MEASURED, WORKER_DECODED, WORKER_DICTIONARY, WORKER_ENCODED,
    WORKER_SHADOWED, are_in,
};
use crate::codecs::{Arm, CodecId};
use crate::control::BudgetRate;
use crate::eventlog::{Domain, EventId, EventLog, Heading, Moment, Prepared, Recorder, Timebase};
use crate::session::{
    BlockDecision, BuildIdHasher, ContextChange, DictionaryChange, MessageRun, Observation,
    Observations, Observer, Role, Session,
};
use crate::transport::clock::Clock;
use crate::transport::shared::lock;
use crate::units::{CpuLoad, Time, saturating_nanos};
use crate::wire::StreamId;

/// Connections of this process so far, of whichever node: logs may be of several.
static CONNECTIONS: AtomicU32 = AtomicU32::new(0);

/// Plain bytes of a block that goes as it is that are moved and checked at either end in next to no time (measured: .07 to .3 µs;
/// docs/benchmarks.md).
const MOMENT: usize = 8 << 10;

/// Streams of a connection whose names are kept, those that have ended with them; then it begins anew. Arbitrary: half a megabyte.
const MOST_STREAMS: usize = 1 << 15;

const CONTEXTS: [EventId; 4] = [
    CONTEXT_BEGUN,
    CONTEXT_RESET,
    CONTEXT_PRIMED,
    CONTEXT_EVICTED,
];
const DICTIONARIES: [EventId; 5] = [
    DICTIONARY_TRAINED,
    DICTIONARY_OFFERED,
    DICTIONARY_ADOPTED,
    DICTIONARY_RETIRED,
    DICTIONARY_REFUSED,
];

/// What a node records with, if it has a log.
#[derive(Clone, Debug, Default)]
pub(in crate::transport) struct NodeEvents(Option<Arc<Log>>);

#[derive(Debug)]
struct Log {
    area: EventLog,
    recorder: Recorder,
    node: Domain,
    others: Domain,
}

impl Log {
    fn domain(&self, name: &str) -> Domain {
        // An empty name is that of a domain that has none.
        let name = if name.is_empty() { "-" } else { name };
        self.area.domain_named(name).unwrap_or(self.others)
    }
}

impl NodeEvents {
    /// `None` if the log has other events.
    pub(in crate::transport) fn new(log: EventLog) -> Option<Self> {
        if !are_in(&mut log.reader()).unwrap_or(false) {
            return None;
        }
        let node = log.domain_named("node")?;
        let others = log.domain_named("others").unwrap_or(node);
        let recorder = log.recorder();
        Some(Self(Some(Arc::new(Log {
            area: log,
            recorder,
            node,
            others,
        }))))
    }

    /// What a session with a peer of this name records with.
    pub(in crate::transport) fn session(
        &self,
        role: Role,
        peer: &str,
        clock: Clock,
    ) -> SessionEvents {
        let session = self.0.as_ref().map(|log| {
            let name = match role {
                Role::Connector => format!("to {peer}"),
                Role::Acceptor => format!("from {peer}"),
            };
            Arc::new(SessionLog {
                recorder: Prepared::new(log.recorder.clone()),
                domain: log.domain(&name),
                others: log.others,
                log: Arc::clone(log),
                clock,
                timebase: log.area.reader().timebase(),
                connection: CONNECTIONS.fetch_add(1, Ordering::Relaxed),
                streams: Mutex::default(),
                latest: AtomicU64::new(u64::MAX),
                since: Kept::default(),
                encoded: Kept::default(),
                decoded: Kept::default(),
            })
        });
        SessionEvents(session)
    }

    /// The guard has measured a load, and what follows from it.
    pub(in crate::transport) fn measured(
        &self,
        load: CpuLoad,
        budget: Option<BudgetRate>,
        old: Option<BudgetRate>,
    ) {
        let Some(log) = &self.0 else { return };
        let first = of_connection(NODE, 0);
        let record = |event, counter, second| {
            log.recorder
                .record_with(event, log.node, counter, log.node, [first, second, 0]);
        };
        record(LOAD_MEASURED, (load.get() * 1e6) as u64, rate_code(budget));
        if old != budget {
            record(BUDGET_CHANGED, rate_code(budget), rate_code(old));
        }
    }
}

/// What a session's driver records with, if its node has a log.
#[derive(Clone, Debug, Default)]
pub(in crate::transport) struct SessionEvents(Option<Arc<SessionLog>>);

struct SessionLog {
    recorder: Prepared,
    connection: u32,
    domain: Domain,
    others: Domain,
    /// The stream that was asked for last and its domain, so that most need not look: `stream << 16 | domain`.
    latest: AtomicU64,
    /// When the first of the messages came that are being queued.
    since: Kept,
    /// When the block was encoded of whose messages it is told, which comes first; or when it was decided to send one as it is.
    encoded: Kept,
    /// When the block was decoded whose first messages are to come; or when it came, as it is.
    decoded: Kept,
    timebase: Timebase,
    log: Arc<Log>,
    clock: Clock,
    streams: Mutex<HashMap<StreamId, Domain, BuildIdHasher>>,
}

/// A moment that is kept for rows of what happens at once: to read the counter takes as long as all else of a row. Sessions tell
/// of one thing after another, on one thread.
#[derive(Debug, Default)]
struct Kept(AtomicU64);

impl Kept {
    #[inline]
    fn set(&self, at: Option<Moment>) {
        self.0
            .store(at.map_or(0, Moment::cycles), Ordering::Relaxed);
    }

    #[inline]
    fn get(&self) -> Option<Moment> {
        Moment::from_cycles(self.0.load(Ordering::Relaxed))
    }

    #[inline]
    fn take(&self) -> Option<Moment> {
        let at = self.get();
        self.set(None);
        at
    }
}

impl fmt::Debug for SessionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionLog")
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}

impl SessionEvents {
    /// Has the session say what it does.
    pub(in crate::transport) fn observe(&self, session: &mut Session) {
        if let Some(log) = &self.0 {
            session.observe(Arc::clone(log) as Arc<dyn Observer>);
        }
    }

    /// Has the session tell of what is on by now, and of nothing else.
    #[inline]
    pub(in crate::transport) fn keep_up(&self, session: &mut Session) {
        let Some(log) = &self.0 else { return };
        // Whatever it is that has come between.
        log.encoded.set(None);
        log.decoded.set(None);
        if log.recorder.keep_up() {
            session.observe_only(log.wanted());
        }
    }

    /// The time, if it is of use for messages that are about to be queued.
    #[inline]
    pub(in crate::transport) fn queued_at(&self) -> Option<Moment> {
        let log = self.0.as_ref()?;
        log.wants(MESSAGE_QUEUED).then(Moment::now)
    }

    /// Messages are about to be queued, the first of which came at `since`.
    #[inline]
    pub(in crate::transport) fn take_since(&self, since: Option<Moment>) {
        if let Some(log) = &self.0 {
            log.since.set(since);
        }
    }

    pub(in crate::transport) fn on_stream(&self, id: StreamId, name: &str) {
        if let Some(log) = &self.0 {
            let domain = log.log.domain(name);
            let mut streams = lock(&log.streams);
            // Not when they end: what they have sent is still on its way then.
            if streams.len() >= MOST_STREAMS {
                streams.clear();
            }
            streams.insert(id, domain);
        }
    }

    /// When a job is handed to a worker, if anybody wants to know how long it waits there.
    pub(in crate::transport) fn handed_over(&self) -> Option<Time> {
        Some(self.0.as_ref()?.clock.now())
    }

    pub(in crate::transport) fn worker_encoded(
        &self,
        (arm, plain_len): (Arm, usize),
        time: Duration,
        waited: Duration,
    ) {
        self.worker(WORKER_ENCODED, arm_code(arm), plain_len, time, waited);
    }

    pub(in crate::transport) fn worker_decoded(
        &self,
        (codec, wire_len): (CodecId, usize),
        time: Duration,
        waited: Duration,
    ) {
        let codec = u32::from(codec.to_wire());
        self.worker(WORKER_DECODED, codec, wire_len, time, waited);
    }

    pub(in crate::transport) fn worker_shadowed(
        &self,
        plain_len: usize,
        time: Duration,
        waited: Duration,
    ) {
        self.worker(WORKER_SHADOWED, 0, plain_len, time, waited);
    }

    pub(in crate::transport) fn worker_dictionary(&self, time: Duration, waited: Duration) {
        self.worker(WORKER_DICTIONARY, 0, 0, time, waited);
    }

    fn worker(&self, event: EventId, what: u32, len: usize, time: Duration, waited: Duration) {
        if let Some(log) = self.0.as_ref().filter(|log| log.wants(event)) {
            let arguments = [len as u64, saturating_nanos(waited)];
            log.record(event, saturating_nanos(time), what, arguments);
        }
    }
}

impl SessionLog {
    #[inline]
    fn wants(&self, event: EventId) -> bool {
        self.recorder.is_on(event)
    }

    /// What rows are made of.
    #[cold]
    fn wanted(&self) -> Observations {
        use Observations as O;
        // What tells when a row's moment is over is wanted with it.
        let kinds: [(O, &[EventId]); _] = [
            (O::MESSAGES_QUEUED, &[MESSAGE_QUEUED]),
            (O::DECIDED, &[BLOCK_DECIDED]),
            (O::MESSAGES_ENCODED, &[MESSAGE_ENCODED]),
            (O::BLOCK_ENCODED, &[BLOCK_ENCODED, MESSAGE_ENCODED]),
            (O::BLOCKS_WRITTEN, &[BLOCK_WRITTEN]),
            (O::BLOCKS_ACKNOWLEDGED, &[BLOCK_ACKED]),
            (O::BLOCK_RECEIVED, &[BLOCK_RECEIVED, MESSAGE_DECODED]),
            (O::BLOCK_DECODED, &[BLOCK_DECODED, MESSAGE_DECODED]),
            (O::MESSAGES_DECODED, &[MESSAGE_DECODED]),
            (O::MESSAGES_TAKEN, &[MESSAGE_DELIVERED]),
            (O::BUDGET_CHANGED, &[BUDGET_CHANGED]),
            (O::ROUND_TRIP, &[PATH_MEASURED]),
            (O::CONTEXT, &CONTEXTS),
            (O::DICTIONARY, &DICTIONARIES),
        ];
        let is_wanted = |events: &[EventId]| events.iter().any(|event| self.wants(*event));
        let wanted = kinds.into_iter().filter(|(_, events)| is_wanted(events));
        wanted.fold(O::NONE, |all, (kind, _)| all | kind)
    }

    #[inline]
    fn domain_of(&self, stream: StreamId) -> Domain {
        let latest = self.latest.load(Ordering::Relaxed);
        if latest >> 16 == u64::from(stream.get()) {
            return Domain::new(latest as u16);
        }
        self.domain_of_another(stream)
    }

    #[cold]
    fn domain_of_another(&self, stream: StreamId) -> Domain {
        let known = lock(&self.streams).get(&stream).copied();
        let domain = known.unwrap_or(self.others);
        if known.is_some() {
            let latest = u64::from(stream.get()) << 16 | domain.index() as u64;
            self.latest.store(latest, Ordering::Relaxed);
        }
        domain
    }

    /// A row of the connection, of what happens now and was wanted when that was last looked at.
    #[inline]
    fn record(&self, event: EventId, counter: u64, rest: u32, arguments: [u64; 2]) {
        self.record_at(event, counter, rest, arguments, Moment::now());
    }

    #[inline]
    fn record_at(
        &self,
        event: EventId,
        counter: u64,
        rest: u32,
        [second, third]: [u64; 2],
        at: Moment,
    ) {
        let heading = Heading {
            event,
            domain: self.domain,
            correspondent: self.domain,
        };
        let first = of_connection(self.connection, rest);
        self.recorder
            .record(heading, counter, first, second, third, at);
    }

    /// A row of one of its streams.
    #[inline]
    fn messages(&self, event: EventId, run: MessageRun, third: u64, at: Moment) {
        debug_assert!(run.count <= MOST_IN_RUN, "longer ones are split");
        let heading = Heading {
            event,
            domain: self.domain_of(run.stream),
            correspondent: self.domain,
        };
        let first = of_connection(self.connection, run.stream.get());
        let second = run_code(&run);
        self.recorder
            .record(heading, run.bytes, first, second, third, at);
    }
}

impl Observer for SessionLog {
    fn observe(&self, observation: &Observation) {
        match *observation {
            Observation::MessagesQueued { messages } => self.messages_queued(messages),
            Observation::Decided {
                block,
                ref decision,
            } => self.decided(block, decision),
            Observation::MessagesEncoded { block, messages } => {
                self.messages_encoded(block, messages);
            }
            Observation::BlockEncoded {
                block,
                arm,
                plain_len,
                wire_len,
                encode,
            } => self.block_encoded(block, arm, (plain_len, wire_len), encode),
            Observation::BlocksWritten { first, count } => self.blocks_written(first, count),
            Observation::BlocksAcknowledged { first, count } => {
                self.blocks_acknowledged(first, count);
            }
            Observation::BlockReceived {
                block,
                codec,
                body_len,
            } => self.block_received(block, codec, body_len),
            Observation::BlockDecoded {
                block,
                plain_len,
                decode,
            } => self.block_decoded(block, plain_len, decode),
            Observation::MessagesDecoded { block, messages } => {
                self.messages_decoded(block, messages);
            }
            Observation::MessagesTaken { messages } => self.messages_taken(messages),
            Observation::BudgetChanged { old, new } => {
                self.record(BUDGET_CHANGED, rate_code(new), 0, [rate_code(old), 0]);
            }
            Observation::RoundTrip {
                rtt,
                rtt_min,
                link_rate,
            } => {
                let nanos = |time: Option<Duration>| time.map_or(0, saturating_nanos);
                let rate = link_rate.map_or(0, |rate| rate.get() as u64);
                self.record(PATH_MEASURED, nanos(rtt), 0, [nanos(rtt_min), rate]);
            }
            Observation::Context {
                change,
                received,
                slot,
                group,
                arm,
            } => {
                let (event, counter) = match change {
                    ContextChange::Begun => (CONTEXT_BEGUN, 1),
                    ContextChange::Reset => (CONTEXT_RESET, 1),
                    ContextChange::Primed { bytes } => (CONTEXT_PRIMED, bytes as u64),
                    ContextChange::Evicted => (CONTEXT_EVICTED, 1),
                };
                let place =
                    u64::from(slot.get()) | u64::from(group.0) << 8 | u64::from(received) << 16;
                let arm = arm.map_or(0, arm_code);
                self.record(event, counter, arm, [place, 0]);
            }
            Observation::Dictionary {
                change,
                received,
                number,
                id,
                len,
            } => {
                let event = match change {
                    DictionaryChange::Trained => DICTIONARY_TRAINED,
                    DictionaryChange::Offered => DICTIONARY_OFFERED,
                    DictionaryChange::Adopted => DICTIONARY_ADOPTED,
                    DictionaryChange::Retired => DICTIONARY_RETIRED,
                    DictionaryChange::Refused => DICTIONARY_REFUSED,
                };
                let prefix = id.map_or(0, |id| {
                    let prefix = id.as_bytes().first_chunk();
                    prefix.map_or(0, |prefix| u64::from_be_bytes(*prefix))
                });
                self.record(event, len as u64, u32::from(received), [number, prefix]);
            }
        }
    }

    fn messages_queued(&self, messages: MessageRun) {
        let now = Moment::now();
        let since = self.since.get();
        let waited = since.map_or(0, |since| self.timebase.nanos_between(since, now));
        in_rows(messages, |run| {
            self.messages(MESSAGE_QUEUED, run, waited, now);
        });
    }

    fn decided(&self, block: u64, decision: &BlockDecision) {
        let BlockDecision {
            stream,
            arm,
            reason,
            expected,
            budget,
            budget_left,
            plain_len,
        } = *decision;
        let heading = Heading {
            event: BLOCK_DECIDED,
            domain: self.domain,
            correspondent: self.domain_of(stream),
        };
        let expected = saturating_nanos(expected);
        let first = of_connection(self.connection, stream.get());
        let third = decision_code(arm, reason, budget, budget_left);
        let now = Moment::now();
        let is_at_once = arm == Arm::IDENTITY && plain_len <= MOMENT;
        self.encoded.set(is_at_once.then_some(now));
        self.recorder
            .record(heading, expected, first, block, third, now);
    }

    fn messages_encoded(&self, block: u64, messages: MessageRun) {
        let at = self.encoded.take().unwrap_or_else(Moment::now);
        self.encoded.set(Some(at));
        self.messages(MESSAGE_ENCODED, messages, block, at);
    }

    fn block_encoded(&self, block: u64, arm: Arm, lens: (usize, usize), encode: Duration) {
        let lens = (lens.0 as u64) << 32 | lens.1 as u64;
        let at = self.encoded.take().unwrap_or_else(Moment::now);
        let nanos = saturating_nanos(encode);
        self.record_at(BLOCK_ENCODED, nanos, arm_code(arm), [block, lens], at);
    }

    fn blocks_written(&self, first: u64, count: u64) {
        self.record(BLOCK_WRITTEN, count, 0, [first, 0]);
    }

    fn blocks_acknowledged(&self, first: u64, count: u64) {
        self.record(BLOCK_ACKED, count, 0, [first, 0]);
    }

    fn block_received(&self, block: u64, codec: CodecId, body_len: usize) {
        let now = Moment::now();
        let is_at_once = codec == CodecId::IDENTITY && body_len <= MOMENT;
        self.decoded.set(is_at_once.then_some(now));
        let codec = u32::from(codec.to_wire());
        self.record_at(BLOCK_RECEIVED, body_len as u64, codec, [block, 0], now);
    }

    fn block_decoded(&self, block: u64, plain_len: usize, decode: Duration) {
        let now = Moment::now();
        // One that nobody has taken was of a block without messages.
        self.decoded.set(Some(now));
        let arguments = [block, plain_len as u64];
        self.record_at(BLOCK_DECODED, saturating_nanos(decode), 0, arguments, now);
    }

    fn messages_decoded(&self, block: u64, messages: MessageRun) {
        // Of more than one the last is there somewhat later.
        let at = self.decoded.take().filter(|_| messages.count <= 1);
        let at = at.unwrap_or_else(Moment::now);
        self.messages(MESSAGE_DECODED, messages, block, at);
    }

    fn messages_taken(&self, messages: MessageRun) {
        let now = Moment::now();
        in_rows(messages, |run| {
            self.messages(MESSAGE_DELIVERED, run, 0, now);
        });
    }
}

/// Splits a run into such as rows can tell of; the first has all the bytes.
#[inline]
fn in_rows(run: MessageRun, mut tell: impl FnMut(MessageRun)) {
    if run.count <= MOST_IN_RUN {
        tell(run);
    } else {
        in_several_rows(run, tell);
    }
}

#[cold]
fn in_several_rows(mut run: MessageRun, mut tell: impl FnMut(MessageRun)) {
    while run.count > MOST_IN_RUN {
        tell(MessageRun {
            count: MOST_IN_RUN,
            ..run
        });
        run.first += MOST_IN_RUN;
        run.count -= MOST_IN_RUN;
        run.bytes = 0;
    }
    tell(run);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Reason;
    use crate::eventlog::{Route, Row};
    use crate::transport::events;

    fn run(count: u64) -> MessageRun {
        MessageRun {
            stream: StreamId::new(4).expect("small"),
            first: 0,
            count,
            bytes: 100,
        }
    }

    fn encoded(count: u64) -> Observation {
        Observation::MessagesEncoded {
            block: 0,
            messages: run(count),
        }
    }

    fn decoded(count: u64) -> Observation {
        Observation::MessagesDecoded {
            block: 0,
            messages: run(count),
        }
    }

    const BLOCK_OUT: Observation = Observation::BlockEncoded {
        block: 0,
        arm: Arm::IDENTITY,
        plain_len: 100,
        wire_len: 104,
        encode: Duration::ZERO,
    };
    const BLOCK_IN: Observation = Observation::BlockDecoded {
        block: 0,
        plain_len: 100,
        decode: Duration::from_nanos(1),
    };

    /// Rows of what a session tells, with these events on.
    fn rows(on: &[EventId], told: &[Observation]) -> Vec<Row> {
        let log = EventLog::new(&events::config(4096)).expect("small");
        for event in on {
            log.route(*event, None, Some(Route::to(events::LOG)))
                .expect("known");
        }
        let mut reader = log.reader();
        let node = NodeEvents::new(log).expect("these are its events");
        let session = node.session(Role::Connector, "peer", Clock::start());
        let session = session.0.expect("there is a log");
        for observation in told {
            session.observe(observation);
            // Some counters are slower than that.
            let now = Moment::now().cycles();
            while Moment::now().cycles() <= now {}
        }
        let mut rows = Vec::new();
        reader.pass(&mut rows).expect("of this process");
        rows
    }

    fn stamps(on: &[EventId], told: &[Observation]) -> Vec<u64> {
        let rows = rows(on, told);
        rows.iter()
            .map(|row| row.stamp.expect("it has one"))
            .collect()
    }

    #[test]
    fn a_block_and_its_messages_are_encoded_at_once() {
        let on = [MESSAGE_ENCODED, BLOCK_ENCODED];
        let told = [encoded(1), encoded(3), BLOCK_OUT, encoded(1), BLOCK_OUT];
        let stamps = stamps(&on, &told);
        assert_eq!(stamps.len(), 5);
        assert!(stamps[..3].iter().all(|stamp| *stamp == stamps[0]));
        assert_eq!(stamps[3], stamps[4]);
        assert!(stamps[3] > stamps[0], "the next block is a later one");
    }

    #[test]
    fn a_message_alone_in_its_block_is_decoded_with_it() {
        let on = [MESSAGE_DECODED, BLOCK_DECODED];
        let alone = stamps(&on, &[BLOCK_IN, decoded(1), BLOCK_IN, decoded(1)]);
        assert_eq!((alone[0], alone[2]), (alone[1], alone[3]));
        assert!(alone[2] > alone[0]);
        // Others take their time.
        let others = stamps(&on, &[BLOCK_IN, decoded(2), decoded(1), decoded(1)]);
        assert!(others.is_sorted_by(|earlier, later| earlier < later));
        let several = stamps(&on, &[BLOCK_IN, decoded(1), decoded(1)]);
        assert!(several[0] == several[1] && several[1] < several[2]);
    }

    #[test]
    fn a_short_block_that_goes_as_it_is_is_of_one_moment_at_each_end() {
        let decided = |arm, plain_len| Observation::Decided {
            block: 0,
            decision: BlockDecision {
                stream: StreamId::new(4).expect("small"),
                arm,
                reason: Reason::Only,
                expected: Duration::ZERO,
                plain_len,
                budget: None,
                budget_left: true,
            },
        };
        let received = |codec, body_len| Observation::BlockReceived {
            block: 0,
            codec,
            body_len,
        };
        let on = [BLOCK_DECIDED, MESSAGE_ENCODED, BLOCK_ENCODED];
        for (arm, plain_len, is_at_once) in [
            (Arm::IDENTITY, MOMENT, true),
            (Arm::IDENTITY, MOMENT + 1, false),
            (Arm::new(CodecId::LZ4, 0), 100, false),
        ] {
            let told = [decided(arm, plain_len), encoded(1), BLOCK_OUT, BLOCK_OUT];
            let stamps = stamps(&on, &told);
            assert_eq!(stamps[0] == stamps[1], is_at_once, "{arm} {plain_len}");
            assert!(stamps[1] == stamps[2] && stamps[2] < stamps[3]);
        }
        let on = [BLOCK_RECEIVED, MESSAGE_DECODED];
        for (codec, body_len, is_at_once) in [
            (CodecId::IDENTITY, MOMENT, true),
            (CodecId::IDENTITY, MOMENT + 1, false),
            (CodecId::LZ4, 100, false),
        ] {
            let told = [received(codec, body_len), decoded(1), decoded(1)];
            let stamps = stamps(&on, &told);
            assert_eq!(stamps[0] == stamps[1], is_at_once, "{codec} {body_len}");
            assert!(stamps[1] < stamps[2]);
        }
        // With a codec it is when that is done.
        let told = [received(CodecId::LZ4, 100), BLOCK_IN, decoded(1)];
        let stamps = stamps(&[BLOCK_RECEIVED, BLOCK_DECODED, MESSAGE_DECODED], &told);
        assert!(stamps[0] < stamps[1] && stamps[1] == stamps[2]);
    }

    #[test]
    fn rows_of_a_long_run_tell_of_all_of_it() {
        let long = MessageRun {
            first: 10,
            ..run(2 * MOST_IN_RUN + 3)
        };
        let (mut next, mut bytes) = (long.first, 0);
        in_rows(long, |part| {
            assert_eq!(part.first, next);
            assert!(part.count <= MOST_IN_RUN);
            next += part.count;
            bytes += part.bytes;
        });
        assert_eq!((next, bytes), (long.first + long.count, 100));
    }

    #[test]
    fn nothing_has_the_time_of_what_was_before() {
        // A block without messages, and events that are switched off between.
        let none = stamps(&[MESSAGE_DECODED], &[BLOCK_IN, decoded(1), decoded(1)]);
        assert!(none[0] < none[1]);
        let stale = stamps(
            &[BLOCK_DECODED, MESSAGE_DECODED],
            &[BLOCK_IN, BLOCK_IN, decoded(1)],
        );
        assert!(stale[0] < stale[1] && stale[1] == stale[2]);
        let alone = stamps(&[BLOCK_ENCODED], &[encoded(1), BLOCK_OUT, BLOCK_OUT]);
        assert!(alone[0] < alone[1]);
        // Of a block whose coming is not recorded.
        let came = Observation::BlockReceived {
            block: 1,
            codec: CodecId::IDENTITY,
            body_len: 100,
        };
        let unseen = stamps(
            &[BLOCK_DECODED, MESSAGE_DECODED],
            &[BLOCK_IN, came, decoded(1)],
        );
        assert!(unseen[0] < unseen[1]);
    }
}
