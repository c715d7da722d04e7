//! Clients that run transactions one after the other, and what they measure.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use hdrhistogram::Histogram;

use crate::store::{Merging, Store};
use crate::traffic::StoreTraffic;
use crate::{Abort, OltpError, TxSession, Waits};

/// A workload: what its clients draw, and how a transaction is done.
pub trait Transactions: Sync {
    /// Input of one transaction, the same for every try.
    type Input;

    /// Names of its kinds of transactions.
    fn kinds(&self) -> &'static [&'static str];

    /// The next transaction of a client, with its kind.
    fn draw(&self, rng: &mut Rng) -> (usize, Self::Input);

    /// Does a transaction once, from begin to commit.
    ///
    /// # Errors
    /// Why it did not commit.
    fn attempt(&self, session: &mut TxSession<'_>, input: &Self::Input) -> Result<(), Abort>;

    /// The store that it is done on.
    fn store(&self) -> &Store;
}

/// How clients run.
#[derive(Debug, Clone, Copy)]
pub struct DriveOptions<'a> {
    /// Clients, each a thread.
    pub clients: u32,
    /// Time until no transaction is begun any more.
    pub duration: Duration,
    /// Seed of what they draw.
    pub seed: u64,
    /// Ends the run early.
    pub stop: &'a AtomicBool,
}

/// What transactions of one kind took.
#[derive(Debug, Clone)]
pub struct KindResult {
    /// Transactions that committed.
    pub commits: u64,
    /// Transactions that rolled themselves back.
    pub rollbacks: u64,
    /// Tries that ended in a conflict.
    pub conflicts: u64,
    /// Time from the first try to the commit or rollback, ns.
    pub time_ns: Histogram<u64>,
    /// Sum of these times, ns.
    pub total_ns: u64,
    /// Time of tries that ended in a conflict, ns, waits within them included.
    pub retried_ns: u64,
    /// Waits of the tries that ended otherwise.
    pub waits: Waits,
}

impl KindResult {
    fn new() -> Self {
        #[expect(clippy::expect_used, reason = "three digits are allowed")]
        let time_ns = Histogram::new(3).expect("a histogram");
        Self {
            commits: 0,
            rollbacks: 0,
            conflicts: 0,
            time_ns,
            total_ns: 0,
            retried_ns: 0,
            waits: Waits::default(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.commits += other.commits;
        self.rollbacks += other.rollbacks;
        self.conflicts += other.conflicts;
        // Both grow as needed.
        let _ = self.time_ns.add(&other.time_ns);
        self.total_ns += other.total_ns;
        self.retried_ns += other.retried_ns;
        self.waits += other.waits;
    }
}

/// What a run measured.
#[derive(Debug, Clone)]
pub struct DriveResult {
    /// Time from the common start until the last client ended.
    pub elapsed: Duration,
    /// By kind, in the order of [`Transactions::kinds`].
    pub kinds: Vec<KindResult>,
    /// What clients accessed.
    pub traffic: StoreTraffic,
    /// What merging in the background did.
    pub merging: Merging,
    /// The table that had no room for more, which ended the run early.
    pub full: Option<&'static str>,
}

impl DriveResult {
    /// Commits of all kinds.
    pub fn commits(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.commits).sum()
    }

    /// Adds a later run on the same store.
    pub fn add(&mut self, later: &Self) {
        self.elapsed += later.elapsed;
        for (kind, other) in self.kinds.iter_mut().zip(&later.kinds) {
            kind.add(other);
        }
        self.traffic += &later.traffic;
        self.merging += &later.merging;
        self.full = self.full.or(later.full);
    }
}

/// What one client measured.
struct ClientResult {
    kinds: Vec<KindResult>,
    traffic: StoreTraffic,
    full: Option<&'static str>,
}

/// Runs clients, with merging in the background, until the time is over.
///
/// # Errors
/// [`OltpError`] of the first client that could not go on, such as a log that cannot be written. A
/// full table is no error: it ends the run.
pub fn drive<W: Transactions>(
    workload: &W,
    options: &DriveOptions<'_>,
) -> Result<DriveResult, OltpError> {
    let (store, over) = (workload.store(), AtomicBool::new(false));
    let merged = &AtomicBool::new(false);
    let start = Instant::now();
    let end = start + options.duration;
    let (clients, merging, elapsed) = std::thread::scope(|scope| {
        let _merged = SetByPanic(merged);
        let merger = std::thread::Builder::new().name("merge".to_owned());
        let merger = merger.spawn_scoped(scope, move || store.merge_until(merged));
        let merger = merger.map_err(OltpError::Thread)?;
        let mut clients = Vec::new();
        let mut failed = None;
        for client in 0..options.clients {
            let over = &over;
            let work = move || {
                let _over = SetByPanic(over);
                let rng = Rng::with_seed(options.seed.wrapping_add(u64::from(client)));
                let going = || {
                    let stop = over.load(Ordering::Relaxed) || options.stop.load(Ordering::Relaxed);
                    !stop && Instant::now() < end
                };
                let result = run_client(workload, rng, &going);
                if !matches!(&result, Ok(ClientResult { full: None, .. })) {
                    over.store(true, Ordering::Relaxed);
                }
                result
            };
            let thread = std::thread::Builder::new().name(format!("client {client}"));
            match thread.spawn_scoped(scope, work) {
                Ok(thread) => clients.push(thread),
                Err(error) => {
                    over.store(true, Ordering::Relaxed);
                    failed = Some(OltpError::Thread(error));
                    break;
                }
            }
        }
        let results: Vec<_> = clients.into_iter().map(joined).collect();
        let elapsed = start.elapsed();
        merged.store(true, Ordering::Relaxed);
        let merging = joined(merger);
        match failed {
            Some(error) => Err(error),
            None => Ok((results, merging, elapsed)),
        }
    })?;
    let mut result = DriveResult {
        elapsed,
        kinds: workload.kinds().iter().map(|_| KindResult::new()).collect(),
        traffic: store.no_traffic(),
        merging,
        full: None,
    };
    for client in clients {
        let client = client?;
        for (sum, kind) in result.kinds.iter_mut().zip(&client.kinds) {
            sum.add(kind);
        }
        result.traffic += &client.traffic;
        result.full = result.full.or(client.full);
    }
    Ok(result)
}

/// Sets its flag if its thread panics: the scope waits for all threads, so one that panics must end
/// the others.
struct SetByPanic<'a>(&'a AtomicBool);

impl Drop for SetByPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn run_client<W: Transactions>(
    workload: &W,
    mut rng: Rng,
    going: &dyn Fn() -> bool,
) -> Result<ClientResult, OltpError> {
    let mut session = workload.store().session();
    let mut result = ClientResult {
        kinds: workload.kinds().iter().map(|_| KindResult::new()).collect(),
        traffic: workload.store().no_traffic(),
        full: None,
    };
    while going() {
        let (kind, input) = workload.draw(&mut rng);
        let kind = &mut result.kinds[kind];
        let first = Instant::now();
        let mut begin = first;
        loop {
            let before = session.waits();
            let outcome = workload.attempt(&mut session, &input);
            let now = Instant::now();
            if let Err(Abort::Conflict) = outcome {
                kind.conflicts += 1;
                kind.retried_ns += (now - begin).as_nanos() as u64;
                begin = now;
                // An unlucky client would try for ever.
                if going() {
                    continue;
                }
                break;
            }
            match outcome {
                Ok(()) => kind.commits += 1,
                Err(Abort::Failed(OltpError::Full { table, .. })) => {
                    result.full = Some(table);
                    break;
                }
                Err(Abort::Failed(error)) => return Err(error),
                Err(_) => kind.rollbacks += 1,
            }
            let took_ns = (now - first).as_nanos() as u64;
            // It grows as needed.
            let _ = kind.time_ns.record(took_ns);
            kind.total_ns += took_ns;
            kind.waits += session.waits() - before;
            break;
        }
        if result.full.is_some() {
            break;
        }
    }
    result.traffic += session.traffic();
    Ok(result)
}
