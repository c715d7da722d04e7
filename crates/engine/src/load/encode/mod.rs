//! Chooses the encoding of a loaded column: narrow codes or Arrow buffers.
//!
//! ```text
//!   chunks ─┬ integers, dates, times, decimals ┬─ offsets from the smallest value, or ranks
//!           ├ floats that are all decimals     ┘
//!           ├ strings, dictionaries of strings ── ranks of the distinct values
//!           └ anything else, or not narrower   ── the Arrow buffers
//!   prepare (reads values) ── size known ── region reserved ── place (writes values)
//! ```
//! Ranks are used for up to 65,536 distinct values, and only if codes and values together are
//! smaller than what they replace. Times are counted in the longest step of which all are multiples
//! (whole seconds in a type of microseconds). Floats that are no decimals of few digits stay plain:
//! they would need their 64 bits, and some have no order (NaN). Booleans take one bit as they are.

mod hash;
mod integers;
mod plain;
mod units;
mod words;

use crate::EngineError;
use crate::coded::{CodedColumn, Domain, Unit};
use crate::column::{ColumnFacts, PlacedColumn};
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use std::sync::Arc;
use tierloom_kernels::codes::CodeWidth;
use tierloom_memory::Region;

/// Largest number of listed distinct values, NULL included: more would need codes of three bytes.
pub(super) const MOST_LISTED_VALUES: usize = 1 << 16;

/// Whether columns are encoded when they are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// As narrow codes where that saves memory.
    #[default]
    Auto,
    /// As Arrow buffers of the column's type.
    Plain,
}

/// A column whose values were read and whose encoding is chosen.
pub(super) struct ReadColumn {
    data_type: DataType,
    chunks: Vec<ArrayRef>,
    rows: usize,
    form: Form,
}

enum Form {
    Coded(Coded),
    Plain(plain::Layout),
}

struct Coded {
    domain: Domain,
    nullable: bool,
    width: CodeWidth,
    source: CodeSource,
}

/// How the codes are computed from the values.
enum CodeSource {
    Integers(Unit, integers::Rank),
    Words(words::Ranked),
}

/// Reads the values of a column and chooses its encoding.
///
/// # Errors
/// Arrow's, from casting or concatenating values.
pub(super) fn prepare(
    data_type: &DataType,
    chunks: Vec<ArrayRef>,
    encoding: Encoding,
) -> Result<ReadColumn, EngineError> {
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
    Ok(ReadColumn {
        data_type: data_type.clone(),
        chunks,
        rows,
        form,
    })
}

impl ReadColumn {
    /// Size of the region that [`Self::place`] needs, bytes.
    pub fn size_bytes(&self) -> usize {
        match &self.form {
            Form::Coded(coded) => coded.width.size_bytes(self.rows),
            Form::Plain(layout) => layout.size_bytes(),
        }
    }

    /// Writes the values into `region` and returns the column with its statistics.
    ///
    /// # Errors
    /// Arrow's, if the written bytes are not a valid array.
    pub fn place(self, name: &str, mut region: Region) -> Result<PlacedColumn, EngineError> {
        match self.form {
            Form::Coded(coded) => {
                let out = region.as_mut_slice();
                match &coded.source {
                    CodeSource::Integers(unit, rank) => {
                        let form = (coded.nullable, coded.width);
                        integers::write(&self.chunks, *unit, rank, form, out);
                    }
                    CodeSource::Words(ranked) => ranked.write(coded.nullable, coded.width, out),
                }
                let column = CodedColumn::new(
                    name,
                    self.data_type,
                    Arc::new(region),
                    self.rows,
                    coded.nullable,
                    coded.domain,
                )?;
                // Reads back what was written, which also checks every code.
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

/// Width of the codes of `values` values and NULL, if there is one; `None` beyond 32 bits.
fn width_for(values: u64, nullable: bool) -> Option<CodeWidth> {
    let codes = values.saturating_add(u64::from(nullable));
    let largest = codes.saturating_sub(1);
    u32::try_from(largest).ok().map(CodeWidth::for_max)
}
