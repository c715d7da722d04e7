//! Filters on codes: drops rows before their other columns are decoded.
//!
//! ```text
//!   FilterExec: l_discount >= 0.05 AND l_comment like ...   unchanged: evaluates every row it
//! receives
//!   PlacedScanExec: predicate on all values of a domain, once ──► codes to keep: a range, or flags
//!                   per morsel: codes of l_discount ──► positions ──► the other columns there
//! ```
//! Only conjuncts on one coded column are used that has few values or is compared with constants,
//! and only as a hint: the filter above stays. A predicate that fails on a value of the domain
//! (which need not occur in any row) is left to the filter. The keys of a join's build side become
//! codes in the same way, as soon as they are known. Of a column that is not coded, the ranks of
//! its values are compared with constants.

use super::keys::{Keys, as_integers};
use crate::breakdown::caught;
use crate::coded::{CodedColumn, Domain, Unit};
use crate::comparisons::{Compared, compared, compared_ranks, rank_of};
use crate::ranks::ranks;
use crate::table::PlacedTable;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::common::HashSet;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::PhysicalExpr;
use std::ops::Range;
use std::sync::Arc;
use tierloom_kernels::select::{CodeSet, may_have_bit};
use tierloom_kernels::{intersect, positions};
use tierloom_star::Test;

/// Share of kept rows above which a morsel is returned whole.
///
/// Gathering rows then costs more than it saves.
const MOST_KEPT: f64 = 0.4;

/// One in so many rows: where fewer are left, further filters look at these rows alone.
const FEW: u64 = 16;

/// The share of rows that a comparison is taken to leave where nothing tells.
const UNKNOWN_SHARE: f64 = 0.3;

/// The order of ranks.
const ORDER: SortOptions = SortOptions {
    descending: false,
    nulls_first: false,
};

/// Codes of the largest domain of which a set of keys is a bit per code: 16 MiB.
pub(super) const MOST_BITS: u64 = 1 << 27;

/// The codes, or the values, of one column that pass.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CodeFilter {
    /// Index of the column in the table.
    column: usize,
    keep: Keep,
    /// The share of the codes that pass: the filter with the smallest is best evaluated first.
    share: f64,
    /// Whether NULL passes, which is in the range of no zone.
    keeps_null: bool,
}

/// Codes that pass.
#[derive(Debug, Clone, PartialEq)]
enum Keep {
    Nothing,
    Range {
        low: u32,
        high: u32,
    },
    /// 1 or 0 for every code.
    Marked(Arc<Vec<u8>>),
    /// A bit for every code, lowest bit first.
    Bits(Arc<Vec<u64>>),
    /// Of a column that is not coded: values of these ranks in an ascending order, NULL, and
    /// perhaps others.
    Ranks {
        low: u64,
        high: u64,
    },
}

impl CodeFilter {
    fn new(column: usize, coded: &CodedColumn, keep: Keep) -> Self {
        CodeFilter {
            column,
            share: keep.share(coded.code_count()),
            keeps_null: coded.nullable() && keep.has(0),
            keep,
        }
    }

    /// The filter of a range of codes.
    pub fn of_range(column: usize, coded: &CodedColumn, codes: Range<u64>) -> Self {
        let keep = match codes.is_empty() {
            true => Keep::Nothing,
            false => Keep::Range {
                low: codes.start as u32,
                high: (codes.end - 1) as u32,
            },
        };
        Self::new(column, coded, keep)
    }

    /// The filter of the values of the column at `column` of `table` that are among `keys`; `None`
    /// if all are, or there are too many.
    pub fn of_keys(table: &PlacedTable, column: usize, keys: &Keys) -> Option<Self> {
        let coded = table.columns()[column].coded()?;
        let keep = Keep::of_keys(coded, keys)?;
        Some(Self::new(column, coded, keep))
    }

    /// Compiles the conjuncts of `predicates` that can be evaluated on codes.
    ///
    /// `predicates` refer to `schema`, the columns `projection` of `table`.
    pub fn compile(
        table: &PlacedTable,
        projection: &[usize],
        schema: &SchemaRef,
        predicates: &[Arc<dyn PhysicalExpr>],
    ) -> Vec<CodeFilter> {
        predicates
            .iter()
            .flat_map(split_conjunction)
            .filter_map(|conjunct| Self::of(table, projection, schema, conjunct))
            .collect()
    }

    fn of(
        table: &PlacedTable,
        projection: &[usize],
        schema: &SchemaRef,
        conjunct: &Arc<dyn PhysicalExpr>,
    ) -> Option<CodeFilter> {
        let columns = collect_columns(conjunct);
        let mut columns = columns.iter();
        let (Some(only), None) = (columns.next(), columns.next()) else {
            return None;
        };
        // A dynamic filter changes while the query runs, and a volatile one differs from row to
        // row.
        if is_volatile(conjunct)
            || DynamicFilterTracking::classify(conjunct).contains_dynamic_filter()
        {
            return None;
        }
        let column = *projection.get(only.index())?;
        let Some(coded) = table.columns()[column].coded() else {
            return Self::of_plain(table, column, conjunct);
        };
        let field = schema.field(only.index());
        // A function that panics on a value of the domain might never see it in a row, so the
        // filter decides.
        let keep = match caught(|| kept_codes(coded, field, conjunct)).ok()? {
            Some(kept) => Keep::of(kept)?,
            None => Keep::compared(coded, conjunct)?,
        };
        Some(CodeFilter::new(column, coded, keep))
    }

    /// Compiles a comparison of a column that is not coded with constants.
    fn of_plain(
        table: &PlacedTable,
        column: usize,
        conjunct: &Arc<dyn PhysicalExpr>,
    ) -> Option<CodeFilter> {
        let placed = &table.columns()[column];
        if !placed.has_rank_zones() {
            return None;
        }
        let (low, high) = compared_ranks(conjunct, placed.data_type())?;
        let bounds = (placed.facts().min.as_ref(), placed.facts().max.as_ref());
        let share = match bounds {
            (Some(min), Some(max)) => {
                let (least, most) = (rank_of(min)?, rank_of(max)?);
                let kept = high.min(most).saturating_sub(low.max(least)) as f64;
                (kept / (most.saturating_sub(least) as f64).max(1.0)).min(1.0)
            }
            _ => UNKNOWN_SHARE,
        };
        let filter = Self::of_ranks(column, low, high);
        Some(CodeFilter { share, ..filter })
    }

    /// The filter of the values of a column that is not coded that have ranks from `low` to `high`
    /// in an ascending order.
    pub fn of_ranks(column: usize, low: u64, high: u64) -> Self {
        CodeFilter {
            column,
            keep: Keep::Ranks { low, high },
            share: UNKNOWN_SHARE,
            keeps_null: false,
        }
    }

    /// Whether it is on a column that is not coded.
    pub fn is_of_values(&self) -> bool {
        matches!(self.keep, Keep::Ranks { .. })
    }

    /// The filter as a star join takes it, on a column of so many `codes`.
    pub fn test(&self, codes: u64) -> Test {
        let mut set = CodeSet::new(codes);
        match &self.keep {
            Keep::Range { low, high } => {
                return Test::Range {
                    low: *low,
                    high: *high,
                };
            }
            // Star joins are over codes alone.
            Keep::Nothing | Keep::Ranks { .. } => {}
            Keep::Marked(marks) => {
                let marked = (0..).zip(marks.iter()).filter(|(_, mark)| **mark != 0);
                marked.for_each(|(code, _)| set.insert(code));
            }
            Keep::Bits(bits) => {
                let words = (0_u32..).zip(bits.iter()).filter(|(_, word)| **word != 0);
                for (at, word) in words {
                    let within = (0..u64::BITS).filter(|bit| word >> bit & 1 != 0);
                    within.for_each(|bit| set.insert(at * u64::BITS + bit));
                }
            }
        }
        Test::Set(Arc::new(set))
    }

    /// Index of the column in the table.
    pub fn column(&self) -> usize {
        self.column
    }

    /// The share of the column's codes that pass.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Whether some of `rows` may pass, as far as their zones tell.
    pub fn may_pass(&self, table: &PlacedTable, rows: Range<usize>) -> bool {
        let column = &table.columns()[self.column];
        if let Keep::Ranks { low, high } = self.keep {
            return column.may_rank(rows, low, high);
        }
        self.keeps_null || column.may_pass(rows, |low, high| self.keep.may_have(low, high))
    }

    /// Those of the positions `kept` within `rows` that pass; all are there where `kept` is `None`.
    ///
    /// `None` if the codes cannot be read.
    pub fn narrowed(
        &self,
        table: &PlacedTable,
        rows: Range<usize>,
        kept: &Option<Vec<u32>>,
    ) -> Option<Vec<u32>> {
        match kept {
            Some(kept) => {
                let mut kept = kept.clone();
                self.retain(table, rows.start, &mut kept)?;
                Some(kept)
            }
            None => Some(positions(&self.hits(table, rows)?)),
        }
    }

    /// Drops the rows `start + position` that do not pass.
    fn retain(&self, table: &PlacedTable, start: usize, kept: &mut Vec<u32>) -> Option<()> {
        let (Some(first), Some(last)) = (kept.first(), kept.last()) else {
            return Some(());
        };
        let column = &table.columns()[self.column];
        let rows = start + *first as usize..start + *last as usize + 1;
        if let Keep::Ranks { low, high } = self.keep {
            let values = column.take(start, *last as usize + 1, kept).ok()?;
            let mut ranks = ranks(&values, ORDER).ok()?.into_iter();
            kept.retain(|_| {
                ranks
                    .next()
                    .is_some_and(|rank| (low..=high).contains(&rank))
            });
            return Some(());
        }
        column.check_rows(rows).ok()?;
        let codes = column.coded()?.codes();
        let codes: Vec<u32> = codes.offsets_at(start, kept, 0);
        let mut codes = codes.into_iter();
        kept.retain(|_| codes.next().is_some_and(|code| self.keep.has(code)));
        Some(())
    }

    fn hits(&self, table: &PlacedTable, rows: Range<usize>) -> Option<Vec<u8>> {
        let column = &table.columns()[self.column];
        if let Keep::Ranks { low, high } = self.keep {
            let values = column.slice(rows.start, rows.len()).ok()?;
            let ranks = ranks(&values, ORDER).ok()?.into_iter();
            return Some(
                ranks
                    .map(|rank| u8::from((low..=high).contains(&rank)))
                    .collect(),
            );
        }
        // Without a hint the scan reads the column, which then is the error.
        column.check_rows(rows.clone()).ok()?;
        let codes = column.coded()?.codes();
        Some(match &self.keep {
            Keep::Nothing | Keep::Ranks { .. } => vec![0; rows.len()],
            Keep::Range { low, high } => codes.in_range(rows, *low, *high),
            Keep::Marked(marks) => codes.looked_up(rows, 0, marks),
            Keep::Bits(bits) => codes.in_bits(rows, bits),
        })
    }
}

impl Keep {
    /// Whether a code passes.
    fn has(&self, code: u32) -> bool {
        match self {
            Keep::Nothing | Keep::Ranks { .. } => false,
            Keep::Range { low, high } => (*low..=*high).contains(&code),
            Keep::Marked(marks) => marks.get(code as usize).is_some_and(|mark| *mark != 0),
            Keep::Bits(bits) => {
                let word = bits.get((code / 64) as usize);
                word.is_some_and(|word| word >> (code % 64) & 1 != 0)
            }
        }
    }

    /// Whether a code from `low` to `high` may pass; false only if none does.
    fn may_have(&self, low: u32, high: u32) -> bool {
        match self {
            Keep::Nothing | Keep::Ranks { .. } => false,
            Keep::Range { low: a, high: b } => low <= *b && high >= *a,
            Keep::Marked(marks) => {
                let marks = marks.get(low as usize..=high as usize);
                marks.is_none_or(|marks| marks.iter().any(|mark| *mark != 0))
            }
            Keep::Bits(bits) => may_have_bit(low, high, u64::BITS, |at| {
                bits.get(at).copied().unwrap_or(0)
            }),
        }
    }

    /// The share of `codes` codes that pass.
    fn share(&self, codes: u64) -> f64 {
        let kept: u64 = match self {
            Keep::Nothing | Keep::Ranks { .. } => 0,
            Keep::Range { low, high } => u64::from(high - low) + 1,
            Keep::Marked(marks) => marks.iter().map(|mark| u64::from(*mark)).sum(),
            Keep::Bits(bits) => bits.iter().map(|word| u64::from(word.count_ones())).sum(),
        };
        kept as f64 / codes.max(1) as f64
    }

    /// See [`CodeFilter::of_keys`].
    fn of_keys(column: &CodedColumn, keys: &Keys) -> Option<Keep> {
        match (keys, column.domain()) {
            (
                Keys::Integers(keys),
                Domain::Offset {
                    base,
                    last,
                    unit: Unit::ONE,
                },
            ) => {
                let first = u64::from(column.nullable());
                let values = column.code_count() - first;
                if column.code_count() > MOST_BITS {
                    return None;
                }
                let inside = keys.iter().filter(|key| (base..=last).contains(key));
                let codes = inside.map(|key| key.wrapping_sub(*base) as u64 + first);
                let bits = bits_of(codes, column.code_count());
                let kept: u64 = bits.iter().map(|word| u64::from(word.count_ones())).sum();
                let first = bits.iter().position(|word| *word != 0);
                let last = bits.iter().rposition(|word| *word != 0);
                let Some((first, last)) = first.zip(last) else {
                    return Some(Keep::Nothing);
                };
                let low = first as u32 * 64 + bits[first].trailing_zeros();
                let high = last as u32 * 64 + 63 - bits[last].leading_zeros();
                match kept {
                    _ if kept == values => None,
                    // Comparing codes is cheaper than looking them up.
                    _ if kept == u64::from(high - low) + 1 => Some(Keep::Range { low, high }),
                    _ => Some(Keep::Bits(Arc::new(bits))),
                }
            }
            (keys, Domain::Values(_)) => {
                let listed = column.listed().ok()??;
                let marks: Vec<u8> = match keys {
                    Keys::Integers(keys) => {
                        let keys: HashSet<i64> = keys.iter().copied().collect();
                        let values = as_integers(&listed).ok()?;
                        let values = values.as_primitive::<Int64Type>().iter();
                        let is_key = |value: Option<i64>| value.is_some_and(|v| keys.contains(&v));
                        values.map(|value| u8::from(is_key(value))).collect()
                    }
                    Keys::Texts(keys) => {
                        let values = cast(&listed, &DataType::Utf8).ok()?;
                        let values = values.as_string::<i32>().iter();
                        let is_key = |value: Option<&str>| value.is_some_and(|v| keys.contains(v));
                        values.map(|value| u8::from(is_key(value))).collect()
                    }
                };
                Keep::of(marks)
            }
            (_, Domain::Offset { .. }) => None,
        }
    }

    /// The codes for which a comparison of the column with constants is true; `None` if it is
    /// another predicate, or these are all codes or many.
    fn compared(coded: &CodedColumn, conjunct: &Arc<dyn PhysicalExpr>) -> Option<Keep> {
        match compared(conjunct, coded)? {
            Compared::Range(0, high) if u64::from(high) + 1 == coded.code_count() => None,
            Compared::Range(low, high) => Some(Keep::Range { low, high }),
            Compared::Codes(codes) if codes.is_empty() => Some(Keep::Nothing),
            Compared::Codes(codes) => {
                if coded.code_count() > MOST_BITS {
                    return None;
                }
                let codes = codes.into_iter().map(u64::from);
                Some(Keep::Bits(Arc::new(bits_of(codes, coded.code_count()))))
            }
        }
    }

    /// The compact form of the flags; `None` if every code is kept.
    fn of(kept: Vec<u8>) -> Option<Keep> {
        let count = kept.iter().filter(|k| **k != 0).count();
        if count == kept.len() {
            return None;
        }
        let Some(low) = kept.iter().position(|k| *k != 0) else {
            return Some(Keep::Nothing);
        };
        // Contiguous codes would end here.
        let high = low + count - 1;
        Some(if kept[low..=high].iter().all(|k| *k != 0) {
            Keep::Range {
                low: low as u32,
                high: high as u32,
            }
        } else {
            Keep::Marked(Arc::new(kept))
        })
    }
}

/// A bit for each of `count` codes, set for `codes`.
fn bits_of(codes: impl Iterator<Item = u64>, count: u64) -> Vec<u64> {
    let mut bits = vec![0_u64; count.div_ceil(64) as usize];
    codes.for_each(|code| bits[(code / 64) as usize] |= 1 << (code % 64));
    bits
}

/// Evaluates the predicate on every value of the domain.
///
/// `None` if there are too many, or it fails on one.
fn kept_codes(
    coded: &CodedColumn,
    field: &Field,
    conjunct: &Arc<dyn PhysicalExpr>,
) -> Option<Vec<u8>> {
    let listed = coded.listed().ok()??;
    let field = field.clone().with_nullable(true);
    let schema = Arc::new(Schema::new(vec![field]));
    let predicate = reassign_expr_columns(Arc::clone(conjunct), &schema).ok()?;
    let count = listed.len();
    let values = RecordBatch::try_new(schema, vec![listed]).ok()?;
    let judged = predicate.evaluate(&values).ok()?.into_array(count).ok()?;
    if *judged.data_type() != DataType::Boolean {
        return None;
    }
    let judged = judged.as_boolean();
    let keep = |at: usize| u8::from(judged.is_valid(at) && judged.value(at));
    Some((0..count).map(keep).collect())
}

/// Positions within `rows` that all `filters` keep; `None` if too many to gather them.
///
/// The filters are in the order in which they are best evaluated.
pub(super) fn kept_positions(
    filters: &[CodeFilter],
    table: &PlacedTable,
    rows: Range<usize>,
) -> Option<Vec<u32>> {
    let (first, others) = filters.split_first()?;
    let mut hits = first.hits(table, rows.clone())?;
    let mut others = others.iter();
    loop {
        let kept: u64 = hits.iter().map(|hit| u64::from(*hit)).sum();
        if kept <= rows.len() as u64 / FEW {
            break;
        }
        let Some(other) = others.next() else {
            let few = kept as f64 <= rows.len() as f64 * MOST_KEPT;
            return few.then(|| positions(&hits));
        };
        intersect(&mut hits, &other.hits(table, rows.clone())?);
    }
    let mut kept = positions(&hits);
    for other in others {
        if !kept.is_empty() {
            other.retain(table, rows.start, &mut kept)?;
        }
    }
    Some(kept)
}
