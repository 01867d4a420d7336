//! One zstd stream over a connection, of messages each behind its length: what `stream` and `sketch`
//! have in common, and how both are received.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, ErrorCode, InBuffer, OutBuffer};

use super::{Inbox, Receiver, Task, listen};
use crate::failure::Failure;

/// Of both ends' histories: 1 MiB, as much as such a connection may want to keep.
const WINDOW_LOG: u32 = 20;
/// What is read from the socket, and room for what is decoded, at once. Arbitrary: zstd's own blocks
/// have 128 KiB at most.
const READ: usize = 64 << 10;
/// u32, little endian.
const PREFIX: usize = 4;

pub(super) fn failed(code: ErrorCode) -> Failure {
    Failure::Error(format!("zstd: {}", zstd_safe::get_error_name(code)))
}

/// A level that this zstd has.
pub(super) fn level(text: &str) -> Option<i32> {
    let level: i32 = text.parse().ok()?;
    (zstd_safe::min_c_level()..=zstd_safe::max_c_level())
        .contains(&level)
        .then_some(level)
}

/// Appends a message as it stands in the plain stream.
pub(super) fn frame(message: &[u8], plain: &mut Vec<u8>) -> Result<(), Failure> {
    plain.extend_from_slice(&u32::try_from(message.len())?.to_le_bytes());
    plain.extend_from_slice(message);
    Ok(())
}

/// The stream's beginning.
pub(super) struct Encoder(CCtx<'static>);

impl Encoder {
    pub(super) fn new(level: i32) -> Result<Self, Failure> {
        let mut context = CCtx::create();
        for parameter in [
            CParameter::CompressionLevel(level),
            CParameter::WindowLog(WINDOW_LOG),
        ] {
            context.set_parameter(parameter).map_err(failed)?;
        }
        Ok(Self(context))
    }

    /// Appends to `wire` what the other end needs to have all of `plain`.
    pub(super) fn flush(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), Failure> {
        let mut input = InBuffer::around(plain);
        loop {
            // Once is enough but where a frame begins, and harmless there.
            wire.reserve(zstd_safe::compress_bound(plain.len() - input.pos()));
            let filled = wire.len();
            let mut output = OutBuffer::around_pos(wire, filled);
            let left = self
                .0
                .compress_stream2(&mut output, &mut input, ZSTD_EndDirective::ZSTD_e_flush)
                .map_err(failed)?;
            if left == 0 {
                return Ok(());
            }
        }
    }
}

/// The stream's end.
struct Decoder {
    context: DCtx<'static>,
    plain: Vec<u8>,
}

impl Decoder {
    fn new() -> Result<Self, Failure> {
        let mut context = DCtx::create();
        context
            .set_parameter(DParameter::WindowLogMax(WINDOW_LOG))
            .map_err(failed)?;
        Ok(Self {
            context,
            plain: Vec::new(),
        })
    }

    /// Delivers the messages that `wire` completes.
    fn take(&mut self, wire: &[u8], longest: usize, inbox: &mut Inbox) -> Result<(), Failure> {
        let mut input = InBuffer::around(wire);
        loop {
            self.plain.reserve(READ);
            let filled = self.plain.len();
            let mut output = OutBuffer::around_pos(&mut self.plain, filled);
            self.context
                .decompress_stream(&mut output, &mut input)
                .map_err(failed)?;
            let is_full = output.pos() == output.capacity();
            self.deliver(longest, inbox)?;
            if input.pos() == wire.len() && !is_full {
                return Ok(());
            }
        }
    }

    /// Delivers whole messages, and keeps what is left.
    fn deliver(&mut self, longest: usize, inbox: &mut Inbox) -> Result<(), Failure> {
        let mut rest = &self.plain[..];
        while let Some((prefix, behind)) = rest.split_first_chunk::<PREFIX>() {
            let len = u32::from_le_bytes(*prefix) as usize;
            if len > longest {
                let text = format!("a message of {len} bytes, where the longest is {longest}");
                return Err(Failure::Error(text));
            }
            let Some(message) = behind.get(..len) else {
                break;
            };
            inbox.deliver(message)?;
            rest = &behind[len..];
        }
        let taken = self.plain.len() - rest.len();
        self.plain.drain(..taken);
        Ok(())
    }
}

/// Takes any such stream, whatever its level and wherever it was flushed.
pub(super) struct StreamReceiver {
    listener: TcpListener,
    address: SocketAddr,
    longest: usize,
}

impl StreamReceiver {
    pub(super) fn start(longest: usize) -> Task<Arc<dyn Receiver>> {
        Box::pin(async move {
            let (listener, address) = listen().await?;
            Ok(Arc::new(Self {
                listener,
                address,
                longest,
            }) as _)
        })
    }
}

impl Receiver for StreamReceiver {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn receive(self: Arc<Self>, mut inbox: Inbox) -> Task<Inbox> {
        Box::pin(async move {
            let (mut socket, _) = self.listener.accept().await?;
            let mut decoder = Decoder::new()?;
            let mut wire = vec![0; READ];
            loop {
                let len = socket.read(&mut wire).await?;
                if len == 0 {
                    return Ok(inbox);
                }
                decoder.take(&wire[..len], self.longest, &mut inbox)?;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn messages_come_whole_however_the_stream_is_cut() {
        let messages: Vec<_> = (0..300_usize)
            .map(|number| Bytes::from(vec![number as u8; number * number % 7001]))
            .collect();
        let mut encoder = Encoder::new(3).expect("a level");
        let (mut plain, mut wire) = (Vec::new(), Vec::new());
        for message in &messages {
            frame(message, &mut plain).expect("short");
            if plain.len() > 20_000 {
                encoder.flush(&plain, &mut wire).expect("room");
                plain.clear();
            }
        }
        encoder.flush(&plain, &mut wire).expect("room");
        for cut in [1, 7, 1000, wire.len()] {
            let mut inbox = Inbox::new(messages.clone().into());
            let mut decoder = Decoder::new().expect("memory");
            for part in wire.chunks(cut) {
                decoder.take(part, 7001, &mut inbox).expect("as sent");
            }
            inbox.finish().expect("complete");
        }
    }

    #[test]
    fn lengths_are_judged_before_anything_waits_for_them() {
        let mut wire = Vec::new();
        let mut encoder = Encoder::new(1).expect("a level");
        encoder.flush(&[255; 4], &mut wire).expect("room");
        let mut inbox = Inbox::new(vec![Bytes::from_static(b"x")].into());
        let mut decoder = Decoder::new().expect("memory");
        assert!(decoder.take(&wire, 1000, &mut inbox).is_err());
        assert!(decoder.take(b"not zstd", 1000, &mut inbox).is_err());
    }
}
