//! What engines of the literature would gain on the machines they were studied on.

use tierloom_model::reference::ssb::ssb_queries;
use tierloom_model::{Machine, Options, Phase, Placement, TierShares, solve_all};
use tierloom_record::{SAME_WITHIN, geometric_mean};

/// CPU time per row assumed for the engines of the literature, ns: compiled pipelines need a few.
/// The model's documentation shows other values.
const REFERENCE_NS: f64 = 3.0;

/// What the literature's own engines get with the Star Schema Benchmark on a published machine: the
/// 13 queries as hand-written or compiled pipelines, at the scale, value width and blind interleave
/// of the study (Lebedev et al., 2025; Huang et al., 2024).
pub fn ssb(machine: &Machine) -> Option<String> {
    let (study, scale_factor, bytes_per_value, text, weights) = match machine.name.as_str() {
        "epfl25-full-pf-on" => ("Lebedev et al. (2025)", 100.0, 8, "9:1", (9.0, 1.0)),
        "nus24" => ("Huang et al. (2024)", 30.0, 4, "3:2", (3.0, 2.0)),
        _ => return None,
    };
    let price = |phases: &[Phase], dram: f64, cxl: f64| {
        let shares = TierShares::from_weights(&[("dram", dram), ("cxl", cxl)]).ok()?;
        Some(
            solve_all(
                machine,
                phases,
                &Placement::new(shares),
                machine.cores.value as u32,
                &Options::default(),
            )
            .ok()?
            .time_ns,
        )
    };
    let queries = ssb_queries(scale_factor, bytes_per_value, REFERENCE_NS);
    let speedups = queries
        .iter()
        .map(|(_, phases)| Some(price(phases, 1.0, 0.0)? / price(phases, weights.0, weights.1)?))
        .collect::<Option<Vec<f64>>>()?;
    let change = (geometric_mean(speedups.iter().copied())? - 1.0) * 100.0;
    let count = |test: &dyn Fn(&f64) -> bool| speedups.iter().filter(|s| test(s)).count();
    Some(format!(
        "For comparison, the engine of {study}, taken as {REFERENCE_NS} ns of CPU time per row at scale factor {scale_factor} with {bytes_per_value}-byte values: a blind {text} changes the geometric mean on {} by {change:+.1}% (queries slower: {}, faster: {}).",
        machine.name,
        count(&|s| *s < 1.0 - SAME_WITHIN),
        count(&|s| *s > 1.0 + SAME_WITHIN)
    ))
}
