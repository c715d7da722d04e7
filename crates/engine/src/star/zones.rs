//! Leaves out zones of the fact table in which no row passes a filter.

use super::lower::{Lowered, columns_of};
use crate::coded::zones_of;
use crate::column::PlacedColumn;
use crate::comparisons::compared_ranks;
use std::ops::Range;
use tierloom_star::{StarPlan, Test};

/// The filters of a plan whose zones can be looked at.
pub(super) struct ZoneFilters<'a> {
    filters: Vec<(&'a PlacedColumn, &'a Test)>,
    /// Of columns that are not coded, the smallest and the largest rank that may pass.
    ranks: Vec<(&'a PlacedColumn, u64, u64)>,
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
        let ranks = lowered.filters.iter().filter_map(|predicate| {
            let [column] = columns_of(predicate)[..] else {
                return None;
            };
            let table_column = lowered.fact_columns.get(column)?;
            let column = &columns[*table_column];
            if !column.has_rank_zones() {
                return None;
            }
            let (low, high) = compared_ranks(predicate, column.data_type())?;
            Some((column, low, high))
        });
        ZoneFilters {
            filters: filters.filter(without_null).collect(),
            ranks: ranks.collect(),
        }
    }

    fn may_pass(&self, zone: &Range<usize>) -> bool {
        let mut filters = self.filters.iter();
        let mut ranks = self.ranks.iter();
        filters.all(|(column, test)| {
            column.may_pass(zone.clone(), |low, high| test.may_have(low, high))
        }) && ranks.all(|(column, low, high)| column.may_rank(zone.clone(), *low, *high))
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
