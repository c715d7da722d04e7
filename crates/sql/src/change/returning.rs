//! `RETURNING`: the rows that a statement has inserted, changed or deleted, as its result.
//!
//! A query over the version that holds them, by their positions; it runs before the new version
//! takes its place, so that an error in it leaves the table as it was.

use super::super::error::SqlError;
use super::super::run::{CollectedRows, Sink, Watch};
use super::super::session::SqlSession;
use super::ask::{Work, query, select};
use super::extra::ExtraTables;
use super::numbered::{NUMBERED, POSITION, numbered_rows};
use super::target::quoted;
use super::verify::rows_provider;
use arrow::array::{RecordBatch, UInt64Array};
use arrow::datatypes::SchemaRef;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    Expr, FromTable, Ident, ObjectName, Query, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, Statement as Ast, TableFactor, TableObject, TableWithJoins, WildcardAdditionalOptions,
};
use std::sync::Arc;
use tierloom_engine::PlacedTable;

/// Name of the positions of the rows that are meant, in the query.
const POSITIONS: &str = "positions";

/// What a statement has done.
pub(super) struct Changed {
    /// How many rows.
    pub rows: u64,
    /// What it returns of them.
    pub returned: Option<CollectedRows>,
}

impl Changed {
    /// Hands the rows over; the number of rows that were changed.
    pub fn deliver(self, sink: &mut dyn Sink) -> Result<u64, SqlError> {
        if let Some(CollectedRows {
            schema: Some(schema),
            batches,
        }) = self.returned
        {
            sink.begin(&schema)?;
            for batch in &batches {
                sink.rows(batch)?;
            }
            sink.end()?;
        }
        Ok(self.rows)
    }
}

/// The list of a statement and the name by which it knows its table.
pub(super) struct Returning<'s> {
    pub items: Option<&'s Vec<SelectItem>>,
    pub alias: Ident,
}

/// Which rows of a version are meant.
pub(super) enum Meant {
    /// All from this position on.
    From(u64),
    /// Those at these positions.
    At(Vec<u64>),
}

impl SqlSession {
    /// What the list of a statement gives for rows of `table`, in their order; `None` without a
    /// list.
    pub(super) fn returned(
        &mut self,
        Returning { items, alias }: Returning<'_>,
        table: &Arc<PlacedTable>,
        meant: Meant,
        work: &mut Work<'_>,
    ) -> Result<Option<CollectedRows>, SqlError> {
        let Some(items) = items else {
            return Ok(None);
        };
        let position = format!("{alias}.{}", quoted(POSITION));
        let extra = numbered_rows(table)?;
        let from = ExtraTables::name(NUMBERED);
        let condition = match meant {
            Meant::From(first) => format!("{position} >= {first}"),
            Meant::At(positions) => {
                let positions = UInt64Array::from(positions);
                let batch = RecordBatch::try_from_iter([("position", Arc::new(positions) as _)]);
                extra.add(POSITIONS, rows_provider(batch.map_err(SqlError::failed)?)?)?;
                let these = ExtraTables::name(POSITIONS);
                format!("{position} IN (SELECT position FROM {these})")
            }
        };
        let mut asked = query(&format!(
            "SELECT 1 FROM {from} AS {alias} WHERE {condition} ORDER BY {position}"
        ))?;
        if let SetExpr::Select(select) = asked.body.as_mut() {
            select.projection = without_wildcards(items, &alias, table.schema())?;
        }
        self.ask(asked, extra, work).map(Some)
    }

    /// The columns that a statement with `RETURNING` gives; `None` for others.
    pub(in super::super) fn returned_columns(
        &mut self,
        parsed: &Parsed,
        watch: &dyn Watch,
    ) -> Result<Option<SchemaRef>, SqlError> {
        let Some((table, alias, items)) = list_of(parsed) else {
            return Ok(None);
        };
        let target = self.target(table)?;
        let alias = alias.cloned().unwrap_or_else(|| quoted(&target.short));
        let items = without_wildcards(items, &alias, target.schema())?;
        let from: Query = query(&format!("SELECT 1 FROM {table} AS {alias}"))?;
        let SetExpr::Select(from) = *from.body else {
            return Ok(None);
        };
        let asked = select(items, from.from, None)?;
        let parsed = Parsed::Statement(Box::new(Ast::Query(Box::new(asked))));
        let logical = self.planner().logical(parsed)?;
        match self.planner().plan_of(logical.clone(), watch) {
            Ok(plan) => Ok(Some(plan.schema())),
            // It has parameters without values.
            Err(_) => Ok(Some(Arc::new(logical.schema().as_arrow().clone()))),
        }
    }
}

/// Whether a statement has a list of what it returns.
pub(in super::super) fn returns(parsed: &Parsed) -> bool {
    list_of(parsed).is_some()
}

/// The table, its alias and the list of a statement with `RETURNING`.
fn list_of(parsed: &Parsed) -> Option<(&ObjectName, Option<&Ident>, &Vec<SelectItem>)> {
    let Parsed::Statement(ast) = parsed else {
        return None;
    };
    match ast.as_ref() {
        Ast::Insert(insert) => match &insert.table {
            TableObject::TableName(name) => {
                let alias = insert.table_alias.as_ref().map(|alias| &alias.alias);
                Some((name, alias, insert.returning.as_ref()?))
            }
            _ => None,
        },
        Ast::Update(update) => named(&update.table, update.returning.as_ref()?),
        Ast::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            named(from.first()?, delete.returning.as_ref()?)
        }
        _ => None,
    }
}

fn named<'s>(
    table: &'s TableWithJoins,
    items: &'s Vec<SelectItem>,
) -> Option<(&'s ObjectName, Option<&'s Ident>, &'s Vec<SelectItem>)> {
    match &table.relation {
        TableFactor::Table { name, alias, .. } => {
            Some((name, alias.as_ref().map(|alias| &alias.name), items))
        }
        _ => None,
    }
}

/// The list with the table's columns in the place of `*`, which would have the positions, too.
fn without_wildcards(
    items: &[SelectItem],
    alias: &Ident,
    schema: &SchemaRef,
) -> Result<Vec<SelectItem>, SqlError> {
    let columns = || {
        let fields = schema.fields().iter();
        fields.map(|field| {
            let name = vec![alias.clone(), quoted(field.name())];
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(name))
        })
    };
    let mut all = Vec::new();
    for item in items {
        match item {
            SelectItem::Wildcard(options)
            | SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(_),
                options,
            ) => {
                if *options != WildcardAdditionalOptions::default() {
                    return Err(SqlError::input(
                        "RETURNING * takes no EXCEPT or REPLACE; name the columns",
                    ));
                }
                all.extend(columns());
            }
            other => all.push(other.clone()),
        }
    }
    Ok(all)
}
