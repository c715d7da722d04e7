//! Generated columns as plain vectors, and their parallel generation.

use rayon::prelude::*;

/// Rows per task of a parallel column.
const ROWS_PER_TASK: usize = 8192;

/// The values of one generated column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnValues {
    /// Values as 32-bit signed integers.
    Int32(Vec<i32>),
    /// Dictionary-encoded text: one code per row.
    Dict8 {
        /// One index into `values` per row.
        codes: Vec<u8>,
        /// The text of each code.
        values: Vec<String>,
    },
    /// Text of varying length.
    Text(TextColumn),
}

impl ColumnValues {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Int32(values) => values.len(),
            Self::Dict8 { codes, .. } => codes.len(),
            Self::Text(text) => text.len(),
        }
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of an integer column; `None` for other columns.
    pub fn as_int32(&self) -> Option<&[i32]> {
        match self {
            Self::Int32(values) => Some(values),
            _ => None,
        }
    }

    /// The values of a text column; `None` for other columns.
    pub fn as_text(&self) -> Option<&TextColumn> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Strings in one buffer: row `i` is `bytes[offsets[i]..offsets[i + 1]]`; all text is ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextColumn {
    /// One more than the number of rows; ascending, the first is 0.
    pub offsets: Vec<u32>,
    /// The characters of all rows, without separators.
    pub bytes: Vec<u8>,
}

impl TextColumn {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text of `row`; `None` past the end, or if the offsets do not describe valid text.
    pub fn get(&self, row: usize) -> Option<&str> {
        let start = *self.offsets.get(row)? as usize;
        let end = *self.offsets.get(row + 1)? as usize;
        std::str::from_utf8(self.bytes.get(start..end)?).ok()
    }

    /// The texts of all rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map_while(|row| self.get(row))
    }

    /// Generates a column in parallel; `write` appends the text of a row.
    pub(crate) fn generate(rows: usize, write: impl Fn(u64, &mut Vec<u8>) + Sync) -> Self {
        let parts: Vec<(Vec<u32>, Vec<u8>)> = (0..rows.div_ceil(ROWS_PER_TASK))
            .into_par_iter()
            .map(|task| {
                let range = task * ROWS_PER_TASK..rows.min((task + 1) * ROWS_PER_TASK);
                let mut ends = Vec::with_capacity(range.len());
                let mut bytes = Vec::with_capacity(range.len() * 16);
                for row in range {
                    write(row as u64, &mut bytes);
                    ends.push(bytes.len() as u32);
                }
                (ends, bytes)
            })
            .collect();
        let mut offsets = Vec::with_capacity(rows + 1);
        let mut all = Vec::with_capacity(parts.iter().map(|(_, bytes)| bytes.len()).sum());
        offsets.push(0);
        for (ends, bytes) in parts {
            // At most 26 bytes per row and 43 million rows at the largest scale factor: below 2^32.
            let base = all.len() as u32;
            offsets.extend(ends.into_iter().map(|end| base + end));
            all.extend_from_slice(&bytes);
        }
        Self {
            offsets,
            bytes: all,
        }
    }
}

/// Generates an integer column in parallel.
pub(crate) fn generate_int32(rows: usize, value: impl Fn(u64) -> i32 + Sync) -> ColumnValues {
    ColumnValues::Int32(
        (0..rows)
            .into_par_iter()
            .with_min_len(ROWS_PER_TASK)
            .map(|row| value(row as u64))
            .collect(),
    )
}
