//! Describing the run, the machine and the data for the records.

use super::data::Session;
use super::plan::{PlannedPlacement, RunPlan};
use std::time::{SystemTime, UNIX_EPOCH};
use tierloom_engine::PlacedColumn;
use tierloom_kernels::StreamProbe;
use tierloom_memory::Audit;
use tierloom_model::Machine;
use tierloom_placement::{ColumnUse, Decision};
use tierloom_record::{
    AuditRecord, CacheCard, ColumnCard, DataCard, Figure, HostCard, HostTier, MachineCard,
    NodeShare, PlacementCard, ProbeCard, RunRecord, SCHEMA, Settings, Spread, TableCard,
};
use tierloom_topology::Topology;
use tierloom_workloads::ssb;

/// The record that opens a run.
pub fn run(plan: &RunPlan, session: &Session, probe: &StreamProbe) -> RunRecord {
    let now = SystemTime::now();
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    RunRecord {
        schema: SCHEMA.into(),
        run_id: format!("{:x}-{:x}", since.as_micros(), std::process::id()),
        tool_version: env!("CARGO_PKG_VERSION").into(),
        commit: option_env!("TIERLOOM_COMMIT")
            .filter(|c| !c.is_empty())
            .map(str::to_owned),
        build: if cfg!(debug_assertions) {
            "dev"
        } else {
            "release"
        }
        .into(),
        started_at: humantime::format_rfc3339_seconds(now).to_string(),
        command: std::env::args().collect(),
        workload: "ssb".into(),
        settings: settings(plan),
        host: host(&plan.topology, probe),
        machines: plan.machines.iter().map(machine).collect(),
        data: data(session),
    }
}

fn settings(plan: &RunPlan) -> Settings {
    Settings {
        scale_factor: plan.config.scale_factor,
        seed: plan.config.seed,
        generator_version: ssb::GENERATOR_VERSION,
        threads: plan.threads as u32,
        modelled_workers: plan
            .model_workers
            .map_or("all cores".into(), |n| n.to_string()),
        repeat: plan.repeat,
        warmup: 1,
        page_size: plan.page_size.to_string(),
        batch_rows: tierloom_engine::EngineOptions::tuned(plan.threads).batch_rows as u32,
        queries: plan.queries.iter().map(|q| q.id.into()).collect(),
        placements: plan.placements.iter().map(|p| p.text.clone()).collect(),
        machines: plan.machines.iter().map(|m| m.name.clone()).collect(),
        time_per_tuple_ns: plan.time_per_tuple_ns,
    }
}

fn host(topology: &Topology, probe: &StreamProbe) -> HostCard {
    let memory_of = |nodes: &[tierloom_topology::NodeId]| {
        nodes
            .iter()
            .filter_map(|n| topology.node(*n))
            .map(|n| n.mem_total_bytes)
            .sum()
    };
    HostCard {
        cpu_model: topology.cpu_model.clone(),
        cpus: topology.limits.cpus_allowed.len() as u32,
        smt: topology.cpus.threads_per_core,
        caches: topology
            .cpus
            .caches
            .iter()
            .map(|c| CacheCard {
                level: c.level,
                kind: c.kind.to_string(),
                size_bytes: c.size_bytes,
                count: c.count,
            })
            .collect(),
        kernel: topology.kernel_release.clone(),
        thp: topology
            .huge_pages
            .thp_mode
            .clone()
            .unwrap_or_else(|| "unknown".into()),
        numa_balancing: topology.numa_balancing.as_ref().map(ToString::to_string),
        governor: governor(),
        memory_bytes: memory_of(&topology.memory_nodes()),
        tiers: topology
            .tiers
            .iter()
            .map(|t| HostTier {
                kind: t.kind.to_string(),
                nodes: t.nodes.iter().map(|n| n.0).collect(),
                memory_bytes: memory_of(&t.nodes),
                reason: t.reason.clone(),
            })
            .collect(),
        probe: probe_card(probe),
        notes: topology.notes.clone(),
    }
}

fn governor() -> String {
    match std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
        Ok(text) => text.trim().to_owned(),
        Err(_) => "unavailable (no cpufreq driver)".into(),
    }
}

fn probe_card(probe: &StreamProbe) -> Option<ProbeCard> {
    Some(ProbeCard {
        read_gbps_one_thread: Spread::of(probe.read_gbps_one_thread.clone())?,
        read_gbps_all_threads: Spread::of(probe.read_gbps_all_threads.clone())?,
        footprint_bytes: probe.footprint_bytes,
    })
}

/// The card of a modelled machine.
pub fn machine(machine: &Machine) -> MachineCard {
    let figures = machine.figures().into_iter();
    MachineCard {
        name: machine.name.clone(),
        title: machine.title.clone(),
        citations: machine.citations.clone(),
        figures: figures
            .map(|f| Figure {
                label: f.label,
                value: f.value,
                unit: f.unit.into(),
                kind: f.kind.to_string(),
                source: f.source,
            })
            .collect(),
    }
}

fn data(session: &Session) -> DataCard {
    let tables = &session.data.tables;
    let regions = tables
        .iter()
        .flat_map(|t| t.columns())
        .flat_map(PlacedColumn::regions);
    DataCard {
        tables: tables
            .iter()
            .map(|t| TableCard {
                name: t.name().into(),
                rows: t.rows() as u64,
                bytes: t.size_bytes(),
            })
            .collect(),
        column_bytes: tables.iter().map(|t| t.size_bytes()).sum(),
        region_bytes: regions.map(|r| r.size_bytes() as u64).sum(),
    }
}

/// The card of a placement; audits are added when they were made.
pub fn placement(
    placement: &PlannedPlacement,
    decisions: &[Decision],
    uses: &[ColumnUse],
) -> PlacementCard {
    let column = |decision: &Decision| {
        let used = uses.iter().find(|u| u.column == decision.column);
        ColumnCard {
            column: decision.column.clone(),
            bytes: used.map_or(0, |u| u.size_bytes),
            placement: if decision.staged {
                format!("{} (through a dram buffer)", decision.placement)
            } else {
                decision.placement.to_string()
            },
            read_bytes: used.map_or(0, |u| u.read_bytes),
        }
    };
    PlacementCard {
        placement: placement.text.clone(),
        meaning: placement.policy.meaning(),
        placed_here: placement.why_not_here.is_none(),
        why_not: placement.why_not_here.clone(),
        columns: decisions.iter().map(column).collect(),
        audit_before: None,
        audit_after: None,
    }
}

/// The record of a page audit.
pub fn audit(audit: &Audit) -> AuditRecord {
    let shares = |shares: &[tierloom_memory::Share]| {
        shares
            .iter()
            .map(|s| NodeShare {
                node: s.node.0,
                share: s.share,
            })
            .collect()
    };
    AuditRecord {
        bytes_checked: audit.bytes_checked,
        pages_checked: audit.pages_checked,
        pages_absent: audit.absent_pages,
        requested: shares(&audit.requested),
        effective: shares(&audit.effective),
        actual: shares(&audit.actual),
        worst_deviation: audit.worst_deviation(),
    }
}
