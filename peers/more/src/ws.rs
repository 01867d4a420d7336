//! `ws`: a WebSocket with and without permessage-deflate, binary messages.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use futures_util::SinkExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tautline_peers::{
    Contestant, Failure, Family, Inbox, Kind, Messages, Receiver, Sender, Task, Trips, accept,
    connect, gone, listen, now,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use yawc::{
    CompressionLevel, Frame, HttpWebSocket, OpCode, Options, UpgradeFut, WebSocket, WebSocketError,
};

pub(crate) const FAMILY: Family = Family {
    name: "ws",
    settings: &["none", "deflate-1", "deflate-6"],
    make: |setting| WebSockets::named(setting).map(|it| Box::new(it) as _),
    meaning: "WebSockets (yawc); permessage-deflate of a level, with history",
};

#[derive(Clone, Copy, Debug)]
struct WebSockets {
    level: Option<u32>,
}

impl WebSockets {
    fn named(setting: &str) -> Option<Self> {
        if setting == "none" {
            return Some(Self { level: None });
        }
        let level = setting.strip_prefix("deflate-")?.parse().ok()?;
        (1..=9)
            .contains(&level)
            .then_some(Self { level: Some(level) })
    }

    fn options(self, longest: usize) -> Options {
        // Of a frame as it is on the wire too: fast deflate makes an eighth more of what is random.
        let most = longest + longest / 4 + 1024;
        let options = Options::default().with_limits(most, 2 * most);
        match self.level {
            None => options.without_compression(),
            Some(level) => options
                .with_compression_level(CompressionLevel::new(level))
                // yawc 0.5 waits for ever for what an empty message behind another is compressed to.
                .with_compression_threshold(1),
        }
    }
}

impl Contestant for WebSockets {
    fn kind(&self) -> Kind {
        Kind::Peer
    }

    fn receiver(&self, longest: usize) -> Task<Arc<dyn Receiver>> {
        let options = self.options(longest);
        Box::pin(async move {
            let (listener, address) = listen().await?;
            Ok(Arc::new(Server {
                options,
                listener,
                address,
            }) as _)
        })
    }

    fn sender(&self, longest: usize) -> Task<Arc<dyn Sender>> {
        let options = self.options(longest);
        Box::pin(async move { Ok(Arc::new(Client { options }) as _) })
    }
}

struct Client {
    options: Options,
}

impl Client {
    async fn connect(&self, to: SocketAddr) -> Result<WebSocket<TcpStream>, Failure> {
        let url = format!("ws://{to}/").parse()?;
        Ok(WebSocket::handshake(url, connect(to).await?, self.options.clone()).await?)
    }
}

/// Closes its direction, and waits for the other end's own close: nothing is cut off.
async fn close<S>(socket: &mut WebSocket<S>) -> Result<(), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    SinkExt::<Frame>::close(socket).await?;
    while socket
        .next_frame()
        .await
        .is_ok_and(|frame| frame.opcode() != OpCode::Close)
    {}
    Ok(())
}

impl Sender for Client {
    fn send(self: Arc<Self>, to: SocketAddr, messages: Messages) -> Task<Instant> {
        Box::pin(async move {
            let mut socket = self.connect(to).await?;
            let began = now();
            for message in messages.iter() {
                socket.feed(Frame::binary(message.clone())).await?;
            }
            close(&mut socket).await?;
            Ok(began)
        })
    }

    fn ask(self: Arc<Self>, to: SocketAddr, mut trips: Trips) -> Task<Trips> {
        Box::pin(async move {
            let mut socket = self.connect(to).await?;
            while let Some(message) = trips.ask() {
                SinkExt::send(&mut socket, Frame::binary(message)).await?;
                trips.answered(socket.next_frame().await?.payload())?;
            }
            close(&mut socket).await?;
            Ok(trips)
        })
    }
}

struct Server {
    options: Options,
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Answers the request that a WebSocket begins with.
    async fn accept(&self) -> Result<HttpWebSocket, Failure> {
        let socket = accept(&self.listener).await?;
        let (give, mut take) = mpsc::unbounded_channel::<UpgradeFut>();
        let service = service_fn(|mut request: hyper::Request<Incoming>| {
            let answer = WebSocket::upgrade_with_options(&mut request, self.options.clone());
            let give = give.clone();
            async move {
                let (response, upgrade) = answer?;
                // Whoever takes it waits for the connection first.
                let _ = give.send(upgrade);
                Ok::<_, WebSocketError>(response)
            }
        });
        http1::Builder::new()
            .serve_connection(TokioIo::new(socket), service)
            .with_upgrades()
            .await?;
        let upgrade = take
            .try_recv()
            .map_err(|_| Failure::Error("the sender asked for nothing".to_owned()))?;
        Ok(upgrade.await?)
    }
}

impl Receiver for Server {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn receive(self: Arc<Self>, mut inbox: Inbox) -> Task<Inbox> {
        Box::pin(async move {
            let mut socket = self.accept().await?;
            loop {
                let frame = socket.next_frame().await?;
                match frame.opcode() {
                    OpCode::Binary => inbox.deliver(frame.payload())?,
                    OpCode::Close => break,
                    _ => {
                        let text = "something else than a message".to_owned();
                        return Err(Failure::Error(text));
                    }
                }
            }
            // What answers it.
            SinkExt::<Frame>::close(&mut socket).await?;
            Ok(inbox)
        })
    }

    fn echo(self: Arc<Self>, count: usize) -> Task<()> {
        Box::pin(async move {
            let mut socket = self.accept().await?;
            for _ in 0..count {
                let frame = socket.next_frame().await?;
                if frame.opcode() != OpCode::Binary {
                    return Err(gone());
                }
                let payload = frame.into_payload();
                SinkExt::send(&mut socket, Frame::binary(payload)).await?;
            }
            close(&mut socket).await
        })
    }
}
