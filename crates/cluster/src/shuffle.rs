//! The shuffle: rows that tasks pass on to other tasks, in files of the node that made them.
//!
//! Files may be on a disk, or in memory of chosen nodes of the machine. Of those in memory, the
//! kernel is asked where their pages are when they are written.

use crate::error::{ClusterError, While};
use crate::given_up::waited_for;
use crate::map::ShuffleReport;
use crate::work_folder::WorkFolder;
use arrow::error::ArrowError;
use ballista_core::JobId;
use ballista_core::error::BallistaError;
use ballista_core::execution_plans::create_shuffle_path;
use ballista_core::serde::protobuf::{
    RuntimeStatsReport, ShuffleWritePartition, TaskColumnStats, WindowStateReport,
};
use ballista_executor::execution_engine::{ExecutionEngine, QueryStageExecutor};
use datafusion::common::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::prelude::SessionConfig;
use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tierloom_memory::{AuditMode, FilePages, FileSystemOf, MemoryFolder, Mounted};

/// Pages of a file that the kernel is asked about.
const SAMPLED_PAGES: u64 = 512;

/// Files that wait to be looked at, each of which is open.
const WAITING_FILES: usize = 256;

/// Where an executor writes what it passes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShufflePlace {
    /// In a new folder among the temporary files.
    Temporary,
    /// In this folder.
    Folder(PathBuf),
    /// In memory of chosen nodes.
    Memory(MemoryFolder),
}

/// The folder of a running executor.
#[derive(Debug)]
pub(crate) struct ShuffleFolder {
    path: PathBuf,
    // Dropped in this order: a folder that something is mounted on cannot be removed.
    _mounted: Option<Mounted>,
    _folder: Option<WorkFolder>,
}

impl ShuffleFolder {
    /// Makes the folder. One in memory is seen by this thread and those that it starts from now on.
    ///
    /// # Errors
    /// [`ClusterError::Failed`] if it cannot be made, with what would help.
    pub fn make(place: &ShufflePlace) -> Result<Self, ClusterError> {
        let (path, folder) = match place {
            ShufflePlace::Folder(path) => (path.clone(), None),
            ShufflePlace::Temporary | ShufflePlace::Memory(_) => {
                let made = WorkFolder::new(&std::env::temp_dir());
                let folder = made.attempting("making a folder for results")?;
                (folder.results(), Some(folder))
            }
        };
        let made = std::fs::create_dir_all(&path);
        made.attempting(format!("making {}", path.display()))?;
        let mounted = match place {
            ShufflePlace::Memory(memory) => Some(memory.mount(&path)),
            ShufflePlace::Temporary | ShufflePlace::Folder(_) => None,
        };
        Ok(ShuffleFolder {
            path,
            _mounted: mounted.transpose().attempting("placing the shuffle")?,
            _folder: folder,
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// What was written in the life of an executor, and where it was.
#[derive(Debug)]
pub(crate) struct ShuffleAudit {
    /// The name of the cluster's node.
    node: String,
    folder: PathBuf,
    file_system: FileSystemOf,
    counts: Arc<Mutex<ShuffleReport>>,
    /// To the thread that looks at files.
    files: SyncSender<File>,
}

impl ShuffleAudit {
    /// Starts the thread that looks at files of `node` in `folder`.
    ///
    /// # Errors
    /// [`ClusterError::Failed`] if it cannot be said what file system the folder is on.
    pub fn start(node: &str, folder: &Path) -> Result<Arc<Self>, ClusterError> {
        let file_system = FileSystemOf::folder(folder).attempting("placing the shuffle")?;
        let counts = Arc::new(Mutex::new(ShuffleReport {
            file_system: file_system.to_string(),
            ..ShuffleReport::default()
        }));
        let (files, waiting) = sync_channel::<File>(WAITING_FILES);
        let (of_thread, allowed) = (Arc::clone(&counts), file_system.nodes());
        std::thread::spawn(move || {
            for file in waiting {
                let pages = FilePages::of(
                    file,
                    AuditMode::Sampled {
                        pages: SAMPLED_PAGES,
                    },
                );
                let mut counts = locked(&of_thread);
                match pages {
                    Ok(pages) => add(&mut counts, &pages, allowed.as_deref()),
                    Err(error) => counts.error = Some(error.to_string()),
                }
            }
        });
        Ok(Arc::new(ShuffleAudit {
            node: node.into(),
            folder: folder.into(),
            file_system,
            counts,
            files,
        }))
    }

    /// What was written up to now.
    pub fn report(&self) -> ShuffleReport {
        locked(&self.counts).clone()
    }

    /// Says where there is no space left, if that is what an error is about.
    fn explained(&self, error: DataFusionError) -> DataFusionError {
        let mut cause: Option<&dyn Error> = Some(&error);
        while let Some(next) = cause {
            let io = next.downcast_ref::<std::io::Error>();
            if io.is_some_and(|io| io.kind() == ErrorKind::StorageFull) {
                return DataFusionError::Execution(format!(
                    "no space left for the shuffle on node {}: {}, {}; give its executor a larger \
                     --shuffle-size or another folder",
                    self.node,
                    self.folder.display(),
                    self.file_system
                ));
            }
            cause = cause_of(next);
        }
        error
    }

    /// Removes what tasks of jobs have written that have failed: Ballista does so when a job fails,
    /// and tasks that still work write on.
    pub fn remove(&self, jobs: &BTreeSet<String>) {
        // Names come from elsewhere, and must be those of folders in this one.
        let is_name = |job: &&String| job.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        for job in jobs.iter().filter(is_name).filter(|job| !job.is_empty()) {
            // It is mostly gone already, and tried again with the next report.
            let _ = std::fs::remove_dir_all(self.folder.join(job));
        }
    }

    /// Notes a file that was written.
    fn wrote(&self, path: &Path) {
        // It is open when it is looked at, so it may be removed meanwhile.
        let in_memory = self.file_system.is_memory();
        let file = File::options().read(true).write(in_memory).open(path);
        let size = file.as_ref().ok().and_then(|file| file.metadata().ok());
        let mut counts = locked(&self.counts);
        counts.files += 1;
        counts.written_bytes += size.map_or(0, |size| size.len());
        drop(counts);
        if let (true, Ok(file)) = (in_memory, file) {
            // Those that find no place are written bytes of which nothing is known.
            let _ = self.files.try_send(file);
        }
    }
}

/// The cause of an error.
fn cause_of<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    // Errors of Arrow and of Ballista do not give theirs away.
    if let Some(ArrowError::IoError(_, io)) = error.downcast_ref() {
        return Some(io);
    }
    match error.downcast_ref() {
        Some(BallistaError::ArrowError(inner)) => Some(inner.as_ref()),
        Some(BallistaError::DataFusionError(inner)) => Some(inner.as_ref()),
        Some(BallistaError::IoError(inner)) => Some(inner),
        _ => error.source(),
    }
}

fn locked(counts: &Mutex<ShuffleReport>) -> MutexGuard<'_, ShuffleReport> {
    // Counts are added one by one, so a panic elsewhere leaves them as they are.
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a file by its size; pages that were not asked about are taken to be where the others are.
fn add(
    counts: &mut ShuffleReport,
    pages: &FilePages,
    allowed: Option<&[tierloom_topology::NodeId]>,
) {
    let checked = pages.pages_checked.max(1);
    let bytes =
        |count: u64| (u128::from(pages.size_bytes) * u128::from(count)) / u128::from(checked);
    counts.checked_bytes += pages.size_bytes;
    for (node, count) in &pages.on_nodes {
        let bytes = bytes(*count) as u64;
        *counts.on_nodes.entry(node.0).or_default() += bytes;
        if allowed.is_some_and(|allowed| !allowed.contains(node)) {
            counts.misplaced_bytes += bytes;
        }
    }
}

/// Ballista's engine for tasks, whose files are noted when they are written, and whose work ends
/// when nobody waits for it.
pub(crate) struct Audited {
    /// Does the work.
    pub engine: Arc<dyn ExecutionEngine>,
    /// Takes the files.
    pub audit: Arc<ShuffleAudit>,
}

impl ExecutionEngine for Audited {
    fn create_query_stage_exec(
        &self,
        job_id: JobId,
        stage_id: usize,
        task_id: usize,
        global_output_partition_ids: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        work_dir: &str,
        config: &SessionConfig,
    ) -> DataFusionResult<Arc<dyn QueryStageExecutor>> {
        let stage = self.engine.create_query_stage_exec(
            job_id.clone(),
            stage_id,
            task_id,
            global_output_partition_ids,
            plan,
            work_dir,
            config,
        )?;
        Ok(Arc::new(AuditedStage {
            stage,
            audit: Arc::clone(&self.audit),
            folder: work_dir.into(),
            job_id,
            stage_id,
        }))
    }
}

#[derive(Debug)]
struct AuditedStage {
    stage: Arc<dyn QueryStageExecutor>,
    audit: Arc<ShuffleAudit>,
    folder: PathBuf,
    job_id: JobId,
    stage_id: usize,
}

impl fmt::Display for AuditedStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stage.fmt(f)
    }
}

#[async_trait::async_trait]
impl QueryStageExecutor for AuditedStage {
    async fn execute_query_stage(
        &self,
        task_id: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<Vec<ShuffleWritePartition>> {
        let (waiter, context) = waited_for(&context);
        let written = self.stage.execute_query_stage(task_id, context).await;
        drop(waiter);
        let written = written.map_err(|error| self.audit.explained(error))?;
        // Several partitions may be in one file.
        let files: DataFusionResult<BTreeSet<PathBuf>> = written
            .iter()
            .map(|part| {
                let partition = part.partition_id as usize;
                let (file, is_sorted) = (part.file_id, part.is_sort_shuffle);
                let (job, stage) = (&self.job_id, self.stage_id);
                create_shuffle_path(&self.folder, job, stage, partition, file, is_sorted)
            })
            .collect();
        for file in files? {
            self.audit.wrote(&file);
        }
        Ok(written)
    }

    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        self.stage.collect_plan_metrics()
    }

    fn collect_runtime_stats_reports(&self) -> Vec<RuntimeStatsReport> {
        self.stage.collect_runtime_stats_reports()
    }

    fn collect_window_state_reports(&self) -> DataFusionResult<Vec<WindowStateReport>> {
        self.stage.collect_window_state_reports()
    }

    fn collect_column_stats(&self) -> Vec<TaskColumnStats> {
        self.stage.collect_column_stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_topology::NodeId;

    #[test]
    fn a_full_folder_is_named_however_deep_the_cause_is() {
        let place = tempfile::tempdir().unwrap();
        let audit = ShuffleAudit::start("b", place.path()).unwrap();
        let io = |kind| ArrowError::IoError("wrapped".into(), std::io::Error::from(kind));
        let ballista = |kind| BallistaError::ArrowError(Box::new(io(kind))).into_datafusion();
        let wrapped = |kind| DataFusionError::from(&Arc::new(ballista(kind))).context("a task");
        let full = audit.explained(wrapped(ErrorKind::StorageFull)).to_string();
        assert!(full.contains("on node b"), "{full}");
        assert!(full.contains(&place.path().display().to_string()), "{full}");
        let other = audit.explained(wrapped(ErrorKind::NotFound)).to_string();
        assert!(!other.contains("on node b"), "{other}");
    }

    #[test]
    fn folders_of_jobs_that_failed_go_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("results");
        for job in ["1A", "2B"] {
            std::fs::create_dir_all(folder.join(job).join("1")).unwrap();
        }
        let audit = ShuffleAudit::start("b", &folder).unwrap();
        let jobs = ["1A", "..", "", ".", "absent"].map(str::to_owned);
        audit.remove(&jobs.into());
        assert!(!folder.join("1A").exists());
        assert!(folder.join("2B").exists());
    }

    #[test]
    fn sampled_pages_stand_for_their_file_and_other_nodes_than_allowed_are_counted() {
        let pages = FilePages {
            size_bytes: 1000,
            pages_checked: 10,
            on_nodes: vec![(NodeId(1), 9), (NodeId(0), 1)],
            unknown_pages: 0,
        };
        let mut counts = ShuffleReport::default();
        add(&mut counts, &pages, Some(&[NodeId(1)]));
        add(&mut counts, &pages, None);
        add(&mut counts, &FilePages::default(), Some(&[]));
        assert_eq!(counts.on_nodes, [(0, 200), (1, 1800)].into());
        assert_eq!((counts.checked_bytes, counts.misplaced_bytes), (2000, 100));
    }
}
