//! Converts groups to a batch of partial states.
//!
//! Group values are looked up by ordinal, or computed from codes; states are converted to the types
//! that DataFusion's accumulators expect.

use super::NotFused;
use super::compile::{Compiled, GroupValues};
use super::key_parts::PartValues;
use super::lower::Lowered;
use super::measures::{StateColumn, StateValue};
use super::universe::fact_column;
use crate::coded::CodedColumn;
use arrow::array::{
    Array, ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch, RecordBatchOptions,
    UInt32Array, UInt64Array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, SchemaRef};
use std::sync::Arc;
use tierloom_kernels::words::{float, rank};
use tierloom_star::{FloatSum, Groups, Measure, MeasureKind, MeasureValues, WordKey};

/// Converts `groups` to a batch of group columns, then states, as in `schema`.
///
/// Also returns the number of fact rows in the groups, for the final check.
pub(super) fn batch(
    lowered: &Lowered,
    compiled: &Compiled,
    groups: Groups,
    schema: &SchemaRef,
) -> Result<(RecordBatch, u64), NotFused> {
    let found = groups.finish();
    let ordinals = |part: usize| compiled.plan.ordinals(&found.keys, part);
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    for group in &compiled.groups {
        columns.push(match group {
            GroupValues::Listed { part, values } => {
                take(values.as_ref(), &UInt32Array::from(ordinals(*part)), None)?
            }
            GroupValues::Codes { part, column } => {
                values_of(fact_column(lowered, *column)?.coded, &ordinals(*part))?
            }
            GroupValues::Words { data_type } => match &compiled.plan.key {
                Some(key) => values_of_keys(&found.keys, key, data_type)?,
                None => return NotFused::because("groups by words without a key"),
            },
            GroupValues::Digits(part) => {
                of_digits(lowered, &part.values, part.digits(&found.keys))?
            }
        });
    }
    let measures = Totals {
        kinds: &compiled.plan.measures,
        values: found.measures.into_iter().map(MeasureColumn::of).collect(),
    };
    for state in &compiled.states {
        columns.push(state_column(&measures, state)?);
    }
    for (column, field) in columns.iter_mut().zip(schema.fields()) {
        if column.data_type() != field.data_type() {
            *column = cast(column, field.data_type())?;
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(found.keys.len()));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
    Ok((batch, found.rows.iter().sum()))
}

/// The measures of all groups.
struct Totals<'a> {
    kinds: &'a [Measure],
    values: Vec<MeasureColumn>,
}

/// The values of a measure by group; there may be millions, so they are not copied.
enum MeasureColumn {
    Narrow(Int64Array),
    Wide(Vec<Option<i128>>),
}

impl MeasureColumn {
    fn of(values: MeasureValues) -> Self {
        match values {
            MeasureValues::Narrow { values, valid } => {
                let nulls = valid.map(NullBuffer::from);
                let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
                MeasureColumn::Narrow(Int64Array::new(values.into(), nulls))
            }
            MeasureValues::Wide(values) => MeasureColumn::Wide(values),
        }
    }

    /// The value of a group; `None` if no row counted.
    fn get(&self, group: usize) -> Option<i128> {
        match self {
            MeasureColumn::Narrow(values) => values
                .is_valid(group)
                .then(|| i128::from(values.value(group))),
            MeasureColumn::Wide(values) => values[group],
        }
    }

    fn groups(&self) -> usize {
        match self {
            MeasureColumn::Narrow(values) => values.len(),
            MeasureColumn::Wide(values) => values.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = Option<i128>> {
        (0..self.groups()).map(|group| self.get(group))
    }
}

impl Totals<'_> {
    fn is_float(&self, measure: usize) -> bool {
        self.kinds[measure].kind == MeasureKind::FloatSum
    }

    /// A measure of a group, 0 if it has none.
    fn of(&self, measure: usize, group: usize) -> i128 {
        self.values[measure].get(group).unwrap_or(0)
    }

    /// A sum of a group as a float, in its unit.
    fn sum(&self, measure: usize, group: usize) -> f64 {
        match self.is_float(measure) {
            true => FloatSum::of_value(self.of(measure, group)).value(),
            false => self.of(measure, group) as f64,
        }
    }
}

/// The values of a state.
fn state_column(measures: &Totals<'_>, state: &StateColumn) -> Result<ArrayRef, NotFused> {
    let of = |measure: usize, row: usize| measures.of(measure, row);
    let unit = state.unit;
    let floats = |first: usize, value: &dyn Fn(usize) -> f64| -> ArrayRef {
        let rows = 0..measures.values[first].groups();
        Arc::new(rows.map(|row| value(row) / unit).collect::<Float64Array>())
    };
    // Without rows all sums are 0.
    let divided = |sum: i128, count: i128| sum as f64 / count.max(1) as f64;
    Ok(match state.from {
        StateValue::Measure(measure) if measures.is_float(measure) => {
            let sum = |value: i128| FloatSum::of_value(value).value();
            let values = measures.values[measure].iter().map(|v| v.map(sum));
            Arc::new(values.collect::<Float64Array>())
        }
        StateValue::Rank(measure) => {
            let value = |place: i128| float(rank(place as i64));
            let values = measures.values[measure].iter().map(|v| v.map(value));
            Arc::new(values.collect::<Float64Array>())
        }
        StateValue::Measure(measure) => {
            let values = &measures.values[measure];
            let data_type = state.field.data_type();
            if let (MeasureColumn::Narrow(values), DataType::Int64) = (values, data_type)
                && !state.null_if_zero
            {
                return Ok(Arc::new(values.clone()));
            }
            let values = values.iter();
            let values = values.map(|v| v.filter(|v| !(state.null_if_zero && *v == 0)));
            let values = values.collect();
            return match data_type {
                DataType::Float32 | DataType::Float64 => Ok(decimals(values, unit)),
                other => state_array(values, other),
            };
        }
        StateValue::Float(sum) => floats(sum, &|row| measures.sum(sum, row)),
        StateValue::Mean { count, sum } => floats(count, &|row| {
            measures.sum(sum, row) / of(count, row).max(1) as f64
        }),
        StateValue::Deviations {
            count,
            sums: [a, b],
            products,
        } if measures.is_float(products) => floats(count, &|row| {
            let sum = |measure| FloatSum::of_value(of(measure, row));
            let count = of(count, row).max(1) as f64;
            sum(products).deviations(sum(a), sum(b), count)
        }),
        StateValue::Deviations {
            count,
            sums: [a, b],
            products,
        } => floats(count, &|row| {
            let count = of(count, row);
            let squares = count * of(products, row) - of(a, row) * of(b, row);
            divided(squares, count)
        }),
    })
}

/// The values of codes of a column that has too many of them for a list.
fn values_of(coded: &CodedColumn, codes: &[u32]) -> Result<ArrayRef, NotFused> {
    let Some((base, unit)) = coded.offset() else {
        return NotFused::because("codes without values");
    };
    // `wrapping_add`: the base may be below the smallest value by the code of NULL, and the sum is
    // exact again for every valid code.
    let values = codes.iter().map(|code| base.wrapping_add(i64::from(*code)));
    let nulls = coded.nullable().then(|| {
        let valid = BooleanBuffer::collect_bool(codes.len(), |row| codes[row] != 0);
        NullBuffer::new(valid)
    });
    let integers = Int64Array::new(values.collect(), nulls.filter(|n| n.null_count() > 0));
    Ok(unit.values(integers, coded.data_type())?)
}

/// The values of keys that are words.
fn values_of_keys(keys: &[u64], key: &WordKey, data_type: &DataType) -> Result<ArrayRef, NotFused> {
    let is_nullable = key.is_nullable();
    let words = keys.iter().map(|word| *word as i64);
    let words = words.map(|word| (word != key.null || !is_nullable).then_some(word));
    if data_type.is_floating() {
        let floats = words.map(|word| word.map(float));
        return Ok(Arc::new(floats.collect::<Float64Array>()));
    }
    state_array(words.map(|word| word.map(i128::from)).collect(), data_type)
}

/// The values of the digits of keys.
fn of_digits(
    lowered: &Lowered,
    values: &PartValues,
    digits: Vec<u64>,
) -> Result<ArrayRef, NotFused> {
    let small = |digits: Vec<u64>| digits.into_iter().map(|digit| digit as u32);
    match values {
        PartValues::Listed(values) => {
            let digits: UInt32Array = small(digits).collect::<Vec<_>>().into();
            Ok(take(values.as_ref(), &digits, None)?)
        }
        PartValues::Codes(column) => {
            let coded = fact_column(lowered, *column)?.coded;
            values_of(coded, &small(digits).collect::<Vec<_>>())
        }
        PartValues::Integers {
            low,
            nullable,
            data_type,
        } => {
            let first = i128::from(*low) - i128::from(*nullable);
            let value = |digit: u64| (digit > 0 || !nullable).then(|| first + i128::from(digit));
            state_array(digits.into_iter().map(value).collect(), data_type)
        }
    }
}

/// The floats nearest to integers divided by `unit`.
fn decimals(values: Vec<Option<i128>>, unit: f64) -> ArrayRef {
    let floats = values.into_iter().map(|v| v.map(|v| v as f64 / unit));
    Arc::new(floats.collect::<Float64Array>())
}

fn state_array(values: Vec<Option<i128>>, data_type: &DataType) -> Result<ArrayRef, NotFused> {
    Ok(match data_type {
        DataType::Decimal128(precision, scale) => {
            let array = Decimal128Array::from(values);
            Arc::new(array.with_precision_and_scale(*precision, *scale)?)
        }
        DataType::UInt64 => Arc::new(UInt64Array::from(narrowed::<u64>(values)?)),
        // Those of 32 bits are made of them at the end.
        DataType::Float32 | DataType::Float64 => decimals(values, 1.0),
        other => {
            let integers: ArrayRef = Arc::new(Int64Array::from(narrowed::<i64>(values)?));
            match other {
                DataType::Int64 => integers,
                DataType::Date32 | DataType::Time32(_) => {
                    cast(&cast(&integers, &DataType::Int32)?, other)?
                }
                other if other.is_integer() => cast(&integers, other)?,
                DataType::Boolean
                | DataType::Date64
                | DataType::Timestamp(..)
                | DataType::Duration(_) => cast(&integers, other)?,
                other => return NotFused::because(format!("states of type {other}")),
            }
        }
    })
}

/// The values in 64 bits. A sum that leaves them is an error of DataFusion's operators, which then
/// run in the place of the star join.
fn narrowed<T: TryFrom<i128>>(values: Vec<Option<i128>>) -> Result<Vec<Option<T>>, NotFused> {
    let narrow = |value: Option<i128>| match value.map(T::try_from) {
        None => Ok(None),
        Some(Ok(value)) => Ok(Some(value)),
        Some(Err(_)) => NotFused::because("a sum leaves 64 bits"),
    };
    values.into_iter().map(narrow).collect()
}
