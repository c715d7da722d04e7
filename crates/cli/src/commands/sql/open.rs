//! Opens a session and loads its tables.

use super::plan::{SqlPlan, TableSource};
use super::watch::Terminal;
use crate::failure::Failure;
use tierloom_sql::{Loaded, SqlError, SqlSession};
use tierloom_text::Bytes;

/// Converts an error of the engine to a failure.
///
/// `script` is the file or option that the statement came from; it precedes the position in the
/// message.
pub fn failure(error: SqlError, script: Option<&str>) -> Failure {
    match error {
        SqlError::Input { place, message } => Failure::input(match (script, place) {
            (Some(script), Some(place)) => format!("{script}:{place}: {message}"),
            (Some(script), None) => format!("{script}: {message}"),
            _ => message,
        }),
        SqlError::Failed(message) => Failure::runtime(message),
        SqlError::Interrupted => Failure::Interrupted("the statement was stopped".into()),
    }
}

/// Starts the engine and loads what `--table` and `--generate` name.
///
/// # Errors
/// Bad input for files that cannot be parsed or do not fit into memory, or an interruption.
pub fn session(plan: &SqlPlan) -> Result<SqlSession, Failure> {
    let mut session = SqlSession::new(plan.options.clone()).map_err(|e| failure(e, None))?;
    let watch = Terminal::default();
    for table in &plan.tables {
        match table {
            TableSource::Files { name, path } => {
                let loaded = session
                    .load_files(name, path, plan.csv.clone(), &watch)
                    .map_err(|e| failure(e, Some(&format!("--table {name}"))))?;
                tell(&loaded);
            }
            TableSource::Generated(typed, data) => {
                let loaded = session
                    .generate(data, &watch)
                    .map_err(|e| failure(e, Some(&format!("--generate {typed}"))))?;
                loaded.iter().for_each(tell);
            }
        }
    }
    Ok(session)
}

fn tell(loaded: &Loaded) {
    note!(
        "table {}: {} rows, {}",
        loaded.name,
        loaded.rows,
        Bytes(loaded.size_bytes).rounded()
    );
}
