//! Leaves out zones of the fact table in which no row passes a filter.

use super::lower::Lowered;
use crate::coded::ZONE_ROWS;
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

    /// The parts of `morsel` with rows that may pass, in their order.
    pub fn parts(&self, morsel: Range<usize>) -> Vec<Range<usize>> {
        let mut parts: Vec<Range<usize>> = Vec::new();
        for start in morsel.clone().step_by(ZONE_ROWS) {
            let zone = start..morsel.end.min(start + ZONE_ROWS);
            if !self.may_pass(&zone) {
                continue;
            }
            match parts.last_mut() {
                Some(part) if part.end == zone.start => part.end = zone.end,
                _ => parts.push(zone),
            }
        }
        parts
    }
}
