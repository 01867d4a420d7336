//! Sessions over TLS that go on over another connection, which must be the same peer's.

use std::net::SocketAddr;
use std::time::Duration;

use tautline::relay::{LinkConfig, Relay, RelayFault};
use tautline::transport::{Address, ClientTls, Node, NodeConfig, ResumeConfig, ServerTls};

use super::super::support::{accept, next, numbered, open, within};
use super::authority::{Authority, listen_tls};

fn config() -> NodeConfig {
    let resume = ResumeConfig::default()
        .within(Duration::from_secs(50))
        .wait(Duration::from_millis(1), Duration::from_millis(20));
    NodeConfig::default().guard(None).resume(Some(resume))
}

fn client(tls: ClientTls) -> Node {
    Node::new(config().client_tls(tls)).expect("a node")
}

fn server(tls: ServerTls) -> Node {
    Node::new(config().server_tls(tls)).expect("a node")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_goes_on_over_connections_of_the_same_peer() {
    let authority = Authority::new();
    let right = server(authority.mutual());
    let listener = listen_tls(&right).await;
    let target = listener.local_address().expect("an address").to_string();
    let target: SocketAddr = target
        .strip_prefix("tls:")
        .and_then(|host| host.parse().ok())
        .expect("of TCP");
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let relay = Relay::start(any, target, LinkConfig::default()).expect("a relay");
    let tcp = relay.local_addr().tcp().expect("a TCP address");
    let through: Address = format!("tls:{tcp}").parse().expect("an address");
    let tls = authority.client().identity(authority.identity("somebody"));
    let left = client(tls);
    let (client, server) =
        within(async { tokio::join!(left.connect(&through), listener.accept()) }).await;
    let (client, server) = (client.expect("a connection"), server.expect("a connection"));
    let sending = open(&client, "s").await;
    let receiving = accept(&server).await;
    let known = server.peer_identity();
    assert!(known.is_some());
    for number in 0..40_u32 {
        within(sending.send(numbered(number, 5000)))
            .await
            .expect("room");
        if number % 4 == 0 {
            relay.inject(RelayFault::Cut);
        }
        let received = next(&receiving).await;
        assert_eq!(received, Some(numbered(number, 5000)));
    }
    assert!(relay.stats().connections > 5);
    assert_eq!(server.peer_identity(), known);
    within(client.close()).await.expect("a clean close");
    within(server.closed()).await.expect("a clean close");
}
