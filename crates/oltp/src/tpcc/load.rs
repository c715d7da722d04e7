//! Initial data (clause 4.3.3), made from a seed: the same rows in the same places every time.

use std::sync::atomic::{AtomicU32, Ordering};

use fastrand::Rng;

use super::random::{
    RandomConstants, last_name, name_number, original_text, put_text, random_text, rng,
};
use super::schema::{
    DISTRICTS, DistrictId, NAMES, TpccSizes, customer, district, history, index, item, new_order,
    order_line, orders, stock, stock_key, table, warehouse,
};
use crate::OltpError;
use crate::places::StoreMemory;
use crate::store::Store;

/// Payment and year-to-date amount that every customer begins with, cents.
pub(crate) const FIRST_PAYMENT: u64 = 1000;
const LOADED_DATE: u64 = 1;

/// Lines of a random order: the specification's 5 to 15.
pub(crate) fn line_count(rng: &mut Rng) -> u32 {
    rng.u32(5..=15)
}

/// First order line of every district, and the number of all at the end.
struct LineStarts(Vec<u64>);

impl LineStarts {
    fn new(sizes: &TpccSizes, seed: u64) -> Self {
        let mut starts = vec![0];
        let mut end = 0;
        for district in districts(sizes) {
            let counts = line_counts(sizes, seed, district);
            end += counts.iter().map(|count| u64::from(*count)).sum::<u64>();
            starts.push(end);
        }
        Self(starts)
    }

    fn count(&self) -> u64 {
        self.0.last().copied().unwrap_or_default()
    }
}

fn line_counts(sizes: &TpccSizes, seed: u64, district: DistrictId) -> Vec<u32> {
    let mut rng = rng(seed, &[1, district.key()]);
    (0..sizes.customers).map(|_| line_count(&mut rng)).collect()
}

fn districts(sizes: &TpccSizes) -> impl Iterator<Item = DistrictId> {
    (1..=sizes.warehouses).flat_map(|warehouse| {
        (1..=DISTRICTS).map(move |district| DistrictId {
            warehouse,
            district,
        })
    })
}

/// A store with the initial data; `threads` make it.
pub(crate) fn load(
    sizes: &TpccSizes,
    seed: u64,
    memory: &StoreMemory<'_>,
    threads: usize,
) -> Result<Store, OltpError> {
    let starts = LineStarts::new(sizes, seed);
    let lines = starts.count();
    let mut store = Store::create(&sizes.rows(lines), &sizes.indexes(lines), memory)?;
    load_rows(&Loading::new(sizes, seed, &store, &starts), threads)?;
    load_indexes(&mut store, sizes)?;
    Ok(store)
}

/// A store without data, and the number of order lines that loading would give it.
pub(crate) fn empty(
    sizes: &TpccSizes,
    seed: u64,
    memory: &StoreMemory<'_>,
) -> Result<(Store, u32), OltpError> {
    let lines = LineStarts::new(sizes, seed).count();
    let store = Store::create(&sizes.rows(lines), &sizes.indexes(lines), memory)?;
    Ok((store, lines as u32))
}

fn load_rows(loading: &Loading<'_>, threads: usize) -> Result<(), OltpError> {
    loading.items()?;
    let next = AtomicU32::new(1);
    let work = || {
        loop {
            let warehouse = next.fetch_add(1, Ordering::Relaxed);
            if warehouse > loading.sizes.warehouses {
                return Ok(());
            }
            loading.warehouse(warehouse)?;
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

struct Loading<'a> {
    sizes: &'a TpccSizes,
    seed: u64,
    constants: RandomConstants,
    store: &'a Store,
    starts: &'a LineStarts,
}

impl<'a> Loading<'a> {
    fn new(sizes: &'a TpccSizes, seed: u64, store: &'a Store, starts: &'a LineStarts) -> Self {
        Self {
            sizes,
            seed,
            constants: RandomConstants::new(seed),
            store,
            starts,
        }
    }

    fn items(&self) -> Result<(), OltpError> {
        let mut rng = rng(self.seed, &[2]);
        for number in 1..=self.sizes.items {
            let mut row = [0; item::WORDS];
            row[0] = u64::from(number);
            row[item::PRICE] = rng.u64(100..=10_000);
            row[item::IMAGE] = rng.u64(1..=10_000);
            random_text(&mut rng, 14, 24, &mut row[item::TEXT..][..3]);
            original_text(&mut rng, &mut row[item::TEXT + 3..]);
            self.store.load_row(table::ITEM, number - 1, &row)?;
        }
        Ok(())
    }

    fn warehouse(&self, warehouse: u32) -> Result<(), OltpError> {
        let mut rng = rng(self.seed, &[3, u64::from(warehouse)]);
        let mut row = [0; warehouse::WORDS];
        row[0] = u64::from(warehouse);
        row[warehouse::TAX] = rng.u64(0..=2000);
        row[warehouse::YTD] =
            FIRST_PAYMENT * u64::from(self.sizes.customers) * u64::from(DISTRICTS);
        random_text(&mut rng, 60, 81, &mut row[warehouse::TEXT..]);
        self.store.load_row(table::WAREHOUSE, warehouse - 1, &row)?;
        for number in 1..=self.sizes.items {
            let mut row = [0; stock::WORDS];
            row[0] = stock_key(warehouse, number);
            row[stock::QUANTITY] = rng.u64(10..=100);
            original_text(&mut rng, &mut row[stock::DATA..][..stock::DATA_WORDS]);
            for words in row[stock::DISTRICTS..].chunks_mut(stock::DISTRICT_WORDS) {
                random_text(&mut rng, 24, 24, words);
            }
            let at = (warehouse - 1) * self.sizes.items + number - 1;
            self.store.load_row(table::STOCK, at, &row)?;
        }
        for district in 1..=DISTRICTS {
            let id = DistrictId {
                warehouse,
                district,
            };
            self.district(id, &mut rng)?;
            self.customers(id, &mut rng)?;
            self.orders(id, &mut rng)?;
        }
        Ok(())
    }

    fn district(&self, id: DistrictId, rng: &mut Rng) -> Result<(), OltpError> {
        let mut row = [0; district::WORDS];
        row[0] = id.key();
        row[district::NEXT_ORDER] = u64::from(self.sizes.customers) + 1;
        row[district::TAX] = rng.u64(0..=2000);
        row[district::YTD] = FIRST_PAYMENT * u64::from(self.sizes.customers);
        random_text(rng, 60, 81, &mut row[district::TEXT..]);
        self.store.load_row(table::DISTRICT, id.position(), &row)
    }

    fn customers(&self, id: DistrictId, rng: &mut Rng) -> Result<(), OltpError> {
        let first = id.position() * self.sizes.customers;
        for number in 1..=self.sizes.customers {
            let name = match number <= NAMES {
                true => number - 1,
                false => name_number(rng, self.constants.name_load, NAMES),
            };
            let mut row = [0; customer::WORDS];
            row[0] = id.customer(number);
            row[customer::BALANCE] = (FIRST_PAYMENT as i64).wrapping_neg() as u64;
            row[customer::YTD_PAYMENT] = FIRST_PAYMENT;
            row[customer::PAYMENTS] = 1;
            row[customer::DISCOUNT] = rng.u64(0..=5000);
            row[customer::BAD_CREDIT] = u64::from(rng.u32(0..10) == 0);
            row[customer::CREDIT_LIMIT] = 5_000_000;
            row[customer::SINCE] = LOADED_DATE;
            row[customer::NAME] = u64::from(name);
            random_text(
                rng,
                8,
                16,
                &mut row[customer::FIRST..][..customer::FIRST_WORDS],
            );
            let text = &mut row[customer::TEXT..][..customer::TEXT_WORDS];
            put_text(&format!("OE{}", last_name(name)), &mut text[..3]);
            random_text(rng, 71, 87, &mut text[3..]);
            random_text(rng, 300, 500, &mut row[customer::DATA..]);
            let at = first + number - 1;
            self.store.load_row(table::CUSTOMER, at, &row)?;
            let mut row = [0; history::WORDS];
            row[history::CUSTOMER] = id.customer(number);
            row[history::DISTRICT] = id.key();
            row[history::DATE] = LOADED_DATE;
            row[history::AMOUNT] = FIRST_PAYMENT;
            random_text(rng, 12, 24, &mut row[history::TEXT..]);
            self.store.load_row(table::HISTORY, at, &row)?;
        }
        Ok(())
    }

    fn orders(&self, id: DistrictId, rng: &mut Rng) -> Result<(), OltpError> {
        let (orders, undelivered) = (self.sizes.customers, self.sizes.undelivered());
        let mut customers: Vec<u32> = (1..=orders).collect();
        rng.shuffle(&mut customers);
        let counts = line_counts(self.sizes, self.seed, id);
        let mut line_row = self.starts.0[id.position() as usize] as u32;
        for ((number, customer), lines) in (1..=orders).zip(customers).zip(counts) {
            let delivered = number <= orders - undelivered;
            let mut row = [0; orders::WORDS];
            row[0] = id.order(u64::from(number));
            row[orders::CUSTOMER] = u64::from(customer);
            row[orders::CARRIER] = if delivered { rng.u64(1..=10) } else { 0 };
            row[orders::LINES] = u64::from(lines);
            row[orders::ENTRY_DATE] = LOADED_DATE;
            row[orders::ALL_LOCAL] = 1;
            let at = id.position() * orders + number - 1;
            self.store.load_row(table::ORDERS, at, &row)?;
            if !delivered {
                let first = orders - undelivered + 1;
                let at = id.position() * undelivered + number - first;
                let row: [u64; new_order::WORDS] = [id.order(u64::from(number))];
                self.store.load_row(table::NEW_ORDER, at, &row)?;
            }
            for line in 1..=lines {
                let mut row = [0; order_line::WORDS];
                row[0] = id.line(u64::from(number), line);
                row[order_line::ITEM] = rng.u64(1..=u64::from(self.sizes.items));
                row[order_line::SUPPLIER] = u64::from(id.warehouse);
                row[order_line::QUANTITY] = 5;
                match delivered {
                    true => row[order_line::DELIVERY_DATE] = LOADED_DATE,
                    false => row[order_line::AMOUNT] = rng.u64(1..=999_999),
                }
                random_text(rng, 24, 24, &mut row[order_line::TEXT..]);
                self.store.load_row(table::ORDER_LINE, line_row, &row)?;
                line_row += 1;
            }
        }
        Ok(())
    }
}

/// Fills the indexes from the rows, which are in the order of their keys.
fn load_indexes(store: &mut Store, sizes: &TpccSizes) -> Result<(), OltpError> {
    let by_key = [
        (index::WAREHOUSE, table::WAREHOUSE),
        (index::DISTRICT, table::DISTRICT),
        (index::CUSTOMER, table::CUSTOMER),
        (index::NEW_ORDER, table::NEW_ORDER),
        (index::ORDERS, table::ORDERS),
        (index::ORDER_LINE, table::ORDER_LINE),
        (index::ITEM, table::ITEM),
        (index::STOCK, table::STOCK),
    ];
    for (index, table) in by_key {
        let rows = store.used_rows(table);
        let keys = word_of_rows(store, table, 0);
        let pairs = keys.into_iter().zip(0_u64..);
        store.load_index(index, pairs, rows as usize)?;
    }
    let customers = u64::from(sizes.customers);
    let name = |row: u64, name: u64| {
        let id = position(row / customers);
        id.named(name as u32, (row % customers) as u32 + 1)
    };
    let of_order = |row: u64, customer: u64| {
        let id = position(row / customers);
        id.customer_order(customer as u32, row % customers + 1)
    };
    let names = word_of_rows(store, table::CUSTOMER, customer::NAME);
    load_sorted(store, index::CUSTOMER_NAME, names, name)?;
    let customers_of_orders = word_of_rows(store, table::ORDERS, orders::CUSTOMER);
    load_sorted(store, index::CUSTOMER_ORDERS, customers_of_orders, of_order)
}

/// The district at a position among all.
fn position(at: u64) -> DistrictId {
    DistrictId {
        warehouse: at as u32 / DISTRICTS + 1,
        district: at as u32 % DISTRICTS + 1,
    }
}

/// One word of all rows of a table.
fn word_of_rows(store: &Store, table: usize, at: usize) -> Vec<u64> {
    let mut session = store.session();
    let rows = 0..store.used_rows(table);
    let words = rows.map(|row| {
        let mut word = [0];
        session.peek(table, row, at, &mut word);
        word[0]
    });
    words.collect()
}

fn load_sorted(
    store: &mut Store,
    index: usize,
    words: Vec<u64>,
    key: impl Fn(u64, u64) -> u64,
) -> Result<(), OltpError> {
    let pairs = (0_u64..)
        .zip(words)
        .map(|(row, word)| (key(row, word), row));
    let mut pairs: Vec<(u64, u64)> = pairs.collect();
    pairs.sort_unstable();
    let count = pairs.len();
    store.load_index(index, pairs, count)
}
