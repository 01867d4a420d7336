//! Whole sessions against the transcripts.

use bytes::{Bytes, BytesMut};
use tautline::codecs::{CodecId, info};
use tautline::control::PolicyConfig;
use tautline::session::{
    CodecWorker, Event, Limits, Role, Session, SessionConfig, SessionError, StreamConfig,
};
use tautline::units::Time;
use tautline::wire::{
    Control, Features, Frame, GoAwayCode, Hello, RecordReader, Slot, StreamId, parse_frame,
};

use super::MAX_BLOCK;
use super::read::frame_len;
use super::show::{code_number, show_end, show_error, show_kind, show_role};
use super::vectors::{hex, unhex, vectors};

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
    /// The slot of its latest block.
    slot: Option<Slot>,
    log: Vec<String>,
}

impl Side {
    fn new(role: Role, window: Option<usize>, history: usize) -> Self {
        let mut config = SessionConfig::default()
            .history_memory(history)
            .policy(PolicyConfig::None);
        if let Some(window) = window {
            config = config.limits(Limits::default().window(window as u64));
        }
        Self {
            name: show_role(role),
            session: Session::new(role, config, Time::ZERO).expect("valid settings"),
            worker: CodecWorker::new(20),
            input: BytesMut::new(),
            hello: None,
            reader: RecordReader::default(),
            unfinished: Vec::new(),
            slot: None,
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
                Frame::Block { header, body_at } => {
                    self.slot = header.slot.or(self.slot);
                    if self.slot.is_some_and(|slot| slot.get() == 0) {
                        self.say_block(&rest[body_at..len]);
                    }
                }
                Frame::Control {
                    control: Some(control),
                    ..
                } => self.say_control(&control),
                Frame::Control { .. } => {}
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
                let _ = self
                    .session
                    .open(&open.name, StreamConfig::default().group(open.group));
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
            Event::StreamRefused { stream, given, .. } => {
                format!("stream={} refused={given}", stream.get())
            }
            Event::StreamStopped { stream, given, .. } => {
                format!("stream={} stopped={given}", stream.get())
            }
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
            let history = vector.number("history").unwrap_or(0);
            let mut connector = Side::new(Role::Connector, window, history);
            let mut acceptor = Side::new(Role::Acceptor, window, history);
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
