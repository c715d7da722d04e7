//! The catalog of PostgreSQL: tables and functions that clients ask when they connect, list tables
//! or complete names; and statements about them, read as PostgreSQL means them.

use super::ServeError;
use super::clients::{Clients, micros};
use super::database::DATABASE;
use super::information::Information;
use super::intervals;
use super::json::JsonObject;
use super::pg_catalog::{self, Users};
use super::prepare::prepare;
use super::rewrite::rewrite;
use super::session_functions::Settings;
use super::variables::SERVER_VERSION;
use arrow::array::{ArrayRef, Int32Array, ListBuilder, StringArray, StringBuilder};
use arrow::datatypes::DataType;
use datafusion::common::cast::as_string_array;
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion_pg_catalog::sql::PostgresCompatibilityParser;
use pgwire::api::Type;
use regex::Regex;
use std::sync::Arc;
use std::time::SystemTime;
use tierloom_engine::SystemTable;
use tierloom_sql::{Piece, SharedEngine, split};

/// Adds the catalog's tables and functions, and the table of sessions, to all sessions of `engine`.
pub(crate) fn add(
    engine: &SharedEngine,
    clients: &Clients,
    users: Users,
) -> std::result::Result<(), ServeError> {
    pg_catalog::add(engine, users)?;
    let context = engine.context();
    let sessions = Arc::new(SystemTable(clients.clone()));
    context
        .register_table("tierloom_sessions", sessions)
        .map_err(ServeError::failed)?;
    let version = format!(
        "PostgreSQL {SERVER_VERSION} (Tierloom {})",
        env!("CARGO_PKG_VERSION")
    );
    context.register_udf(constant("version", Some(version)));
    let database = Some(DATABASE.to_owned());
    context.register_udf(constant("current_database", database));
    // Clients give locks back before they use a connection again; there are none.
    context.register_udf(constant("pg_advisory_unlock_all", None));
    // There are no sequences, and all collations can be seen.
    use DataType::{Int32, Utf8};
    let none = ScalarValue::Utf8(None);
    context.register_udf(always("pg_get_serial_sequence", vec![Utf8, Utf8], none));
    let seen = ScalarValue::Boolean(Some(true));
    context.register_udf(always("pg_collation_is_visible", vec![Int32], seen));
    let never = || ScalarValue::Boolean(Some(false));
    context.register_udf(always("pg_is_in_recovery", Vec::new(), never()));
    let now = micros(SystemTime::now());
    let now = || ScalarValue::TimestampMicrosecond(Some(now), Some("+00:00".into()));
    // Settings are read once, when it starts.
    context.register_udf(always("pg_postmaster_start_time", Vec::new(), now()));
    context.register_udf(always("pg_conf_load_time", Vec::new(), now()));
    // Temporary tables are in no schema of their own.
    context.register_udf(always("pg_is_other_temp_schema", vec![Int32], never()));
    let no_schema = ScalarValue::Int32(Some(0));
    context.register_udf(always("pg_my_temp_schema", Vec::new(), no_schema));
    for name in ["inet_server_addr", "inet_client_addr"] {
        context.register_udf(constant(name, None));
    }
    for name in ["inet_server_port", "inet_client_port"] {
        context.register_udf(always(name, Vec::new(), ScalarValue::Int32(None)));
    }
    context.register_udf(quoted_literal());
    context.register_udf(number_of_type());
    context.register_udf(parts_of_name());
    context.register_udf(ScalarUDF::from(JsonObject::new()));
    for function in intervals::functions() {
        context.register_udf(function);
    }
    for (of_engine, of_postgres) in SAME {
        let known = context.udf(of_engine).map_err(ServeError::failed)?;
        let both = known
            .as_ref()
            .clone()
            .with_aliases(of_postgres.iter().copied());
        context.register_udf(both);
    }
    for (of_engine, of_postgres) in SAME_OF_GROUPS {
        let known = context.udaf(of_engine).map_err(ServeError::failed)?;
        let both = known.as_ref().clone().with_aliases([of_postgres]);
        context.register_udaf(both);
    }
    Ok(())
}

/// The same for functions of groups.
const SAME_OF_GROUPS: [(&str, &str); 2] = [("bool_and", "every"), ("var", "variance")];

/// Functions of the engine, and what PostgreSQL calls them. A statement is a transaction here, and
/// its time is that of its start.
const SAME: [(&str, &[&str]); 2] = [
    ("uuid", &["gen_random_uuid"]),
    (
        "now",
        &[
            "clock_timestamp",
            "statement_timestamp",
            "transaction_timestamp",
        ],
    ),
];

/// Adds what is true of one client: its name, the number of its session, and what it has set.
pub(crate) fn add_client(context: &SessionContext, settings: &Settings) {
    let client = &settings.client;
    for name in ["current_user", "session_user", "user"] {
        context.register_udf(constant(name, Some(client.user.clone())));
    }
    let pid = ScalarValue::Int32(Some(client.pid));
    context.register_udf(always("pg_backend_pid", Vec::new(), pid));
    for function in settings.functions() {
        context.register_udf(function);
    }
}

/// A function that gives the same for all arguments.
fn always(name: &str, arguments: Vec<DataType>, value: ScalarValue) -> ScalarUDF {
    let data_type = value.data_type();
    let give = move |_: &[ColumnarValue]| Ok(ColumnarValue::Scalar(value.clone()));
    create_udf(
        name,
        arguments,
        data_type,
        Volatility::Stable,
        Arc::new(give),
    )
}

/// `quote_literal(text)`: the text as a literal of SQL.
fn quoted_literal() -> ScalarUDF {
    of_text("quote_literal", DataType::Utf8, |texts| {
        let quoted = |text: &str| {
            // With backslashes, a literal means the same whatever a server makes of them.
            let mark = if text.contains('\\') { "E" } else { "" };
            let text = text.replace('\\', r"\\").replace('\'', "''");
            format!("{mark}'{text}'")
        };
        let all: StringArray = texts.iter().map(|text| text.map(quoted)).collect();
        Arc::new(all)
    })
}

/// `to_regtype(name)`: the number of a type; NULL for a name that is none.
fn number_of_type() -> ScalarUDF {
    of_text("to_regtype", DataType::Int32, |names| {
        let numbers: Int32Array = names.iter().map(|name| oid_of(name?)).collect();
        Arc::new(numbers)
    })
}

/// `parse_ident(name)`: the parts of a name; none for what is no name.
///
/// In the place of the catalog's own, which takes spaces around points for a part: the ingestion of
/// ADBC asks for the columns of `"public" . "t"`.
fn parts_of_name() -> ScalarUDF {
    let texts = DataType::new_list(DataType::Utf8, true);
    of_text("parse_ident", texts, |names| {
        let mut parts = ListBuilder::new(StringBuilder::new());
        for name in names {
            match name {
                Some(name) => parts.append_value(name_parts(name).into_iter().map(Some)),
                None => parts.append_null(),
            }
        }
        Arc::new(parts.finish())
    })
}

fn name_parts(name: &str) -> Vec<String> {
    let dialect = PostgreSqlDialect {};
    let parser = Parser::new(&dialect).try_with_sql(name);
    let parts = parser.and_then(|mut parser| parser.parse_multipart_identifier());
    let plain = |part: Ident| match part.quote_style {
        Some(_) => part.value,
        None => part.value.to_lowercase(),
    };
    parts.map_or_else(
        |_| Vec::new(),
        |parts| parts.into_iter().map(plain).collect(),
    )
}

/// A function of one text.
fn of_text(name: &str, data_type: DataType, give: fn(&StringArray) -> ArrayRef) -> ScalarUDF {
    let give = move |arguments: &[ColumnarValue]| -> Result<ColumnarValue> {
        let texts = ColumnarValue::values_to_arrays(arguments)?;
        Ok(ColumnarValue::Array(give(as_string_array(&texts[0])?)))
    };
    let text = vec![DataType::Utf8];
    create_udf(name, text, data_type, Volatility::Stable, Arc::new(give))
}

fn oid_of(name: &str) -> Option<i32> {
    let known = (1..LARGEST_OID).filter_map(Type::from_oid);
    let found = known
        .filter(|known| known.name() == name)
        .map(|known| known.oid())
        .next();
    found.and_then(|oid| i32::try_from(oid).ok())
}

/// Above the numbers of all types that PostgreSQL has itself.
const LARGEST_OID: u32 = 16_384;

/// A function without arguments.
fn constant(name: &str, value: Option<String>) -> ScalarUDF {
    let give = move |_: &[ColumnarValue]| -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(value.clone())))
    };
    let give = Arc::new(give);
    create_udf(name, Vec::new(), DataType::Utf8, Volatility::Stable, give)
}

/// Turns statements in PostgreSQL's words into those of the engine.
pub(crate) struct Rewriter {
    parser: PostgresCompatibilityParser,
    functions: Regex,
    information: Information,
}

/// Parts of statements about the catalog.
const OF_CATALOG: [&str; 7] = [
    "pg_",
    "information_schema",
    "current_schema",
    "current_database",
    "current_user",
    "session_user",
    "::reg",
];

/// Numbers of functions compared with 0, for none. The catalog has their names, and `-` for none.
const FUNCTIONS: &str = r"(?i)(?-u:\b)(typ(?:receive|send|input|output))\s*(!=|<>|=)\s*0(?-u:\b)";

impl Rewriter {
    pub fn new() -> Self {
        Rewriter {
            parser: PostgresCompatibilityParser::new(),
            functions: Regex::new(FUNCTIONS).expect("the pattern is valid"),
            information: Information::new(),
        }
    }

    /// A statement about the catalog, rewritten; `None` for all others, which mean the same here.
    pub fn first(&self, piece: &Piece) -> Option<Piece> {
        let text = piece.text.to_lowercase();
        let about = OF_CATALOG.iter().any(|part| text.contains(part));
        about.then(|| self.rewritten(piece)).flatten()
    }

    /// A statement that the engine did not understand, rewritten; `None` if that changes nothing.
    pub fn after_failure(&self, piece: &Piece) -> Option<Piece> {
        self.rewritten(piece)
    }

    fn rewritten(&self, piece: &Piece) -> Option<Piece> {
        let text = self.functions.replace_all(&piece.text, "$1 $2 '-'");
        let prepared = prepared(&text);
        let text = prepared.as_deref().unwrap_or(&text);
        let mut statement = self.parser.parse(text).ok()?.into_iter().next()?;
        rewrite(&mut statement, &self.information);
        let text = statement.to_string();
        if text == piece.text {
            return None;
        }
        split(&text).ok()?.into_iter().next()
    }
}

/// A statement without what the parser of the catalog's crate would spoil, if it has that.
fn prepared(text: &str) -> Option<String> {
    let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, text).ok()?;
    let statement = statements.first_mut()?;
    prepare(statement).then(|| statement.to_string())
}

/// A row of one text, for SHOW.
pub(crate) fn text_row(name: &str, value: &str) -> Option<arrow::array::RecordBatch> {
    let value: StringArray = [Some(value)].into_iter().collect();
    arrow::array::RecordBatch::try_from_iter([(name, Arc::new(value) as _)]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_postgresql_does() {
        assert_eq!(
            name_parts("Public . \"My \"\"T\"\"\""),
            ["public", "My \"T\""]
        );
        assert_eq!(name_parts("\"a.b\".c"), ["a.b", "c"]);
        assert_eq!(name_parts("t"), ["t"]);
        for no_name in ["", "a.", ".a", "\"a", "a b", "1"] {
            assert!(name_parts(no_name).is_empty(), "{no_name}");
        }
    }
}
