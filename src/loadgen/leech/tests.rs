use super::*;
use crate::loadgen::resource::DataLevel;

fn config(resource: Resource) -> LeechConfig {
    let config = LeechConfig::new(resource).length(Duration::from_secs(20));
    match resource {
        Resource::Load => config.processor(first()),
        _ => config,
    }
}

/// A processor that this process may run on.
fn first() -> u32 {
    Topology::of_system(Path::new("/"), None).allowed()[0]
}

fn sleep(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

#[test]
fn every_leech_does_something_and_stops() {
    for resource in Resource::ALL {
        let leech = Leech::start(config(resource).intensity(Intensity::new(0.3))).unwrap();
        sleep(60);
        let stats = leech.stop();
        assert!(stats.operations > 0, "{stats:?}");
        assert!(
            stats.processor > Duration::ZERO && stats.wall > Duration::ZERO,
            "{stats:?}"
        );
        assert!(stats.is_over, "{stats:?}");
        let is_data = matches!(resource, Resource::Data(_));
        assert_eq!(
            stats.access_nanos().is_some_and(|nanos| nanos > 0.0),
            is_data,
            "{stats:?}"
        );
    }
}

/// The share is that of the leech's own processor time by the kernel's clock of it, so that a slow machine holds it as a quick one does; but a processor that others hold
/// cannot be taken, and then the test says so and judges nothing.
#[test]
fn a_leech_holds_its_share_of_a_processor_that_nobody_else_wants() {
    for resource in Resource::ALL {
        // Its share is of what all do there, and has a test of its own.
        if resource == Resource::Load {
            continue;
        }
        holds(resource, 0.5, || {
            Leech::start(config(resource).intensity(Intensity::new(0.5)))
        });
    }
    for resource in [
        Resource::Cpu,
        Resource::Data(DataLevel::L2),
        Resource::PageFaults,
        Resource::ContextSwitches,
    ] {
        holds(resource, 0.1, || {
            Leech::start(config(resource).intensity(Intensity::new(0.1)))
        });
    }
}

/// The peer is in this process and throws away what comes, on another thread.
#[cfg(feature = "transport")]
#[test]
fn a_leech_of_the_network_holds_its_share_too() {
    use crate::transport::{Node, NodeConfig};
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (node, listener, address) = runtime.block_on(async {
        let node = Node::new(NodeConfig::default().guard(None)).unwrap();
        let listener = node.listen(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_address().unwrap();
        (node, listener, address)
    });
    let peer = runtime.spawn(async move {
        loop {
            let connection = listener.accept().await.unwrap();
            let stream = connection.accept().await.unwrap().unwrap();
            while let Ok(Some(_)) = stream.recv().await {}
            drop(connection.close().await);
        }
    });
    holds(Resource::Network, 0.5, || {
        let config = NetworkConfig::new(address.clone()).length(Duration::from_secs(20));
        Leech::network(config.intensity(Intensity::new(0.5)))
    });
    peer.abort();
    drop(node);
}

/// How often a leech may lack something that the kernel does not say was taken.
const TRIES: u32 = 8;

/// That a leech of `resource` holds `share`, if there is so much to be had. It makes up for a tenth of a second that others took, no more, and may still be at that when it is asked; what
/// takes a whole machine its time, the kernel does not say. So it may lack something in all tries but one, and never have too much.
fn holds(resource: Resource, share: f64, start: impl Fn() -> Result<Leech, LeechError>) {
    for attempt in 1..=TRIES {
        let leech = start().unwrap();
        sleep(1500);
        let stats = leech.stop();
        let Some(waited) = stats.waited else {
            println!(
                "{resource} skipped: the kernel does not say how long a thread waits for a processor"
            );
            return;
        };
        // With as much wanted by others as it did not want itself, it cannot have its share.
        let contended = waited.as_secs_f64() / stats.wall.as_secs_f64();
        if contended > 0.5 * (1.0 - share) || stats.wall > Duration::from_millis(1650) {
            println!(
                "{resource} at {share} skipped: it waited {waited:?} of {:?} for a processor",
                stats.wall
            );
            return;
        }
        println!(
            "{resource} at {share}: {:.4}, waited {waited:?}",
            stats.share()
        );
        let lacking = share - stats.share();
        if lacking.abs() <= 0.02 {
            return;
        }
        assert!(lacking > 0.0 && attempt < TRIES, "{resource}: {stats:?}");
    }
}

/// The share is of all that runs there, by what the kernel says was idle. Where others than this test's take more than it asks, there is nothing to hold.
#[test]
fn a_leech_of_load_takes_what_others_leave() {
    let refused = Leech::start(LeechConfig::new(Resource::Load)).unwrap_err();
    assert!(matches!(refused, LeechError::NoPin), "{refused}");
    let load = Leech::start(config(Resource::Load).intensity(Intensity::new(0.6))).unwrap();
    let other = LeechConfig::new(Resource::Cpu)
        .processor(first())
        .length(Duration::from_secs(20));
    let other = Leech::start(other.intensity(Intensity::NONE)).unwrap();
    let mut tries = 0;
    for share in [0.0, 0.3, 0.1] {
        other.set_intensity(Intensity::new(share));
        loop {
            sleep(200);
            let (before, other_before) = (load.stats(), other.stats());
            let mut most = 0.0_f64;
            let mut last = before;
            for _ in 0..10 {
                sleep(100);
                let now = load.stats();
                let since = now.since(&last);
                let took = since.processor.as_secs_f64() / since.wall.as_secs_f64();
                most = most.max(since.share() - took);
                last = now;
            }
            let since = last.since(&before);
            if most > 0.5 {
                println!("skipped: others took {most:.3} of the processor");
                return;
            }
            println!("{share} beside it: {:.4}", since.share());
            let given = other.stats().since(&other_before).share();
            let is_held = (since.share() - 0.6).abs() <= 0.02 && given >= 0.5 * share;
            tries += 1;
            // What it makes up for was taken before it is looked at.
            assert!(is_held || tries < TRIES, "{since:?}, {given} of {share}");
            if is_held {
                // What others than these two take comes off it as well.
                let own = since.processor.as_secs_f64() / since.wall.as_secs_f64();
                assert!((0.05..0.62 - given).contains(&own), "{own} beside {given}");
                break;
            }
        }
    }
}

/// Of the clock alone, not of what an operation costs; a processor that others hold cannot be taken.
#[test]
fn a_rate_is_held_whatever_one_operation_costs() {
    for resource in [Resource::PageFaults, Resource::ContextSwitches] {
        holds_rate(resource);
    }
}

/// As [`holds`] does, with a rate.
fn holds_rate(resource: Resource) {
    for attempt in 1..=TRIES {
        let asked = config(resource)
            .rate(20_000.0)
            .intensity(Intensity::new(0.25));
        let leech = Leech::start(asked).unwrap();
        sleep(1500);
        let stats = leech.stop();
        let waited = stats.waited.unwrap_or(stats.wall);
        // A process that is stopped does not wait, and has no time either.
        let is_held_up = waited.as_secs_f64() > 0.3 * stats.wall.as_secs_f64();
        if is_held_up || stats.wall > Duration::from_millis(1550) {
            println!(
                "{resource} skipped: it waited {waited:?} of {:?}",
                stats.wall
            );
            return;
        }
        let excess = stats.operations as f64 / stats.wall.as_secs_f64() / 5000.0 - 1.0;
        if excess.abs() < 0.02 {
            return;
        }
        assert!(excess < 0.0 && attempt < TRIES, "{resource}: {stats:?}");
    }
}

#[test]
fn intensity_changes_while_it_runs() {
    let leech = Leech::start(config(Resource::Cpu).intensity(Intensity::NONE)).unwrap();
    sleep(100);
    let before = leech.stats();
    assert!(before.share() < 0.05, "{before:?}");
    leech.set_intensity(Intensity::FULL);
    sleep(200);
    let loaded = leech.stats();
    leech.set_intensity(Intensity::NONE);
    sleep(50);
    let after = leech.stats();
    sleep(200);
    let end = leech.stop();
    assert!(
        loaded.since(&before).processor > 3 * end.since(&after).processor,
        "{loaded:?} {end:?}"
    );
}

#[test]
fn misses_change_while_it_runs_and_others_than_patterns_have_none() {
    let leech = Leech::start(config(Resource::Data(DataLevel::L1))).unwrap();
    let asked = MissRatios::new(0.1, 0.0);
    assert_eq!(
        leech.stats().misses.unwrap_or_default(),
        MissRatios::default()
    );
    leech.set_misses(asked);
    for _ in 0..500 {
        if leech.stats().misses == Some(asked) {
            break;
        }
        sleep(10);
    }
    assert_eq!(leech.stop().misses, Some(asked));
    let refused = Leech::start(config(Resource::Tlb).misses(asked)).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("a leech of tlb has no miss ratios"),
        "{refused}"
    );
    let leech = Leech::start(config(Resource::Cpu)).unwrap();
    leech.set_misses(asked);
    sleep(20);
    assert_eq!(leech.stop().misses, None);
}

#[test]
fn a_leech_ends_by_itself() {
    let leech = Leech::start(config(Resource::Cpu).length(Duration::from_millis(50))).unwrap();
    for _ in 0..500 {
        if leech.stats().is_over {
            break;
        }
        sleep(10);
    }
    let stats = leech.stats();
    assert!(stats.is_over, "{stats:?}");
    sleep(30);
    assert_eq!(leech.stats(), stats);
    // Its thread has gone before anybody asks.
    assert_eq!(leech.stop(), stats);
}

#[test]
fn a_processor_that_is_not_there_is_refused_with_those_that_are() {
    for given in [999, 1023, 1024, u32::MAX] {
        let error = Leech::start(config(Resource::Cpu).processor(given)).unwrap_err();
        assert!(matches!(error, LeechError::NoProcessor { .. }), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains(&given.to_string()) && text.contains("may run on 0")
                || text.contains("may run on 1"),
            "{text}"
        );
    }
}

#[test]
fn a_pinned_leech_is_where_it_is_to_be() {
    let allowed = Topology::of_system(Path::new("/"), None).allowed();
    for processor in allowed.into_iter().take(4) {
        let leech = Leech::start(config(Resource::ContextSwitches).processor(processor)).unwrap();
        let mut seen = 0;
        for entry in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
            let read = |name| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
            if !read("comm").starts_with("leech-") {
                continue;
            }
            let status = read("status");
            let list = status
                .lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            seen += u32::from(list.map(str::trim) == Some(processor.to_string().as_str()));
        }
        // Others' leeches may be there too, on other tests' behalf.
        assert!(seen >= 2, "{seen} threads on {processor}");
        leech.stop();
    }
}

#[test]
fn caches_that_cannot_be_missed_are_refused() {
    let mut caches = Topology::of_system(Path::new("/"), None).data;
    caches.l2 = None;
    caches.llc = caches.l1.clone();
    for level in [DataLevel::L1, DataLevel::L2, DataLevel::Llc] {
        let config = config(Resource::Data(level)).caches(caches.clone());
        let error = Leech::start(config).unwrap_err();
        assert!(matches!(error, LeechError::Pattern(_)), "{error:?}");
    }
}
