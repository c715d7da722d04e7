//! A table at a scale factor, in parts that can be made at the same time.

use crate::stream::Batches;
use crate::{Benchmark, TpcError, tpcds, tpch};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

/// Scale factors from here on would overflow keys of the 32-bit columns.
pub(crate) const LARGEST_SCALE_FACTOR: f64 = 1000.0;

/// What makes the batches of one part.
pub(crate) type Part = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// What is generated: one table at one scale factor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Source {
    benchmark: Benchmark,
    table: &'static str,
    scale_factor: f64,
}

impl Source {
    pub(crate) fn new(
        benchmark: Benchmark,
        table: &str,
        scale_factor: f64,
    ) -> Result<Source, TpcError> {
        if !(0.01..=LARGEST_SCALE_FACTOR).contains(&scale_factor) {
            return Err(TpcError::ScaleFactor {
                benchmark,
                scale_factor,
            });
        }
        let found = benchmark.tables().iter().find(|name| **name == table);
        let table = found.ok_or_else(|| TpcError::NoTable {
            benchmark,
            table: table.into(),
        })?;
        Ok(Source {
            benchmark,
            table,
            scale_factor,
        })
    }

    /// The table's name.
    pub fn table(&self) -> &'static str {
        self.table
    }

    /// The benchmark it belongs to.
    pub fn benchmark(&self) -> Benchmark {
        self.benchmark
    }

    /// The scale factor.
    pub fn scale_factor(&self) -> f64 {
        self.scale_factor
    }

    /// Its Arrow schema: `Int32`/`Int64` keys, `Decimal128`, `Date32`, `Utf8View`.
    pub fn schema(&self) -> SchemaRef {
        match self.benchmark {
            Benchmark::TpcH => tpch::schema(self.table),
            Benchmark::TpcDs => tpcds::schema(self.table),
        }
    }

    /// Its rows. Exact for tables whose size the specification fixes; within two per cent for TPC-H's `lineitem` and within
    /// ten for TPC-DS's sales and returns, whose line items per order are drawn at random.
    pub fn expected_rows(&self) -> u64 {
        match self.benchmark {
            Benchmark::TpcH => tpch::expected_rows(self.table, self.scale_factor),
            Benchmark::TpcDs => tpcds::expected_rows(self.table, self.scale_factor),
        }
    }

    /// In how many parts it is worth making by `threads` threads; 1 for small tables and those that keep history.
    pub fn parts(&self, threads: usize) -> usize {
        let rows = self.expected_rows() as usize;
        let splits = match self.benchmark {
            Benchmark::TpcH => !matches!(self.table, "nation" | "region"),
            Benchmark::TpcDs => tpcds::splits(self.table),
        };
        // Several parts a thread, so that none waits long for the last; each part costs skipping the generator's random numbers.
        match rows / FEWEST_ROWS_OF_A_PART {
            0 | 1 => 1,
            _ if !splits || threads <= 1 => 1,
            worth => worth.min(threads * PARTS_PER_THREAD),
        }
    }

    /// All its rows in batches of `batch_rows`, made by up to `threads` threads and handed out in the order of one thread's
    /// work. Batches end where parts end, so their cuts depend on `threads`; rows and their order do not.
    ///
    /// Dropping the iterator stops the threads: that is how a caller cancels. A caller counts rows for its progress.
    pub fn batches(&self, batch_rows: usize, threads: usize) -> Batches {
        Batches::start(*self, batch_rows.max(1), threads.max(1))
    }

    /// Part `index` of `count`, from 0.
    pub(crate) fn part(&self, index: usize, count: usize, batch_rows: usize) -> Part {
        match self.benchmark {
            Benchmark::TpcH => tpch::part(self.table, self.scale_factor, index, count, batch_rows),
            Benchmark::TpcDs => {
                tpcds::part(self.table, self.scale_factor, index, count, batch_rows)
            }
        }
    }
}

/// A part of fewer rows is not worth a thread.
const FEWEST_ROWS_OF_A_PART: usize = 50_000;

/// Parts that each thread makes of a large table.
const PARTS_PER_THREAD: usize = 4;
