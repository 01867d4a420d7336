//! `peers-more`: the program `peers` with whole transports of others besides. One file for each, which
//! stands alone, so that any of them can be left out.

#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "omq")]
mod omq;
#[cfg(feature = "tonic")]
mod tonic;
#[cfg(feature = "ws")]
mod ws;
#[cfg(feature = "zenoh")]
mod zenoh;

use std::process::ExitCode;

use tautline_peers::Family;

const FAMILIES: &[Family] = &[
    #[cfg(feature = "tonic")]
    tonic::FAMILY,
    #[cfg(feature = "ws")]
    ws::FAMILY,
    #[cfg(feature = "omq")]
    omq::FAMILY,
    #[cfg(feature = "zenoh")]
    zenoh::FAMILY,
    #[cfg(feature = "nats")]
    nats::FAMILY,
];

fn main() -> ExitCode {
    tautline_peers::run(FAMILIES)
}
