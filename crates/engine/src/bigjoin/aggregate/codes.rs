//! Codes of one key column: integers from 0, equal where the values are.

use super::numbers::{IntegerNumbers, TextNumbers};
use crate::bigjoin::integers::{array_of, integers, is_integer_like};
use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, StringViewArray, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{BinaryViewType, DataType, StringViewType};
use datafusion::common::{Result, internal_err};
use std::sync::Arc;

/// Whether a column of this type can be grouped.
pub(crate) fn is_supported(data_type: &DataType) -> bool {
    is_integer_like(data_type) || data_type.is_string() || is_bytes(data_type)
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary};
    matches!(data_type, Binary | LargeBinary | BinaryView)
}

/// A batch of one key column, before it is encoded.
pub(super) enum KeyValues {
    Integers(Vec<i64>, Option<NullBuffer>),
    /// Numbers of [`KeyCoder::Texts`] and [`KeyCoder::Bytes`] are final as soon as they are given.
    Numbers(Vec<u32>),
}

/// How the values of a column are encoded.
pub(super) enum KeyCoder {
    /// Integers between bounds.
    Span(Span),
    /// Integers that are too far apart for a key with the other columns.
    Integers(IntegerNumbers),
    Texts(TextNumbers<StringViewType>),
    Bytes(TextNumbers<BinaryViewType>),
}

/// Consecutive integers; NULL is 0, `base` is 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    base: i64,
    /// Largest code.
    last: u64,
}

impl Span {
    fn holds(&self, (low, high): (i64, i64)) -> bool {
        low >= self.base && high.abs_diff(self.base) < self.last
    }

    fn code(&self, value: i64) -> u64 {
        (value.wrapping_sub(self.base) as u64).wrapping_add(1)
    }

    fn value(&self, code: u64) -> Option<i64> {
        (code > 0).then(|| self.base.wrapping_add((code - 1) as i64))
    }
}

/// Bits of the codes of integers from `low` to `high`, and NULL; more than 64 if there are none.
fn bits_of_range((low, high): (i64, i64)) -> u32 {
    // Codes 0 to high - low + 1.
    (u128::from(high.abs_diff(low)) + 1).ilog2() + 1
}

/// The smallest and the largest value; `None` if all are NULL.
pub(super) fn range(values: &[i64], nulls: Option<&NullBuffer>) -> Option<(i64, i64)> {
    let wider = |(low, high): (i64, i64), v: &i64| (low.min(*v), high.max(*v));
    let none = (i64::MAX, i64::MIN);
    let found = match nulls.filter(|n| n.null_count() > 0) {
        None => values.iter().fold(none, wider),
        Some(nulls) => nulls
            .valid_indices()
            .map(|row| &values[row])
            .fold(none, wider),
    };
    (found.0 <= found.1).then_some(found)
}

impl KeyCoder {
    /// The coder to begin with.
    pub fn new(data_type: &DataType) -> Self {
        if data_type.is_string() {
            KeyCoder::Texts(TextNumbers::new())
        } else if is_bytes(data_type) {
            KeyCoder::Bytes(TextNumbers::new())
        } else {
            // Holds nothing: the first batch sets the bounds.
            KeyCoder::Span(Span { base: 0, last: 0 })
        }
    }

    /// The values of `array` as far as they can be encoded without the other columns.
    pub fn read(&mut self, array: &ArrayRef) -> Result<KeyValues> {
        let mut numbers = Vec::new();
        match self {
            KeyCoder::Span(_) | KeyCoder::Integers(_) => {
                return Ok(KeyValues::Integers(
                    integers(array)?,
                    array.nulls().cloned(),
                ));
            }
            KeyCoder::Texts(texts) => texts.assign_strings(array, &mut numbers)?,
            KeyCoder::Bytes(bytes) => {
                let views = cast(array, &DataType::BinaryView)?;
                bytes.assign(views.as_binary_view(), &mut numbers)?;
            }
        }
        Ok(KeyValues::Numbers(numbers))
    }

    /// Whether the codes of these values are within the bounds, which have `bits` bits.
    pub fn holds(&self, values: &KeyValues, bits: u32) -> bool {
        match (self, values) {
            (KeyCoder::Span(span), KeyValues::Integers(values, nulls)) => {
                range(values, nulls.as_ref()).is_none_or(|range| span.holds(range))
            }
            // The batch may have as many new numbers as rows.
            (KeyCoder::Integers(numbers), KeyValues::Integers(values, _)) => {
                bits_for(numbers.len() + values.len()) <= bits
            }
            _ => bits_for(self.numbers()) <= bits,
        }
    }

    /// How many numbers were given; 0 for [`KeyCoder::Span`].
    pub fn numbers(&self) -> usize {
        match self {
            KeyCoder::Span(_) => 0,
            KeyCoder::Integers(numbers) => numbers.len(),
            KeyCoder::Texts(texts) => texts.len(),
            KeyCoder::Bytes(bytes) => bytes.len(),
        }
    }

    /// Whether codes are numbers in the order of appearance.
    pub fn numbers_values(&self) -> bool {
        !matches!(self, KeyCoder::Span(_))
    }

    /// Bits that the codes of the groups so far and of these values need.
    pub fn bits(&self, values: &KeyValues, of_groups: Option<(i64, i64)>) -> u32 {
        match (self, values) {
            (KeyCoder::Span(_), KeyValues::Integers(values, nulls)) => {
                let range = range(values, nulls.as_ref());
                united(range, of_groups).map_or(1, bits_of_range)
            }
            (KeyCoder::Integers(numbers), KeyValues::Integers(values, _)) => {
                bits_for(numbers.len() + values.len())
            }
            _ => bits_for(self.numbers()),
        }
    }

    /// A span of `bits` bits around the values of the groups so far and these.
    pub fn span(
        &self,
        values: &KeyValues,
        of_groups: Option<(i64, i64)>,
        bits: u32,
    ) -> Option<Span> {
        let (KeyCoder::Span(_), KeyValues::Integers(values, nulls)) = (self, values) else {
            return None;
        };
        let (low, high) = united(range(values, nulls.as_ref()), of_groups).unwrap_or((0, 0));
        let last = u64::MAX >> (64 - bits);
        // As much room below as above.
        let spare = (last - 1 - high.abs_diff(low)) / 2;
        let base = low.saturating_sub_unsigned(spare);
        Some(Span { base, last })
    }

    /// The codes of values that the coder holds.
    pub fn encode(&mut self, values: KeyValues) -> Result<Vec<u64>> {
        let widened = |numbers: Vec<u32>| numbers.into_iter().map(u64::from).collect();
        Ok(match (self, values) {
            (KeyCoder::Span(span), KeyValues::Integers(values, nulls)) => {
                let mut codes: Vec<u64> = values.iter().map(|v| span.code(*v)).collect();
                if let Some(nulls) = nulls.filter(|n| n.null_count() > 0) {
                    let valid = nulls.iter();
                    codes
                        .iter_mut()
                        .zip(valid)
                        .filter(|(_, valid)| !valid)
                        .for_each(|(code, _)| *code = 0);
                }
                codes
            }
            (KeyCoder::Integers(table), KeyValues::Integers(values, nulls)) => {
                let mut numbers = Vec::new();
                table.assign(&values, nulls.as_ref(), &mut numbers)?;
                widened(numbers)
            }
            (_, KeyValues::Numbers(numbers)) => widened(numbers),
            _ => return internal_err!("values of another coder"),
        })
    }

    /// Makes integers numbers in the order of appearance.
    pub fn make_numbers(&mut self) {
        if let KeyCoder::Span(_) = self {
            *self = KeyCoder::Integers(IntegerNumbers::new());
        }
    }

    /// The codes of integers that had others before; strings keep theirs.
    pub fn recode(&mut self, old: &[Option<i64>], codes: &mut Vec<u64>) -> Result<()> {
        match self {
            KeyCoder::Span(span) => {
                let span = *span;
                let code = |value: &Option<i64>| value.map_or(0, |v| span.code(v));
                *codes = old.iter().map(code).collect();
            }
            KeyCoder::Integers(numbers) => {
                let numbers = numbers.assign_in_order(old)?;
                *codes = numbers.into_iter().map(u64::from).collect();
            }
            KeyCoder::Texts(_) | KeyCoder::Bytes(_) => {}
        }
        Ok(())
    }

    /// The integer of a code; `None` for NULL.
    pub fn integer(&self, code: u64) -> Option<i64> {
        match self {
            KeyCoder::Span(span) => span.value(code),
            KeyCoder::Integers(numbers) => numbers.value(code as u32),
            KeyCoder::Texts(_) | KeyCoder::Bytes(_) => None,
        }
    }

    pub fn size_bytes(&self) -> usize {
        match self {
            KeyCoder::Span(_) => 0,
            KeyCoder::Integers(numbers) => numbers.size_bytes(),
            KeyCoder::Texts(texts) => texts.size_bytes(),
            KeyCoder::Bytes(bytes) => bytes.size_bytes(),
        }
    }

    /// # Errors
    /// Arrow's, from making arrays.
    pub fn into_decoder(self) -> Result<Decoder> {
        Ok(match self {
            KeyCoder::Texts(texts) => Decoder::Texts(texts.into_values()?),
            KeyCoder::Bytes(bytes) => Decoder::Bytes(bytes.into_values()?),
            integers => Decoder::Integers(Box::new(integers)),
        })
    }
}

/// Converts codes back to values.
pub(super) enum Decoder {
    Integers(Box<KeyCoder>),
    Texts(StringViewArray),
    Bytes(BinaryViewArray),
}

impl Decoder {
    /// The values of `codes` as an array of the column's type.
    pub fn decode(&self, codes: &[u64], data_type: &DataType) -> Result<ArrayRef> {
        let values: ArrayRef = match self {
            Decoder::Integers(coder) => {
                let values = codes.iter().map(|code| coder.integer(*code));
                let valid: NullBuffer = values.clone().map(|v| v.is_some()).collect();
                let values = values.map(Option::unwrap_or_default).collect();
                let nulls = (valid.null_count() > 0).then_some(valid);
                return array_of(data_type, values, nulls);
            }
            Decoder::Texts(texts) => Arc::new(texts.clone()),
            Decoder::Bytes(bytes) => Arc::new(bytes.clone()),
        };
        let numbers: UInt32Array = codes.iter().map(|code| *code as u32).collect();
        let values = take(&values, &numbers, None)?;
        if values.data_type() == data_type {
            return Ok(values);
        }
        Ok(cast(&values, data_type)?)
    }
}

fn united(one: Option<(i64, i64)>, other: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (one, other) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (one, other) => one.or(other),
    }
}

/// Bits of the numbers below `count`.
fn bits_for(count: usize) -> u32 {
    count.max(2).next_power_of_two().ilog2()
}
