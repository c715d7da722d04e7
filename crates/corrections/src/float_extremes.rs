//! `min` and `max` of floats by groups, in the order that sorting has.
//!
//! DataFusion 55 compares the floats of groups as the processor does, so that with NaN the result
//! depends on the order of the rows, and starts from the largest finite number, so that a group of
//! infinities has that number as its minimum. Without groups, and when it sorts, it uses the total
//! order, in which NaN is the largest. [`Extreme`] takes the place of the two functions in a
//! session under the same names and uses the total order for groups too.

use super::delegated::as_in;
use arrow::array::ArrowNativeTypeOp;
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use datafusion::common::Result;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

/// `min` and `max` for a session.
#[must_use]
pub(crate) fn float_extremes() -> [Arc<AggregateUDF>; 2] {
    let (min, max) = (Extreme(Min::new()), Extreme(Max::new()));
    [
        Arc::new(AggregateUDF::new_from_impl(min)),
        Arc::new(AggregateUDF::new_from_impl(max)),
    ]
}

/// One of DataFusion's two functions.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme<F>(F);

/// Which of two values a function keeps.
trait Keeps {
    /// The value that every other one replaces.
    fn first<N: ArrowNativeTypeOp>() -> N;
    /// Whether `new` replaces `kept`.
    fn replaces<N: ArrowNativeTypeOp>(new: N, kept: N) -> bool;
}

impl Keeps for Min {
    fn first<N: ArrowNativeTypeOp>() -> N {
        N::MAX_TOTAL_ORDER
    }
    fn replaces<N: ArrowNativeTypeOp>(new: N, kept: N) -> bool {
        new.is_lt(kept)
    }
}

impl Keeps for Max {
    fn first<N: ArrowNativeTypeOp>() -> N {
        N::MIN_TOTAL_ORDER
    }
    fn replaces<N: ArrowNativeTypeOp>(new: N, kept: N) -> bool {
        new.is_gt(kept)
    }
}

macro_rules! groups {
    ($type:ty, $keeps:ty, $data_type:expr) => {{
        let keep = |kept: &mut _, new| {
            if <$keeps>::replaces(new, *kept) {
                *kept = new;
            }
        };
        let groups = prim_op::PrimitiveGroupsAccumulator::<$type, _>::new($data_type, keep);
        Ok(Box::new(groups.with_starting_value(<$keeps>::first())))
    }};
}

impl<F> AggregateUDFImpl for Extreme<F>
where
    F: AggregateUDFImpl + Keeps + fmt::Debug + PartialEq + Eq + Hash + 'static,
{
    as_in!(self, self.0);

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.0.accumulator(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_field.data_type() {
            DataType::Float16 => groups!(Float16Type, F, &DataType::Float16),
            DataType::Float32 => groups!(Float32Type, F, &DataType::Float32),
            DataType::Float64 => groups!(Float64Type, F, &DataType::Float64),
            _ => self.0.create_groups_accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.0.create_sliding_accumulator(args)
    }

    fn is_descending(&self) -> Option<bool> {
        self.0.is_descending()
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(arguments)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.0.reverse_expr()
    }
}
