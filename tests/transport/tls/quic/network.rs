//! A way for datagrams that can lose them and change its ports.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fastrand::Rng;
use tautline::transport::Address;
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What becomes of datagrams, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    Carries,
    /// Nothing is carried.
    Holds,
    /// One of so many is lost, and another one comes twice.
    Loses(u32),
}

pub(super) struct Way {
    pub(super) address: Address,
    pub(super) network: watch::Sender<Network>,
    /// Changed when what comes from the left is to come from other ports at the right from then on.
    pub(super) ports: watch::Sender<u32>,
    clients: Arc<AtomicUsize>,
}

impl Way {
    pub(super) async fn to(address: &Address) -> Self {
        let Address::Quic(to) = address else {
            panic!("{address}");
        };
        let to: SocketAddr = to.parse().expect("a number");
        let near = Arc::new(UdpSocket::bind("127.0.0.1:0").await.expect("a socket"));
        let here = near.local_addr().expect("an address");
        let (network, state) = watch::channel(Network::Carries);
        let (ports, mut changed) = watch::channel(0);
        let clients = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&clients);
        tokio::spawn(async move {
            let mut ways: HashMap<SocketAddr, (Arc<UdpSocket>, JoinHandle<()>)> = HashMap::new();
            let mut luck = Luck(state.clone(), Rng::with_seed(1));
            let mut datagram = vec![0; 2048];
            loop {
                let Ok((len, from)) = near.recv_from(&mut datagram).await else {
                    return;
                };
                if changed.has_changed().unwrap_or(false) {
                    changed.mark_unchanged();
                    for (_, (_, back)) in ways.drain() {
                        back.abort();
                    }
                } else if !ways.contains_key(&from) {
                    seen.fetch_add(1, Ordering::SeqCst);
                }
                if let Entry::Vacant(way) = ways.entry(from) {
                    let far = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
                    far.connect(to).await.expect("an address");
                    let far = Arc::new(far);
                    let luck = Luck(state.clone(), Rng::with_seed(2));
                    let back = carry_back(Arc::clone(&far), Arc::clone(&near), from, luck);
                    way.insert((far, tokio::spawn(back)));
                }
                for _ in 0..luck.copies() {
                    let _ = ways[&from].0.send(&datagram[..len]).await;
                }
            }
        });
        Self {
            address: Address::Quic(here.to_string()),
            network,
            ports,
            clients,
        }
    }

    /// Sockets that have sent anything.
    pub(super) fn clients(&self) -> usize {
        self.clients.load(Ordering::SeqCst)
    }
}

struct Luck(watch::Receiver<Network>, Rng);

impl Luck {
    /// How often the next datagram arrives.
    fn copies(&mut self) -> u32 {
        match *self.0.borrow() {
            Network::Carries => 1,
            Network::Holds => 0,
            Network::Loses(one_of) => match self.1.u32(..one_of) {
                0 => 0,
                1 => 2,
                _ => 1,
            },
        }
    }
}

async fn carry_back(far: Arc<UdpSocket>, near: Arc<UdpSocket>, to: SocketAddr, mut luck: Luck) {
    let mut datagram = vec![0; 2048];
    loop {
        // Refused while nobody listens.
        let Ok(len) = far.recv(&mut datagram).await else {
            tokio::task::yield_now().await;
            continue;
        };
        for _ in 0..luck.copies() {
            let _ = near.send_to(&datagram[..len], to).await;
        }
    }
}
