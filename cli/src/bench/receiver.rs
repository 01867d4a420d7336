//! The receiving end.

use bytes::Bytes;
use tautline::control::PolicyConfig;
use tautline::transport::{Address, Listener, Node};

use super::clock::{monotonic_nanos, processor_nanos};
use super::node::{Messages, Settings};
use super::plan::Sending;
use super::protocol::Received;
use crate::failure::Failure;

/// Of one node for all policies: what it sends are empty answers, about which nothing can be learnt.
pub(super) struct Receiver {
    address: Address,
    listener: Option<Listener>,
    /// The node, until its guard was waited for.
    unprepared: Option<Node>,
}

impl Receiver {
    pub(super) fn new(address: Address) -> Self {
        Self {
            address,
            listener: None,
            unprepared: None,
        }
    }

    /// Begins anew, at the address given back.
    pub(super) async fn reset(&mut self, settings: Settings) -> Result<Address, Failure> {
        // The port may be wanted again.
        self.listener = None;
        let node = settings.node(PolicyConfig::None)?;
        let listener = node.listen(&self.address).await?;
        let address = listener.local_address()?;
        self.listener = Some(listener);
        self.unprepared = Some(node);
        Ok(address)
    }

    /// Waits for the guard, the first time: it tells the sender of its budget.
    pub(super) async fn prepare(&mut self) {
        if let Some(node) = self.unprepared.take() {
            node.budget_settled().await;
        }
    }

    /// Receives the messages of one connection and compares them with what should come.
    pub(super) async fn pass(
        &mut self,
        sending: Sending,
        messages: &Messages,
    ) -> Result<Received, Failure> {
        let gave_up = |number: usize| {
            let text = format!("the sender gave up after {number} messages");
            Failure::Error(text)
        };
        let Some(listener) = &self.listener else {
            return Err(gave_up(0));
        };
        let connection = listener.accept().await?;
        connection.established().await?;
        let processor = processor_nanos();
        let stream = connection.accept().await?.ok_or_else(|| gave_up(0))?;
        let mut times = Vec::with_capacity(messages.len());
        for (number, sent) in messages.iter().enumerate() {
            let message = stream.recv().await?.ok_or_else(|| gave_up(number))?;
            times.push(monotonic_nanos());
            if message.payload != sent {
                return Err(Failure::Error(format!(
                    "message {number} came changed: {} bytes were sent, {} came",
                    sent.len(),
                    message.payload.len()
                )));
            }
            if sending == Sending::Single {
                stream.send(Bytes::new()).await?;
            }
        }
        if sending != Sending::Single {
            // All of it is here.
            stream.send(Bytes::new()).await?;
        }
        let processor = processor_nanos() - processor;
        // The sender closes when it has heard of that.
        connection.closed().await?;
        Ok(Received {
            times,
            processor_nanos: processor,
        })
    }
}
