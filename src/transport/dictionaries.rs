//! Dictionaries that a node keeps from one connection to the next: in memory, and in a directory if it has one.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
#[cfg(feature = "dictionary-cache")]
use std::{path::PathBuf, sync::Arc, time::SystemTime};

use super::shared::lock;
#[cfg(feature = "dictionary-cache")]
use crate::dictionary::cache::{CacheConfig, CacheStats, DictionaryCache};
use crate::dictionary::{Dictionary, TrainerConfig};
use crate::session::{DictionaryEvent, DictionaryMemory};
use crate::units::Time;

/// What connections have carried last and is kept for the next, of all peers together, bytes; those met longest ago give
/// way. Arbitrary: some hundred peers both ways.
const MOST_HISTORY_BYTES: usize = 16 << 20;

/// The latest peers' dictionaries and samples, and what connections with them have carried last. Each peer's are its own: nothing passes from one to another.
#[derive(Debug)]
pub(super) struct DictionaryStore {
    most: usize,
    peers: Mutex<Peers>,
    given: Given,
    #[cfg(feature = "dictionary-cache")]
    disk: Option<Arc<Disk>>,
}

/// Dictionaries that the application has given, for whoever is not known to have others.
#[derive(Debug)]
pub(super) struct Given {
    /// Each with its class of traffic.
    pub(super) dictionaries: Vec<(String, Dictionary)>,
    /// What trainers of their classes begin with; `None` where nothing is trained, nor any dictionary used.
    pub(super) trainer: Option<TrainerConfig>,
    pub(super) seed: u64,
}

#[derive(Debug, Default)]
struct Peers {
    known: HashMap<String, DictionaryMemory>,
    /// In the order in which they were last met.
    order: VecDeque<String>,
}

impl DictionaryStore {
    pub(super) fn new(most: usize, given: Given) -> Self {
        Self {
            most,
            peers: Mutex::default(),
            given,
            #[cfg(feature = "dictionary-cache")]
            disk: None,
        }
    }

    /// What is known for a connection with this peer, and what the application has given of other classes.
    pub(super) fn recall(&self, now: Time, peer: &str) -> Option<DictionaryMemory> {
        let known = lock(&self.peers).known.get(peer).cloned();
        let Given {
            dictionaries,
            trainer,
            seed,
        } = &self.given;
        let Some(trainer) = trainer.filter(|_| !dictionaries.is_empty()) else {
            return known;
        };
        let mut memory = known.unwrap_or_default();
        let learned: Vec<_> = memory.sent().map(|(class, _)| class.to_owned()).collect();
        for (class, dictionary) in dictionaries {
            if !learned.contains(class) {
                let settings = (trainer, *seed);
                memory.adopt(now, class, dictionary.clone(), Duration::ZERO, settings);
            }
        }
        Some(memory)
    }

    /// A connection has ended that knew this.
    pub(super) fn remember(&self, now: Time, peer: &str, memory: DictionaryMemory) {
        if self.most > 0 {
            let mut peers = lock(&self.peers);
            peers.entry(peer, self.most).absorb(now, memory);
            peers.limit_histories(now, MOST_HISTORY_BYTES);
        }
    }

    /// Something has happened that the next connection, or the next run, should know.
    pub(super) fn on_event(&self, peer: &str, event: &DictionaryEvent) {
        if self.most > 0 {
            let mut peers = lock(&self.peers);
            let known = peers.entry(peer, self.most);
            match event {
                DictionaryEvent::Received(dictionary) => known.receive(dictionary.clone()),
                DictionaryEvent::Forgotten(id) => known.forget(*id),
                // The session gives it back with its trainer.
                DictionaryEvent::Trained { .. } => {}
            }
        }
        #[cfg(feature = "dictionary-cache")]
        if let Some(disk) = &self.disk {
            let (disk, peer, event) = (Arc::clone(disk), peer.to_owned(), event.clone());
            tokio::task::spawn_blocking(move || disk.on_event(&peer, &event));
        }
    }
}

impl Peers {
    fn entry(&mut self, peer: &str, most: usize) -> &mut DictionaryMemory {
        self.order.retain(|known| known != peer);
        self.order.push_back(peer.to_owned());
        if self.order.len() > most {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
        self.known.entry(peer.to_owned()).or_default()
    }

    /// Forgets what connections have carried, where it is too old or too much.
    fn limit_histories(&mut self, now: Time, most: usize) {
        let all = self.known.values_mut();
        let bytes = all.map(|known| {
            known.expire(now);
            known.history_bytes()
        });
        let mut bytes: usize = bytes.sum();
        for peer in &self.order {
            if bytes <= most {
                return;
            }
            if let Some(known) = self.known.get_mut(peer) {
                bytes -= known.history_bytes();
                known.forget_histories();
            }
        }
    }
}

/// The directory. What it cannot do is counted, and connections begin without.
#[cfg(feature = "dictionary-cache")]
#[derive(Debug)]
struct Disk {
    cache: Mutex<Result<DictionaryCache, CacheStats>>,
}

#[cfg(feature = "dictionary-cache")]
impl DictionaryStore {
    /// Takes in what a directory holds, and keeps there what is new from now on.
    pub(super) fn open(&mut self, (directory, config): (PathBuf, CacheConfig), now: Time) {
        let (trainer, seed) = (self.given.trainer, self.given.seed);
        let failed = CacheStats {
            failed: 1,
            ..CacheStats::default()
        };
        let cache = DictionaryCache::open(directory, config);
        let mut cache = cache.map_err(|_| failed);
        let entries = cache.as_mut().ok().and_then(|cache| cache.entries().ok());
        let wall = wall_time();
        let peers = self
            .peers
            .get_mut()
            .unwrap_or_else(|broken| broken.into_inner());
        for entry in entries.into_iter().flatten() {
            match (Label::parse(&entry.class), trainer) {
                (Some(Label { peer, class: None }), _) => {
                    peers
                        .entry(peer, self.most.max(1))
                        .receive(entry.dictionary);
                }
                (
                    Some(Label {
                        peer,
                        class: Some(class),
                    }),
                    Some(trainer),
                ) => {
                    let age = wall.duration_since(entry.created).unwrap_or_default();
                    let memory = peers.entry(peer, self.most.max(1));
                    memory.adopt(now, class, entry.dictionary, age, (trainer, seed));
                }
                _ => {}
            }
        }
        let cache = Mutex::new(cache);
        self.disk = Some(Arc::new(Disk { cache }));
    }

    /// What the directory has done; `None` without one.
    pub(super) fn cache_stats(&self) -> Option<CacheStats> {
        Some(match &*lock(&self.disk.as_ref()?.cache) {
            Ok(cache) => cache.stats(),
            Err(failed) => *failed,
        })
    }
}

#[cfg(feature = "dictionary-cache")]
impl Disk {
    fn on_event(&self, peer: &str, event: &DictionaryEvent) {
        let mut cache = lock(&self.cache);
        let Ok(cache) = &mut *cache else {
            return;
        };
        let now = wall_time();
        // Each counts its own failures, and there is nobody to tell.
        let _ = match event {
            DictionaryEvent::Trained { class, dictionary } => {
                let class = Some(class.as_str());
                cache.store(dictionary, &Label { peer, class }.to_string(), now)
            }
            DictionaryEvent::Received(dictionary) => {
                let label = Label { peer, class: None };
                cache.store(dictionary, &label.to_string(), now)
            }
            DictionaryEvent::Forgotten(id) => cache.remove(id),
        };
    }
}

/// What a dictionary in the directory is for: messages of a class to a peer, or whatever comes from it.
#[cfg(feature = "dictionary-cache")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Label<'a> {
    peer: &'a str,
    class: Option<&'a str>,
}

#[cfg(feature = "dictionary-cache")]
impl core::fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { peer, class } = self;
        match class {
            // A peer's name may be any text: its length says where it ends.
            Some(class) => write!(f, "to {} {peer} {class}", peer.len()),
            None => write!(f, "from {peer}"),
        }
    }
}

#[cfg(feature = "dictionary-cache")]
impl<'a> Label<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        if let Some(peer) = text.strip_prefix("from ") {
            return Some(Self { peer, class: None });
        }
        let (len, rest) = text.strip_prefix("to ")?.split_once(' ')?;
        let (peer, class) = rest.split_at_checked(len.parse().ok()?)?;
        Some(Self {
            peer,
            class: Some(class.strip_prefix(' ')?),
        })
    }
}

/// The time of the calendar, for the ages of files.
#[cfg(feature = "dictionary-cache")]
#[expect(
    clippy::disallowed_methods,
    reason = "files carry calendar time, which outlasts the process"
)]
fn wall_time() -> SystemTime {
    SystemTime::now()
}

#[cfg(all(test, feature = "dictionary-cache"))]
mod tests {
    use super::*;

    #[test]
    fn labels_read_back_whatever_peers_are_called() {
        for peer in ["127.0.0.1:80", "anybody at /run/a socket", "", "to 3 a b"] {
            for class in [None, Some("orders"), Some(""), Some("a b")] {
                let label = Label { peer, class };
                assert_eq!(Label::parse(&label.to_string()), Some(label));
            }
        }
        for bad in ["", "to", "to x y z", "to 99 a b", "to 1 é b", "orders"] {
            assert_eq!(Label::parse(bad), None, "{bad}");
        }
    }
}

#[cfg(test)]
mod history_tests {
    use core::time::Duration;

    use super::*;

    /// What is kept of a peer with whom there were connections, each of which has left `bytes`.
    fn left(bytes: usize) -> DictionaryMemory {
        let mut memory = DictionaryMemory::default();
        memory.leave_for_test(bytes);
        memory
    }

    #[test]
    fn what_connections_have_carried_is_limited_and_forgotten() {
        let mut peers = Peers::default();
        for (peer, bytes) in [("a", 1000), ("b", 2000), ("c", 3000)] {
            peers.entry(peer, 10).absorb(Time::ZERO, left(bytes));
        }
        let bytes = |peers: &Peers| {
            ["a", "b", "c"].map(|peer| {
                peers
                    .known
                    .get(peer)
                    .map_or(0, DictionaryMemory::history_bytes)
            })
        };
        peers.limit_histories(Time::ZERO, 6000);
        assert_eq!(bytes(&peers), [1000, 2000, 3000]);
        peers.limit_histories(Time::ZERO, 5500);
        assert_eq!(bytes(&peers), [0, 2000, 3000], "the one met longest ago");
        let later = Time::ZERO + Duration::from_secs(3600);
        peers.limit_histories(later, 5500);
        assert_eq!(bytes(&peers), [0, 0, 0]);
    }
}
