//! The tables of a case: columns of values, their split into files and batches, and their Arrow
//! arrays.

use crate::FuzzError;
use crate::value::{Value, array};
use arrow::array::{ArrayRef, Int32Array, RecordBatch, make_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;

/// How the dictionaries of a column are built, for each batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Layout {
    /// Whether every dictionary value occurs twice; odd rows use the second one.
    pub doubled: bool,
    /// Whether there is a dictionary value that no row uses.
    pub unused: bool,
    /// Whether NULLs are a NULL among the dictionary values instead of a NULL key.
    pub null_word: bool,
    /// Whether dictionary values are in the order of the rows from last to first.
    pub backwards: bool,
}

/// A column with its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Name of the column.
    pub name: String,
    /// The Arrow type to store the values in.
    pub data_type: DataType,
    /// One value per row.
    pub values: Vec<Value>,
    /// Dictionary layout; ignored for other types.
    pub layout: Layout,
}

/// The kind of file that a table is loaded from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// An Arrow IPC file.
    Arrow,
    /// An Arrow IPC stream.
    Stream,
    /// A Parquet file, one row group per batch.
    Parquet,
    /// A CSV file with a header, whose types are inferred.
    Csv,
}

impl FileKind {
    /// All kinds, in the order of the generator's weights.
    pub const ALL: [FileKind; 4] = [
        FileKind::Arrow,
        FileKind::Stream,
        FileKind::Parquet,
        FileKind::Csv,
    ];

    /// The name in case files, and the file name extension.
    pub fn name(self) -> &'static str {
        match self {
            FileKind::Arrow => "arrow",
            FileKind::Stream => "arrows",
            FileKind::Parquet => "parquet",
            FileKind::Csv => "csv",
        }
    }
}

/// A table with its data.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Name of the table.
    pub name: String,
    /// The kind of its files.
    pub kind: FileKind,
    /// Its columns, in order.
    pub columns: Vec<Column>,
    /// The number of rows of each batch, by file; there is at least one file.
    pub files: Vec<Vec<usize>>,
}

impl Table {
    /// Number of rows, over all files and batches.
    pub fn rows(&self) -> usize {
        self.files.iter().flatten().sum()
    }

    /// Its schema, in which all columns are nullable.
    pub fn schema(&self) -> SchemaRef {
        let fields = self
            .columns
            .iter()
            .map(|c| Field::new(&c.name, c.data_type.clone(), true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Its data, by file and batch.
    ///
    /// # Errors
    /// If a value does not fit its type.
    pub fn batches(&self) -> Result<Vec<Vec<RecordBatch>>, FuzzError> {
        let mut start = 0;
        let schema = self.schema();
        let mut files = Vec::new();
        for file in &self.files {
            let mut batches = Vec::new();
            for rows in file {
                let range = start..start + rows;
                start = range.end;
                let arrays = self
                    .columns
                    .iter()
                    .map(|c| c.array(&c.values[range.clone()]));
                let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
                let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(*rows));
                batches.push(RecordBatch::try_new_with_options(
                    Arc::clone(&schema),
                    arrays,
                    &options,
                )?);
            }
            files.push(batches);
        }
        Ok(files)
    }

    /// The table with only the rows that `keep` selects; files and batches remain, with fewer rows.
    pub fn with_rows(&self, keep: &[bool]) -> Table {
        let mut start = 0;
        let mut files = self.files.clone();
        for rows in files.iter_mut().flatten() {
            let kept = keep[start..start + *rows].iter().filter(|k| **k).count();
            start += *rows;
            *rows = kept;
        }
        let columns = self.columns.iter().map(|c| Column {
            values: c
                .values
                .iter()
                .zip(keep)
                .filter(|(_, keep)| **keep)
                .map(|(value, _)| value.clone())
                .collect(),
            ..c.clone()
        });
        Table {
            columns: columns.collect(),
            files,
            ..self.clone()
        }
    }
}

impl Column {
    fn array(&self, values: &[Value]) -> Result<ArrayRef, FuzzError> {
        match &self.data_type {
            DataType::Dictionary(key, words) => dictionary(key, words, values, self.layout),
            plain => array(plain, values),
        }
    }
}

/// A dictionary array with the given layout, if its key type can count that many values.
fn dictionary(
    key: &DataType,
    word_type: &DataType,
    values: &[Value],
    layout: Layout,
) -> Result<ArrayRef, FuzzError> {
    let mut distinct: Vec<&Value> = Vec::new();
    let order: Box<dyn Iterator<Item = &Value>> = match layout.backwards {
        true => Box::new(values.iter().rev()),
        false => Box::new(values.iter()),
    };
    for value in order {
        // NaN is not equal to itself, so each one gets a separate dictionary value.
        if *value != Value::Null && !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    let capacity = match key {
        DataType::Int8 => 127,
        DataType::UInt8 => 255,
        _ => usize::MAX,
    };
    let count = distinct.len();
    let mut words: Vec<Value> = distinct.iter().map(|v| (*v).clone()).collect();
    let doubled = layout.doubled && 2 * count + 2 < capacity;
    if doubled {
        words.extend(words.clone());
    }
    let null_at = words.len();
    let null_word = layout.null_word && words.len() + 1 < capacity;
    if null_word {
        words.push(Value::Null);
    }
    if layout.unused && words.len() + 1 < capacity {
        let word = words.iter().find(|w| **w != Value::Null).cloned();
        words.push(match word {
            Some(Value::Text(text)) => Value::Text(format!("{text}~")),
            Some(Value::Int(number)) => Value::Int(number / 2),
            Some(other) => other,
            None => Value::Null,
        });
    }
    let keys = values.iter().enumerate().map(|(row, value)| {
        if *value == Value::Null {
            return null_word.then_some(null_at as i32);
        }
        let place = distinct
            .iter()
            .position(|d| *d == value || same(d, value))?;
        let second = doubled && row % 2 == 1;
        Some((if second { place + count } else { place }) as i32)
    });
    let keys: Int32Array = keys.collect();
    let keys = cast(&keys, key)?;
    let words = array(word_type, &words)?;
    let data = keys
        .to_data()
        .into_builder()
        .data_type(DataType::Dictionary(
            Box::new(key.clone()),
            Box::new(word_type.clone()),
        ))
        .add_child_data(words.to_data())
        .build()?;
    Ok(make_array(data))
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        _ => a == b,
    }
}
