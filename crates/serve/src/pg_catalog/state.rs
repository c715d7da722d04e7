//! What the engine's tables demand, with the numbers that the catalog knows them by.

use super::format::quoted;
use super::numbers::{Kind, Named, Numbers, Texts};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::CatalogProviderList;
use datafusion::common::Result;
use datafusion::common::cast::{as_int32_array, as_string_array};
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::TryStreamExt;
use std::collections::BTreeMap;
use std::sync::Arc;
use tierloom_sql::{Declaration, Declarations, Opaque, TableSize};

/// Where the catalog's tables get their rows from.
pub(super) struct Source {
    /// `pg_class`, `pg_namespace` and `pg_attribute` without keys, and `pg_tables` with views.
    pub classes: Arc<dyn PartitionStream>,
    pub namespaces: Arc<dyn PartitionStream>,
    pub attributes: Arc<dyn PartitionStream>,
    pub tables: Arc<dyn PartitionStream>,
    /// `pg_database` by the names of the engine.
    pub databases: Arc<dyn PartitionStream>,
    pub catalogs: Arc<dyn CatalogProviderList>,
    pub declarations: Opaque<Declarations>,
    pub numbers: Arc<Numbers>,
}

/// The catalog of the engine in which its tables are.
pub(super) const CATALOG: &str = "datafusion";

/// A table or view that statements have made.
pub(super) struct Table {
    /// Its row in `pg_class`.
    pub row: usize,
    pub number: i32,
    pub namespace: i32,
    pub schema: String,
    pub name: String,
    pub columns: SchemaRef,
    pub declared: Declaration,
    /// `None` for views and system tables.
    pub size: Option<TableSize>,
    /// The query of a view.
    pub query: Option<String>,
}

/// A rule of a table that has a name.
pub(super) struct Constraint {
    pub number: i32,
    /// The number of its index; 0 for checks.
    pub index: i32,
    pub name: String,
    /// `p`, `u` or `c`.
    pub kind: &'static str,
    /// The table, in the list of all.
    pub table: usize,
    /// Positions of its columns, from 1.
    pub columns: Vec<i16>,
    /// The condition of a check.
    pub condition: Option<String>,
}

/// What a column gets if a statement does not say it.
pub(super) struct ColumnDefault {
    pub number: i32,
    pub table: i32,
    pub column: i16,
    pub text: String,
}

/// The state of the catalog at one time.
pub(super) struct Snapshot {
    /// The rows of `pg_class` without indexes.
    pub classes: RecordBatch,
    pub tables: Vec<Table>,
    pub constraints: Vec<Constraint>,
    pub defaults: Vec<ColumnDefault>,
}

impl Source {
    /// Reads what there is now.
    ///
    /// # Errors
    /// A schema that cannot be read.
    pub async fn read(&self, context: Arc<TaskContext>) -> Result<Snapshot> {
        let namespaces = rows(&self.namespaces, &context).await?;
        let numbers = as_int32_array(column(&namespaces, "oid")?)?;
        let names = as_string_array(column(&namespaces, "nspname")?)?;
        let names: BTreeMap<i32, &str> = numbers
            .values()
            .iter()
            .copied()
            .zip(names.iter().flatten())
            .collect();
        let classes = rows(&self.classes, &context).await?;
        let tables = self.tables(&classes, &names).await?;
        let (constraints, defaults) = numbered(&tables, &self.numbers);
        self.numbers
            .remember(texts(&tables, &constraints, &defaults));
        Ok(Snapshot {
            classes,
            tables,
            constraints,
            defaults,
        })
    }

    async fn tables(
        &self,
        classes: &RecordBatch,
        names: &BTreeMap<i32, &str>,
    ) -> Result<Vec<Table>> {
        let numbers = as_int32_array(column(classes, "oid")?)?;
        let spaces = as_int32_array(column(classes, "relnamespace")?)?;
        let tables = as_string_array(column(classes, "relname")?)?;
        let catalog = self.catalogs.catalog(CATALOG);
        let mut known = Vec::new();
        for row in 0..classes.num_rows() {
            let (number, namespace) = (numbers.value(row), spaces.value(row));
            let schema = names.get(&namespace);
            let Some(schema) = schema.filter(|schema| !OF_SYSTEM.contains(schema)) else {
                continue;
            };
            let name = tables.value(row);
            let Some(found) = catalog.as_ref().and_then(|c| c.schema(schema)) else {
                continue;
            };
            // A table that was dropped meanwhile is none.
            let Some(provider) = found.table(name).await? else {
                continue;
            };
            known.push(Table {
                row,
                number,
                namespace,
                schema: (*schema).to_owned(),
                name: name.to_owned(),
                columns: provider.schema(),
                declared: self.declarations.of(schema, name),
                query: provider.get_table_definition().map(query_of),
                size: self.declarations.size_of(schema, name),
            });
        }
        Ok(known)
    }
}

impl Snapshot {
    /// Constraints that have an index.
    pub fn indexes(&self) -> impl Iterator<Item = &Constraint> {
        self.constraints.iter().filter(|c| c.index != 0)
    }
}

impl Table {
    /// The position of a column, from 1.
    fn position(&self, name: &str) -> Option<i16> {
        let (at, _) = self.columns.column_with_name(name)?;
        i16::try_from(at + 1).ok()
    }

    fn positions(&self, names: &[String]) -> Vec<i16> {
        names
            .iter()
            .filter_map(|name| self.position(name))
            .collect()
    }

    fn named(&self, kind: Kind, name: &str) -> Named {
        (
            kind,
            self.schema.clone(),
            self.name.clone(),
            name.to_owned(),
        )
    }

    /// Number and modifier of the type of a column that has a precision or a longest length.
    pub fn modified_type(&self, column: &str) -> Option<(i32, i32)> {
        let (_, field) = self.columns.column_with_name(column)?;
        let modifier = match field.data_type() {
            DataType::Decimal128(precision, scale) if *scale >= 0 => {
                (i32::from(*precision) << 16) | i32::from(*scale)
            }
            DataType::Decimal128(..) => return None,
            _ => {
                let most = self.declared.most_chars.get(column)?;
                return Some((VARCHAR, i32::try_from(*most).ok()?.checked_add(HEADER)?));
            }
        };
        Some((NUMERIC, modifier + HEADER))
    }
}

/// Schemas whose tables nobody has made.
const OF_SYSTEM: [&str; 2] = ["pg_catalog", "information_schema"];

/// Numbers of types that have modifiers: texts with a longest length, and decimal numbers.
const VARCHAR: i32 = 1043;
const NUMERIC: i32 = 1700;

/// What modifiers of types are counted from.
const HEADER: i32 = 4;

/// Constraints and defaults with their numbers.
fn numbered(tables: &[Table], numbers: &Numbers) -> (Vec<Constraint>, Vec<ColumnDefault>) {
    let mut named = Vec::new();
    for table in tables {
        for key in &table.declared.keys {
            named.push(table.named(Kind::Constraint, &key.name));
            named.push(table.named(Kind::Index, &key.name));
        }
        let checks = table.declared.checks.iter();
        named.extend(checks.map(|check| table.named(Kind::Constraint, &check.name)));
        let defaults = table.declared.defaults.keys();
        named.extend(defaults.map(|column| table.named(Kind::Default, column)));
    }
    let mut given = numbers.of(named).into_iter();
    let mut next = || given.next().unwrap_or_default();
    let (mut constraints, mut defaults) = (Vec::new(), Vec::new());
    for (at, table) in tables.iter().enumerate() {
        for key in &table.declared.keys {
            constraints.push(Constraint {
                number: next(),
                index: next(),
                name: key.name.clone(),
                kind: if key.primary { "p" } else { "u" },
                table: at,
                columns: table.positions(&key.columns),
                condition: None,
            });
        }
        for check in &table.declared.checks {
            constraints.push(Constraint {
                number: next(),
                index: 0,
                name: check.name.clone(),
                kind: "c",
                table: at,
                columns: table.positions(&check.names),
                condition: Some(check.condition.clone()),
            });
        }
        for (column, text) in &table.declared.defaults {
            let number = next();
            if let Some(column) = table.position(column) {
                defaults.push(ColumnDefault {
                    number,
                    table: table.number,
                    column,
                    text: text.clone(),
                });
            }
        }
    }
    (constraints, defaults)
}

/// What clients read by the numbers of constraints, indexes and columns.
fn texts(tables: &[Table], constraints: &[Constraint], defaults: &[ColumnDefault]) -> Texts {
    let mut texts = Texts::default();
    for constraint in constraints {
        let table = &tables[constraint.table];
        let names = constraint.columns.iter().filter_map(|at| {
            let at = usize::try_from(*at).ok()?.checked_sub(1)?;
            Some(quoted(table.columns.fields().get(at)?.name()))
        });
        let names: Vec<String> = names.collect();
        let listed = names.join(", ");
        let text = match (&constraint.condition, constraint.kind) {
            (Some(condition), _) => format!("CHECK ({condition})"),
            (None, "p") => format!("PRIMARY KEY ({listed})"),
            (None, _) => format!("UNIQUE ({listed})"),
        };
        texts.constraints.insert(constraint.number, text);
        if constraint.index != 0 {
            let text = format!(
                "CREATE UNIQUE INDEX {} ON {}.{} USING btree ({listed})",
                quoted(&constraint.name),
                quoted(&table.schema),
                quoted(&table.name),
            );
            texts.indexes.insert(constraint.index, (text, names));
        }
    }
    for table in tables {
        let bytes = table.size.map(|size| size.bytes);
        let columns = table.columns.fields().iter();
        let columns = columns.map(|column| column.name().clone()).collect();
        let query = table.query.clone();
        texts.views.extend(query.map(|query| (table.number, query)));
        texts.columns.insert(table.number, columns);
        texts.bytes.extend(bytes.map(|bytes| (table.number, bytes)));
    }
    for default in defaults {
        let of = (default.table, default.column);
        texts.defaults.insert(of, default.text.clone());
    }
    texts
}

/// The query in the statement that makes a view.
fn query_of(statement: &str) -> String {
    let begin = statement.to_ascii_uppercase().find(" AS ");
    begin
        .map_or(statement, |at| &statement[at + 4..])
        .to_owned()
}

/// All rows of a table of the catalog.
pub(super) async fn rows(
    table: &Arc<dyn PartitionStream>,
    context: &Arc<TaskContext>,
) -> Result<RecordBatch> {
    let batches: Vec<RecordBatch> = table.execute(Arc::clone(context)).try_collect().await?;
    super::rows::together(table.schema(), &batches)
}

/// A column by its name.
pub(super) fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a arrow::array::ArrayRef> {
    let missing = || DataFusionError::Internal(format!("the catalog has no column {name}"));
    batch.column_by_name(name).ok_or_else(missing)
}
