//! The names of types, as PostgreSQL shows them.

use arrow::array::{Array, ArrayRef, StringArray};
use arrow::datatypes::DataType;
use arrow_pg::datatypes::into_pg_type;
use datafusion::common::{Result, exec_err};
use std::sync::Arc;

/// `pg_typeof(value)`: the name of its type.
pub(super) fn type_of(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [values] = given else {
        return exec_err!("pg_typeof takes 1 argument and got {}", given.len());
    };
    let name = name_of(values.data_type());
    Ok(Arc::new(StringArray::from(vec![name; values.len()])))
}

fn name_of(data_type: &DataType) -> String {
    if *data_type == DataType::Null {
        return "unknown".into();
    }
    // What PostgreSQL does not have goes by its own name.
    let Ok(known) = into_pg_type(data_type) else {
        return data_type.to_string();
    };
    match known.name().strip_prefix('_') {
        Some(item) => format!("{}[]", in_sql(item)),
        None => in_sql(known.name()).to_owned(),
    }
}

/// The name that the SQL standard has for a type of the catalog.
fn in_sql(name: &str) -> &str {
    match name {
        "bool" => "boolean",
        "int2" => "smallint",
        "int4" => "integer",
        "int8" => "bigint",
        "float4" => "real",
        "float8" => "double precision",
        "bpchar" => "character",
        "varchar" => "character varying",
        "time" => "time without time zone",
        "timestamp" => "timestamp without time zone",
        "timestamptz" => "timestamp with time zone",
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::TimeUnit;

    #[test]
    fn types_have_the_names_that_postgresql_shows() {
        for (data_type, name) in [
            (DataType::Int32, "integer"),
            (DataType::Float64, "double precision"),
            (DataType::Decimal128(12, 2), "numeric"),
            (
                DataType::Timestamp(TimeUnit::Microsecond, None),
                "timestamp without time zone",
            ),
            (DataType::new_list(DataType::Int64, true), "bigint[]"),
            (DataType::Null, "unknown"),
        ] {
            assert_eq!(name_of(&data_type), name);
        }
    }
}
