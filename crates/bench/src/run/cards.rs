//! Describes the machine and page audits in the types of the record format.

use tierloom_kernels::Simd;
use tierloom_kernels::access::{FenceMode, Timer};
use tierloom_memory::Audit;
use tierloom_record::{
    AuditRecord, BenchHost, CacheCard, HostCard, HostTier, NodeShare, OperatorCount, OperatorPhase,
    OperatorTaskRecord, Spread, StructureTraffic,
};
use tierloom_topology::{Environment, NodeId, Topology};

use super::execute::Outcome;
use super::task::Spec;

/// The description of the machine in records, without a bandwidth probe.
pub fn host_card(topology: &Topology, environment: &Environment) -> HostCard {
    let memory_of = |nodes: &[NodeId]| {
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
        governor: environment.governor.to_string(),
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
        probe: None,
        notes: topology.notes.clone(),
    }
}

/// The description of the machine in the record of a benchmark.
///
/// Clock offset and uncertainty are set by the coordinator, for agents on other hosts.
pub(super) fn bench_host(
    name: &str,
    topology: &Topology,
    environment: &Environment,
    timer: &Timer,
) -> BenchHost {
    let overhead = timer.overhead_ns(FenceMode::Full);
    BenchHost {
        name: name.to_owned(),
        card: host_card(topology, environment),
        snc: environment.snc.to_string(),
        prefetchers: environment.prefetchers.to_string(),
        simd: Simd::detect().to_string(),
        timer: format!(
            "{}; steps of {:.1} ns; {:.1} ns per fenced reading pair",
            timer.describe(),
            timer.resolution_ns(),
            overhead.mean
        ),
        clock_offset_ns: None,
        clock_uncertainty_ns: None,
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

/// What an operator did, with the traffic of its phases; `None` for other work.
pub(super) fn operator(spec: &Spec<'_>, outcome: &Outcome) -> Option<OperatorTaskRecord> {
    let (operator, done) = (spec.operator()?, outcome.operator.as_ref()?);
    let phases = done.phases.iter().zip(&done.seconds);
    let phases = phases.map(|(phase, seconds)| OperatorPhase {
        name: phase.name.into(),
        tuples: phase.tuples,
        counted: phase.counted,
        seconds: Spread::of(seconds.clone()),
        traffic: phase
            .traffic
            .iter()
            .map(|traffic| StructureTraffic {
                structure: traffic.structure.into(),
                read_bytes: traffic.read_bytes,
                written_bytes: traffic.written_bytes,
                random_accesses: traffic.random_accesses,
            })
            .collect(),
    });
    let counts = done.counts.iter().map(|(name, count)| OperatorCount {
        name: (*name).into(),
        count: *count,
        per_tuple: *count as f64 / outcome.operations.max(1) as f64,
    });
    Some(OperatorTaskRecord {
        name: operator.name().into(),
        tuples: done.tuples,
        passes: done.passes,
        phases: phases.collect(),
        counts: counts.collect(),
    })
}
