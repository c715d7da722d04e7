//! Statements that create and drop tables and views.
//!
//! CREATE TABLE with columns is a change (`change/`); here it requires a query.

use super::catalog::check_names;
use super::change::Rules;
use super::error::SqlError;
use super::planner::Planner;
use super::run::{CollectedRows, Outcome, StatementTiming, Unit, Watch, said};
use super::script::Piece;
use super::session::SqlSession;
use super::source::{CsvOptions, Declared, Source};
use super::storage::Home;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::logical_expr::{
    CreateExternalTable, CreateMemoryTable, CreateView, DdlStatement, DropTable, DropView,
    LogicalPlan,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

impl SqlSession {
    /// Executes a data definition statement.
    pub(super) fn define(
        &mut self,
        ddl: DdlStatement,
        piece: &Piece,
        start: Instant,
        watch: &dyn Watch,
    ) -> Result<Outcome, SqlError> {
        match ddl {
            DdlStatement::CreateMemoryTable(table) => self.create(&table, start, watch),
            DdlStatement::CreateExternalTable(table) => self.create_external(&table, start, watch),
            DdlStatement::DropTable(table) => self.drop_table(&table, start),
            DdlStatement::CreateView(view) => self.create_view(view, piece, start),
            DdlStatement::DropView(view) => self.drop_view(&view, start),
            other => Err(SqlError::input(format!(
                "{} is not part of this shell; it has tables, views and schemas",
                other.name()
            ))),
        }
    }

    fn create(
        &mut self,
        table: &CreateMemoryTable,
        start: Instant,
        watch: &dyn Watch,
    ) -> Result<Outcome, SqlError> {
        let name = &self.catalog.key(&table.name)?;
        // CREATE TABLE with only a list of columns has an empty relation as its input.
        if matches!(table.input.as_ref(), LogicalPlan::EmptyRelation(e) if !e.produce_one_row) {
            return Err(SqlError::input(
                "expected columns in brackets, or AS and a query (CREATE TABLE name AS SELECT ...)",
            ));
        }
        check_either(table.or_replace, table.if_not_exists)?;
        if table.if_not_exists && self.catalog.get(name).is_some() {
            return Ok(said(format!("table {name} exists already"), start));
        }
        self.catalog.check_new_name(name, table.or_replace)?;
        let names = table.input.schema().fields().iter().map(|f| f.name());
        check_names(names)?;
        let plan = self
            .planner()
            .plan_of(table.input.as_ref().clone(), watch)?;
        let mut timing = StatementTiming {
            planning: start.elapsed(),
            ..StatementTiming::default()
        };
        let mut kept = CollectedRows::default();
        // Collected first, because rows arrive through a sink and the loader pulls batches.
        self.stream(&plan, &mut kept, watch, &mut timing)?;
        let schema = kept.schema.unwrap_or_else(|| plan.schema());
        let storing = Instant::now();
        let bytes: usize = kept.batches.iter().map(|b| b.get_array_memory_size()).sum();
        watch.begin(&format!("storing {name}"), bytes as u64, Unit::Bytes);
        let batches = kept.batches.into_iter().map(|batch| {
            watch.advance(batch.get_array_memory_size() as u64);
            Ok(batch)
        });
        let stored = self.table_of(name, &schema, batches, Home::Temp, watch);
        watch.end();
        let (stored, times) = stored?;
        self.work.stored(&stored, bytes as u64, times.encoding);
        let loaded = self.register(name, stored, watch)?;
        if self.running.owner.is_some() {
            let rules = Rules {
                owner: self.running.owner,
                ..Rules::default()
            };
            self.catalog.set_rules(name, Arc::new(rules));
        }
        timing.running += storing.elapsed();
        Ok(Outcome {
            rows: None,
            message: Some(format!("table {name}: {} rows", loaded.rows)),
            timing,
        })
    }

    fn create_external(
        &mut self,
        table: &CreateExternalTable,
        start: Instant,
        watch: &dyn Watch,
    ) -> Result<Outcome, SqlError> {
        let name = &self.catalog.key(&table.name)?;
        let refused = [
            (!table.constraints.is_empty(), "a key or another constraint"),
            (!table.column_defaults.is_empty(), "a default"),
            (!table.order_exprs.is_empty(), "WITH ORDER"),
            (table.unbounded, "UNBOUNDED"),
            (table.temporary, "TEMPORARY"),
        ];
        if let Some((_, what)) = refused.iter().find(|(given, _)| *given) {
            return Err(SqlError::input(format!(
                "{what} is not taken here: CREATE EXTERNAL TABLE name [(columns)] STORED AS csv|parquet|arrow [PARTITIONED BY (columns)] LOCATION 'file, folder or pattern' loads the rows into memory"
            )));
        }
        check_either(table.or_replace, table.if_not_exists)?;
        if table.if_not_exists && self.catalog.get(name).is_some() {
            return Ok(said(format!("table {name} exists already"), start));
        }
        self.catalog.check_new_name(name, table.or_replace)?;
        let csv = csv_options(table)?;
        let paths = table.locations.iter();
        let paths = paths.map(|text| location(text).map(PathBuf::from));
        let paths = paths.collect::<Result<Vec<_>, _>>()?;
        let (declared, rules) = declared(table)?;
        let source = Source::external(&paths, csv, declared)?;
        // The content of the files decides; another STORED AS is an error.
        if !table.file_type.eq_ignore_ascii_case(source.kind_word()) {
            return Err(SqlError::input(format!(
                "{} is {}, not {}",
                source.path().display(),
                source.describe(),
                table.file_type
            )));
        }
        let loaded = self.load_source(name, &source, watch)?;
        self.catalog.set_rules(name, Arc::new(rules));
        Ok(said(
            format!("table {name}: {} rows, loaded into memory", loaded.rows),
            start,
        ))
    }

    fn create_view(
        &mut self,
        view: CreateView,
        piece: &Piece,
        start: Instant,
    ) -> Result<Outcome, SqlError> {
        let planner = Planner::new(&self.catalog, &self.running);
        let name = self.views.create(planner, view, piece)?;
        self.bind(&name);
        Ok(said(format!("view {name}"), start))
    }

    fn drop_view(&mut self, view: &DropView, start: Instant) -> Result<Outcome, SqlError> {
        let name = &self.catalog.key(&view.name)?;
        if !self.views.contains(name) {
            return match self.catalog.info(name) {
                Some(info) => Err(SqlError::input(format!(
                    "{name} is a {}; it cannot be dropped as a view",
                    info.kind
                ))),
                None if view.if_exists => Ok(said(format!("there is no view {name}"), start)),
                None => Err(SqlError::input(format!("there is no view {name}"))),
            };
        }
        self.catalog.remove(name)?;
        self.views.remove(name);
        self.bind(name);
        Ok(said(format!("dropped view {name}"), start))
    }

    fn drop_table(&mut self, table: &DropTable, start: Instant) -> Result<Outcome, SqlError> {
        let name = &self.catalog.key(&table.name)?;
        if self.catalog.get(name).is_none() {
            // The error names what is there instead, or which tables there are.
            let kind = self.catalog.info(name);
            return match kind {
                None if table.if_exists => Ok(said(format!("there is no table {name}"), start)),
                None => self
                    .catalog
                    .schema_of(name)
                    .map(|_| said(String::new(), start)),
                Some(info) => Err(SqlError::input(format!(
                    "{name} is a {}; it cannot be dropped as a table",
                    info.kind
                ))),
            };
        }
        self.forget(name)?;
        self.bind(name);
        Ok(said(format!("dropped table {name}"), start))
    }

    /// `ANALYZE table`: recomputes the planner's statistics.
    pub(super) fn analyze(&mut self, table: &str) -> Result<String, SqlError> {
        self.catalog.schema_of(table)?;
        let Some(found) = self.catalog.get(table) else {
            return Err(SqlError::input(format!(
                "{table} is not a table that stores rows"
            )));
        };
        found.refresh_statistics()?;
        Ok(format!(
            "table {table}: {} rows, statistics of {} columns",
            found.all_rows(),
            found.columns().len()
        ))
    }
}

/// Refuses `OR REPLACE` together with `IF NOT EXISTS`.
pub(super) fn check_either(replace: bool, if_not_exists: bool) -> Result<(), SqlError> {
    if replace && if_not_exists {
        return Err(SqlError::input(
            "OR REPLACE and IF NOT EXISTS exclude each other; say one of them",
        ));
    }
    Ok(())
}

/// The path of a location, without the scheme `file://`.
fn location(text: &str) -> Result<&str, SqlError> {
    if let Some(path) = text.strip_prefix("file://") {
        return Ok(path);
    }
    match text.split_once("://") {
        Some((scheme, _)) => Err(SqlError::input(format!(
            "{text}: {scheme} cannot be read; copy the files to this machine and name their path"
        ))),
        None => Ok(text),
    }
}

/// The columns that a statement declares for its files, and what they demand of later rows.
fn declared(table: &CreateExternalTable) -> Result<(Declared, Rules), SqlError> {
    let all = table.schema.inner().fields();
    let is_partition = |name: &str| table.table_partition_cols.iter().any(|p| p == name);
    let columns: Vec<_> = all
        .iter()
        .filter(|field| !is_partition(field.name()))
        .cloned()
        .collect();
    let partition = |name: &String| {
        let declared = all.iter().find(|field| field.name() == name).cloned();
        declared.unwrap_or_else(|| Arc::new(Field::new(name, DataType::Utf8, true)))
    };
    let partitions: Vec<_> = table.table_partition_cols.iter().map(partition).collect();
    let names = &table.table_partition_cols;
    if let Some((_, twice)) = names
        .iter()
        .enumerate()
        .find(|(at, n)| names[..*at].contains(n))
    {
        return Err(SqlError::input(format!(
            "{twice} is named twice in PARTITIONED BY"
        )));
    }
    let never_null = all.iter().filter(|field| !field.is_nullable());
    let rules = Rules {
        not_null: never_null.map(|field| field.name().clone()).collect(),
        ..Rules::default()
    };
    let columns = (!columns.is_empty()).then(|| Arc::new(Schema::new(columns)));
    Ok((
        Declared {
            columns,
            partitions,
        },
        rules,
    ))
}

fn csv_options(table: &CreateExternalTable) -> Result<CsvOptions, SqlError> {
    let mut csv = CsvOptions::default();
    for (name, value) in &table.options {
        match (name.trim_start_matches("format."), value.as_bytes()) {
            ("delimiter", [byte]) => csv.delimiter = Some(*byte),
            ("null_value", _) => csv.nulls.push(value.clone()),
            ("has_header", b"true") => csv.header = true,
            ("has_header", b"false") => csv.header = false,
            ("schema_infer_max_rec", _) => {
                csv.infer_rows = value.parse().map_err(|_| {
                    SqlError::input(format!("{name} {value:?} is not a whole number"))
                })?;
            }
            _ => {
                return Err(SqlError::input(format!(
                    "option {name} = {value:?} is not known; there are format.delimiter, \
                     format.has_header, format.null_value, format.schema_infer_max_rec"
                )));
            }
        }
    }
    Ok(csv)
}
