//! How long what a plan computes of a timestamp stays the same.

use arrow::datatypes::DataType;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{
    CastExpr, Column, IsNotNullExpr, IsNullExpr, Literal,
};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The seconds within which `expr` has one value, if the only column that it reads has timestamps
/// without a time zone: 86,400 for a month, a date or a day of the week.
///
/// The spans begin at multiples of their length. `None` if it asks for more than calendar and clock
/// say of a whole minute.
pub(crate) fn constant_seconds(expr: &Arc<dyn PhysicalExpr>) -> Option<i64> {
    if expr.downcast_ref::<Column>().is_some() {
        return None;
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>()
        && cast.expr().downcast_ref::<Column>().is_some()
    {
        let is_date = matches!(cast.cast_type(), DataType::Date32 | DataType::Date64);
        return is_date.then_some(DAY);
    }
    if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>()
        && let Some(seconds) = of_function(function)
    {
        return Some(seconds);
    }
    let asked = match (
        expr.downcast_ref::<IsNullExpr>(),
        expr.downcast_ref::<IsNotNullExpr>(),
    ) {
        (Some(is_null), _) => Some(is_null.arg()),
        (_, Some(is_not_null)) => Some(is_not_null.arg()),
        _ => None,
    };
    // No span has both NULL and times. What reads no column is the same for ever too.
    if asked.is_some_and(|asked| asked.downcast_ref::<Column>().is_some()) {
        return Some(i64::MAX);
    }
    let children = expr.children();
    let mut seconds = children.into_iter().map(constant_seconds);
    seconds.try_fold(i64::MAX, |least, seconds| Some(least.min(seconds?)))
}

/// The name of the part that a call of `date_part` asks for, and of what.
pub(crate) fn part_of(function: &ScalarFunctionExpr) -> Option<(&str, &Arc<dyn PhysicalExpr>)> {
    let is_part = matches!(function.name(), "date_part" | "tierloom_date_part");
    match function.args() {
        [_, times] if is_part => Some((text(function, 0)?, times)),
        _ => None,
    }
}

/// An argument of a call that is a constant text.
fn text(function: &ScalarFunctionExpr, at: usize) -> Option<&str> {
    let literal = function.args().get(at)?.downcast_ref::<Literal>()?;
    ScalarValue::try_as_str(literal.value())?
}

/// The same of a call with the column as an argument; `None` if it is none of those that are known.
fn of_function(function: &ScalarFunctionExpr) -> Option<i64> {
    let is_column = |at: usize| {
        let argument = function.args().get(at);
        argument.is_some_and(|argument| argument.downcast_ref::<Column>().is_some())
    };
    if let Some((part, _)) = part_of(function).filter(|_| is_column(1)) {
        return of_part(part);
    }
    match (function.name(), function.args().len()) {
        ("tierloom_date", 1) if is_column(0) => Some(DAY),
        ("date_trunc" | "tierloom_date_trunc", 2) if is_column(1) => of_unit(text(function, 0)?),
        ("to_char" | "date_format", 2) if is_column(0) => of_format(text(function, 1)?),
        _ => None,
    }
}

fn of_part(name: &str) -> Option<i64> {
    match name.to_ascii_lowercase().as_str() {
        "hour" => Some(HOUR),
        "minute" => Some(MINUTE),
        "isoyear" | "week" | "day" | "dow" | "isodow" | "doy" => Some(DAY),
        other => of_unit(other),
    }
}

fn of_unit(name: &str) -> Option<i64> {
    match name.to_ascii_lowercase().as_str() {
        "year" | "quarter" | "month" | "week" | "day" => Some(DAY),
        "hour" => Some(HOUR),
        "minute" => Some(MINUTE),
        _ => None,
    }
}

/// Of a format of the crate `chrono`, whose fields are a percent sign, perhaps a padding, and a
/// letter.
fn of_format(format: &str) -> Option<i64> {
    let mut least = i64::MAX;
    let mut rest = format.chars();
    while let Some(next) = rest.next() {
        if next != '%' {
            continue;
        }
        let field = match rest.next()? {
            '-' | '_' | '0' => rest.next()?,
            field => field,
        };
        least = least.min(match field {
            'Y' | 'C' | 'y' | 'q' | 'm' | 'b' | 'B' | 'h' | 'd' | 'e' | 'a' | 'A' | 'w' | 'u'
            | 'U' | 'W' | 'G' | 'g' | 'V' | 'j' | 'D' | 'x' | 'F' | 'v' => DAY,
            'H' | 'k' | 'I' | 'l' | 'P' | 'p' => HOUR,
            'M' | 'R' => MINUTE,
            '%' | 't' | 'n' => i64::MAX,
            _ => return None,
        });
    }
    Some(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_as_fine_as_its_finest_field() {
        assert_eq!(of_format("%Y-%m"), Some(DAY));
        assert_eq!(of_format("%-d.%_m.%y, %I %p"), Some(HOUR));
        assert_eq!(of_format("%F %R"), Some(MINUTE));
        assert_eq!(of_format("100 %% of the year"), Some(i64::MAX));
        for finer in ["%Y %S", "%T", "%s", "%.3f", "%+", "%c", "%X", "%", "%-"] {
            assert_eq!(of_format(finer), None, "{finer}");
        }
        assert_eq!(of_part("DOW"), Some(DAY));
        assert_eq!(of_part("second"), None);
        assert_eq!(of_part("epoch"), None);
    }
}
