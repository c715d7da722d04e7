//! Rough profile of an unmeasured machine, as the starting point of a search.

use tierloom_model::{
    Cache, Concurrency, LoadedLatency, Machine, Provenance, SCHEMA, SourceKind, Tier, Tlb, Value,
};
use tierloom_topology::{NodeId, TierKind, Topology};

use super::Setup;
use super::setup::llc_bytes;

/// Assumed idle latency of local DRAM where firmware reports none, ns.
const LOCAL_NS: f64 = 100.0;
/// Assumed number of cores per memory channel, and read bandwidth of a channel, GB/s.
const CORES_PER_CHANNEL: f64 = 4.0;
const CHANNEL_GBPS: f64 = 30.0;
/// Assumed read bandwidths of one node of other memory, GB/s.
const HBM_GBPS: f64 = 200.0;
const CXL_GBPS: f64 = 25.0;
const REMOTE_GBPS: f64 = 60.0;
/// Assumed number of entries of a second-level TLB.
const TLB_ENTRIES: f64 = 2048.0;

/// A profile from kernel and firmware, completed with assumptions about server hardware.
///
/// Every number states its source. The profile is good enough to choose the first points of a
/// search, which corrects it, but not to decide anything.
pub fn rough_machine(topology: &Topology, setup: &Setup) -> Machine {
    let smt = topology.cpus.threads_per_core.max(1);
    let cores = (setup.workers() / smt).max(1);
    let sockets = u64::from(topology.cpus.sockets.max(1));
    let l2 = topology.cpus.caches.iter().filter(|cache| cache.level == 2);
    let l2 = l2.map(|cache| cache.size_bytes).max().unwrap_or(1 << 20);
    let llc = (llc_bytes(topology) / sockets).max(l2);
    let tiers = setup
        .tiers
        .iter()
        .map(|tier| rough_tier(topology, tier, cores));
    Machine {
        schema: SCHEMA.into(),
        name: "this-machine-rough".into(),
        title: format!("{}, roughly", topology.cpu_model),
        description: "From what the kernel and firmware tell and assumptions; the start of a search, not measured.".into(),
        provenance: Provenance::Published,
        citations: Vec::new(),
        cores: reported(f64::from(cores), "cores of the workers' CPUs"),
        smt: reported(f64::from(smt), "hardware threads per core"),
        smt_yield: assumed(1.25, "compute gain of a second hardware thread"),
        cache: Cache {
            l2_bytes: reported(l2 as f64, "private cache of a core"),
            llc_bytes: reported(llc as f64, "last-level caches of a socket"),
            llc_latency_ns: assumed(30.0, "usual in server processors"),
        },
        tlb: Tlb {
            entries: assumed(TLB_ENTRIES, "usual in server cores"),
            page_bytes: reported(setup.page_size.bytes() as f64, "pages of the regions"),
            walk_ns: assumed(20.0, "tables in caches"),
            walkers: assumed(2.0, "usual in server cores"),
        },
        concurrency: Concurrency {
            sequential_scalar: assumed(16.0, "with hardware prefetching"),
            sequential_simd: assumed(32.0, "with hardware prefetching"),
            random: assumed(10.0, "line fill buffers of a core"),
            random_prefetched: assumed(16.0, "line fill buffers of a core"),
            dependent: reported(1.0, "each address needs the line before"),
            store: None,
            nt_store: None,
            smt_gain: None,
            core_gbps: None,
        },
        overlap: None,
        prefetch: None,
        tiers: tiers.collect(),
        notes: vec!["Not a profile to decide by: only the start of a search on real tiers.".into()],
        measurements: None,
    }
}

fn reported(x: f64, what: &str) -> Value {
    Value::new(
        x,
        SourceKind::Derived,
        format!("{what}, as the kernel reports"),
    )
}

fn assumed(x: f64, why: &str) -> Value {
    Value::new(x, SourceKind::Assumed, format!("assumed: {why}"))
}

fn rough_tier(topology: &Topology, tier: &crate::apply::TierNodes, cores: u32) -> Tier {
    let nodes: Vec<_> = tier
        .nodes
        .iter()
        .filter_map(|node| topology.node(NodeId(*node)))
        .collect();
    let count = nodes.len().max(1) as f64;
    let kind = tier.tier.parse().unwrap_or(TierKind::Dram);
    let firmware = nodes.iter().filter_map(|node| node.best_access());
    let sum = |figure: fn(&tierloom_topology::AccessClass) -> Option<f64>| {
        // All nodes of a tier or none: a sum over some of them would be too low without any sign of
        // it.
        let figures: Option<Vec<f64>> = firmware.clone().map(figure).collect();
        figures
            .filter(|all| all.len() == nodes.len())
            .map(|all| all.iter().sum::<f64>())
    };
    let by_firmware = |x: f64| {
        Value::new(
            x,
            SourceKind::Derived,
            "firmware (HMAT or CDAT), as the kernel reports",
        )
    };
    let (each_gbps, why) = match kind {
        TierKind::Dram => {
            let channels = (f64::from(cores) / CORES_PER_CHANNEL).max(1.0);
            (channels * CHANNEL_GBPS / count, "30 GB/s for every 4 cores")
        }
        TierKind::Hbm => (HBM_GBPS, "one node of on-package memory"),
        TierKind::Cxl => (CXL_GBPS, "one expander on eight lanes"),
        TierKind::Remote => (REMOTE_GBPS, "links between sockets"),
    };
    let usual = assumed(each_gbps * count, why);
    let read_gbps = sum(|access| access.read_bandwidth_gbps).map_or(usual.clone(), by_firmware);
    let write_gbps = sum(|access| access.write_bandwidth_gbps).map_or(usual, by_firmware);
    let latency = sum(|access| access.read_latency_ns).map(|sum| by_firmware(sum / count));
    let far = nodes
        .iter()
        .flat_map(|node| node.distances.values())
        .max()
        .copied();
    // Distances are relative to 10 for local memory. Memory other than DRAM is assumed to be at 20
    // or more, and at 25 if its distance is unknown.
    let ratio = if kind == TierKind::Dram {
        1.0
    } else {
        f64::from(far.unwrap_or(25).max(20)) / 10.0
    };
    let by_distance = || {
        assumed(
            LOCAL_NS * ratio,
            "100 ns of local DRAM times the node distance",
        )
    };
    Tier {
        devices: reported(count, "memory nodes"),
        capacity_bytes: reported(
            nodes.iter().map(|node| node.mem_total_bytes as f64).sum(),
            "memory of the nodes",
        ),
        read_gbps,
        write_gbps,
        idle_latency_ns: latency.unwrap_or_else(by_distance),
        loaded: LoadedLatency {
            ratio_at_peak: assumed(2.5, "usual for DRAM and expanders"),
            knee: assumed(0.5, "usual for DRAM and expanders"),
            exponent: assumed(2.0, "form of the curve"),
        },
        ..Tier::plain(tier.tier.clone(), 1.0, LOCAL_NS, "replaced above")
    }
}
