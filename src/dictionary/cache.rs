//! A directory that keeps dictionaries, so that the next run starts warm.
//!
//! ```
//! # #[cfg(feature = "lz4")] {
//! # let directory = tempfile::tempdir()?;
//! # let directory = directory.path().join("dictionaries");
//! # let now = std::time::SystemTime::now();
//! use tautline::dictionary::Dictionary;
//! use tautline::dictionary::cache::{CacheConfig, DictionaryCache};
//!
//! let mut cache = DictionaryCache::open(&directory, CacheConfig::default())?;
//! let dictionary = Dictionary::new(&b"what orders have in common"[..])?;
//! cache.store(&dictionary, "orders", now)?;
//! let entry = cache.newest("orders", now)?.ok_or("nothing kept")?;
//! assert_eq!(entry.dictionary, dictionary);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A dictionary is a file named by its hash. It is written beside its place and renamed into it, so that
//! nobody, in this process or another, ever reads half of one; and read only if its content has the
//! hash, so that a damaged one is removed and counted instead of used. Over the size limit, those used
//! least lately go. Several processes may share a directory: what one removes, another misses, no more.
//!
//! A directory that is full, read-only or gone gives a [`CacheError`]. Whoever gets one goes on without:
//! a dictionary that is not there costs a training, and messages travel without it meanwhile.
//!
//! # Trust
//!
//! A directory belongs to one trust domain: its dictionaries say something of the messages they were
//! made of. It is created for its owner alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Dictionary, DictionaryError, DictionaryId, MAX_DICTIONARY_LEN};
use crate::envelope::{DictionaryName, ResolveError, Resolver};

/// First bytes of a file, with its version.
const MAGIC: [u8; 5] = *b"TLDC\x01";
/// Magic, time, length of the class, class, checksum of these.
const MAX_HEADER_LEN: usize = MAGIC.len() + 8 + 1 + MAX_CLASS_LEN + 4;
/// Longest name of a class of traffic.
pub const MAX_CLASS_LEN: usize = 255;

const SUFFIX: &str = "dict";
const UNFINISHED_SUFFIX: &str = "unfinished";
/// A file that is still unfinished after so long was left behind by a process that ended. Arbitrary, far
/// above what any write takes.
const UNFINISHED_LIMIT: Duration = Duration::from_secs(3600);

/// Tells apart what the threads of this process write.
static WRITES: AtomicU64 = AtomicU64::new(0);

/// How much a cache keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheConfig {
    /// Bytes of all files. Default 4 MiB, arbitrary: some two hundred dictionaries of the default length.
    pub max_bytes: u64,
    /// Bytes of one dictionary. Default 112 KiB. A longer one in the directory counts as damaged and is removed:
    /// caches that share a directory should agree on it.
    pub max_len: usize,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            max_bytes: 4 << 20,
            max_len: MAX_DICTIONARY_LEN,
        }
    }
}

impl CacheConfig {
    /// The default with `max_bytes` for all files.
    #[must_use]
    pub const fn with_max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = max_bytes;
        self
    }
}

/// Why a cache could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The directory cannot be written to.
    #[error("{path} cannot be written")]
    ReadOnly {
        /// The directory or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No space is left, or no more is allowed.
    #[error("no room for {path}")]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something else that the system said.
    #[error("{path}")]
    Io {
        /// The directory or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The dictionary alone is larger than the cache may be.
    #[error("a file of {given} bytes, the cache may have {max}")]
    TooLarge {
        /// Bytes of the file.
        given: u64,
        /// [`CacheConfig::max_bytes`].
        max: u64,
    },
    /// Longer than [`CacheConfig::max_len`].
    #[error(transparent)]
    Dictionary(#[from] DictionaryError),
    /// The class has a name that is too long.
    #[error("a class name of {given} bytes, the limit is {max}")]
    ClassTooLong {
        /// Bytes of the name.
        given: usize,
        /// [`MAX_CLASS_LEN`].
        max: usize,
    },
}

impl CacheError {
    fn of(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                Self::ReadOnly { path, source }
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                Self::NoRoom { path, source }
            }
            _ => Self::Io { path, source },
        }
    }
}

/// What a cache has seen, since it was opened here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Dictionaries found.
    pub hits: u64,
    /// Dictionaries that were not there.
    pub misses: u64,
    /// Dictionaries written.
    pub stored: u64,
    /// Files that did not hold what their names say; removed.
    pub damaged: u64,
    /// Files removed to keep to the size.
    pub evicted: u64,
    /// Requests that ended in an error.
    pub failed: u64,
}

/// A dictionary and what was noted with it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheEntry {
    /// The dictionary.
    pub dictionary: Dictionary,
    /// The class of traffic that it was made for.
    pub class: String,
    /// When it was stored first, to the second.
    pub created: SystemTime,
}

impl CacheEntry {
    /// Bytes that the file of a dictionary of at most [`MAX_DICTIONARY_LEN`] has at most.
    pub const MOST_FILE_LEN: usize = MAX_HEADER_LEN + MAX_DICTIONARY_LEN;

    /// What a file of a cache holds, given what it is called; `None` if these are not the bytes of such a file. For those who look
    /// into a directory without being its user: nothing is removed or counted.
    ///
    /// # Errors
    ///
    /// The dictionary is not the one that the name says, or longer than any may be.
    pub fn parse(id: DictionaryId, file: &[u8]) -> Result<Option<Self>, DictionaryError> {
        parse(id, file, MAX_DICTIONARY_LEN).transpose()
    }
}

/// Dictionaries in a directory. See the [module](self).
#[derive(Debug)]
pub struct DictionaryCache {
    directory: PathBuf,
    config: CacheConfig,
    stats: CacheStats,
}

/// A file of the cache, not opened.
struct Found {
    id: DictionaryId,
    path: PathBuf,
    len: u64,
    used: SystemTime,
}

impl DictionaryCache {
    /// The cache in `directory`, which is created if it is not there, for its owner alone.
    ///
    /// # Errors
    ///
    /// It cannot be created or is no directory. One that cannot be written is opened all the same: what
    /// it holds can be read.
    pub fn open(directory: impl Into<PathBuf>, config: CacheConfig) -> Result<Self, CacheError> {
        let directory = directory.into();
        if !directory.is_dir() {
            create(&directory).map_err(|error| CacheError::of(&directory, error))?;
        }
        Ok(Self {
            directory,
            config,
            stats: CacheStats::default(),
        })
    }

    /// What was seen so far.
    pub const fn stats(&self) -> CacheStats {
        self.stats
    }

    /// Keeps a dictionary of a class of traffic. One that is there already only counts as used `now`.
    ///
    /// # Errors
    ///
    /// It is too large, or the directory is full, read-only or gone.
    pub fn store(
        &mut self,
        dictionary: &Dictionary,
        class: &str,
        now: SystemTime,
    ) -> Result<(), CacheError> {
        let result = self.try_store(dictionary, class, now);
        self.stats.failed += u64::from(result.is_err());
        result
    }

    /// The dictionary of this name, or `None` if it is not there, or not whole any more. Counts as a
    /// use `now`.
    ///
    /// # Errors
    ///
    /// The directory cannot be read.
    pub fn load(
        &mut self,
        id: &DictionaryId,
        now: SystemTime,
    ) -> Result<Option<CacheEntry>, CacheError> {
        let result = self.try_load(id, now);
        match &result {
            Ok(Some(_)) => self.stats.hits += 1,
            Ok(None) => self.stats.misses += 1,
            Err(_) => self.stats.failed += 1,
        }
        result
    }

    /// The dictionary of a class that was stored last.
    ///
    /// # Errors
    ///
    /// The directory cannot be read.
    pub fn newest(
        &mut self,
        class: &str,
        now: SystemTime,
    ) -> Result<Option<CacheEntry>, CacheError> {
        let mut stored: Vec<(SystemTime, DictionaryId)> = Vec::new();
        for found in self.files()? {
            match read_header(&found.path) {
                Ok(Some((its_class, created))) if its_class == class => {
                    stored.push((created, found.id));
                }
                _ => {}
            }
        }
        stored.sort_unstable();
        // One that is not whole any more must not hide those before it.
        for (_, id) in stored.iter().rev() {
            match self.try_load(id, now) {
                Ok(Some(entry)) => {
                    self.stats.hits += 1;
                    return Ok(Some(entry));
                }
                Ok(None) => {}
                Err(error) => {
                    self.stats.failed += 1;
                    return Err(error);
                }
            }
        }
        self.stats.misses += 1;
        Ok(None)
    }

    /// The names of all dictionaries that are there, unread.
    ///
    /// # Errors
    ///
    /// The directory cannot be read.
    pub fn names(&mut self) -> Result<Vec<DictionaryId>, CacheError> {
        let mut names: Vec<_> = self.files()?.into_iter().map(|found| found.id).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// All that is there and whole, in the order in which it was stored; counts as no use.
    ///
    /// # Errors
    ///
    /// The directory cannot be read.
    pub fn entries(&mut self) -> Result<Vec<CacheEntry>, CacheError> {
        let mut entries = Vec::new();
        for found in self.files()? {
            match self.read(&found.id) {
                Ok(Some(entry)) => entries.push(entry),
                Ok(None) => {}
                Err(_) => self.stats.failed += 1,
            }
        }
        entries.sort_by_key(|entry| (entry.created, entry.dictionary.id()));
        Ok(entries)
    }

    /// Forgets a dictionary: it has lived its time, or must not be used any more. One that is not there is
    /// forgotten already.
    ///
    /// # Errors
    ///
    /// The directory cannot be written.
    pub fn remove(&mut self, id: &DictionaryId) -> Result<(), CacheError> {
        let path = self.path_of(id);
        let result = gone(fs::remove_file(&path)).map_err(|error| CacheError::of(&path, error));
        self.stats.failed += u64::from(result.is_err());
        result
    }

    /// A resolver for envelopes; what it finds counts as used `now`. For this it takes any class.
    pub const fn resolver(&mut self, now: SystemTime) -> CacheResolver<'_> {
        CacheResolver { cache: self, now }
    }

    fn try_store(
        &mut self,
        dictionary: &Dictionary,
        class: &str,
        now: SystemTime,
    ) -> Result<(), CacheError> {
        let (given, max) = (dictionary.len(), self.config.max_len);
        if given > max {
            return Err(DictionaryError::TooLong { given, max }.into());
        }
        let header = header(class, now)?;
        let len = (header.len() + dictionary.len()) as u64;
        if len > self.config.max_bytes {
            return Err(CacheError::TooLarge {
                given: len,
                max: self.config.max_bytes,
            });
        }
        if self.try_load(&dictionary.id(), now)?.is_some() {
            return Ok(());
        }
        self.make_room(len, now)?;
        let path = self.path_of(&dictionary.id());
        let unfinished = self.directory.join(format!(
            "{}.{}.{}.{UNFINISHED_SUFFIX}",
            dictionary.id(),
            std::process::id(),
            WRITES.fetch_add(1, Ordering::Relaxed)
        ));
        let written = write(&unfinished, &header, dictionary.content(), now)
            .and_then(|()| fs::rename(&unfinished, &path));
        if let Err(error) = written {
            // Of two errors the first says more.
            let _ = fs::remove_file(&unfinished);
            return Err(CacheError::of(&path, error));
        }
        sync_directory(&self.directory);
        self.stats.stored += 1;
        Ok(())
    }

    fn try_load(
        &mut self,
        id: &DictionaryId,
        now: SystemTime,
    ) -> Result<Option<CacheEntry>, CacheError> {
        let entry = self.read(id)?;
        if entry.is_some() {
            touch(&self.path_of(id), now);
        }
        Ok(entry)
    }

    fn read(&mut self, id: &DictionaryId) -> Result<Option<CacheEntry>, CacheError> {
        let path = self.path_of(id);
        let failed = |error| CacheError::of(&path, error);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let limit = (MAX_HEADER_LEN + self.config.max_len) as u64;
        let mut bytes = Vec::new();
        (&mut file)
            .take(limit + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        let Some(Ok(entry)) = parse(*id, &bytes, self.config.max_len) else {
            self.stats.damaged += 1;
            // Where it cannot be removed, it is passed over each time.
            let _ = fs::remove_file(&path);
            return Ok(None);
        };
        Ok(Some(entry))
    }

    /// Removes what was used least lately until `len` more bytes may be there, and what processes left
    /// behind.
    fn make_room(&mut self, len: u64, now: SystemTime) -> Result<(), CacheError> {
        self.sweep(now);
        let mut files = self.files()?;
        files.sort_by_key(|found| (found.used, found.id));
        // A sparse file is as long as it says: together they may be longer than a number.
        let mut total: u128 = files.iter().map(|found| u128::from(found.len)).sum();
        for found in files {
            if total + u128::from(len) <= u128::from(self.config.max_bytes) {
                break;
            }
            gone(fs::remove_file(&found.path))
                .map_err(|error| CacheError::of(&found.path, error))?;
            self.stats.evicted += 1;
            total -= u128::from(found.len);
        }
        Ok(())
    }

    fn sweep(&self, now: SystemTime) {
        let Ok(entries) = fs::read_dir(&self.directory) else {
            return;
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.extension().is_some_and(|it| it == UNFINISHED_SUFFIX) {
                let written = path.metadata().and_then(|it| it.modified()).unwrap_or(now);
                if now
                    .duration_since(written)
                    .is_ok_and(|age| age > UNFINISHED_LIMIT)
                {
                    let _ = fs::remove_file(&path);
                }
            }
        }
    }

    fn files(&self) -> Result<Vec<Found>, CacheError> {
        let failed = |error| CacheError::of(&self.directory, error);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_stem().and_then(|name| name.to_str());
            let is_ours = path.extension().is_some_and(|it| it == SUFFIX);
            let (Some(Ok(id)), true) = (name.map(str::parse), is_ours) else {
                continue;
            };
            // Another process may have removed it meanwhile. A directory is none of the cache's, and a pipe would be
            // waited for.
            let Some(metadata) = path.metadata().ok().filter(fs::Metadata::is_file) else {
                continue;
            };
            found.push(Found {
                id,
                path,
                len: metadata.len(),
                used: metadata.modified().unwrap_or(UNIX_EPOCH),
            });
        }
        Ok(found)
    }

    fn path_of(&self, id: &DictionaryId) -> PathBuf {
        self.directory.join(format!("{id}.{SUFFIX}"))
    }
}

/// Finds the dictionaries of envelopes in a cache.
#[derive(Debug)]
pub struct CacheResolver<'a> {
    cache: &'a mut DictionaryCache,
    now: SystemTime,
}

impl Resolver for CacheResolver<'_> {
    fn resolve(&mut self, name: &DictionaryName) -> Result<Option<Dictionary>, ResolveError> {
        let unavailable = |error: CacheError| ResolveError::Unavailable(io::Error::other(error));
        let names = self.cache.names().map_err(unavailable)?;
        let mut matching = names.iter().filter(|id| name.matches(id));
        let Some(id) = matching.next() else {
            self.cache.stats.misses += 1;
            return Ok(None);
        };
        match matching.count() {
            0 => {
                let entry = self.cache.load(id, self.now).map_err(unavailable)?;
                Ok(entry.map(|entry| entry.dictionary))
            }
            others => Err(ResolveError::Ambiguous {
                name: *name,
                count: 1 + others,
            }),
        }
    }
}

fn header(class: &str, now: SystemTime) -> Result<Vec<u8>, CacheError> {
    let class_len = u8::try_from(class.len()).map_err(|_| CacheError::ClassTooLong {
        given: class.len(),
        max: MAX_CLASS_LEN,
    })?;
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut header = Vec::with_capacity(MAX_HEADER_LEN);
    header.extend_from_slice(&MAGIC);
    header.extend_from_slice(&seconds.to_le_bytes());
    header.push(class_len);
    header.extend_from_slice(class.as_bytes());
    let crc = crc32fast::hash(&header);
    header.extend_from_slice(&crc.to_le_bytes());
    Ok(header)
}

/// Class, time, and how many bytes that took; `None` for what no cache wrote.
fn parse_header(bytes: &[u8]) -> Option<(&str, SystemTime, usize)> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    let (seconds, rest) = rest.split_first_chunk()?;
    let (&class_len, rest) = rest.split_first()?;
    let (class, rest) = rest.split_at_checked(usize::from(class_len))?;
    let (crc, rest) = rest.split_first_chunk()?;
    let header_len = bytes.len() - rest.len();
    let checked = bytes.get(..header_len - 4)?;
    if crc32fast::hash(checked) != u32::from_le_bytes(*crc) {
        return None;
    }
    let created = UNIX_EPOCH.checked_add(Duration::from_secs(u64::from_le_bytes(*seconds)))?;
    Some((core::str::from_utf8(class).ok()?, created, header_len))
}

fn parse(
    id: DictionaryId,
    bytes: &[u8],
    max_len: usize,
) -> Option<Result<CacheEntry, DictionaryError>> {
    let (class, created, header_len) = parse_header(bytes)?;
    let content = bytes.get(header_len..)?.to_vec();
    let entry = |dictionary| CacheEntry {
        dictionary,
        class: class.to_owned(),
        created,
    };
    Some(Dictionary::verified(id, content, max_len).map(entry))
}

fn read_header(path: &Path) -> io::Result<Option<(String, SystemTime)>> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(MAX_HEADER_LEN as u64).read_to_end(&mut bytes)?;
    Ok(parse_header(&bytes).map(|(class, created, _)| (class.to_owned(), created)))
}

fn write(path: &Path, header: &[u8], content: &[u8], now: SystemTime) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(header)?;
    file.write_all(content)?;
    // When it was used last is of less importance than that it is there.
    let _ = file.set_modified(now);
    file.sync_all()
}

fn create(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Notes the use; in a directory that cannot be written, nothing is evicted either.
fn touch(path: &Path, now: SystemTime) {
    if let Ok(file) = OpenOptions::new().append(true).open(path) {
        let _ = file.set_modified(now);
    }
}

/// So that the new name outlives a loss of power. Where directories cannot be synced, it may not.
fn sync_directory(directory: &Path) {
    if let Ok(directory) = File::open(directory) {
        let _ = directory.sync_all();
    }
}

/// Whether the file is gone, by whose hand ever.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
