//! Resolves where the threads of a task run, and binds them.

use super::BenchError;
use crate::plan::{NodeSpread, Pin, WorkersPlan};
use rustix::thread::{CpuSet, sched_setaffinity};
use tierloom_topology::{CpuId, IdSet, NodeId, Topology};

/// The CPUs that each thread may use, in thread order.
///
/// Fails if the plan names a CPU that the process may not use: the kernel would silently drop it
/// from a longer list.
pub(super) fn resolve(
    workers: &WorkersPlan,
    topology: &Topology,
    place: &str,
) -> Result<Vec<IdSet>, BenchError> {
    let allowed = &topology.limits.cpus_allowed;
    let threads = 0..workers.threads as usize;
    let wrong = |problem: String| BenchError::plan(place, problem);
    if workers.threads == 0 {
        return Err(wrong("0 threads; expected 1 or more".into()));
    }
    let usable = |cpu: u32| {
        if allowed.contains(cpu) {
            Ok(cpu)
        } else {
            let problem = format!("CPU {cpu} cannot be used; this process may use CPUs {allowed}");
            Err(BenchError::machine(place, problem))
        }
    };
    match &workers.pin {
        Pin::Free => Ok(threads.map(|_| allowed.clone()).collect()),
        Pin::Cpus { cpus } if cpus.is_empty() => {
            Err(wrong("an empty list of CPUs; expected at least one".into()))
        }
        Pin::Cpus { cpus } => threads
            .map(|thread| Ok(IdSet::from_iter([usable(cpus[thread % cpus.len()])?])))
            .collect(),
        Pin::Nodes { nodes, spread } => {
            let of_nodes = nodes
                .iter()
                .map(|node| cpus_of(*node, topology, place))
                .collect::<Result<Vec<_>, _>>()?;
            if of_nodes.is_empty() {
                return Err(wrong(
                    "an empty list of nodes; expected at least one".into(),
                ));
            }
            let all: IdSet = of_nodes.iter().flat_map(IdSet::iter).collect();
            let dealt = deal(&of_nodes);
            Ok(threads
                .map(|thread| match spread {
                    NodeSpread::AllNodes => all.clone(),
                    NodeSpread::OneNodeEach => of_nodes[thread % of_nodes.len()].clone(),
                    NodeSpread::OneCpuEach => IdSet::from_iter([dealt[thread % dealt.len()]]),
                })
                .collect())
        }
    }
}

fn cpus_of(node: u32, topology: &Topology, place: &str) -> Result<IdSet, BenchError> {
    let with_cpus = || {
        let nodes: IdSet = topology
            .nodes
            .iter()
            .filter(|n| !n.cpus.is_empty())
            .map(|n| n.id.0)
            .collect();
        nodes.to_string()
    };
    let Some(found) = topology.node(NodeId(node)) else {
        return Err(BenchError::machine(
            place,
            format!(
                "there is no node {node} to run on; nodes with CPUs: {}",
                with_cpus()
            ),
        ));
    };
    let cpus = found.cpus.intersection(&topology.limits.cpus_allowed);
    if cpus.is_empty() {
        let problem = format!(
            "node {node} has no CPUs this process may use; nodes with CPUs: {}",
            with_cpus()
        );
        return Err(BenchError::machine(place, problem));
    }
    Ok(cpus)
}

/// The first CPU of each node, then the second ones, and so on.
fn deal(nodes: &[IdSet]) -> Vec<u32> {
    let most = nodes.iter().map(IdSet::len).max().unwrap_or(0);
    (0..most)
        .flat_map(|turn| nodes.iter().filter_map(move |cpus| cpus.iter().nth(turn)))
        .collect()
}

/// Binds the calling thread to `cpus`.
pub(super) fn bind(cpus: &IdSet) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter().map(CpuId) {
        set.set(cpu.0 as usize);
    }
    Ok(sched_setaffinity(None, &set)?)
}
