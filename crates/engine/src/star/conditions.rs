//! Compiles conditions on several columns to flags: 1 where a condition holds, 0 elsewhere.
//!
//! SQL has three truth values. A flag says either where a condition is true or where it is false;
//! it is 0 in both cases where the condition is NULL.

use super::NotFused;
use super::arithmetic::{Arithmetic, Owner, words_of};
use super::filters::passing;
use super::flags::{both, in_set, not};
use super::typed::{Typed, digits_of, rescaled};
use arrow::datatypes::DataType;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;
use tierloom_kernels::select::CodeSet;
use tierloom_star::{Expr, FloatOp};

/// Values of a list that are compared one by one; more are a hash table's work.
const MOST_LISTED: usize = 16;

impl Arithmetic<'_> {
    /// 1 where `condition` is true, or false if it is `wanted` to be; 0 elsewhere.
    ///
    /// # Errors
    /// The first part that is neither a condition on one small table nor a comparison of integers.
    pub fn flag(&self, condition: &Arc<dyn PhysicalExpr>, wanted: bool) -> Result<Expr, NotFused> {
        if let Some(inner) = condition.downcast_ref::<NotExpr>() {
            return self.flag(inner.arg(), !wanted);
        }
        if let Some(flag) = self.boolean_column(condition, wanted) {
            return Ok(flag);
        }
        if let Ok((column, set)) = self.codes_where(condition, wanted) {
            return Ok(in_set(column, set));
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

    /// 1 where a column of booleans is what is wanted; `None` if it is none, or has codes.
    fn boolean_column(&self, condition: &Arc<dyn PhysicalExpr>, wanted: bool) -> Option<Expr> {
        let column = condition.downcast_ref::<Column>()?.index();
        if self.lowered.owner(column).is_some() {
            return None;
        }
        let words = words_of(self.lowered, column)?;
        let is_true = match words.data_type {
            DataType::Boolean if wanted => words.expr.clone(),
            DataType::Boolean => not(words.expr.clone()),
            _ => return None,
        };
        Some(words.valid().into_iter().fold(is_true, both))
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
        let in_codes = || {
            let difference = difference(&left, &right)?;
            let holds = between(difference, op, 0).ok_or_else(refused)?;
            self.interval(&holds)?;
            Ok(holds)
        };
        let holds = in_codes().or_else(|why: NotFused| {
            let compared = self.words_compared(binary.left(), op, binary.right());
            compared.map_err(|_| why)
        })?;
        let valid = left.valid().into_iter().chain(right.valid());
        Ok(valid.fold(holds, both))
    }

    /// 1 where a comparison of two words holds, which may be NULL: of integers whose difference may
    /// leave 64 bits, or of floats that are no decimals.
    fn words_compared(
        &self,
        left: &Arc<dyn PhysicalExpr>,
        op: Operator,
        right: &Arc<dyn PhysicalExpr>,
    ) -> Result<Expr, NotFused> {
        let (left, right) = (self.as_computed(left)?, self.as_computed(right)?);
        let is_float = |typed: &Typed| typed.data_type.is_floating();
        let floats = is_float(&left) && is_float(&right);
        if !floats && (is_float(&left) || left.data_type != right.data_type) {
            return NotFused::because("values of different types are compared");
        }
        if floats && !(left.is_as_computed() && right.is_as_computed()) {
            return NotFused::because("a computed float depends on how it is rounded");
        }
        let (left, right) = match floats {
            true => (left.in_bits()?.expr, right.in_bits()?.expr),
            false => (left.expr, right.expr),
        };
        let refused = || NotFused(format!("operator {op} is not done on words"));
        let holds = match (left, right) {
            (left, right) if floats => {
                let of = |op, one: Expr, other: Expr| one.with_float(op, other);
                match op {
                    Operator::Eq => Some(of(FloatOp::Equal, left, right)),
                    Operator::NotEq => Some(not(of(FloatOp::Equal, left, right))),
                    Operator::Lt => Some(of(FloatOp::Less, left, right)),
                    Operator::LtEq => Some(not(of(FloatOp::Less, right, left))),
                    Operator::Gt => Some(of(FloatOp::Less, right, left)),
                    Operator::GtEq => Some(not(of(FloatOp::Less, left, right))),
                    _ => None,
                }
            }
            (value, Expr::Constant(constant)) => between(value, op, constant),
            (Expr::Constant(constant), value) => {
                op.swap().and_then(|op| between(value, op, constant))
            }
            (left, right) => {
                let less = left.clone().less(right.clone());
                let greater = right.less(left);
                match op {
                    Operator::Eq => Some(both(not(less), not(greater))),
                    Operator::NotEq => Some(less + greater),
                    Operator::Lt => Some(less),
                    Operator::LtEq => Some(not(greater)),
                    Operator::Gt => Some(greater),
                    Operator::GtEq => Some(not(less)),
                    _ => None,
                }
            }
        };
        let holds = holds.ok_or_else(refused)?;
        self.interval(&holds)?;
        Ok(holds)
    }

    fn in_list(&self, list: &InListExpr, wanted: bool) -> Result<Expr, NotFused> {
        if list.list().len() > MOST_LISTED {
            return NotFused::because(format!("a list of {} values", list.list().len()));
        }
        let value = self.typed(list.expr())?;
        let mut holds = Expr::Constant(0);
        for item in list.list() {
            let typed = self.typed(item)?;
            if typed.valid().is_some() {
                return NotFused::because("a list has values that may be NULL");
            }
            let equal = match difference(&value, &typed) {
                Ok(difference) if self.interval(&difference).is_ok() => difference.within(0, 0),
                _ => self.words_compared(list.expr(), Operator::Eq, item)?,
            };
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

/// 1 where a comparison of `value` with an integer holds; `None` for another operator.
fn between(value: Expr, op: Operator, with: i64) -> Option<Expr> {
    let (min, max) = (i64::MIN, i64::MAX);
    let none = Expr::Constant(0);
    Some(match op {
        Operator::Eq => value.within(with, with),
        Operator::NotEq => not(value.within(with, with)),
        Operator::Lt => with
            .checked_sub(1)
            .map_or(none, |below| value.within(min, below)),
        Operator::LtEq => value.within(min, with),
        Operator::Gt => with
            .checked_add(1)
            .map_or(none, |above| value.within(above, max)),
        Operator::GtEq => value.within(with, max),
        _ => return None,
    })
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
