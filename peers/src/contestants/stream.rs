//! `stream`: one zstd stream over the connection, flushed at each message, so that none waits for
//! the next; what leaves is gathered while more waits to be sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use tokio::io::AsyncWriteExt;

use super::zstd::{Encoder, StreamReceiver, ask, frame, level};
use super::{Contestant, Kind, Messages, Receiver, Sender, Task, Trips, connect, now};

/// Written at once under backlog: tokio's and std's buffered writers' default.
const WRITE: usize = 8 << 10;

#[derive(Clone, Copy, Debug)]
pub(super) struct Flushed {
    level: i32,
}

impl Flushed {
    pub(super) fn named(setting: &str) -> Option<Self> {
        let level = level(setting.strip_prefix("zstd-")?)?;
        Some(Self { level })
    }
}

impl Contestant for Flushed {
    fn kind(&self) -> Kind {
        Kind::Peer
    }

    fn receiver(&self, longest: usize) -> Task<Arc<dyn Receiver>> {
        StreamReceiver::start(longest, self.level)
    }

    fn sender(&self, longest: usize) -> Task<Arc<dyn Sender>> {
        let sender = FlushedSender {
            how: *self,
            longest,
        };
        Box::pin(async move { Ok(Arc::new(sender) as _) })
    }
}

struct FlushedSender {
    how: Flushed,
    longest: usize,
}

impl Sender for FlushedSender {
    fn send(self: Arc<Self>, to: SocketAddr, messages: Messages) -> Task<Instant> {
        Box::pin(async move {
            let mut socket = connect(to).await?;
            let mut encoder = Encoder::new(self.how.level)?;
            let (mut plain, mut wire) = (Vec::new(), Vec::new());
            let began = now();
            for message in messages.iter() {
                plain.clear();
                frame(message, &mut plain)?;
                encoder.flush(&plain, &mut wire)?;
                if wire.len() >= WRITE {
                    socket.write_all(&wire).await?;
                    wire.clear();
                }
            }
            socket.write_all(&wire).await?;
            socket.shutdown().await?;
            Ok(began)
        })
    }

    fn ask(self: Arc<Self>, to: SocketAddr, trips: Trips) -> Task<Trips> {
        ask(self.how.level, self.longest, to, trips)
    }
}
