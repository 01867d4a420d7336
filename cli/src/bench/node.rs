//! One end of the bench: a process of its own, so that its processor time is its node's alone. It
//! lives as long as the bench and does what it reads from stdin.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use clap::{Args, ValueEnum};
use tautline::control::PolicyConfig;
use tautline::corpus::{Corpus, Format};
use tautline::session::{Limits, SessionConfig};
use tautline::transport::{Address, Node, NodeConfig};
use tokio::sync::mpsc;

use super::plan::Take;
use super::protocol::{Command, Loaded, Reply};
use super::receiver::Receiver;
use super::sender::Sender;
use crate::failure::{Failure, say};
use crate::process;

/// Of the runtime, in each of the two processes.
const WORKERS: usize = 2;

#[derive(Debug, Args)]
pub(crate) struct NodeArguments {
    role: Role,
    /// Where the receiver listens.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: Address,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    Sender,
    Receiver,
}

pub(crate) fn run(arguments: NodeArguments) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()?;
    // On a worker: what is measured takes turns on as many threads as a user's would.
    runtime.block_on(runtime.spawn(serve(arguments, process::orders())))?
}

async fn serve(
    arguments: NodeArguments,
    mut commands: mpsc::UnboundedReceiver<String>,
) -> Result<(), Failure> {
    let mut corpora = Vec::new();
    let mut end = match arguments.role {
        Role::Sender => End::Sender(Sender::default()),
        Role::Receiver => End::Receiver(Receiver::new(arguments.listen)),
    };
    while let Some(line) = commands.recv().await {
        let reply = match obey(serde_json::from_str(&line)?, &mut corpora, &mut end).await {
            Ok(reply) => reply,
            Err(Failure::Error(text)) => Reply::Failed(text),
            Err(other) => return Err(other),
        };
        say!("{}", serde_json::to_string(&reply)?)?;
    }
    Ok(())
}

enum End {
    Sender(Sender),
    Receiver(Receiver),
}

/// The messages of one corpus.
pub(super) type Messages = Arc<[Bytes]>;

async fn obey(
    command: Command,
    corpora: &mut Vec<Messages>,
    end: &mut End,
) -> Result<Reply, Failure> {
    match command {
        Command::Load {
            files,
            format,
            take,
        } => {
            let format = format.map(|format| format.parse()).transpose()?;
            let mut loaded = Vec::new();
            for file in files {
                let (described, messages) = load(file, format, take)?;
                loaded.push(described);
                corpora.push(messages);
            }
            Ok(Reply::Loaded(loaded))
        }
        Command::Reset { guard } => {
            let longest = corpora.iter().flat_map(|messages| messages.iter());
            let settings = Settings {
                guard,
                longest: longest.map(Bytes::len).max().unwrap_or(0),
            };
            let address = match end {
                End::Sender(sender) => {
                    sender.reset(settings);
                    None
                }
                End::Receiver(receiver) => Some(receiver.reset(settings).await?.to_string()),
            };
            Ok(Reply::Ready(address))
        }
        Command::Prepare { policy } => {
            match end {
                End::Sender(sender) => drop(sender.node(&policy).await?),
                End::Receiver(receiver) => receiver.prepare().await,
            }
            Ok(Reply::Ready(None))
        }
        Command::Pass(pass) => {
            let messages = corpora
                .get(pass.corpus)
                .ok_or_else(|| Failure::Error("no such corpus".to_owned()))?;
            match end {
                End::Sender(sender) => sender.pass(&pass, messages).await.map(Reply::Sent),
                End::Receiver(receiver) => receiver
                    .pass(pass.sending, messages)
                    .await
                    .map(Reply::Received),
            }
        }
    }
}

fn load(
    file: PathBuf,
    format: Option<Format>,
    take: Option<Take>,
) -> Result<(Loaded, Messages), Failure> {
    let corpus = Corpus::read(file, format)?;
    let name = corpus.name().to_owned();
    let all = corpus.into_messages();
    let taken = take.map_or(&all[..], |take| take.of(&all));
    if taken.is_empty() {
        return Err(Failure::Error(format!("{name} holds no messages")));
    }
    let loaded = Loaded {
        name,
        messages: taken.len(),
        plain_bytes: taken.iter().map(|message| message.len() as u64).sum(),
    };
    // Copies, each in memory of its own: what was not taken is let go.
    let messages = taken.iter().map(|message| Bytes::copy_from_slice(message));
    Ok((loaded, messages.collect()))
}

/// What the nodes of both ends have in common.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settings {
    guard: bool,
    longest: usize,
}

impl Settings {
    /// A node that knows nothing yet.
    pub(super) fn node(self, policy: PolicyConfig) -> Result<Node, Failure> {
        let session = SessionConfig::default()
            .policy(policy)
            .limits(Limits::default().max_message(self.longest.max(16 << 20)));
        let mut config = NodeConfig::default().session(session);
        if !self.guard {
            config = config.guard(None);
        }
        Ok(Node::new(config)?)
    }
}
