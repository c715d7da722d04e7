//! `INSERT INTO t [(columns)] VALUES ... | query | DEFAULT VALUES`.

use super::super::error::SqlError;
use super::super::run::Watch;
use super::super::script::Piece;
use super::super::session::SqlSession;
use super::super::shared::plain;
use super::ask::{Work, query};
use super::assign::assigned;
use super::extra::ExtraTables;
use super::literals::exact;
use super::returning::{Changed, Meant, Returning};
use super::rules::Rules;
use super::target::{Target, column_name, quoted};
use super::verify::{check_values, rows_provider};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Insert, ObjectName, OnInsert, Query, SelectItem, SetExpr, TableObject, Value,
};
use std::sync::Arc;
use std::time::Instant;
use tierloom_engine::PlacedTable;

/// New rows: an array for each column of a table.
pub(super) struct NewRows {
    pub columns: Vec<ArrayRef>,
    pub count: usize,
}

impl SqlSession {
    pub(super) fn insert(
        &mut self,
        insert: &Insert,
        work: &mut Work<'_>,
    ) -> Result<Changed, SqlError> {
        refuse_other_forms(insert)?;
        let TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::input("expected the name of a table after INTO"));
        };
        let target = self.target(name)?;
        let columns = named_columns(insert, &target)?;
        let rows = match &insert.source {
            Some(source) => self.rows_of(&target, &columns, source.as_ref().clone(), work)?,
            None => self.completed(&target, &[], Vec::new(), 1, work)?,
        };
        let alias = insert.table_alias.as_ref();
        let alias = alias.map_or_else(|| quoted(&target.short), |alias| alias.alias.clone());
        let items = insert.returning.as_ref();
        let returning = Returning { items, alias };
        match &insert.on {
            Some(OnInsert::OnConflict(conflict)) => {
                self.insert_unless(&target, rows, conflict, returning, work)
            }
            _ => self.append(&target, rows, returning, work),
        }
    }

    /// Checks new rows and puts the version with them in the table's place.
    pub(super) fn append(
        &mut self,
        target: &Target,
        rows: NewRows,
        returning: Returning<'_>,
        work: &mut Work<'_>,
    ) -> Result<Changed, SqlError> {
        let new = Meant::From(target.table.all_rows() as u64);
        let count = rows.count as u64;
        if count == 0 {
            let returned = self.returned(returning, &target.table, new, work)?;
            return Ok(Changed { rows: 0, returned });
        }
        self.verify_new(target, &rows, work)?;
        let next = self.with_new(target, rows, work)?;
        let returned = self.returned(returning, &next, new, work)?;
        self.swap(&target.name, next, Arc::clone(&target.rules))?;
        let rows = count;
        Ok(Changed { rows, returned })
    }

    /// The columns of a table that values for `columns` go into, all of them if none is named.
    ///
    /// # Errors
    /// Bad input: no table that can be changed, or no such column.
    pub fn columns_for(
        &mut self,
        table: &ObjectName,
        columns: &[Ident],
    ) -> Result<Vec<FieldRef>, SqlError> {
        self.follow_others();
        self.check_takes_rows()?;
        let target = self.target(table)?;
        let indices = indices_of(columns, &target)?;
        let fields = target.schema().fields();
        Ok(indices
            .into_iter()
            .map(|index| Arc::clone(&fields[index]))
            .collect())
    }

    /// Appends rows whose values came from elsewhere, an array for each of `columns` (for each
    /// column of the table if none is named); text is read as the types of the columns.
    ///
    /// `piece` is the statement that asked for it.
    ///
    /// # Errors
    /// Bad input: values that do not fit, or that break a rule of the table; or
    /// [`SqlError::Interrupted`]. The table then is as before.
    pub fn insert_values(
        &mut self,
        piece: &Piece,
        (table, columns): (&ObjectName, &[Ident]),
        values: &[ArrayRef],
        watch: &dyn Watch,
    ) -> Result<u64, SqlError> {
        self.guarded(piece, watch, |session| {
            session.begin(piece, watch)?;
            let mut work = Work::since(Instant::now(), watch);
            let _held = session
                .shared
                .hold(plain(table).into_iter().collect(), watch)?;
            let target = session.target(table)?;
            let indices = indices_of(columns, &target)?;
            if values.len() != indices.len() {
                let given = values.len();
                return Err(wrong_count(given, &target, &indices));
            }
            let count = values.first().map_or(0, |values| values.len());
            let mut fitting = Vec::with_capacity(values.len());
            for (values, &index) in values.iter().zip(&indices) {
                let field = target.schema().field(index);
                fitting.push(assigned(values, field.name(), field.data_type())?);
            }
            let rows = session.completed(&target, &indices, fitting, count, &mut work)?;
            let nothing = Returning {
                items: None,
                alias: quoted(&target.short),
            };
            let changed = session.append(&target, rows, nothing, &mut work)?;
            Ok(changed.rows)
        })
    }

    /// The rows of a query, of which the columns go into `columns` of the table.
    pub(super) fn rows_of(
        &mut self,
        target: &Target,
        columns: &[usize],
        mut source: Query,
        work: &mut Work<'_>,
    ) -> Result<NewRows, SqlError> {
        prepare_values(&mut source, target, columns)?;
        let rows = self.ask(source, ExtraTables::default(), work)?;
        let given = rows
            .schema
            .as_ref()
            .map_or(0, |schema| schema.fields().len());
        if given != columns.len() {
            return Err(wrong_count(given, target, columns));
        }
        let mut values = Vec::new();
        for (place, &index) in columns.iter().enumerate() {
            let field = target.schema().field(index);
            values.push(assigned(
                &rows.column(place)?,
                field.name(),
                field.data_type(),
            )?);
        }
        self.completed(target, columns, values, rows.count(), work)
    }

    /// The rows with defaults in the columns that have no values.
    fn completed(
        &mut self,
        target: &Target,
        columns: &[usize],
        values: Vec<ArrayRef>,
        count: usize,
        work: &mut Work<'_>,
    ) -> Result<NewRows, SqlError> {
        let mut given: Vec<Option<ArrayRef>> = vec![None; target.schema().fields().len()];
        for (&index, values) in columns.iter().zip(values) {
            given[index] = Some(values);
        }
        let mut all = Vec::with_capacity(given.len());
        for (index, values) in given.into_iter().enumerate() {
            let field = target.schema().field(index);
            let (name, data_type) = (field.name(), field.data_type());
            all.push(match (values, target.rules.defaults.get(name)) {
                (Some(values), _) => values,
                (None, None) => new_null_array(data_type, count),
                (None, Some(default)) => {
                    self.defaults(default.clone(), name, data_type, count, work)?
                }
            });
        }
        Ok(NewRows {
            columns: all,
            count,
        })
    }

    /// The default of a column, evaluated for each of `count` rows.
    pub(super) fn defaults(
        &mut self,
        default: Expr,
        column: &str,
        data_type: &DataType,
        count: usize,
        work: &mut Work<'_>,
    ) -> Result<ArrayRef, SqlError> {
        let mut query = query(&format!("SELECT 1 FROM range({count})"))?;
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.projection = vec![SelectItem::ExprWithAlias {
                expr: exact(default, data_type),
                alias: quoted(column),
            }];
        }
        let made = self.ask(query, ExtraTables::default(), work)?;
        assigned(&made.column(0)?, column, data_type)
    }

    /// Checks rows that come into a table against all of its rules.
    pub(super) fn verify_new(
        &mut self,
        target: &Target,
        rows: &NewRows,
        work: &mut Work<'_>,
    ) -> Result<(), SqlError> {
        for (field, values) in target.schema().fields().iter().zip(&rows.columns) {
            check_values(target, field.name(), values)?;
        }
        let rules = Arc::clone(&target.rules);
        if rules.checks.is_empty() && rules.keys.is_empty() {
            return Ok(());
        }
        let provider = rows_provider(batch(target, rows)?)?;
        self.check_conditions(target, &rules.checks, &provider, work)?;
        if rows.count > 1 {
            self.check_unique(target, &rules.keys, &provider, work)?;
        }
        match target.table.all_rows() {
            0 => Ok(()),
            _ => self.check_new_keys(target, &provider, work),
        }
    }

    /// The version with these rows at its end.
    pub(super) fn with_new(
        &self,
        target: &Target,
        rows: NewRows,
        work: &mut Work<'_>,
    ) -> Result<Arc<PlacedTable>, SqlError> {
        let storing = Instant::now();
        let next = self.with_rows(target, rows.columns, work.watch);
        work.ran(storing);
        next
    }
}

/// New rows as a batch.
pub(super) fn batch(target: &Target, rows: &NewRows) -> Result<RecordBatch, SqlError> {
    let fields = target.schema().fields().iter().zip(&rows.columns);
    let fields = fields.map(|(f, v)| Field::new(f.name(), v.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows.count));
    RecordBatch::try_new_with_options(schema, rows.columns.clone(), &options)
        .map_err(SqlError::failed)
}

/// What INSERT of other systems has beside this.
fn refuse_other_forms(insert: &Insert) -> Result<(), SqlError> {
    let refused = [
        (
            matches!(insert.on, Some(OnInsert::DuplicateKeyUpdate(_))),
            "ON DUPLICATE KEY",
        ),
        (insert.output.is_some(), "OUTPUT"),
        (insert.overwrite, "OVERWRITE"),
        (insert.or.is_some() || insert.replace_into, "OR REPLACE"),
        (insert.ignore, "IGNORE"),
        (insert.partitioned.is_some(), "PARTITION"),
        (!insert.assignments.is_empty(), "SET"),
        (insert.multi_table_insert_type.is_some(), "ALL or FIRST"),
        (insert.format_clause.is_some(), "FORMAT"),
    ];
    super::refuse(&refused, "INSERT")
}

/// The positions of the columns that get values.
fn named_columns(insert: &Insert, target: &Target) -> Result<Vec<usize>, SqlError> {
    let names = insert.columns.iter().map(column_name);
    positions(names.collect::<Result<_, _>>()?, target)
}

fn indices_of(columns: &[Ident], target: &Target) -> Result<Vec<usize>, SqlError> {
    let names = columns
        .iter()
        .map(|column| column_name(&column.clone().into()));
    positions(names.collect::<Result<_, _>>()?, target)
}

fn wrong_count(given: usize, target: &Target, columns: &[usize]) -> SqlError {
    SqlError::input(format!(
        "{given} columns of values for {} columns of table {} ({})",
        columns.len(),
        target.name,
        names(target, columns).join(", ")
    ))
}

/// The positions of columns; of all of them if none is named.
fn positions(names: Vec<String>, target: &Target) -> Result<Vec<usize>, SqlError> {
    if names.is_empty() {
        return Ok((0..target.schema().fields().len()).collect());
    }
    let mut indices = Vec::new();
    for name in names {
        let index = target.index_of(&name)?;
        if indices.contains(&index) {
            return Err(SqlError::input(format!(
                "Schema contains duplicate unqualified field name {name}: it is named twice"
            )));
        }
        indices.push(index);
    }
    Ok(indices)
}

/// Puts defaults in the place of DEFAULT, and numbers into a form that keeps their digits.
fn prepare_values(source: &mut Query, target: &Target, columns: &[usize]) -> Result<(), SqlError> {
    let ordered = source.order_by.is_some();
    let values = match source.body.as_mut() {
        SetExpr::Values(values) => values,
        SetExpr::Select(select) if !ordered => {
            name_literals(&mut select.projection);
            return Ok(());
        }
        _ => return Ok(()),
    };
    for (number, row) in values.rows.iter_mut().enumerate() {
        if row.content.len() != columns.len() {
            return Err(SqlError::input(format!(
                "Inconsistent data length across values list: got {} values in row {number} but \
                 expected {}, for {} of table {}",
                row.content.len(),
                columns.len(),
                names(target, columns).join(", "),
                target.name
            )));
        }
        for (value, &index) in row.content.iter_mut().zip(columns) {
            let field = target.schema().field(index);
            let given = std::mem::replace(value, Expr::Value(Value::Null.into()));
            let given = given_or_default(given, field.name(), &target.rules);
            *value = exact(given, field.data_type());
        }
    }
    Ok(())
}

/// Gives literals names of their own: DataFusion refuses two of one name, such as NULL and NULL,
/// and where they go does not depend on their names.
fn name_literals(projection: &mut [SelectItem]) {
    for (index, item) in projection.iter_mut().enumerate() {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            continue;
        };
        if matches!(expr, Expr::Value(_)) {
            let expr = expr.clone();
            let alias = quoted(&format!("value {index}"));
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
}

/// The default of a column in the place of the word DEFAULT.
pub(super) fn given_or_default(value: Expr, column: &str, rules: &Rules) -> Expr {
    match &value {
        Expr::Identifier(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default") =>
        {
            let default = rules.defaults.get(column).cloned();
            default.map_or(Expr::Value(Value::Null.into()), |default| {
                Expr::Nested(Box::new(default))
            })
        }
        _ => value,
    }
}

fn names<'a>(target: &'a Target, columns: &[usize]) -> Vec<&'a str> {
    let columns = columns.iter();
    columns
        .map(|&index| target.schema().field(index).name().as_str())
        .collect()
}
