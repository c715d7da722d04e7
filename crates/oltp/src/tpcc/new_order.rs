//! New order (clause 2.4).

use super::input::{LineInput, NewOrderInput};
use super::schema::{
    DistrictId, customer, district, index, item, order_line, orders, stock, stock_key, table,
    warehouse,
};
use super::{Tpcc, TpccOutcome};
use crate::{Abort, TxSession};

/// A line as it is stored.
type LineRow = [u64; order_line::WORDS];

impl Tpcc {
    /// The district's row guards orders, new orders and order lines of the district: its next order
    /// number changes with every one.
    pub(super) fn new_order(
        &self,
        session: &mut TxSession<'_>,
        input: &NewOrderInput,
    ) -> Result<TpccOutcome, Abort> {
        let home = input.home;
        let row = session.look_up(index::WAREHOUSE, u64::from(home.warehouse));
        let warehouse_tax = session.word(table::WAREHOUSE, known(row)?, warehouse::TAX)?;
        let row = known(session.look_up(index::DISTRICT, home.key()))?;
        let mut words = [0; 2];
        session.read(table::DISTRICT, row, district::NEXT_ORDER, &mut words)?;
        let [order, district_tax] = words;
        session.update(table::DISTRICT, row, district::NEXT_ORDER, &[order + 1]);
        let row = session.look_up(index::CUSTOMER, home.customer(input.customer));
        let mut words = [0; 2];
        session.read(table::CUSTOMER, known(row)?, customer::DISCOUNT, &mut words)?;
        let [discount, _bad_credit] = words;

        let mut lines = Vec::with_capacity(input.lines.len());
        for (number, line) in (1..).zip(&input.lines) {
            let mut row = self.take_from_stock(session, home, line)?;
            row[0] = home.line(order, number);
            lines.push(row);
        }
        let amounts: u64 = lines.iter().map(|line| line[order_line::AMOUNT]).sum();
        // What the terminal would show; nothing of it is stored.
        let total = amounts * (10_000 - discount) * (10_000 + warehouse_tax + district_tax);
        std::hint::black_box(total);

        let row = input.row(order, self.now());
        let by_customer = home.customer_order(input.customer, order);
        let keys = [
            (index::ORDERS, row[0]),
            (index::CUSTOMER_ORDERS, by_customer),
        ];
        session.insert(table::ORDERS, &row, &keys);
        for line in &lines {
            session.insert(table::ORDER_LINE, line, &[(index::ORDER_LINE, line[0])]);
        }
        // Last: deliveries find orders by it, and must find all of them.
        session.insert(table::NEW_ORDER, &row[..1], &[(index::NEW_ORDER, row[0])]);
        Ok(TpccOutcome::NewOrder(home, order))
    }

    /// Takes a line's quantity from its stock; returns the line but for its key.
    fn take_from_stock(
        &self,
        session: &mut TxSession<'_>,
        home: DistrictId,
        line: &LineInput,
    ) -> Result<LineRow, Abort> {
        let found = session.look_up(index::ITEM, u64::from(line.item));
        let row = found.ok_or(Abort::RolledBack)?;
        let mut text = [0; item::WORDS - item::PRICE];
        session.read(table::ITEM, row, item::PRICE, &mut text)?;
        let price = text[0];
        let row = known(session.look_up(index::STOCK, stock_key(line.supplier, line.item)))?;
        const READ: usize = stock::DATA + stock::DATA_WORDS - stock::QUANTITY;
        let mut words = [0; READ];
        session.read(table::STOCK, row, stock::QUANTITY, &mut words)?;
        let words = line.taken_from(&words, home);
        session.update(table::STOCK, row, stock::QUANTITY, &words);
        let mut text = [0; stock::DISTRICT_WORDS];
        let at = stock::DISTRICTS + (home.district as usize - 1) * stock::DISTRICT_WORDS;
        session.read(table::STOCK, row, at, &mut text)?;
        Ok(line.row(price, &text))
    }
}

impl NewOrderInput {
    /// Its row of the orders.
    pub(super) fn row(&self, order: u64, date: u64) -> [u64; orders::WORDS] {
        let home = self.home;
        let all_local = self.lines.iter().all(|l| l.supplier == home.warehouse);
        let mut row = [0; orders::WORDS];
        row[0] = home.order(order);
        row[orders::CUSTOMER] = u64::from(self.customer);
        row[orders::LINES] = self.lines.len() as u64;
        row[orders::ENTRY_DATE] = date;
        row[orders::ALL_LOCAL] = u64::from(all_local);
        row
    }
}

impl LineInput {
    /// Quantity, its sum over orders, orders and remote orders of a stock after this line, from
    /// those before.
    pub(super) fn taken_from(&self, before: &[u64], home: DistrictId) -> [u64; 4] {
        let quantity = u64::from(self.quantity);
        let left = match before[0] >= quantity + 10 {
            true => before[0] - quantity,
            false => before[0] + 91 - quantity,
        };
        let is_remote = u64::from(self.supplier != home.warehouse);
        [
            left,
            before[1] + quantity,
            before[2] + 1,
            before[3] + is_remote,
        ]
    }

    /// Its row of the order lines but for the key, with the stock's text of the district.
    pub(super) fn row(&self, price: u64, text: &[u64]) -> LineRow {
        let quantity = u64::from(self.quantity);
        let mut row = [0; order_line::WORDS];
        row[order_line::ITEM] = u64::from(self.item);
        row[order_line::AMOUNT] = quantity * price;
        row[order_line::QUANTITY] = quantity;
        row[order_line::SUPPLIER] = u64::from(self.supplier);
        row[order_line::TEXT..].copy_from_slice(text);
        row
    }
}

/// A row that is there by what the transaction knows. One that is not was read from rows that do
/// not fit together, which commit would find out.
pub(super) fn known(row: Option<u32>) -> Result<u32, Abort> {
    row.ok_or(Abort::Conflict)
}
