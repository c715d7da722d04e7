//! `ORDER BY` a column of the result.
//!
//! Of `SELECT c1 AS c0, count(*) AS c1 FROM t GROUP BY c1 ORDER BY 2`, and of the same with `ORDER
//! BY c1`, DataFusion 55 looks for the name of the column among those of the table, and sorts by
//! `t.c1`. Of `SELECT k, max(x) - min(x) FROM t GROUP BY k ORDER BY 2` it finds no column of that
//! name in what is aggregated, and fails. [`OutputOrder`] writes such a key as a call of
//! [`OUTPUT`], which no planner resolves, and [`OutputKeys`] makes it the column.

use super::rewrite_if_any;
use super::syntax::Syntax;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result, ScalarValue, exec_err, plan_datafusion_err};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::{
    self, Distinct, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, OrderByKind, Query, Select, SelectItem, SetExpr, Value,
    Visitor, VisitorMut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

/// Name of the function whose argument is the number or the name of a column of the result.
const OUTPUT: &str = "tierloom_output_column";

/// Marks the keys of `ORDER BY` that are columns of the result, where the planner may take them for
/// columns of a table.
pub(super) struct OutputOrder {
    /// Whether names without quotes are made lower case.
    lower_case: bool,
}

impl OutputOrder {
    pub(super) fn new(state: &SessionState) -> Self {
        OutputOrder {
            lower_case: state.config_options().sql_parser.enable_ident_normalization,
        }
    }

    fn name(&self, ident: &Ident) -> String {
        match self.lower_case && ident.quote_style.is_none() {
            true => ident.value.to_lowercase(),
            false => ident.value.clone(),
        }
    }

    /// The output column that a key names: its number, or its alias.
    fn output(&self, key: &ast::Expr, aliases: &[String]) -> Option<Value> {
        match key {
            ast::Expr::Value(value) => match &value.value {
                number @ Value::Number(..) => Some(number.clone()),
                _ => None,
            },
            ast::Expr::Identifier(ident) => {
                let name = self.name(ident);
                let same = aliases.iter().filter(|alias| **alias == name).count();
                (same == 1).then_some(Value::SingleQuotedString(name))
            }
            _ => None,
        }
    }
}

impl VisitorMut for OutputOrder {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(order_by) = &mut query.order_by else {
            return ControlFlow::Continue(());
        };
        let (OrderByKind::Expressions(keys), Some(select)) =
            (&mut order_by.kind, select_of(&query.body))
        else {
            return ControlFlow::Continue(());
        };
        let aliases = select.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(self.name(alias)),
            _ => None,
        });
        let aliases: Vec<String> = aliases.collect();
        let shadows = !aliases.is_empty() && uses_any(select, &aliases);
        for key in keys {
            if !shadows && !is_place_of_expression(&key.expr, select) {
                continue;
            }
            if let Some(output) = self.output(&key.expr, &aliases) {
                key.expr = marked(output);
            }
        }
        ControlFlow::Continue(())
    }
}

/// The only `SELECT` of a query; `None` for set operations, and for `DISTINCT ON`, whose keys have
/// to be those of `ORDER BY`.
fn select_of(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => {
            (!matches!(select.distinct, Some(Distinct::On(_)))).then_some(select)
        }
        SetExpr::Query(query) => select_of(&query.body),
        _ => None,
    }
}

/// Whether a key is the number of an expression without an alias.
///
/// The planner takes it for a column of that name, which the rows before the projection lack where
/// the expression holds several aggregates.
fn is_place_of_expression(key: &ast::Expr, select: &Select) -> bool {
    let ast::Expr::Value(value) = key else {
        return false;
    };
    let Value::Number(number, _) = &value.value else {
        return false;
    };
    let place = number.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    let items = place.and_then(|place| select.projection.get(..=place));
    let Some((SelectItem::UnnamedExpr(expr), before)) = items.and_then(<[_]>::split_last) else {
        return false;
    };
    // Places after a wildcard are not known here.
    let is_one = |item: &SelectItem| {
        matches!(
            item,
            SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
        )
    };
    is_compound(expr) && before.iter().all(is_one)
}

fn is_compound(expr: &ast::Expr) -> bool {
    use ast::Expr::{CompoundIdentifier, Function, Identifier, Value};
    !matches!(
        expr,
        Identifier(_) | CompoundIdentifier(_) | Function(_) | Value(_)
    )
}

/// Whether an expression of `select` has the name of an alias for a column.
fn uses_any(select: &Select, aliases: &[String]) -> bool {
    struct Names(HashSet<String>);
    impl Visitor for Names {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            let last = match expr {
                ast::Expr::Identifier(ident) => Some(ident),
                ast::Expr::CompoundIdentifier(idents) => idents.last(),
                _ => None,
            };
            self.0.extend(last.map(|ident| ident.value.to_lowercase()));
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(HashSet::new());
    // The visitor never breaks.
    for item in &select.projection {
        let _ = item.show(&mut names);
    }
    let _ = select.group_by.show(&mut names);
    aliases
        .iter()
        .any(|alias| names.0.contains(&alias.to_lowercase()))
}

fn marked(output: Value) -> ast::Expr {
    let argument = FunctionArgExpr::Expr(ast::Expr::Value(output.into()));
    ast::Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(OUTPUT)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![FunctionArg::Unnamed(argument)],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Puts the columns of the result in the place of their marks.
#[derive(Debug, Default)]
pub(crate) struct OutputKeys;

impl AnalyzerRule for OutputKeys {
    fn name(&self) -> &str {
        "tierloom_output_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let is_sort = |node: &LogicalPlan| matches!(node, LogicalPlan::Sort(_));
        rewrite_if_any(plan, is_sort, |node| {
            let LogicalPlan::Sort(mut sort) = node else {
                return Ok(Transformed::no(node));
            };
            let mut changed = false;
            for key in &mut sort.expr {
                if let Some(column) = column_of(&key.expr, sort.input.schema())? {
                    key.expr = column;
                    changed = true;
                }
            }
            let sort = LogicalPlan::Sort(sort);
            Ok(Transformed::new_transformed(sort, changed))
        })
    }
}

/// The column of `schema` that a mark names; `None` if `key` is no mark.
fn column_of(key: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let Expr::ScalarFunction(call) = key else {
        return Ok(None);
    };
    let [Expr::Literal(output, _)] = call.args.as_slice() else {
        return Ok(None);
    };
    if call.name() != OUTPUT {
        return Ok(None);
    }
    let columns = schema.columns();
    let column = match output {
        ScalarValue::Utf8(Some(name)) => {
            let mut named: Vec<Column> = columns.into_iter().filter(|c| c.name == *name).collect();
            // An alias has no table, unless it is the name of the column itself. What `*` stands
            // for, and what was added for other keys, has one or comes later.
            let alias = named.iter().position(|column| column.relation.is_none());
            (!named.is_empty()).then(|| named.swap_remove(alias.unwrap_or(0)))
        }
        number => number
            .to_string()
            .parse::<usize>()
            .ok()
            .and_then(|number| columns.into_iter().nth(number.checked_sub(1)?)),
    };
    let column: Column = column
        .ok_or_else(|| plan_datafusion_err!("ORDER BY {output}: the result has no such column"))?;
    Ok(Some(Expr::Column(column)))
}

/// The function of the marks.
pub(super) fn output_mark() -> Arc<ScalarUDF> {
    static MARK: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::new_from_impl(Mark {
            signature: Signature::any(1, Volatility::Immutable),
        }))
    });
    Arc::clone(&MARK)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Mark {
    signature: Signature,
}

impl ScalarUDFImpl for Mark {
    fn name(&self) -> &str {
        OUTPUT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("{OUTPUT} stands for a column in ORDER BY and cannot be called")
    }
}
