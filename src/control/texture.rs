//! A look at a few hundred bytes of a block: what kind of content it is, for less than a codec's
//! first bytes would cost.

/// Bytes looked at: enough to tell random bytes from text but once in a million, and few beside what a decision takes. No more than a
/// counter counts.
const SAMPLE: usize = 128;
/// Bytes taken from one place. Arbitrary: half a cache line.
const CHUNK: usize = 32;
/// Bytes from which on the sample says anything. Arbitrary: of 276 pairs one coincides if they are
/// random, and 17 in text.
const LEAST: usize = 24;
/// Random bytes coincide once in 256 pairs; what coincides less often than this is taken for random.
/// Base64 has 1 in 64, text about 1 in 16, signalling more. Between the first two, 4.7 and 6 standard deviations away.
const NOISE_PAIRS: u32 = 140;

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
        let mut counts = [0_u8; 256];
        // Pairs of bytes that are the same: each byte makes one with all those before that are like it.
        let mut equal = 0_u32;
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
                    let count = &mut counts[usize::from(*byte)];
                    equal += u32::from(*count);
                    *count += 1;
                }
                bytes += sample.len() as u32;
            }
        }
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

/// Looks at one block after another of a stream: at most of them in passing, as long as they seem to be what those before were.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TextureLook {
    texture: Texture,
    /// Blocks that may be looked at in passing before one is looked at again.
    left: u8,
}

/// One block in so many is looked at whatever it seems to be. Arbitrary.
const PASSING: u8 = 15;
/// Bytes of a look in passing: as many from the beginning as from the end.
const GLANCE: usize = 64;
/// Of [`GLANCE`] random bytes so many have any one bit set: 3.5 standard deviations around half of them.
const RANDOM_BITS: core::ops::RangeInclusive<u64> = 18..=46;
/// Words of [`GLANCE`] bytes whose bytes are all the same, from which on they seem to be runs.
const RUNS: usize = 5;

impl TextureLook {
    /// The texture of the bytes in `parts`.
    pub(crate) fn of<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]> + Clone) -> Texture {
        let seems = parts.clone().next().and_then(seems);
        if self.left > 0 && seems == Some(self.texture) {
            self.left -= 1;
        } else {
            self.texture = Texture::of(parts);
            self.left = PASSING;
        }
        self.texture
    }
}

/// What bytes seem to be by a few of their bits; `None` if there are too few of them.
fn seems(bytes: &[u8]) -> Option<Texture> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let (first, _) = bytes.split_first_chunk::<{ GLANCE / 2 }>()?;
    let (_, last) = bytes.split_last_chunk::<{ GLANCE / 2 }>()?;
    let words = || {
        let chunks = first.chunks_exact(8).chain(last.chunks_exact(8));
        chunks.map(|word| word.try_into().map_or(0, u64::from_le_bytes))
    };
    // In a random byte each bit is set or not; of text the highest never is, and the next two nearly always are.
    let is_random = [5, 6, 7].into_iter().all(|bit| {
        let set: u64 = words().map(|word| word >> bit & ONES).sum();
        RANDOM_BITS.contains(&(set.wrapping_mul(ONES) >> 56))
    });
    let is_run = |word: &u64| *word == word.rotate_left(8);
    Some(if is_random {
        Texture::Noise
    } else if words().filter(is_run).count() >= RUNS {
        Texture::Runs
    } else {
        Texture::Records
    })
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
    fn what_changes_is_seen_at_once_by_a_look_in_passing() {
        let mut rng = fastrand::Rng::with_seed(6);
        let noise: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(20_000).collect();
        let text = b"GET /index.html HTTP/1.1 host: example.net ".repeat(40);
        let zeros = vec![0; 500];
        let mut look = TextureLook::default();
        let mut of = |bytes: &[u8]| look.of(core::iter::once(bytes));
        for message in noise.chunks(100) {
            assert_eq!(of(message), Texture::Noise);
            assert_eq!(of(&text[..150]), Texture::Records);
            assert_eq!(of(&text[20..300]), Texture::Records);
            assert_eq!(of(&zeros), Texture::Runs);
            assert_eq!(of(&zeros[..70]), Texture::Runs);
        }
    }

    #[test]
    fn noise_seems_to_be_noise_and_nothing_else_does() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut blocks = std::iter::repeat_with(|| {
            let block: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(200).collect();
            seems(&block)
        });
        let noise = blocks.by_ref().take(10_000);
        assert!(noise.filter(|seems| *seems == Some(Texture::Noise)).count() > 9_900);
        let numbers: Vec<u8> = (0..100_u32)
            .flat_map(|n| (n * 1000).to_le_bytes())
            .collect();
        assert_eq!(seems(&numbers), Some(Texture::Records));
        assert_eq!(
            seems("Ключ от квартиры, где деньги лежат. И ещё.".as_bytes()),
            Some(Texture::Records)
        );
        assert_eq!(seems(&[1; 20]), None);
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
