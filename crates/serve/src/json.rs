//! `json_build_object`, which clients put what they ask for into.

use arrow::array::{Array, ArrayRef, StringBuilder};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use serde_json::{Map, Number, Value};
use std::sync::Arc;

/// `json_build_object(name, value, ...)`: an object as text.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct JsonObject(Signature);

impl JsonObject {
    pub fn new() -> Self {
        let any = vec![TypeSignature::VariadicAny, TypeSignature::Nullary];
        JsonObject(Signature::one_of(any, Volatility::Stable))
    }
}

impl ScalarUDFImpl for JsonObject {
    fn name(&self) -> &str {
        "json_build_object"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let values = args.args.into_iter().map(|value| value.into_array(rows));
        let values: Vec<ArrayRef> = values.collect::<Result<_>>()?;
        if !values.len().is_multiple_of(2) {
            return exec_err!("json_build_object takes names and values in turn");
        }
        let options = FormatOptions::default();
        let shown: Vec<ArrayFormatter<'_>> = values
            .iter()
            .map(|values| ArrayFormatter::try_new(values, &options))
            .collect::<std::result::Result<_, _>>()?;
        let mut objects = StringBuilder::new();
        for row in 0..rows {
            let mut object = Map::new();
            for (pair, values) in shown.chunks(2).zip(values.chunks(2)) {
                if values[0].is_null(row) {
                    return exec_err!("json_build_object: a name is NULL");
                }
                let name = pair[0].value(row).to_string();
                object.insert(name, json(&pair[1], &values[1], row));
            }
            objects.append_value(Value::Object(object).to_string());
        }
        Ok(ColumnarValue::Array(Arc::new(objects.finish())))
    }
}

fn json(shown: &ArrayFormatter<'_>, values: &ArrayRef, row: usize) -> Value {
    if values.is_null(row) {
        return Value::Null;
    }
    let text = shown.value(row).to_string();
    match values.data_type() {
        DataType::Boolean => Value::Bool(text == "true"),
        number if number.is_numeric() => match text.parse::<Number>() {
            Ok(number) => Value::Number(number),
            Err(_) => Value::String(text),
        },
        _ => Value::String(text),
    }
}
