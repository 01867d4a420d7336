//! Whether a peer's dictionary is taken.

use super::{DictionaryError, MAX_DICTIONARY_LEN};

/// From whom dictionaries are accepted. A dictionary costs memory and the time to digest it, and lets
/// whoever chose it learn, from the lengths of what is encoded with it, what messages have in common
/// with it: docs/security.md.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Acceptance {
    /// From peers whose identity the carrier has proved (TLS with certificates: `transport` knows that by itself), or of
    /// whom the application says so.
    #[default]
    Authenticated,
    /// From none.
    Never,
    /// From any.
    Always,
}

/// What of peers' dictionaries is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AcceptancePolicy {
    /// From whom.
    pub from: Acceptance,
    /// Bytes of one at most. Default 112 KiB.
    pub max_len: usize,
    /// Dictionaries of one peer held at most. Default 4: two that live, two that are on their way out.
    pub max_held: usize,
}

impl Default for AcceptancePolicy {
    fn default() -> Self {
        Self {
            from: Acceptance::default(),
            max_len: MAX_DICTIONARY_LEN,
            max_held: 4,
        }
    }
}

/// Why a dictionary is not taken: whoever offers it goes on without.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Dictionaries are not accepted at all.
    #[error("dictionaries are not accepted")]
    Never,
    /// The peer has not proved who it is.
    #[error("dictionaries are accepted from authenticated peers only")]
    NotAuthenticated,
    /// As many as allowed are held.
    #[error("{held} dictionaries are held, the limit is {max}")]
    TooMany {
        /// How many are held.
        held: usize,
        /// The limit.
        max: usize,
    },
    /// Too long, too short, or not what its name says.
    #[error(transparent)]
    Dictionary(#[from] DictionaryError),
}

impl AcceptancePolicy {
    /// The default with another source.
    pub fn new(from: Acceptance) -> Self {
        Self {
            from,
            ..Self::default()
        }
    }

    /// Judges an offer by what is known before its bytes come, so that nothing is reserved for what
    /// will be refused: whether the peer is authenticated, how many of its dictionaries are `held`, and
    /// the length that it declares. Check the bytes with [`Dictionary::verified`](super::Dictionary::verified).
    ///
    /// # Errors
    ///
    /// The reason to say no.
    pub const fn judge(
        &self,
        is_authenticated: bool,
        held: usize,
        declared_len: usize,
    ) -> Result<(), Refusal> {
        match self.from {
            Acceptance::Never => return Err(Refusal::Never),
            Acceptance::Authenticated if !is_authenticated => {
                return Err(Refusal::NotAuthenticated);
            }
            _ => {}
        }
        if held >= self.max_held {
            return Err(Refusal::TooMany {
                held,
                max: self.max_held,
            });
        }
        if declared_len > self.max_len {
            return Err(Refusal::Dictionary(DictionaryError::TooLong {
                given: declared_len,
                max: self.max_len,
            }));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_only_authenticated_peers_may() {
        let policy = AcceptancePolicy::default();
        assert_eq!(policy.judge(true, 0, 1000), Ok(()));
        assert_eq!(policy.judge(false, 0, 1000), Err(Refusal::NotAuthenticated));
        let always = AcceptancePolicy::new(Acceptance::Always);
        assert_eq!(always.judge(false, 0, 1000), Ok(()));
        let never = AcceptancePolicy::new(Acceptance::Never);
        assert_eq!(never.judge(true, 0, 1000), Err(Refusal::Never));
    }

    #[test]
    fn numbers_and_lengths_are_limited_before_anything_is_reserved() {
        let policy = AcceptancePolicy::default();
        assert_eq!(
            policy.judge(true, 4, 1000),
            Err(Refusal::TooMany { held: 4, max: 4 })
        );
        let given = MAX_DICTIONARY_LEN + 1;
        assert_eq!(
            policy.judge(true, 0, given),
            Err(Refusal::Dictionary(DictionaryError::TooLong {
                given,
                max: MAX_DICTIONARY_LEN
            }))
        );
    }
}
