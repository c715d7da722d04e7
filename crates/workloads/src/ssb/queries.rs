//! The 13 queries, in four groups ("flights") with an increasing number of dimensions.

use crate::WorkloadError;

/// One query of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Query {
    /// Identifier, such as "q1.1".
    pub id: &'static str,
    /// Group, 1 to 4: the number of dimensions that its queries restrict or group by.
    pub group: u8,
    /// Standard SQL, without a semicolon; its order is total, so answers compare byte by byte.
    pub sql: &'static str,
    /// Share of lineorder rows that satisfy all predicates, as published in the paper.
    pub paper_filter_factor: f64,
    /// The same share, computed from the domains of this generator.
    ///
    /// The paper rounds: it counts all years, months and weeks as equally long, and `lo_quantity <
    /// 25` as one half.
    pub filter_factor: f64,
    /// What the query computes, as text.
    pub title: &'static str,
}

/// Days in the date table, and in the periods that the queries select.
const DAYS: f64 = super::DATE_ROWS as f64;
const DAYS_OF_1993: f64 = 365.0;
const DAYS_OF_A_LONG_MONTH: f64 = 31.0;
const DAYS_OF_A_WEEK: f64 = 7.0;
const DAYS_OF_1992_TO_1997: f64 = 2192.0;
/// 1998 lacks its last day.
const DAYS_OF_1997_AND_1998: f64 = 365.0 + 364.0;

const THREE_DISCOUNTS: f64 = 3.0 / 11.0;

macro_rules! sql {
    ($id:literal) => {
        include_str!(concat!("../../../../queries/ssb/", $id, ".sql"))
    };
}

macro_rules! query {
    ($id:literal, $group:literal, paper $paper:expr, exact $exact:expr, $title:literal) => {
        Query {
            id: $id,
            group: $group,
            sql: sql!($id),
            paper_filter_factor: $paper,
            filter_factor: $exact,
            title: $title,
        }
    };
}

static QUERIES: [Query; 13] = [
    query!("q1.1", 1, paper 0.5 * 3.0 / 11.0 / 7.0, exact THREE_DISCOUNTS * 24.0 / 50.0 * DAYS_OF_1993 / DAYS,
        "Revenue gained without the small discounts of small orders, one year"),
    query!("q1.2", 1, paper 0.2 * 3.0 / 11.0 / 84.0, exact THREE_DISCOUNTS * 10.0 / 50.0 * DAYS_OF_A_LONG_MONTH / DAYS,
        "Revenue gained without medium discounts, one month"),
    query!("q1.3", 1, paper 0.1 * 3.0 / 11.0 / 364.0, exact THREE_DISCOUNTS * 5.0 / 50.0 * DAYS_OF_A_WEEK / DAYS,
        "Revenue gained without larger discounts, one week"),
    query!("q2.1", 2, paper 1.0 / 125.0, exact 1.0 / 125.0,
        "Revenue by year and brand: one category, suppliers of one region"),
    query!("q2.2", 2, paper 1.0 / 625.0, exact 1.0 / 625.0,
        "Revenue by year and brand: eight brands, suppliers of one region"),
    query!("q2.3", 2, paper 1.0 / 5000.0, exact 1.0 / 5000.0,
        "Revenue by year and brand: one brand, suppliers of one region"),
    query!("q3.1", 3, paper 6.0 / 175.0, exact DAYS_OF_1992_TO_1997 / DAYS / 25.0,
        "Revenue by nations and year: customers and suppliers of one region, six years"),
    query!("q3.2", 3, paper 6.0 / 4375.0, exact DAYS_OF_1992_TO_1997 / DAYS / 625.0,
        "Revenue by cities and year: customers and suppliers of one nation, six years"),
    query!("q3.3", 3, paper 6.0 / 109_375.0, exact DAYS_OF_1992_TO_1997 / DAYS / 15_625.0,
        "Revenue by cities and year: customers and suppliers of two cities, six years"),
    query!("q3.4", 3, paper 1.0 / 1_312_500.0, exact DAYS_OF_A_LONG_MONTH / DAYS / 15_625.0,
        "Revenue by cities and year: customers and suppliers of two cities, one month"),
    query!("q4.1", 4, paper 2.0 / 125.0, exact 2.0 / 125.0,
        "Profit by year and customer nation: one region, two manufacturers"),
    query!("q4.2", 4, paper 4.0 / 875.0, exact 2.0 / 125.0 * DAYS_OF_1997_AND_1998 / DAYS,
        "Profit by year, supplier nation and category: one region, two manufacturers, two years"),
    query!("q4.3", 4, paper 2.0 / 21_875.0, exact 1.0 / 3125.0 * DAYS_OF_1997_AND_1998 / DAYS,
        "Profit by year, supplier city and brand: customers of one region, suppliers of one nation, one category, two years"),
];

/// All queries, in the paper's order.
pub fn queries() -> &'static [Query] {
    &QUERIES
}

/// The query with that id; "Q1.1" and "1.1" are accepted for "q1.1".
///
/// # Errors
/// [`WorkloadError::UnknownQuery`] with all ids and the most similar one.
pub fn query(id: &str) -> Result<&'static Query, WorkloadError> {
    let wanted = id.trim().to_ascii_lowercase();
    let same = |query: &&Query| query.id == wanted || query.id.strip_prefix('q') == Some(&wanted);
    if let Some(found) = QUERIES.iter().find(same) {
        return Ok(found);
    }
    let near = tierloom_text::nearest(&wanted, QUERIES.iter().map(|query| query.id));
    let hint = near.map_or_else(String::new, |near| format!(" (did you mean '{near}'?)"));
    Err(WorkloadError::UnknownQuery {
        id: id.to_owned(),
        hint,
        known: QUERIES.map(|query| query.id).join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_queries_are_refused_with_the_list_and_the_nearest_id() {
        let message = query("q11").unwrap_err().to_string();
        assert!(
            message.contains("did you mean 'q1.1'") && message.contains("q4.3"),
            "{message}"
        );
        let message = query("select everything").unwrap_err().to_string();
        assert!(
            !message.contains("did you mean") && message.contains("q4.3"),
            "{message}"
        );
        assert_eq!(query("Q2.3").unwrap().id, "q2.3");
        assert_eq!(query("3.4").unwrap().id, "q3.4");
    }

    #[test]
    fn every_query_has_its_group_and_sql_that_can_be_embedded() {
        for query in queries() {
            assert!(
                query.id.starts_with(&format!("q{}.", query.group)),
                "{}",
                query.id
            );
            assert!(
                query.sql.starts_with("select ") && !query.sql.contains(';'),
                "{}",
                query.id
            );
            // Grouped answers must have a defined order.
            assert_eq!(
                query.sql.contains("group by"),
                query.sql.contains("order by"),
                "{}",
                query.id
            );
            assert_eq!(
                query.group == 1,
                !query.sql.contains("group by"),
                "{}",
                query.id
            );
        }
    }

    #[test]
    fn exact_filter_factors_stay_within_five_per_cent_of_the_published_ones() {
        for query in queries() {
            let change = query.filter_factor / query.paper_filter_factor - 1.0;
            assert!(change.abs() < 0.05, "{}: {change:+.3}", query.id);
        }
    }
}
