//! Tables of what there is none of, which administration tools read.

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::datasource::empty::EmptyTable;
use std::sync::Arc;

use DataType::{Boolean, Int16, Int32, Utf8};

/// `pg_locks`: statements wait for each other without locks that clients could see.
const LOCKS: [(&str, DataType); 15] = [
    ("locktype", Utf8),
    ("database", Int32),
    ("relation", Int32),
    ("page", Int32),
    ("tuple", Int16),
    ("virtualxid", Utf8),
    ("transactionid", Int32),
    ("classid", Int32),
    ("objid", Int32),
    ("objsubid", Int16),
    ("virtualtransaction", Utf8),
    ("pid", Int32),
    ("mode", Utf8),
    ("granted", Boolean),
    ("fastpath", Boolean),
];

const EXTENSIONS: [(&str, DataType); 4] = [
    ("name", Utf8),
    ("default_version", Utf8),
    ("installed_version", Utf8),
    ("comment", Utf8),
];

/// The tables by name.
pub(super) fn tables() -> [(&'static str, Arc<dyn TableProvider>); 2] {
    [
        ("pg_locks", empty(&LOCKS)),
        ("pg_available_extensions", empty(&EXTENSIONS)),
    ]
}

fn empty(columns: &[(&str, DataType)]) -> Arc<dyn TableProvider> {
    let fields = columns.iter();
    let fields = fields.map(|(name, data_type)| Field::new(*name, data_type.clone(), true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    Arc::new(EmptyTable::new(Arc::new(schema)))
}
