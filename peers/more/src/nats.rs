//! `nats`: published to a server of NATS, which a subscriber takes it from. Only the publisher's
//! connection is limited, and counted.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::{Client, ConnectOptions, Subscriber};
use futures_util::StreamExt;
use tautline_peers::{
    Contestant, Failure, Family, Inbox, Kind, Messages, Receiver, Sender, Task, Trips, gone, now,
};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

pub(crate) const FAMILY: Family = Family {
    name: "nats",
    settings: &["core"],
    make: |setting| (setting == "core").then(|| Box::new(Nats) as _),
    meaning: "NATS (async-nats) through its server, if `nats-server` is installed",
};

const SUBJECT: &str = "peers";
/// What a subscriber may have waiting before messages are dropped. Arbitrary, more than are sent.
const WAITING: usize = 1 << 20;
/// How often and how long it is tried to reach the server that has just been started.
const LOOK: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
struct Nats;

impl Contestant for Nats {
    fn kind(&self) -> Kind {
        Kind::Peer
    }

    fn receiver(&self, _longest: usize) -> Task<Arc<dyn Receiver>> {
        Box::pin(async {
            let (server, address) = start()?;
            let client = reach(address).await?;
            let subscriber = client.subscribe(SUBJECT).await?;
            // Once it answers, the server knows of the subscription.
            client.flush().await?;
            Ok(Arc::new(Subscribed {
                subscriber: Mutex::new(subscriber),
                address,
                client,
                server,
            }) as _)
        })
    }

    fn sender(&self, _longest: usize) -> Task<Arc<dyn Sender>> {
        Box::pin(async { Ok(Arc::new(Self) as _) })
    }
}

/// A server of its own, which ends with what it is for.
fn start() -> Result<(Child, SocketAddr), Failure> {
    let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = free.local_addr()?;
    drop(free);
    let server = Command::new("nats-server")
        .args(["--addr", &address.ip().to_string()])
        .args(["--port", &address.port().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| Failure::of("nats-server", &error))?;
    Ok((server, address))
}

async fn reach(address: SocketAddr) -> Result<Client, Failure> {
    let reached = async {
        loop {
            let options = ConnectOptions::new().subscription_capacity(WAITING);
            if let Ok(client) = options.connect(address.to_string()).await {
                return client;
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(PATIENCE, reached)
        .await
        .map_err(|_| Failure::Error("nats-server does not answer".to_owned()))
}

impl Sender for Nats {
    fn send(self: Arc<Self>, to: SocketAddr, messages: Messages) -> Task<Instant> {
        Box::pin(async move {
            let client = async_nats::connect(to.to_string()).await?;
            let began = now();
            for message in messages.iter() {
                client.publish(SUBJECT, message.clone()).await?;
            }
            client.flush().await?;
            client.drain().await?;
            Ok(began)
        })
    }

    fn ask(self: Arc<Self>, to: SocketAddr, mut trips: Trips) -> Task<Trips> {
        Box::pin(async move {
            let client = async_nats::connect(to.to_string()).await?;
            while let Some(message) = trips.ask() {
                trips.answered(&client.request(SUBJECT, message).await?.payload)?;
            }
            client.drain().await?;
            Ok(trips)
        })
    }
}

struct Subscribed {
    /// One pass at a time.
    subscriber: Mutex<Subscriber>,
    address: SocketAddr,
    client: Client,
    server: Child,
}

impl Receiver for Subscribed {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn receive(self: Arc<Self>, mut inbox: Inbox) -> Task<Inbox> {
        Box::pin(async move {
            let mut subscriber = self.subscriber.lock().await;
            while !inbox.is_complete() {
                let message = subscriber.next().await.ok_or_else(gone)?;
                inbox.deliver(&message.payload)?;
            }
            Ok(inbox)
        })
    }

    fn echo(self: Arc<Self>, count: usize) -> Task<()> {
        Box::pin(async move {
            let mut subscriber = self.subscriber.lock().await;
            for _ in 0..count {
                let message = subscriber.next().await.ok_or_else(gone)?;
                let to = message.reply.ok_or_else(gone)?;
                self.client.publish(to, message.payload).await?;
            }
            Ok(())
        })
    }

    fn processes(&self) -> Vec<u32> {
        self.server.id().into_iter().collect()
    }
}
