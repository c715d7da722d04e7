//! Groups equal rows exactly as DataFusion's own aggregation would.
//!
//! Dictionary keys cannot be compared in place of values: a value may occur twice in a dictionary,
//! for example where batches with separate dictionaries were concatenated, or be unused. 0.0 and
//! -0.0 are one value; NaNs of different bit patterns are different values.

use super::NotFused;
use arrow::array::{Array, ArrayRef, AsArray, MAX_INLINE_VIEW_LEN, UInt32Array, UInt64Array};
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::utils::normalize_float_zero;
use datafusion::common::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

/// Rows whose hashes are compared before those of all rows are.
const SAMPLE_ROWS: usize = 256;

/// The distinct rows of some columns, numbered in order of appearance.
pub(super) struct Distinct {
    /// Number of distinct rows.
    pub count: usize,
    /// The ordinal of each row.
    pub ordinals: Vec<u32>,
    /// The values of each ordinal, column by column.
    pub values: Vec<ArrayRef>,
}

/// Finds the distinct rows of `columns`, which have equal lengths.
///
/// # Errors
/// Columns whose types cannot be compared row by row, or more than `u32::MAX` rows.
pub(super) fn distinct(columns: &[ArrayRef]) -> Result<Distinct, NotFused> {
    let rows = columns.first().map_or(0, |c| c.len());
    if u32::try_from(rows).is_err() {
        return NotFused::because("there are more rows to group than can be numbered");
    }
    let columns: Vec<ArrayRef> = columns.iter().map(normalize_float_zero).collect();
    if are_distinct(&columns) {
        return Ok(Distinct {
            count: rows,
            ordinals: (0..rows as u32).collect(),
            values: columns,
        });
    }
    let compared = columns
        .iter()
        .map(comparable)
        .collect::<Result<Vec<_>, _>>()?;
    let (ordinals, first_rows) = match &compared[..] {
        // For a single dictionary column the numbers are dense, so an array replaces the hash
        // table.
        [Comparable::Numbers(numbers, words)] => {
            let (ordinals, first_rows, _) = by_number(numbers.iter().map(|n| *n as usize), *words);
            (ordinals, first_rows)
        }
        _ => by_row(compared.into_iter().map(Comparable::into_array).collect())?,
    };
    let first_rows = UInt32Array::from(first_rows);
    let values = columns
        .iter()
        .map(|c| take(c.as_ref(), &first_rows, None))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Distinct {
        count: first_rows.len(),
        ordinals,
        values,
    })
}

/// Whether all rows of `columns` certainly differ: rows of different hashes do.
///
/// A dimension is often grouped by a name of its rows and what goes with it; then one column tells,
/// and none is compared.
fn are_distinct(columns: &[ArrayRef]) -> bool {
    columns.iter().any(|column| {
        let sample = column.slice(0, column.len().min(SAMPLE_ROWS));
        have_distinct_hashes(&sample) && have_distinct_hashes(column)
    })
}

fn have_distinct_hashes(column: &ArrayRef) -> bool {
    let mut hashes = vec![0; column.len()];
    if create_hashes([column], &RandomState::default(), &mut hashes).is_err() {
        return false;
    }
    let mut known = HashSet::with_capacity(hashes.len());
    hashes.iter().all(|hash| known.insert(*hash))
}

/// A column in a form in which equality of elements is equality of values.
enum Comparable {
    /// A number for each row, and an exclusive upper bound of the numbers.
    Numbers(Vec<u32>, usize),
    Plain(ArrayRef),
}

impl Comparable {
    fn into_array(self) -> ArrayRef {
        match self {
            Comparable::Numbers(numbers, _) => Arc::new(UInt32Array::from(numbers)),
            Comparable::Plain(array) => array,
        }
    }
}

/// Compares dictionary values instead of rows where there are fewer of them.
fn comparable(column: &ArrayRef) -> Result<Comparable, NotFused> {
    let Some(dictionary) = column.as_any_dictionary_opt() else {
        return Ok(Comparable::Plain(Arc::clone(column)));
    };
    let words = dictionary.values();
    let few = !words.is_empty() && words.len() <= column.len();
    // With NULLs among keys or values, both would have to compare equal; the row format handles
    // that.
    if !few || dictionary.keys().null_count() > 0 || words.logical_null_count() > 0 {
        return Ok(Comparable::Plain(unpacked(column)?));
    }
    let keys = dictionary.normalized_keys();
    let (of_rows, _, used) = by_number(keys.into_iter(), words.len());
    // Only words that occur are compared: a filter may have left a few of thousands.
    let used = take(words.as_ref(), &UInt64Array::from(used), None)?;
    let (numbers, first_words) = by_row(vec![unpacked(&used)?])?;
    let of_rows = of_rows.into_iter().map(|word| numbers[word as usize]);
    Ok(Comparable::Numbers(of_rows.collect(), first_words.len()))
}

/// `column` without the dictionaries around its values, which may be nested.
fn unpacked(column: &ArrayRef) -> Result<ArrayRef, NotFused> {
    let mut column = Arc::clone(column);
    while let DataType::Dictionary(_, value) = column.data_type() {
        column = cast(&column, value)?;
    }
    Ok(column)
}

/// The ordinal of each row of `columns`, and the first row of each ordinal, by hashing.
fn by_row(columns: Vec<ArrayRef>) -> Result<(Vec<u32>, Vec<u32>), NotFused> {
    if let [column] = &columns[..]
        && let Some(found) = by_text(column)
    {
        return Ok(found);
    }
    let rows = columns.first().map_or(0, |c| c.len());
    let fields = columns
        .iter()
        .map(|c| SortField::new(c.data_type().clone()))
        .collect();
    let converted = RowConverter::new(fields)?.convert_columns(&columns)?;
    Ok(by_value((0..rows).map(|row| converted.row(row).data())))
}

/// Same as [`by_row`] for one column of strings, whose bytes need not be copied to be compared;
/// `None` for other columns.
fn by_text(column: &ArrayRef) -> Option<(Vec<u32>, Vec<u32>)> {
    match column.data_type() {
        DataType::Utf8 => Some(by_value(column.as_string::<i32>().iter())),
        DataType::LargeUtf8 => Some(by_value(column.as_string::<i64>().iter())),
        DataType::Utf8View => {
            let texts = column.as_string_view();
            // Short strings are in their views, which are equal if they are.
            let mut lengths = texts.lengths();
            let is_short = lengths.all(|length| length <= MAX_INLINE_VIEW_LEN);
            Some(match texts.null_count() == 0 && is_short {
                true => by_value(texts.views().iter()),
                false => by_value(texts.iter()),
            })
        }
        _ => None,
    }
}

fn by_value<T: Eq + Hash>(values: impl ExactSizeIterator<Item = T>) -> (Vec<u32>, Vec<u32>) {
    let mut known: HashMap<T, u32> = HashMap::new();
    let (mut ordinals, mut first_rows) = (Vec::with_capacity(values.len()), Vec::new());
    for (index, value) in values.enumerate() {
        let next = first_rows.len() as u32;
        let ordinal = *known.entry(value).or_insert(next);
        if ordinal == next {
            first_rows.push(index as u32);
        }
        ordinals.push(ordinal);
    }
    (ordinals, first_rows)
}

/// Same as [`by_row`] for rows already numbered below `count`, of which some may not occur. Also
/// returns the number of each ordinal.
fn by_number(
    numbers: impl ExactSizeIterator<Item = usize>,
    count: usize,
) -> (Vec<u32>, Vec<u32>, Vec<u64>) {
    let mut known = vec![u32::MAX; count];
    let mut ordinals = Vec::with_capacity(numbers.len());
    let (mut first_rows, mut used) = (Vec::new(), Vec::new());
    for (index, number) in numbers.enumerate() {
        let known = &mut known[number];
        if *known == u32::MAX {
            *known = first_rows.len() as u32;
            first_rows.push(index as u32);
            used.push(number as u64);
        }
        ordinals.push(*known);
    }
    (ordinals, first_rows, used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        DictionaryArray, Float32Array, Float64Array, Int8Array, Int32Array, StringArray,
        StringViewArray,
    };

    fn dictionary(keys: &[Option<i8>], words: &[Option<&str>]) -> ArrayRef {
        let keys = Int8Array::from(keys.to_vec());
        let words = StringArray::from(words.to_vec());
        Arc::new(DictionaryArray::try_new(keys, Arc::new(words)).unwrap())
    }

    fn ordinals(columns: &[ArrayRef]) -> Vec<u32> {
        let found = distinct(columns).unwrap();
        assert!(found.values.iter().all(|v| v.len() == found.count));
        found.ordinals
    }

    #[test]
    fn dictionaries_are_compared_by_their_words() {
        let (x, y) = (Some("x"), Some("y"));
        // A duplicate value, an unused one, and NULL by key and by value.
        let twice = dictionary(&[Some(0), Some(2), Some(1), Some(3)], &[x, y, x, x]);
        assert_eq!(ordinals(&[Arc::clone(&twice)]), [0, 0, 1, 0]);
        let many = dictionary(&[Some(4), Some(0)], &[x, y, x, y, x]);
        assert_eq!(ordinals(&[many]), [0, 0]);
        let nulls = dictionary(&[None, Some(1), Some(0), Some(1)], &[x, None, y]);
        assert_eq!(ordinals(&[Arc::clone(&nulls)]), [0, 0, 1, 0]);
        assert_eq!(ordinals(&[twice, nulls]), [0, 0, 1, 0]);
        assert_eq!(ordinals(&[dictionary(&[], &[])]), [0u32; 0]);
        assert_eq!(ordinals(&[dictionary(&[None, None], &[])]), [0, 0]);
    }

    #[test]
    fn strings_of_any_kind_and_length_are_compared_by_their_bytes() {
        let long = "a string that is too long to be in its view, and another";
        let texts = vec![
            Some("a"),
            None,
            Some(long),
            Some("b"),
            Some("a"),
            None,
            Some(long),
        ];
        let plain: ArrayRef = Arc::new(StringArray::from(texts.clone()));
        let views: ArrayRef = Arc::new(StringViewArray::from(texts));
        let large = cast(&plain, &DataType::LargeUtf8).unwrap();
        for column in [plain, views, large] {
            assert_eq!(ordinals(&[Arc::clone(&column)]), [0, 1, 2, 3, 0, 1, 2]);
            // A slice begins elsewhere in the same buffers.
            assert_eq!(ordinals(&[column.slice(2, 5)]), [0, 1, 2, 3, 0]);
        }
        let short: ArrayRef = Arc::new(StringViewArray::from(vec![
            "x",
            "",
            "y",
            "x",
            "",
            "twelve bytes",
        ]));
        assert_eq!(ordinals(&[short]), [0, 1, 2, 0, 1, 3]);
    }

    #[test]
    fn zeros_of_both_signs_are_one_value_and_written_without_a_sign() {
        let nan = f64::from_bits(f64::NAN.to_bits() | 1);
        let values: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, 0.0, 1.0, f64::NAN, nan]));
        let found = distinct(&[values]).unwrap();
        assert_eq!(found.ordinals, [0, 0, 1, 2, 3]);
        let first = found.values[0].as_any().downcast_ref::<Float64Array>();
        assert_eq!(first.unwrap().value(0).to_bits(), 0);
        let narrow: ArrayRef = Arc::new(Float32Array::from(vec![0.0, -0.0]));
        let whole: ArrayRef = Arc::new(Int32Array::from(vec![7, 7]));
        assert_eq!(ordinals(&[whole, narrow]), [0, 0]);
    }
}
