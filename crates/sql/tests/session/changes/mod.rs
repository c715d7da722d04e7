//! Statements that change tables: what they do to rows, which rules they keep, and what is left
//! when they fail.

mod alter;
mod groups;
mod histories;
mod returning;
mod rows;
mod rules;
mod schemas;
mod values;

use super::{run_watched, session, text};
use tierloom_sql::{CollectedRows, Silent, SqlSession};

/// A session in which these statements ran.
fn made(statements: &str) -> SqlSession {
    let mut session = session();
    super::run(&mut session, statements).unwrap_or_else(|e| panic!("{statements}: {e}"));
    session
}

/// The number of rows that a statement reports as changed.
#[track_caller]
fn changed(session: &mut SqlSession, statement: &str) -> u64 {
    let mut rows = CollectedRows::default();
    let outcome = run_watched(session, statement, &mut rows, &Silent::default());
    let outcome = outcome.unwrap_or_else(|e| panic!("{statement}: {e}"));
    outcome
        .rows
        .unwrap_or_else(|| panic!("{statement}: no count"))
}

/// Runs a statement that must fail with all of `parts` in its message and leave the table `t` as
/// it was.
#[track_caller]
fn refused(session: &mut SqlSession, statement: &str, parts: &[&str]) {
    let all = "select * from t order by 1";
    let before = (text(session, all), session.tables());
    let message = super::error(session, statement);
    for part in parts {
        assert!(message.contains(part), "{statement}: {message}");
    }
    assert_eq!(
        (text(session, all), session.tables()),
        before,
        "{statement}"
    );
}
