//! What is read for the rows of a vector that are left.

use std::ops::Range;
use tierloom_kernels::codes::Codes;
use tierloom_kernels::select::{Selection, VECTOR_ROWS};
use tierloom_kernels::words::{Bits, unpack_bits};

/// The values of a column that has no codes: integers of 64 bits, or the bits of floats.
#[derive(Debug, Clone, Copy)]
pub struct WordColumn<'a> {
    /// A word per row; any where the row is NULL.
    pub words: &'a [i64],
    /// The rows that are not NULL, if some may be.
    pub valid: Option<Bits<'a>>,
}

impl WordColumn<'_> {
    /// Those of some rows.
    ///
    /// # Panics
    /// If there are no such rows.
    pub fn slice(self, rows: Range<usize>) -> Self {
        let valid = self.valid.map(|bits| Bits {
            offset: bits.offset + rows.start,
            ..bits
        });
        WordColumn {
            words: &self.words[rows],
            valid,
        }
    }
}

/// Codes and words of rows, by column of the plan.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// Of a column of words, 0 where the word is NULL and 1 elsewhere.
    pub codes: Vec<Vec<u32>>,
    pub words: Vec<Vec<i64>>,
}

impl Inputs {
    /// Room for a vector of each column that is `used`.
    pub fn new(used: &[bool]) -> Self {
        let codes = used.iter().map(|used| match used {
            true => vec![0; VECTOR_ROWS],
            false => Vec::new(),
        });
        Inputs {
            codes: codes.collect(),
            words: vec![Vec::new(); used.len()],
        }
    }

    /// Reads the codes of the `count` selected rows of a vector, which are all if `all` says so.
    pub fn load_codes(
        &mut self,
        column: usize,
        codes: &Codes<'_>,
        (start, count): (usize, usize),
        selected: Option<&Selection>,
    ) {
        let out = &mut self.codes[column];
        match selected {
            None => codes.unpack(start..start + count, &mut out[..count]),
            Some(selection) => selection.gather(codes, start, out),
        }
    }

    /// Reads the words of the `count` selected rows of a vector, all if there is no selection.
    pub fn load_words(
        &mut self,
        column: usize,
        words: &WordColumn<'_>,
        (start, count): (usize, usize),
        selected: Option<&Selection>,
    ) {
        let out = &mut self.words[column];
        out.resize(VECTOR_ROWS, 0);
        match selected {
            None => out[..count].copy_from_slice(&words.words[start..start + count]),
            Some(selection) => selection.gather_words(words.words, start, out),
        }
        let codes = &mut self.codes[column][..count];
        let Some(valid) = words.valid else {
            codes.fill(1);
            return;
        };
        match selected {
            None => unpack_bits(valid, start, codes),
            Some(selection) => {
                for (code, row) in codes.iter_mut().zip(selection.positions()) {
                    *code = u32::from(valid.get(start + usize::from(*row)));
                }
            }
        }
    }

    /// Keeps those of the first rows of a column for which `keeps` is true.
    pub fn keep(&mut self, column: usize, keeps: &[bool]) {
        fn kept<T: Copy>(values: &mut [T], keeps: &[bool]) {
            let mut count = 0;
            for (row, keeps) in keeps.iter().enumerate() {
                values[count] = values[row];
                count += usize::from(*keeps);
            }
        }
        kept(&mut self.codes[column], keeps);
        if !self.words[column].is_empty() {
            kept(&mut self.words[column], keeps);
        }
    }
}
