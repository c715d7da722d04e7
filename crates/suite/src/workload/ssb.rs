//! The Star Schema Benchmark.

#[cfg(feature = "sql")]
mod data;

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
