//! The interactive shell: reads statements and dot commands from a terminal.
//!
//! A failing statement is reported and the shell continues; only a terminal that cannot be read
//! ends it with an error.

use super::open::failure;
use super::plan::{Shown, SqlPlan};
use super::show::Printer;
use super::watch::Terminal;
use crate::failure::Failure;
use crate::{output, stop};
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use tierloom_sql::{SqlSession, is_whole, split};

const HELP: &str = "\
statements end with a semicolon and may take several lines; Ctrl-C stops the one that runs, Ctrl-D leaves
.tables            tables and views, with their rows
.schema [TABLE]    columns of a table, or of all
.timing [on|off]   whether times are printed after each statement
.maxrows N         most rows that are printed; 0 for all
.help              this
.quit              leave
EXPLAIN [ANALYZE] PLACEMENT query     where the columns of a query lie
SET tierloom.placement = '3:2'        moves all columns; SHOW tierloom.* lists all settings
COPY (query) TO 'file' (FORMAT csv)   or json, jsonl, arrow, parquet
ANALYZE table                         counts again what the planner knows
";

/// Reads and runs statements until the user quits.
///
/// # Errors
/// A terminal that cannot be read.
pub fn run(plan: &SqlPlan, session: SqlSession) -> Result<(), Failure> {
    let config = Config::builder().auto_add_history(false).build();
    let mut editor = DefaultEditor::with_config(config).map_err(Failure::runtime)?;
    let history = history_file();
    if let Some(file) = &history {
        // A missing file is normal: the first session has no history yet.
        let _ = editor.load_history(file);
    }
    note!("tierloom sql; .help lists commands");
    let mut shell = Shell {
        session,
        printer: Printer::new(plan),
        shown: plan.shown,
        timing: plan.timing,
    };
    let mut typed = String::new();
    loop {
        let prompt = if typed.is_empty() { "sql> " } else { "...> " };
        match editor.readline(prompt) {
            Ok(line) => {
                typed.push_str(&line);
                typed.push('\n');
            }
            // As in other shells, Ctrl-C at the prompt discards what was entered so far.
            Err(ReadlineError::Interrupted) => {
                typed.clear();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => {
                return Err(Failure::runtime(format!(
                    "cannot read the terminal: {error}"
                )));
            }
        }
        let command = typed.trim_start().starts_with('.');
        if !command && !is_whole(&typed) {
            continue;
        }
        let text = std::mem::take(&mut typed);
        if text.trim().is_empty() {
            continue;
        }
        let _ = editor.add_history_entry(text.trim());
        let goes_on = if command {
            shell.command(text.trim())
        } else {
            shell.statements(&text);
            true
        };
        if !goes_on {
            break;
        }
    }
    if let Some(file) = &history
        && let Err(error) = save(&mut editor, file)
    {
        note!(
            "note: the history was not kept in {}: {error}",
            file.display()
        );
    }
    Ok(())
}

fn save(editor: &mut DefaultEditor, file: &PathBuf) -> Result<(), String> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(|e| e.to_string())?;
    }
    editor.save_history(file).map_err(|e| e.to_string())
}

/// `$XDG_STATE_HOME/tierloom/sql_history`, by default below `~/.local/state`.
fn history_file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    let state = set("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(set("HOME")?).join(".local/state")))?;
    Some(state.join("tierloom/sql_history"))
}

struct Shell {
    session: SqlSession,
    printer: Printer,
    shown: Shown,
    timing: bool,
}

/// Clears the stop request, which was for the work before.
fn forget_stop() {
    stop::flag().store(false, Ordering::SeqCst);
}

impl Shell {
    /// Runs statements up to the first that fails; the session continues after a failure.
    fn statements(&mut self, text: &str) {
        let watch = Terminal::default();
        let pieces = match split(text) {
            Ok(pieces) => pieces,
            Err(error) => return complain(&failure(error, Some("here"))),
        };
        for piece in &pieces {
            // Ctrl-C during the previous statement must not stop this one.
            forget_stop();
            let done = self.session.run(piece, &mut self.printer, &watch);
            match done {
                Ok(outcome) => self.printer.tell(&outcome, self.timing),
                Err(error) => {
                    self.printer.abandon();
                    complain(&failure(error, Some("here")));
                    break;
                }
            }
        }
        forget_stop();
    }

    /// Runs a line that begins with a dot; returns false to quit.
    fn command(&mut self, line: &str) -> bool {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let argument = words.next();
        let done = match name {
            ".quit" | ".exit" => return false,
            ".help" => output::print(HELP),
            ".tables" => output::print(&self.tables()),
            ".schema" => self.schema(argument).and_then(|text| output::print(&text)),
            ".timing" => self.set_timing(argument),
            ".maxrows" => self.set_max_rows(argument),
            _ => Err(Failure::input(format!(
                "there is no command {name}; .help lists them, and statements do not begin with a dot"
            ))),
        };
        if let Err(error) = done {
            complain(&error);
        }
        true
    }

    fn tables(&self) -> String {
        let line = |t: &tierloom_sql::TableInfo| {
            let rows = t.rows.map_or(t.kind.to_owned(), |n| format!("{n} rows"));
            format!("{:<24} {rows}\n", t.name)
        };
        self.session.tables().iter().map(line).collect()
    }

    fn schema(&self, table: Option<&str>) -> Result<String, Failure> {
        let names = match table {
            Some(name) => vec![super::files::table_name(name).unwrap_or_else(|| name.to_owned())],
            None => self.session.tables().into_iter().map(|t| t.name).collect(),
        };
        let mut text = String::new();
        for name in names {
            let schema = self
                .session
                .schema_of(&name)
                .map_err(|e| failure(e, None))?;
            text.push_str(&format!("{name}\n"));
            for field in schema.fields() {
                let null = if field.is_nullable() { "" } else { " not null" };
                text.push_str(&format!(
                    "  {:<24} {}{null}\n",
                    field.name(),
                    field.data_type()
                ));
            }
        }
        Ok(text)
    }

    fn set_timing(&mut self, argument: Option<&str>) -> Result<(), Failure> {
        self.timing = match argument {
            Some("on") => true,
            Some("off") => false,
            None => !self.timing,
            Some(other) => {
                return Err(Failure::input(format!(
                    ".timing {other}: expected on or off"
                )));
            }
        };
        note!("timing is {}", if self.timing { "on" } else { "off" });
        Ok(())
    }

    fn set_max_rows(&mut self, argument: Option<&str>) -> Result<(), Failure> {
        let rows: usize = argument
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Failure::input(".maxrows: expected a number; 0 for all"))?;
        if let Shown::Table { .. } = self.shown {
            self.shown = Shown::Table {
                max_rows: (rows > 0).then_some(rows),
            };
            self.printer.set_shown(self.shown);
        }
        Ok(())
    }
}

fn complain(failure: &Failure) {
    // The shell continues, so the exit code is not used.
    let _ = failure.report();
}
