//! LZ4 block format with a dictionary.
//!
//! The encoder is our own: the table of the dictionary is made once and only read afterwards, and the
//! message has a small table of its own, which is never cleared (positions go on counting from message
//! to message, so that old ones are known to be old). `lz4_flex` fills its table with the dictionary
//! anew for each message, which takes several times as long as a small message.

use bytes::Bytes;

use super::super::lz4::{
    LAST_LITERALS, LAST_MATCH_DISTANCE, MAX_OFFSET, MIN_MATCH, common_prefix, decode_after,
};
use super::super::{DecodeError, Encoded, worthwhile};
use super::recent;
use crate::dictionary::{Dictionary, DictionaryId};

/// A nibble of this value goes on in further bytes.
const NIBBLE_FULL: usize = 15;

/// Binary logarithm of the message's table: 16 KiB, which stays in the first-level cache. What LZ4
/// itself takes by default.
const LOCAL_LOG: u32 = 12;
/// The same of the dictionary's at most: 64 KiB.
const MAX_TABLE_LOG: u32 = 15;
const MIN_TABLE_LOG: u32 = 8;
/// After 2^6 positions without a match every second one is tried, and so on, as LZ4 does.
const SKIP_LOG: u32 = 6;

/// Longer than any block; positions count in 32 bits.
const MAX_PLAIN_LEN: usize = 1 << 30;

/// Tables of dictionaries, those used last first, and the one of messages.
#[derive(Debug, Default)]
pub(super) struct Lz4Prepared {
    tables: Vec<Table>,
    local: Local,
}

impl Lz4Prepared {
    pub(super) fn encode(
        &mut self,
        dictionary: &Dictionary,
        plain: &[u8],
        wire: &mut [u8],
    ) -> Encoded {
        if plain.len() > MAX_PLAIN_LEN {
            return Encoded::NotSmaller;
        }
        let id = dictionary.id();
        let made = recent(
            &mut self.tables,
            |it| it.id == id,
            || Ok::<_, core::convert::Infallible>(Table::new(dictionary)),
        );
        let Ok(table) = made;
        self.local.begin(plain.len());
        let mut writer = Writer {
            output: worthwhile(plain, wire),
            len: 0,
        };
        match compress(table, &mut self.local, plain, &mut writer) {
            Some(()) => Encoded::smaller_than(plain.len(), writer.len),
            None => Encoded::NotSmaller,
        }
    }

    pub(super) fn has_encoder(&self, id: DictionaryId) -> bool {
        self.tables.iter().any(|it| it.id == id)
    }

    pub(super) fn memory(&self) -> usize {
        let tables = self.tables.iter().map(|it| size_of_val(&*it.positions));
        tables.sum::<usize>() + size_of_val(&*self.local.positions)
    }
}

pub(super) fn decode(
    dictionary: &Dictionary,
    wire: &[u8],
    plain: &mut [u8],
) -> Result<usize, DecodeError> {
    decode_after(tail(dictionary.content()), wire, plain)
}

/// The part of a dictionary that offsets can reach.
fn tail(content: &[u8]) -> &[u8] {
    &content[content.len().saturating_sub(MAX_OFFSET)..]
}

/// Where in a dictionary four bytes occur last, by their hash.
#[derive(Debug)]
struct Table {
    id: DictionaryId,
    content: Bytes,
    log: u32,
    /// Position and one; 0 for none.
    positions: Box<[u16]>,
}

impl Table {
    fn new(dictionary: &Dictionary) -> Self {
        let content = dictionary.content();
        let content = content.slice(content.len() - tail(content).len()..);
        let log = (usize::BITS - content.len().leading_zeros()).clamp(MIN_TABLE_LOG, MAX_TABLE_LOG);
        let mut positions = vec![0; 1 << log].into_boxed_slice();
        for (at, window) in content.windows(MIN_MATCH).enumerate() {
            // Below 65 532, since the content has 65 535 bytes at most.
            positions[hash(word(window, 0), log)] = (at + 1) as u16;
        }
        Self {
            id: dictionary.id(),
            content,
            log,
            positions,
        }
    }

    fn find(&self, value: u32) -> Option<usize> {
        let found = usize::from(self.positions[hash(value, self.log)]).checked_sub(1)?;
        (word(&self.content, found) == value).then_some(found)
    }
}

/// Where in the message four bytes occurred last, by their hash.
#[derive(Debug, Default)]
struct Local {
    positions: Vec<u32>,
    /// What the message's first byte counts as; lower positions are of messages before.
    base: u32,
    len: u32,
}

impl Local {
    fn begin(&mut self, plain_len: usize) {
        self.base = self.base.saturating_add(self.len);
        self.len = plain_len as u32;
        if self.positions.is_empty() || self.base > u32::MAX - self.len {
            self.positions.clear();
            self.positions.resize(1 << LOCAL_LOG, 0);
            // Above what an empty entry holds.
            self.base = 1;
        }
    }

    /// Notes `at` for `value`, and gives what was there of this message.
    fn replace(&mut self, value: u32, at: usize) -> Option<usize> {
        let entry = &mut self.positions[hash(value, LOCAL_LOG)];
        let before = core::mem::replace(entry, self.base + at as u32);
        before.checked_sub(self.base).map(|at| at as usize)
    }
}

/// A repetition of what came before.
struct Match {
    /// Where it begins in the message.
    start: usize,
    len: usize,
    offset: usize,
}

/// Writes the block, or `None` when it has no room.
fn compress(table: &Table, local: &mut Local, plain: &[u8], writer: &mut Writer<'_>) -> Option<()> {
    let mut anchor = 0;
    if let Some(last_start) = plain.len().checked_sub(LAST_MATCH_DISTANCE) {
        let (mut at, mut misses) = (0, 0);
        while at <= last_start {
            let Some(found) = best_match(table, local, plain, anchor, at) else {
                misses += 1;
                at += 1 + (misses >> SKIP_LOG);
                continue;
            };
            writer.sequence(&plain[anchor..found.start], &found)?;
            anchor = found.start + found.len;
            at = anchor;
            misses = 0;
            if at <= last_start {
                local.replace(word(plain, at - 2), at - 2);
            }
        }
    }
    writer.last(&plain[anchor..])
}

fn best_match(
    table: &Table,
    local: &mut Local,
    plain: &[u8],
    anchor: usize,
    at: usize,
) -> Option<Match> {
    let value = word(plain, at);
    let end = plain.len() - LAST_LITERALS;
    let near = local
        .replace(value, at)
        .filter(|&from| at - from <= MAX_OFFSET && word(plain, from) == value)
        .map(|from| {
            let back = common_suffix(&plain[..from], &plain[anchor..at]);
            let ahead = common_prefix(&plain[from..], &plain[at..end]);
            Match {
                start: at - back,
                len: back + ahead,
                offset: at - from,
            }
        });
    let dictionary = &table.content[..];
    let far = table
        .find(value)
        .filter(|&from| dictionary.len() - from + at <= MAX_OFFSET)
        .map(|from| {
            let back = common_suffix(&dictionary[..from], &plain[anchor..at]);
            let mut ahead = common_prefix(&dictionary[from..], &plain[at..end]);
            if from + ahead == dictionary.len() {
                // The message follows the dictionary.
                ahead += common_prefix(plain, &plain[at + ahead..end]);
            }
            Match {
                start: at - back,
                len: back + ahead,
                offset: dictionary.len() - from + at,
            }
        });
    match (near, far) {
        (Some(near), Some(far)) if far.len > near.len => Some(far),
        (None, far) => far,
        (near, _) => near,
    }
}

/// The output, as far as it goes.
struct Writer<'a> {
    output: &'a mut [u8],
    len: usize,
}

impl Writer<'_> {
    /// Literals and the match after them.
    fn sequence(&mut self, literals: &[u8], found: &Match) -> Option<()> {
        let more = found.len - MIN_MATCH;
        self.literals(literals, more.min(NIBBLE_FULL))?;
        // At most 65 535, as the finder made sure.
        self.put(&(found.offset as u16).to_le_bytes())?;
        self.rest_of(more)
    }

    /// The literals that end the block.
    fn last(&mut self, literals: &[u8]) -> Option<()> {
        self.literals(literals, 0)
    }

    fn literals(&mut self, literals: &[u8], match_nibble: usize) -> Option<()> {
        let nibble = literals.len().min(NIBBLE_FULL);
        self.put(&[(nibble << 4 | match_nibble) as u8])?;
        self.rest_of(literals.len())?;
        self.put(literals)
    }

    /// What a nibble does not hold of `len`.
    fn rest_of(&mut self, len: usize) -> Option<()> {
        let Some(mut rest) = len.checked_sub(NIBBLE_FULL) else {
            return Some(());
        };
        while rest >= 255 {
            self.put(&[255])?;
            rest -= 255;
        }
        self.put(&[rest as u8])
    }

    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let target = self.output.get_mut(self.len..self.len + bytes.len())?;
        target.copy_from_slice(bytes);
        self.len += bytes.len();
        Some(())
    }
}

/// Four bytes from `at` on, which must be there.
fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = &bytes[at..at + MIN_MATCH];
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Knuth's multiplicative hash, as LZ4 has it.
fn hash(value: u32, log: u32) -> usize {
    (value.wrapping_mul(2_654_435_761) >> (u32::BITS - log)) as usize
}

fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    let pairs = a.iter().rev().zip(b.iter().rev());
    pairs.take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dictionary(content: &[u8]) -> Dictionary {
        Dictionary::new(content.to_vec()).expect("a length between")
    }

    fn encode(prepared: &mut Lz4Prepared, dictionary: &Dictionary, plain: &[u8]) -> Vec<u8> {
        let mut wire = vec![0; plain.len()];
        let Encoded::Written(len) = prepared.encode(dictionary, plain, &mut wire) else {
            panic!("not smaller");
        };
        wire.truncate(len);
        wire
    }

    #[test]
    fn a_match_may_run_from_the_dictionary_into_the_message() {
        let dictionary = dictionary(b"0123456789 and then the end of it");
        let plain = b"the end of itABthe end of itABthe end of itABCDEFGHIJKLM";
        let wire = encode(&mut Lz4Prepared::default(), &dictionary, plain);
        let mut back = vec![0; plain.len()];
        assert_eq!(decode(&dictionary, &wire, &mut back), Ok(plain.len()));
        assert_eq!(back, plain);
    }

    #[test]
    fn positions_that_have_counted_to_their_end_begin_again() {
        let dictionary = dictionary(&b"some words that come again and again".repeat(3));
        let plain = b"and again some words that come again".repeat(2);
        let mut prepared = Lz4Prepared::default();
        let first = encode(&mut prepared, &dictionary, &plain);
        prepared.local.base = u32::MAX - 100;
        for _ in 0..4 {
            assert_eq!(encode(&mut prepared, &dictionary, &plain), first);
        }
        assert!(prepared.local.base < 1000);
    }
}
