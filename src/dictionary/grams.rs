//! In how many distinct messages each substring of eight bytes occurs.

/// Bytes of the substrings that are counted. Eight fit a word, so that they are compared exactly, and
/// are few enough that hardly anything personal is shorter.
pub(super) const GRAM_LEN: usize = 8;

/// Marks what is no substring of eight bytes.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    gram: u64,
    /// Distinct messages; 0 for an empty place.
    messages: u32,
    /// The last one that it was found in, so that it counts once.
    last: u32,
}

/// Counts by substring, found by linear probing.
#[derive(Debug)]
pub(super) struct Grams {
    entries: Vec<Entry>,
    mask: usize,
}

impl Grams {
    /// Counts all substrings of `messages`. Takes 32 to 64 bytes of memory for each of their bytes.
    pub(super) fn count<'a>(messages: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let total = messages.clone().map(<[u8]>::len).sum::<usize>();
        let places = (2 * total).next_power_of_two().max(16);
        let mut grams = Self {
            entries: vec![Entry::default(); places],
            mask: places - 1,
        };
        for (number, message) in (0_u32..).zip(messages) {
            for window in message.windows(GRAM_LEN) {
                let gram = gram(window);
                let place = grams.place(gram);
                let entry = &mut grams.entries[place];
                if entry.messages == 0 || entry.last != number {
                    entry.gram = gram;
                    entry.messages += 1;
                    entry.last = number;
                }
            }
        }
        grams
    }

    /// In how many messages these eight bytes occur.
    pub(super) fn messages_with(&self, window: &[u8]) -> u32 {
        self.entries[self.place(gram(window))].messages
    }

    /// A number for these eight bytes, below [`Self::numbers`].
    pub(super) fn number(&self, window: &[u8]) -> u32 {
        let place = self.place(gram(window));
        if self.entries[place].messages == 0 {
            NONE
        } else {
            place as u32
        }
    }

    /// The count of each number.
    pub(super) fn weights(&self, min_messages: u32) -> Vec<u32> {
        let count = |entry: &Entry| match entry.messages {
            few if few < min_messages => 0,
            many => many,
        };
        self.entries.iter().map(count).collect()
    }

    fn place(&self, gram: u64) -> usize {
        // Fibonacci hashing; the high bits are the well mixed ones.
        let hash = (gram ^ gram >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut place = (hash >> 20) as usize & self.mask;
        loop {
            let entry = &self.entries[place];
            if entry.messages == 0 || entry.gram == gram {
                return place;
            }
            place = (place + 1) & self.mask;
        }
    }
}

fn gram(window: &[u8]) -> u64 {
    window
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_substring_counts_once_a_message() {
        let messages: [&[u8]; 3] = [b"abcdefghabcdefgh", b"xxabcdefgh", b"short"];
        let grams = Grams::count(messages.iter().copied());
        assert_eq!(grams.messages_with(b"abcdefgh"), 2);
        assert_eq!(grams.messages_with(b"bcdefgha"), 1);
        assert_eq!(grams.messages_with(b"shortsho"), 0);
        assert_eq!(grams.number(b"shortsho"), NONE);
        let weights = grams.weights(2);
        assert_eq!(weights[grams.number(b"abcdefgh") as usize], 2);
        assert_eq!(weights[grams.number(b"bcdefgha") as usize], 0);
    }
}
