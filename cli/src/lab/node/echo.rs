//! The answering side.

use tautline::transport::{Connection, Listener, Stream};

use super::work::Work;
use crate::lab::scenario::WorkSpec;

/// Answers each message with itself, and does with it what the node has to do.
pub(super) async fn serve(listener: Listener, work: Option<WorkSpec>) {
    // A connection that failed is told by who drives it.
    while let Ok(connection) = listener.accept().await {
        tokio::spawn(connected(connection, work));
    }
}

async fn connected(connection: Connection, work: Option<WorkSpec>) {
    if connection.established().await.is_err() {
        return;
    }
    while let Ok(Some(stream)) = connection.accept().await {
        tokio::spawn(answer(stream, work));
    }
}

async fn answer(stream: Stream, work: Option<WorkSpec>) {
    let mut work = work.map(Work::new);
    while let Ok(Some(message)) = stream.recv().await {
        if let Some(work) = &mut work {
            work.run();
        }
        let payload = message.payload.clone();
        if stream.reply(&message, payload).await.is_err() {
            return;
        }
    }
}
