//! Loaded values come back equal, whatever encoding their columns have, and what the planner is
//! told about them is true.

use crate::common;
use crate::common::Numbers;
use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array,
    Int8Array, Int32Array, Int64Array, LargeStringArray, ListArray, RecordBatch, StringArray,
    StringViewArray, TimestampMicrosecondArray, UInt8Array, UInt64Array,
};
use arrow::compute::{concat, kernels::cmp};
use arrow::datatypes::{Field, Int32Type, Schema, UInt8Type};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::common::ScalarValue;
use datafusion::common::stats::Precision;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tierloom_engine::load::{ColumnPlacer, Encoding, LoadOptions, load_batches, load_partitions};
use tierloom_engine::{CodedColumn, ColumnFacts, Domain, EngineError, PlacedColumn, PlacedTable};
use tierloom_memory::{PageSize, Placement, Region, RegionOptions};
use tierloom_topology::NodeId;
use tierloom_workloads::Silent;

fn batches(chunks: &[ArrayRef]) -> (Arc<Schema>, Vec<Result<RecordBatch, EngineError>>) {
    let field = Field::new("c", chunks[0].data_type().clone(), true);
    let schema = Arc::new(Schema::new(vec![field]));
    let batch = |c: &ArrayRef| {
        Ok(RecordBatch::try_new(
            Arc::clone(&schema),
            vec![Arc::clone(c)],
        )?)
    };
    let batches = chunks.iter().map(batch).collect();
    (schema, batches)
}

fn loaded(chunks: &[ArrayRef], encoding: Encoding) -> PlacedTable {
    let (backend, topology) = common::two_nodes();
    let mut placer =
        ColumnPlacer::new(backend, &topology, PageSize::Base, 2).with_encoding(encoding);
    let (schema, batches) = batches(chunks);
    load_batches(
        "t",
        schema,
        batches.into_iter(),
        &mut placer,
        &|_| Placement::bind(NodeId(0)),
        &Silent,
        &LoadOptions::default(),
    )
    .unwrap()
}

fn whole(chunks: &[ArrayRef]) -> ArrayRef {
    let borrowed: Vec<&dyn Array> = chunks.iter().map(|c| c.as_ref()).collect();
    concat(&borrowed).unwrap()
}

fn read_back(column: &PlacedColumn, batch_rows: usize) -> ArrayRef {
    let slices: Vec<ArrayRef> = (0..column.rows())
        .step_by(batch_rows)
        .map(|start| {
            column
                .slice(start, batch_rows.min(column.rows() - start))
                .unwrap()
        })
        .collect();
    if slices.is_empty() {
        return column.slice(0, 0).unwrap();
    }
    whole(&slices)
}

/// Codes are in the order of the values, and NULL has code 0.
fn assert_order(column: &PlacedColumn, values: &ArrayRef, what: &str) {
    let Some(coded) = column.coded() else { return };
    let rows = coded.rows();
    let mut codes = vec![0; rows];
    coded.codes().unpack(0..rows, &mut codes);
    assert!(
        codes.iter().all(|c| u64::from(*c) < coded.code_count()),
        "{what}"
    );
    if rows < 2 {
        return;
    }
    let less = cmp::lt(&values.slice(0, rows - 1), &values.slice(1, rows - 1)).unwrap();
    for row in 0..rows - 1 {
        if values.is_null(row) || values.is_null(row + 1) {
            assert_eq!(
                values.is_null(row),
                coded.nullable() && codes[row] == 0,
                "{what}"
            );
        } else {
            assert_eq!(
                codes[row] < codes[row + 1],
                less.value(row),
                "{what}, row {row}"
            );
        }
    }
}

fn assert_facts(column: &PlacedColumn, values: &ArrayRef, what: &str) {
    let facts = column.facts();
    let scalars: Vec<ScalarValue> = (0..values.len())
        .filter(|row| values.is_valid(*row))
        .map(|row| ScalarValue::try_from_array(values, row).unwrap())
        .collect();
    assert_eq!(
        facts.null_count as usize,
        values.logical_null_count(),
        "{what}"
    );
    assert_eq!(column.nullable(), values.logical_null_count() > 0, "{what}");
    let least = scalars.iter().min_by(|a, b| a.partial_cmp(b).unwrap());
    let most = scalars.iter().max_by(|a, b| a.partial_cmp(b).unwrap());
    if facts.min.is_some() || facts.max.is_some() {
        assert_eq!(facts.min.as_ref(), least, "{what}");
        assert_eq!(facts.max.as_ref(), most, "{what}");
    }
    if let Precision::Exact(distinct) = facts.distinct {
        let all: HashSet<&ScalarValue> = scalars.iter().collect();
        assert_eq!(distinct, all.len(), "{what}");
    }
}

fn assert_round_trip(what: &str, chunks: &[ArrayRef]) -> PlacedTable {
    let values = whole(chunks);
    for encoding in [Encoding::Plain, Encoding::Auto] {
        let table = loaded(chunks, encoding);
        let column = &table.columns()[0];
        assert_eq!(column.data_type(), values.data_type(), "{what}");
        let odd = (values.len() / 3).max(1);
        for batch_rows in [values.len().max(1), odd, 7] {
            if values.len() / batch_rows < 5_000 {
                let back = read_back(column, batch_rows);
                assert_eq!(
                    &back, &values,
                    "{what}, {encoding:?}, batches of {batch_rows}"
                );
            }
        }
        assert_order(column, &values, what);
        if values.len() <= 5_000 {
            assert_facts(column, &values, what);
        }
        table.refresh_statistics().unwrap();
        assert_eq!(table.statistics().num_rows, Precision::Exact(values.len()));
    }
    loaded(chunks, Encoding::Auto)
}

fn encoding_of(table: &PlacedTable) -> String {
    table.columns()[0].encoding()
}

/// Splits values into uneven chunks, as sources do.
fn chunks<T: Array + 'static>(array: T) -> Vec<ArrayRef> {
    let array: ArrayRef = Arc::new(array);
    let (rows, mut start, mut parts) = (array.len(), 0, Vec::new());
    while start < rows {
        let len = (rows / 4 + 3).min(rows - start);
        parts.push(array.slice(start, len));
        start += len;
    }
    if parts.is_empty() { vec![array] } else { parts }
}

#[test]
fn integers_of_any_width_span_and_nulls_come_back_equal() {
    let mut numbers = Numbers(7);
    for bits in [0, 1, 8, 16, 24, 31, 32, 33, 64] {
        for base in [-5, i64::MIN, i64::MAX] {
            for nulls in [0, 3] {
                let mask = if bits == 64 {
                    u64::MAX
                } else {
                    (1 << bits) - 1
                };
                let mut value = || {
                    let is_null = nulls > 0 && numbers.below(nulls) == 0;
                    let value = base.wrapping_add((numbers.next() & mask) as i64);
                    (!is_null).then_some(value)
                };
                let wide: Vec<Option<i64>> = (0..60).map(|_| value()).collect();
                let what = format!("{bits} bits from {base}, nulls {nulls}");
                assert_round_trip(&what, &chunks(Int64Array::from(wide.clone())));
                let narrow = wide.iter().map(|v| v.map(|v| v as i32));
                assert_round_trip(&what, &chunks(Int32Array::from_iter(narrow)));
                let bytes = wide.iter().map(|v| v.map(|v| v as i8));
                assert_round_trip(&what, &chunks(Int8Array::from_iter(bytes)));
                let unsigned = wide.iter().map(|v| v.map(|v| v as u64));
                assert_round_trip(&what, &chunks(UInt64Array::from_iter(unsigned)));
                let days = wide.iter().map(|v| v.map(|v| v as i32));
                assert_round_trip(&what, &chunks(Date32Array::from_iter(days)));
                let times = TimestampMicrosecondArray::from_iter(wide.clone());
                assert_round_trip(&what, &chunks(times.with_timezone("+02:00")));
            }
        }
    }
}

#[test]
fn floats_of_few_digits_and_coarse_times_come_back_equal() {
    let mut numbers = Numbers::of_this_run();
    let odd = [0.1 + 0.2, f64::NAN, -0.0, f64::INFINITY, 1e300, 1e-12];
    for digits in 0..11 {
        for bits in [0, 4, 15, 23, 31, 33, 52] {
            for nulls in [0, 3] {
                let mut value = || {
                    let is_null = nulls > 0 && numbers.below(nulls) == 0;
                    let value = (numbers.next() & ((1 << bits) - 1)) as i64 - (1 << bits) / 3;
                    (!is_null).then_some(value as f64 / 10_f64.powi(digits))
                };
                let mut floats: Vec<Option<f64>> = (0..60).map(|_| value()).collect();
                let what = format!("{bits} bits, {digits} digits, nulls {nulls}");
                let table = assert_round_trip(&what, &chunks(Float64Array::from(floats.clone())));
                if digits < 10 && bits < 32 {
                    assert_ne!(encoding_of(&table), "plain", "{what}");
                }
                floats[numbers.below(60) as usize] = Some(odd[numbers.below(6) as usize]);
                let table = assert_round_trip(&what, &chunks(Float64Array::from(floats)));
                assert_eq!(encoding_of(&table), "plain", "{what}");
            }
        }
    }
    for step in [
        1,
        1_000,
        1_000_000,
        60_000_000,
        3_600_000_000,
        86_400_000_000,
    ] {
        for nulls in [0, 3] {
            let mut value = || {
                let is_null = nulls > 0 && numbers.below(nulls) == 0;
                let value = numbers.below(100_000) as i64 - 30_000;
                (!is_null).then_some(value * step)
            };
            let times: Vec<Option<i64>> = (0..60).map(|_| value()).collect();
            let what = format!("steps of {step}, nulls {nulls}");
            let times = TimestampMicrosecondArray::from(times);
            let table = assert_round_trip(&what, &chunks(times.with_timezone("+02:00")));
            assert_ne!(encoding_of(&table), "plain", "{what}");
        }
    }
}

#[test]
fn decimals_keep_sign_scale_and_values_beyond_64_bits() {
    let of = |values: Vec<Option<i128>>| {
        Decimal128Array::from(values)
            .with_precision_and_scale(38, 2)
            .unwrap()
    };
    let cents = of((0..400)
        .map(|v| (v % 9 != 0).then_some(v * 37 - 5_000))
        .collect());
    let table = assert_round_trip("negative decimals", &chunks(cents));
    assert_eq!(encoding_of(&table), "2 B offset");
    let huge = of(vec![
        Some(i128::MAX / 10),
        None,
        Some(-3),
        Some(i128::from(i64::MIN) - 1),
    ]);
    let table = assert_round_trip("decimals beyond 64 bits", &chunks(huge));
    assert_eq!(encoding_of(&table), "plain");
}

#[test]
fn extreme_integers_do_not_wrap_around() {
    let ends = [Some(i64::MIN), Some(i64::MAX), None, Some(0)];
    assert_round_trip("both ends", &chunks(Int64Array::from(ends.to_vec())));
    let low: Vec<_> = (0..2000)
        .map(|v| (v % 7 != 0).then_some(i64::MIN + v % 11))
        .collect();
    assert_round_trip("next to the lowest", &chunks(Int64Array::from(low)));
    let full: Vec<_> = vec![Some(0), Some(i64::from(u32::MAX))];
    assert_round_trip("a span of 32 bits", &chunks(Int64Array::from(full)));
    let full: Vec<_> = vec![Some(0), None, Some(i64::from(u32::MAX))];
    assert_round_trip(
        "a span of 32 bits and NULL",
        &chunks(Int64Array::from(full)),
    );
    let unsigned = vec![Some(u64::MAX), Some(0), None];
    assert_round_trip("unsigned", &chunks(UInt64Array::from(unsigned)));
}

#[test]
fn sparse_integers_become_ranks_only_while_they_are_few_and_it_pays() {
    for (distinct, nulls, expected) in [
        (65_535_i64, true, "2 B dictionary"),
        (65_536, false, "2 B dictionary"),
        (65_536, true, "4 B offset"),
        (65_537, false, "4 B offset"),
    ] {
        let rows = 300_000;
        let value = |row: i64| {
            let is_null = nulls && row % 100 == 99;
            (!is_null).then_some((row * 7 % distinct) * 1_000 - 17)
        };
        let array = Int64Array::from_iter((0..rows).map(value));
        let table = loaded(&chunks(array.clone()), Encoding::Auto);
        let what = format!("{distinct} values, nulls {nulls}");
        assert_eq!(encoding_of(&table), expected, "{what}");
        let whole: ArrayRef = Arc::new(array);
        assert_eq!(&read_back(&table.columns()[0], 16 * 1024), &whole, "{what}");
        let distinct_told = table.columns()[0].facts().distinct;
        assert_eq!(distinct_told, Precision::Exact(distinct as usize), "{what}");
    }
    // All values are different, so a dictionary would be larger than what it saves.
    let keys = Int64Array::from_iter_values((0..2_556).map(|v| v * 97));
    assert_eq!(
        encoding_of(&loaded(&chunks(keys), Encoding::Auto)),
        "3 B offset"
    );
}

#[test]
fn few_integers_with_wide_gaps_become_ranks_so_that_tables_by_code_stay_small() {
    let day = |of: i64| 19_920_101 + of / 360 * 10_000 + of % 360 / 30 * 100 + of % 30;
    for (days, rows, expected) in [
        (2_400, 60_000, "2 B dictionary"),
        // Fewer rows than would pay for the list of values.
        (2_400, 30_000, "2 B offset"),
        // As wide, with fewer gaps.
        (8_000, 200_000, "2 B offset"),
    ] {
        let array = match days {
            8_000 => Int64Array::from_iter_values((0..rows).map(|row| row * 7 % days * 5)),
            _ => Int64Array::from_iter_values((0..rows).map(|row| day(row * 7 % days))),
        };
        let table = loaded(&chunks(array.clone()), Encoding::Auto);
        assert_eq!(
            encoding_of(&table),
            expected,
            "{days} values in {rows} rows"
        );
        let whole: ArrayRef = Arc::new(array);
        assert_eq!(&read_back(&table.columns()[0], 16 * 1024), &whole);
    }
}

#[test]
fn strings_become_ranks_only_while_they_are_few_and_it_pays() {
    for (distinct, nulls, coded) in [
        (65_535, true, true),
        (65_536, false, true),
        (65_536, true, false),
        (65_537, false, false),
    ] {
        // Of a length that a view holds, and of a longer one.
        for prefix in ["no. ", "customer no. "] {
            let word = |row: usize| {
                let is_null = nulls && row % 50 == 49;
                (!is_null).then(|| format!("{prefix}{:>8}", row * 7 % distinct))
            };
            let array = StringViewArray::from_iter((0..400_000).map(word));
            let table = loaded(&chunks(array.clone()), Encoding::Auto);
            let what = format!("{distinct} words {prefix}, nulls {nulls}");
            assert_eq!(table.columns()[0].coded().is_some(), coded, "{what}");
            let whole: ArrayRef = Arc::new(array);
            assert_eq!(&read_back(&table.columns()[0], 16 * 1024), &whole, "{what}");
        }
    }
}

#[test]
fn strings_of_every_layout_come_back_equal() {
    let long = "x".repeat(100_000);
    let words = [
        "",
        "a",
        "exactly 12 b",
        "exactly 13 by",
        "Zürich",
        "zürich",
        &long,
    ];
    let mut numbers = Numbers(3);
    for nulls in [0, 4] {
        for few in [true, false] {
            let rows: Vec<Option<String>> = (0..2_000)
                .map(|row| {
                    let is_null = nulls > 0 && numbers.below(nulls) == 0;
                    let short = if few { 7 } else { 6 };
                    let word = words[numbers.below(short) as usize];
                    let text = if few {
                        word.to_owned()
                    } else {
                        format!("{word}{row}")
                    };
                    (!is_null).then_some(text)
                })
                .collect();
            let what = format!("few {few}, nulls {nulls}");
            assert_round_trip(&what, &chunks(StringViewArray::from_iter(rows.clone())));
            assert_round_trip(&what, &chunks(StringArray::from_iter(rows.clone())));
            assert_round_trip(&what, &chunks(LargeStringArray::from_iter(rows)));
        }
    }
}

#[test]
fn views_of_chunks_with_and_without_long_strings_come_back_equal() {
    let short = |row: usize| Some(format!("id{row}"));
    let long = |row: usize| Some(format!("a string of more than 12 bytes, {row}"));
    let some = |row: usize| (!row.is_multiple_of(3)).then(|| format!("id{row}"));
    let parts: [&dyn Fn(usize) -> Option<String>; 3] = [&short, &long, &some];
    for order in [[0, 1, 2], [1, 0, 1], [2, 0, 0], [0, 0, 0]] {
        let (mut row, mut chunks) = (0, Vec::<ArrayRef>::new());
        for part in order {
            let rows = row..row + 40_000;
            row = rows.end;
            let array = StringViewArray::from_iter(rows.map(parts[part]));
            // Not from the start of its buffer.
            chunks.push(Arc::new(array.slice(7, 39_000)));
        }
        let table = assert_round_trip(&format!("{order:?}"), &chunks);
        assert!(table.columns()[0].coded().is_none(), "too many for codes");
    }
}

#[test]
fn dictionaries_keep_their_type_and_those_of_one_byte_their_keys_in_place() {
    let words = |row: usize| ["RAIL", "AIR", "MAIL"][row % 3];
    let ones: DictionaryArray<UInt8Type> = (0..1_000).map(|r| Some(words(r))).collect();
    let table = assert_round_trip("keys of one byte", &chunks(ones));
    assert_eq!(encoding_of(&table), "1 B dictionary");
    assert!(table.columns()[0].is_zero_copy());
    let nulls = |row: usize| (!row.is_multiple_of(5)).then(|| words(row));
    let ones: DictionaryArray<UInt8Type> = (0..1_000).map(nulls).collect();
    let table = assert_round_trip("keys of one byte and NULLs", &chunks(ones));
    assert!(!table.columns()[0].is_zero_copy());
    let fours: DictionaryArray<Int32Type> = (0..1_000).map(nulls).collect();
    assert_round_trip("keys of four bytes", &chunks(fours));
    // NULL is among the dictionary's values, not its keys.
    let keys = UInt8Array::from_iter_values((0..90).map(|row| row % 3));
    let values: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), None, Some("a")]));
    let odd = DictionaryArray::<UInt8Type>::try_new(keys, values).unwrap();
    let table = loaded(&chunks(odd.clone()), Encoding::Auto);
    let back = read_back(&table.columns()[0], 40);
    let text =
        |array: &dyn Array| arrow::compute::cast(array, &arrow::datatypes::DataType::Utf8).unwrap();
    assert_eq!(&text(&back), &text(&odd));
}

#[test]
fn what_has_no_codes_is_kept_as_it_is() {
    let mut numbers = Numbers(11);
    let floats = Float64Array::from_iter((0..500).map(|row| match row % 5 {
        0 => None,
        1 => Some(f64::NAN),
        2 => Some(-0.0),
        3 => Some(f64::INFINITY),
        _ => Some(numbers.below(9) as f64),
    }));
    let table = loaded(&chunks(floats.clone()), Encoding::Auto);
    let bits = |array: &ArrayRef| -> Vec<Option<u64>> {
        let floats = array.as_any().downcast_ref::<Float64Array>().unwrap();
        floats.iter().map(|v| v.map(f64::to_bits)).collect()
    };
    let whole: ArrayRef = Arc::new(floats);
    assert_eq!(bits(&read_back(&table.columns()[0], 99)), bits(&whole));
    assert_eq!(table.columns()[0].facts().min, None, "a NaN has no order");
    let flags = BooleanArray::from_iter((0..777).map(|row| (row % 7 != 0).then_some(row % 3 == 0)));
    assert_round_trip("booleans", &chunks(flags));
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>((0..100).map(|row| {
        (row % 4 != 0).then(|| {
            (0..row % 6)
                .map(|v| (v != 2).then_some(v * row))
                .collect::<Vec<_>>()
        })
    }));
    let table = assert_round_trip("lists", &chunks(lists));
    assert_eq!(encoding_of(&table), "plain");
}

#[test]
fn tables_without_rows_or_with_nothing_but_nulls_can_be_read() {
    let none: Vec<Option<i64>> = Vec::new();
    assert_round_trip("no integers", &[Arc::new(Int64Array::from(none))]);
    assert_round_trip(
        "no strings",
        &[Arc::new(StringViewArray::from_iter_values([""; 0]))],
    );
    assert_round_trip(
        "no booleans",
        &[Arc::new(BooleanArray::from(vec![true; 0]))],
    );
    assert_round_trip("no floats", &[Arc::new(Float64Array::from(vec![0.0; 0]))]);
    assert_round_trip("integers", &chunks(Int32Array::from(vec![None; 100])));
    assert_round_trip(
        "strings",
        &chunks(StringArray::from(vec![None::<&str>; 100])),
    );
    let table = assert_round_trip("one value", &chunks(Int32Array::from(vec![42; 5_000])));
    assert_eq!(table.size_bytes(), 0, "a constant takes no bytes");
}

#[test]
fn sql_answers_do_not_depend_on_the_encoding() {
    let values = (0..3_000).map(|row| (row % 13 != 0).then_some(row * row % 1_777 - 400));
    let integers = chunks(Int64Array::from_iter(values));
    let answers = [Encoding::Plain, Encoding::Auto].map(|encoding| {
        let engine = common::engine(&[Arc::new(loaded(&integers, encoding))]);
        let sql = "select min(c), max(c), sum(c), count(c), count(*), count(distinct c) from t \
                   union all select min(c), max(c), sum(c), count(c), count(*), count(distinct c) from t where c > 100 order by 1";
        let planned = engine.plan("facts", sql).unwrap();
        let done = engine.execute("facts", &planned, &|| false).unwrap();
        tierloom_engine::answer::to_text(&done.batches).unwrap()
    });
    assert_eq!(answers[0], answers[1]);
    assert!(answers[0].contains("-400,"), "{}", answers[0]);
}

#[test]
fn sources_read_in_parallel_keep_their_order() {
    let (backend, topology) = common::two_nodes();
    let mut placer = ColumnPlacer::new(backend, &topology, PageSize::Base, 2);
    let chunk = |part: i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(
            (0..1_000).map(|v| part * 1_000_000 + v),
        ))
    };
    let parts: Vec<ArrayRef> = (0..5).map(chunk).collect();
    let (schema, _) = batches(&parts);
    let sources: Vec<_> = parts
        .iter()
        .map(|part| batches(std::slice::from_ref(part)).1.into_iter())
        .collect();
    let table = load_partitions(
        "t",
        schema,
        sources,
        &mut placer,
        &|_| Placement::bind(NodeId(0)),
        &Silent,
        &LoadOptions::default(),
    )
    .unwrap();
    assert_eq!(&read_back(&table.columns()[0], 512), &whole(&parts));
}

#[test]
fn loading_ends_with_the_first_error_of_source_schema_or_memory() {
    let (backend, topology) = common::two_nodes();
    let load = |batches: Vec<Result<RecordBatch, EngineError>>, options: &LoadOptions<'_>| {
        let mut placer = ColumnPlacer::new(Arc::clone(&backend), &topology, PageSize::Base, 2);
        let schema = Arc::new(Schema::new(vec![Field::new(
            "c",
            arrow::datatypes::DataType::Int64,
            true,
        )]));
        load_batches(
            "t",
            schema,
            batches.into_iter(),
            &mut placer,
            &|_| Placement::bind(NodeId(0)),
            &Silent,
            options,
        )
        .unwrap_err()
        .to_string()
    };
    let good: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["1"]));
    let plain = LoadOptions::default();
    let first = || batches(std::slice::from_ref(&good)).1;
    let mut broken = first();
    broken.push(Err(EngineError::Interrupted));
    assert_eq!(load(broken, &plain), "interrupted");
    let mut odd = first();
    odd.extend(batches(std::slice::from_ref(&text)).1);
    assert_eq!(
        load(odd, &plain),
        "table t got Utf8 for column c, which was announced as Int64"
    );
    let full = |bytes: u64| {
        Err(EngineError::Table {
            table: "t".into(),
            problem: format!("would need {} bytes", bytes > 0),
        })
    };
    let options = LoadOptions {
        check_memory: Some(&full),
    };
    assert_eq!(
        load(first(), &options),
        "table t would need true bytes (the largest column, c, takes 0.0 MiB)"
    );
}

/// The size that loading reports after its last batch, and the error if that is refused.
fn held(batches: Vec<RecordBatch>) -> (u64, String) {
    let (backend, topology) = common::two_nodes();
    let mut placer = ColumnPlacer::new(backend, &topology, PageSize::Base, 2);
    let (last, most) = (batches.len(), AtomicU64::new(0));
    let asked = AtomicUsize::new(0);
    let check = |bytes: u64| {
        most.store(bytes, Ordering::Relaxed);
        match asked.fetch_add(1, Ordering::Relaxed) + 1 == last {
            true => Err(EngineError::Table {
                table: "t".into(),
                problem: "does not fit".into(),
            }),
            false => Ok(()),
        }
    };
    let options = LoadOptions {
        check_memory: Some(&check),
    };
    let schema = batches[0].schema();
    let error = load_batches(
        "t",
        schema,
        batches.into_iter().map(Ok),
        &mut placer,
        &|_| Placement::bind(NodeId(0)),
        &Silent,
        &options,
    );
    (most.into_inner(), error.unwrap_err().to_string())
}

fn batch_of(columns: Vec<ArrayRef>) -> RecordBatch {
    let fields: Vec<Field> = (columns.iter().enumerate())
        .map(|(index, c)| Field::new(format!("c{index}"), c.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

#[test]
fn columns_of_a_file_that_share_one_buffer_count_it_once() {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let written = batch_of(vec![column; 300]);
    let mut file = Vec::new();
    let mut writer = StreamWriter::try_new(&mut file, &written.schema()).unwrap();
    writer.write(&written).unwrap();
    writer.write(&written).unwrap();
    writer.finish().unwrap();
    let reader = StreamReader::try_new(file.as_slice(), None).unwrap();
    let (bytes, error) = held(reader.map(Result::unwrap).collect());
    let rows: u64 = 2 * 300 * 1000 * 8;
    assert!(bytes >= rows && bytes < rows * 11 / 10, "{bytes}");
    // Every column has the same rows; one of them is named, with its own bytes only.
    assert!(
        error.starts_with("table t does not fit (the largest column, c"),
        "{error}"
    );
    assert!(error.ends_with(", takes 0.0 MiB)"), "{error}");
}

#[test]
fn views_of_one_buffer_count_their_strings_once() {
    let long = "a string that does not lie in its view";
    let strings: ArrayRef = Arc::new(StringViewArray::from(vec![long; 100_000]));
    let whole = strings.get_buffer_memory_size() as u64;
    let few = (0..100).map(|part| batch_of(vec![strings.slice(part * 1000, 1000)]));
    let (bytes, error) = held(few.collect());
    assert!(
        bytes <= whole && bytes >= 100_000 * 16,
        "{bytes} of {whole}"
    );
    let mib = 100_000.0 * (16.0 + long.len() as f64) / f64::from(1 << 20);
    assert!(
        error.contains(&format!("c0, takes {mib:.1} MiB")),
        "{error}"
    );
}

#[test]
fn ssb_at_scale_factor_10_takes_at_most_60_percent_of_plain_arrow() {
    // A row's size does not depend on the scale factor, except for keys: those of scale factor 10
    // need three bytes where these need fewer.
    let (backend, topology) = common::two_nodes();
    let tables = common::ssb(backend, &topology, 0.1);
    let lineorder = &tables[0];
    let at_10 = |column: &PlacedColumn| match column.name() {
        "lo_orderkey" | "lo_custkey" | "lo_partkey" => 3,
        _ => column.size_bytes() / column.rows() as u64,
    };
    let coded: u64 = lineorder.columns().iter().map(at_10).sum();
    // Fifteen 32-bit integers and two strings with 32-bit offsets.
    let text = |name: &str| -> u64 {
        let column = lineorder
            .columns()
            .iter()
            .find(|c| c.name() == name)
            .unwrap();
        let strings = arrow::compute::cast(
            &column.slice(0, column.rows()).unwrap(),
            &arrow::datatypes::DataType::Utf8,
        )
        .unwrap();
        strings
            .to_data()
            .buffers()
            .iter()
            .map(|b| b.len() as u64)
            .sum::<u64>()
            / column.rows() as u64
    };
    let plain = 15 * 4 + text("lo_orderpriority") + text("lo_shipmode");
    assert!(coded * 100 <= plain * 60, "{coded} of {plain} bytes a row");
}

#[test]
fn codes_without_a_value_and_values_out_of_order_are_refused() {
    let (backend, topology) = common::two_nodes();
    let made = |values: ArrayRef, codes: [u8; 3]| {
        let placement = Placement::bind(NodeId(0));
        let options = RegionOptions {
            page_size: PageSize::Base,
            ..RegionOptions::new("c", 4096, placement)
        };
        let mut region = Region::create(Arc::clone(&backend), &topology, options).unwrap();
        region.as_mut_slice()[..3].copy_from_slice(&codes);
        let (data_type, domain) = (values.data_type().clone(), Domain::Values(values));
        CodedColumn::new("c", data_type, Arc::new(region), 3, false, domain)
    };
    let ints = |values: [i32; 3]| -> ArrayRef { Arc::new(Int32Array::from(values.to_vec())) };
    for values in [[3, 1, 2], [1, 1, 2]] {
        let refused = made(ints(values), [0, 1, 2]).unwrap_err().to_string();
        assert!(refused.contains("do not ascend"), "{refused}");
    }
    let keys = Int8Array::from(vec![0, 1, 2]);
    let words: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "b"]));
    let twice = DictionaryArray::try_new(keys, words).unwrap();
    assert!(made(Arc::new(twice), [0, 1, 2]).is_err());
    let whole = made(ints([1, 2, 3]), [0, 1, 2]).unwrap();
    assert!(ColumnFacts::of_codes(&whole).is_ok());
    let beyond = made(ints([1, 2, 3]), [0, 3, 2]).unwrap();
    let refused = ColumnFacts::of_codes(&beyond).unwrap_err().to_string();
    assert!(refused.contains("has the code 3"), "{refused}");
}
