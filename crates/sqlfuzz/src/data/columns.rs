//! Random columns: their types, values and dictionary layouts.

use super::{Kind, sample};
use crate::rng::Rng;
use crate::table::{Column, FileKind, Layout};
use crate::value::Value;
use arrow::datatypes::{DataType, TimeUnit};

/// A column with the properties that the generator relies on.
#[derive(Debug, Clone)]
pub struct Known {
    /// Name of the column.
    pub name: String,
    /// Its Arrow type after loading.
    pub data_type: DataType,
    /// The class of its type, which decides the expressions that it can be used in.
    pub kind: Kind,
    /// Whether its values are so small that sums and products of them are exact in any order and do
    /// not overflow.
    pub tame: bool,
    /// Whether its values do not depend on the order of floating-point additions.
    pub exact: bool,
    /// Whether all values are different and none is NULL.
    pub unique: bool,
    /// A few of its values, for constants.
    pub sample: Vec<Value>,
}

impl Known {
    fn of(rng: &mut Rng, column: &Column, tame: bool, unique: bool) -> Known {
        let kind = Kind::of(&column.data_type);
        Known {
            name: column.name.clone(),
            data_type: column.data_type.clone(),
            kind,
            tame,
            exact: true,
            unique,
            sample: sample(rng, &column.values),
        }
    }
}

/// The keys of a dimension, which fact tables refer to.
#[derive(Debug, Clone)]
pub struct Pool {
    data_type: DataType,
    values: Vec<Value>,
    unique: bool,
}

impl Pool {
    /// The key column of the dimension.
    pub fn column(&self, rng: &mut Rng, name: &str) -> (Column, Known) {
        let column = Column {
            name: name.into(),
            data_type: self.data_type.clone(),
            values: self.values.clone(),
            layout: layout(rng),
        };
        let known = Known::of(rng, &column, true, self.unique);
        (column, known)
    }
}

const INTS: [DataType; 8] = [
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt16,
    DataType::UInt32,
    DataType::UInt64,
];

const UNITS: [TimeUnit; 4] = [
    TimeUnit::Second,
    TimeUnit::Millisecond,
    TimeUnit::Microsecond,
    TimeUnit::Nanosecond,
];

/// A key type that a file of `kind` can store; `plain` keys are integers.
pub fn key_type(rng: &mut Rng, kind: FileKind, plain: bool) -> DataType {
    if plain {
        return match kind {
            FileKind::Csv => DataType::Int64,
            _ => rng.pick(&INTS[1..4]).clone(),
        };
    }
    if kind == FileKind::Csv {
        return rng
            .pick(&[DataType::Int64, DataType::Int64, DataType::Utf8])
            .clone();
    }
    match rng.weighted(&[0.65, 0.1, 0.08, 0.05, 0.07, 0.05]) {
        0 => rng.pick(&INTS).clone(),
        1 => text_type(rng),
        2 => DataType::Date32,
        3 => DataType::Timestamp(*rng.pick(&UNITS), None),
        4 => dictionary_type(rng),
        _ => DataType::Decimal128(10, 2),
    }
}

fn text_type(rng: &mut Rng) -> DataType {
    rng.pick(&[DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View])
        .clone()
}

fn dictionary_type(rng: &mut Rng) -> DataType {
    let key = match rng.weighted(&[0.5, 0.5]) {
        0 => DataType::Int32,
        _ => rng.pick(&INTS).clone(),
    };
    let words = match rng.weighted(&[0.6, 0.1, 0.1, 0.1, 0.1]) {
        0 => DataType::Utf8,
        1 => DataType::LargeUtf8,
        2 => DataType::Int64,
        3 => DataType::Float64,
        _ => DataType::Int32,
    };
    DataType::Dictionary(Box::new(key), Box::new(words))
}

/// Any type that a file of `kind` can store.
pub fn data_type(rng: &mut Rng, kind: FileKind) -> DataType {
    if kind == FileKind::Csv {
        let types = [
            DataType::Int64,
            DataType::Float64,
            DataType::Utf8,
            DataType::Boolean,
        ];
        return rng.pick(&types).clone();
    }
    match rng.weighted(&[
        0.25, 0.12, 0.12, 0.05, 0.12, 0.17, 0.05, 0.05, 0.04, 0.01, 0.02,
    ]) {
        0 => rng.pick(&INTS).clone(),
        1 => rng.pick(&[DataType::Float32, DataType::Float64]).clone(),
        2 => decimal_type(rng),
        3 => DataType::Boolean,
        4 => text_type(rng),
        5 => dictionary_type(rng),
        6 => DataType::Date32,
        7 => {
            let zone = rng.chance(30).then(|| "+00:00".into());
            DataType::Timestamp(*rng.pick(&UNITS), zone)
        }
        8 => rng
            .pick(&[
                DataType::Time32(TimeUnit::Second),
                DataType::Time32(TimeUnit::Millisecond),
                DataType::Time64(TimeUnit::Microsecond),
                DataType::Time64(TimeUnit::Nanosecond),
            ])
            .clone(),
        9 => DataType::Null,
        _ => rng
            .pick(&[
                DataType::Binary,
                DataType::LargeBinary,
                DataType::BinaryView,
            ])
            .clone(),
    }
}

fn decimal_type(rng: &mut Rng) -> DataType {
    match rng.weighted(&[0.55, 0.15, 0.1, 0.1, 0.1]) {
        0 => DataType::Decimal128(10, 2),
        1 => DataType::Decimal128(18, 4),
        2 => DataType::Decimal128(38, 10),
        3 => DataType::Decimal128(9, -2),
        _ => DataType::Decimal256(40, 3),
    }
}

fn layout(rng: &mut Rng) -> Layout {
    Layout {
        doubled: rng.chance(35),
        unused: rng.chance(35),
        null_word: rng.chance(30),
        backwards: rng.chance(40),
    }
}

/// Keys for a dimension with `rows` rows; `plain` ones are unique and not NULL.
pub fn keys(rng: &mut Rng, data_type: DataType, rows: usize, plain: bool) -> Pool {
    let limit = largest_key(&data_type);
    let dense = rng.chance(60) || rows > limit / 2;
    let step = if dense {
        1
    } else {
        rng.range(2, 1 + (limit / rows.max(1)).min(50_000) as i64)
    };
    let first = rng.pick(&[0, 1, 1, 3]);
    let unique = (rng.chance(72) || plain) && rows <= limit;
    let with_null = rng.chance(15) && !plain;
    let distinct = if unique {
        rows.max(1)
    } else {
        (rows * 2 / 3).max(1).min(limit)
    };
    let mut values: Vec<Value> = (0..rows)
        .map(|row| {
            let number = (*first + (row % distinct) as i64 * step).min(limit as i64);
            value_of(&data_type, number)
        })
        .collect();
    let unique = unique && *first + distinct as i64 * step <= limit as i64;
    if with_null && rows > 0 {
        let at = rng.below(rows);
        values[at] = Value::Null;
    }
    for row in (1..rows).rev() {
        values.swap(row, rng.below(row + 1));
    }
    Pool {
        data_type,
        values,
        unique: unique && !with_null,
    }
}

/// The largest number to derive a key from: larger ones do not fit the type, or a dictionary with
/// that key type cannot have as many entries.
fn largest_key(data_type: &DataType) -> usize {
    match data_type {
        DataType::Int8 => 127,
        DataType::UInt8 => 255,
        DataType::Int16 => 32_767,
        DataType::UInt16 => 65_535,
        DataType::Dictionary(keys, words) => largest_key(keys).min(largest_key(words)),
        _ => 1 << 20,
    }
}

fn inner(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, words) => words,
        plain => plain,
    }
}

/// A key of `data_type` derived from a number; for key types, different numbers give different
/// keys.
fn value_of(data_type: &DataType, number: i64) -> Value {
    match Kind::of(data_type) {
        Kind::Text => Value::Text(format!("k{number}")),
        Kind::Float => Value::Float(number as f64 / 4.0),
        Kind::Bool => Value::Bool(number % 2 == 0),
        Kind::Bytes => Value::Bytes(number.to_le_bytes()[..2].to_vec()),
        Kind::Null => Value::Null,
        _ => Value::Int(i128::from(number)),
    }
}

/// A column of `rows` foreign keys into `pool`; some may be missing there, some may be NULL.
pub fn references(
    rng: &mut Rng,
    name: &str,
    kind: FileKind,
    pool: &Pool,
    rows: usize,
) -> (Column, Known) {
    let (missing, null) = (rng.chance(50), rng.chance(30));
    let mut data_type = pool.data_type.clone();
    if Kind::of(&data_type) == Kind::Int {
        let narrow = matches!(data_type, DataType::Dictionary(..)) || rng.chance(6);
        if narrow || kind == FileKind::Csv {
            data_type = DataType::Int64;
        } else if rng.chance(12) {
            data_type = rng.pick(&INTS).clone();
        }
    } else if kind == FileKind::Csv {
        data_type = match Kind::of(&data_type) {
            Kind::Text => DataType::Utf8,
            Kind::Float => DataType::Float64,
            _ => DataType::Int64,
        };
    } else if Kind::of(&data_type) == Kind::Text && rng.chance(30) {
        data_type = if rng.chance(50) {
            text_type(rng)
        } else {
            text_dictionary()
        };
    }
    // Of another integer type than the keys, only those that it has can be referred to.
    let largest = largest_key(&data_type) as i128;
    let held = |value: &Value| match value {
        Value::Int(number) if *number > largest => Value::Null,
        other => other.clone(),
    };
    let skewed = rng.chance(30);
    let values = (0..rows)
        .map(|_| {
            if pool.values.is_empty() || (missing && rng.chance(15)) {
                return value_of(&data_type, rng.range(100, 120));
            }
            if null && rng.chance(12) {
                return Value::Null;
            }
            let reach = if skewed && rng.chance(70) {
                1
            } else {
                pool.values.len()
            };
            held(&pool.values[rng.below(reach)])
        })
        .collect();
    let column = Column {
        name: name.into(),
        data_type,
        values,
        layout: layout(rng),
    };
    let known = Known::of(rng, &column, true, false);
    (column, known)
}

fn text_dictionary() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// A column of consecutive integers, all different.
pub fn numbered(rng: &mut Rng, name: &str, kind: FileKind, rows: usize) -> (Column, Known) {
    let types = [DataType::Int32, DataType::Int64, DataType::UInt32];
    let data_type = match kind {
        FileKind::Csv => DataType::Int64,
        _ => rng.pick(&types).clone(),
    };
    let first = rng.range(0, 1_000);
    let values = (0..rows as i64)
        .map(|row| Value::Int(i128::from(first + row)))
        .collect();
    let column = Column {
        name: name.into(),
        data_type,
        values,
        layout: Layout::default(),
    };
    let known = Known::of(rng, &column, true, true);
    (column, known)
}

/// A column that is likely to be aggregated.
pub fn measure(rng: &mut Rng, name: &str, kind: FileKind, rows: usize) -> (Column, Known) {
    let types = match kind {
        FileKind::Csv => vec![DataType::Int64, DataType::Float64],
        _ => {
            let mut types = INTS.to_vec();
            types.extend([DataType::Decimal128(10, 2), DataType::Decimal128(10, 2)]);
            types.extend([decimal_type(rng), DataType::Float64]);
            types
        }
    };
    let data_type = rng.pick(&types).clone();
    column(rng, name, data_type, kind, rows)
}

/// A column of the given type with random values.
pub fn column(
    rng: &mut Rng,
    name: &str,
    data_type: DataType,
    kind: FileKind,
    rows: usize,
) -> (Column, Known) {
    let nulls = [0, 10, 60, 100][rng.weighted(&[0.5, 0.35, 0.1, 0.05])];
    // Types of CSV columns are inferred, and extreme values would change the inferred type.
    let wild = kind != FileKind::Csv && rng.chance(15);
    let domain = match rng.weighted(&[0.15, 0.5, 0.35]) {
        0 => 2,
        1 => rng.range(2, 15),
        _ => rng.range(15, 1_000),
    };
    let values = (0..rows)
        .map(|_| match rng.chance(nulls) {
            true => Value::Null,
            false => random_value(rng, inner(&data_type), domain, wild),
        })
        .collect();
    let column = Column {
        name: name.into(),
        data_type,
        values,
        layout: layout(rng),
    };
    let known = Known::of(rng, &column, !wild, false);
    (column, known)
}

const WORDS: [&str; 12] = [
    "a",
    "b",
    "ab",
    "ASIA",
    "asia",
    "x y",
    "Zürich",
    "%_",
    "it's",
    "long word that is no inline view",
    "long word that is no inline vieW",
    "z",
];

fn random_value(rng: &mut Rng, data_type: &DataType, domain: i64, wild: bool) -> Value {
    let small = rng.range(0, domain);
    match data_type {
        DataType::Boolean => Value::Bool(small % 2 == 0),
        DataType::Float32 | DataType::Float64 => Value::Float(float(rng, small, wild)),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => match small {
            0 if wild => Value::Text(String::new()),
            1..=12 => Value::Text(WORDS[small as usize - 1].into()),
            more => Value::Text(format!("w{more}")),
        },
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            Value::Bytes(small.to_le_bytes()[..(small % 4) as usize].to_vec())
        }
        DataType::Null => Value::Null,
        DataType::Date32 => Value::Int(match small {
            0 if wild => -719_162,
            1 if wild => 2_932_896,
            more => i128::from(8_000 + more),
        }),
        DataType::Time32(unit) | DataType::Time64(unit) => {
            Value::Int(i128::from((small * 3_600 + small) % 86_400) * per_second(*unit))
        }
        DataType::Timestamp(unit, _) => {
            let second = i128::from(small - 5) * 86_399;
            // DuckDB has no nanoseconds in timestamps with a time zone.
            let least = match data_type {
                DataType::Timestamp(TimeUnit::Nanosecond, Some(_)) => 1_000,
                _ => 1,
            };
            // Whole seconds are kept in a step of their own.
            let odd = wild && small % 3 == 0;
            Value::Int(second * per_second(*unit) + i128::from(odd) * least)
        }
        _ => Value::Int(whole(rng, data_type, small, wild)),
    }
}

fn per_second(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// A multiple of 0.25, so that sums are exact, or if `wild` sometimes a special value.
fn float(rng: &mut Rng, small: i64, wild: bool) -> f64 {
    if wild && rng.chance(30) {
        let feared = [
            0.0,
            -0.0,
            f64::NAN,
            -f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            0.1,
            0.1 + 0.2,
        ];
        return *rng.pick(&feared);
    }
    (small - 3) as f64 / 4.0
}

fn whole(rng: &mut Rng, data_type: &DataType, small: i64, wild: bool) -> i128 {
    let (low, high): (i128, i128) = match data_type {
        DataType::Int8 => (-128, 127),
        DataType::Int16 => (-32_768, 32_767),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::UInt8 => (0, 255),
        DataType::UInt16 => (0, 65_535),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, u64::MAX.into()),
        DataType::Decimal128(p, _) => {
            let most = 10i128.pow(u32::from(*p)) - 1;
            (-most, most)
        }
        DataType::Decimal256(..) => (-(10i128.pow(38)), 10i128.pow(38)),
        _ => (i64::MIN.into(), i64::MAX.into()),
    };
    if wild && rng.chance(40) {
        return *rng.pick(&[low, low + 1, high, high - 1, high / 2, 0]);
    }
    let value = i128::from(if rng.chance(30) { -small } else { small });
    value.clamp(low.max(-100), high.max(100)).max(low).min(high)
}
