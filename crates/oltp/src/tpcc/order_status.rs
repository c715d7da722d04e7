//! Order status (clause 2.6).

use super::input::CustomerOf;
use super::new_order::known;
use super::schema::{DistrictId, customer, district, index, order_line, order_of, orders, table};
use super::{Tpcc, TpccOutcome};
use crate::{Abort, TxSession};

impl Tpcc {
    pub(super) fn order_status(
        &self,
        session: &mut TxSession<'_>,
        who: &CustomerOf,
    ) -> Result<TpccOutcome, Abort> {
        let row = self.customer(session, who)?;
        let mut words = [0; customer::TEXT + customer::TEXT_WORDS];
        session.read(table::CUSTOMER, row, 0, &mut words)?;
        let key = words[0];
        let customer = (key & 0xffff) as u32;
        // That there is no newer order is a conclusion from the range, which the district guards.
        let guard = known(session.look_up(index::DISTRICT, who.home.key()))?;
        session.word(table::DISTRICT, guard, district::NEXT_ORDER)?;
        let mut last = None;
        let from = who
            .home
            .customer_order(customer, super::schema::MOST_ORDERS);
        session.scan(index::CUSTOMER_ORDERS, from, |found, row| {
            last = (found >> 28 == key).then_some((order_of(found), row));
            false
        });
        let (order, row) = last.ok_or(Abort::Conflict)?;
        let mut words = [0; orders::WORDS];
        session.read(table::ORDERS, row, 0, &mut words)?;
        let lines = self.lines(session, who.home, order..order + 1);
        for row in &lines {
            let mut words = [0; order_line::WORDS];
            session.read(table::ORDER_LINE, *row, 0, &mut words)?;
            std::hint::black_box(words);
        }
        Ok(TpccOutcome::Found(lines.len() as u64))
    }

    /// Rows of the lines of these orders.
    pub(super) fn lines(
        &self,
        session: &mut TxSession<'_>,
        home: DistrictId,
        orders: std::ops::Range<u64>,
    ) -> Vec<u32> {
        let mut rows = Vec::with_capacity(16);
        let end = home.line(orders.end, 0);
        session.scan(index::ORDER_LINE, home.line(orders.start, 0), |key, row| {
            let within = key < end;
            if within {
                rows.push(row);
            }
            within
        });
        rows
    }
}
