//! What several experiments need.

use bytes::Bytes;
use tautline::codecs::{Arm, CodecId, measured_arms, prior_encode_nanos};
use tautline::control::PolicyConfig;
use tautline::generate::{Content, Generator};
use tautline::sim::{Experiment, LinkConfig};
use tautline::units::BytesPerSec;

/// A link of so many Mbit/s.
pub(crate) fn megabits(rate: f64) -> LinkConfig {
    LinkConfig {
        rate: BytesPerSec::new(rate * 125e3),
        ..LinkConfig::default()
    }
}

/// So many bytes of messages, the last one whole.
pub(crate) fn messages(content: Content, bytes: usize) -> Vec<Bytes> {
    let mut left = bytes;
    let take = |message: &Bytes| {
        let more = left > 0;
        left = left.saturating_sub(message.len());
        more
    };
    Generator::new(content, 1).take_while(take).collect()
}

/// Identity and all arms but those that take longer to encode everything than identity to send it, or on all processors together than a
/// common one in all: those are not the best of anything.
pub(crate) fn arms_worth_trying(experiment: &Experiment) -> Vec<Arm> {
    let none = experiment.run(PolicyConfig::None).expect("a run");
    let common = PolicyConfig::Fixed(Arm::new(CodecId::ZSTD, 3));
    let common = experiment.run(common).expect("a run");
    let encoders = experiment.a.cpu.processors.get();
    let longest = f64::min(
        none.duration.as_secs_f64(),
        common.duration.as_secs_f64() * encoders,
    );
    let blocks = none.plain_bytes as f64 / 65536.0;
    let hopeful = measured_arms().filter(|arm| {
        let nanos = prior_encode_nanos(*arm, 64 << 10) as f64 * blocks;
        nanos * 1e-9 < 1.2 * longest
    });
    [Arm::IDENTITY].into_iter().chain(hopeful).collect()
}
