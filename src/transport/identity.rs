//! Who a peer has proved to be.

use core::fmt;

use sha2::{Digest, Sha256};

/// Who a peer has proved to be: the SHA-256 of the public key in its certificate (its `SubjectPublicKeyInfo`, as
/// RFC 7469 pins keys). It stays the same when the certificate is renewed with the same key, and whoever has it holds that
/// key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerIdentity([u8; 32]);

impl PeerIdentity {
    #[cfg_attr(
        not(any(test, feature = "tls")),
        expect(dead_code, reason = "no other carrier proves who the peer is")
    )]
    pub(super) fn of_public_key(info: &[u8]) -> Self {
        Self(Sha256::digest(info).into())
    }

    /// The hash.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// In hexadecimal.
impl fmt::Display for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerIdentity({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_printed_as_its_hash() {
        let identity = PeerIdentity(core::array::from_fn(|at| at as u8));
        let text = identity.to_string();
        assert_eq!(text.len(), 64);
        assert!(
            text.starts_with("000102") && text.ends_with("1e1f"),
            "{text}"
        );
        assert_eq!(format!("{identity:?}"), format!("PeerIdentity({text})"));
    }
}
