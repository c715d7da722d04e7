//! Delivery (clause 2.7), at once instead of deferred, all districts in one transaction.

use super::input::DeliveryInput;
use super::new_order::known;
use super::schema::{
    DISTRICTS, DistrictId, customer, district, index, of_order, order_line, orders, table,
};
use super::{Tpcc, TpccOutcome};
use crate::{Abort, TxSession};

impl Tpcc {
    pub(super) fn delivery(
        &self,
        session: &mut TxSession<'_>,
        input: &DeliveryInput,
    ) -> Result<TpccOutcome, Abort> {
        let date = self.now();
        let mut delivered = Vec::with_capacity(DISTRICTS as usize);
        for district in 1..=DISTRICTS {
            let home = DistrictId {
                warehouse: input.warehouse,
                district,
            };
            if let Some((order, row)) = self.oldest(session, home)? {
                self.deliver(session, home, order, row, input.carrier, date)?;
                delivered.push((home, order));
            }
        }
        Ok(TpccOutcome::Delivery(delivered))
    }

    /// The oldest new order of a district.
    ///
    /// None older can come: order numbers of a district ascend in the order of commits. One that
    /// goes is the one that is found, whose row is read. So the guard is needed only where there is
    /// none at all.
    fn oldest(
        &self,
        session: &mut TxSession<'_>,
        home: DistrictId,
    ) -> Result<Option<(u64, u32)>, Abort> {
        let found = first_new_order(session, home);
        if found.is_some() {
            return Ok(found);
        }
        let guard = known(session.look_up(index::DISTRICT, home.key()))?;
        session.word(table::DISTRICT, guard, district::NEXT_ORDER)?;
        Ok(first_new_order(session, home))
    }

    fn deliver(
        &self,
        session: &mut TxSession<'_>,
        home: DistrictId,
        order: u64,
        row: u32,
        carrier: u32,
        date: u64,
    ) -> Result<(), Abort> {
        let key = session.word(table::NEW_ORDER, row, 0)?;
        session.delete(table::NEW_ORDER, row, &[(index::NEW_ORDER, key)]);
        let row = known(session.look_up(index::ORDERS, home.order(order)))?;
        let buyer = session.word(table::ORDERS, row, orders::CUSTOMER)?;
        session.update(table::ORDERS, row, orders::CARRIER, &[u64::from(carrier)]);
        let mut sum = 0;
        for row in self.lines(session, home, order..order + 1) {
            sum += session.word(table::ORDER_LINE, row, order_line::AMOUNT)?;
            session.update(table::ORDER_LINE, row, order_line::DELIVERY_DATE, &[date]);
        }
        let row = known(session.look_up(index::CUSTOMER, home.customer(buyer as u32)))?;
        let mut words = [0; customer::DELIVERIES + 1 - customer::BALANCE];
        session.read(table::CUSTOMER, row, customer::BALANCE, &mut words)?;
        let balance = words[0].wrapping_add(sum);
        session.update(table::CUSTOMER, row, customer::BALANCE, &[balance]);
        let deliveries = words[customer::DELIVERIES - customer::BALANCE] + 1;
        session.update(table::CUSTOMER, row, customer::DELIVERIES, &[deliveries]);
        Ok(())
    }
}

fn first_new_order(session: &mut TxSession<'_>, home: DistrictId) -> Option<(u64, u32)> {
    let mut first = None;
    session.scan(index::NEW_ORDER, home.order(0), |key, row| {
        let (of, order) = of_order(key);
        first = (of == home).then_some((order, row));
        false
    });
    first
}
