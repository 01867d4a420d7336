//! Thesis 7.4.1 to 7.4.4.

use crate::echo::{Echo, Run};
use tautline::codecs::{Arm, CodecId};
use tautline::control::PolicyConfig;
use tautline::generate::{Content, Generator};

#[test]
fn explore() {
    for in_flight in [1, 8, 64] {
        for content in [Content::Telecom] {
            for policy in [
                "none",
                "round_robin",
                "majority",
                "lz4",
                "snappy",
                "zstd:-3",
                "zstd:1",
                "zstd:3",
                "zstd:9",
            ] {
                let started = std::time::Instant::now();
                let mut run = Run::new(&Echo {
                    policy: policy.parse().unwrap(),
                    in_flight,
                    ..Echo::default()
                });
                run.send(Generator::new(content, 1).take(20_000), |_, _| {});
                println!(
                    "{in_flight} {content} {policy} {:.1} us, leader {:?}, took {:?}",
                    run.mean_rtt() * 1e6,
                    run.shares.last().unwrap().leader(),
                    started.elapsed()
                );
            }
        }
    }
    let _ = (Arm::IDENTITY, CodecId::LZ4, PolicyConfig::None);
}
