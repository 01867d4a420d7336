//! Asks an echo server and tells what the messages cost.
//! `cargo run --release --example echo_client -- 127.0.0.1:7000`

use std::time::Duration;

use bytes::Bytes;
use tautline::session::StreamConfig;
use tautline::transport::{Address, Node, NodeConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:7000".into());
    let address: Address = address.parse()?;
    let node = Node::new(NodeConfig::default())?;
    let connection = node.connect(&address).await?;
    let stream = connection
        .open("greetings", StreamConfig::default())
        .await?;

    for number in 0..20_000 {
        let message =
            Bytes::from(format!("{{\"greeting\": \"hello\", \"number\": {number}}}").repeat(20));
        let echo = stream
            .request(message.clone(), Duration::from_secs(5))
            .await?;
        assert_eq!(echo, message, "an echo is what was sent");
    }

    let stats = stream.stats().await.ok_or("the stream is over")?;
    println!(
        "{} messages, {} bytes",
        stats.messages_sent, stats.payload_sent
    );
    for arm in &stats.arms {
        println!(
            "  {:<10} {:>6} messages, {:>8} bytes on the wire",
            arm.arm, arm.messages, arm.wire_bytes
        );
    }
    if let Some(session) = connection.stats().await {
        println!(
            "round trip {:?}, link {:?}",
            session.rtt.unwrap_or_default(),
            session.link_rate.map(|rate| rate.to_string())
        );
    }
    connection.close().await?;
    Ok(())
}
