//! Raw events of a processor's model, by name, and what its misses cost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::error::FileError;
use super::event::{EventCode, EventSource, Privilege, generic, is_name, split_privilege};
use super::file::{self, Number};
use super::reason::Reason;
use super::sets::{EventSet, EventSets};

/// The most events in a model file.
const MAX_MODEL_EVENTS: usize = 4096;

/// Whose processor it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuIdentity {
    /// As the processor says: `GenuineIntel`, `AuthenticAMD`; of ARM, the implementer: `0x41`.
    pub vendor: String,
    /// Family; of ARM the architecture.
    pub family: u64,
    /// Model; of ARM the part.
    pub model: u64,
}

impl CpuIdentity {
    /// From what the kernel says in `/proc/cpuinfo`; of the first processor. What it does not say is empty or 0.
    pub fn parse(cpuinfo: &str) -> Self {
        let field = |names: &[&str]| {
            let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            let found = lines.find(|(name, _)| names.contains(&name.trim()));
            found.map(|(_, value)| value.trim())
        };
        let number = |names: &[&str]| field(names).and_then(file::number).unwrap_or(0);
        Self {
            vendor: field(&["vendor_id", "CPU implementer"])
                .unwrap_or_default()
                .to_owned(),
            family: number(&["cpu family", "CPU architecture"]),
            model: number(&["model", "CPU part"]),
        }
    }
}

/// A model file: names of raw events and penalties of one or several models of processors.
#[derive(Clone, Debug)]
pub struct ModelFile {
    name: String,
    vendor: String,
    families: Vec<u64>,
    models: Vec<u64>,
    events: BTreeMap<String, EventCode>,
    penalties: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: String,
    vendor: String,
    #[serde(default)]
    families: Vec<Number>,
    #[serde(default)]
    models: Vec<Number>,
    #[serde(default)]
    events: BTreeMap<String, RawEvent>,
    #[serde(default)]
    penalties: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEvent {
    #[serde(default)]
    event: Option<Number>,
    #[serde(default)]
    umask: Option<Number>,
    #[serde(default)]
    cmask: Option<Number>,
    #[serde(default)]
    inv: bool,
    #[serde(default)]
    edge: bool,
    #[serde(default)]
    config: Option<Number>,
    #[serde(default)]
    config1: Option<Number>,
    #[serde(default)]
    #[expect(dead_code, reason = "for people who read the file")]
    description: String,
}

impl ModelFile {
    /// Reads a file, TOML or JSON.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is no model file.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        Self::parse(&file::read(path)?)
    }

    /// From the text of a file, TOML or JSON.
    ///
    /// # Errors
    ///
    /// It is no model file.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let raw: Raw = file::parse(text)?;
        if raw.events.len() > MAX_MODEL_EVENTS {
            return Err(FileError::Count {
                what: "events",
                given: raw.events.len(),
                max: MAX_MODEL_EVENTS,
            });
        }
        let is_amd = raw.vendor == "AuthenticAMD" || raw.vendor == "HygonGenuine";
        let mut events = BTreeMap::new();
        for (name, event) in raw.events {
            if !is_name(&name) {
                return Err(FileError::name("event", &name));
            }
            events.insert(name, event.code(is_amd));
        }
        for (name, penalty) in &raw.penalties {
            if !(penalty.is_finite() && *penalty >= 0.0) {
                return Err(FileError::Penalty {
                    name: file::shorten(name),
                    given: *penalty,
                });
            }
        }
        let numbers = |numbers: Vec<Number>| numbers.into_iter().map(|number| number.0).collect();
        Ok(Self {
            name: raw.name,
            vendor: raw.vendor,
            families: numbers(raw.families),
            models: numbers(raw.models),
            events,
            penalties: raw.penalties,
        })
    }

    /// What it calls the models that it is of.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is of this processor: the same vendor, and one of the families and models, if it names any.
    pub fn fits(&self, cpu: &CpuIdentity) -> bool {
        let is_among = |numbers: &[u64], number| numbers.is_empty() || numbers.contains(&number);
        self.vendor == cpu.vendor
            && is_among(&self.families, cpu.family)
            && is_among(&self.models, cpu.model)
    }

    /// Mean costs of misses, in cycles, by name.
    pub const fn penalties(&self) -> &BTreeMap<String, f64> {
        &self.penalties
    }
}

impl RawEvent {
    fn code(&self, is_amd: bool) -> EventCode {
        let number = |number: &Option<Number>| number.as_ref().map_or(0, |number| number.0);
        let event = number(&self.event);
        let config = number(&self.config)
            | (event & 0xff)
            // Bits 8 to 11 of AMD's event numbers stand above all others.
            | if is_amd { (event >> 8 & 0xf) << 32 } else { event & !0xff }
            | (number(&self.umask) & 0xff) << 8
            | u64::from(self.edge) << 18
            | u64::from(self.inv) << 23
            | (number(&self.cmask) & 0xff) << 24;
        EventCode {
            config1: number(&self.config1),
            ..EventCode::new(EventSource::Raw, config)
        }
    }
}

/// Models whose files come with the library.
const SHIPPED: [&str; 3] = [
    include_str!("models/intel-skylake.toml"),
    include_str!("models/amd-zen.toml"),
    include_str!("models/arm-v8.toml"),
];

/// Names to events: model files first, then those that every machine may have, then tracepoints (`sched:sched_switch`). `:u` or `:k` at the
/// end counts what programs or the kernel do alone.
#[derive(Clone, Debug, Default)]
pub struct Names {
    models: Vec<ModelFile>,
    root: Option<PathBuf>,
    /// In a replay, all names that there are: their index is their code.
    recorded: Option<Vec<String>>,
}

impl Names {
    /// The generic names alone.
    pub fn generic() -> Self {
        Self::default()
    }

    /// Those of the system whose `proc` and `sys` are in `root` (`/`, except in tests): with the shipped model files that fit its processor, and its
    /// tracepoints.
    pub fn of_system(root: &Path) -> Self {
        let cpuinfo = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
        let cpu = CpuIdentity::parse(&cpuinfo);
        let shipped = SHIPPED
            .iter()
            .filter_map(|text| ModelFile::parse(text).ok());
        Self {
            models: shipped.filter(|model| model.fits(&cpu)).collect(),
            root: Some(root.to_owned()),
            recorded: None,
        }
    }

    /// Those of the events of sets that were recorded, by their index.
    pub(super) fn recorded(sets: &EventSets) -> Self {
        let names = sets.sets().iter().flat_map(EventSet::events).cloned();
        let names: BTreeSet<_> = names.collect();
        Self {
            recorded: Some(names.into_iter().collect()),
            ..Self::default()
        }
    }

    /// With a model file more, which goes before the others; whether it fits is for the caller to judge.
    #[must_use]
    pub fn model(mut self, model: ModelFile) -> Self {
        self.models.insert(0, model);
        self
    }

    /// The model files, in the order in which they are asked.
    pub fn models(&self) -> &[ModelFile] {
        &self.models
    }

    /// A penalty, in cycles, of the first model file that has it.
    pub fn penalty(&self, name: &str) -> Option<f64> {
        let mut penalties = self.models.iter().map(ModelFile::penalties);
        penalties.find_map(|penalties| penalties.get(name).copied())
    }

    /// The event of a name.
    ///
    /// # Errors
    ///
    /// [`Reason::UnknownEvent`], [`Reason::UnknownTracepoint`] of a group that the kernel has, [`Reason::UnknownModifier`] behind the name of an
    /// event, or [`Reason::NoTracefs`] for a tracepoint where those cannot be read.
    pub fn resolve(&self, name: &str) -> Result<EventCode, Reason> {
        if let Some(recorded) = &self.recorded {
            let index = recorded.iter().position(|known| known == name);
            let index = index.ok_or(Reason::NotRecorded)?;
            return Ok(EventCode::new(EventSource::Raw, index as u64));
        }
        let reason = match self.resolve_plain(name) {
            Err(reason) => reason,
            found => return found,
        };
        if let Some((event, privilege)) = split_privilege(name) {
            return Ok(self.resolve_plain(event)?.with(privilege));
        }
        let event = name
            .rsplit_once(':')
            .map(|(event, _)| self.resolve_plain(event));
        Err(match event {
            // A tracepoint that cannot be looked up is one all the same: what stands behind it is no part of its name.
            Some(Ok(_) | Err(Reason::NoTracefs)) => Reason::UnknownModifier,
            Some(Err(Reason::UnknownTracepoint)) => Reason::UnknownTracepoint,
            Some(Err(_)) | None => reason,
        })
    }

    fn resolve_plain(&self, name: &str) -> Result<EventCode, Reason> {
        let in_models = self.models.iter().find_map(|model| model.events.get(name));
        if let Some(code) = in_models.copied().or_else(|| generic(name)) {
            return Ok(code);
        }
        match name.split_once(':') {
            Some((group, event)) if is_name(group) && is_name(event) => {
                self.tracepoint(group, event)
            }
            _ => Err(Reason::UnknownEvent),
        }
    }

    fn tracepoint(&self, group: &str, event: &str) -> Result<EventCode, Reason> {
        // A mode is no tracepoint, and no path leads out of the directory.
        let is_plain = |part: &str| !part.contains("..") && !part.contains(':');
        if !(is_plain(group) && is_plain(event)) || split_privilege(&format!(":{event}")).is_some()
        {
            return Err(Reason::UnknownEvent);
        }
        let root = self.root.as_ref().ok_or(Reason::UnknownEvent)?;
        let (mut is_there, mut has_group, mut has_event) = (false, false, false);
        for directory in [
            "sys/kernel/tracing/events",
            "sys/kernel/debug/tracing/events",
        ] {
            let events = root.join(directory);
            is_there |= fs::metadata(&events).is_ok();
            has_group |= fs::metadata(events.join(group)).is_ok();
            let id = events.join(group).join(event).join("id");
            has_event |= fs::metadata(&id).is_ok();
            let id = fs::read_to_string(id);
            if let Some(id) = id.ok().and_then(|id| id.trim().parse().ok()) {
                return Ok(EventCode {
                    privilege: Privilege::All,
                    ..EventCode::new(EventSource::Tracepoint, id)
                });
            }
        }
        Err(match (is_there, has_group, has_event) {
            (_, _, true) | (false, false, false) => Reason::NoTracefs,
            (_, true, false) => Reason::UnknownTracepoint,
            (true, false, false) => Reason::UnknownEvent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTEL: &str = "
        name = 'Test'
        vendor = 'GenuineIntel'
        families = [6]
        models = [0x55, '0x9e']
        [events]
        'L1D.REPLACEMENT' = { event = 0x51, umask = 0x01 }
        cycles = { event = '0x3c', cmask = 2, inv = true, edge = true }
        [penalties]
        llc = 40
        memory = 180.5
    ";

    #[test]
    fn processors_are_told_by_what_the_kernel_says() {
        let intel = CpuIdentity::parse(
            "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nmodel name\t: X\n",
        );
        assert_eq!(
            (&*intel.vendor, intel.family, intel.model),
            ("GenuineIntel", 6, 85)
        );
        let arm =
            CpuIdentity::parse("CPU implementer : 0x41\nCPU architecture: 8\nCPU part : 0xd0c\n");
        assert_eq!((&*arm.vendor, arm.family, arm.model), ("0x41", 8, 0xd0c));
        assert_eq!(CpuIdentity::parse("nonsense"), CpuIdentity::default());
        let model = ModelFile::parse(INTEL).unwrap();
        assert!(model.fits(&intel) && !model.fits(&arm));
        assert!(model.fits(&CpuIdentity {
            model: 0x9e,
            ..intel.clone()
        }));
        assert!(!model.fits(&CpuIdentity { model: 1, ..intel }));
    }

    #[test]
    fn a_model_file_names_raw_events_and_goes_first() {
        let names = Names::generic().model(ModelFile::parse(INTEL).unwrap());
        let replacement = names.resolve("L1D.REPLACEMENT").unwrap();
        assert_eq!(
            (replacement.source, replacement.config),
            (EventSource::Raw, 0x151)
        );
        let cycles = names.resolve("cycles:u").unwrap();
        assert_eq!(cycles.config, 0x3c | 1 << 18 | 1 << 23 | 2 << 24);
        assert_eq!(cycles.privilege, Privilege::User);
        assert_eq!(
            names.resolve("instructions").unwrap().source,
            EventSource::Hardware
        );
        assert_eq!(names.penalty("memory"), Some(180.5));
        assert_eq!(names.penalty("tlb"), None);
    }

    #[test]
    fn amd_has_the_upper_bits_elsewhere() {
        let text =
            r#"{"name":"Z","vendor":"AuthenticAMD","events":{"X":{"event":"0x1a9","umask":255}}}"#;
        let names = Names::generic().model(ModelFile::parse(text).unwrap());
        assert_eq!(
            names.resolve("X").unwrap().config,
            0xa9 | 0xff << 8 | 1 << 32
        );
    }

    #[test]
    fn shipped_models_can_be_read() {
        for text in SHIPPED {
            let model = ModelFile::parse(text).unwrap();
            assert!(!model.events.is_empty(), "{}", model.name());
        }
    }

    #[test]
    fn tracepoints_are_found_where_they_are_and_nowhere_else() {
        let root = tempfile::tempdir().unwrap();
        let names = Names::of_system(root.path());
        assert_eq!(names.resolve("sched:sched_switch"), Err(Reason::NoTracefs));
        let directory = root
            .path()
            .join("sys/kernel/tracing/events/sched/sched_switch");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("id"), "314\n").unwrap();
        let found = names.resolve("sched:sched_switch").unwrap();
        assert_eq!((found.source, found.config), (EventSource::Tracepoint, 314));
        assert_eq!(
            names.resolve("sched:sched_switch:k").unwrap().privilege,
            Privilege::Kernel
        );
        // Not a file that anybody can read, as one without permission is not to most users.
        fs::create_dir_all(directory.with_file_name("sched_waking").join("id")).unwrap();
        assert_eq!(names.resolve("sched:sched_waking"), Err(Reason::NoTracefs));
        for none in ["sched:none", "sched:none:u", "sched:none:x"] {
            assert_eq!(
                names.resolve(none),
                Err(Reason::UnknownTracepoint),
                "{none}"
            );
        }
        assert_eq!(names.resolve("scheduler:none"), Err(Reason::UnknownEvent));
        assert_eq!(names.resolve("nothing"), Err(Reason::UnknownEvent));
        assert_eq!(names.resolve("nothing:u"), Err(Reason::UnknownEvent));
        assert_eq!(names.resolve("a..b:c"), Err(Reason::UnknownEvent));
    }

    #[test]
    fn a_modifier_that_there_is_not_is_told_from_a_name_that_there_is_not() {
        let root = tempfile::tempdir().unwrap();
        let modifier = Err(Reason::UnknownModifier);
        for is_mounted in [false, true] {
            let names = Names::of_system(root.path());
            let names = names.model(ModelFile::parse(INTEL).unwrap());
            for name in [
                "page-faults:x",
                "cycles:U",
                "cycles:",
                "r01c2:uu",
                "LLC-load-misses:kk",
                "L1D.REPLACEMENT:p",
                "sched:sched_switch:h",
            ] {
                assert_eq!(names.resolve(name), modifier, "{name}");
            }
            let (unknown, tracepoint) = if is_mounted {
                (Reason::UnknownEvent, Reason::UnknownEvent)
            } else {
                (Reason::UnknownEvent, Reason::NoTracefs)
            };
            assert_eq!(names.resolve("nothing"), Err(unknown));
            assert_eq!(names.resolve("nothing:x"), Err(tracepoint));
            assert_eq!(names.resolve("nothing:u"), Err(unknown));
            let directory = root
                .path()
                .join("sys/kernel/tracing/events/sched/sched_switch");
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("id"), "314\n").unwrap();
        }
        let said = Reason::UnknownModifier.to_string();
        assert!(
            [":u", ":k", ":uk"].iter().all(|known| said.contains(known)),
            "{said}"
        );
    }

    #[test]
    fn bad_files_are_refused() {
        for text in [
            "",
            "name = 1",
            "name = 'a'\nvendor = 'b'\n[events]\n'a b' = {}",
            "name = 'a'\nvendor = 'b'\n[events]\na = { evnt = 1 }",
            "name = 'a'\nvendor = 'b'\n[events]\na = { event = -1 }",
            "name = 'a'\nvendor = 'b'\n[events]\na = { event = '0xg' }",
            "name = 'a'\nvendor = 'b'\n[penalties]\nl2 = -1.0",
            "name = 'a'\nvendor = 'b'\n[penalties]\nl2 = nan",
        ] {
            assert!(ModelFile::parse(text).is_err(), "{text}");
        }
    }
}
