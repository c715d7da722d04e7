//! Errors as clients expect them: with SQLSTATE and the position in the statement.

use super::clients::Why;
use pgwire::error::{ErrorInfo, PgWireError};
use tierloom_sql::{Position, SqlError};

/// What a client is told of a statement that took too long; its code is that of others, too.
pub(crate) const TIMED_OUT: &str = "canceling statement due to statement timeout";

/// An error with its SQLSTATE.
pub(crate) fn error(code: &str, message: impl std::fmt::Display) -> PgWireError {
    info("ERROR", code, message)
}

/// An error that ends the connection.
pub(crate) fn fatal(code: &str, message: impl std::fmt::Display) -> PgWireError {
    info("FATAL", code, message)
}

fn info(severity: &str, code: &str, message: impl std::fmt::Display) -> PgWireError {
    let info = ErrorInfo::new(severity.to_owned(), code.to_owned(), message.to_string());
    PgWireError::UserError(Box::new(info))
}

/// An error of a statement in `text`, which was stopped for `why` if it was.
pub(crate) fn of_statement(failed: SqlError, text: &str, why: Why) -> PgWireError {
    let (code, message, place) = match failed {
        SqlError::Input { place, message } => (input_code(&message), message, place),
        SqlError::Failed(message) => (failure_code(&message), message, None),
        SqlError::Busy(message) => ("53000", message, None),
        SqlError::Interrupted => {
            let (code, message) = match why {
                Why::Asked => ("57014", "canceling statement due to user request"),
                Why::TooLong => ("57014", TIMED_OUT),
                Why::Ending => ("57P01", "the server ends"),
            };
            (code, message.to_owned(), None)
        }
    };
    let mut info = ErrorInfo::new("ERROR".to_owned(), code.to_owned(), message);
    info.position = place.map(|place| offset(text, place).to_string());
    PgWireError::UserError(Box::new(info))
}

/// The number of the character at a line and column, from 1.
fn offset(text: &str, place: Position) -> usize {
    let before = usize::try_from(place.line.saturating_sub(1)).unwrap_or(usize::MAX);
    let lines = text.split('\n').take(before);
    let skipped: usize = lines.map(|line| line.chars().count() + 1).sum();
    skipped + usize::try_from(place.column).unwrap_or(1).max(1)
}

/// What the engine says tells kinds of bad input apart only by its words.
fn input_code(message: &str) -> &'static str {
    let has = |part: &str| message.contains(part);
    if has("violates NOT NULL") {
        "23502"
    } else if has("would be there twice") {
        "23505"
    } else if has("violates CHECK") {
        "23514"
    } else if has("is too long for column") {
        "22001"
    } else if has("cannot be converted") {
        failure_code(message)
    } else if has("there is no table") {
        "42P01"
    } else if has("No field named") || has("no column") {
        "42703"
    } else if has("Invalid function") || has("No function matches") {
        "42883"
    } else if has("there is a table") || has("already; choose another name") {
        "42P07"
    } else if has("Expected") || has("nterminated") {
        "42601"
    } else if has("not supported") || has("not implemented") {
        "0A000"
    } else {
        "42000"
    }
}

fn failure_code(message: &str) -> &'static str {
    let has = |part: &str| message.to_ascii_lowercase().contains(part);
    if has("divide by zero") || has("division by zero") {
        "22012"
    } else if has("overflow") || has("out of range") {
        "22003"
    } else if has("unrecognized configuration parameter") {
        "42704"
    } else if has("cannot be changed") {
        "55P02"
    } else if has("invalid value for parameter") {
        "22023"
    } else if has("arguments and got") {
        "42883"
    } else if has("cast error") || has("cannot cast") || has("parse") {
        "22P02"
    } else if has("resources exhausted") || has("out of memory") {
        "53200"
    } else {
        "XX000"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_over_lines() {
        let at = |line, column| offset("sélect\n  x,\ny", Position { line, column });
        assert_eq!((at(1, 1), at(1, 3), at(2, 3), at(3, 1)), (1, 3, 10, 13));
    }

    #[test]
    fn kinds_of_errors_have_their_codes() {
        for (failed, code) in [
            (SqlError::input("there is no table x; there are y"), "42P01"),
            (
                SqlError::input("Expected: an expression, found: EOF"),
                "42601",
            ),
            (
                SqlError::input("table t: NULL violates NOT NULL of column a"),
                "23502",
            ),
            (
                SqlError::input(
                    "table t: (1) would be there twice, which violates constraint t_pkey",
                ),
                "23505",
            ),
            (
                SqlError::input(
                    "Cannot cast string 'x' to value of Int8 type: the value cannot be converted to the type Int8 of column a",
                ),
                "22P02",
            ),
            (SqlError::failed("Divide by zero error"), "22012"),
            (SqlError::Busy("waited".into()), "53000"),
            (SqlError::Interrupted, "57014"),
        ] {
            let info: ErrorInfo = of_statement(failed, "select", Why::TooLong).into();
            assert_eq!(info.code, code, "{}", info.message);
        }
    }
}
