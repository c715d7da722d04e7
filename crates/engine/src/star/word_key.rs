//! Groups by a computed word: a rounded float, the difference of two times.
//!
//! Few values may come out of many, which nothing tells beforehand. So the groups are hashed, and
//! more of them than a star join is for end it.

use super::NotFused;
use super::arithmetic::Arithmetic;
use super::floats::bits_of;
use super::lower::not_volatile;
use arrow::datatypes::DataType;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;
use tierloom_star::{FloatOp, WordKey};

/// Groups with which the operator for many groups is quicker.
pub(super) const MOST_GROUPS: u64 = 256 << 10;

/// Bits of a NaN that no float of a table or of arithmetic has.
const NULL_FLOAT: i64 = 0x7ff8_0000_7469_6572;

/// The key of the only group of `groups`, over the output of the lowered plan, and its type.
///
/// # Errors
/// If there are several, or it is a column as it is, whose values are mostly too many.
pub(super) fn word_key(
    arithmetic: &Arithmetic<'_>,
    groups: &[Arc<dyn PhysicalExpr>],
) -> Result<(WordKey, DataType), NotFused> {
    let [group] = groups else {
        return NotFused::because("several groups, one of which is computed");
    };
    let expr: Arc<dyn PhysicalExpr> = arithmetic.lowered.over_universe(group)?;
    not_volatile(&expr)?;
    if expr.is::<Column>() {
        return NotFused::because(format!("{expr} has too many values"));
    }
    let typed = arithmetic.as_computed(&expr)?;
    let data_type = typed.data_type.clone();
    let is_nullable = typed.valid().is_some();
    let (typed, null) = if typed.float.is_some() {
        if !typed.is_as_computed() {
            return NotFused::because(format!("{expr} depends on how it is rounded"));
        }
        let mut typed = typed.in_bits()?;
        // Both zeros are one group: their sum with 0 is the positive one.
        typed.expr = typed.expr.with_float(FloatOp::Add, bits_of(0.0));
        (typed, NULL_FLOAT)
    } else {
        let is_integer = data_type.is_signed_integer()
            || matches!(data_type, DataType::Date32 | DataType::Timestamp(..));
        let low = arithmetic.interval(&typed.expr)?.low;
        let null = i64::try_from(low - 1).ok().filter(|_| is_integer);
        match null {
            Some(null) => (typed, null),
            None if is_integer && !is_nullable => (typed, i64::MIN),
            None => return NotFused::because(format!("a group of type {data_type}")),
        }
    };
    let key = WordKey {
        value: typed.expr,
        null,
        nulls: typed.nulls,
        when: typed.when,
        below: None,
    };
    Ok((key, data_type))
}

/// Bytes of the accumulators of as many groups as a star join is for, of so many measures.
pub(super) fn most_bytes(measures: usize) -> u64 {
    // The number of rows, and up to four words for each measure.
    MOST_GROUPS * 8 * (1 + 4 * measures as u64)
}
