//! Bounds of integer expressions by the types of what they are made of.

use arrow::datatypes::{DataType, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Literal};

/// Whether arithmetic is of integers and its result may leave their type.
pub(super) fn may_overflow(expr: &PhysicalExprRef, op: Operator, schema: &Schema) -> Result<bool> {
    let data_type = expr.data_type(schema)?;
    let Some(type_bits) = type_bits(&data_type) else {
        return Ok(false);
    };
    let may_be_negative = op == Operator::Minus && data_type.is_unsigned_integer();
    Ok(may_be_negative || value_bits(expr, schema, DEEPEST)? >= type_bits)
}

/// Levels of an expression that are looked at to show that it cannot overflow; more would take
/// quadratic time for long sums.
const DEEPEST: usize = 3;

/// Bits of the largest magnitude in a type: all its values are within 2^bits. `None` if it is not
/// of integers.
fn type_bits(data_type: &DataType) -> Option<u32> {
    Some(match data_type {
        DataType::Int8 => 7,
        DataType::Int16 => 15,
        DataType::Int32 => 31,
        DataType::Int64 => 63,
        DataType::UInt8 => 8,
        DataType::UInt16 => 16,
        DataType::UInt32 => 32,
        DataType::UInt64 => 64,
        _ => return None,
    })
}

/// Bits of the largest magnitude that the values of an integer expression can have.
fn value_bits(expr: &PhysicalExprRef, schema: &Schema, levels: usize) -> Result<u32> {
    let of_type = type_bits(&expr.data_type(schema)?).unwrap_or(u32::MAX);
    let Some(levels) = levels.checked_sub(1) else {
        return Ok(of_type);
    };
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        let wide = literal.value().cast_to(&DataType::Decimal128(38, 0));
        return Ok(match wide {
            Ok(ScalarValue::Decimal128(Some(value), ..)) => {
                u128::BITS - value.unsigned_abs().leading_zeros()
            }
            _ => of_type,
        });
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let inner = value_bits(cast.expr(), schema, levels)?;
        return Ok(inner.min(of_type));
    }
    let Some(binary) = expr.downcast_ref::<BinaryExpr>() else {
        return Ok(of_type);
    };
    let left = value_bits(binary.left(), schema, levels)?;
    let right = value_bits(binary.right(), schema, levels)?;
    Ok(match binary.op() {
        Operator::Plus | Operator::Minus => left.max(right).saturating_add(1),
        Operator::Multiply => left.saturating_add(right),
        _ => of_type,
    })
}
