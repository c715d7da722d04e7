//! Gives tasks to executors: one that reads shards goes only where they lie.

use crate::holders::{able, groups};
use crate::map::ClusterMap;
use crate::plan::node_plan_below;
use crate::registry::Registry;
use crate::wire::NodePlanHeader;
use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::serde::protobuf::{AvailableVcores, job_status};
use ballista_core::serde::scheduler::TaskKey;
use ballista_scheduler::cluster::{BoundTask, DistributionPolicy};
use ballista_scheduler::state::execution_graph::{TaskDescription, create_task_info};
use ballista_scheduler::state::execution_stage::RunningStage;
use ballista_scheduler::state::task_manager::JobInfoCache;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Where a part of a stage is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Choice {
    /// On this executor.
    On(String),
    /// On one that is busy now.
    Later,
}

/// Binds tasks by where the shards lie.
#[derive(Debug)]
pub(crate) struct ByShard {
    registry: Arc<Registry>,
}

impl ByShard {
    /// A policy that asks `registry` who holds what.
    pub fn new(registry: Arc<Registry>) -> Self {
        ByShard { registry }
    }
}

#[async_trait]
impl DistributionPolicy for ByShard {
    async fn bind_tasks(
        &self,
        budgets: Vec<&mut AvailableVcores>,
        running_jobs: Arc<HashMap<JobId, JobInfoCache>>,
    ) -> datafusion::error::Result<Vec<BoundTask>> {
        let map = self.registry.map();
        let mut free = Free(
            budgets
                .into_iter()
                .map(|budget| (budget.executor_id.clone(), budget))
                .collect(),
        );
        let mut bound = Vec::new();
        for (job, info) in running_jobs.iter() {
            if !matches!(info.status, Some(job_status::Status::Running(_))) {
                continue;
            }
            let mut graph = info.execution_graph.write().await;
            let session = graph.session_id().to_string();
            let mut seen = Vec::new();
            while let Some(stage) = graph.fetch_running_stage(&seen) {
                seen.push(stage.stage_id);
                bind_stage(
                    stage,
                    &map,
                    &mut free,
                    &mut |stage, executor, partitions| {
                        bound.push(task(stage, &session, job, executor, partitions));
                    },
                );
            }
        }
        Ok(bound)
    }

    fn name(&self) -> &str {
        "by_shard"
    }
}

/// Executors that can take tasks.
struct Free<'a>(BTreeMap<String, &'a mut AvailableVcores>);

impl Free<'_> {
    fn has(&self, executor: &str) -> bool {
        self.0.get(executor).is_some_and(|budget| budget.vcores > 0)
    }

    /// The one that can take most tasks.
    fn most(&self) -> Option<String> {
        let free = self.0.iter().filter(|(_, budget)| budget.vcores > 0);
        let most = free.max_by_key(|(_, budget)| budget.vcores);
        most.map(|(name, _)| name.clone())
    }

    fn take(&mut self, executor: &str) {
        if let Some(budget) = self.0.get_mut(executor) {
            budget.vcores = budget.vcores.saturating_sub(1);
        }
    }
}

/// Binds what can be bound of a stage now; the rest stays pending.
fn bind_stage(
    stage: &mut RunningStage,
    map: &ClusterMap,
    free: &mut Free<'_>,
    bind: &mut dyn FnMut(&mut RunningStage, &str, Vec<usize>),
) {
    let pending = stage.pending.next_slice(usize::MAX);
    if pending.is_empty() {
        return;
    }
    let plan = node_plan_below(&stage.plan);
    for part in parts(plan.as_ref(), pending) {
        let choice = match &plan {
            None => free.most().map_or(Choice::Later, Choice::On),
            Some(plan) => choose(plan, &part, map, free),
        };
        match choice {
            Choice::On(executor) => {
                free.take(&executor);
                bind(stage, &executor, part);
            }
            Choice::Later => stage.pending.reschedule(part),
        }
    }
}

/// Partitions that go to one executor together: those of shards with the same holders, and all of a
/// stage that reads no shards, whose rows come together in one partition.
fn parts(plan: Option<&NodePlanHeader>, pending: Vec<usize>) -> Vec<Vec<usize>> {
    let Some(plan) = plan.filter(|plan| !plan.holders.is_empty()) else {
        return vec![pending];
    };
    groups(plan, pending)
}

/// The executor for some partitions of a node plan.
///
/// If no live node holds their shards, some executor gets them all the same: there the statement
/// fails with an error that names shard and node. Left pending it would never end.
fn choose(
    plan: &NodePlanHeader,
    partitions: &[usize],
    map: &ClusterMap,
    free: &Free<'_>,
) -> Choice {
    let shards = partitions
        .iter()
        .filter_map(|p| plan.shards.get(*p).copied());
    let shards: BTreeSet<u32> = shards.collect();
    // Without tables it can run anywhere.
    let Some(able) = able(plan, &shards, map).filter(|able| !able.is_empty()) else {
        return free.most().map_or(Choice::Later, Choice::On);
    };
    let preferred = shards.first().and_then(|s| plan.holders.get(*s as usize));
    let is_preferred = |node: &&String| preferred.is_some_and(|nodes| nodes.contains(node));
    let mut in_order = able.iter().filter(is_preferred);
    let first = in_order.find_map(|node| map.executor_of(node).filter(|e| free.has(e)));
    let chosen = first.or_else(|| {
        let executors = able.iter().filter_map(|node| map.executor_of(node));
        let free_ones = executors.filter(|executor| free.has(executor));
        free_ones.max_by_key(|executor| free.0.get(executor).map_or(0, |budget| budget.vcores))
    });
    chosen.map_or(Choice::Later, Choice::On)
}

/// The task for `partitions` of a stage; it takes one of the executor's places for tasks, as its
/// operators share the node's threads.
fn task(
    stage: &mut RunningStage,
    session: &str,
    job: &JobId,
    executor: &str,
    partitions: Vec<usize>,
) -> BoundTask {
    let task_id = stage.task_infos.len();
    let failures = partitions
        .iter()
        .filter_map(|partition| stage.task_failure_numbers.get(*partition));
    let task_attempt = failures.max().copied().unwrap_or(0);
    let mut info = create_task_info(executor.into(), task_id);
    info.global_input_partition_ids = partitions.clone();
    info.vcores_consumed = 1;
    stage.task_infos.push(info);
    let description = TaskDescription {
        session_id: session.into(),
        key: TaskKey {
            job_id: job.clone(),
            stage_id: stage.stage_id,
            task_id,
        },
        stage_attempt_num: stage.stage_attempt_num,
        task_attempt,
        global_input_partition_ids: partitions,
        vcores_consumed: 1,
        plan: Arc::clone(&stage.plan),
        session_config: Arc::clone(&stage.session_config),
    };
    (executor.into(), description)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{HeldTable, NodeState, executor_id};
    use crate::wire::TableRef;

    fn held(shards: &[u32]) -> HeldTable {
        HeldTable {
            generation: 1,
            rows: shards.iter().map(|shard| (*shard, 10)).collect(),
            ..HeldTable::default()
        }
    }

    /// Nodes with the shards they hold of table `fact`; all hold shard 0 of `dim`.
    fn map(nodes: &[(&str, bool, &[u32])]) -> ClusterMap {
        let nodes = nodes.iter().map(|(name, alive, shards)| {
            let tables = [("fact", held(shards)), ("dim", held(&[0]))];
            let tables = tables.into_iter().map(|(name, held)| (name.into(), held));
            let state = NodeState {
                alive: *alive,
                silent_ms: 0,
                process: 1,
                threads: 1,
                address: String::new(),
                tables: tables.collect(),
                shuffle: None,
            };
            ((*name).into(), state)
        });
        ClusterMap {
            nodes: nodes.collect(),
            ..ClusterMap::default()
        }
    }

    fn plan(holders: &[&[&str]]) -> NodePlanHeader {
        let table = |name: &str, sharded| TableRef {
            name: name.into(),
            generation: 1,
            sharded,
        };
        NodePlanHeader {
            tables: BTreeSet::from([table("fact", true), table("dim", false)]),
            holders: holders
                .iter()
                .map(|nodes| nodes.iter().map(|node| (*node).into()).collect())
                .collect(),
            shards: (0..holders.len() as u32).collect(),
        }
    }

    /// Which executor each part of a stage over all shards gets, with these free places.
    fn chosen(
        plan: &NodePlanHeader,
        map: &ClusterMap,
        places: &[(&str, u32)],
    ) -> Vec<(Vec<usize>, Choice)> {
        let mut budgets: Vec<AvailableVcores> = places
            .iter()
            .map(|(name, vcores)| AvailableVcores {
                executor_id: executor_id(name, 1),
                vcores: *vcores,
            })
            .collect();
        let budgets = budgets.iter_mut();
        let mut free = Free(budgets.map(|b| (b.executor_id.clone(), b)).collect());
        let all = (0..plan.shards.len()).collect();
        let mut chosen = Vec::new();
        for part in parts(Some(plan), all) {
            let choice = choose(plan, &part, map, &free);
            if let Choice::On(executor) = &choice {
                free.take(executor);
            }
            chosen.push((part, choice));
        }
        chosen
    }

    fn on(name: &str) -> Choice {
        Choice::On(executor_id(name, 1))
    }

    #[test]
    fn shards_go_to_their_nodes_in_one_task_for_each() {
        let plan = plan(&[&["a"], &["a"], &["b"], &["b"], &["b"]]);
        let map = map(&[("a", true, &[0, 1]), ("b", true, &[2, 3, 4])]);
        let chosen = chosen(&plan, &map, &[("a", 1), ("b", 1), ("c", 9)]);
        assert_eq!(chosen, [(vec![0, 1], on("a")), (vec![2, 3, 4], on("b"))]);
    }

    #[test]
    fn a_busy_node_is_waited_for_and_a_dead_one_is_not() {
        let plan = plan(&[&["a"], &["b", "c"]]);
        let busy = [("b", 1), ("c", 1)];
        let alive = map(&[("a", true, &[0]), ("b", false, &[1]), ("c", true, &[1])]);
        let waiting = chosen(&plan, &alive, &busy);
        assert_eq!(waiting[0].1, Choice::Later);
        assert_eq!(waiting[1].1, on("c"), "a copy of the shard");
        // Nobody has shard 0 any more: it goes somewhere, to fail there.
        let dead = map(&[("a", false, &[0]), ("b", true, &[1]), ("c", true, &[1])]);
        let failing = chosen(&plan, &dead, &busy);
        assert!(matches!(&failing[0].1, Choice::On(node) if *node != executor_id("a", 1)));
        assert_eq!(chosen(&plan, &dead, &[])[0].1, Choice::Later);
    }

    #[test]
    fn a_node_without_the_small_table_or_with_another_load_gets_nothing() {
        let plan = plan(&[&["a", "b"]]);
        let mut map = map(&[("a", true, &[0]), ("b", true, &[0])]);
        let a = map.nodes.get_mut("a").unwrap();
        a.tables.get_mut("dim").unwrap().generation = 2;
        let places = [("a", 4), ("b", 1)];
        assert_eq!(chosen(&plan, &map, &places)[0].1, on("b"));
        let b = map.nodes.get_mut("b").unwrap();
        b.tables.get_mut("fact").unwrap().error = Some("no memory".into());
        let failing = chosen(&plan, &map, &places);
        assert_eq!(failing[0].1, on("a"), "the one with most places");
    }

    #[test]
    fn a_process_that_is_gone_gets_nothing_though_the_next_one_of_its_node_is_there() {
        let plan = plan(&[&["a"]]);
        let mut map = map(&[("a", true, &[0])]);
        map.nodes.get_mut("a").unwrap().process = 2;
        assert_eq!(chosen(&plan, &map, &[("a", 4)])[0].1, Choice::Later);
    }

    #[test]
    fn a_stage_without_shards_is_one_task() {
        let pending = vec![0, 1, 2];
        assert_eq!(parts(None, pending.clone()), vec![pending.clone()]);
        let everywhere = plan(&[]);
        assert_eq!(parts(Some(&everywhere), vec![0]), [[0]]);
    }
}
