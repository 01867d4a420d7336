//! One zstd stream over a connection, of messages each behind its length: what `stream` and `sketch`
//! have in common, and how both are received.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, ErrorCode, InBuffer, OutBuffer};

use super::{Inbox, Receiver, Task, Trips, accept, connect, gone, listen};
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

    /// Gives away the messages that `wire` completes.
    fn take(
        &mut self,
        wire: &[u8],
        longest: usize,
        mut give: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut input = InBuffer::around(wire);
        loop {
            self.plain.reserve(READ);
            let filled = self.plain.len();
            let mut output = OutBuffer::around_pos(&mut self.plain, filled);
            self.context
                .decompress_stream(&mut output, &mut input)
                .map_err(failed)?;
            let is_full = output.pos() == output.capacity();
            self.give(longest, &mut give)?;
            if input.pos() == wire.len() && !is_full {
                return Ok(());
            }
        }
    }

    /// Gives whole messages away, and keeps what is left.
    fn give(
        &mut self,
        longest: usize,
        give: &mut impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
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
            give(message)?;
            rest = &behind[len..];
        }
        let taken = self.plain.len() - rest.len();
        self.plain.drain(..taken);
        Ok(())
    }
}

/// A connection whose two directions are such streams, for one message at a time.
struct Flushing {
    socket: TcpStream,
    encoder: Encoder,
    decoder: Decoder,
    longest: usize,
    plain: Vec<u8>,
    wire: Vec<u8>,
    read: Box<[u8]>,
}

impl Flushing {
    fn new(socket: TcpStream, level: i32, longest: usize) -> Result<Self, Failure> {
        Ok(Self {
            socket,
            encoder: Encoder::new(level)?,
            decoder: Decoder::new()?,
            longest,
            plain: Vec::new(),
            wire: Vec::new(),
            read: vec![0; READ].into(),
        })
    }

    async fn send(&mut self, message: &[u8]) -> Result<(), Failure> {
        self.plain.clear();
        self.wire.clear();
        frame(message, &mut self.plain)?;
        self.encoder.flush(&self.plain, &mut self.wire)?;
        Ok(self.socket.write_all(&self.wire).await?)
    }

    /// The one message that is on its way.
    async fn next(&mut self) -> Result<Bytes, Failure> {
        let mut came = None;
        while came.is_none() {
            let len = self.socket.read(&mut self.read).await?;
            if len == 0 {
                return Err(gone());
            }
            self.decoder
                .take(&self.read[..len], self.longest, |message| {
                    came = Some(Bytes::copy_from_slice(message));
                    Ok(())
                })?;
        }
        came.ok_or_else(gone)
    }
}

/// Takes any such stream, whatever its level and wherever it was flushed.
pub(super) struct StreamReceiver {
    listener: TcpListener,
    address: SocketAddr,
    longest: usize,
    /// Of what it sends back.
    level: i32,
}

impl StreamReceiver {
    pub(super) fn start(longest: usize, level: i32) -> Task<Arc<dyn Receiver>> {
        Box::pin(async move {
            let (listener, address) = listen().await?;
            Ok(Arc::new(Self {
                listener,
                address,
                longest,
                level,
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
            let mut socket = accept(&self.listener).await?;
            let mut decoder = Decoder::new()?;
            let mut wire = vec![0; READ];
            loop {
                let len = socket.read(&mut wire).await?;
                if len == 0 {
                    return Ok(inbox);
                }
                decoder.take(&wire[..len], self.longest, |message| inbox.deliver(message))?;
            }
        })
    }

    fn echo(self: Arc<Self>, count: usize) -> Task<()> {
        Box::pin(async move {
            let socket = accept(&self.listener).await?;
            let mut wire = Flushing::new(socket, self.level, self.longest)?;
            for _ in 0..count {
                let message = wire.next().await?;
                wire.send(&message).await?;
            }
            Ok(())
        })
    }
}

/// Asks over one such connection.
pub(super) fn ask(level: i32, longest: usize, to: SocketAddr, mut trips: Trips) -> Task<Trips> {
    Box::pin(async move {
        let mut wire = Flushing::new(connect(to).await?, level, longest)?;
        while let Some(message) = trips.ask() {
            wire.send(&message).await?;
            trips.answered(&wire.next().await?)?;
        }
        Ok(trips)
    })
}

#[cfg(test)]
mod tests {
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
                decoder
                    .take(part, 7001, |message| inbox.deliver(message))
                    .expect("as sent");
            }
            inbox.finish().expect("complete");
        }
    }

    #[test]
    fn lengths_are_judged_before_anything_waits_for_them() {
        let mut wire = Vec::new();
        let mut encoder = Encoder::new(1).expect("a level");
        encoder.flush(&[255; 4], &mut wire).expect("room");
        let mut decoder = Decoder::new().expect("memory");
        assert!(decoder.take(&wire, 1000, |_| Ok(())).is_err());
        assert!(decoder.take(b"not zstd", 1000, |_| Ok(())).is_err());
    }
}
