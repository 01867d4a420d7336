//! Sends every message back. `cargo run --release --example echo_server -- 127.0.0.1:7000`

use tautline::transport::{Address, Connection, Node, NodeConfig};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:7000".into());
    let address: Address = address.parse()?;
    let node = Node::new(NodeConfig::default())?;
    let listener = node.listen(&address).await?;
    println!("listening on {}", listener.local_address()?);
    loop {
        let connection = listener.accept().await?;
        tokio::spawn(async move {
            println!("{} connected", connection.peer());
            match serve(&connection).await {
                Ok(()) => println!("{} is done", connection.peer()),
                Err(error) => eprintln!("{}: {error}", connection.peer()),
            }
        });
    }
}

async fn serve(connection: &Connection) -> Result<(), Error> {
    while let Some(stream) = connection.accept().await? {
        tokio::spawn(async move {
            while let Ok(Some(message)) = stream.recv().await {
                if stream
                    .reply(&message, message.payload.clone())
                    .await
                    .is_err()
                {
                    break;
                }
            }
        });
    }
    Ok(())
}
