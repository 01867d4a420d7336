//! An input that is read byte by byte, as settings and operations.

/// What is left of the input.
pub struct Script<'a>(pub &'a [u8]);

impl Script<'_> {
    pub fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// As [`Self::next`], with zeros after the end.
    pub fn byte(&mut self) -> u8 {
        self.next().unwrap_or_default()
    }
}
