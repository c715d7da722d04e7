//! The generated data has the sizes of the specifications, and is the same for any number of
//! threads.

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use tierloom_tpc::{Benchmark, TpcError};

fn whole(benchmark: Benchmark, table: &str, scale_factor: f64, threads: usize) -> RecordBatch {
    let source = benchmark.source(table, scale_factor).unwrap();
    let batches: Vec<RecordBatch> = source
        .batches(4096, threads)
        .collect::<Result<_, _>>()
        .unwrap();
    assert!(batches.iter().all(|b| b.schema() == source.schema()));
    concat_batches(&source.schema(), &batches).unwrap()
}

#[test]
fn small_tables_have_the_rows_that_the_specifications_give() {
    let h = [
        ("part", 2000),
        ("supplier", 100),
        ("partsupp", 8000),
        ("customer", 1500),
        ("orders", 15_000),
        ("nation", 25),
        ("region", 5),
    ];
    for (table, rows) in h {
        assert_eq!(
            whole(Benchmark::TpcH, table, 0.01, 2).num_rows(),
            rows,
            "{table}"
        );
    }
    let ds = [
        ("date_dim", 73_049),
        ("time_dim", 86_400),
        ("household_demographics", 7200),
        ("income_band", 20),
        ("ship_mode", 20),
    ];
    for (table, rows) in ds {
        assert_eq!(
            whole(Benchmark::TpcDs, table, 0.01, 2).num_rows(),
            rows,
            "{table}"
        );
    }
}

#[test]
fn expected_rows_are_those_of_the_specifications_at_scale_factor_one() {
    let rows = |benchmark: Benchmark, table| benchmark.source(table, 1.0).unwrap().expected_rows();
    for (table, expected) in [
        ("lineitem", 6_001_215),
        ("orders", 1_500_000),
        ("partsupp", 800_000),
        ("nation", 25),
    ] {
        assert_eq!(rows(Benchmark::TpcH, table), expected);
    }
    let ds = [
        ("store_sales", 2_880_404),
        ("catalog_sales", 1_441_548),
        ("web_sales", 719_384),
        ("store_returns", 287_514),
        ("inventory", 11_745_000),
        ("customer", 100_000),
        ("customer_demographics", 1_920_800),
        ("item", 18_000),
    ];
    for (table, expected) in ds {
        assert_eq!(rows(Benchmark::TpcDs, table), expected, "{table}");
    }
}

#[test]
fn expectations_hold_for_generated_tables() {
    for benchmark in [Benchmark::TpcH, Benchmark::TpcDs] {
        for table in benchmark.tables() {
            let expected = benchmark.source(table, 0.01).unwrap().expected_rows() as f64;
            let rows = whole(benchmark, table, 0.01, 2).num_rows() as f64;
            let tolerance = if table.ends_with("sales") || table.ends_with("returns") {
                0.10
            } else {
                0.02
            };
            assert!(
                (rows / expected - 1.0).abs() <= tolerance,
                "{table}: {rows} rows, {expected} expected"
            );
        }
    }
}

#[test]
fn any_number_of_threads_makes_the_same_rows_in_the_same_order() {
    let tables = [
        (Benchmark::TpcH, "lineitem", 0.1),
        (Benchmark::TpcH, "partsupp", 0.2),
        (Benchmark::TpcDs, "store_sales", 0.1),
        (Benchmark::TpcDs, "store_returns", 0.5),
        (Benchmark::TpcDs, "inventory", 0.1),
        (Benchmark::TpcDs, "customer_demographics", 0.01),
        (Benchmark::TpcDs, "customer", 1.0),
        (Benchmark::TpcDs, "customer_address", 10.0),
    ];
    for (benchmark, table, scale_factor) in tables {
        let source = benchmark.source(table, scale_factor).unwrap();
        assert!(
            source.parts(3) > 1,
            "{table} must have parts for this test to mean anything"
        );
        let one = whole(benchmark, table, scale_factor, 1);
        assert!(one == whole(benchmark, table, scale_factor, 3), "{table}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_threads() {
    let source = Benchmark::TpcH.source("lineitem", 10.0).unwrap();
    let mut batches = source.batches(1000, 2);
    assert!(batches.next().unwrap().is_ok());
    // Drop joins the threads, so the test hangs or takes minutes if they continue.
    drop(batches);
}

#[test]
fn tables_and_scale_factors_that_do_not_exist_are_refused() {
    let error = Benchmark::TpcH.source("lineorder", 1.0).unwrap_err();
    assert!(matches!(error, TpcError::NoTable { .. }) && error.to_string().contains("lineitem"));
    for scale_factor in [0.0, -1.0, f64::NAN, f64::INFINITY, 0.001, 5000.0] {
        let error = Benchmark::TpcDs.source("item", scale_factor).unwrap_err();
        assert!(matches!(error, TpcError::ScaleFactor { .. }));
    }
}
