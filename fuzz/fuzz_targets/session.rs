//! Raw bytes into a session, before and after its handshake.

#![no_main]

mod drain;

use bytes::BytesMut;
use drain::drain;
use libfuzzer_sys::fuzz_target;
use tautline::dictionary::{Acceptance, AcceptancePolicy};
use tautline::session::{CodecWorker, Role, Session, SessionConfig};
use tautline::units::Time;

fn config() -> SessionConfig {
    SessionConfig::default().accept_dictionaries(AcceptancePolicy::new(Acceptance::Always))
}

/// The first bytes that a session has to say: its hello.
fn hello() -> Vec<u8> {
    let Ok(session) = Session::new(Role::Connector, config(), Time::ZERO) else { return Vec::new() };
    let mut slices = [std::io::IoSlice::new(&[]); 4];
    let filled = session.fill_slices(&mut slices);
    slices[..filled].iter().flat_map(|slice| slice.iter().copied()).collect()
}

fuzz_target!(|input: (bool, &[u8])| {
    let (after_handshake, bytes) = input;
    let Ok(mut session) = Session::new(Role::Acceptor, config(), Time::ZERO) else { return };
    let mut worker = CodecWorker::new(20);
    let mut input = BytesMut::new();
    if after_handshake {
        input.extend_from_slice(&hello());
    }
    input.extend_from_slice(bytes);
    drain(&mut session, &mut worker, &mut input);
});
