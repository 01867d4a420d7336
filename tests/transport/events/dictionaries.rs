//! Events of dictionaries: made, offered, adopted, retired, refused; and of what they leave to the next connection.

use tautline::codecs::CodecId;
use tautline::dictionary::{
    Acceptance, AcceptancePolicy, Dictionary, TrainConfig, TrainerConfig, train,
};
use tautline::generate::{Content, Generator};
use tautline::session::{ContextChange, DictionaryChange, DictionaryStats};
use tautline::transport::Listener;
use tautline::wire::{Control, DictionaryFrame, DictionaryNews, Features, Hello, PeerCodec};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::encoded::{contexts, jobs};
use super::*;
use crate::support::{hello, listen, quick_dictionaries};

/// Messages on a new connection until `enough`; what its ends have done with dictionaries then.
async fn orders(
    client: &Node,
    listener: &Listener,
    mut enough: impl FnMut(&DictionaryStats) -> bool,
) -> [DictionaryStats; 2] {
    let address = listener.local_address().expect("an address");
    let (from, to) =
        within(async { tokio::join!(client.connect(&address), listener.accept()) }).await;
    let (from, to) = (from.expect("a connection"), to.expect("a connection"));
    let left = open(&from, "orders").await;
    let right = accept(&to).await;
    within(async {
        for message in Generator::new(Content::Telecom, 1) {
            left.send(message.clone()).await.expect("room");
            assert_eq!(next(&right).await, Some(message));
            if enough(&stats(&from).await.dictionaries) {
                break;
            }
        }
    })
    .await;
    let made = [
        stats(&from).await.dictionaries,
        stats(&to).await.dictionaries,
    ];
    let (closed, _) = within(async { tokio::join!(from.close(), to.close()) }).await;
    closed.expect("a clean close");
    made
}

#[tokio::test]
async fn both_ends_record_what_becomes_of_a_dictionary() {
    let log = log();
    let mut reader = log.reader();
    switch(&log, ALL);
    let node = || recording(&log, quick_dictionaries(Acceptance::Always));
    let listener = listen(&node()).await;
    let [made, taken] = orders(&node(), &listener, |made| made.blocks_sent > 0).await;
    let rows = rows(&mut reader);
    let mut seen = Vec::new();
    let mut identities = Vec::new();
    for row in &rows {
        if let Some(Event::Dictionary {
            change,
            received,
            len,
            prefix,
            number,
            ..
        }) = Event::of(row)
        {
            seen.push((change, received));
            // Those that are made have no number yet.
            let is_numbered = change != DictionaryChange::Trained;
            assert_eq!(number, u64::from(is_numbered));
            identities.push((len, prefix));
        }
    }
    identities.dedup();
    assert_eq!(identities.len(), 1, "all of it is about one");
    assert!(identities[0].0 > 0 && identities[0].1 > 0);
    let expected = [
        (DictionaryChange::Trained, false, made.trained),
        (DictionaryChange::Offered, false, made.offered),
        (DictionaryChange::Offered, true, made.offered),
        (DictionaryChange::Adopted, false, made.accepted),
        (DictionaryChange::Adopted, true, taken.received),
    ];
    for (change, received, count) in expected {
        let of = seen.iter().filter(|it| **it == (change, received));
        assert_eq!(of.count() as u64, count, "{change:?}, {received}");
    }
    assert_eq!(seen.len(), 5, "and nothing else: {seen:?}");
    // It was made, packed and unpacked.
    let jobs = jobs(&rows, events::WORKER_DICTIONARY).len() as u64;
    assert!(jobs >= made.trained + made.offered + taken.received);
}

/// What became of a dictionary, whether of the peer's, its number, its length and name.
type Change = (DictionaryChange, bool, u64, (u64, u64));

fn dictionaries(rows: &[Row]) -> Vec<Change> {
    let events = rows.iter().filter_map(Event::of);
    let dictionaries = events.filter_map(|event| match event {
        Event::Dictionary {
            change,
            received,
            len,
            prefix,
            number,
            ..
        } => Some((change, received, number, (len, prefix))),
        _ => None,
    });
    dictionaries.collect()
}

/// What a peer made by hand says that sends dictionaries and takes them.
fn taking_dictionaries() -> Hello {
    let (mut hello, _) = Hello::parse(&hello()).expect("well-formed").expect("whole");
    hello.codecs = vec![PeerCodec {
        codec: CodecId::ZSTD,
        window_log: 20,
    }];
    hello.offered = Features(Features::CHECKSUMS.0 | Features::DICTIONARIES.0);
    hello.window = 1 << 20;
    hello.dictionaries.max_len = 112 << 10;
    hello.dictionaries.max_held = 4;
    hello
}

/// Messages that change until their second dictionary is `settled`, on a connection between nodes of these settings. What was recorded
/// of dictionaries, and what the sender's statistics say.
async fn changing_messages(
    (session, trainer): (SessionConfig, TrainerConfig),
    settled: impl Fn(&DictionaryStats) -> bool,
) -> (Vec<Change>, DictionaryStats) {
    let log = log();
    let mut reader = log.reader();
    switch(&log, ALL);
    let session = session.train_dictionaries(Some(trainer));
    let node = || recording(&log, session.clone());
    let (client, server) = join(&node(), &node(), &tcp()).await;
    let left = open(&client, "s").await;
    let right = accept(&server).await;
    let is_first = |made: &DictionaryStats| made.accepted == 1;
    let settled: [&dyn Fn(&DictionaryStats) -> bool; 2] = [&is_first, &settled];
    within(async {
        for (content, settled) in [Content::Telecom, Content::Logs].into_iter().zip(settled) {
            for message in Generator::new(content, 1) {
                left.send(message.clone()).await.expect("room");
                assert_eq!(next(&right).await, Some(message));
                if settled(&stats(&client).await.dictionaries) {
                    break;
                }
            }
        }
    })
    .await;
    // What is said of dictionaries goes before the end.
    let made = stats(&client).await.dictionaries;
    let (closed, _) = within(async { tokio::join!(client.close(), server.close()) }).await;
    closed.expect("a clean close");
    (dictionaries(&rows(&mut reader)), made)
}

fn one_kind_after_the_other() -> TrainerConfig {
    let mut trainer = TrainerConfig::default();
    (trainer.min_messages, trainer.interval) = (200, Duration::ZERO);
    trainer
}

/// One lives at a time: the second, made once messages have changed, is the first one's end.
#[tokio::test]
async fn both_ends_record_that_a_dictionary_is_retired() {
    let mut trainer = one_kind_after_the_other();
    trainer.max_live = 1;
    let settings = (quick_dictionaries(Acceptance::Always), trainer);
    let (seen, made) = changing_messages(settings, |made| made.retired == 1).await;
    let of = |what, received| -> Vec<_> {
        let of = seen.iter().filter(|it| (it.0, it.1) == (what, received));
        of.map(|it| (it.2, it.3)).collect()
    };
    assert_eq!(made.retired, 1);
    let first = of(DictionaryChange::Adopted, false)[0];
    assert!(first.0 == 1 && first.1.0 > 0, "{seen:?}");
    for received in [false, true] {
        assert_eq!(
            of(DictionaryChange::Adopted, received)[0],
            first,
            "{seen:?}"
        );
        assert_eq!(of(DictionaryChange::Retired, received), [first], "{seen:?}");
    }
}

/// The peer holds one, which is in use still: the second is not even offered.
#[tokio::test]
async fn a_dictionary_that_the_peer_has_no_room_for_is_recorded_as_refused() {
    let mut one = AcceptancePolicy::new(Acceptance::Always);
    one.max_held = 1;
    let session = quick_dictionaries(Acceptance::Always).accept_dictionaries(one);
    let settings = (session, one_kind_after_the_other());
    let (seen, _) = changing_messages(settings, |made| made.refused == 1).await;
    let own: Vec<_> = seen.iter().filter(|it| !it.1).collect();
    let [
        (DictionaryChange::Trained, _, 0, _),
        (DictionaryChange::Offered, _, 1, _),
        (DictionaryChange::Adopted, _, 1, first),
        (DictionaryChange::Trained, _, 0, trained),
        (DictionaryChange::Refused, _, 0, refused),
    ] = own[..]
    else {
        panic!("{seen:?}");
    };
    assert!(trained == refused && trained != first, "{seen:?}");
    let theirs = seen
        .iter()
        .filter(|it| it.1 && it.0 == DictionaryChange::Refused);
    assert_eq!(theirs.count(), 0, "it has heard nothing of it: {seen:?}");
}

/// A peer whose dictionary has the name of its content, and says nothing that a codec could use.
#[tokio::test]
async fn a_dictionary_of_the_peer_that_is_of_no_use_is_recorded_as_refused() {
    let log = log();
    let mut reader = log.reader();
    switch(&log, ALL);
    let listener = listen(&recording(&log, quick_dictionaries(Acceptance::Always))).await;
    let address = listener.local_address().expect("an address").to_string();
    let mut socket = TcpStream::connect(address).await.expect("a socket");
    let messages: Vec<_> = Generator::new(Content::Telecom, 1).take(1000).collect();
    let trained = train(&messages, &TrainConfig::default()).expect("much in common");
    let mut content = trained.content().to_vec();
    // Where zstd's tables are.
    content[8..60].fill(0xFF);
    let broken = Dictionary::new(content).expect("a length between");
    let mut bytes = Vec::new();
    taking_dictionaries().put(&mut bytes);
    let offer = DictionaryNews::Offer {
        hash: *broken.id().as_bytes(),
        len: broken.len() as u64,
        codec: CodecId::IDENTITY,
        wire_len: broken.len() as u64,
    };
    let pieces = broken.content().chunks(4000);
    let pieces = pieces.map(|piece| DictionaryNews::Piece(piece.to_vec()));
    for what in core::iter::once(offer).chain(pieces) {
        Control::Dictionary(DictionaryFrame { number: 1, what }).put(&mut bytes);
    }
    socket.write_all(&bytes).await.expect("room");
    let server = within(listener.accept()).await.expect("a connection");
    within(async {
        while stats(&server).await.dictionaries.rejected == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    let seen = dictionaries(&rows(&mut reader));
    let [
        (DictionaryChange::Offered, true, 1, (len, prefix)),
        (DictionaryChange::Refused, true, 1, (0, 0)),
    ] = seen[..]
    else {
        panic!("{seen:?}");
    };
    let name = broken
        .id()
        .as_bytes()
        .first_chunk()
        .map(|it| u64::from_be_bytes(*it));
    assert_eq!((len, Some(prefix)), (broken.len() as u64, name));
}

#[tokio::test]
async fn both_ends_record_that_a_history_begins_with_the_last_connections() {
    let log = log();
    let mut reader = log.reader();
    let session =
        quick_dictionaries(Acceptance::Always).policy("zstd:3+history".parse().expect("an arm"));
    let node = || recording(&log, session.clone());
    let (client, listener) = (node(), listen(&node()).await);
    let mut sent = 0;
    let enough = |_: &DictionaryStats| {
        sent += 1;
        sent == 20
    };
    orders(&client, &listener, enough).await;
    switch(&log, ALL);
    let [made, _] = orders(&client, &listener, |_| true).await;
    assert_eq!(made.recalled, 1);
    let rows = rows(&mut reader);
    let changes = [false, true].map(|of_received| {
        let slots = contexts(&rows, of_received);
        slots.into_values().flatten().collect::<Vec<_>>()
    });
    assert_eq!(changes[0], changes[1]);
    let changes: Vec<_> = changes[0].iter().map(|change| change.0).collect();
    assert!(
        matches!(changes[..], [ContextChange::Begun, ContextChange::Primed { bytes }] if bytes > 0),
        "{changes:?}"
    );
}
