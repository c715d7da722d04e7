//! Whole queries in place of a phase: benchmarks that an engine runs.
//!
//! The engine is not a part of this crate: who measures runs the queries under each set of weights
//! and gives their records to [`QueryRuns::rate`].

use tierloom_model::reference::work::{Ssb, Tpch, Work};
use tierloom_model::search::Weights;
use tierloom_record::{EngineKind, Provenance, QueryRecord, Spread};

use crate::engine;
use crate::modelled::tier_weights;

/// Bytes of the placed tables per unit of scale factor, roughly: what decides how much fits.
const SSB_BYTES: f64 = 250e6;
const TPCH_BYTES: f64 = 750e6;

/// The smallest data that the generators make.
const LEAST_SCALE_FACTOR: f64 = 0.01;

/// A benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Benchmark {
    /// The Star Schema Benchmark.
    Ssb,
    /// TPC-H.
    Tpch,
}

/// Queries that are measured.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryRuns {
    /// Of which benchmark.
    pub benchmark: Benchmark,
    /// Names of the queries; empty for all of them.
    pub queries: Vec<String>,
    /// The scale factor of the data.
    pub scale_factor: f64,
    /// Tuples of the work that one round of the queries does, as the model counts them.
    pub tuples: f64,
}

/// The queries of `work` if it is a benchmark, and the work that they do; the data take about
/// `region_bytes`, or less if the work is of a smaller scale factor.
pub(super) fn of(work: &Work, region_bytes: u64) -> Option<(Work, QueryRuns)> {
    let fitting = |asked: f64, bytes: f64| {
        let most = region_bytes as f64 / bytes;
        // Two digits: a scale factor is a number that people compare.
        let unit = 10_f64.powf(most.log10().floor() - 1.0);
        asked
            .min((most / unit).floor() * unit)
            .max(LEAST_SCALE_FACTOR)
    };
    let (benchmark, queries, work, scale_factor) = match work {
        Work::Ssb(ssb) => {
            let scale_factor = fitting(ssb.scale_factor, SSB_BYTES);
            let queries = Some(&ssb.query).filter(|query| *query != "all");
            let work = Work::Ssb(Ssb {
                scale_factor,
                ..ssb.clone()
            });
            (
                Benchmark::Ssb,
                queries.into_iter().cloned().collect(),
                work,
                scale_factor,
            )
        }
        Work::Tpch(tpch) => {
            let scale_factor = fitting(tpch.scale_factor, TPCH_BYTES);
            let work = Work::Tpch(Tpch {
                scale_factor,
                ..tpch.clone()
            });
            (Benchmark::Tpch, Vec::new(), work, scale_factor)
        }
        _ => return None,
    };
    let runs = QueryRuns {
        benchmark,
        queries,
        scale_factor,
        tuples: work.tuples(),
    };
    Some((work, runs))
}

impl QueryRuns {
    /// Description for users.
    pub(super) fn what(&self) -> String {
        let title = match self.benchmark {
            Benchmark::Ssb => "the Star Schema Benchmark",
            Benchmark::Tpch => "TPC-H (no TPC result)",
        };
        let queries = match self.queries.as_slice() {
            [] => "all queries".to_owned(),
            some => format!("query {}", some.join(", ")),
        };
        format!(
            "{queries} of {title} at scale factor {}, table data and operator memory alike",
            self.scale_factor
        )
    }

    /// Weights as the placement of table data.
    pub fn placement(weights: &Weights) -> String {
        match tier_weights(weights).as_slice() {
            [only] => only.tier.clone(),
            several => engine::placement(several),
        }
    }

    /// Tuples per second of whole rounds of the queries under a placement, one value per round.
    ///
    /// `None` if a query has no valid time.
    pub fn rate(&self, records: &[QueryRecord], placement: &str) -> Option<Spread> {
        let measured = |record: &&QueryRecord| {
            record.placement == placement
                && record.provenance == Provenance::Measured
                && record.engine == EngineKind::Tierloom
        };
        let times: Vec<&[f64]> = records
            .iter()
            .filter(measured)
            .map(|record| record.time_ms.values.as_slice())
            .collect();
        let rounds = times.iter().map(|times| times.len()).min()?;
        let rate = |round: usize| {
            let ms: f64 = times.iter().map(|times| times[round]).sum();
            self.tuples / (ms / 1e3)
        };
        Spread::of((0..rounds).map(rate).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_fit_the_region_and_are_no_larger_than_asked() {
        let factor = |scale_factor: f64, region_bytes: u64| {
            let work = Work::Ssb(Ssb {
                scale_factor,
                ..Ssb::default()
            });
            of(&work, region_bytes).unwrap().1.scale_factor
        };
        assert!((factor(30.0, 1 << 30) - 4.2).abs() < 1e-9);
        assert_eq!(factor(0.5, 1 << 30), 0.5);
        assert_eq!(factor(30.0, 1 << 20), LEAST_SCALE_FACTOR);
    }

    #[test]
    fn one_tier_is_no_interleaving() {
        let placement = |text: &str| QueryRuns::placement(&text.parse().unwrap());
        assert_eq!(placement("dram 1"), "dram");
        assert_eq!(placement("dram 3, cxl 2"), "dram:3,cxl:2");
    }
}
