//! Generates the fact table directly in the caller's memory.
//!
//! ```text
//! plan:  orders --hash--> lines of each order --sum per chunk--> first row of each chunk
//!
//! fill:  columns of the caller   | chunk 0 | chunk 1 | chunk 2 | ...   halved, a rayon task each
//!        in a chunk: values of an order, repeated for its lines; values of a line; prices; totals
//! ```
//!
//! The number of lines per order is random, so `plan` first counts them; then chunks are
//! independent. A chunk is small enough that its part of all columns stays in the L2 cache of a
//! core, because prices are computed from quantities, keys and discounts that were written just
//! before.

use super::calendar::{DATE_KEYS, DATE_ROWS};
use super::columns::ColumnValues;
use super::config::SsbConfig;
use super::memory::{LineorderColumns, OwnedColumns, Part};
use super::rng::RandomSequence;
use super::words::{self, PRIORITIES, SHIP_MODES};
use crate::{Progress, WorkloadError};
use rayon::prelude::*;
use std::ops::Range;

/// Orders per chunk: about 8,192 rows, 0.5 MiB over all columns.
const ORDERS_PER_CHUNK: u64 = 2048;

/// Number of the table in [`RandomSequence::new`].
const LINEORDER: u32 = 0;

/// The plan of the table: where each chunk of orders starts.
///
/// It must be known before chunks can be generated in parallel.
#[derive(Clone, Debug)]
pub struct Lineorder {
    streams: Streams,
    orders: u64,
    orders_per_chunk: u64,
    customers: u32,
    parts: u32,
    suppliers: u32,
    /// First row of each chunk, and finally the number of rows.
    chunk_starts: Vec<usize>,
}

/// One stream for each random choice.
#[derive(Clone, Copy, Debug)]
struct Streams {
    lines: RandomSequence,
    customer: RandomSequence,
    order_date: RandomSequence,
    priority: RandomSequence,
    part: RandomSequence,
    supplier: RandomSequence,
    quantity: RandomSequence,
    discount: RandomSequence,
    tax: RandomSequence,
    commit_delay: RandomSequence,
    ship_mode: RandomSequence,
}

impl Streams {
    // The numbers of the streams are part of the data: they must not change.
    const fn new(seed: u64) -> Self {
        Self {
            lines: RandomSequence::new(seed, LINEORDER, 0),
            customer: RandomSequence::new(seed, LINEORDER, 1),
            order_date: RandomSequence::new(seed, LINEORDER, 2),
            priority: RandomSequence::new(seed, LINEORDER, 3),
            part: RandomSequence::new(seed, LINEORDER, 4),
            supplier: RandomSequence::new(seed, LINEORDER, 5),
            quantity: RandomSequence::new(seed, LINEORDER, 6),
            discount: RandomSequence::new(seed, LINEORDER, 7),
            tax: RandomSequence::new(seed, LINEORDER, 8),
            commit_delay: RandomSequence::new(seed, LINEORDER, 9),
            ship_mode: RandomSequence::new(seed, LINEORDER, 10),
        }
    }

    /// Number of lines of an order, 1 to 7.
    #[inline(always)]
    const fn lines_of(&self, order: u64) -> usize {
        1 + self.lines.below(order, 7) as usize
    }
}

impl Lineorder {
    /// Counts the rows of each chunk.
    ///
    /// Every order has one to seven lines, so the total is close to `6,000,000 x scale factor`, but
    /// not equal.
    ///
    /// # Errors
    /// [`WorkloadError::ScaleFactor`] for a configuration out of range.
    pub fn plan(config: &SsbConfig) -> Result<Self, WorkloadError> {
        Self::plan_in_chunks(config, ORDERS_PER_CHUNK)
    }

    fn plan_in_chunks(config: &SsbConfig, orders_per_chunk: u64) -> Result<Self, WorkloadError> {
        config.check()?;
        let streams = Streams::new(config.seed);
        let orders = config.orders();
        let rows_of_chunks: Vec<usize> = (0..orders.div_ceil(orders_per_chunk))
            .into_par_iter()
            .map(|chunk| {
                let range = chunk * orders_per_chunk..orders.min((chunk + 1) * orders_per_chunk);
                range.map(|order| streams.lines_of(order)).sum()
            })
            .collect();
        let mut chunk_starts = Vec::with_capacity(rows_of_chunks.len() + 1);
        let mut rows = 0;
        chunk_starts.push(rows);
        for more in rows_of_chunks {
            rows += more;
            chunk_starts.push(rows);
        }
        Ok(Self {
            streams,
            orders,
            orders_per_chunk,
            customers: config.customers(),
            parts: config.parts(),
            suppliers: config.suppliers(),
            chunk_starts,
        })
    }

    /// Number of rows of the table.
    pub fn rows(&self) -> usize {
        self.chunk_starts.last().copied().unwrap_or(0)
    }

    /// Number of orders of the table; order keys are 1 to this number.
    pub fn orders(&self) -> u64 {
        self.orders
    }

    /// Number of chunks that [`Lineorder::fill_chunk`] can generate separately.
    pub fn chunks(&self) -> usize {
        self.chunk_starts.len() - 1
    }

    /// The rows of a chunk; empty if there is no such chunk.
    pub fn chunk_rows(&self, chunk: usize) -> Range<usize> {
        match (
            self.chunk_starts.get(chunk),
            self.chunk_starts.get(chunk + 1),
        ) {
            (Some(&start), Some(&end)) => start..end,
            _ => 0..0,
        }
    }

    /// The texts of the codes of a [`super::ColumnType::Dict8`] column; `None` for other columns.
    ///
    /// They are in alphabetical order, so codes compare like the text.
    pub fn dictionaries(&self, column: &str) -> Option<&'static [&'static str]> {
        words::dictionaries(column)
    }

    /// Writes the whole table into `columns`, in parallel on the current rayon pool.
    ///
    /// No intermediate copies are made. `progress` is called for every chunk and may cancel between
    /// chunks; the columns are then partly filled.
    ///
    /// # Errors
    /// [`WorkloadError::ColumnLayout`] if the number or the lengths of the columns are wrong
    /// (nothing is written then), [`WorkloadError::Cancelled`] if `progress` cancelled.
    pub fn fill(
        &self,
        columns: &mut LineorderColumns<'_>,
        progress: &dyn Progress,
    ) -> Result<(), WorkloadError> {
        let part = Part::new(columns, self.rows())?;
        self.fill_range(0..self.chunks(), part, progress)
    }

    /// Writes one chunk on this thread; `columns` must have the length of
    /// [`Lineorder::chunk_rows`].
    ///
    /// # Errors
    /// [`WorkloadError::ColumnLayout`] if the number or the lengths of the columns are wrong.
    pub fn fill_chunk(
        &self,
        chunk: usize,
        columns: &mut LineorderColumns<'_>,
    ) -> Result<(), WorkloadError> {
        let part = Part::new(columns, self.chunk_rows(chunk).len())?;
        self.write_chunk(chunk, part);
        Ok(())
    }

    /// The whole table in newly allocated vectors, in the order of the table's spec.
    ///
    /// # Errors
    /// [`WorkloadError::Cancelled`] if `progress` cancelled.
    pub fn to_columns(&self, progress: &dyn Progress) -> Result<Vec<ColumnValues>, WorkloadError> {
        let mut owned = OwnedColumns::new(self.rows());
        self.fill(&mut owned.borrow(), progress)?;
        owned.into_values()
    }

    fn fill_range(
        &self,
        chunks: Range<usize>,
        part: Part<'_>,
        progress: &dyn Progress,
    ) -> Result<(), WorkloadError> {
        if chunks.len() <= 1 {
            if progress.cancelled() {
                return Err(WorkloadError::Cancelled);
            }
            self.write_chunk(chunks.start, part);
            progress.advance(self.chunk_rows(chunks.start).len() as u64);
            return Ok(());
        }
        let middle = chunks.start + chunks.len() / 2;
        let (left, right) =
            part.split_at(self.chunk_starts[middle] - self.chunk_starts[chunks.start]);
        let (left, right) = rayon::join(
            || self.fill_range(chunks.start..middle, left, progress),
            || self.fill_range(middle..chunks.end, right, progress),
        );
        left.and(right)
    }

    /// Generates all rows of a chunk.
    fn write_chunk(&self, chunk: usize, part: Part<'_>) {
        let [
            order_key,
            line_number,
            cust_key,
            part_key,
            supp_key,
            order_date,
            ship_priority,
            quantity,
            extended_price,
            order_total,
            discount,
            revenue,
            supply_cost,
            tax,
            commit_date,
        ] = part.int32;
        let [priority, ship_mode] = part.dict8;
        let streams = &self.streams;
        let first_row = self.chunk_rows(chunk).start as u64;
        // Commit dates are computed later from the position of the order date in the calendar.
        let mut date_index = vec![0u16; order_key.len()];

        let mut row = 0;
        for order in self.chunk_orders(chunk) {
            let lines = row..row + streams.lines_of(order);
            let date = streams.order_date.below(order, DATE_ROWS as u32) as usize;
            order_key[lines.clone()].fill(order as i32 + 1);
            cust_key[lines.clone()].fill(1 + streams.customer.below(order, self.customers) as i32);
            order_date[lines.clone()].fill(DATE_KEYS[date]);
            date_index[lines.clone()].fill(date as u16);
            priority[lines.clone()]
                .fill(streams.priority.below(order, PRIORITIES.len() as u32) as u8);
            for (number, slot) in line_number[lines.clone()].iter_mut().enumerate() {
                *slot = number as i32 + 1;
            }
            row = lines.end;
        }

        ship_priority.fill(0);
        draw(streams.part, first_row, 1, self.parts, part_key);
        draw(streams.supplier, first_row, 1, self.suppliers, supp_key);
        draw(streams.quantity, first_row, 1, 50, quantity);
        draw(streams.discount, first_row, 0, 11, discount);
        draw(streams.tax, first_row, 0, 9, tax);
        draw(streams.commit_delay, first_row, 30, 61, commit_date);
        add_to_dates(&date_index, commit_date);
        for (slot, row) in ship_mode.iter_mut().zip(first_row..) {
            *slot = streams.ship_mode.below(row, SHIP_MODES.len() as u32) as u8;
        }

        // Prices need several columns of the same row, which are still in the cache.
        for (row, &key) in part_key.iter().enumerate() {
            let price = retail_price_cents(key);
            extended_price[row] = price * quantity[row];
            revenue[row] = extended_price[row] * (100 - discount[row]) / 100;
            supply_cost[row] = 6 * price / 10;
        }

        let mut row = 0;
        for order in self.chunk_orders(chunk) {
            let lines = row..row + streams.lines_of(order);
            row = lines.end;
            let total = lines
                .clone()
                .map(|row| revenue[row] * (100 + tax[row]) / 100)
                .sum();
            order_total[lines].fill(total);
        }
    }

    /// The orders of a chunk, counted from 0.
    fn chunk_orders(&self, chunk: usize) -> Range<u64> {
        let start = chunk as u64 * self.orders_per_chunk;
        start..self.orders.min(start + self.orders_per_chunk)
    }
}

/// Draws a number from `least` to `least + choices - 1` for each row.
#[inline]
fn draw(stream: RandomSequence, first_row: u64, least: i32, choices: u32, out: &mut [i32]) {
    for (slot, row) in out.iter_mut().zip(first_row..) {
        *slot = least + stream.below(row, choices) as i32;
    }
}

/// Replaces delays in days by the date keys that many days after the order, at most the last key.
fn add_to_dates(order_dates: &[u16], delays: &mut [i32]) {
    for (slot, &ordered) in delays.iter_mut().zip(order_dates) {
        *slot = DATE_KEYS[(usize::from(ordered) + *slot as usize).min(DATE_ROWS - 1)];
    }
}

/// The price of one part in cents: TPC-H's formula for p_retailprice (clause 4.2.3), which SSB
/// keeps.
#[inline(always)]
const fn retail_price_cents(part_key: i32) -> i32 {
    90_000 + (part_key / 10) % 20_001 + 100 * (part_key % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;
    use proptest::prelude::*;

    #[test]
    fn prices_fit_32_bits_at_every_part_key() {
        let most = (1..2_200_000).map(retail_price_cents).max().unwrap_or(0);
        assert!(most <= 209_900);
        assert!(i32::try_from(i64::from(most) * 50 * 100).is_ok());
        assert!(i32::try_from(i64::from(most) * 50 * 108).is_ok());
    }

    #[test]
    fn dictionary_codes_compare_like_the_text() {
        assert!(PRIORITIES.is_sorted() && SHIP_MODES.is_sorted());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn data_does_not_depend_on_the_chunk_size(seed: u64, orders_per_chunk in 1u64..20_000, hundredths in 1u32..3) {
            let config = SsbConfig::new(f64::from(hundredths) / 100.0, seed).unwrap();
            let one = Lineorder::plan_in_chunks(&config, u64::MAX / 2).unwrap();
            let many = Lineorder::plan_in_chunks(&config, orders_per_chunk).unwrap();
            prop_assert_eq!(one.rows(), many.rows());
            prop_assert!(one.to_columns(&Silent).unwrap() == many.to_columns(&Silent).unwrap());
        }
    }
}
