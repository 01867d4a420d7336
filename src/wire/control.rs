//! Control frames: what the two sessions tell each other besides blocks.

use super::dictionary::{DictionaryAnswer, DictionaryFrame};
use super::varint::{Fields, put_varint};
use super::{GroupId, Slot, StreamId, WireError};
use crate::codecs::CodecId;

/// Kinds from here on may be skipped by those who do not know them.
const FIRST_IGNORABLE: u8 = 17;
/// The last frame of a connection: who does not know it would skip it, too.
const FAULT: u8 = 16;
/// Why a stream is stopped: 0 stands for an application that wants no more, which nobody says yet.
const STOP_TOO_LONG: u64 = 1;
/// The longest stream name, bytes.
const MAX_NAME_LEN: usize = 255;
/// The longest text of a go-away, bytes.
const MAX_DETAIL_LEN: usize = 255;
/// More codecs than ever have numbers.
const MAX_REPORTS: u64 = 64;

/// A control frame.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// Measures the round trip.
    Probe(Probe),
    /// Answers a probe.
    ProbeReply(ProbeReply),
    /// Acknowledges blocks.
    Ack(Ack),
    /// Opens a stream.
    Open(Open),
    /// Ends one direction of a stream.
    Close(Close),
    /// Lets the peer send more on a stream.
    Window(Window),
    /// Ends the session.
    GoAway(GoAway),
    /// Says what a slot stands for from here on.
    Define(Define),
    /// Says what there is to say of a dictionary.
    Dictionary(DictionaryFrame),
    /// Answers the offer of a dictionary.
    DictionaryAnswer(DictionaryAnswer),
    /// Lets the peer send more on the connection.
    Credit(Credit),
    /// Says that a stream waits for credit of the connection.
    Blocked(Blocked),
    /// Gives back credit of a stream that has ended.
    Unused(Unused),
    /// Takes nothing more on a stream.
    Stop(Stop),
    /// Ends the connection, of a session that goes on over another one: what was wrong with it.
    Fault(GoAway),
}

/// Asks for a reply at once; the sender keeps its own stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Chosen by the sender, repeated in the reply.
    pub id: u64,
    /// Zeros behind it, so that it takes a link longer; at most [`MOST_PADDING`](Self::MOST_PADDING).
    pub padding: usize,
}

impl Probe {
    /// What a control frame of 4096 bytes has room for beside the longest id, its head and its check.
    pub const MOST_PADDING: usize = 4096 - 10 - 8;
}

/// Answers a [`Probe`]. Stamps are on the replier's clock; only their difference means something
/// to the asker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeReply {
    /// The probe's.
    pub id: u64,
    /// When the probe was received, ns.
    pub received_nanos: u64,
    /// How long it then waited for its reply to be written, ns.
    pub held_nanos: u64,
    /// The replier's processor load, in thousandths, up to [`Self::FULL_LOAD`] if it is true.
    pub load_permille: u64,
    /// Processor time per second that the replier grants to codecs, ns; 0 states no limit.
    pub codec_budget: u64,
    /// What decoding has cost the replier.
    pub decoded: Vec<DecodeReport>,
}

impl ProbeReply {
    /// The load of a processor that never rests.
    pub const FULL_LOAD: u64 = 1000;
    /// The most that can be granted, ns per second: a million processors.
    pub const MOST_BUDGET: u64 = 1_000_000 * 1_000_000_000;
}

/// Acknowledges frames; all counts are since the connection began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// Numbered frames received that have taken effect: blocks, opens, closes, go-aways, defines.
    pub frames: u64,
    /// Bytes received in all, control frames and handshake included.
    pub wire_bytes: u64,
    /// When the last of them was received, on the receiver's clock, ns.
    pub received_nanos: u64,
    /// How long the acknowledgement then waited, ns.
    pub held_nanos: u64,
    /// How long the receiver, ready to read, has waited for bytes in all, up to that time, ns. One that
    /// hardly waits is slower than the link.
    pub waited_nanos: u64,
    /// What decoding has cost the receiver, for codecs used since the last report.
    pub decoded: Vec<DecodeReport>,
}

/// What decoding blocks of one codec has cost in all since the connection began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeReport {
    /// The codec.
    pub codec: CodecId,
    /// Blocks decoded.
    pub blocks: u64,
    /// Plain bytes they became.
    pub plain_bytes: u64,
    /// Time it took, ns.
    pub nanos: u64,
}

/// Opens a stream in both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Even when the connecting side opens, odd when the accepting side does; not used before.
    pub stream: StreamId,
    /// The group of its opener's direction.
    pub group: GroupId,
    /// The window that the peer has on it at first, bytes; 0 for the handshake's default.
    pub window: u64,
    /// At most 255 bytes.
    pub name: String,
}

/// Says that nothing more comes on a stream from this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// The stream.
    pub stream: StreamId,
    /// Why.
    pub code: CloseCode,
}

/// Why one direction of a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseCode {
    /// All messages were sent.
    Finished,
    /// The sender gave up; messages may be missing. Numbers are the application's.
    Aborted(u32),
}

/// Raises the window of a stream: what the peer may have sent on it since it opened, bytes, counting
/// payloads and [`MESSAGE_CHARGE`](super::MESSAGE_CHARGE) for each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The stream.
    pub stream: StreamId,
    /// The new limit; never lower than before.
    pub limit: u64,
}

/// More credit of the connection: what the peer may send besides what it was given before, bytes, counted as for [`Window`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// The one stream that it is for, or `None` for all of them.
    pub stream: Option<StreamId>,
    /// How much more; not 0.
    pub amount: u64,
}

/// A stream has messages that its window takes and the connection's credit does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The stream.
    pub stream: StreamId,
    /// What the message in front still takes, bytes; not 0.
    pub needs: u64,
    /// The credit that it has been given for this stream alone since the connection began, bytes: what is on its way comes on top.
    pub had: u64,
}

/// Credit of one stream that its sender does not need any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unused {
    /// How much, bytes; not 0.
    pub amount: u64,
}

/// Nothing more is taken on a stream: what still comes on it is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The stream.
    pub stream: StreamId,
    /// Messages of it that were taken, and are the only ones.
    pub messages: u64,
    /// Why.
    pub reason: StopReason,
}

/// Why nothing more is taken on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The message after those that were taken is longer than this side takes.
    TooLong {
        /// Its length as it was announced, bytes.
        given: u64,
    },
}

/// Why a session, or with [`Control::Fault`] a connection, ends: no new messages from this side; with [`GoAwayCode::Done`] all that was queued came before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoAway {
    /// Why.
    pub code: GoAwayCode,
    /// In words, at most 255 bytes.
    pub detail: String,
}

/// Why a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GoAwayCode {
    /// The application closed it; everything queued has been sent.
    Done,
    /// The peer broke the wire format.
    Protocol,
    /// Not a tautline peer, or no common version.
    Version,
    /// A required feature is missing.
    Feature,
    /// A limit was exceeded.
    Limit,
    /// A checksum did not match.
    Integrity,
    /// A block did not decode.
    Undecodable,
    /// The side that says so has failed.
    Internal,
    /// The session that was to go on over this connection is not known any more.
    SessionLost,
    /// A code of a later version.
    Other(u64),
}

impl GoAwayCode {
    const KNOWN: [Self; 9] = [
        Self::Done,
        Self::Protocol,
        Self::Version,
        Self::Feature,
        Self::Limit,
        Self::Integrity,
        Self::Undecodable,
        Self::Internal,
        Self::SessionLost,
    ];

    fn from_wire(number: u64) -> Self {
        usize::try_from(number)
            .ok()
            .and_then(|at| Self::KNOWN.get(at).copied())
            .unwrap_or(Self::Other(number))
    }

    fn to_wire(self) -> u64 {
        match self {
            Self::Other(number) => number,
            known => Self::KNOWN
                .iter()
                .position(|code| *code == known)
                .unwrap_or_default() as u64,
        }
    }
}

impl core::fmt::Display for GoAwayCode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Protocol => f.write_str("protocol violation"),
            Self::Version => f.write_str("no common version"),
            Self::Feature => f.write_str("missing feature"),
            Self::Limit => f.write_str("limit exceeded"),
            Self::Integrity => f.write_str("checksum mismatch"),
            Self::Undecodable => f.write_str("undecodable block"),
            Self::Internal => f.write_str("internal failure"),
            Self::SessionLost => f.write_str("session lost"),
            Self::Other(number) => write!(f, "reason {number}"),
        }
    }
}

/// Plain bytes of the group that a history begins with, at most.
pub const MAX_PRIME: usize = 32 << 10;

/// Binds a slot for the blocks that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Define {
    /// The slot.
    pub slot: Slot,
    /// The codec of its blocks.
    pub codec: CodecId,
    /// The group they belong to.
    pub group: GroupId,
    /// Whether history is carried from block to block: the binary logarithm of its length, bytes.
    pub history: Option<u8>,
    /// Number of the dictionary as announced on this connection; 0 for none.
    pub dictionary: u64,
}

const DEFINE_HISTORY: u8 = 0x01;

impl Control {
    /// Whether the frame is numbered: it takes effect in order with the blocks, and is acknowledged.
    pub const fn is_numbered(&self) -> bool {
        matches!(
            self,
            Self::Open(_) | Self::Close(_) | Self::GoAway(_) | Self::Define(_)
        )
    }

    pub(super) const fn kind(&self) -> u8 {
        match self {
            Self::Probe(_) => 1,
            Self::ProbeReply(_) => 2,
            Self::Ack(_) => 3,
            Self::Open(_) => 4,
            Self::Close(_) => 5,
            Self::Window(_) => 6,
            Self::GoAway(_) => 7,
            Self::Define(_) => 8,
            Self::Dictionary(_) => 9,
            Self::DictionaryAnswer(_) => 10,
            Self::Stop(_) => 11,
            Self::Credit(_) => 12,
            Self::Blocked(_) => 13,
            Self::Unused(_) => 14,
            Self::Fault(_) => FAULT,
        }
    }

    /// Reads the body of a control frame; `None` for a kind that may be skipped.
    pub(super) fn parse(kind: u8, body: &[u8]) -> Result<Option<Self>, WireError> {
        let mut fields = Fields::new("control frame", body);
        let control = match kind {
            1 => Self::Probe(Probe {
                id: fields.varint()?,
                padding: zeros(fields.rest()).min(Probe::MOST_PADDING),
            }),
            2 => Self::ProbeReply(ProbeReply {
                id: fields.varint()?,
                received_nanos: fields.varint()?,
                held_nanos: fields.varint()?,
                load_permille: fields.varint()?,
                codec_budget: fields.varint()?,
                decoded: parse_reports(&mut fields)?,
            }),
            3 => Self::Ack(Ack {
                frames: fields.varint()?,
                wire_bytes: fields.varint()?,
                received_nanos: fields.varint()?,
                held_nanos: fields.varint()?,
                waited_nanos: fields.varint()?,
                decoded: parse_reports(&mut fields)?,
            }),
            4 => Self::Open(Open {
                stream: stream_id(&mut fields)?,
                group: group_id(&mut fields)?,
                window: fields.varint()?,
                name: fields.text("stream name length", MAX_NAME_LEN)?.to_owned(),
            }),
            5 => Self::Close(Close {
                stream: stream_id(&mut fields)?,
                code: match fields.varint_to("close code", u64::from(u32::MAX))? {
                    0 => CloseCode::Finished,
                    code => CloseCode::Aborted((code - 1) as u32),
                },
            }),
            6 => Self::Window(Window {
                stream: stream_id(&mut fields)?,
                limit: fields.varint()?,
            }),
            7 => Self::GoAway(parse_go_away(&mut fields)?),
            8 => Self::Define(parse_define(&mut fields)?),
            9 => Self::Dictionary(DictionaryFrame::parse(&mut fields)?),
            10 => Self::DictionaryAnswer(DictionaryAnswer::parse(&mut fields)?),
            11 => Self::Stop(parse_stop(&mut fields)?),
            12 => Self::Credit(parse_credit(&mut fields)?),
            13 => Self::Blocked(parse_blocked(&mut fields)?),
            14 => Self::Unused(Unused {
                amount: at_least("credit given back", fields.varint()?, 1)?,
            }),
            FAULT => Self::Fault(parse_go_away(&mut fields)?),
            FIRST_IGNORABLE.. => return Ok(None),
            _ => {
                return Err(WireError::Unknown {
                    what: "control frame",
                    given: u64::from(kind),
                });
            }
        };
        // Measurements may grow fields in later versions; what changes the session's state may not.
        if !matches!(control, Self::Probe(_) | Self::ProbeReply(_) | Self::Ack(_)) {
            fields.finish()?;
        }
        Ok(Some(control))
    }

    pub(super) fn put_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::Probe(probe) => {
                put_varint(out, probe.id);
                let padding = probe.padding.min(Probe::MOST_PADDING);
                out.resize(out.len() + padding, 0);
            }
            Self::ProbeReply(reply) => {
                put_varint(out, reply.id);
                put_varint(out, reply.received_nanos);
                put_varint(out, reply.held_nanos);
                put_varint(out, reply.load_permille);
                put_varint(out, reply.codec_budget);
                put_reports(out, &reply.decoded);
            }
            Self::Ack(ack) => {
                put_varint(out, ack.frames);
                put_varint(out, ack.wire_bytes);
                put_varint(out, ack.received_nanos);
                put_varint(out, ack.held_nanos);
                put_varint(out, ack.waited_nanos);
                put_reports(out, &ack.decoded);
            }
            Self::Open(open) => {
                put_varint(out, u64::from(open.stream.get()));
                put_varint(out, u64::from(open.group.0));
                put_varint(out, open.window);
                put_text(out, &open.name, MAX_NAME_LEN);
            }
            Self::Close(close) => {
                put_varint(out, u64::from(close.stream.get()));
                put_varint(
                    out,
                    match close.code {
                        CloseCode::Finished => 0,
                        CloseCode::Aborted(code) => u64::from(code.min(u32::MAX - 1)) + 1,
                    },
                );
            }
            Self::Window(window) => {
                put_varint(out, u64::from(window.stream.get()));
                put_varint(out, window.limit);
            }
            Self::GoAway(go_away) | Self::Fault(go_away) => {
                put_varint(out, go_away.code.to_wire());
                put_text(out, &go_away.detail, MAX_DETAIL_LEN);
            }
            Self::Credit(credit) => {
                let to = credit
                    .stream
                    .map_or(0, |stream| u64::from(stream.get()) + 1);
                put_varint(out, to);
                put_varint(out, credit.amount);
            }
            Self::Blocked(blocked) => {
                put_varint(out, u64::from(blocked.stream.get()));
                put_varint(out, blocked.needs);
                put_varint(out, blocked.had);
            }
            Self::Unused(unused) => put_varint(out, unused.amount),
            Self::Stop(stop) => {
                put_varint(out, u64::from(stop.stream.get()));
                put_varint(out, stop.messages);
                let StopReason::TooLong { given } = stop.reason;
                put_varint(out, STOP_TOO_LONG);
                put_varint(out, given);
            }
            Self::Dictionary(frame) => frame.put_body(out),
            Self::DictionaryAnswer(answer) => answer.put_body(out),
            Self::Define(define) => {
                out.push(define.slot.get());
                out.push(define.codec.to_wire());
                put_varint(out, u64::from(define.group.0));
                out.push(if define.history.is_some() {
                    DEFINE_HISTORY
                } else {
                    0
                });
                put_varint(out, define.dictionary);
                out.extend(define.history);
            }
        }
    }
}

fn at_least(field: &'static str, given: u64, min: u64) -> Result<u64, WireError> {
    if given < min {
        return Err(WireError::FieldTooSmall { field, given, min });
    }
    Ok(given)
}

fn parse_go_away(fields: &mut Fields<'_>) -> Result<GoAway, WireError> {
    Ok(GoAway {
        code: GoAwayCode::from_wire(fields.varint()?),
        detail: fields
            .text("go-away text length", MAX_DETAIL_LEN)?
            .to_owned(),
    })
}

fn parse_credit(fields: &mut Fields<'_>) -> Result<Credit, WireError> {
    let max = u64::from(StreamId::MAX) + 1;
    let to = fields.varint_to("stream of credit", max)?;
    Ok(Credit {
        stream: to
            .checked_sub(1)
            .and_then(|number| StreamId::new(number as u32)),
        amount: at_least("credit", fields.varint()?, 1)?,
    })
}

fn parse_blocked(fields: &mut Fields<'_>) -> Result<Blocked, WireError> {
    let stream = stream_id(fields)?;
    let needs = at_least("what a message needs", fields.varint()?, 1)?;
    let had = fields.varint()?;
    Ok(Blocked { stream, needs, had })
}

fn parse_stop(fields: &mut Fields<'_>) -> Result<Stop, WireError> {
    let stream = stream_id(fields)?;
    let messages = fields.varint()?;
    let reason = match fields.varint()? {
        STOP_TOO_LONG => StopReason::TooLong {
            given: fields.varint()?,
        },
        given => {
            let what = "reason to stop";
            return Err(WireError::Unknown { what, given });
        }
    };
    Ok(Stop {
        stream,
        messages,
        reason,
    })
}

fn stream_id(fields: &mut Fields<'_>) -> Result<StreamId, WireError> {
    let max = u64::from(StreamId::MAX);
    let number = fields.varint_to("stream id", max)?;
    StreamId::new(number as u32).ok_or(WireError::FieldTooLarge {
        field: "stream id",
        given: number,
        max,
    })
}

fn group_id(fields: &mut Fields<'_>) -> Result<GroupId, WireError> {
    Ok(GroupId(fields.varint_to("group", u64::from(u8::MAX))? as u8))
}

fn parse_define(fields: &mut Fields<'_>) -> Result<Define, WireError> {
    let slot = fields.byte()?;
    let slot = Slot::new(slot).ok_or(WireError::Unknown {
        what: "slot",
        given: u64::from(slot),
    })?;
    let codec = CodecId::from_wire(fields.byte()?);
    let group = group_id(fields)?;
    let flags = fields.byte()?;
    if flags & !DEFINE_HISTORY != 0 {
        return Err(WireError::Unknown {
            what: "slot flags",
            given: u64::from(flags),
        });
    }
    let dictionary = fields.varint()?;
    let history = if flags & DEFINE_HISTORY == 0 {
        None
    } else {
        Some(fields.byte()?)
    };
    Ok(Define {
        slot,
        codec,
        group,
        history,
        dictionary,
    })
}

/// How many of the first bytes are zero.
fn zeros(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| **byte == 0).count()
}

fn parse_reports(fields: &mut Fields<'_>) -> Result<Vec<DecodeReport>, WireError> {
    let count = fields.varint_to("number of decode reports", MAX_REPORTS)?;
    (0..count)
        .map(|_| {
            Ok(DecodeReport {
                codec: CodecId::from_wire(fields.byte()?),
                blocks: fields.varint()?,
                plain_bytes: fields.varint()?,
                nanos: fields.varint()?,
            })
        })
        .collect()
}

fn put_reports(out: &mut Vec<u8>, reports: &[DecodeReport]) {
    debug_assert!(reports.len() as u64 <= MAX_REPORTS, "one report a codec");
    put_varint(out, reports.len() as u64);
    for report in reports {
        out.push(report.codec.to_wire());
        put_varint(out, report.blocks);
        put_varint(out, report.plain_bytes);
        put_varint(out, report.nanos);
    }
}

/// Appends as much of `text` as `max` bytes hold, cut between characters.
fn put_text(out: &mut Vec<u8>, text: &str, max: usize) {
    let mut len = text.len().min(max);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    put_varint(out, len as u64);
    out.extend_from_slice(&text.as_bytes()[..len]);
}

#[cfg(test)]
mod tests {
    use super::super::{DictionaryNews, DictionaryVerdict, Frame, parse_frame};
    use super::*;

    fn samples() -> Vec<Control> {
        let stream = StreamId::new(300).expect("in range");
        let report = DecodeReport {
            codec: CodecId::ZSTD,
            blocks: 3,
            plain_bytes: 70_000,
            nanos: 412_345,
        };
        vec![
            Control::Probe(Probe { id: 5, padding: 0 }),
            Control::ProbeReply(ProbeReply {
                id: 5,
                received_nanos: 1 << 40,
                held_nanos: 900,
                load_permille: 755,
                codec_budget: 1_000_000_000,
                decoded: vec![report],
            }),
            Control::Ack(Ack {
                frames: 12,
                wire_bytes: 99_000,
                received_nanos: 77,
                held_nanos: 0,
                waited_nanos: 5,
                decoded: vec![report; 20],
            }),
            Control::Open(Open {
                stream,
                group: GroupId(0),
                window: 0,
                name: "control/ngap".into(),
            }),
            Control::Close(Close {
                stream,
                code: CloseCode::Finished,
            }),
            Control::Close(Close {
                stream,
                code: CloseCode::Aborted(0),
            }),
            Control::Window(Window {
                stream,
                limit: u64::MAX,
            }),
            Control::GoAway(GoAway {
                code: GoAwayCode::Integrity,
                detail: "x".repeat(255),
            }),
            Control::GoAway(GoAway {
                code: GoAwayCode::Other(99),
                detail: String::new(),
            }),
            Control::Fault(GoAway {
                code: GoAwayCode::Limit,
                detail: "too long".into(),
            }),
            Control::Define(Define {
                slot: Slot::new(9).expect("in range"),
                codec: CodecId::LZ4,
                group: GroupId(2),
                history: Some(17),
                dictionary: 4,
            }),
            Control::Dictionary(DictionaryFrame {
                number: 300,
                what: DictionaryNews::Offer {
                    hash: [7; 32],
                    len: 16_384,
                    codec: CodecId::ZSTD,
                    wire_len: 8_000,
                },
            }),
            Control::Dictionary(DictionaryFrame {
                number: 1,
                what: DictionaryNews::Piece(vec![5; 100]),
            }),
            Control::Dictionary(DictionaryFrame {
                number: 1,
                what: DictionaryNews::Retire,
            }),
            Control::DictionaryAnswer(DictionaryAnswer {
                number: 2,
                verdict: DictionaryVerdict::Refused,
            }),
            Control::Stop(Stop {
                stream,
                messages: 7,
                reason: StopReason::TooLong { given: 1 << 40 },
            }),
        ]
    }

    #[test]
    fn control_frames_read_back_and_wait_for_their_last_byte() {
        for control in samples() {
            let mut bytes = Vec::new();
            control.put(&mut bytes);
            for cut in 0..bytes.len() {
                assert_eq!(
                    parse_frame(&bytes[..cut], 1, true),
                    Ok(None),
                    "{control:?} cut at {cut}"
                );
            }
            assert_eq!(
                parse_frame(&bytes, 1, true),
                Ok(Some(Frame::Control {
                    control: Some(control),
                    len: bytes.len()
                }))
            );
        }
    }

    #[test]
    fn a_changed_bit_anywhere_is_noticed() {
        for control in samples() {
            let mut bytes = Vec::new();
            control.put(&mut bytes);
            for at in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[at / 8] ^= 1 << (at % 8);
                let expected = Ok(Some(Frame::Control {
                    control: Some(control.clone()),
                    len: bytes.len(),
                }));
                assert_ne!(
                    parse_frame(&damaged, 1, true),
                    expected,
                    "{control:?} bit {at}"
                );
            }
        }
    }

    #[test]
    fn unknown_kinds_are_skipped_or_refused_by_their_number() {
        assert_eq!(Control::parse(20, b"whatever"), Ok(None));
        assert!(matches!(
            Control::parse(15, b""),
            Err(WireError::Unknown { .. })
        ));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let mut out = Vec::new();
        put_text(&mut out, &"é".repeat(200), 255);
        assert_eq!(out.len(), 2 + 254);
    }
}
