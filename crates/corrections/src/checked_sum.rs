//! `sum` that is an error where DataFusion's wraps around.
//!
//! DataFusion adds integers and decimals modulo the width of their type, so a sum that leaves 64 or
//! 128 bits comes back as a number that looks right. [`CheckedSum`] takes its place in the session
//! under the same name. It keeps DataFusion's types and states, so rules and operators that know
//! `sum` treat it alike, and differs only in the accumulators of those types that can overflow.
//! Where the result type has ten digits more than the argument, no table that fits a machine can
//! overflow it (10^10 rows of the largest value), and DataFusion's accumulators are used.

use super::delegated::as_in;
use arrow::array::{Array, ArrayRef, ArrowNativeTypeOp, ArrowNumericType, AsArray, BooleanArray};
use arrow::compute::sum_checked;
use arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Int64Type, UInt64Type,
    i256,
};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err};
use datafusion::error::DataFusionError;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// `sum` for a session.
pub fn checked_sum() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(CheckedSum::default()))
}

#[derive(Debug, Default, PartialEq, Eq, Hash)]
struct CheckedSum {
    plain: Sum,
}

/// A type whose sums can leave it.
trait Summed: ArrowNumericType + fmt::Debug + Send {
    /// The value in a type that holds the sum of any number of rows (but for decimals of 76 digits,
    /// whose own type is the widest there is).
    fn wide(value: Self::Native) -> i256;
    /// Back again; `None` if it does not fit.
    fn narrow(sum: i256) -> Option<Self::Native>;
}

macro_rules! summed {
    ($($t:ty),*) => {$(
        impl Summed for $t {
            fn wide(value: Self::Native) -> i256 {
                i256::from_i128(i128::from(value))
            }
            fn narrow(sum: i256) -> Option<Self::Native> {
                sum.to_i128()?.try_into().ok()
            }
        }
    )*};
}

summed!(
    Int64Type,
    UInt64Type,
    Decimal32Type,
    Decimal64Type,
    Decimal128Type
);

impl Summed for Decimal256Type {
    fn wide(value: i256) -> i256 {
        value
    }
    fn narrow(sum: i256) -> Option<i256> {
        Some(sum)
    }
}

/// Whether values of `argument`, added up to a `total`, can leave the type of `total`.
fn can_overflow(argument: &DataType, total: &DataType) -> bool {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256, Int64, UInt64};
    match (argument, total) {
        (
            Decimal32(from, _) | Decimal64(from, _) | Decimal128(from, _) | Decimal256(from, _),
            Decimal32(to, _) | Decimal64(to, _) | Decimal128(to, _) | Decimal256(to, _),
        ) => u16::from(*from) + 10 > u16::from(*to),
        (_, total) => matches!(total, Int64 | UInt64),
    }
}

/// Calls `$make::<T>($args)` with the arrow type of the result.
macro_rules! for_type {
    ($total:expr, $make:ident ( $($arg:expr),* ), $else:expr) => {
        match $total {
            DataType::Int64 => $make::<Int64Type>($($arg),*),
            DataType::UInt64 => $make::<UInt64Type>($($arg),*),
            DataType::Decimal32(..) => $make::<Decimal32Type>($($arg),*),
            DataType::Decimal64(..) => $make::<Decimal64Type>($($arg),*),
            DataType::Decimal128(..) => $make::<Decimal128Type>($($arg),*),
            DataType::Decimal256(..) => $make::<Decimal256Type>($($arg),*),
            _ => $else,
        }
    };
}

/// The result type, if it can be left.
fn checked_type(args: &AccumulatorArgs) -> Option<DataType> {
    let total = args.return_field.data_type();
    can_overflow(args.expr_fields[0].data_type(), total).then(|| total.clone())
}

impl AggregateUDFImpl for CheckedSum {
    as_in!(self, self.plain);

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let Some(total) = checked_type(&args) else {
            return self.plain.accumulator(args);
        };
        if args.is_distinct {
            let values = self.plain.accumulator(args)?;
            return Ok(Box::new(DistinctTotal { values, total }));
        }
        for_type!(&total, running(total.clone()), self.plain.accumulator(args))
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match checked_type(&args) {
            Some(total) => for_type!(
                &total,
                groups(total.clone()),
                self.plain.create_groups_accumulator(args)
            ),
            None => self.plain.create_groups_accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match checked_type(&args) {
            // DataFusion has a window's distinct sum for BIGINT alone and refuses all others.
            Some(total) if !args.is_distinct => for_type!(
                &total,
                sliding(total.clone()),
                self.plain.create_sliding_accumulator(args)
            ),
            _ => self.plain.create_sliding_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.plain.reverse_expr()
    }

    // `simplify_expr_op_literal` is not that of `plain`: its product with the number of rows may
    // wrap around where no sum does.
}

fn too_large(total: &DataType) -> DataFusionError {
    let wider = match total {
        DataType::Int64 | DataType::UInt64 => "sum(CAST(... AS DECIMAL(38, 0)))".to_owned(),
        DataType::Decimal256(..) => "sum(CAST(... AS DOUBLE))".to_owned(),
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) => {
            format!("sum(CAST(... AS DECIMAL(38, {scale})))")
        }
        DataType::Decimal128(_, scale) => format!("sum(CAST(... AS DECIMAL(76, {scale})))"),
        other => format!("a type wider than {other}"),
    };
    exec_datafusion_err!("a sum leaves the range of its type {total}; take {wider}")
}

#[derive(Debug)]
struct Total<T: Summed> {
    sum: Option<T::Native>,
    total: DataType,
}

fn running<T: Summed>(total: DataType) -> Result<Box<dyn Accumulator>> {
    Ok(Box::new(Total::<T> { sum: None, total }))
}

impl<T: Summed> Accumulator for Total<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let failed = |_| too_large(&self.total);
        if let Some(more) = sum_checked(values[0].as_primitive::<T>()).map_err(failed)? {
            let sum = self.sum.unwrap_or(T::Native::ZERO);
            self.sum = Some(sum.add_checked(more).map_err(failed)?);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::new_primitive::<T>(self.sum, &self.total)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The sum of a window's frame, which rows enter and leave.
///
/// Kept wide: a frame whose sum fits may follow one whose sum does not.
#[derive(Debug)]
struct Frame<T: Summed> {
    sum: i256,
    rows: usize,
    total: DataType,
    values: std::marker::PhantomData<fn(T)>,
}

fn sliding<T: Summed>(total: DataType) -> Result<Box<dyn Accumulator>> {
    Ok(Box::new(Frame::<T> {
        sum: i256::ZERO,
        rows: 0,
        total,
        values: std::marker::PhantomData,
    }))
}

impl<T: Summed> Frame<T> {
    fn of(&self, values: &[ArrayRef]) -> Result<(i256, usize)> {
        let values = values[0].as_primitive::<T>();
        let mut present = values.iter().flatten();
        let sum = present.try_fold(i256::ZERO, |sum, value| sum.checked_add(T::wide(value)));
        let rows = values.len() - values.null_count();
        Ok((sum.ok_or_else(|| too_large(&self.total))?, rows))
    }
}

impl<T: Summed> Accumulator for Frame<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, rows) = self.of(values)?;
        let sum = self.sum.checked_add(sum);
        self.sum = sum.ok_or_else(|| too_large(&self.total))?;
        self.rows += rows;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, rows) = self.of(values)?;
        let sum = self.sum.checked_sub(sum);
        self.sum = sum.ok_or_else(|| too_large(&self.total))?;
        self.rows -= rows;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = match self.rows {
            0 => None,
            _ => Some(T::narrow(self.sum).ok_or_else(|| too_large(&self.total))?),
        };
        ScalarValue::new_primitive::<T>(sum, &self.total)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The sum of distinct values, which DataFusion's accumulator collects.
#[derive(Debug)]
struct DistinctTotal {
    values: Box<dyn Accumulator>,
    total: DataType,
}

impl Accumulator for DistinctTotal {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.values.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.values.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.values.state()?;
        let [ScalarValue::List(list)] = &state[..] else {
            return Err(exec_datafusion_err!(
                "sum(DISTINCT) has no list as its state"
            ));
        };
        let unknown = || Err(exec_datafusion_err!("sum(DISTINCT) of {}", self.total));
        let mut sum = for_type!(&self.total, running(self.total.clone()), unknown())?;
        sum.update_batch(&[Arc::clone(list.values())])?;
        sum.evaluate()
    }

    fn size(&self) -> usize {
        self.values.size()
    }
}

/// DataFusion's sums of groups, which mark an overflow while they add.
struct CheckedSums<A> {
    sums: A,
    overflowed: Arc<AtomicBool>,
    total: DataType,
}

fn groups<T: Summed>(total: DataType) -> Result<Box<dyn GroupsAccumulator>> {
    let overflowed = Arc::new(AtomicBool::new(false));
    let mark = Arc::clone(&overflowed);
    let add = move |sum: &mut T::Native, value: T::Native| match sum.add_checked(value) {
        Ok(more) => *sum = more,
        // The closure has no way to fail: whoever called for the batch looks at the mark.
        Err(_) => mark.store(true, Relaxed),
    };
    Ok(Box::new(CheckedSums {
        sums: prim_op::PrimitiveGroupsAccumulator::<T, _>::new(&total, add),
        overflowed,
        total,
    }))
}

impl<A> CheckedSums<A> {
    fn checked(&self) -> Result<()> {
        match self.overflowed.load(Relaxed) {
            true => Err(too_large(&self.total)),
            false => Ok(()),
        }
    }
}

impl<A: GroupsAccumulator> GroupsAccumulator for CheckedSums<A> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.sums
            .update_batch(values, group_indices, filter, groups)?;
        self.checked()
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        group_indices: &[usize],
        groups: usize,
    ) -> Result<()> {
        self.sums.merge_batch(states, group_indices, groups)?;
        self.checked()
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        self.sums.evaluate(emit)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.sums.state(emit)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.sums.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.sums.size()
    }
}
