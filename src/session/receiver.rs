//! The receiving side: frames from bytes, blocks to messages, in the order of the wire.

mod deliver;
mod pinned;
mod records;

use core::time::Duration;
use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use self::pinned::cut_plain;
pub(super) use self::records::end;
use super::dictionaries::{DictionaryConfig, DictionaryMemory, RecvDictionaries};
use super::history::RecvHistory;
use super::job::{DecodeJob, DecodedBlock};
use super::limits::{DecodeTime, Limits, check_expansion};
use super::observer::{ContextChange, Observation, Observations, Told};
use crate::codecs::{Arm, CodecId, takes_dictionary};
use crate::dictionary::Dictionary;
use crate::units::{Time, saturating_nanos};
use crate::wire::{
    Ack, BlockHeader, Check, Control, DecodeReport, Define, Frame, GroupId, RecordReader, Slot,
    StreamId, WireError, parse_frame,
};

/// Frames after which an acknowledgement does not wait any longer.
const ACK_FRAMES: u64 = 32;
/// Frames at the beginning that are acknowledged at once: the peer knows nothing of the link yet.
const QUICK_FRAMES: u64 = 16;
/// Bytes on the wire after which it does not either: a sender that knows little of the link may not have more on its way ..
const ACK_BYTES: u64 = 128 << 10;
/// .. or plain bytes: of blocks that compress well the peer would hear nothing for long otherwise, and learn nothing ..
const ACK_PLAIN: u64 = 256 << 10;
/// .. if it is of so many bytes on the wire, some thirty times its own length ..
const LEAST_ACKED: u64 = 1 << 10;
/// .. but so long after the one before: where as much comes sooner the ends are slow, and each acknowledgement costs them a write, a read
/// and perhaps a waking. Arbitrary, less than a round trip but on the fastest links.
const ACK_APART: Duration = Duration::from_micros(200);

/// What blocks of a slot are in.
#[derive(Clone, Debug)]
struct Binding {
    codec: CodecId,
    group: GroupId,
    /// By its number.
    dictionary: Option<Box<(u64, Dictionary)>>,
}

/// What is carried from block to block in one group.
#[derive(Debug, Default)]
struct Group {
    check: Check,
    reader: RecordReader,
}

/// Something received that must take effect in the order of the wire.
#[derive(Debug)]
enum Inbound {
    Block {
        /// Blocks that were found in the input before.
        number: u64,
        header: BlockHeader,
        group: GroupId,
        /// Whether it may have messages of this group's streams only.
        is_closed: bool,
        state: BlockState,
    },
    Control(Control),
}

#[derive(Debug)]
enum BlockState {
    Decoding {
        number: u64,
    },
    Plain {
        bytes: Bytes,
        /// The memory that these are in, bytes.
        pinned: usize,
        crc: u32,
        /// What decoding took; `None` if it came as it was.
        decode: Option<Duration>,
    },
}

#[derive(Debug)]
pub(super) struct Receiver {
    /// By slot, as far as any was bound: few connections bind them all.
    bindings: Vec<Option<Binding>>,
    /// The slot of the latest block, for those that do not name theirs.
    last_slot: Option<Slot>,
    groups: Vec<(GroupId, Group)>,
    inbound: VecDeque<Inbound>,
    jobs: VecDeque<DecodeJob>,
    next_job: u64,
    /// The first of this connection.
    first_job: u64,
    with_check: bool,
    /// Whether frames other than blocks are acknowledged without one.
    acknowledges_all: bool,
    limits: Limits,
    pub(super) decode_time: DecodeTime,
    accepts: fn(CodecId) -> bool,
    pub(super) blocks: u64,
    /// .. and those that were found in the input.
    blocks_found: u64,
    pub(super) told: Told,
    /// Blocks and control frames that take effect in order, as far as they have.
    frames: u64,
    pub(super) wire_bytes: u64,
    pub(super) decode_nanos: u64,
    last_block_at: Time,
    last_input_at: Time,
    /// Since when the socket has had nothing to read; `None` while it may have.
    dry_since: Option<Time>,
    /// Bytes left of the input, with less than a frame or too much to be taken at once.
    left_over: usize,
    /// The most that the input had room for: what is cut out of it holds so much.
    input_room: usize,
    /// Time spent waiting for bytes, in all and until the latest block.
    waited_nanos: u64,
    block_waited_nanos: u64,
    first_unacked_at: Option<Time>,
    acked_frames: u64,
    acked_bytes: u64,
    unacked_plain: u64,
    pub(super) history: RecvHistory,
    pub(super) dictionaries: RecvDictionaries,
    /// Streams whose window may have to grow without the application's doing.
    pub(super) to_credit: Vec<StreamId>,
    /// Streams of which the peer is to hear that nothing more is taken.
    pub(super) to_stop: Vec<StreamId>,
    decoded: Vec<DecodeReport>,
    /// Codecs of which something was decoded since the last acknowledgement.
    unreported: Vec<CodecId>,
}

impl Receiver {
    pub(super) fn new(limits: Limits) -> Self {
        let first = (0..7).map(|number| {
            Some(Binding {
                codec: CodecId::from_wire(number),
                group: GroupId(0),
                dictionary: None,
            })
        });
        Self {
            bindings: first.collect(),
            last_slot: None,
            groups: Vec::new(),
            inbound: VecDeque::new(),
            // One at a time on many connections, and it keeps its room.
            jobs: VecDeque::with_capacity(1),
            next_job: 0,
            first_job: 0,
            with_check: true,
            acknowledges_all: false,
            decode_time: DecodeTime::new(&limits),
            limits,
            accepts: |codec| crate::codecs::info(codec).is_some(),
            blocks: 0,
            blocks_found: 0,
            told: Told::default(),
            frames: 0,
            wire_bytes: 0,
            decode_nanos: 0,
            last_block_at: Time::ZERO,
            last_input_at: Time::ZERO,
            dry_since: None,
            left_over: 0,
            input_room: 0,
            waited_nanos: 0,
            block_waited_nanos: 0,
            first_unacked_at: None,
            acked_frames: 0,
            acked_bytes: 0,
            unacked_plain: 0,
            history: RecvHistory::default(),
            dictionaries: RecvDictionaries::default(),
            to_credit: Vec::new(),
            to_stop: Vec::new(),
            decoded: Vec::new(),
            unreported: Vec::new(),
        }
    }

    pub(super) const fn begin(&mut self, with_check: bool) {
        self.with_check = with_check;
    }

    /// From now on control frames are acknowledged too.
    pub(super) const fn acknowledge_all(&mut self) {
        self.acknowledges_all = true;
    }

    /// The connection is gone: nothing that has not taken effect will, and what is still decoded of it is of no use.
    /// Histories have left `left`.
    pub(super) fn disconnect(&mut self, dictionaries: &DictionaryConfig, left: DictionaryMemory) {
        let fresh = Self::new(self.limits);
        let old = core::mem::replace(self, fresh);
        self.next_job = old.next_job;
        self.first_job = old.next_job;
        self.with_check = old.with_check;
        self.acknowledges_all = old.acknowledges_all;
        self.blocks = old.blocks;
        self.blocks_found = old.blocks;
        self.told = old.told;
        self.decode_nanos = old.decode_nanos;
        self.decode_time = old.decode_time;
        self.dictionaries = old.dictionaries;
        self.dictionaries.restart(dictionaries, left);
    }

    /// Histories were agreed on: they may hold so much memory, and be so long.
    pub(super) fn begin_history(&mut self, memory: usize, max_window_log: u8) {
        self.history.begin(memory, max_window_log);
    }

    pub(super) fn wants_input(&self) -> bool {
        self.inbound.len() < self.limits.at_once && !self.decode_time.is_paused()
    }

    /// The socket has nothing to read.
    pub(super) fn on_dry(&mut self, now: Time) {
        self.dry_since.get_or_insert(now);
    }

    /// .. but for so long it was not waited for.
    pub(super) fn on_awake(&mut self, busy: Duration) {
        self.dry_since = self.dry_since.map(|since| since + busy);
    }

    pub(super) const fn is_dry(&self) -> bool {
        self.dry_since.is_some()
    }

    /// Input is about to be read: new bytes of it end a wait. Whether there are any.
    pub(super) fn begin_input(&mut self, now: Time, input: &BytesMut) -> bool {
        let len = input.len();
        self.input_room = self.input_room.max(input.capacity());
        self.last_input_at = now;
        if len > self.left_over {
            let since = self.dry_since.take();
            let waited = since.map_or(Duration::ZERO, |since| now.saturating_since(since));
            self.waited_nanos = self.waited_nanos.saturating_add(saturating_nanos(waited));
        }
        len > self.left_over
    }

    /// So many bytes of the input were left.
    pub(super) const fn end_input(&mut self, len: usize) {
        self.left_over = len;
    }

    /// Numbered frames that have taken effect.
    pub(super) const fn frames(&self) -> u64 {
        self.frames
    }

    /// Whether everything received has taken effect.
    pub(super) fn is_idle(&self) -> bool {
        self.inbound.is_empty()
    }

    pub(super) fn take_job(&mut self) -> Option<DecodeJob> {
        // One with history waits for what the one before leaves; others need not wait for it.
        let history = self.jobs.iter().position(|job| job.place.is_some());
        let alone = self.jobs.iter().position(|job| job.place.is_none());
        let first = history.filter(|at| alone.is_none_or(|alone| *at < alone));
        let taken = first.and_then(|at| {
            let place = self.jobs[at].place?;
            let context = self.history.take(place)?;
            self.jobs[at].history = Some(context);
            Some(at)
        });
        self.jobs.remove(taken.or(alone)?)
    }

    /// Takes the frame at the front of `input`. Control frames that need no order are returned.
    pub(super) fn take_frame(
        &mut self,
        now: Time,
        input: &mut BytesMut,
    ) -> Result<Taken, WireError> {
        let Some(frame) = parse_frame(input, self.limits.max_block, self.with_check)? else {
            return Ok(Taken::Nothing);
        };
        match frame {
            Frame::Block { header, body_at } => {
                self.wire_bytes += (body_at + header.body_len) as u64;
                self.last_block_at = now;
                self.block_waited_nanos = self.waited_nanos;
                bytes::Buf::advance(input, body_at);
                self.on_block(header, input)?;
                Ok(Taken::Ordered)
            }
            Frame::Control { control, len } => {
                bytes::Buf::advance(input, len);
                self.wire_bytes += len as u64;
                match control {
                    None => Ok(Taken::Ordered),
                    Some(
                        control @ (Control::Open(_)
                        | Control::Close(_)
                        | Control::Window(_)
                        | Control::Credit(_)
                        | Control::Blocked(_)
                        | Control::Unused(_)
                        | Control::Stop(_)
                        | Control::GoAway(_)
                        | Control::Fault(_)
                        | Control::Define(_)),
                    ) => {
                        if let Control::Define(define) = &control {
                            // Blocks that follow are read by it before those in front are delivered.
                            self.on_define(define)?;
                        }
                        self.inbound.push_back(Inbound::Control(control));
                        Ok(Taken::Ordered)
                    }
                    Some(Control::Dictionary(frame)) => {
                        if let Some(number) = self.dictionaries.on_frame(frame)? {
                            self.unbind(number)?;
                        }
                        Ok(Taken::Ordered)
                    }
                    Some(control) => Ok(Taken::Control(control)),
                }
            }
        }
    }

    fn on_define(&mut self, define: &Define) -> Result<(), WireError> {
        if define.history.is_some() && !self.history.is_agreed() {
            return Err(WireError::Unexpected {
                what: "a slot with history, which was not agreed on",
            });
        }
        let dictionary = match define.dictionary {
            0 => None,
            number => Some((number, self.dictionaries.live(number)?.clone())),
        };
        if dictionary.is_some() && define.history.is_none() && !takes_dictionary(define.codec) {
            return Err(WireError::Unexpected {
                what: "a slot with a dictionary in a codec that takes none",
            });
        }
        if !(self.accepts)(define.codec) {
            return Err(WireError::Unknown {
                what: "codec",
                given: u64::from(define.codec.to_wire()),
            });
        }
        let prime = dictionary.as_ref().map(|it| it.1.content().clone());
        let gone = self.history.held_at(define.slot);
        let primed = prime.as_ref().map_or(0, Bytes::len);
        self.history.define(
            define.slot,
            define.codec,
            define.group,
            define.history,
            prime,
        )?;
        let at = usize::from(define.slot.get());
        if at >= self.bindings.len() {
            self.bindings.reserve_exact(at + 1 - self.bindings.len());
            self.bindings.resize_with(at + 1, || None);
        }
        self.bindings[at] = Some(Binding {
            codec: define.codec,
            group: define.group,
            dictionary: dictionary.map(Box::new),
        });
        let (slot, group) = (define.slot, define.group);
        if let Some(gone) = gone {
            self.tell_context(ContextChange::Evicted, slot, gone, None);
        }
        if define.history.is_some() {
            let codec = Some(define.codec);
            self.tell_context(ContextChange::Begun, slot, group, codec);
            if primed > 0 {
                let change = ContextChange::Primed { bytes: primed };
                self.tell_context(change, slot, group, codec);
            }
        }
        Ok(())
    }

    /// A history of what the peer sends.
    fn tell_context(
        &self,
        change: ContextChange,
        slot: Slot,
        group: GroupId,
        codec: Option<CodecId>,
    ) {
        self.told
            .tell(Observations::CONTEXT, || Observation::Context {
                change,
                received: true,
                slot,
                group,
                arm: codec.map(|codec| Arm::new(codec, 0).with_history()),
            });
    }

    /// Nothing more comes with a dictionary: slots with it stand for nothing. Blocks that wait to be
    /// decoded keep what they need.
    fn unbind(&mut self, number: u64) -> Result<(), WireError> {
        for slot in (0..).map_while(Slot::new) {
            let Some(binding) = self.bindings.get_mut(usize::from(slot.get())) else {
                break;
            };
            let bound = binding.as_ref().and_then(|it| it.dictionary.as_ref());
            if bound.is_some_and(|bound| bound.0 == number) {
                *binding = None;
                let gone = self.history.held_at(slot);
                let group = GroupId::default();
                self.history
                    .define(slot, CodecId::IDENTITY, group, None, None)?;
                if let Some(gone) = gone {
                    self.tell_context(ContextChange::Evicted, slot, gone, None);
                }
            }
        }
        Ok(())
    }

    fn binding(&self, slot: Slot) -> Result<&Binding, WireError> {
        let binding = self.bindings.get(usize::from(slot.get()));
        let binding = binding.and_then(Option::as_ref).ok_or(WireError::Unknown {
            what: "slot",
            given: u64::from(slot.get()),
        })?;
        if (self.accepts)(binding.codec) {
            Ok(binding)
        } else {
            Err(WireError::Unknown {
                what: "codec",
                given: u64::from(binding.codec.to_wire()),
            })
        }
    }

    /// A block whose body is in front of `input`.
    fn on_block(&mut self, header: BlockHeader, input: &mut BytesMut) -> Result<(), WireError> {
        let slot = header.slot.or(self.last_slot);
        let slot = slot.ok_or(WireError::Unexpected {
            what: "a first block that names no slot",
        })?;
        self.last_slot = Some(slot);
        let binding = self.binding(slot)?;
        let (codec, group) = (binding.codec, binding.group);
        let dictionary = binding.dictionary.as_ref().map(|it| it.1.clone());
        let place = self.history.on_header(slot, header.epoch)?;
        let number = self.blocks_found;
        self.blocks_found += 1;
        let body_len = header.body_len;
        if let Some(observer) = self.told.of(Observations::BLOCK_RECEIVED) {
            observer.block_received(number, codec, body_len);
        }
        if header.epoch.is_some() {
            self.tell_context(ContextChange::Reset, slot, group, Some(codec));
        }
        let state = if codec == CodecId::IDENTITY {
            if let Some(declared) = header.plain_len.filter(|declared| *declared != body_len) {
                let actual = body_len;
                return Err(WireError::WrongPlainLen { declared, actual });
            }
            let (bytes, pinned) = cut_plain(input, body_len, self.input_room);
            let crc = if self.with_check {
                crate::wire::plain_crc(&bytes)
            } else {
                0
            };
            BlockState::Plain {
                bytes,
                pinned,
                crc,
                decode: None,
            }
        } else {
            let most_plain = self.limits.expanded(body_len);
            check_expansion(header.plain_len.unwrap_or(0), most_plain)?;
            let number = self.next_job;
            self.next_job += 1;
            self.jobs.push_back(DecodeJob {
                number,
                codec,
                wire: input.split_to(body_len).freeze(),
                plain_len: header.plain_len,
                max_plain: self.limits.max_block,
                most_plain,
                with_check: self.with_check,
                place,
                history: None,
                dictionary: dictionary.filter(|_| place.is_none()),
            });
            BlockState::Decoding { number }
        };
        self.inbound.push_back(Inbound::Block {
            number,
            header,
            group,
            is_closed: place.is_some(),
            state,
        });
        Ok(())
    }

    /// Takes in a decoded block.
    pub(super) fn on_decoded(
        &mut self,
        block: DecodedBlock,
        elapsed: Duration,
    ) -> Result<(), WireError> {
        self.decode_time.on_decoded(elapsed);
        if block.number < self.first_job {
            return Ok(());
        }
        let (bytes, crc) = block.result?;
        if let Some(place) = block.place {
            self.history.give_back(place, block.context, &bytes);
        }
        self.decode_nanos = self.decode_nanos.saturating_add(saturating_nanos(elapsed));
        self.count_decoded(block.codec, bytes.len(), elapsed);
        for inbound in &mut self.inbound {
            if let Inbound::Block { state, .. } = inbound {
                if matches!(state, BlockState::Decoding { number } if *number == block.number) {
                    *state = BlockState::Plain {
                        pinned: bytes.len(),
                        bytes,
                        crc,
                        decode: Some(elapsed),
                    };
                    break;
                }
            }
        }
        Ok(())
    }

    fn count_decoded(&mut self, codec: CodecId, plain: usize, elapsed: Duration) {
        let at = self
            .decoded
            .iter()
            .position(|report| report.codec == codec)
            .unwrap_or_else(|| {
                self.decoded.push(DecodeReport {
                    codec,
                    blocks: 0,
                    plain_bytes: 0,
                    nanos: 0,
                });
                self.decoded.len() - 1
            });
        let report = &mut self.decoded[at];
        report.blocks += 1;
        report.plain_bytes += plain as u64;
        report.nanos = report.nanos.saturating_add(saturating_nanos(elapsed));
        if !self.unreported.contains(&codec) {
            self.unreported.push(codec);
        }
    }

    /// When the acknowledgement of what was received must leave at the latest, if the `last` one left then.
    pub(super) fn ack_due(&self, delay: Duration, last: Option<Time>) -> Option<Time> {
        let first = self.first_unacked_at?;
        let wire_bytes = self.wire_bytes - self.acked_bytes;
        let is_much = self.frames - self.acked_frames >= ACK_FRAMES
            || wire_bytes >= ACK_BYTES
            || self.unacked_plain >= ACK_PLAIN && wire_bytes >= LEAST_ACKED;
        Some(if self.frames <= QUICK_FRAMES {
            first
        } else if is_much {
            last.map_or(first, |last| first.max(last + ACK_APART))
        } else {
            first + delay
        })
    }

    /// The acknowledgement of everything delivered.
    pub(super) fn ack(&mut self, now: Time) -> Ack {
        self.first_unacked_at = None;
        self.acked_frames = self.frames;
        self.acked_bytes = self.wire_bytes;
        self.unacked_plain = 0;
        let unreported = core::mem::take(&mut self.unreported);
        Ack {
            frames: self.frames,
            wire_bytes: self.wire_bytes,
            received_nanos: self.last_block_at.as_nanos(),
            held_nanos: saturating_nanos(now.saturating_since(self.last_block_at)),
            waited_nanos: self.block_waited_nanos,
            decoded: self
                .decoded
                .iter()
                .filter(|report| unreported.contains(&report.codec))
                .copied()
                .collect(),
        }
    }

    /// Bytes of blocks that wait for their turn.
    pub(super) fn undelivered(&self) -> u64 {
        let blocks = self.inbound.iter().map(|it| match it {
            Inbound::Control(_) => 0,
            Inbound::Block { header, state, .. } => match state {
                BlockState::Plain { bytes, .. } => bytes.len(),
                BlockState::Decoding { .. } => {
                    let most = self.limits.expanded(header.body_len);
                    let plain_len = header.plain_len.unwrap_or(most.min(self.limits.max_block));
                    header.body_len + plain_len
                }
            },
        });
        blocks.map(|bytes| bytes as u64).sum()
    }

    /// What decoding has cost in all.
    pub(super) fn decode_reports(&self) -> Vec<DecodeReport> {
        self.decoded.clone()
    }
}

/// What was at the front of the input.
#[derive(Debug)]
pub(super) enum Taken {
    /// No whole frame.
    Nothing,
    /// A frame that takes effect in its order.
    Ordered,
    /// A control frame that takes effect at once.
    Control(Control),
}
