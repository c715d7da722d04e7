//! The Star Schema Benchmark.

use super::{SuiteQuery, Workload, literature, once};
use crate::RunError;
use crate::growth::Growth;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use tierloom_model::Machine;
use tierloom_workloads::ssb::{self, SsbConfig};

/// The Star Schema Benchmark with one data set.
#[derive(Debug)]
struct Ssb(SsbConfig);

/// The Star Schema Benchmark.
///
/// # Errors
/// Bad input: the scale factor is out of range.
pub fn ssb(scale_factor: f64, seed: u64) -> Result<Arc<dyn Workload>, RunError> {
    Ok(Arc::new(Ssb(SsbConfig::new(scale_factor, seed)?)))
}

impl Workload for Ssb {
    fn id(&self) -> &'static str {
        "ssb"
    }

    fn title(&self) -> String {
        let SsbConfig {
            scale_factor, seed, ..
        } = self.0;
        format!("Star Schema Benchmark, scale factor {scale_factor}, seed {seed}")
    }

    fn scale_factor(&self) -> f64 {
        self.0.scale_factor
    }

    fn seed(&self) -> u64 {
        self.0.seed
    }

    fn generator_version(&self) -> u32 {
        ssb::GENERATOR_VERSION
    }

    fn queries(&self, names: &[String]) -> Result<Vec<SuiteQuery>, RunError> {
        if names.is_empty() {
            return Ok(ssb::queries().iter().map(suite_query).collect());
        }
        let named = names.iter().map(|name| ssb::query(name.trim()));
        let named = named.collect::<Result<Vec<_>, _>>()?;
        Ok(once(named.into_iter().map(suite_query)))
    }

    fn estimated_bytes(&self) -> u64 {
        let of = |table: &ssb::TableSpec| {
            let columns = table.columns.iter();
            let width: u64 = columns.map(|c| code_bytes(&self.0, table, c)).sum();
            // A table of the specification always has rows.
            self.0.rows(table.name).unwrap_or(0) * width
        };
        ssb::tables().iter().map(of).sum()
    }

    fn expected_rows(&self) -> u64 {
        // An order has four lines on average.
        self.0.orders() * 4
    }

    fn growth(&self, scale_factor: f64) -> Result<Option<Growth>, RunError> {
        let there = Ssb(SsbConfig::new(scale_factor, self.0.seed)?);
        let mut growth = Growth {
            scale_factor,
            table_bytes: there.estimated_bytes(),
            factor: scale_factor / self.0.scale_factor,
            tables: BTreeMap::new(),
            widths: BTreeMap::new(),
            keys: BTreeMap::new(),
            // Years, nations, cities and brands: the same at every scale factor.
            constant_groups: f64::INFINITY,
        };
        let rows = |table: &str| -> Result<f64, RunError> {
            Ok(there.0.rows(table)? as f64 / self.0.rows(table)? as f64)
        };
        for table in ssb::tables() {
            growth.tables.insert(table.name.into(), rows(table.name)?);
            for column in table.columns {
                let bytes = |ssb: &Ssb| code_bytes(&ssb.0, table, column).max(1) as f64;
                let width = bytes(&there) / bytes(self);
                let name = format!("{}.{}", table.name, column.name);
                growth.widths.insert(name, width);
                if let Some((referred, _)) = column.foreign_key {
                    growth.keys.insert(column.name.into(), rows(referred)?);
                }
            }
        }
        Ok(Some(growth))
    }

    fn literature(&self, machine: &Machine) -> Option<String> {
        literature::ssb(machine)
    }

    #[cfg(feature = "sql")]
    fn load(
        &self,
        placer: &mut tierloom_engine::load::ColumnPlacer<'_>,
        placement: &tierloom_memory::Placement,
        _threads: usize,
        progress: &dyn tierloom_workloads::Progress,
    ) -> Result<crate::run::Data, tierloom_engine::EngineError> {
        let placement_of = |_: &str| placement.clone();
        let loaded = tierloom_engine::load::load_ssb(&self.0, placer, &placement_of, progress)?;
        Ok(crate::run::Data {
            tables: loaded.tables,
            times: loaded.times,
        })
    }

    #[cfg(feature = "sql")]
    fn check(
        &self,
        query: &SuiteQuery,
        _batches: &[tierloom_engine::RecordBatch],
        text: &str,
    ) -> Result<Option<String>, RunError> {
        let Some(golden) = ssb::golden_answer(&self.0, query.id) else {
            return Ok(Some(format!(
                "no stored answer for scale factor {} and seed {}; stored are scale factors 0.01, 0.1 and 1 with seed 1",
                self.0.scale_factor, self.0.seed
            )));
        };
        if same_rows(golden, text) {
            return Ok(None);
        }
        Err(RunError::WrongAnswer(format!(
            "{} answers wrongly (its lines: {}, DuckDB's on the same data: {}); first difference:\n{}",
            query.id,
            text.lines().count(),
            golden.lines().count(),
            first_difference(golden, text)
        )))
    }
}

fn suite_query(query: &'static ssb::Query) -> SuiteQuery {
    SuiteQuery {
        id: query.id,
        group: query.group,
        sql: Cow::Borrowed(query.sql),
    }
}

/// Estimated stored bytes per value of `column`: the code width that its range or number of values
/// needs.
fn code_bytes(config: &SsbConfig, table: &ssb::TableSpec, column: &ssb::ColumnSpec) -> u64 {
    let bytes = |codes: u64| u64::from(codes.saturating_sub(1).max(1).ilog2() / 8 + 1);
    let Ok(known) = config.column_statistics(table.name, column.name) else {
        return 4;
    };
    let date = column.foreign_key.is_some_and(|(to, _)| to == "date");
    match (column.ty, known.distinct, known.range) {
        (ssb::ColumnType::Dict8, ..) => 1,
        (ssb::ColumnType::Int32, Some(days), _) if date => bytes(days),
        // A column with a single value needs no codes.
        (ssb::ColumnType::Int32, _, Some((least, most))) if least == most => 0,
        (ssb::ColumnType::Int32, _, Some((least, most))) => bytes(least.abs_diff(most) + 1),
        (ssb::ColumnType::Int32, ..) => 4,
        (ssb::ColumnType::Text, Some(words), _) if words * 8 < known.rows => bytes(words),
        (ssb::ColumnType::Text, ..) => 26,
    }
}

/// Whether two answers are equal; one without rows may lack its header, since an engine may return
/// no batch.
#[cfg(feature = "sql")]
fn same_rows(expected: &str, got: &str) -> bool {
    expected == got || (got.is_empty() && expected.lines().count() == 1)
}

#[cfg(feature = "sql")]
fn first_difference(expected: &str, got: &str) -> String {
    let longest = expected.lines().count().max(got.lines().count());
    let line = |text: &str, index: usize| text.lines().nth(index).unwrap_or("(nothing)").to_owned();
    (0..longest)
        .map(|i| (line(expected, i), line(got, i)))
        .find(|(e, g)| e != g)
        .map(|(e, g)| format!("  expected {e}\n  got      {g}"))
        .unwrap_or_default()
}
