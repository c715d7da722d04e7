//! The date table: 2,556 days from 1992-01-01.
//!
//! The paper plans seven years; the reference generator makes 2,556 rows, which leaves out
//! 1998-12-31 because 1992 and 1996 are leap years. Tierloom generates the same days.

use super::words::{MONTHS, WEEKDAYS};

/// Rows of the date table, at every scale factor.
pub const DATE_ROWS: usize = 2556;

/// Day of the week of 1992-01-01, a Wednesday, counted from Sunday = 0.
const FIRST_WEEKDAY: usize = 3;

/// One calendar day; all fields count as the columns of SSB do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Day {
    pub(crate) year: i32,
    /// 1 to 12.
    pub(crate) month: i32,
    /// 1 to 31.
    pub(crate) day: i32,
    /// 1 to 366.
    pub(crate) day_of_year: i32,
    /// 1 (Sunday) to 7.
    pub(crate) day_of_week: i32,
    pub(crate) last_in_month: bool,
}

const fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn days_in_month(year: i32, month: i32) -> i32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

static DAYS: [Day; DATE_ROWS] = all_days();

const fn all_days() -> [Day; DATE_ROWS] {
    let mut now = Day {
        year: 1992,
        month: 1,
        day: 1,
        day_of_year: 1,
        day_of_week: FIRST_WEEKDAY as i32 + 1,
        last_in_month: false,
    };
    let mut days = [now; DATE_ROWS];
    // A `while` loop, because constant functions cannot have `for` loops.
    let mut index = 0;
    while index < DATE_ROWS {
        now.day_of_week = ((FIRST_WEEKDAY + index) % 7) as i32 + 1;
        now.last_in_month = now.day == days_in_month(now.year, now.month);
        days[index] = now;
        now.day += 1;
        now.day_of_year += 1;
        if days[index].last_in_month {
            now.day = 1;
            now.month += 1;
        }
        if now.month > 12 {
            now.month = 1;
            now.year += 1;
            now.day_of_year = 1;
        }
        index += 1;
    }
    days
}

/// All days as yyyymmdd: the keys that lo_orderdate and lo_commitdate are drawn from.
pub(crate) static DATE_KEYS: [i32; DATE_ROWS] = all_keys();

const fn all_keys() -> [i32; DATE_ROWS] {
    let mut keys = [0; DATE_ROWS];
    let mut index = 0;
    while index < DATE_ROWS {
        keys[index] = DAYS[index].key();
        index += 1;
    }
    keys
}

/// All days of the table, in ascending order.
pub(crate) fn days() -> &'static [Day; DATE_ROWS] {
    &DAYS
}

impl Day {
    /// The day as yyyymmdd.
    pub(crate) const fn key(&self) -> i32 {
        self.year * 10_000 + self.month * 100 + self.day
    }

    /// Week of the year, 1 to 53.
    ///
    /// The first seven days of a year are week 1, whatever their weekday, so week 6 has seven days
    /// in each year.
    pub(crate) const fn week(&self) -> i32 {
        (self.day_of_year - 1) / 7 + 1
    }

    /// "January".
    pub(crate) fn month_name(&self) -> &'static str {
        MONTHS[(self.month - 1) as usize]
    }

    /// "Sunday".
    pub(crate) fn weekday_name(&self) -> &'static str {
        WEEKDAYS[(self.day_of_week - 1) as usize]
    }

    /// The selling season, as in the reference generator.
    pub(crate) fn season(&self) -> &'static str {
        match self.month {
            1..=3 => "Winter",
            4 => "Spring",
            5..=8 => "Summer",
            9..=10 => "Fall",
            _ => "Christmas",
        }
    }

    /// Whether it is one of the ten fixed holidays of the reference generator.
    ///
    /// These are New Year, Christmas Eve, and the 20th of eight months.
    pub(crate) fn is_holiday(&self) -> bool {
        match self.day {
            1 => self.month == 1,
            24 => self.month == 12,
            20 => matches!(self.month, 2 | 4 | 5 | 7..=11),
            _ => false,
        }
    }

    /// Whether it is Monday to Friday.
    pub(crate) fn is_weekday(&self) -> bool {
        (2..=6).contains(&self.day_of_week)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar_knows_leap_years_weekdays_and_its_own_end() {
        let find = |key: i32| days().iter().find(|day| day.key() == key).copied();
        assert_eq!(DATE_KEYS[0], 19920101);
        assert_eq!(DATE_KEYS[DATE_ROWS - 1], 19981230);
        assert!(DATE_KEYS.is_sorted_by(|a, b| a < b));
        assert_eq!(find(19960229).map(|day| day.day_of_year), Some(60));
        assert_eq!(find(19970229), None);
        // 1994-02-05 was a Saturday, 1998-12-25 a Friday.
        assert_eq!(
            find(19940205).map(|day| day.weekday_name()),
            Some("Saturday")
        );
        assert_eq!(find(19981225).map(|day| day.weekday_name()), Some("Friday"));
        assert_eq!(
            days()
                .iter()
                .filter(|day| day.year == 1994 && day.week() == 6)
                .count(),
            7
        );
        assert_eq!(
            days().iter().filter(|day| day.last_in_month).count(),
            7 * 12 - 1
        );
        assert_eq!(days().iter().filter(|day| day.is_holiday()).count(), 7 * 10);
        assert_eq!(days().iter().map(|day| day.week()).max(), Some(53));
    }
}
