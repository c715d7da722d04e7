//! Builds the cards (run, host, data, machine, placement) that open a run's records.

use super::session::Session;
use crate::{PlannedPlacement, SuitePlan};
use std::time::SystemTime;
use tierloom_engine::PlacedColumn;
use tierloom_kernels::StreamProbe;
use tierloom_model::Machine;
use tierloom_placement::{ColumnUse, Decision, Policy};
use tierloom_record::{
    ColumnCard, DataCard, Figure, HostCard, MachineCard, PlacementCard, ProbeCard, RunRecord,
    SCHEMA, Settings, Spread, TableCard,
};
use tierloom_topology::{Environment, Topology};

/// The first record of a run: what ran, where, and with which settings.
pub fn run(session: &Session<'_>, probe: &StreamProbe) -> RunRecord {
    let (plan, invocation) = (session.plan, session.invocation.clone());
    RunRecord {
        schema: SCHEMA.into(),
        run_id: invocation.id,
        tool_version: invocation.tool_version,
        commit: invocation.commit,
        build: invocation.build,
        started_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        command: invocation.command,
        workload: plan.workload.id().into(),
        settings: settings(plan),
        host: host(&plan.topology, probe),
        machines: plan.machines.iter().map(|m| machine(plan, m)).collect(),
        data: data(session),
    }
}

fn settings(plan: &SuitePlan) -> Settings {
    Settings {
        scale_factor: plan.workload.scale_factor(),
        seed: plan.workload.seed(),
        generator_version: plan.workload.generator_version(),
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
    let environment = Environment::read(&topology.root, topology);
    // Bandwidth is the only part that depends on the data of this run; the rest is common to all
    // commands.
    HostCard {
        probe: probe_card(probe),
        ..tierloom_bench::run::host_card(topology, &environment)
    }
}

fn probe_card(probe: &StreamProbe) -> Option<ProbeCard> {
    Some(ProbeCard {
        read_gbps_one_thread: Spread::of(probe.read_gbps_one_thread.clone())?,
        read_gbps_all_threads: Spread::of(probe.read_gbps_all_threads.clone())?,
        footprint_bytes: probe.footprint_bytes,
    })
}

/// The card of a modelled machine, each number with its source.
fn machine(plan: &SuitePlan, machine: &Machine) -> MachineCard {
    let growth = plan.growth.get(&machine.name);
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
        scale_factor: growth.map(|growth| growth.scale_factor),
        table_bytes: growth.map(|growth| growth.table_bytes),
    }
}

fn data(session: &Session<'_>) -> DataCard {
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

/// The card of a placement. Page audits are filled in once they were made.
pub fn placement(
    placement: &PlannedPlacement,
    decisions: &[Decision],
    uses: &[ColumnUse],
) -> PlacementCard {
    let in_pool = placement.policy == Policy::Pool;
    let column = |decision: &Decision| {
        let used = uses.iter().find(|u| u.column == decision.column);
        ColumnCard {
            column: decision.column.clone(),
            bytes: used.map_or(0, |u| u.size_bytes),
            placement: match decision.staged {
                _ if in_pool => "pool".to_owned(),
                true => format!("{} (through a dram buffer)", decision.placement),
                false => decision.placement.to_string(),
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
