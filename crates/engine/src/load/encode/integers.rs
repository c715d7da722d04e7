//! Encodes integers, dates, times and decimals as offsets from the smallest value or as ranks; and
//! floats that are decimals as well.
//!
//! Offsets need only the range of the values. Ranks among the distinct values are used where they
//! fit into fewer bytes, table of values included, and for few values with wide gaps between them.

use super::hash::QuickMap;
use super::units::{Decimals, Divider, unit_of};
use super::{CodeSource, Coded, MOST_LISTED_VALUES, width_for};
use crate::EngineError;
use crate::coded::{Domain, Unit};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal128Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use tierloom_kernels::codes::{CodeWidth, pack};
use tierloom_kernels::count_units;

/// Rows that are widened to 64 bits at a time.
const BLOCK_ROWS: usize = 16 * 1024;

/// Largest size of the bitmap of occurring values, in bits per row.
const MOST_BITS_A_ROW: u64 = 64;

/// Most distinct values of a column that takes ranks although they are no narrower: a table with a
/// few bytes for each stays in the first caches, while one for all values between would not.
const MOST_SPARSE: usize = 8192;

/// Average distance of the distinct values from which on they count as sparse. Dates that are
/// written as numbers (19940103) have some 28 numbers for each day.
const SPARSE_GAPS: u64 = 8;

/// Maps a value that is not NULL to its code, not counting the code of NULL.
pub(super) enum Rank {
    /// `value - base`.
    Offset(i64),
    /// Number of occurring values below it, by a rank over a bitmap.
    Bitmap(Bitmap),
    /// A hash map from value to rank.
    Map(QuickMap<i64, u32>),
}

/// The set of occurring values, from `base` upwards.
pub(super) struct Bitmap {
    base: i64,
    words: Vec<u64>,
    /// Number of set bits before each word; filled once the bitmap is complete.
    before: Vec<u32>,
}

impl Rank {
    fn of(&self, value: i64) -> u32 {
        match self {
            Rank::Offset(base) => value.wrapping_sub(*base) as u32,
            Rank::Bitmap(bitmap) => bitmap.rank(value),
            Rank::Map(map) => map.get(&value).copied().unwrap_or(0),
        }
    }
}

impl Bitmap {
    fn rank(&self, value: i64) -> u32 {
        let at = value.wrapping_sub(self.base) as u64;
        let word = (at / 64) as usize;
        let below = self.words[word] & ((1 << (at % 64)) - 1);
        self.before[word] + below.count_ones()
    }

    fn values(&self) -> Vec<i64> {
        let mut values = Vec::new();
        for (index, word) in self.words.iter().enumerate() {
            let mut left = *word;
            while left != 0 {
                let bit = i64::from(left.trailing_zeros());
                values.push(self.base + index as i64 * 64 + bit);
                left &= left - 1;
            }
        }
        values
    }

    /// Counts the set bits before each word.
    fn count(&mut self) {
        let mut total = 0;
        self.before.reserve_exact(self.words.len());
        for word in &self.words {
            self.before.push(total);
            total += word.count_ones();
        }
    }
}

/// Chooses codes for an integer column.
///
/// `None` if it is not a column of integers or of floats that are decimals, has values beyond 64
/// bits, or codes would not be narrower (for types of one or two bytes: would be wider).
pub(super) fn choose(
    data_type: &DataType,
    chunks: &[ArrayRef],
    rows: usize,
) -> Result<Option<Coded>, EngineError> {
    let Some(native) = native_bytes(data_type) else {
        return Ok(None);
    };
    let Some((counted, bounds)) = counted(data_type, chunks) else {
        return Ok(None);
    };
    let unit = counted.unit;
    let nullable = bounds.nulls > 0;
    let Some((least, most)) = bounds.range else {
        return Ok(Some(Coded {
            // No value at all: every row is NULL, and codes take no bytes.
            domain: Domain::Values(arrow::array::new_empty_array(data_type)),
            nullable,
            width: CodeWidth::Zero,
            source: CodeSource::Integers(unit, Rank::Offset(0)),
        }));
    };
    let span = most.wrapping_sub(least) as u64;
    // The codes of a nullable column start one below its smallest value, which has to be
    // representable.
    let offset_width = (least > i64::MIN || !nullable)
        .then(|| width_for(span.saturating_add(1), nullable))
        .flatten();
    // Ranks must beat the offsets where those exist, else the plain values.
    let current = offset_width.map_or(native, |w| w.bytes().min(native));
    if current > 1
        && let Some((values, rank)) = distinct(&counted, least, span, rows)
        && let Some(width) = width_for(values.len() as u64, nullable)
        && width <= CodeWidth::Two
        && (width.bytes() * rows + values.len() * native < current * rows
            || width.bytes() <= current && is_sparse(values.len(), span, rows))
    {
        let values = unit.values(Int64Array::from(values), data_type)?;
        return Ok(Some(Coded {
            domain: Domain::Values(values),
            nullable,
            width,
            source: CodeSource::Integers(unit, rank),
        }));
    }
    let offset = |base: i64, width: CodeWidth| Coded {
        domain: Domain::Offset {
            base,
            last: most,
            unit,
        },
        nullable,
        width,
        source: CodeSource::Integers(unit, Rank::Offset(base)),
    };
    Ok(match offset_width {
        Some(width) if width.bytes() < native => Some(offset(least, width)),
        // No narrower than the values. Codes from 0 are then the values themselves and are scanned
        // without a copy.
        Some(_) if !nullable && least >= 0 && unit == Unit::ONE => {
            width_for((most as u64).saturating_add(1), false)
                .filter(|w| w.bytes() == native)
                .map(|w| offset(0, w))
        }
        // Tables by such codes are small, so joins and groups gain from them.
        Some(width) if native <= 2 && width.bytes() == native => Some(offset(least, width)),
        _ => None,
    })
}

/// Whether so few of the values in a span occur that tables by code, as joins and groups have them,
/// should have no places for the others.
fn is_sparse(values: usize, span: u64, rows: usize) -> bool {
    values <= MOST_SPARSE && values <= rows / 16 && span / SPARSE_GAPS >= values as u64
}

/// Writes the codes of all chunks to `out`.
pub(super) fn write(
    chunks: &[ArrayRef],
    unit: Unit,
    rank: &Rank,
    (nullable, width): (bool, CodeWidth),
    out: &mut [u8],
) {
    let first = u32::from(nullable);
    let (mut row, mut codes) = (0, Vec::with_capacity(BLOCK_ROWS));
    for_blocks(&Counted { chunks, unit }, |values, nulls| {
        codes.clear();
        match (rank, nulls) {
            (Rank::Offset(base), None) => {
                codes.extend(
                    values
                        .iter()
                        .map(|v| (v.wrapping_sub(*base) as u32) + first),
                );
            }
            (rank, None) => codes.extend(values.iter().map(|v| rank.of(*v) + first)),
            (rank, Some(nulls)) => codes.extend(values.iter().enumerate().map(|(at, v)| {
                if nulls.is_valid(at) {
                    rank.of(*v) + first
                } else {
                    0
                }
            })),
        }
        pack(out, width, row, &codes);
        row += codes.len();
        true
    });
}

/// The values of a column, counted in a unit.
struct Counted<'a> {
    chunks: &'a [ArrayRef],
    unit: Unit,
}

/// Range of the values that are not NULL, and the number of NULLs.
struct Bounds {
    range: Option<(i64, i64)>,
    nulls: usize,
}

/// The values of a column in their unit, and the bounds of these; `None` if a value is beyond 64
/// bits, or a float is no decimal of few digits.
fn counted<'a>(data_type: &DataType, chunks: &'a [ArrayRef]) -> Option<(Counted<'a>, Bounds)> {
    if *data_type == DataType::Float64 {
        let decimals = Decimals::of(chunks)?;
        let unit = Unit::Decimal(decimals.digits);
        let nulls = chunks.iter().map(|chunk| chunk.null_count()).sum();
        let range = decimals.range;
        return Some((Counted { chunks, unit }, Bounds { range, nulls }));
    }
    let unit = unit_of(data_type, chunks);
    let counted = Counted { chunks, unit };
    let bounds = bounds(&counted)?;
    Some((counted, bounds))
}

/// Computes the bounds; `None` if a value is beyond 64 bits.
fn bounds(counted: &Counted<'_>) -> Option<Bounds> {
    let (mut least, mut most, mut seen, mut null_count) = (i64::MAX, i64::MIN, 0, 0);
    let fits = for_blocks(counted, |values, nulls| {
        seen += values.len();
        match nulls {
            None => {
                least = values.iter().copied().fold(least, i64::min);
                most = values.iter().copied().fold(most, i64::max);
            }
            Some(nulls) => {
                null_count += nulls.null_count();
                for at in nulls.valid_indices() {
                    least = least.min(values[at]);
                    most = most.max(values[at]);
                }
            }
        }
        true
    });
    fits.then(|| Bounds {
        range: (seen > null_count).then_some((least, most)),
        nulls: null_count,
    })
}

/// The distinct values, ascending, and how to find a value's rank; `None` if they are too many.
fn distinct(counted: &Counted<'_>, base: i64, span: u64, rows: usize) -> Option<(Vec<i64>, Rank)> {
    // A bitmap is faster than hashing but its size depends on the range, not on the number of
    // values.
    if span / MOST_BITS_A_ROW < rows as u64 {
        let mut bitmap = Bitmap {
            base,
            words: vec![0; (span / 64) as usize + 1],
            before: Vec::new(),
        };
        let mut found = 0;
        let few = for_valid(counted, |value| {
            let at = value.wrapping_sub(base) as u64;
            let (word, bit) = (&mut bitmap.words[(at / 64) as usize], 1 << (at % 64));
            found += usize::from(*word & bit == 0);
            *word |= bit;
            found <= MOST_LISTED_VALUES
        });
        if !few {
            return None;
        }
        bitmap.count();
        return Some((bitmap.values(), Rank::Bitmap(bitmap)));
    }
    let mut seen = QuickMap::default();
    let few = for_valid(counted, |value| {
        seen.insert(value, 0);
        seen.len() <= MOST_LISTED_VALUES
    });
    if !few {
        return None;
    }
    let mut values: Vec<i64> = seen.keys().copied().collect();
    values.sort_unstable();
    for (rank, value) in values.iter().enumerate() {
        seen.insert(*value, rank as u32);
    }
    Some((values, Rank::Map(seen)))
}

/// Calls `see` for every value that is not NULL until it returns false.
///
/// Returns whether it never did.
fn for_valid(counted: &Counted<'_>, mut see: impl FnMut(i64) -> bool) -> bool {
    for_blocks(counted, |values, nulls| match nulls {
        None => values.iter().all(|value| see(*value)),
        Some(nulls) => nulls.valid_indices().all(|at| see(values[at])),
    })
}

/// Calls `see` with blocks of values, in units, until it returns false or a value exceeds 64 bits.
///
/// Returns whether neither happened.
fn for_blocks(
    counted: &Counted<'_>,
    mut see: impl FnMut(&[i64], Option<&NullBuffer>) -> bool,
) -> bool {
    let mut values = Vec::with_capacity(BLOCK_ROWS);
    for chunk in counted.chunks {
        for start in (0..chunk.len()).step_by(BLOCK_ROWS) {
            let part = chunk.slice(start, BLOCK_ROWS.min(chunk.len() - start));
            let nulls = part.nulls().filter(|n| n.null_count() > 0);
            let fit = match counted.unit {
                Unit::Times(1) => widen(&part, &mut values),
                Unit::Times(step) => widen(&part, &mut values) && divide(&mut values, step, nulls),
                Unit::Decimal(digits) => count(&part, digits, &mut values),
            };
            if !fit || !see(&values, nulls) {
                return false;
            }
        }
    }
    true
}

/// Divides values by `step`; returns whether all that are valid are multiples.
fn divide(values: &mut [i64], step: i64, nulls: Option<&NullBuffer>) -> bool {
    let divider = Divider::new(step);
    let mut fit = true;
    for (at, value) in values.iter_mut().enumerate() {
        let divided = divider.divided(*value);
        *value = divided.unwrap_or(0);
        fit &= divided.is_some() || nulls.is_some_and(|nulls| nulls.is_null(at));
    }
    fit
}

/// Counts the units of floats, which are decimals; returns whether it is an array of floats.
fn count(array: &ArrayRef, digits: u8, out: &mut Vec<i64>) -> bool {
    out.clear();
    let floats = array.as_primitive_opt::<Float64Type>();
    floats.is_some_and(|floats| {
        count_units(floats.values(), digits, out);
        true
    })
}

/// Widens `array` to 64-bit integers; returns whether all valid values fit.
///
/// NULLs whose value does not fit become 0.
fn widen(array: &ArrayRef, out: &mut Vec<i64>) -> bool {
    out.clear();
    macro_rules! lossless {
        ($($pattern:pat => $physical:ty),* $(,)?) => {
            match array.data_type() {
                $($pattern => {
                    out.extend(array.as_primitive::<$physical>().values().iter().map(|v| i64::from(*v)));
                    true
                })*
                DataType::UInt64 => checked(array, array.as_primitive::<UInt64Type>().values(), out),
                DataType::Decimal128(..) => {
                    checked(array, array.as_primitive::<Decimal128Type>().values(), out)
                }
                _ => false,
            }
        };
    }
    lossless! {
        DataType::Int8 => Int8Type,
        DataType::Int16 => Int16Type,
        DataType::Int32 => Int32Type,
        DataType::Int64 => Int64Type,
        DataType::UInt8 => UInt8Type,
        DataType::UInt16 => UInt16Type,
        DataType::UInt32 => UInt32Type,
        DataType::Date32 => Date32Type,
        DataType::Date64 => Date64Type,
        DataType::Time32(TimeUnit::Second) => Time32SecondType,
        DataType::Time32(_) => Time32MillisecondType,
        DataType::Time64(TimeUnit::Microsecond) => Time64MicrosecondType,
        DataType::Time64(_) => Time64NanosecondType,
        DataType::Timestamp(TimeUnit::Second, _) => TimestampSecondType,
        DataType::Timestamp(TimeUnit::Millisecond, _) => TimestampMillisecondType,
        DataType::Timestamp(TimeUnit::Microsecond, _) => TimestampMicrosecondType,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => TimestampNanosecondType,
        DataType::Duration(TimeUnit::Second) => DurationSecondType,
        DataType::Duration(TimeUnit::Millisecond) => DurationMillisecondType,
        DataType::Duration(TimeUnit::Microsecond) => DurationMicrosecondType,
        DataType::Duration(TimeUnit::Nanosecond) => DurationNanosecondType,
    }
}

fn checked<T: Copy + TryInto<i64>>(array: &ArrayRef, values: &[T], out: &mut Vec<i64>) -> bool {
    let mut fits = true;
    out.extend(values.iter().enumerate().map(|(at, value)| {
        (*value).try_into().unwrap_or_else(|_| {
            fits &= array.is_null(at);
            0
        })
    }));
    fits
}

/// Bytes of a value; `None` if values of the type cannot be represented by integers.
fn native_bytes(data_type: &DataType) -> Option<usize> {
    let integer = data_type.is_integer()
        || matches!(
            data_type,
            DataType::Date32
                | DataType::Date64
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Timestamp(..)
                | DataType::Duration(_)
                | DataType::Decimal128(..)
                | DataType::Float64
        );
    integer.then(|| data_type.primitive_width()).flatten()
}
