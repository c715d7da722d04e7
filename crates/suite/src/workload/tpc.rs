//! TPC-H and TPC-DS.

use super::{SuiteQuery, Workload, once};
use crate::RunError;
use crate::growth::Growth;
use crate::run::{Data, WorkloadData};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tierloom_engine::load::ColumnPlacer;
use tierloom_engine::tpc::load_tpc;
use tierloom_engine::{EngineError, RecordBatch};
use tierloom_memory::Placement;
use tierloom_tpc::{Benchmark, Query, Source, TpcError, compare, stored_answer};
use tierloom_workloads::Progress;

/// TPC-H's aggregations have fewer groups than this (by flag, nation, year, priority) or one per
/// order, part, supplier or customer.
const CONSTANT_GROUPS: f64 = 1000.0;

/// One of the two benchmarks at one scale factor.
#[derive(Debug)]
struct Tpc {
    benchmark: Benchmark,
    scale_factor: f64,
    /// Folder of expected answers, for scale factors without stored ones.
    answers: Option<PathBuf>,
}

/// TPC-H; `answers` is a folder of expected answers for scale factors without stored ones.
///
/// # Errors
/// Bad input: the scale factor is out of range, or there is no such folder.
pub fn tpch(scale_factor: f64, answers: Option<PathBuf>) -> Result<Arc<dyn Workload>, RunError> {
    Ok(Arc::new(Tpc::new(Benchmark::TpcH, scale_factor, answers)?))
}

/// TPC-DS; `answers` as in [`tpch`].
///
/// # Errors
/// As [`tpch`].
pub fn tpcds(scale_factor: f64, answers: Option<PathBuf>) -> Result<Arc<dyn Workload>, RunError> {
    Ok(Arc::new(Tpc::new(Benchmark::TpcDs, scale_factor, answers)?))
}

impl From<TpcError> for RunError {
    /// A query or scale factor that does not exist; what else can fail is an error of the engine.
    fn from(error: TpcError) -> Self {
        RunError::refused(error)
    }
}

impl Tpc {
    fn new(
        benchmark: Benchmark,
        scale_factor: f64,
        answers: Option<PathBuf>,
    ) -> Result<Self, RunError> {
        // The scale factor is checked by the first table's generator; all tables accept the same.
        let first = benchmark.tables().first().copied().unwrap_or_default();
        benchmark.source(first, scale_factor)?;
        if let Some(folder) = answers.as_ref().filter(|f| !f.is_dir()) {
            return Err(RunError::refused(format!(
                "--answers {}: no such folder; scripts/golden_tpc.py --sf {scale_factor} --into makes it",
                folder.display(),
            )));
        }
        Ok(Tpc {
            benchmark,
            scale_factor,
            answers,
        })
    }

    /// The tables; the scale factor was checked before.
    fn sources(&self) -> Vec<Source> {
        let tables = self.benchmark.tables().iter();
        let source = |table| self.benchmark.source(table, self.scale_factor).ok();
        tables.copied().filter_map(source).collect()
    }

    fn suite_query(&self, query: &'static Query) -> SuiteQuery {
        SuiteQuery {
            id: query.id,
            group: 0,
            sql: query.sql(self.scale_factor),
        }
    }
}

impl Workload for Tpc {
    fn id(&self) -> &'static str {
        self.benchmark.id()
    }

    fn title(&self) -> String {
        format!(
            "{}, scale factor {} (no TPC result)",
            self.benchmark, self.scale_factor
        )
    }

    fn scale_factor(&self) -> f64 {
        self.scale_factor
    }

    fn seed(&self) -> u64 {
        0
    }

    fn generator_version(&self) -> u32 {
        tierloom_tpc::GENERATOR_VERSION
    }

    fn queries(&self, names: &[String]) -> Result<Vec<SuiteQuery>, RunError> {
        if names.is_empty() {
            let all = tierloom_tpc::queries(self.benchmark).iter();
            return Ok(all.map(|q| self.suite_query(q)).collect());
        }
        let mut named = Vec::new();
        for name in names {
            named.extend(tierloom_tpc::query(self.benchmark, name)?);
        }
        Ok(once(named.into_iter().map(|q| self.suite_query(q))))
    }

    fn estimated_bytes(&self) -> u64 {
        let sources = self.sources();
        sources.iter().map(|s| s.expected_rows() * width(s)).sum()
    }

    fn expected_rows(&self) -> u64 {
        self.sources().iter().map(Source::expected_rows).sum()
    }

    fn growth(&self, scale_factor: f64) -> Result<Option<Growth>, RunError> {
        // TPC-DS's dimensions and selectivities follow tables of numbers, not the scale factor.
        if self.benchmark != Benchmark::TpcH {
            return Ok(None);
        }
        let there = Tpc::new(self.benchmark, scale_factor, None)?;
        let pairs = self.sources().into_iter().zip(there.sources());
        let rows = |(here, there): (Source, Source)| {
            let grown = there.expected_rows() as f64 / here.expected_rows().max(1) as f64;
            (here.table().to_owned(), grown)
        };
        let tables: BTreeMap<String, f64> = pairs.map(rows).collect();
        Ok(Some(Growth {
            scale_factor,
            table_bytes: there.estimated_bytes(),
            factor: scale_factor / self.scale_factor,
            tables,
            widths: BTreeMap::new(),
            keys: BTreeMap::new(),
            constant_groups: CONSTANT_GROUPS,
        }))
    }
}

impl WorkloadData for Tpc {
    fn load(
        &self,
        placer: &mut ColumnPlacer<'_>,
        placement: &Placement,
        threads: usize,
        progress: &dyn Progress,
    ) -> Result<Data, EngineError> {
        let placement_of = |_: &str| placement.clone();
        let loaded = load_tpc(&self.sources(), threads, placer, &placement_of, progress)?;
        Ok(Data {
            tables: loaded.tables,
            times: loaded.times,
        })
    }

    fn check(
        &self,
        query: &str,
        batches: &[RecordBatch],
        _text: &str,
    ) -> Result<Option<String>, RunError> {
        let stored = match &self.answers {
            Some(folder) => Some(read_answer(&folder.join(self.id()), query)?),
            None => tierloom_tpc::query(self.benchmark, query)?
                .first()
                .and_then(|q| stored_answer(q, self.scale_factor))
                .map(str::to_owned),
        };
        let Some(stored) = stored else {
            let sf = self.scale_factor;
            return Ok(Some(format!(
                "no stored answer for scale factor {sf}; scripts/golden_tpc.py --sf {sf} --into DIR makes them for --answers DIR"
            )));
        };
        compare(query, &stored, batches)
            .map_err(|different| RunError::WrongAnswer(different.to_string()))?;
        Ok(None)
    }
}

fn read_answer(folder: &Path, query: &str) -> Result<String, RunError> {
    let path = folder.join(format!("{query}.csv"));
    std::fs::read_to_string(&path)
        .map_err(|e| RunError::refused(format!("--answers: cannot read {}: {e}", path.display())))
}

/// Estimated bytes of a row: for text a view and a dozen bytes; for decimals half of their 16
/// bytes, since few values need more.
fn width(source: &Source) -> u64 {
    let schema = source.schema();
    let fields = schema.fields().iter();
    fields
        .map(|f| f.data_type().primitive_width().map_or(28, |w| w.min(8)) as u64)
        .sum()
}
