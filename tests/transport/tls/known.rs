//! What a node keeps of peers with TLS, and from whom it takes dictionaries.

use tautline::dictionary::Acceptance;
use tautline::generate::{Content, Generator};
use tautline::session::DictionaryStats;
use tautline::transport::{ClientAuth, Connection, NodeConfig, ServerTls};

use super::super::support::{accept, listen, next, open, quick_dictionaries as session, within};
use super::authority::{Authority, client_node, listen_tls, pair, server_node};

/// How long the peer may take to accept a dictionary: in messages, all of them sent. Arbitrary, several times what
/// is needed.
const MOST: usize = 20_000;

/// Sends messages until a dictionary is in use, or `most` of them; what the sender has done with dictionaries then.
async fn send(from: &Connection, to: &Connection, seed: u64, most: usize) -> DictionaryStats {
    let stream = open(from, "orders").await;
    let received = accept(to).await;
    let mut made = DictionaryStats::default();
    for message in Generator::new(Content::Telecom, seed).take(most) {
        within(stream.send(message.clone())).await.expect("room");
        assert_eq!(next(&received).await, Some(message));
        made = within(from.stats()).await.expect("open").dictionaries;
        if made.blocks_sent > 0 {
            break;
        }
    }
    made
}

async fn close(a: &Connection, b: &Connection) {
    let (closed, _) = within(async { tokio::join!(a.close(), b.close()) }).await;
    closed.expect("a clean close");
}

#[tokio::test]
async fn dictionaries_are_taken_from_who_has_proved_who_it_is() {
    let authority = Authority::new();
    let session = session(Acceptance::Authenticated);
    let tls = authority
        .server()
        .clients(ClientAuth::Optional(authority.roots()));
    let listener = listen_tls(&server_node(session.clone(), tls)).await;
    let known = authority.client().identity(authority.identity("known"));
    for (tls, is_known) in [(known, true), (authority.client(), false)] {
        let client = client_node(session.clone(), tls);
        let (left, right) = pair(&client, &listener).await;
        // Of the server, all know who it is.
        let made = send(&right, &left, 1, MOST).await;
        assert!(made.blocks_sent > 0, "{made:?}");
        let most = if is_known { MOST } else { 2000 };
        let made = send(&left, &right, 2, most).await;
        assert_eq!(made.blocks_sent > 0, is_known, "{made:?}");
        close(&left, &right).await;
    }
}

#[tokio::test]
async fn a_place_with_tls_is_not_the_same_place_without() {
    let authority = Authority::new();
    let session = session(Acceptance::Always);
    let server = server_node(session.clone(), authority.server());
    let client = client_node(session, authority.client());
    let (with, without) = (listen_tls(&server).await, listen(&server).await);
    // The server sends: to it, the clients have nothing but their IP address.
    let (left, right) = pair(&client, &with).await;
    let made = send(&right, &left, 1, MOST).await;
    assert!(made.blocks_sent > 0 && made.warm == 0, "{made:?}");
    close(&left, &right).await;

    let (left, right) = pair(&client, &without).await;
    assert_eq!(send(&right, &left, 2, 1).await.warm, 0);
    close(&left, &right).await;

    let (left, right) = pair(&client, &with).await;
    assert_eq!(send(&right, &left, 3, 1).await.warm, 1);
    close(&left, &right).await;
}

#[tokio::test]
async fn who_has_proved_who_it_is_is_known_wherever_it_is_met() {
    let authority = Authority::new();
    let session = session(Acceptance::Authenticated);
    let identities = [0, 1].map(|_| authority.identity("localhost"));
    let server = |identity| {
        let config = NodeConfig::default().session(session.clone()).guard(None);
        let tls = ServerTls::new(identity);
        tautline::transport::Node::new(config.server_tls(tls)).expect("a node")
    };
    let [first, second] = identities.map(server);
    let client = client_node(session.clone(), authority.client());
    let mut warm = Vec::new();
    let listener = listen_tls(&first).await;
    let (left, right) = pair(&client, &listener).await;
    let made = send(&right, &left, 1, MOST).await;
    assert!(made.blocks_sent > 0, "{made:?}");
    close(&left, &right).await;
    // The same server at another port, and another one.
    for node in [&first, &second] {
        let listener = listen_tls(node).await;
        let (left, right) = pair(&client, &listener).await;
        within(right.established()).await.expect("a handshake");
        let received = send(&right, &left, 2, 1).await;
        warm.push(received.warm);
        close(&left, &right).await;
    }
    assert_eq!(warm, [1, 0]);
}
