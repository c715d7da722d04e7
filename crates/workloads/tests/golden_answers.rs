//! Risk: golden answers for other data than the generator now creates.

mod common;

use common::Table;
use std::path::PathBuf;
use tierloom_workloads::ssb::{SsbConfig, queries};

fn golden(scale_factor: &str, id: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!(
        "../../queries/ssb/golden/sf{scale_factor}/{id}.csv"
    ))
}

fn rows(scale_factor: &str, id: &str) -> Vec<Vec<String>> {
    let path = golden(scale_factor, id);
    let mut reader =
        csv::Reader::from_path(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    reader
        .records()
        .map(|record| record.unwrap().iter().map(str::to_owned).collect())
        .collect()
}

#[test]
fn golden_sums_equal_a_plain_loop_over_the_data() {
    for scale_factor in ["0.01", "0.1"] {
        let config = SsbConfig::new(scale_factor.parse().unwrap(), 1).unwrap();
        let lineorder = Table::generate(&config, "lineorder");
        let column = |name| lineorder.ints(name);
        let (date, quantity, discount) = (
            column("lo_orderdate"),
            column("lo_quantity"),
            column("lo_discount"),
        );
        let revenue = |dates: std::ops::RangeInclusive<i32>,
                       discounts: [i32; 2],
                       quantities: [i32; 2]|
         -> i64 {
            (0..lineorder.rows())
                .filter(|&row| dates.contains(&date[row]))
                .filter(|&row| (discounts[0]..=discounts[1]).contains(&discount[row]))
                .filter(|&row| (quantities[0]..=quantities[1]).contains(&quantity[row]))
                .map(|row| i64::from(column("lo_extendedprice")[row]) * i64::from(discount[row]))
                .sum()
        };
        for (id, expected) in [
            ("q1.1", revenue(19_930_101..=19_931_231, [1, 3], [0, 24])),
            ("q1.2", revenue(19_940_101..=19_940_131, [4, 6], [26, 35])),
            // Week 6 is the 36th to the 42nd day of the year.
            ("q1.3", revenue(19_940_205..=19_940_211, [5, 7], [36, 40])),
        ] {
            assert!(expected > 0, "{id} selects nothing at {scale_factor}");
            assert_eq!(
                rows(scale_factor, id),
                [[expected.to_string()]],
                "{id} at {scale_factor}"
            );
        }

        // Q4.1 joins four tables; its groups add up to one sum.
        let [customer, supplier, part] =
            ["customer", "supplier", "part"].map(|name| Table::generate(&config, name));
        let keeps = |table: &Table, name: &str, wanted: &[&str]| -> Vec<bool> {
            table
                .text(name)
                .iter()
                .map(|value| wanted.contains(&value))
                .collect()
        };
        let customers = keeps(&customer, "c_region", &["AMERICA"]);
        let suppliers = keeps(&supplier, "s_region", &["AMERICA"]);
        let parts = keeps(&part, "p_mfgr", &["MFGR#1", "MFGR#2"]);
        let profit: i64 = (0..lineorder.rows())
            .filter(|&row| customers[column("lo_custkey")[row] as usize - 1])
            .filter(|&row| suppliers[column("lo_suppkey")[row] as usize - 1])
            .filter(|&row| parts[column("lo_partkey")[row] as usize - 1])
            .map(|row| i64::from(column("lo_revenue")[row] - column("lo_supplycost")[row]))
            .sum();
        let stated: i64 = rows(scale_factor, "q4.1")
            .iter()
            .map(|row| row[2].parse::<i64>().unwrap())
            .sum();
        assert_eq!(stated, profit, "q4.1 at {scale_factor}");
    }
}

#[test]
fn every_query_has_a_golden_answer_at_every_scale() {
    for scale_factor in ["0.01", "0.1", "1"] {
        for query in queries() {
            let text = std::fs::read_to_string(golden(scale_factor, query.id)).unwrap();
            let header = text.lines().next().unwrap();
            let aggregate = if query.group == 4 {
                "profit"
            } else {
                "revenue"
            };
            assert!(
                header.split(',').any(|name| name == aggregate),
                "{} at {scale_factor}: {header}",
                query.id
            );
            assert!(
                text.ends_with('\n') && !text.contains('\r'),
                "{} at {scale_factor}",
                query.id
            );
        }
    }
}
