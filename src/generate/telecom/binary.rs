//! Binary signalling: a header, then elements of a tag, a length and a value.

use super::{Procedure, Step};

const VERSION: u8 = 0x30;
const NETWORK: [u8; 3] = [0x99, 0xf9, 0x07];
const SLICE: [u8; 4] = [1, 0, 0, 7];

/// The tags of the elements.
#[derive(Clone, Copy, Debug)]
enum Tag {
    RadioId = 0x55,
    CoreId = 0x0a,
    Network = 0x1b,
    Location = 0x79,
    Subscriber = 0x26,
    Cause = 0x5a,
    Slice = 0x94,
    Nonce = 0x21,
    Token = 0x22,
    Answer = 0x2d,
    Capabilities = 0x77,
    Code = 0x3c,
    Endpoint = 0x39,
    Rules = 0x01,
    Rate = 0x6e,
    Key = 0x5e,
    Recovery = 0x60,
}

/// A message while it is written.
#[derive(Debug)]
struct Elements(Vec<u8>);

impl Elements {
    fn new(kind: u8, transaction: u32) -> Self {
        let mut bytes = vec![VERSION, kind, 0, 0];
        bytes.extend(transaction.to_be_bytes());
        Self(bytes)
    }

    fn put(mut self, tag: Tag, value: &[u8]) -> Self {
        self.0.extend([0, tag as u8]);
        self.0.extend((value.len() as u16).to_be_bytes());
        self.0.extend(value);
        self
    }

    /// Random bytes, which no codec makes smaller.
    fn put_random<const N: usize>(self, tag: Tag, rng: &mut fastrand::Rng) -> Self {
        let mut value = [0; N];
        rng.fill(&mut value);
        self.put(tag, &value)
    }

    /// The message, its length in the header.
    fn finish(mut self) -> Vec<u8> {
        let len = self.0.len() as u16;
        self.0[2..4].copy_from_slice(&len.to_be_bytes());
        self.0
    }
}

pub(super) fn message(
    procedure: &Procedure,
    step: Step,
    transaction: u32,
    rng: &mut fastrand::Rng,
) -> Vec<u8> {
    let message = Elements::new(step as u8, transaction);
    if step == Step::Heartbeat {
        return message.put(Tag::Recovery, &[0xe9, 0x2c, 0x40, 0]).finish();
    }
    let session = procedure.session.to_be_bytes();
    let message = message
        .put(Tag::CoreId, &[&[0, 0], &session[..]].concat())
        .put(Tag::RadioId, &[&[0x80], &session[1..]].concat());
    let message = match step {
        Step::Attach => message
            .put(Tag::Subscriber, &decimal_digits(procedure.subscriber))
            .put(Tag::Location, &location(procedure))
            .put(Tag::Cause, &[3])
            .put(Tag::Capabilities, &[0xf0, 0x70, 0xc0, 0x40, 0x11, 0x80])
            .put(Tag::Slice, &SLICE),
        Step::Challenge => message
            .put_random::<16>(Tag::Nonce, rng)
            .put_random::<16>(Tag::Token, rng),
        Step::ChallengeAnswer => message
            .put_random::<8>(Tag::Answer, rng)
            .put(Tag::Location, &location(procedure)),
        Step::SecureChannel => message
            .put(Tag::Capabilities, &[0xf0, 0x70, 0xc0, 0x40])
            .put_random::<4>(Tag::Code, rng),
        Step::SecureChannelDone => message
            .put_random::<4>(Tag::Code, rng)
            .put(Tag::Location, &location(procedure)),
        Step::OpenSession => message
            .put(Tag::Subscriber, &decimal_digits(procedure.subscriber))
            .put(Tag::Endpoint, &endpoint(procedure, 4))
            .put(Tag::Rules, &rules(1))
            .put(Tag::Rules, &rules(2))
            .put(Tag::Rate, &[0, 0, 0x03, 0xe8, 0, 0, 0x0b, 0xb8]),
        Step::SessionOpened => message
            .put(Tag::Cause, &[1])
            .put(Tag::Endpoint, &endpoint(procedure, 7))
            .put(Tag::Recovery, &[0xe9, 0x2c, 0x40, 0]),
        Step::SetUpContext => message
            .put(Tag::Rate, &[0, 0, 0x03, 0xe8, 0, 0, 0x0b, 0xb8])
            .put(Tag::Endpoint, &endpoint(procedure, 7))
            .put(Tag::Slice, &SLICE)
            .put_random::<32>(Tag::Key, rng)
            .put_random::<4>(Tag::Code, rng),
        Step::ContextSetUp => message.put(Tag::Endpoint, &endpoint(procedure, 9)),
        // Release and its answer, and whatever is no binary message.
        _ => message
            .put(Tag::Cause, &[0, 20])
            .put(Tag::Location, &location(procedure)),
    };
    message.put(Tag::Network, &NETWORK).finish()
}

/// Two digits a byte, the low half first.
fn decimal_digits(number: u64) -> [u8; 8] {
    let mut rest = 999_700_000_000_000 + number % 1_000_000_000;
    let mut bytes = [0; 8];
    for byte in bytes.iter_mut().rev() {
        let (low, high) = (rest / 10 % 10, rest % 10);
        *byte = (high << 4 | low) as u8;
        rest /= 100;
    }
    bytes
}

/// The network, one of sixteen cells, and the tracking area.
fn location(procedure: &Procedure) -> Vec<u8> {
    let cell = (procedure.subscriber % 16) as u8;
    let mut location = NETWORK.to_vec();
    location.extend([0, 0, 0x46, 0x6c, cell << 4]);
    location.extend(NETWORK);
    location.extend([0, 0, 1]);
    location
}

/// An address and an endpoint number that follows from the session.
fn endpoint(procedure: &Procedure, host: u8) -> Vec<u8> {
    let mut endpoint = vec![0x01, 10, 45, 0, host];
    endpoint.extend(procedure.session.wrapping_mul(2).to_be_bytes());
    endpoint
}

/// What to do with packets of one direction.
fn rules(number: u8) -> Vec<u8> {
    let mut rules = vec![0, 0x38, 0, 2, 0, number, 0, 0x1d, 0, 4, 0, 0, 0, 0xff];
    rules.extend([
        0, 2, 0, 5, 0, 0x14, 0, 1, number, 0, 0x6c, 0, 4, 0, 0, 0, number,
    ]);
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_fill_the_length_in_the_header() {
        let message = Elements::new(9, 0x0102_0304)
            .put(Tag::Cause, &[7, 8])
            .finish();
        assert_eq!(
            message,
            [VERSION, 9, 0, 14, 1, 2, 3, 4, 0, 0x5a, 0, 2, 7, 8]
        );
    }

    #[test]
    fn subscribers_are_written_as_decimal_digits() {
        assert_eq!(
            decimal_digits(123_456_789),
            [0x90, 0x99, 0x07, 0x10, 0x32, 0x54, 0x76, 0x98],
        );
    }
}
