//! What is read for the rows of a vector that are left.

use std::ops::Range;
use tierloom_kernels::codes::Codes;
use tierloom_kernels::select::{Selection, VECTOR_ROWS};
use tierloom_kernels::words::{Bits, unpack_bits, unpack_words, widen, word};

/// The values of a column that has no codes, any where a row is NULL.
#[derive(Debug, Clone, Copy)]
pub enum WordValues<'a> {
    /// Integers of 64 bits, or the bits of floats.
    Words(&'a [i64]),
    /// Floats of 32 bits, whose words are the bits of the same numbers in 64.
    Floats(&'a [f32]),
    /// Booleans, whose words are 0 and 1.
    Bits(Bits<'a>),
}

/// A column that has no codes.
#[derive(Debug, Clone, Copy)]
pub struct WordColumn<'a> {
    /// The value of each row.
    pub values: WordValues<'a>,
    /// The rows that are not NULL, if some may be.
    pub valid: Option<Bits<'a>>,
}

impl<'a> WordColumn<'a> {
    /// Those of some rows.
    ///
    /// # Panics
    /// If there are no such rows.
    pub fn slice(self, rows: Range<usize>) -> Self {
        let of_rows = |bits: Bits<'a>| Bits {
            offset: bits.offset + rows.start,
            ..bits
        };
        WordColumn {
            values: match self.values {
                WordValues::Words(words) => WordValues::Words(&words[rows.clone()]),
                WordValues::Floats(floats) => WordValues::Floats(&floats[rows.clone()]),
                WordValues::Bits(bits) => WordValues::Bits(of_rows(bits)),
            },
            valid: self.valid.map(of_rows),
        }
    }
}

/// Writes the value of each selected row of the vector at `start`.
fn gather<T>(selection: &Selection, start: usize, out: &mut [T], value: impl Fn(usize) -> T) {
    for (out, row) in out.iter_mut().zip(selection.positions()) {
        *out = value(start + usize::from(*row));
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

    /// Reads the codes of the `count` selected rows of a vector, all if there is no selection.
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
        match (words.values, selected) {
            (WordValues::Words(words), None) => {
                out[..count].copy_from_slice(&words[start..start + count]);
            }
            (WordValues::Words(words), Some(selection)) => {
                gather(selection, start, out, |row| words[row]);
            }
            (WordValues::Floats(floats), None) => {
                widen(&floats[start..start + count], &mut out[..count]);
            }
            (WordValues::Floats(floats), Some(selection)) => {
                gather(selection, start, out, |row| word(floats[row].into()));
            }
            (WordValues::Bits(bits), None) => unpack_words(bits, start, &mut out[..count]),
            (WordValues::Bits(bits), Some(selection)) => {
                gather(selection, start, out, |row| i64::from(bits.get(row)));
            }
        }
        let codes = &mut self.codes[column][..count];
        let Some(valid) = words.valid else {
            codes.fill(1);
            return;
        };
        match selected {
            None => unpack_bits(valid, start, codes),
            Some(selection) => gather(selection, start, codes, |row| u32::from(valid.get(row))),
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
