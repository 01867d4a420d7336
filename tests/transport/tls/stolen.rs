//! Who presents the name of another's session: clients made by hand, since ours tell nobody that name.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use rcgen::KeyPair;
use tautline::control::PolicyConfig;
use tautline::session::{CodecWorker, Event, Role, Session, SessionConfig, StreamConfig};
use tautline::transport::rustls::crypto::ring;
use tautline::transport::rustls::pki_types::pem::PemObject as _;
use tautline::transport::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use tautline::transport::rustls::{ClientConfig, RootCertStore};
use tautline::transport::{Connection, Listener, Node, NodeConfig, ResumeConfig, Stream};
use tautline::units::Time;
use tautline::wire::{Features, Hello, RecordKind, Resume, StreamId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::super::support::{accept, hello, next, numbered, within};
use super::authority::{Authority, listen_tls};

/// What a session's clock moves on while nothing comes.
const TICK: Duration = Duration::from_millis(20);

type Raw = TlsStream<TcpStream>;

/// A connection with a certificate for this key.
async fn connect(authority: &Authority, listener: &Listener, key: &KeyPair) -> Raw {
    let root = CertificateDer::from_pem_slice(authority.root_pem().as_bytes());
    let mut roots = RootCertStore::empty();
    roots
        .add(root.expect("a certificate"))
        .expect("a certificate");
    let chain = vec![authority.certify("a client", key)];
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key.into())
        .expect("a certificate of this key");
    config.alpn_protocols = vec![b"tautline/1".to_vec()];
    let host = listener.local_address().expect("an address").to_string();
    let socket = within(TcpStream::connect(host.replace("tls:", ""))).await;
    let name = ServerName::try_from("localhost").expect("a name");
    let shake = TlsConnector::from(Arc::new(config)).connect(name, socket.expect("a socket"));
    within(shake).await.expect("a handshake")
}

/// A client's session, and the connection that it has.
struct ByHand {
    raw: Raw,
    session: Session,
    worker: CodecWorker,
    input: BytesMut,
    now: Time,
}

impl ByHand {
    fn new(raw: Raw) -> Self {
        let config = SessionConfig::default()
            .policy(PolicyConfig::None)
            .retransmit_memory(1 << 20);
        let mut session = Session::new(Role::Connector, config, Time::ZERO).expect("settings");
        session.set_budget(Time::ZERO, None);
        Self {
            raw,
            session,
            worker: CodecWorker::new(20),
            input: BytesMut::new(),
            now: Time::ZERO,
        }
    }

    /// Does what is to be done until `done` of the session's events.
    async fn until(&mut self, mut done: impl FnMut(&Session, Option<&Event>) -> bool) {
        let all = async {
            loop {
                while let Some(job) = self.session.poll_encode(self.now) {
                    let block = self.worker.encode(job);
                    self.session.handle_encoded(self.now, block, TICK);
                }
                while self.session.output_len() > 0 {
                    let mut slices = [IoSlice::new(&[]); 8];
                    let filled = self.session.fill_slices(&mut slices);
                    let all = slices[..filled].iter();
                    let bytes: Vec<u8> = all.flat_map(|slice| slice.iter().copied()).collect();
                    self.raw.write_all(&bytes).await.expect("a write");
                    self.session.handle_written(self.now, bytes.len());
                }
                self.raw.flush().await.expect("a write");
                let mut is_done = done(&self.session, None);
                while let Some(event) = self.session.poll_event() {
                    is_done |= done(&self.session, Some(&event));
                }
                if is_done {
                    return;
                }
                let read = tokio::time::timeout(TICK, self.raw.read_buf(&mut self.input)).await;
                self.now = self.now + TICK;
                match read {
                    Ok(read) => assert!(read.expect("bytes") > 0, "an end"),
                    Err(_) => self.session.handle_timeout(self.now).expect("it goes on"),
                }
                loop {
                    let before = self.input.len();
                    let taken = self.session.handle_input(self.now, &mut self.input);
                    taken.expect("it goes on");
                    let mut worked = before != self.input.len();
                    while let Some(job) = self.session.poll_decode() {
                        let block = self.worker.decode(job);
                        let took = self.session.handle_decoded(block, Duration::ZERO);
                        took.expect("it goes on");
                        worked = true;
                    }
                    if !worked {
                        break;
                    }
                }
            }
        };
        within(all).await;
    }

    /// A message to the server and one back.
    async fn exchange(&mut self, id: StreamId, server: &Stream, number: u32) {
        let message = numbered(number, 3000);
        let sent = self.session.send(id, message.clone(), RecordKind::Message);
        sent.expect("room");
        self.until(|session, _| !session.has_queued()).await;
        assert_eq!(next(server).await, Some(message));
        let message = numbered(number + 1, 3000);
        within(server.send(message.clone())).await.expect("room");
        self.until(|session, _| session.messages_waiting(id).is_some())
            .await;
        let received = self.session.recv(id).expect("a message");
        assert_eq!(received.payload, message);
        self.session.release(id, received.charge());
    }
}

/// What the server says first to one who says that it has a connection of this session, and the connection behind it.
async fn claim(raw: &mut Raw, listener: &Listener, resume: Resume) -> (Hello, Connection) {
    let (mut said, _) = Hello::parse(&hello()).expect("well-formed").expect("whole");
    said.offered.0 |= Features::RESUME.0;
    said.resume = Some(resume);
    let mut bytes = Vec::new();
    said.put(&mut bytes);
    within(raw.write_all(&bytes)).await.expect("a write");
    within(raw.flush()).await.expect("a write");
    let mut heard = BytesMut::new();
    let hello = loop {
        let read = within(raw.read_buf(&mut heard)).await.expect("an answer");
        assert!(read > 0, "an answer");
        if let Some((hello, _)) = Hello::parse(&heard).expect("well-formed") {
            break hello;
        }
    };
    let accepted = within(listener.accept()).await;
    (hello, accepted.expect("a connection"))
}

#[tokio::test]
async fn a_stolen_name_does_not_open_another_ones_session() {
    let authority = Authority::new();
    let config = NodeConfig::default().guard(None);
    let config = config.resume(Some(ResumeConfig::default()));
    let server = Node::new(config.server_tls(authority.mutual())).expect("a node");
    let listener = listen_tls(&server).await;
    let keys = [0, 1].map(|_| KeyPair::generate().expect("a key"));

    let mut owner = ByHand::new(connect(&authority, &listener, &keys[0]).await);
    owner
        .until(|session, _| session.resume_token().is_some())
        .await;
    let token = owner.session.resume_token().expect("a name");
    let accepted = within(listener.accept()).await.expect("a connection");
    let id = owner.session.open("s", StreamConfig::default());
    let id = id.expect("a stream");
    let sent = owner.session.send(id, numbered(0, 10), RecordKind::Message);
    sent.expect("room");
    owner.until(|session, _| !session.has_queued()).await;
    let server = accept(&accepted).await;
    assert_eq!(next(&server).await, Some(numbered(0, 10)));
    owner.exchange(id, &server, 1).await;

    // The next connection of the session, a much later one, and all that it may have received.
    for (connection, received) in [(1, 0), (u64::MAX, 0), (1, 2)] {
        let mut thief = connect(&authority, &listener, &keys[1]).await;
        let resume = Resume {
            token,
            connection,
            received,
        };
        let (answer, other) = claim(&mut thief, &listener, resume).await;
        // It is one of the other peer's own, which begins anew.
        let granted = answer.resume.expect("a name for its own");
        assert_ne!(granted.token, token);
        assert_eq!((granted.connection, granted.received), (0, 0));
        assert!(other.peer_identity().is_some());
        assert_ne!(other.peer_identity(), accepted.peer_identity());
        owner.exchange(id, &server, 3).await;
        assert!(owner.session.is_connected());
        assert!(within(accepted.stats()).await.is_some(), "it is open");
        // Of what the owner and the server have said meanwhile, nothing comes to the thief.
        let mut heard = Vec::new();
        let _ = tokio::time::timeout(TICK, thief.read_to_end(&mut heard)).await;
        assert!(heard.len() < 1000, "{} bytes", heard.len());
    }

    // The name was good: who has it and the owner's key goes on.
    owner.raw = connect(&authority, &listener, &keys[0]).await;
    owner.input.clear();
    owner.session.reconnect(owner.now).expect("it may go on");
    owner
        .until(|_, event| matches!(event, Some(Event::Resumed)))
        .await;
    owner.exchange(id, &server, 5).await;
}
