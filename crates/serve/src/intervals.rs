//! Functions of PostgreSQL on intervals: `age` and `justify_days`, `_hours` and `_interval`.

use super::function;
use arrow::array::{
    Array, ArrayRef, AsArray, IntervalMonthDayNanoArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use chrono::{DateTime, Datelike, NaiveDateTime, NaiveTime, Timelike};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{ScalarUDF, Signature, TypeSignature, Volatility};
use std::sync::Arc;
use std::time::SystemTime;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const NANOS_OF_A_DAY: i64 = 86_400_000_000_000;
/// As PostgreSQL counts where it must.
const DAYS_OF_A_MONTH: i32 = 30;

/// All of them.
pub(crate) fn functions() -> [ScalarUDF; 4] {
    [
        function("age", &[1, 2], ages),
        function("justify_days", &[1], |given| justified(given, days)),
        function("justify_hours", &[1], |given| justified(given, hours)),
        function("justify_interval", &[1], |given| justified(given, all)),
    ]
}

fn function(
    name: &'static str,
    counts: &[usize],
    give: impl Fn(&[ArrayRef]) -> Result<ArrayRef> + Send + Sync + 'static,
) -> ScalarUDF {
    let counts = counts.iter().map(|count| TypeSignature::Any(*count));
    let signature = Signature::one_of(counts.collect(), Volatility::Stable);
    function::of_rows(name, signature, INTERVAL, move |given, _| give(given))
}

/// `age(later, earlier)`, and `age(earlier)` up to the begin of this day.
fn ages(given: &[ArrayRef]) -> Result<ArrayRef> {
    let times = given.iter().map(|times| {
        let times = cast(times, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
        Ok(times.as_primitive::<TimestampMicrosecondType>().clone())
    });
    let times = times.collect::<Result<Vec<TimestampMicrosecondArray>>>()?;
    let today = today();
    let at = |times: &TimestampMicrosecondArray, row| {
        times.is_valid(row).then(|| times.value_as_datetime(row))
    };
    let ages = (0..times[0].len()).map(|row| {
        let pair = match &times[..] {
            [earlier] => (Some(today), at(earlier, row)),
            more => (at(&more[0], row), at(&more[1], row)),
        };
        match pair {
            (Some(Some(later)), Some(Some(earlier))) => Ok(Some(age(later, earlier))),
            (Some(None), _) | (_, Some(None)) => exec_err!("timestamp out of range"),
            _ => Ok(None),
        }
    });
    Ok(Arc::new(
        ages.collect::<Result<IntervalMonthDayNanoArray>>()?,
    ))
}

/// When this day began.
fn today() -> Option<NaiveDateTime> {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let now = DateTime::from_timestamp(now.as_secs().try_into().ok()?, 0)?;
    Some(now.date_naive().and_time(NaiveTime::MIN))
}

/// From `earlier` to `later` in whole months, then days, then time; a month that is not whole has
/// the days of that of the earlier time. Negative if `later` is the earlier one.
fn age(later: NaiveDateTime, earlier: NaiveDateTime) -> IntervalMonthDayNano {
    if later < earlier {
        let age = age(earlier, later);
        return IntervalMonthDayNano::new(-age.months, -age.days, -age.nanoseconds);
    }
    let months = |at: NaiveDateTime| at.year() * 12 + at.month0() as i32;
    let nanos = |at: NaiveDateTime| {
        i64::from(at.num_seconds_from_midnight()) * 1_000_000_000 + i64::from(at.nanosecond())
    };
    let mut months = months(later) - months(earlier);
    let mut days = later.day() as i32 - earlier.day() as i32;
    let mut nanos = nanos(later) - nanos(earlier);
    if nanos < 0 {
        nanos += NANOS_OF_A_DAY;
        days -= 1;
    }
    while days < 0 {
        days += i32::from(earlier.num_days_in_month());
        months -= 1;
    }
    IntervalMonthDayNano::new(months, days, nanos)
}

fn justified(
    given: &[ArrayRef],
    change: impl Fn(IntervalMonthDayNano) -> Option<IntervalMonthDayNano>,
) -> Result<ArrayRef> {
    let intervals = cast(&given[0], &INTERVAL)?;
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
    let changed = intervals.iter().map(|interval| {
        let Some(interval) = interval else {
            return Ok(None);
        };
        match change(interval) {
            None => exec_err!("interval out of range"),
            some => Ok(some),
        }
    });
    Ok(Arc::new(
        changed.collect::<Result<IntervalMonthDayNanoArray>>()?,
    ))
}

/// 30 days are a month, and both have the same sign then.
fn days(of: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let of = days_to_months(of)?;
    Some(one_sign_of_days(of, of.days.signum()))
}

/// 24 hours are a day, and both have the same sign then.
fn hours(of: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    hours_to_days(of).map(one_sign_of_time)
}

/// Both, and all parts have the same sign then.
fn all(of: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let of = days_to_months(hours_to_days(of)?)?;
    let rest = match of.days.signum() {
        0 => of.nanoseconds.signum() as i32,
        sign => sign,
    };
    Some(one_sign_of_time(one_sign_of_days(of, rest)))
}

fn hours_to_days(of: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let whole = i32::try_from(of.nanoseconds / NANOS_OF_A_DAY).ok()?;
    let nanos = of.nanoseconds % NANOS_OF_A_DAY;
    let days = of.days.checked_add(whole)?;
    Some(IntervalMonthDayNano::new(of.months, days, nanos))
}

fn days_to_months(of: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let months = of.months.checked_add(of.days / DAYS_OF_A_MONTH)?;
    let days = of.days % DAYS_OF_A_MONTH;
    Some(IntervalMonthDayNano::new(months, days, of.nanoseconds))
}

/// A month less, if what there is beside whole months has the sign `rest` and they have the other.
fn one_sign_of_days(of: IntervalMonthDayNano, rest: i32) -> IntervalMonthDayNano {
    let sign = of.months.signum();
    if sign * rest >= 0 {
        return of;
    }
    let days = of.days + sign * DAYS_OF_A_MONTH;
    IntervalMonthDayNano::new(of.months - sign, days, of.nanoseconds)
}

/// A day less, if time has the other sign.
fn one_sign_of_time(of: IntervalMonthDayNano) -> IntervalMonthDayNano {
    let sign = of.days.signum();
    if i64::from(sign) * of.nanoseconds.signum() >= 0 {
        return of;
    }
    let nanos = of.nanoseconds + i64::from(sign) * NANOS_OF_A_DAY;
    IntervalMonthDayNano::new(of.months, of.days - sign, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = NANOS_OF_A_DAY / 24;

    fn at(text: &str) -> NaiveDateTime {
        NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap()
    }

    /// By the documentation of PostgreSQL 17 and its rule for months that are not whole.
    #[test]
    fn ages_are_those_of_postgresql() {
        for (later, earlier, (months, days, hours)) in [
            ("2001-04-10 00:00", "1957-06-13 00:00", (43 * 12 + 9, 27, 0)),
            ("2026-03-01 00:00", "2026-01-31 00:00", (1, 1, 0)),
            ("2024-03-01 00:00", "2024-02-29 12:00", (0, 0, 12)),
            ("2026-01-02 01:00", "2026-01-01 02:00", (0, 0, 23)),
            ("2026-01-01 00:00", "2026-01-01 00:00", (0, 0, 0)),
        ] {
            let age_of = |a: &str, b: &str| {
                let age = age(at(a), at(b));
                (age.months, age.days, age.nanoseconds / HOUR)
            };
            let (pair, expected) = ([later, earlier], (months, days, hours));
            assert_eq!(age_of(later, earlier), expected, "{pair:?}");
            let negative = (-months, -days, -hours);
            assert_eq!(age_of(earlier, later), negative, "{pair:?}");
        }
    }

    #[test]
    fn justified_intervals_have_one_sign_and_the_same_length() {
        let signs = |parts: &[i64]| {
            let signs = parts.iter().map(|part| part.signum()).filter(|s| *s != 0);
            signs.collect::<std::collections::BTreeSet<_>>().len()
        };
        let parts = |of: IntervalMonthDayNano| (of.months.into(), of.days.into(), of.nanoseconds);
        let length = |of| {
            let (months, days, nanos): (i64, i64, i64) = parts(of);
            (months * 30 + days) * NANOS_OF_A_DAY + nanos
        };
        for months in -2..=2 {
            for days_before in [-61, -31, -30, -29, -1, 0, 1, 29, 30, 31, 61] {
                for time in [-49, -24, -1, 0, 1, 24, 49] {
                    let of = IntervalMonthDayNano::new(months, days_before, time * HOUR);
                    let [days, hours, all] = [days, hours, all].map(|change| change(of).unwrap());
                    for changed in [days, hours, all] {
                        assert_eq!(length(changed), length(of), "{of:?} {changed:?}");
                    }
                    let (m, d, _) = parts(days);
                    assert!(signs(&[m, d]) <= 1 && d.abs() < 30, "{of:?} {days:?}");
                    let (_, d, n) = parts(hours);
                    assert!(signs(&[d, n]) <= 1 && n.abs() < NANOS_OF_A_DAY, "{hours:?}");
                    let (m, d, n) = parts(all);
                    assert!(signs(&[m, d, n]) <= 1, "{of:?} {all:?}");
                    assert!(d.abs() < 30 && n.abs() < NANOS_OF_A_DAY, "{of:?} {all:?}");
                }
            }
        }
        let most = IntervalMonthDayNano::new(i32::MAX, 30, 0);
        assert!(days(most).is_none());
    }
}
