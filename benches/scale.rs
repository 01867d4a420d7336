//! Whether it matters over how many streams, or connections, the same messages go: one way, policy `none`, over TCP on loopback,
//! client and server each on a thread of its own, or with `--multi` each on a runtime of two threads, whose tasks then contend for what a connection's streams
//! share. Every way has its turn in every round, and ratios are those within a round.
//!
//! Each stream has a task of its own at either end. Streams and connections are opened before the time begins, which ends once all have answered that
//! everything is there.
//!
//! `cargo bench --bench scale [-- --quick] [--multi]`

#![expect(
    clippy::disallowed_methods,
    reason = "a measurement reads the clock; the core that is measured does not"
)]

use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use bytes::Bytes;
use tautline::control::PolicyConfig;
use tautline::session::{SessionConfig, StreamConfig};
use tautline::transport::{Address, Connection, Node, NodeConfig, Stream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

type Error = Box<dyn std::error::Error + Send + Sync>;

const LEN: usize = 64;
/// The first one is what the others are compared with.
const WAYS: [Way; 7] = [
    Way::new(1, 1, 1),
    Way::new(1, 100, 1),
    Way::new(1, 10_000, 1),
    Way::new(1000, 1, 1),
    Way::new(1, 100, 100),
    Way::new(1, 10_000, 10_000),
    Way::new(1000, 1, 1000),
];
/// The message that asks whether all is there; shorter than the others.
const END: &[u8] = b"!";

#[derive(Clone, Copy)]
struct Way {
    connections: usize,
    /// Of each.
    streams: usize,
    /// How many of all streams carry messages; the others are open.
    busy: usize,
}

impl Way {
    const fn new(connections: usize, streams: usize, busy: usize) -> Self {
        Self {
            connections,
            streams,
            busy,
        }
    }
}

fn main() -> Result<(), Error> {
    let has = |flag: &str| std::env::args().any(|arg| arg == flag);
    // Cargo says `--bench` to measure; without it, this is only to show that it runs.
    let (rounds, messages) = if has("--test") || !has("--bench") {
        (1, 1000)
    } else if has("--quick") {
        (3, 400_000)
    } else {
        (9, 1_000_000)
    };
    let threads = if has("--multi") { 2 } else { 1 };
    let (send_address, address) = mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = thread::spawn(move || -> Result<(), Error> {
        runtime(threads)?.block_on(async move {
            send_address.send(serve().await?)?;
            let _ = stopped.await;
            Ok(())
        })
    });
    let address = address.recv()?;
    let ways: Vec<_> = if messages < 10_000 {
        vec![Way::new(1, 1, 1), Way::new(2, 2, 3)]
    } else {
        WAYS.to_vec()
    };
    runtime(threads)?.block_on(compare(&address, &ways, rounds, messages))?;
    drop(stop);
    server.join().map_err(|_| "the server has panicked")?
}

fn runtime(threads: usize) -> std::io::Result<Runtime> {
    let mut builder = if threads == 1 {
        Builder::new_current_thread()
    } else {
        Builder::new_multi_thread()
    };
    builder.worker_threads(threads).enable_all().build()
}

fn node() -> Result<Node, Error> {
    let session = SessionConfig::default().policy(PolicyConfig::None);
    Ok(Node::new(
        NodeConfig::default().session(session).guard(None),
    )?)
}

async fn serve() -> Result<Address, Error> {
    let listener = node()?.listen(&"127.0.0.1:0".parse()?).await?;
    let address = listener.local_address()?;
    tokio::spawn(async move {
        while let Ok(connection) = listener.accept().await {
            tokio::spawn(async move {
                while let Ok(Some(stream)) = connection.accept().await {
                    tokio::spawn(sink(stream));
                }
            });
        }
    });
    Ok(address)
}

async fn sink(stream: Stream) {
    while let Ok(Some(message)) = stream.recv().await {
        if message.payload == END && stream.send(message.payload).await.is_err() {
            break;
        }
    }
}

/// Messages a second in each round.
async fn compare(
    address: &Address,
    ways: &[Way],
    rounds: usize,
    messages: usize,
) -> Result<(), Error> {
    let node = node()?;
    let mut rates = vec![Vec::new(); ways.len()];
    for round in 0..rounds {
        for at in 0..ways.len() {
            let way = (at + round) % ways.len();
            rates[way].push(pass(&node, address, ways[way], messages).await?);
        }
    }
    println!(
        "| connections | streams on each | that carry | 1000 messages/s | ratio | of rounds |\n|--:|--:|--:|--:|--:|--:|"
    );
    for (way, of_way) in ways.iter().zip(&rates) {
        let mut ratios: Vec<_> = of_way.iter().zip(&rates[0]).map(|(a, b)| a / b).collect();
        ratios.sort_by(f64::total_cmp);
        let mut sorted = of_way.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = rounds / 2;
        println!(
            "| {} | {} | {} | {:.0} | {:.2} | {:.2} to {:.2} |",
            way.connections,
            way.streams,
            way.busy,
            sorted[middle] / 1000.0,
            ratios[middle],
            ratios[0],
            ratios[rounds - 1]
        );
    }
    Ok(())
}

async fn pass(node: &Node, address: &Address, way: Way, messages: usize) -> Result<f64, Error> {
    let Way {
        connections,
        streams,
        busy,
    } = way;
    let mut open: Vec<(Connection, Vec<Stream>)> = Vec::with_capacity(connections);
    for _ in 0..connections {
        let connection = node.connect(address).await?;
        let mut of_it = Vec::with_capacity(streams);
        for number in 0..streams {
            let name = number.to_string();
            of_it.push(connection.open(&name, StreamConfig::default()).await?);
        }
        open.push((connection, of_it));
    }
    let each = messages / busy;
    let message = Bytes::from(vec![b'x'; LEN]);
    let mut tasks = JoinSet::new();
    let mut held = Vec::with_capacity(connections);
    let begun = Instant::now();
    let mut idle = Vec::with_capacity(connections * streams - busy);
    for (connection, of_it) in open {
        held.push(connection);
        for stream in of_it {
            if tasks.len() == busy {
                idle.push(stream);
                continue;
            }
            let message = message.clone();
            tasks.spawn(async move {
                for _ in 0..each {
                    stream.send(message.clone()).await?;
                }
                stream.send(Bytes::from_static(END)).await?;
                stream.recv().await?.ok_or("it ended")?;
                Ok::<_, Error>(stream)
            });
        }
    }
    let mut done = Vec::with_capacity(busy);
    while let Some(stream) = tasks.join_next().await {
        done.push(stream??);
    }
    let seconds = begun.elapsed().as_secs_f64();
    drop((done, idle));
    for connection in held {
        connection.close().await?;
    }
    Ok((each * busy) as f64 / seconds)
}
