//! Tables of `information_schema` that the engine does not have, or not as PostgreSQL has them: as
//! queries of the system catalog.

use super::pg_catalog::DEFAULT_OF_COLUMN;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Statement, TableAlias, TableFactor,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::collections::BTreeMap;

/// Tables of the schema with their queries, and views of the system catalog.
pub(super) struct Information {
    tables: BTreeMap<&'static str, Box<Query>>,
    views: BTreeMap<&'static str, Box<Query>>,
}

const SCHEMA: &str = "information_schema";

impl Information {
    pub fn new() -> Self {
        let columns = COLUMNS.replace("DEFAULT_OF_COLUMN", DEFAULT_OF_COLUMN);
        let texts = [
            ("schemata", SCHEMATA),
            ("tables", TABLES),
            ("columns", columns.as_str()),
            ("table_constraints", TABLE_CONSTRAINTS),
            ("key_column_usage", KEY_COLUMN_USAGE),
            ("constraint_column_usage", CONSTRAINT_COLUMN_USAGE),
            ("check_constraints", CHECK_CONSTRAINTS),
            ("referential_constraints", REFERENTIAL_CONSTRAINTS),
            ("views", VIEWS),
            ("sequences", SEQUENCES),
        ];
        let views = [
            ("pg_indexes", PG_INDEXES),
            ("pg_views", PG_VIEWS),
            ("pg_sequences", SEQUENCES),
            ("pg_stat_activity", PG_STAT_ACTIVITY),
            ("pg_stat_user_tables", PG_STAT_USER_TABLES),
        ];
        Information {
            tables: texts.into_iter().map(parsed).collect(),
            views: views.into_iter().map(parsed).collect(),
        }
    }

    /// The table that a name is, with its query.
    fn table_of(&self, name: &ObjectName) -> Option<(&'static str, &Query)> {
        let parts: Option<Vec<&Ident>> = name.0.iter().map(|part| part.as_ident()).collect();
        let mut parts = parts?.into_iter().rev();
        let table = parts.next()?.value.to_lowercase();
        let schema = parts.next().map(|schema| schema.value.to_lowercase());
        let known = match schema.as_deref() {
            Some(SCHEMA) => self.tables.get_key_value(table.as_str()),
            None | Some("pg_catalog") => self.views.get_key_value(table.as_str()),
            Some(_) => None,
        };
        known.map(|(name, query)| (*name, query.as_ref()))
    }

    /// Puts its query into the place of such a table.
    pub fn replace(&self, factor: &mut TableFactor) {
        let TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = factor
        else {
            return;
        };
        let Some((name, query)) = self.table_of(name) else {
            return;
        };
        let alias = alias.take().unwrap_or_else(|| TableAlias {
            explicit: true,
            name: Ident::new(name),
            columns: Vec::new(),
            at: None,
        });
        *factor = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(query.clone()),
            alias: Some(alias),
            sample: None,
        };
    }

    /// Takes the schema away from the name of a column of such a table.
    pub fn shorten(&self, expr: &mut Expr) {
        if let Expr::CompoundIdentifier(names) = expr
            && let [schema, table, _] = names.as_slice()
            && schema.value.eq_ignore_ascii_case(SCHEMA)
            && self
                .tables
                .contains_key(table.value.to_lowercase().as_str())
        {
            names.remove(0);
        }
    }
}

fn parsed((name, text): (&'static str, &str)) -> (&'static str, Box<Query>) {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, text);
    match parsed.expect("the query is valid").pop() {
        Some(Statement::Query(query)) => (name, query),
        _ => unreachable!("it is one query"),
    }
}

const SCHEMATA: &str = "\
SELECT 'tierloom' AS catalog_name, nspname AS schema_name, 'postgres' AS schema_owner,
  CAST(NULL AS TEXT) AS default_character_set_catalog,
  CAST(NULL AS TEXT) AS default_character_set_schema,
  CAST(NULL AS TEXT) AS default_character_set_name, CAST(NULL AS TEXT) AS sql_path
FROM pg_catalog.pg_namespace";

const TABLES: &str = "\
SELECT 'tierloom' AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
  CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'BASE TABLE' END AS table_type,
  CAST(NULL AS TEXT) AS self_referencing_column_name,
  CAST(NULL AS TEXT) AS reference_generation,
  CAST(NULL AS TEXT) AS user_defined_type_catalog,
  CAST(NULL AS TEXT) AS user_defined_type_schema,
  CAST(NULL AS TEXT) AS user_defined_type_name,
  CASE c.relkind WHEN 'v' THEN 'NO' ELSE 'YES' END AS is_insertable_into, 'NO' AS is_typed,
  CAST(NULL AS TEXT) AS commit_action
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v')";

const COLUMNS: &str = "\
SELECT 'tierloom' AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
  a.attname AS column_name, CAST(a.attnum AS INT) AS ordinal_position,
  DEFAULT_OF_COLUMN(a.attrelid, a.attnum) AS column_default,
  CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable,
  format_type(a.atttypid, -1) AS data_type,
  CASE WHEN a.atttypid = 1043 THEN a.atttypmod - 4 END AS character_maximum_length,
  CAST(NULL AS INT) AS character_octet_length,
  CAST(CASE a.atttypid WHEN 21 THEN 16 WHEN 23 THEN 32 WHEN 20 THEN 64 WHEN 700 THEN 24
    WHEN 701 THEN 53 WHEN 1700 THEN
    CASE WHEN a.atttypmod > 4 THEN (a.atttypmod - 4) / 65536 END END AS INT) AS numeric_precision,
  CAST(CASE WHEN a.atttypid IN (20, 21, 23, 700, 701) THEN 2 WHEN a.atttypid = 1700 THEN 10 END
    AS INT) AS numeric_precision_radix,
  CAST(CASE WHEN a.atttypid IN (20, 21, 23) THEN 0 WHEN a.atttypid = 1700 AND a.atttypmod > 4
    THEN (a.atttypmod - 4) % 65536 END AS INT) AS numeric_scale,
  CAST(CASE WHEN a.atttypid IN (1083, 1114, 1184) THEN 6 WHEN a.atttypid = 1082 THEN 0 END AS INT)
    AS datetime_precision,
  CAST(NULL AS TEXT) AS interval_type, CAST(NULL AS TEXT) AS collation_name,
  CAST(NULL AS TEXT) AS domain_name,
  'tierloom' AS udt_catalog, 'pg_catalog' AS udt_schema, t.typname AS udt_name,
  'NO' AS is_identity, CAST(NULL AS TEXT) AS identity_generation, 'NEVER' AS is_generated,
  CAST(NULL AS TEXT) AS generation_expression,
  CASE c.relkind WHEN 'r' THEN 'YES' ELSE 'NO' END AS is_updatable
FROM pg_catalog.pg_attribute a
  JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE a.attnum > 0 AND c.relkind IN ('r', 'v')";

const TABLE_CONSTRAINTS: &str = "\
SELECT 'tierloom' AS constraint_catalog, n.nspname AS constraint_schema,
  k.conname AS constraint_name, 'tierloom' AS table_catalog, n.nspname AS table_schema,
  c.relname AS table_name,
  CASE k.contype WHEN 'p' THEN 'PRIMARY KEY' WHEN 'u' THEN 'UNIQUE' ELSE 'CHECK' END
    AS constraint_type,
  'NO' AS is_deferrable, 'NO' AS initially_deferred, 'YES' AS enforced,
  CASE k.contype WHEN 'u' THEN 'YES' END AS nulls_distinct
FROM pg_catalog.pg_constraint k
  JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = k.connamespace";

const KEY_COLUMN_USAGE: &str = "\
SELECT 'tierloom' AS constraint_catalog, n.nspname AS constraint_schema,
  k.conname AS constraint_name, 'tierloom' AS table_catalog, n.nspname AS table_schema,
  c.relname AS table_name, a.attname AS column_name, k.place AS ordinal_position,
  CAST(NULL AS INT) AS position_in_unique_constraint
FROM (SELECT conname, connamespace, conrelid, unnest(conkey) AS attnum,
    unnest(generate_subscripts(conkey, 1)) AS place
    FROM pg_catalog.pg_constraint WHERE contype IN ('p', 'u')) k
  JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = k.connamespace
  JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.attnum";

const CONSTRAINT_COLUMN_USAGE: &str = "\
SELECT 'tierloom' AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
  a.attname AS column_name, 'tierloom' AS constraint_catalog,
  n.nspname AS constraint_schema, k.conname AS constraint_name
FROM (SELECT conname, connamespace, conrelid, unnest(conkey) AS attnum
    FROM pg_catalog.pg_constraint) k
  JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = k.connamespace
  JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.attnum";

const CHECK_CONSTRAINTS: &str = "\
SELECT 'tierloom' AS constraint_catalog, n.nspname AS constraint_schema,
  k.conname AS constraint_name, k.conbin AS check_clause
FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_namespace n ON n.oid = k.connamespace
WHERE k.contype = 'c'";

/// There are none.
const REFERENTIAL_CONSTRAINTS: &str = "\
SELECT 'tierloom' AS constraint_catalog, n.nspname AS constraint_schema,
  k.conname AS constraint_name, 'tierloom' AS unique_constraint_catalog,
  n.nspname AS unique_constraint_schema, CAST(NULL AS TEXT) AS unique_constraint_name,
  'NONE' AS match_option, 'NO ACTION' AS update_rule, 'NO ACTION' AS delete_rule
FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_namespace n ON n.oid = k.connamespace
WHERE k.contype = 'f'";

const VIEWS: &str = "\
SELECT 'tierloom' AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
  pg_get_viewdef(c.oid) AS view_definition, 'NONE' AS check_option, 'NO' AS is_updatable,
  'NO' AS is_insertable_into
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'v'";

const PG_VIEWS: &str = "\
SELECT n.nspname AS schemaname, c.relname AS viewname, pg_get_userbyid(c.relowner) AS viewowner,
  pg_get_viewdef(c.oid) AS definition
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'v'";

/// There are none.
const SEQUENCES: &str = "\
SELECT 'tierloom' AS sequence_catalog, nspname AS sequence_schema, nspname AS sequence_name,
  nspname AS schemaname, nspname AS sequencename, 'bigint' AS data_type
FROM pg_catalog.pg_namespace WHERE false";

const PG_INDEXES: &str = "\
SELECT n.nspname AS schemaname, t.relname AS tablename, c.relname AS indexname,
  CAST(NULL AS TEXT) AS tablespace, pg_get_indexdef(i.indexrelid) AS indexdef
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
  JOIN pg_catalog.pg_class t ON t.oid = i.indrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace";

const PG_STAT_ACTIVITY: &str = "\
SELECT 'tierloom' AS datname, pid, user_name AS usename, application_name,
  client_address AS client_addr, connected_at AS backend_start,
  statement_started_at AS query_start, statement_started_at AS state_change,
  CAST(NULL AS TEXT) AS wait_event_type, CAST(NULL AS TEXT) AS wait_event, state,
  statement AS query, 'client backend' AS backend_type
FROM public.tierloom_sessions";

const PG_STAT_USER_TABLES: &str = "\
SELECT c.oid AS relid, n.nspname AS schemaname, c.relname AS relname,
  CAST(c.reltuples AS BIGINT) AS n_live_tup, CAST(0 AS BIGINT) AS n_dead_tup
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')";
