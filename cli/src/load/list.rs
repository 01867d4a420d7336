//! What `load run --list` shows: leeches, processors, caches.

use std::time::Duration;

use tautline::loadgen::{CacheInfo, CacheKind, Resource, Topology};
use tautline::pmu::{Pace, calibrate};
use tautline::units::Time;

use crate::failure::{Failure, say};

pub(super) fn print(topology: &Topology, calibrated: bool) -> Result<(), Failure> {
    say!(
        "leeches: {}, network",
        Resource::ALL.map(Resource::name).join(", ")
    )?;
    say!("processors ({}):", topology.source)?;
    for processor in &topology.processors {
        let id = |id: Option<u32>| id.map_or_else(|| "?".to_owned(), |id| id.to_string());
        let siblings: Vec<_> = processor.siblings.iter().map(u32::to_string).collect();
        let siblings = if siblings.len() > 1 {
            format!(", core shared by {}", siblings.join(","))
        } else {
            String::new()
        };
        say!(
            "  {:>3}  package {}, core {}{siblings}{}",
            processor.number,
            id(processor.package),
            id(processor.core),
            if processor.is_allowed {
                ""
            } else {
                ", not for this process"
            }
        )?;
    }
    say!("caches for data, as leeches take them:")?;
    cache("L1D", &topology.data.l1)?;
    if let Some(l2) = &topology.data.l2 {
        cache("L2", l2)?;
    }
    cache("LLC", &topology.data.llc)?;
    let instructions = topology.caches.iter();
    for other in instructions.filter(|cache| cache.kind == CacheKind::Instruction) {
        cache(&format!("L{}I", other.level), other)?;
    }
    if calibrated {
        check(topology)?;
    }
    Ok(())
}

fn cache(name: &str, cache: &CacheInfo) -> Result<(), Failure> {
    let geometry = cache.geometry;
    let shared = match cache.shared_by.len() {
        0 | 1 => String::new(),
        sharers => format!(", shared by {sharers} processors"),
    };
    say!(
        "  {name:<4} {:>7} KiB, {:>2} ways, lines of {} bytes{shared} ({})",
        geometry.size() >> 10,
        geometry.ways(),
        geometry.line(),
        cache.source
    )
}

/// The second source: what loads take in working sets of these sizes.
fn check(topology: &Topology) -> Result<(), Failure> {
    let pace = Pace::new(Duration::from_secs(1));
    let calibration = calibrate(topology.data.sizes(), || {
        pace.now().saturating_since(Time::ZERO)
    });
    let [l1, l2, llc, memory] = calibration.load_nanos;
    let l2 = if topology.data.l2.is_some() {
        format!("{l2:.1} from L2, {llc:.1}")
    } else {
        format!("{l2:.1}")
    };
    say!("a load takes {l1:.1} ns from L1D, {l2} from LLC, {memory:.1} from memory")?;
    for doubt in topology.data.doubts(&calibration) {
        say!("doubtful: {doubt}")?;
    }
    Ok(())
}
