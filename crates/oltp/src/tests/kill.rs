//! A process that is killed (SIGKILL) at random moments of its transactions, or of its recovery.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::{memory, seed, topology};
use crate::log::{RedoLog, read_log};
use crate::tpcc::{DistrictId, Tpcc, TpccInput, TpccOutcome, TpccSizes};
use crate::{Abort, Checkpoints, OltpError, Transactions};

const PATH: &str = "TIERLOOM_OLTP_KILLED";
const SEED: &str = "TIERLOOM_OLTP_SEED";
/// The pool, for a process that takes checkpoints one after the other.
const POOL: &str = "TIERLOOM_OLTP_POOL";
/// Number of kills; more on demand.
const KILLS: &str = "TIERLOOM_OLTP_KILLS";
/// Kills before the data begins anew, so that no log becomes long.
const KILLS_PER_LOG: usize = 25;
const CLIENTS: u64 = 3;
/// Kills come at most so long after a process has begun, and later where it gets nowhere.
const LEAST_DELAY_US: u64 = 100_000;

const SIZES: TpccSizes = TpccSizes {
    warehouses: 2,
    customers: 20,
    items: 50,
    room_orders: 4000,
};

/// The data as the log has it, and the log to go on with.
fn open(path: &Path, seed: u64) -> (Tpcc, RedoLog, u64) {
    let topology = topology();
    let tpcc = Tpcc::load(SIZES, seed, &memory(&topology), 1).expect("loaded");
    let identity = Tpcc::identity(&SIZES, seed);
    if !path.exists() {
        return (tpcc, RedoLog::create(path, &identity).expect("made"), 0);
    }
    let contents = match read_log(path) {
        Ok(contents) => contents,
        // Killed before the header was whole: nobody was told of anything.
        Err(_) => return (tpcc, RedoLog::create(path, &identity).expect("made"), 0),
    };
    assert_eq!(contents.identity, identity);
    tpcc.recover(path, &contents).expect("recovered");
    let log = RedoLog::resume(path, &contents).expect("resumed");
    (tpcc, log, contents.transactions() as u64)
}

/// The data as checkpoint and log have it.
fn open_checkpointed(path: &Path, pool: &Path, seed: u64) -> (Tpcc, RedoLog, Checkpoints, u64) {
    let checkpoints = Checkpoints::open(pool).expect("a pool");
    let Some(newest) = checkpoints.newest().expect("whole") else {
        let (tpcc, log, _) = open(path, seed);
        return (tpcc, log, checkpoints, 0);
    };
    let topology = topology();
    let contents = newest.read_log(path).expect("a log");
    let tpcc = Tpcc::restore(SIZES, seed, &memory(&topology), &newest).expect("restored");
    tpcc.recover(path, &contents).expect("recovered");
    let log = RedoLog::resume(path, &contents).expect("resumed");
    let number = newest.number();
    (tpcc, log, checkpoints, number)
}

/// Not a test of its own: what the other one starts and kills.
#[test]
fn child() {
    let (Ok(path), Ok(seed)) = (std::env::var(PATH), std::env::var(SEED)) else {
        return;
    };
    println!("\nstarted");
    let (path, seed) = (Path::new(&path), seed.parse().expect("a number"));
    let (mut tpcc, log, checkpoints, before) = match std::env::var_os(POOL) {
        Some(pool) => {
            let (tpcc, log, checkpoints, number) = open_checkpointed(path, Path::new(&pool), seed);
            // The log is shorter than all that was done.
            (
                tpcc,
                log,
                Some(checkpoints),
                fastrand::u64(..1 << 32) + number,
            )
        }
        None => {
            let (tpcc, log, before) = open(path, seed);
            (tpcc, log, None, before)
        }
    };
    tpcc.store_mut().set_log(Arc::new(log));
    std::thread::scope(|scope| {
        if let Some(mut checkpoints) = checkpoints {
            let store = tpcc.store();
            scope.spawn(move || {
                loop {
                    checkpoints.take(store).expect("a checkpoint");
                }
            });
        }
        for client in 0..CLIENTS {
            let tpcc = &tpcc;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(before * CLIENTS + client);
                let mut session = tpcc.store().session();
                loop {
                    let (_, input) = tpcc.draw(&mut rng);
                    acknowledge(run(tpcc, &mut session, &input));
                }
            });
        }
    });
}

fn run(tpcc: &Tpcc, session: &mut crate::TxSession<'_>, input: &TpccInput) -> Option<TpccOutcome> {
    loop {
        match tpcc.execute(session, input) {
            Ok(outcome) => return Some(outcome),
            Err(Abort::Conflict) => {}
            Err(Abort::RolledBack) => return None,
            // Until the kill: other transactions go on.
            Err(Abort::Failed(OltpError::Full { .. })) => return None,
            Err(Abort::Failed(error)) => panic!("{error}"),
        }
    }
}

/// Tells the parent, in one write.
fn acknowledge(outcome: Option<TpccOutcome>) {
    let lines = lines_of(outcome);
    let mut out = std::io::stdout().lock();
    out.write_all(lines.as_bytes()).expect("written");
    out.flush().expect("written");
}

/// What a transaction did, in lines for [`Acknowledged::add`].
pub(super) fn lines_of(outcome: Option<TpccOutcome>) -> String {
    match outcome {
        Some(TpccOutcome::NewOrder(home, order)) => format!("\nordered {} {order}\n", home.key()),
        Some(TpccOutcome::Payment(home, amount)) => format!("\npaid {} {amount}\n", home.key()),
        Some(TpccOutcome::Delivery(orders)) => {
            let line =
                |(home, order): &(DistrictId, u64)| format!("\ndelivered {} {order}\n", home.key());
            orders.iter().map(line).collect()
        }
        Some(TpccOutcome::Found(_)) | None => String::new(),
    }
}

/// What clients were told to be committed.
#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    orders: Vec<(u64, u64)>,
    payments: Vec<(u64, u64)>,
    deliveries: Vec<(u64, u64)>,
}

impl Acknowledged {
    pub(super) fn add(&mut self, line: &str) {
        let mut words = line.split(' ');
        let mut next = || words.next().unwrap_or_default().to_owned();
        let (verb, district, number) = (next(), next(), next());
        // The last line may be cut off.
        let (Ok(district), Ok(number)) = (district.parse(), number.parse()) else {
            return;
        };
        match verb.as_str() {
            "ordered" => self.orders.push((district, number)),
            "paid" => self.payments.push((district, number)),
            "delivered" => self.deliveries.push((district, number)),
            _ => {}
        }
    }

    /// Compares with what is there after recovery.
    pub(super) fn check(&self, tpcc: &Tpcc) {
        for (district, order) in &self.orders {
            let found = tpcc.carrier_of(DistrictId::of(*district), *order);
            assert!(found.is_some(), "order {order} of {district} is lost");
        }
        for (district, order) in &self.deliveries {
            let found = tpcc.carrier_of(DistrictId::of(*district), *order);
            assert_ne!(found, Some(0), "delivery {order} of {district} is lost");
        }
        let mut found: HashMap<(u64, u64), i64> = HashMap::new();
        for payment in tpcc.payments() {
            *found.entry(payment).or_default() += 1;
        }
        for payment in &self.payments {
            let left = found.entry(*payment).or_default();
            *left -= 1;
            assert!(*left >= 0, "payment {payment:?} is lost");
        }
    }
}

/// Starts the child, kills it so long after it has begun, and collects what it acknowledged.
fn killed_after(
    (path, pool): (&Path, Option<&Path>),
    seed: u64,
    delay: Duration,
    into: &mut Acknowledged,
) {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "tests::kill::child", "--nocapture"]);
    child.env(PATH, path).env(SEED, seed.to_string());
    pool.map(|pool| child.env(POOL, pool));
    let lines = tierloom_testing::killed_after(&mut child, delay);
    lines.iter().for_each(|line| into.add(line));
}

fn kills(default: usize) -> usize {
    let asked = std::env::var(KILLS).ok().and_then(|n| n.parse().ok());
    asked.unwrap_or(default)
}

#[test]
fn after_a_kill_during_checkpoints_all_that_was_acknowledged_is_there_and_consistent() {
    if std::env::var_os(PATH).is_some() {
        return;
    }
    let seed = seed();
    let mut rng = fastrand::Rng::with_seed(seed);
    let (kills, mut most_us) = (kills(10), LEAST_DELAY_US);
    let (mut newer, mut unsealed) = (0, 0);
    let folder = tempfile::tempdir().expect("a folder");
    let (path, pool) = (folder.path().join("redo"), folder.path().join("pool"));
    let (mut acknowledged, mut known) = (Acknowledged::default(), 0);
    for kill in 0..kills {
        if kill % KILLS_PER_LOG == 0 {
            let old = std::fs::read_dir(folder.path()).expect("a folder");
            old.for_each(|file| std::fs::remove_file(file.expect("a file").path()).expect("gone"));
            let (tpcc, _log, _) = open(&path, seed);
            drop(Checkpoints::create(&pool, tpcc.store()).expect("a pool"));
            (acknowledged, known) = (Acknowledged::default(), 0);
            most_us = LEAST_DELAY_US;
        }
        let delay = Duration::from_micros(rng.u64(0..most_us));
        killed_after((&path, Some(&pool)), seed, delay, &mut acknowledged);
        let (tpcc, log, _checkpoints, number) = open_checkpointed(&path, &pool, seed);
        assert_eq!(tpcc.check(false), []);
        acknowledged.check(&tpcc);
        most_us = match number > known {
            true => (most_us * 9 / 10).max(LEAST_DELAY_US),
            false => (most_us * 2).min(100 * LEAST_DELAY_US),
        };
        newer += usize::from(number > known);
        unsealed += usize::from(log.part() > number);
        known = number;
    }
    println!("{kills} kills, {newer} left a newer checkpoint, {unsealed} a part of one");
    assert!(newer >= kills / 4, "{newer}");
}

#[test]
fn after_a_kill_at_any_moment_all_that_was_acknowledged_is_there_and_consistent() {
    if std::env::var_os(PATH).is_some() {
        return;
    }
    let seed = seed();
    let mut rng = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("killed.redo");
    let kills = kills(12);
    let (mut known, mut transactions, mut working, mut most_us) = (0, 0, 0, LEAST_DELAY_US);
    let mut acknowledged = Acknowledged::default();
    let mut cuts = 0;
    for kill in 0..kills {
        if kill % KILLS_PER_LOG == 0 {
            let _ = std::fs::remove_file(&path);
            (acknowledged, known) = (Acknowledged::default(), 0);
            // Late kills make a long log, whose recovery makes the next ones late.
            most_us = LEAST_DELAY_US;
        }
        let delay = Duration::from_micros(rng.u64(0..most_us));
        killed_after((&path, None), seed, delay, &mut acknowledged);
        cuts += usize::from(read_log(&path).is_ok_and(|contents| contents.cut_bytes > 0));
        let (tpcc, _log, found) = open(&path, seed);
        assert_eq!(tpcc.check(false), []);
        acknowledged.check(&tpcc);
        assert!(found >= known, "{found} transactions, {known} before");
        // On a busy machine a process needs longer to get anywhere.
        most_us = match found > known {
            true => (most_us * 9 / 10).max(LEAST_DELAY_US),
            false => (most_us * 2).min(100 * LEAST_DELAY_US),
        };
        working += usize::from(found > known);
        transactions += found - known;
        known = found;
        if kill % 100 == 99 {
            println!("{} kills", kill + 1);
        }
    }
    println!("{kills} kills, {working} of processes at work, {cuts} logs with a part of a record");
    println!("{transactions} transactions, nothing acknowledged was lost");
    assert!(working >= kills / 4, "{working}");
}
