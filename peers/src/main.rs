//! `peers`: see the library of the same package, which is all of it.

use std::process::ExitCode;

fn main() -> ExitCode {
    tautline_peers::run(&[])
}
