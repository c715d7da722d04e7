//! Joins whose keys are integers of two types.

use crate::common::Numbers;
use crate::common::both::{Both, batch};
use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use std::sync::Arc;

const TYPES: [DataType; 6] = [
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt32,
];

/// As integers of a type, NULL where it cannot hold them.
fn as_type(values: impl Iterator<Item = Option<i64>>, data_type: &DataType) -> ArrayRef {
    let values: Int64Array = values.collect();
    cast(&values, data_type).unwrap()
}

/// 20,000 rows with keys up to 100 and NULL.
fn facts(numbers: &mut Numbers, data_type: &DataType) -> RecordBatch {
    let keys = (0..20_000).map(|_| match numbers.below(105) {
        key @ 0..100 => Some(key as i64),
        _ => None,
    });
    let keys = as_type(keys, data_type);
    let values: Int64Array = (0..20_000).map(|row| Some(row % 977)).collect();
    batch(vec![("k", keys), ("v", Arc::new(values))])
}

/// 90 keys, four that only larger types have and which are like others in their low bits, and NULL.
fn dimension(data_type: &DataType) -> RecordBatch {
    let beyond = [256, 65_536, 1 << 32, -(1 << 32)].map(|far| Some(far + 7));
    let keys = (0..90).map(Some).chain(beyond).chain([None]);
    let keys = as_type(keys, data_type);
    let groups = keys.len() as i64;
    let groups: Int64Array = (0..groups).map(|row| Some(row % 5)).collect();
    batch(vec![("id", keys), ("g", Arc::new(groups))])
}

#[test]
fn keys_of_two_integer_types_are_equal_where_their_numbers_are() {
    let mut numbers = Numbers::of_this_run();
    for of_fact in &TYPES {
        let of_dimension = &TYPES[numbers.below(6) as usize];
        let facts = facts(&mut numbers, of_fact);
        let known = facts.column(0).null_count() < facts.num_rows();
        assert!(known, "no type is too small for every key");
        let both = Both::new()
            .table("f", &[facts])
            .table("d", &[dimension(of_dimension)])
            .table("wide", &[dimension(&DataType::Int64)]);
        for sql in [
            "select g, count(*), sum(v) from f join d on k = id group by g",
            "select g, count(*), sum(v) from f join wide on k = id where v > 100 group by g",
            "select d.g, wide.g, count(*) from f join d on k = d.id join wide on k = wide.id \
             group by d.g, wide.g",
        ] {
            both.same_fused(sql);
        }
        for sql in [
            "select count(*), count(id), sum(v + g) from f left join wide on k = id",
            "select count(*), count(k), sum(g) from f right join wide on k = id",
            "select count(*), count(k), count(id) from f full join wide on k = id",
            "select count(*), sum(v) from f where k in (select id from wide where g = 2)",
            "select count(*), sum(v) from f where k not in (select id from wide where g = 2)",
            "select count(*) from f where k not in (select id from wide where id is not null)",
            "select count(*) from wide where id not in (select k from f)",
            "select count(*) from wide where not exists (select 1 from f where k = id)",
            "select count(*) from f join wide on k = id and v = g",
            "select count(*) from f join wide on k is not distinct from id",
            "select count(*), sum(g) from f join wide on cast(k as bigint) = cast(id as bigint)",
            "select * from f join (select id as k, g from wide) as w using (k) where v = 3",
        ] {
            both.same(sql);
        }
    }
}

#[test]
fn a_cast_that_may_fail_stays_with_its_column() {
    let keys = [1, 2, 3, 1 << 40].into_iter().cycle().take(5_000);
    let facts = batch(vec![("k", Arc::new(Int64Array::from_iter_values(keys)))]);
    let dimension = batch(vec![("id", as_type((0..5).map(Some), &DataType::Int32))]);
    let both = Both::new().table("f", &[facts]).table("d", &[dimension]);
    let failed = both.same("select count(*) from f join d on cast(k as int) = id");
    let error = failed.rows.unwrap_err();
    assert!(error.contains("1099511627776"), "{error}");
    both.same("select count(*) from f join d on try_cast(k as int) = id");
}
