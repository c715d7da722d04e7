//! Leaves out zones of the fact table in which no row passes a filter.

use super::lower::Lowered;
use crate::coded::zones_of;
use crate::column::PlacedColumn;
use std::ops::Range;
use tierloom_star::{StarPlan, Test};

/// The filters of a plan whose zones can be looked at.
pub(super) struct ZoneFilters<'a> {
    filters: Vec<(&'a PlacedColumn, &'a Test)>,
}

impl<'a> ZoneFilters<'a> {
    pub fn new(lowered: &'a Lowered, plan: &'a StarPlan) -> Self {
        let columns = lowered.fact.columns();
        let filters = plan.filters.iter().map(|filter| {
            let column = &columns[lowered.fact_columns[filter.column]];
            (column, &filter.test)
        });
        // NULL is in the range of no zone.
        let without_null = |(column, test): &(&PlacedColumn, &Test)| {
            let coded = column.coded();
            coded.is_some_and(|coded| !(coded.nullable() && test.may_have(0, 0)))
        };
        ZoneFilters {
            filters: filters.filter(without_null).collect(),
        }
    }

    fn may_pass(&self, zone: &Range<usize>) -> bool {
        let mut filters = self.filters.iter();
        filters.all(|(column, test)| {
            column.may_pass(zone.clone(), |low, high| test.may_have(low, high))
        })
    }

    /// The first part of `rows` with rows that may pass in all of its zones.
    pub fn part(&self, rows: &Range<usize>) -> Option<Range<usize>> {
        let mut zones = zones_of(rows);
        let mut part = zones.find(|zone| self.may_pass(zone))?;
        let more = zones.take_while(|zone| self.may_pass(zone));
        more.for_each(|zone| part.end = zone.end);
        Some(part)
    }
}
