//! `ld`: tokio-util's `LengthDelimitedCodec`, each message compressed by itself or not at all.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::{SinkExt, Stream};
use tokio::net::TcpListener;
use tokio_util::codec::{Framed, LengthDelimitedCodec};
use zstd_safe::{CCtx, DCtx};

use super::zstd::failed;
use super::{Contestant, Inbox, Kind, Messages, Receiver, Sender, Task, connect, listen, now};
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

struct FramedSender {
    framing: Framing,
    longest: usize,
}

impl Sender for FramedSender {
    fn send(self: Arc<Self>, to: SocketAddr, messages: Messages) -> Task<Instant> {
        Box::pin(async move {
            let mut sink = Framed::new(connect(to).await?, codec(self.longest));
            let mut zstd = CCtx::create();
            zstd.set_parameter(zstd_safe::CParameter::CompressionLevel(ZSTD_LEVEL))
                .map_err(failed)?;
            let began = now();
            for message in messages.iter() {
                let frame = match self.framing {
                    Framing::None => message.clone(),
                    Framing::Lz4 => lz4_flex::block::compress_prepend_size(message).into(),
                    Framing::Zstd => {
                        let mut frame =
                            Vec::with_capacity(zstd_safe::compress_bound(message.len()));
                        zstd.compress2(&mut frame, message).map_err(failed)?;
                        frame.into()
                    }
                };
                sink.feed(frame).await?;
            }
            SinkExt::<Bytes>::close(&mut sink).await?;
            Ok(began)
        })
    }
}

struct FramedReceiver {
    framing: Framing,
    longest: usize,
    listener: TcpListener,
    address: SocketAddr,
}

impl Receiver for FramedReceiver {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn receive(self: Arc<Self>, mut inbox: Inbox) -> Task<Inbox> {
        Box::pin(async move {
            let (socket, _) = self.listener.accept().await?;
            let mut frames = Framed::new(socket, codec(self.longest));
            let mut zstd = DCtx::create();
            while let Some(frame) = next(&mut frames).await.transpose()? {
                match self.framing {
                    Framing::None => inbox.deliver(&frame)?,
                    Framing::Lz4 => inbox.deliver(&self.lz4(&frame)?)?,
                    Framing::Zstd => inbox.deliver(&self.zstd(&mut zstd, &frame)?)?,
                }
            }
            Ok(inbox)
        })
    }
}

impl FramedReceiver {
    fn lz4(&self, frame: &[u8]) -> Result<Bytes, Failure> {
        let (len, block) = lz4_flex::block::uncompressed_size(frame)?;
        self.check(len)?;
        Ok(lz4_flex::block::decompress(block, len)?.into())
    }

    fn zstd(&self, context: &mut DCtx<'_>, frame: &[u8]) -> Result<Bytes, Failure> {
        let len = zstd_safe::get_frame_content_size(frame)
            .ok()
            .flatten()
            .and_then(|len| usize::try_from(len).ok())
            .ok_or_else(|| Failure::Error("a zstd frame without its length".to_owned()))?;
        self.check(len)?;
        let mut message = Vec::with_capacity(len);
        context.decompress(&mut message, frame).map_err(failed)?;
        Ok(message.into())
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
}

/// The next item, or `None` at the end.
async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    std::future::poll_fn(|context| std::pin::Pin::new(&mut *stream).poll_next(context)).await
}
