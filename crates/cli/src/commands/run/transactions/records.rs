//! The records of measured and modelled runs.

use super::checkpoints::CheckpointsRun;
use super::measure::{PartRun, StoreRun};
use super::plan::{StorePlacement, StorePlan};
use super::price::StorePrice;
use std::collections::BTreeMap;
use std::time::SystemTime;
use tierloom_bench::run::audit_record;
use tierloom_oltp::{KindResult, StorePart};
use tierloom_record::{
    CheckpointsRecord, HERE, Provenance, RedoLogRecord, SCHEMA, StorePartRecord, TierTraffic,
    TransactionKind, TransactionsRecord,
};

/// The record of a measured run.
pub fn measured(
    plan: &StorePlan,
    placement: &StorePlacement,
    run: &StoreRun,
) -> TransactionsRecord {
    let elapsed_s = run.result.elapsed.as_secs_f64();
    let kinds = run.kinds.iter().zip(&run.result.kinds);
    let part = |part: &PartRun| StorePartRecord {
        region_bytes: part.region_bytes,
        audit_before: Some(audit_record(&part.before)),
        audit_after: Some(audit_record(&part.after)),
        ..blank_part(placement, part.part, run)
    };
    TransactionsRecord {
        duration_s: elapsed_s,
        transactions_per_s: run.result.commits() as f64 / elapsed_s,
        kinds: kinds
            .map(|(name, kind)| kind_record(name, kind, elapsed_s))
            .collect(),
        parts: run.parts.iter().map(part).collect(),
        tiers: traffic(plan, run, elapsed_s),
        log: run.log.map(|log| RedoLogRecord {
            size_bytes: log.size_bytes,
            writes: log.writes,
        }),
        checkpoints: run.checkpoints.as_ref().map(checkpoints_record),
        ended_early: run
            .result
            .full
            .map(|table| format!("the room of table {table} was used up; --room gives more")),
        invalid: run.invalid.clone(),
        ..blank(plan, placement)
    }
}

/// The record of a modelled run of work that was captured in `run`; the machine, its clients and
/// what they were given are left to the caller.
pub fn modelled(
    plan: &StorePlan,
    placement: &StorePlacement,
    run: &StoreRun,
    price: &StorePrice,
) -> TransactionsRecord {
    let tiers = price.solution.tiers.iter().map(|tier| TierTraffic {
        tier: tier.name.clone(),
        bytes: tier.bytes,
        bandwidth_gbps: tier.bandwidth_gbps * price.busy,
        utilisation: Some(tier.utilisation * price.busy),
    });
    let parts = StorePart::ALL
        .into_iter()
        .map(|part| blank_part(placement, part, run));
    TransactionsRecord {
        provenance: Provenance::Modelled,
        duration_s: run.result.elapsed.as_secs_f64(),
        transactions_per_s: price.transactions_per_s,
        parts: parts.collect(),
        tiers: tiers.collect(),
        ..blank(plan, placement)
    }
}

/// A record of no results.
fn blank(plan: &StorePlan, placement: &StorePlacement) -> TransactionsRecord {
    TransactionsRecord {
        schema: SCHEMA.to_owned(),
        provenance: Provenance::Measured,
        made_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        build: crate::output::BUILD.to_owned(),
        workload: plan.workload.id(),
        scale: plan.workload.scale(),
        seed: plan.seed,
        page_size: plan.page_size.to_string(),
        clients: plan.clients,
        machine: HERE.to_owned(),
        placement: placement.text.clone(),
        duration_s: 0.0,
        transactions_per_s: 0.0,
        kinds: Vec::new(),
        parts: Vec::new(),
        tiers: Vec::new(),
        log: None,
        checkpoints: None,
        compute_ns: None,
        log_wait_ns: None,
        ended_early: None,
        invalid: None,
    }
}

fn blank_part(placement: &StorePlacement, part: StorePart, run: &StoreRun) -> StorePartRecord {
    let regions = run.parts.iter().find(|found| found.part == part);
    StorePartRecord {
        part: part.name().to_owned(),
        placement: placement.specs[part as usize].to_string(),
        region_bytes: regions.map_or(0, |part| part.region_bytes),
        accessed_bytes: run.captured.accessed_bytes(part),
        audit_before: None,
        audit_after: None,
    }
}

fn checkpoints_record(run: &CheckpointsRun) -> CheckpointsRecord {
    CheckpointsRecord {
        taken: run.taken,
        mean_s: run.duration.as_secs_f64() / run.taken.max(1) as f64,
        size_bytes: run.size_bytes,
        beside_per_s: run.beside_per_s,
        otherwise_per_s: run.otherwise_per_s,
    }
}

fn kind_record(name: &str, kind: &KindResult, elapsed_s: f64) -> TransactionKind {
    let us = |quantile: f64| kind.time_ns.value_at_quantile(quantile) as f64 / 1e3;
    let share = |part_ns: u64| match kind.total_ns {
        0 => 0.0,
        total_ns => (part_ns as f64 / total_ns as f64).min(1.0),
    };
    TransactionKind {
        name: name.to_owned(),
        commits: kind.commits,
        rollbacks: kind.rollbacks,
        conflicts: kind.conflicts,
        commits_per_s: kind.commits as f64 / elapsed_s,
        p50_us: us(0.5),
        p99_us: us(0.99),
        retry_share: share(kind.retried_ns),
        lock_share: share(kind.waits.lock_ns),
        room_share: share(kind.waits.room_ns),
        log_share: share(kind.waits.log_ns),
    }
}

/// What transactions accessed, by the tiers that the pages were found on.
fn traffic(plan: &StorePlan, run: &StoreRun, elapsed_s: f64) -> Vec<TierTraffic> {
    let mut by_tier: BTreeMap<String, f64> = BTreeMap::new();
    for part in &run.parts {
        let bytes = run.captured.accessed_bytes(part.part) as f64;
        for share in &part.after.actual {
            let tier = plan.topology.tier_of(share.node);
            let tier = tier.map_or("other".to_owned(), |tier| tier.to_string());
            *by_tier.entry(tier).or_default() += bytes * share.share;
        }
    }
    let of = |(tier, bytes): (String, f64)| TierTraffic {
        tier,
        bytes,
        bandwidth_gbps: bytes / elapsed_s / 1e9,
        utilisation: None,
    };
    by_tier.into_iter().map(of).collect()
}
