//! What blocks became, remembered over the simulator's repeated runs: the strongest levels take
//! tens of milliseconds a block, and the same blocks come again on every link.
//!
//! A shelf of codecs that was given one ([`Codecs::remember_in`](super::Codecs::remember_in)) asks it first.

use core::hash::Hasher as _;
use std::collections::HashMap;
use std::hash::DefaultHasher;
use std::sync::{Arc, Mutex, PoisonError};

use super::{DecodeLimits, EncodeError, Encoded, prior_encode_nanos};
use crate::codecs::Arm;

/// Wire bytes kept at most; what comes later is encoded each time. Arbitrary.
const MAX_BYTES: usize = 256 << 20;

/// Encodings remembered by arm and content, up to 256 MiB. Clones share them; give one to several
/// experiments on the same traffic, and the strong codecs work once for each distinct block.
#[derive(Clone, Debug, Default)]
pub struct Memo {
    shared: Arc<Mutex<Remembered>>,
}

#[derive(Debug, Default)]
struct Remembered {
    /// `None` for what did not become smaller.
    blocks: HashMap<Key, Option<Box<[u8]>>>,
    bytes: usize,
    recalled: u64,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    arm: Arm,
    limits: DecodeLimits,
    plain_len: usize,
    /// 64 bits: of a million blocks two are taken for one with a probability of 3e-8, and then the
    /// session's checksum tells.
    hash: u64,
}

impl Memo {
    /// How many blocks were not encoded again.
    #[cfg(test)]
    pub(crate) fn recalled(&self) -> u64 {
        self.lock().recalled
    }

    pub(super) fn encode(
        &self,
        arm: Arm,
        limits: DecodeLimits,
        plain: &[u8],
        wire: &mut [u8],
        encode: impl FnOnce(&mut [u8]) -> Result<Encoded, EncodeError>,
    ) -> Result<Encoded, EncodeError> {
        if wire.len() < plain.len() || !is_worth_it(arm, plain.len()) {
            return encode(wire);
        }
        let key = Key {
            arm,
            limits,
            plain_len: plain.len(),
            hash: hash(plain),
        };
        if let Some(known) = self.recall(&key, wire) {
            return Ok(known);
        }
        let encoded = encode(wire)?;
        self.remember(key, encoded, wire);
        Ok(encoded)
    }

    fn recall(&self, key: &Key, wire: &mut [u8]) -> Option<Encoded> {
        let mut shared = self.lock();
        let encoded = match shared.blocks.get(key)? {
            Some(bytes) => {
                wire[..bytes.len()].copy_from_slice(bytes);
                Encoded::Written(bytes.len())
            }
            None => Encoded::NotSmaller,
        };
        shared.recalled += 1;
        Some(encoded)
    }

    fn remember(&self, key: Key, encoded: Encoded, wire: &[u8]) {
        let mut shared = self.lock();
        let bytes = match encoded {
            Encoded::Written(len) => Some(&wire[..len]),
            Encoded::NotSmaller => None,
        };
        let len = size_of::<Key>() + bytes.map_or(0, <[u8]>::len);
        if shared.bytes + len <= MAX_BYTES {
            shared.bytes += len;
            shared.blocks.insert(key, bytes.map(Box::from));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Remembered> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether hashing and looking up (about 1 ns a byte and 200 ns) costs far less than encoding.
fn is_worth_it(arm: Arm, plain_len: usize) -> bool {
    prior_encode_nanos(arm, plain_len) >= 4 * (plain_len as u64 + 200)
}

fn hash(plain: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(plain);
    hasher.finish()
}

#[cfg(all(test, feature = "zstd"))]
mod tests {
    use super::*;
    use crate::codecs::{CodecId, Codecs};

    #[test]
    fn a_block_is_encoded_once_an_arm() {
        let memo = Memo::default();
        let plain = b"so long and so long and so long and so long".repeat(20);
        let mut wire = vec![0; plain.len()];
        let encode = |level, wire: &mut [u8]| {
            let mut codecs = Codecs::new();
            codecs.remember_in(memo.clone());
            codecs.encode(Arm::new(CodecId::ZSTD, level), &plain, wire)
        };
        let first = encode(9, &mut wire).expect("encodes");
        let mut again = vec![0; plain.len()];
        assert_eq!(encode(9, &mut again), Ok(first));
        assert_eq!((wire, memo.recalled()), (again.clone(), 1));
        encode(19, &mut again).expect("encodes");
        assert_eq!(memo.recalled(), 1, "another arm");
        let _ = Codecs::new().encode(Arm::new(CodecId::ZSTD, 9), &plain, &mut again);
        assert_eq!(memo.recalled(), 1, "not in force");
    }
}
