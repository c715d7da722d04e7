//! Dates and times that the calendar does not have.
//!
//! Columns hold numbers of days or seconds, of which the calendar knows only some. Arrow's JSON
//! writer would write its own error message in the place of such a value.

use super::error::SqlError;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, make_array};
use arrow::datatypes::{
    ArrowNumericType, DataType, Date32Type, Date64Type, DurationMillisecondType,
    DurationSecondType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampSecondType,
};
use arrow::temporal_conversions as to;

/// Refuses rows with dates and times that have no text form.
///
/// # Errors
/// Names the column.
pub fn check_calendar(batch: &RecordBatch) -> Result<(), SqlError> {
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        if !has_text(column) {
            return Err(SqlError::failed(format!(
                "column {} has a value of type {} that is not in the calendar; CAST it to BIGINT \
                 to see the number",
                field.name(),
                field.data_type()
            )));
        }
    }
    Ok(())
}

/// Whether the smallest and the largest value of an array are known, and so all between them.
fn ends<T: ArrowNumericType>(array: &ArrayRef, known: impl Fn(T::Native) -> bool) -> bool {
    let values = array.as_primitive::<T>();
    let ends = [arrow::compute::min(values), arrow::compute::max(values)];
    ends.into_iter().flatten().all(known)
}

fn has_text(array: &ArrayRef) -> bool {
    use DataType::{Date32, Date64, Duration, Time32, Time64, Timestamp};
    use TimeUnit::{Microsecond, Millisecond, Second};
    match array.data_type() {
        Date32 => ends::<Date32Type>(array, |v| to::date32_to_datetime(v).is_some()),
        Date64 => ends::<Date64Type>(array, |v| to::date64_to_datetime(v).is_some()),
        Time32(Second) => ends::<Time32SecondType>(array, |v| to::time32s_to_time(v).is_some()),
        Time32(_) => ends::<Time32MillisecondType>(array, |v| to::time32ms_to_time(v).is_some()),
        Time64(Microsecond) => {
            ends::<Time64MicrosecondType>(array, |v| to::time64us_to_time(v).is_some())
        }
        Time64(_) => ends::<Time64NanosecondType>(array, |v| to::time64ns_to_time(v).is_some()),
        Timestamp(Second, _) => {
            ends::<TimestampSecondType>(array, |v| to::timestamp_s_to_datetime(v).is_some())
        }
        Timestamp(Millisecond, _) => {
            ends::<TimestampMillisecondType>(array, |v| to::timestamp_ms_to_datetime(v).is_some())
        }
        Timestamp(Microsecond, _) => {
            ends::<TimestampMicrosecondType>(array, |v| to::timestamp_us_to_datetime(v).is_some())
        }
        Duration(Second) => {
            ends::<DurationSecondType>(array, |v| to::try_duration_s_to_duration(v).is_some())
        }
        Duration(Millisecond) => {
            ends::<DurationMillisecondType>(array, |v| to::try_duration_ms_to_duration(v).is_some())
        }
        // Every number of nanoseconds in 64 bits is a point in time; other types hold none, or
        // hold them in their parts.
        _ => {
            let data = array.to_data();
            let mut parts = data.child_data().iter();
            parts.all(|part| has_text(&make_array(part.clone())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Date32Array, ListArray, Time32SecondArray, TimestampSecondArray};
    use std::sync::Arc;

    fn checked(array: ArrayRef) -> Result<(), SqlError> {
        check_calendar(&RecordBatch::try_from_iter([("d", array)]).unwrap())
    }

    #[test]
    fn values_beyond_the_calendar_are_refused_also_inside_lists_and_all_others_pass() {
        checked(Arc::new(Date32Array::from(vec![
            Some(0),
            None,
            Some(-700_000),
        ])))
        .unwrap();
        checked(Arc::new(Time32SecondArray::from(vec![0, 86_399]))).unwrap();
        let list = |day: i32| {
            let days = [Some(vec![Some(0)]), None, Some(vec![None, Some(day)])];
            Arc::new(ListArray::from_iter_primitive::<Date32Type, _, _>(days))
        };
        checked(list(19_000)).unwrap();
        for odd in [
            Arc::new(Date32Array::from(vec![0, i32::MAX])) as ArrayRef,
            Arc::new(Time32SecondArray::from(vec![0, 86_400])),
            Arc::new(TimestampSecondArray::from(vec![i64::MIN, 0])),
            list(i32::MIN),
        ] {
            let message = checked(odd).unwrap_err().to_string();
            assert!(message.contains("column d"), "{message}");
        }
    }
}
