//! `zenoh`: published by one peer, subscribed to by another, over one TCP connection between them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tautline_peers::{
    Contestant, Failure, Family, Inbox, Kind, Messages, Receiver, Sender, Task, Trips, now,
};
use zenoh::handlers::FifoChannelHandler;
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::qos::CongestionControl;
use zenoh::sample::Sample;
use zenoh::{Config, Session};

pub(crate) const FAMILY: Family = Family {
    name: "zenoh",
    settings: &["none", "lz4"],
    make: |setting| Zenoh::named(setting).map(|it| Box::new(it) as _),
    meaning: "zenoh, from peer to peer, that waits where it cannot send; its compression of batches",
};

/// What is published, what the subscriber sends back, and what it says when it has all of it.
const KEY: &str = "peers/message";
const BACK: &str = "peers/back";
const DONE: &str = "peers/done";
/// How often and how long it is looked whether the other end subscribes yet. Arbitrary.
const LOOK: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
struct Zenoh {
    compresses: bool,
}

impl Zenoh {
    fn named(setting: &str) -> Option<Self> {
        let compresses = match setting {
            "none" => false,
            "lz4" => true,
            _ => return None,
        };
        Some(Self { compresses })
    }

    /// Connects to nobody but whom it is told to, and listens nowhere else.
    async fn session(self, listen: &[String], connect: &[String]) -> Result<Session, Failure> {
        let mut config = Config::default();
        for (key, value) in [
            ("mode", "\"peer\"".to_owned()),
            ("listen/endpoints", format!("{listen:?}")),
            ("connect/endpoints", format!("{connect:?}")),
            ("scouting/multicast/enabled", false.to_string()),
            // Else ends tell each other their addresses, and connect past the relay.
            ("scouting/gossip/enabled", false.to_string()),
            (
                "transport/unicast/compression/enabled",
                self.compresses.to_string(),
            ),
            // A minute in microseconds: else a slow link that is full for 5 s is taken for a dead one.
            (
                "transport/link/tx/queue/congestion_control/block/wait_before_close",
                60_000_000.to_string(),
            ),
        ] {
            config.insert_json5(key, &value).map_err(failed)?;
        }
        zenoh::open(config).await.map_err(failed)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn failed(error: zenoh::Error) -> Failure {
    Failure::of("zenoh", error.as_ref())
}

impl Contestant for Zenoh {
    fn kind(&self) -> Kind {
        Kind::Peer
    }

    fn receiver(&self, _longest: usize) -> Task<Arc<dyn Receiver>> {
        let zenoh = *self;
        Box::pin(async move {
            // It does not tell which port it got if it is to take any.
            let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let address = free.local_addr()?;
            drop(free);
            let session = zenoh.session(&[format!("tcp/{address}")], &[]).await?;
            let subscriber = session.declare_subscriber(KEY).await.map_err(failed)?;
            Ok(Arc::new(Subscribed {
                session,
                subscriber,
                address,
            }) as _)
        })
    }

    fn sender(&self, _longest: usize) -> Task<Arc<dyn Sender>> {
        let sender = *self;
        Box::pin(async move { Ok(Arc::new(sender) as _) })
    }
}

impl Sender for Zenoh {
    fn send(self: Arc<Self>, to: SocketAddr, messages: Messages) -> Task<Instant> {
        Box::pin(async move {
            let session = self.session(&[], &[format!("tcp/{to}")]).await?;
            let done = session.declare_subscriber(DONE).await.map_err(failed)?;
            let publisher = publisher(&session, KEY).await?;
            let began = now();
            for message in messages.iter() {
                publisher.put(message.clone()).await.map_err(failed)?;
            }
            done.recv_async().await.map_err(failed)?;
            session.close().await.map_err(failed)?;
            Ok(began)
        })
    }

    fn ask(self: Arc<Self>, to: SocketAddr, mut trips: Trips) -> Task<Trips> {
        Box::pin(async move {
            let session = self.session(&[], &[format!("tcp/{to}")]).await?;
            let back = session.declare_subscriber(BACK).await.map_err(failed)?;
            let publisher = publisher(&session, KEY).await?;
            while let Some(message) = trips.ask() {
                publisher.put(message).await.map_err(failed)?;
                let sample = back.recv_async().await.map_err(failed)?;
                trips.answered(&sample.payload().to_bytes())?;
            }
            session.close().await.map_err(failed)?;
            Ok(trips)
        })
    }
}

/// Once there is somebody who subscribes.
async fn publisher<'a>(session: &'a Session, key: &'static str) -> Result<Publisher<'a>, Failure> {
    let publisher = session
        .declare_publisher(key)
        .congestion_control(CongestionControl::Block)
        .await
        .map_err(failed)?;
    let subscribed = async {
        while !publisher.matching_status().await?.matching() {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    };
    tokio::time::timeout(PATIENCE, subscribed)
        .await?
        .map_err(failed)?;
    Ok(publisher)
}

struct Subscribed {
    session: Session,
    subscriber: Subscriber<FifoChannelHandler<Sample>>,
    address: SocketAddr,
}

impl Receiver for Subscribed {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn receive(self: Arc<Self>, mut inbox: Inbox) -> Task<Inbox> {
        Box::pin(async move {
            while !inbox.is_complete() {
                let sample = self.subscriber.recv_async().await.map_err(failed)?;
                inbox.deliver(&sample.payload().to_bytes())?;
            }
            self.session
                .put(DONE, "")
                .congestion_control(CongestionControl::Block)
                .await
                .map_err(failed)?;
            Ok(inbox)
        })
    }

    fn echo(self: Arc<Self>, count: usize) -> Task<()> {
        Box::pin(async move {
            let publisher = publisher(&self.session, BACK).await?;
            for _ in 0..count {
                let sample = self.subscriber.recv_async().await.map_err(failed)?;
                let payload = sample.payload().clone();
                publisher.put(payload).await.map_err(failed)?;
            }
            Ok(())
        })
    }
}
