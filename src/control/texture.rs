//! A look at a few hundred bytes of a block: what kind of content it is, for less than a codec's
//! first bytes would cost.

/// Bytes looked at. Arbitrary: enough to tell random bytes from text with certainty.
const SAMPLE: usize = 256;
/// Bytes taken from one place. Arbitrary: a cache line.
const CHUNK: usize = 64;
/// Bytes from which on the sample says anything. Arbitrary: of 276 pairs one coincides if they are
/// random, and 17 in text.
const LEAST: usize = 24;
/// Random bytes coincide once in 256 pairs; what coincides less often than this is taken for random.
/// Base64 has 1 in 64, text about 1 in 16, signalling more. Arbitrary between the first two.
const NOISE_PAIRS: u32 = 160;

/// What a block's bytes look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Texture {
    /// Mostly one byte repeated.
    Runs,
    /// Text, records, tables: bytes that repeat unevenly.
    #[default]
    Records,
    /// Bytes as good as random: compressed, encrypted, media.
    Noise,
}

impl Texture {
    /// Its name in traces and other texts for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Records => "records",
            Self::Noise => "noise",
        }
    }

    /// The texture of the bytes in `parts`, from a sample of their beginnings, middles and ends.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut counts = [0_i16; 256];
        let mut bytes = 0_u32;
        for part in parts {
            let room = SAMPLE.saturating_sub(bytes as usize);
            if room == 0 {
                break;
            }
            let chunks = part.len().div_ceil(CHUNK).min(room.div_ceil(CHUNK));
            for chunk in 0..chunks {
                // Spread over the part, but never the same byte twice.
                let from = if part.len() <= chunks * CHUNK {
                    CHUNK * chunk
                } else {
                    (part.len() - CHUNK) * chunk / (chunks - 1).max(1)
                };
                let sample = &part[from..part.len().min(from + CHUNK)];
                for byte in sample {
                    counts[usize::from(*byte)] += 1;
                }
                bytes += sample.len() as u32;
            }
        }
        // Pairs of bytes that are the same: of each byte that came n times n (n - 1) / 2.
        let squares: i32 = counts.iter().map(|n| i32::from(*n) * i32::from(*n)).sum();
        let equal = (squares.unsigned_abs() - bytes) / 2;
        let pairs = bytes * bytes.saturating_sub(1) / 2;
        if (bytes as usize) < LEAST {
            Self::Records
        } else if equal.saturating_mul(NOISE_PAIRS) < pairs {
            Self::Noise
        } else if equal > pairs / 2 {
            Self::Runs
        } else {
            Self::Records
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_text_and_runs_are_told_apart() {
        let mut rng = fastrand::Rng::with_seed(5);
        for len in [100, 192, 1000, 70_000] {
            let noise: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
            let text: Vec<u8> = b"GET /index.html HTTP/1.1 host: example.net "
                .iter()
                .copied()
                .cycle()
                .take(len)
                .collect();
            assert_eq!(Texture::of([noise.as_slice()]), Texture::Noise, "{len}");
            assert_eq!(Texture::of([text.as_slice()]), Texture::Records, "{len}");
            assert_eq!(Texture::of([vec![7; len].as_slice()]), Texture::Runs);
            let in_parts = noise.chunks(50);
            assert_eq!(Texture::of(in_parts), Texture::Noise);
        }
    }

    #[test]
    fn too_few_bytes_say_nothing() {
        assert_eq!(Texture::of([]), Texture::Records);
        assert_eq!(
            Texture::of([b"abcdefgh".as_slice(), b"ijkl"]),
            Texture::Records
        );
    }
}
