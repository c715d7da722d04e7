//! Timestamps of a coarse unit compared with constants of a finer one.
//!
//! The optimizer of DataFusion 55 compares in the unit of the column. It converts the constant by
//! cutting its fraction off, which moves the boundary or makes values equal that are not. Constants
//! between two ticks of the column are replaced here by the tick that gives the right answer.

use super::constants::{evaluated, null_else};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, Operator, lit};

/// A comparison with constants rounded to ticks of the column; unchanged if none is finer.
pub(super) fn rounded(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(binary) => comparison(binary, schema)?,
        Expr::InList(list) => in_list(list, schema)?,
        Expr::Between(between) => range(between, schema)?,
        other => Transformed::no(other),
    })
}

/// A timestamp that was converted to a finer unit in order to be compared.
struct Coarse {
    /// The value before the conversion.
    value: Expr,
    /// Ticks of the finer unit in one of its own.
    ticks: i64,
}

impl Coarse {
    fn of(expr: &Expr, schema: &DFSchema) -> Result<Option<Coarse>> {
        let Expr::Cast(cast) = expr else {
            return Ok(None);
        };
        let (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) =
            (cast.expr.get_type(schema)?, cast.field.data_type())
        else {
            return Ok(None);
        };
        let ticks = ticks_per_second(*to) / ticks_per_second(from);
        Ok((ticks > 1).then(|| Coarse {
            value: cast.expr.as_ref().clone(),
            ticks,
        }))
    }

    /// What a comparison with a constant between two ticks is.
    fn never(&self, otherwise: bool) -> Expr {
        null_else(self.value.clone(), otherwise)
    }

    /// The ticks below and above a constant; `None` if it is on a tick, or no constant.
    fn around(&self, constant: &Expr) -> Option<(Expr, Expr)> {
        let value = evaluated(constant)?;
        let instant = instant(&value)?;
        let below = instant.div_euclid(self.ticks).checked_mul(self.ticks)?;
        let above = below.checked_add(self.ticks)?;
        let with = |instant| Some(Expr::Literal(with_instant(&value, instant)?, None));
        (below != instant)
            .then(|| Some((with(below)?, with(above)?)))
            .flatten()
    }
}

/// Ticks of a second in a unit of time.
pub fn ticks_per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn comparison(binary: BinaryExpr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    // The timestamp on the left.
    let sides = (&binary.left, &binary.right);
    let (coarse, (value, constant), op) = match Coarse::of(&binary.left, schema)? {
        Some(coarse) => (Some(coarse), sides, Some(binary.op)),
        None => (
            Coarse::of(&binary.right, schema)?,
            (sides.1, sides.0),
            binary.op.swap(),
        ),
    };
    let Some((coarse, op)) = coarse.zip(op) else {
        return Ok(Transformed::no(Expr::BinaryExpr(binary)));
    };
    let Some((below, above)) = coarse.around(constant) else {
        return Ok(Transformed::no(Expr::BinaryExpr(binary)));
    };
    let bound = match op {
        Operator::Lt | Operator::GtEq => above,
        Operator::LtEq | Operator::Gt => below,
        Operator::Eq => return Ok(Transformed::yes(coarse.never(false))),
        Operator::NotEq => return Ok(Transformed::yes(coarse.never(true))),
        Operator::IsDistinctFrom => return Ok(Transformed::yes(lit(true))),
        Operator::IsNotDistinctFrom => return Ok(Transformed::yes(lit(false))),
        _ => return Ok(Transformed::no(Expr::BinaryExpr(binary))),
    };
    let rounded = BinaryExpr::new(value.clone(), op, Box::new(bound));
    Ok(Transformed::yes(Expr::BinaryExpr(rounded)))
}

fn in_list(list: InList, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some(coarse) = Coarse::of(&list.expr, schema)? else {
        return Ok(Transformed::no(Expr::InList(list)));
    };
    let all = list.list.len();
    let on_ticks = list.list.into_iter();
    let on_ticks: Vec<Expr> = on_ticks.filter(|c| coarse.around(c).is_none()).collect();
    Ok(match on_ticks.len() {
        0 if all > 0 => Transformed::yes(coarse.never(list.negated)),
        left => {
            let list = Expr::InList(InList::new(list.expr, on_ticks, list.negated));
            Transformed::new_transformed(list, left < all)
        }
    })
}

fn range(mut between: Between, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some(coarse) = Coarse::of(&between.expr, schema)? else {
        return Ok(Transformed::no(Expr::Between(between)));
    };
    let low = coarse.around(&between.low).map(|(_, above)| above);
    let high = coarse.around(&between.high).map(|(below, _)| below);
    let changed = low.is_some() || high.is_some();
    if let Some(low) = low {
        *between.low = low;
    }
    if let Some(high) = high {
        *between.high = high;
    }
    Ok(Transformed::new_transformed(
        Expr::Between(between),
        changed,
    ))
}

fn instant(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::TimestampMillisecond(instant, _)
        | ScalarValue::TimestampMicrosecond(instant, _)
        | ScalarValue::TimestampNanosecond(instant, _) => *instant,
        _ => None,
    }
}

fn with_instant(value: &ScalarValue, instant: i64) -> Option<ScalarValue> {
    let instant = Some(instant);
    Some(match value.clone() {
        ScalarValue::TimestampMillisecond(_, zone) => {
            ScalarValue::TimestampMillisecond(instant, zone)
        }
        ScalarValue::TimestampMicrosecond(_, zone) => {
            ScalarValue::TimestampMicrosecond(instant, zone)
        }
        ScalarValue::TimestampNanosecond(_, zone) => {
            ScalarValue::TimestampNanosecond(instant, zone)
        }
        _ => return None,
    })
}
