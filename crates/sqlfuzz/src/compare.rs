//! Compares the results of two engines.

use crate::engines::Rows;
use crate::value::Value;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Float64Type, Int64Type, TimeUnit,
    UInt64Type, i256,
};
use std::cmp::Ordering;

/// Relative tolerance for floats that were summed in another order.
const TOLERANCE: f64 = 1e-9;

/// A value independent of its Arrow type, so that engines with different types can be compared.
#[derive(Debug, Clone)]
pub enum Cell {
    /// SQL NULL, of any type.
    Null,
    /// A Boolean, which equals no number.
    Bool(bool),
    /// An integer or decimal without trailing zeros: the unscaled integer, and the number of digits
    /// after the point.
    Number(i256, i32),
    /// A floating-point number of any width.
    Float(f64),
    /// Text of any string type.
    Text(String),
    /// Bytes of any binary type.
    Bytes(Vec<u8>),
    /// A date or timestamp, in nanoseconds since 1970.
    Moment(i128),
    /// A time of day, in nanoseconds.
    Time(i64),
}

impl Cell {
    fn number(mut unscaled: i256, mut scale: i32) -> Cell {
        let ten = i256::from(10);
        while scale > 0 && unscaled.wrapping_rem(ten) == i256::ZERO {
            unscaled = unscaled.wrapping_div(ten);
            scale -= 1;
        }
        while scale < 0 {
            unscaled = unscaled.wrapping_mul(ten);
            scale += 1;
        }
        Cell::Number(unscaled, scale)
    }

    fn as_float(&self) -> Option<f64> {
        match self {
            Cell::Number(unscaled, scale) => {
                let number: f64 = unscaled.to_string().parse().ok()?;
                Some(number / 10f64.powi(*scale))
            }
            Cell::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// The value as text, for case files and messages.
    pub fn shown(&self) -> String {
        match self {
            Cell::Null => "NULL".into(),
            Cell::Bool(value) => value.to_string(),
            Cell::Number(unscaled, 0) => unscaled.to_string(),
            Cell::Number(unscaled, scale) => {
                let negative = *unscaled < i256::ZERO;
                let digits = unscaled.to_string();
                let digits = digits.trim_start_matches('-');
                let digits = format!("{digits:0>width$}", width = *scale as usize + 1);
                let (whole, part) = digits.split_at(digits.len() - *scale as usize);
                format!("{}{whole}.{part}", if negative { "-" } else { "" })
            }
            // All zeros and all NaNs are shown alike, since they compare as equal.
            Cell::Float(value) if *value == 0.0 => "0.0".into(),
            Cell::Float(value) if value.is_nan() => "NaN".into(),
            Cell::Float(value) => format!("{value:?}"),
            Cell::Text(value) => format!("'{value}'"),
            Cell::Bytes(value) => Value::Bytes(value.clone()).to_json().to_string(),
            Cell::Moment(nanos) => format!("@{nanos}"),
            Cell::Time(nanos) => format!("time {nanos}"),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Cell::Null => 0,
            Cell::Bool(_) => 1,
            Cell::Number(..) | Cell::Float(_) => 2,
            Cell::Text(_) => 3,
            Cell::Bytes(_) => 4,
            Cell::Moment(_) => 5,
            Cell::Time(_) => 6,
        }
    }

    /// A sort order in which nearly equal numbers are neighbours.
    fn order(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Bool(a), Cell::Bool(b)) => a.cmp(b),
            (Cell::Number(a, 0), Cell::Number(b, 0)) => a.cmp(b),
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            (Cell::Bytes(a), Cell::Bytes(b)) => a.cmp(b),
            (Cell::Moment(a), Cell::Moment(b)) => a.cmp(b),
            (Cell::Time(a), Cell::Time(b)) => a.cmp(b),
            _ => match (self.as_float(), other.as_float()) {
                (Some(a), Some(b)) => match (a.is_nan(), b.is_nan()) {
                    (true, true) => Ordering::Equal,
                    (true, false) => Ordering::Greater,
                    (false, true) => Ordering::Less,
                    // Long decimals that differ may be one float.
                    _ => a
                        .partial_cmp(&b)
                        .unwrap_or(Ordering::Equal)
                        .then_with(|| self.shown().cmp(&other.shown())),
                },
                _ => self.rank().cmp(&other.rank()),
            },
        }
    }

    fn same(&self, other: &Cell, how: How) -> bool {
        match (self, other) {
            (Cell::Null, Cell::Null) => true,
            (Cell::Number(a, s), Cell::Number(b, t)) if s == t => a == b,
            (Cell::Float(a), Cell::Float(b)) if how == How::Exact => {
                a == b || (a.is_nan() && b.is_nan())
            }
            (Cell::Number(_, s), Cell::Number(_, t)) if how == How::Loose => {
                near(self, other, 10f64.powi(-(*s.min(t)).max(1)))
            }
            (Cell::Number(_, scale), Cell::Float(_)) | (Cell::Float(_), Cell::Number(_, scale))
                if how == How::Loose =>
            {
                // For averages of decimals, DataFusion returns a truncated decimal and DuckDB a
                // float.
                near(self, other, 10f64.powi(-(*scale).max(3)))
            }
            (Cell::Float(_), Cell::Float(_)) => near(self, other, TOLERANCE),
            _ => self.rank() == other.rank() && self.order(other) == Ordering::Equal,
        }
    }
}

fn near(a: &Cell, b: &Cell, tolerance: f64) -> bool {
    let (Some(a), Some(b)) = (a.as_float(), b.as_float()) else {
        return false;
    };
    let size = a.abs().max(b.abs()).max(1.0);
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance.max(size * TOLERANCE)
}

/// How strictly a column is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Exactly, apart from the sign of zero and the bits of NaN.
    Exact,
    /// Floats with a relative tolerance.
    Summed,
    /// Floats and decimals with tolerances, for engines whose types differ.
    Loose,
}

/// The values of a result, row by row.
///
/// # Errors
/// If a column has a type that cannot be compared.
pub fn cells(rows: &Rows) -> Result<Vec<Vec<Cell>>, String> {
    let mut all: Vec<Vec<Cell>> = Vec::with_capacity(rows.count());
    for batch in &rows.batches {
        let columns: Result<Vec<Vec<Cell>>, String> = batch.columns().iter().map(column).collect();
        let mut columns: Vec<_> = columns?.into_iter().map(Vec::into_iter).collect();
        for _ in 0..batch.num_rows() {
            all.push(columns.iter_mut().filter_map(Iterator::next).collect());
        }
    }
    Ok(all)
}

fn column(array: &ArrayRef) -> Result<Vec<Cell>, String> {
    let to = |to: &DataType| cast(array, to).map_err(|e| e.to_string());
    let valid = |array: &dyn Array, row: usize, cell: Cell| {
        if array.is_valid(row) {
            cell
        } else {
            Cell::Null
        }
    };
    let rows = 0..array.len();
    Ok(match array.data_type() {
        DataType::Null => rows.map(|_| Cell::Null).collect(),
        DataType::Dictionary(_, words) => return column(&to(words)?),
        DataType::Boolean => {
            let array = array.as_boolean();
            rows.map(|r| valid(array, r, Cell::Bool(array.value(r))))
                .collect()
        }
        DataType::UInt64 => {
            let array = array.as_primitive::<UInt64Type>();
            let number = |r| Cell::Number(i256::from_i128(i128::from(array.value(r))), 0);
            rows.map(|r| valid(array, r, number(r))).collect()
        }
        t if t.is_integer() => {
            let array = to(&DataType::Int64)?;
            let array = array.as_primitive::<Int64Type>();
            let number = |r| Cell::Number(i256::from_i128(i128::from(array.value(r))), 0);
            rows.map(|r| valid(array, r, number(r))).collect()
        }
        t if t.is_floating() => {
            let array = to(&DataType::Float64)?;
            let array = array.as_primitive::<Float64Type>();
            rows.map(|r| valid(array, r, Cell::Float(array.value(r))))
                .collect()
        }
        DataType::Decimal128(_, scale) => {
            let array = array.as_primitive::<Decimal128Type>();
            let scale = i32::from(*scale);
            let number = |r| Cell::number(i256::from_i128(array.value(r)), scale);
            rows.map(|r| valid(array, r, number(r))).collect()
        }
        DataType::Decimal256(_, scale) => {
            let array = array.as_primitive::<Decimal256Type>();
            let scale = i32::from(*scale);
            rows.map(|r| valid(array, r, Cell::number(array.value(r), scale)))
                .collect()
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let array = to(&DataType::LargeUtf8)?;
            let array = array.as_string::<i64>();
            rows.map(|r| valid(array, r, Cell::Text(array.value(r).into())))
                .collect()
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let array = to(&DataType::LargeBinary)?;
            let array = array.as_binary::<i64>();
            rows.map(|r| valid(array, r, Cell::Bytes(array.value(r).into())))
                .collect()
        }
        DataType::Date32 => {
            let array = array.as_primitive::<Date32Type>();
            let moment = |r| Cell::Moment(i128::from(array.value(r)) * 86_400_000_000_000);
            rows.map(|r| valid(array, r, moment(r))).collect()
        }
        DataType::Date64 => numbers(&to(&DataType::Int64)?, |n| Cell::Moment(n * 1_000_000)),
        DataType::Timestamp(unit, _) => {
            let nanos = nanos_per(*unit);
            numbers(&to(&DataType::Int64)?, |n| Cell::Moment(n * nanos))
        }
        DataType::Time32(unit) => {
            let nanos = nanos_per(*unit);
            numbers(
                &cast(&to(&DataType::Int32)?, &DataType::Int64).map_err(|e| e.to_string())?,
                |n| Cell::Time((n * nanos) as i64),
            )
        }
        DataType::Time64(unit) => {
            let nanos = nanos_per(*unit);
            numbers(&to(&DataType::Int64)?, |n| Cell::Time((n * nanos) as i64))
        }
        other => return Err(format!("there are no cells for {other}")),
    })
}

fn numbers(array: &ArrayRef, cell: impl Fn(i128) -> Cell) -> Vec<Cell> {
    let array = array.as_primitive::<Int64Type>();
    array
        .iter()
        .map(|value| value.map_or(Cell::Null, |v| cell(i128::from(v))))
        .collect()
}

fn nanos_per(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// A description of the first difference between two results; `None` if they are equal.
///
/// Unless `ordered`, which says that the query has a total order, rows are compared as multisets.
pub fn difference(one: &Rows, other: &Rows, how: &[How], ordered: bool) -> Option<String> {
    // `Loose` is for DuckDB, whose types and column names are different.
    if how.iter().all(|h| *h != How::Loose)
        && let Some(message) = types_differ(one, other)
    {
        return Some(message);
    }
    let (mut a, mut b) = match (cells(one), cells(other)) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(message), _) | (_, Err(message)) => return Some(message),
    };
    if a.len() != b.len() {
        return Some(format!("{} rows, not {}", a.len(), b.len()));
    }
    if !ordered {
        sort(&mut a, how);
        sort(&mut b, how);
    }
    let same = |a: &[Cell], b: &[Cell]| {
        a.len() == b.len()
            && a.iter()
                .zip(b)
                .enumerate()
                .all(|(i, (a, b))| a.same(b, how.get(i).copied().unwrap_or(How::Exact)))
    };
    let differs = a.iter().zip(&b).find(|(a, b)| !same(a, b))?;
    // Nearly equal numbers may have been sorted differently, so each row looks for any match. This
    // is quadratic, hence the limit.
    if !ordered && how.iter().any(|h| *h != How::Exact) && a.len() <= 2_000 {
        let mut left = b.clone();
        let all = a
            .iter()
            .all(|row| match left.iter().position(|other| same(row, other)) {
                Some(at) => {
                    left.swap_remove(at);
                    true
                }
                None => false,
            });
        if all {
            return None;
        }
    }
    Some(format!(
        "row [{}], not [{}]",
        shown(differs.0),
        shown(differs.1)
    ))
}

/// Sorts rows, by exact columns first.
fn sort(rows: &mut [Vec<Cell>], how: &[How]) {
    let exact = |i: &usize| how.get(*i).is_some_and(|h| *h != How::Exact);
    let mut order: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).collect();
    order.sort_by_key(|i| exact(i));
    rows.sort_by(|a, b| {
        let mut compared = order.iter().map(|i| a[*i].order(&b[*i]));
        compared.find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    });
}

/// A row as text.
pub fn shown(row: &[Cell]) -> String {
    row.iter().map(Cell::shown).collect::<Vec<_>>().join(", ")
}

/// Whether two types are the same but for the width of the keys of dictionaries: a column that
/// takes new rows may get wider ones before it needs them.
fn same_type(one: &DataType, other: &DataType) -> bool {
    match (one, other) {
        (DataType::Dictionary(_, one), DataType::Dictionary(_, other)) => one == other,
        _ => one == other,
    }
}

fn types_differ(one: &Rows, other: &Rows) -> Option<String> {
    let (a, b) = (one.schema.fields(), other.schema.fields());
    if a.len() != b.len() {
        return Some(format!("{} columns, not {}", a.len(), b.len()));
    }
    let differs = a
        .iter()
        .zip(b.iter())
        .find(|(a, b)| !same_type(a.data_type(), b.data_type()) || a.name() != b.name());
    differs.map(|(a, b)| {
        format!(
            "column {} {}, not {} {}",
            a.name(),
            a.data_type(),
            b.name(),
            b.data_type()
        )
    })
}
