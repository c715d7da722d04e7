//! Geometric means over the queries of a run.

use crate::{MeanRecord, QueryRecord, geometric_mean};

/// Placement that all others are compared with.
pub const REFERENCE: &str = "dram";

/// Relative difference below which two figures count as the same.
pub const SAME_WITHIN: f64 = 0.01;

/// The speed-up of `record` over placement `dram` on the same machine with the same engine.
///
/// `dram` is looked up among `records` and is `record` itself if that is of `dram`. `None` if it
/// is not there, or if a median is not a positive number.
pub fn speedup_over_dram(record: &QueryRecord, records: &[QueryRecord]) -> Option<f64> {
    let same = |r: &&QueryRecord| {
        r.placement == REFERENCE
            && r.query == record.query
            && r.machine == record.machine
            && r.engine == record.engine
    };
    let dram = records.iter().chain([record]).find(same)?;
    let speedup = dram.time_ms.median / record.time_ms.median;
    (speedup.is_finite() && speedup > 0.0).then_some(speedup)
}

/// One mean per machine, placement and engine, in the order of first appearance.
///
/// A placement with a time that is not positive has none.
pub fn means(records: &[QueryRecord]) -> Vec<MeanRecord> {
    let mut groups: Vec<(&QueryRecord, Vec<&QueryRecord>)> = Vec::new();
    for record in records {
        let same = |first: &QueryRecord| {
            first.machine == record.machine
                && first.placement == record.placement
                && first.engine == record.engine
        };
        match groups.iter_mut().find(|(first, _)| same(first)) {
            Some((_, members)) => members.push(record),
            None => groups.push((record, vec![record])),
        }
    }
    groups
        .into_iter()
        .filter_map(|(first, members)| mean(first, &members, records))
        .collect()
}

fn mean(
    first: &QueryRecord,
    members: &[&QueryRecord],
    records: &[QueryRecord],
) -> Option<MeanRecord> {
    // Records that were written before their dram record carry no speed-up.
    let speedup = |r: &&&QueryRecord| {
        r.speedup_over_dram
            .filter(|s| s.is_finite() && *s > 0.0)
            .or_else(|| speedup_over_dram(r, records))
    };
    let speedups: Vec<f64> = members.iter().filter_map(|r| speedup(&r)).collect();
    Some(MeanRecord {
        placement: first.placement.clone(),
        machine: first.machine.clone(),
        provenance: first.provenance,
        engine: first.engine,
        queries: members.len() as u32,
        geomean_ms: geometric_mean(members.iter().map(|r| r.time_ms.median))?,
        // A mean over only some of the queries could not be compared with the others.
        speedup_over_dram: if speedups.len() == members.len() {
            geometric_mean(speedups.iter().copied())
        } else {
            None
        },
        slower: speedups.iter().filter(|s| **s < 1.0 - SAME_WITHIN).count() as u32,
        faster: speedups.iter().filter(|s| **s > 1.0 + SAME_WITHIN).count() as u32,
    })
}
