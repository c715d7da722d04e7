//! Rows in the binary format of `COPY ... FROM STDIN`, which come in pieces of any size.
//!
//! A signature, flags and the length of an extension; then rows, each with the number of its values
//! and for each value its length, -1 for NULL, and its bytes; then -1.

use super::copy::CopyFormat;
use super::errors::error;
use arrow::array::{ArrayRef, new_empty_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, FieldRef};
use arrow_pg::datatypes::df::deserialize_parameters;
use bytes::{Buf, Bytes, BytesMut};
use datafusion::common::{ParamValues, ScalarValue};
use pgwire::api::portal::{Format, Portal};
use pgwire::api::stmt::StoredStatement;
use pgwire::error::{PgWireError, PgWireResult};
use std::sync::Arc;

/// Rows that become arrays together.
const PIECE_ROWS: usize = 8192;

/// Bytes of the header's fixed part, and of its signature.
const HEADER_BYTES: usize = CopyFormat::HEADER_BYTES;
const SIGNATURE_BYTES: usize = 11;

/// Where in the data the next byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Header,
    /// In the header's extension, of which so many bytes are to come.
    Extension(usize),
    Rows,
    End,
}

/// Takes rows out of data.
pub(crate) struct BinaryRows {
    fields: Vec<FieldRef>,
    /// Types of the values, which a dictionary has none of.
    types: Vec<DataType>,
    /// Bytes whose row has not come whole.
    partial: BytesMut,
    at: At,
    /// Number of the row that comes next.
    row: u64,
    /// Decodes values as it does parameters: they have the same form.
    decoder: Portal<()>,
    values: Vec<Vec<ScalarValue>>,
    pieces: Vec<Vec<ArrayRef>>,
}

impl BinaryRows {
    pub fn new(fields: Vec<FieldRef>) -> Self {
        let types = fields.iter().map(|field| match field.data_type() {
            DataType::Dictionary(_, value) => value.as_ref().clone(),
            other => other.clone(),
        });
        let statement = StoredStatement::new(String::new(), (), Vec::new());
        let mut decoder = Portal::new_cursor(String::new(), Arc::new(statement));
        decoder.parameter_format = Format::UnifiedBinary;
        BinaryRows {
            types: types.collect(),
            partial: BytesMut::new(),
            at: At::Header,
            row: 1,
            decoder,
            values: vec![Vec::new(); fields.len()],
            pieces: vec![Vec::new(); fields.len()],
            fields,
        }
    }

    /// Takes further data.
    ///
    /// # Errors
    /// Data of another form, or values that their columns cannot have.
    pub fn more(&mut self, data: &[u8]) -> PgWireResult<()> {
        self.partial.extend_from_slice(data);
        while self.step()? {}
        Ok(())
    }

    /// The values as arrays, when all have come.
    ///
    /// # Errors
    /// As [`BinaryRows::more`], and data that end within a row.
    pub fn columns(&mut self) -> PgWireResult<Vec<ArrayRef>> {
        if self.at != At::End && !(self.at == At::Rows && self.partial.is_empty()) {
            return Err(self.wrong("unexpected end of the data"));
        }
        self.end_piece()?;
        let pieces = self.pieces.iter().zip(&self.types);
        let columns = pieces.map(|(pieces, data_type)| {
            let pieces: Vec<_> = pieces.iter().map(AsRef::as_ref).collect();
            match pieces.as_slice() {
                [] => Ok(new_empty_array(data_type)),
                pieces => concat(pieces).map_err(|e| error("XX000", e.to_string())),
            }
        });
        columns.collect()
    }

    /// Takes the next whole part; whether there was one.
    fn step(&mut self) -> PgWireResult<bool> {
        match self.at {
            At::Header if self.partial.len() < HEADER_BYTES => Ok(false),
            At::Header => {
                let mut header = self.partial.split_to(HEADER_BYTES);
                let expected = CopyFormat::binary_header();
                if header[..SIGNATURE_BYTES] != expected[..SIGNATURE_BYTES] {
                    return Err(error("22P04", "COPY file signature not recognized"));
                }
                header.advance(SIGNATURE_BYTES);
                // Bits from 16 on are those that a reader has to know.
                if header.get_u32() >> 16 != 0 {
                    return Err(error("22P04", "unrecognized critical flags in COPY header"));
                }
                self.at = At::Extension(header.get_u32() as usize);
                Ok(true)
            }
            At::Extension(left) => {
                let skipped = left.min(self.partial.len());
                self.partial.advance(skipped);
                self.at = match left - skipped {
                    0 => At::Rows,
                    left => At::Extension(left),
                };
                Ok(self.at == At::Rows)
            }
            At::Rows => self.next_row(),
            At::End => {
                self.partial.clear();
                Ok(false)
            }
        }
    }

    /// Takes the next row; whether it has come whole.
    fn next_row(&mut self) -> PgWireResult<bool> {
        let mut rest: &[u8] = &self.partial;
        let Ok(count) = rest.try_get_i16() else {
            return Ok(false);
        };
        if count == -1 {
            self.at = At::End;
            return Ok(true);
        }
        if usize::try_from(count) != Ok(self.fields.len()) {
            let expected = self.fields.len();
            return Err(self.wrong(&format!("row field count is {count}, expected {expected}")));
        }
        let mut lengths = Vec::with_capacity(self.fields.len());
        for _ in 0..count {
            let Ok(length) = rest.try_get_i32() else {
                return Ok(false);
            };
            let length = match length {
                -1 => None,
                length => {
                    Some(usize::try_from(length).map_err(|_| self.wrong("invalid field size"))?)
                }
            };
            if rest.len() < length.unwrap_or(0) {
                return Ok(false);
            }
            rest.advance(length.unwrap_or(0));
            lengths.push(length);
        }
        self.partial.advance(2);
        let row: Vec<Option<Bytes>> = lengths
            .into_iter()
            .map(|length| {
                self.partial.advance(4);
                length.map(|length| self.partial.split_to(length).freeze())
            })
            .collect();
        self.add(row)?;
        Ok(true)
    }

    fn add(&mut self, row: Vec<Option<Bytes>>) -> PgWireResult<()> {
        self.decoder.parameters = row;
        let types: Vec<Option<&DataType>> = self.types.iter().map(Some).collect();
        let ParamValues::List(row) = deserialize_parameters(&self.decoder, &types)
            .map_err(|e| self.wrong(&e.to_string()))?
        else {
            return Err(self.wrong("values without an order"));
        };
        for (index, value) in row.into_iter().enumerate() {
            let value = value
                .value
                .cast_to(&self.types[index])
                .map_err(|e| self.wrong(&format!("column {}: {e}", self.fields[index].name())))?;
            self.values[index].push(value);
        }
        self.row += 1;
        match self.row.is_multiple_of(PIECE_ROWS as u64) {
            true => self.end_piece(),
            false => Ok(()),
        }
    }

    /// Makes arrays of the values that have come.
    fn end_piece(&mut self) -> PgWireResult<()> {
        for (values, pieces) in self.values.iter_mut().zip(&mut self.pieces) {
            if values.is_empty() {
                continue;
            }
            let piece = ScalarValue::iter_to_array(std::mem::take(values));
            pieces.push(piece.map_err(|e| error("22P03", e.to_string()))?);
        }
        Ok(())
    }

    fn wrong(&self, what: &str) -> PgWireError {
        error("22P04", format!("COPY row {}: {what}", self.row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::{Field, Int32Type};

    fn fields() -> Vec<FieldRef> {
        let words = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        vec![
            Arc::new(Field::new("n", DataType::Int32, true)),
            Arc::new(Field::new("w", words, true)),
        ]
    }

    /// A row whose values have these bytes.
    fn row(values: &[Option<&[u8]>]) -> Vec<u8> {
        let mut bytes = (values.len() as i16).to_be_bytes().to_vec();
        for value in values {
            let length = value.map_or(-1, |value| value.len() as i32);
            bytes.extend(length.to_be_bytes());
            bytes.extend(value.unwrap_or_default());
        }
        bytes
    }

    fn read(data: &[u8], size: usize) -> PgWireResult<Vec<ArrayRef>> {
        let mut rows = BinaryRows::new(fields());
        for piece in data.chunks(size) {
            rows.more(piece)?;
        }
        rows.columns()
    }

    #[test]
    fn rows_are_read_however_they_are_cut() {
        let mut data = CopyFormat::binary_header();
        // An extension of three bytes, which nobody has to know.
        data[HEADER_BYTES - 1] = 3;
        data.extend(b"xyz");
        data.extend(row(&[Some(&7i32.to_be_bytes()), Some(b"seven")]));
        data.extend(row(&[None, Some(b"")]));
        data.extend(row(&[Some(&(-1i32).to_be_bytes()), None]));
        data.extend((-1i16).to_be_bytes());
        for size in [1, 2, 5, 19, 1000] {
            let columns = read(&data, size).unwrap();
            let numbers: Vec<_> = columns[0].as_primitive::<Int32Type>().iter().collect();
            assert_eq!(numbers, [Some(7), None, Some(-1)], "{size}");
            let words: Vec<_> = columns[1].as_string::<i32>().iter().collect();
            assert_eq!(words, [Some("seven"), Some(""), None], "{size}");
        }
    }

    #[test]
    fn no_rows_are_columns_without_values() {
        let mut data = CopyFormat::binary_header();
        data.extend((-1i16).to_be_bytes());
        let columns = read(&data, 7).unwrap();
        assert_eq!(columns.iter().map(|c| c.len()).collect::<Vec<_>>(), [0, 0]);
    }

    #[test]
    fn data_of_another_form_are_errors() {
        let header = CopyFormat::binary_header();
        let with = |rest: &[u8]| [&header[..], rest].concat();
        let cases = [
            (b"1,2\n3,4\n5,6\n7,8\n9,10\n".to_vec(), "signature"),
            (with(&row(&[None])), "field count is 1, expected 2"),
            (with(&row(&[Some(b"abc"), None])), "row 1"),
            (with(&row(&[None, Some(b"\xff\xfe")])), "row 1"),
            (with(&[0, 2, 0xff, 0xff, 0xff, 0xfe]), "invalid field size"),
            (with(&row(&[None, Some(b"cut")])[..9]), "unexpected end"),
            (header[..7].to_vec(), "unexpected end"),
        ];
        for (data, expected) in cases {
            let failed = read(&data, 1000).unwrap_err().to_string();
            assert!(failed.contains(expected), "{failed}: {expected}");
        }
        let mut flagged = header.clone();
        flagged[SIGNATURE_BYTES + 1] = 1;
        assert!(read(&flagged, 1000).is_err());
    }
}
