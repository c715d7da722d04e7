//! What the scheduler knows: tables, and the reports of nodes. Tables survive a restart.

use crate::awake::AwakeTime;
use crate::map::{
    ClusterMap, Layout, LoadRequest, NodeState, Report, TableEntry, VERSION, assign, process_number,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tierloom_text::WholeFile;

/// A node that has not reported for this long does not count as alive. Only time counts in which a
/// report would have been taken, see [`AwakeTime`].
pub(crate) const SILENCE: Duration = Duration::from_secs(3);

/// How long nodes are told of a job that has failed. Its last tasks end within some seconds.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Why a request was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The process has another version, or another process uses its name.
    Conflict(String),
    /// It cannot be fulfilled as written.
    Bad(String),
    /// The scheduler could not do it.
    Failed(String),
}

/// Tables and nodes.
#[derive(Debug)]
pub(crate) struct Registry {
    state: Mutex<Noted>,
    /// A number that tells this process from an earlier one.
    process: u64,
    /// Where the tables are kept.
    file: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct Noted {
    awake: AwakeTime,
    /// Increases with every change of tables or of what nodes report.
    revision: u64,
    generation: u64,
    tables: BTreeMap<String, TableEntry>,
    /// Reports, and when in `awake` they came.
    nodes: BTreeMap<String, (Report, Duration)>,
    failed_jobs: Vec<(String, Instant)>,
}

impl Noted {
    /// How long it is since a report that came then.
    fn silent(&self, seen: Duration) -> Duration {
        self.awake.sum() - seen
    }
}

impl Registry {
    /// The tables that an earlier process has kept in `file`; none without a file.
    ///
    /// # Errors
    /// A file that cannot be read or is not one of such a process.
    pub fn open(file: Option<&Path>) -> Result<Self, String> {
        let mut state = Noted::default();
        if let Some(path) = file.filter(|path| path.exists()) {
            let bad = |e: &dyn std::fmt::Display| format!("{}: cannot read: {e}", path.display());
            let text = std::fs::read(path).map_err(|e| bad(&e))?;
            let kept: ClusterMap = serde_json::from_slice(&text).map_err(|e| bad(&e))?;
            state.generation = kept.generation;
            state.tables = kept.tables;
        }
        Ok(Registry {
            state: Mutex::new(state),
            process: process_number(),
            file: file.map(Into::into),
        })
    }

    fn state(&self) -> MutexGuard<'_, Noted> {
        // Its parts are replaced as a whole, so a panic elsewhere leaves them consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has time go on for the nodes; to be called every [`crate::awake::TICK`] where reports are
    /// taken.
    pub fn tick(&self) {
        self.state().awake.tick();
    }

    /// A text that is another one whenever the map is, but for how long nodes have been silent.
    pub fn tag(&self) -> String {
        let state = self.state();
        let seen = state.nodes.values().map(|(_, seen)| *seen);
        let alive = seen.map(|seen| state.silent(seen) < SILENCE);
        let alive: String = alive.map(|alive| if alive { '1' } else { '0' }).collect();
        format!("\"{:x}-{}-{alive}\"", self.process, state.revision)
    }

    /// All that is known now.
    pub fn map(&self) -> ClusterMap {
        let state = self.state();
        let nodes = state.nodes.iter().map(|(name, (report, seen))| {
            let silent = state.silent(*seen);
            let node = NodeState {
                alive: silent < SILENCE,
                silent_ms: silent.as_millis() as u64,
                process: report.process,
                threads: report.threads,
                address: report.address.clone(),
                tables: report.tables.clone(),
                shuffle: report.shuffle.clone(),
            };
            (name.clone(), node)
        });
        let failed = state.failed_jobs.iter().filter(|(_, at)| is_recent(at));
        ClusterMap {
            generation: state.generation,
            tables: state.tables.clone(),
            nodes: nodes.collect(),
            failed_jobs: failed.map(|(job, _)| job.clone()).collect(),
        }
    }

    /// Notes that a job has ended without an answer.
    pub fn job_failed(&self, job: String) {
        let mut state = self.state();
        state.failed_jobs.retain(|(_, at)| is_recent(at));
        state.failed_jobs.push((job, Instant::now()));
    }

    /// Takes a node's report.
    ///
    /// # Errors
    /// [`Refusal::Conflict`] for another version, and for a name that another live process uses.
    pub fn report(&self, report: Report) -> Result<ClusterMap, Refusal> {
        check_version(&report.version)?;
        let mut state = self.state();
        if let Some((known, seen)) = state.nodes.get(&report.node)
            && known.process != report.process
            && state.silent(*seen) < SILENCE
        {
            return Err(Refusal::Conflict(format!(
                "another executor is named {}; give each its own name",
                report.node
            )));
        }
        let node = report.node.clone();
        let known = state.nodes.get(&node).map(|(known, _)| known);
        if !known.is_some_and(|known| known.is_like(&report)) {
            state.revision += 1;
        }
        let now = state.awake.sum();
        state.nodes.insert(node, (report, now));
        drop(state);
        Ok(self.map())
    }

    /// Adds tables; the nodes that are alive now get their shards.
    ///
    /// # Errors
    /// [`Refusal::Bad`] if there are too few nodes, [`Refusal::Failed`] if the tables cannot be
    /// kept; nothing is changed then.
    pub fn load(&self, request: LoadRequest) -> Result<ClusterMap, Refusal> {
        check_version(&request.version)?;
        let alive = self.map().nodes.into_iter().filter(|(_, node)| node.alive);
        let alive: Vec<String> = alive.map(|(name, _)| name).collect();
        let mut state = self.state();
        let mut next = ClusterMap {
            generation: state.generation + 1,
            tables: state.tables.clone(),
            ..ClusterMap::default()
        };
        for table in request.tables {
            let named = |e: String| Refusal::Bad(format!("table {}: {e}", table.name));
            let holders = assign(&alive, table.shards, table.replicas).map_err(named)?;
            let layout = match table.by {
                None => Layout::Everywhere,
                Some(by) => Layout::Sharded { by, holders },
            };
            let entry = TableEntry {
                generation: next.generation,
                source: table.source,
                layout,
            };
            next.tables.insert(table.name, entry);
        }
        self.keep(&next).map_err(Refusal::Failed)?;
        state.revision += 1;
        state.generation = next.generation;
        state.tables = next.tables;
        drop(state);
        Ok(self.map())
    }

    fn keep(&self, map: &ClusterMap) -> Result<(), String> {
        let Some(path) = &self.file else {
            return Ok(());
        };
        let failed = |e: &dyn std::fmt::Display| format!("{}: cannot write: {e}", path.display());
        let text = serde_json::to_vec_pretty(map).map_err(|e| failed(&e))?;
        let mut file = WholeFile::create(path).map_err(|e| failed(&e))?;
        std::io::Write::write_all(&mut file, &text).map_err(|e| failed(&e))?;
        file.finish().map_err(|e| failed(&e)).map(drop)
    }
}

fn check_version(version: &str) -> Result<(), Refusal> {
    match version == VERSION {
        true => Ok(()),
        false => Err(Refusal::Conflict(format!(
            "this cluster runs tierloom {VERSION}, and a process of {version} asks to take part"
        ))),
    }
}

/// Whether nodes are told of a job that failed then.
fn is_recent(at: &Instant) -> bool {
    at.elapsed() < REMEMBERED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::awake::TICK;
    use crate::benchmark::benchmark_tables;
    use crate::map::{HeldTable, ShuffleReport};

    fn report(node: &str, process: u64) -> Report {
        Report {
            version: VERSION.into(),
            node: node.into(),
            process,
            threads: 1,
            address: "127.0.0.1:1".into(),
            tables: BTreeMap::new(),
            shuffle: None,
        }
    }

    #[test]
    fn what_is_passed_on_is_known_and_no_change_that_statements_must_hear_of() {
        let registry = Registry::open(None).unwrap();
        registry.report(report("a", 1)).unwrap();
        let before = registry.tag();
        let mut wrote = report("a", 1);
        wrote.shuffle = Some(ShuffleReport {
            files: 3,
            ..ShuffleReport::default()
        });
        let map = registry.report(wrote.clone()).unwrap();
        assert_eq!(map.nodes["a"].shuffle, wrote.shuffle);
        assert_eq!(registry.tag(), before);
        // Nor is a job that failed, of which nodes are told.
        registry.job_failed("1A".into());
        assert_eq!(registry.map().failed_jobs, ["1A".to_owned()].into());
        assert_eq!(registry.tag(), before);
        wrote.threads = 2;
        registry.report(wrote).unwrap();
        assert_ne!(registry.tag(), before);
    }

    /// Has so much time go by, in ticks.
    fn pass(registry: &Registry, time: Duration) {
        for _ in 0..time.as_millis() / TICK.as_millis() {
            registry.state().awake.add(TICK);
        }
    }

    #[test]
    fn a_node_is_lost_after_silence_but_not_after_a_standstill_of_the_scheduler() {
        let registry = Registry::open(None).unwrap();
        registry.report(report("a", 1)).unwrap();
        let is_alive = || registry.map().nodes["a"].alive;
        // One tick late by an hour: whatever node a has sent meanwhile has not been read yet.
        registry.state().awake.add(Duration::from_secs(3600));
        assert!(is_alive());
        // Another process of its name is still another one.
        assert!(registry.report(report("a", 2)).is_err());
        pass(&registry, SILENCE);
        assert!(!is_alive());
        registry.report(report("a", 2)).unwrap();
        assert!(is_alive());
        pass(&registry, SILENCE - TICK);
        assert!(is_alive());
        pass(&registry, TICK);
        assert!(!is_alive());
    }

    fn ssb(shards: u32, replicas: u32) -> LoadRequest {
        LoadRequest {
            version: VERSION.into(),
            tables: benchmark_tables("ssb", 0.01, shards, replicas).unwrap(),
        }
    }

    #[test]
    fn processes_of_another_version_and_of_the_same_name_are_refused() {
        let registry = Registry::open(None).unwrap();
        registry.report(report("a", 1)).unwrap();
        registry.report(report("a", 1)).unwrap();
        for (refused, part) in [
            (report("a", 2), "another executor is named a"),
            (
                Report {
                    version: "0.0.1/1".into(),
                    ..report("b", 1)
                },
                "0.0.1/1 asks to take part",
            ),
        ] {
            match registry.report(refused) {
                Err(Refusal::Conflict(text)) => assert!(text.contains(part), "{text}"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(registry.map().nodes.len(), 1);
        let old = LoadRequest {
            version: "0".into(),
            ..ssb(1, 1)
        };
        assert!(matches!(registry.load(old), Err(Refusal::Conflict(_))));
    }

    #[test]
    fn the_tag_is_another_one_when_tables_or_reports_are() {
        let registry = Registry::open(None).unwrap();
        let mut tags = vec![registry.tag()];
        registry.report(report("a", 1)).unwrap();
        tags.push(registry.tag());
        registry.report(report("a", 1)).unwrap();
        assert_eq!(registry.tag(), tags[1], "the report said nothing new");
        registry.load(ssb(1, 1)).unwrap();
        tags.push(registry.tag());
        let mut held = report("a", 1);
        held.tables.insert("part".into(), HeldTable::default());
        registry.report(held).unwrap();
        tags.push(registry.tag());
        pass(&registry, SILENCE);
        tags.push(registry.tag());
        tags.push(Registry::open(None).unwrap().tag());
        let count = tags.len();
        tags.sort();
        tags.dedup();
        assert_eq!(tags.len(), count, "{tags:?}");
    }

    #[test]
    fn shards_are_spread_evenly_and_copies_are_on_different_nodes() {
        let registry = Registry::open(None).unwrap();
        assert!(matches!(registry.load(ssb(4, 1)), Err(Refusal::Bad(_))));
        for (process, node) in ["a", "b", "c"].into_iter().enumerate() {
            registry.report(report(node, process as u64)).unwrap();
        }
        assert!(matches!(registry.load(ssb(4, 4)), Err(Refusal::Bad(_))));
        let map = registry.load(ssb(16, 2)).unwrap();
        let Layout::Sharded { holders, .. } = &map.tables["lineorder"].layout else {
            panic!("lineorder is not sharded");
        };
        assert_eq!(holders.len(), 16);
        for node in ["a", "b", "c"] {
            let first = holders.iter().filter(|nodes| nodes[0] == node).count();
            assert!((5..=6).contains(&first), "{node} has {first}");
        }
        assert!(holders.iter().all(|n| n.len() == 2 && n[0] != n[1]));
        assert_eq!(map.tables["part"].layout, Layout::Everywhere);
        assert_eq!(map.tables["lineorder"].layout.groups_of("a").len(), 2);
    }

    #[test]
    fn tables_survive_a_restart_and_a_damaged_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tables.json");
        let registry = Registry::open(Some(&path)).unwrap();
        registry.report(report("a", 1)).unwrap();
        let before = registry.load(ssb(3, 1)).unwrap();
        let again = Registry::open(Some(&path)).unwrap().map();
        assert_eq!(again.tables, before.tables);
        assert_eq!(again.generation, before.generation);
        std::fs::write(&path, "{").unwrap();
        let error = Registry::open(Some(&path)).unwrap_err();
        assert!(error.contains("tables.json: cannot read"), "{error}");
    }
}
