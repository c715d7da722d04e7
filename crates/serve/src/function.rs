//! Functions of the engine that are closures over whole columns.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A function whose values `give` computes from its arguments and the number of rows; constants
/// come as columns too.
pub(crate) fn of_rows(
    name: &'static str,
    signature: Signature,
    gives: DataType,
    give: impl Fn(&[ArrayRef], usize) -> Result<ArrayRef> + Send + Sync + 'static,
) -> ScalarUDF {
    ScalarUDF::from(OfRows {
        name,
        signature,
        gives,
        give: Arc::new(give),
    })
}

struct OfRows {
    name: &'static str,
    signature: Signature,
    gives: DataType,
    give: Arc<Give>,
}

type Give = dyn Fn(&[ArrayRef], usize) -> Result<ArrayRef> + Send + Sync;

impl fmt::Debug for OfRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for OfRows {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.give, &other.give)
    }
}

impl Eq for OfRows {}

impl Hash for OfRows {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for OfRows {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.gives.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let values = args.args.into_iter().map(|value| value.into_array(rows));
        let values: Vec<ArrayRef> = values.collect::<Result<_>>()?;
        Ok(ColumnarValue::Array((self.give)(&values, rows)?))
    }
}
