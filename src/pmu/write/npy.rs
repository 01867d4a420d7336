//! Numpy's format for one array, here one of records with a typed field for each column: `numpy.load` reads it, and pandas and polars take that
//! as a table. Arrow's own crates take three minutes of processor time to build, and a file of theirs is whole only when it is closed; this is a
//! header and the numbers, whole after each flush, and as long as there is room.
//!
//! The header is text of a fixed length: only the number of records changes.

use std::io::Write;

use super::{Column, columns, nanos};
use crate::pmu::reason::Place;
use crate::pmu::store::{Layout, Sample};

#[derive(Debug)]
pub(super) struct Npy {
    /// Without the number of records: before it and after it.
    fields: String,
    /// How long the names of sets are at most, bytes.
    set_len: usize,
    /// Of the whole header, bytes.
    len: usize,
    columns: Vec<Column>,
}

/// Numpy aligns what follows the header to this, bytes.
const ALIGNMENT: usize = 64;
/// `u64::MAX` has so many digits.
const DIGITS: usize = 20;
/// Before the text: the magic number, version 2.0, and the text's length in 4 bytes.
const MAGIC: &[u8; 8] = b"\x93NUMPY\x02\x00";

impl Npy {
    pub(super) fn begin(layout: &Layout, out: &mut Vec<u8>) -> Self {
        let names = layout.sets().sets().iter().map(|set| set.name().len());
        let set_len = names.max().unwrap_or(1);
        let columns = columns(layout);
        let mut fields = format!(
            "('at_ns', '<u8'), ('interval_ns', '<u8'), ('set', '|S{set_len}'), ('pid', '<i8'), ('cpu', '<i8'), ('share', '<f8'), "
        );
        for (name, _) in &columns {
            // Names have no quotes.
            fields.extend(["('", name.as_str(), "', '<f8'), "]);
        }
        let fields = format!("{{'descr': [{fields}], 'fortran_order': False, 'shape': (");
        let text = fields.len() + DIGITS + ",), }\n".len();
        let len = (MAGIC.len() + 4 + text).next_multiple_of(ALIGNMENT);
        let npy = Self {
            fields,
            set_len,
            len,
            columns: columns.into_iter().map(|(_, column)| column).collect(),
        };
        out.extend_from_slice(&npy.header(0));
        npy
    }

    /// The whole records in a file of so many bytes.
    pub(super) fn records(&self, bytes: u64) -> u64 {
        let record = self.set_len + 8 * (5 + self.columns.len());
        bytes.saturating_sub(self.len as u64) / record as u64
    }

    pub(super) fn header(&self, records: u64) -> Vec<u8> {
        let mut header = Vec::with_capacity(self.len);
        header.extend_from_slice(MAGIC);
        let text = (self.len - MAGIC.len() - 4) as u32;
        header.extend_from_slice(&text.to_le_bytes());
        let _ = write!(header, "{}{records},), }}", self.fields);
        header.resize(self.len - 1, b' ');
        header.push(b'\n');
        header
    }

    pub(super) fn sample(&self, sample: &Sample<'_>, out: &mut Vec<u8>) {
        let head = sample.head();
        let (pid, cpu) = match head.place {
            Place::Process(process) => (i64::from(process), -1),
            Place::Cpu(cpu) => (-1, i64::from(cpu)),
        };
        out.extend_from_slice(&head.at.as_nanos().to_le_bytes());
        out.extend_from_slice(&nanos(head.interval).to_le_bytes());
        let end = out.len() + self.set_len;
        out.extend_from_slice(sample.set().name().as_bytes());
        out.resize(end, 0);
        out.extend_from_slice(&pid.to_le_bytes());
        out.extend_from_slice(&cpu.to_le_bytes());
        out.extend_from_slice(&sample.share().unwrap_or(f64::NAN).to_le_bytes());
        for column in &self.columns {
            let value = column.of(sample).unwrap_or(f64::NAN);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}
