//! `tautline echo`: sends every message back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use tautline::transport::{Address, Connection, Node, NodeConfig, Stream};

use crate::events::EventLogArguments;
use crate::failure::{Failure, say, tell};
use crate::text;
use crate::tls::{Changes, TlsArguments};

/// A listener that cannot accept (too many open files, say) tries again after so long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(crate) struct EchoArguments {
    /// HOST:PORT (port 0 for any), tls:HOST:PORT, quic:HOST:PORT or unix:PATH. With TLS, SIGHUP has the certificates read again.
    #[arg(long, default_value = "127.0.0.1:7000")]
    listen: Address,
    /// Do not limit codec time by the processor load.
    #[arg(long)]
    no_guard: bool,
    #[command(flatten)]
    event_log: EventLogArguments,
    #[command(flatten)]
    tls: TlsArguments,
}

#[derive(Debug, Default)]
struct Totals {
    connections: AtomicU64,
    messages: AtomicU64,
    bytes: AtomicU64,
}

pub(crate) async fn run(arguments: EchoArguments) -> Result<(), Failure> {
    let mut config = NodeConfig::default();
    if arguments.no_guard {
        config = config.guard(None);
    }
    if let Some(log) = arguments.event_log.open()? {
        config = config.event_log(log);
    }
    let config = arguments.tls.listening(&arguments.listen, config)?;
    let mut changes = Changes::at(&arguments.listen)?;
    let node = Node::new(config)?;
    let listener = node.listen(&arguments.listen).await?;
    say!("listening on {}", listener.local_address()?)?;
    let totals = Arc::new(Totals::default());
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        tokio::select! {
            _ = &mut interrupted => break,
            () = changes.next() => arguments.tls.reload(&node)?,
            accepted = listener.accept() => match accepted {
                Ok(connection) => {
                    totals.connections.fetch_add(1, Ordering::Relaxed);
                    tokio::spawn(serve(connection, Arc::clone(&totals)));
                }
                Err(error) => {
                    tell!("tautline: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    say!(
        "{} connections, {} messages, {}",
        totals.connections.load(Ordering::Relaxed),
        totals.messages.load(Ordering::Relaxed),
        text::bytes(totals.bytes.load(Ordering::Relaxed))
    )
}

async fn serve(connection: Connection, totals: Arc<Totals>) {
    // Who is not let in is told apart from whose connection was lost.
    if let Err(error) = connection.established().await {
        let _ = say!("{error}");
        return;
    }
    let mut streams = tokio::task::JoinSet::new();
    let (mut messages, mut bytes) = (0, 0);
    let mut count = |(stream_messages, stream_bytes): (u64, u64)| {
        messages += stream_messages;
        bytes += stream_bytes;
    };
    let result = loop {
        match connection.accept().await {
            Ok(Some(stream)) => streams.spawn(echo(stream, Arc::clone(&totals))),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        // Those that are over need not be kept.
        while let Some(counted) = streams.try_join_next() {
            count(counted.unwrap_or_default());
        }
    };
    while let Some(counted) = streams.join_next().await {
        count(counted.unwrap_or_default());
    }
    let peer = connection.peer();
    // Who no longer reads this line still gets echoes.
    let _ = match result {
        Ok(()) => say!("{peer}: {messages} messages, {} echoed", text::bytes(bytes)),
        Err(error) => say!(
            "{peer}: {messages} messages, {} echoed, then: {error}",
            text::bytes(bytes)
        ),
    };
}

/// Echoes one stream; how many messages and bytes.
async fn echo(stream: Stream, totals: Arc<Totals>) -> (u64, u64) {
    let (mut messages, mut bytes) = (0, 0);
    // A failed session is reported once, by its connection.
    while let Ok(Some(message)) = stream.recv().await {
        let len = message.payload.len() as u64;
        if stream
            .reply(&message, message.payload.clone())
            .await
            .is_err()
        {
            break;
        }
        messages += 1;
        bytes += len;
        totals.messages.fetch_add(1, Ordering::Relaxed);
        totals.bytes.fetch_add(len, Ordering::Relaxed);
    }
    (messages, bytes)
}
