//! Set operations over doubles and decimals.

use super::rewrite_if_any;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union, cast};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::sync::Arc;

/// Makes doubles of decimals that are in one column with floats, as PostgreSQL does.
///
/// DataFusion 55 makes decimals with 15 places after the point of both, in which some doubles are
/// not what they were, and others do not fit. The rule must run before types are coerced.
#[derive(Debug, Default)]
pub(crate) struct MixedUnions;

impl AnalyzerRule for MixedUnions {
    fn name(&self) -> &str {
        "tierloom_mixed_unions"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let is_union = |node: &LogicalPlan| matches!(node, LogicalPlan::Union(_));
        rewrite_if_any(plan, is_union, |node| match node {
            LogicalPlan::Union(union) => in_doubles(union),
            other => Ok(Transformed::no(other)),
        })
    }
}

fn in_doubles(union: Union) -> Result<Transformed<LogicalPlan>> {
    let width = union.schema.fields().len();
    let any = |index: usize, such: fn(&DataType) -> bool| {
        let mut fields = union.inputs.iter().map(|input| input.schema().fields());
        fields.any(|fields| fields.get(index).is_some_and(|f| such(f.data_type())))
    };
    let is_mixed =
        |index: &usize| any(*index, DataType::is_floating) && any(*index, DataType::is_decimal);
    let mixed: Vec<usize> = (0..width).filter(is_mixed).collect();
    if mixed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = union.inputs.into_iter();
    let inputs = inputs.map(|input| with_doubles(input, &mixed));
    let union = Union::try_new_with_loose_types(inputs.collect::<Result<_>>()?)?;
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}

/// `input` with doubles in these columns where it has numbers.
fn with_doubles(input: Arc<LogicalPlan>, columns: &[usize]) -> Result<Arc<LogicalPlan>> {
    let fields = input.schema().iter().enumerate();
    let outputs: Vec<Expr> = fields
        .map(|(index, (qualifier, field))| {
            let column = Expr::Column(Column::from((qualifier, field)));
            match columns.contains(&index) && field.data_type().is_numeric() {
                true => cast(column, DataType::Float64)
                    .alias_qualified(qualifier.cloned(), field.name()),
                false => column,
            }
        })
        .collect();
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(
        outputs, input,
    )?)))
}
