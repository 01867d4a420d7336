//! Runs the contestants of one table, in turns.
//!
//! ```text
//!  sender's runtime ---- relay's runtime, a relay for each ---- receiver's runtime
//! ```
//!
//! All in one process: whatever a contestant is made of runs without being started and found, and one
//! clock serves both ends. A turn is two connections: one for messages one way, as fast as they can be
//! given away, and one for messages that are asked one by one.

use std::io::IsTerminal;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tautline::relay::Relay;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::alone::{self, Asked};
use crate::contestants::{Inbox, Messages, Named, Receiver, Sender, Task, Trips};
use crate::failure::Failure;
use crate::plan::{self, Link, Load};
use crate::table::{Outcome, Pass};
use crate::usage::{self, Bystanders};

/// Of each end's runtime and the relay's, as in `tautline bench`.
const WORKERS: usize = 2;
/// The longest that a pass may take. Arbitrary, many times what any should.
const PASS_LIMIT: Duration = Duration::from_secs(120);

/// Before each turn where times are measured: the machine that a contestant finds is idle for all, since some wait for that.
/// Arbitrary.
pub(crate) const REST: Duration = Duration::from_millis(200);

pub(crate) struct Stage {
    sender: Runtime,
    relay: Runtime,
    receiver: Runtime,
    /// The relay's threads, and that which it is all run from.
    bystanders: Bystanders,
    /// Before each turn.
    rest: Duration,
}

/// A contestant's ends and what is between them.
struct Track {
    sender: Arc<dyn Sender>,
    receiver: Arc<dyn Receiver>,
    /// To where messages go one way, and to where one asks.
    relays: [(Relay, SocketAddr); 2],
}

/// A contestant's ends, on their way.
struct Starting {
    sender: Running<Result<Arc<dyn Sender>, Failure>>,
    receiver: Running<Result<Arc<dyn Receiver>, Failure>>,
}

impl Starting {
    async fn track(mut self, link: Link) -> Result<Track, Failure> {
        let receiver = (&mut self.receiver.0).await??;
        let sender = (&mut self.sender.0).await??;
        let relay = |to: SocketAddr| {
            let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let relay = Relay::start(listen, to, link.config())
                .map_err(|error| Failure::of("the relay", &error))?;
            let address = relay
                .local_addr()
                .tcp()
                .ok_or_else(|| Failure::Error("the relay has no address".to_owned()))?;
            Ok::<_, Failure>((relay, address))
        };
        let relays = [relay(receiver.address())?, relay(receiver.echo_address())?];
        Ok(Track {
            sender,
            receiver,
            relays,
        })
    }
}

impl Stage {
    pub(crate) fn build(rest: Duration) -> Result<Self, Failure> {
        let runtime = |bystanders: Option<Bystanders>| {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(WORKERS)
                .on_thread_start(move || {
                    if let Some(bystanders) = &bystanders {
                        bystanders.add_this();
                    }
                })
                .enable_all()
                .build()
                .map_err(|error| Failure::of("the runtime does not start", &error))
        };
        let bystanders = Bystanders::default();
        bystanders.add_this();
        Ok(Self {
            sender: runtime(None)?,
            relay: runtime(Some(bystanders.clone()))?,
            receiver: runtime(None)?,
            bystanders,
            rest,
        })
    }

    /// All turns of one table. A contestant that fails is out of it, with the reason. `trips`: how
    /// many messages, from the first, are asked one by one in each turn.
    pub(crate) fn run(
        &self,
        load: &Load,
        link: Link,
        contestants: &[Named],
        rounds: usize,
        trips: usize,
    ) -> Vec<Outcome> {
        let asked: Messages = load.messages[..trips.min(load.messages.len())].into();
        self.relay.block_on(async {
            let mut outcomes = Vec::new();
            let mut tracks = Vec::new();
            // All at once: some start a server.
            let starting: Vec<_> = contestants
                .iter()
                .map(|named| self.start(named, load.longest()))
                .collect();
            for (named, starting) in contestants.iter().zip(starting) {
                let track = starting.track(link).await;
                let mut outcome = Outcome::new(&named.name, named.contestant.kind());
                match track {
                    Ok(track) => tracks.push(Some(track)),
                    Err(failure) => {
                        outcome.cannot_run = Some(failure.text());
                        tracks.push(None);
                    }
                }
                outcomes.push(outcome);
            }
            for round in 0..rounds {
                for (place, number) in plan::order(contestants.len(), round, rounds)
                    .into_iter()
                    .enumerate()
                {
                    let Some(track) = &tracks[number] else {
                        continue;
                    };
                    show_progress(&format!(
                        "{} over {link}: round {} of {rounds}, {} of {}: {}",
                        load.name,
                        round + 1,
                        place + 1,
                        contestants.len(),
                        contestants[number].name,
                    ));
                    let outcome = &mut outcomes[number];
                    if let Err(failure) = self.turn(track, load, &asked, outcome).await {
                        outcome.failed = Some(failure.text());
                        tracks[number] = None;
                    }
                }
            }
            show_progress("");
            outcomes
        })
    }

    /// What each takes, one after another, in processes of their own.
    pub(crate) fn measure_memory(&self, asked: impl Fn(&str) -> Asked, outcomes: &mut [Outcome]) {
        for outcome in outcomes.iter_mut().filter(|outcome| outcome.has_run()) {
            show_progress(&format!("memory of {}", outcome.name));
            let taken = self.relay.block_on(alone::ask(&asked(&outcome.name)));
            outcome.memory = Some(taken.map_err(Failure::text));
        }
        show_progress("");
    }

    fn start(&self, named: &Named, longest: usize) -> Starting {
        let contestant = &named.contestant;
        Starting {
            sender: Running(self.sender.spawn(contestant.sender(longest))),
            receiver: Running(self.receiver.spawn(contestant.receiver(longest))),
        }
    }

    async fn turn(
        &self,
        track: &Track,
        load: &Load,
        asked: &Messages,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        tokio::time::sleep(self.rest).await;
        let mut sender = Running(self.sender.spawn(Arc::clone(&track.sender).prepare()));
        let mut receiver = Running(self.receiver.spawn(Arc::clone(&track.receiver).prepare()));
        (&mut sender.0).await??;
        (&mut receiver.0).await??;
        outcome.passes.push(self.pass(track, load).await?);
        if !asked.is_empty() {
            outcome.trips.extend(self.trips(track, asked).await?);
        }
        Ok(())
    }

    /// One way, over a connection.
    async fn pass(&self, track: &Track, load: &Load) -> Result<Pass, Failure> {
        let (relay, address) = &track.relays[0];
        let processes = track.receiver.processes();
        let before = relay.stats().forward;
        let cpu_before = self.bystanders.others(&processes);
        let inbox = Inbox::new(Arc::clone(&load.messages));
        let receiving = Arc::clone(&track.receiver).receive(inbox);
        let sending = Arc::clone(&track.sender).send(*address, Arc::clone(&load.messages));
        let (began, inbox) = self.both(sending, receiving).await?;
        let cpu = self.bystanders.others(&processes);
        let peaks = processes.into_iter().filter_map(usage::peak_of);
        Ok(Pass {
            seconds: inbox.finish()?.duration_since(began).as_secs_f64(),
            wire_bytes: relay.stats().forward - before,
            cpu_seconds: cpu.zip(cpu_before).map(|(cpu, before)| cpu - before),
            elsewhere: peaks.sum(),
        })
    }

    /// One by one, over another.
    async fn trips(&self, track: &Track, asked: &Messages) -> Result<Vec<Duration>, Failure> {
        let (_, address) = track.relays[1];
        let answering = Arc::clone(&track.receiver).echo(asked.len());
        let asking = Arc::clone(&track.sender).ask(address, Trips::new(Arc::clone(asked)));
        let (trips, ()) = self.both(asking, answering).await?;
        trips.finish()
    }

    /// Both ends of a connection, until both are through with it.
    async fn both<S: Send + 'static, R: Send + 'static>(
        &self,
        sender: Task<S>,
        receiver: Task<R>,
    ) -> Result<(S, R), Failure> {
        let mut receiver = Running(self.receiver.spawn(receiver));
        let mut sender = Running(self.sender.spawn(sender));
        let both = async {
            tokio::try_join!(async { (&mut sender.0).await? }, async {
                (&mut receiver.0).await?
            })
        };
        tokio::time::timeout(PASS_LIMIT, both)
            .await
            .map_err(|_| Failure::Error(format!("longer than {} s", PASS_LIMIT.as_secs())))?
    }
}

/// A task that ends if nobody waits for it any more.
struct Running<T>(JoinHandle<T>);

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Shows on a terminal what goes on, or with nothing to show removes that.
fn show_progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::contestants::{self, Contestant, Kind, now};
    use crate::plan::Take;

    /// Asked one by one.
    const TRIPS: usize = 12;

    /// Some of each kind, and the lengths that are special.
    fn loads() -> Vec<Load> {
        let mut loads = plan::loads(&[], Some(Take::Bytes(70_000)), None).expect("made up");
        let special = [0, 1, 3, 70_000, 0, 8192, 4, 300_000, 65_536];
        loads.push(Load {
            name: "special".to_owned(),
            messages: special
                .iter()
                .map(|&len| {
                    (0..len)
                        .map(|at: u32| (at.wrapping_mul(at) >> 7) as u8)
                        .collect()
                })
                .collect(),
        });
        loads
    }

    #[test]
    fn every_contestant_delivers_every_message_with_and_without_a_rate() {
        let mut words: Vec<_> = contestants::DEFAULT.map(str::to_owned).into();
        for arm in ["zstd:3+history", "lz4", "lz4+history", "zstd:1"] {
            words.push(format!("tautline:{arm}"));
        }
        let all = contestants::named(&words, false, &[]).expect("contestants");
        let stage = Stage::build(Duration::ZERO).expect("runtimes");
        let loads = loads();
        // Every load without a rate; with one, that of every length.
        let fast = loads.iter().map(|load| (load, Link(None)));
        let slow = loads.last().map(|load| (load, Link(Some(1e9))));
        for (load, link) in fast.chain(slow) {
            for outcome in stage.run(load, link, &all, 2, TRIPS) {
                assert_eq!(outcome.cannot_run, None, "{} {}", load.name, outcome.name);
                assert_eq!(outcome.failed, None, "{} {}", load.name, outcome.name);
                assert_eq!(outcome.passes.len(), 2);
                let trips = TRIPS.min(load.messages.len());
                assert_eq!(outcome.trips.len(), 2 * trips, "{}", outcome.name);
                for pass in outcome.passes {
                    assert!(pass.seconds > 0.0);
                    // That it all went through the relay; what repeats itself becomes very small.
                    assert!(pass.wire_bytes > 100, "{} {}", load.name, outcome.name);
                    let cpu = pass.cpu_seconds;
                    assert!(cpu.is_none_or(|cpu| cpu > 0.0), "{cpu:?}");
                }
            }
        }
    }

    #[test]
    fn plain_frames_are_as_long_as_their_messages_and_prefixes() {
        let stage = Stage::build(Duration::ZERO).expect("runtimes");
        let all = contestants::named(&["ld:none".to_owned()], false, &[]).expect("it is known");
        for load in loads() {
            let outcomes = stage.run(&load, Link(None), &all, 1, 0);
            let expected = load.plain_bytes() + 4 * load.messages.len() as u64;
            assert_eq!(outcomes[0].passes[0].wire_bytes, expected);
        }
    }

    /// Delivers something else, or cannot even start.
    #[derive(Debug)]
    struct Faulty {
        starts: bool,
    }

    struct Wrong;

    impl Contestant for Faulty {
        fn kind(&self) -> Kind {
            Kind::Peer
        }

        fn receiver(&self, _longest: usize) -> Task<Arc<dyn Receiver>> {
            let starts = self.starts;
            Box::pin(async move {
                if !starts {
                    return Err(Failure::Error("no such broker".to_owned()));
                }
                Ok(Arc::new(Wrong) as _)
            })
        }

        fn sender(&self, _longest: usize) -> Task<Arc<dyn Sender>> {
            Box::pin(async { Ok(Arc::new(Wrong) as _) })
        }
    }

    impl Receiver for Wrong {
        fn address(&self) -> SocketAddr {
            SocketAddr::from((Ipv4Addr::LOCALHOST, 1))
        }

        fn receive(self: Arc<Self>, mut inbox: Inbox) -> Task<Inbox> {
            Box::pin(async move {
                inbox.deliver(b"something else")?;
                Ok(inbox)
            })
        }

        fn echo(self: Arc<Self>, _count: usize) -> Task<()> {
            Box::pin(async { Ok(()) })
        }
    }

    impl Sender for Wrong {
        fn send(self: Arc<Self>, _to: SocketAddr, _messages: Messages) -> Task<Instant> {
            Box::pin(async { Ok(now()) })
        }

        fn ask(self: Arc<Self>, _to: SocketAddr, trips: Trips) -> Task<Trips> {
            Box::pin(async { Ok(trips) })
        }
    }

    #[test]
    fn who_cannot_run_or_errs_is_out_with_the_reason_and_the_others_go_on() {
        let mut all = contestants::named(&["ld:none".to_owned()], false, &[]).expect("it is known");
        for starts in [false, true] {
            all.push(Named {
                name: "faulty".to_owned(),
                contestant: Box::new(Faulty { starts }),
            });
        }
        let stage = Stage::build(Duration::ZERO).expect("runtimes");
        let load = &loads()[0];
        let outcomes = stage.run(load, Link(None), &all, 3, 2);
        assert_eq!(outcomes[0].passes.len(), 3);
        assert_eq!(outcomes[1].cannot_run.as_deref(), Some("no such broker"));
        let failed = outcomes[2].failed.as_deref().unwrap_or_default();
        assert!(failed.contains("message 0 came changed"), "{failed}");
        assert!(outcomes[1].passes.is_empty() && outcomes[2].passes.is_empty());
    }
}
