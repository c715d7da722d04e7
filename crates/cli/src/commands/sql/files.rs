//! Files to load, as named on the command line.

use super::args::CsvArgs;
use crate::failure::Failure;
use std::path::{Path, PathBuf};
use tierloom_sql::CsvOptions;

/// Names and paths of `NAME=PATH` arguments.
///
/// # Errors
/// Bad input: another form, or a name that is given twice.
pub fn named(texts: &[String]) -> Result<Vec<(String, PathBuf)>, Failure> {
    let mut named: Vec<(String, PathBuf)> = Vec::new();
    for text in texts {
        let (name, path) = file(text)?;
        if named.iter().any(|(taken, _)| *taken == name) {
            return Err(Failure::input(format!(
                "--table {text}: the name is given twice"
            )));
        }
        named.push((name, path));
    }
    Ok(named)
}

/// The argument that [`named`] takes for a file.
pub fn argument(name: &str, path: &Path) -> String {
    format!("\"{}\"={}", name.replace('"', "\"\""), path.display())
}

fn file(text: &str) -> Result<(String, PathBuf), Failure> {
    let Some((name, path)) = text
        .split_once('=')
        .filter(|(n, p)| !n.trim().is_empty() && !p.is_empty())
    else {
        return Err(Failure::input(format!(
            "--table {text}: expected NAME=PATH, as in orders=data/orders.parquet"
        )));
    };
    let Some(name) = table_name(name.trim()) else {
        return Err(Failure::input(format!(
            "--table {text}: {name:?} is no name for a table; use letters, digits and _, or put it in double quotes"
        )));
    };
    Ok((name, Path::new(path).to_owned()))
}

/// A table name with SQL's rule for case: lower case unless it is in double quotes.
pub fn table_name(text: &str) -> Option<String> {
    if let Some(quoted) = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
        let name = quoted.replace("\"\"", "\"");
        return (!name.is_empty()).then_some(name);
    }
    let begins = text.chars().next()?;
    let plain = (begins.is_alphabetic() || begins == '_')
        && text.chars().all(|c| c.is_alphanumeric() || c == '_');
    plain.then(|| text.to_lowercase())
}

/// How CSV files are read.
pub fn csv(args: &CsvArgs) -> Result<CsvOptions, Failure> {
    let delimiter = match args.csv_delimiter.as_deref() {
        None => None,
        Some("\\t" | "tab") => Some(b'\t'),
        Some(text) => match text.as_bytes() {
            [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Some(*byte),
            _ => {
                return Err(Failure::input(format!(
                    "--csv-delimiter {text:?}: expected one ASCII character other than a quote, or tab"
                )));
            }
        },
    };
    Ok(CsvOptions {
        delimiter,
        header: !args.csv_no_header,
        infer_rows: args.csv_infer_rows,
        nulls: args.csv_null.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_sql_in_lower_case_unless_quoted() {
        for (typed, name) in [
            ("Orders", Some("orders")),
            ("\"Orders\"", Some("Orders")),
            ("\"a \"\"b\"", Some("a \"b")),
            ("größe_2", Some("größe_2")),
            ("2x", None),
            ("a-b", None),
            ("\"\"", None),
            ("", None),
        ] {
            assert_eq!(table_name(typed).as_deref(), name, "{typed}");
        }
    }
}
