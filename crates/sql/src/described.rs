//! Statements whose columns and parameters are known before they run, as protocols ask for.

use super::error::SqlError;
use super::execute::is_query;
use super::planner::parse;
use super::run::{Outcome, Sink, StatementTiming, Watch};
use super::script::{Piece, split};
use super::session::SqlSession;
use super::statement::{Statement, recognise};
use super::{placement_plan, prepared};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as Parsed;
use std::time::Instant;

/// What a statement takes and gives.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Described {
    /// The types of `$1`, `$2` and so on.
    pub parameters: Vec<DataType>,
    /// The columns of its rows; `None` if it has none.
    pub columns: Option<SchemaRef>,
}

impl SqlSession {
    /// Plans a statement without running it.
    ///
    /// `given` are the types of parameters that the client has named; the others are inferred, and
    /// text if nothing says what they are.
    ///
    /// # Errors
    /// Bad input, with its position in the script, or [`SqlError::Interrupted`].
    pub fn describe(
        &mut self,
        piece: &Piece,
        given: &[Option<DataType>],
        watch: &dyn Watch,
    ) -> Result<Described, SqlError> {
        self.guarded(piece, watch, |session| {
            session.described(piece, given, watch)
        })
    }

    /// Runs a statement with these values of its parameters.
    ///
    /// # Errors
    /// As [`SqlSession::run`], and bad input for values that do not fit.
    pub fn run_with(
        &mut self,
        piece: &Piece,
        values: Vec<ScalarValue>,
        sink: &mut dyn Sink,
        watch: &dyn Watch,
    ) -> Result<Outcome, SqlError> {
        if values.is_empty() {
            return self.run(piece, sink, watch);
        }
        if !self.reads_as(piece, is_query) {
            return self.run(&self.filled_in(piece, &values)?, sink, watch);
        }
        self.guarded(piece, watch, |session| {
            session.begin(piece, watch)?;
            let start = Instant::now();
            let logical = session.with_values(piece, values)?;
            let plan = session.planner().plan_of(logical, watch)?;
            let mut timing = StatementTiming {
                planning: start.elapsed(),
                ..StatementTiming::default()
            };
            let rows = session.stream(&plan, sink, watch, &mut timing)?.rows;
            Ok(Outcome {
                rows: Some(rows),
                message: None,
                timing,
            })
        })
    }

    /// Whether a statement changes what all sessions of the engine share beyond tables, or reads or
    /// writes files of this machine: what it does, if so.
    pub fn needs_operator(&self, piece: &Piece) -> Option<String> {
        match recognise(piece).ok()? {
            Statement::Set { name, .. } => {
                let own =
                    matches!(name.as_slice(), [one] if one == "threads" || one == "batch_rows");
                (!own).then(|| format!("tierloom.{} is a setting of the machine", name.join(".")))
            }
            Statement::Copy(_) => Some("COPY writes a file of the server".to_owned()),
            Statement::DataFusion => {
                let parsed = parse(self.catalog.engine(), piece).ok()?;
                matches!(parsed, Parsed::CreateExternalTable(_))
                    .then(|| "CREATE EXTERNAL TABLE reads files of the server".to_owned())
            }
            _ => None,
        }
    }

    fn described(
        &mut self,
        piece: &Piece,
        given: &[Option<DataType>],
        watch: &dyn Watch,
    ) -> Result<Described, SqlError> {
        self.begin(piece, watch)?;
        self.check_elsewhere(piece)?;
        let columns = match recognise(piece)? {
            Statement::Show { name } => Some(self.settings.show(name.as_deref())?.schema()),
            Statement::ExplainPlacement { query, .. } => {
                Some(placement_plan::explain(self, &query, watch)?.schema())
            }
            Statement::DataFusion => return self.described_query(piece, given, watch),
            _ => None,
        };
        Ok(Described {
            parameters: Vec::new(),
            columns,
        })
    }

    fn described_query(
        &mut self,
        piece: &Piece,
        given: &[Option<DataType>],
        watch: &dyn Watch,
    ) -> Result<Described, SqlError> {
        let parsed = parse(self.catalog.engine(), piece)?;
        let count = prepared::parameters_of(&parsed);
        if !is_query(&parsed) {
            // What the planner makes of the parameters of INSERT, UPDATE and DELETE.
            let known = match count {
                0 => None,
                _ => self.planner().logical(parsed.clone()).ok(),
            };
            let known = known.and_then(|logical| logical.get_parameter_types().ok());
            let known = known.unwrap_or_default();
            let inferred = |at: usize| {
                let named = given.get(at).cloned().flatten();
                let known = || known.get(&format!("${}", at + 1)).cloned().flatten();
                named.or_else(known).unwrap_or(DataType::Utf8)
            };
            let parameters = (0..count).map(inferred).collect();
            let columns = self.returned_columns(&parsed, watch)?;
            return Ok(Described {
                parameters,
                columns,
            });
        }
        if count == 0 {
            // The plan is cached for the text, so that running it finds it.
            let text = piece.in_place(0, piece.tokens.len());
            let plan = self.planner().physical(&text, watch)?;
            return Ok(Described {
                parameters: Vec::new(),
                columns: Some(plan.schema()),
            });
        }
        let logical = self.planner().logical(parsed)?;
        let inferred = logical
            .get_parameter_types()
            .map_err(|e| SqlError::planning(&e))?;
        let parameters: Vec<DataType> = (0..count)
            .map(|at| {
                let named = given.get(at).cloned().flatten();
                let inferred = || inferred.get(&format!("${}", at + 1)).cloned().flatten();
                named.or_else(inferred).unwrap_or(DataType::Utf8)
            })
            .collect();
        let nulls = parameters.iter().map(ScalarValue::try_from);
        let nulls = nulls.collect::<Result<Vec<_>, _>>();
        let nulls = nulls.map_err(|e| SqlError::planning(&e))?;
        let logical = bound(logical, nulls)?;
        let plan = self.planner().plan_of(logical, watch)?;
        Ok(Described {
            parameters,
            columns: Some(plan.schema()),
        })
    }

    fn with_values(
        &self,
        piece: &Piece,
        values: Vec<ScalarValue>,
    ) -> Result<LogicalPlan, SqlError> {
        let parsed = parse(self.catalog.engine(), piece)?;
        bound(self.planner().logical(parsed)?, values)
    }

    /// The statement with literals in the place of its parameters.
    fn filled_in(&self, piece: &Piece, values: &[ScalarValue]) -> Result<Piece, SqlError> {
        let parsed = parse(self.catalog.engine(), piece)?;
        let text = prepared::filled_in(parsed, values)?;
        let pieces = split(&text)?;
        let one = pieces.into_iter().next();
        one.ok_or_else(|| SqlError::failed("a statement without words"))
    }
}

fn bound(logical: LogicalPlan, values: Vec<ScalarValue>) -> Result<LogicalPlan, SqlError> {
    let values: ParamValues = values.into();
    logical
        .with_param_values(values)
        .map_err(|e| SqlError::planning(&e))
}
