//! Moves columns between two tiers by heat while queries run.
//!
//! Heat is a decaying count of the bytes read per byte of a column. Each round plans moves under a
//! page budget and migrates at a bounded rate, so that queries keep most of the bandwidth. It does
//! not consult the model or the controller.

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

/// Limits and rates of a [`ColumnMover`].
#[derive(Debug, Clone)]
pub struct MoverOptions {
    /// The node of the fast tier.
    pub fast: NodeId,
    /// The node of the slow tier; must differ from `fast`.
    pub slow: NodeId,
    /// Bytes of columns that the fast tier may hold.
    pub fast_bytes: u64,
    /// Upper limit of the migration rate, bytes per second.
    pub max_bytes_per_s: u64,
    /// Upper limit of the bytes moved in one round.
    pub round_bytes: u64,
    /// Pause between two rounds.
    pub interval: Duration,
    /// Half-life of the heat: reads this long ago count half.
    pub half_life: Duration,
    /// A column replaces another on the fast tier only if it is this factor hotter.
    pub hotter: f64,
}

impl MoverOptions {
    /// A round every two seconds, at most 256 MiB at 1 GiB/s; half-life of one minute.
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

/// The result of one round for one column.
#[derive(Debug, Clone, PartialEq)]
pub struct Moved {
    /// Name with its table, such as "lineitem.l_shipdate".
    pub column: String,
    /// Share of the column on the fast tier after the move, 0 to 1.
    pub fast_share: f64,
    /// Pages that the kernel moved.
    pub moved_pages: u64,
    /// Pages that should have moved and did not, for example because they were pinned.
    pub failed_pages: u64,
}

/// Keeps the hottest columns on the fast tier.
///
/// Regions stay mapped at the same addresses and the kernel preserves their contents during a page
/// migration, so running morsels continue; at most they wait for the page that is being copied.
/// [`ColumnMover::start`] moves in a background thread; without it, [`ColumnMover::round`] moves
/// when called.
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
    turn: Mutex<()>,
    /// Taken exclusively while a column moves, if queries must not overlap with moves.
    gate: Option<Arc<Gate>>,
}

impl ColumnMover {
    /// Creates a mover for the columns of `tables`; nothing moves until it is started.
    ///
    /// # Errors
    /// [`EngineError::Table`] if both tiers are the same node.
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

    /// Moves columns only while `gate` keeps queries out. Must be called before [`Self::start`].
    #[must_use]
    pub fn with_gate(mut self, gate: Arc<Gate>) -> Self {
        // Before the start this is the only reference.
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.gate = Some(gate);
        }
        self
    }

    /// Moves in the background until the mover is dropped.
    ///
    /// A failed round ends the thread; [`ColumnMover::failure`] says why.
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

    /// Adds the bytes that an execution read of each column, as [`crate::capture`] reports them.
    pub fn note(&self, column_reads: &BTreeMap<String, u64>) {
        let now_s = self.shared.now_s();
        let mut heat = lock(&self.shared.heat);
        for (column, bytes) in column_reads {
            heat.read(column, *bytes as f64, now_s);
        }
    }

    /// Runs one round on the calling thread: plans by heat and moves.
    ///
    /// # Errors
    /// [`EngineError::Memory`] if the kernel refuses a move or a node is full; completed moves
    /// stay.
    pub fn round(&self) -> Result<Vec<Moved>, EngineError> {
        self.shared.round()
    }

    /// Why the background thread stopped; `None` if it has not failed.
    pub fn failure(&self) -> Option<String> {
        lock(&self.shared.failure).clone()
    }
}

impl Drop for ColumnMover {
    fn drop(&mut self) {
        {
            // Under the lock: between the worker's look at the flag and its wait the notice would
            // be lost.
            let _waiting = lock(&self.shared.wake.0);
            self.shared.stop.store(true, Ordering::Relaxed);
        }
        self.shared.wake.1.notify_all();
        if let Some(worker) = self.worker.take() {
            // `join` only fails if the worker panicked; a destructor has nobody to report it to.
            let _ = worker.join();
        }
    }
}

/// Locks and ignores poisoning.
///
/// Updates under these locks are single steps, so a panic leaves no partial state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn now_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn run(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            // A refused migration would most likely be refused again, so the thread ends and keeps
            // the reason.
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
            // Columns at the places of a memory class are placed by the router, and those in a pool
            // stay there.
            let movable = table.columns().iter().filter(|c| c.is_movable());
            movable.map(move |c| (name(c), c))
        })
    }

    fn round(&self) -> Result<Vec<Moved>, EngineError> {
        // `ColumnMover::round` may be called while the background thread runs.
        let _turn = lock(&self.turn);
        let now_s = self.now_s();
        let page_bytes = self
            .columns()
            .flat_map(|(_, c)| c.regions())
            .map(|r| r.page_size().bytes());
        // Count all pages in units of the largest size: rounding up cannot exceed a limit.
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
            // A contiguous split moves few pages when the share changes a little; interleaving
            // would move pages everywhere.
            f => Placement::partitioned(vec![(up, f), (down, 1.0 - f)])?,
        };
        let mut moved = Moved {
            column: name,
            fast_share: fast,
            moved_pages: 0,
            failed_pages: 0,
        };
        // One column at a time holds the gate, so queries wait for one migration and not for a
        // whole round.
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

/// Net pages that each column gains on the fast tier.
///
/// Demotions come first, to free room for the promotions.
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

/// Share of a column's bytes whose placement is on `fast`.
///
/// A region placed by the kernel's default policy counts as on the fast tier: there is no node to
/// compare with.
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
