//! Errors as gRPC knows them: a code, and the words of the engine.

use super::super::errors::TIMED_OUT;
use arrow_flight::error::FlightError;
use pgwire::error::{ErrorInfo, PgWireError};
use tonic::{Code, Status};

/// An error of what both protocols have in common.
pub(super) fn status(refused: PgWireError) -> Status {
    let info = ErrorInfo::from(refused);
    let code = match info.code.as_str() {
        "57014" if info.message == TIMED_OUT => Code::DeadlineExceeded,
        "57014" => Code::Cancelled,
        "57P01" => Code::Unavailable,
        "42501" => Code::PermissionDenied,
        "42P01" | "42704" => Code::NotFound,
        "42P07" | "23505" => Code::AlreadyExists,
        "0A000" => Code::Unimplemented,
        "55P02" | "55000" => Code::FailedPrecondition,
        code => match &code[..code.len().min(2)] {
            "23" => Code::FailedPrecondition,
            "22" | "42" | "08" => Code::InvalidArgument,
            "28" => Code::Unauthenticated,
            "53" => Code::ResourceExhausted,
            _ => Code::Internal,
        },
    };
    let place = info.position.map(|at| format!(" (at character {at})"));
    let message = format!("{}{}", info.message, place.unwrap_or_default());
    Status::new(code, message)
}

/// An error of rows that a client has sent.
pub(super) fn of_rows(wrong: FlightError) -> Status {
    match wrong {
        FlightError::Tonic(status) => *status,
        other => Status::invalid_argument(format!("the rows cannot be read: {other}")),
    }
}

/// An error that no input explains.
pub(super) fn internal(wrong: impl std::fmt::Display) -> Status {
    Status::internal(wrong.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::super::clients::Why;
    use super::super::super::errors::of_statement;
    use super::*;
    use tierloom_sql::{Position, SqlError};

    #[test]
    fn kinds_of_errors_have_their_codes() {
        for (failed, why, code) in [
            (
                SqlError::input("there is no table x; there are y"),
                Why::Asked,
                Code::NotFound,
            ),
            (SqlError::Interrupted, Why::Asked, Code::Cancelled),
            (SqlError::Interrupted, Why::TooLong, Code::DeadlineExceeded),
            (SqlError::Interrupted, Why::Ending, Code::Unavailable),
            (
                SqlError::Busy("waited".into()),
                Why::Asked,
                Code::ResourceExhausted,
            ),
            (
                SqlError::failed("Divide by zero error"),
                Why::Asked,
                Code::InvalidArgument,
            ),
            (SqlError::failed("broken"), Why::Asked, Code::Internal),
        ] {
            let status = status(of_statement(failed, "select", why));
            assert_eq!(status.code(), code, "{}", status.message());
        }
    }

    #[test]
    fn the_place_in_the_statement_is_told() {
        let place = Position { line: 1, column: 8 };
        let failed = SqlError::input_at(place, "Expected: an expression");
        let status = status(of_statement(failed, "select )", Why::Asked));
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().ends_with("(at character 8)"), "{status}");
    }
}
