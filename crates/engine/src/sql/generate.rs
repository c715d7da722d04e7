//! Benchmark data as tables.

use super::error::SqlError;
use super::run::{Unit, Watch};
use super::session::{Loaded, SqlSession};
use crate::EngineError;
use crate::load::load_ssb;
use crate::tpc::load_tpc;
use arrow::datatypes::Schema;
use tierloom_tpc::Source;
use tierloom_workloads::Progress;
use tierloom_workloads::ssb::{self, SsbConfig};

/// Bytes that a string takes as it is generated, about: a view, and words of a few dozen letters.
const STRING_BYTES: u64 = 40;

/// What is made.
pub enum Generated {
    /// The five tables of the Star Schema Benchmark.
    Ssb(SsbConfig),
    /// Tables of TPC-H or TPC-DS.
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
            Generated::Ssb(config) => config.orders() * 4,
            Generated::Tpc(sources) => sources.iter().map(Source::expected_rows).sum(),
        }
    }

    /// Bytes while it is loaded, about: the tables as they are generated, of which one exists at a time, are more than their columns.
    fn bytes(&self) -> u64 {
        match self {
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
    /// Makes benchmark data straight into placed columns.
    ///
    /// # Errors
    /// Bad input: names that are taken, too little memory; an interruption.
    pub fn generate(
        &mut self,
        data: &Generated,
        watch: &dyn Watch,
    ) -> Result<Vec<Loaded>, SqlError> {
        for name in data.names() {
            self.check_new_name(name, false)?;
        }
        self.check_memory("data", data.bytes())?;
        let placement = self.first_placement()?;
        let placement_of = |_: &str| placement.clone();
        watch.begin("generating", data.rows(), Unit::Rows);
        let made = {
            let mut placer = self.placer();
            let progress = Rows(watch);
            match data {
                Generated::Ssb(config) => {
                    load_ssb(config, &mut placer, &placement_of, &progress).map(|d| d.tables)
                }
                Generated::Tpc(sources) => {
                    let threads = self.settings.engine.threads;
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

/// Rows of a generator for a watcher.
struct Rows<'a>(&'a dyn Watch);

impl Progress for Rows<'_> {
    fn advance(&self, rows: u64) {
        self.0.advance(rows);
    }

    fn cancelled(&self) -> bool {
        self.0.stopped()
    }
}
