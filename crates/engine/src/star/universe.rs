//! Columns of the universe, the rows of all joined tables, as those of the tables.

use super::NotFused;
use super::integers::integers;
use super::lower::{Lowered, narrowed};
use crate::coded::CodedColumn;
use crate::column::PlacedColumn;
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// A fact column that is kept as codes.
#[derive(Clone, Copy)]
pub(super) struct FactColumn<'a> {
    pub coded: &'a CodedColumn,
    pub name: &'a str,
}

/// The values that an expression over one fact column may be evaluated on.
pub(super) struct Listing {
    /// The column of the universe that the expression reads.
    pub read: usize,
    /// The column of the plan whose codes number the values: `read`, or spans of its codes.
    pub column: usize,
    /// A value for each code, NULL first if there is one.
    pub values: ArrayRef,
    /// Whether code 0 is NULL.
    pub nullable: bool,
}

/// Fact column `column` of the universe.
pub(super) fn placed_column(lowered: &Lowered, column: usize) -> &PlacedColumn {
    &lowered.fact.columns()[lowered.fact_columns[column]]
}

/// The smallest and the largest word of a column of booleans, integers or times; `None` if it is of
/// floats, or nothing is known.
pub(super) fn bounds_of_words(column: &PlacedColumn) -> Option<(i64, i64)> {
    let integer = |value: &Option<ScalarValue>| {
        let array = value.as_ref()?.to_array().ok()?;
        i64::try_from(integers(&array).ok()?.into_iter().next()??).ok()
    };
    if *column.data_type() == DataType::Boolean {
        return Some((0, 1));
    }
    let facts = column.facts();
    Some((integer(&facts.min)?, integer(&facts.max)?))
}

/// The codes of fact column `column` of the universe.
///
/// # Errors
/// If the column is not kept as codes.
pub(super) fn fact_column(lowered: &Lowered, column: usize) -> Result<FactColumn<'_>, NotFused> {
    let placed = placed_column(lowered, column);
    match placed.coded() {
        Some(coded) => Ok(FactColumn {
            coded,
            name: placed.name(),
        }),
        None => NotFused::because(format!("column {} is not kept as codes", placed.name())),
    }
}

/// Renumbers `expr` from the universe to the columns of dimension `index`.
pub(super) fn over_dimension(
    lowered: &Lowered,
    index: usize,
    expr: &Arc<dyn PhysicalExpr>,
) -> Result<Arc<dyn PhysicalExpr>, NotFused> {
    let dimension = &lowered.dimensions[index];
    let width = dimension.plan.schema().fields().len();
    let own: Vec<usize> = (dimension.offset..dimension.offset + width).collect();
    narrowed(expr, &own)
}
