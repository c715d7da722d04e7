//! System table `tier_pool`: a row per region of the session's pool.

use super::{SharedPool, source_of};
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use std::sync::Arc;
use tierloom_engine::SystemRows;
use tierloom_engine::pooled::PooledTable;
use tierloom_pool::{RegionKind, RegionState, RegionStatus};

/// Name of the system table.
pub(crate) const TIER_POOL: &str = "tier_pool";

/// The rows of `tier_pool`; none in a session without a pool.
pub(crate) struct TierPool {
    pool: SharedPool,
    schema: SchemaRef,
}

impl TierPool {
    pub fn new(pool: SharedPool) -> Self {
        let text = |name: &str| Field::new(name, DataType::Utf8, false);
        let count = |name: &str, null| Field::new(name, DataType::UInt64, null);
        let schema = Schema::new(vec![
            text("pool"),
            count("region", false),
            text("name"),
            text("kind"),
            text("state"),
            count("version", false),
            count("rows", true),
            count("bytes", false),
            Field::new("readers", DataType::UInt32, false),
            Field::new("damaged", DataType::Boolean, false),
            count("chunks", true),
            count("verified_chunks", true),
            Field::new("source", DataType::Utf8, true),
        ]);
        TierPool {
            pool,
            schema: Arc::new(schema),
        }
    }
}

/// A region, and its table if it is attached.
struct Row {
    pool: String,
    region: RegionStatus,
    table: Option<PooledTable>,
}

impl SystemRows for TierPool {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn rows(&self) -> Result<RecordBatch> {
        let rows = self.regions();
        let text = |of: &dyn Fn(&Row) -> Option<String>| -> ArrayRef {
            Arc::new(rows.iter().map(of).collect::<StringArray>())
        };
        let count = |of: &dyn Fn(&Row) -> Option<u64>| -> ArrayRef {
            Arc::new(rows.iter().map(of).collect::<UInt64Array>())
        };
        let table = |row: &Row, of: &dyn Fn(&PooledTable) -> u64| row.table.as_ref().map(of);
        let readers = rows.iter().map(|row| Some(row.region.readers as u32));
        let damaged = rows.iter().map(|row| Some(row.region.damaged));
        let columns = vec![
            text(&|row| Some(row.pool.clone())),
            count(&|row| Some(row.region.id)),
            text(&|row| Some(row.region.name.clone())),
            text(&|row| Some(kind(row.region.kind).to_owned())),
            text(&|row| Some(state(row.region.state).to_owned())),
            count(&|row| Some(row.region.version)),
            count(&|row| table(row, &|t| t.table().rows() as u64)),
            count(&|row| Some(row.region.bytes)),
            Arc::new(readers.collect::<UInt32Array>()),
            Arc::new(damaged.collect::<BooleanArray>()),
            count(&|row| table(row, &|t| t.verified().of_chunks)),
            count(&|row| table(row, &|t| t.verified().chunks)),
            text(&|row| {
                let source = source_of(row.table.as_ref()?.note())?;
                Some(source.path.display().to_string())
            }),
        ];
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

impl TierPool {
    fn regions(&self) -> Vec<Row> {
        let open = self.pool.lock();
        let Some(open) = open.as_ref() else {
            return Vec::new();
        };
        let pool = open.pool.path().display().to_string();
        let regions = open.pool.status().regions.into_iter();
        let rows = regions.map(|region| Row {
            pool: pool.clone(),
            table: open
                .tables
                .get(&region.name)
                .filter(|table| table.attached().version() == region.version)
                .cloned(),
            region,
        });
        rows.collect()
    }
}

fn kind(kind: RegionKind) -> &'static str {
    match kind {
        RegionKind::Table => "table",
        RegionKind::Scratch => "scratch",
    }
}

fn state(state: RegionState) -> &'static str {
    match state {
        RegionState::Building => "building",
        RegionState::Sealed => "sealed",
        RegionState::Retired => "retired",
        RegionState::Active => "active",
    }
}
