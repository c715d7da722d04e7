//! `format` and `pg_size_pretty`: names and sizes as PostgreSQL writes them.

use arrow::array::{Array, ArrayRef, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::cast::{as_int64_array, as_string_array};
use datafusion::common::{Result, exec_err};
use std::sync::Arc;

/// A name as it is written in statements.
pub(super) fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    match begins_well && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// `format(pattern, value, ...)` with `%s`, `%I`, `%L` and `%%`, and the number of a value as in
/// `%1$s`.
pub(super) fn formatted(given: &[ArrayRef]) -> Result<ArrayRef> {
    let patterns = cast(&given[0], &DataType::Utf8)?;
    let patterns = as_string_array(&patterns)?;
    let options = FormatOptions::default();
    let values = given[1..].iter();
    let shown: Vec<ArrayFormatter<'_>> = values
        .map(|values| ArrayFormatter::try_new(values, &options))
        .collect::<std::result::Result<_, _>>()?;
    let mut texts = Vec::with_capacity(patterns.len());
    for row in 0..patterns.len() {
        let value = |at: usize| {
            let values = given.get(at + 1)?;
            Some((!values.is_null(row)).then(|| shown[at].value(row).to_string()))
        };
        texts.push(match patterns.is_null(row) {
            true => None,
            false => Some(one(patterns.value(row), &value)?),
        });
    }
    Ok(Arc::new(texts.into_iter().collect::<StringArray>()))
}

/// One text; `value` gives a value by its place, `None` if there are not so many.
fn one(pattern: &str, value: &dyn Fn(usize) -> Option<Option<String>>) -> Result<String> {
    let mut text = String::new();
    let mut next = 0;
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let mut digits = String::new();
        while let Some(digit) = chars.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        if !digits.is_empty() {
            let place: Option<usize> = digits.parse().ok();
            match (place.and_then(|place| place.checked_sub(1)), chars.next()) {
                (Some(place), Some('$')) => next = place,
                _ => return exec_err!("format: widths are not known here"),
            }
        }
        let kind = chars.next();
        if kind == Some('%') {
            text.push('%');
            continue;
        }
        let Some(value) = value(next) else {
            return exec_err!("format: too few arguments");
        };
        next += 1;
        match (kind, value) {
            (Some('s'), value) => text.push_str(&value.unwrap_or_default()),
            (Some('I'), Some(name)) => text.push_str(&quoted(&name)),
            (Some('I'), None) => return exec_err!("format: NULL is no name"),
            (Some('L'), Some(value)) => {
                text.push_str(&format!("'{}'", value.replace('\'', "''")));
            }
            (Some('L'), None) => text.push_str("NULL"),
            _ => return exec_err!("format: expected %s, %I, %L or %%"),
        }
    }
    Ok(text)
}

/// Bytes with a unit, rounded: less than 10,240 of it.
pub(super) fn sizes(given: &[ArrayRef]) -> Result<ArrayRef> {
    let bytes = cast(&given[0], &DataType::Int64)?;
    let bytes: &Int64Array = as_int64_array(&bytes)?;
    let texts = bytes.iter().map(|bytes| bytes.map(size));
    Ok(Arc::new(texts.collect::<StringArray>()))
}

fn size(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value.abs() >= 10_240.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", value.round(), UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_made_of_names_values_and_literals() {
        let values = [Some("My t"), Some("it's"), None];
        let value = |at: usize| values.get(at).map(|v| v.map(str::to_owned));
        let made = one("%I.%L = %s, 5%% %2$s %3$L", &value).unwrap();
        assert_eq!(made, "\"My t\".'it''s' = , 5% it's NULL");
        for (wrong, part) in [
            ("%4$s", "too few"),
            ("%10s", "widths"),
            ("%3$I", "no name"),
            ("%d", "expected"),
            ("%", "expected"),
            ("%0$s", "widths"),
        ] {
            let told = one(wrong, &value).unwrap_err().to_string();
            assert!(told.contains(part), "{wrong}: {told}");
        }
    }

    #[test]
    fn sizes_have_the_unit_in_which_they_are_less_than_ten_thousand() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (10_239, "10239 bytes"),
            (10_240, "10 kB"),
            (20 << 20, "20 MB"),
            (-(20 << 30), "-20 GB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
