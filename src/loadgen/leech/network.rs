//! A leech of the network: messages of this crate to whoever accepts them.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use super::error::LeechError;
use super::work::Work;
use super::{Asked, Leech, MAX_LENGTH};
use crate::control::PolicyConfig;
use crate::loadgen::intensity::Intensity;
#[cfg(not(feature = "eventlog"))]
use crate::loadgen::recording::LeechEvents;
use crate::loadgen::resource::Resource;
use crate::session::StreamConfig;
use crate::transport::{Address, Connection, Node, NodeConfig, NodeError, Stream};

/// How long a batch waits for room at most: a window of the leech, so that wishes are looked at as often as otherwise.
const PATIENCE: Duration = Duration::from_millis(10);
/// How long the peer may take to say goodbye.
const FAREWELL: Duration = Duration::from_secs(1);

/// What a leech of the network is to do.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    address: Address,
    message_len: usize,
    asked: Asked,
    #[cfg(feature = "eventlog")]
    event_log: Option<crate::eventlog::EventLog>,
}

impl NetworkConfig {
    /// Messages of 256 bytes to `address`, as many as one processor can send, for a minute.
    pub fn new(address: Address) -> Self {
        Self {
            address,
            message_len: 256,
            asked: Asked {
                resource: Resource::Network,
                processor: None,
                length: Duration::from_secs(60),
                intensity: Intensity::FULL,
                misses: None,
                rate: None,
                gives_way: false,
            },
            #[cfg(feature = "eventlog")]
            event_log: None,
        }
    }

    /// Bytes of each message, random and sent as they are. Default: 256.
    #[must_use]
    pub fn message_len(mut self, bytes: usize) -> Self {
        self.message_len = bytes;
        self
    }

    /// The logical processor that it runs on.
    #[must_use]
    pub fn processor(mut self, processor: u32) -> Self {
        self.asked.processor = Some(processor);
        self
    }

    /// How long it sends at most, [`MAX_LENGTH`] if more. Default: a minute.
    #[must_use]
    pub fn length(mut self, length: Duration) -> Self {
        self.asked.length = length.min(MAX_LENGTH);
        self
    }

    /// The share of one processor's time that it takes for sending; the rate is what comes of that, or what the link and the peer take if that is less. Default: all of it.
    #[must_use]
    pub fn intensity(mut self, intensity: Intensity) -> Self {
        self.asked.intensity = intensity;
        self
    }

    /// As [`LeechConfig::event_log`](super::LeechConfig::event_log). Where the area has the transport's events too, its node records these.
    #[cfg(feature = "eventlog")]
    #[must_use]
    pub fn event_log(mut self, log: crate::eventlog::EventLog) -> Self {
        self.event_log = Some(log);
        self
    }
}

impl Leech {
    /// Starts a leech of the network: one connection with one stream, all on the leech's thread. What comes back is read and thrown away. [`LeechStats::operations`] counts messages;
    /// when the connection is lost, the leech is over.
    ///
    /// [`LeechStats::operations`]: super::LeechStats::operations
    ///
    /// # Errors
    ///
    /// As for [`Self::start`], and when nobody accepts at the address; it waits for that as long as [`Node::connect`] does.
    pub fn network(config: NetworkConfig) -> Result<Self, LeechError> {
        let NetworkConfig {
            address,
            message_len,
            asked,
            #[cfg(feature = "eventlog")]
            event_log,
        } = config;
        #[cfg(feature = "eventlog")]
        let events = super::events_of(event_log.as_ref(), asked.resource)?;
        #[cfg(not(feature = "eventlog"))]
        let events = LeechEvents;
        let make = move || {
            #[cfg(feature = "eventlog")]
            if let Some(log) = event_log {
                // It need not have the events of nodes.
                match Node::new(settings().event_log(log)) {
                    Err(NodeError::EventLog) => {}
                    made => return made,
                }
            }
            Node::new(settings())
        };
        Self::spawn(asked, None, events, move || {
            Network::connect(make, &address, message_len)
                .map(|network| Box::new(network) as Box<dyn Work>)
        })
    }
}

fn settings() -> NodeConfig {
    NodeConfig::default().guard(None)
}

#[derive(Debug)]
struct Network {
    runtime: Runtime,
    /// For as long as its connection.
    _node: Node,
    connection: Connection,
    stream: Arc<Stream>,
    message: Bytes,
    is_lost: bool,
}

impl Network {
    fn connect(
        node: impl FnOnce() -> Result<Node, NodeError>,
        address: &Address,
        message_len: usize,
    ) -> Result<Self, LeechError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| LeechError::Thread { source })?;
        let (node, connection, stream) = runtime.block_on(async {
            let node = node()?;
            let connection = node.connect(address).await?;
            let stream = connection.open("leech", StreamConfig::default()).await?;
            stream.set_policy(PolicyConfig::None);
            Ok::<_, LeechError>((node, connection, Arc::new(stream)))
        })?;
        let reader = Arc::clone(&stream);
        runtime.spawn(async move { while let Ok(Some(_)) = reader.recv().await {} });
        let mut message = vec![0; message_len];
        fastrand::Rng::with_seed(1).fill(&mut message);
        Ok(Self {
            runtime,
            _node: node,
            connection,
            stream,
            message: message.into(),
            is_lost: false,
        })
    }
}

impl Work for Network {
    fn run(&mut self, count: u64) -> u64 {
        let mut sent = 0;
        let sending = async {
            while sent < count {
                self.stream.send(self.message.clone()).await?;
                sent += 1;
            }
            // The connection's own task has its turn.
            tokio::task::yield_now().await;
            Ok::<_, crate::session::SendError>(())
        };
        // Out of patience, it has sent less.
        let result = self
            .runtime
            .block_on(async { timeout(PATIENCE, sending).await });
        self.is_lost = matches!(result, Ok(Err(_)));
        sent
    }

    fn rest(&mut self, time: Duration) {
        // The connection goes on meanwhile.
        self.runtime.block_on(async { sleep(time).await });
    }

    fn is_over(&self) -> bool {
        self.is_lost
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Whether the peer was still there to hear it does not matter.
        let _ = self
            .runtime
            .block_on(async { timeout(FAREWELL, self.connection.close()).await });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_and_the_leech_ends_with_its_peer() {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (address, listener) = runtime.block_on(async {
            let node = Node::new(NodeConfig::default().guard(None)).unwrap();
            let listener = node.listen(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
            (listener.local_address().unwrap(), listener)
        });
        let peer = runtime.spawn(async move {
            let connection = listener.accept().await.unwrap();
            let stream = connection.accept().await.unwrap().unwrap();
            for _ in 0..100 {
                assert_eq!(stream.recv().await.unwrap().unwrap().payload.len(), 1000);
            }
            // A session ends when both have had everything, and a leech sends on until it hears of that.
            let rest = async { while let Ok(Some(_)) = stream.recv().await {} };
            let (closed, ()) = tokio::join!(connection.close(), rest);
            closed.unwrap();
        });
        let config = NetworkConfig::new(address.clone())
            .message_len(1000)
            .intensity(Intensity::new(0.2))
            .length(Duration::from_secs(20));
        let leech = Leech::network(config).unwrap();
        runtime.block_on(peer).unwrap();
        for _ in 0..1000 {
            if leech.stats().is_over {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let stats = leech.stop();
        assert!(stats.is_over && stats.operations >= 100, "{stats:?}");
        assert!(stats.wall < Duration::from_secs(20), "{stats:?}");
        let nobody = NetworkConfig::new(address);
        assert!(matches!(
            Leech::network(nobody),
            Err(LeechError::Connect(_))
        ));
    }
}
