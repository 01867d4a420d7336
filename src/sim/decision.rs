//! A stream's policy by itself: what a decision costs, and what learning from a block does.

use core::time::Duration;

use fastrand::Rng;

use crate::codecs::Arm;
use crate::control::{
    Arms, Backlog, Fed, PeerKnowledge, Policy, PolicyConfig, SentBlock, Situation, Texture,
    TextureLook,
};
use crate::units::{BytesPerSec, Time};

/// Codec time that shadows may have, ns: enough, so that they are planned for as on an idle node. Arbitrary.
const ALLOWANCE: f64 = 1e6;

/// The decisions of one stream over a link whose rate and round trip are known, without messages, blocks or session: the same calls with which a
/// session decides on a block and learns from it.
///
/// Nobody is short of processor time, nothing waits behind a block or in front of the link, and shadows are planned but not made.
#[derive(Debug)]
pub struct Decider {
    policy: Policy,
    arms: Arms,
    /// The history that blocks went out with last.
    live: Option<Arm>,
    known: PeerKnowledge,
    rng: Rng,
    shadows: Vec<usize>,
    /// Length and texture of the block that was decided on last.
    latest: (usize, Texture),
    texture_look: TextureLook,
}

impl Decider {
    /// One that has seen nothing but its link, and chooses from identity and `arms`.
    pub fn new(policy: PolicyConfig, arms: &[Arm], rate: BytesPerSec, rtt: Duration) -> Self {
        let mut known = PeerKnowledge::default();
        let second = Duration::from_secs(1);
        for _ in 0..20 {
            let (link, bytes) = (&mut known.link, rate.get() as u64);
            link.record_delivery(bytes, second, Fed::Backlogged);
        }
        known.rtt.record(Time::ZERO, rtt);
        Self {
            policy: Policy::new(policy),
            arms: Arms::new(arms, &[], |_| true),
            live: None,
            known,
            rng: Rng::with_seed(0),
            shadows: Vec::new(),
            latest: (0, Texture::default()),
            texture_look: TextureLook::default(),
        }
    }

    /// Decides on a block that holds `payload` alone: how long it may grow, its arm, what would be tried beside it.
    pub fn decide(&mut self, now: Time, payload: &[u8]) -> Arm {
        let texture = self.texture_look.of(core::iter::once(payload));
        self.latest = (payload.len(), texture);
        let situation = Situation {
            now,
            plain_len: payload.len(),
            live: self.live.as_slice(),
            texture,
            ..Situation::quiet(&self.arms, &self.known)
        };
        let backlog = Backlog {
            plain_len: payload.len(),
            messages: 1,
            since_pause: 0,
            held_back: false,
        };
        self.policy.block_len(&situation, backlog, 64 << 10);
        let choice = self.policy.choose(&situation, &mut self.rng);
        self.policy
            .plan_shadows(&situation, ALLOWANCE, &mut self.shadows);
        let arm = situation.arms[choice.arm];
        if arm.history {
            self.live = Some(arm);
        }
        arm
    }

    /// Takes in that `arm` made `wire_len` bytes of the block of the latest decision in so much time: the connection's estimates, and the stream's own.
    pub fn record(&mut self, now: Time, arm: Arm, wire_len: usize, encode: Duration) {
        let (plain_len, texture) = self.latest;
        let sent = SentBlock {
            now,
            arm: self.arms.position(arm).unwrap_or(0),
            plain_len,
            wire_len,
            encode,
            texture,
            is_paired: false,
        };
        let sample = sent.sample(arm);
        if let Some(sample) = &sample {
            self.known.codecs.record_sent(sample, false);
        }
        self.policy
            .record_sent(&sent, sample.as_ref(), &self.known.codecs);
        self.policy.on_sent(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::CodecId;

    const ARMS: [Arm; 3] = [
        Arm::new(CodecId::LZ4, 0),
        Arm::new(CodecId::ZSTD, 3),
        Arm::new(CodecId::ZSTD, 3).with_history(),
    ];

    fn taken(rate: f64, payload: &[u8]) -> Arm {
        let rate = BytesPerSec::new(rate).expect("a rate");
        let mut decider = Decider::new(
            PolicyConfig::default(),
            &ARMS,
            rate,
            Duration::from_millis(1),
        );
        let mut arm = Arm::IDENTITY;
        for block in 0..200 {
            let now = Time::from_nanos(block * 1_000_000);
            arm = decider.decide(now, payload);
            let wire_len = if arm == Arm::IDENTITY { 1 } else { 4 };
            let encode = Duration::from_micros(10);
            decider.record(now, arm, payload.len() / wire_len, encode);
        }
        arm
    }

    #[test]
    fn slow_links_are_worth_a_codec_and_fast_ones_are_not() {
        let lines: Vec<u8> = b"node 17 queue depth=3\n".repeat(50);
        assert_ne!(taken(125e3, &lines), Arm::IDENTITY);
        assert_eq!(taken(10e9, &lines), Arm::IDENTITY);
    }
}
