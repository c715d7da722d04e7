//! Measured search for the best weights of one phase, as a record.

use std::collections::BTreeMap;

use tierloom_model::search::{
    Moved, Probe, Problem, SearchError, SearchLimits, Searched, Weights,
    measured as search_measured,
};
use tierloom_model::{Machine, Options, PhaseKind, StructureClass};
use tierloom_record::{HERE, Provenance, SCHEMA, TunePoint, TuneRecord};
use tierloom_topology::{NodeId, Topology, WeightedInterleave};

use super::{KernelPhase, MeasureError, RateSource, Reading};
use crate::apply::TierNodes;
use crate::modelled::{Stamp, kind, moved_classes, tier_weights};
use crate::work::RateUnit;

/// Ratio to the rate with the first tier only below which a gain is reported as not worth it.
const SMALL_GAIN: f64 = 1.02;

/// Phase, tiers and limits of a [`search_phase`].
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The phase with its kernel.
    pub phase: &'a KernelPhase,
    /// Names of the tiers; without interleaving everything is on the first.
    pub tiers: &'a [String],
    /// Profile that the search starts from; it may be rough.
    pub start: &'a Machine,
    /// Number of worker threads.
    pub workers: u32,
    /// Maximum number of measured points, those for comparison included.
    pub points: usize,
    /// Largest weight to try.
    pub max_weight: u32,
    /// Weights that the kernel uses at present; see [`kernel_now`].
    pub kernel: &'a Weights,
}

/// Result of [`search_phase`]; every rate is measured.
#[derive(Debug, Clone)]
pub struct Found {
    /// The result as a record.
    pub record: TuneRecord,
    /// Course of the search, with the corrected model.
    pub searched: Searched,
    /// Kind of the phase.
    pub kind: PhaseKind,
    /// Classes of the structures that get the weights.
    pub classes: Vec<StructureClass>,
}

/// Cache of measured points, so that no weights are measured twice.
#[derive(Debug)]
pub struct Memo<'t, T> {
    tiers: &'t mut T,
    seen: Vec<(Weights, Reading)>,
}

impl<'t, T: RateSource> Memo<'t, T> {
    /// Starts with an empty cache.
    pub fn new(tiers: &'t mut T) -> Self {
        Memo {
            tiers,
            seen: Vec::new(),
        }
    }

    /// The reading with `weights`, measured unless it is in the cache.
    ///
    /// # Errors
    /// Same as [`RateSource::measure`].
    pub fn reading(&mut self, weights: &Weights) -> Result<Reading, MeasureError> {
        if let Some((_, reading)) = self.seen.iter().find(|(known, _)| known == weights) {
            return Ok(reading.clone());
        }
        let reading = self.tiers.measure(weights)?;
        self.seen.push((weights.clone(), reading.clone()));
        Ok(reading)
    }
}

impl<T: RateSource> Probe for Memo<'_, T> {
    type Error = MeasureError;

    fn rate(&mut self, weights: &Weights) -> Result<f64, MeasureError> {
        Ok(self.reading(weights)?.tuples_per_s.median)
    }
}

/// Searches the best weights of a phase with at most `request.points` measured points.
///
/// The first tier alone and the kernel's weights are among the points, so that gains are measured
/// too.
///
/// # Errors
/// The error of the first point that cannot be measured; [`MeasureError::Model`] if the model
/// rejects the work or the profile.
pub fn search_phase<T: RateSource>(
    request: &Request<'_>,
    tiers: &mut T,
    stamp: &Stamp,
) -> Result<Found, MeasureError> {
    let work = &request.phase.work;
    let phases = work.phases(request.workers)?;
    let options = Options::default();
    let problem = Problem {
        tiers: request.tiers.to_vec(),
        max_weight: request.max_weight,
        ..Problem::new(request.start, &phases, request.workers, &options)
    };
    let mut memo = Memo::new(tiers);
    // The kernel's weights use up one point; the cache has them in case the search tries them.
    let kernel_rate = memo.reading(request.kernel)?;
    let limits = SearchLimits {
        points: request.points.saturating_sub(1).max(2),
        ..SearchLimits::default()
    };
    let searched = search_measured(&problem, &mut memo, &limits).map_err(cause)?;
    let on_first = memo.reading(&problem.on_first()?)?;
    // The kernel's weights may have been measured faster than those that the search recommends.
    let best = match memo.reading(&searched.weights)? {
        found if found.tuples_per_s.median >= kernel_rate.tuples_per_s.median => {
            (searched.weights.clone(), found)
        }
        _ => (request.kernel.clone(), kernel_rate.clone()),
    };
    let measured = Measured {
        best,
        on_first,
        kernel: kernel_rate,
        is_sure: searched.is_sure,
    };
    Ok(Found {
        record: record(request, &memo.seen, &measured, stamp),
        searched,
        kind: kind(&phases),
        classes: moved_classes(&phases, &Moved::All),
    })
}

/// The readings that a record needs.
struct Measured {
    best: (Weights, Reading),
    on_first: Reading,
    kernel: Reading,
    is_sure: bool,
}

fn record(
    request: &Request<'_>,
    seen: &[(Weights, Reading)],
    measured: &Measured,
    stamp: &Stamp,
) -> TuneRecord {
    let work = &request.phase.work;
    let unit = RateUnit::of(work);
    let shown = |tuples_per_s: f64| unit.of_tuples(tuples_per_s, work);
    let median = |reading: &Reading| shown(reading.tuples_per_s.median);
    let first = request.tiers.first().map_or("", String::as_str);
    let point = |(weights, reading): &(Weights, Reading)| TunePoint {
        share: 1.0 - weights.share(first),
        rate: median(reading),
        low: Some(shown(reading.tuples_per_s.min)),
        high: Some(shown(reading.tuples_per_s.max)),
        provenance: Provenance::Measured,
    };
    let mut points: Vec<TunePoint> = seen.iter().map(point).collect();
    points.sort_by(|a, b| a.share.total_cmp(&b.share));
    TuneRecord {
        schema: SCHEMA.into(),
        provenance: Provenance::Measured,
        made_at: stamp.made_at.clone(),
        tool_version: stamp.tool_version.clone(),
        machine: HERE.into(),
        phase: request.phase.name.clone(),
        what: request.phase.what.clone(),
        workers: request.workers,
        unit: unit.name().into(),
        points,
        best: tier_weights(&measured.best.0),
        best_rate: median(&measured.best.1),
        dram_rate: median(&measured.on_first),
        kernel: tier_weights(request.kernel),
        kernel_rate: median(&measured.kernel),
        best_share_range: None,
        gain_range: None,
        warnings: warnings(measured, first),
    }
}

fn cause(error: SearchError<MeasureError>) -> MeasureError {
    match error {
        SearchError::Model(error) => MeasureError::Model(error),
        SearchError::Probe { cause, .. } => cause,
        other => MeasureError::Search(other.to_string()),
    }
}

/// Remarks that a reader needs before using the weights.
fn warnings(measured: &Measured, name: &str) -> Vec<String> {
    let best = &measured.best.1.tuples_per_s;
    let first = &measured.on_first.tuples_per_s;
    let kernel = &measured.kernel.tuples_per_s;
    let mut said = Vec::new();
    let gain = best.median / first.median;
    if gain <= SMALL_GAIN {
        said.push(format!(
            "interleaving gains {:.1}% over {name} only: not worth it",
            (gain - 1.0) * 100.0
        ));
    }
    // A plain comparison of ranges: a few repetitions do not support a statistical test.
    if best.min < first.max && gain > 1.0 {
        said.push(format!(
            "the repetitions with the best weights and on {name} only overlap: the gain is within the spread"
        ));
    }
    if kernel.max < first.min {
        said.push(format!(
            "the kernel's weights lose {:.1}% against {name} only",
            (1.0 - kernel.median / first.median) * 100.0
        ));
    }
    if !measured.is_sure {
        said.push("the points ran out before the search was sure: allow more with --points".into());
    }
    said
}

/// Weights per tier that the kernel uses at present for memory with the weighted-interleave policy.
///
/// A tier's weight is the sum over its nodes; kernels without weights interleave one page per node.
///
/// # Errors
/// [`MeasureError::Model`] if a tier is named twice.
pub fn kernel_now(topology: &Topology, tiers: &[TierNodes]) -> Result<Weights, MeasureError> {
    let none = BTreeMap::new();
    let weights = match &topology.weighted_interleave {
        WeightedInterleave::Present { weights, .. } => weights,
        WeightedInterleave::Absent { .. } => &none,
    };
    let of_tier = |tier: &TierNodes| -> u32 {
        let nodes = tier.nodes.iter();
        nodes
            .map(|node| weights.get(&NodeId(*node)).copied().unwrap_or(1))
            .sum()
    };
    let named = tiers.iter().map(|tier| (tier.tier.clone(), of_tier(tier)));
    Ok(Weights::new(named)?)
}
