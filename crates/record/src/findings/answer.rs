//! What was measured and which placement is best, in one sentence each.

use super::best::{BestPlacement, PlacementVerdict, SpeedRatio};
use super::warnings;
use crate::{HERE, Provenance, RunSet};
use tierloom_text::words::{list, ms, number, queries};

/// The name of a workload in sentences.
fn workload(set: &RunSet) -> String {
    match set.run.workload.as_str() {
        "ssb" => "the Star Schema Benchmark".into(),
        "tpch" => "TPC-H (no TPC result)".into(),
        "tpcds" => "TPC-DS (no TPC result)".into(),
        other => other.to_uppercase(),
    }
}

/// Workload, scale factor, machine, repetitions and date.
pub(super) fn measured(set: &RunSet) -> String {
    let run = &set.run;
    let settings = &run.settings;
    let number_of = queries(settings.queries.len());
    let what = match set.throughputs.first() {
        Some(first) => format!(
            "throughput of {} concurrent sessions over {number_of} of {}",
            first.streams.len(),
            workload(set)
        ),
        None => format!("{number_of} of {}", workload(set)),
    };
    let times = match set.throughputs.first() {
        Some(first) => format!("{} s per placement", number(first.duration_s)),
        None if settings.repeat == 1 => "one repetition".into(),
        None => format!("{} repetitions", settings.repeat),
    };
    let threads = match settings.threads {
        1 => "1 thread".into(),
        several => format!("{several} threads"),
    };
    // RFC 3339 begins with the date.
    let date = run.started_at.split('T').next().unwrap_or_default();
    format!(
        "Measured: {what}, scale factor {}, {times}, on this machine ({}, {threads}), {date}{}.",
        number(settings.scale_factor),
        run.host.cpu_model,
        modelled(set)
    )
}

/// The machines that the work was modelled on, each with the scale factor of its figures.
fn modelled(set: &RunSet) -> String {
    let of = set.run.machines.iter();
    let of = of.filter(|card| set.queries.iter().any(|q| q.machine == card.name));
    let names: Vec<String> = of
        .map(|card| {
            let scale_factor = number(set.scale_factor_on(&card.name));
            format!("{} at scale factor {scale_factor}", card.name)
        })
        .collect();
    if names.is_empty() {
        String::new()
    } else {
        format!("; modelled from that work: {}", list(&names))
    }
}

/// "this machine (measured)" or "nus24 (modelled, scale factor 30)".
pub(super) fn machine(set: &RunSet, name: &str, provenance: Provenance) -> String {
    let called = if name == HERE { "this machine" } else { name };
    match provenance {
        Provenance::Measured => format!("{called} (measured)"),
        Provenance::Modelled => format!(
            "{called} (modelled, scale factor {})",
            number(set.scale_factor_on(name))
        ),
    }
}

/// The best placement of each machine, by how much, and with which range.
pub(super) fn best(set: &RunSet, best: &[BestPlacement]) -> String {
    if let Some(why) = warnings::no_conclusion(set) {
        return format!("Best placement: none can be named, because {why}.");
    }
    if best.is_empty() {
        return "Best placement: none can be named, because no placement has all its figures."
            .into();
    }
    // A machine with a single placement has the least to say.
    let is_alone = |b: &&BestPlacement| matches!(b.outcome, PlacementVerdict::Alone { .. });
    let (alone, compared): (Vec<_>, Vec<_>) = best.iter().partition(is_alone);
    let parts: Vec<String> = compared.iter().chain(&alone).map(|b| on(set, b)).collect();
    let explained = if compared.is_empty() {
        ""
    } else if set.throughputs.is_empty() {
        " (ratios of geometric means over queries, [min..max] over repetitions)"
    } else {
        " (ratios of throughputs, [min..max] over sessions)"
    };
    format!("Best placement{explained}: {}.", parts.join("; "))
}

fn on(set: &RunSet, best: &BestPlacement) -> String {
    let machine = machine(set, &best.machine, best.provenance);
    let outcome = match &best.outcome {
        PlacementVerdict::Alone { placement } => alone(set, &best.machine, placement),
        PlacementVerdict::Better {
            placement,
            over,
            ratio,
            equals,
        } => {
            let next = if placement == crate::means::REFERENCE {
                "the next, "
            } else {
                ""
            };
            let equals = match equals.as_slice() {
                [] => String::new(),
                several => format!(" (no worse within the noise: {})", list(several)),
            };
            format!("{placement}{equals}, {} as {next}{over}", times(ratio))
        }
        PlacementVerdict::NoneBetter { than, next, ratio } => format!(
            "no placement is better than {than} beyond the noise; the next, {next}, is {} as it",
            times(ratio)
        ),
        PlacementVerdict::TooFewRepetitions {
            fastest,
            over,
            ratio,
        } => format!(
            "not known, because {} repetitions cannot show a difference beyond the noise; \
             {fastest} came first, {} as {over}",
            set.run.settings.repeat,
            times(ratio)
        ),
    };
    format!("on {machine}, {outcome}")
}

/// "1.48 times as fast [1.46..1.50]".
pub(super) fn times(ratio: &SpeedRatio) -> String {
    let SpeedRatio { median, min, max } = ratio;
    format!("{median:.2} [{min:.2}..{max:.2}] times as fast")
}

fn alone(set: &RunSet, machine: &str, placement: &str) -> String {
    let stream = set.throughputs.iter().find(|t| t.placement == placement);
    if let Some(stream) = stream {
        return format!(
            "{placement}, the only one with figures, {:.0} queries per hour",
            stream.queries_per_hour
        );
    }
    let means = crate::means(&set.queries);
    let mean = means.iter().find(|m| {
        m.machine == machine && m.placement == placement && m.engine == crate::EngineKind::Tierloom
    });
    let time = mean.map_or(String::new(), |m| {
        format!(
            " {} ms per query (geometric mean of {})",
            ms(m.geomean_ms),
            queries(m.queries as usize)
        )
    });
    format!("{placement}, the only one with figures,{time}")
}
