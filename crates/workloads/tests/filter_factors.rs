//! Risk: data with other selectivities than the benchmark's, so that measured queries are not
//! comparable with published ones.

mod common;

use common::Table;
use rayon::prelude::*;
use tierloom_workloads::ssb::{Lineorder, LineorderColumns, SsbConfig, queries};

/// The positions, among lineorder's integer columns, of the columns that queries filter by.
const CUSTKEY: usize = 2;
const PARTKEY: usize = 3;
const SUPPKEY: usize = 4;
const ORDERDATE: usize = 5;
const QUANTITY: usize = 7;
const DISCOUNT: usize = 10;

/// The rows of each dimension, and the quantities and discounts, that a query keeps.
struct Filter {
    date: Vec<bool>,
    customer: Vec<bool>,
    supplier: Vec<bool>,
    part: Vec<bool>,
    quantity: Vec<bool>,
    discount: Vec<bool>,
}

fn share(kept: &[bool]) -> f64 {
    kept.iter().filter(|&&keep| keep).count() as f64 / kept.len() as f64
}

struct Dimensions {
    date: Table,
    customer: Table,
    supplier: Table,
    part: Table,
}

impl Dimensions {
    fn generate(config: &SsbConfig) -> Self {
        let table = |name| Table::generate(config, name);
        Self {
            date: table("date"),
            customer: table("customer"),
            supplier: table("supplier"),
            part: table("part"),
        }
    }

    /// The predicates of a query, written a second time in Rust.
    fn filter(&self, id: &str) -> Filter {
        let text = |table: &Table, column: &str, keep: &dyn Fn(&str) -> bool| {
            table.text(column).iter().map(keep).collect()
        };
        let date = |column: &str, keep: &dyn Fn(i32) -> bool| {
            self.date
                .ints(column)
                .iter()
                .map(|&day| keep(day))
                .collect()
        };
        let mut filter = Filter {
            date: vec![true; self.date.rows()],
            customer: vec![true; self.customer.rows()],
            supplier: vec![true; self.supplier.rows()],
            part: vec![true; self.part.rows()],
            quantity: vec![true; 50],
            discount: vec![true; 11],
        };
        let customer = |column, keep: &dyn Fn(&str) -> bool| text(&self.customer, column, keep);
        let supplier = |column, keep: &dyn Fn(&str) -> bool| text(&self.supplier, column, keep);
        let part = |column, keep: &dyn Fn(&str) -> bool| text(&self.part, column, keep);
        let two_cities = |city: &str| city == "UNITED KI1" || city == "UNITED KI5";
        match id {
            "q1.1" => filter.date = date("d_year", &|year| year == 1993),
            "q1.2" => filter.date = date("d_yearmonthnum", &|month| month == 199401),
            "q1.3" => {
                let week: Vec<bool> = date("d_weeknuminyear", &|week| week == 6);
                let year: Vec<bool> = date("d_year", &|year| year == 1994);
                filter.date = week
                    .iter()
                    .zip(year)
                    .map(|(&week, year)| week && year)
                    .collect();
            }
            "q3.1" | "q3.2" | "q3.3" => {
                filter.date = date("d_year", &|year| (1992..=1997).contains(&year))
            }
            "q3.4" => filter.date = text(&self.date, "d_yearmonth", &|month| month == "Dec1997"),
            "q4.2" | "q4.3" => filter.date = date("d_year", &|year| year == 1997 || year == 1998),
            _ => {}
        }
        match id {
            "q1.1" => {
                (filter.quantity, filter.discount) =
                    (numbers(1..=50, 0..=24), numbers(0..=10, 1..=3))
            }
            "q1.2" => {
                (filter.quantity, filter.discount) =
                    (numbers(1..=50, 26..=35), numbers(0..=10, 4..=6))
            }
            "q1.3" => {
                (filter.quantity, filter.discount) =
                    (numbers(1..=50, 36..=40), numbers(0..=10, 5..=7))
            }
            "q2.1" => filter.part = part("p_category", &|category| category == "MFGR#12"),
            "q2.2" => {
                filter.part = part("p_brand1", &|brand| {
                    ("MFGR#2221"..="MFGR#2228").contains(&brand)
                })
            }
            "q2.3" => filter.part = part("p_brand1", &|brand| brand == "MFGR#2221"),
            "q3.1" => filter.customer = customer("c_region", &|region| region == "ASIA"),
            "q3.2" => filter.customer = customer("c_nation", &|nation| nation == "UNITED STATES"),
            "q3.3" | "q3.4" => filter.customer = customer("c_city", &two_cities),
            _ => {
                filter.customer = customer("c_region", &|region| region == "AMERICA");
                filter.part = match id {
                    "q4.3" => part("p_category", &|category| category == "MFGR#14"),
                    _ => part("p_mfgr", &|mfgr| mfgr == "MFGR#1" || mfgr == "MFGR#2"),
                };
            }
        }
        let region = match id {
            "q2.1" | "q4.1" | "q4.2" => Some("AMERICA"),
            "q2.2" | "q3.1" => Some("ASIA"),
            "q2.3" => Some("EUROPE"),
            _ => None,
        };
        match (id, region) {
            (_, Some(wanted)) => filter.supplier = supplier("s_region", &|region| region == wanted),
            ("q3.2" | "q4.3", _) => {
                filter.supplier = supplier("s_nation", &|nation| nation == "UNITED STATES")
            }
            ("q3.3" | "q3.4", _) => filter.supplier = supplier("s_city", &two_cities),
            _ => {}
        }
        filter
    }
}

fn numbers(all: std::ops::RangeInclusive<i32>, kept: std::ops::RangeInclusive<i32>) -> Vec<bool> {
    all.map(|number| kept.contains(&number)).collect()
}

impl Filter {
    /// This filter reduced to one of its predicates at a time, without those that keep every row.
    fn predicates(&self) -> Vec<Filter> {
        let all = |kept: &[bool]| vec![true; kept.len()];
        let open = || Filter {
            date: all(&self.date),
            customer: all(&self.customer),
            supplier: all(&self.supplier),
            part: all(&self.part),
            quantity: all(&self.quantity),
            discount: all(&self.discount),
        };
        let single = [
            Filter {
                date: self.date.clone(),
                ..open()
            },
            Filter {
                customer: self.customer.clone(),
                ..open()
            },
            Filter {
                supplier: self.supplier.clone(),
                ..open()
            },
            Filter {
                part: self.part.clone(),
                ..open()
            },
            Filter {
                quantity: self.quantity.clone(),
                ..open()
            },
            Filter {
                discount: self.discount.clone(),
                ..open()
            },
        ];
        single
            .into_iter()
            .filter(|filter| filter.expected() < 1.0)
            .collect()
    }

    /// Share of rows expected for uniform keys, from the dimension tables as generated.
    fn expected(&self) -> f64 {
        self.order_level() * self.line_level()
    }

    /// The values that all lines of an order have in common.
    fn order_level(&self) -> f64 {
        share(&self.date) * share(&self.customer)
    }

    fn line_level(&self) -> f64 {
        share(&self.supplier) * share(&self.part) * share(&self.quantity) * share(&self.discount)
    }

    /// Standard error of the share of passing rows among `orders` independent orders of 1 to 7
    /// lines (mean 4, mean square 20). Lines of an order pass or fail together in what the order
    /// decides, so this is more than a binomial error.
    fn standard_error(&self, orders: f64) -> f64 {
        let (order, line) = (self.order_level(), self.line_level());
        let of_one_order =
            order * (4.0 * line * (1.0 - line) + 20.0 * line * line) - (4.0 * order * line).powi(2);
        (of_one_order / orders).sqrt() / 4.0
    }

    fn count(&self, int32: &[Vec<i32>], position_of_date: &[u16]) -> u64 {
        let passes = |row: usize| {
            let date = position_of_date[(int32[ORDERDATE][row] - 19_920_000) as usize];
            self.date[usize::from(date)]
                && self.discount[int32[DISCOUNT][row] as usize]
                && self.quantity[int32[QUANTITY][row] as usize - 1]
                && self.customer[int32[CUSTKEY][row] as usize - 1]
                && self.supplier[int32[SUPPKEY][row] as usize - 1]
                && self.part[int32[PARTKEY][row] as usize - 1]
        };
        (0..int32[0].len()).filter(|&row| passes(row)).count() as u64
    }
}

/// Rows that pass each filter, over the whole table, chunk by chunk.
fn count_all(config: &SsbConfig, filters: &[Filter], dates: &[i32]) -> (Vec<u64>, u64) {
    let mut position_of_date = vec![0u16; 70_000];
    for (position, key) in dates.iter().enumerate() {
        position_of_date[(key - 19_920_000) as usize] = position as u16;
    }
    let plan = Lineorder::plan(config).unwrap();
    let counts = (0..plan.chunks())
        .into_par_iter()
        .map(|chunk| {
            let rows = plan.chunk_rows(chunk).len();
            let (mut int32, mut dict8) = (vec![vec![0; rows]; 15], vec![vec![0; rows]; 2]);
            let mut columns = LineorderColumns {
                int32: int32.iter_mut().map(Vec::as_mut_slice).collect(),
                dict8: dict8.iter_mut().map(Vec::as_mut_slice).collect(),
            };
            plan.fill_chunk(chunk, &mut columns).unwrap();
            filters
                .iter()
                .map(|filter| filter.count(&int32, &position_of_date))
                .collect::<Vec<u64>>()
        })
        .reduce(
            || vec![0; filters.len()],
            |left, right| {
                left.iter()
                    .zip(right)
                    .map(|(left, right)| left + right)
                    .collect()
            },
        );
    (counts, plan.rows() as u64)
}

#[test]
fn filter_factors_of_all_queries_are_the_papers() {
    let config = SsbConfig::new(1.0, 1).unwrap();
    let dimensions = Dimensions::generate(&config);
    let filters: Vec<Filter> = queries()
        .iter()
        .map(|query| dimensions.filter(query.id))
        .collect();
    let (counts, rows) = count_all(&config, &filters, dimensions.date.ints("d_datekey"));
    for ((query, filter), count) in queries().iter().zip(&filters).zip(counts) {
        // The dimensions have exactly the shares that the calculation from the domains assumes.
        let expected = filter.expected();
        assert!(
            (expected / query.filter_factor - 1.0).abs() < 1e-9,
            "{}: {expected}",
            query.id
        );
        // The fact table agrees within 4.5 standard errors: one false alarm in 150,000.
        let measured = count as f64 / rows as f64;
        let tolerance = 4.5 * filter.standard_error(config.orders() as f64);
        let paper = query.paper_filter_factor;
        let message = format!(
            "{}: measured {measured:e} +- {tolerance:e}, paper {paper:e}",
            query.id
        );
        println!("{message}, {count} rows");
        assert!(
            (measured - query.filter_factor).abs() <= tolerance,
            "{message}"
        );
        // The paper rounds calendar and quantities by less than 5%.
        assert!(
            (measured - paper).abs() <= tolerance + 0.05 * paper,
            "{message}"
        );
    }
}

/// The product of a highly selective query is a handful of rows; each of its predicates alone keeps
/// more.
#[test]
fn every_single_predicate_has_its_share() {
    let config = SsbConfig::new(0.5, 2).unwrap();
    let dimensions = Dimensions::generate(&config);
    for id in [
        "q1.1", "q1.2", "q1.3", "q2.1", "q2.3", "q3.1", "q3.2", "q3.4", "q4.2", "q4.3",
    ] {
        let predicates = dimensions.filter(id).predicates();
        assert!(predicates.len() >= 2, "{id}");
        let (counts, rows) = count_all(&config, &predicates, dimensions.date.ints("d_datekey"));
        for (number, (predicate, count)) in predicates.iter().zip(counts).enumerate() {
            let (measured, expected) = (count as f64 / rows as f64, predicate.expected());
            let tolerance = 4.5 * predicate.standard_error(config.orders() as f64);
            assert!(
                tolerance < 0.2 * expected,
                "{id}: this sample is too small to tell"
            );
            assert!(
                (measured - expected).abs() <= tolerance,
                "{id}, predicate {number}: {measured:e} for {expected:e}"
            );
        }
    }
}

#[test]
fn filter_factors_hold_for_tables_of_a_few_rows() {
    // 20 suppliers, 300 customers: regions and (for customers) nations are still uniformly
    // distributed.
    let config = SsbConfig::new(0.01, 1).unwrap();
    let dimensions = Dimensions::generate(&config);
    for id in ["q2.1", "q3.1", "q4.1", "q4.2"] {
        let factor = queries()
            .iter()
            .find(|query| query.id == id)
            .unwrap()
            .filter_factor;
        let expected = dimensions.filter(id).expected();
        assert!(
            (expected / factor - 1.0).abs() < 1e-9,
            "{id}: {expected} instead of {factor}"
        );
    }
}

#[test]
fn line_counts_average_four() {
    for (scale_factor, seed) in [(0.01, 1), (0.1, 1), (0.1, 9), (1.0, 1), (1.0, 77)] {
        let config = SsbConfig::new(scale_factor, seed).unwrap();
        let rows = Lineorder::plan(&config).unwrap().rows() as f64;
        // Lines of an order have variance 4; five standard deviations.
        let tolerance = 5.0 * 2.0 * (config.orders() as f64).sqrt();
        assert!(
            (rows - 6_000_000.0 * scale_factor).abs() < tolerance,
            "{rows} rows at {scale_factor}"
        );
    }
}
