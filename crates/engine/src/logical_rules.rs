//! The rules of the logical plan, in their order.

use crate::anti_joins::AntiJoinsByNulls;
use crate::calendar::CalendarFunctions;
use crate::constant_keys::ConstantKeys;
use crate::distinct_lists::DistinctLists;
use crate::join_order::{EarlyCounts, JoinOrder, JoinOrderOptions};
use crate::key_types::KeyTypes;
use crate::outer_joins::OuterJoinsByKeys;
use crate::semi_joins::SemiJoinsDown;
use crate::several_distinct::SeveralDistinct;
use crate::shifted_sums::ShiftedSums;
use crate::star_order::StarJoinOrder;
use crate::whole_windows::WholeWindows;
use datafusion::optimizer::OptimizerRule;
use std::sync::Arc;
use tierloom_corrections::{PlainAntiJoins, logical_rules};

/// DataFusion's logical rules plus ours.
///
/// [`PlainAntiJoins`] comes after the rule that makes joins of subqueries, because that one creates
/// the NULL-aware joins; with Tierloom's own rules (`tuned`), [`JoinOrder`] and [`StarJoinOrder`]
/// after filters were pushed down to the tables, because they sample them there.
pub(crate) fn rules(tuned: Option<&JoinOrderOptions>) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = logical_rules();
    let mut after = |name: &str, rule: Arc<dyn OptimizerRule + Send + Sync>| {
        let at = rules.iter().position(|r| r.name() == name);
        rules.insert(at.map_or(rules.len(), |i| i + 1), rule);
    };
    after("decorrelate_predicate_subquery", Arc::new(PlainAntiJoins));
    if let Some(join_order) = tuned {
        after(OuterJoinsByKeys::AFTER, Arc::new(OuterJoinsByKeys));
        after("push_down_filter", Arc::new(StarJoinOrder));
        let order = JoinOrder::new(join_order.clone());
        after("push_down_filter", Arc::new(order));
        // Before that, because it looks at the tables themselves.
        let counts = EarlyCounts::new(join_order.clone());
        after("push_down_filter", Arc::new(counts));
        after(ShiftedSums::AFTER, Arc::new(ShiftedSums));
        after(ConstantKeys::AFTER, Arc::new(ConstantKeys));
        after(AntiJoinsByNulls::AFTER, Arc::new(AntiJoinsByNulls));
        after(SemiJoinsDown::AFTER, Arc::new(SemiJoinsDown));
        after(WholeWindows::AFTER, Arc::new(WholeWindows));
        after(DistinctLists::AFTER, Arc::new(DistinctLists));
        after(SeveralDistinct::AFTER, Arc::new(SeveralDistinct));
        // After the order of joins, which looks at the keys as they were written.
        rules.push(Arc::new(KeyTypes));
        // Last, so that every other rule knows the functions.
        rules.push(Arc::new(CalendarFunctions::default()));
    }
    rules
}
