//! The values in the data of `COPY ... FROM STDIN`, which comes in pieces of any size.
//!
//! The rules are PostgreSQL's. Own code, because a NULL is an empty field without quotes, which
//! readers of CSV do not tell from one with quotes, and because the text format is no CSV.

use super::errors::error;
use pgwire::error::{PgWireError, PgWireResult};

/// What separates values and what stands for NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldFormat {
    /// Whether values may be quoted; otherwise backslashes are special.
    pub csv: bool,
    pub delimiter: u8,
    pub null: String,
    /// Whether the first line has names.
    pub header: bool,
}

/// Takes the values out of data.
#[derive(Debug)]
pub(crate) struct Fields {
    format: FieldFormat,
    /// Bytes of a row whose end has not come yet.
    partial: Vec<u8>,
    /// How many of them were looked at, and whether the last of those is inside quotes or after a
    /// backslash.
    looked_at: usize,
    inside: bool,
    /// Number of the row that comes next.
    row: u64,
    /// Whether the mark of the end has come, after which nothing counts.
    ended: bool,
}

/// The mark of the end, alone in a line.
const END: &[u8] = b"\\.";

impl Fields {
    pub fn new(format: FieldFormat) -> Self {
        Fields {
            format,
            partial: Vec::new(),
            looked_at: 0,
            inside: false,
            row: 1,
            ended: false,
        }
    }

    /// Takes further data, and gives each whole row to `take` with its number.
    ///
    /// # Errors
    /// Data of another form, or what `take` finds wrong.
    pub fn more(
        &mut self,
        data: &[u8],
        take: &mut dyn FnMut(u64, Vec<Option<String>>) -> PgWireResult<()>,
    ) -> PgWireResult<()> {
        self.partial.extend_from_slice(data);
        let mut start = 0;
        while let Some(end) = self.end_of_row() {
            let row = self.partial[start..end].to_vec();
            start = end + 1;
            self.whole(&row, take)?;
        }
        self.partial.drain(..start);
        self.looked_at -= start;
        Ok(())
    }

    /// Takes a last row without an end.
    ///
    /// # Errors
    /// As [`Fields::more`], and quotes that were not closed.
    pub fn finish(
        &mut self,
        take: &mut dyn FnMut(u64, Vec<Option<String>>) -> PgWireResult<()>,
    ) -> PgWireResult<()> {
        if self.inside && self.format.csv && !self.ended {
            return Err(self.wrong("unterminated CSV quoted field"));
        }
        let row = std::mem::take(&mut self.partial);
        match row.is_empty() {
            true => Ok(()),
            false => self.whole(&row, take),
        }
    }

    /// The place of the next line feed that ends a row.
    fn end_of_row(&mut self) -> Option<usize> {
        while let Some(&byte) = self.partial.get(self.looked_at) {
            self.looked_at += 1;
            match (self.format.csv, byte) {
                (true, b'"') => self.inside = !self.inside,
                (false, _) if self.inside => self.inside = false,
                (false, b'\\') => self.inside = true,
                (_, b'\n') if !self.inside => return Some(self.looked_at - 1),
                _ => {}
            }
        }
        None
    }

    fn whole(
        &mut self,
        row: &[u8],
        take: &mut dyn FnMut(u64, Vec<Option<String>>) -> PgWireResult<()>,
    ) -> PgWireResult<()> {
        let row = row.strip_suffix(b"\r").unwrap_or(row);
        self.ended |= row == END;
        if self.ended {
            return Ok(());
        }
        let is_header = self.format.header && self.row == 1;
        if !is_header {
            let values = match self.format.csv {
                true => self.quoted(row),
                false => self.escaped(row),
            };
            let values = values?.into_iter().map(|value| match value {
                Some(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| {
                    error(
                        "22021",
                        format!("COPY row {}: the text is no UTF-8", self.row),
                    )
                }),
                None => Ok(None),
            });
            take(self.row, values.collect::<PgWireResult<_>>()?)?;
        }
        self.row += 1;
        Ok(())
    }

    fn wrong(&self, what: &str) -> PgWireError {
        error("22P04", format!("COPY row {}: {what}", self.row))
    }

    /// The values of a row of CSV.
    fn quoted(&self, row: &[u8]) -> PgWireResult<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::new();
        let (mut value, mut has_quotes, mut inside) = (Vec::new(), false, false);
        let mut at = 0;
        loop {
            match row.get(at) {
                Some(b'"') if inside && row.get(at + 1) == Some(&b'"') => {
                    value.push(b'"');
                    at += 1;
                }
                Some(b'"') => {
                    inside = !inside;
                    has_quotes = true;
                }
                Some(&byte) if inside || byte != self.format.delimiter => value.push(byte),
                None if inside => return Err(self.wrong("unterminated CSV quoted field")),
                end => {
                    let is_null = !has_quotes && value == self.format.null.as_bytes();
                    let whole = std::mem::take(&mut value);
                    values.push((!is_null).then_some(whole));
                    has_quotes = false;
                    if end.is_none() {
                        return Ok(values);
                    }
                }
            }
            at += 1;
        }
    }

    /// The values of a row of the text format.
    fn escaped(&self, row: &[u8]) -> PgWireResult<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::new();
        let (mut start, mut at) = (0, 0);
        loop {
            match row.get(at) {
                // The byte after it is no delimiter.
                Some(b'\\') => at += 1,
                Some(&byte) if byte != self.format.delimiter => {}
                end => {
                    let raw = &row[start..at.min(row.len())];
                    let is_null = raw == self.format.null.as_bytes();
                    values.push((!is_null).then(|| unescaped(raw)));
                    start = at + 1;
                    if end.is_none() {
                        return Ok(values);
                    }
                }
            }
            at += 1;
        }
    }
}

/// The bytes that a text with backslashes means.
fn unescaped(raw: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        at += 1;
        let Some(&escaped) = raw.get(at).filter(|_| byte == b'\\') else {
            value.push(byte);
            continue;
        };
        at += 1;
        value.push(match escaped {
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            b'0'..=b'7' => number(raw, &mut at, escaped - b'0', 8, 2),
            b'x' if raw.get(at).is_some_and(u8::is_ascii_hexdigit) => {
                number(raw, &mut at, 0, 16, 2)
            }
            other => other,
        });
    }
    value
}

/// A number of up to `most` further digits.
fn number(raw: &[u8], at: &mut usize, first: u8, base: u32, most: usize) -> u8 {
    let mut number = first;
    for _ in 0..most {
        let Some(digit) = raw.get(*at).and_then(|&b| char::from(b).to_digit(base)) else {
            break;
        };
        // As PostgreSQL does, what is above a byte is cut.
        number = number.wrapping_mul(base as u8).wrapping_add(digit as u8);
        *at += 1;
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(csv: bool) -> FieldFormat {
        FieldFormat {
            csv,
            delimiter: if csv { b',' } else { b'\t' },
            null: if csv { String::new() } else { "\\N".into() },
            header: false,
        }
    }

    /// The rows of data that comes in pieces of `size` bytes.
    fn rows(
        format: FieldFormat,
        data: &str,
        size: usize,
    ) -> PgWireResult<Vec<Vec<Option<String>>>> {
        let mut fields = Fields::new(format);
        let mut rows = Vec::new();
        let mut take = |_, row| {
            rows.push(row);
            Ok(())
        };
        for piece in data.as_bytes().chunks(size) {
            fields.more(piece, &mut take)?;
        }
        fields.finish(&mut take)?;
        Ok(rows)
    }

    fn row(values: &[Option<&str>]) -> Vec<Option<String>> {
        values.iter().map(|v| v.map(str::to_owned)).collect()
    }

    #[test]
    fn csv_is_read_as_postgresql_does_however_it_is_cut() {
        let data = "1,,\"\"\r\n\"a \"\"b\"\",\nc\",x\"y,z\"w,\n\\.\nignored,\"";
        for size in [1, 2, 3, 7, 1000] {
            let read = rows(format(true), data, size).unwrap();
            let expected = [
                row(&[Some("1"), None, Some("")]),
                row(&[Some("a \"b\",\nc"), Some("xy,zw"), None]),
            ];
            assert_eq!(read, expected, "{size}");
        }
    }

    #[test]
    fn text_is_read_as_postgresql_does_however_it_is_cut() {
        let data = "a\\tb\t\\N\t\n\\\\N\t\\x41\\101\\q\t\\\nlast\nend\t\t";
        for size in [1, 2, 5, 1000] {
            let read = rows(format(false), data, size).unwrap();
            let expected = [
                row(&[Some("a\tb"), None, Some("")]),
                row(&[Some("\\N"), Some("AAq"), Some("\nlast")]),
                row(&[Some("end"), Some(""), Some("")]),
            ];
            assert_eq!(read, expected, "{size}");
        }
    }

    #[test]
    fn names_are_skipped_and_no_data_are_no_rows() {
        let header = FieldFormat {
            header: true,
            ..format(true)
        };
        assert_eq!(
            rows(header, "a,b\n1,2\n", 4).unwrap(),
            [row(&[Some("1"), Some("2")])]
        );
        assert!(rows(format(true), "", 1).unwrap().is_empty());
    }

    #[test]
    fn quotes_that_are_not_closed_and_bytes_that_are_no_text_are_errors() {
        assert!(rows(format(true), "a\n\"b\n", 3).is_err());
        let mut fields = Fields::new(format(false));
        let refused = fields.more(b"\\xff\n", &mut |_, _| Ok(()));
        assert!(refused.is_err());
    }
}
