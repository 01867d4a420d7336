//! Readers of processor load: the kernel's files, kept open, through the core's parsers.

mod cgroup;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

use self::cgroup::CgroupDir;
pub use crate::control::load::LoadSource;
use crate::control::load::{
    CgroupThrottling, CgroupUsage, CpuQuota, CpuSet, LoadError, LoadMeter, Processors, Reading,
    parse_cfs_quota, parse_cgroup_cpu_stat, parse_cgroup_v1_cpu_stat, parse_cgroup_v1_usage,
    parse_cpu_max, parse_cpus_allowed, parse_loadavg, parse_pressure, parse_stat, parse_stat_of,
    parse_stat_processors,
};
use crate::reread::read_at_start;
use crate::units::{CpuLoad, Time};

/// Why the load cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadReadError {
    /// The system has no such file: it isn't Linux, or it is an older or a restricted one.
    #[error("this system has no {}", path.display())]
    Unsupported {
        /// The file that is missing.
        path: PathBuf,
    },
    /// The process's cgroup has no processor accounting that is mounted.
    #[error("no cgroup with processor accounting is mounted")]
    NoCgroup,
    /// A file cannot be opened or read.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file, or what it says compared with the last time, makes no sense.
    #[error("{} makes no sense", path.display())]
    Nonsense {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: LoadError,
    },
}

/// Reads one [`LoadSource`] again and again.
///
/// Files are opened once; a reading costs a system call for each file (one; for a cgroup with a
/// quota two in v2, four in v1) and allocates nothing. It doesn't wait for a disk, so it may run on
/// an executor's thread.
#[derive(Debug)]
pub struct LoadReader {
    source: Source,
    /// The processors that the process is allowed to run on.
    allowed: Processors,
    /// And the quota, as of the last reading.
    processors: Processors,
    meter: LoadMeter,
    buffer: Vec<u8>,
}

#[derive(Debug)]
enum Source {
    Node {
        stat: OpenFile,
        /// Only these, if the process may not run on all.
        some: Option<CpuSet>,
    },
    CgroupV2 {
        stat: OpenFile,
        /// The root group has none.
        max: Option<OpenFile>,
    },
    CgroupV1 {
        usage: OpenFile,
        limit: Option<V1Limit>,
    },
    Pressure(OpenFile),
    RunQueue(OpenFile),
    LoadAverage(OpenFile),
    Supplied(LoadSupply),
}

#[derive(Debug)]
struct V1Limit {
    quota: OpenFile,
    period: OpenFile,
    stat: OpenFile,
}

impl LoadReader {
    /// The default source of this system: [`LoadSource::Cgroup`] where a quota is set, else
    /// [`LoadSource::Node`].
    ///
    /// # Errors
    ///
    /// As [`LoadReader::open`].
    pub fn detect() -> Result<Self, LoadReadError> {
        Self::detect_in(Path::new("/"))
    }

    /// As [`LoadReader::detect`], with the system's root directory (that of `proc` and `sys`) at
    /// `root`.
    ///
    /// # Errors
    ///
    /// As [`LoadReader::open`].
    pub fn detect_in(root: &Path) -> Result<Self, LoadReadError> {
        match Self::open_cgroup(root) {
            Ok((reader, CpuQuota::Limited(_))) => Ok(reader),
            _ => Self::open(LoadSource::Node, root),
        }
    }

    /// A reader of `source`, with the system's root directory (that of `proc` and `sys`) at `root`;
    /// `/`, except in tests.
    ///
    /// # Errors
    ///
    /// [`LoadReadError::Unsupported`] on a system without `/proc` or the file in question,
    /// [`LoadReadError::NoCgroup`] without a cgroup that accounts for processor time, and
    /// [`LoadReadError::Io`] or [`LoadReadError::Nonsense`] if a file can't be read or understood.
    /// [`LoadSource::Supplied`] always opens.
    pub fn open(source: LoadSource, root: &Path) -> Result<Self, LoadReadError> {
        let proc = root.join("proc");
        let source = match source {
            LoadSource::Node => return Self::open_node(&proc),
            LoadSource::Cgroup => return Self::open_cgroup(root).map(|(reader, _)| reader),
            LoadSource::Pressure => Source::Pressure(OpenFile::open(proc.join("pressure/cpu"))?),
            LoadSource::RunQueue => Source::RunQueue(OpenFile::open(proc.join("loadavg"))?),
            LoadSource::LoadAverage => Source::LoadAverage(OpenFile::open(proc.join("loadavg"))?),
            LoadSource::Supplied => Source::Supplied(LoadSupply::new()),
        };
        let allowed = allowed_processors(&proc).map(|set| set.count());
        Ok(Self::new(source, allowed))
    }

    fn open_node(proc: &Path) -> Result<Self, LoadReadError> {
        let path = proc.join("stat");
        let stat = OpenFile::open(path.clone())?;
        let text = read_once(&path)?;
        let allowed = allowed_processors(proc);
        let all_allowed = |set: &CpuSet| {
            parse_stat_processors(&text)
                .filter_map(Result::ok)
                .all(|(index, _)| set.contains(index))
        };
        let some = allowed.clone().filter(|set| !all_allowed(set));
        let mut reader = Self::new(Source::Node { stat, some }, allowed.map(|set| set.count()));
        // Room for the lines of every processor, which come first; a tick count has 20 digits at
        // most, but that many in one line are not to be expected.
        let lines = parse_stat_processors(&text).count() + 1;
        reader.buffer.resize(BUFFER.max(lines * 256), 0);
        Ok(reader)
    }

    /// Also gives the quota that was found.
    fn open_cgroup(root: &Path) -> Result<(Self, CpuQuota), LoadReadError> {
        let proc = root.join("proc");
        let cgroups = read_once(&proc.join("self/cgroup"))?;
        let mountinfo = read_once(&proc.join("self/mountinfo"))?;
        let dir = cgroup::find(&cgroups, &mountinfo).ok_or(LoadReadError::NoCgroup)?;

        // Whoever has the tightest quota among the group and its ancestors is the one to watch:
        // that group is throttled, and us with it.
        let (source, quota) = match dir {
            CgroupDir::V2(location) => {
                let (level, quota) = tightest(location.ancestry(root), |dir| {
                    v2_quota(&dir.join("cpu.max"))
                });
                let dir = location.above(root, level);
                let source = Source::CgroupV2 {
                    stat: OpenFile::open(dir.join("cpu.stat"))?,
                    max: OpenFile::open(dir.join("cpu.max")).ok(),
                };
                (source, quota)
            }
            CgroupDir::V1 { cpu, cpuacct } => {
                let (level, quota) = tightest(cpu.ancestry(root), v1_quota);
                let dir = cpu.above(root, level);
                let source = Source::CgroupV1 {
                    usage: OpenFile::open(cpuacct.above(root, level).join("cpuacct.usage"))?,
                    limit: V1Limit::open(&dir).ok(),
                };
                (source, quota)
            }
        };
        let allowed = allowed_processors(&proc).map(|set| set.count());
        let mut reader = Self::new(source, allowed);
        reader.processors = quota.within(reader.allowed);
        Ok((reader, quota))
    }

    fn new(source: Source, allowed: Option<Processors>) -> Self {
        let allowed = allowed.unwrap_or_else(|| {
            std::thread::available_parallelism()
                .ok()
                .and_then(|count| Processors::new(count.get() as f64))
                .unwrap_or(Processors::ONE)
        });
        Self {
            source,
            allowed,
            processors: allowed,
            meter: LoadMeter::new(),
            buffer: vec![0; BUFFER],
        }
    }

    /// What is read.
    pub const fn source(&self) -> LoadSource {
        match self.source {
            Source::Node { .. } => LoadSource::Node,
            Source::CgroupV2 { .. } | Source::CgroupV1 { .. } => LoadSource::Cgroup,
            Source::Pressure(_) => LoadSource::Pressure,
            Source::RunQueue(_) => LoadSource::RunQueue,
            Source::LoadAverage(_) => LoadSource::LoadAverage,
            Source::Supplied(_) => LoadSource::Supplied,
        }
    }

    /// The processors that the load is a share of: those the process may run on, or the quota of its
    /// cgroup as of the last reading if [`LoadSource::Cgroup`] is read and that is less.
    pub const fn processors(&self) -> Processors {
        self.processors
    }

    /// Where the application says the load, if that is the source.
    pub fn supply(&self) -> Option<LoadSupply> {
        match &self.source {
            Source::Supplied(supply) => Some(supply.clone()),
            _ => None,
        }
    }

    /// The load since the reading before; `None` at the first reading of a source that counts, and
    /// before the application has supplied a load.
    ///
    /// # Errors
    ///
    /// [`LoadReadError::Io`] or [`LoadReadError::Nonsense`]. The next reading may do nevertheless.
    pub fn read(&mut self, now: Time) -> Result<Option<CpuLoad>, LoadReadError> {
        let buffer = &mut self.buffer[..];
        let (reading, file) = match &self.source {
            Source::Node { stat, some } => {
                let times = stat.read(buffer, |text| match some {
                    Some(set) => parse_stat_of(text, set),
                    None => parse_stat(text),
                })?;
                (Reading::Node(times), stat)
            }
            Source::CgroupV2 { stat, max } => {
                let usage = stat.read(buffer, parse_cgroup_cpu_stat)?;
                if let Some(max) = max {
                    self.processors = max.read(buffer, parse_cpu_max)?.within(self.allowed);
                }
                let processors = self.processors;
                (Reading::Cgroup { usage, processors }, stat)
            }
            Source::CgroupV1 { usage, limit } => {
                let nanos = usage.read(buffer, parse_cgroup_v1_usage)?;
                let mut throttling = CgroupThrottling::default();
                if let Some(limit) = limit {
                    let (quota, stat) = limit.read(buffer)?;
                    self.processors = quota.within(self.allowed);
                    throttling = stat;
                }
                let reading = Reading::Cgroup {
                    usage: CgroupUsage { nanos, throttling },
                    processors: self.processors,
                };
                (reading, usage)
            }
            Source::Pressure(file) => (Reading::Pressure(file.read(buffer, parse_pressure)?), file),
            Source::RunQueue(file) => {
                let reading = Reading::RunQueue {
                    runnable: file.read(buffer, parse_loadavg)?.runnable,
                    processors: self.processors,
                };
                (reading, file)
            }
            Source::LoadAverage(file) => {
                let reading = Reading::LoadAverage {
                    one_minute: file.read(buffer, parse_loadavg)?.one_minute,
                    processors: self.processors,
                };
                (reading, file)
            }
            Source::Supplied(supply) => return Ok(supply.get()),
        };
        self.meter
            .record(now, reading)
            .map_err(|error| file.nonsense(error))
    }
}

/// Where the application says how busy the processors are, for [`LoadSource::Supplied`]. Clones
/// speak to the same reader.
#[derive(Clone, Debug)]
pub struct LoadSupply {
    /// The bits of a load; those of NaN until there is one.
    bits: Arc<AtomicU64>,
}

impl LoadSupply {
    fn new() -> Self {
        Self {
            bits: Arc::new(AtomicU64::new(f64::NAN.to_bits())),
        }
    }

    /// The load is `load` from now on, until said otherwise.
    pub fn set(&self, load: CpuLoad) {
        // Nothing else is published with it.
        self.bits.store(load.get().to_bits(), Ordering::Relaxed);
    }

    fn get(&self) -> Option<CpuLoad> {
        let load = f64::from_bits(self.bits.load(Ordering::Relaxed));
        (!load.is_nan()).then(|| CpuLoad::new(load))
    }
}

/// Enough for the first line of `/proc/stat`, and for the whole of every other file.
const BUFFER: usize = 4096;

impl V1Limit {
    fn open(dir: &Path) -> Result<Self, LoadReadError> {
        Ok(Self {
            quota: OpenFile::open(dir.join("cpu.cfs_quota_us"))?,
            period: OpenFile::open(dir.join("cpu.cfs_period_us"))?,
            stat: OpenFile::open(dir.join("cpu.stat"))?,
        })
    }

    fn read(&self, buffer: &mut [u8]) -> Result<(CpuQuota, CgroupThrottling), LoadReadError> {
        let (first, second) = buffer.split_at_mut(BUFFER / 2);
        let quota = parse_cfs_quota(self.quota.text(first)?, self.period.text(second)?)
            .map_err(|error| self.quota.nonsense(error))?;
        Ok((quota, self.stat.read(first, parse_cgroup_v1_cpu_stat)?))
    }
}

/// The level above the group, and the quota, of the tightest one; level 0 if there is none.
fn tightest(
    ancestry: impl Iterator<Item = PathBuf>,
    quota: impl Fn(&Path) -> Option<CpuQuota>,
) -> (usize, CpuQuota) {
    let limit_of = |quota| match quota {
        CpuQuota::Unlimited => f64::INFINITY,
        CpuQuota::Limited(processors) => processors.get(),
    };
    let mut best = (0, CpuQuota::Unlimited);
    for (level, dir) in ancestry.enumerate() {
        if let Some(quota) = quota(&dir) {
            if limit_of(quota) < limit_of(best.1) {
                best = (level, quota);
            }
        }
    }
    best
}

fn v2_quota(path: &Path) -> Option<CpuQuota> {
    parse_cpu_max(&fs::read_to_string(path).ok()?).ok()
}

fn v1_quota(dir: &Path) -> Option<CpuQuota> {
    let quota = fs::read_to_string(dir.join("cpu.cfs_quota_us")).ok()?;
    let period = fs::read_to_string(dir.join("cpu.cfs_period_us")).ok()?;
    parse_cfs_quota(&quota, &period).ok()
}

/// The affinity, without the rounding down to whole processors that
/// [`std::thread::available_parallelism`] does for a quota.
fn allowed_processors(proc: &Path) -> Option<CpuSet> {
    parse_cpus_allowed(&fs::read_to_string(proc.join("self/status")).ok()?).ok()
}

fn read_once(path: &Path) -> Result<String, LoadReadError> {
    fs::read_to_string(path).map_err(|error| LoadReadError::of(path, error))
}

impl LoadReadError {
    fn of(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::Unsupported => Self::Unsupported { path },
            _ => Self::Io { path, source },
        }
    }
}

/// A file that is read from its beginning again and again.
#[derive(Debug)]
struct OpenFile {
    file: File,
    path: PathBuf,
}

impl OpenFile {
    fn open(path: PathBuf) -> Result<Self, LoadReadError> {
        match File::open(&path) {
            Ok(file) => Ok(Self { file, path }),
            Err(error) => Err(LoadReadError::of(&path, error)),
        }
    }

    fn read<T>(
        &self,
        buffer: &mut [u8],
        parse: impl FnOnce(&str) -> Result<T, LoadError>,
    ) -> Result<T, LoadReadError> {
        parse(self.text(buffer)?).map_err(|error| self.nonsense(error))
    }

    /// One call: the kernel renders such a file as a whole at each.
    fn text<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b str, LoadReadError> {
        let read = read_at_start(&self.file, buffer);
        let len = read.map_err(|source| LoadReadError::Io {
            path: self.path.clone(),
            source,
        })?;
        let bytes = buffer.get(..len).unwrap_or_default();
        // These files are ASCII. Whatever comes after another byte is as good as missing.
        Ok(match core::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => core::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        })
    }

    fn nonsense(&self, source: LoadError) -> LoadReadError {
        LoadReadError::Nonsense {
            path: self.path.clone(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root directory with a few files.
    struct Fixture(tempfile::TempDir);

    impl Fixture {
        fn new(files: &[(&str, &str)]) -> Self {
            let fixture = Self(tempfile::tempdir().unwrap());
            for (path, text) in files {
                fixture.write(path, text);
            }
            fixture
        }

        fn root(&self) -> &Path {
            self.0.path()
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.root().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            // In place: the reader keeps the file open.
            fs::write(path, text).unwrap();
        }
    }

    const STATUS: (&str, &str) = ("proc/self/status", "Cpus_allowed_list:\t0-1\n");
    const V2_MOUNT: (&str, &str) = (
        "proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    );

    fn at_millis(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn load(reader: &mut LoadReader, millis: u64) -> f64 {
        reader.read(at_millis(millis)).unwrap().unwrap().get()
    }

    #[test]
    fn node_load_follows_the_file() {
        let fixture = Fixture::new(&[STATUS, ("proc/stat", "cpu  10 0 0 90\ncpu0 5 0 0 45\n")]);
        let mut reader = LoadReader::detect_in(fixture.root()).unwrap();
        assert_eq!(reader.source(), LoadSource::Node);
        assert_eq!(reader.processors(), Processors::new(2.0).unwrap());
        assert_eq!(reader.read(at_millis(0)).unwrap(), None);
        fixture.write("proc/stat", "cpu  25 0 0 95\ncpu0 5 0 0 45\n");
        assert!((load(&mut reader, 100) - 0.75).abs() < 1e-6);
        fixture.write("proc/stat", "nothing\n");
        assert!(matches!(
            reader.read(at_millis(200)),
            Err(LoadReadError::Nonsense { .. })
        ));
    }

    #[test]
    fn node_load_is_that_of_the_processors_allowed() {
        let stat = "cpu  0 0 0 0\ncpu0 0 0 0 0\ncpu1 0 0 0 0\ncpu2 0 0 0 0\n";
        let fixture = Fixture::new(&[STATUS, ("proc/stat", stat)]);
        let mut reader = LoadReader::open(LoadSource::Node, fixture.root()).unwrap();
        assert_eq!(reader.read(at_millis(0)).unwrap(), None);
        let stat = "cpu  20 0 0 10\ncpu0 10 0 0 0\ncpu1 10 0 0 0\ncpu2 0 0 0 10\n";
        fixture.write("proc/stat", stat);
        assert!((load(&mut reader, 100) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_quota_of_an_ancestor_is_the_one_that_counts() {
        let fixture = Fixture::new(&[
            STATUS,
            V2_MOUNT,
            ("proc/stat", "cpu  0 0 0 0\n"),
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/cpu.max", "50000 100000\n"),
            (
                "sys/fs/cgroup/a/cpu.stat",
                "usage_usec 0\nthrottled_usec 0\n",
            ),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/b/cpu.stat", "usage_usec 0\n"),
        ]);
        let mut reader = LoadReader::detect_in(fixture.root()).unwrap();
        assert_eq!(reader.source(), LoadSource::Cgroup);
        assert_eq!(reader.processors(), Processors::new(0.5).unwrap());
        assert_eq!(reader.read(at_millis(0)).unwrap(), None);
        fixture.write(
            "sys/fs/cgroup/a/cpu.stat",
            "usage_usec 30000\nthrottled_usec 5000\n",
        );
        assert!((load(&mut reader, 100) - 0.7).abs() < 1e-6);
        // The quota is lifted while we run.
        fixture.write("sys/fs/cgroup/a/cpu.max", "max 100000\n");
        fixture.write(
            "sys/fs/cgroup/a/cpu.stat",
            "usage_usec 90000\nthrottled_usec 5000\n",
        );
        assert!((load(&mut reader, 200) - 0.3).abs() < 1e-6);
        assert_eq!(reader.processors(), Processors::new(2.0).unwrap());
    }

    #[test]
    fn v1_and_hybrid_read_the_controllers_where_they_are() {
        let fixture = Fixture::new(&[
            STATUS,
            (
                "proc/self/mountinfo",
                "1 0 0:1 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                 2 0 0:2 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                 3 0 0:3 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n",
            ),
            ("proc/self/cgroup", "2:cpuacct:/g\n1:cpu:/g\n0::/\n"),
            ("sys/fs/cgroup/cpu/g/cpu.cfs_quota_us", "150000\n"),
            ("sys/fs/cgroup/cpu/g/cpu.cfs_period_us", "100000\n"),
            (
                "sys/fs/cgroup/cpu/g/cpu.stat",
                "nr_throttled 0\nthrottled_time 0\n",
            ),
            ("sys/fs/cgroup/cpuacct/g/cpuacct.usage", "0\n"),
        ]);
        let mut reader = LoadReader::detect_in(fixture.root()).unwrap();
        assert_eq!(reader.source(), LoadSource::Cgroup);
        assert_eq!(reader.processors(), Processors::new(1.5).unwrap());
        assert_eq!(reader.read(at_millis(0)).unwrap(), None);
        fixture.write("sys/fs/cgroup/cpuacct/g/cpuacct.usage", "60000000\n");
        fixture.write(
            "sys/fs/cgroup/cpu/g/cpu.stat",
            "nr_throttled 1\nthrottled_time 15000000\n",
        );
        assert!((load(&mut reader, 100) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn the_root_group_has_no_quota_and_the_node_is_the_default() {
        let fixture = Fixture::new(&[
            STATUS,
            V2_MOUNT,
            ("proc/stat", "cpu  0 0 0 0\n"),
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/cpu.stat", "usage_usec 0\n"),
        ]);
        let reader = LoadReader::detect_in(fixture.root()).unwrap();
        assert_eq!(reader.source(), LoadSource::Node);
        let mut reader = LoadReader::open(LoadSource::Cgroup, fixture.root()).unwrap();
        assert_eq!(reader.read(at_millis(0)).unwrap(), None);
        fixture.write("sys/fs/cgroup/cpu.stat", "usage_usec 100000\n");
        assert!((load(&mut reader, 100) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn pressure_and_both_loads_of_loadavg() {
        let fixture = Fixture::new(&[
            STATUS,
            ("proc/pressure/cpu", "some avg10=0.00 total=0\n"),
            ("proc/loadavg", "1.00 0.5 0.1 2/80 99\n"),
        ]);
        let open = |source| LoadReader::open(source, fixture.root()).unwrap();
        let mut pressure = open(LoadSource::Pressure);
        assert_eq!(pressure.read(at_millis(0)).unwrap(), None);
        fixture.write("proc/pressure/cpu", "some avg10=0.00 total=40000\n");
        assert!((load(&mut pressure, 100) - 0.4).abs() < 1e-6);
        assert!((load(&mut open(LoadSource::RunQueue), 0) - 0.5).abs() < 1e-6);
        assert!((load(&mut open(LoadSource::LoadAverage), 0) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn the_application_can_supply_the_load() {
        let fixture = Fixture::new(&[]);
        let mut reader = LoadReader::open(LoadSource::Supplied, fixture.root()).unwrap();
        let supply = reader.supply().unwrap();
        assert_eq!(reader.read(Time::ZERO).unwrap(), None);
        supply.set(CpuLoad::FULL);
        assert_eq!(reader.read(Time::ZERO).unwrap(), Some(CpuLoad::FULL));
    }

    #[test]
    fn a_system_without_proc_says_so() {
        let fixture = Fixture::new(&[]);
        for source in [
            LoadSource::Node,
            LoadSource::Cgroup,
            LoadSource::Pressure,
            LoadSource::RunQueue,
            LoadSource::LoadAverage,
        ] {
            let error = LoadReader::open(source, fixture.root()).unwrap_err();
            assert!(
                matches!(error, LoadReadError::Unsupported { .. }),
                "{error}"
            );
        }
        assert!(LoadReader::detect_in(fixture.root()).is_err());
    }

    /// Prints what a reading costs here; judges nothing but that it works.
    #[test]
    #[cfg(target_os = "linux")]
    #[expect(clippy::disallowed_methods, reason = "measures the cost of a reading")]
    fn the_sources_of_this_system_can_be_read() {
        const READINGS: u32 = 500;

        for source in [
            LoadSource::Node,
            LoadSource::Cgroup,
            LoadSource::Pressure,
            LoadSource::RunQueue,
            LoadSource::LoadAverage,
        ] {
            let mut reader = match LoadReader::open(source, Path::new("/")) {
                Ok(reader) => reader,
                Err(error) => {
                    println!("{source}: skipped, {error}");
                    continue;
                }
            };
            let start = std::time::Instant::now();
            for step in 0..READINGS {
                match reader.read(at_millis(u64::from(step))) {
                    // Many readings fall within one tick of the kernel's.
                    Ok(_) | Err(LoadReadError::Nonsense { .. }) => {}
                    Err(error) => panic!("{source}: {error}"),
                }
            }
            println!("{source}: {:?} a reading", start.elapsed() / READINGS);
        }
    }
}
