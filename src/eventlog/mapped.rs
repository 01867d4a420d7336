//! Memory that other processes can read, and areas of other processes.
#![expect(
    unsafe_code,
    reason = "memory that is shared with other processes comes as an address"
)]

use core::fmt;
use core::slice;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use memmap2::{MmapOptions, MmapRaw};

use super::area::{Line, Words};
#[cfg(any(target_os = "linux", target_os = "android"))]
use super::control::{Control, Lock, WritableWords};
use super::error::ReadError;
use super::reader::Reader;
use super::sync::{Ordering, fence};
#[cfg(any(target_os = "linux", target_os = "android"))]
use super::visit::Visit;

/// What areas are called that have no name in any directory.
#[cfg(any(target_os = "linux", target_os = "android"))]
const NAME: &str = "tautline-events";

/// A file as words of memory.
pub(super) struct Mapping {
    memory: MmapRaw,
    file: File,
    lines: usize,
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping").finish_non_exhaustive()
    }
}

impl Mapping {
    /// Memory of zeros that is in no directory, and never shorter.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn sealed(words: usize) -> io::Result<Self> {
        use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create(NAME, flags)?);
        let mapping = Self::of(file, words)?;
        fcntl_add_seals(
            &mapping.file,
            SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL,
        )?;
        Ok(mapping)
    }

    /// A file of zeros, in place of whatever had its name.
    pub(super) fn create(path: &Path, words: usize) -> io::Result<Self> {
        // Not the file that is there: who has it mapped would lose it.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600);
        Self::of(file.open(path)?, words)
    }

    fn of(file: File, words: usize) -> io::Result<Self> {
        file.set_len(words as u64 * 8)?;
        // Now, not at the first row: where there is no room the file has holes, and a row would end the process.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        rustix::fs::fallocate(
            &file,
            rustix::fs::FallocateFlags::empty(),
            0,
            words as u64 * 8,
        )?;
        let memory = MmapOptions::new().len(words * 8).map_raw(&file)?;
        Ok(Self {
            memory,
            file,
            lines: words / super::shape::LINE,
        })
    }

    #[expect(clippy::cast_ptr_alignment, reason = "a mapping begins at a page")]
    pub(super) fn lines(&self) -> &[Line] {
        let lines = self.memory.as_mut_ptr().cast::<Line>();
        debug_assert!(lines.is_aligned() && self.lines * size_of::<Line>() <= self.memory.len());
        // SAFETY: the mapping begins at a page, so it is aligned for a `Line`, has that many of them (`of` asked for
        // them), is readable and writable, and lives as long as `self`. A `Line` is 64 bytes of atomics, for which any bytes are
        // values; nobody in this process makes a reference to them that is not of atomics, and what other processes write
        // is seen as they are meant to be seen. Nobody can make a sealed one shorter; of one with a name, the documentation
        // of `EventLog::create` says what it means.
        unsafe { slice::from_raw_parts(lines, self.lines) }
    }

    pub(super) const fn file(&self) -> &File {
        &self.file
    }
}

/// Another process's area, read like a file: whatever its owner does to it, reading it is an error at worst.
#[derive(Debug)]
struct Foreign {
    file: File,
    words: usize,
}

/// Read at once, bytes.
const CHUNK: usize = 4096;

impl Words for Foreign {
    fn len(&self) -> usize {
        self.words
    }

    fn load(&self, at: usize) -> Result<u64, ReadError> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, at as u64 * 8)?;
        // What is read after it is read after it.
        fence(Ordering::SeqCst);
        Ok(u64::from_ne_bytes(bytes))
    }

    fn copy(&self, from: usize, len: usize, into: &mut Vec<u64>) -> Result<(), ReadError> {
        let mut bytes = [0; CHUNK];
        let mut at = from as u64 * 8;
        let mut left = len * 8;
        while left > 0 {
            let chunk = &mut bytes[..left.min(CHUNK)];
            self.file.read_exact_at(chunk, at)?;
            let words = chunk.chunks_exact(8);
            into.extend(words.map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default())));
            at += chunk.len() as u64;
            left -= chunk.len();
        }
        fence(Ordering::SeqCst);
        Ok(())
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl WritableWords for Foreign {
    fn store(&self, at: usize, value: u64) -> Result<(), ReadError> {
        // Never beyond its end: it would not grow, but a file might.
        if at >= self.words {
            return Err(ReadError::Damaged("a word beyond its end"));
        }
        fence(Ordering::SeqCst);
        Ok(self
            .file
            .write_all_at(&value.to_ne_bytes(), at as u64 * 8)?)
    }

    fn lock(&self, lock: Lock) -> Result<bool, ReadError> {
        use rustix::fs::{FlockOperation, flock};
        let operation = match lock {
            Lock::Shared => FlockOperation::NonBlockingLockShared,
            Lock::Alone => FlockOperation::NonBlockingLockExclusive,
            Lock::None => FlockOperation::NonBlockingUnlock,
        };
        match flock(&self.file, operation) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }
}

/// Reads the log area in a file, also while it is written, also after the process that wrote it is gone.
///
/// # Errors
///
/// It cannot be read, or is no log area of this version.
pub fn open(path: impl AsRef<Path>) -> Result<Reader, ReadError> {
    let path = path.as_ref();
    // To open a pipe waits for somebody who writes to it.
    let kind = path.metadata()?.file_type();
    if !kind.is_file() && !kind.is_dir() {
        return Err(ReadError::NotALog);
    }
    let file = File::open(path)?;
    let words = usize::try_from(file.metadata()?.len() / 8).unwrap_or(usize::MAX);
    Reader::open(Box::new(Foreign { file, words }))
}

/// Reads the log area of a running process ([`EventLog::shared`](super::EventLog::shared)): the first of those it has. It takes the same user, or
/// root.
///
/// # Errors
///
/// There is no such process, it is another user's (`PermissionDenied`), or it has no such area (`NotFound`).
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn attach(process: u32) -> Result<Reader, ReadError> {
    open(find(process)?)
}

/// Sets what the log area of a running process records for good: the one that [`attach`] reads.
///
/// # Errors
///
/// As of [`attach`].
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn control(process: u32) -> Result<Control, ReadError> {
    control_of(&find(process)?)
}

/// Sets what the log area of a running process records for as long as somebody looks on: the one that [`attach`] reads.
///
/// # Errors
///
/// As of [`attach`], or others begin and end visits all the time (`ResourceBusy`).
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn visit(process: u32) -> Result<Visit, ReadError> {
    Visit::begin(control(process)?)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn control_of(path: &Path) -> Result<Control, ReadError> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let words = usize::try_from(file.metadata()?.len() / 8).unwrap_or(usize::MAX);
    Control::new(Box::new(Foreign { file, words }))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn find(process: u32) -> io::Result<std::path::PathBuf> {
    let entries = match std::fs::read_dir(format!("/proc/{process}/fd")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = format!("there is no process {process}");
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let target = std::fs::read_link(&path).unwrap_or_default();
        let is_area = target
            .to_str()
            .and_then(|target| target.strip_prefix("/memfd:"))
            .is_some_and(|name| name.strip_suffix(" (deleted)").unwrap_or(name) == NAME);
        if is_area {
            return Ok(path);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        format!("process {process} has no event log to share"),
    ))
}
