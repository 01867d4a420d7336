//! Miss ratios of the leeches' pattern, found by `valgrind --tool=cachegrind` in the program as it is compiled, with all accesses that its loop makes.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Stdio};

use tautline::loadgen::cache::CacheGeometry;
use tautline::loadgen::{MissRatios, Pattern, Reach};

/// What the test tells itself under valgrind: the caches, what to ask for, and how many accesses to make.
const TOLD: &str = "TAUTLINE_CACHEGRIND";

/// Sizes and ways of the first cache for data and of the last one, as on the p4080 and on a small server. Cachegrind's sets are powers of two, its caches LRU, and there are two
/// levels of them.
const CACHES: [[u64; 4]; 2] = [[32 << 10, 8, 128 << 10, 8], [32 << 10, 8, 512 << 10, 16]];

/// Accesses of the two runs: what they differ in is the pattern's, and all else is not counted.
const ACCESSES: [u64; 2] = [600_000, 2_600_000];

/// Reads, their misses of the first cache, and of the last.
#[derive(Clone, Copy, Debug)]
struct Counts {
    accesses: f64,
    first: f64,
    last: f64,
}

/// Not a test by itself: what runs under valgrind.
#[test]
#[expect(clippy::disallowed_methods, reason = "what a test tells itself")]
fn told_by_the_environment() {
    let Ok(told) = std::env::var(TOLD) else {
        return;
    };
    let told: Vec<f64> = told
        .split(',')
        .map(|number| number.parse().expect("a number"))
        .collect();
    let [size, ways, last, last_ways, l1d, llc, accesses] = told[..] else {
        panic!("{told:?}");
    };
    let cache =
        |size: f64, ways: f64| CacheGeometry::new(size as u64, ways as u32, 64).expect("a cache");
    let caches = [cache(size, ways), cache(last, last_ways)];
    let ratios = MissRatios::new(l1d, llc);
    let mut pattern = Pattern::new(&caches, Reach::Second, ratios).expect("a pattern");
    pattern.walk(accesses as u64);
}

fn counts(caches: [u64; 4], asked: MissRatios, accesses: u64, folder: &Path) -> Counts {
    let [size, ways, last, last_ways] = caches;
    let out = folder.join("counts");
    let MissRatios { l1d, llc, .. } = asked;
    let status = Command::new("valgrind")
        .args([
            "--tool=cachegrind",
            "--cache-sim=yes",
            "--quiet",
            "--I1=32768,8,64",
        ])
        .arg(format!("--D1={size},{ways},64"))
        .arg(format!("--LL={last},{last_ways},64"))
        .arg(format!("--cachegrind-out-file={}", out.display()))
        .arg(std::env::current_exe().expect("this test"))
        .args(["--exact", "told_by_the_environment", "--test-threads=1"])
        .env(
            TOLD,
            format!("{size},{ways},{last},{last_ways},{l1d},{llc},{accesses}"),
        )
        .stdout(Stdio::null())
        // It warns of the machine's own caches, which are not simulated.
        .stderr(Stdio::null())
        .status()
        .expect("valgrind starts");
    assert!(status.success(), "{status}");
    let text = std::fs::read_to_string(&out).expect("counts");
    let line = |name| {
        let found = text.lines().find_map(|line| line.strip_prefix(name));
        found
            .expect(name)
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (events, summary) = (line("events:"), line("summary:"));
    let of = |name: &str| {
        let at = events.iter().position(|event| event == name).expect(name);
        summary[at].parse::<f64>().expect("a count")
    };
    Counts {
        accesses: of("Dr") + of("Dw"),
        first: of("D1mr") + of("D1mw"),
        last: of("DLmr") + of("DLmw"),
    }
}

#[test]
fn ratios_asked_are_found_by_cachegrind() {
    let version = Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::piped())
        .output();
    if !version.is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no valgrind here (apt-get install valgrind)");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [p4080, server] = CACHES;
    let all = [0.01, 0.033, 0.1, 0.25].map(|l1d| [0.01, 0.05, 0.2].map(|llc| (server, l1d, llc)));
    // What the thesis asks of its second core.
    let thesis = [(p4080, 0.033, 0.22)];
    for (caches, l1d, llc) in all.into_iter().flatten().chain(thesis) {
        let asked = MissRatios::new(l1d, llc);
        let [before, after] =
            ACCESSES.map(|accesses| counts(caches, asked, accesses, folder.path()));
        let accesses = after.accesses - before.accesses;
        let first = after.first - before.first;
        let last = after.last - before.last;
        let found = MissRatios::new(first / accesses, last / first);
        println!(
            "{caches:?}: asked {asked}, found {found}, {:.3} accesses for each",
            accesses / (ACCESSES[1] - ACCESSES[0]) as f64
        );
        assert!((found.l1d - asked.l1d).abs() <= 0.02, "{asked}: {found}");
        assert!((found.llc - asked.llc).abs() <= 0.02, "{asked}: {found}");
        // The loop keeps what it needs in registers: hardly an access is anybody else's.
        assert!(
            (found.l1d / asked.l1d - 1.0).abs() <= 0.1,
            "{asked}: {found}"
        );
    }
}
