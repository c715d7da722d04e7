//! Methods that operators have in common.
//!
//! DataFusion's trait still asks each operator for `with_new_children`, the deprecated name of
//! `replace_children`, and has no default for what an operator without inputs must answer, or for
//! one that is planned as the operator that it replaces.

/// The method `with_new_children` of an operator, which is `replace_children`.
#[macro_export]
macro_rules! with_new_children {
    () => {
        fn with_new_children(
            self: ::std::sync::Arc<Self>,
            children: ::std::vec::Vec<
                ::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>,
            >,
        ) -> ::datafusion::common::Result<
            ::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>,
        > {
            use ::datafusion::physical_plan::execution_plan::{
                ChildrenPropertiesMode, ReplaceChildrenOptions,
            };
            let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            self.replace_children(children, recompute)
        }
    };
}

/// The methods about inputs and expressions of an operator that has none.
#[macro_export]
macro_rules! without_inputs {
    () => {
        fn children(
            &self,
        ) -> ::std::vec::Vec<&::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            ::std::vec::Vec::new()
        }

        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(
                &::std::sync::Arc<dyn ::datafusion::physical_plan::PhysicalExpr>,
            ) -> ::datafusion::common::Result<
                ::datafusion::common::tree_node::TreeNodeRecursion,
            >,
        ) -> ::datafusion::common::Result<::datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(::datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }

        fn replace_children(
            self: ::std::sync::Arc<Self>,
            _: ::std::vec::Vec<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>>,
            _: ::datafusion::physical_plan::execution_plan::ReplaceChildrenOptions,
        ) -> ::datafusion::common::Result<
            ::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>,
        > {
            Ok(self)
        }

        $crate::with_new_children!();
    };
}

/// The methods about inputs, expressions and properties of an operator that is planned as the one
/// in its field `$replaced`.
#[macro_export]
macro_rules! planned_as {
    ($replaced:ident) => {
        fn properties(&self) -> &::std::sync::Arc<::datafusion::physical_plan::PlanProperties> {
            self.$replaced.properties()
        }

        fn required_input_distribution(
            &self,
        ) -> ::std::vec::Vec<::datafusion::physical_plan::Distribution> {
            self.input_distribution_requirements().into_per_child()
        }

        fn input_distribution_requirements(
            &self,
        ) -> ::datafusion::physical_plan::InputDistributionRequirements {
            self.$replaced.input_distribution_requirements()
        }

        fn maintains_input_order(&self) -> ::std::vec::Vec<bool> {
            self.$replaced.maintains_input_order()
        }

        fn children(
            &self,
        ) -> ::std::vec::Vec<&::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            self.$replaced.children()
        }

        fn apply_expressions(
            &self,
            f: &mut dyn FnMut(
                &::std::sync::Arc<dyn ::datafusion::physical_plan::PhysicalExpr>,
            ) -> ::datafusion::common::Result<
                ::datafusion::common::tree_node::TreeNodeRecursion,
            >,
        ) -> ::datafusion::common::Result<::datafusion::common::tree_node::TreeNodeRecursion> {
            self.$replaced.apply_expressions(f)
        }
    };
}

/// The estimates of an operator that are those of the operator in its field `$replaced`.
#[macro_export]
macro_rules! estimated_as {
    ($replaced:ident) => {
        fn child_stats_requests(
            &self,
            partition: ::std::option::Option<usize>,
        ) -> ::std::vec::Vec<::datafusion::physical_plan::ChildStats> {
            self.$replaced.child_stats_requests(partition)
        }

        fn statistics_from_inputs(
            &self,
            input_stats: &[::std::sync::Arc<::datafusion::common::Statistics>],
            args: &::datafusion::physical_plan::StatisticsArgs,
        ) -> ::datafusion::common::Result<::std::sync::Arc<::datafusion::common::Statistics>> {
            self.$replaced.statistics_from_inputs(input_stats, args)
        }
    };
}

/// The methods about the input of an operator that has one, in its field `$input`, and works on its
/// partitions as they are.
///
/// The method `$over` makes the same operator on top of another input.
#[macro_export]
macro_rules! with_one_input {
    ($input:ident, $over:ident) => {
        fn benefits_from_input_partitioning(&self) -> ::std::vec::Vec<bool> {
            vec![false]
        }

        fn children(
            &self,
        ) -> ::std::vec::Vec<&::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            vec![&self.$input]
        }

        fn replace_children(
            self: ::std::sync::Arc<Self>,
            mut children: ::std::vec::Vec<
                ::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>,
            >,
            _: ::datafusion::physical_plan::execution_plan::ReplaceChildrenOptions,
        ) -> ::datafusion::common::Result<
            ::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>,
        > {
            match (children.pop(), children.is_empty()) {
                (Some(input), true) => Ok(self.$over(input)),
                _ => ::datafusion::common::internal_err!("{} has one input", self.name()),
            }
        }

        $crate::with_new_children!();

        fn child_stats_requests(
            &self,
            partition: ::std::option::Option<usize>,
        ) -> ::std::vec::Vec<::datafusion::physical_plan::ChildStats> {
            vec![::datafusion::physical_plan::ChildStats::At(partition)]
        }
    };
}
