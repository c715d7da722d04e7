//! What the server says of itself and of its types.

use arrow_flight::error::Result;
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    Nullable, Searchable, SqlInfo, SqlSupportedTransaction, XdbcDataType, XdbcDatetimeSubcode,
};

/// A name in its spelling (`SqlSupportedCaseSensitivity`), or in lower case.
const AS_WRITTEN: i32 = 1;
const LOWER_CASE: i32 = 3;

/// What can be done and how.
pub(super) fn server() -> Result<SqlInfoData> {
    let mut facts = SqlInfoDataBuilder::new();
    facts.append(SqlInfo::FlightSqlServerName, "Tierloom");
    facts.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    facts.append(SqlInfo::FlightSqlServerArrowVersion, arrow::ARROW_VERSION);
    facts.append(SqlInfo::FlightSqlServerReadOnly, false);
    facts.append(SqlInfo::FlightSqlServerSql, true);
    facts.append(SqlInfo::FlightSqlServerSubstrait, false);
    let transactions = SqlSupportedTransaction::None as i32;
    facts.append(SqlInfo::FlightSqlServerTransaction, transactions);
    facts.append(SqlInfo::FlightSqlServerCancel, true);
    facts.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    facts.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, false);
    // There is none until a session sets statement_timeout.
    facts.append(SqlInfo::FlightSqlServerStatementTimeout, 0);
    facts.append(SqlInfo::FlightSqlServerTransactionTimeout, 0);
    facts.append(SqlInfo::SqlDdlCatalog, false);
    facts.append(SqlInfo::SqlDdlSchema, true);
    facts.append(SqlInfo::SqlDdlTable, true);
    facts.append(SqlInfo::SqlIdentifierCase, LOWER_CASE);
    facts.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    facts.append(SqlInfo::SqlQuotedIdentifierCase, AS_WRITTEN);
    facts.append(SqlInfo::SqlAllTablesAreSelectable, true);
    facts.append(SqlInfo::SqlSupportsColumnAliasing, true);
    facts.append(SqlInfo::SqlNullPlusNullIsNull, true);
    facts.append(SqlInfo::SqlSupportsExpressionsInOrderBy, true);
    facts.append(SqlInfo::SqlSupportsOrderByUnrelated, true);
    facts.append(SqlInfo::SqlSupportsLikeEscapeClause, true);
    facts.append(SqlInfo::SqlSupportsNonNullableColumns, true);
    facts.append(SqlInfo::SqlSchemaTerm, "schema");
    facts.append(SqlInfo::SqlCatalogTerm, "catalog");
    facts.append(SqlInfo::SqlCatalogAtStart, true);
    facts.append(SqlInfo::SqlTransactionsSupported, false);
    facts.append(SqlInfo::SqlSavepointsSupported, false);
    facts.append(SqlInfo::SqlBatchUpdatesSupported, true);
    facts.build()
}

/// Types by their names in statements.
pub(super) fn types() -> Result<XdbcTypeInfoData> {
    use XdbcDataType as Kind;
    let mut types = XdbcTypeInfoDataBuilder::new();
    for (name, kind, bits) in [
        ("TINYINT", Kind::XdbcTinyint, 8),
        ("SMALLINT", Kind::XdbcSmallint, 16),
        ("INTEGER", Kind::XdbcInteger, 32),
        ("BIGINT", Kind::XdbcBigint, 64),
        ("REAL", Kind::XdbcReal, 32),
        ("DOUBLE", Kind::XdbcDouble, 64),
    ] {
        types.append(XdbcTypeInfo {
            num_prec_radix: Some(2),
            unsigned_attribute: Some(false),
            ..plain(name, kind, Some(bits))
        });
    }
    types.append(XdbcTypeInfo {
        create_params: Some(vec!["precision".to_owned(), "scale".to_owned()]),
        minimum_scale: Some(0),
        maximum_scale: Some(38),
        num_prec_radix: Some(10),
        unsigned_attribute: Some(false),
        ..plain("DECIMAL", Kind::XdbcDecimal, Some(38))
    });
    types.append(plain("BOOLEAN", Kind::XdbcBit, Some(1)));
    types.append(XdbcTypeInfo {
        case_sensitive: true,
        create_params: Some(vec!["length".to_owned()]),
        ..quoted("VARCHAR", Kind::XdbcVarchar, None)
    });
    types.append(plain("BYTEA", Kind::XdbcVarbinary, None));
    types.append(XdbcTypeInfo {
        sql_data_type: Kind::XdbcDatetime,
        // Of dates: years and days of times have the same numbers.
        datetime_subcode: Some(XdbcDatetimeSubcode::XdbcSubcodeYear),
        ..quoted("DATE", Kind::XdbcDate, Some(10))
    });
    types.append(XdbcTypeInfo {
        sql_data_type: Kind::XdbcDatetime,
        datetime_subcode: Some(XdbcDatetimeSubcode::XdbcSubcodeTimestamp),
        ..quoted("TIMESTAMP", Kind::XdbcTimestamp, Some(26))
    });
    types.build()
}

fn plain(name: &str, kind: XdbcDataType, size: Option<i32>) -> XdbcTypeInfo {
    XdbcTypeInfo {
        type_name: name.to_owned(),
        local_type_name: Some(name.to_owned()),
        data_type: kind,
        sql_data_type: kind,
        column_size: size,
        nullable: Nullable::NullabilityNullable,
        searchable: Searchable::Full,
        auto_increment: Some(false),
        ..XdbcTypeInfo::default()
    }
}

/// A type whose literals are in quotes.
fn quoted(name: &str, kind: XdbcDataType, size: Option<i32>) -> XdbcTypeInfo {
    XdbcTypeInfo {
        literal_prefix: Some("'".to_owned()),
        literal_suffix: Some("'".to_owned()),
        ..plain(name, kind, size)
    }
}
