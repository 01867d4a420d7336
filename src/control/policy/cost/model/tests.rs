use super::*;
use crate::codecs::{CodecId, typical};

const ALONE: Arm = Arm::new(CodecId::ZSTD, 3);
const LEN: usize = 60_000;

fn send(model: &mut Model, arm: Arm, ratio: f64) {
    let sample = Sample {
        now: Time::ZERO,
        class: BlockClass::of(LEN, Texture::Records).of_arm(arm),
        plain_len: LEN,
        wire_len: (LEN as f64 / ratio) as usize,
        encode_nanos: 200_000,
        decode_nanos: None,
    };
    let row = typical(arm).expect("an arm of the table");
    model.record_sent(arm, row, &sample, None, Speed::default());
}

fn expected_ratio(model: &Model, arm: Arm) -> f64 {
    let class = BlockClass::of(LEN, Texture::Records).of_arm(arm);
    let models = Models {
        own: model,
        shared: &Model::default(),
        speed: Speed::default(),
    };
    let typical = typical(arm).expect("an arm of the table").at(LEN as f64);
    let known = models.known(class, LEN as f64);
    LEN as f64 / known.expect(arm, &typical).wire_len
}

#[test]
fn a_history_that_was_given_up_on_bad_content_is_thought_of_again_on_better() {
    let history = ALONE.with_history();
    let mut model = Model::default();
    for _ in 0..20 {
        send(&mut model, history, 4.0);
    }
    let bad = expected_ratio(&model, history);
    assert!((3.5..4.5).contains(&bad), "{bad}");
    for _ in 0..20 {
        send(&mut model, ALONE, 8.0);
    }
    let better = expected_ratio(&model, history);
    assert!(better > expected_ratio(&model, ALONE), "{better}");
    // Once both were seen together, what history adds is known: here nothing.
    for _ in 0..20 {
        send(&mut model, history, 8.0);
    }
    let none = expected_ratio(&model, history);
    assert!((7.5..8.5).contains(&none), "{none}");
    for _ in 0..20 {
        send(&mut model, ALONE, 3.0);
    }
    let follows = expected_ratio(&model, history);
    assert!((2.5..4.5).contains(&follows), "{follows}");
}
