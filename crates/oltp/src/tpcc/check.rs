//! The consistency conditions of clause 3.3.2, and that the indexes agree with the rows.

use std::collections::HashMap;
use std::fmt;

use super::Tpcc;
use super::load::FIRST_PAYMENT;
use super::schema::{
    DISTRICTS, DistrictId, customer, district, history, index, of_order, order_line, orders, stock,
    table, warehouse,
};
use crate::TxSession;

/// A condition that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The condition: its number in clause 3.3.2 of the specification, or what else is wrong.
    pub condition: String,
    /// Where, and what was found.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "consistency condition {}: {}",
            self.condition, self.found
        )
    }
}

/// Violations that are kept; a broken store has millions.
const MOST_VIOLATIONS: usize = 100;

#[derive(Debug, Default, Clone)]
struct DistrictSums {
    ytd: u64,
    next_order: u64,
    paid: u64,
    newest_order: u64,
    orders: u64,
    announced_lines: u64,
    lines: u64,
    new_orders: u64,
    newest_new: u64,
    oldest_new: u64,
}

#[derive(Debug, Default, Clone)]
struct OrderSums {
    customer: u64,
    is_delivered: bool,
    announced_lines: u64,
    is_new: bool,
    lines: u64,
    delivered_lines: u64,
    delivered_amount: u64,
}

#[derive(Debug, Default, Clone)]
struct CustomerSums {
    balance: u64,
    ytd_payment: u64,
    paid: u64,
    delivered: u64,
}

/// Sums over all tables.
#[derive(Debug, Default)]
struct Sums {
    warehouse_ytd: HashMap<u32, u64>,
    districts: HashMap<DistrictId, DistrictSums>,
    orders: HashMap<u64, OrderSums>,
    customers: HashMap<u64, CustomerSums>,
    stock_orders: u64,
    lines: u64,
}

impl Tpcc {
    /// Checks the data, with no transaction running: conditions 1 to 10 and 12, that stocks were
    /// taken from once for every line, and that every row is found by its keys and nothing else is.
    /// `loaded`: nothing has run yet; then also condition 11.
    pub fn check(&self, loaded: bool) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut session = self.store.session();
        let mut sums = self.sums(&mut session, &mut violations);
        sums.deliver();
        let mut report = Report(&mut violations);
        sums.check_districts(&mut report);
        sums.check_orders(&mut report);
        sums.check_customers(&mut report);
        let inserted = sums.lines - u64::from(self.loaded_lines);
        report.equal(
            "of stocks",
            "orders of stocks and new lines",
            sums.stock_orders,
            inserted,
        );
        if loaded {
            for (id, sum) in &sums.districts {
                let delivered = u64::from(self.sizes.customers - self.sizes.undelivered());
                let what = || format!("delivered orders of {id:?}");
                report.equal("11", what(), sum.orders - sum.new_orders, delivered);
            }
        }
        violations.truncate(MOST_VIOLATIONS);
        violations
    }

    fn sums(&self, session: &mut TxSession<'_>, violations: &mut Vec<Violation>) -> Sums {
        let mut sums = Sums::default();
        let mut read = Rows {
            session,
            violations,
        };
        let id = DistrictId::of;
        read.each(self, table::WAREHOUSE, &[index::WAREHOUSE], |row, _| {
            sums.warehouse_ytd
                .insert(row[0] as u32, row[warehouse::YTD]);
        });
        read.each(self, table::DISTRICT, &[index::DISTRICT], |row, _| {
            let sum = sums.districts.entry(id(row[0])).or_default();
            (sum.ytd, sum.next_order) = (row[district::YTD], row[district::NEXT_ORDER]);
        });
        let by_name = [index::CUSTOMER, index::CUSTOMER_NAME];
        read.each(self, table::CUSTOMER, &by_name, |row, keys| {
            let sum = sums.customers.entry(row[0]).or_default();
            (sum.balance, sum.ytd_payment) = (row[customer::BALANCE], row[customer::YTD_PAYMENT]);
            let number = (row[0] & 0xffff) as u32;
            keys.push(id(row[0] >> 16).named(row[customer::NAME] as u32, number));
        });
        read.each(self, table::HISTORY, &[], |row, _| {
            let amount = row[history::AMOUNT];
            sums.districts
                .entry(id(row[history::DISTRICT]))
                .or_default()
                .paid += amount;
            sums.customers
                .entry(row[history::CUSTOMER])
                .or_default()
                .paid += amount;
        });
        read.each(self, table::NEW_ORDER, &[index::NEW_ORDER], |row, _| {
            let (home, order) = of_order(row[0]);
            sums.orders.entry(row[0]).or_default().is_new = true;
            let sum = sums.districts.entry(home).or_default();
            sum.oldest_new = match sum.new_orders {
                0 => order,
                _ => sum.oldest_new.min(order),
            };
            sum.newest_new = sum.newest_new.max(order);
            sum.new_orders += 1;
        });
        let by_customer = [index::ORDERS, index::CUSTOMER_ORDERS];
        read.each(self, table::ORDERS, &by_customer, |row, keys| {
            let (home, order) = of_order(row[0]);
            let sum = sums.orders.entry(row[0]).or_default();
            sum.customer = home.customer(row[orders::CUSTOMER] as u32);
            sum.is_delivered = row[orders::CARRIER] != 0;
            sum.announced_lines = row[orders::LINES];
            let sum = sums.districts.entry(home).or_default();
            sum.orders += 1;
            sum.announced_lines += row[orders::LINES];
            sum.newest_order = sum.newest_order.max(order);
            keys.push(home.customer_order(row[orders::CUSTOMER] as u32, order));
        });
        read.each(self, table::ORDER_LINE, &[index::ORDER_LINE], |row, _| {
            let (home, _) = of_order(row[0] >> 4);
            sums.districts.entry(home).or_default().lines += 1;
            sums.lines += 1;
            let sum = sums.orders.entry(row[0] >> 4).or_default();
            sum.lines += 1;
            if row[order_line::DELIVERY_DATE] != 0 {
                sum.delivered_lines += 1;
                sum.delivered_amount += row[order_line::AMOUNT];
            }
        });
        read.each(self, table::ITEM, &[index::ITEM], |_, _| {});
        read.each(self, table::STOCK, &[index::STOCK], |row, _| {
            sums.stock_orders += row[stock::ORDERS];
        });
        sums
    }
}

/// Reads tables whole.
struct Rows<'a, 's> {
    session: &'a mut TxSession<'s>,
    violations: &'a mut Vec<Violation>,
}

impl Rows<'_, '_> {
    /// Calls `each` with all rows of a table, and compares them with the indexes: the first has
    /// word 0 as its key, those of the others `each` adds.
    fn each(
        &mut self,
        tpcc: &Tpcc,
        table: usize,
        indexes: &[usize],
        mut each: impl FnMut(&[u64], &mut Vec<u64>),
    ) {
        let rows = &tpcc.store.tables[table];
        let mut report = Report(self.violations);
        let (mut row, mut count) = (vec![0; rows.spec().row_words], 0);
        for number in 0..rows.used_rows() {
            if !self.session.peek(table, number, 0, &mut row) {
                continue;
            }
            count += 1;
            let mut keys = vec![row[0]];
            each(&row, &mut keys);
            for (index, key) in indexes.iter().zip(keys) {
                let found = self.session.look_up(*index, key);
                let what = || format!("row {number} by key {key:#x}");
                report.equal(tpcc.store.indexes[*index].name, what(), found, Some(number));
            }
        }
        for index in indexes {
            let mut entries = 0_u64;
            self.session.scan(*index, 0, |_, _| {
                entries += 1;
                true
            });
            let name = tpcc.store.indexes[*index].name;
            report.equal(name, "entries and rows", entries, count);
        }
    }
}

struct Report<'a>(&'a mut Vec<Violation>);

impl Report<'_> {
    fn equal<T: PartialEq + fmt::Debug>(
        &mut self,
        condition: &str,
        what: impl fmt::Display,
        left: T,
        right: T,
    ) {
        if left != right && self.0.len() < MOST_VIOLATIONS {
            self.0.push(Violation {
                condition: condition.to_owned(),
                found: format!("{what}: {left:?} and {right:?}"),
            });
        }
    }
}

impl Sums {
    /// Adds the delivered lines of each order to its customer.
    fn deliver(&mut self) {
        for order in self.orders.values() {
            if let Some(customer) = self.customers.get_mut(&order.customer) {
                customer.delivered += order.delivered_amount;
            }
        }
    }

    fn check_districts(&self, report: &mut Report<'_>) {
        for (warehouse, ytd) in &self.warehouse_ytd {
            let districts = (1..=DISTRICTS).map(|district| DistrictId {
                warehouse: *warehouse,
                district,
            });
            let of = |id: DistrictId| self.districts.get(&id).cloned().unwrap_or_default();
            let (by_district, paid) = districts
                .map(of)
                .fold((0, 0), |(ytd, paid), sum| (ytd + sum.ytd, paid + sum.paid));
            let what = format!("warehouse {warehouse}");
            report.equal("1", &what, *ytd, by_district);
            report.equal("8", &what, *ytd, paid);
        }
        for (id, sum) in &self.districts {
            let what = format!("{id:?}");
            report.equal("2", &what, sum.next_order - 1, sum.newest_order);
            if sum.new_orders > 0 {
                report.equal("2", &what, sum.newest_order, sum.newest_new);
                let span = sum.newest_new - sum.oldest_new + 1;
                report.equal("3", &what, span, sum.new_orders);
            }
            report.equal("4", &what, sum.announced_lines, sum.lines);
            report.equal("9", &what, sum.ytd, sum.paid);
        }
    }

    fn check_orders(&self, report: &mut Report<'_>) {
        for (key, order) in &self.orders {
            let what = || format!("order {:?}", of_order(*key));
            report.equal("5", what(), order.is_new, !order.is_delivered);
            report.equal("6", what(), order.announced_lines, order.lines);
            let delivered = if order.is_delivered { order.lines } else { 0 };
            report.equal("7", what(), order.delivered_lines, delivered);
        }
    }

    fn check_customers(&self, report: &mut Report<'_>) {
        for (key, customer) in &self.customers {
            let what = || format!("customer {key:#x}");
            let balance = customer.delivered.wrapping_sub(customer.paid);
            report.equal("10", what(), customer.balance, balance);
            let both = customer.balance.wrapping_add(customer.ytd_payment);
            report.equal("12", what(), both, customer.delivered);
            if customer.ytd_payment < FIRST_PAYMENT {
                report.equal("12", what(), customer.ytd_payment, FIRST_PAYMENT);
            }
        }
    }
}

#[cfg(test)]
impl Tpcc {
    /// Carrier of an order, 0 for none yet; `None` if there is no such order.
    pub(crate) fn carrier_of(&self, home: DistrictId, order: u64) -> Option<u64> {
        let mut session = self.store.session();
        let row = session.look_up(index::ORDERS, home.order(order))?;
        let mut carrier = [0];
        let found = session.peek(table::ORDERS, row, orders::CARRIER, &mut carrier);
        found.then_some(carrier[0])
    }

    /// Districts and amounts of all payments.
    pub(crate) fn payments(&self) -> Vec<(u64, u64)> {
        let mut session = self.store.session();
        let rows = 0..self.store.used_rows(table::HISTORY);
        let payments = rows.filter_map(|row| {
            let mut words = [0; history::WORDS];
            let found = session.peek(table::HISTORY, row, 0, &mut words);
            found.then_some((words[history::DISTRICT], words[history::AMOUNT]))
        });
        payments.collect()
    }
}
