//! Scans that are planned without waiting.

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use std::pin::Pin;
use std::sync::Arc;

/// The plan of a scan, which a catalog may have to wait for.
pub type PlannedScan<'a> =
    Pin<Box<dyn Future<Output = Result<Arc<dyn ExecutionPlan>>> + Send + 'a>>;

/// Writes `TableProvider::scan` for a table with a method
/// `plan_scan(&self, &dyn Session, Option<&Vec<usize>>, Option<usize>)`, which ignores filters.
///
/// An `async fn` would hold the filters, so the compiler would have to find out that expressions
/// may move between threads, and it walks through all of DataFusion's plans for that: in each such
/// table again, which was two thirds of the time to check this crate.
#[macro_export]
macro_rules! scan_at_once {
    () => {
        fn scan<'life0, 'life1, 'life2, 'life3, 'async_trait>(
            &'life0 self,
            state: &'life1 dyn ::datafusion::catalog::Session,
            projection: Option<&'life2 Vec<usize>>,
            _: &'life3 [::datafusion::logical_expr::Expr],
            limit: Option<usize>,
        ) -> $crate::PlannedScan<'async_trait>
        where
            'life0: 'async_trait,
            'life1: 'async_trait,
            'life2: 'async_trait,
            'life3: 'async_trait,
            Self: 'async_trait,
        {
            let planned = self.plan_scan(state, projection, limit);
            Box::pin(::std::future::ready(planned))
        }
    };
}
