//! From a store to a file: in whole samples, within bounded memory, whatever the disk does.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{Encoder, Epilogue, Preamble, RecordFormat};
use crate::pmu::store::{Cursor, Layout, Store};

/// As much is made ready at a time, bytes: enough that the system is asked seldom.
const CHUNK: usize = 1 << 16;

/// What a recording could not do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The file cannot be made.
    #[error("cannot create {}", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file cannot be written: samples stay in the store, and what has been written is whole but for a last line that may be cut, unless
    /// this was the last try ([`Output::finish`]).
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A format whose beginning changes needs a file that can be written there.
    #[error("npy needs a file: it cannot be written to a pipe or a terminal")]
    NotAFile,
}

/// How much has been written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Samples.
    pub samples: u64,
    /// Samples that were overwritten in the store before.
    pub lost: u64,
}

/// A recording: samples of a store go to a file, from where it stopped the last time.
#[derive(Debug)]
pub struct Output {
    sink: Sink,
    path: PathBuf,
    encoder: Encoder,
    cursor: Cursor,
    /// Made, but not yet written.
    pub(super) pending: Vec<u8>,
    /// Of it, samples.
    pending_samples: u64,
    /// Bytes that were written, and of these those up to the end of the last line.
    written: u64,
    whole: u64,
    flushed: Flushed,
}

#[derive(Debug)]
enum Sink {
    File(File),
    Stdout,
}

impl Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Stdout => io::stdout().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(_) => Ok(()),
            Self::Stdout => io::stdout().flush(),
        }
    }
}

impl Output {
    /// Begins a recording in a file, in place of what it held; `-` is stdout. Nothing is written yet.
    ///
    /// # Errors
    ///
    /// [`OutputError::Create`], [`OutputError::NotAFile`].
    pub fn create(
        path: &Path,
        format: RecordFormat,
        layout: &Layout,
        preamble: &Preamble,
    ) -> Result<Self, OutputError> {
        let sink = if path == Path::new("-") {
            Sink::Stdout
        } else {
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).truncate(true).open(path);
            Sink::File(file.map_err(|source| OutputError::Create {
                path: path.to_owned(),
                source,
            })?)
        };
        if format == RecordFormat::Npy {
            let is_file = match &sink {
                Sink::File(file) => file.metadata().is_ok_and(|meta| meta.is_file()),
                Sink::Stdout => false,
            };
            if !is_file {
                return Err(OutputError::NotAFile);
            }
        }
        let mut pending = Vec::with_capacity(2 * CHUNK);
        let encoder = Encoder::begin(format, layout, preamble, &mut pending);
        Ok(Self {
            sink,
            path: path.to_owned(),
            encoder,
            cursor: Cursor::default(),
            pending,
            pending_samples: 0,
            written: 0,
            whole: 0,
            flushed: Flushed::default(),
        })
    }

    /// Writes what has come since the last time.
    ///
    /// # Errors
    ///
    /// [`OutputError::Write`]: it may be tried again, and goes on where it stopped. Samples that have been overwritten by then are lost, and counted.
    pub fn flush(&mut self, store: &Store, layout: &Layout) -> Result<Flushed, OutputError> {
        loop {
            if let Err(error) = self.write_pending() {
                // What was written of an array is said at its beginning, where there is room.
                let _ = self.patch();
                return Err(error);
            }
            if self.cursor >= store.end() {
                break;
            }
            if self.cursor < store.start() {
                self.flushed.lost += store.start().number() - self.cursor.number();
                self.cursor = store.start();
            }
            while let Some(sample) = store.get(layout, self.cursor) {
                self.encoder.sample(&sample, &mut self.pending);
                self.pending_samples += 1;
                self.cursor = self.cursor.next();
                if self.pending.len() >= CHUNK {
                    break;
                }
            }
        }
        self.patch()?;
        Ok(self.flushed)
    }

    /// Writes the rest, and what comes last; without that, a recording that was not brought to its end.
    ///
    /// # Errors
    ///
    /// [`OutputError::Write`]: of a file of lines the last is whole all the same.
    pub fn finish(
        mut self,
        store: &Store,
        layout: &Layout,
        epilogue: Option<&Epilogue>,
    ) -> Result<Flushed, OutputError> {
        let flushed = self.write_rest(store, layout, epilogue);
        if flushed.is_err() {
            self.leave_out_cut_line();
        }
        flushed
    }

    fn write_rest(
        &mut self,
        store: &Store,
        layout: &Layout,
        epilogue: Option<&Epilogue>,
    ) -> Result<Flushed, OutputError> {
        self.flush(store, layout)?;
        if let Some(epilogue) = epilogue {
            let epilogue = Epilogue {
                lost: epilogue.lost.saturating_add(self.flushed.lost),
                ..*epilogue
            };
            self.encoder.finish(&epilogue, &mut self.pending);
        }
        self.write_pending()?;
        self.patch()?;
        Ok(self.flushed)
    }

    /// A number that was cut would be read as another.
    fn leave_out_cut_line(&self) {
        if let Sink::File(file) = &self.sink {
            if self.encoder.writes_lines() && self.whole < self.written {
                // What is no file of the disk's has no length.
                let _ = file.set_len(self.whole);
            }
        }
    }

    /// Bytes that the file has so far, also of samples that are not whole yet.
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// What has been written so far.
    pub const fn flushed(&self) -> Flushed {
        self.flushed
    }

    fn write_pending(&mut self) -> Result<(), OutputError> {
        let mut written = 0;
        let result = loop {
            if written == self.pending.len() {
                break self.sink.flush();
            }
            match self.sink.write(&self.pending[written..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        let end_of_line = self.pending[..written]
            .iter()
            .rposition(|byte| *byte == b'\n');
        if let Some(end) = end_of_line {
            self.whole = self.written + end as u64 + 1;
        }
        self.written += written as u64;
        // What is left is written next time, from where it stopped.
        self.pending.drain(..written);
        if self.pending.is_empty() {
            self.flushed.samples += core::mem::take(&mut self.pending_samples);
        }
        result.map_err(|source| self.failure(source))
    }

    fn patch(&mut self) -> Result<(), OutputError> {
        let Some(beginning) = self.encoder.patch(self.written) else {
            return Ok(());
        };
        let Sink::File(file) = &mut self.sink else {
            return Ok(());
        };
        overwrite_beginning(file, &beginning).map_err(|source| self.failure(source))
    }

    fn failure(&self, source: io::Error) -> OutputError {
        OutputError::Write {
            path: self.path.clone(),
            source,
        }
    }
}

/// Writes over the beginning of a file that is written at its end. It may fail where the disk is full and nothing is written in place: what comes next goes to the end all the same.
pub(super) fn overwrite_beginning(file: &mut File, beginning: &[u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    let written = file.write_all(beginning);
    let back = file.seek(SeekFrom::End(0));
    written.and(back.map(|_| ()))
}
