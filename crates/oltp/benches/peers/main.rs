//! New orders and payments per second of the store and of published embedded ones, in turn:
//! `cargo bench -p tierloom-oltp` (`-- --test` only tries it out; `-- clients=8` for other numbers,
//! also `warehouses=`, `rounds=`, `ms=` of a turn; `durable=1` to commit to the device, `folder=`
//! for where files are, `alone=1` for this store only).
//!
//! All have the rows of one seed and get the same two transactions, drawn alike; the other three of
//! TPC-C, a tenth of its mix, are left out. Transactions are serialisable in each. Each round
//! begins with another store, and every store goes on with the data that its rounds before left.
//!
//! Without `durable` nothing is durable: no log here, redb in memory with its pages committed every
//! thousand transactions, fjall with a journal that stays in its buffer. With it each commit waits
//! for the device.

mod fjall_store;
mod ours;
mod redb_store;

use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tierloom_oltp::Transactions;
use tierloom_oltp::tpcc::{Tpcc, TpccInput};

use fjall_store::Fjall;
use ours::Ours;
use redb_store::Redb;

/// A store with the data.
trait Contestant: Sync {
    fn name(&self) -> &'static str;
    fn client(&self) -> Box<dyn Client + '_>;
    /// What works beside the clients, if no thread of the store's own does.
    fn beside(&self, _over: &AtomicBool) {}
}

/// What does the transactions of one thread.
trait Client {
    /// Does one until it commits or rolls itself back; returns the tries that were given up.
    fn transact(&mut self, input: &TpccInput) -> u64;
}

/// What is run.
struct Sizes {
    warehouses: u32,
    clients: u64,
    rounds: u64,
    turn: Duration,
    durable: bool,
    alone: bool,
    folder: PathBuf,
}

impl Sizes {
    fn of_arguments() -> Self {
        let arguments: Vec<String> = std::env::args().collect();
        let text = |name: &str| arguments.iter().find_map(|a| a.strip_prefix(name));
        let given = |name: &str, default: u64| {
            let number = text(name).and_then(|number| number.parse().ok());
            number.unwrap_or(default)
        };
        let tried_out = arguments.iter().any(|argument| argument == "--test");
        let (warehouses, rounds, turn_ms) = if tried_out { (1, 1, 50) } else { (4, 5, 2000) };
        Self {
            warehouses: given("warehouses=", warehouses) as u32,
            clients: given("clients=", 2),
            rounds: given("rounds=", rounds),
            turn: Duration::from_millis(given("ms=", turn_ms)),
            durable: given("durable=", 0) > 0,
            alone: given("alone=", 0) > 0,
            folder: text("folder=").map_or_else(std::env::temp_dir, PathBuf::from),
        }
    }

    /// New orders of one client in a turn at most: a table has a fixed number of rows, so a turn on
    /// a machine that is faster than this ends early.
    fn orders_of_client(&self) -> u64 {
        const PER_SECOND: f64 = 100_000.0;
        (self.turn.as_secs_f64() * PER_SECOND) as u64
    }
}

/// Transactions of all clients in one turn.
#[derive(Default)]
struct Turn {
    transactions: u64,
    given_up: u64,
    seconds: f64,
}

/// Ends what works beside the clients when they are done, also by a panic: the scope of the threads
/// would wait for it for ever.
struct EndsBeside<'a>(&'a AtomicBool);

impl Drop for EndsBeside<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Processor time of this process so far, s.
fn cpu_seconds() -> f64 {
    /// Of Linux, whatever the kernel's own clock.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // User and system time, the 12th and 13th field after the name, which ends in a bracket.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let times = fields.split_whitespace().skip(11).take(2);
    let ticks: f64 = times.filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    ticks / TICKS_PER_SECOND
}

fn turn(store: &dyn Contestant, tpcc: &Tpcc, sizes: &Sizes, round: u64) -> Turn {
    let barrier = Barrier::new(sizes.clients as usize);
    let work = &|client: u64| {
        let mut rng = fastrand::Rng::with_seed(round * 1000 + client);
        let mut worker = store.client();
        barrier.wait();
        let (begun, mut own) = (Instant::now(), Turn::default());
        let mut orders = 0;
        while begun.elapsed() < sizes.turn && orders < sizes.orders_of_client() {
            let (kind, input) = tpcc.draw(&mut rng);
            orders += u64::from(matches!(input, TpccInput::NewOrder(_)));
            // New orders and payments alone.
            if kind < 2 {
                own.given_up += worker.transact(&input);
                own.transactions += 1;
            }
        }
        own.seconds = begun.elapsed().as_secs_f64();
        own
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _beside = EndsBeside(&over);
        scope.spawn(|| store.beside(&over));
        let threads: Vec<_> = (0..sizes.clients)
            .map(|client| scope.spawn(move || work(client)))
            .collect();
        threads.into_iter().fold(Turn::default(), |sum, thread| {
            let own = thread.join().expect("a client that panicked has said why");
            Turn {
                transactions: sum.transactions + own.transactions,
                given_up: sum.given_up + own.given_up,
                seconds: sum.seconds.max(own.seconds),
            }
        })
    })
}

/// Median, least and most.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    (values[last.div_ceil(2)], values[0], values[last])
}

fn main() {
    let sizes = Sizes::of_arguments();
    let folder = tempfile::tempdir_in(&sizes.folder).expect("a folder for files");
    let loaded = Instant::now();
    let ours = Ours::load(&sizes, folder.path());
    let tpcc = ours.tpcc();
    let mut stores: Vec<Box<dyn Contestant + '_>> = Vec::new();
    if !sizes.alone {
        stores.push(Box::new(Redb::load(tpcc, &sizes, folder.path())));
        stores.push(Box::new(Fjall::load(tpcc, &sizes, folder.path())));
    }
    stores.insert(0, Box::new(&ours));
    println!(
        "{} warehouses, {} clients, {}, {} rounds of {:?}, loaded in {:.0?}",
        sizes.warehouses,
        sizes.clients,
        if sizes.durable {
            "durable"
        } else {
            "nothing durable"
        },
        sizes.rounds,
        sizes.turn,
        loaded.elapsed(),
    );
    let mut by_clock = vec![Vec::new(); stores.len()];
    let mut by_cpu = by_clock.clone();
    let mut sums = vec![(0, 0); stores.len()];
    // The first round warms up.
    for round in 0..=sizes.rounds {
        for place in 0..stores.len() {
            let at = (place + round as usize) % stores.len();
            let cpu = cpu_seconds();
            let turn = turn(stores[at].as_ref(), tpcc, &sizes, round);
            let cpu = cpu_seconds() - cpu;
            if round > 0 {
                by_clock[at].push(turn.transactions as f64 / turn.seconds);
                by_cpu[at].push(turn.transactions as f64 / cpu);
                sums[at].0 += turn.transactions;
                sums[at].1 += turn.given_up;
            }
        }
    }
    for (at, store) in stores.iter().enumerate() {
        let given_up = sums[at].1 as f64 / (sums[at].0 + sums[at].1) as f64;
        let name = store.name();
        println!("  {name}: {:.2} % of tries given up", 100.0 * given_up);
        for (unit, rates) in [("s", &by_clock), ("s of CPU time", &by_cpu)] {
            let (rate, low, high) = spread(rates[at].clone());
            let ratios = rates[0].iter().zip(&rates[at]);
            let (ratio, least, most) = spread(ratios.map(|(own, other)| own / other).collect());
            println!(
                "    {rate:9.0} per {unit} ({low:.0} to {high:.0}); tierloom {ratio:.2} times as \
                 many ({least:.2} to {most:.2})"
            );
        }
    }
}
