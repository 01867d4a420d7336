//! The wire format against the vectors of `tests/vectors`, and against arbitrary bytes.
//!
//! `tests/vectors/check.py` checks the same vectors with a second implementation.

use std::path::Path;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use tautline::codecs::{CodecId, Codecs, DecodeError, DecodeLimits, info};
use tautline::control::PolicyConfig;
use tautline::session::{
    CodecWorker, Event, Role, Session, SessionConfig, SessionError, StreamConfig,
};
use tautline::units::Time;
use tautline::wire::{
    Ack, BlockHeader, Check, Close, CloseCode, Control, DecodeReport, Define, Features, Frame,
    GoAway, GoAwayCode, GroupId, Hello, MAX_SHORT_BODY, Open, Probe, ProbeReply, Record,
    RecordKind, RecordReader, RecordWriter, Slot, StreamId, Window, WireError, parse_frame,
    plain_crc,
};

/// The longest block of a vector that names none.
const MAX_BLOCK: usize = 256 << 10;

// ---- vectors

/// A vector: its lines in order.
struct Vector(Vec<(String, String)>);

impl Vector {
    fn name(&self) -> &str {
        &self.0[0].1
    }

    fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    fn number(&self, key: &str) -> Option<usize> {
        self.values(key)
            .next()
            .map(|value| value.parse().expect("a number"))
    }

    fn says(&self, key: &str, value: &str) -> bool {
        self.values(key).any(|given| given == value)
    }

    fn bytes(&self, key: &str) -> Vec<u8> {
        unhex(&self.values(key).collect::<String>())
    }

    fn expected(&self) -> Vec<String> {
        self.values("expect").map(str::to_owned).collect()
    }
}

fn vectors(file: &str) -> Vec<Vector> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vectors")
        .join(file);
    let text = std::fs::read_to_string(&path).expect("the vector file");
    let mut vectors: Vec<Vector> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line.split_once(':').expect("`key: value`");
        if key == "name" {
            vectors.push(Vector(Vec::new()));
        }
        let vector = vectors.last_mut().expect("a vector begins with its name");
        vector.0.push((key.to_owned(), value.trim().to_owned()));
    }
    assert!(!vectors.is_empty(), "{file} has no vector");
    for vector in &vectors {
        let expects = vector.values("expect").count();
        assert!(expects > 0, "{file}: {} expects nothing", vector.name());
    }
    vectors
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len() % 2 == 0, "an odd number of digits");
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex"))
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 0x0f)])
        .collect()
}

/// The name of an error's variant.
fn kind(error: &WireError) -> String {
    let text = format!("{error:?}");
    let end = text.find(|c: char| !c.is_alphanumeric());
    text[..end.unwrap_or(text.len())].to_owned()
}

fn show_error(error: &WireError) -> String {
    format!("error={}", kind(error))
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

// ---- as the vectors write it

fn show_hello(hello: &Hello) -> String {
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
    )
}

fn show_role(role: Role) -> &'static str {
    match role {
        Role::Connector => "connector",
        Role::Acceptor => "acceptor",
    }
}

fn show_frame(frame: &Frame) -> String {
    match frame {
        Frame::Block { header, body_at } => format!(
            "block slot={} epoch={} plain={} body={} check={:#x} body_at={body_at}",
            header.slot.get(),
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
        Control::GoAway(go_away) => format!(
            "go-away code={} detail={}",
            code_number(go_away.code),
            go_away.detail
        ),
        Control::Define(define) => format!(
            "define slot={} codec={} group={} context={} dictionary={}",
            define.slot.get(),
            define.codec.to_wire(),
            define.group.0,
            u8::from(define.carries_context),
            define.dictionary
        ),
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

fn show_end(code: CloseCode) -> String {
    match code {
        CloseCode::Finished => "finished".to_owned(),
        CloseCode::Aborted(code) => format!("aborted={code}"),
    }
}

fn code_number(code: GoAwayCode) -> u64 {
    match code {
        GoAwayCode::Done => 0,
        GoAwayCode::Protocol => 1,
        GoAwayCode::Version => 2,
        GoAwayCode::Feature => 3,
        GoAwayCode::Limit => 4,
        GoAwayCode::Integrity => 5,
        GoAwayCode::Undecodable => 6,
        GoAwayCode::Internal => 7,
        GoAwayCode::Other(number) => number,
        other => panic!("{other:?} has no number here"),
    }
}

fn show_kind(kind: RecordKind) -> String {
    match kind {
        RecordKind::Message => "message".to_owned(),
        RecordKind::Request { correlation } => format!("request:{correlation}"),
        RecordKind::Reply { correlation } => format!("reply:{correlation}"),
    }
}

fn show_record(record: &Record) -> String {
    format!(
        "record stream={} kind={} more={} total={} payload={}",
        record.stream.get(),
        record.kind.map_or("continued".to_owned(), show_kind),
        u8::from(record.more),
        or_dash(record.message_len),
        hex(&record.payload)
    )
}

// ---- against the vectors

#[test]
fn hellos_read_as_the_vectors_say() {
    for vector in vectors("hello.txt") {
        let (name, bytes) = (vector.name(), vector.bytes("hex"));
        let got = match Hello::parse(&bytes) {
            Ok(Some((hello, len))) => {
                assert_eq!(len, bytes.len(), "{name}");
                for cut in 0..len {
                    assert_eq!(Hello::parse(&bytes[..cut]), Ok(None), "{name} cut at {cut}");
                }
                let mut again = Vec::new();
                hello.put(&mut again);
                assert!(again == bytes || vector.says("reencode", "no"), "{name}");
                show_hello(&hello)
            }
            Ok(None) => "more".to_owned(),
            Err(error) => show_error(&error),
        };
        assert_eq!(vector.expected(), [got], "{name}");
    }
}

#[test]
fn blocks_and_control_frames_read_as_the_vectors_say() {
    for vector in vectors("blocks.txt")
        .into_iter()
        .chain(vectors("control.txt"))
    {
        if vector.values("plain").next().is_none() {
            check_frame(&vector);
        } else {
            check_chain(&vector);
        }
    }
}

fn check_frame(vector: &Vector) {
    let (name, bytes) = (vector.name(), vector.bytes("hex"));
    let max_body = vector.number("max").unwrap_or(MAX_BLOCK);
    let with_check = !vector.says("checks", "off");
    let parse = |bytes: &[u8]| parse_frame(bytes, max_body, with_check);
    let got = match parse(&bytes) {
        Ok(Some(frame)) => {
            assert_eq!(frame_len(&frame), bytes.len(), "{name}");
            for cut in 0..bytes.len() {
                assert_eq!(parse(&bytes[..cut]), Ok(None), "{name} cut at {cut}");
            }
            let mut again = Vec::new();
            match &frame {
                Frame::Block { header, body_at } => {
                    header.put(&mut again, with_check);
                    again.extend_from_slice(&bytes[*body_at..]);
                }
                Frame::Control { control, .. } => {
                    if let Some(control) = control {
                        control.put(&mut again);
                    }
                }
            }
            assert!(again == bytes || vector.says("reencode", "no"), "{name}");
            show_frame(&frame)
        }
        Ok(None) => "more".to_owned(),
        Err(error) => show_error(&error),
    };
    assert_eq!(vector.expected(), [got], "{name}");
}

fn frame_len(frame: &Frame) -> usize {
    match frame {
        Frame::Block { header, body_at } => body_at + header.body_len,
        Frame::Control { len, .. } => *len,
    }
}

fn check_chain(vector: &Vector) {
    let mut check = Check::default();
    let got: Vec<_> = vector
        .values("plain")
        .map(|plain| {
            let crc = plain_crc(&unhex(plain));
            let chain = check.advance(crc);
            let short = chain & 0xffff;
            format!("chain crc={crc:#x} chain={chain:#x} short={short:#x}")
        })
        .collect();
    assert_eq!(vector.expected(), got, "{}", vector.name());
}

#[test]
fn records_read_as_the_vectors_say() {
    for vector in vectors("records.txt") {
        let name = vector.name();
        let blocks: Vec<_> = vector.values("hex").map(unhex).collect();
        let (records, error) = read_records(&blocks);
        let mut got: Vec<_> = records.iter().flatten().map(show_record).collect();
        got.extend(error.as_ref().map(show_error));
        assert_eq!(vector.expected(), got, "{name}");
        for cut in 0..blocks[0].len() {
            // Payloads end where their block does, so a cut may be good: it must not panic.
            let (cut_records, _) = read_records(&[blocks[0][..cut].to_vec()]);
            assert!(
                cut_records[0].len() <= records[0].len(),
                "{name} cut at {cut}"
            );
        }
        if error.is_none() && !vector.says("reencode", "no") {
            assert_eq!(write_records(&records), blocks, "{name}");
        }
    }
}

/// The records of each block of a group, until the first error.
fn read_records(blocks: &[Vec<u8>]) -> (Vec<Vec<Record>>, Option<WireError>) {
    let mut reader = RecordReader::default();
    let mut unfinished = Vec::new();
    let mut blocks_read = Vec::new();
    for block in blocks {
        let mut plain = Bytes::copy_from_slice(block);
        blocks_read.push(Vec::new());
        loop {
            match reader.next(&mut plain, |id| unfinished.contains(&id)) {
                Ok(Some(record)) => {
                    unfinished.retain(|id| *id != record.stream);
                    if record.more {
                        unfinished.push(record.stream);
                    }
                    blocks_read.last_mut().expect("pushed").push(record);
                }
                Ok(None) => break,
                Err(error) => return (blocks_read, Some(error)),
            }
        }
    }
    (blocks_read, None)
}

/// Whole messages as blocks; the last of each block goes to its end.
fn write_records(blocks: &[Vec<Record>]) -> Vec<Vec<u8>> {
    let mut writer = RecordWriter::default();
    let write = |records: &Vec<Record>| {
        let mut plain = Vec::new();
        for (at, record) in records.iter().enumerate() {
            let kind = record.kind.expect("a whole message");
            let len = (at + 1 < records.len()).then_some(record.payload.len());
            writer.put_whole(&mut plain, record.stream, kind, len);
            plain.extend_from_slice(&record.payload);
        }
        plain
    };
    blocks.iter().map(write).collect()
}

#[test]
fn bodies_decode_as_the_vectors_say() {
    for vector in vectors("codecs.txt") {
        let name = vector.name();
        let codec = CodecId::from_wire(vector.number("codec").expect("a codec") as u8);
        if info(codec).is_none() && codec.name().is_some() {
            println!("skipped, {codec} is not part of this build: {name}");
            continue;
        }
        let expected = vector.bytes("plain");
        let mut plain = vec![0xee; vector.number("room").unwrap_or(expected.len())];
        let window_log = vector.number("window_log").unwrap_or(20) as u8;
        let mut codecs = Codecs::with_limits(DecodeLimits { window_log });
        let got = match codecs.decode(codec, &vector.bytes("hex"), &mut plain) {
            Ok(len) => {
                assert_eq!(hex(&plain[..len]), hex(&expected), "{name}");
                "plain"
            }
            Err(DecodeError::UnknownCodec { .. }) => "error=Unknown",
            Err(_) => "error=Undecodable",
        };
        assert_eq!(vector.expected(), [got], "{name}");
    }
}

// ---- transcripts

/// One side of a transcript: a session that hears the other's bytes. What the side itself says is
/// told to it as deeds of its application, so that the other's answers make sense to it.
struct Side {
    name: &'static str,
    session: Session,
    worker: CodecWorker,
    input: BytesMut,
    /// The side's own hello, records and unfinished streams, as the transcript has them.
    hello: Option<Hello>,
    reader: RecordReader,
    unfinished: Vec<StreamId>,
    log: Vec<String>,
}

impl Side {
    fn new(role: Role, window: Option<usize>) -> Self {
        let mut config = SessionConfig::default().policy(PolicyConfig::None);
        if let Some(window) = window {
            config = config.window(window as u64);
        }
        Self {
            name: show_role(role),
            session: Session::new(role, config, Time::ZERO).expect("valid settings"),
            worker: CodecWorker::new(20),
            input: BytesMut::new(),
            hello: None,
            reader: RecordReader::default(),
            unfinished: Vec::new(),
            log: Vec::new(),
        }
    }

    fn say(&mut self, bytes: &[u8], peer_hello: Option<&Hello>) {
        let mut rest = bytes;
        if self.hello.is_none() {
            let Ok(Some((hello, len))) = Hello::parse(bytes) else {
                return;
            };
            self.hello = Some(hello);
            rest = &bytes[len..];
        }
        let offers = |hello: Option<&Hello>| {
            hello.is_some_and(|hello| hello.offered.contains(Features::CHECKSUMS))
        };
        let with_check = offers(self.hello.as_ref()) && offers(peer_hello);
        while let Ok(Some(frame)) = parse_frame(rest, MAX_BLOCK, with_check) {
            let len = frame_len(&frame);
            match frame {
                Frame::Block { header, body_at } if header.slot.get() == 0 => {
                    self.say_block(&rest[body_at..len]);
                }
                Frame::Control {
                    control: Some(control),
                    ..
                } => self.say_control(&control),
                _ => {}
            }
            rest = &rest[len..];
        }
        self.drain();
    }

    fn say_block(&mut self, plain: &[u8]) {
        let mut plain = Bytes::copy_from_slice(plain);
        let unfinished = &mut self.unfinished;
        while let Ok(Some(record)) = self.reader.next(&mut plain, |id| unfinished.contains(&id)) {
            match record.kind {
                Some(kind) if !record.more => {
                    // Bad transcripts send on streams that are not open.
                    let _ = self.session.send(record.stream, record.payload, kind);
                }
                _ if record.more => unfinished.push(record.stream),
                _ => unfinished.retain(|id| *id != record.stream),
            }
        }
    }

    fn say_control(&mut self, control: &Control) {
        match control {
            Control::Open(open) => {
                let _ = self.session.open(&open.name, StreamConfig::default());
            }
            Control::Close(close) => self.session.finish(close.stream),
            Control::GoAway(go_away) if go_away.code == GoAwayCode::Done => self.session.close(),
            _ => {}
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        loop {
            let before = self.input.len();
            let _ = self.session.handle_input(Time::ZERO, &mut self.input);
            while let Some(job) = self.session.poll_decode() {
                let block = self.worker.decode(job);
                let _ = self
                    .session
                    .handle_decoded(block, core::time::Duration::ZERO);
            }
            self.drain();
            if self.input.len() == before {
                break;
            }
        }
    }

    fn drain(&mut self) {
        while let Some(event) = self.session.poll_event() {
            self.on_event(event);
        }
        while let Some(job) = self.session.poll_encode(Time::ZERO) {
            let block = self.worker.encode(job);
            self.session
                .handle_encoded(Time::ZERO, block, core::time::Duration::ZERO);
        }
        let len = self.session.output_len();
        self.session.handle_written(Time::ZERO, len);
        while let Some(event) = self.session.poll_event() {
            self.on_event(event);
        }
    }

    fn on_event(&mut self, event: Event) {
        let line = match event {
            Event::StreamOpened(id) => {
                let name = self.session.stream_name(id).unwrap_or_default();
                format!("stream={} opened name={name}", id.get())
            }
            Event::Readable(id) => {
                while let Some(message) = self.session.recv(id) {
                    self.session.release(id, message.charge());
                    self.log.push(format!(
                        "{} stream={} {} payload={}",
                        self.name,
                        id.get(),
                        show_kind(message.kind),
                        hex(&message.payload)
                    ));
                }
                return;
            }
            Event::StreamEnded(id, code) => format!("stream={} {}", id.get(), show_end(code)),
            Event::Closed(Ok(())) => "closed".to_owned(),
            Event::Closed(Err(SessionError::Peer(error))) => {
                format!("{} code={}", show_error(&error), code_number(error.code()))
            }
            Event::Closed(Err(SessionError::GoneAway { code, .. })) => {
                format!("gone-away code={}", code_number(code))
            }
            _ => return,
        };
        self.log.push(format!("{} {line}", self.name));
    }
}

/// Only the order within one stream of one side is promised.
fn by_stream(mut lines: Vec<String>) -> Vec<String> {
    lines.sort_by_key(|line| {
        let words: Vec<_> = line.split(' ').take(2).map(str::to_owned).collect();
        words
    });
    lines
}

#[test]
fn sessions_deliver_what_the_transcripts_say() {
    for vector in vectors("session.txt") {
        let name = vector.name();
        let lacks = |codec: &CodecId| {
            let name = codec.name().unwrap_or_default();
            info(*codec).is_none() && vector.says("needs", name)
        };
        if let Some(codec) = (0..7).map(CodecId::from_wire).find(lacks) {
            println!("skipped, {codec} is not part of this build: {name}");
            continue;
        }
        for whole in [true, false] {
            let window = vector.number("window");
            let mut connector = Side::new(Role::Connector, window);
            let mut acceptor = Side::new(Role::Acceptor, window);
            for (key, value) in &vector.0 {
                let (speaker, hearer) = match key.as_str() {
                    "connector" => (&mut connector, &mut acceptor),
                    "acceptor" => (&mut acceptor, &mut connector),
                    _ => continue,
                };
                let bytes = unhex(value);
                speaker.say(&bytes, hearer.hello.as_ref());
                if whole {
                    hearer.hear(&bytes);
                } else {
                    bytes.chunks(1).for_each(|byte| hearer.hear(byte));
                }
            }
            let log = [connector.log, acceptor.log].concat();
            assert_eq!(by_stream(log), by_stream(vector.expected()), "{name}");
        }
    }
}

// ---- against arbitrary bytes

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = plain_crc(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

fn arb_stream() -> impl Strategy<Value = StreamId> {
    (0..=StreamId::MAX).prop_map(|number| StreamId::new(number).expect("in range"))
}

fn arb_reports() -> impl Strategy<Value = Vec<DecodeReport>> {
    let report = (any::<u8>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
        |(codec, blocks, plain_bytes, nanos)| DecodeReport {
            codec: CodecId::from_wire(codec),
            blocks,
            plain_bytes,
            nanos,
        },
    );
    prop::collection::vec(report, 0..=64)
}

fn arb_slot() -> impl Strategy<Value = Slot> {
    (0..16_u8).prop_map(|number| Slot::new(number).expect("in range"))
}

fn arb_go_away_code() -> impl Strategy<Value = GoAwayCode> {
    prop_oneof![
        Just(GoAwayCode::Done),
        Just(GoAwayCode::Protocol),
        Just(GoAwayCode::Version),
        Just(GoAwayCode::Feature),
        Just(GoAwayCode::Limit),
        Just(GoAwayCode::Integrity),
        Just(GoAwayCode::Undecodable),
        Just(GoAwayCode::Internal),
        (8..=u64::MAX).prop_map(GoAwayCode::Other),
    ]
}

fn arb_close_code() -> impl Strategy<Value = CloseCode> {
    prop_oneof![
        Just(CloseCode::Finished),
        (0..u32::MAX).prop_map(CloseCode::Aborted),
    ]
}

fn arb_control() -> impl Strategy<Value = Control> {
    let any4 = || (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    prop_oneof![
        any::<u64>().prop_map(|id| Control::Probe(Probe { id })),
        (any4(), 0..=1000_u16, arb_reports()).prop_map(|(fields, load_permille, decoded)| {
            let (id, received_nanos, held_nanos, codec_budget) = fields;
            Control::ProbeReply(ProbeReply {
                id,
                received_nanos,
                held_nanos,
                load_permille,
                codec_budget,
                decoded,
            })
        }),
        (any4(), any::<u64>(), arb_reports()).prop_map(|(fields, waited_nanos, decoded)| {
            let (frames, wire_bytes, received_nanos, held_nanos) = fields;
            Control::Ack(Ack {
                frames,
                wire_bytes,
                received_nanos,
                held_nanos,
                waited_nanos,
                decoded,
            })
        }),
        (arb_stream(), any::<u8>(), any::<u64>(), ".{0,60}").prop_map(
            |(stream, group, window, name)| Control::Open(Open {
                stream,
                group: GroupId(group),
                window,
                name,
            })
        ),
        (arb_stream(), arb_close_code())
            .prop_map(|(stream, code)| Control::Close(Close { stream, code })),
        (arb_stream(), any::<u64>())
            .prop_map(|(stream, limit)| Control::Window(Window { stream, limit })),
        (arb_go_away_code(), ".{0,60}")
            .prop_map(|(code, detail)| Control::GoAway(GoAway { code, detail })),
        (
            arb_slot(),
            any::<u8>(),
            any::<u8>(),
            any::<bool>(),
            any::<u64>()
        )
            .prop_map(
                |(slot, codec, group, carries_context, dictionary)| Control::Define(Define {
                    slot,
                    codec: CodecId::from_wire(codec),
                    group: GroupId(group),
                    carries_context,
                    dictionary,
                })
            ),
    ]
}

/// Headers with checks as their length has them.
fn arb_header() -> impl Strategy<Value = BlockHeader> {
    let lengths = prop_oneof![1..=MAX_SHORT_BODY + 2, 1..=MAX_BLOCK];
    let plain_len = prop::option::of(1..=MAX_BLOCK);
    (
        arb_slot(),
        prop::option::of(any::<u64>()),
        plain_len,
        lengths,
        any::<u32>(),
    )
        .prop_map(|(slot, epoch, plain_len, body_len, check)| {
            let header = BlockHeader {
                slot,
                epoch,
                plain_len,
                body_len,
                check,
            };
            BlockHeader {
                check: check & (u32::MAX >> (32 - header.check_bits())),
                ..header
            }
        })
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_frames_errors_or_too_few(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        max_body in 1_usize..300,
        with_check: bool,
    ) {
        if let Ok(Some(frame)) = parse_frame(&bytes, max_body, with_check) {
            prop_assert!(frame_len(&frame) <= bytes.len());
        }
    }

    #[test]
    fn arbitrary_control_bodies_are_read_or_refused(
        kind in 0_u8..32,
        body in prop::collection::vec(any::<u8>(), 0..100),
        rest in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        let mut bytes = vec![0xe0 | kind, body.len() as u8];
        bytes.extend_from_slice(&body);
        let mut bytes = seal(bytes);
        let len = bytes.len();
        bytes.extend_from_slice(&rest);
        match parse_frame(&bytes, MAX_BLOCK, true) {
            Ok(Some(Frame::Control { control, len: given })) => {
                prop_assert_eq!(given, len);
                if let Some(control) = control {
                    let mut again = Vec::new();
                    control.put(&mut again);
                    if kind <= 3 {
                        // Later fields are passed over.
                        let known = &again[2..again.len() - 4];
                        prop_assert!(body.starts_with(known));
                    } else {
                        prop_assert_eq!(&again[..], &bytes[..len]);
                    }
                }
            }
            Ok(other) => prop_assert!(false, "{:?}", other),
            Err(_) => {}
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_hello(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        prop_assume!(!bytes.is_empty() && bytes[0] != 0x8e);
        prop_assert!(Hello::parse(&bytes).is_err());
    }

    #[test]
    fn arbitrary_hello_bodies_are_read_or_refused(
        versions: (u8, u8),
        body in prop::collection::vec(prop_oneof![0_u8..6, any::<u8>()], 0..300),
        sealed in prop::bool::weighted(0.9),
    ) {
        let mut bytes = vec![0x8e, b'T', b'L', b'N', versions.0 | 1, versions.1 & 1];
        bytes.extend_from_slice(&(body.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&body);
        if sealed {
            bytes = seal(bytes);
        }
        if let Ok(Some((_, len))) = Hello::parse(&bytes) {
            prop_assert!(len <= bytes.len());
        }
    }

    #[test]
    fn arbitrary_plain_bytes_are_records_or_refused(
        bytes in prop::collection::vec(prop_oneof![Just(0x18_u8), 0_u8..8, any::<u8>()], 0..200),
        unfinished: bool,
    ) {
        let mut plain = Bytes::from(bytes);
        let mut reader = RecordReader::default();
        loop {
            let before = plain.clone();
            match reader.next(&mut plain, |_| unfinished) {
                Ok(Some(record)) => {
                    let taken = before.len() - plain.len();
                    prop_assert!(taken > record.payload.len());
                    prop_assert!(before[..taken].ends_with(&record.payload));
                    prop_assert_eq!(&before[taken..], &plain[..]);
                }
                Ok(None) => {
                    prop_assert!(plain.is_empty());
                    break;
                }
                Err(_) => {
                    prop_assert_eq!(before, plain);
                    break;
                }
            }
        }
    }

    #[test]
    fn control_frames_read_back(control in arb_control()) {
        let mut bytes = Vec::new();
        control.put(&mut bytes);
        let len = bytes.len();
        prop_assert!(len <= 4096, "{len} bytes");
        prop_assert_eq!(
            parse_frame(&bytes, 1, true),
            Ok(Some(Frame::Control { control: Some(control), len }))
        );
    }

    #[test]
    fn block_headers_read_back(header in arb_header(), with_check: bool) {
        let mut bytes = Vec::new();
        header.put(&mut bytes, with_check);
        let body_at = bytes.len();
        prop_assert_eq!(parse_frame(&bytes, MAX_BLOCK, with_check), Ok(None));
        bytes.resize(body_at + header.body_len, 0);
        let check = if with_check { header.check } else { 0 };
        let header = BlockHeader { check, ..header };
        prop_assert_eq!(
            parse_frame(&bytes, MAX_BLOCK, with_check),
            Ok(Some(Frame::Block { header, body_at }))
        );
    }

    #[test]
    fn whole_records_read_back(
        messages in prop::collection::vec(
            (0_u32..4, 0_u8..3, any::<u64>(), prop::collection::vec(any::<u8>(), 0..40)),
            1..20,
        ),
    ) {
        let records: Vec<_> = messages
            .into_iter()
            .map(|(stream, kind, correlation, payload)| Record {
                stream: StreamId::new(stream).expect("in range"),
                kind: Some(match kind {
                    0 => RecordKind::Message,
                    1 => RecordKind::Request { correlation },
                    _ => RecordKind::Reply { correlation },
                }),
                message_len: None,
                more: false,
                payload: payload.into(),
            })
            .collect();
        let records = vec![records];
        let blocks = write_records(&records);
        prop_assert_eq!(read_records(&blocks), (records, None));
    }
}
