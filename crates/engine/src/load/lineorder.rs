//! Generates SSB's fact table directly in encoded form.
//!
//! ```text
//!   thread 1: chunks 0, 1, ... ─► buffer of integers ─► codes ─► the thread's part of each region
//!   thread 2: chunks n, ...
//! ```
//! The domain of every column is known in advance: the specification gives the range of every
//! integer, and dates are those of the calendar. The table therefore never exists in plain form.

use super::batches::in_parallel;
use super::encode::Encoding;
use super::generated::{data_type, words};
use super::place::ColumnPlacer;
use crate::EngineError;
use crate::coded::{CodedColumn, Domain, Unit};
use crate::column::{ColumnFacts, PlacedColumn, buffer_of};
use crate::table::PlacedTable;
use arrow::array::{ArrayRef, Int32Array};
use arrow::buffer::ScalarBuffer;
use std::ops::Range;
use std::sync::Arc;
use tierloom_kernels::codes::{CodeWidth, pack};
use tierloom_memory::{Placement, Region};
use tierloom_workloads::ssb::{
    self, ColumnSpec, Lineorder, LineorderColumns, SsbConfig, TableSpec,
};
use tierloom_workloads::{Progress, WorkloadError};

/// The encoding of one column.
struct ColumnEncoding {
    /// Domain of the codes; `None` for plain integers.
    domain: Option<Domain>,
    width: CodeWidth,
    code: Code,
}

/// Maps a generated value to its code.
enum Code {
    /// The generator's dictionary key is the code.
    Key,
    /// `value - base`.
    Offset(i32),
    /// `table[value - first]`.
    Table { first: i32, table: Arc<Vec<u16>> },
}

/// Generates the fact table into regions.
pub(super) fn load(
    config: &SsbConfig,
    spec: &TableSpec,
    placer: &mut ColumnPlacer<'_>,
    placement_of: &dyn Fn(&str) -> Placement,
    progress: &dyn Progress,
) -> Result<PlacedTable, EngineError> {
    let plan = Lineorder::plan(config)?;
    let forms = forms(config, spec, &plan, placer.encoding())?;
    let mut regions = Vec::new();
    for (column, form) in spec.columns.iter().zip(&forms) {
        let name = format!("{}.{}", spec.name, column.name);
        let bytes = form.width.size_bytes(plan.rows());
        regions.push(placer.region(&name, bytes, &placement_of(&name))?);
    }
    fill(&plan, &forms, &mut regions, placer.threads(), progress)?;
    let work: Vec<_> = spec.columns.iter().zip(forms).zip(regions).collect();
    let mut columns = Vec::new();
    let mut waiting = work.into_iter();
    loop {
        let wave: Vec<_> = waiting.by_ref().take(placer.threads()).collect();
        if wave.is_empty() {
            return PlacedTable::new(spec.name, columns);
        }
        columns.extend(in_parallel(wave, |((column, form), region)| {
            placed(column, form, region, plan.rows())
        })?);
    }
}

fn forms(
    config: &SsbConfig,
    spec: &TableSpec,
    plan: &Lineorder,
    encoding: Encoding,
) -> Result<Vec<ColumnEncoding>, EngineError> {
    let days = ssb::dimension(config, "date")?;
    let days = days.first().and_then(|c| c.as_int32()).unwrap_or_default();
    let (first, ranks) = ranks(days);
    let ranks = Arc::new(ranks);
    let of = |column: &ColumnSpec| -> Result<ColumnEncoding, EngineError> {
        // Coded even if plain encoding is requested: the generator produces dictionary keys.
        if let Some(listed) = plan.dictionaries(column.name) {
            return Ok(ColumnEncoding {
                domain: Some(words(listed)?),
                width: CodeWidth::for_max(listed.len() as u32 - 1),
                code: Code::Key,
            });
        }
        // Plain 32-bit integers are written like codes of four bytes with base 0.
        if encoding == Encoding::Plain {
            return Ok(ColumnEncoding {
                domain: None,
                width: CodeWidth::Four,
                code: Code::Offset(0),
            });
        }
        // Dates are sparse integers (yyyymmdd), so ranks are narrower than offsets.
        if column.foreign_key.is_some_and(|(table, _)| table == "date") {
            return Ok(ColumnEncoding {
                domain: Some(Domain::Values(Arc::new(Int32Array::from(days.to_vec())))),
                width: CodeWidth::for_max(days.len() as u32 - 1),
                code: Code::Table {
                    first,
                    table: Arc::clone(&ranks),
                },
            });
        }
        let range = config.column_statistics(spec.name, column.name)?.range;
        Ok(offsets(range))
    };
    spec.columns.iter().map(of).collect()
}

/// Offsets from the smallest possible value.
///
/// If they are not narrower than the values, offsets from 0, so that codes equal values.
fn offsets(range: Option<(i64, i64)>) -> ColumnEncoding {
    let known = range.and_then(|(least, most)| {
        Some((
            i32::try_from(least).ok()?,
            i32::try_from(most)
                .ok()
                .filter(|m| i64::from(*m) >= least)?,
        ))
    });
    let Some((least, most)) = known else {
        return ColumnEncoding {
            domain: None,
            width: CodeWidth::Four,
            code: Code::Offset(0),
        };
    };
    let narrow = CodeWidth::for_max(most.abs_diff(least));
    let base = if narrow == CodeWidth::Four && least >= 0 {
        0
    } else {
        least
    };
    ColumnEncoding {
        domain: Some(Domain::Offset {
            base: i64::from(base),
            last: i64::from(most),
            unit: Unit::ONE,
        }),
        width: CodeWidth::for_max(most.abs_diff(base)),
        code: Code::Offset(base),
    }
}

/// The first of the ascending `days`, and a table of ranks.
///
/// For every integer from it on, the table has the number of days before it.
fn ranks(days: &[i32]) -> (i32, Vec<u16>) {
    let (Some(&first), Some(&last)) = (days.first(), days.last()) else {
        return (0, vec![0]);
    };
    let mut table = vec![0; (last - first) as usize + 1];
    for (rank, day) in days.iter().enumerate() {
        table[(day - first) as usize] = rank as u16;
    }
    (first, table)
}

/// Generates all rows; every thread gets the same number of chunks.
fn fill(
    plan: &Lineorder,
    forms: &[ColumnEncoding],
    regions: &mut [Region],
    threads: usize,
    progress: &dyn Progress,
) -> Result<(), EngineError> {
    let per_thread = plan.chunks().div_ceil(threads.max(1)).max(1);
    let mut rest: Vec<&mut [u8]> = regions.iter_mut().map(Region::as_mut_slice).collect();
    let mut shares = Vec::new();
    for first in (0..plan.chunks()).step_by(per_thread) {
        let chunks = first..plan.chunks().min(first + per_thread);
        // Threads write disjoint ranges of each region, so they need no synchronisation.
        let rows = plan.chunk_rows(chunks.end - 1).end - plan.chunk_rows(chunks.start).start;
        let mut parts = Vec::new();
        for (slot, form) in rest.iter_mut().zip(forms) {
            let (part, more) = std::mem::take(slot).split_at_mut(rows * form.width.bytes());
            parts.push(part);
            *slot = more;
        }
        shares.push((chunks, parts));
    }
    in_parallel(shares, |(chunks, parts)| {
        fill_share(plan, forms, chunks, parts, progress)
    })
    .map(drop)
}

fn fill_share(
    plan: &Lineorder,
    forms: &[ColumnEncoding],
    chunks: Range<usize>,
    mut parts: Vec<&mut [u8]>,
    progress: &dyn Progress,
) -> Result<(), EngineError> {
    let is_key = |form: &&ColumnEncoding| matches!(form.code, Code::Key);
    let keys = forms.iter().filter(is_key).count();
    // Buffers for the largest chunk are reused for all chunks.
    let most = chunks.clone().map(|c| plan.chunk_rows(c).len()).max();
    let most = most.unwrap_or(0);
    let mut int32 = vec![vec![0_i32; most]; forms.len() - keys];
    let mut dict8 = vec![vec![0_u8; most]; keys];
    let mut codes = Vec::with_capacity(most);
    let mut row = 0;
    for chunk in chunks {
        if progress.cancelled() {
            return Err(WorkloadError::Cancelled.into());
        }
        let rows = plan.chunk_rows(chunk).len();
        let mut columns = LineorderColumns {
            int32: int32.iter_mut().map(|c| &mut c[..rows]).collect(),
            dict8: dict8.iter_mut().map(|c| &mut c[..rows]).collect(),
        };
        plan.fill_chunk(chunk, &mut columns)?;
        let (mut int32, mut dict8) = (columns.int32.iter(), columns.dict8.iter());
        for (form, part) in forms.iter().zip(&mut parts) {
            codes.clear();
            match &form.code {
                Code::Key => codes.extend(
                    dict8
                        .next()
                        .into_iter()
                        .flat_map(|c| c.iter())
                        .map(|c| u32::from(*c)),
                ),
                Code::Offset(base) => {
                    let values = int32.next().into_iter().flat_map(|c| c.iter());
                    codes.extend(values.map(|v| v.wrapping_sub(*base) as u32));
                }
                Code::Table { first, table } => {
                    let values = int32.next().into_iter().flat_map(|c| c.iter());
                    codes.extend(values.map(|v| u32::from(table[(v - first) as usize])));
                }
            }
            pack(part, form.width, row, &codes);
        }
        row += rows;
        progress.advance(rows as u64);
    }
    Ok(())
}

fn placed(
    spec: &ColumnSpec,
    form: ColumnEncoding,
    region: Region,
    rows: usize,
) -> Result<PlacedColumn, EngineError> {
    let region = Arc::new(region);
    match form.domain {
        Some(domain) => {
            let column =
                CodedColumn::new(spec.name, data_type(spec.ty), region, rows, false, domain)?;
            let facts = ColumnFacts::of_codes(&column)?;
            PlacedColumn::from_codes(spec.name, column, facts)
        }
        None => {
            let values = ScalarBuffer::new(buffer_of(&region, 0, rows * 4)?, 0, rows);
            let array: ArrayRef = Arc::new(Int32Array::try_new(values, None)?);
            let facts = ColumnFacts::of_array(&array)?;
            PlacedColumn::plain(spec.name, array, vec![region], facts)
        }
    }
}
