//! Walks over plans and expressions whose closures are behind pointers.
//!
//! The methods of `TreeNode` are compiled anew for every closure, which for all rules together was
//! more code than the rules. These are compiled once for each kind of tree.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// What is done with an operator or expression.
type Change<'f, T> = &'f mut dyn FnMut(T) -> Result<Transformed<T>>;
/// What is looked for at an operator or expression, and where to go on.
type Look<'f, 'n, T> = &'f mut dyn FnMut(&'n T) -> Result<TreeNodeRecursion>;

/// The methods of `TreeNode` with other names.
pub trait Walk: TreeNode {
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

    /// `map_children`.
    fn change_children(self, change: Change<'_, Self>) -> Result<Transformed<Self>> {
        self.map_children(change)
    }
}

impl<T: TreeNode> Walk for T {}

/// The methods of `LogicalPlan` that go into subqueries and expressions, with other names.
pub trait WalkAll: Sized {
    /// `transform_up_with_subqueries`.
    fn up_all(self, change: Change<'_, Self>) -> Result<Transformed<Self>>;

    /// `transform_down_with_subqueries`.
    fn down_all(self, change: Change<'_, Self>) -> Result<Transformed<Self>>;

    /// `apply_with_subqueries`.
    fn each_of_all(
        &self,
        look: &mut dyn FnMut(&Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion>;

    /// `map_subqueries`.
    fn change_subqueries(self, change: Change<'_, Self>) -> Result<Transformed<Self>>;

    /// `map_expressions`.
    fn change_expressions(self, change: Change<'_, Expr>) -> Result<Transformed<Self>>;

    /// `apply_expressions`.
    fn each_expression(
        &self,
        look: &mut dyn FnMut(&Expr) -> Result<TreeNodeRecursion>,
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

    fn change_subqueries(self, change: Change<'_, Self>) -> Result<Transformed<Self>> {
        self.map_subqueries(change)
    }

    fn change_expressions(self, change: Change<'_, Expr>) -> Result<Transformed<Self>> {
        self.map_expressions(change)
    }

    fn each_expression(
        &self,
        look: &mut dyn FnMut(&Expr) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.apply_expressions(look)
    }
}
