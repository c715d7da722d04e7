//! Moves columns between tiers while queries run.

use super::gate::Gate;
use crate::{EngineError, PlacedColumn, PlacedTable};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tierloom_memory::{MigrationOptions, Placement, Region};
use tierloom_placement::heat::{Heat, Move, MoveLimits, PlacedColumn as Seen, plan_moves};
use tierloom_topology::{NodeId, Topology};

/// How columns move.
#[derive(Debug, Clone)]
pub struct MoverOptions {
    /// The node of the fast tier.
    pub fast: NodeId,
    /// The node of the slow tier; another one.
    pub slow: NodeId,
    /// Bytes of columns that the fast tier may hold.
    pub fast_bytes: u64,
    /// Most bytes moved per second.
    pub max_bytes_per_s: u64,
    /// Most bytes moved in one round.
    pub round_bytes: u64,
    /// Time from one round to the next.
    pub interval: Duration,
    /// Time in which reads count half as much.
    pub half_life: Duration,
    /// A column takes the place of another only if it is so many times as hot.
    pub hotter: f64,
}

impl MoverOptions {
    /// Rounds every two seconds of at most 256 MiB at 1 GiB per second; heat halves in a minute.
    pub fn new(fast: NodeId, slow: NodeId, fast_bytes: u64) -> Self {
        MoverOptions {
            fast,
            slow,
            fast_bytes,
            max_bytes_per_s: 1 << 30,
            round_bytes: 256 << 20,
            interval: Duration::from_secs(2),
            half_life: Duration::from_secs(60),
            hotter: 1.25,
        }
    }
}

/// What one round moved of one column.
#[derive(Debug, Clone, PartialEq)]
pub struct Moved {
    /// "lineitem.l_shipdate".
    pub column: String,
    /// Its share on the fast tier after the move, 0 to 1.
    pub fast_share: f64,
    /// Pages that the kernel moved.
    pub moved_pages: u64,
    /// Pages that stayed where they were although they should have moved.
    pub failed_pages: u64,
}

/// Keeps the hottest columns on the fast tier.
///
/// Regions stay mapped at the same addresses and the kernel keeps their contents while a page moves, so morsels that run on them go on; they wait at
/// most for the page that is being copied. [`ColumnMover::start`] moves in a thread of its own; without it [`ColumnMover::round`] moves when it is called.
pub struct ColumnMover {
    shared: Arc<Shared>,
    worker: Option<JoinHandle<()>>,
}

struct Shared {
    tables: Vec<Arc<PlacedTable>>,
    topology: Topology,
    options: MoverOptions,
    heat: Mutex<Heat>,
    begun: Instant,
    stop: AtomicBool,
    wake: (Mutex<()>, Condvar),
    failure: Mutex<Option<String>>,
    /// One round at a time.
    turn: Mutex<()>,
    /// Kept closed for queries while a column moves.
    gate: Option<Arc<Gate>>,
}

impl ColumnMover {
    /// A mover of the columns of these tables that does nothing by itself.
    ///
    /// # Errors
    /// [`EngineError::Table`] if both tiers are one node: nothing could be moved.
    pub fn new(
        tables: Vec<Arc<PlacedTable>>,
        topology: Topology,
        options: MoverOptions,
    ) -> Result<Self, EngineError> {
        if options.fast == options.slow {
            return Err(EngineError::Table {
                table: "columns".into(),
                problem: format!(
                    "cannot move between tiers: fast and slow are both node {}; name two nodes",
                    options.fast
                ),
            });
        }
        let heat = Heat::new(options.half_life.as_secs_f64());
        Ok(ColumnMover {
            shared: Arc::new(Shared {
                tables,
                topology,
                options,
                heat: Mutex::new(heat),
                begun: Instant::now(),
                stop: AtomicBool::new(false),
                wake: (Mutex::new(()), Condvar::new()),
                failure: Mutex::new(None),
                turn: Mutex::new(()),
                gate: None,
            }),
            worker: None,
        })
    }

    /// Moves a column only while `gate` lets no query through. To be said before the mover is started.
    #[must_use]
    pub fn with_gate(mut self, gate: Arc<Gate>) -> Self {
        // Nobody else holds what is shared before the start.
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.gate = Some(gate);
        }
        self
    }

    /// Moves in the background until the mover is dropped. A round that fails ends it; [`ColumnMover::failure`] says why.
    ///
    /// # Errors
    /// [`EngineError::Runtime`] if the thread cannot be started.
    pub fn start(&mut self) -> Result<(), EngineError> {
        if self.worker.is_some() {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("tierloom-mover".into());
        let worker = thread.spawn(move || shared.run());
        self.worker = Some(worker.map_err(|source| EngineError::Runtime { threads: 1, source })?);
        Ok(())
    }

    /// Bytes that an execution read of each column, as [`crate::capture`] tells them.
    pub fn note(&self, column_reads: &BTreeMap<String, u64>) {
        let now_s = self.shared.now_s();
        let mut heat = lock(&self.shared.heat);
        for (column, bytes) in column_reads {
            heat.read(column, *bytes as f64, now_s);
        }
    }

    /// One round: plans by heat and moves, on the calling thread.
    ///
    /// # Errors
    /// [`EngineError::Memory`] if the kernel refuses, or a node is full; what was moved until then stays moved.
    pub fn round(&self) -> Result<Vec<Moved>, EngineError> {
        self.shared.round()
    }

    /// Why the background thread ended, if it did.
    pub fn failure(&self) -> Option<String> {
        lock(&self.shared.failure).clone()
    }
}

impl Drop for ColumnMover {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.wake.1.notify_all();
        if let Some(worker) = self.worker.take() {
            // A panic of the worker was its own; there is nobody left to tell.
            let _ = worker.join();
        }
    }
}

/// A poisoned lock only means that another thread panicked; what these locks guard is always whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn now_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn run(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            if let Err(error) = self.round() {
                *lock(&self.failure) = Some(error.to_string());
                return;
            }
            let guard = lock(&self.wake.0);
            if !self.stop.load(Ordering::Relaxed) {
                // Spurious wakes only start a round early.
                drop(self.wake.1.wait_timeout(guard, self.options.interval));
            }
        }
    }

    fn columns(&self) -> impl Iterator<Item = (String, &PlacedColumn)> {
        self.tables.iter().flat_map(|table| {
            let name = |c: &PlacedColumn| format!("{}.{}", table.name(), c.name());
            let movable = table.columns().iter().filter(|c| !c.is_of_class());
            movable.map(move |c| (name(c), c))
        })
    }

    fn round(&self) -> Result<Vec<Moved>, EngineError> {
        let _turn = lock(&self.turn);
        let now_s = self.now_s();
        let page_bytes = self
            .columns()
            .flat_map(|(_, c)| c.regions())
            .map(|r| r.page_size().bytes());
        // Pages of different sizes are counted in the largest, so that a limit is never passed.
        let Some(page_bytes) = page_bytes.max().map(|b| b as u64) else {
            return Ok(Vec::new());
        };
        let seen: Vec<Seen> = {
            let heat = lock(&self.heat);
            let of = |(name, column): (String, &PlacedColumn)| {
                let bytes = bytes_of(column);
                let fast = fast_share(column, self.options.fast);
                let pages = bytes.div_ceil(page_bytes).max(1);
                Seen {
                    heat: heat.of(&name, bytes, now_s),
                    column: name,
                    pages,
                    fast_pages: ((pages as f64 * fast).round() as u64).min(pages),
                }
            };
            self.columns().map(of).collect()
        };
        let limits = MoveLimits {
            tiers: ("fast".into(), "slow".into()),
            fast_pages: self.options.fast_bytes / page_bytes,
            pages_per_round: self.options.round_bytes / page_bytes,
            hotter: self.options.hotter,
        };
        let moves = plan_moves(&seen, &limits);
        let mut moved = Vec::new();
        for (name, pages) in merged(&moves) {
            let Some(at) = seen.iter().position(|s| s.column == name) else {
                continue;
            };
            let fast = (seen[at].fast_pages as i64 + pages).max(0) as f64 / seen[at].pages as f64;
            let column = self.columns().find(|(n, _)| *n == name);
            if let Some((_, column)) = column {
                moved.push(self.migrate(name, column, fast.min(1.0))?);
            }
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(moved)
    }

    fn migrate(
        &self,
        name: String,
        column: &PlacedColumn,
        fast: f64,
    ) -> Result<Moved, EngineError> {
        let (up, down) = (self.options.fast, self.options.slow);
        let to = match fast {
            f if f <= 0.0 => Placement::bind(down),
            f if f >= 1.0 => Placement::bind(up),
            f => Placement::partitioned(vec![(up, f), (down, 1.0 - f)])?,
        };
        let mut moved = Moved {
            column: name,
            fast_share: fast,
            moved_pages: 0,
            failed_pages: 0,
        };
        let _moving = self.gate.as_ref().map(|gate| gate.move_pages());
        for region in column.regions() {
            let options = MigrationOptions {
                max_bytes_per_s: Some(self.options.max_bytes_per_s),
                ..MigrationOptions::default()
            };
            let mut migration = region.migrate(&to, &self.topology, options)?;
            let state = migration.run_to_end(&self.stop)?;
            moved.moved_pages += state.moved_pages;
            moved.failed_pages += state.failed_total_pages();
        }
        Ok(moved)
    }
}

/// Pages that each column gains on the fast tier, in the order in which columns are first named: what sinks comes first.
fn merged(moves: &[Move]) -> Vec<(String, i64)> {
    let mut sums: Vec<(String, i64)> = Vec::new();
    for m in moves {
        let pages = if m.to == "fast" {
            m.pages as i64
        } else {
            -(m.pages as i64)
        };
        match sums.iter_mut().find(|(name, _)| *name == m.column) {
            Some((_, sum)) => *sum += pages,
            None => sums.push((m.column.clone(), pages)),
        }
    }
    sums.retain(|(_, pages)| *pages != 0);
    sums.sort_by_key(|(_, pages)| pages.signum());
    sums
}

fn bytes_of(column: &PlacedColumn) -> u64 {
    column.regions().iter().map(|r| r.size_bytes() as u64).sum()
}

/// Share of a column's bytes that its placements put on `fast`. What the kernel placed by itself counts as being there.
fn fast_share(column: &PlacedColumn, fast: NodeId) -> f64 {
    let on_fast = |region: &Arc<Region>| {
        let shares = region.placement().shares();
        let own = shares.iter().find(|(node, _)| *node == fast);
        let share = if shares.is_empty() {
            1.0
        } else {
            own.map_or(0.0, |(_, s)| *s)
        };
        share * region.size_bytes() as f64
    };
    let bytes: f64 = column.regions().iter().map(on_fast).sum();
    bytes / (bytes_of(column).max(1) as f64)
}
