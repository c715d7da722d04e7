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
