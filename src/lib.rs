//! Async message transport that decides, per stream and per message, whether and how to compress so
//! that each message arrives soonest, and that never takes processor time the node's own services need.
//!
//! ```
//! # #[cfg(feature = "transport")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use bytes::Bytes;
//! use tautline::session::StreamConfig;
//! use tautline::transport::{Node, NodeConfig};
//!
//! let node = Node::new(NodeConfig::default())?;
//! let listener = node.listen(&"127.0.0.1:0".parse()?).await?;
//! let address = listener.local_address()?;
//! let (server, client) = tokio::join!(listener.accept(), node.connect(&address));
//! let (server, client) = (server?, client?);
//!
//! let out = client.open("orders", StreamConfig::default()).await?;
//! out.send(Bytes::from_static(b"one of everything")).await?;
//! let orders = server.accept().await?.ok_or("the client left")?;
//! assert_eq!(orders.recv().await?.ok_or("no order")?.payload, "one of everything");
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "transport"))]
//! # fn main() {}
//! ```
//!
//! # Concepts
//!
//! * A **message** is the application's; it travels on a **stream**, an ordered sequence of messages
//!   in each direction. Messages are encoded together in **blocks**: one that waits alone leaves at
//!   once as a block of one, and under backlog everything that waits (up to 64 KiB) leaves as one
//!   block. That is both the smallest and the fastest form.
//! * An **arm** is a codec at a level. A **policy** chooses the arm of each block, late: when the link
//!   can take it. See [`control`].
//! * A **session** is one end of a connection as a state machine without clock or socket; see
//!   [`session`]. [`transport`] drives it over sockets, [`sim`] in
//!   virtual time.
//! * The **guard** measures the processor load and limits the time that codecs may take; with nothing
//!   left, messages go as they are. See [`control::CpuGuard`].
//! * A **dictionary** holds what messages of a class have in common, and an **envelope** one message
//!   that stands by itself, for carriers without a connection. See [`dictionary`] and [`envelope`].
//!
//! # The wire
//!
//! ```text
//! hello  ( block | control frame )*
//!
//! block          0 slot:4 length:11        check:2   body         a lone small message: 5 bytes in all
//!                110 length:5              check:2   body         up to 32 bytes, same slot: 4 bytes
//!                10 slot:4 flags:2 lengths check:4   body         more than 2 KiB
//! body, decoded  ( head:1 [stream] [length] payload )*
//! ```
//!
//! `docs/wire.md` in the repository specifies every byte.
//!
//! # Features
//!
//! | feature | what it adds | default |
//! |---|---|---|
//! | `transport` | sockets, on tokio | yes |
//! | `tls` | TLS over TCP, with rustls | no |
//! | `quic` | QUIC, with quinn: streams in groups of their own are streams of QUIC | no |
//! | `lz4`, `snappy`, `zstd` | codecs | yes |
//! | `deflate`, `bzip2`, `xz` | codecs | no |
//! | `dictionary-cache` | a directory that keeps dictionaries | yes |
//! | `eventlog` | cyclic in-memory logs of events | no |
//! | `pmu` | a monitor of hardware and software counters | no |
//! | `loadgen` | leeches, the replication of a recorded system by them, workloads of messages | no |
//! | `corpus` | readers of message containers and captures | no |
//! | `generate` | seeded generators of messages | no |
//! | `relay` | a rate-limited relay between sockets | no |
//! | `sim` | the simulator | no |
//! | `full` | all of them | no |
//!
//! # Limits and trade-offs
//!
//! * History from block to block takes memory at both ends, 8 MiB each way for a connection and 256 MiB
//!   for a node by default; without it, streams of small messages that never have a backlog compress as badly
//!   as any message-by-message scheme.
//! * The default policy, `cost`, goes by typical figures until blocks have shown better, and spends up
//!   to a tenth of a processor on learning. Those of the thesis (Jägemar 2018, chapter 7) are there too:
//!   `majority` and round robin spend a share of the messages on trying the other arms.
//! * A session ends with its connection unless it may be resumed (`transport::NodeConfig::resume`).
//! * Payloads of received messages share memory with the block that they came in (at most 256 KiB).

pub mod codecs;
pub mod control;
#[cfg(feature = "corpus")]
pub mod corpus;
pub mod dictionary;
pub mod envelope;
#[cfg(feature = "eventlog")]
pub mod eventlog;
mod few;
#[cfg(feature = "generate")]
pub mod generate;
#[cfg(feature = "loadgen")]
pub mod loadgen;
#[cfg(feature = "pmu")]
pub mod pmu;
#[cfg(feature = "relay")]
pub mod relay;
#[cfg(any(feature = "pmu", feature = "transport"))]
mod reread;
pub mod session;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(any(feature = "pmu", feature = "transport"))]
mod thread;
#[cfg(feature = "transport")]
pub mod transport;
pub mod units;
pub mod wire;

#[cfg(all(doctest, feature = "transport"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
