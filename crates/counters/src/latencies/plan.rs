//! Which events tell the latencies of a processor family.
//!
//! Encodings are those of Linux's `tools/perf/pmu-events/arch/x86`: `UNC_CHA_TOR_OCCUPANCY`,
//! `UNC_CHA_TOR_INSERTS` and `UNC_CHA_CLOCKTICKS` of `sapphirerapids`, `emeraldrapids` and
//! `graniterapids` (`uncore-cache.json`), `l3_xi_sampled_latency` and its requests of `amdzen4` and
//! `amdzen5`. The sampled latency is in units of 10 ns.

use tierloom_topology::{SysRoot, TierKind, Topology};

use crate::files;
use crate::plan::pmu::{self, Pmu, PmuError};
use crate::plan::{PlannedEvent, Scope};
use crate::stalls::Family;

/// Intel's events of a caching agent.
const TOR_INSERTS: u64 = 0x35;
const TOR_OCCUPANCY: u64 = 0x36;
const CLOCKTICKS: u64 = 0x01;

/// Requests of cores that missed the caches: the low byte of all extended masks used here.
const FROM_CORES: u64 = 0x01;

/// Extended masks of demand reads by target: DDR memory of any, of this and of other sockets.
const READS_DDR: u64 = 0x00c8_1786;
const READS_LOCAL_DDR: u64 = 0x00c8_1686;
const READS_REMOTE_DDR: u64 = 0x00c8_1706;

/// CXL memory as an accelerator's, which is all that Sapphire Rapids knows, and as an expander's.
const READS_CXL_ACCELERATOR: u64 = 0x10c8_1782;
const READS_CXL_EXPANDER: u64 = 0x20c8_1682;

/// Caching agents used per socket: addresses are spread over all of them, so a few are a sample.
const AGENTS: usize = 6;

/// AMD's events of an L3 cache.
const SAMPLED_LATENCY: u64 = 0xac;
const SAMPLED_REQUESTS: u64 = 0xad;

/// Unit masks by source: DRAM of this and of other nodes, extension memory (CXL) of both.
const DRAM_NEAR: u64 = 0x01;
const DRAM_FAR: u64 = 0x02;
const EXTENSION: u64 = 0x30;

/// Nanoseconds per count of AMD's sampled latency.
const SAMPLED_NS: f64 = 10.0;

/// L3 caches used on AMD: each of them is read separately, and a server has up to 32.
const MOST_CACHES: usize = 8;

/// The memory that is compared with the DRAM of this socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// CXL memory; all DRAM counts as the first tier.
    Cxl,
    /// DRAM of other sockets, which often stands in for CXL memory.
    RemoteDram,
}

impl Others {
    /// What the tiers other than the first are on a machine.
    ///
    /// Memory of a node with processors is that of another socket, whatever its tier is called.
    #[must_use]
    pub fn of(topology: &Topology) -> Self {
        let kinds = [TierKind::Cxl, TierKind::Remote].into_iter();
        let other = kinds.filter_map(|kind| topology.tier(kind)).next();
        let node = other.and_then(|tier| topology.node(*tier.nodes.first()?));
        match node {
            Some(node) if !node.cpus.is_empty() => Others::RemoteDram,
            _ => Others::Cxl,
        }
    }

    /// "cxl" or "remote".
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Others::Cxl => "cxl",
            Others::RemoteDram => "remote",
        }
    }
}

/// Counters of one unit that tell the latency of one memory.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyUnit {
    /// 0 for the first tier, 1 for the others.
    pub memory: usize,
    /// Reads that wait, added up in each cycle (Intel), or sampled latencies (AMD).
    pub waiting: PlannedEvent,
    /// Reads.
    pub requests: PlannedEvent,
    /// Cycles of the unit's clock; `None` if `waiting` is a time.
    pub clock: Option<PlannedEvent>,
    /// Nanoseconds per count of `waiting`, if there is no clock.
    pub waiting_ns: f64,
}

/// The counters that tell the latencies of a machine's memory.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyPlan {
    /// All units; both memories have at least one.
    pub units: Vec<LatencyUnit>,
}

/// Why a machine's latencies cannot be counted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

impl From<PmuError> for Unavailable {
    fn from(error: PmuError) -> Self {
        let kernel = match &error {
            PmuError::TooLarge { field, .. } if field == "umask" => {
                " (Linux 6.11 and later accept all bits)"
            }
            _ => "",
        };
        Unavailable(format!("{error}{kernel}"))
    }
}

impl LatencyPlan {
    /// The counters of the machine below `root`, from files only.
    ///
    /// # Errors
    /// [`Unavailable`] with the reason and a remedy.
    pub fn of(root: &SysRoot, others: Others) -> Result<Self, Unavailable> {
        let cpuinfo = files::read(root, "proc/cpuinfo").unwrap_or_default();
        let units = match Family::of(&cpuinfo) {
            Some(Family::Zen4 | Family::Zen5) => of_caches(root, others)?,
            Some(family) => of_agents(root, others, family)?,
            None => {
                return Err(Unavailable(
                    "latencies of memory are counted on Intel's Sapphire, Emerald and Granite \
                     Rapids and on AMD's Zen 4 and 5 only"
                        .to_owned(),
                ));
            }
        };
        Ok(LatencyPlan { units })
    }
}

/// What is missing without the PMU that is wanted.
fn absence(root: &SysRoot, pmu: &str, module: &str) -> Unavailable {
    let fix = match files::is_guest(root) {
        true => "virtual machines are not given it; measure on bare metal".to_owned(),
        false => format!("sudo modprobe {module}"),
    };
    Unavailable(format!("no {pmu} in /{} ({fix})", pmu::DEVICES))
}

/// Intel: some caching agents of each socket, in turn for each kind of memory.
///
/// An agent has one counter that can add up what waits, so it tells the latency of one memory.
fn of_agents(
    root: &SysRoot,
    others: Others,
    family: Family,
) -> Result<Vec<LatencyUnit>, Unavailable> {
    let kinds: &[(usize, u64)] = match (others, family) {
        (Others::RemoteDram, _) => &[(0, READS_LOCAL_DDR), (1, READS_REMOTE_DDR)],
        (Others::Cxl, Family::SapphireRapids) => &[(0, READS_DDR), (1, READS_CXL_ACCELERATOR)],
        (Others::Cxl, _) => &[
            (0, READS_DDR),
            (1, READS_CXL_EXPANDER),
            (1, READS_CXL_ACCELERATOR),
        ],
    };
    let names = pmu::names(root);
    let is_agent = |name: &&String| {
        name.strip_prefix("uncore_cha_")
            .is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let agents: Vec<&String> = names.iter().filter(is_agent).take(AGENTS).collect();
    if agents.len() < kinds.len() {
        return Err(absence(root, "uncore_cha_*", "intel_uncore"));
    }
    let mut units = Vec::new();
    for (name, &(memory, target)) in agents.into_iter().zip(kinds.iter().cycle()) {
        let pmu = Pmu::read(root, name)?;
        let masked = |event: u64, what: &str| {
            let umask = target << 8 | FROM_CORES;
            let config = pmu.encode(what, &[("event", event), ("umask", umask)])?;
            Ok::<_, PmuError>((format!("{name}/event={event:#x},umask={umask:#x}"), config))
        };
        let waiting = masked(TOR_OCCUPANCY, "reads that wait")?;
        let requests = masked(TOR_INSERTS, "reads")?;
        let clock = pmu.encode("clock ticks", &[("event", CLOCKTICKS)])?;
        let clock = (format!("{name}/event={CLOCKTICKS:#x}"), clock);
        for cpu in cpus_of(&pmu)? {
            let event = |event: &Encoded| planned(&pmu, event, cpu);
            units.push(LatencyUnit {
                memory,
                waiting: event(&waiting),
                requests: event(&requests),
                clock: Some(event(&clock)),
                waiting_ns: 0.0,
            });
        }
    }
    Ok(units)
}

/// AMD: the L3 caches, each of which samples all sources.
fn of_caches(root: &SysRoot, others: Others) -> Result<Vec<LatencyUnit>, Unavailable> {
    let sources = match others {
        Others::Cxl => [DRAM_NEAR | DRAM_FAR, EXTENSION],
        Others::RemoteDram => [DRAM_NEAR, DRAM_FAR],
    };
    if !pmu::names(root).iter().any(|name| name == "amd_l3") {
        return Err(absence(root, "amd_l3", "amd_uncore"));
    }
    let pmu = Pmu::read(root, "amd_l3")?;
    let sampled = |event: u64, umask: u64| {
        // All cores, all threads and all slices of the cache.
        let fields = [
            ("event", event),
            ("umask", umask),
            ("enallcores", 1),
            ("enallslices", 1),
            ("sliceid", 3),
            ("threadmask", 3),
        ];
        let config = pmu.encode("sampled latencies", &fields)?;
        Ok::<_, PmuError>((format!("amd_l3/event={event:#x},umask={umask:#x}"), config))
    };
    let mut units = Vec::new();
    let cpus = cpus_of(&pmu)?;
    // Spread over the machine, since neighbours share a socket.
    let step = cpus.len().div_ceil(MOST_CACHES);
    for cpu in cpus.into_iter().step_by(step) {
        for (memory, umask) in sources.into_iter().enumerate() {
            let event = |event: &Encoded| planned(&pmu, event, cpu);
            units.push(LatencyUnit {
                memory,
                waiting: event(&sampled(SAMPLED_LATENCY, umask)?),
                requests: event(&sampled(SAMPLED_REQUESTS, umask)?),
                clock: None,
                waiting_ns: SAMPLED_NS,
            });
        }
    }
    Ok(units)
}

/// Label and configuration of an event.
type Encoded = (String, [u64; 3]);

fn planned(pmu: &Pmu, (label, config): &Encoded, cpu: u32) -> PlannedEvent {
    PlannedEvent {
        label: label.clone(),
        pmu_type: pmu.pmu_type,
        config: *config,
        scope: Scope::Cpu(cpu),
    }
}

/// The CPUs through which the instances of a PMU are read.
fn cpus_of(pmu: &Pmu) -> Result<Vec<u32>, Unavailable> {
    let cpus: Vec<u32> = pmu.cpus.iter().collect();
    match cpus.is_empty() {
        true => Err(Unavailable(format!(
            "/{}/{}/cpumask names no CPU",
            pmu::DEVICES,
            pmu.name
        ))),
        false => Ok(cpus),
    }
}
