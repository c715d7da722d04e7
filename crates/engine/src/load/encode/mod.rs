//! How a loaded column is kept: as narrow codes where that pays, else as it came.
//!
//! ```text
//!   chunks of a column ─┬ integers, dates, times, decimals ── offsets from the smallest value, or ranks of the distinct values
//!                       ├ strings, dictionaries of strings ── ranks of the distinct values
//!                       └ everything else, and whatever does not get narrower ── the Arrow buffers
//!   prepare (reads the values) ── size known ── region reserved ── place (writes the values)
//! ```
//! Ranks are taken for up to 65,536 distinct values, and only if codes and values together are smaller than what they replace.
//! Floats and booleans stay plain: the first have values that do not compare, the second take a bit.

mod hash;
mod integers;
mod plain;
mod words;

use crate::EngineError;
use crate::coded::{CodedColumn, Domain};
use crate::column::{ColumnFacts, PlacedColumn};
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use std::sync::Arc;
use tierloom_kernels::codes::CodeWidth;
use tierloom_memory::Region;

/// More distinct values than this, NULL included, are never listed: their codes would need three bytes.
pub(super) const MOST_LISTED_VALUES: usize = 1 << 16;

/// How columns are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// As narrow codes where that pays.
    #[default]
    Auto,
    /// As the Arrow buffers that they came in.
    Plain,
}

/// A column whose values have been looked at.
pub(super) struct Prepared {
    data_type: DataType,
    chunks: Vec<ArrayRef>,
    rows: usize,
    form: Form,
}

enum Form {
    Coded(Coded),
    Plain(plain::Layout),
}

/// What the codes will be.
struct Coded {
    domain: Domain,
    nullable: bool,
    width: CodeWidth,
    source: Source,
}

/// Where the codes come from.
enum Source {
    Integers(integers::Rank),
    Words(words::Ranked),
}

/// Looks at the values of a column and decides how it is kept.
///
/// # Errors
/// Those of Arrow.
pub(super) fn prepare(
    data_type: &DataType,
    chunks: Vec<ArrayRef>,
    encoding: Encoding,
) -> Result<Prepared, EngineError> {
    let rows = chunks.iter().map(|c| c.len()).sum();
    let coded = match encoding {
        Encoding::Plain => None,
        Encoding::Auto => match integers::choose(data_type, &chunks, rows)? {
            Some(coded) => Some(coded),
            None => words::choose(data_type, &chunks, rows)?,
        },
    };
    let (form, chunks) = match coded {
        Some(coded) => (Form::Coded(coded), chunks),
        None => {
            let (layout, chunks) = plain::layout(data_type, chunks)?;
            (Form::Plain(layout), chunks)
        }
    };
    Ok(Prepared {
        data_type: data_type.clone(),
        chunks,
        rows,
        form,
    })
}

impl Prepared {
    /// Bytes that the region must have.
    pub fn size_bytes(&self) -> usize {
        match &self.form {
            Form::Coded(coded) => coded.width.size_bytes(self.rows),
            Form::Plain(layout) => layout.size_bytes(),
        }
    }

    /// Writes the values into `region` and describes the column.
    ///
    /// # Errors
    /// Those of Arrow.
    pub fn place(self, name: &str, mut region: Region) -> Result<PlacedColumn, EngineError> {
        match self.form {
            Form::Coded(coded) => {
                let out = region.as_mut_slice();
                match &coded.source {
                    Source::Integers(rank) => {
                        integers::write(&self.chunks, rank, coded.nullable, coded.width, out);
                    }
                    Source::Words(ranked) => ranked.write(coded.nullable, coded.width, out),
                }
                let column = CodedColumn::new(
                    name,
                    self.data_type,
                    Arc::new(region),
                    self.rows,
                    coded.nullable,
                    coded.domain,
                )?;
                let facts = ColumnFacts::of_codes(&column)?;
                PlacedColumn::from_codes(name, column, facts)
            }
            Form::Plain(layout) => {
                layout.write(&self.chunks, region.as_mut_slice());
                let region = Arc::new(region);
                let array = layout.array(&region)?;
                let facts = ColumnFacts::of_array(&array)?;
                PlacedColumn::plain(name, array, vec![region], facts)
            }
        }
    }
}

/// Bytes of a code among `values` values and, if there is one, NULL; `None` if they are too many.
fn width_for(values: u64, nullable: bool) -> Option<CodeWidth> {
    let largest = (values + u64::from(nullable)).saturating_sub(1);
    u32::try_from(largest).ok().map(CodeWidth::for_max)
}
