//! Memory for the columns of lineorder: checked slices of the caller, or newly allocated vectors.

use super::columns::ColumnValues;
use super::schema::{ColumnType, table};
use super::words::dictionaries;
use crate::WorkloadError;

/// Number of integer columns of lineorder.
const INT32_COLUMNS: usize = 15;
/// Number of dictionary columns of lineorder.
const DICT8_COLUMNS: usize = 2;

/// Memory for the columns of lineorder: one slice per column, all of the same length.
#[derive(Debug)]
pub struct LineorderColumns<'a> {
    /// The [`ColumnType::Int32`] columns, in the order of the table's spec.
    pub int32: Vec<&'a mut [i32]>,
    /// The [`ColumnType::Dict8`] columns, in the same order.
    ///
    /// Codes are indices into [`super::Lineorder::dictionaries`].
    pub dict8: Vec<&'a mut [u8]>,
}

/// Columns of a range of rows, with checked number and lengths.
pub(super) struct Part<'a> {
    pub(super) int32: [&'a mut [i32]; INT32_COLUMNS],
    pub(super) dict8: [&'a mut [u8]; DICT8_COLUMNS],
}

impl<'a> Part<'a> {
    /// Borrows the caller's columns after checking their number and lengths.
    pub(super) fn new(
        columns: &'a mut LineorderColumns<'_>,
        rows: usize,
    ) -> Result<Self, WorkloadError> {
        let (int32, dict8) = (columns.int32.len(), columns.dict8.len());
        expect("the number of int32 columns", int32, INT32_COLUMNS)?;
        expect("the number of dict8 columns", dict8, DICT8_COLUMNS)?;
        let mut part = Self {
            int32: Default::default(),
            dict8: Default::default(),
        };
        for (index, (slot, column)) in part.int32.iter_mut().zip(&mut columns.int32).enumerate() {
            expect(
                &format!("the length of int32 column {index}"),
                column.len(),
                rows,
            )?;
            *slot = column;
        }
        for (index, (slot, column)) in part.dict8.iter_mut().zip(&mut columns.dict8).enumerate() {
            expect(
                &format!("the length of dict8 column {index}"),
                column.len(),
                rows,
            )?;
            *slot = column;
        }
        Ok(part)
    }

    /// Divides the columns after `rows` rows.
    pub(super) fn split_at(mut self, rows: usize) -> (Self, Self) {
        let mut rest = Self {
            int32: Default::default(),
            dict8: Default::default(),
        };
        for (left, right) in self.int32.iter_mut().zip(&mut rest.int32) {
            (*left, *right) = std::mem::take(left).split_at_mut(rows);
        }
        for (left, right) in self.dict8.iter_mut().zip(&mut rest.dict8) {
            (*left, *right) = std::mem::take(left).split_at_mut(rows);
        }
        (self, rest)
    }
}

fn expect(what: &str, given: usize, needed: usize) -> Result<(), WorkloadError> {
    if given == needed {
        return Ok(());
    }
    Err(WorkloadError::ColumnLayout {
        what: what.to_owned(),
        given,
        needed,
    })
}

/// Columns in newly allocated vectors.
pub(super) struct OwnedColumns {
    int32: Vec<Vec<i32>>,
    dict8: Vec<Vec<u8>>,
}

impl OwnedColumns {
    pub(super) fn new(rows: usize) -> Self {
        // Separate allocations instead of clones: zeroed memory costs nothing until it is written.
        Self {
            int32: (0..INT32_COLUMNS).map(|_| vec![0; rows]).collect(),
            dict8: (0..DICT8_COLUMNS).map(|_| vec![0; rows]).collect(),
        }
    }

    pub(super) fn borrow(&mut self) -> LineorderColumns<'_> {
        LineorderColumns {
            int32: self.int32.iter_mut().map(Vec::as_mut_slice).collect(),
            dict8: self.dict8.iter_mut().map(Vec::as_mut_slice).collect(),
        }
    }

    /// The columns, in the order of the table's spec.
    pub(super) fn into_values(self) -> Result<Vec<ColumnValues>, WorkloadError> {
        let (mut int32, mut dict8) = (self.int32.into_iter(), self.dict8.into_iter());
        let columns = table("lineorder")?
            .columns
            .iter()
            .filter_map(|column| match column.ty {
                ColumnType::Dict8 => {
                    let words = dictionaries(column.name).unwrap_or_default();
                    let values = words.iter().map(|&word| word.to_owned()).collect();
                    dict8
                        .next()
                        .map(|codes| ColumnValues::Dict8 { codes, values })
                }
                _ => int32.next().map(ColumnValues::Int32),
            });
        Ok(columns.collect())
    }
}
