//! Constants as SQL text.

use crate::data::Kind;
use crate::value::Value;
use arrow::datatypes::{DataType, TimeUnit};

/// A value of `data_type` as SQL that both dialects accept; `None` if it has no literal.
pub fn literal(value: &Value, data_type: &DataType) -> Option<String> {
    if let DataType::Dictionary(_, words) = data_type {
        return literal(value, words);
    }
    Some(match (value, Kind::of(data_type)) {
        (Value::Int(number), Kind::Int) => match i64::try_from(*number) {
            Ok(small) if small >= 0 => small.to_string(),
            Ok(i64::MIN) => "CAST('-9223372036854775808' AS BIGINT)".into(),
            Ok(negative) => format!("({negative})"),
            Err(_) => format!("CAST('{number}' AS BIGINT UNSIGNED)"),
        },
        (Value::Int(number), Kind::Decimal) => decimal(*number, data_type)?,
        (Value::Int(days), Kind::Date) => match data_type {
            DataType::Date32 => format!("DATE '{}'", day(*days as i64)),
            _ => format!("DATE '{}'", day((*days / 86_400_000) as i64)),
        },
        (Value::Int(number), Kind::Stamp) => {
            let DataType::Timestamp(unit, zone) = data_type else {
                return None;
            };
            let nanos = *number * nanos_per(*unit);
            let second = nanos.div_euclid(1_000_000_000) as i64;
            let micros = nanos.rem_euclid(1_000_000_000) / 1_000;
            let (days, time) = (second.div_euclid(86_400), second.rem_euclid(86_400));
            let text = format!("{} {}.{micros:06}", day(days), clock(time));
            match zone {
                Some(_) => format!("CAST('{text}+00:00' AS TIMESTAMP WITH TIME ZONE)"),
                None => format!("TIMESTAMP '{text}'"),
            }
        }
        (Value::Int(number), Kind::Time) => {
            let unit = match data_type {
                DataType::Time32(unit) | DataType::Time64(unit) => *unit,
                _ => return None,
            };
            let second = *number * nanos_per(unit) / 1_000_000_000;
            format!("TIME '{}'", clock(second as i64))
        }
        (Value::Float(number), _) if number.is_nan() => "CAST('NaN' AS DOUBLE)".into(),
        (Value::Float(number), _) if number.is_infinite() => {
            let sign = if *number < 0.0 { "-" } else { "" };
            format!("CAST('{sign}Infinity' AS DOUBLE)")
        }
        (Value::Float(number), _) => format!("CAST({number:?} AS DOUBLE)"),
        (Value::Bool(value), _) => value.to_string(),
        (Value::Text(text), _) => quoted(text),
        _ => return None,
    })
}

/// Text as an SQL string literal.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn nanos_per(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

fn decimal(number: i128, data_type: &DataType) -> Option<String> {
    let scale = match data_type {
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => *scale,
        _ => return None,
    };
    if scale < 0 {
        let zeros = "0".repeat(usize::from(scale.unsigned_abs()));
        return Some(format!("CAST('{number}{zeros}' AS DECIMAL(20, 0))"));
    }
    let digits = format!(
        "{:0>width$}",
        number.unsigned_abs(),
        width = scale as usize + 1
    );
    let (whole, part) = digits.split_at(digits.len() - scale as usize);
    let sign = if number < 0 { "-" } else { "" };
    Some(format!(
        "CAST('{sign}{whole}.{part}' AS DECIMAL(38, {scale}))"
    ))
}

fn clock(second: i64) -> String {
    format!(
        "{:02}:{:02}:{:02}",
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

/// The date that is `days` days after 1970-01-01, in the Gregorian calendar.
fn day(days: i64) -> String {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    format!("{:04}-{month:02}-{date:02}", year + era * 400 + carry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_at_the_ends_of_the_calendar_are_written_right() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(-719_162), "0001-01-01");
        assert_eq!(day(2_932_896), "9999-12-31");
        assert_eq!(day(11_016), "2000-02-29");
    }

    #[test]
    fn decimals_keep_their_digits() {
        let ten_two = DataType::Decimal128(10, 2);
        assert_eq!(
            decimal(-5, &ten_two).unwrap(),
            "CAST('-0.05' AS DECIMAL(38, 2))"
        );
        assert_eq!(
            decimal(1234, &ten_two).unwrap(),
            "CAST('12.34' AS DECIMAL(38, 2))"
        );
    }
}
