//! Rows and keys of the nine tables.
//!
//! A row is words of 8 bytes: numbers first, then texts of fixed size. Word 0 is the key, which
//! packs the numbers of the primary key in their order. Amounts of money are cents, taxes and
//! discounts ten-thousandths; negative ones are stored as two's complement.

use crate::index::IndexSpec;
use crate::table::RowSpec;

/// Positions of the tables in the store.
pub(crate) mod table {
    pub(crate) const WAREHOUSE: usize = 0;
    pub(crate) const DISTRICT: usize = 1;
    pub(crate) const CUSTOMER: usize = 2;
    pub(crate) const HISTORY: usize = 3;
    pub(crate) const NEW_ORDER: usize = 4;
    pub(crate) const ORDERS: usize = 5;
    pub(crate) const ORDER_LINE: usize = 6;
    pub(crate) const ITEM: usize = 7;
    pub(crate) const STOCK: usize = 8;
}

/// Positions of the indexes in the store.
pub(crate) mod index {
    pub(crate) const WAREHOUSE: usize = 0;
    pub(crate) const DISTRICT: usize = 1;
    pub(crate) const CUSTOMER: usize = 2;
    pub(crate) const CUSTOMER_NAME: usize = 3;
    pub(crate) const NEW_ORDER: usize = 4;
    pub(crate) const ORDERS: usize = 5;
    pub(crate) const CUSTOMER_ORDERS: usize = 6;
    pub(crate) const ORDER_LINE: usize = 7;
    pub(crate) const ITEM: usize = 8;
    pub(crate) const STOCK: usize = 9;
}

/// Words of a row, and the first word of each field that transactions use.
pub(crate) mod warehouse {
    pub(crate) const TAX: usize = 1;
    pub(crate) const YTD: usize = 2;
    /// Name and address, 81 bytes.
    pub(crate) const TEXT: usize = 3;
    pub(crate) const TEXT_WORDS: usize = 11;
    pub(crate) const WORDS: usize = TEXT + TEXT_WORDS;
}

/// As [`warehouse`].
pub(crate) mod district {
    pub(crate) const NEXT_ORDER: usize = 1;
    pub(crate) const TAX: usize = 2;
    pub(crate) const YTD: usize = 3;
    /// Name and address, 81 bytes.
    pub(crate) const TEXT: usize = 4;
    pub(crate) const TEXT_WORDS: usize = 11;
    pub(crate) const WORDS: usize = TEXT + TEXT_WORDS;
}

/// As [`warehouse`].
pub(crate) mod customer {
    pub(crate) const BALANCE: usize = 1;
    pub(crate) const YTD_PAYMENT: usize = 2;
    /// Number of payments; that of deliveries follows.
    pub(crate) const PAYMENTS: usize = 3;
    pub(crate) const DELIVERIES: usize = 4;
    pub(crate) const DISCOUNT: usize = 5;
    /// 1 for bad credit.
    pub(crate) const BAD_CREDIT: usize = 6;
    pub(crate) const CREDIT_LIMIT: usize = 7;
    pub(crate) const SINCE: usize = 8;
    /// Number of the last name.
    pub(crate) const NAME: usize = 9;
    pub(crate) const FIRST: usize = 10;
    pub(crate) const FIRST_WORDS: usize = 2;
    /// Middle and last name, address and phone: 107 bytes.
    pub(crate) const TEXT: usize = 12;
    pub(crate) const TEXT_WORDS: usize = 14;
    /// 500 bytes.
    pub(crate) const DATA: usize = 26;
    pub(crate) const DATA_WORDS: usize = 63;
    pub(crate) const WORDS: usize = DATA + DATA_WORDS;
}

/// As [`warehouse`].
pub(crate) mod history {
    /// Key of the customer.
    pub(crate) const CUSTOMER: usize = 0;
    /// Key of the district that was paid in.
    pub(crate) const DISTRICT: usize = 1;
    pub(crate) const DATE: usize = 2;
    pub(crate) const AMOUNT: usize = 3;
    /// 24 bytes.
    pub(crate) const TEXT: usize = 4;
    pub(crate) const TEXT_WORDS: usize = 3;
    pub(crate) const WORDS: usize = TEXT + TEXT_WORDS;
}

/// As [`warehouse`].
pub(crate) mod new_order {
    pub(crate) const WORDS: usize = 1;
}

/// As [`warehouse`].
pub(crate) mod orders {
    pub(crate) const CUSTOMER: usize = 1;
    /// 0 before the order is delivered.
    pub(crate) const CARRIER: usize = 2;
    pub(crate) const LINES: usize = 3;
    pub(crate) const ENTRY_DATE: usize = 4;
    pub(crate) const ALL_LOCAL: usize = 5;
    pub(crate) const WORDS: usize = 6;
}

/// As [`warehouse`].
pub(crate) mod order_line {
    pub(crate) const ITEM: usize = 1;
    pub(crate) const AMOUNT: usize = 2;
    /// 0 before the order is delivered.
    pub(crate) const DELIVERY_DATE: usize = 3;
    pub(crate) const QUANTITY: usize = 4;
    pub(crate) const SUPPLIER: usize = 5;
    /// 24 bytes.
    pub(crate) const TEXT: usize = 6;
    pub(crate) const TEXT_WORDS: usize = 3;
    pub(crate) const WORDS: usize = TEXT + TEXT_WORDS;
}

/// As [`warehouse`].
pub(crate) mod item {
    pub(crate) const PRICE: usize = 1;
    pub(crate) const IMAGE: usize = 2;
    /// Name, 24 bytes, and data, 50 bytes.
    pub(crate) const TEXT: usize = 3;
    pub(crate) const TEXT_WORDS: usize = 10;
    pub(crate) const WORDS: usize = TEXT + TEXT_WORDS;
}

/// As [`warehouse`].
pub(crate) mod stock {
    /// Quantity, and then its sum over orders, orders, and orders of other warehouses.
    pub(crate) const QUANTITY: usize = 1;
    pub(crate) const ORDERS: usize = 3;
    /// 50 bytes.
    pub(crate) const DATA: usize = 5;
    pub(crate) const DATA_WORDS: usize = 7;
    /// One text of 24 bytes for each district.
    pub(crate) const DISTRICTS: usize = 12;
    pub(crate) const DISTRICT_WORDS: usize = 3;
    pub(crate) const WORDS: usize = DISTRICTS + DISTRICT_WORDS * super::DISTRICTS as usize;
}

/// Districts of a warehouse.
pub(crate) const DISTRICTS: u32 = 10;
/// Last names.
pub(crate) const NAMES: u32 = 1000;
/// Orders of a district that fit its keys.
pub(crate) const MOST_ORDERS: u64 = (1 << 28) - 1;
/// Warehouses that fit the keys.
pub(crate) const MOST_WAREHOUSES: u32 = u16::MAX as u32;

/// Numbers of a warehouse and of one of its districts, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DistrictId {
    /// The warehouse.
    pub warehouse: u32,
    /// The district in it.
    pub district: u32,
}

impl DistrictId {
    pub(crate) fn key(self) -> u64 {
        u64::from(self.warehouse) << 4 | u64::from(self.district)
    }

    pub(crate) fn of(key: u64) -> Self {
        Self {
            warehouse: (key >> 4) as u32,
            district: (key & 15) as u32,
        }
    }

    /// Position among all districts.
    pub(crate) fn position(self) -> u32 {
        (self.warehouse - 1) * DISTRICTS + self.district - 1
    }

    pub(crate) fn customer(self, customer: u32) -> u64 {
        self.key() << 16 | u64::from(customer)
    }

    pub(crate) fn named(self, name: u32, customer: u32) -> u64 {
        (self.key() << 10 | u64::from(name)) << 16 | u64::from(customer)
    }

    pub(crate) fn order(self, order: u64) -> u64 {
        self.key() << 28 | order
    }

    pub(crate) fn line(self, order: u64, line: u32) -> u64 {
        self.order(order) << 4 | u64::from(line)
    }

    /// Key of a customer's order; the newest comes first.
    pub(crate) fn customer_order(self, customer: u32, order: u64) -> u64 {
        self.customer(customer) << 28 | (MOST_ORDERS - order)
    }
}

/// The order that a key of [`DistrictId::customer_order`] is of.
pub(crate) fn order_of(customer_order: u64) -> u64 {
    MOST_ORDERS - (customer_order & MOST_ORDERS)
}

/// District of a key of [`DistrictId::order`], and the order.
pub(crate) fn of_order(key: u64) -> (DistrictId, u64) {
    (DistrictId::of(key >> 28), key & MOST_ORDERS)
}

pub(crate) fn stock_key(warehouse: u32, item: u32) -> u64 {
    u64::from(warehouse) << 20 | u64::from(item)
}

/// Sizes of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TpccSizes {
    /// Warehouses.
    pub warehouses: u32,
    /// Customers of a district, each with one order: 3000 in the specification.
    pub customers: u32,
    /// Items, each in the stock of every warehouse: 100,000 in the specification.
    pub items: u32,
    /// New orders that there is room for.
    pub room_orders: u64,
}

impl TpccSizes {
    /// The specification's sizes.
    pub fn of_specification(warehouses: u32, room_orders: u64) -> Self {
        Self {
            warehouses,
            customers: 3000,
            items: 100_000,
            room_orders,
        }
    }

    pub(crate) fn districts(&self) -> u32 {
        self.warehouses * DISTRICTS
    }

    /// Orders of a district that are loaded as not delivered yet: the last three tenths.
    pub(crate) fn undelivered(&self) -> u32 {
        self.customers * 3 / 10
    }

    /// Rows of each table: loaded (of order lines the expected number) and with room.
    pub(crate) fn rows(&self, lines: u64) -> [RowSpec; 9] {
        let (districts, room) = (u64::from(self.districts()), self.room_orders);
        let customers = districts * u64::from(self.customers);
        let stock = u64::from(self.warehouses) * u64::from(self.items);
        // Two payments for an order, where the mix has not even one.
        let spec = |name, row_words, rows: u64, inserted: u64| RowSpec {
            name,
            row_words,
            rows: rows + inserted,
            delta_rows: delta_rows(rows, inserted),
        };
        let new_orders = districts * u64::from(self.undelivered());
        [
            spec("warehouse", warehouse::WORDS, u64::from(self.warehouses), 0),
            spec("district", district::WORDS, districts, 0),
            spec("customer", customer::WORDS, customers, 0),
            spec("history", history::WORDS, customers, 2 * room),
            spec("new_order", new_order::WORDS, new_orders, room),
            spec("orders", orders::WORDS, customers, room),
            spec("order_line", order_line::WORDS, lines, 15 * room),
            spec("item", item::WORDS, u64::from(self.items), 0),
            spec("stock", stock::WORDS, stock, 0),
        ]
    }

    pub(crate) fn indexes(&self, lines: u64) -> [IndexSpec; 10] {
        let (districts, room) = (u64::from(self.districts()), self.room_orders);
        let customers = districts * u64::from(self.customers);
        let stock = u64::from(self.warehouses) * u64::from(self.items);
        let spec = |name, loaded_keys, inserted_keys| IndexSpec {
            name,
            loaded_keys,
            inserted_keys,
        };
        [
            spec("warehouse", u64::from(self.warehouses), 0),
            spec("district", districts, 0),
            spec("customer", customers, 0),
            spec("customer by name", customers, 0),
            spec("new_order", districts * u64::from(self.undelivered()), room),
            spec("orders", customers, room),
            spec("orders by customer", customers, room),
            spec("order_line", lines, 15 * room),
            spec("item", u64::from(self.items), 0),
            spec("stock", stock, 0),
        ]
    }
}

/// Slots of a delta: an eighth of the rows, within limits.
fn delta_rows(loaded: u64, inserted: u64) -> u32 {
    const LEAST: u64 = 1 << 8;
    const MOST: u64 = 1 << 20;
    let rows = loaded + inserted;
    (rows / 8).clamp(LEAST, MOST) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_the_order_of_their_parts_and_give_them_back() {
        let (low, high) = (
            DistrictId {
                warehouse: 3,
                district: 10,
            },
            DistrictId {
                warehouse: 4,
                district: 1,
            },
        );
        assert!(low.line(MOST_ORDERS, 15) < high.line(0, 0));
        assert!(low.named(999, 3000) < high.named(0, 0));
        assert!(
            low.customer_order(7, 12) < low.customer_order(7, 11),
            "newest first"
        );
        assert!(low.customer_order(7, 0) < low.customer_order(8, MOST_ORDERS));
        assert_eq!(order_of(low.customer_order(7, 12)), 12);
        assert_eq!(of_order(high.order(99)), (high, 99));
        let most = DistrictId {
            warehouse: MOST_WAREHOUSES,
            district: 10,
        };
        assert_eq!(DistrictId::of(most.customer_order(3000, 1) >> 44), most);
    }
}
