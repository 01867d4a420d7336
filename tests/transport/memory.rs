//! What a node remembers of its peers from one connection to the next.

use tautline::session::SessionConfig;
use tautline::transport::{Address, Connection, Listener, Node, Stream};

use super::support::{accept, listen, next, node, open, within};

/// What one end knows.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    of_peer: bool,
    of_content: bool,
}

const NOTHING: Known = Known {
    of_peer: false,
    of_content: false,
};
const CONTENT: Known = Known {
    of_peer: false,
    of_content: true,
};
const ALL: Known = Known {
    of_peer: true,
    of_content: true,
};

/// What is known of the link, and of blocks such as a new stream's first ones are taken to be.
async fn known(connection: &Connection, stream: &Stream) -> Known {
    let stats = within(connection.stats()).await.expect("open");
    let reports = within(stream.stats()).await.expect("open").reports;
    Known {
        of_peer: stats.link_rate.is_some(),
        of_content: reports.iter().any(|report| report.samples > 0),
    }
}

/// Sends short texts on a new stream until all is known; what was known before.
async fn learn(from: &Connection, to: &Connection) -> Known {
    let stream = open(from, "s").await;
    let received = accept(to).await;
    let before = known(from, &stream).await;
    within(async {
        for number in 0_u32.. {
            let text = format!("attach request {number} accepted; location {number} updated");
            stream.send(text.into()).await.expect("room");
            next(&received).await.expect("a message");
            if number >= 20 && known(from, &stream).await == ALL {
                break;
            }
        }
    })
    .await;
    before
}

/// A connection from one node to another: what the listening one knows of who comes, and what the
/// other knows of it.
async fn meet(node: &Node, listener: &Listener) -> (Known, Known) {
    let address = listener.local_address().expect("an address");
    let (client, server) =
        within(async { tokio::join!(node.connect(&address), listener.accept()) }).await;
    let (client, server) = (client.expect("a connection"), server.expect("a connection"));
    let known = (learn(&server, &client).await, learn(&client, &server).await);
    let (closed, _) = within(async { tokio::join!(client.close(), server.close()) }).await;
    closed.expect("a clean close");
    known
}

#[tokio::test]
async fn a_peer_with_an_address_is_known_again() {
    let (left, right) = (
        node(SessionConfig::default()),
        node(SessionConfig::default()),
    );
    let listener = listen(&right).await;
    assert_eq!(meet(&left, &listener).await, (NOTHING, NOTHING));
    assert_eq!(meet(&left, &listener).await, (ALL, ALL));
}

#[cfg(unix)]
#[tokio::test]
async fn peers_without_a_name_share_what_is_known_of_the_content_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let address = Address::Unix(dir.path().join("socket"));
    let (left, right) = (
        node(SessionConfig::default()),
        node(SessionConfig::default()),
    );
    let listener = right.listen(&address).await.expect("a listener");
    assert_eq!(meet(&left, &listener).await, (NOTHING, NOTHING));
    // Who listens is the same peer again; who connects may be another.
    assert_eq!(meet(&left, &listener).await, (CONTENT, ALL));
    // Nor does a node that connects to itself take one for the other.
    assert_eq!(meet(&right, &listener).await, (CONTENT, NOTHING));
}
