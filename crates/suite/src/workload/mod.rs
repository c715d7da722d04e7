//! The workloads of a run: the Star Schema Benchmark, TPC-H, TPC-DS.
//!
//! Each is a [`Workload`] in a file of its own, which generates, loads and checks; the rest of this
//! crate sees the trait alone.

mod literature;
mod ssb;
#[cfg(feature = "sql")]
pub(crate) mod tpc;

pub use crate::run::{tpcds, tpch};
pub use ssb::ssb;

use crate::RunError;
use crate::growth::Growth;
use crate::run::WorkloadData;
use std::borrow::Cow;
use std::fmt::Debug;
use tierloom_model::Machine;

/// One query of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct SuiteQuery {
    /// `q1.1` in the Star Schema Benchmark, `q01` in the others.
    pub id: &'static str,
    /// Flight of the Star Schema Benchmark, 1 to 4; 0 for the others.
    pub group: u8,
    /// The SQL text.
    pub sql: Cow<'static, str>,
}

/// Data, queries and right answers of a benchmark.
pub trait Workload: WorkloadData + Debug + Send + Sync {
    /// Name on the command line and in records: `ssb`.
    fn id(&self) -> &'static str;

    /// Name as text, with its scale factor.
    fn title(&self) -> String;

    /// The scale factor of the data.
    fn scale_factor(&self) -> f64;

    /// The seed of the data; 0 where there is one data set per scale factor.
    fn seed(&self) -> u64;

    /// Version of the generated data; figures of different versions are not comparable.
    fn generator_version(&self) -> u32;

    /// The queries with these names in this order, each once; all of them if no name is given.
    ///
    /// # Errors
    /// Bad input: a query that does not exist.
    fn queries(&self, names: &[String]) -> Result<Vec<SuiteQuery>, RunError>;

    /// Estimated bytes of the columns.
    fn estimated_bytes(&self) -> u64;

    /// Estimated rows that loading generates, for a progress bar.
    fn expected_rows(&self) -> u64;

    /// How work captured on this data grows to `scale_factor`. `None` if it does not grow by the
    /// rules of [`growth`](crate::growth).
    ///
    /// # Errors
    /// Bad input: the scale factor is out of range.
    fn growth(&self, scale_factor: f64) -> Result<Option<Growth>, RunError>;

    /// What published engines get with this workload on a published machine, as a sentence.
    fn literature(&self, _machine: &Machine) -> Option<String> {
        None
    }
}

/// The queries, each once.
fn once(queries: impl Iterator<Item = SuiteQuery>) -> Vec<SuiteQuery> {
    let mut found: Vec<SuiteQuery> = Vec::new();
    for query in queries {
        if !found.iter().any(|q| q.id == query.id) {
            found.push(query);
        }
    }
    found
}
