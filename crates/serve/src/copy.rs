//! `COPY (query) TO STDOUT` and `COPY table TO STDOUT`: the PostgreSQL driver of ADBC, DuckDB and
//! `\copy` of psql read rows that way.

use super::errors::error;
use datafusion::sql::sqlparser::ast::{
    CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident, ObjectName,
    Statement,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use pgwire::api::Type;
use pgwire::api::results::{CopyCsvOptions, CopyEncoder, CopyTextOptions, FieldInfo};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::copy::CopyData;
use std::sync::Arc;

/// The form of the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CopyFormat {
    /// Values between delimiters.
    Text { delimiter: char, null: String },
    /// Comma-separated values, with a line of names if `header`.
    Csv {
        delimiter: char,
        null: String,
        header: bool,
    },
    /// PostgreSQL's own.
    Binary,
}

/// A copy of the rows of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopyOut {
    pub query: String,
    pub format: CopyFormat,
}

impl CopyFormat {
    /// Bytes of the signature, flags and extensions at the beginning of binary data.
    pub const HEADER_BYTES: usize = 19;

    pub fn encoder(&self, fields: Arc<Vec<FieldInfo>>) -> CopyEncoder {
        match self {
            CopyFormat::Text { delimiter, null } => {
                let options = CopyTextOptions {
                    delimiter: delimiter.to_string().into(),
                    null_string: null.as_str().into(),
                };
                CopyEncoder::new_text(fields, options)
            }
            CopyFormat::Csv {
                delimiter, null, ..
            } => {
                // Text is quoted, so that an empty one is not NULL.
                let texts = fields.iter().enumerate();
                let texts = texts.filter(|(_, field)| *field.datatype() == Type::TEXT);
                let options = CopyCsvOptions {
                    delimiter: delimiter.to_string().into(),
                    null_string: null.as_str().into(),
                    force_quote: texts.map(|(index, _)| index).collect(),
                    ..CopyCsvOptions::default()
                };
                CopyEncoder::new_csv(fields, options)
            }
            CopyFormat::Binary => CopyEncoder::new_binary(fields),
        }
    }

    /// What the protocol calls the form: 0 for text, 1 for binary.
    pub fn code(&self) -> i8 {
        i8::from(*self == CopyFormat::Binary)
    }

    pub fn binary_header() -> Vec<u8> {
        let mut bytes = b"PGCOPY\n\xff\r\n\0".to_vec();
        bytes.resize(CopyFormat::HEADER_BYTES, 0);
        bytes
    }

    /// The first line, if it names the columns.
    pub fn header(&self, fields: &[FieldInfo]) -> Option<CopyData> {
        let CopyFormat::Csv {
            delimiter,
            header: true,
            ..
        } = self
        else {
            return None;
        };
        let special = [*delimiter, '"', '\n', '\r'];
        let names = fields.iter().map(|field| match field.name() {
            name if name.contains(special) => format!("\"{}\"", name.replace('"', "\"\"")),
            name => name.to_owned(),
        });
        let line = names.collect::<Vec<_>>().join(&delimiter.to_string());
        Some(CopyData::new(format!("{line}\n").into_bytes().into()))
    }
}

/// A copy of rows of the client into a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopyIn {
    pub table: ObjectName,
    /// All columns of the table if none is named.
    pub columns: Vec<Ident>,
    pub format: CopyFormat,
}

/// A copy between the server and its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Copy {
    Out(CopyOut),
    In(CopyIn),
}

/// Reads a COPY statement; `None` if it copies to or from a file.
///
/// # Errors
/// An option that is not known.
pub(crate) fn read(text: &str) -> PgWireResult<Option<Copy>> {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, text);
    let Ok(parsed) = parsed else {
        // The engine has a COPY of its own, and reports what is wrong.
        return Ok(None);
    };
    let Some(Statement::Copy {
        source,
        to,
        target,
        options,
        legacy_options,
        ..
    }) = parsed.into_iter().next()
    else {
        return Ok(None);
    };
    let is_known = matches!(
        (to, target),
        (true, CopyTarget::Stdout) | (false, CopyTarget::Stdin)
    );
    if !is_known {
        return Ok(None);
    }
    let mut read = Options::default();
    for option in options {
        read.take(option)?;
    }
    for option in legacy_options {
        read.take_legacy(option)?;
    }
    let format = read.format();
    let query = match source {
        CopySource::Table {
            table_name: table,
            columns,
        } if !to => {
            return Ok(Some(Copy::In(CopyIn {
                table,
                columns,
                format,
            })));
        }
        CopySource::Query(query) => query.to_string(),
        CopySource::Table {
            table_name,
            columns,
        } => {
            let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
            let columns = match columns.is_empty() {
                true => "*".to_owned(),
                false => columns.join(", "),
            };
            format!("SELECT {columns} FROM {table_name}")
        }
    };
    Ok(Some(Copy::Out(CopyOut { query, format })))
}

#[derive(Default)]
struct Options {
    format: String,
    delimiter: Option<char>,
    null: Option<String>,
    header: bool,
}

impl Options {
    fn take(&mut self, option: CopyOption) -> PgWireResult<()> {
        match option {
            CopyOption::Format(name) => self.format = known_format(&name.value)?,
            CopyOption::Delimiter(delimiter) => self.delimiter = Some(single(delimiter)?),
            CopyOption::Null(null) => self.null = Some(null),
            CopyOption::Header(header) => self.header = header,
            CopyOption::Encoding(name) if is_utf8(&name) => {}
            CopyOption::Quote('"') | CopyOption::Escape('"') => {}
            other => return Err(unknown(&other)),
        }
        Ok(())
    }

    fn take_legacy(&mut self, option: CopyLegacyOption) -> PgWireResult<()> {
        match option {
            CopyLegacyOption::Binary => self.format = "binary".into(),
            CopyLegacyOption::Delimiter(delimiter) => self.delimiter = Some(single(delimiter)?),
            CopyLegacyOption::Null(null) => self.null = Some(null),
            CopyLegacyOption::Csv(options) => {
                self.format = "csv".into();
                for option in options {
                    match option {
                        CopyLegacyCsvOption::Header => self.header = true,
                        CopyLegacyCsvOption::Quote('"') | CopyLegacyCsvOption::Escape('"') => {}
                        other => return Err(unknown(&other)),
                    }
                }
            }
            other => return Err(unknown(&other)),
        }
        Ok(())
    }

    fn format(self) -> CopyFormat {
        match self.format.as_str() {
            "binary" => CopyFormat::Binary,
            "csv" => CopyFormat::Csv {
                delimiter: self.delimiter.unwrap_or(','),
                null: self.null.unwrap_or_default(),
                header: self.header,
            },
            _ => CopyFormat::Text {
                delimiter: self.delimiter.unwrap_or('\t'),
                null: self.null.unwrap_or_else(|| "\\N".into()),
            },
        }
    }
}

fn known_format(name: &str) -> PgWireResult<String> {
    let name = name.to_lowercase();
    match name.as_str() {
        "text" | "csv" | "binary" => Ok(name),
        _ => Err(error(
            "22023",
            format!("COPY format {name:?} is not known; expected text, csv or binary"),
        )),
    }
}

fn single(delimiter: char) -> PgWireResult<char> {
    match delimiter.is_ascii() && !delimiter.is_ascii_control() || delimiter == '\t' {
        true => Ok(delimiter),
        false => Err(error(
            "22023",
            "COPY delimiter must be a single one-byte character",
        )),
    }
}

fn is_utf8(name: &str) -> bool {
    ["utf8", "utf-8", "unicode"].contains(&name.to_lowercase().as_str())
}

fn unknown(option: &impl std::fmt::Display) -> PgWireError {
    error("0A000", format!("COPY option {option} is not supported"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_copy_are_read() {
        let csv = |null: &str, header| CopyFormat::Csv {
            delimiter: ',',
            null: null.into(),
            header,
        };
        for (text, format) in [
            (
                "COPY (SELECT 1) TO STDOUT (FORMAT binary)",
                CopyFormat::Binary,
            ),
            (
                "copy (select 1) to stdout with (format csv, header)",
                csv("", true),
            ),
            ("copy (select 1) to stdout with csv header", csv("", true)),
            (
                "COPY (SELECT 1) TO STDOUT WITH (FORMAT \"csv\", NULL 'x')",
                csv("x", false),
            ),
            (
                "COPY (SELECT 1) TO STDOUT",
                CopyFormat::Text {
                    delimiter: '\t',
                    null: "\\N".into(),
                },
            ),
        ] {
            match read(text).unwrap() {
                Some(Copy::Out(copy)) => assert_eq!(copy.format, format, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        let table = read("copy public.t (a, \"B c\") to stdout").unwrap();
        let query = "SELECT a, \"B c\" FROM public.t".to_owned();
        assert!(matches!(table, Some(Copy::Out(copy)) if copy.query == query));
        match read("COPY t (a) FROM STDIN WITH (FORMAT csv, HEADER)").unwrap() {
            Some(Copy::In(copy)) => {
                assert_eq!(copy.table.to_string(), "t");
                assert_eq!((copy.columns.len(), copy.format), (1, csv("", true)));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn copies_of_files_are_left_to_the_engine_and_unknown_options_refused() {
        assert_eq!(read("COPY (SELECT 1) TO 'x.csv'").unwrap(), None);
        for text in [
            "COPY t FROM STDIN (FREEZE)",
            "COPY t TO STDOUT (FORMAT parquet)",
            "COPY t TO STDOUT (FORMAT csv, QUOTE '''')",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
