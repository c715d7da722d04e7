//! Customers by number or by last name.

use super::Tpcc;
use super::input::{CustomerChoice, CustomerOf};
use super::schema::{customer, index, table};
use crate::{Abort, TxSession};

impl Tpcc {
    /// Row of a customer. Of several with one last name it is the one in the middle by first name,
    /// rounded up (clause 2.5.2.2).
    ///
    /// Names never change and customers never come or go, so that no range needs a guard.
    pub(super) fn customer(
        &self,
        session: &mut TxSession<'_>,
        who: &CustomerOf,
    ) -> Result<u32, Abort> {
        let name = match who.choice {
            CustomerChoice::Number(number) => {
                let found = session.look_up(index::CUSTOMER, who.home.customer(number));
                return found.ok_or(Abort::Conflict);
            }
            CustomerChoice::Name(name) => name,
        };
        let (from, end) = (
            who.home.named(name, 0),
            who.home.named(name, u32::from(u16::MAX)),
        );
        let mut rows = Vec::new();
        session.scan(index::CUSTOMER_NAME, from, |key, row| {
            let same = key <= end;
            if same {
                rows.push(row);
            }
            same
        });
        let mut named = Vec::with_capacity(rows.len());
        for row in rows {
            let mut first = [0; customer::FIRST_WORDS];
            session.read(table::CUSTOMER, row, customer::FIRST, &mut first)?;
            named.push((first.map(u64::swap_bytes), row));
        }
        named.sort_unstable();
        let middle = named.len().div_ceil(2).checked_sub(1);
        // Every name has a customer.
        middle.map(|at| named[at].1).ok_or(Abort::Conflict)
    }
}
