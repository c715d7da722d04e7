//! Runs statements that were given as a whole: `-c`, `-f`, a pipe.

use super::open::failure;
use super::plan::{Shown, SqlPlan};
use super::show::Printer;
use super::watch::Terminal;
use crate::failure::Failure;
use tierloom_sql::{Format, Piece, SqlError, SqlSession, Watch, split};

/// Runs the statements of `text` up to the first that fails.
///
/// All of them are parsed before the first runs, so a typing error at the end has no effects.
///
/// # Errors
/// Bad input with `name` and the position in it, a failure, or an interruption.
pub fn run(plan: &SqlPlan, mut session: SqlSession, text: &str, name: &str) -> Result<(), Failure> {
    let failed = |error| failure(error, Some(name));
    let pieces = split(text).map_err(failed)?;
    for piece in &pieces {
        session.check(piece).map_err(failed)?;
    }
    check_results(plan, &session, &pieces).map_err(failed)?;
    let mut printer = Printer::new(plan);
    let watch = Terminal::default();
    for piece in &pieces {
        // A statement that ran to its end may have left a stop request behind.
        if watch.stopped() {
            return Err(failed(SqlError::Interrupted));
        }
        let outcome = session.run(piece, &mut printer, &watch).map_err(failed)?;
        printer.tell(&outcome, plan.timing);
    }
    Ok(())
}

/// Refuses a second result where the output holds only one.
fn check_results(plan: &SqlPlan, session: &SqlSession, pieces: &[Piece]) -> Result<(), SqlError> {
    let one = plan.output.is_some() || plan.shown == Shown::Rows(Format::Arrow);
    let mut with_rows = pieces.iter().filter(|p| session.gives_rows(p));
    match with_rows.nth(1) {
        Some(second) if one => Err(SqlError::input_at(
            second.place,
            "this is the second statement with rows, and an Arrow stream or -o FILE holds the rows of one; run them one by one, or use COPY (query) TO 'file'",
        )),
        _ => Ok(()),
    }
}
