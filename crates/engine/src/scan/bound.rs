//! How far down an order rows are still asked for, from the operator that keeps the first ones.

use super::code_filter::CodeFilter;
use super::patience::Patience;
use super::per_execution::PerExecution;
use crate::ranks::{float_of, ranks};
use crate::table::PlacedTable;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::SortOptions;
use arrow::datatypes::Float64Type;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows of a morsel, in percent, from which all of them are returned: reading a part costs more.
const MOST_KEPT_PERCENT: usize = 25;

/// The last rank of an order that is asked for, for each execution of a plan.
#[derive(Debug, Default)]
pub(crate) struct RankBound {
    runs: PerExecution<LastRank>,
}

/// The last rank that is asked for in one execution; it only becomes smaller.
#[derive(Debug)]
pub(crate) struct LastRank(AtomicU64);

impl Default for LastRank {
    fn default() -> Self {
        LastRank(AtomicU64::new(u64::MAX))
    }
}

impl RankBound {
    /// The bound in the execution of `context`.
    pub fn run(&self, context: &Arc<TaskContext>) -> Arc<LastRank> {
        self.runs.find(context, |_| true)
    }
}

impl LastRank {
    /// Rows of ranks after `rank` are not asked for.
    pub fn lower(&self, rank: u64) {
        // Relaxed is enough: nothing else is said by it.
        self.0.fetch_min(rank, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The bound of a scan's plan: rows are ranked by a column.
#[derive(Debug, Clone)]
pub(crate) struct BoundColumn {
    /// Index of the column in the table.
    pub column: usize,
    /// The order.
    pub options: SortOptions,
    /// Up to where rows are asked for.
    pub bound: Arc<RankBound>,
}

/// Whether the last zone of a column has better values than the first one, in an order: rows of a
/// table in the order of a time, of which the latest are asked for.
///
/// The first rows of the order are known from the first morsel on if the best one comes first.
pub(super) fn is_best_at_end(table: &PlacedTable, column: usize, options: SortOptions) -> bool {
    let column = &table.columns()[column];
    let best = |row: usize| {
        let (low, high) = match column.coded() {
            Some(_) => {
                let (low, high) = column.codes_in_zone(row)?;
                (u64::from(low), u64::from(high))
            }
            None => column.ranks_in_zone(row)??,
        };
        Some(if options.descending { !high } else { low })
    };
    let (first, last) = (best(0), best(column.rows().saturating_sub(1)));
    last.zip(first).is_some_and(|(last, first)| last < first)
}

/// What a partition of a scan does with it.
pub(super) struct Bounded {
    of: BoundColumn,
    last: Arc<LastRank>,
    /// The codes that are still asked for, and the last rank from which they were computed.
    codes: Option<(u64, Option<CodeFilter>)>,
    patience: Patience,
}

impl Bounded {
    pub fn new(of: &BoundColumn, context: &Arc<TaskContext>) -> Self {
        Bounded {
            of: of.clone(),
            last: of.bound.run(context),
            codes: None,
            patience: Patience::default(),
        }
    }

    /// The codes of the rows that are still asked for; `None` for all, or if codes do not tell.
    pub fn codes(&mut self, table: &PlacedTable) -> Result<Option<&CodeFilter>> {
        let last = self.last.get();
        if last == u64::MAX {
            return Ok(None);
        }
        if self.codes.as_ref().is_none_or(|(of, _)| *of != last) {
            let found = codes_up_to(table, self.of.column, self.of.options, last)?;
            self.codes = Some((last, found));
        }
        Ok(self.codes.as_ref().and_then(|(_, codes)| codes.as_ref()))
    }

    /// The positions of rows to return among `len` from `start`, out of the positions `kept`, or
    /// out of all without any; `None` for all.
    ///
    /// # Errors
    /// Those of reading the column.
    pub fn keep(
        &mut self,
        table: &PlacedTable,
        (start, len): (usize, usize),
        kept: Option<Vec<u32>>,
    ) -> Result<Option<Vec<u32>>> {
        let last = self.last.get();
        let candidates = kept.as_ref().map_or(len, Vec::len);
        if last == u64::MAX || candidates == 0 || !self.patience.looks() {
            return Ok(kept);
        }
        let codes = self.codes(table)?.filter(|codes| !codes.is_of_values());
        let by_codes = codes.and_then(|codes| codes.narrowed(table, start..start + len, &kept));
        let found = match by_codes {
            Some(found) => found,
            None => self.by_values(table, (start, len), kept.as_deref(), last)?,
        };
        let are_few = found.len() * 100 <= candidates * MOST_KEPT_PERCENT;
        self.patience.saw(are_few);
        Ok(if are_few { Some(found) } else { kept })
    }

    /// The positions out of `kept` whose values have ranks up to `last`, and perhaps some more.
    fn by_values(
        &self,
        table: &PlacedTable,
        (start, len): (usize, usize),
        kept: Option<&[u32]>,
        last: u64,
    ) -> Result<Vec<u32>> {
        let column = &table.columns()[self.of.column];
        let values = match kept {
            Some(kept) => column.take(start, len, kept),
            None => column.slice(start, len),
        };
        let values = values.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let found = up_to(&values, self.of.options, last)?;
        Ok(match kept {
            Some(kept) => found.into_iter().map(|at| kept[at as usize]).collect(),
            None => found,
        })
    }
}

/// The codes of a column whose values have ranks up to `last`, or these ranks of one that is not
/// coded; `None` if NULL comes first and the codes after it are not asked for.
fn codes_up_to(
    table: &PlacedTable,
    column: usize,
    options: SortOptions,
    last: u64,
) -> Result<Option<CodeFilter>> {
    let placed = &table.columns()[column];
    let Some(coded) = placed.coded() else {
        let null_is_first = placed.nullable() && options.nulls_first;
        let (low, high) = match options.descending {
            true => (!last, u64::MAX),
            false => (0, last),
        };
        return Ok((!null_is_first).then(|| CodeFilter::of_ranks(column, low, high)));
    };
    let (mut low, mut high) = (u64::from(coded.nullable()), coded.code_count());
    let with_null = coded.nullable() && options.nulls_first;
    if low == high || with_null && options.descending {
        return Ok(None);
    }
    let rank = |code: u64| -> Result<u64> {
        let value = coded.value(code as u32);
        let value = value.map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(ranks(&value, options)?.first().copied().unwrap_or(0))
    };
    let all = (low, high);
    // The first code that is beyond the last rank, or that is not any more.
    while low < high {
        let middle = low + (high - low) / 2;
        match (rank(middle)? <= last) == options.descending {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    let (first, end) = match options.descending {
        true => (low, all.1),
        false => (if with_null { 0 } else { all.0 }, low),
    };
    Ok(Some(CodeFilter::of_range(column, coded, first..end)))
}

/// The positions of values with ranks up to `last`, and perhaps of some after it.
#[expect(
    clippy::neg_cmp_op_on_partial_ord,
    reason = "NaN is kept, which compares with nothing"
)]
fn up_to(values: &ArrayRef, options: SortOptions, last: u64) -> Result<Vec<u32>> {
    if let Some(floats) = values.as_primitive_opt::<Float64Type>()
        && floats.null_count() == 0
    {
        let last = if options.descending { !last } else { last };
        let last = float_of(last);
        let values = floats.values();
        // Both zeros are kept, and whatever is no number.
        return Ok(if options.descending {
            positions(values, |value| !(value < last))
        } else {
            positions(values, |value| !(value > last))
        });
    }
    Ok(positions(&ranks(values, options)?, |rank| rank <= last))
}

/// The positions of the values that are kept; mostly there are none in 64 consecutive ones.
fn positions<T: Copy>(values: &[T], keep: impl Fn(T) -> bool) -> Vec<u32> {
    let mut found = Vec::new();
    for (at, part) in values.chunks(64).enumerate() {
        if !part.iter().fold(false, |any, value| any | keep(*value)) {
            continue;
        }
        let kept = part.iter().enumerate().filter(|(_, value)| keep(**value));
        found.extend(kept.map(|(i, _)| (at * 64 + i) as u32));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int32Array, StringViewArray};
    use proptest::prelude::*;

    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![
            any::<f64>(),
            (-3_i8..3).prop_map(f64::from),
            prop::sample::select(vec![-0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::MIN]),
        ]
    }

    proptest! {
        #[test]
        fn no_row_up_to_the_last_rank_is_left_out(
            numbers in prop::collection::vec(number(), 1..200),
            nulls in any::<bool>(),
            kind in 0..3,
            descending in any::<bool>(),
            nulls_first in any::<bool>(),
            of in any::<prop::sample::Index>(),
        ) {
            let null = |at: usize| nulls && at.is_multiple_of(5);
            let numbers = numbers.iter().enumerate();
            let values: ArrayRef = match kind {
                0 => Arc::new(numbers.map(|(at, v)| (!null(at)).then_some(*v))
                    .collect::<Float64Array>()),
                1 => Arc::new(numbers.map(|(at, v)| (!null(at)).then_some(*v as i32))
                    .collect::<Int32Array>()),
                _ => Arc::new(numbers.map(|(at, v)| (!null(at)).then_some(v.to_string()))
                    .collect::<StringViewArray>()),
            };
            let options = SortOptions { descending, nulls_first };
            let ranks = ranks(&values, options).unwrap();
            let last = ranks[of.index(ranks.len())];
            let found = up_to(&values, options, last).unwrap();
            prop_assert!(found.is_sorted());
            let kept = |at: usize| found.contains(&(at as u32));
            prop_assert!(ranks.iter().enumerate().all(|(at, rank)| *rank > last || kept(at)));
            // Only zeros of another sign and values that are no numbers may be there as well.
            let worse = found.iter().filter(|at| ranks[**at as usize] > last);
            for at in worse {
                let value = values.as_primitive_opt::<Float64Type>().unwrap().value(*at as usize);
                prop_assert!(value.is_nan() || value == 0.0 || float_of(last).is_nan()
                    || float_of(!last).is_nan(), "{value}");
            }
        }
    }
}
