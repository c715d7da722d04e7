//! Loads the Star Schema Benchmark into placed columns.
//!
//! The fact table is generated in encoded form; dimensions are generated as arrays and then
//! encoded, which is cheap at their size.

use super::batches::{ArrivedColumn, in_parallel, place_columns};
use super::generated::{array, data_type};
use super::lineorder;
use super::place::ColumnPlacer;
use crate::EngineError;
use crate::table::PlacedTable;
use arrow::datatypes::{Field, FieldRef};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tierloom_memory::Placement;
use tierloom_workloads::Progress;
use tierloom_workloads::ssb::{self, SsbConfig, TableSpec};

/// The five tables of the benchmark.
pub struct SsbData {
    /// lineorder first, then the dimensions.
    pub tables: Vec<Arc<PlacedTable>>,
    /// Durations of the parts of loading.
    pub times: LoadTimes,
}

/// Durations of the parts of loading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadTimes {
    /// Time to generate and encode the values: everything but `placing`.
    pub generating: Duration,
    /// Time to reserve and prefault memory.
    pub placing: Duration,
}

/// Generates the data of `config` into regions placed by `placement_of` ("table.column").
///
/// The fact table is encoded while it is generated, some thousand rows at a time; one dimension at
/// a time exists twice.
///
/// # Errors
/// A failed allocation, or [`tierloom_workloads::WorkloadError::Cancelled`] if `progress` cancels.
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
            Ok(ArrivedColumn {
                table: spec.name,
                field,
                chunks: vec![array(values)?],
            })
        })?;
        columns.extend(place_columns(sources, placer, placement_of, progress)?);
    }
    let table = PlacedTable::new(spec.name, columns)?;
    progress.advance(table.rows() as u64);
    Ok(table)
}
