//! The sending end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tautline::control::PolicyConfig;
use tautline::session::StreamConfig;
use tautline::transport::{Address, Connection, Node, Stream};
use tokio::runtime::Handle;

use super::clock::{monotonic_nanos, processor_nanos};
use super::node::{Messages, Settings};
use super::plan::Sending;
use super::protocol::{Pass, Sent};
use crate::failure::Failure;
use crate::figures::is_static;
use crate::rate::Rate;

/// A node for each policy that learns, so that what a node remembers of a peer from one connection
/// to the next is that policy's own; and one for all those that have nothing to learn, since a node
/// costs a little processor time (it reads the load) even where it has no connection.
#[derive(Default)]
pub(super) struct Sender {
    settings: Settings,
    nodes: HashMap<Option<String>, Node>,
}

impl Sender {
    pub(super) fn reset(&mut self, settings: Settings) {
        self.settings = settings;
        self.nodes.clear();
    }

    /// The node for a policy; the first time it is asked for, its guard is waited for.
    pub(super) async fn node(&mut self, policy: &str) -> Result<Node, Failure> {
        let policy: PolicyConfig = policy.parse()?;
        let name = (!is_static(policy)).then(|| policy.to_string());
        if let Some(node) = self.nodes.get(&name) {
            return Ok(node.clone());
        }
        let node = self.settings.node(policy)?;
        node.budget_settled().await;
        self.nodes.insert(name, node.clone());
        Ok(node)
    }

    pub(super) async fn pass(&mut self, pass: &Pass, messages: &Messages) -> Result<Sent, Failure> {
        let policy = pass.policy.parse()?;
        let address: Address = pass.address.parse()?;
        let node = self.node(&pass.policy).await?;
        let connection = node.connect(&address).await?;
        let config = StreamConfig::default().policy(policy);
        let stream = Arc::new(connection.open("bench", config).await?);
        let wire = wire_sent(&connection).await;
        let processor = processor_nanos();
        let times = match pass.sending {
            Sending::Streamed => streamed(&stream, messages).await?,
            Sending::Single => single(&stream, messages).await?,
            Sending::Paced(rate) => paced(&stream, messages, rate).await?,
        };
        if pass.sending != Sending::Single {
            answer(&stream).await?;
        }
        let processor = processor_nanos() - processor;
        let wire = wire_sent(&connection).await.saturating_sub(wire);
        let stats = stream.stats().await.unwrap_or_default();
        connection.close().await?;
        let arms = stats.arms.iter();
        Ok(Sent {
            blocks: arms.clone().map(|arm| arm.blocks).sum(),
            out_of_budget: stats.out_of_budget,
            times,
            wire_bytes: wire,
            processor_nanos: processor,
            arms: arms
                .map(|arm| (arm.arm.to_string(), arm.plain_bytes))
                .collect(),
            switches: stats.switches,
            regret_nanos: u64::try_from(stats.regret.as_nanos()).unwrap_or(u64::MAX),
        })
    }
}

async fn wire_sent(connection: &Connection) -> u64 {
    connection.stats().await.unwrap_or_default().wire_sent
}

/// As fast as back-pressure lets it. A message's time begins with the call that sends it, and so
/// holds the wait for room.
async fn streamed(stream: &Stream, messages: &[Bytes]) -> Result<Vec<u64>, Failure> {
    let mut times = Vec::with_capacity(messages.len());
    for message in messages {
        times.push(monotonic_nanos());
        stream.send(message.clone()).await?;
    }
    Ok(times)
}

/// One at a time.
async fn single(stream: &Stream, messages: &[Bytes]) -> Result<Vec<u64>, Failure> {
    let mut times = Vec::with_capacity(messages.len());
    for message in messages {
        times.push(monotonic_nanos());
        stream.send(message.clone()).await?;
        answer(stream).await?;
    }
    Ok(times)
}

/// On a schedule, from a thread that may sleep: the runtime's timers are 1 ms coarse, more than many
/// a message takes. A message's time begins when it was due, whenever it could be sent.
async fn paced(stream: &Arc<Stream>, messages: &Messages, rate: Rate) -> Result<Vec<u64>, Failure> {
    let (stream, messages) = (Arc::clone(stream), Arc::clone(messages));
    let runtime = Handle::current();
    let send_all = move || {
        let mut times = Vec::with_capacity(messages.len());
        let mut due = monotonic_nanos();
        for message in messages.iter() {
            let early = due.saturating_sub(monotonic_nanos());
            if early > 0 {
                std::thread::sleep(Duration::from_nanos(early));
            }
            times.push(due);
            runtime.block_on(stream.send(message.clone()))?;
            let gap = u64::try_from(rate.gap(message.len()).as_nanos()).unwrap_or(u64::MAX);
            due = due.saturating_add(gap);
        }
        Ok(times)
    };
    tokio::task::spawn_blocking(send_all).await?
}

/// Waits for the receiver's word.
async fn answer(stream: &Stream) -> Result<(), Failure> {
    match stream.recv().await? {
        Some(_) => Ok(()),
        None => Err(Failure::Error("the receiver gave up".to_owned())),
    }
}
