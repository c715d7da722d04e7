//! New order and payment on a store of keys and values, for comparisons with published stores.
//!
//! ```text
//!   Tpcc (loaded) ── rows ──> the other store
//!                                 └── KeyValues: get, put, scan <── transact <── input
//! ```
//! The two transactions are nine tenths of the mix. A row is one value, its words little-endian,
//! under the key of its table, so that no look-up of an index comes before it, as users of such
//! stores lay data out. Customers by name and orders by customer are tables of keys.

use std::sync::atomic::{AtomicU64, Ordering};

use super::input::{CustomerChoice, CustomerOf, LineInput, NewOrderInput, PaymentInput};
use super::payment::NOTE_WORDS;
use super::schema::{
    customer, district, index, item, order_line, stock, stock_key, table, warehouse,
};
use super::{Tpcc, TpccInput};
use crate::row_bytes::words_of;

/// Tables of a store of keys and values: the nine, customers by name, orders by customer.
pub const KEY_VALUE_TABLES: [&str; 11] = [
    "warehouse",
    "district",
    "customer",
    "history",
    "new_order",
    "orders",
    "order_line",
    "item",
    "stock",
    "customer_by_name",
    "orders_by_customer",
];

const CUSTOMER_NAME: usize = 9;
const CUSTOMER_ORDERS: usize = 10;

/// One transaction of another store. Tables are positions in [`KEY_VALUE_TABLES`].
pub trait KeyValues {
    /// What can go wrong.
    type Error;

    /// Shows the value of a key, if it is there.
    ///
    /// # Errors
    /// The store's own.
    fn get(
        &mut self,
        table: usize,
        key: u64,
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Self::Error>;

    /// Sets the value of a key.
    ///
    /// # Errors
    /// The store's own.
    fn put(&mut self, table: usize, key: u64, value: &[u8]) -> Result<(), Self::Error>;

    /// Shows the values of the keys from `first` to `last`, in their order.
    ///
    /// # Errors
    /// The store's own.
    fn scan(
        &mut self,
        table: usize,
        keys: (u64, u64),
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Self::Error>;
}

/// Why a transaction is not to be committed.
#[derive(Debug)]
pub enum KeyValueAbort<E> {
    /// The transaction itself asked for it.
    RolledBack,
    /// A row that the data must have is not there.
    Missing,
    /// The store's own error.
    Store(E),
}

impl<E> From<E> for KeyValueAbort<E> {
    fn from(error: E) -> Self {
        Self::Store(error)
    }
}

/// New orders and payments on stores of keys and values with the data of a [`Tpcc`].
#[derive(Debug)]
pub struct KeyValueTpcc {
    dates: AtomicU64,
    payments: AtomicU64,
}

impl KeyValueTpcc {
    /// Transactions on data that these rows have become, before any of them.
    pub fn new(tpcc: &Tpcc) -> Self {
        Self {
            dates: AtomicU64::new(tpcc.dates.load(Ordering::Relaxed)),
            payments: AtomicU64::new(u64::from(tpcc.store.used_rows(table::HISTORY))),
        }
    }

    /// Shows all keys and values of a table, in the order of the keys. No transaction may run.
    pub fn rows(tpcc: &Tpcc, of: usize, show: &mut dyn FnMut(u64, &[u8])) {
        let mut session = tpcc.store.session();
        let by_key = match of {
            CUSTOMER_NAME => Some((index::CUSTOMER_NAME, table::CUSTOMER)),
            CUSTOMER_ORDERS => Some((index::CUSTOMER_ORDERS, table::ORDERS)),
            _ => None,
        };
        if let Some((index, table)) = by_key {
            let mut pairs = Vec::new();
            session.scan(index, 0, |key, row| {
                pairs.push((key, row));
                true
            });
            for (key, row) in pairs {
                let mut words = [0];
                session.peek(table, row, 0, &mut words);
                show(key, &words[0].to_le_bytes());
            }
            return;
        }
        let mut words = vec![0; tpcc.store.tables[of].spec().row_words];
        for row in 0..tpcc.store.used_rows(of) {
            if session.peek(of, row, 0, &mut words) {
                let key = match of {
                    table::HISTORY => u64::from(row),
                    _ => words[0],
                };
                show(key, &bytes_of(&words));
            }
        }
    }

    /// Does a new order or a payment; says `false` for other transactions. The caller commits.
    ///
    /// # Errors
    /// [`KeyValueAbort`]; the caller gives up what was put.
    pub fn transact<K: KeyValues>(
        &self,
        store: &mut K,
        input: &TpccInput,
    ) -> Result<bool, KeyValueAbort<K::Error>> {
        match input {
            TpccInput::NewOrder(input) => self.new_order(store, input)?,
            TpccInput::Payment(input) => self.payment(store, input)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn new_order<K: KeyValues>(
        &self,
        store: &mut K,
        input: &NewOrderInput,
    ) -> Result<(), KeyValueAbort<K::Error>> {
        let home = input.home;
        let warehouse = u64::from(home.warehouse);
        let [warehouse_tax] = read(store, table::WAREHOUSE, warehouse, warehouse::TAX)?;
        let mut row = whole(store, table::DISTRICT, home.key())?;
        let order = row[district::NEXT_ORDER];
        let district_tax = row[district::TAX];
        row[district::NEXT_ORDER] += 1;
        store.put(table::DISTRICT, home.key(), &bytes_of(&row))?;
        let key = home.customer(input.customer);
        let [discount] = read(store, table::CUSTOMER, key, customer::DISCOUNT)?;
        let mut lines = Vec::with_capacity(input.lines.len());
        for (number, line) in (1..).zip(&input.lines) {
            let mut row = take_from_stock(store, input, line)?;
            row[0] = home.line(order, number);
            lines.push(row);
        }
        let amounts: u64 = lines.iter().map(|line| line[order_line::AMOUNT]).sum();
        let total = amounts * (10_000 - discount) * (10_000 + warehouse_tax + district_tax);
        std::hint::black_box(total);
        let row = input.row(order, self.dates.fetch_add(1, Ordering::Relaxed));
        store.put(table::ORDERS, row[0], &bytes_of(&row))?;
        let by_customer = home.customer_order(input.customer, order);
        store.put(CUSTOMER_ORDERS, by_customer, &row[0].to_le_bytes())?;
        for line in &lines {
            store.put(table::ORDER_LINE, line[0], &bytes_of(line))?;
        }
        store.put(table::NEW_ORDER, row[0], &bytes_of(&row[..1]))?;
        Ok(())
    }

    fn payment<K: KeyValues>(
        &self,
        store: &mut K,
        input: &PaymentInput,
    ) -> Result<(), KeyValueAbort<K::Error>> {
        let (home, amount) = (input.home, input.amount);
        let mut text = [0; 3];
        let mut row = whole(store, table::WAREHOUSE, u64::from(home.warehouse))?;
        row[warehouse::YTD] += amount;
        text[0] = row[warehouse::TEXT];
        store.put(table::WAREHOUSE, row[0], &bytes_of(&row))?;
        let mut row = whole(store, table::DISTRICT, home.key())?;
        row[district::YTD] += amount;
        text[2] = row[district::TEXT];
        store.put(table::DISTRICT, row[0], &bytes_of(&row))?;
        let key = customer_key(store, &input.customer)?;
        let mut row = whole(store, table::CUSTOMER, key)?;
        row[customer::BALANCE] = row[customer::BALANCE].wrapping_sub(amount);
        row[customer::YTD_PAYMENT] += amount;
        row[customer::PAYMENTS] += 1;
        if row[customer::BAD_CREDIT] == 1 {
            let data = &mut row[customer::DATA..];
            data.copy_within(..customer::DATA_WORDS - NOTE_WORDS, NOTE_WORDS);
            data[..NOTE_WORDS].copy_from_slice(&input.note(key));
        }
        store.put(table::CUSTOMER, key, &bytes_of(&row))?;
        let row = input.history_row(key, self.dates.fetch_add(1, Ordering::Relaxed), text);
        let key = self.payments.fetch_add(1, Ordering::Relaxed);
        store.put(table::HISTORY, key, &bytes_of(&row))?;
        Ok(())
    }
}

/// Takes a line's quantity from its stock; returns the line but for its key.
fn take_from_stock<K: KeyValues>(
    store: &mut K,
    order: &NewOrderInput,
    line: &LineInput,
) -> Result<[u64; order_line::WORDS], KeyValueAbort<K::Error>> {
    let price = match read(store, table::ITEM, u64::from(line.item), item::PRICE) {
        Ok([price]) => price,
        Err(KeyValueAbort::Missing) => return Err(KeyValueAbort::RolledBack),
        Err(error) => return Err(error),
    };
    let key = stock_key(line.supplier, line.item);
    let mut row = whole(store, table::STOCK, key)?;
    let taken = line.taken_from(&row[stock::QUANTITY..], order.home);
    row[stock::QUANTITY..][..taken.len()].copy_from_slice(&taken);
    store.put(table::STOCK, key, &bytes_of(&row))?;
    let at = stock::DISTRICTS + (order.home.district as usize - 1) * stock::DISTRICT_WORDS;
    Ok(line.row(price, &row[at..][..stock::DISTRICT_WORDS]))
}

/// The key of a customer; as [`Tpcc`]'s, of several with one name the one in the middle.
fn customer_key<K: KeyValues>(
    store: &mut K,
    who: &CustomerOf,
) -> Result<u64, KeyValueAbort<K::Error>> {
    let name = match who.choice {
        CustomerChoice::Number(number) => return Ok(who.home.customer(number)),
        CustomerChoice::Name(name) => name,
    };
    let keys = (
        who.home.named(name, 0),
        who.home.named(name, u32::from(u16::MAX)),
    );
    let mut customers = Vec::new();
    store.scan(CUSTOMER_NAME, keys, &mut |value| {
        customers.extend(words_of(value).next());
    })?;
    let mut named = Vec::with_capacity(customers.len());
    for key in customers {
        let first: [u64; customer::FIRST_WORDS] =
            read(store, table::CUSTOMER, key, customer::FIRST)?;
        named.push((first.map(u64::swap_bytes), key));
    }
    named.sort_unstable();
    let middle = named.len().div_ceil(2).checked_sub(1);
    middle.map(|at| named[at].1).ok_or(KeyValueAbort::Missing)
}

/// Words of a row from word `at` on.
fn read<const N: usize, K: KeyValues>(
    store: &mut K,
    table: usize,
    key: u64,
    at: usize,
) -> Result<[u64; N], KeyValueAbort<K::Error>> {
    let mut found = None;
    store.get(table, key, &mut |value| {
        let mut words = words_of(value.get(at * 8..).unwrap_or_default());
        found = Some([0; N].map(|_: u64| words.next().unwrap_or_default()));
    })?;
    found.ok_or(KeyValueAbort::Missing)
}

/// All words of a row.
fn whole<K: KeyValues>(
    store: &mut K,
    table: usize,
    key: u64,
) -> Result<Vec<u64>, KeyValueAbort<K::Error>> {
    let mut found = Vec::new();
    store.get(table, key, &mut |value| found.extend(words_of(value)))?;
    match found.is_empty() {
        true => Err(KeyValueAbort::Missing),
        false => Ok(found),
    }
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
