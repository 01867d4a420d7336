//! `ld`: tokio-util's `LengthDelimitedCodec`, each message compressed by itself or not at all.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::{SinkExt, Stream};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::codec::{Framed, LengthDelimitedCodec};
use zstd_safe::{CCtx, DCtx};

use super::zstd::failed;
use super::{
    Contestant, Inbox, Kind, Messages, Receiver, Sender, Task, Trips, accept, connect, gone,
    listen, now,
};
use crate::failure::Failure;

/// What is done with each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    None,
    /// A block of its own behind its plain length.
    Lz4,
    /// A frame of its own, level 1.
    Zstd,
}

/// The fastest of zstd's levels that are not made for speed alone; what one takes for messages.
const ZSTD_LEVEL: i32 = 1;

/// More than a message can grow by being compressed: lz4 by 1/255 and a little, zstd by 1/256 and a
/// little.
const fn longest_frame(longest: usize) -> usize {
    longest + longest / 128 + 1024
}

impl Framing {
    pub(super) fn named(setting: &str) -> Option<Self> {
        Some(match setting {
            "none" => Self::None,
            "lz4" => Self::Lz4,
            "zstd" => Self::Zstd,
            _ => return None,
        })
    }
}

impl Contestant for Framing {
    fn kind(&self) -> Kind {
        Kind::Peer
    }

    fn receiver(&self, longest: usize) -> Task<Arc<dyn Receiver>> {
        let framing = *self;
        Box::pin(async move {
            let (listener, address) = listen().await?;
            Ok(Arc::new(FramedReceiver {
                framing,
                longest,
                listener,
                address,
            }) as _)
        })
    }

    fn sender(&self, longest: usize) -> Task<Arc<dyn Sender>> {
        let sender = FramedSender {
            framing: *self,
            longest,
        };
        Box::pin(async move { Ok(Arc::new(sender) as _) })
    }
}

fn codec(longest: usize) -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder()
        .max_frame_length(longest_frame(longest))
        .new_codec()
}

/// A connection's end, and what packs its frames.
struct Wire {
    framing: Framing,
    longest: usize,
    frames: Framed<TcpStream, LengthDelimitedCodec>,
    encoder: CCtx<'static>,
    decoder: DCtx<'static>,
}

impl Wire {
    fn new(framing: Framing, longest: usize, socket: TcpStream) -> Result<Self, Failure> {
        let mut encoder = CCtx::create();
        encoder
            .set_parameter(zstd_safe::CParameter::CompressionLevel(ZSTD_LEVEL))
            .map_err(failed)?;
        Ok(Self {
            framing,
            longest,
            frames: Framed::new(socket, codec(longest)),
            encoder,
            decoder: DCtx::create(),
        })
    }

    fn pack(&mut self, message: Bytes) -> Result<Bytes, Failure> {
        Ok(match self.framing {
            Framing::None => message,
            Framing::Lz4 => lz4_flex::block::compress_prepend_size(&message).into(),
            Framing::Zstd => {
                let mut frame = Vec::with_capacity(zstd_safe::compress_bound(message.len()));
                self.encoder
                    .compress2(&mut frame, &message)
                    .map_err(failed)?;
                frame.into()
            }
        })
    }

    fn unpack(&mut self, frame: Bytes) -> Result<Bytes, Failure> {
        match self.framing {
            Framing::None => Ok(frame),
            Framing::Lz4 => {
                let (len, block) = lz4_flex::block::uncompressed_size(&frame)?;
                self.check(len)?;
                Ok(lz4_flex::block::decompress(block, len)?.into())
            }
            Framing::Zstd => {
                let len = zstd_safe::get_frame_content_size(&frame)
                    .ok()
                    .flatten()
                    .and_then(|len| usize::try_from(len).ok())
                    .ok_or_else(|| Failure::Error("a zstd frame without its length".to_owned()))?;
                self.check(len)?;
                let mut message = Vec::with_capacity(len);
                self.decoder
                    .decompress(&mut message, &frame)
                    .map_err(failed)?;
                Ok(message.into())
            }
        }
    }

    /// Before so much is reserved.
    fn check(&self, len: usize) -> Result<(), Failure> {
        if len <= self.longest {
            return Ok(());
        }
        let longest = self.longest;
        Err(Failure::Error(format!(
            "a message of {len} bytes, where the longest is {longest}"
        )))
    }

    /// To be written once more has come or it is flushed.
    async fn feed(&mut self, message: Bytes) -> Result<(), Failure> {
        let frame = self.pack(message)?;
        Ok(self.frames.feed(frame).await?)
    }

    async fn flush(&mut self) -> Result<(), Failure> {
        Ok(SinkExt::<Bytes>::flush(&mut self.frames).await?)
    }

    async fn close(&mut self) -> Result<(), Failure> {
        Ok(SinkExt::<Bytes>::close(&mut self.frames).await?)
    }

    /// `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        match next(&mut self.frames).await.transpose()? {
            Some(frame) => self.unpack(frame.freeze()).map(Some),
            None => Ok(None),
        }
    }
}

struct FramedSender {
    framing: Framing,
    longest: usize,
}

impl FramedSender {
    async fn connect(&self, to: SocketAddr) -> Result<Wire, Failure> {
        Wire::new(self.framing, self.longest, connect(to).await?)
    }
}

impl Sender for FramedSender {
    fn send(self: Arc<Self>, to: SocketAddr, messages: Messages) -> Task<Instant> {
        Box::pin(async move {
            let mut wire = self.connect(to).await?;
            let began = now();
            for message in messages.iter() {
                wire.feed(message.clone()).await?;
            }
            wire.close().await?;
            Ok(began)
        })
    }

    fn ask(self: Arc<Self>, to: SocketAddr, mut trips: Trips) -> Task<Trips> {
        Box::pin(async move {
            let mut wire = self.connect(to).await?;
            while let Some(message) = trips.ask() {
                wire.feed(message).await?;
                wire.flush().await?;
                trips.answered(&wire.next().await?.ok_or_else(gone)?)?;
            }
            wire.close().await?;
            Ok(trips)
        })
    }
}

struct FramedReceiver {
    framing: Framing,
    longest: usize,
    listener: TcpListener,
    address: SocketAddr,
}

impl FramedReceiver {
    async fn accept(&self) -> Result<Wire, Failure> {
        Wire::new(self.framing, self.longest, accept(&self.listener).await?)
    }
}

impl Receiver for FramedReceiver {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn receive(self: Arc<Self>, mut inbox: Inbox) -> Task<Inbox> {
        Box::pin(async move {
            let mut wire = self.accept().await?;
            while let Some(message) = wire.next().await? {
                inbox.deliver(&message)?;
            }
            Ok(inbox)
        })
    }

    fn echo(self: Arc<Self>, count: usize) -> Task<()> {
        Box::pin(async move {
            let mut wire = self.accept().await?;
            for _ in 0..count {
                let message = wire.next().await?.ok_or_else(gone)?;
                wire.feed(message).await?;
                wire.flush().await?;
            }
            Ok(())
        })
    }
}

/// The next item, or `None` at the end.
async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    std::future::poll_fn(|context| std::pin::Pin::new(&mut *stream).poll_next(context)).await
}
