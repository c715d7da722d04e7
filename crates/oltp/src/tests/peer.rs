//! What published stores are given to do is what this store does.

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;

use super::{memory, seed, topology};
use crate::tpcc::{KEY_VALUE_TABLES, KeyValueAbort, KeyValueTpcc, KeyValues, Tpcc, TpccSizes};
use crate::{Abort, Transactions};

type Rows = Vec<BTreeMap<u64, Vec<u8>>>;

impl KeyValues for Rows {
    type Error = Infallible;

    fn get(
        &mut self,
        table: usize,
        key: u64,
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Infallible> {
        self[table]
            .get(&key)
            .into_iter()
            .for_each(|value| show(value));
        Ok(())
    }

    fn put(&mut self, table: usize, key: u64, value: &[u8]) -> Result<(), Infallible> {
        self[table].insert(key, value.to_vec());
        Ok(())
    }

    fn scan(
        &mut self,
        table: usize,
        (first, last): (u64, u64),
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Infallible> {
        let values = self[table].range(first..=last);
        values.for_each(|(_, value)| show(value));
        Ok(())
    }
}

fn rows(tpcc: &Tpcc) -> Rows {
    let of = |table| {
        let mut rows = BTreeMap::new();
        KeyValueTpcc::rows(tpcc, table, &mut |key, value| {
            rows.insert(key, value.to_vec());
        });
        rows
    };
    (0..KEY_VALUE_TABLES.len()).map(of).collect()
}

#[test]
fn a_peer_does_the_same_work_and_its_rows_are_those_of_the_store() {
    let seed = seed();
    let topology = topology();
    let sizes = TpccSizes {
        warehouses: 2,
        customers: 30,
        items: 50,
        room_orders: 4000,
    };
    let tpcc = Tpcc::load(sizes, seed, &memory(&topology), 1).unwrap();
    let peer = KeyValueTpcc::new(&tpcc);
    let (mut other, mut session) = (rows(&tpcc), tpcc.store().session());
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut seen = HashSet::new();
    // One order in a hundred is rolled back, so that now and then it takes more of them.
    let mut drawn = 0;
    while drawn < 1000 || seen.len() < 3 {
        drawn += 1;
        let (kind, input) = tpcc.draw(&mut rng);
        if kind > 1 {
            continue;
        }
        let before = other.clone();
        let done = peer.transact(&mut other, &input);
        match tpcc.execute(&mut session, &input) {
            Ok(_) => assert!(matches!(done, Ok(true))),
            Err(Abort::RolledBack) => {
                assert!(matches!(done, Err(KeyValueAbort::RolledBack)));
                other = before;
            }
            Err(error) => panic!("{error}"),
        }
        seen.insert((kind, done.is_ok()));
    }
    assert_eq!(seen.len(), 3, "both kinds, and orders rolled back");
    for (table, (own, other)) in rows(&tpcc).iter().zip(&other).enumerate() {
        assert!(own == other, "{}", KEY_VALUE_TABLES[table]);
    }
}
