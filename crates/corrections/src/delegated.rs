//! Methods of an aggregate function that are those of the function it takes the place of.

/// Implements the methods of `AggregateUDFImpl` that no correction changes by calling them on
/// `$plain`, an expression of `self`.
macro_rules! as_in {
    ($self:ident, $plain:expr) => {
        fn name(&$self) -> &str {
            $plain.name()
        }

        fn signature(&$self) -> &datafusion::logical_expr::Signature {
            $plain.signature()
        }

        fn return_type(
            &$self,
            arguments: &[arrow::datatypes::DataType],
        ) -> datafusion::common::Result<arrow::datatypes::DataType> {
            $plain.return_type(arguments)
        }

        fn state_fields(
            &$self,
            args: datafusion::logical_expr::function::StateFieldsArgs,
        ) -> datafusion::common::Result<Vec<arrow::datatypes::FieldRef>> {
            $plain.state_fields(args)
        }

        fn groups_accumulator_supported(
            &$self,
            args: datafusion::logical_expr::function::AccumulatorArgs,
        ) -> bool {
            $plain.groups_accumulator_supported(args)
        }

        fn order_sensitivity(
            &$self,
        ) -> datafusion::logical_expr::utils::AggregateOrderSensitivity {
            $plain.order_sensitivity()
        }

        fn documentation(&$self) -> Option<&datafusion::logical_expr::Documentation> {
            $plain.documentation()
        }

        // Not `set_monotonicity`: DataFusion 55 concludes from it that the windows of a frame that
        // ends with the partition are in order with NULL first, and they end with NULL.

        fn value_from_stats(
            &$self,
            args: &datafusion::logical_expr::StatisticsArgs,
        ) -> Option<datafusion::common::ScalarValue> {
            $plain.value_from_stats(args)
        }
    };
}

pub(super) use as_in;
