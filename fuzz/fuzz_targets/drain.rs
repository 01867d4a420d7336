//! A session that takes in all that has come, and does what it gives out.

use std::time::Duration;

use bytes::BytesMut;
use tautline::session::{CodecWorker, Session};
use tautline::units::Time;

pub fn drain(session: &mut Session, worker: &mut CodecWorker, input: &mut BytesMut) {
    loop {
        let before = input.len();
        let _ = session.handle_input(Time::ZERO, input);
        let mut worked = input.len() != before;
        while let Some(job) = session.poll_decode() {
            let block = worker.decode(job);
            let _ = session.handle_decoded(block, Duration::ZERO);
            worked = true;
        }
        while let Some(job) = session.poll_dictionary(Time::ZERO) {
            let work = worker.dictionary(job);
            let _ = session.handle_dictionary(Time::ZERO, work, Duration::ZERO);
            worked = true;
        }
        let _ = session.poll_encode(Time::ZERO);
        if !worked {
            return;
        }
    }
}
