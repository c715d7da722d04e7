//! Risk: data that depends on the number of threads, or changes unnoticed from one version to the
//! next.

mod common;

use common::Table;
use tierloom_workloads::Silent;
use tierloom_workloads::ssb::{
    ColumnValues, GENERATOR_VERSION, Lineorder, SsbConfig, dimension, tables,
};

const DIMENSIONS: [&str; 4] = ["customer", "supplier", "part", "date"];

/// All tables, in [`tables`] order.
fn everything(config: &SsbConfig) -> Vec<Vec<ColumnValues>> {
    let lineorder = Lineorder::plan(config)
        .unwrap()
        .to_columns(&Silent)
        .unwrap();
    let dimensions = DIMENSIONS.map(|table| dimension(config, table).unwrap());
    std::iter::once(lineorder).chain(dimensions).collect()
}

fn with_threads(threads: usize, config: &SsbConfig) -> Vec<Vec<ColumnValues>> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap();
    pool.install(|| everything(config))
}

#[test]
fn data_does_not_depend_on_the_number_of_threads() {
    // Large enough for several tasks in every table that is made in parallel.
    let config = SsbConfig::new(0.3, 42).unwrap();
    let one = with_threads(1, &config);
    for threads in [2, 7] {
        assert!(with_threads(threads, &config) == one, "{threads} threads");
    }
}

#[test]
fn rows_made_chunk_by_chunk_equal_the_whole() {
    let plan = Lineorder::plan(&SsbConfig::new(0.05, 3).unwrap()).unwrap();
    let whole = plan.to_columns(&Silent).unwrap();
    let order_keys = whole[0].as_int32().unwrap();
    assert!(plan.chunks() > 10);
    for chunk in 0..plan.chunks() {
        let range = plan.chunk_rows(chunk);
        let mut int32 = vec![vec![-1; range.len()]; 15];
        let mut dict8 = vec![vec![255; range.len()]; 2];
        let mut columns = tierloom_workloads::ssb::LineorderColumns {
            int32: int32.iter_mut().map(Vec::as_mut_slice).collect(),
            dict8: dict8.iter_mut().map(Vec::as_mut_slice).collect(),
        };
        plan.fill_chunk(chunk, &mut columns).unwrap();
        assert_eq!(int32[0], order_keys[range]);
    }
    assert_eq!(plan.chunk_rows(plan.chunks()), 0..0);
}

#[test]
fn other_seeds_give_other_values_in_every_random_column() {
    let [one, two] = [1, 2].map(|seed| SsbConfig::new(0.01, seed).unwrap());
    let fixed = [
        "lo_shippriority",
        "lo_orderkey",
        "c_custkey",
        "c_name",
        "s_suppkey",
        "s_name",
        "p_partkey",
    ];
    for spec in tables() {
        let (left, right) = (
            Table::generate(&one, spec.name),
            Table::generate(&two, spec.name),
        );
        for column in spec.columns {
            let prefix = |table: &Table| match table.values(column.name) {
                // Row counts of lineorder differ too, so only the common rows are compared.
                ColumnValues::Int32(values) => values
                    .iter()
                    .take(50_000)
                    .map(|&value| value.to_string())
                    .collect(),
                ColumnValues::Dict8 { codes, .. } => {
                    codes.iter().take(50_000).map(u8::to_string).collect()
                }
                ColumnValues::Text(text) => text.iter().map(str::to_owned).collect::<Vec<_>>(),
            };
            let same = prefix(&left) == prefix(&right);
            let expected = spec.name == "date"
                || (fixed.contains(&column.name) && column.name != "lo_orderkey");
            assert_eq!(same, expected, "{}", column.name);
        }
    }
}

/// FNV-1a over all values of a table, column after column, little-endian.
fn checksum(columns: &[ColumnValues]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for column in columns {
        match column {
            ColumnValues::Int32(values) => {
                values.iter().for_each(|value| add(&value.to_le_bytes()))
            }
            ColumnValues::Dict8 { codes, values } => {
                add(codes);
                values.iter().for_each(|value| add(value.as_bytes()));
            }
            ColumnValues::Text(text) => {
                text.offsets
                    .iter()
                    .for_each(|offset| add(&offset.to_le_bytes()));
                add(&text.bytes);
            }
        }
    }
    hash
}

#[test]
fn data_of_this_generator_version_never_changes() {
    let config = SsbConfig::new(0.01, 1).unwrap();
    let actual: Vec<(&str, u64)> = tables()
        .iter()
        .zip(everything(&config))
        .map(|(spec, columns)| (spec.name, checksum(&columns)))
        .collect();
    let expected = [
        ("lineorder", 0x69cf_34ec_ec1f_b9cb),
        ("customer", 0x0916_d932_f7df_5330),
        ("supplier", 0x44c0_0d88_c618_bfcd),
        ("part", 0x87f1_ef6a_1456_eaed),
        ("date", 0xc53d_0628_0708_8576),
    ];
    assert_eq!(
        (GENERATOR_VERSION, actual.as_slice()),
        (1, expected.as_slice()),
        "the data has changed: raise GENERATOR_VERSION, store the new checksums and run scripts/golden_ssb.py"
    );
}
