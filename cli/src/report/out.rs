//! Where the page goes: whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Where it goes.
pub(super) enum Target {
    Stdout,
    /// A file, which gets another content in one step.
    File(PathBuf),
    /// What is no file: a pipe, a device.
    Other(PathBuf),
}

impl Target {
    /// As the user says.
    ///
    /// # Errors
    ///
    /// Nothing is said, and stdout is a terminal, on which a page is of no use; or there is no such folder.
    pub(super) fn of(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else {
            if io::stdout().is_terminal() {
                return Err(Failure::Error(
                    "a page is nothing to read on a terminal: --out report.html writes it to a file, --out - prints it all the same"
                        .to_owned(),
                ));
            }
            return Ok(Self::Stdout);
        };
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => Err(Failure::Error(format!(
                "{}: a folder, not a file",
                path.display()
            ))),
            Ok(metadata) if !metadata.is_file() => Ok(Self::Other(path.to_owned())),
            // What a link leads to is replaced, not the link.
            Ok(_) => Ok(Self::File(
                fs::canonicalize(path).unwrap_or(path.to_owned()),
            )),
            Err(_) => {
                if let Some(folder) = path.parent().filter(|folder| *folder != Path::new("")) {
                    fs::metadata(folder)
                        .map_err(|error| Failure::of(&path.display().to_string(), &error))?;
                }
                Ok(Self::File(path.to_owned()))
            }
        }
    }

    /// # Errors
    ///
    /// It cannot be written; a file is then as it was before.
    pub(super) fn write(&self, page: &[u8]) -> Result<(), Failure> {
        let (path, result) = match self {
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                let written = stdout.write_all(page).and_then(|()| stdout.flush());
                return match written {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::BrokenPipe),
                    Err(error) => Err(Failure::of("stdout", &error)),
                    Ok(()) => Ok(()),
                };
            }
            Self::Other(path) => (path, write_into(path, page)),
            Self::File(path) => (path, replace(path, page)),
        };
        result.map_err(|error| {
            let what = match self {
                Self::File(_) => "the page is not written, and what was there is as it was",
                _ => "the page is not written",
            };
            match Failure::of(&path.display().to_string(), &error) {
                Failure::Error(text) => Failure::Error(format!("{text}; {what}")),
                other => other,
            }
        })
    }
}

fn write_into(path: &Path, page: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(page)?;
    file.flush()
}

fn replace(path: &Path, page: &[u8]) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    // Two reports to one place do not write into each other's file.
    unfinished.push(format!(".{}.unfinished", std::process::id()));
    let unfinished = PathBuf::from(unfinished);
    let write = || {
        let mut file = File::create(&unfinished)?;
        file.write_all(page)?;
        // Some systems say only then that there was no room.
        file.sync_all()?;
        drop(file);
        fs::rename(&unfinished, path)
    };
    write().inspect_err(|_| {
        // It may not be there.
        let _ = fs::remove_file(&unfinished);
    })
}
