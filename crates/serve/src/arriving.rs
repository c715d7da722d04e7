//! Rows that a client sends, until all have come.

use super::binary_rows::BinaryRows;
use super::copy::{CopyFormat, CopyIn};
use super::errors::error;
use super::fields::{FieldFormat, Fields};
use arrow::array::{ArrayRef, BinaryBuilder, LargeStringArray, LargeStringBuilder};
use arrow::datatypes::{DataType, FieldRef};
use pgwire::error::PgWireResult;
use std::sync::Arc;

/// Rows that are on their way into a table.
pub(crate) struct Arriving {
    /// The statement.
    pub text: String,
    pub copy: CopyIn,
    rows: Rows,
}

/// Rows in one of the two forms.
enum Rows {
    Texts(Texts),
    Binary(Box<BinaryRows>),
}

/// Rows whose values are texts.
struct Texts {
    fields: Vec<FieldRef>,
    data: Fields,
    values: Vec<LargeStringBuilder>,
}

impl Arriving {
    /// Rows for these columns.
    pub fn new(text: &str, copy: &CopyIn, fields: Vec<FieldRef>) -> Self {
        let texts = |format: FieldFormat| {
            Rows::Texts(Texts {
                data: Fields::new(format),
                values: fields.iter().map(|_| LargeStringBuilder::new()).collect(),
                fields: fields.clone(),
            })
        };
        let rows = match &copy.format {
            CopyFormat::Text { delimiter, null } => texts(FieldFormat {
                csv: false,
                delimiter: *delimiter as u8,
                null: null.clone(),
                header: false,
            }),
            CopyFormat::Csv {
                delimiter,
                null,
                header,
            } => texts(FieldFormat {
                csv: true,
                delimiter: *delimiter as u8,
                null: null.clone(),
                header: *header,
            }),
            CopyFormat::Binary => Rows::Binary(Box::new(BinaryRows::new(fields))),
        };
        Arriving {
            text: text.to_owned(),
            copy: copy.clone(),
            rows,
        }
    }

    /// Takes further data.
    ///
    /// # Errors
    /// Data of another form, or a row with too many or too few values.
    pub fn more(&mut self, bytes: &[u8]) -> PgWireResult<()> {
        match &mut self.rows {
            Rows::Texts(texts) => texts.more(bytes),
            Rows::Binary(rows) => rows.more(bytes),
        }
    }

    /// The values as arrays, when all have come.
    ///
    /// # Errors
    /// As [`Arriving::more`], and texts in a column of bytes that are none.
    pub fn columns(&mut self) -> PgWireResult<Vec<ArrayRef>> {
        match &mut self.rows {
            Rows::Texts(texts) => texts.columns(),
            Rows::Binary(rows) => rows.columns(),
        }
    }
}

impl Texts {
    fn more(&mut self, bytes: &[u8]) -> PgWireResult<()> {
        let (values, fields) = (&mut self.values, &self.fields);
        self.data
            .more(bytes, &mut |row, given| add(values, fields, row, given))
    }

    fn columns(&mut self) -> PgWireResult<Vec<ArrayRef>> {
        let (values, fields) = (&mut self.values, &self.fields);
        self.data
            .finish(&mut |row, given| add(values, fields, row, given))?;
        let columns = self.values.iter_mut().zip(&self.fields);
        let columns = columns.map(|(values, field)| {
            let texts = values.finish();
            match field.data_type() {
                DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                    bytes_of(&texts, field.name())
                }
                _ => Ok(Arc::new(texts) as ArrayRef),
            }
        });
        columns.collect()
    }
}

fn add(
    values: &mut [LargeStringBuilder],
    fields: &[FieldRef],
    row: u64,
    given: Vec<Option<String>>,
) -> PgWireResult<()> {
    if given.len() > fields.len() {
        let problem = format!("COPY row {row}: extra data after last expected column");
        return Err(error("22P04", problem));
    }
    if let Some(missing) = fields.get(given.len()) {
        let problem = format!(
            "COPY row {row}: missing data for column {:?}",
            missing.name()
        );
        return Err(error("22P04", problem));
    }
    for (values, value) in values.iter_mut().zip(given) {
        values.append_option(value);
    }
    Ok(())
}

/// Bytes as PostgreSQL writes them: `\x` and two digits each.
fn bytes_of(texts: &LargeStringArray, column: &str) -> PgWireResult<ArrayRef> {
    let mut bytes = BinaryBuilder::new();
    for text in texts {
        let Some(text) = text else {
            bytes.append_null();
            continue;
        };
        let digits = text.strip_prefix("\\x").unwrap_or("?").as_bytes();
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let pairs = digits.chunks(2).map(|pair| match pair {
            [high, low] => Some((16 * digit(*high)? + digit(*low)?) as u8),
            _ => None,
        });
        let Some(value) = pairs.collect::<Option<Vec<u8>>>() else {
            let problem = format!("column {column}: {text:?} are no bytes, such as \\x00ff");
            return Err(error("22P02", problem));
        };
        bytes.append_value(value);
    }
    Ok(Arc::new(bytes.finish()))
}
