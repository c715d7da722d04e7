//! The Star Schema Benchmark in placed columns.

use super::batches::{Source, in_parallel, place_columns};
use super::lineorder;
use super::place::ColumnPlacer;
use crate::EngineError;
use crate::coded::Domain;
use crate::table::PlacedTable;
use arrow::array::{
    ArrayRef, DictionaryArray, Int32Array, StringArray, StringViewArray, UInt8Array,
};
use arrow::datatypes::{DataType, Field, FieldRef, UInt8Type};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tierloom_memory::Placement;
use tierloom_workloads::Progress;
use tierloom_workloads::ssb::{self, ColumnType, ColumnValues, SsbConfig, TableSpec};

/// The five tables.
pub struct SsbData {
    /// lineorder first, then the dimensions.
    pub tables: Vec<Arc<PlacedTable>>,
    /// What loading cost.
    pub times: LoadTimes,
}

/// Where loading time went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadTimes {
    /// Making and encoding the values.
    pub generating: Duration,
    /// Reserving and prefaulting memory.
    pub placing: Duration,
}

/// Generates the data of `config` into regions placed by `placement_of` (asked with "table.column").
///
/// The fact table is encoded while it is made, some thousand rows at a time; of a dimension one table at a time exists twice.
///
/// # Errors
/// Memory that cannot be had, or [`tierloom_workloads::WorkloadError::Cancelled`] if `progress` says so.
pub fn load_ssb(
    config: &SsbConfig,
    placer: &mut ColumnPlacer<'_>,
    placement_of: &dyn Fn(&str) -> Placement,
    progress: &dyn Progress,
) -> Result<SsbData, EngineError> {
    let start = Instant::now();
    let mut tables = Vec::new();
    for spec in ssb::tables() {
        let table = if spec.name == "lineorder" {
            lineorder::load(config, spec, placer, placement_of, progress)?
        } else {
            dimension(config, spec, placer, placement_of, progress)?
        };
        tables.push(Arc::new(table));
    }
    let placing = placer.times().placing;
    Ok(SsbData {
        tables,
        times: LoadTimes {
            generating: start.elapsed().saturating_sub(placing),
            placing,
        },
    })
}

fn dimension(
    config: &SsbConfig,
    spec: &TableSpec,
    placer: &mut ColumnPlacer<'_>,
    placement_of: &dyn Fn(&str) -> Placement,
    progress: &dyn Progress,
) -> Result<PlacedTable, EngineError> {
    let values = ssb::dimension(config, spec.name)?;
    let fields: Vec<FieldRef> = spec
        .columns
        .iter()
        .map(|c| Arc::new(Field::new(c.name, data_type(c.ty), false)))
        .collect();
    let mut waiting = fields.iter().zip(values);
    let mut columns = Vec::new();
    loop {
        let wave: Vec<_> = waiting.by_ref().take(placer.threads()).collect();
        if wave.is_empty() {
            break;
        }
        let sources = in_parallel(wave, |(field, values)| {
            Ok(Source {
                table: spec.name,
                field,
                chunks: vec![array(values)?],
            })
        })?;
        columns.extend(place_columns(sources, placer, placement_of)?);
    }
    let table = PlacedTable::new(spec.name, columns)?;
    progress.advance(table.rows() as u64);
    Ok(table)
}

/// SQL's type of a column: text of few values is a dictionary of one-byte keys.
pub(super) fn data_type(ty: ColumnType) -> DataType {
    match ty {
        ColumnType::Int32 => DataType::Int32,
        ColumnType::Dict8 => {
            DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8))
        }
        ColumnType::Text => DataType::Utf8View,
    }
}

fn array(values: ColumnValues) -> Result<ArrayRef, EngineError> {
    Ok(match values {
        ColumnValues::Int32(values) => Arc::new(Int32Array::from(values)),
        ColumnValues::Dict8 { codes, values } => Arc::new(DictionaryArray::<UInt8Type>::try_new(
            UInt8Array::from(codes),
            Arc::new(StringArray::from_iter_values(values)),
        )?),
        ColumnValues::Text(text) => Arc::new(StringViewArray::from_iter_values(text.iter())),
    })
}

/// The words of a dictionary column as a domain of its own type.
pub(super) fn words(words: &[&str]) -> Result<Domain, EngineError> {
    let keys = UInt8Array::from_iter_values((0..words.len()).map(|at| at as u8));
    let words = Arc::new(StringArray::from_iter_values(words));
    let listed = DictionaryArray::<UInt8Type>::try_new(keys, words)?;
    Ok(Domain::Values(Arc::new(listed)))
}
