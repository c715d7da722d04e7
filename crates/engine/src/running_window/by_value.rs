//! Frames of rows whose sort key is so much less or more than that of the current row.

use crate::calendar::ticks_of;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalSortExpr;
use std::ops::Range;
use tierloom_kernels::words::{float, rank, word};

/// The place of a NULL in the order of keys, at the begin or at the end.
const NULLS: [i128; 2] = [i128::MIN, i128::MAX];

/// The rows of a frame by the only key of the order.
#[derive(Debug, Clone, Copy)]
pub(super) struct ValueFrame {
    from: Distance,
    to: Distance,
}

/// How far a key is from that of the current row, in the direction of the order.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Distance {
    Whole(i128),
    Float(f64),
}

impl Distance {
    fn negated(self) -> Self {
        match self {
            Distance::Whole(distance) => Distance::Whole(-distance),
            Distance::Float(distance) => Distance::Float(-distance),
        }
    }

    /// The place that is so far from `place`.
    fn from(self, place: i128) -> i128 {
        match self {
            _ if NULLS.contains(&place) => place,
            Distance::Whole(distance) => place
                .saturating_add(distance)
                .clamp(NULLS[0] + 1, NULLS[1] - 1),
            Distance::Float(distance) => {
                let value = float(rank(place as i64));
                match value.is_nan() {
                    true => place,
                    false => rank(word(value + distance)).into(),
                }
            }
        }
    }
}

impl ValueFrame {
    /// `None` for frames that are not by value, have no limit on one side, or whose keys are of
    /// another type than numbers and times.
    ///
    /// # Errors
    /// DataFusion's, from the type of the key.
    pub fn of(
        frame: &WindowFrame,
        order: &[PhysicalSortExpr],
        schema: &arrow::datatypes::Schema,
    ) -> Result<Option<ValueFrame>> {
        let ([by], WindowFrameUnits::Range) = (order, frame.units) else {
            return Ok(None);
        };
        let key = by.expr.data_type(schema)?;
        let known = key.is_integer() && key != DataType::UInt64
            || matches!(
                key,
                DataType::Float64
                    | DataType::Decimal128(..)
                    | DataType::Date32
                    | DataType::Timestamp(..)
            );
        let bounds = [&frame.start_bound, &frame.end_bound].map(|bound| match bound {
            WindowFrameBound::CurrentRow => Some(Distance::Whole(0)),
            WindowFrameBound::Preceding(by) => distance(by, &key).map(Distance::negated),
            WindowFrameBound::Following(by) => distance(by, &key),
        });
        let [Some(from), Some(to)] = bounds else {
            return Ok(None);
        };
        Ok(known.then_some(ValueFrame { from, to }))
    }

    /// Whether no frame ends after the last peer of its row.
    pub fn ends_with_peers(&self) -> bool {
        match self.to {
            Distance::Whole(distance) => distance <= 0,
            Distance::Float(distance) => distance <= 0.0,
        }
    }

    /// The frames of `rows` of the partition that has the rows `partition` of `places`.
    pub fn frames(
        &self,
        places: &[i128],
        partition: &Range<usize>,
        rows: Range<usize>,
        mut each: impl FnMut(Range<usize>),
    ) {
        let (mut start, mut end) = (partition.start, partition.start);
        for row in rows {
            let from = self.from.from(places[row]);
            let to = self.to.from(places[row]);
            while start < partition.end && places[start] < from {
                start += 1;
            }
            while end < partition.end && places[end] <= to {
                end += 1;
            }
            each(start..end.max(start));
        }
    }

    /// The first row of a partition whose frame may have rows after `partition`.
    pub fn first_open(&self, places: &[i128], partition: &Range<usize>) -> usize {
        let Some(last) = places[partition.clone()].last() else {
            return partition.end;
        };
        let closed = |place: &i128| self.to.from(*place) < *last;
        partition.start + places[partition.clone()].partition_point(closed)
    }
}

/// The places of keys, which grow from row to row in each partition.
///
/// # Errors
/// Arrow's, of casts.
pub(super) fn places(keys: &ArrayRef, order: SortOptions) -> Result<Vec<i128>> {
    let null = NULLS[usize::from(!order.nulls_first)];
    let whole = |key: i128| if order.descending { -key } else { key };
    Ok(match keys.data_type() {
        DataType::Float64 => {
            let place = |value: f64| match (value.is_nan(), order.descending) {
                (true, false) => i64::MAX.into(),
                (true, true) => i64::MIN.into(),
                // A sum with 0 has no -0.0.
                (false, false) => rank(word(value + 0.0)).into(),
                (false, true) => rank(word(-value + 0.0)).into(),
            };
            let keys = keys.as_primitive::<Float64Type>().iter();
            keys.map(|key| key.map_or(null, place)).collect()
        }
        DataType::Decimal128(..) => {
            let keys = keys.as_primitive::<Decimal128Type>().iter();
            keys.map(|key| key.map_or(null, whole)).collect()
        }
        _ => {
            let keys = cast(keys, &DataType::Int64)?;
            let keys = keys.as_primitive::<Int64Type>().iter();
            keys.map(|key| key.map_or(null, |key| whole(key.into())))
                .collect()
        }
    })
}

/// The distance of a bound in the units of the key.
fn distance(by: &ScalarValue, key: &DataType) -> Option<Distance> {
    if by.is_null() {
        return None;
    }
    match (key, by) {
        (DataType::Date32, ScalarValue::IntervalMonthDayNano(Some(by))) => {
            let is_days = by.months == 0 && by.nanoseconds == 0;
            is_days.then_some(Distance::Whole(by.days.into()))
        }
        (DataType::Timestamp(unit, zone), ScalarValue::IntervalMonthDayNano(Some(by))) => {
            // A day is longer or shorter where clocks change.
            let is_exact = by.days == 0 || zone.is_none();
            let ticks = ticks_of(*by, *unit).filter(|_| is_exact)?;
            Some(Distance::Whole(ticks.into()))
        }
        (key, by) if by.data_type() != *key => None,
        (DataType::Float64, ScalarValue::Float64(Some(by))) => {
            by.is_finite().then_some(Distance::Float(*by))
        }
        (_, ScalarValue::Decimal128(Some(by), ..)) => Some(Distance::Whole(*by)),
        (key, by) if key.is_integer() => match by.cast_to(&DataType::Int64).ok()? {
            ScalarValue::Int64(Some(by)) => Some(Distance::Whole(by.into())),
            _ => None,
        },
        _ => None,
    }
}
