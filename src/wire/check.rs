//! The checksum chain over plain bytes.
//!
//! Each block's CRC-32 (IEEE, processor-accelerated) is chained with that of the blocks before it
//! in its group: `chain' = crc32(chain ‖ crc32(plain))`. A short block carries the chain's low 16
//! bits, a long one all 32. Chaining makes few bits go far: a damaged, lost, repeated or reordered
//! block leaves the chain wrong for good, so that it passes `k` short blocks with probability 2^-16k.

use super::WireError;

/// CRC-32 (IEEE) of `plain`.
#[inline]
pub fn plain_crc(plain: &[u8]) -> u32 {
    crc32fast::hash(plain)
}

/// The chain of one group and direction; starts at zero with each connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Check(u32);

impl Check {
    /// Chains the block whose plain bytes have this CRC-32 and returns the new value.
    #[inline]
    pub fn advance(&mut self, plain_crc: u32) -> u32 {
        let mut link = [0; 8];
        link[..4].copy_from_slice(&self.0.to_le_bytes());
        link[4..].copy_from_slice(&plain_crc.to_le_bytes());
        self.0 = crc32fast::hash(&link);
        self.0
    }

    /// Chains a received block and compares it with `given`, of which `bits` low bits were sent.
    ///
    /// # Errors
    ///
    /// [`WireError::Checksum`] when they differ.
    pub fn verify(&mut self, plain_crc: u32, given: u32, bits: u32) -> Result<(), WireError> {
        let computed = self.advance(plain_crc) & (u32::MAX >> (32 - bits));
        if computed == given {
            Ok(())
        } else {
            Err(WireError::Checksum {
                what: "block",
                given,
                computed,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_or_repeated_block_is_noticed() {
        let crcs = [1, 2, 3].map(|byte| plain_crc(&[byte; 40]));
        let mut sender = Check::default();
        let sent = crcs.map(|crc| sender.advance(crc) & 0xffff);
        let mut receiver = Check::default();
        receiver.verify(crcs[0], sent[0], 16).expect("in order");
        let before = receiver;
        assert!(receiver.verify(crcs[2], sent[2], 16).is_err());
        receiver = before;
        assert!(receiver.verify(crcs[0], sent[0], 16).is_err());
        receiver = before;
        receiver.verify(crcs[1], sent[1], 16).expect("in order");
    }
}
