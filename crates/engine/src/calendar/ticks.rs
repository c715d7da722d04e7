//! Parts of arrays of timestamps.

use super::civil::{Dates, first_of_month};
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Date32Array, Int32Array, PrimitiveArray,
};
use arrow::datatypes::{
    ArrowTimestampType, DataType, Date32Type, IntervalMonthDayNano, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use std::sync::Arc;
use tierloom_corrections::ticks_per_second;

const SECONDS_A_DAY: i64 = 86_400;

/// Days around 1970 that DataFusion's calendar knows too, for units that reach further.
const MOST_DAYS: i64 = 80_000_000;

/// Days by which a timestamp of nanoseconds may be cut, which has to be one too.
const LONGEST_CUT_DAYS: i64 = 366;

/// A part of a timestamp as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimePart {
    Year,
    Quarter,
    Month,
    Day,
    Hour,
    Minute,
    /// From 0 for Sunday.
    DayOfWeek,
    /// From 1 for Monday.
    IsoDayOfWeek,
    DayOfYear,
}

impl TimePart {
    pub fn of(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "year" => TimePart::Year,
            "quarter" => TimePart::Quarter,
            "month" => TimePart::Month,
            "day" => TimePart::Day,
            "hour" => TimePart::Hour,
            "minute" => TimePart::Minute,
            "dow" => TimePart::DayOfWeek,
            "isodow" => TimePart::IsoDayOfWeek,
            "doy" => TimePart::DayOfYear,
            _ => return None,
        })
    }
}

/// What timestamps are cut to, of units that have no fixed length or do not begin with 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeCut {
    Week,
    Month,
    Quarter,
    Year,
}

impl TimeCut {
    pub fn of(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "week" => TimeCut::Week,
            "month" => TimeCut::Month,
            "quarter" => TimeCut::Quarter,
            "year" => TimeCut::Year,
            _ => return None,
        })
    }

    /// The first day of the unit that a day is in.
    #[inline]
    fn start(self, day: i32, dates: Dates) -> i32 {
        match self {
            TimeCut::Week => day - (day + 3).rem_euclid(7),
            TimeCut::Month => day - i32::from(dates.of(day).day) + 1,
            TimeCut::Year => day - i32::from(dates.of(day).day_of_year) + 1,
            TimeCut::Quarter => {
                let date = dates.of(day);
                first_of_month(date.year, date.quarter() * 3 - 2)
            }
        }
    }
}

/// Calls `$of` for the unit of timestamps without a time zone; `None` for other arrays. The ticks
/// of a second are constants, so that divisions by them are multiplications.
macro_rules! by_unit {
    ($of:ident($timestamps:ident $(, $more:expr)?)) => {
        match $timestamps.data_type() {
            DataType::Timestamp(TimeUnit::Second, None) => {
                $of::<TimestampSecondType, 1>($timestamps $(, $more)?)
            }
            DataType::Timestamp(TimeUnit::Millisecond, None) => {
                $of::<TimestampMillisecondType, 1_000>($timestamps $(, $more)?)
            }
            DataType::Timestamp(TimeUnit::Microsecond, None) => {
                $of::<TimestampMicrosecondType, 1_000_000>($timestamps $(, $more)?)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, None) => {
                $of::<TimestampNanosecondType, 1_000_000_000>($timestamps $(, $more)?)
            }
            _ => None,
        }
    };
}

/// The part of each timestamp or date; `None` if DataFusion has to compute it.
pub(super) fn parts(timestamps: &dyn Array, part: TimePart) -> Option<ArrayRef> {
    if let Some(days) = timestamps.as_primitive_opt::<Date32Type>() {
        return parts_of_days(days, part);
    }
    by_unit!(parts_of(timestamps, part))
}

fn parts_of_days(array: &Date32Array, part: TimePart) -> Option<ArrayRef> {
    let is_known = |day: &i32| i64::from(*day).abs() <= MOST_DAYS;
    if matches!(part, TimePart::Hour | TimePart::Minute) || !array.values().iter().all(is_known) {
        return None;
    }
    let dates = Dates::new();
    let parts: Int32Array = match part {
        TimePart::Year => array.unary(|day| dates.of(day).year),
        TimePart::Quarter => array.unary(|day| dates.of(day).quarter()),
        TimePart::Month => array.unary(|day| dates.of(day).month.into()),
        TimePart::DayOfYear => array.unary(|day| dates.of(day).day_of_year.into()),
        TimePart::DayOfWeek => array.unary(day_of_week),
        TimePart::IsoDayOfWeek => array.unary(iso_day_of_week),
        _ => array.unary(|day| dates.of(day).day.into()),
    };
    Some(Arc::new(parts))
}

/// From 0 for Sunday; 1970 began with a Thursday.
fn day_of_week(day: i32) -> i32 {
    (day + 4).rem_euclid(7)
}

/// From 1 for Monday.
fn iso_day_of_week(day: i32) -> i32 {
    (day + 3).rem_euclid(7) + 1
}

/// An interval without months in the ticks of timestamps without a time zone; `None` for other
/// intervals, and those that are no whole ticks or leave 64 bits.
pub(crate) fn ticks_of(by: IntervalMonthDayNano, unit: TimeUnit) -> Option<i64> {
    let per_second = ticks_per_second(unit);
    let per_tick = 1_000_000_000 / per_second;
    let days = i64::from(by.days).checked_mul(SECONDS_A_DAY * per_second)?;
    let ticks = days.checked_add(by.nanoseconds / per_tick)?;
    (by.months == 0 && by.nanoseconds % per_tick == 0).then_some(ticks)
}

/// The timestamps so many ticks later; `None` if DataFusion has to compute them.
pub(super) fn later(timestamps: &dyn Array, ticks: i64) -> Option<ArrayRef> {
    by_unit!(later_of(timestamps, ticks))
}

fn later_of<T: ArrowTimestampType, const PER_SECOND: i64>(
    timestamps: &dyn Array,
    by: i64,
) -> Option<ArrayRef> {
    let array = known::<T, PER_SECOND>(timestamps, 0)?;
    let most = MOST_DAYS.saturating_mul(SECONDS_A_DAY * PER_SECOND);
    let is_near = by.unsigned_abs() <= most.unsigned_abs();
    let values = array.values().iter();
    let farthest = if by < 0 { values.min() } else { values.max() };
    let is_reached = farthest.is_none_or(|v| v.checked_add(by).is_some());
    if !is_near || !is_reached {
        return None;
    }
    let later: PrimitiveArray<T> = array.unary(|v| v.wrapping_add(by));
    Some(Arc::new(later))
}

/// The start of the unit that each timestamp is in; `None` if DataFusion has to compute it.
pub(super) fn cut(timestamps: &dyn Array, to: TimeCut) -> Option<ArrayRef> {
    by_unit!(cut_of(timestamps, to))
}

/// The date of each timestamp; `None` if DataFusion has to compute it.
pub(super) fn dates(timestamps: &dyn Array) -> Option<ArrayRef> {
    by_unit!(dates_of(timestamps))
}

/// The timestamps, if all are so near 1970 that DataFusion knows their dates and those of `margin`
/// days before. What is under a NULL counts too, as it takes part in the arithmetic.
fn known<T: ArrowPrimitiveType<Native = i64>, const PER_SECOND: i64>(
    timestamps: &dyn Array,
    margin: i64,
) -> Option<&PrimitiveArray<T>> {
    let array = timestamps.as_primitive_opt::<T>()?;
    let most = MOST_DAYS.saturating_mul(SECONDS_A_DAY * PER_SECOND);
    let least = (-most).max(i64::MIN + margin * SECONDS_A_DAY * PER_SECOND);
    let values = array.values().iter().copied();
    let (low, high) = values.fold((i64::MAX, i64::MIN), |(low, high), v| {
        (low.min(v), high.max(v))
    });
    (array.is_empty() || low >= least && high <= most).then_some(array)
}

fn parts_of<T: ArrowTimestampType, const PER_SECOND: i64>(
    timestamps: &dyn Array,
    part: TimePart,
) -> Option<ArrayRef> {
    let array = known::<T, PER_SECOND>(timestamps, 0)?;
    let day = |v: i64| v.div_euclid(SECONDS_A_DAY * PER_SECOND) as i32;
    let dates = Dates::new();
    let date = |v: i64| dates.of(day(v));
    let parts: Int32Array = match part {
        TimePart::Year => array.unary(|v| date(v).year),
        TimePart::Quarter => array.unary(|v| date(v).quarter()),
        TimePart::Month => array.unary(|v| date(v).month.into()),
        TimePart::Day => array.unary(|v| date(v).day.into()),
        TimePart::Hour => array
            .unary(|v| (v.rem_euclid(SECONDS_A_DAY * PER_SECOND) / (3_600 * PER_SECOND)) as i32),
        TimePart::Minute => {
            array.unary(|v| (v.rem_euclid(3_600 * PER_SECOND) / (60 * PER_SECOND)) as i32)
        }
        TimePart::DayOfWeek => array.unary(|v| day_of_week(day(v))),
        TimePart::IsoDayOfWeek => array.unary(|v| iso_day_of_week(day(v))),
        TimePart::DayOfYear => array.unary(|v| date(v).day_of_year.into()),
    };
    Some(Arc::new(parts))
}

fn cut_of<T: ArrowTimestampType, const PER_SECOND: i64>(
    timestamps: &dyn Array,
    to: TimeCut,
) -> Option<ArrayRef> {
    let array = known::<T, PER_SECOND>(timestamps, LONGEST_CUT_DAYS)?;
    let ticks = SECONDS_A_DAY * PER_SECOND;
    let dates = Dates::new();
    let start =
        |to: TimeCut| move |v: i64| i64::from(to.start(v.div_euclid(ticks) as i32, dates)) * ticks;
    // One loop for each unit.
    let cut: PrimitiveArray<T> = match to {
        TimeCut::Week => array.unary(start(TimeCut::Week)),
        TimeCut::Month => array.unary(start(TimeCut::Month)),
        TimeCut::Quarter => array.unary(start(TimeCut::Quarter)),
        TimeCut::Year => array.unary(start(TimeCut::Year)),
    };
    Some(Arc::new(cut))
}

fn dates_of<T: ArrowTimestampType, const PER_SECOND: i64>(
    timestamps: &dyn Array,
) -> Option<ArrayRef> {
    let array = known::<T, PER_SECOND>(timestamps, 0)?;
    let dates: Date32Array = array.unary(|v| v.div_euclid(SECONDS_A_DAY * PER_SECOND) as i32);
    Some(Arc::new(dates))
}
