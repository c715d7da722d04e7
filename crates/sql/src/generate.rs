//! Loads generated benchmark data as tables, without files in between.
//!
//! Names and memory are checked first, then each table is generated, placed and registered like a
//! loaded one.

use super::error::SqlError;
use super::run::{Unit, Watch};
use super::session::{Loaded, SqlSession};
use arrow::datatypes::Schema;
use tierloom_engine::EngineError;
use tierloom_engine::load::load_ssb;
use tierloom_engine::tpc::load_tpc;
use tierloom_tpc::Source;
use tierloom_workloads::Progress;
use tierloom_workloads::ssb::{self, SsbConfig};

/// Approximate bytes of a generated string: its view, and text of a few dozen characters.
const STRING_BYTES: u64 = 40;

/// The data set to generate.
pub enum Generated {
    /// The five tables of the Star Schema Benchmark.
    Ssb(SsbConfig),
    /// The given tables of TPC-H or TPC-DS.
    Tpc(Vec<Source>),
}

impl Generated {
    fn names(&self) -> Vec<&'static str> {
        match self {
            Generated::Ssb(_) => ssb::tables().iter().map(|t| t.name).collect(),
            Generated::Tpc(sources) => sources.iter().map(Source::table).collect(),
        }
    }

    fn rows(&self) -> u64 {
        match self {
            // About four lines per order.
            Generated::Ssb(config) => config.orders() * 4,
            Generated::Tpc(sources) => sources.iter().map(Source::expected_rows).sum(),
        }
    }

    /// Approximate peak memory while the data is loaded.
    ///
    /// Tables in generated form are larger than their stored columns; one exists at a time.
    fn bytes(&self) -> u64 {
        match self {
            // The fact table has 17 columns of at most four bytes.
            Generated::Ssb(_) => self.rows() * 17 * 4,
            Generated::Tpc(sources) => sources
                .iter()
                .map(|s| s.expected_rows() * row_bytes(&s.schema()))
                .sum(),
        }
    }
}

fn row_bytes(schema: &Schema) -> u64 {
    let widths = schema
        .fields()
        .iter()
        .map(|f| f.data_type().primitive_width());
    widths.map(|w| w.map_or(STRING_BYTES, |w| w as u64)).sum()
}

impl SqlSession {
    /// Generates benchmark data directly into placed columns.
    ///
    /// # Errors
    /// Bad input (a table name is taken, too little memory), or an interruption.
    pub fn generate(
        &mut self,
        data: &Generated,
        watch: &dyn Watch,
    ) -> Result<Vec<Loaded>, SqlError> {
        // All names are checked before any work, so that nothing is generated in vain.
        for name in data.names() {
            self.catalog.check_new_name(name, false)?;
        }
        let placement = self.settings.first_placement(&self.storage.topology)?;
        self.storage
            .check_memory("data", data.bytes(), &placement)?;
        let placement_of = |_: &str| placement.clone();
        watch.begin("generating", data.rows(), Unit::Rows);
        let made = {
            let threads = self.settings.engine.threads;
            let mut placer = self.storage.placer(threads);
            let progress = RowProgress(watch);
            match data {
                Generated::Ssb(config) => {
                    load_ssb(config, &mut placer, &placement_of, &progress).map(|d| d.tables)
                }
                Generated::Tpc(sources) => {
                    load_tpc(sources, threads, &mut placer, &placement_of, &progress)
                        .map(|d| d.tables)
                }
            }
        };
        watch.end();
        let tables = made.map_err(|e: EngineError| SqlError::from(e))?;
        tables
            .into_iter()
            .map(|table| {
                let name = table.name().to_owned();
                self.register(&name, table, watch)
            })
            .collect()
    }
}

/// Forwards a generator's progress to a watcher.
struct RowProgress<'a>(&'a dyn Watch);

impl Progress for RowProgress<'_> {
    fn advance(&self, rows: u64) {
        self.0.advance(rows);
    }

    fn cancelled(&self) -> bool {
        self.0.stopped()
    }
}
