//! `tautline`: this crate, with a policy.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::{SinkExt, TryStreamExt};
use tautline::codecs;
use tautline::control::PolicyConfig;
use tautline::session::{Limits, SessionConfig, StreamConfig};
use tautline::transport::{Address, Connection, Listener, Node, NodeConfig, Stream};

use super::{Contestant, Inbox, Kind, Messages, Receiver, Sender, Task, Trips, gone, now};
use crate::failure::Failure;

#[derive(Clone, Copy, Debug)]
pub(super) struct Tautline {
    policy: PolicyConfig,
    guard: bool,
}

impl Tautline {
    pub(super) fn named(setting: &str, guard: bool) -> Result<Self, String> {
        let policy = setting.parse().map_err(|error| format!("{error}"))?;
        if let PolicyConfig::Fixed(arm) = policy {
            let known = codecs::info(arm.codec).is_some_and(|info| info.accepts(arm.level));
            if !known {
                return Err(format!("this build does not have {arm}"));
            }
        }
        Ok(Self { policy, guard })
    }
}

impl Contestant for Tautline {
    fn kind(&self) -> Kind {
        Kind::Own
    }

    fn receiver(&self, longest: usize) -> Task<Arc<dyn Receiver>> {
        let Self { policy, guard } = *self;
        Box::pin(async move {
            let node = node(policy, guard, longest)?;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let listener = node.listen(&address.into()).await?;
            let address = listener.local_address()?.to_string().parse()?;
            Ok(Arc::new(NodeReceiver {
                node,
                listener,
                address,
            }) as _)
        })
    }

    fn sender(&self, longest: usize) -> Task<Arc<dyn Sender>> {
        let Self { policy, guard } = *self;
        Box::pin(async move {
            let node = node(policy, guard, longest)?;
            Ok(Arc::new(NodeSender { node, policy }) as _)
        })
    }
}

/// It lives as long as the table, and remembers its peer from pass to pass.
fn node(policy: PolicyConfig, guard: bool, longest: usize) -> Result<Node, Failure> {
    let session = SessionConfig::default().policy(policy);
    let session = session.limits(Limits::default().max_message(longest.max(16 << 20)));
    let mut config = NodeConfig::default().session(session);
    if !guard {
        config = config.guard(None);
    }
    Ok(Node::new(config)?)
}

struct NodeSender {
    node: Node,
    policy: PolicyConfig,
}

impl NodeSender {
    /// A stream of a new connection. As with others, the time does not begin before both ends have agreed.
    async fn connect(&self, to: SocketAddr) -> Result<(Connection, Stream), Failure> {
        let connection = self.node.connect(&Address::from(to)).await?;
        connection.established().await?;
        let config = StreamConfig::default().policy(self.policy);
        let stream = connection.open("peers", config).await?;
        Ok((connection, stream))
    }
}

impl Sender for NodeSender {
    fn prepare(self: Arc<Self>) -> Task<()> {
        Box::pin(async move {
            self.node.budget_settled().await;
            Ok(())
        })
    }

    fn send(self: Arc<Self>, to: SocketAddr, messages: Messages) -> Task<Instant> {
        Box::pin(async move {
            let (connection, stream) = self.connect(to).await?;
            let began = now();
            let mut sink = stream.sink();
            for message in &*messages {
                sink.feed(message.clone()).await?;
            }
            sink.flush().await?;
            // The receiver's word that all of it is there.
            stream.recv().await?.ok_or_else(gone)?;
            connection.close().await?;
            Ok(began)
        })
    }

    fn ask(self: Arc<Self>, to: SocketAddr, mut trips: Trips) -> Task<Trips> {
        Box::pin(async move {
            let (connection, stream) = self.connect(to).await?;
            while let Some(message) = trips.ask() {
                stream.send(message).await?;
                trips.answered(&stream.recv().await?.ok_or_else(gone)?.payload)?;
            }
            connection.close().await?;
            Ok(trips)
        })
    }
}

struct NodeReceiver {
    node: Node,
    listener: Listener,
    address: SocketAddr,
}

impl NodeReceiver {
    async fn accept(&self) -> Result<(Connection, Stream), Failure> {
        let connection = self.listener.accept().await?;
        connection.established().await?;
        let stream = connection.accept().await?.ok_or_else(gone)?;
        Ok((connection, stream))
    }
}

impl Receiver for NodeReceiver {
    fn address(&self) -> SocketAddr {
        self.address
    }

    /// It tells the sender of its budget.
    fn prepare(self: Arc<Self>) -> Task<()> {
        Box::pin(async move {
            self.node.budget_settled().await;
            Ok(())
        })
    }

    fn receive(self: Arc<Self>, mut inbox: Inbox) -> Task<Inbox> {
        Box::pin(async move {
            let (connection, stream) = self.accept().await?;
            let mut came = stream.messages();
            while !inbox.is_complete() {
                let message = came.try_next().await?.ok_or_else(gone)?;
                inbox.deliver(&message.payload)?;
            }
            stream.send(Bytes::new()).await?;
            connection.closed().await?;
            Ok(inbox)
        })
    }

    fn echo(self: Arc<Self>, count: usize) -> Task<()> {
        Box::pin(async move {
            let (connection, stream) = self.accept().await?;
            for _ in 0..count {
                let message = stream.recv().await?.ok_or_else(gone)?;
                stream.send(message.payload).await?;
            }
            connection.closed().await?;
            Ok(())
        })
    }
}
