//! The files of messages that a workload names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::MAX_MESSAGE;
use super::error::{Refused, shorten};
use crate::corpus::{Corpus, Limits};

/// The most files that a workload may name.
const MAX_FILES: usize = 64;
/// Bytes of all of them together.
const MAX_BYTES: u64 = 1 << 30;
/// Messages of one of them.
const MAX_MESSAGES: usize = 1 << 20;

type Read<'a> = Box<dyn FnMut(&str, &Limits) -> Result<Corpus, String> + Send + 'a>;

/// Where the corpora that a workload names come from. Each is read once; of all together there may be 64 files, a gigabyte, and a million messages in each.
pub struct Corpora<'a> {
    read: Read<'a>,
    known: BTreeMap<String, Arc<Corpus>>,
    left: u64,
}

impl core::fmt::Debug for Corpora<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Corpora")
            .field("known", &self.known.keys())
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl<'a> Corpora<'a> {
    /// Files, where names are not absolute those of this directory.
    pub fn in_directory(directory: impl AsRef<Path>) -> Self {
        let directory: PathBuf = directory.as_ref().to_owned();
        Self::with(move |name, limits| {
            let corpus = Corpus::read_with(directory.join(name), None, limits);
            corpus.map_err(|error| {
                let mut text = error.to_string();
                let mut next = std::error::Error::source(&error);
                while let Some(error) = next {
                    text = format!("{text}: {error}");
                    next = error.source();
                }
                text
            })
        })
    }

    /// Whatever this function gives for a name, under limits; or why it does not.
    pub fn with(read: impl FnMut(&str, &Limits) -> Result<Corpus, String> + Send + 'a) -> Self {
        Self {
            read: Box::new(read),
            known: BTreeMap::new(),
            left: MAX_BYTES,
        }
    }

    /// No files at all.
    pub fn none() -> Self {
        Self::with(|name, _| Err(format!("no file {} here", shorten(name))))
    }

    pub(super) fn get(&mut self, name: &str) -> Result<Arc<Corpus>, Refused> {
        if let Some(corpus) = self.known.get(name) {
            return Ok(Arc::clone(corpus));
        }
        if self.known.len() >= MAX_FILES {
            return Err(Refused::new(format!(
                "more than {MAX_FILES} files of messages"
            )));
        }
        let limits = Limits::default()
            .max_message(MAX_MESSAGE)
            .max_messages(MAX_MESSAGES)
            .max_input(self.left);
        let corpus = (self.read)(name, &limits).map_err(Refused::new)?;
        let bytes: u64 = corpus
            .messages()
            .iter()
            .map(|message| message.len() as u64)
            .sum();
        self.left = self.left.saturating_sub(bytes);
        let corpus = Arc::new(corpus);
        self.known.insert(name.to_owned(), Arc::clone(&corpus));
        Ok(corpus)
    }
}
