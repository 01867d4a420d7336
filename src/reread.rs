//! Files that are kept open and read from their beginning again and again, as those of `/proc`.

use std::fs::File;
use std::io;

#[cfg(unix)]
pub(crate) fn read_at_start(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, 0)
}

#[cfg(not(unix))]
pub(crate) fn read_at_start(mut file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    use std::io::{Read, Seek};

    file.rewind()?;
    file.read(buffer)
}
