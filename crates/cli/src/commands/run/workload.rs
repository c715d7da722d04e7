//! The workloads of a run: the Star Schema Benchmark, TPC-H, TPC-DS.
//!
//! Gives the rest of `run` one view of them: queries, estimated size, and what the records say
//! about the data.

use crate::failure::Failure;
use std::borrow::Cow;
use tierloom_workloads::ssb::{self, SsbConfig};

#[cfg(feature = "sql")]
use std::path::PathBuf;
#[cfg(feature = "sql")]
use tierloom_tpc::{Benchmark, Source};

/// Data and queries of a run.
#[derive(Debug, Clone)]
pub enum Workload {
    /// The Star Schema Benchmark.
    Ssb(SsbConfig),
    /// TPC-H or TPC-DS.
    #[cfg(feature = "sql")]
    Tpc {
        benchmark: Benchmark,
        scale_factor: f64,
        /// Folder of expected answers, for scale factors without stored ones.
        answers: Option<PathBuf>,
    },
}

/// One query of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunQuery {
    /// `q1.1` in the Star Schema Benchmark, `q01` in the others.
    pub id: &'static str,
    /// Flight of the Star Schema Benchmark, 1 to 4; 0 for the others.
    pub group: u8,
    /// The SQL text.
    #[cfg_attr(
        not(feature = "sql"),
        allow(dead_code, reason = "only the SQL engine reads it")
    )]
    pub sql: Cow<'static, str>,
}

#[cfg_attr(
    not(feature = "sql"),
    allow(dead_code, reason = "only the SQL engine asks all of it")
)]
impl Workload {
    /// Name on the command line and in records: `ssb`.
    pub fn id(&self) -> &'static str {
        match self {
            Workload::Ssb(_) => "ssb",
            #[cfg(feature = "sql")]
            Workload::Tpc { benchmark, .. } => benchmark.id(),
        }
    }

    /// Name as text, with its scale factor.
    pub fn title(&self) -> String {
        match self {
            Workload::Ssb(config) => format!(
                "Star Schema Benchmark, scale factor {}, seed {}",
                config.scale_factor, config.seed
            ),
            #[cfg(feature = "sql")]
            Workload::Tpc {
                benchmark,
                scale_factor,
                ..
            } => format!("{benchmark}, scale factor {scale_factor} (no TPC result)"),
        }
    }

    pub fn scale_factor(&self) -> f64 {
        match self {
            Workload::Ssb(config) => config.scale_factor,
            #[cfg(feature = "sql")]
            Workload::Tpc { scale_factor, .. } => *scale_factor,
        }
    }

    /// The seed of the data; 0 for the TPC benchmarks, which have one data set per scale factor.
    pub fn seed(&self) -> u64 {
        match self {
            Workload::Ssb(config) => config.seed,
            #[cfg(feature = "sql")]
            Workload::Tpc { .. } => 0,
        }
    }

    /// Version of the generated data; figures of different versions are not comparable.
    pub fn generator_version(&self) -> u32 {
        match self {
            Workload::Ssb(_) => ssb::GENERATOR_VERSION,
            #[cfg(feature = "sql")]
            Workload::Tpc { .. } => tierloom_tpc::GENERATOR_VERSION,
        }
    }

    /// The queries with these names in this order, each once; all of them if no name is given.
    ///
    /// # Errors
    /// Bad input: a query that does not exist.
    pub fn queries(&self, names: &[String]) -> Result<Vec<RunQuery>, Failure> {
        let mut found: Vec<RunQuery> = Vec::new();
        let mut add = |query: RunQuery| {
            if !found.iter().any(|q| q.id == query.id) {
                found.push(query);
            }
        };
        match self {
            Workload::Ssb(_) if names.is_empty() => ssb::queries().iter().map(of_ssb).for_each(add),
            Workload::Ssb(_) => {
                for name in names {
                    add(of_ssb(ssb::query(name.trim()).map_err(Failure::input)?));
                }
            }
            #[cfg(feature = "sql")]
            Workload::Tpc {
                benchmark,
                scale_factor,
                ..
            } => {
                let of = |query: &'static tierloom_tpc::Query| RunQuery {
                    id: query.id,
                    group: 0,
                    sql: query.sql(*scale_factor),
                };
                if names.is_empty() {
                    tierloom_tpc::queries(*benchmark)
                        .iter()
                        .map(of)
                        .for_each(add);
                } else {
                    for name in names {
                        let named =
                            tierloom_tpc::query(*benchmark, name).map_err(Failure::input)?;
                        named.into_iter().map(of).for_each(&mut add);
                    }
                }
            }
        }
        Ok(found)
    }

    /// Estimated bytes of the columns.
    pub fn estimated_bytes(&self) -> u64 {
        match self {
            Workload::Ssb(config) => {
                let of = |table: &ssb::TableSpec| {
                    let columns = table.columns.iter();
                    let width: u64 = columns.map(|c| ssb_code_bytes(config, table, c)).sum();
                    // A table of the specification always has rows.
                    config.rows(table.name).unwrap_or(0) * width
                };
                ssb::tables().iter().map(of).sum()
            }
            #[cfg(feature = "sql")]
            Workload::Tpc { .. } => self
                .sources()
                .iter()
                .map(|source| source.expected_rows() * tpc_width(source))
                .sum(),
        }
    }

    /// The tables of TPC-H or TPC-DS; the scale factor was checked when the run was planned.
    #[cfg(feature = "sql")]
    pub fn sources(&self) -> Vec<Source> {
        match self {
            Workload::Ssb(_) => Vec::new(),
            Workload::Tpc {
                benchmark,
                scale_factor,
                ..
            } => benchmark
                .tables()
                .iter()
                .filter_map(|table| benchmark.source(table, *scale_factor).ok())
                .collect(),
        }
    }
}

fn of_ssb(query: &'static ssb::Query) -> RunQuery {
    RunQuery {
        id: query.id,
        group: query.group,
        sql: Cow::Borrowed(query.sql),
    }
}

/// Estimated stored bytes per value of `column`: the code width that its range or number of values
/// needs.
fn ssb_code_bytes(config: &SsbConfig, table: &ssb::TableSpec, column: &ssb::ColumnSpec) -> u64 {
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

/// Estimated bytes of a row: for text a view and a dozen bytes; for decimals half of their 16
/// bytes, since few values need more.
#[cfg(feature = "sql")]
fn tpc_width(source: &Source) -> u64 {
    let schema = source.schema();
    let fields = schema.fields().iter();
    fields
        .map(|f| f.data_type().primitive_width().map_or(28, |w| w.min(8)) as u64)
        .sum()
}
