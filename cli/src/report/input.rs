//! Files, line by line: of which kind they are, and rows of that kind.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::error::InputError;
use super::page::clean;

/// The longest line, bytes: as for recordings.
const MAX_LINE: usize = 1 << 20;

/// All that is known, for those who have brought something else.
pub(super) const KINDS: &str = "passes of `bench --json`, recordings of `monitor --out FILE.jsonl`, analyses of `events analyse --json`, \
    decisions of `send --trace`, phases of `load compare --json`, results of `lab`";

/// What a file is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Bench,
    Monitor,
    Events,
    Trace,
    Compare,
    Lab,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bench => "a pass of `bench --json`",
            Self::Monitor => "a recording of `monitor`",
            Self::Events => "an analysis of `events analyse --json`",
            Self::Trace => "a decision of `send --trace`",
            Self::Compare => "a phase of `load compare --json`",
            Self::Lab => "a result of `lab`",
        })
    }
}

/// The fields by which kinds are told apart; what they hold does not matter.
#[derive(Deserialize)]
struct Fields {
    tautline_monitor: Option<Anything>,
    tautline_compare: Option<Anything>,
    tautline_lab: Option<Anything>,
    policy: Option<Anything>,
    round: Option<Anything>,
    stages: Option<Anything>,
    rows_lost: Option<Anything>,
    arm: Option<Anything>,
    reason: Option<Anything>,
}

struct Anything;

impl<'de> Deserialize<'de> for Anything {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl Kind {
    /// What a file of this kind holds.
    pub(super) const fn of_files(self) -> &'static str {
        match self {
            Self::Bench => "passes of bench --json",
            Self::Monitor => "a recording of monitor",
            Self::Events => "events analyse --json",
            Self::Trace => "decisions of send --trace",
            Self::Compare => "phases of load compare --json",
            Self::Lab => "results of lab",
        }
    }

    /// What a line is, by the names of its fields.
    fn of(line: &[u8]) -> Option<Self> {
        let fields: Fields = serde_json::from_slice(line).ok()?;
        if fields.tautline_monitor.is_some() {
            Some(Self::Monitor)
        } else if fields.tautline_compare.is_some() {
            Some(Self::Compare)
        } else if fields.tautline_lab.is_some() {
            Some(Self::Lab)
        } else if fields.policy.is_some() && fields.round.is_some() {
            Some(Self::Bench)
        } else if fields.stages.is_some() && fields.rows_lost.is_some() {
            Some(Self::Events)
        } else if fields.arm.is_some() && fields.reason.is_some() {
            Some(Self::Trace)
        } else {
            None
        }
    }
}

/// A file that is read once, from its beginning.
pub(super) struct Input {
    /// As it is shown.
    name: String,
    kind: Kind,
    reader: BufReader<File>,
    line: Vec<u8>,
    number: usize,
    /// The first line has been read and not been taken.
    is_first: bool,
}

impl Input {
    /// # Errors
    ///
    /// It cannot be read, is empty, or of no kind that is known.
    pub(super) fn open(path: &Path) -> Result<Self, InputError> {
        let name = clean(&path.display().to_string(), 400);
        let failed = |source| InputError::Io {
            file: name.clone(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        let mut input = Self {
            name: name.clone(),
            kind: Kind::Bench,
            reader: BufReader::new(file),
            line: Vec::new(),
            number: 0,
            is_first: false,
        };
        if !input.advance()? {
            return Err(InputError::Empty { file: name });
        }
        input.kind = Kind::of(&input.line).ok_or(InputError::Unknown {
            file: name,
            line: input.number,
        })?;
        input.is_first = true;
        Ok(input)
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Reads the next line that is not blank; whether there was one.
    fn advance(&mut self) -> Result<bool, InputError> {
        loop {
            self.line.clear();
            let mut limited = Read::take(&mut self.reader, MAX_LINE as u64 + 1);
            let read = limited.read_until(b'\n', &mut self.line);
            let read = read.map_err(|source| InputError::Io {
                file: self.name.clone(),
                source,
            })?;
            if read == 0 {
                return Ok(false);
            }
            self.number += 1;
            if read > MAX_LINE {
                return Err(InputError::TooLong {
                    file: self.name.clone(),
                    line: self.number,
                    max: MAX_LINE,
                });
            }
            if !self.line.iter().all(u8::is_ascii_whitespace) {
                return Ok(true);
            }
        }
    }

    /// The next row with the number of its line; `None` at the end, or where the last line was cut.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is of another kind, or wrong.
    pub(super) fn row<T: DeserializeOwned>(&mut self) -> Result<Next<T>, InputError> {
        if !std::mem::take(&mut self.is_first) && !self.advance()? {
            return Ok(Next::End);
        }
        let is_whole = self.line.ends_with(b"\n");
        let error = match serde_json::from_slice(&self.line) {
            Ok(row) => return Ok(Next::Row(self.number, row)),
            Err(error) => error,
        };
        // Whatever else is wrong with it, a line that ends like that is another's.
        if !is_whole && error.classify() == Category::Eof && self.number > 1 {
            return Ok(Next::Cut(self.number));
        }
        match Kind::of(&self.line) {
            Some(found) if found != self.kind => Err(InputError::Mixed {
                file: self.name.clone(),
                line: self.number,
                first: self.kind,
                found,
            }),
            _ => Err(self.wrong(&error.to_string())),
        }
    }

    /// All rows, each given to `take` with its line; what is to be said of a last line that was cut.
    ///
    /// # Errors
    ///
    /// Those of [`Self::row`] and of `take`, which says what is wrong.
    pub(super) fn each<T: DeserializeOwned>(
        &mut self,
        mut take: impl FnMut(T) -> Result<(), Refused>,
    ) -> Result<Option<String>, InputError> {
        loop {
            match self.row()? {
                Next::End => return Ok(None),
                Next::Cut(line) => return Ok(Some(cut(&self.name, line))),
                Next::Row(line, row) => take(row).map_err(|refused| match refused {
                    Refused::Wrong(reason) => self.wrong(&reason),
                    Refused::TooMany(what, max) => InputError::TooMany {
                        file: self.name.clone(),
                        line,
                        what,
                        max,
                    },
                })?,
            }
        }
    }

    fn wrong(&self, reason: &str) -> InputError {
        InputError::Line {
            file: self.name.clone(),
            line: self.number,
            kind: self.kind,
            reason: clean(reason, 300),
        }
    }

    /// The whole file once more, for those who read for themselves.
    pub(super) fn into_reader(self) -> (String, Counted) {
        let reader = Cursor::new(self.line).chain(self.reader);
        let counted = Counted {
            reader: Box::new(reader),
            // Of blank lines before the first one.
            lines: self.number - 1,
        };
        (self.name, counted)
    }
}

/// What is said of a last line that was cut.
pub(super) fn cut(file: &str, line: usize) -> String {
    format!(
        "{file}: line {line}, the last, was cut (the disk was full, or it is still being written): it is left out"
    )
}

/// What [`Input::row`] has found.
pub(super) enum Next<T> {
    Row(usize, T),
    /// The last line, of this number, was cut.
    Cut(usize),
    End,
}

/// Why a row is not taken.
pub(super) enum Refused {
    Wrong(String),
    TooMany(&'static str, usize),
}

/// A reader that knows how many lines have been read.
pub(super) struct Counted {
    reader: Box<dyn BufRead>,
    /// Whole ones so far.
    pub(super) lines: usize,
}

fn newlines(bytes: &[u8]) -> usize {
    bytes.split(|byte| *byte == b'\n').count() - 1
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(into)?;
        self.lines += newlines(&into[..read]);
        Ok(read)
    }
}

impl BufRead for Counted {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        if let Ok(buffer) = self.reader.fill_buf() {
            let taken = &buffer[..amount.min(buffer.len())];
            self.lines += newlines(taken);
        }
        self.reader.consume(amount);
    }
}

/// A number that can be measured: finite and not below zero, and not so large that sums of it mean nothing.
pub(super) fn measured(name: &str, value: f64) -> Result<f64, Refused> {
    /// A thousand million million: no time in any unit here, rate or count is.
    const MOST: f64 = 1e15;

    if (0.0..=MOST).contains(&value) {
        Ok(value)
    } else {
        Err(Refused::Wrong(format!(
            "`{name}` is {value:e}, and can be 0 to {MOST:e}"
        )))
    }
}
