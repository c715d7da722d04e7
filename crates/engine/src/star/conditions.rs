//! Compiles conditions on several columns to flags: 1 where a condition holds, 0 elsewhere.
//!
//! SQL has three truth values. A flag says either where a condition is true or where it is false;
//! it is 0 in both cases where the condition is NULL.

use super::NotFused;
use super::arithmetic::{Arithmetic, Owner};
use super::filters::passing;
use super::flags::{both, in_set, not};
use super::typed::{Typed, digits_of, rescaled};
use arrow::datatypes::DataType;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;
use tierloom_kernels::select::CodeSet;
use tierloom_star::Expr;

/// Values of a list that are compared one by one; more are a hash table's work.
const MOST_LISTED: usize = 16;

impl Arithmetic<'_> {
    /// 1 where `condition` is true, or false if it is `wanted` to be; 0 elsewhere.
    ///
    /// # Errors
    /// The first part that is neither a condition on one small table nor a comparison of integers.
    pub fn flag(&self, condition: &Arc<dyn PhysicalExpr>, wanted: bool) -> Result<Expr, NotFused> {
        if let Ok((column, set)) = self.codes_where(condition, wanted) {
            return Ok(in_set(column, set));
        }
        if let Some(inner) = condition.downcast_ref::<NotExpr>() {
            return self.flag(inner.arg(), !wanted);
        }
        if let Some(binary) = condition.downcast_ref::<BinaryExpr>() {
            return self.of_two(binary, wanted);
        }
        if let Some(list) = condition.downcast_ref::<InListExpr>() {
            return self.in_list(list, wanted);
        }
        if let Some(inner) = condition.downcast_ref::<IsNullExpr>() {
            return self.null(inner.arg(), wanted);
        }
        if let Some(inner) = condition.downcast_ref::<IsNotNullExpr>() {
            return self.null(inner.arg(), !wanted);
        }
        match condition.downcast_ref::<Literal>().map(Literal::value) {
            Some(ScalarValue::Boolean(value)) => {
                Ok(Expr::Constant(i64::from(*value == Some(wanted))))
            }
            _ => NotFused::because(format!("{condition} is not a comparison of integers")),
        }
    }

    /// The codes of a column for which a condition on one small table is true, or false.
    fn codes_where(
        &self,
        condition: &Arc<dyn PhysicalExpr>,
        wanted: bool,
    ) -> Result<(usize, Arc<CodeSet>), NotFused> {
        Ok(match self.owner(condition)? {
            Owner::NotLoaded(column) => (column, Arc::new(CodeSet::new(0))),
            Owner::Dimension(column, loaded, condition) => {
                (column, Arc::new(loaded.codes_where(&condition, wanted)?))
            }
            Owner::Fact(listing) => {
                let set = passing(condition, listing.read, listing.values, wanted)?;
                (listing.column, Arc::new(set))
            }
        })
    }

    fn of_two(&self, binary: &BinaryExpr, wanted: bool) -> Result<Expr, NotFused> {
        let op = *binary.op();
        if matches!(op, Operator::And | Operator::Or) {
            let left = self.flag(binary.left(), wanted)?;
            let right = self.flag(binary.right(), wanted)?;
            // "Not (a or b)" holds where both are false.
            return Ok(match (op == Operator::And) == wanted {
                true => both(left, right),
                false => not(both(not(left), not(right))),
            });
        }
        let op = match wanted {
            true => Some(op),
            false => op.negate(),
        };
        let refused = || NotFused(format!("operator {} is not done on codes", binary.op()));
        let op = op.ok_or_else(refused)?;
        let (left, right) = (self.typed(binary.left())?, self.typed(binary.right())?);
        let difference = difference(&left, &right)?;
        let (min, max) = (i64::MIN, i64::MAX);
        let holds = match op {
            Operator::Eq => difference.within(0, 0),
            Operator::NotEq => not(difference.within(0, 0)),
            Operator::Lt => difference.within(min, -1),
            Operator::LtEq => difference.within(min, 0),
            Operator::Gt => difference.within(1, max),
            Operator::GtEq => difference.within(0, max),
            _ => return Err(refused()),
        };
        self.interval(&holds)?;
        let valid = left.valid().into_iter().chain(right.valid());
        Ok(valid.fold(holds, both))
    }

    fn in_list(&self, list: &InListExpr, wanted: bool) -> Result<Expr, NotFused> {
        if list.list().len() > MOST_LISTED {
            return NotFused::because(format!("a list of {} values", list.list().len()));
        }
        let value = self.typed(list.expr())?;
        let mut holds = Expr::Constant(0);
        for item in list.list() {
            let item = self.typed(item)?;
            if item.valid().is_some() {
                return NotFused::because("a list has values that may be NULL");
            }
            let equal = difference(&value, &item)?.within(0, 0);
            holds = not(both(not(holds), not(equal)));
        }
        self.interval(&holds)?;
        if wanted == list.negated() {
            holds = not(holds);
        }
        Ok(value.valid().into_iter().fold(holds, both))
    }

    /// 1 where `expr` is NULL, or where it is not.
    fn null(&self, expr: &Arc<dyn PhysicalExpr>, wanted: bool) -> Result<Expr, NotFused> {
        let valid = self.typed(expr)?.valid().unwrap_or(Expr::Constant(1));
        Ok(if wanted { not(valid) } else { valid })
    }
}

/// The first expression minus the second one, at the scale of that with more digits.
fn difference(left: &Typed, right: &Typed) -> Result<Expr, NotFused> {
    let whole =
        |data_type: &DataType| matches!(data_type, DataType::Date32 | DataType::Timestamp(..));
    if left.data_type == right.data_type && whole(&left.data_type) {
        return Ok(left.expr.clone() - right.expr.clone());
    }
    // Different decimals of few digits are different floats, in the same order.
    let (a, b) = (digits_of(left)?, digits_of(right)?);
    let to = a.max(b);
    Ok(rescaled(left.expr.clone(), a, to)? - rescaled(right.expr.clone(), b, to)?)
}
