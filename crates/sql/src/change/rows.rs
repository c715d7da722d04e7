//! `DELETE`, `UPDATE` and `TRUNCATE`.
//!
//! A query over the rows with their positions says which ones are meant and what they get; it reads
//! the version that is there when the statement begins, whatever the statement changes.

use super::super::error::SqlError;
use super::super::run::CollectedRows;
use super::super::session::SqlSession;
use super::ask::{Work, select};
use super::assign::assigned;
use super::extra::ExtraTables;
use super::insert::given_or_default;
use super::literals::exact;
use super::numbered::{NUMBERED, POSITION, numbered_rows};
use super::returning::{Changed, Meant, Returning};
use super::rules::Key;
use super::target::{Target, column_name, quoted, reference};
use super::verify::{check_values, provider};
use super::version::{NewValues, Replaced};
use arrow::array::{ArrayRef, AsArray, BooleanBufferBuilder};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::UInt64Type;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr, FromTable, Ident, ObjectName, SelectItem,
    TableAlias, TableFactor, TableWithJoins, Truncate, Update, UpdateTableFromKind,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use tierloom_engine::PlacedTable;

impl SqlSession {
    pub(super) fn delete(
        &mut self,
        delete: &Delete,
        work: &mut Work<'_>,
    ) -> Result<Changed, SqlError> {
        refuse_other_deletes(delete)?;
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let [table] = from.as_slice() else {
            return Err(SqlError::input(
                "DELETE changes one table; name the others after USING",
            ));
        };
        let (target, factor, alias) = self.numbered(table)?;
        let using = delete.using.iter().flatten().cloned();
        let items = delete.returning.as_ref();
        let returning = |alias: Ident| Returning { items, alias };
        match &delete.selection {
            None if delete.using.is_none() => {
                let rows = target.table.all_rows() as u64;
                let all = Meant::From(0);
                let returned = self.returned(returning(alias), &target.table, all, work)?;
                self.empty(&target, work)?;
                Ok(Changed { rows, returned })
            }
            selection => {
                let from = std::iter::once(factor).chain(using).collect();
                let query = select(vec![position(&alias)], from, selection.clone())?;
                let rows = self.ask(query, numbered_rows(&target.table)?, work)?;
                let gone = marked(&target, &rows.column(0)?);
                let these = Meant::At(gone.set_indices().map(|row| row as u64).collect());
                let returned = self.returned(returning(alias), &target.table, these, work)?;
                let rows = self.delete_rows(&target, &gone, work)?;
                Ok(Changed { rows, returned })
            }
        }
    }

    fn delete_rows(
        &mut self,
        target: &Target,
        gone: &BooleanBuffer,
        work: &mut Work<'_>,
    ) -> Result<u64, SqlError> {
        let count = gone.count_set_bits() as u64;
        if count > 0 {
            let storing = Instant::now();
            let next = self.without_rows(target, gone, work.watch)?;
            work.ran(storing);
            self.swap(&target.name, next, Arc::clone(&target.rules))?;
        }
        Ok(count)
    }

    pub(super) fn truncate(
        &mut self,
        truncate: &Truncate,
        work: &mut Work<'_>,
    ) -> Result<Vec<String>, SqlError> {
        let refused = [
            (truncate.partitions.is_some(), "PARTITION"),
            (truncate.on_cluster.is_some(), "ON CLUSTER"),
            (truncate.cascade.is_some(), "CASCADE/RESTRICT"),
            (truncate.identity.is_some(), "RESTART/CONTINUE IDENTITY"),
            (truncate.table_names.iter().any(|t| t.only), "ONLY"),
        ];
        super::refuse(&refused, "TRUNCATE")?;
        let mut targets: Vec<Target> = Vec::new();
        for table in &truncate.table_names {
            let target = match self.target(&table.name) {
                Err(_) if truncate.if_exists && self.is_unknown(&table.name) => continue,
                target => target?,
            };
            if targets.iter().all(|known| known.name != target.name) {
                targets.push(target);
            }
        }
        for target in &targets {
            self.empty(target, work)?;
        }
        Ok(targets.into_iter().map(|target| target.name).collect())
    }

    /// The version without rows.
    fn empty(&mut self, target: &Target, work: &mut Work<'_>) -> Result<(), SqlError> {
        let rows = target.table.all_rows();
        if rows == 0 {
            return Ok(());
        }
        let mut gone = BooleanBufferBuilder::new(rows);
        gone.append_n(rows, true);
        let next = self.without_rows(target, &gone.finish(), work.watch)?;
        self.swap(&target.name, next, Arc::clone(&target.rules))
    }

    pub(super) fn update(
        &mut self,
        update: &Update,
        work: &mut Work<'_>,
    ) -> Result<Changed, SqlError> {
        refuse_other_updates(update)?;
        let (target, factor, alias) = self.numbered(&update.table)?;
        let values = new_values(&target, &update.assignments)?;
        let from = match &update.from {
            Some(
                UpdateTableFromKind::BeforeSet(tables) | UpdateTableFromKind::AfterSet(tables),
            ) => tables.clone(),
            None => Vec::new(),
        };
        let from = std::iter::once(factor).chain(from).collect();
        let query = select(assigning(&alias, &values), from, update.selection.clone())?;
        let found = self.ask(query, numbered_rows(&target.table)?, work)?;
        let replaced = replaced(&target, &values, &found)?;
        let items = update.returning.as_ref();
        let returning = Returning { items, alias };
        self.update_rows(&target, replaced, returning, work)
    }

    fn update_rows(
        &mut self,
        target: &Target,
        replaced: Replaced,
        returning: Returning<'_>,
        work: &mut Work<'_>,
    ) -> Result<Changed, SqlError> {
        let these = Meant::At(replaced.rows.iter().map(|(row, _)| *row).collect());
        let rows = replaced.rows.len() as u64;
        if rows == 0 {
            let returned = self.returned(returning, &target.table, these, work)?;
            return Ok(Changed { rows, returned });
        }
        let storing = Instant::now();
        let next = self.with_changed(target, &replaced, work.watch)?;
        work.ran(storing);
        let changed: Vec<&str> = replaced
            .columns
            .iter()
            .map(|new| target.schema().field(new.column).name().as_str())
            .collect();
        self.verify_next(target, &next, &changed, work)?;
        let returned = self.returned(returning, &next, these, work)?;
        self.swap(&target.name, next, Arc::clone(&target.rules))?;
        Ok(Changed { rows, returned })
    }

    /// Checks a version in which columns have changed.
    pub(super) fn verify_next(
        &mut self,
        target: &Target,
        next: &Arc<PlacedTable>,
        changed: &[&str],
        work: &mut Work<'_>,
    ) -> Result<(), SqlError> {
        let rules = Arc::clone(&target.rules);
        let whole = provider(next);
        self.check_conditions(target, &rules.checks, &whole, work)?;
        let touched = |key: &&Key| key.columns.iter().any(|c| changed.contains(&c.as_str()));
        let keys: Vec<Key> = rules.keys.iter().filter(touched).cloned().collect();
        self.check_unique(target, &keys, &whole, work)
    }

    /// The table that a statement changes, its rows with positions in the place of it, and the name
    /// by which the statement knows it.
    fn numbered(
        &self,
        table: &TableWithJoins,
    ) -> Result<(Target, TableWithJoins, Ident), SqlError> {
        let TableFactor::Table { name, alias, .. } = &table.relation else {
            return Err(SqlError::input("expected the name of a table"));
        };
        if !table.joins.is_empty() {
            return Err(SqlError::input(
                "a join is not changed; name the other tables after FROM or USING",
            ));
        }
        let target = self.target(name)?;
        let mut factor = table.clone();
        let known_as = alias
            .as_ref()
            .map_or_else(|| quoted(&target.short), |alias| alias.name.clone());
        if let TableFactor::Table { name, alias, .. } = &mut factor.relation {
            *name = ExtraTables::name(NUMBERED);
            *alias = Some(TableAlias {
                explicit: true,
                name: known_as.clone(),
                columns: Vec::new(),
                at: None,
            });
        }
        Ok((target, factor, known_as))
    }

    /// Whether nothing has that name.
    fn is_unknown(&self, name: &ObjectName) -> bool {
        let name = reference(name).and_then(|name| self.catalog.key(&name));
        name.is_ok_and(|name| self.catalog.info(&name).is_none())
    }
}

/// The rows at these positions, which a join may have found several times.
fn marked(target: &Target, positions: &ArrayRef) -> BooleanBuffer {
    let rows = target.table.all_rows();
    let mut marked = BooleanBufferBuilder::new(rows);
    marked.append_n(rows, false);
    for position in positions.as_primitive::<UInt64Type>().values() {
        marked.set_bit(*position as usize, true);
    }
    marked.finish()
}

/// The column of positions of the table that is known as `alias`.
fn position(alias: &Ident) -> SelectItem {
    SelectItem::UnnamedExpr(Expr::CompoundIdentifier(vec![
        alias.clone(),
        quoted(POSITION),
    ]))
}

/// What finds the rows that `values` are assigned to: their positions, and then the values.
pub(super) fn assigning(alias: &Ident, values: &BTreeMap<usize, Expr>) -> Vec<SelectItem> {
    let values = values
        .iter()
        .map(|(index, value)| SelectItem::ExprWithAlias {
            expr: value.clone(),
            alias: quoted(&format!("value {index}")),
        });
    std::iter::once(position(alias)).chain(values).collect()
}

/// What [`assigning`] has found, as the columns take it.
pub(super) fn replaced(
    target: &Target,
    values: &BTreeMap<usize, Expr>,
    found: &CollectedRows,
) -> Result<Replaced, SqlError> {
    let mut columns = Vec::new();
    for (place, &index) in values.keys().enumerate() {
        let field = target.schema().field(index);
        let values = found.column(place + 1)?;
        let values = assigned(&values, field.name(), field.data_type())?;
        check_values(target, field.name(), &values)?;
        columns.push(NewValues {
            column: index,
            values,
        });
    }
    let rows = in_order(&found.column(0)?);
    Ok(Replaced { rows, columns })
}

/// Positions in ascending order, each once, with the index at which it was found first.
fn in_order(positions: &ArrayRef) -> Vec<(u64, usize)> {
    let positions = positions.as_primitive::<UInt64Type>();
    let mut rows: Vec<(u64, usize)> = positions.values().iter().copied().zip(0..).collect();
    rows.sort_unstable();
    rows.dedup_by_key(|(row, _)| *row);
    rows
}

/// What each column that is assigned to gets, by its position in the table.
pub(super) fn new_values(
    target: &Target,
    assignments: &[Assignment],
) -> Result<BTreeMap<usize, Expr>, SqlError> {
    let mut values = BTreeMap::new();
    for Assignment { target: to, value } in assignments {
        match (to, value) {
            (AssignmentTarget::ColumnName(name), value) => {
                add_value(target, &mut values, name, value)?;
            }
            (AssignmentTarget::Tuple(names), Expr::Tuple(list)) if names.len() == list.len() => {
                for (name, value) in names.iter().zip(list) {
                    add_value(target, &mut values, name, value)?;
                }
            }
            (AssignmentTarget::Tuple(names), _) => {
                return Err(SqlError::input(format!(
                    "expected {} values in brackets, one for each column",
                    names.len()
                )));
            }
        }
    }
    Ok(values)
}

fn add_value(
    target: &Target,
    values: &mut BTreeMap<usize, Expr>,
    name: &ObjectName,
    value: &Expr,
) -> Result<(), SqlError> {
    let name = column_name(name)?;
    let index = target.index_of(&name)?;
    let value = given_or_default(value.clone(), &name, &target.rules);
    let value = exact(value, target.schema().field(index).data_type());
    match values.insert(index, value) {
        Some(_) => Err(SqlError::input(format!("column {name} is set twice"))),
        None => Ok(()),
    }
}

fn refuse_other_deletes(delete: &Delete) -> Result<(), SqlError> {
    let refused = [
        (delete.output.is_some(), "OUTPUT"),
        (!delete.tables.is_empty(), "a list of tables before FROM"),
        (!delete.order_by.is_empty(), "ORDER BY"),
        (delete.limit.is_some(), "LIMIT"),
    ];
    super::refuse(&refused, "DELETE")
}

fn refuse_other_updates(update: &Update) -> Result<(), SqlError> {
    let refused = [
        (update.output.is_some(), "OUTPUT"),
        (update.or.is_some(), "OR"),
        (!update.order_by.is_empty(), "ORDER BY"),
        (update.limit.is_some(), "LIMIT"),
    ];
    super::refuse(&refused, "UPDATE")
}
