//! Finds one schema for all files of a table.
//!
//! Names and order must agree in all files. CSV types, which are inferred, may be widened; other
//! formats must agree exactly.

use super::{FileSummary, SourceFormat, csv};
use crate::catalog::check_names;
use crate::error::SqlError;
use arrow::datatypes::{Field, Schema, SchemaRef};
use std::path::PathBuf;
use std::sync::Arc;

/// The common schema of all parts; a column is nullable if it is in any of them.
pub(super) fn common(
    files: &[PathBuf],
    parts: &[FileSummary],
    kind: SourceFormat,
) -> Result<SchemaRef, SqlError> {
    let first = &parts[0].schema;
    let mut fields: Vec<Field> = first
        .fields()
        .iter()
        .map(|f| Field::new(f.name(), f.data_type().clone(), f.is_nullable()))
        .collect();
    for (file, part) in files.iter().zip(parts).skip(1) {
        let differs = |what: String| {
            SqlError::input(format!(
                "{} differs from {}: {what}; the files of a table have the same columns",
                file.display(),
                files[0].display()
            ))
        };
        let theirs = part.schema.fields();
        if theirs.len() != fields.len() {
            return Err(differs(format!(
                "it has {} columns, not {}",
                theirs.len(),
                fields.len()
            )));
        }
        for (index, (ours, theirs)) in fields.iter_mut().zip(theirs).enumerate() {
            let named = ours.name() == theirs.name();
            // CSV types are inferred per file and may be widened; the types of the other formats
            // are exact.
            if !named || (kind != SourceFormat::Csv && ours.data_type() != theirs.data_type()) {
                return Err(differs(format!(
                    "column {} is {} {}, not {} {}",
                    index + 1,
                    theirs.name(),
                    theirs.data_type(),
                    ours.name(),
                    ours.data_type()
                )));
            }
            let data_type = csv::wider(ours.data_type(), theirs.data_type());
            *ours = Field::new(
                ours.name(),
                data_type,
                ours.is_nullable() || theirs.is_nullable(),
            );
        }
    }
    let fields: Vec<Field> = fields.iter().map(csv::settled).collect();
    check_names(fields.iter().map(Field::name))
        .map_err(|e| SqlError::input(format!("{}: {e}", files[0].display())))?;
    Ok(Arc::new(Schema::new(fields)))
}
