//! `sketch`: blocks with history by hand, one level for all of them: a zstd stream flushed at each
//! block of messages. Nothing in it adapts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use tokio::io::AsyncWriteExt;

use super::zstd::{Encoder, StreamReceiver, ask, frame, level};
use super::{Contestant, Kind, Messages, Receiver, Sender, Task, Trips, connect, now};

/// As much as tautline's blocks have under backlog.
const BLOCK: usize = 64 << 10;
/// The most that can be asked for. Arbitrary.
const MAX_BLOCK: usize = 16 << 20;

#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    level: i32,
    /// Plain bytes with which a block is complete.
    block: usize,
}

impl Blocks {
    /// `LEVEL` or `LEVEL/16KiB`.
    pub(super) fn named(setting: &str) -> Option<Self> {
        let (level_text, block) = match setting.split_once('/') {
            None => (setting, BLOCK),
            Some((level, block)) => {
                let block: usize = block.strip_suffix("KiB")?.parse().ok()?;
                (level, block.checked_mul(1 << 10)?)
            }
        };
        let level = level(level_text)?;
        (1..=MAX_BLOCK)
            .contains(&block)
            .then_some(Self { level, block })
    }
}

impl Contestant for Blocks {
    fn kind(&self) -> Kind {
        Kind::Sketch
    }

    fn receiver(&self, longest: usize) -> Task<Arc<dyn Receiver>> {
        StreamReceiver::start(longest, self.level)
    }

    fn sender(&self, longest: usize) -> Task<Arc<dyn Sender>> {
        let sender = BlockSender {
            how: *self,
            longest,
        };
        Box::pin(async move { Ok(Arc::new(sender) as _) })
    }
}

struct BlockSender {
    how: Blocks,
    longest: usize,
}

impl Sender for BlockSender {
    fn send(self: Arc<Self>, to: SocketAddr, messages: Messages) -> Task<Instant> {
        Box::pin(async move {
            let mut socket = connect(to).await?;
            let mut encoder = Encoder::new(self.how.level)?;
            let (mut plain, mut wire) = (Vec::new(), Vec::new());
            let began = now();
            let mut waiting = messages.iter().peekable();
            while let Some(message) = waiting.next() {
                frame(message, &mut plain)?;
                if plain.len() >= self.how.block || waiting.peek().is_none() {
                    encoder.flush(&plain, &mut wire)?;
                    plain.clear();
                    socket.write_all(&wire).await?;
                    wire.clear();
                }
            }
            socket.shutdown().await?;
            Ok(began)
        })
    }

    fn ask(self: Arc<Self>, to: SocketAddr, trips: Trips) -> Task<Trips> {
        // A block of one message each: there are no more.
        ask(self.how.level, self.longest, to, trips)
    }
}
