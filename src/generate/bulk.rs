//! Large messages: prose, media, constants.

use bytes::Bytes;

use super::skewed;

const PROSE_LEN: usize = 256 << 10;
const PIECE_LEN: usize = 64 << 10;
/// As many words as everyday prose uses; arbitrary.
const VOCABULARY: usize = 4096;
const CONSONANTS: &[u8] = b"tnrslmdkpbgvfhzj";
const VOWELS: &[u8] = b"eaoiu";

/// Sentences of words that the seed invents, a few of them in most sentences.
#[derive(Clone, Debug)]
pub(super) struct Prose {
    rng: fastrand::Rng,
    words: Vec<Vec<u8>>,
}

impl Prose {
    pub(super) fn new(mut rng: fastrand::Rng) -> Self {
        // Frequent words are short, as in languages.
        let words = (0..VOCABULARY)
            .map(|rank| word(&mut rng, 1 + usize::ilog2(rank + 1) / 5))
            .collect();
        Self { rng, words }
    }

    pub(super) fn message(&mut self) -> Bytes {
        let mut text = Vec::with_capacity(PROSE_LEN + 256);
        while text.len() < PROSE_LEN {
            self.sentence(&mut text);
            text.push(if self.rng.u8(..) < 40 { b'\n' } else { b' ' });
        }
        text.truncate(PROSE_LEN);
        Bytes::from(text)
    }

    fn sentence(&mut self, text: &mut Vec<u8>) {
        let start = text.len();
        let words = self.rng.u8(5..20);
        for index in 0..words {
            if index > 0 {
                let comma = self.rng.u8(..) < 20;
                text.extend_from_slice(if comma { b", " } else { b" " });
            }
            text.extend_from_slice(skewed::<Vec<u8>>(&mut self.rng, &self.words));
        }
        text[start].make_ascii_uppercase();
        text.push(b'.');
    }
}

/// So many syllables, and perhaps a closing consonant.
fn word(rng: &mut fastrand::Rng, syllables: u32) -> Vec<u8> {
    let mut word = Vec::new();
    for _ in 0..syllables {
        word.push(*skewed(rng, CONSONANTS));
        word.push(*skewed(rng, VOWELS));
    }
    if rng.bool() {
        word.push(*skewed(rng, CONSONANTS));
    }
    word
}

/// Random bytes.
#[derive(Clone, Debug)]
pub(super) struct Media {
    rng: fastrand::Rng,
}

impl Media {
    pub(super) fn new(rng: fastrand::Rng) -> Self {
        Self { rng }
    }

    pub(super) fn message(&mut self) -> Bytes {
        let mut piece = vec![0; PIECE_LEN];
        self.rng.fill(&mut piece);
        Bytes::from(piece)
    }
}

/// A message of nothing but `byte`.
pub(super) fn constant(byte: u8) -> Bytes {
    Bytes::from(vec![byte; PIECE_LEN])
}
