//! Shrinks failing cases: statements, tables, rows and columns first, then clauses and settings.

mod variants;

use crate::FuzzError;
use crate::ast::Statement;
use crate::engines::{Duck, Host, Options};
use crate::judge::{Arena, Fault, FaultKind};
use crate::step::Step;
use crate::table::{FileKind, Layout, Table};
use std::time::{Duration, Instant};

/// A case whose statements are still syntax trees.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The settings of the engines.
    pub options: Options,
    /// The tables to load.
    pub tables: Vec<Table>,
    /// The statements; the last one fails.
    pub statements: Vec<Statement>,
}

impl Draft {
    /// Runs the statements on new engines and returns the first failure.
    ///
    /// # Errors
    /// If the engines cannot be set up.
    pub fn judge(&self, host: &Host, duck: Option<&mut Duck>) -> Result<Option<Fault>, FuzzError> {
        let mut arena = match Arena::open(&self.options, &self.tables, host, duck) {
            Ok(arena) => arena,
            Err(error) => return Fault::of_load(error).map(Some),
        };
        for statement in &self.statements {
            if let Some(failure) = arena.step(&Step::of(statement)).failure {
                return Ok(Some(failure));
            }
        }
        Ok(None)
    }
}

/// Makes a failing case smaller, keeping every change after which it fails in the same way.
pub struct Shrinker<'a> {
    best: Draft,
    failure: Fault,
    host: &'a Host,
    duck: Option<&'a mut Duck>,
    until: Instant,
    /// Number of cases tried.
    pub tried: usize,
}

impl<'a> Shrinker<'a> {
    /// A shrinker for `draft`, which fails with `failure`. It takes at most `time`.
    pub fn new(
        draft: Draft,
        failure: Fault,
        host: &'a Host,
        duck: Option<&'a mut Duck>,
        time: Duration,
    ) -> Self {
        let until = Instant::now() + time;
        Shrinker {
            best: draft,
            failure,
            host,
            duck,
            until,
            tried: 0,
        }
    }

    /// Shrinks until no step helps or the time is over; returns the smallest case and its failure.
    pub fn run(&mut self) -> (Draft, Fault) {
        loop {
            let before = self.best.clone();
            // Statements and tables first: with fewer of them, every further attempt is faster.
            self.statements();
            self.tables();
            self.rows();
            self.columns();
            self.clauses();
            self.settings();
            self.rows();
            if self.best == before || Instant::now() > self.until {
                return (self.best.clone(), self.failure.clone());
            }
        }
    }

    /// Keeps `draft` if it fails in the same way.
    fn attempt(&mut self, draft: Draft) -> bool {
        if Instant::now() > self.until {
            return false;
        }
        self.tried += 1;
        // DuckDB is slow to set up and decides nothing for other kinds of failure.
        let wants_duck = self.failure.kind == FaultKind::Duck;
        let duck = self.duck.as_deref_mut().filter(|_| wants_duck);
        let Ok(Some(failure)) = draft.judge(self.host, duck) else {
            return false;
        };
        if failure.kind != self.failure.kind || sort_of(&failure) != sort_of(&self.failure) {
            return false;
        }
        (self.best, self.failure) = (draft, failure);
        true
    }

    fn statements(&mut self) {
        if let Some(last) = self.best.statements.last().cloned() {
            let alone = Draft {
                statements: vec![last],
                ..self.best.clone()
            };
            if self.attempt(alone) {
                return;
            }
        }
        let mut size = self.best.statements.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            // The last statement is the one that fails, so it is never removed.
            while at + size < self.best.statements.len() {
                let mut statements = self.best.statements.clone();
                statements.drain(at..at + size);
                let draft = Draft {
                    statements,
                    ..self.best.clone()
                };
                if !self.attempt(draft) {
                    at += size;
                }
            }
            size /= 2;
        }
    }

    fn tables(&mut self) {
        for at in (0..self.best.tables.len()).rev() {
            let mut tables = self.best.tables.clone();
            tables.remove(at);
            self.attempt(Draft {
                tables,
                ..self.best.clone()
            });
        }
    }

    fn rows(&mut self) {
        for table in 0..self.best.tables.len() {
            let mut size = self.best.tables[table].rows();
            while size > 0 {
                let mut at = 0;
                while at < self.best.tables[table].rows() {
                    let rows = self.best.tables[table].rows();
                    let keep: Vec<bool> =
                        (0..rows).map(|row| row < at || row >= at + size).collect();
                    let smaller = self.best.tables[table].with_rows(&keep);
                    if !self.attempt_table(table, smaller) {
                        at += size;
                    }
                }
                size /= 2;
            }
        }
    }

    fn attempt_table(&mut self, at: usize, table: Table) -> bool {
        let mut draft = self.best.clone();
        draft.tables[at] = table;
        self.attempt(draft)
    }

    fn columns(&mut self) {
        for table in 0..self.best.tables.len() {
            for column in (0..self.best.tables[table].columns.len()).rev() {
                let mut smaller = self.best.tables[table].clone();
                smaller.columns.remove(column);
                if !smaller.columns.is_empty() {
                    self.attempt_table(table, smaller);
                }
            }
            let now = self.best.tables[table].clone();
            let rows = now.rows();
            self.attempt_table(
                table,
                Table {
                    files: vec![vec![rows]],
                    ..now.clone()
                },
            );
            if now.kind != FileKind::Arrow {
                let now = self.best.tables[table].clone();
                self.attempt_table(
                    table,
                    Table {
                        kind: FileKind::Arrow,
                        ..now
                    },
                );
            }
            for column in 0..self.best.tables[table].columns.len() {
                let mut plain = self.best.tables[table].clone();
                if plain.columns[column].layout != Layout::default() {
                    plain.columns[column].layout = Layout::default();
                    self.attempt_table(table, plain);
                }
            }
        }
    }

    fn clauses(&mut self) {
        for at in 0..self.best.statements.len() {
            let mut next = 0;
            loop {
                let variants = variants::of_statement(&self.best.statements[at]);
                let Some(variant) = variants.into_iter().nth(next) else {
                    break;
                };
                let mut draft = self.best.clone();
                draft.statements[at] = variant;
                // After a success, the same index is the next variant of the smaller statement.
                if !self.attempt(draft) {
                    next += 1;
                }
                if Instant::now() > self.until {
                    return;
                }
            }
        }
    }

    fn settings(&mut self) {
        let simple: [fn(&mut Options); 9] = [
            |o| o.placement = "dram".into(),
            |o| o.routed = false,
            |o| o.threads = 1,
            |o| o.plain_partitions = 1,
            |o| o.batch_rows = 16 * 1024,
            |o| o.big_groups = None,
            |o| o.big_join_rows = None,
            |o| o.join_order_rows = None,
            |o| o.dense_keys = false,
        ];
        for change in simple {
            let mut draft = self.best.clone();
            change(&mut draft.options);
            if draft != self.best {
                self.attempt(draft);
            }
        }
    }
}

/// A key for failures of one kind: those with different keys have different causes.
fn sort_of(failure: &Fault) -> String {
    match failure.kind {
        FaultKind::Panic => failure
            .message
            .chars()
            .filter(|c| !c.is_ascii_digit())
            .take(60)
            .collect(),
        FaultKind::Error => failure.message.chars().take(24).collect(),
        FaultKind::Rows => failure.message.starts_with("column ").to_string(),
        _ => String::new(),
    }
}
