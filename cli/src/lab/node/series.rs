//! Round trips by message, in bounded memory: chunks that double when there are too many.

use crate::report::lab::Chunk;

/// Chunks that are kept.
const MOST: usize = 500;

pub(super) struct Series {
    chunks: Vec<Chunk>,
    /// Messages of a chunk.
    length: u64,
    most: usize,
    messages: u64,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            length: 1,
            most: MOST,
            messages: 0,
        }
    }
}

impl Series {
    /// The round trip of the next message.
    pub(super) fn add(&mut self, seconds: f64) {
        if self.messages.is_multiple_of(self.length) {
            if self.chunks.len() >= self.most {
                self.double();
            }
            if self.messages.is_multiple_of(self.length) {
                self.chunks.push(Chunk {
                    first: self.messages,
                    least: f64::INFINITY,
                    ..Chunk::default()
                });
            }
        }
        if let Some(chunk) = self.chunks.last_mut() {
            // The sum, until it is asked for.
            chunk.mean += seconds;
            chunk.messages += 1;
            chunk.least = chunk.least.min(seconds);
            chunk.greatest = chunk.greatest.max(seconds);
        }
        self.messages += 1;
    }

    fn double(&mut self) {
        self.length *= 2;
        let pairs = self.chunks.chunks(2).map(|pair| {
            let mut sum = pair[0];
            if let Some(second) = pair.get(1) {
                sum.messages += second.messages;
                sum.mean += second.mean;
                sum.least = sum.least.min(second.least);
                sum.greatest = sum.greatest.max(second.greatest);
            }
            sum
        });
        self.chunks = pairs.collect();
    }

    pub(super) fn chunks(&self) -> Vec<Chunk> {
        let means = self.chunks.iter().map(|chunk| Chunk {
            mean: chunk.mean / chunk.messages.max(1) as f64,
            ..*chunk
        });
        means.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_in_one_chunk_and_no_peak_is_lost() {
        for count in [0, 1, 3, 500, 501, 12_345] {
            let mut series = Series::default();
            for message in 0..count {
                series.add(if message == 77 { 9.0 } else { 1.0 });
            }
            let chunks = series.chunks();
            assert!(chunks.len() <= MOST, "{count}: {}", chunks.len());
            let mut next = 0;
            for chunk in &chunks {
                assert_eq!(chunk.first, next, "{count}");
                next += chunk.messages;
            }
            assert_eq!(next, count);
            if count > 77 {
                let sum: f64 = chunks
                    .iter()
                    .map(|chunk| chunk.mean * chunk.messages as f64)
                    .sum();
                assert!((sum - (count as f64 + 8.0)).abs() < 1e-6, "{sum}");
                assert!(chunks.iter().any(|chunk| chunk.greatest > 8.9));
            }
            assert!(chunks.iter().all(|chunk| chunk.least > 0.9));
        }
    }
}
