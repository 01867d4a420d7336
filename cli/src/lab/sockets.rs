//! A folder for Unix sockets, whose paths must be short.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// What such folders' names begin with.
const NAME: &str = "tautline-lab-";
/// A socket in it. It can be connected to as long as the lab is there that the folder is of: processes of another namespace have numbers that say nothing here.
const ALIVE: &str = "alive";

/// Gone when it is dropped, or else with the next lab.
pub(super) struct Sockets {
    path: PathBuf,
    _alive: UnixDatagram,
}

impl Sockets {
    pub(super) fn create() -> Result<Self, Failure> {
        let folder = std::env::temp_dir();
        tidy(&folder);
        let of = |path: &Path, error: &io::Error| Failure::of(&path.display().to_string(), error);
        for number in 0..100 {
            let path = folder.join(format!("{NAME}{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let alive = alive(&path).map_err(|error| of(&path, &error))?;
                    return Ok(Self {
                        path,
                        _alive: alive,
                    });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(of(&path, &error)),
            }
        }
        Err(Failure::Error("no folder for sockets".to_owned()))
    }

    /// A folder of its own for each run.
    pub(super) fn of_run(&self, number: usize) -> io::Result<PathBuf> {
        let path = self.path.join(number.to_string());
        fs::create_dir(&path)?;
        Ok(path)
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        // What is left of it is in nobody's way.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// It has its name only once it can be connected to.
fn alive(folder: &Path) -> io::Result<UnixDatagram> {
    let unnamed = folder.join("new");
    let socket = UnixDatagram::bind(&unnamed)?;
    fs::rename(&unnamed, folder.join(ALIVE))?;
    Ok(socket)
}

/// Removes what labs have left that were killed. Folders of others cannot be looked into, and stay.
fn tidy(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(NAME);
        if is_ours && is_left(&entry.path()) {
            // Whoever else does the same at the same time may be faster.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_left(folder: &Path) -> bool {
    let connected = UnixDatagram::unbound().and_then(|socket| socket.connect(folder.join(ALIVE)));
    connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_known_from_what_is_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(format!("{NAME}{name}"));
        for name in ["used", "left", "young"] {
            fs::create_dir(at(name)).expect("room");
        }
        let _alive = alive(&at("used")).expect("a socket");
        drop(alive(&at("left")).expect("a socket"));
        fs::create_dir(at("left").join("0")).expect("room");
        fs::create_dir(folder.path().join("other")).expect("room");
        drop(alive(&folder.path().join("other")).expect("a socket"));
        tidy(folder.path());
        let is_there = |path: PathBuf| path.exists();
        assert!(is_there(at("used")) && !is_there(at("left")));
        // It may be that a lab is about to begin in it; and what has another name is nobody's here.
        assert!(is_there(at("young")) && is_there(folder.path().join("other")));
    }
}
