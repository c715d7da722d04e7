//! Tables in a pool: what is attached is what was written, for every type and encoding, and no
//! changed byte gets into an answer.

use crate::common;
use crate::common::Numbers;
use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    DurationSecondArray, FixedSizeBinaryArray, Float64Array, Int16Array, Int64Array,
    LargeStringArray, ListArray, NullArray, RecordBatch, StringArray, StringViewArray, StructArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow::datatypes::{Field, Int32Type, Schema, UInt8Type};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use tierloom_engine::load::{ColumnPlacer, Encoding, LoadOptions, load_batches};
use tierloom_engine::pooled::{self, PooledTable, Sweep, Verification};
use tierloom_engine::{EngineError, PlacedTable};
use tierloom_memory::{PageSize, Placement};
use tierloom_pool::{Attached, CreateOptions, OpenOptions, Pool, PoolError};
use tierloom_topology::NodeId;
use tierloom_workloads::Silent;

/// Values below a bound, some of them NULL.
fn values(numbers: &mut Numbers, rows: usize) -> Vec<Option<u64>> {
    let bound = [1, 2, 200, 60_000, 1 << 20, u64::MAX][numbers.below(6) as usize];
    let nulls = [0, 0, 3, 1][numbers.below(4) as usize];
    let mut value = || match nulls {
        0 => Some(numbers.below(bound)),
        n => (numbers.below(4) >= n).then(|| numbers.below(bound)),
    };
    (0..rows).map(|_| value()).collect()
}

fn words(values: &[Option<u64>]) -> impl Iterator<Item = Option<String>> {
    // Short ones lie in views, long ones behind them.
    let word = |value: &Option<u64>| {
        value.map(|v| match v % 3 {
            0 => format!("w{v}"),
            1 => format!("a longer word of number {v}"),
            _ => String::new(),
        })
    };
    values.iter().map(word)
}

/// A column of one of all kinds.
fn column(kind: usize, numbers: &mut Numbers, rows: usize) -> ArrayRef {
    let values = values(numbers, rows);
    let as_i64 = || values.iter().map(|v| v.map(|v| v as i64));
    let small = || values.iter().map(|v| v.map(|v| (v % 1000) as i32));
    match kind {
        0 => Arc::new(as_i64().collect::<Int64Array>()),
        1 => Arc::new(values.iter().copied().collect::<UInt64Array>()),
        2 => Arc::new(
            as_i64()
                .map(|v| v.map(|v| v as i16))
                .collect::<Int16Array>(),
        ),
        3 => Arc::new(small().collect::<Date32Array>()),
        4 => {
            // Any, or whole seconds.
            let whole = numbers.below(2) == 0;
            let second = |v: i64| v % 100_000 * 1_000_000;
            let times = as_i64().map(|v| if whole { v.map(second) } else { v });
            let times: TimestampMicrosecondArray = times.collect();
            Arc::new(times.with_timezone("+01:00"))
        }
        5 => Arc::new(
            small()
                .map(|v| v.map(i64::from))
                .collect::<Time64MicrosecondArray>(),
        ),
        6 => Arc::new(as_i64().collect::<DurationSecondArray>()),
        7 => {
            let array: Decimal128Array = as_i64().map(|v| v.map(i128::from)).collect();
            Arc::new(array.with_precision_and_scale(25, 3).unwrap())
        }
        8 => {
            // Any, or cents.
            let decimal = numbers.below(2) == 0;
            let float = |v: u64| match v % 5 {
                _ if decimal => (v % 10_000_000) as f64 / 100.0,
                0 => f64::NAN,
                1 => -0.0,
                v => v as f64 / 7.0,
            };
            let floats = values.iter().map(|v| v.map(float));
            Arc::new(floats.collect::<Float64Array>())
        }
        9 => Arc::new(
            values
                .iter()
                .map(|v| v.map(|v| v % 2 == 0))
                .collect::<BooleanArray>(),
        ),
        _ => text_or_nested(kind, &values),
    }
}

/// The kinds without a width of their own.
fn text_or_nested(kind: usize, values: &[Option<u64>]) -> ArrayRef {
    let as_i64 = || values.iter().map(|v| v.map(|v| v as i64));
    let small = || values.iter().map(|v| v.map(|v| (v % 1000) as i32));
    match kind {
        10 => Arc::new(words(values).collect::<StringArray>()),
        11 => Arc::new(words(values).collect::<LargeStringArray>()),
        12 => Arc::new(words(values).collect::<StringViewArray>()),
        13 => {
            let words: Vec<Option<String>> = words(values).collect();
            let words = words.iter().map(Option::as_deref);
            Arc::new(words.collect::<DictionaryArray<Int32Type>>())
        }
        14 => {
            let words = small().map(|v| v.map(|v| format!("k{}", v % 200)));
            let words: Vec<Option<String>> = words.collect();
            let words = words.iter().map(Option::as_deref);
            Arc::new(words.collect::<DictionaryArray<UInt8Type>>())
        }
        15 => {
            let lists = values.iter().map(|v| {
                v.map(|v| {
                    (0..v % 4)
                        .map(|i| (i != 2).then_some(i as i32))
                        .collect::<Vec<_>>()
                })
            });
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))
        }
        16 => {
            let text: ArrayRef = Arc::new(words(values).collect::<StringArray>());
            let number: ArrayRef = Arc::new(as_i64().collect::<Int64Array>());
            let field = |name, array: &ArrayRef| {
                Arc::new(Field::new(name, array.data_type().clone(), true))
            };
            let fields = vec![(field("a", &text), text), (field("b", &number), number)];
            Arc::new(StructArray::from(fields))
        }
        17 => {
            let bytes = values.iter().map(|v| v.map(u64::to_le_bytes));
            let array = FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, 8);
            Arc::new(array.unwrap())
        }
        _ => Arc::new(NullArray::new(values.len())),
    }
}

const KINDS: usize = 19;

fn loaded(columns: &[ArrayRef], encoding: Encoding) -> PlacedTable {
    let (backend, topology) = common::two_nodes();
    let mut placer =
        ColumnPlacer::new(backend, &topology, PageSize::Base, 2).with_encoding(encoding);
    let field =
        |(i, c): (usize, &ArrayRef)| Field::new(format!("c{i}"), c.data_type().clone(), true);
    let fields: Vec<Field> = columns.iter().enumerate().map(field).collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns.to_vec());
    load_batches(
        "t",
        schema,
        std::iter::once(batch.map_err(EngineError::from)),
        &mut placer,
        &|_| Placement::bind(NodeId(0)),
        &Silent,
        &LoadOptions::default(),
    )
    .unwrap()
}

fn pool(path: &Path, mib: u64) -> Pool {
    let options = CreateOptions {
        file_bytes: mib << 20,
        ..CreateOptions::default()
    };
    Pool::create(path, &[], &options, &OpenOptions::default()).unwrap()
}

fn sealed(pool: &Pool, table: &PlacedTable) {
    let finished = pooled::write(pool, "t", table, serde_json::json!({ "from": "test" }));
    pool.seal_together(vec![finished.unwrap()]).unwrap();
}

fn attached(pool: &Pool, verification: Verification) -> PooledTable {
    pooled::attach(pool, "t", verification).unwrap()
}

/// All rows, in batches, so that columns are used part by part.
fn rows(table: &PlacedTable) -> Result<Vec<RecordBatch>, EngineError> {
    let batch = |start| table.batch(start, 1000.min(table.rows() - start));
    (0..table.rows()).step_by(1000).map(batch).collect()
}

#[test]
fn random_tables_of_all_types_come_back_equal_with_all_that_the_planner_knows() {
    let mut numbers = Numbers::of_this_run();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pool");
    drop(pool(&path, 64));
    for round in 0..12 {
        let count = [0, 1, 70, 5000][numbers.below(4) as usize];
        let kinds = 0..KINDS;
        let columns: Vec<ArrayRef> = kinds.map(|k| column(k, &mut numbers, count)).collect();
        let encoding = [Encoding::Auto, Encoding::Plain][numbers.below(2) as usize];
        let table = loaded(&columns, encoding);
        if round % 3 == 0 {
            table.refresh_statistics().unwrap();
        }
        let pool = OpenOptions::default().open(&path).unwrap();
        sealed(&pool, &table);
        drop(pool);
        let pool = OpenOptions::default().open(&path).unwrap();
        let way = [
            Verification::FirstUse,
            Verification::All,
            Verification::Manifest,
        ];
        let found = attached(&pool, way[numbers.below(3) as usize]);
        assert_eq!(found.note()["from"], "test");
        let found = found.table();
        assert_eq!(found.schema(), table.schema());
        assert_eq!(found.statistics(), table.statistics());
        for (found, column) in found.columns().iter().zip(table.columns()) {
            assert_eq!(found.encoding(), column.encoding(), "{}", column.name());
            assert_eq!(found.nullable(), column.nullable(), "{}", column.name());
            assert_eq!(found.size_bytes(), column.size_bytes());
            assert_eq!(found.output_bytes(), column.output_bytes());
            assert_eq!(found.is_zero_copy(), column.is_zero_copy());
            assert!(!found.is_movable() && column.is_movable());
        }
        assert_eq!(rows(found).unwrap(), rows(&table).unwrap());
        let verified = found.columns().iter().map(|c| c.pooled().unwrap());
        assert!(verified.clone().all(|state| !state.damaged));
        // Written again from the pool: what was attached is as good as what was loaded.
        let again = Arc::clone(found);
        sealed(&pool, &again);
        let twice = attached(&pool, Verification::FirstUse);
        assert_eq!(rows(twice.table()).unwrap(), rows(&table).unwrap());
        assert_eq!(twice.table().statistics(), table.statistics());
    }
}

#[test]
fn rows_are_read_in_place_and_stay_when_table_and_pool_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pool");
    let pool = pool(&path, 64);
    let words: StringViewArray = (0..5000)
        .map(|i| Some(format!("a long word {i:07}")))
        .collect();
    let floats: Float64Array = (0..5000).map(|i| Some(f64::from(i))).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(words), Arc::new(floats)];
    sealed(&pool, &loaded(&columns, Encoding::Plain));
    let table = attached(&pool, Verification::FirstUse);
    let batch = table.table().batch(100, 50).unwrap();
    for (array, column) in batch.columns().iter().zip(table.table().columns()) {
        let region = &column.regions()[0];
        for buffer in array.to_data().buffers() {
            assert!(
                region.contains(buffer.as_ptr() as usize),
                "{}",
                column.name()
            );
        }
    }
    pool.drop_table("t").unwrap();
    drop((table, pool));
    let expected: ArrayRef = columns[0].slice(100, 50);
    assert_eq!(batch.column(0), &expected);
    // The batch still holds the pool.
    let refused = OpenOptions::default().open(&path).unwrap_err();
    assert!(matches!(refused, PoolError::Managed { .. }), "{refused}");
    drop((batch, expected));
    assert_eq!(
        OpenOptions::default()
            .open(&path)
            .unwrap()
            .space()
            .used_bytes,
        0
    );
}

/// A table of a pool in a file, and where its data lie in the file.
struct InFile {
    file: File,
    data: std::ops::Range<u64>,
}

fn in_file(path: &Path, pool: &Pool) -> InFile {
    let table = attached(pool, Verification::Manifest);
    let data = table.attached().bytes();
    let file = fs::read(path).unwrap();
    let at = file.windows(data.len()).rposition(|part| part == data);
    let start = at.expect("the file has the data in one piece") as u64;
    InFile {
        file: File::options().write(true).read(true).open(path).unwrap(),
        data: start..start + data.len() as u64,
    }
}

impl InFile {
    /// Changes one bit, and changes it back with the same call.
    fn flip(&self, at: u64, bit: u64) {
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, at).unwrap();
        byte[0] ^= 1 << bit;
        self.file.write_all_at(&byte, at).unwrap();
    }
}

#[test]
fn a_changed_byte_is_found_before_a_row_is_given_out() {
    let mut numbers = Numbers::of_this_run();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pool");
    let pool = pool(&path, 64);
    let columns: Vec<ArrayRef> = (0..KINDS).map(|k| column(k, &mut numbers, 700)).collect();
    let table = loaded(&columns, Encoding::Auto);
    sealed(&pool, &table);
    let place = in_file(&path, &pool);
    let bytes = place.data.end - place.data.start;
    // Each once in a few runs: the table is one chunk, so each costs reading it all.
    for _ in 0..150 {
        let at = place.data.start + numbers.below(bytes);
        let bit = numbers.below(8);
        place.flip(at, bit);
        let found = attached(&pool, Verification::FirstUse);
        let chosen = numbers.below(KINDS as u64) as usize;
        let column = &found.table().columns()[chosen];
        if column.size_bytes() == 0 {
            // One value, whose codes take no bytes.
            place.flip(at, bit);
            continue;
        }
        let read = column.slice(numbers.below(600) as usize, 100);
        let error = read.expect_err("a changed byte").to_string();
        assert!(error.contains("is damaged in bytes"), "{error}");
        assert!(column.take(0, 100, &[7]).is_err());
        assert!(column.measured_facts().is_err());
        assert!(pooled::attach(&pool, "t", Verification::All).is_err());
        place.flip(at, bit);
        let whole = found.table().columns()[chosen].slice(0, 700).unwrap();
        assert_eq!(&whole, &table.columns()[chosen].slice(0, 700).unwrap());
    }
    assert!(pool.status().regions.iter().all(|region| region.damaged));
}

#[test]
fn chunks_are_checked_as_rows_of_them_are_used_and_the_sweep_checks_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pool");
    let pool = pool(&path, 128);
    // Four bytes a row: three chunks of codes, and four of words that have no fixed place.
    let count = 1_500_000;
    let codes: Int64Array = (0..count).map(|i| Some(i * 1001)).collect();
    let words: StringArray = (0..count).map(|i| Some(format!("{i}"))).collect();
    let table = loaded(&[Arc::new(codes), Arc::new(words)], Encoding::Auto);
    sealed(&pool, &table);
    let found = attached(&pool, Verification::FirstUse);
    let columns = found.table().columns();
    let checked = |i: usize| columns[i].pooled().unwrap().verified.unwrap();
    assert_eq!((checked(0).chunks, checked(0).of_chunks), (0, 3));
    columns[0].slice(0, 10).unwrap();
    assert_eq!((checked(0).chunks, checked(1).chunks), (1, 0));
    columns[0].take(count as usize - 10, 10, &[3]).unwrap();
    assert_eq!(checked(0).chunks, 2);
    columns[1].slice(7, 1).unwrap();
    assert_eq!(checked(1).chunks, checked(1).of_chunks);
    let before = found.verified();
    assert!(before.chunks < before.of_chunks);
    let sweep = Sweep::start(vec![Arc::downgrade(found.attached())]);
    let start = std::time::Instant::now();
    while found.verified().chunks < before.of_chunks {
        assert!(start.elapsed().as_secs() < 60, "the sweep ends");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop(sweep);
    assert_eq!(checked(0).chunks, 3);
    // Believed without a check.
    let believed = attached(&pool, Verification::Manifest);
    believed.table().columns()[0].slice(0, 10).unwrap();
    assert_eq!(
        believed.table().columns()[0].pooled().unwrap().verified,
        None
    );
}

#[test]
fn another_column_format_and_contradictions_are_errors_and_no_panics() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool(&folder.path().join("a.pool"), 64);
    let mut numbers = Numbers::of_this_run();
    let columns: Vec<ArrayRef> = (0..KINDS).map(|k| column(k, &mut numbers, 100)).collect();
    sealed(&pool, &loaded(&columns, Encoding::Auto));
    let source = pool.attach("t").unwrap();
    let written = |source: &Attached, content: &serde_json::Value| {
        let mut draft = pool
            .reserve(&tierloom_pool::TableSpec {
                name: "t".to_owned(),
                data_bytes: source.bytes().len() as u64,
                content_bytes: (content.to_string().len() + source.attachment().len()) as u64,
                spread: tierloom_pool::Spread::Pack,
            })
            .unwrap();
        draft.bytes_mut().copy_from_slice(source.bytes());
        draft.seal(content, source.attachment()).unwrap();
        pooled::attach(&pool, "t", Verification::FirstUse)
    };
    let mut other = source.content().clone();
    other["column_format"] = (pooled::COLUMN_FORMAT + 1).into();
    let error = written(&source, &other).unwrap_err().to_string();
    assert!(error.contains("load it again"), "{error}");
    // Format 1 is the same without units, which were all 1.
    let integers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..100).map(|i| i * 7 - 5)));
    let one = loaded(&[integers], Encoding::Auto);
    sealed(&pool, &one);
    let expected = rows(&one).unwrap();
    let of_integers = pool.attach("t").unwrap();
    let text = of_integers.content().to_string();
    let unit = r#","unit":{"times":1}"#;
    assert!(text.contains(unit), "{text}");
    let text = text.replace(unit, "");
    let mut first: serde_json::Value = serde_json::from_str(&text).unwrap();
    first["column_format"] = 1.into();
    let reading = written(&of_integers, &first).unwrap();
    assert_eq!(rows(reading.table()).unwrap(), expected);
    // Every number and every word of the description changed: an error, or a table that can be
    // read or gives errors.
    let text = source.content().to_string();
    for _ in 0..300 {
        let mut changed = text.clone().into_bytes();
        let digits: Vec<usize> = (0..changed.len())
            .filter(|&i| changed[i].is_ascii_digit())
            .collect();
        let at = digits[numbers.below(digits.len() as u64) as usize];
        changed[at] = b'0' + numbers.below(10) as u8;
        let Ok(content) = serde_json::from_slice(&changed) else {
            continue;
        };
        if let Ok(table) = written(&source, &content) {
            let table = table.table();
            for column in table.columns() {
                // Rows or an error, but no panic.
                drop(column.slice(0, table.rows()));
            }
        }
    }
}

#[test]
fn a_pool_that_is_too_small_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool(&folder.path().join("a.pool"), 16);
    let small: Int64Array = (0..10).map(Some).collect();
    let small = loaded(&[Arc::new(small)], Encoding::Auto);
    sealed(&pool, &small);
    let mut numbers = Numbers::of_this_run();
    let large: Int64Array = (0..4_000_000)
        .map(|_| Some(numbers.next() as i64))
        .collect();
    let large = loaded(&[Arc::new(large)], Encoding::Auto);
    let refused = pooled::write(&pool, "t", &large, serde_json::Value::Null).unwrap_err();
    assert!(
        matches!(refused, EngineError::Pool(PoolError::Full { .. })),
        "{refused}"
    );
    let found = attached(&pool, Verification::All);
    assert_eq!(rows(found.table()).unwrap(), rows(&small).unwrap());
}
