//! Where the rows of a table come from: a Parquet file that every node can read, or a generator.

use crate::error::{ClusterError, While};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tierloom_engine::export::{dimension_batch, lineorder_batch, schema as ssb_schema};
use tierloom_sql::{in_views, with_views};
use tierloom_tpc::Benchmark;
use tierloom_workloads::ssb::{self, Lineorder, SsbConfig};

/// Rows per batch while loading.
const BATCH_ROWS: usize = 16 * 1024;

/// Chunks of SSB's fact table per batch: about 16,000 rows.
const CHUNKS_PER_BATCH: usize = 2;

/// Where the rows of a table come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowSource {
    /// A Parquet file that every node can read under this path.
    Parquet {
        /// The path.
        path: PathBuf,
        /// Bytes of the file when it was named, so that no node reads another one.
        bytes: u64,
    },
    /// A generated table of the Star Schema Benchmark.
    Ssb {
        /// The table.
        table: String,
        /// Scale factor.
        scale_factor: f64,
        /// Seed of the random values.
        seed: u64,
    },
    /// A generated table of TPC-H or TPC-DS.
    Tpc {
        /// "tpch" or "tpcds".
        benchmark: String,
        /// The table.
        table: String,
        /// Scale factor.
        scale_factor: f64,
    },
}

/// Batches of a source, or why one could not be made.
pub(crate) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ClusterError>> + Send>;

impl RowSource {
    /// The Parquet file `path`.
    ///
    /// # Errors
    /// [`ClusterError::Input`] if it cannot be read or is no Parquet file.
    pub fn parquet(path: &Path) -> Result<RowSource, ClusterError> {
        let bad = |e: &dyn std::fmt::Display| {
            ClusterError::input(format!("{}: cannot read: {e}", path.display()))
        };
        let path = path.canonicalize().map_err(|e| bad(&e))?;
        let bytes = path.metadata().map_err(|e| bad(&e))?.len();
        let source = RowSource::Parquet { path, bytes };
        let readable = source.batches().map(drop);
        readable.map_err(ClusterError::input)?;
        Ok(source)
    }

    /// Its rows and their columns.
    ///
    /// # Errors
    /// A file that cannot be read or is another one than when it was named; a scale factor out of
    /// range.
    pub(crate) fn batches(&self) -> Result<(SchemaRef, Batches), ClusterError> {
        let (schema, batches) = self.as_read()?;
        // As tables of one process have it: queries move strings without copying their bytes.
        let schema = with_views(&schema);
        let wanted = Arc::clone(&schema);
        let batches = batches.map(move |batch| {
            let batch = in_views(&batch?, &wanted);
            batch.attempting("strings as views")
        });
        Ok((schema, Box::new(batches)))
    }

    /// Rows and columns as the file or the generator has them.
    fn as_read(&self) -> Result<(SchemaRef, Batches), ClusterError> {
        match self {
            RowSource::Parquet { path, bytes } => parquet_batches(path, *bytes),
            RowSource::Ssb {
                table,
                scale_factor,
                seed,
            } => ssb_batches(table, *scale_factor, *seed),
            RowSource::Tpc {
                benchmark,
                table,
                scale_factor,
            } => {
                let source = benchmark_of(benchmark)?.source(table, *scale_factor);
                let source = source.map_err(ClusterError::input)?;
                let batches = source.batches(BATCH_ROWS, 1);
                let batches = batches.map(|batch| batch.attempting("generating rows"));
                Ok((source.schema(), Box::new(batches)))
            }
        }
    }

    /// The type of a column.
    ///
    /// # Errors
    /// [`ClusterError::Input`] if there is no such column, with the names of those there are; see
    /// also [`RowSource::batches`].
    pub(crate) fn column_type(&self, column: &str) -> Result<DataType, ClusterError> {
        let (schema, _) = self.batches()?;
        match schema.field_with_name(column) {
            Ok(field) => Ok(field.data_type().clone()),
            Err(_) => {
                let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
                Err(ClusterError::input(format!(
                    "there is no column {column}; there are {}",
                    names.join(", ")
                )))
            }
        }
    }
}

/// The benchmark with this id.
///
/// # Errors
/// [`ClusterError::Input`] if there is none.
pub(crate) fn benchmark_of(name: &str) -> Result<Benchmark, ClusterError> {
    [Benchmark::TpcH, Benchmark::TpcDs]
        .into_iter()
        .find(|benchmark| benchmark.id() == name)
        .ok_or_else(|| ClusterError::input(format!("there is no benchmark {name}")))
}

fn parquet_batches(path: &Path, bytes: u64) -> Result<(SchemaRef, Batches), ClusterError> {
    let name = path.display().to_string();
    let file = File::open(path).attempting(format!("reading {name}"))?;
    let now = file.metadata().attempting(format!("reading {name}"))?.len();
    if now != bytes {
        return Err(ClusterError::Failed(format!(
            "{name} has {now} bytes here and had {bytes} when it was named"
        )));
    }
    let reader = ParquetRecordBatchReaderBuilder::try_new(file);
    let reader = reader.attempting(format!("reading {name}"))?;
    let schema = with_wide_keys(reader.schema());
    let reader = reader.with_batch_size(BATCH_ROWS).build();
    let reader = reader.attempting(format!("reading {name}"))?;
    let wanted = Arc::clone(&schema);
    let batches = reader.map(move |batch| {
        let batch = batch.attempting(format!("reading {name}"))?;
        let columns = batch.columns().iter().zip(wanted.fields());
        let columns =
            columns.map(|(column, field)| arrow::compute::cast(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>, _>>();
        let columns = columns.attempting(format!("reading {name}"))?;
        RecordBatch::try_new(Arc::clone(&wanted), columns).attempting(format!("reading {name}"))
    });
    Ok((schema, Box::new(batches)))
}

/// The schema with dictionaries whose keys can count any words: otherwise the words of its shards
/// would decide which type a node's column has.
fn with_wide_keys(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Dictionary(_, words) => {
            let wide = DataType::Dictionary(Box::new(DataType::Int32), words.clone());
            Arc::new(Field::clone(field).with_data_type(wide))
        }
        _ => Arc::clone(field),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn ssb_batches(
    table: &str,
    scale_factor: f64,
    seed: u64,
) -> Result<(SchemaRef, Batches), ClusterError> {
    let config = SsbConfig::new(scale_factor, seed).map_err(ClusterError::input)?;
    let spec = ssb::table(table).map_err(ClusterError::input)?;
    let schema = ssb_schema(spec);
    if spec.name != "lineorder" {
        let batch = dimension_batch(&config, spec).attempting("generating rows");
        return Ok((schema, Box::new(std::iter::once(batch))));
    }
    let lineorder = Lineorder::plan(&config).map_err(ClusterError::input)?;
    let chunks = lineorder.chunks();
    let batches = (0..chunks).step_by(CHUNKS_PER_BATCH).map(move |first| {
        let part = first..chunks.min(first + CHUNKS_PER_BATCH);
        lineorder_batch(&lineorder, spec, part).attempting("generating rows")
    });
    Ok((schema, Box::new(batches)))
}
