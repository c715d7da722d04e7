//! Days since 1970 as dates of the Gregorian calendar.
//!
//! The algorithms are those of Hinnant, "chrono-Compatible Low-Level Date Algorithms" (2013): years
//! begin in March, so that the day that leap years add is their last.

use std::sync::LazyLock;

/// Days from the first of March of year 0 to the first of January of 1970.
const EPOCH: i32 = 719_468;

/// Days of 400 years.
const ERA: i32 = 146_097;

/// The first and the last year whose days are looked up.
const LISTED: [i32; 2] = [1900, 2099];

/// The dates of the days of [`LISTED`] years: data mostly has a few years, which stay in the cache.
static DATES: LazyLock<(i32, Vec<Date>)> = LazyLock::new(|| {
    let first = first_of_month(LISTED[0], 1);
    let days = first..first_of_month(LISTED[1] + 1, 1);
    (first, days.map(Date::computed).collect())
});

/// The dates of days, by a list for those of usual years.
#[derive(Clone, Copy)]
pub(super) struct Dates {
    first: i32,
    listed: &'static [Date],
}

impl Dates {
    pub fn new() -> Self {
        let (first, listed) = &*DATES;
        Dates {
            first: *first,
            listed,
        }
    }

    #[inline]
    pub fn of(self, days: i32) -> Date {
        let at = days.wrapping_sub(self.first) as u32 as usize;
        match self.listed.get(at) {
            Some(date) => *date,
            None => Date::computed(days),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Date {
    pub year: i32,
    /// 1 to 366.
    pub day_of_year: i16,
    /// 1 to 12.
    pub month: i8,
    /// 1 to 31.
    pub day: i8,
}

impl Date {
    fn computed(days: i32) -> Self {
        let since = days + EPOCH;
        let era = since.div_euclid(ERA);
        let day_of_era = since - era * ERA;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        // Months since March.
        let months = (5 * day_of_year + 2) / 153;
        let month = if months < 10 { months + 3 } else { months - 9 };
        let year = era * 400 + year_of_era + i32::from(month <= 2);
        Date {
            year,
            day_of_year: (days - first_of_month(year, 1) + 1) as i16,
            month: month as i8,
            day: (day_of_year - (153 * months + 2) / 5 + 1) as i8,
        }
    }

    pub fn quarter(self) -> i32 {
        (i32::from(self.month) + 2) / 3
    }
}

/// The day of the first of a month.
#[inline]
pub(super) fn first_of_month(year: i32, month: i32) -> i32 {
    let year = year - i32::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * ERA + day_of_era - EPOCH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_each_others_inverse_and_follow_the_calendar() {
        let first = first_of_month(-401, 1);
        let dates = Dates::new();
        let mut before = dates.of(first - 1);
        assert_eq!((before.year, before.month, before.day), (-402, 12, 31));
        for days in first..first_of_month(2401, 1) {
            let date = dates.of(days);
            let first = first_of_month(date.year, date.month.into());
            assert_eq!(first + i32::from(date.day) - 1, days);
            let first = first_of_month(date.year, 1);
            assert_eq!(first + i32::from(date.day_of_year) - 1, days);
            let next_day =
                (date.year, date.month, date.day) == (before.year, before.month, before.day + 1);
            let months = |date: Date| date.year * 12 + i32::from(date.month);
            let next_month = date.day == 1 && months(date) == months(before) + 1;
            assert!(next_day != next_month, "{before:?} {date:?}");
            before = date;
        }
        assert_eq!(first_of_month(1970, 1), 0);
        assert_eq!(first_of_month(2000, 3), 11_017);
    }
}
