//! The records of measured and modelled runs.

use super::beside::asked::BesidePlan;
use super::beside::price::BesidePrice;
use super::beside::turns::BesideRun;
use super::checkpoints::CheckpointsRun;
use super::measure::{PartRun, StoreRun};
use super::plan::{StorePlacement, StorePlan};
use super::price::Pricing;
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::time::SystemTime;
use tierloom_bench::run::audit_record;
use tierloom_model::Options;
use tierloom_oltp::{DriveResult, KindResult, StorePart};
use tierloom_record::{
    BesideRecord, CheckpointsRecord, HERE, MergingRecord, Provenance, RedoLogRecord, SCHEMA,
    Spread, StorePartRecord, TierTraffic, TransactionKind, TransactionsRecord,
};

/// The record of a measured run.
///
/// # Errors
/// Rounds whose rates are no numbers.
pub fn measured(
    plan: &StorePlan,
    placement: &StorePlacement,
    run: &StoreRun,
) -> Result<TransactionsRecord, Failure> {
    let elapsed_s = run.result.elapsed.as_secs_f64();
    let part = |part: &PartRun| StorePartRecord {
        region_bytes: part.region_bytes,
        audit_before: Some(audit_record(&part.before)),
        audit_after: Some(audit_record(&part.after)),
        ..blank_part(placement, part.part, run)
    };
    let beside = plan.beside.as_ref().zip(run.beside.as_ref());
    let beside = beside.map(|(asked, beside)| {
        let record = measured_beside(asked, run, beside);
        record.ok_or_else(|| Failure::runtime("a round had no transactions or no queries"))
    });
    Ok(TransactionsRecord {
        duration_s: elapsed_s,
        transactions_per_s: run.result.commits() as f64 / elapsed_s,
        kinds: kind_records(run.kinds, &run.result),
        parts: run.parts.iter().map(part).collect(),
        tiers: traffic(plan, run, elapsed_s),
        log: run.log.map(|log| RedoLogRecord {
            size_bytes: log.size_bytes,
            writes: log.writes,
        }),
        checkpoints: run.checkpoints.as_ref().map(checkpoints_record),
        merging: merging_record(run, &run.result),
        beside: beside.transpose()?,
        ended_early: run
            .result
            .full
            .map(|table| format!("the room of table {table} was used up; --room gives more")),
        invalid: run.invalid.clone(),
        ..blank(plan, placement)
    })
}

/// Transactions and streams that were measured by turns; `None` if a rate is no number.
fn measured_beside(asked: &BesidePlan, run: &StoreRun, of: &BesideRun) -> Option<BesideRecord> {
    let rounds =
        |value: &dyn Fn(&[f64; 4]) -> f64| Spread::of(of.rounds.iter().map(value).collect());
    Some(BesideRecord {
        workload: asked.suite.workload.id().to_owned(),
        scale_factor: asked.suite.workload.scale_factor(),
        placement: asked.here.text.clone(),
        streams: asked.streams as u32,
        threads: asked.suite.threads as u32,
        transactions_alone_per_s: rounds(&|round| round[0])?,
        transactions_beside_per_s: rounds(&|round| round[1])?,
        transactions_ratio: rounds(&|round| round[1] / round[0])?,
        queries_alone_per_hour: rounds(&|round| round[2])?,
        queries_beside_per_hour: rounds(&|round| round[3])?,
        queries_ratio: rounds(&|round| round[3] / round[2])?,
        kinds: kind_records(run.kinds, &of.result),
        merging: merging_record(run, &of.result),
        tiers: Vec::new(),
        audit_before: of.audit_before.clone(),
        audit_after: of.audit_after.clone(),
    })
}

/// The record of a modelled run.
///
/// # Errors
/// Why it cannot run there.
pub fn modelled(plan: &StorePlan, pricing: &Pricing<'_>) -> Result<TransactionsRecord, String> {
    let (run, placement) = (pricing.run, pricing.placement);
    let price = pricing.transactions(&Options::default())?;
    let merging_ns = pricing.merging_ns(&[(pricing.workers, &|tier| price.traffic(tier))])?;
    let tiers = price.solution.tiers.iter().map(|tier| TierTraffic {
        tier: tier.name.clone(),
        bytes: tier.bytes,
        bandwidth_gbps: tier.bandwidth_gbps * price.busy,
        utilisation: Some(tier.utilisation * price.busy),
    });
    let parts = StorePart::ALL
        .into_iter()
        .map(|part| blank_part(placement, part, run));
    Ok(TransactionsRecord {
        provenance: Provenance::Modelled,
        machine: pricing.machine.name.clone(),
        clients: pricing.waits.map_or(pricing.workers, |waits| waits.clients),
        duration_s: run.result.elapsed.as_secs_f64(),
        transactions_per_s: price.transactions_per_s,
        parts: parts.collect(),
        tiers: tiers.collect(),
        merging: modelled_merging(pricing, price.transactions_per_s, merging_ns),
        compute_ns: Some(pricing.compute.transaction_ns),
        log_wait_ns: pricing.waits.map(|waits| waits.wait_ns),
        ..blank(plan, placement)
    })
}

/// Modelled transactions and streams, each alone and both at once.
///
/// # Errors
/// A rate that is no number.
pub fn modelled_beside(
    asked: &BesidePlan,
    alone: &TransactionsRecord,
    both: BesidePrice,
    pricing: &Pricing<'_>,
) -> Result<BesideRecord, String> {
    let machine = pricing.machine;
    let one = |value: f64| Spread::of(vec![value]).ok_or_else(|| format!("a rate of {value}"));
    let [queries_alone, queries_beside] = both.queries_per_hour;
    let rates = (
        alone.transactions_per_s,
        both.transactions.transactions_per_s,
    );
    let tiers = machine.tiers.iter().map(|tier| {
        let (read, write) = both.transactions.traffic(&tier.name);
        let streams = both.streams.tiers.iter().find(|t| t.name == tier.name);
        let bandwidth_gbps = read + write + streams.map_or(0.0, |t| t.bandwidth_gbps);
        TierTraffic {
            tier: tier.name.clone(),
            bytes: bandwidth_gbps * alone.duration_s * 1e9,
            bandwidth_gbps,
            // That of the streams has the transactions in it as background.
            utilisation: streams.map(|t| t.utilisation),
        }
    });
    let growth = asked.suite.growth.get(&machine.name);
    let scale_factor = asked.suite.workload.scale_factor();
    Ok(BesideRecord {
        workload: asked.suite.workload.id().to_owned(),
        scale_factor: growth.map_or(scale_factor, |growth| growth.scale_factor),
        placement: asked.placement.text.clone(),
        streams: asked.streams as u32,
        threads: asked.workers(machine),
        transactions_alone_per_s: one(rates.0)?,
        transactions_beside_per_s: one(rates.1)?,
        transactions_ratio: one(rates.1 / rates.0)?,
        queries_alone_per_hour: one(queries_alone)?,
        queries_beside_per_hour: one(queries_beside)?,
        queries_ratio: one(queries_beside / queries_alone)?,
        kinds: Vec::new(),
        merging: modelled_merging(pricing, rates.1, both.merging_ns),
        tiers: tiers.collect(),
        audit_before: None,
        audit_after: None,
    })
}

fn modelled_merging(
    pricing: &Pricing<'_>,
    transactions_per_s: f64,
    ns_per_row: Option<f64>,
) -> Option<MergingRecord> {
    let (run, ns_per_row) = (pricing.run, ns_per_row?);
    let captured = merging_record(run, &run.result)?;
    let rows_per_s = captured.rows as f64 / run.captured.tuples as f64 * transactions_per_s;
    Some(MergingRecord {
        ns_per_row,
        thread_share: rows_per_s * ns_per_row / 1e9,
        ..captured
    })
}

/// Measured merging; `None` if it had nothing to do.
fn merging_record(run: &StoreRun, result: &DriveResult) -> Option<MergingRecord> {
    let (merging, lines) = (&result.merging, run.merging.as_ref()?);
    let rows = (merging.rows > 0).then_some(merging.rows)?;
    let bytes: u64 = StorePart::ALL
        .iter()
        .map(|part| lines.accessed_bytes(*part))
        .sum();
    Some(MergingRecord {
        rows,
        ns_per_row: merging.time.as_nanos() as f64 / rows as f64,
        thread_share: merging.time.as_secs_f64() / result.elapsed.as_secs_f64(),
        bytes_per_row: bytes as f64 / lines.tuples as f64,
    })
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
        merging: None,
        beside: None,
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

fn kind_records(names: &[&str], result: &DriveResult) -> Vec<TransactionKind> {
    let elapsed_s = result.elapsed.as_secs_f64();
    let kinds = names.iter().zip(&result.kinds);
    kinds
        .map(|(name, kind)| kind_record(name, kind, elapsed_s))
        .collect()
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
