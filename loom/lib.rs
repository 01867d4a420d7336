//! The modules whose atomics have to agree, built with loom's.

#[path = "../src/eventlog/mod.rs"]
pub mod eventlog;
