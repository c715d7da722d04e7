//! Corrects what DataFusion derives from the nullability of columns.
//!
//! Placed tables declare every column nullable: DataFusion 55 takes a scalar subquery over a column
//! declared NOT NULL as never NULL, although it is NULL when it finds no row. Two rules complement
//! that:
//!
//! * [`NullableSubqueries`] marks scalar subqueries over expressions that are never NULL (`(SELECT
//!   1 FROM t WHERE ...)`), where the declaration of tables does not help.
//! * [`PlainAntiJoins`] replaces the NULL-aware anti join of `NOT IN` by the plain one where tables
//!   count no NULL in the columns. Only the plain form runs in parallel.

use super::{holds, rewrite_expressions};
use crate::walk::WalkAll;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, ColumnStatistics, JoinType, Result, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TableScan, Volatility,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::{Arc, LazyLock};

/// Marks scalar subqueries that may be NULL although their type says otherwise.
///
/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct NullableSubqueries;

impl AnalyzerRule for NullableSubqueries {
    fn name(&self) -> &str {
        "tierloom_nullable_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        // Most plans have none and are not rewritten.
        if !holds(&plan, is_mistaken)? {
            return Ok(plan);
        }
        let marked = plan.up_all(&mut |node| {
            let node = rewrite_expressions(node, is_mistaken, mark)?;
            // Columns computed from a marked subquery are nullable too.
            node.map_data(LogicalPlan::recompute_schema)
        })?;
        Ok(marked.data)
    }
}

/// Whether a scalar subquery is typed as never NULL but may find no row.
fn is_mistaken(expr: &Expr) -> bool {
    let Expr::ScalarSubquery(query) = expr else {
        return false;
    };
    !query.subquery.schema().field(0).is_nullable() && !gives_one_row(&query.subquery)
}

/// Wraps a scalar subquery in [`MayBeNull`] if it needs that.
fn mark(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(if is_mistaken(&expr) {
        Transformed::yes(may_be_null().call(vec![expr]))
    } else {
        Transformed::no(expr)
    })
}

/// The function of [`MayBeNull`].
pub(super) fn may_be_null() -> Arc<ScalarUDF> {
    static MARK: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::new_from_impl(MayBeNull::new())));
    Arc::clone(&MARK)
}

/// Whether a plan returns exactly one row for any table contents.
pub(super) fn gives_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        LogicalPlan::Projection(projection) => gives_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => gives_one_row(&alias.input),
        LogicalPlan::Sort(sort) => sort.fetch.is_none() && gives_one_row(&sort.input),
        _ => false,
    }
}

/// The identity function, except that its result type is nullable.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MayBeNull {
    signature: Signature,
}

impl MayBeNull {
    fn new() -> Self {
        MayBeNull {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for MayBeNull {
    fn name(&self) -> &str {
        "may_be_null"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let field: &Field = &arguments.arg_fields[0];
        Ok(Arc::new(field.clone().with_nullable(true)))
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(arguments.args.swap_remove(0))
    }
}

/// Replaces NULL-aware anti joins on columns without NULLs; see the module documentation.
#[derive(Debug, Default)]
pub struct PlainAntiJoins;

impl OptimizerRule for PlainAntiJoins {
    fn name(&self) -> &str {
        "tierloom_plain_anti_joins"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Join(mut join)
                if join.null_aware && join.join_type == JoinType::LeftAnti =>
            {
                let sides = [&join.left, &join.right];
                let is_known = |column: &Column| sides.iter().any(|s| has_no_nulls(s, column));
                // The equality is among the keys or still in the filter.
                let keys = join.on.iter().flat_map(|(left, right)| [left, right]);
                let known = keys
                    .chain(&join.filter)
                    .all(|e| is_never_null(e, &is_known));
                join.null_aware = !known;
                let join = LogicalPlan::Join(join);
                Ok(if known {
                    Transformed::yes(join)
                } else {
                    Transformed::no(join)
                })
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

/// Whether an expression has a value if its columns have. Functions and `CASE` may return NULL for
/// other reasons.
fn is_never_null(expr: &Expr, is_known: &dyn Fn(&Column) -> bool) -> bool {
    match expr {
        Expr::Column(column) => is_known(column),
        Expr::Literal(value, _) => !value.is_null(),
        Expr::Cast(cast) => is_never_null(&cast.expr, is_known),
        Expr::Alias(alias) => is_never_null(&alias.expr, is_known),
        Expr::Negative(inner) | Expr::Not(inner) => is_never_null(inner, is_known),
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => {
            is_never_null(left, is_known) && is_never_null(right, is_known)
        }
        _ => false,
    }
}

/// What may be known of a column of a table, or of a constant.
pub(crate) struct Known<'k> {
    /// Of the column of this name.
    pub in_table: &'k dyn Fn(&TableScan, &str) -> bool,
    pub of_constant: &'k dyn Fn(&ScalarValue) -> bool,
}

/// Whether `column` of the plan's output is a table's column without NULLs, passed on unchanged.
pub fn has_no_nulls(plan: &LogicalPlan, column: &Column) -> bool {
    let known = Known {
        in_table: &|scan, name| {
            let field = scan.projected_schema.field_with_unqualified_name(name);
            field.is_ok_and(|field| !field.is_nullable()) || holds_no_nulls(scan, name)
        },
        of_constant: &|value| !value.is_null(),
    };
    is_known(plan, column, &known)
}

/// Whether `column` of the plan's output is a table's column of which something is known, or such a
/// constant, passed on unchanged.
pub(crate) fn is_known(plan: &LogicalPlan, column: &Column, known: &Known<'_>) -> bool {
    let Ok(index) = plan.schema().index_of_column(column) else {
        return false;
    };
    match plan {
        LogicalPlan::TableScan(scan) => (known.in_table)(scan, plan.schema().field(index).name()),
        LogicalPlan::Projection(projection) => match projection.expr[index].clone().unalias() {
            Expr::Column(inner) => is_known(&projection.input, &inner, known),
            Expr::Literal(value, _) => (known.of_constant)(&value),
            _ => false,
        },
        LogicalPlan::SubqueryAlias(alias) => {
            let inner = Column::from(alias.input.schema().qualified_field(index));
            is_known(&alias.input, &inner, known)
        }
        LogicalPlan::Filter(filter) => is_known(&filter.input, column, known),
        LogicalPlan::Sort(sort) => is_known(&sort.input, column, known),
        LogicalPlan::Limit(limit) => is_known(&limit.input, column, known),
        LogicalPlan::Distinct(_) => plan
            .inputs()
            .first()
            .is_some_and(|input| is_known(input, column, known)),
        // Only group columns are passed on unchanged; aggregates may be NULL.
        LogicalPlan::Aggregate(aggregate) => match aggregate.group_expr.get(index) {
            Some(Expr::Column(inner)) => is_known(&aggregate.input, inner, known),
            _ => false,
        },
        // Outer joins are not listed: they pad with NULLs.
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            is_known(&join.left, column, known) || is_known(&join.right, column, known)
        }
        LogicalPlan::Join(join)
            if matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti) =>
        {
            is_known(&join.left, column, known)
        }
        _ => false,
    }
}

/// Whether a table counts its NULLs, and has none in the column `name`.
fn holds_no_nulls(scan: &TableScan, name: &str) -> bool {
    column_statistics(scan, name).is_some_and(|known| known.null_count == Precision::Exact(0))
}

/// What a table knows of its column `name`.
pub(crate) fn column_statistics(scan: &TableScan, name: &str) -> Option<ColumnStatistics> {
    let provider = source_as_provider(&scan.source).ok()?;
    let index = provider.schema().index_of(name).ok()?;
    let statistics = provider.statistics()?;
    statistics.column_statistics.get(index).cloned()
}
