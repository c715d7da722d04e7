//! Risk: rows that break the schema: dangling keys, values out of range, lines of an order that
//! contradict each other.

mod common;

use common::Table;
use std::collections::{HashMap, HashSet};
use tierloom_workloads::ssb::{ColumnType, ColumnValues, SsbConfig, tables};

fn config(scale_factor: f64) -> SsbConfig {
    SsbConfig::new(scale_factor, 1).unwrap()
}

#[test]
fn foreign_keys_all_have_a_target_and_reach_every_row() {
    let config = config(0.1);
    let lineorder = Table::generate(&config, "lineorder");
    for spec in tables()[0].columns {
        let Some((target, column)) = spec.foreign_key else {
            continue;
        };
        let keys: HashSet<i32> = Table::generate(&config, target)
            .ints(column)
            .iter()
            .copied()
            .collect();
        let used: HashSet<i32> = lineorder.ints(spec.name).iter().copied().collect();
        assert!(
            used.is_subset(&keys),
            "{} has keys that {target} lacks",
            spec.name
        );
        // 150,000 orders over at most 3,000 customers, 600,000 lines over 20,000 parts: a row
        // without any is improbable.
        // Commit dates start 30 days late.
        let missing = keys.len() - used.len();
        assert!(
            missing == if spec.name == "lo_commitdate" { 30 } else { 0 },
            "{}: {missing}",
            spec.name
        );
    }
}

#[test]
fn primary_keys_are_dense_and_unique() {
    let config = config(0.1);
    for (table, key) in [
        ("customer", "c_custkey"),
        ("supplier", "s_suppkey"),
        ("part", "p_partkey"),
    ] {
        let rows = config.rows(table).unwrap() as i32;
        assert!(
            Table::generate(&config, table)
                .ints(key)
                .iter()
                .copied()
                .eq(1..=rows),
            "{table}"
        );
    }
    let lineorder = Table::generate(&config, "lineorder");
    let (orders, lines) = (
        lineorder.ints("lo_orderkey"),
        lineorder.ints("lo_linenumber"),
    );
    assert_eq!((orders[0], lines[0]), (1, 1));
    assert_eq!(*orders.last().unwrap() as u64, config.orders());
    for row in 1..orders.len() {
        let next_line = orders[row] == orders[row - 1] && lines[row] == lines[row - 1] + 1;
        let next_order = orders[row] == orders[row - 1] + 1 && lines[row] == 1;
        assert!(next_line || next_order, "row {row}");
    }
    assert_eq!(lines.iter().max(), Some(&7));
}

#[test]
fn lines_of_an_order_agree_on_its_values() {
    let lineorder = Table::generate(&config(0.05), "lineorder");
    let orders = lineorder.ints("lo_orderkey");
    let ColumnValues::Dict8 {
        codes: priority, ..
    } = lineorder.values("lo_orderpriority")
    else {
        panic!("not Dict8")
    };
    for column in [
        "lo_custkey",
        "lo_orderdate",
        "lo_ordtotalprice",
        "lo_shippriority",
    ] {
        let values = lineorder.ints(column);
        assert!(
            (1..orders.len())
                .all(|row| orders[row] != orders[row - 1] || values[row] == values[row - 1]),
            "{column}"
        );
    }
    assert!(
        (1..orders.len())
            .all(|row| orders[row] != orders[row - 1] || priority[row] == priority[row - 1])
    );

    let (revenue, tax) = (lineorder.ints("lo_revenue"), lineorder.ints("lo_tax"));
    let mut totals: HashMap<i32, i64> = HashMap::new();
    for row in 0..orders.len() {
        *totals.entry(orders[row]).or_default() +=
            i64::from(revenue[row]) * i64::from(100 + tax[row]) / 100;
    }
    let stated = lineorder.ints("lo_ordtotalprice");
    assert!((0..orders.len()).all(|row| i64::from(stated[row]) == totals[&orders[row]]));
}

#[test]
fn prices_follow_from_part_quantity_and_discount() {
    let lineorder = Table::generate(&config(0.05), "lineorder");
    let column = |name| lineorder.ints(name);
    for row in 0..lineorder.rows() {
        let part = i64::from(column("lo_partkey")[row]);
        let price = 90_000 + part / 10 % 20_001 + part % 1_000 * 100;
        let extended = price * i64::from(column("lo_quantity")[row]);
        let discount = i64::from(column("lo_discount")[row]);
        assert_eq!(i64::from(column("lo_extendedprice")[row]), extended);
        assert_eq!(
            i64::from(column("lo_revenue")[row]),
            extended * (100 - discount) / 100
        );
        assert_eq!(i64::from(column("lo_supplycost")[row]), price * 6 / 10);
        assert!(i32::try_from(extended * discount).is_ok());
    }
}

#[test]
fn commit_dates_lie_30_to_90_days_after_the_order_or_on_the_last_day() {
    let config = config(0.05);
    let lineorder = Table::generate(&config, "lineorder");
    let date = Table::generate(&config, "date");
    let position: HashMap<i32, usize> = date.ints("d_datekey").iter().copied().zip(0..).collect();
    let mut delays = HashSet::new();
    for (ordered, committed) in lineorder
        .ints("lo_orderdate")
        .iter()
        .zip(lineorder.ints("lo_commitdate"))
    {
        let delay = position[committed] - position[ordered];
        if position[committed] < 2555 {
            assert!((30..=90).contains(&delay));
            delays.insert(delay);
        } else {
            assert!(delay <= 90);
        }
    }
    assert_eq!(delays.len(), 61);
}

#[test]
fn values_stay_inside_the_declared_ranges_and_distinct_counts() {
    let config = config(1.0);
    for spec in tables() {
        // Lineorder at a tenth of its size: large enough to contain every value of its small
        // domains.
        let sized = if spec.name == "lineorder" {
            self::config(0.1)
        } else {
            config
        };
        let table = Table::generate(&sized, spec.name);
        for column in spec.columns {
            let statistics = sized.column_statistics(spec.name, column.name).unwrap();
            match (table.values(column.name), column.ty) {
                (ColumnValues::Int32(values), ColumnType::Int32) => {
                    let (min, max) = statistics
                        .range
                        .unwrap_or_else(|| panic!("{} has no range", column.name));
                    let inside = values
                        .iter()
                        .all(|&value| (min..=max).contains(&i64::from(value)));
                    assert!(inside, "{} leaves {min}..={max}", column.name);
                    let distinct = values.iter().collect::<HashSet<_>>().len() as u64;
                    assert!(
                        statistics.distinct.is_none_or(|bound| distinct <= bound),
                        "{}",
                        column.name
                    );
                    if column.distinct.is_some() && column.foreign_key.is_none() {
                        assert_eq!(Some(distinct), column.distinct, "{}", column.name);
                    }
                }
                (ColumnValues::Dict8 { codes, values }, ColumnType::Dict8) => {
                    let used: HashSet<u8> = codes.iter().copied().collect();
                    assert_eq!(used.len(), values.len(), "{}", column.name);
                    assert_eq!(
                        Some(values.len() as u64),
                        column.distinct,
                        "{}",
                        column.name
                    );
                    assert!(codes.iter().all(|&code| usize::from(code) < values.len()));
                }
                (ColumnValues::Text(text), ColumnType::Text) => {
                    let distinct = text.iter().collect::<HashSet<_>>().len() as u64;
                    assert_eq!(
                        text.iter().count(),
                        text.len(),
                        "{} is not text throughout",
                        column.name
                    );
                    if let Some(expected) = column.distinct {
                        assert_eq!(distinct, expected, "{}", column.name);
                    }
                }
                (_, ty) => panic!("{} is not stored as {ty:?}", column.name),
            }
        }
    }
}

#[test]
fn hierarchies_nest_and_share_rows_evenly() {
    let config = config(1.0);
    for (table, letter, rows) in [("customer", "c", 30_000), ("supplier", "s", 2_000)] {
        let table = Table::generate(&config, table);
        let column = |name: &str| table.text(&format!("{letter}_{name}"));
        let mut parents: HashMap<&str, &str> = HashMap::new();
        let mut cities: HashMap<&str, usize> = HashMap::new();
        for (((region, nation), city), phone) in column("region")
            .iter()
            .zip(column("nation").iter())
            .zip(column("city").iter())
            .zip(column("phone").iter())
        {
            assert_eq!(*parents.entry(nation).or_insert(region), region);
            assert_eq!(city.len(), 10);
            assert_eq!(city[..9].trim_end(), &nation[..nation.len().min(9)]);
            assert_eq!(phone.len(), 15);
            *cities.entry(city).or_default() += 1;
        }
        assert_eq!((parents.len(), cities.len()), (25, 250));
        assert!(cities.values().all(|&count| count == rows / 250));
    }
    let part = Table::generate(&config, "part");
    let mut brands: HashMap<&str, usize> = HashMap::new();
    let levels = part
        .text("p_mfgr")
        .iter()
        .zip(part.text("p_category").iter())
        .zip(part.text("p_brand1").iter());
    for ((mfgr, category), brand) in levels {
        assert!(
            category.starts_with(mfgr) && category.len() == 7 && brand.starts_with(category),
            "{brand}"
        );
        *brands.entry(brand).or_default() += 1;
    }
    assert_eq!(brands.len(), 1000);
    assert!(brands.values().all(|&count| count == 200));
}
