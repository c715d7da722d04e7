//! What the terminals of the specification would send (clauses 2.4.1, 2.5.1, 2.6.1, 2.7.1, 2.8.1).

use fastrand::Rng;

use super::MIX_PERCENT;
use super::load::line_count;
use super::random::{RandomConstants, name_number, non_uniform};
use super::schema::{DISTRICTS, DistrictId, TpccSizes};

/// A customer by number or by last name.
#[derive(Debug, Clone, Copy)]
pub enum CustomerChoice {
    /// The number in its district.
    Number(u32),
    /// The number of the last name.
    Name(u32),
}

/// A customer of a district.
#[derive(Debug, Clone, Copy)]
pub struct CustomerOf {
    /// Its district.
    pub(crate) home: DistrictId,
    pub(crate) choice: CustomerChoice,
}

/// A line of an order that is to be made.
#[derive(Debug, Clone, Copy)]
pub struct LineInput {
    /// The item; 0 for one that does not exist.
    pub(crate) item: u32,
    pub(crate) supplier: u32,
    pub(crate) quantity: u32,
}

/// An order to be made.
#[derive(Debug, Clone)]
pub struct NewOrderInput {
    pub(crate) home: DistrictId,
    pub(crate) customer: u32,
    pub(crate) lines: Vec<LineInput>,
}

/// A payment to be made.
#[derive(Debug, Clone, Copy)]
pub struct PaymentInput {
    /// Where it is paid.
    pub(crate) home: DistrictId,
    pub(crate) customer: CustomerOf,
    /// Cents.
    pub(crate) amount: u64,
}

/// The oldest orders of a warehouse to be delivered.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryInput {
    pub(crate) warehouse: u32,
    pub(crate) carrier: u32,
}

/// Items of recent orders to be counted.
#[derive(Debug, Clone, Copy)]
pub struct StockLevelInput {
    pub(crate) home: DistrictId,
    pub(crate) threshold: u32,
}

/// Input of one transaction.
#[derive(Debug, Clone)]
pub enum TpccInput {
    /// Order of 5 to 15 lines; one in a hundred names an item that does not exist.
    NewOrder(NewOrderInput),
    /// Payment of a customer.
    Payment(PaymentInput),
    /// Look-up of a customer's last order.
    OrderStatus(CustomerOf),
    /// Delivery of the oldest order of each district of a warehouse.
    Delivery(DeliveryInput),
    /// Number of items of the last 20 orders of which the stock is low.
    StockLevel(StockLevelInput),
}

impl TpccInput {
    pub(crate) fn draw(sizes: &TpccSizes, constants: &RandomConstants, rng: &mut Rng) -> Self {
        let draws = Draws { sizes, constants };
        let mut percent = rng.u32(0..100);
        let kind = MIX_PERCENT.iter().position(|share| {
            let within = percent < *share;
            percent = percent.saturating_sub(*share);
            within
        });
        match kind {
            Some(0) => draws.new_order(rng),
            Some(1) => draws.payment(rng),
            Some(2) => {
                let home = draws.district(rng);
                Self::OrderStatus(draws.customer(home, rng))
            }
            Some(3) => Self::Delivery(DeliveryInput {
                warehouse: draws.district(rng).warehouse,
                carrier: rng.u32(1..=10),
            }),
            _ => Self::StockLevel(StockLevelInput {
                home: draws.district(rng),
                threshold: rng.u32(10..=20),
            }),
        }
    }

    /// Position in [`TPCC_KINDS`](super::TPCC_KINDS).
    pub(crate) fn kind(&self) -> usize {
        match self {
            Self::NewOrder(_) => 0,
            Self::Payment(_) => 1,
            Self::OrderStatus(_) => 2,
            Self::Delivery(_) => 3,
            Self::StockLevel(_) => 4,
        }
    }
}

struct Draws<'a> {
    sizes: &'a TpccSizes,
    constants: &'a RandomConstants,
}

impl Draws<'_> {
    fn district(&self, rng: &mut Rng) -> DistrictId {
        DistrictId {
            warehouse: rng.u32(1..=self.sizes.warehouses),
            district: rng.u32(1..=DISTRICTS),
        }
    }

    fn customer_number(&self, rng: &mut Rng) -> u32 {
        non_uniform(
            rng,
            1023,
            self.constants.customer,
            (1, self.sizes.customers),
        )
    }

    /// Three in five customers are known by name.
    fn customer(&self, home: DistrictId, rng: &mut Rng) -> CustomerOf {
        let choice = match rng.u32(0..100) < 60 {
            true => {
                let names = self.sizes.customers;
                CustomerChoice::Name(name_number(rng, self.constants.name_run, names))
            }
            false => CustomerChoice::Number(self.customer_number(rng)),
        };
        CustomerOf { home, choice }
    }

    fn other_warehouse(&self, home: u32, rng: &mut Rng) -> u32 {
        match self.sizes.warehouses {
            1 => home,
            count => (home - 1 + rng.u32(1..count)) % count + 1,
        }
    }

    fn new_order(&self, rng: &mut Rng) -> TpccInput {
        let home = self.district(rng);
        let count = line_count(rng);
        let fails = rng.u32(0..100) == 0;
        let lines = (1..=count).map(|line| {
            let remote = rng.u32(0..100) == 0;
            let item = non_uniform(rng, 8191, self.constants.item, (1, self.sizes.items));
            LineInput {
                item: if fails && line == count { 0 } else { item },
                supplier: match remote {
                    true => self.other_warehouse(home.warehouse, rng),
                    false => home.warehouse,
                },
                quantity: rng.u32(1..=10),
            }
        });
        TpccInput::NewOrder(NewOrderInput {
            home,
            lines: lines.collect(),
            customer: self.customer_number(rng),
        })
    }

    fn payment(&self, rng: &mut Rng) -> TpccInput {
        let home = self.district(rng);
        let customer_home = match rng.u32(0..100) < 15 {
            true => DistrictId {
                warehouse: self.other_warehouse(home.warehouse, rng),
                district: rng.u32(1..=DISTRICTS),
            },
            false => home,
        };
        TpccInput::Payment(PaymentInput {
            home,
            customer: self.customer(customer_home, rng),
            amount: rng.u64(100..=500_000),
        })
    }
}
