//! Messages from one session to another, whose sockets are a copy and whose time is made up.

use std::hint::black_box;

use bytes::Bytes;
use tautline::control::PolicyConfig;
use tautline::session::{MessageQueue, Outgoing, OutgoingQueue, SessionConfig};

use crate::pair::Pair;
use crate::pieces::{Named, Piece, over};

pub(crate) const PIECES: &[Named] = &[
    ("session/64 messages of 64 B", block),
    ("session/message, none", || message(PolicyConfig::None)),
    // Bytes that no codec makes smaller: beside the one above, what deciding costs a session.
    ("session/message, cost", || message(PolicyConfig::default())),
];

/// Two sessions, and what goes between them many messages at once.
struct Many {
    pair: Pair,
    waiting: OutgoingQueue,
    taken: MessageQueue,
}

impl Many {
    fn new(policy: PolicyConfig) -> Self {
        Self {
            pair: Pair::new(&SessionConfig::default().policy(policy)),
            waiting: OutgoingQueue::new(),
            taken: MessageQueue::new(),
        }
    }

    /// The same message so many times, handed over at once as a driver does it.
    fn send_all(&mut self, payload: &Bytes, times: usize) {
        let messages = std::iter::repeat_n(payload, times);
        self.waiting
            .extend(messages.map(|payload| Outgoing::new(payload.clone())));
        let Pair { ends, stream, .. } = &mut self.pair;
        let sent = ends[0].send_all(*stream, &mut self.waiting);
        assert_eq!(sent.expect("open"), times);
    }

    /// Takes all that has arrived; how many messages.
    fn take(&mut self) -> usize {
        let Pair { ends, stream, .. } = &mut self.pair;
        ends[1].recv_all(*stream, &mut self.taken);
        let messages = self.taken.len();
        let charge = self.taken.by_ref().map(|message| message.charge()).sum();
        ends[1].release(*stream, charge);
        messages
    }
}

/// One message for each time: 64 are sent and arrive together.
fn block() -> Piece {
    let mut many = Many::new(PolicyConfig::None);
    let payload = Bytes::from_static(&[0xaa; 64]);
    Box::new(move |times| {
        for _ in 0..times / 64 {
            many.send_all(&payload, 64);
            many.pair.exchange();
            assert_eq!(black_box(many.take()), 64);
        }
    })
}

/// A message of 256 B alone.
fn message(policy: PolicyConfig) -> Piece {
    let mut many = Many::new(policy);
    let mut rng = fastrand::Rng::with_seed(1);
    let payload: Bytes = std::iter::repeat_with(|| rng.u8(..)).take(256).collect();
    over(move || {
        many.pair.send(&payload);
        many.pair.exchange();
        assert_eq!(black_box(many.take()), 1);
    })
}
