//! SQL text to a logical plan over the columns that the text mentions.
//!
//! A statement uses few of a table's columns, but every operator of its first plan has all of them,
//! once more for each table that was joined before, and each rule makes such schemas anew. A column
//! whose name is nowhere in the text can only be meant by a wildcard or a natural join, so the
//! others are taken away from the start: the plan is the one that DataFusion would have after it
//! has removed unused columns.

mod names;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::TableFunctionArgs;
use datafusion::common::config::ConfigOptions;
use datafusion::common::file_options::file_type::FileType;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{
    Constraints, DFSchema, ResolvedTableReference, Result, TableReference, plan_datafusion_err,
};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::file_format::format_as_file_type;
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::planner::{
    ContextProvider, ExprPlanner, RelationPlanner, TypePlanner,
};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::var_provider::{VarType, is_system_variables};
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, TableType, WindowUDF,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::{ParserOptions, SqlToRel};
use futures::future::BoxFuture;
use names::Mentions;
use std::collections::HashMap;
use std::sync::Arc;
use tierloom_corrections::WalkAll;

/// A logical plan, or DataFusion's error.
///
/// The future is boxed, as the body of an `async fn` is compiled in each crate that waits for it,
/// and here that is all of DataFusion's translation of statements.
pub type Planning<'a, T = LogicalPlan> = BoxFuture<'a, Result<T>>;

/// The logical plan of the statement `sql` as it is written, with the columns of its tables that it
/// mentions.
///
/// # Errors
/// DataFusion's, if the text is not one statement or names something unknown.
pub fn read_statement<'a>(state: &'a SessionState, sql: &'a str) -> Planning<'a> {
    Box::pin(async move {
        let statement = tierloom_corrections::statement(state, sql)?;
        Ok(read_with_names(state, sql, statement).await?.0)
    })
}

/// The same of a `statement` that was read from `sql`, with the names of tables in the text, those
/// of views included; the plan only has the tables below them.
///
/// # Errors
/// DataFusion's, for a statement that names something unknown.
pub fn read_with_names<'a>(
    state: &'a SessionState,
    sql: &'a str,
    statement: Statement,
) -> Planning<'a, (LogicalPlan, Vec<TableReference>)> {
    Box::pin(async move {
        let names = state.resolve_table_references(&statement)?;
        let logical = logical_plan(state, sql, statement, &names).await?;
        Ok((logical, names))
    })
}

/// The logical plan of `statement`, which was read from `sql` and refers to tables by these
/// `names`.
///
/// # Errors
/// DataFusion's.
pub fn logical_plan<'a>(
    state: &'a SessionState,
    sql: &'a str,
    statement: Statement,
    names: &'a [TableReference],
) -> Planning<'a> {
    Box::pin(async move {
        let mentions = Mentions::of(sql, &statement);
        let tables = Tables::of(state, names, mentions.as_ref()).await?;
        match tables.plan(statement) {
            Ok(plan) if tables.narrowed => widened(plan),
            Ok(plan) => Ok(plan),
            // Errors name the columns that there are, so they come from whole tables; a type may be
            // one that only the session knows.
            Err(_) => whole_plan(state, tierloom_corrections::statement(state, sql)?).await,
        }
    })
}

/// The logical plan of a statement with all columns of its tables.
///
/// # Errors
/// DataFusion's.
pub fn whole_plan(state: &SessionState, statement: Statement) -> Planning<'_> {
    Box::pin(async move {
        let names = state.resolve_table_references(&statement)?;
        let mut tables = Tables::of(state, &names, None).await?;
        // A session gives it away in no other way. This copies the session's functions, so it is
        // not done for every statement.
        let mut copy = SessionStateBuilder::new_from_existing(state.clone());
        tables.types = copy.type_planner().take();
        tables.plan(statement)
    })
}

/// Tables of a statement, with all of their columns or those that it mentions, and the functions of
/// a session.
///
/// DataFusion translates statements by code that is generic in this type. `SessionState` has one of
/// its own; whoever uses that as well has all of the code twice.
struct Tables<'s> {
    state: &'s SessionState,
    sources: HashMap<ResolvedTableReference, Arc<dyn TableSource>>,
    /// Knows types that DataFusion does not.
    types: Option<Arc<dyn TypePlanner>>,
    /// Whether a table has fewer columns than in the catalog.
    narrowed: bool,
}

impl<'s> Tables<'s> {
    async fn of(
        state: &'s SessionState,
        names: &[TableReference],
        mentions: Option<&Mentions>,
    ) -> Result<Self> {
        let mut sources = HashMap::with_capacity(names.len());
        let mut narrowed = false;
        for name in names {
            let name = resolved(state, name.clone());
            let Ok(schema) = state.schema_for_ref(name.clone()) else {
                continue;
            };
            let Some(table) = schema.table(&name.table).await? else {
                continue;
            };
            let mut source = provider_as_source(table);
            let view = source.get_logical_plan().is_some();
            let columns = mentions.and_then(|all| all.columns(&name.table, &source.schema()));
            if let Some(columns) = columns.filter(|_| !view) {
                narrowed = true;
                source = Arc::new(MentionedColumns::new(source, columns)?);
            }
            sources.insert(name, source);
        }
        Ok(Tables {
            state,
            sources,
            types: None,
            narrowed,
        })
    }

    fn plan(&self, statement: Statement) -> Result<LogicalPlan> {
        let options = parser_options(self.state.config_options());
        SqlToRel::new_with_options(self, options).statement_to_plan(statement)
    }
}

fn resolved(state: &SessionState, name: TableReference) -> ResolvedTableReference {
    let catalog = &state.config_options().catalog;
    name.resolve(&catalog.default_catalog, &catalog.default_schema)
}

/// What a session gives its own planner, which has no accessor for it.
fn parser_options(options: &ConfigOptions) -> ParserOptions {
    let sql = &options.sql_parser;
    ParserOptions {
        parse_float_as_decimal: sql.parse_float_as_decimal,
        enable_ident_normalization: sql.enable_ident_normalization,
        enable_options_value_normalization: sql.enable_options_value_normalization,
        support_varchar_with_length: sql.support_varchar_with_length,
        map_string_types_to_utf8view: sql.map_string_types_to_utf8view,
        collect_spans: sql.collect_spans,
        default_null_ordering: sql.default_null_ordering.as_str().into(),
    }
}

impl ContextProvider for Tables<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        let name = resolved(self.state, name);
        let source = self.sources.get(&name).map(Arc::clone);
        source.ok_or_else(|| plan_datafusion_err!("table '{name}' not found"))
    }

    fn get_table_function_source(
        &self,
        name: &str,
        arguments: Vec<Expr>,
    ) -> Result<Arc<dyn TableSource>> {
        let function = self.state.table_functions().get(name);
        let function =
            function.ok_or_else(|| plan_datafusion_err!("table function '{name}' not found"))?;
        let context = SimplifyContext::builder()
            .with_config_options(Arc::clone(self.state.config_options()))
            .with_query_execution_start_time(
                self.state.execution_props().query_execution_start_time,
            )
            .build();
        let simplifier = ExprSimplifier::new(context);
        let schema = DFSchema::empty();
        // Table functions take values: expressions are computed here.
        let values = arguments.into_iter().map(|argument| {
            let argument = simplifier.coerce(argument, &schema)?;
            simplifier.simplify(argument)
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        let arguments = TableFunctionArgs::new(&values, self.state);
        function
            .create_table_provider_with_args(arguments)
            .map(provider_as_source)
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(
            name, schema,
        ))))
    }

    fn get_file_type(&self, extension: &str) -> Result<Arc<dyn FileType>> {
        let format = self.state.get_file_format_factory(extension);
        format
            .map(format_as_file_type)
            .ok_or_else(|| plan_datafusion_err!("there is no file format '{extension}'"))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.state.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.state.relation_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        self.types.clone()
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.state.scalar_functions().get(name).map(Arc::clone)
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        let functions = self.state.higher_order_functions();
        functions.get(name).map(Arc::clone)
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(name).map(Arc::clone)
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).map(Arc::clone)
    }

    fn get_variable_type(&self, names: &[String]) -> Option<DataType> {
        if names.is_empty() {
            return None;
        }
        let kind = match is_system_variables(names) {
            true => VarType::System,
            false => VarType::UserDefined,
        };
        let providers = self.state.execution_props().var_providers.as_ref()?;
        providers.get(&kind)?.get_type(names)
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.state.scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.state
            .higher_order_functions()
            .keys()
            .cloned()
            .collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}

/// A table with some of its columns, there only until the logical plan is made.
struct MentionedColumns {
    table: Arc<dyn TableSource>,
    columns: Vec<usize>,
    schema: SchemaRef,
    constraints: Option<Constraints>,
}

impl MentionedColumns {
    fn new(table: Arc<dyn TableSource>, columns: Vec<usize>) -> Result<Self> {
        let schema = Arc::new(table.schema().project(&columns)?);
        let constraints = table.constraints().and_then(|all| all.project(&columns));
        Ok(MentionedColumns {
            table,
            columns,
            schema,
            constraints,
        })
    }
}

impl TableSource for MentionedColumns {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.constraints.as_ref()
    }

    fn table_type(&self) -> TableType {
        self.table.table_type()
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.table.get_column_default(column)
    }
}

/// The plan with scans of the tables themselves, which give the columns in question.
fn widened(plan: LogicalPlan) -> Result<LogicalPlan> {
    let change = &mut |node| match node {
        LogicalPlan::TableScan(mut scan) => {
            let source: &dyn std::any::Any = scan.source.as_ref();
            let Some(narrow) = source.downcast_ref::<MentionedColumns>() else {
                return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
            };
            debug_assert!(scan.projection.is_none());
            (scan.projection, scan.source) =
                (Some(narrow.columns.clone()), Arc::clone(&narrow.table));
            // The schema is the same, so the operators above keep theirs.
            Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
        }
        other => Ok(Transformed::no(other)),
    };
    plan.down_all(change).data()
}

#[cfg(test)]
mod tests;
