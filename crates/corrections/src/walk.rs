//! Walks over plans and expressions whose closures are behind pointers.
//!
//! The methods of `TreeNode` are compiled anew for every closure, which for all rules together was
//! more code than the rules. These are compiled once for each kind of tree.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;

/// What is done with an operator or expression.
type Change<'f, T> = &'f mut dyn FnMut(T) -> Result<Transformed<T>>;
/// What is looked for at an operator or expression, and where to go on.
type Look<'f, 'n, T> = &'f mut dyn FnMut(&'n T) -> Result<TreeNodeRecursion>;

/// The methods of `TreeNode` with other names.
pub(crate) trait Walk: TreeNode {
    /// `transform_up`.
    fn up(self, change: Change<'_, Self>) -> Result<Transformed<Self>> {
        self.transform_up(change)
    }

    /// `transform_down`.
    fn down(self, change: Change<'_, Self>) -> Result<Transformed<Self>> {
        self.transform_down(change)
    }

    /// `exists`.
    fn has(&self, such: &mut dyn FnMut(&Self) -> Result<bool>) -> Result<bool> {
        self.exists(such)
    }

    /// `apply`.
    fn each<'n>(&'n self, look: Look<'_, 'n, Self>) -> Result<TreeNodeRecursion> {
        self.apply(look)
    }
}

impl<T: TreeNode> Walk for T {}

/// The methods of `LogicalPlan` that go into subqueries, with other names.
pub(crate) trait WalkAll: Sized {
    /// `transform_up_with_subqueries`.
    fn up_all(self, change: Change<'_, Self>) -> Result<Transformed<Self>>;

    /// `transform_down_with_subqueries`.
    fn down_all(self, change: Change<'_, Self>) -> Result<Transformed<Self>>;

    /// `apply_with_subqueries`.
    fn each_of_all(
        &self,
        look: &mut dyn FnMut(&Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion>;
}

impl WalkAll for LogicalPlan {
    fn up_all(self, change: Change<'_, Self>) -> Result<Transformed<Self>> {
        self.transform_up_with_subqueries(change)
    }

    fn down_all(self, change: Change<'_, Self>) -> Result<Transformed<Self>> {
        self.transform_down_with_subqueries(change)
    }

    fn each_of_all(
        &self,
        look: &mut dyn FnMut(&Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.apply_with_subqueries(look)
    }
}
