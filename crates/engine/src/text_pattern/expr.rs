//! `LIKE` by a [`Pattern`].

use super::pattern::Pattern;
use super::prefix::Prefix;
use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{LikeExpr, Literal};
use datafusion::physical_expr_common::datum::apply_cmp;
use datafusion::physical_plan::PhysicalExpr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// DataFusion's expression, evaluated by its pattern where the strings are arrays of text.
#[derive(Debug)]
pub(super) struct PatternLike {
    like: Arc<LikeExpr>,
    pattern: TextPattern,
}

/// What a pattern asks for.
#[derive(Debug)]
enum TextPattern {
    Texts(Pattern),
    Begin(Prefix),
}

impl TextPattern {
    fn of(like: &str) -> Option<Self> {
        let prefix = Prefix::of(like).map(TextPattern::Begin);
        prefix.or_else(|| Pattern::of(like).map(TextPattern::Texts))
    }

    /// `None` if DataFusion has to evaluate it.
    fn evaluate(&self, strings: &dyn Array, negated: bool) -> Option<BooleanArray> {
        match self {
            TextPattern::Texts(pattern) => pattern.evaluate(strings, negated),
            TextPattern::Begin(prefix) => prefix.evaluate(strings, negated),
        }
    }
}

impl PatternLike {
    /// `None` if `expr` is another expression, or its pattern is no literal or of another kind.
    pub fn of(expr: &dyn PhysicalExpr) -> Option<Self> {
        let like = expr.downcast_ref::<LikeExpr>()?;
        let literal = like.pattern().downcast_ref::<Literal>()?;
        let pattern = TextPattern::of(literal.value().try_as_str()??)?;
        if like.case_insensitive() {
            return None;
        }
        let copy = LikeExpr::new(
            like.negated(),
            false,
            Arc::clone(like.expr()),
            Arc::clone(like.pattern()),
        );
        Some(PatternLike {
            like: Arc::new(copy),
            pattern,
        })
    }
}

impl PartialEq for PatternLike {
    fn eq(&self, other: &Self) -> bool {
        self.like == other.like
    }
}

impl Eq for PatternLike {}

impl Hash for PatternLike {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.like.hash(state);
    }
}

impl fmt::Display for PatternLike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.like.fmt(f)
    }
}

impl PhysicalExpr for PatternLike {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.like.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.like.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let strings = self.like.expr().evaluate(batch)?;
        let negated = self.like.negated();
        if let ColumnarValue::Array(strings) = &strings
            && let Some(found) = self.pattern.evaluate(strings, negated)
        {
            return Ok(ColumnarValue::Array(Arc::new(found)));
        }
        let operator = match negated {
            true => Operator::NotLikeMatch,
            false => Operator::LikeMatch,
        };
        apply_cmp(operator, &strings, &self.like.pattern().evaluate(batch)?)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.like.children()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let like = Arc::clone(&self.like).with_new_children(children)?;
        Ok(match PatternLike::of(like.as_ref()) {
            Some(quick) => Arc::new(quick),
            None => like,
        })
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.like.fmt_sql(f)
    }
}
