//! Stock level (clause 2.8).

use super::input::StockLevelInput;
use super::new_order::known;
use super::schema::{district, index, order_line, stock, stock_key, table};
use super::{Tpcc, TpccOutcome};
use crate::{Abort, TxSession};

/// Orders that are looked at.
const ORDERS: u64 = 20;

impl Tpcc {
    /// Serialisable, where the specification would allow less.
    pub(super) fn stock_level(
        &self,
        session: &mut TxSession<'_>,
        input: &StockLevelInput,
    ) -> Result<TpccOutcome, Abort> {
        let home = input.home;
        // The district guards its order lines.
        let row = known(session.look_up(index::DISTRICT, home.key()))?;
        let next = session.word(table::DISTRICT, row, district::NEXT_ORDER)?;
        let rows = self.lines(session, home, next.saturating_sub(ORDERS)..next);
        let mut items = Vec::with_capacity(rows.len());
        for row in rows {
            items.push(session.word(table::ORDER_LINE, row, order_line::ITEM)?);
        }
        items.sort_unstable();
        items.dedup();
        let mut low = 0;
        for item in items {
            let row = session.look_up(index::STOCK, stock_key(home.warehouse, item as u32));
            let quantity = session.word(table::STOCK, known(row)?, stock::QUANTITY)?;
            low += u64::from(quantity < u64::from(input.threshold));
        }
        Ok(TpccOutcome::Found(low))
    }
}
