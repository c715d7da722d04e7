//! The Star Schema Benchmark in placed columns.

use super::place::ColumnPlacer;
use crate::EngineError;
use crate::column::{ColumnFacts, PlacedColumn};
use crate::table::PlacedTable;
use arrow::array::make_view;
use bytemuck::cast_slice_mut;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tierloom_memory::{Placement, Region};
use tierloom_workloads::Progress;
use tierloom_workloads::ssb::{
    self, ColumnSpec, ColumnType, ColumnValues, Lineorder, LineorderColumns, SsbConfig, TableSpec,
    TextColumn,
};

/// Strings of up to so many bytes lie in the view itself.
const INLINE_BYTES: usize = 12;

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
    /// Making the values.
    pub generating: Duration,
    /// Reserving and prefaulting memory.
    pub placing: Duration,
}

/// Generates the data of `config` straight into regions placed by `placement_of` (asked with "table.column").
///
/// The fact table is written in place; of a dimension one table at a time exists twice while it is copied.
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
    let mut loader = Loader {
        config,
        placer,
        placement_of,
    };
    let mut tables = Vec::new();
    for spec in ssb::tables() {
        let table = if spec.name == "lineorder" {
            loader.lineorder(spec, progress)?
        } else {
            loader.dimension(spec, progress)?
        };
        tables.push(Arc::new(table));
    }
    let placing = loader.placer.times().placing;
    Ok(SsbData {
        tables,
        times: LoadTimes {
            generating: start.elapsed().saturating_sub(placing),
            placing,
        },
    })
}

struct Loader<'a, 'b> {
    config: &'a SsbConfig,
    placer: &'a mut ColumnPlacer<'b>,
    placement_of: &'a dyn Fn(&str) -> Placement,
}

impl Loader<'_, '_> {
    fn region(&mut self, table: &str, column: &str, bytes: usize) -> Result<Region, EngineError> {
        let name = format!("{table}.{column}");
        let placement = (self.placement_of)(&name);
        self.placer.region(&name, bytes, &placement)
    }

    fn facts(&self, table: &str, column: &ColumnSpec) -> Result<ColumnFacts, EngineError> {
        let known = self.config.column_statistics(table, column.name)?;
        let range = known
            .range
            .and_then(|(low, high)| Some((i32::try_from(low).ok()?, i32::try_from(high).ok()?)));
        Ok(ColumnFacts {
            range,
            distinct: known.distinct,
        })
    }

    fn lineorder(
        &mut self,
        spec: &TableSpec,
        progress: &dyn Progress,
    ) -> Result<PlacedTable, EngineError> {
        let plan = Lineorder::plan(self.config)?;
        let rows = plan.rows();
        let mut regions = spec
            .columns
            .iter()
            .map(|c| self.region(spec.name, c.name, rows * width(c)))
            .collect::<Result<Vec<_>, _>>()?;
        let (mut int32, mut dict8) = (Vec::new(), Vec::new());
        for (column, region) in spec.columns.iter().zip(&mut regions) {
            let bytes = &mut region.as_mut_slice()[..rows * width(column)];
            match column.ty {
                ColumnType::Int32 => int32.push(cast_slice_mut::<u8, i32>(bytes)),
                _ => dict8.push(bytes),
            }
        }
        plan.fill(&mut LineorderColumns { int32, dict8 }, progress)?;
        let mut columns = Vec::new();
        for (column, region) in spec.columns.iter().zip(regions) {
            let region = Arc::new(region);
            columns.push(match plan.dictionaries(column.name) {
                Some(words) => PlacedColumn::dict8(
                    column.name,
                    region,
                    rows,
                    &words.iter().map(|w| w.to_string()).collect::<Vec<_>>(),
                )?,
                None => {
                    PlacedColumn::int32(column.name, region, rows, self.facts(spec.name, column)?)?
                }
            });
        }
        PlacedTable::new(spec.name, columns)
    }

    fn dimension(
        &mut self,
        spec: &TableSpec,
        progress: &dyn Progress,
    ) -> Result<PlacedTable, EngineError> {
        let values = ssb::dimension(self.config, spec.name)?;
        let columns = spec
            .columns
            .iter()
            .zip(values)
            .map(|(column, values)| self.column(spec.name, column, values))
            .collect::<Result<Vec<_>, _>>()?;
        let table = PlacedTable::new(spec.name, columns)?;
        progress.advance(table.rows() as u64);
        Ok(table)
    }

    fn column(
        &mut self,
        table: &str,
        spec: &ColumnSpec,
        values: ColumnValues,
    ) -> Result<PlacedColumn, EngineError> {
        match values {
            ColumnValues::Int32(values) => {
                let mut region = self.region(table, spec.name, values.len() * 4)?;
                cast_slice_mut::<u8, i32>(&mut region.as_mut_slice()[..values.len() * 4])
                    .copy_from_slice(&values);
                PlacedColumn::int32(
                    spec.name,
                    Arc::new(region),
                    values.len(),
                    self.facts(table, spec)?,
                )
            }
            ColumnValues::Dict8 { codes, values } => {
                let mut region = self.region(table, spec.name, codes.len())?;
                region.as_mut_slice()[..codes.len()].copy_from_slice(&codes);
                PlacedColumn::dict8(spec.name, Arc::new(region), codes.len(), &values)
            }
            ColumnValues::Text(text) => self.text(table, spec, &text),
        }
    }

    fn text(
        &mut self,
        table: &str,
        spec: &ColumnSpec,
        text: &TextColumn,
    ) -> Result<PlacedColumn, EngineError> {
        let rows = text.len();
        let long_bytes: usize = text
            .iter()
            .map(str::len)
            .filter(|&len| len > INLINE_BYTES)
            .sum();
        let mut views = self.region(table, spec.name, rows * 16)?;
        let mut payload = if long_bytes > 0 {
            Some(self.region(table, spec.name, long_bytes)?)
        } else {
            None
        };
        let slots = cast_slice_mut::<u8, u128>(&mut views.as_mut_slice()[..rows * 16]);
        let mut offset = 0;
        for (slot, value) in slots.iter_mut().zip(text.iter()) {
            *slot = make_view(value.as_bytes(), 0, offset as u32);
            if let Some(payload) = payload.as_mut().filter(|_| value.len() > INLINE_BYTES) {
                payload.as_mut_slice()[offset..offset + value.len()]
                    .copy_from_slice(value.as_bytes());
                offset += value.len();
            }
        }
        let distinct = self.facts(table, spec)?.distinct;
        PlacedColumn::text(
            spec.name,
            Arc::new(views),
            rows,
            payload.map(|p| (Arc::new(p), long_bytes)),
            distinct,
        )
    }
}

fn width(column: &ColumnSpec) -> usize {
    match column.ty {
        ColumnType::Int32 => 4,
        ColumnType::Dict8 => 1,
        ColumnType::Text => 16,
    }
}
