//! `omq`: `ZeroMQ`, from a PUSH to a PULL socket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use omq_tokio::{Message, Options, Socket, SocketType};
use tautline_peers::{
    Contestant, Failure, Family, Inbox, Kind, Messages, Receiver, Sender, Task, now,
};

pub(crate) const FAMILY: Family = Family {
    name: "omq",
    settings: &["tcp", "lz4", "zstd", "lz4+dict", "zstd+dict"],
    make: |setting| Omq::named(setting).map(|it| Box::new(it) as _),
    meaning: "ZeroMQ (omq-tokio), PUSH to PULL, over tcp, lz4+tcp, zstd+tcp; with its trained\n\
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
}

impl Contestant for Omq {
    fn kind(&self) -> Kind {
        Kind::Peer
    }

    fn receiver(&self, _longest: usize) -> Task<Arc<dyn Receiver>> {
        let omq = *self;
        Box::pin(async move {
            let socket = omq.socket(SocketType::Pull)?;
            let endpoint = format!("{}://127.0.0.1:0", omq.scheme);
            let endpoint = socket.bind(endpoint.as_str()).await?.to_string();
            let address = endpoint.rsplit('/').next().unwrap_or_default();
            let address = address.parse()?;
            Ok(Arc::new(Pull { socket, address }) as _)
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
            let socket = self.socket(SocketType::Push)?;
            let endpoint = format!("{}://{to}", self.scheme);
            socket.connect(endpoint.as_str()).await?;
            socket.wait_connected(1, PATIENCE).await?;
            let began = now();
            for message in messages.iter() {
                socket.send(Message::single(message.clone())).await?;
            }
            socket.close().await?;
            Ok(began)
        })
    }
}

struct Pull {
    socket: Socket,
    address: SocketAddr,
}

impl Receiver for Pull {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn receive(self: Arc<Self>, mut inbox: Inbox) -> Task<Inbox> {
        Box::pin(async move {
            // Connections come and go behind the socket: their ends are not seen.
            while !inbox.is_complete() {
                let message = self.socket.recv().await?;
                if message.len() != 1 {
                    let text = format!("a message of {} parts", message.len());
                    return Err(Failure::Error(text));
                }
                inbox.deliver(&message[0])?;
            }
            Ok(inbox)
        })
    }
}
