//! The transactions of TPC-C, at full speed: no terminals, no think time, no screens.
//!
//! Tables, cardinalities, keys, transactions and consistency conditions are those of the TPC
//! Benchmark C Standard Specification, Revision 5.11 (2010). What the specification asks of a
//! result is not done: keying and think times, terminals with one district each, deferred delivery,
//! durability tests, an audit. **So no figure is a TPC result, nor comparable with one.**
//!
//! ```text
//!   random ──> input ──> transaction (new_order, payment, ...) ──> TxSession
//!   load   ──> store                    check: the conditions of clause 3.3.2, after every run
//! ```
//! Every transaction takes a warehouse at random, so that all of the data is in use whatever the
//! number of clients. Rows change as a whole: a payment and a new order of one district conflict,
//! as with row locks.

mod check;
mod customer;
mod delivery;
mod input;
mod key_values;
mod load;
mod new_order;
mod order_status;
mod payment;
mod random;
mod schema;
mod stock_level;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;

pub use check::Violation;
pub use input::TpccInput;
pub use key_values::{KEY_VALUE_TABLES, KeyValueAbort, KeyValueTpcc, KeyValues};
pub use schema::{DistrictId, TpccSizes};

use crate::checkpoint::Checkpoint;
use crate::drive::Transactions;
use crate::log::LogContents;
use crate::places::StoreMemory;
use crate::recover::recover;
use crate::store::Store;
use crate::{Abort, OltpError, TxSession};
use random::RandomConstants;

/// Names of the transactions, in the order of their numbers.
pub const TPCC_KINDS: [&str; 5] = [
    "new-order",
    "payment",
    "order-status",
    "delivery",
    "stock-level",
];

/// Their shares, in per cent.
pub(crate) const MIX_PERCENT: [u32; 5] = [45, 43, 4, 4, 4];

/// What a transaction did, for who keeps account of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TpccOutcome {
    /// Order of a district.
    NewOrder(DistrictId, u64),
    /// Payment in a district, cents.
    Payment(DistrictId, u64),
    /// Orders that were delivered.
    Delivery(Vec<(DistrictId, u64)>),
    /// Nothing was changed; the number that was found: of lines of the last order, or of items.
    Found(u64),
}

/// The workload: a store with the initial data, and what its transactions draw.
#[derive(Debug)]
pub struct Tpcc {
    sizes: TpccSizes,
    constants: RandomConstants,
    store: Store,
    /// Order lines that were loaded.
    loaded_lines: u32,
    /// A clock of transactions, for their dates.
    dates: AtomicU64,
}

impl Tpcc {
    /// The largest number of warehouses that keys have room for.
    pub const MOST_WAREHOUSES: u32 = schema::MOST_WAREHOUSES;

    /// Loads the initial data of a seed with so many threads.
    ///
    /// # Errors
    /// [`OltpError`]: no memory where it was to be, too many rows.
    pub fn load(
        sizes: TpccSizes,
        seed: u64,
        memory: &StoreMemory<'_>,
        threads: usize,
    ) -> Result<Self, OltpError> {
        let store = load::load(&sizes, seed, memory, threads)?;
        Ok(Self {
            sizes,
            constants: RandomConstants::new(seed),
            loaded_lines: store.used_rows(schema::table::ORDER_LINE),
            store,
            dates: AtomicU64::new(2),
        })
    }

    /// The data of a checkpoint; the log that belongs to it is still to be done again
    /// ([`Checkpoint::read_log`], [`Tpcc::recover`]).
    ///
    /// # Errors
    /// [`OltpError::Checkpoint`] for one of other data, [`OltpError::Full`] for one of more rows
    /// than these sizes have room for, and as [`Tpcc::load`].
    pub fn restore(
        sizes: TpccSizes,
        seed: u64,
        memory: &StoreMemory<'_>,
        checkpoint: &Checkpoint,
    ) -> Result<Self, OltpError> {
        checkpoint.check_identity(&Self::identity(&sizes, seed))?;
        let (mut store, loaded_lines) = load::empty(&sizes, seed, memory)?;
        checkpoint.restore(&mut store)?;
        Ok(Self {
            sizes,
            constants: RandomConstants::new(seed),
            store,
            loaded_lines,
            dates: AtomicU64::new(2),
        })
    }

    /// What a log says of the data that it belongs to.
    pub fn identity(sizes: &TpccSizes, seed: u64) -> String {
        let TpccSizes {
            warehouses,
            customers,
            items,
            room_orders: _,
        } = sizes;
        format!(
            "tpcc 1: {warehouses} warehouses, {customers} customers, {items} items, seed {seed}"
        )
    }

    /// Does again what a log at `path` says, after loading.
    ///
    /// # Errors
    /// [`OltpError::Log`] for a log that does not fit, [`OltpError::Full`].
    pub fn recover(&self, path: &Path, contents: &LogContents) -> Result<(), OltpError> {
        recover(&self.store, path, contents)
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The store, before anybody works on it.
    pub fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }

    /// Runs a transaction once.
    ///
    /// # Errors
    /// Why it did not commit.
    pub fn execute(
        &self,
        session: &mut TxSession<'_>,
        input: &TpccInput,
    ) -> Result<TpccOutcome, Abort> {
        session.begin();
        let outcome = match input {
            TpccInput::NewOrder(input) => self.new_order(session, input)?,
            TpccInput::Payment(input) => self.payment(session, input)?,
            TpccInput::OrderStatus(who) => self.order_status(session, who)?,
            TpccInput::Delivery(input) => self.delivery(session, input)?,
            TpccInput::StockLevel(input) => self.stock_level(session, input)?,
        };
        session.commit()?;
        Ok(outcome)
    }

    fn now(&self) -> u64 {
        self.dates.fetch_add(1, Ordering::Relaxed)
    }
}

impl Transactions for Tpcc {
    type Input = TpccInput;

    fn kinds(&self) -> &'static [&'static str] {
        &TPCC_KINDS
    }

    fn draw(&self, rng: &mut Rng) -> (usize, TpccInput) {
        let input = TpccInput::draw(&self.sizes, &self.constants, rng);
        (input.kind(), input)
    }

    fn attempt(&self, session: &mut TxSession<'_>, input: &TpccInput) -> Result<(), Abort> {
        self.execute(session, input).map(|_| ())
    }

    fn store(&self) -> &Store {
        &self.store
    }
}
