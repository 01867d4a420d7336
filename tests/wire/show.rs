//! What was read, as the vectors write it.

use tautline::session::Role;
use tautline::wire::{
    CloseCode, Control, DecodeReport, DictionaryFrame, DictionaryNews, DictionaryVerdict, Frame,
    GoAwayCode, Hello, Part, Record, RecordKind, Slot, StopReason, StreamId, WireError,
};

use super::vectors::hex;

/// The name of an error's variant.
fn kind(error: &WireError) -> String {
    let text = format!("{error:?}");
    let end = text.find(|c: char| !c.is_alphanumeric());
    text[..end.unwrap_or(text.len())].to_owned()
}

pub(super) fn show_error(error: &WireError) -> String {
    format!("error={}", kind(error))
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

pub(super) fn show_hello(hello: &Hello) -> String {
    let codecs: Vec<_> = hello
        .codecs
        .iter()
        .map(|peer| format!("{}:{}", peer.codec.to_wire(), peer.window_log))
        .collect();
    format!(
        "hello versions={}-{} role={} session={} codecs={} offered={:#x} required={:#x} max_message={} \
         max_block={} max_streams={} window={}",
        hello.versions.0,
        hello.versions.1,
        show_role(hello.role),
        hex(&hello.session),
        codecs.join(","),
        hello.offered.0,
        hello.required.0,
        hello.max_message,
        hello.max_block,
        hello.max_streams,
        hello.window
    ) + &show_credit(hello)
        + &show_dictionaries(hello)
        + &show_resume(hello)
}

fn show_credit(hello: &Hello) -> String {
    hello
        .credit
        .map_or_else(String::new, |credit| format!(" credit={credit}"))
}

fn show_resume(hello: &Hello) -> String {
    hello.resume.map_or_else(String::new, |resume| {
        let token = hex(&resume.token);
        format!(" resume={token}:{}:{}", resume.connection, resume.received)
    })
}

fn show_dictionaries(hello: &Hello) -> String {
    let said = &hello.dictionaries;
    if said.max_len == 0 {
        return String::new();
    }
    let held: Vec<_> = said.held.iter().map(|prefix| hex(prefix)).collect();
    let held = held.join(",");
    format!(" dictionaries={}:{}:{held}", said.max_len, said.max_held)
}

pub(super) fn show_role(role: Role) -> &'static str {
    match role {
        Role::Connector => "connector",
        Role::Acceptor => "acceptor",
    }
}

pub(super) fn show_frame(frame: &Frame) -> String {
    match frame {
        Frame::Block { header, body_at } => format!(
            "block slot={} epoch={} plain={} body={} check={:#x} body_at={body_at}",
            or_dash(header.slot.map(Slot::get)),
            or_dash(header.epoch),
            or_dash(header.plain_len),
            header.body_len,
            header.check
        ),
        Frame::Control { control, .. } => {
            control.as_ref().map_or("skipped".to_owned(), show_control)
        }
    }
}

fn show_control(control: &Control) -> String {
    match control {
        Control::Probe(probe) => format!("probe id={}", probe.id),
        Control::ProbeReply(reply) => format!(
            "probe-reply id={} received={} held={} load={} budget={} decoded={}",
            reply.id,
            reply.received_nanos,
            reply.held_nanos,
            reply.load_permille,
            reply.codec_budget,
            show_reports(&reply.decoded)
        ),
        Control::Ack(ack) => format!(
            "ack frames={} wire={} received={} held={} waited={} decoded={}",
            ack.frames,
            ack.wire_bytes,
            ack.received_nanos,
            ack.held_nanos,
            ack.waited_nanos,
            show_reports(&ack.decoded)
        ),
        Control::Open(open) => format!(
            "open stream={} group={} window={} name={}",
            open.stream.get(),
            open.group.0,
            open.window,
            open.name
        ),
        Control::Close(close) => {
            format!(
                "close stream={} {}",
                close.stream.get(),
                show_end(close.code)
            )
        }
        Control::Window(window) => {
            format!(
                "window stream={} limit={}",
                window.stream.get(),
                window.limit
            )
        }
        Control::Credit(credit) => {
            let stream = or_dash(credit.stream.map(StreamId::get));
            format!("credit stream={stream} amount={}", credit.amount)
        }
        Control::Blocked(blocked) => {
            let (stream, needs) = (blocked.stream.get(), blocked.needs);
            format!("blocked stream={stream} needs={needs} had={}", blocked.had)
        }
        Control::Unused(unused) => format!("unused amount={}", unused.amount),
        Control::Stop(stop) => {
            let StopReason::TooLong { given } = stop.reason else {
                panic!("{stop:?} has no vectors");
            };
            let (stream, messages) = (stop.stream.get(), stop.messages);
            format!("stop stream={stream} messages={messages} too-long={given}")
        }
        Control::GoAway(go_away) => format!(
            "go-away code={} detail={}",
            code_number(go_away.code),
            go_away.detail
        ),
        Control::Fault(fault) => {
            format!(
                "fault code={} detail={}",
                code_number(fault.code),
                fault.detail
            )
        }
        Control::Define(define) => format!(
            "define slot={} codec={} group={} history={} dictionary={}",
            define.slot.get(),
            define.codec.to_wire(),
            define.group.0,
            define.history.unwrap_or(0),
            define.dictionary
        ),
        Control::Dictionary(frame) => show_dictionary(frame),
        Control::DictionaryAnswer(answer) => {
            let verdict = match answer.verdict {
                DictionaryVerdict::Held => "held",
                DictionaryVerdict::Wanted => "wanted",
                DictionaryVerdict::Refused => "refused",
                other => panic!("{other:?} has no vectors"),
            };
            format!(
                "dictionary-answer number={} verdict={verdict}",
                answer.number
            )
        }
        other => panic!("{other:?} has no vectors"),
    }
}

fn show_reports(reports: &[DecodeReport]) -> String {
    let reports: Vec<_> = reports
        .iter()
        .map(|report| {
            let codec = report.codec.to_wire();
            let (blocks, plain, nanos) = (report.blocks, report.plain_bytes, report.nanos);
            format!("{codec}/{blocks}/{plain}/{nanos}")
        })
        .collect();
    reports.join(",")
}

pub(super) fn show_end(code: CloseCode) -> String {
    match code {
        CloseCode::Finished => "finished".to_owned(),
        CloseCode::Aborted(code) => format!("aborted={code}"),
    }
}

pub(super) fn code_number(code: GoAwayCode) -> u64 {
    match code {
        GoAwayCode::Done => 0,
        GoAwayCode::Protocol => 1,
        GoAwayCode::Version => 2,
        GoAwayCode::Feature => 3,
        GoAwayCode::Limit => 4,
        GoAwayCode::Integrity => 5,
        GoAwayCode::Undecodable => 6,
        GoAwayCode::Internal => 7,
        GoAwayCode::SessionLost => 8,
        GoAwayCode::Other(number) => number,
        other => panic!("{other:?} has no number here"),
    }
}

pub(super) fn show_kind(kind: RecordKind) -> String {
    match kind {
        RecordKind::Message => "message".to_owned(),
        RecordKind::Request { correlation } => format!("request:{correlation}"),
        RecordKind::Reply { correlation } => format!("reply:{correlation}"),
        RecordKind::Part(part) => match part {
            Part::More => "part",
            Part::Last => "last-part",
            Part::GivenUp => "given-up",
        }
        .to_owned(),
    }
}

pub(super) fn show_record(record: &Record) -> String {
    format!(
        "record stream={} kind={} more={} total={} payload={}",
        record.stream.get(),
        record.kind.map_or("continued".to_owned(), show_kind),
        u8::from(record.more),
        or_dash(record.message_len),
        hex(&record.payload)
    )
}

fn show_dictionary(frame: &DictionaryFrame) -> String {
    match &frame.what {
        DictionaryNews::Offer {
            hash,
            len,
            codec,
            wire_len,
        } => format!(
            "dictionary-offer number={} len={len} codec={} wire={wire_len} hash={}",
            frame.number,
            codec.to_wire(),
            hex(hash)
        ),
        DictionaryNews::Piece(bytes) => {
            format!(
                "dictionary-piece number={} bytes={}",
                frame.number,
                hex(bytes)
            )
        }
        DictionaryNews::Retire => format!("dictionary-retire number={}", frame.number),
        other => panic!("{other:?} has no vectors"),
    }
}
