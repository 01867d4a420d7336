//! Names of events, and what the kernel knows them by.
//!
//! Those that perf has for every machine; raw ones by number. [`Names`](super::Names) adds those of a model file.

/// The longest name of an event, a gauge, a set or a metric, bytes.
pub const MAX_NAME: usize = 64;

/// Which counters count an event: the type in the kernel's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventSource {
    /// Common to most processors; the kernel knows how this one counts it.
    Hardware,
    /// The kernel's own.
    Software,
    /// A point in the kernel's code.
    Tracepoint,
    /// Of caches and translation buffers; the kernel knows how this processor counts it.
    Cache,
    /// By the processor's own number.
    Raw,
}

impl EventSource {
    /// Whether it is counted by what the processor has a few of.
    pub(super) const fn is_of_hardware(self) -> bool {
        matches!(self, Self::Hardware | Self::Cache | Self::Raw)
    }

    /// The number in the kernel's interface.
    pub const fn number(self) -> u32 {
        match self {
            Self::Hardware => 0,
            Self::Software => 1,
            Self::Tracepoint => 2,
            Self::Cache => 3,
            Self::Raw => 4,
        }
    }

    /// Whether it takes one of the processor's counters.
    pub const fn is_hardware(self) -> bool {
        matches!(self, Self::Hardware | Self::Cache | Self::Raw)
    }
}

/// In which mode of the processor events count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Privilege {
    /// In all.
    #[default]
    All,
    /// In the programs: `:u`.
    User,
    /// In the kernel: `:k`.
    Kernel,
}

/// An event as the kernel is asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventCode {
    /// Who counts.
    pub source: EventSource,
    /// Which event: its meaning depends on the source.
    pub config: u64,
    /// What some raw events need besides.
    pub config1: u64,
    /// In which mode.
    pub privilege: Privilege,
}

impl EventCode {
    /// Whether it counts nanoseconds, of which there cannot be more than it was counted for.
    pub(super) const fn is_clock(&self) -> bool {
        matches!(self.source, EventSource::Software) && self.config <= TASK_CLOCK
    }

    /// The event `config` of `source`, in all modes.
    pub const fn new(source: EventSource, config: u64) -> Self {
        Self {
            source,
            config,
            config1: 0,
            privilege: Privilege::All,
        }
    }

    /// The same in another mode.
    #[must_use]
    pub const fn with(self, privilege: Privilege) -> Self {
        Self { privilege, ..self }
    }
}

/// Whether something may be called so: letters, digits, `_`, `.`, `:` and `-`, a letter first, a letter, digit or `_` last, [`MAX_NAME`]
/// at most. Such names need no quotes in any of the formats, and formulas know them from operators.
pub fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(byte);
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            bytes.len() <= MAX_NAME
                && first.is_ascii_alphabetic()
                && (last.is_ascii_alphanumeric() || *last == b'_')
                && bytes.iter().all(is_inner)
        }
        _ => false,
    }
}

/// Name and mode of `name:u`, `name:k`, `name:uk`; `None` without such an end.
pub(super) fn split_privilege(name: &str) -> Option<(&str, Privilege)> {
    let (name, end) = name.rsplit_once(':')?;
    let privilege = match end {
        "u" => Privilege::User,
        "k" => Privilege::Kernel,
        "uk" | "ku" => Privilege::All,
        _ => return None,
    };
    Some((name, privilege))
}

/// The code of a name that every machine may have: perf's names for events of hardware, caches and kernel, and `r` with hexadecimal digits
/// for raw ones.
pub fn generic(name: &str) -> Option<EventCode> {
    let find = |table: &[(&str, u64)]| {
        let found = table.iter().find(|(known, _)| *known == name);
        found.map(|&(_, config)| config)
    };
    if let Some(config) = find(&HARDWARE) {
        return Some(EventCode::new(EventSource::Hardware, config));
    }
    if let Some(config) = find(&SOFTWARE) {
        return Some(EventCode::new(EventSource::Software, config));
    }
    cache(name).or_else(|| raw(name))
}

/// All names of the kernel's own events and of those common to most processors, not of caches.
pub fn generic_names() -> impl Iterator<Item = &'static str> {
    HARDWARE.iter().chain(&SOFTWARE).map(|&(name, _)| name)
}

/// `perf_hw_id` in the kernel's interface.
const HARDWARE: [(&str, u64); 13] = [
    ("cycles", 0),
    ("cpu-cycles", 0),
    ("instructions", 1),
    ("cache-references", 2),
    ("cache-misses", 3),
    ("branches", 4),
    ("branch-instructions", 4),
    ("branch-misses", 5),
    ("bus-cycles", 6),
    ("stalled-cycles-frontend", 7),
    ("idle-cycles-frontend", 7),
    ("stalled-cycles-backend", 8),
    ("ref-cycles", 9),
];

/// `PERF_COUNT_SW_TASK_CLOCK`; the one before it is the processor's clock.
const TASK_CLOCK: u64 = 1;

/// `perf_sw_ids`.
const SOFTWARE: [(&str, u64); 14] = [
    ("cpu-clock", 0),
    ("task-clock", TASK_CLOCK),
    ("page-faults", 2),
    ("faults", 2),
    ("context-switches", 3),
    ("cs", 3),
    ("cpu-migrations", 4),
    ("migrations", 4),
    ("minor-faults", 5),
    ("major-faults", 6),
    ("alignment-faults", 7),
    ("emulation-faults", 8),
    ("dummy", 9),
    ("cgroup-switches", 11),
];

/// `perf_hw_cache_id`.
const CACHES: [(&str, u64); 7] = [
    ("L1-dcache", 0),
    ("L1-icache", 1),
    ("LLC", 2),
    ("dTLB", 3),
    ("iTLB", 4),
    ("branch", 5),
    ("node", 6),
];

/// Operation in the second byte, result (0 access, 1 miss) in the third.
const OPERATIONS: [(&str, u64); 6] = [
    ("loads", 0),
    ("stores", 1 << 8),
    ("prefetches", 2 << 8),
    ("load-misses", 1 << 16),
    ("store-misses", 1 << 8 | 1 << 16),
    ("prefetch-misses", 2 << 8 | 1 << 16),
];

fn cache(name: &str) -> Option<EventCode> {
    let (operation, rest) = CACHES
        .iter()
        .find_map(|(cache, id)| Some((name.strip_prefix(cache)?.strip_prefix('-')?, id)))?;
    let found = OPERATIONS.iter().find(|(known, _)| *known == operation)?;
    Some(EventCode::new(EventSource::Cache, rest | found.1))
}

fn raw(name: &str) -> Option<EventCode> {
    let digits = name.strip_prefix('r')?;
    let is_number = digits.len() <= 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let config = u64::from_str_radix(digits, 16).ok().filter(|_| is_number)?;
    Some(EventCode::new(EventSource::Raw, config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_kernels_interface() {
        let code = |name| generic(name).map(|code| (code.source.number(), code.config));
        assert_eq!(code("instructions"), Some((0, 1)));
        assert_eq!(code("context-switches"), Some((1, 3)));
        assert_eq!(code("L1-dcache-loads"), Some((3, 0)));
        assert_eq!(code("L1-icache-load-misses"), Some((3, 0x1_0001)));
        assert_eq!(code("LLC-store-misses"), Some((3, 0x1_0102)));
        assert_eq!(code("dTLB-prefetch-misses"), Some((3, 0x1_0203)));
        assert_eq!(code("r01c2"), Some((4, 0x1c2)));
        assert_eq!(code("rffffffffffffffff"), Some((4, u64::MAX)));
    }

    #[test]
    fn what_is_no_event_is_none() {
        for name in [
            "",
            "r",
            "r+1",
            "rx",
            "r11112222333344445",
            "L1-dcache",
            "L1-dcache-",
            "cycle",
            "LLC-loads-misses",
            "branch",
        ] {
            assert_eq!(generic(name), None, "{name}");
        }
    }

    #[test]
    fn names_need_no_quotes_anywhere() {
        for name in [
            "a",
            "L1-dcache-loads",
            "sched:sched_switch",
            "LD.X_1",
            "a:u",
        ] {
            assert!(is_name(name), "{name}");
        }
        let long = "a".repeat(MAX_NAME + 1);
        for name in [
            "", "1a", "-a", "a-", "a b", "a,b", "a\"", "a\n", "ä", "a/b", &long,
        ] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn a_mode_stands_at_the_end() {
        assert_eq!(
            split_privilege("cycles:u"),
            Some(("cycles", Privilege::User))
        );
        assert_eq!(split_privilege("a:b:k"), Some(("a:b", Privilege::Kernel)));
        assert_eq!(split_privilege("sched:sched_switch"), None);
        assert_eq!(split_privilege("cycles"), None);
    }
}
