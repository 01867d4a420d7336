//! Says what the program is compiled with, which its counts depend on.

use std::path::Path;
use std::process::Command;

fn first_line(program: &str, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output();
    let text = output.map_or_else(|_| Vec::new(), |output| output.stdout);
    let text = String::from_utf8_lossy(&text);
    text.lines().next().unwrap_or("unknown").to_owned()
}

#[expect(
    clippy::disallowed_methods,
    reason = "how cargo talks to a build script"
)]
fn main() {
    let of_cargo = |name| std::env::var(name).unwrap_or_default();
    let out = of_cargo("OUT_DIR");
    // .../PROFILE/build/PACKAGE/out
    let profile = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    let profile = profile.map(|name| name.to_string_lossy().into_owned());
    println!("cargo::rerun-if-changed=build.rs");
    for (name, value) in [
        ("PROFILE", profile.unwrap_or_default()),
        ("TARGET", of_cargo("TARGET")),
        ("RUSTC", first_line(&of_cargo("RUSTC"), "--version")),
        // What compiled zstd.
        ("CC", first_line("cc", "--version")),
    ] {
        println!("cargo::rustc-env=COUNTS_{name}={value}");
    }
}
