//! A node of the lab: a process of its own, so that its processor time, and what the monitor counts of it, is its alone. It ends with the lab, whatever ends that: its stdin
//! closes then.

mod drive;
mod echo;
mod sampling;
mod series;
mod work;

use rustix::thread::{CpuSet, sched_setaffinity};
use tautline::control::CpuGuardConfig;
use tautline::session::SessionConfig;
use tautline::transport::{Address, Node, NodeConfig};
use tautline::units::CpuLoad;
use tokio::sync::mpsc;

use self::drive::drive;
use self::sampling::Sampler;
use super::protocol::{Order, Setup, Word};
use crate::bench::clock::processor_nanos;
use crate::failure::{Failure, say};
use crate::process;

pub(crate) fn run() -> Result<(), Failure> {
    // Before there is another thread: all are to be where the node is.
    let Some(first) = std::io::stdin().lines().next() else {
        return Ok(());
    };
    let Order::Begin(setup) = serde_json::from_str(&first?)? else {
        return Err(Failure::Error("a node begins with its setup".to_owned()));
    };
    pin(&setup.node.processors)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(setup.node.workers)
        .enable_all()
        .build()?;
    runtime.block_on(runtime.spawn(serve(*setup, process::orders())))?
}

/// This thread, and those that it starts from now on.
fn pin(processors: &[u32]) -> Result<(), Failure> {
    if processors.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for processor in processors {
        set.set(*processor as usize);
    }
    sched_setaffinity(None, &set).map_err(|error| {
        Failure::of(
            &format!("it cannot be kept on processors {processors:?}"),
            &error,
        )
    })
}

/// To the lab.
fn tell(word: &Word) -> Result<(), Failure> {
    say!("{}", serde_json::to_string(word)?)
}

async fn serve(setup: Setup, mut orders: mpsc::UnboundedReceiver<String>) -> Result<(), Failure> {
    let node = match begin(&setup).await {
        Ok(node) => node,
        Err(Failure::Error(text)) => return tell(&Word::Failed(text)),
        Err(other) => return Err(other),
    };
    let sampler = Sampler::new(node.clone());
    let sampling = tokio::spawn(sampler.clone().run(setup.sample));
    while let Some(line) = orders.recv().await {
        match serde_json::from_str(&line)? {
            Order::Begin(_) => tell(&Word::Failed("it has begun".to_owned()))?,
            Order::Drive(order) => {
                let (node, sampler) = (node.clone(), sampler.clone());
                tokio::spawn(async move {
                    let word = match drive(&node, *order, &sampler).await {
                        Ok(driven) => Word::Driven(Box::new(driven)),
                        Err(Failure::Error(text)) => Word::Failed(text),
                        Err(_) => Word::Failed("interrupted".to_owned()),
                    };
                    // Without a lab there is nobody to tell.
                    let _ = tell(&word);
                });
            }
            Order::Finish => {
                sampling.abort();
                tell(&Word::Finished { cpu: cpu_seconds() })?;
            }
        }
    }
    Ok(())
}

async fn begin(setup: &Setup) -> Result<Node, Failure> {
    let mut session = SessionConfig::default()
        .policy(setup.node.policy.parse()?)
        .trace(true);
    if let Some(arms) = &setup.node.rotation {
        let arms = arms.iter().map(|arm| arm.parse());
        session = session.rotation(arms.collect::<Result<_, _>>()?);
    }
    let mut config = NodeConfig::default().session(session);
    let guard = CpuGuardConfig::default().setpoint(CpuLoad::new(setup.node.setpoint));
    config = config.guard(setup.node.guard.then_some(guard));
    if setup.node.event_log {
        config = config.event_log(crate::events::shared()?);
    }
    let node = Node::new(config)?;
    let address: Address = setup.listen.parse()?;
    let listener = node.listen(&address).await?;
    let address = listener.local_address()?.to_string();
    tokio::spawn(echo::serve(listener, setup.node.work));
    node.budget_settled().await;
    tell(&Word::Ready { address })?;
    Ok(node)
}

/// Processor time of this process, seconds.
fn cpu_seconds() -> f64 {
    processor_nanos() as f64 / 1e9
}
