//! Exchanges the atomics for loom's.

fn main() {
    println!("cargo:rustc-cfg=tautline_loom");
    println!("cargo:rerun-if-changed=build.rs");
}
