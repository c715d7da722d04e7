//! Cases as JSON files: tables with types and values, settings, statements, and the expected rows.
//!
//! A case file has everything that is needed to repeat a failure, so it does not depend on the
//! generator or its seed.

use crate::FuzzError;
use crate::compare::{cells, shown};
use crate::engines::{Host, Options, Rows};
use crate::judge::{Arena, Fault};
use crate::step::{Does, Step};
use crate::table::{Column, FileKind, Layout, Table};
use crate::value::Value;
use arrow::datatypes::DataType;
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::path::Path;

/// A case that can be written to a file and replayed.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// A description of the failure.
    pub about: String,
    /// The settings of the engines.
    pub options: Options,
    /// The tables to load.
    pub tables: Vec<Table>,
    /// The statements, in order; the last one failed.
    pub steps: Vec<Step>,
    /// The rows of the last statement, sorted as text; `None` if it must fail in both engines, or
    /// if no oracle returned rows.
    pub expected: Option<Vec<String>>,
    /// Whether plain DataFusion is known to answer the last statement wrongly, so that only
    /// `expected` counts.
    pub plain_wrong: bool,
}

impl Case {
    /// The rows as a case stores them: sorted, as text, and without columns whose last digits may
    /// differ.
    ///
    /// # Errors
    /// If a column has a type that cannot be compared.
    pub fn rows(rows: &Rows, step: &Step) -> Result<Vec<String>, FuzzError> {
        let all = cells(rows).map_err(FuzzError::Case)?;
        let mut lines: Vec<String> = all
            .iter()
            .map(|row| {
                let kept = row.iter().enumerate();
                let exact = |i: usize| !step.inexact.get(i).copied().unwrap_or(false);
                let kept = kept.filter(|(i, _)| exact(*i)).map(|(_, c)| c.clone());
                shown(&kept.collect::<Vec<_>>())
            })
            .collect();
        lines.sort();
        Ok(lines)
    }

    /// Runs the case and returns its failure, if it still fails.
    ///
    /// # Errors
    /// If the engines cannot be set up.
    pub fn replay(&self) -> Result<Option<Fault>, FuzzError> {
        let mut arena = Arena::open(&self.options, &self.tables, &Host::new()?, None)?;
        for (index, step) in self.steps.iter().enumerate() {
            let last = index + 1 == self.steps.len();
            let failure = arena.step(step).failure;
            // Where plain DataFusion is known to be wrong, a difference from it is expected.
            if let Some(failure) = failure.filter(|_| !(last && self.plain_wrong)) {
                return Ok(Some(failure));
            }
        }
        let (Some(expected), Some(step)) = (&self.expected, self.steps.last()) else {
            return Ok(None);
        };
        let message = match arena.answer(&step.sql) {
            Ok(Some(rows)) => {
                let found = Case::rows(&rows, step)?;
                if found == *expected {
                    return Ok(None);
                }
                format!("rows {found:?}, not {expected:?}")
            }
            Ok(None) => "no rows".into(),
            Err(message) => message,
        };
        Ok(Some(Fault {
            kind: crate::judge::FaultKind::Rows,
            message,
            right: None,
        }))
    }

    /// Writes the case to a file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), FuzzError> {
        std::fs::write(path, self.text()).map_err(FuzzError::io(path.display().to_string()))
    }

    /// The case as JSON, with one line per column and statement so that diffs are readable.
    fn text(&self) -> String {
        let mut out = String::from("{\n");
        let _ = writeln!(out, "\"about\": {},", json!(self.about));
        let _ = writeln!(out, "\"options\": {},", json!(self.options));
        out.push_str("\"tables\": [");
        for (index, table) in self.tables.iter().enumerate() {
            out.push_str(if index == 0 { "\n" } else { ",\n" });
            let (name, kind) = (json!(table.name), json!(table.kind.name()));
            let files = json!(table.files);
            let _ = write!(
                out,
                "{{\"name\": {name}, \"kind\": {kind}, \"files\": {files}, "
            );
            out.push_str("\"columns\": [");
            for (index, column) in table.columns.iter().enumerate() {
                let comma = if index == 0 { "\n  " } else { ",\n  " };
                let _ = write!(out, "{comma}{}", column_json(column));
            }
            out.push_str("]}");
        }
        out.push_str("],\n\"statements\": [");
        for (index, step) in self.steps.iter().enumerate() {
            let comma = if index == 0 { "\n  " } else { ",\n  " };
            let _ = write!(out, "{comma}{}", step_json(step));
        }
        out.push_str("],\n");
        let _ = writeln!(out, "\"plain_wrong\": {},", self.plain_wrong);
        let _ = writeln!(out, "\"expected\": {}\n}}", json!(self.expected));
        out
    }

    /// Reads a case from a file.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a valid case.
    pub fn read(path: &Path) -> Result<Case, FuzzError> {
        let text =
            std::fs::read_to_string(path).map_err(FuzzError::io(path.display().to_string()))?;
        let json: Json = serde_json::from_str(&text)
            .map_err(|e| FuzzError::Case(format!("{}: {e}", path.display())))?;
        parsed(&json).ok_or_else(|| FuzzError::Case(format!("{} is no case", path.display())))?
    }
}

fn column_json(column: &Column) -> Json {
    let values: Vec<Json> = column.values.iter().map(Value::to_json).collect();
    let layout = column.layout;
    let words = [
        (layout.doubled, "doubled"),
        (layout.unused, "unused"),
        (layout.null_word, "null_word"),
        (layout.backwards, "backwards"),
    ];
    let words: Vec<&str> = words.iter().filter(|w| w.0).map(|w| w.1).collect();
    json!({
        "name": column.name,
        "type": column.data_type.to_string(),
        "layout": words.join(" "),
        "values": values,
    })
}

fn step_json(step: &Step) -> Json {
    let (does, name, query) = match &step.does {
        Does::Query => ("query", None, None),
        Does::CreateTable(name, query) => ("create table", Some(name), Some(query)),
        Does::Change(name, _) => ("change", Some(name), None),
        Does::Define => ("define", None, None),
        Does::Own => ("own", None, None),
    };
    let mut made = json!({
        "does": does, "sql": step.sql, "duck": step.duck, "inexact": step.inexact,
        "ordered": step.ordered, "name": name, "query": query,
    });
    if let Does::Change(_, change) = &step.does {
        made["change"] = json!(change);
    }
    made
}

/// Parses a case; the outer `None` means that a field is missing or has the wrong type.
fn parsed(json: &Json) -> Option<Result<Case, FuzzError>> {
    let options = serde_json::from_value(json.get("options")?.clone()).ok()?;
    let mut tables = Vec::new();
    for table in json.get("tables")?.as_array()? {
        tables.push(match table_of(table)? {
            Ok(table) => table,
            Err(error) => return Some(Err(error)),
        });
    }
    let steps = json.get("statements")?.as_array()?.iter().map(step_of);
    let expected = json.get("expected")?.as_array().map(|rows| {
        rows.iter()
            .filter_map(|r| r.as_str().map(str::to_owned))
            .collect()
    });
    Some(Ok(Case {
        about: json.get("about")?.as_str()?.to_owned(),
        options,
        tables,
        steps: steps.collect::<Option<Vec<_>>>()?,
        expected,
        plain_wrong: json.get("plain_wrong")?.as_bool()?,
    }))
}

fn table_of(json: &Json) -> Option<Result<Table, FuzzError>> {
    let kind = json.get("kind")?.as_str()?;
    let mut columns = Vec::new();
    for column in json.get("columns")?.as_array()? {
        let data_type: DataType = column.get("type")?.as_str()?.parse().ok()?;
        let values = column.get("values")?.as_array()?;
        let values: Result<Vec<Value>, FuzzError> = values
            .iter()
            .map(|v| Value::from_json(v, &data_type))
            .collect();
        let words: Vec<&str> = column.get("layout")?.as_str()?.split(' ').collect();
        columns.push(Column {
            name: column.get("name")?.as_str()?.to_owned(),
            data_type,
            values: match values {
                Ok(values) => values,
                Err(error) => return Some(Err(error)),
            },
            layout: Layout {
                doubled: words.contains(&"doubled"),
                unused: words.contains(&"unused"),
                null_word: words.contains(&"null_word"),
                backwards: words.contains(&"backwards"),
            },
        });
    }
    Some(Ok(Table {
        name: json.get("name")?.as_str()?.to_owned(),
        kind: FileKind::ALL.into_iter().find(|k| k.name() == kind)?,
        columns,
        files: serde_json::from_value(json.get("files")?.clone()).ok()?,
    }))
}

fn step_of(json: &Json) -> Option<Step> {
    let text = |name: &str| json.get(name).and_then(Json::as_str).map(str::to_owned);
    Some(Step {
        does: match json.get("does")?.as_str()? {
            "query" => Does::Query,
            "create table" => Does::CreateTable(text("name")?, text("query")?),
            "change" => {
                let change = serde_json::from_value(json.get("change")?.clone());
                Does::Change(text("name")?, change.ok()?)
            }
            "define" => Does::Define,
            _ => Does::Own,
        },
        sql: text("sql")?,
        duck: text("duck"),
        inexact: serde_json::from_value(json.get("inexact")?.clone()).ok()?,
        ordered: json.get("ordered")?.as_bool()?,
    })
}
