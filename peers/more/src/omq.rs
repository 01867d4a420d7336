//! `omq`: `ZeroMQ`, from a PUSH to a PULL socket; asked by a REQ socket of a REP socket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use omq_tokio::{Message, Options, Socket, SocketType};
use tautline_peers::{
    Contestant, Failure, Family, Inbox, Kind, Messages, Receiver, Sender, Task, Trips, now,
};

pub(crate) const FAMILY: Family = Family {
    name: "omq",
    settings: &["tcp", "lz4", "zstd", "lz4+dict", "zstd+dict"],
    make: |setting| Omq::named(setting).map(|it| Box::new(it) as _),
    meaning: "ZeroMQ (omq-tokio), PUSH to PULL and REQ to REP, over tcp, lz4+tcp, zstd+tcp; with its trained\n\
              dictionaries, as it advises for messages of less than 1 KiB",
};

/// For what takes a moment if it goes well. Arbitrary, much longer.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Clone, Copy, Debug)]
struct Omq {
    scheme: &'static str,
    trains: bool,
}

impl Omq {
    fn named(setting: &str) -> Option<Self> {
        let (scheme, trains) = match setting {
            "tcp" => ("tcp", false),
            "lz4" => ("lz4+tcp", false),
            "zstd" => ("zstd+tcp", false),
            "lz4+dict" => ("lz4+tcp", true),
            "zstd+dict" => ("zstd+tcp", true),
            _ => return None,
        };
        Some(Self { scheme, trains })
    }

    /// On the runtime that it is called on, like the others.
    fn socket(self, kind: SocketType) -> Result<Socket, Failure> {
        let options = Options::default()
            .compression_auto_train(self.trains)
            // Else closing drops what has not been sent yet.
            .linger(PATIENCE);
        Ok(Socket::try_new(kind, options)?)
    }

    async fn bind(self, kind: SocketType) -> Result<(Socket, SocketAddr), Failure> {
        let socket = self.socket(kind)?;
        let endpoint = format!("{}://127.0.0.1:0", self.scheme);
        let endpoint = socket.bind(endpoint.as_str()).await?.to_string();
        let address = endpoint.rsplit('/').next().unwrap_or_default();
        let address = address.parse()?;
        Ok((socket, address))
    }

    async fn connect(self, kind: SocketType, to: SocketAddr) -> Result<Socket, Failure> {
        let socket = self.socket(kind)?;
        let endpoint = format!("{}://{to}", self.scheme);
        socket.connect(endpoint.as_str()).await?;
        socket.wait_connected(1, PATIENCE).await?;
        Ok(socket)
    }
}

/// The one part that it has.
fn payload(message: &Message) -> Result<&[u8], Failure> {
    if message.len() == 1 {
        return Ok(&message[0]);
    }
    let text = format!("a message of {} parts", message.len());
    Err(Failure::Error(text))
}

impl Contestant for Omq {
    fn kind(&self) -> Kind {
        Kind::Peer
    }

    fn receiver(&self, _longest: usize) -> Task<Arc<dyn Receiver>> {
        let omq = *self;
        Box::pin(async move {
            let (pull, address) = omq.bind(SocketType::Pull).await?;
            let (reply, echo_address) = omq.bind(SocketType::Rep).await?;
            Ok(Arc::new(Bound {
                pull,
                address,
                reply,
                echo_address,
            }) as _)
        })
    }

    fn sender(&self, _longest: usize) -> Task<Arc<dyn Sender>> {
        let sender = *self;
        Box::pin(async move { Ok(Arc::new(sender) as _) })
    }
}

impl Sender for Omq {
    fn send(self: Arc<Self>, to: SocketAddr, messages: Messages) -> Task<Instant> {
        Box::pin(async move {
            let socket = self.connect(SocketType::Push, to).await?;
            let began = now();
            for message in messages.iter() {
                socket.send(Message::single(message.clone())).await?;
            }
            socket.close().await?;
            Ok(began)
        })
    }

    fn ask(self: Arc<Self>, to: SocketAddr, mut trips: Trips) -> Task<Trips> {
        Box::pin(async move {
            let socket = self.connect(SocketType::Req, to).await?;
            while let Some(message) = trips.ask() {
                socket.send(Message::single(message)).await?;
                trips.answered(payload(&socket.recv().await?)?)?;
            }
            socket.close().await?;
            Ok(trips)
        })
    }
}

struct Bound {
    pull: Socket,
    address: SocketAddr,
    reply: Socket,
    echo_address: SocketAddr,
}

impl Receiver for Bound {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn receive(self: Arc<Self>, mut inbox: Inbox) -> Task<Inbox> {
        Box::pin(async move {
            // Connections come and go behind the socket: their ends are not seen.
            while !inbox.is_complete() {
                inbox.deliver(payload(&self.pull.recv().await?)?)?;
            }
            Ok(inbox)
        })
    }

    fn echo_address(&self) -> SocketAddr {
        self.echo_address
    }

    fn echo(self: Arc<Self>, count: usize) -> Task<()> {
        Box::pin(async move {
            for _ in 0..count {
                let message = self.reply.recv().await?;
                self.reply.send(message).await?;
            }
            Ok(())
        })
    }
}
