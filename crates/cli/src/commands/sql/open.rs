//! Opens a session and loads its tables.

use super::plan::{SessionPlan, TableSource};
use super::watch::Terminal;
use crate::failure::Failure;
use tierloom_sql::{Loaded, Origin, PoolTable, SqlError, SqlSession};
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
        SqlError::Failed(message) | SqlError::Busy(message) => Failure::runtime(message),
        SqlError::Interrupted => Failure::Interrupted("the statement was stopped".into()),
    }
}

/// Starts the engine and attaches or loads what `--pool`, `--table` and `--generate` name.
///
/// # Errors
/// Bad input for files that cannot be parsed or do not fit into memory, or an interruption.
pub fn session(plan: &SessionPlan) -> Result<SqlSession, Failure> {
    let mut session = SqlSession::new(plan.options.clone()).map_err(|e| failure(e, None))?;
    let watch = Terminal::default();
    if let Some((path, verification)) = &plan.pool {
        let pool = plan.pool_access.open(path)?;
        let used = session.use_pool(pool, *verification);
        used.map_err(|e| failure(e, None))?;
        let files = plan.tables.iter().filter_map(|table| match table {
            TableSource::Files { name, path } => Some((name.clone(), path.clone())),
            TableSource::Generated(..) => None,
        });
        let files: Vec<_> = files.collect();
        let given = session.load_into_pool(&files, &plan.csv, &watch);
        let given = given.map_err(|e| failure(e, Some("--pool")))?;
        let others = session
            .attach_pool(&watch)
            .map_err(|e| failure(e, Some("--pool")))?;
        given.iter().chain(&others).for_each(tell_of_pool);
    }
    for table in &plan.tables {
        match table {
            TableSource::Files { .. } if plan.pool.is_some() => {}
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
    note!("{}", size(loaded));
}

fn size(loaded: &Loaded) -> String {
    format!(
        "table {}: {} rows, {}",
        loaded.name,
        loaded.rows,
        Bytes(loaded.size_bytes).rounded()
    )
}

/// Says where a table of a pool came from, and why.
pub fn tell_of_pool(table: &PoolTable) {
    let size = match &table.loaded {
        Some(loaded) => size(loaded),
        None => format!("table {}", table.name),
    };
    match &table.origin {
        Origin::Attached => note!("{size}, attached"),
        Origin::Loaded { from, why } => {
            note!(
                "{size}, loaded from {} into the pool: {why}",
                from.display()
            );
        }
        Origin::Unusable { why } => note!("{size}, cannot be relied on: {why}"),
    }
}
