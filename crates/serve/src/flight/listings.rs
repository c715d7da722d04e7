//! What clients list: catalogs, schemas, tables and their keys.

use super::super::session::ClientSession;
use super::facts;
use super::results::plain;
use super::status::{internal, status};
use arrow::array::{Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::error::FlightError;
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys,
    CommandGetImportedKeys, CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes,
    CommandGetTables, CommandGetXdbcTypeInfo,
};
use std::sync::Arc;
use tierloom_sql::SqlSession;
use tonic::Status;

/// The only catalog.
pub(super) const CATALOG: &str = "datafusion";

/// Kinds of tables as the engine and as the protocol names them.
const KINDS: [(&str, &str); 3] = [
    ("table", "TABLE"),
    ("view", "VIEW"),
    ("system", "SYSTEM TABLE"),
];

/// A request for a list.
pub(super) trait Listing: Send + 'static {
    /// The list, as the session sees it.
    ///
    /// # Errors
    /// A filter that is no pattern.
    fn list(self, session: &SqlSession) -> Result<RecordBatch, FlightError>;
}

/// The rows of a list.
pub(super) async fn listed(
    session: &ClientSession,
    listing: impl Listing,
) -> Result<RecordBatch, Status> {
    session.client().map_err(status)?;
    let mut lease = session.lease(true).await;
    let listed = tokio::task::spawn_blocking(move || listing.list(lease.session()));
    listed.await.map_err(internal)?.map_err(Status::from)
}

impl Listing for CommandGetCatalogs {
    fn list(self, _: &SqlSession) -> Result<RecordBatch, FlightError> {
        let mut catalogs = self.into_builder();
        catalogs.append(CATALOG);
        catalogs.build()
    }
}

impl Listing for CommandGetDbSchemas {
    fn list(self, session: &SqlSession) -> Result<RecordBatch, FlightError> {
        let mut schemas = self.into_builder();
        for schema in session.schemas() {
            schemas.append(CATALOG, schema);
        }
        schemas.build()
    }
}

impl Listing for CommandGetTables {
    fn list(self, session: &SqlSession) -> Result<RecordBatch, FlightError> {
        let mut tables = self.into_builder();
        let schemas = session.schemas();
        for info in session.tables() {
            // A table that was dropped meanwhile is none.
            let Ok(columns) = session.schema_of(&info.name) else {
                continue;
            };
            let (schema, table) = parts(&schemas, &info.name);
            let kind = KINDS.iter().find(|(ours, _)| *ours == info.kind);
            let kind = kind.map_or(info.kind, |(_, kind)| kind);
            tables.append(CATALOG, schema, table, kind, &plain(&columns))?;
        }
        tables.build()
    }
}

/// The schema of a table that the engine knows as `name`, and its name there.
fn parts<'a>(schemas: &[String], name: &'a str) -> (&'a str, &'a str) {
    let parts = name.split_once('.');
    let parts = parts.filter(|(schema, _)| schemas.iter().any(|known| known == schema));
    parts.unwrap_or(("public", name))
}

impl Listing for CommandGetTableTypes {
    fn list(self, _: &SqlSession) -> Result<RecordBatch, FlightError> {
        let mut types = self.into_builder();
        for (_, kind) in KINDS {
            types.append(kind);
        }
        types.build()
    }
}

impl Listing for CommandGetSqlInfo {
    fn list(self, _: &SqlSession) -> Result<RecordBatch, FlightError> {
        self.into_builder(&facts::server()?).build()
    }
}

impl Listing for CommandGetXdbcTypeInfo {
    fn list(self, _: &SqlSession) -> Result<RecordBatch, FlightError> {
        self.into_builder(&facts::types()?).build()
    }
}

impl Listing for CommandGetPrimaryKeys {
    fn list(self, session: &SqlSession) -> Result<RecordBatch, FlightError> {
        let is_ours = self.catalog.as_deref().is_none_or(|name| name == CATALOG);
        let schema = self.db_schema.as_deref().unwrap_or("public");
        let name = match schema {
            "public" => self.table.clone(),
            schema => format!("{schema}.{}", self.table),
        };
        let key = session.primary_key(&name).filter(|_| is_ours);
        let (key, columns) = key.unwrap_or_default();
        let count = columns.len();
        let same = |text: &str| Arc::new(StringArray::from(vec![text; count]));
        let numbers = (1..).take(count);
        Ok(RecordBatch::try_new(
            of_keys(&PRIMARY_KEYS),
            vec![
                same(CATALOG),
                same(schema),
                same(&self.table),
                Arc::new(StringArray::from(columns)),
                same(&key),
                Arc::new(numbers.collect::<Int32Array>()),
            ],
        )?)
    }
}

impl Listing for CommandGetExportedKeys {
    fn list(self, _: &SqlSession) -> Result<RecordBatch, FlightError> {
        Ok(no_foreign_keys())
    }
}

impl Listing for CommandGetImportedKeys {
    fn list(self, _: &SqlSession) -> Result<RecordBatch, FlightError> {
        Ok(no_foreign_keys())
    }
}

impl Listing for CommandGetCrossReference {
    fn list(self, _: &SqlSession) -> Result<RecordBatch, FlightError> {
        Ok(no_foreign_keys())
    }
}

/// Columns of a list of keys: name, type, and whether they can be NULL.
type Columns<const N: usize> = [(&'static str, DataType, bool); N];

const PRIMARY_KEYS: Columns<6> = [
    ("catalog_name", DataType::Utf8, true),
    ("db_schema_name", DataType::Utf8, true),
    ("table_name", DataType::Utf8, false),
    ("column_name", DataType::Utf8, false),
    ("key_name", DataType::Utf8, true),
    ("key_sequence", DataType::Int32, false),
];

const FOREIGN_KEYS: Columns<13> = [
    ("pk_catalog_name", DataType::Utf8, true),
    ("pk_db_schema_name", DataType::Utf8, true),
    ("pk_table_name", DataType::Utf8, false),
    ("pk_column_name", DataType::Utf8, false),
    ("fk_catalog_name", DataType::Utf8, true),
    ("fk_db_schema_name", DataType::Utf8, true),
    ("fk_table_name", DataType::Utf8, false),
    ("fk_column_name", DataType::Utf8, false),
    ("key_sequence", DataType::Int32, false),
    ("fk_key_name", DataType::Utf8, true),
    ("pk_key_name", DataType::Utf8, true),
    ("update_rule", DataType::UInt8, false),
    ("delete_rule", DataType::UInt8, false),
];

fn of_keys(columns: &[(&str, DataType, bool)]) -> SchemaRef {
    let fields = columns.iter();
    let fields = fields.map(|(name, kind, nullable)| Field::new(*name, kind.clone(), *nullable));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn no_foreign_keys() -> RecordBatch {
    RecordBatch::new_empty(of_keys(&FOREIGN_KEYS))
}
