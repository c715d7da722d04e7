//! Maps group keys to dense group numbers and back.
//!
//! Columns become codes ([`KeyCoder`]), the codes of a row one 64-bit key ([`fields`]),
//! and keys are numbered in batches ([`Numbers`]). Codes have as many bits as the values so far
//! need and some room. When a batch has values outside, all groups get new codes and keep their
//! numbers.

use super::codes::{Decoder, KeyCoder, KeyValues};
use super::layout::{Field, fields};
use super::numbers::Numbers;
use super::rows::{HashedRows, RowColumn};
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use std::ops::Range;

/// The groups seen so far, numbered in order of appearance.
pub(crate) struct Groups {
    types: Vec<DataType>,
    coders: Vec<KeyCoder>,
    /// None before the first batch, and where the only column numbers its values itself.
    packed: Option<Packed>,
    scratch: RowKeys,
    /// All groups, from where the codes of several columns do not fit one key.
    rows: Option<Box<HashedRows>>,
}

/// Numbers keys that are made of the codes of all columns.
struct Packed {
    fields: Vec<Field>,
    numbers: Numbers,
}

#[derive(Default)]
struct RowKeys {
    keys: Vec<u64>,
    numbers: Vec<u32>,
}

impl Groups {
    /// No groups yet of columns of these types.
    pub fn new(types: Vec<DataType>) -> Self {
        Self {
            coders: types.iter().map(KeyCoder::new).collect(),
            types,
            packed: None,
            scratch: RowKeys::default(),
            rows: None,
        }
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        if let Some(rows) = &self.rows {
            return rows.len();
        }
        match (&self.packed, &self.coders[..]) {
            (Some(packed), _) => packed.numbers.len(),
            (None, [only]) => only.numbers(),
            _ => 0,
        }
    }

    /// Bytes of tables and keys, for the memory pool.
    pub fn size_bytes(&self) -> usize {
        if let Some(rows) = &self.rows {
            return rows.size_bytes();
        }
        let packed = self.packed.as_ref();
        packed.map_or(0, |packed| packed.numbers.size_bytes())
            + self.coders.iter().map(KeyCoder::size_bytes).sum::<usize>()
    }

    /// Writes the group number of each row to `groups`.
    ///
    /// # Errors
    /// If there are 2^32 groups.
    pub fn assign(&mut self, columns: &[ArrayRef], groups: &mut Vec<usize>) -> Result<()> {
        if let Some(rows) = &mut self.rows {
            return rows.assign(columns, groups);
        }
        let coders = self.coders.iter_mut();
        let values = coders
            .zip(columns)
            .map(|(coder, column)| coder.read(column))
            .collect::<Result<Vec<_>>>()?;
        if !self.is_direct() && !self.holds(&values) && !self.arrange(&values)? {
            let rows = self.hash_rows()?;
            return rows.assign(columns, groups);
        }
        let coders = self.coders.iter_mut();
        let codes = coders
            .zip(values)
            .map(|(coder, values)| coder.encode(values))
            .collect::<Result<Vec<_>>>()?;
        groups.clear();
        if let (true, [codes]) = (self.is_direct(), &codes[..]) {
            groups.extend(codes.iter().map(|code| *code as usize));
            return Ok(());
        }
        self.number(&codes)?;
        groups.extend(self.scratch.numbers.iter().map(|n| *n as usize));
        Ok(())
    }

    /// Whether the numbers of the only column are the groups.
    fn is_direct(&self) -> bool {
        matches!(&self.coders[..], [only] if only.numbers_values())
    }

    /// Whether there is a code for all these values.
    fn holds(&self, values: &[KeyValues]) -> bool {
        self.packed.as_ref().is_some_and(|packed| {
            let mut fields = packed.fields.iter();
            fields.all(|f| self.coders[f.column].holds(&values[f.column], f.bits))
        })
    }

    /// Numbers rows by their codes; the numbers are in `scratch`.
    fn number(&mut self, codes: &[Vec<u64>]) -> Result<()> {
        let RowKeys { keys, numbers } = &mut self.scratch;
        keys.clear();
        keys.resize(codes.first().map_or(0, Vec::len), 0);
        let Some(packed) = &mut self.packed else {
            return internal_err!("codes of several columns have no places in a key");
        };
        for field in &packed.fields {
            let codes = codes[field.column].iter();
            let keys = keys.iter_mut().zip(codes);
            keys.for_each(|(key, code)| *key |= code << field.shift);
        }
        packed.numbers.assign(keys, numbers)
    }

    /// Has rows compared instead of given codes.
    fn hash_rows(&mut self) -> Result<&mut HashedRows> {
        let groups = self.len();
        let mut rows = Box::new(HashedRows::new(&self.types));
        let coded = std::mem::replace(self, Groups::new(self.types.clone()));
        if groups > 0 {
            let mut numbers = Vec::new();
            let columns = coded.into_keys()?.columns(0..groups)?;
            rows.assign(&columns, &mut numbers)?;
            if !numbers.into_iter().eq(0..groups) {
                return internal_err!("groups got other numbers as rows");
            }
        }
        Ok(self.rows.insert(rows))
    }

    /// Gives the columns codes that hold `values` and those of all groups; false if one key cannot
    /// hold the codes of several columns.
    fn arrange(&mut self, values: &[KeyValues]) -> Result<bool> {
        let groups = self.len();
        let mut codes = codes_of(self.packed.as_ref(), self.coders.len(), 0..groups);
        let old: Vec<Vec<Option<i64>>> = self
            .coders
            .iter()
            .zip(&codes)
            .map(|(coder, codes)| codes.iter().map(|code| coder.integer(*code)).collect())
            .collect();
        let ranges: Vec<Option<(i64, i64)>> = old.iter().map(|old| range_of(old)).collect();
        let Some(needed) = self.narrow(values, &ranges) else {
            return Ok(false);
        };
        if self.is_direct() {
            self.packed = None;
            self.coders[0].recode(&old[0], &mut codes[0])?;
            return Ok(true);
        }
        let fields = fields(&needed);
        for field in &fields {
            let column = field.column;
            let coder = &mut self.coders[column];
            if let Some(span) = coder.span(&values[column], ranges[column], field.bits) {
                *coder = KeyCoder::Span(span);
            }
            coder.recode(&old[column], &mut codes[column])?;
        }
        self.packed = Some(Packed {
            fields,
            numbers: Numbers::for_keys(groups),
        });
        if groups > 0 {
            self.number(&codes)?;
            let mut numbers = self.scratch.numbers.iter().zip(0..);
            if !numbers.all(|(number, group)| *number == group) {
                return internal_err!("groups got other numbers with new codes");
            }
        }
        Ok(true)
    }

    /// The bits that each column needs, after the only one has become numbers if it is too wide;
    /// `None` if several are.
    fn narrow(&mut self, values: &[KeyValues], ranges: &[Option<(i64, i64)>]) -> Option<Vec<u32>> {
        let needed = |coders: &[KeyCoder]| -> Vec<u32> {
            let columns = coders.iter().zip(values).zip(ranges);
            columns.map(|((c, v), range)| c.bits(v, *range)).collect()
        };
        let first = needed(&self.coders);
        if first.iter().sum::<u32>() <= 64 {
            return Some(first);
        }
        let [only] = &mut self.coders[..] else {
            return None;
        };
        only.make_numbers();
        Some(needed(&self.coders))
    }

    /// The groups, to be converted back to columns.
    ///
    /// # Errors
    /// Arrow's, from making arrays.
    pub(super) fn into_keys(self) -> Result<GroupKeys> {
        let groups = self.len();
        let source = match self.rows {
            Some(rows) => KeySource::Rows(rows.into_columns()?),
            None => KeySource::Codes {
                decoders: (self.coders.into_iter().map(KeyCoder::into_decoder))
                    .collect::<Result<_>>()?,
                packed: self.packed,
            },
        };
        Ok(GroupKeys {
            groups,
            types: self.types,
            source,
        })
    }
}

/// The key columns of all groups in the order of their numbers.
pub(super) struct GroupKeys {
    groups: usize,
    types: Vec<DataType>,
    source: KeySource,
}

enum KeySource {
    Codes {
        decoders: Vec<Decoder>,
        packed: Option<Packed>,
    },
    Rows(Vec<RowColumn>),
}

impl GroupKeys {
    /// Number of groups.
    pub fn len(&self) -> usize {
        self.groups
    }

    /// The columns of some groups.
    pub fn columns(&self, groups: Range<usize>) -> Result<Vec<ArrayRef>> {
        match &self.source {
            KeySource::Codes { decoders, packed } => {
                let codes = codes_of(packed.as_ref(), decoders.len(), groups);
                let columns = decoders.iter().zip(&codes).zip(&self.types);
                columns
                    .map(|((decoder, codes), data_type)| decoder.decode(codes, data_type))
                    .collect()
            }
            KeySource::Rows(columns) => {
                let columns = columns.iter().zip(&self.types);
                columns
                    .map(|(column, data_type)| column.values(groups.clone(), data_type))
                    .collect()
            }
        }
    }
}

/// The codes of some groups by column.
fn codes_of(packed: Option<&Packed>, columns: usize, groups: Range<usize>) -> Vec<Vec<u64>> {
    let Some(packed) = packed else {
        return vec![groups.map(|group| group as u64).collect(); columns];
    };
    let keys = &packed.numbers.keys()[groups];
    let mut codes = vec![Vec::new(); columns];
    for field in &packed.fields {
        codes[field.column] = keys.iter().map(|key| field.code(*key)).collect();
    }
    codes
}

fn range_of(values: &[Option<i64>]) -> Option<(i64, i64)> {
    let valid = values.iter().flatten();
    Some((*valid.clone().min()?, *valid.max()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, Int64Array, StringArray, StringViewArray};
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::sync::Arc;

    type Row = (Option<i64>, Option<i64>, Option<String>, Option<i64>);

    /// Group numbers of the rows, and the rows as the groups give them back.
    fn grouped(rows: &[Row], batch: usize) -> (Vec<usize>, Vec<Row>) {
        let types = vec![
            DataType::Int64,
            DataType::Int64,
            DataType::Utf8,
            DataType::Int64,
        ];
        let mut groups = Groups::new(types);
        let (mut all, mut some) = (Vec::new(), Vec::new());
        for rows in rows.chunks(batch) {
            let columns: Vec<ArrayRef> = vec![
                Arc::new(rows.iter().map(|r| r.0).collect::<Int64Array>()),
                Arc::new(rows.iter().map(|r| r.1).collect::<Int64Array>()),
                Arc::new(rows.iter().map(|r| r.2.clone()).collect::<StringArray>()),
                Arc::new(rows.iter().map(|r| r.3).collect::<Int64Array>()),
            ];
            groups.assign(&columns, &mut some).unwrap();
            all.extend_from_slice(&some);
        }
        let keys = groups.into_keys().unwrap();
        let columns = keys.columns(0..keys.len()).unwrap();
        let integer = |column: usize, group| {
            let column = columns[column].as_any();
            let column = column.downcast_ref::<Int64Array>().unwrap();
            column.is_valid(group).then(|| column.value(group))
        };
        let texts = columns[2].as_any().downcast_ref::<StringArray>().unwrap();
        let of = |group: &usize| {
            let text = texts.is_valid(*group).then(|| texts.value(*group).into());
            let (a, b) = (integer(0, *group), integer(1, *group));
            (a, b, text, integer(3, *group))
        };
        let rows = all.iter().map(of).collect();
        (all, rows)
    }

    /// Integers near zero, near the ends and anywhere, so that codes are rearranged.
    fn integers() -> impl Strategy<Value = Option<i64>> {
        prop_oneof![
            1 => Just(None),
            8 => (-3..20_i64).prop_map(Some),
            3 => (0..3_i64).prop_map(|v| Some(v << 31)),
            1 => prop_oneof![Just(i64::MIN), Just(i64::MAX), any::<i64>()].prop_map(Some),
        ]
    }

    fn texts() -> impl Strategy<Value = Option<String>> {
        prop_oneof![
            1 => Just(None),
            4 => "[a-c]{0,2}".prop_map(Some),
            2 => "[ab]{7,9}".prop_map(Some),
            2 => "[ä-ü]{10}[ab]{2}".prop_map(Some),
        ]
    }

    proptest! {
        #[test]
        fn equal_rows_and_no_others_share_a_group_whatever_the_values_need(
            rows in prop::collection::vec((integers(), integers(), texts(), integers()), 1..300),
            narrow in 0..3_usize,
            batch in 1..50_usize,
        ) {
            let keep = |(a, b, c, d): Row| match narrow {
                0 => (a, b, c, d),
                1 => (a, None, c, None),
                _ => (a, Some(1), None, None),
            };
            let rows: Vec<Row> = rows.into_iter().map(keep).collect();
            let (groups, back) = grouped(&rows, batch);
            prop_assert_eq!(&back, &rows);
            let mut of_row: HashMap<&Row, usize> = HashMap::new();
            for (row, group) in rows.iter().zip(&groups) {
                prop_assert_eq!(*of_row.entry(row).or_insert(*group), *group);
            }
            let distinct: std::collections::HashSet<_> = groups.iter().collect();
            prop_assert_eq!(distinct.len(), of_row.len());
        }
    }

    #[test]
    fn one_column_numbers_itself_when_its_values_need_all_bits() {
        let batches = [
            vec![Some(5), None, Some(6)],
            vec![Some(i64::MAX), Some(5), Some(i64::MIN), None],
        ];
        let mut groups = Groups::new(vec![DataType::Int64]);
        let mut numbers = Vec::new();
        let mut all = Vec::new();
        for batch in batches {
            let column: ArrayRef = Arc::new(Int64Array::from(batch));
            groups.assign(&[column], &mut numbers).unwrap();
            all.extend_from_slice(&numbers);
        }
        assert_eq!(all[..3], [0, 1, 2]);
        assert_eq!([all[4], all[6]], [0, 1]);
        let keys = groups.into_keys().unwrap();
        assert_eq!(keys.len(), 5);
        let columns = keys.columns(0..5).unwrap();
        let column = columns[0].as_any().downcast_ref::<Int64Array>().unwrap();
        let back: Vec<_> = all.iter().map(|group| column.iter().nth(*group)).collect();
        let rows = [
            Some(5),
            None,
            Some(6),
            Some(i64::MAX),
            Some(5),
            Some(i64::MIN),
            None,
        ];
        assert_eq!(back, rows.map(Some));
    }

    #[test]
    fn many_groups_of_strings_grow_the_tables() {
        let text = |row: usize| format!("customer {:07}", row % 70_000);
        let mut groups = Groups::new(vec![DataType::Utf8View]);
        let mut numbers = Vec::new();
        for start in (0..200_000).step_by(8192) {
            let rows = start..(start + 8192).min(200_000);
            let column = StringViewArray::from_iter_values(rows.clone().map(text));
            groups.assign(&[Arc::new(column)], &mut numbers).unwrap();
            let expected: Vec<usize> = rows.map(|row| row % 70_000).collect();
            assert_eq!(numbers, expected);
        }
        let keys = groups.into_keys().unwrap();
        let columns = keys.columns(69_000..70_000).unwrap();
        let column = columns[0]
            .as_any()
            .downcast_ref::<StringViewArray>()
            .unwrap();
        assert_eq!(column.value(999), text(69_999));
    }
}
