//! The tables of the catalog in which keys, checks and defaults are.

use super::rows::{
    Columns, filled, flags, number_lists, numbers, positions, shorts, text, together, with,
};
use super::state::{CATALOG, Constraint, Snapshot, Source, column, rows};
use crate::database::DATABASE;
use arrow::array::{BooleanArray, Float64Array, Int32Array, RecordBatch, StringArray, UInt32Array};
use arrow::compute::{filter_record_batch, take_record_batch};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::cast::{as_boolean_array, as_int16_array, as_int32_array, as_string_array};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// A table of the catalog that is made here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    Class,
    Attribute,
    /// Tables without views.
    Tables,
    /// The one database, by the name that clients know.
    Database,
    Constraint,
    Index,
    Attrdef,
}

impl Made {
    /// The table of this name, if it is one of them.
    pub fn of(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "pg_class" => Some(Made::Class),
            "pg_attribute" => Some(Made::Attribute),
            "pg_tables" => Some(Made::Tables),
            "pg_database" => Some(Made::Database),
            "pg_constraint" => Some(Made::Constraint),
            "pg_index" => Some(Made::Index),
            "pg_attrdef" => Some(Made::Attrdef),
            _ => None,
        }
    }
}

/// Reads such a table whenever a statement does.
#[derive(Clone)]
pub(super) struct MadeTable {
    pub made: Made,
    pub schema: SchemaRef,
    pub source: Arc<Source>,
}

impl fmt::Debug for MadeTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.made)
    }
}

impl PartitionStream for MadeTable {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let this = self.clone();
        let rows = futures::stream::once(async move { this.rows(context).await });
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            rows,
        ))
    }
}

impl MadeTable {
    async fn rows(&self, context: Arc<TaskContext>) -> Result<RecordBatch> {
        let now = self.source.read(Arc::clone(&context)).await?;
        match self.made {
            Made::Class => self.classes(&now),
            Made::Attribute => {
                let attributes = rows(&self.source.attributes, &context).await?;
                self.attributes(&now, &attributes)
            }
            Made::Tables => {
                let tables = rows(&self.source.tables, &context).await?;
                tables_alone(&now, &tables)
            }
            Made::Database => the_database(&rows(&self.source.databases, &context).await?),
            Made::Constraint => self.constraints(&now),
            Made::Index => self.indexes(&now),
            Made::Attrdef => self.defaults(&now),
        }
    }

    /// Tables, and an index for each key.
    fn classes(&self, now: &Snapshot) -> Result<RecordBatch> {
        let count = now.classes.num_rows();
        let (mut indexed, mut checks) = (vec![false; count], vec![0_i16; count]);
        for constraint in &now.constraints {
            let row = now.tables[constraint.table].row;
            indexed[row] |= constraint.index != 0;
            checks[row] += i16::from(constraint.index == 0);
        }
        let kinds = as_string_array(column(&now.classes, "relkind")?)?;
        let methods = kinds.iter().map(|kind| match kind {
            Some("r") => HEAP,
            _ => 0,
        });
        let mut rows = vec![0.0; count];
        for table in &now.tables {
            rows[table.row] = table.size.map_or(-1.0, |size| size.rows as f64);
        }
        let given = Columns::from([
            ("reltuples", Arc::new(Float64Array::from(rows)) as _),
            // As of a table that was never analysed: clients that see pages ask for ranges of them.
            ("relpages", numbers(vec![0; count])),
            ("relhasindex", flags(indexed)),
            ("relchecks", shorts(checks)),
            ("relam", numbers(methods.collect())),
        ]);
        let tables = with(&now.classes, given)?;
        let indexes: Vec<&Constraint> = now.indexes().collect();
        let of = |value: &dyn Fn(&Constraint) -> i32| {
            numbers(indexes.iter().map(|index| value(index)).collect())
        };
        let same = |value: &str| text(vec![value; indexes.len()]);
        let counts = indexes.iter().map(|index| short(index.columns.len()));
        let given = Columns::from([
            ("oid", of(&|index| index.index)),
            ("relname", text(indexes.iter().map(|i| &i.name).collect())),
            ("relnamespace", of(&|i| now.tables[i.table].namespace)),
            ("relam", of(&|_| BTREE)),
            ("relfilenode", of(&|index| index.index)),
            ("relpersistence", same("p")),
            ("relkind", same("i")),
            ("relnatts", shorts(counts.collect())),
            ("relispopulated", flags(vec![true; indexes.len()])),
            ("relreplident", same("n")),
        ]);
        let made = filled(&self.schema, indexes.len(), &given)?;
        together(&self.schema, &[tables, made])
    }

    /// Columns of tables with their rules, and those of indexes.
    fn attributes(&self, now: &Snapshot, known: &RecordBatch) -> Result<RecordBatch> {
        let relations = as_int32_array(column(known, "attrelid")?)?;
        let places = as_int16_array(column(known, "attnum")?)?;
        let names = as_string_array(column(known, "attname")?)?;
        let mut types = as_int32_array(column(known, "atttypid")?)?
            .values()
            .to_vec();
        let mut modifiers = as_int32_array(column(known, "atttypmod")?)?
            .values()
            .to_vec();
        let strict = as_boolean_array(column(known, "attnotnull")?)?;
        let mut strict: Vec<bool> = strict.values().iter().collect();
        let mut has_default = vec![false; known.num_rows()];
        let tables: BTreeMap<i32, _> = now.tables.iter().map(|t| (t.number, t)).collect();
        let mut at = BTreeMap::new();
        for row in 0..known.num_rows() {
            let Some(table) = tables.get(&relations.value(row)) else {
                continue;
            };
            at.insert((table.number, places.value(row)), row);
            let name = names.value(row);
            let declared = &table.declared;
            strict[row] |= declared.not_null.iter().any(|column| column == name);
            has_default[row] = declared.defaults.contains_key(name);
            if let Some((number, modifier)) = table.modified_type(name) {
                (types[row], modifiers[row]) = (number, modifier);
            }
        }
        let given = Columns::from([
            ("atttypid", numbers(types)),
            ("atttypmod", numbers(modifiers)),
            ("attnotnull", flags(strict)),
            ("atthasdef", flags(has_default)),
        ]);
        let columns = with(known, given)?;
        let (mut from, mut owners, mut positions) = (Vec::new(), Vec::new(), Vec::new());
        for index in now.indexes() {
            let table = now.tables[index.table].number;
            let rows = index.columns.iter().map(|column| at.get(&(table, *column)));
            for (position, row) in rows.enumerate() {
                if let Some(Ok(row)) = row.map(|row| u32::try_from(*row)) {
                    from.push(row);
                    owners.push(index.index);
                    positions.push(short(position + 1));
                }
            }
        }
        let count = from.len();
        let of_indexes = take_record_batch(&columns, &UInt32Array::from(from))?;
        let given = Columns::from([
            ("attrelid", numbers(owners)),
            ("attnum", shorts(positions)),
            ("attnotnull", flags(vec![false; count])),
            ("atthasdef", flags(vec![false; count])),
        ]);
        together(&self.schema, &[columns, with(&of_indexes, given)?])
    }

    fn constraints(&self, now: &Snapshot) -> Result<RecordBatch> {
        let all = &now.constraints;
        let of = |value: &dyn Fn(&Constraint) -> i32| numbers(all.iter().map(value).collect());
        let same = |value: &str| text(vec![value; all.len()]);
        let yes = || flags(vec![true; all.len()]);
        let is_key = all.iter().map(|c| c.condition.is_none());
        let conditions: StringArray = all.iter().map(|c| c.condition.as_deref()).collect();
        let given = Columns::from([
            ("oid", of(&|c| c.number)),
            ("conname", text(all.iter().map(|c| &c.name).collect())),
            ("connamespace", of(&|c| now.tables[c.table].namespace)),
            ("contype", text(all.iter().map(|c| c.kind).collect())),
            ("convalidated", yes()),
            ("conrelid", of(&|c| now.tables[c.table].number)),
            ("conindid", of(&|c| c.index)),
            ("confupdtype", same(" ")),
            ("confdeltype", same(" ")),
            ("confmatchtype", same(" ")),
            ("conislocal", yes()),
            ("connoinherit", flags(is_key.collect())),
            (
                "conkey",
                positions(all.iter().map(|c| c.columns.clone()).collect()),
            ),
            ("conbin", Arc::new(conditions)),
        ]);
        filled(&self.schema, all.len(), &given)
    }

    fn indexes(&self, now: &Snapshot) -> Result<RecordBatch> {
        let all: Vec<&Constraint> = now.indexes().collect();
        let of = |value: &dyn Fn(&Constraint) -> i32| {
            numbers(all.iter().map(|index| value(index)).collect())
        };
        let yes = || flags(vec![true; all.len()]);
        let counts = || shorts(all.iter().map(|i| short(i.columns.len())).collect());
        let primary = all.iter().map(|index| index.kind == "p");
        let zeros = |index: &&Constraint| vec![0; index.columns.len()];
        let none = || number_lists(all.iter().map(zeros).collect());
        let options = all.iter().map(|index| vec![0; index.columns.len()]);
        let given = Columns::from([
            ("indexrelid", of(&|index| index.index)),
            ("indrelid", of(&|index| now.tables[index.table].number)),
            ("indnatts", counts()),
            ("indnkeyatts", counts()),
            ("indisunique", yes()),
            ("indisprimary", flags(primary.collect())),
            ("indimmediate", yes()),
            ("indisvalid", yes()),
            ("indisready", yes()),
            ("indislive", yes()),
            (
                "indkey",
                positions(all.iter().map(|i| i.columns.clone()).collect()),
            ),
            ("indcollation", none()),
            ("indclass", none()),
            ("indoption", positions(options.collect())),
        ]);
        filled(&self.schema, all.len(), &given)
    }

    fn defaults(&self, now: &Snapshot) -> Result<RecordBatch> {
        let all = &now.defaults;
        let columns = all.iter().map(|default| default.column);
        let numbers = |value: &dyn Fn(usize) -> i32| -> Arc<Int32Array> {
            Arc::new((0..all.len()).map(value).collect())
        };
        let given = Columns::from([
            ("oid", numbers(&|at| all[at].number) as _),
            ("adrelid", numbers(&|at| all[at].table) as _),
            ("adnum", shorts(columns.collect())),
            (
                "adbin",
                text(all.iter().map(|default| &default.text).collect()),
            ),
        ]);
        filled(&self.schema, all.len(), &given)
    }
}

/// The row of the engine's catalog, with the name of the database.
fn the_database(databases: &RecordBatch) -> Result<RecordBatch> {
    let names = as_string_array(column(databases, "datname")?)?;
    let ours: BooleanArray = names.iter().map(|n| Some(n == Some(CATALOG))).collect();
    let row = filter_record_batch(databases, &ours)?;
    let name = text(vec![DATABASE; row.num_rows()]);
    with(&row, Columns::from([("datname", name)]))
}

/// Tables, of which `known` lists views too: dbt would drop those as tables.
fn tables_alone(now: &Snapshot, known: &RecordBatch) -> Result<RecordBatch> {
    let schemas = as_string_array(column(known, "schemaname")?)?;
    let names = as_string_array(column(known, "tablename")?)?;
    let listed = || schemas.iter().zip(names).map(|(s, n)| s.zip(n));
    let named = |at: usize| (now.tables[at].schema.as_str(), now.tables[at].name.as_str());
    let views = (0..now.tables.len()).filter(|at| now.tables[*at].size.is_none());
    let views: BTreeSet<_> = views.map(named).collect();
    let indexed: BTreeSet<_> = now.indexes().map(|index| named(index.table)).collect();
    let has_index = listed().map(|name| name.is_some_and(|name| indexed.contains(&name)));
    let given = Columns::from([("hasindex", flags(has_index.collect()))]);
    let is_table = listed().map(|name| Some(!views.contains(&name?)));
    let is_table: BooleanArray = is_table.collect();
    Ok(filter_record_batch(&with(known, given)?, &is_table)?)
}

/// The numbers of the ways in which tables and indexes are stored.
const HEAP: i32 = 2;
const BTREE: i32 = 403;

fn short(count: usize) -> i16 {
    i16::try_from(count).unwrap_or(i16::MAX)
}
