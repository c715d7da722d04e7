//! Compiles a lowered plan to a [`StarPlan`] over codes.
//!
//! Predicates become ranges or bitmaps of codes, or conditions on several columns; joins become
//! bitmaps of the foreign key's codes, group columns become maps from codes to group ordinals. What
//! needs more codes than a table may have is refused with a reason.

use super::NotFused;
use super::arithmetic::Arithmetic;
use super::dimension::LoadedDimension;
use super::distinct::distinct;
use super::filters::{over_values, shape, test_of};
use super::flags::in_set;
use super::key_parts::{KeyPart, key_of_parts};
use super::lower::{Lowered, columns_of, not_volatile};
use super::measures::{Measures, StateColumn};
use super::universe::{fact_column, over_dimension, placed_column};
use super::word_key::{most_bytes, word_key};
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Schema};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;
use tierloom_kernels::select::CodeSet;
use tierloom_star::{
    ColumnFilter, DENSE_COMBINATIONS, Expr, GroupMap, GroupPart, Measure, Spans, StarPlan, Test,
    WordKey,
};

/// Largest number of foreign-key codes for which lookup tables are built.
const MAX_KEY_CODES: u64 = 1 << 27;

/// Groups and aggregates, over the output of the lowered plan.
#[derive(Debug, Clone)]
pub(super) struct Aggregation {
    pub groups: Vec<Arc<dyn PhysicalExpr>>,
    pub aggregates: Vec<Arc<AggregateFunctionExpr>>,
    /// The FILTER clause of each aggregate that has one.
    pub filters: Vec<Option<Arc<dyn PhysicalExpr>>>,
}

/// Source of the values of a group column.
pub(super) enum GroupValues {
    /// `values` has the value of each ordinal of a part.
    Listed { part: usize, values: ArrayRef },
    /// The ordinals of a part are the codes of this column of the universe.
    Codes { part: usize, column: usize },
    /// The keys are words of this type.
    Words { data_type: DataType },
    /// The keys are words with several parts, of which this is one.
    Digits(KeyPart),
}

/// A compiled plan, and how its results become arrays.
pub(super) struct Compiled {
    pub plan: StarPlan,
    pub groups: Vec<GroupValues>,
    pub states: Vec<StateColumn>,
}

impl Compiled {
    /// Bytes of the lookup tables and of the group values.
    pub fn size_bytes(&self) -> usize {
        let of_set = |test: &Test| match test {
            Test::Range { .. } => 0,
            Test::Set(set) => set.size_bytes(),
        };
        let of_map = |map: &GroupMap| match map {
            GroupMap::Code => 0,
            GroupMap::Bytes(map) => map.len(),
            GroupMap::Halves(map) => map.len() * 2,
            GroupMap::Words(map) => map.len() * 4,
        };
        let of_values = |values: &GroupValues| match values {
            GroupValues::Listed { values, .. } => values.get_array_memory_size(),
            GroupValues::Codes { .. } | GroupValues::Words { .. } => 0,
            GroupValues::Digits(part) => part.values.size_bytes(),
        };
        let plan = &self.plan;
        plan.filters.iter().map(|f| of_set(&f.test)).sum::<usize>()
            + plan.groups.iter().map(|g| of_map(&g.map)).sum::<usize>()
            + plan
                .measures
                .iter()
                .flat_map(Measure::expressions)
                .chain(&plan.conditions)
                .chain(plan.key.iter().flat_map(WordKey::expressions))
                .map(table_bytes)
                .sum::<usize>()
            + self.groups.iter().map(of_values).sum::<usize>()
    }
}

/// Bytes of the lookup tables in `expr`.
fn table_bytes(expr: &Expr) -> usize {
    match expr {
        Expr::Constant(_) | Expr::Code { .. } | Expr::Word { .. } => 0,
        Expr::Mapped { values, .. } => values.size_bytes(),
        Expr::InSet { set, .. } => set.size_bytes(),
        Expr::Add(a, b)
        | Expr::Sub(a, b)
        | Expr::Mul(a, b)
        | Expr::Less(a, b)
        | Expr::OfFloats(_, a, b) => table_bytes(a) + table_bytes(b),
        Expr::Within { value, .. }
        | Expr::ToFloat { value, .. }
        | Expr::Whole { value, .. }
        | Expr::OfFloat(_, value) => table_bytes(value),
        Expr::Choose { when, then, other } => [when, then, other]
            .map(|part| table_bytes(part))
            .iter()
            .sum(),
    }
}

/// The key of groups some of which are computed from each row, and what its words stand for.
///
/// # Errors
/// `why` if there is none.
fn computed_key(
    arithmetic: &Arithmetic<'_>,
    groups: &[Arc<dyn PhysicalExpr>],
    dimensions: &[LoadedDimension],
    why: NotFused,
) -> Result<(WordKey, Vec<GroupValues>), NotFused> {
    let parts = key_of_parts(arithmetic, groups, dimensions);
    // Their groups are not hashed.
    let is_small = |key: &WordKey| key.below.is_some_and(|below| below <= DENSE_COMBINATIONS);
    let word = match &parts {
        Ok((key, _)) if is_small(key) => None,
        _ => word_key(arithmetic, groups).ok(),
    };
    if let Some((key, data_type)) = word {
        return Ok((key, vec![GroupValues::Words { data_type }]));
    }
    let (key, parts) = parts.map_err(|_| why)?;
    Ok((key, parts.into_iter().map(GroupValues::Digits).collect()))
}

/// Compiles `aggregation` over `lowered`; `state_schema` lists the output columns.
///
/// An empty `dimensions` for a plan that has some is a dry run: it checks what does not depend on
/// the dimensions' rows.
///
/// # Errors
/// The first construct that cannot be computed on codes.
pub(super) fn compile(
    lowered: &Lowered,
    aggregation: &Aggregation,
    state_schema: &Schema,
    dimensions: &[LoadedDimension],
) -> Result<Compiled, NotFused> {
    let arithmetic = Arithmetic::new(lowered, dimensions);
    let mut plan = StarPlan {
        columns: lowered.fact_columns.len(),
        rows: lowered.fact.rows() as u64,
        ..StarPlan::default()
    };
    for predicate in &lowered.filters {
        filter(&arithmetic, predicate, &mut plan)?;
    }
    lookups(lowered, dimensions, &mut plan)?;
    let groups = match groups(&arithmetic, aggregation, dimensions, &mut plan) {
        Ok(groups) => groups,
        Err(why) => {
            let (key, values) = computed_key(&arithmetic, &aggregation.groups, dimensions, why)?;
            plan.groups.clear();
            plan.key = Some(key);
            values
        }
    };
    let mut measures = Measures::new(&arithmetic, !aggregation.groups.is_empty());
    let mut states = Vec::new();
    let mut field = aggregation.groups.len();
    for (aggregate, only) in aggregation.aggregates.iter().zip(&aggregation.filters) {
        let fields = &state_schema.fields()[field..];
        let added = measures.aggregate(aggregate, only.as_ref(), fields)?;
        field += added.len();
        states.extend(added);
    }
    plan.measures = measures.finish();
    if plan.key.is_some() {
        plan.most_bytes = Some(most_bytes(plan.measures.len()));
    }
    plan.spans = arithmetic.spans.take();
    plan.combinations().map_err(|e| NotFused(e.to_string()))?;
    // In a dry run the group maps are placeholders without ordinals.
    if !dimensions.is_empty() || lowered.dimensions.is_empty() {
        plan.check_ordinals().map_err(|e| NotFused(e.to_string()))?;
    }
    Ok(Compiled {
        plan,
        groups,
        states,
    })
}

/// Compiles a filter: to a test on the codes of one column, or to a condition on several.
fn filter(
    arithmetic: &Arithmetic<'_>,
    predicate: &Arc<dyn PhysicalExpr>,
    plan: &mut StarPlan,
) -> Result<(), NotFused> {
    if let Some((filter, codes)) = on_one_column(arithmetic.lowered, predicate)? {
        if let Some(filter) = filter {
            push(&mut plan.filters, filter, codes);
        }
        return Ok(());
    }
    match arithmetic.flag(predicate, true)? {
        Expr::InSet { column, set } => match column.checked_sub(plan.columns) {
            None => push_set(&mut plan.filters, column, &set),
            Some(at) => {
                let spans = arithmetic.spans.borrow()[at].clone();
                push_spans(arithmetic.lowered, &spans, (column, set), plan)?;
            }
        },
        condition => plan.conditions.push(condition),
    }
    Ok(())
}

/// The filter for a predicate on one fact column, inside `None` if all rows pass, and the number of
/// codes of the column; `None` if it is not such a predicate.
fn on_one_column(
    lowered: &Lowered,
    predicate: &Arc<dyn PhysicalExpr>,
) -> Result<Option<(Option<ColumnFilter>, u64)>, NotFused> {
    let [column] = columns_of(predicate)[..] else {
        return Ok(None);
    };
    if lowered.owner(column).is_some() {
        return Ok(None);
    }
    let Ok(fact) = fact_column(lowered, column) else {
        return Ok(None);
    };
    let Ok((test, expected_share)) = test_of(predicate, &fact, column) else {
        return Ok(None);
    };
    let filter = test.map(|test| ColumnFilter {
        column,
        test,
        expected_share,
    });
    Ok(Some((filter, fact.coded.code_count())))
}

/// Adds a filter, merged with an earlier one on the same column if both are ranges or both sets.
pub(super) fn push(filters: &mut Vec<ColumnFilter>, new: ColumnFilter, codes: u64) {
    let Some(old) = filters.iter_mut().find(|f| f.column == new.column) else {
        filters.push(new);
        return;
    };
    match (&old.test, &new.test) {
        (Test::Range { low: a, high: b }, Test::Range { low: c, high: d }) => {
            let (low, high) = (*a.max(c), *b.min(d));
            // A range cannot express "no code"; an empty set does.
            let (low, high) = if low <= high { (low, high) } else { (1, 0) };
            old.test = if low <= high {
                Test::Range { low, high }
            } else {
                Test::Set(Arc::new(CodeSet::new(codes)))
            };
            let share = (f64::from(high) - f64::from(low) + 1.0).max(0.0) / codes as f64;
            old.expected_share = share.min(1.0);
        }
        (Test::Set(a), Test::Set(b)) => {
            let mut both = (**a).clone();
            both.retain(b);
            let (test, share) = shape(&Arc::new(both), codes);
            if let Some(test) = test {
                old.test = test;
            }
            old.expected_share = share;
        }
        // A range and a set stay separate tests.
        _ => filters.push(new),
    }
}

/// Adds a filter for the codes of `set`, unless all pass.
fn push_set(filters: &mut Vec<ColumnFilter>, column: usize, set: &Arc<CodeSet>) {
    if let (Some(test), expected_share) = shape(set, set.codes()) {
        let filter = ColumnFilter {
            column,
            test,
            expected_share,
        };
        push(filters, filter, set.codes());
    }
}

/// Adds filters for the `wanted` spans of a column's codes: the range of codes that they are in,
/// whose zones can be left out, and a condition unless all spans of that range are wanted.
fn push_spans(
    lowered: &Lowered,
    spans: &Spans,
    (column, wanted): (usize, Arc<CodeSet>),
    plan: &mut StarPlan,
) -> Result<(), NotFused> {
    let Ok(fact) = fact_column(lowered, spans.column) else {
        plan.conditions.push(in_set(column, wanted));
        return Ok(());
    };
    let codes = fact.coded.code_count();
    match wanted.bounds() {
        // Nothing is left.
        None => push_set(
            &mut plan.filters,
            spans.column,
            &Arc::new(CodeSet::new(codes)),
        ),
        // NULL is among them, which is not beside the others.
        Some((0, _)) if spans.nullable => plan.conditions.push(in_set(column, wanted)),
        Some((low, high)) => {
            let (Some((low_code, _)), Some((_, high_code))) = (spans.codes(low), spans.codes(high))
            else {
                return NotFused::because("spans of a column of codes are of no codes");
            };
            let high_code = u64::from(high_code).min(codes - 1) as u32;
            let share = (f64::from(high_code) - f64::from(low_code) + 1.0) / codes as f64;
            if low_code > 0 || u64::from(high_code) + 1 < codes {
                let filter = ColumnFilter {
                    column: spans.column,
                    test: Test::Range {
                        low: low_code,
                        high: high_code,
                    },
                    expected_share: share.min(1.0),
                };
                push(&mut plan.filters, filter, codes);
            }
            if wanted.len() < u64::from(high - low) + 1 {
                plan.conditions.push(in_set(column, wanted));
            }
        }
    }
    Ok(())
}

/// Compiles joins with dimensions to filters on the foreign keys.
fn lookups(
    lowered: &Lowered,
    dimensions: &[LoadedDimension],
    plan: &mut StarPlan,
) -> Result<(), NotFused> {
    for dimension in &lowered.dimensions {
        let fact = fact_column(lowered, dimension.fact_key)?;
        if fact.coded.code_count() > MAX_KEY_CODES {
            return NotFused::because(format!("the keys in {} span too wide a range", fact.name));
        }
    }
    for (dimension, loaded) in lowered.dimensions.iter().zip(dimensions) {
        push_set(&mut plan.filters, dimension.fact_key, &loaded.keys);
    }
    Ok(())
}

fn groups(
    arithmetic: &Arithmetic<'_>,
    aggregation: &Aggregation,
    dimensions: &[LoadedDimension],
    plan: &mut StarPlan,
) -> Result<Vec<GroupValues>, NotFused> {
    let lowered = arithmetic.lowered;
    let mut found: Vec<Option<GroupValues>> = Vec::new();
    let mut by_dimension: Vec<Vec<(usize, Arc<dyn PhysicalExpr>)>> =
        vec![Vec::new(); lowered.dimensions.len()];
    for (index, group) in aggregation.groups.iter().enumerate() {
        let expr = lowered.over_universe(group)?;
        not_volatile(&expr)?;
        let columns = columns_of(&expr);
        let owners: Vec<Option<usize>> = columns.iter().map(|c| lowered.owner(*c)).collect();
        match owners[..] {
            [Some(first), ref rest @ ..] if rest.iter().all(|o| *o == Some(first)) => {
                by_dimension[first].push((index, over_dimension(lowered, first, &expr)?));
                found.push(None);
            }
            [None] => found.push(Some(fact_group(arithmetic, columns[0], &expr, plan)?)),
            _ => return NotFused::because(format!("the group {expr} is not of one table")),
        }
    }
    for (dimension, exprs) in by_dimension.into_iter().enumerate() {
        if exprs.is_empty() {
            continue;
        }
        let column = lowered.dimensions[dimension].fact_key;
        let part = plan.groups.len();
        // A dry run: there are no rows to derive the map from.
        let Some(loaded) = dimensions.get(dimension) else {
            plan.groups.push(GroupPart {
                column,
                map: GroupMap::Code,
                count: 1,
            });
            continue;
        };
        // All groups of one dimension become one part, whose combinations of values are numbered
        // together.
        let (indices, exprs): (Vec<usize>, Vec<_>) = exprs.into_iter().unzip();
        let (map, values) = loaded.groups(&exprs)?;
        let count = values.first().map_or(0, |v| v.len()).max(1) as u64;
        plan.groups.push(GroupPart { column, map, count });
        for (index, values) in indices.into_iter().zip(values) {
            found[index] = Some(GroupValues::Listed { part, values });
        }
    }
    Ok(found.into_iter().flatten().collect())
}

/// Compiles a group expression over one fact column.
fn fact_group(
    arithmetic: &Arithmetic<'_>,
    column: usize,
    expr: &Arc<dyn PhysicalExpr>,
    plan: &mut StarPlan,
) -> Result<GroupValues, NotFused> {
    let part = plan.groups.len();
    let has_codes = !placed_column(arithmetic.lowered, column).has_words();
    if has_codes && expr.downcast_ref::<Column>().is_some() {
        // A plain column needs no list of values: its value is computed from the code.
        let fact = fact_column(arithmetic.lowered, column)?;
        plan.groups.push(GroupPart {
            column,
            map: GroupMap::Code,
            count: fact.coded.code_count(),
        });
        return Ok(match fact.coded.listed()? {
            Some(values) => GroupValues::Listed { part, values },
            None => GroupValues::Codes { part, column },
        });
    }
    let listing = arithmetic.listing(expr, column)?;
    let results = over_values(expr, column, listing.values)?;
    let mut found = distinct(std::slice::from_ref(&results))?;
    let count = found.count.max(1) as u64;
    plan.groups.push(GroupPart {
        column: listing.column,
        map: GroupMap::new(&found.ordinals, count),
        count,
    });
    let values = found.values.swap_remove(0);
    Ok(GroupValues::Listed { part, values })
}
