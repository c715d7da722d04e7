//! The generator of one table at one scale factor, in parts that threads can make at the same time.

use crate::{Benchmark, LARGEST_SCALE_FACTOR, Part, TpcError, tpcds, tpch};
use arrow::datatypes::SchemaRef;

/// The generator of one table at one scale factor.
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

    /// The table's name, one of [`Benchmark::tables`].
    pub fn table(&self) -> &'static str {
        self.table
    }

    /// The benchmark that the table belongs to.
    pub fn benchmark(&self) -> Benchmark {
        self.benchmark
    }

    /// The scale factor, 0.01 to 1,000.
    pub fn scale_factor(&self) -> f64 {
        self.scale_factor
    }

    /// The table's Arrow schema: `Int32`/`Int64` keys, `Decimal128`, `Date32`, `Utf8View`.
    pub fn schema(&self) -> SchemaRef {
        match self.benchmark {
            Benchmark::TpcH => tpch::schema(self.table),
            Benchmark::TpcDs => tpcds::schema(self.table),
        }
    }

    /// The expected number of rows.
    ///
    /// It is exact for tables whose size the specification fixes, within two per cent for TPC-H's
    /// `lineitem`, and within ten for TPC-DS's sales and returns, whose number of line items per
    /// order is random.
    pub fn expected_rows(&self) -> u64 {
        match self.benchmark {
            Benchmark::TpcH => tpch::expected_rows(self.table, self.scale_factor),
            Benchmark::TpcDs => tpcds::expected_rows(self.table, self.scale_factor),
        }
    }

    /// The number of parts worth making with `threads` threads; 1 for small tables and those that
    /// keep history.
    pub fn parts(&self, threads: usize) -> usize {
        let rows = self.expected_rows() as usize;
        let splits = match self.benchmark {
            Benchmark::TpcH => !matches!(self.table, "nation" | "region"),
            Benchmark::TpcDs => tpcds::splits(self.table),
        };
        // Several parts per thread, so that no thread waits long for the last part. More would cost
        // more: each part has to skip the random numbers of the rows before it.
        match rows / FEWEST_ROWS_OF_A_PART {
            0 | 1 => 1,
            _ if !splits || threads <= 1 => 1,
            worth => worth.min(threads * PARTS_PER_THREAD),
        }
    }

    /// Part `index` of `count`, with `index` from 0.
    pub(crate) fn part(&self, index: usize, count: usize, batch_rows: usize) -> Part {
        match self.benchmark {
            Benchmark::TpcH => tpch::part(self.table, self.scale_factor, index, count, batch_rows),
            Benchmark::TpcDs => {
                tpcds::part(self.table, self.scale_factor, index, count, batch_rows)
            }
        }
    }
}

/// Smaller parts cost more to set up than a thread gains.
const FEWEST_ROWS_OF_A_PART: usize = 50_000;

/// Number of parts per thread for a large table.
const PARTS_PER_THREAD: usize = 4;
