//! Checks that DataFusion does not make, and clearer texts for some of its errors.
//!
//! Settings without an effect here, decimals beyond their precision, and joins that may have lost
//! rows are refused instead of passed over silently.

use super::error::SqlError;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, make_array};
use arrow::datatypes::{DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type};
use arrow::datatypes::{DecimalType, i256};
use datafusion::common::JoinType;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use std::sync::Arc;

/// Prefixes of DataFusion settings that have no effect here, with the reason.
const WITHOUT_EFFECT: [(&str, &str); 24] = [
    ("catalog.create_default_catalog_and_schema", ONE_SCHEMA),
    ("catalog.default_", ONE_SCHEMA),
    ("catalog.", OWN_READERS),
    ("execution.parquet.", OWN_READERS),
    ("execution.listing_table_", OWN_READERS),
    ("execution.collect_statistics", OWN_READERS),
    ("execution.meta_fetch_concurrency", OWN_READERS),
    ("execution.split_file_groups_by_statistics", OWN_READERS),
    ("execution.keep_partition_by_columns", OWN_READERS),
    ("execution.enable_file_stream_work_stealing", OWN_READERS),
    ("execution.minimum_parallel_output_files", OWN_WRITERS),
    ("execution.soft_max_rows_per_output_file", OWN_WRITERS),
    (
        "execution.max_buffered_batches_per_output_file",
        OWN_WRITERS,
    ),
    ("execution.objectstore_writer_buffer_size", OWN_WRITERS),
    ("optimizer.repartition_file_", OWN_READERS),
    ("optimizer.preserve_file_partitions", OWN_READERS),
    ("optimizer.expand_views_at_output", OWN_WRITERS),
    (
        "optimizer.skip_failed_rules",
        "a rule that fails is an error",
    ),
    ("runtime.metadata_cache_limit", OWN_READERS),
    ("runtime.list_files_cache", OWN_READERS),
    ("runtime.file_statistics_cache", OWN_READERS),
    ("format.", OWN_WRITERS),
    ("spark.", "there are no functions of Spark"),
    ("sql_parser.enable_options_value_normalization", OWN_READERS),
];

const ONE_SCHEMA: &str = "names without a schema are those of public";
const OWN_READERS: &str = "files are loaded once, by Tierloom's own readers";
const OWN_WRITERS: &str = "rows are written by Tierloom's own writers";

/// Refuses `SET datafusion.*` for a setting without effect.
pub(super) fn setting(name: &str) -> Result<(), SqlError> {
    let name = name.to_lowercase();
    let Some(own) = name.strip_prefix("datafusion.") else {
        return Ok(());
    };
    // The exception to the prefix "catalog.".
    if own == "catalog.information_schema" {
        return Ok(());
    }
    match WITHOUT_EFFECT
        .iter()
        .find(|(begin, _)| own.starts_with(begin))
    {
        Some((_, why)) => Err(SqlError::input(format!("{name} has no effect here: {why}"))),
        None => Ok(()),
    }
}

/// Refuses decimals with more digits than their type allows.
///
/// DataFusion does not check the range of sums.
pub(super) fn digits(batch: &RecordBatch) -> Result<(), SqlError> {
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        if has_decimals(field.data_type()) && !fits(column) {
            return Err(SqlError::failed(format!(
                "a value of column {} has more digits than {} can have; take smaller parts, or \
                 CAST to DOUBLE before adding or multiplying",
                field.name(),
                field.data_type()
            )));
        }
    }
    Ok(())
}

fn has_decimals(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => has_decimals(values),
        DataType::List(f)
        | DataType::LargeList(f)
        | DataType::ListView(f)
        | DataType::LargeListView(f)
        | DataType::FixedSizeList(f, _)
        | DataType::Map(f, _) => has_decimals(f.data_type()),
        DataType::Struct(fields) => fields.iter().any(|f| has_decimals(f.data_type())),
        other => other.is_decimal(),
    }
}

/// Whether all decimals of an array are within their precision.
fn fits(array: &ArrayRef) -> bool {
    fn within<T: DecimalType>(array: &ArrayRef, one: T::Native, ten: T::Native, digits: u8) -> bool
    where
        T::Native: arrow::datatypes::ArrowNativeTypeOp,
    {
        use arrow::datatypes::ArrowNativeTypeOp;
        // If 10^digits overflows the native type, every value of that type is within the precision.
        let bound = (0..digits).try_fold(one, |power, _| power.mul_checked(ten).ok());
        let Some(bound) = bound else { return true };
        let values = array.as_primitive::<T>();
        let fits = |v: T::Native| v.is_lt(bound) && v.is_gt(T::Native::ZERO.sub_wrapping(bound));
        values.iter().flatten().all(fits)
    }
    match array.data_type() {
        DataType::Decimal32(p, _) => within::<Decimal32Type>(array, 1, 10, *p),
        DataType::Decimal64(p, _) => within::<Decimal64Type>(array, 1, 10, *p),
        DataType::Decimal128(p, _) => within::<Decimal128Type>(array, 1, 10, *p),
        DataType::Decimal256(p, _) => {
            within::<Decimal256Type>(array, i256::ONE, i256::from_i128(10), *p)
        }
        _ => {
            let data = array.to_data();
            let mut children = data.child_data().iter();
            children.all(|child| fits(&make_array(child.clone())))
        }
    }
}

/// Refuses the result of a plan in which a join may have lost rows.
///
/// DataFusion's nested-loop joins that preserve rows of the right side lose some when they spill.
pub(super) fn joins(plan: &Arc<dyn ExecutionPlan>) -> Result<(), SqlError> {
    use JoinType::{Full, Right, RightAnti, RightMark, RightSemi};
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>()
        && matches!(
            join.join_type(),
            Full | Right | RightAnti | RightMark | RightSemi
        )
        && join
            .metrics()
            .and_then(|m| m.spill_count())
            .is_some_and(|count| count > 0)
    {
        return Err(SqlError::failed(
            "a join without an equality had to spill to disk, where DataFusion loses rows; raise \
             datafusion.runtime.memory_limit",
        ));
    }
    plan.children().into_iter().try_for_each(joins)
}

/// Rewrites a planning error about argument types of a function, with column, type and remedy.
///
/// `type_of` gives the type of a column by name.
pub(super) fn explained(
    error: SqlError,
    statement: &str,
    type_of: &dyn Fn(&str) -> Option<DataType>,
) -> SqlError {
    let SqlError::Input { place, message } = error else {
        return error;
    };
    let function = message
        .split_once("Function '")
        .and_then(|(_, rest)| rest.split_once('\''))
        .filter(|(_, rest)| rest.contains("failed to match any signature"))
        .map(|(name, _)| name.to_owned());
    let Some(function) = function else {
        return SqlError::Input { place, message };
    };
    let calls = arguments_of(&function, statement);
    let named = |argument: &String| {
        // Arguments may be qualified; columns are looked up by their bare name.
        let column = argument.rsplit('.').next().unwrap_or(argument);
        let known = type_of(column.trim_matches('"'));
        known
            .filter(|t| !t.is_numeric())
            .map(|t| (argument.clone(), t))
    };
    let text = match calls.iter().find_map(named) {
        Some((column, data_type)) if data_type.is_string() || is_words(&data_type) => format!(
            "{function} does not take column {column}, which is text ({data_type}); convert it, \
             as in {function}(CAST({column} AS DOUBLE)). If its CSV file has words for missing \
             values, load it with --csv-null WORD"
        ),
        Some((column, data_type)) => format!(
            "{function} does not take column {column}, which has type {data_type}; convert it \
             with CAST({column} AS type)"
        ),
        None => format!(
            "{function} does not take arguments of these types ({}); convert them with CAST(... \
             AS type)",
            calls.join("; ")
        ),
    };
    SqlError::Input {
        place,
        message: text,
    }
}

fn is_words(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(_, values) if values.is_string())
}

/// The argument texts of all calls of `function`, without duplicates.
fn arguments_of(function: &str, statement: &str) -> Vec<String> {
    let lower = statement.to_ascii_lowercase();
    let mut found: Vec<String> = Vec::new();
    for (at, _) in lower.match_indices(&format!("{function}(")) {
        let rest = &statement[at + function.len() + 1..];
        let mut depth = 1;
        let end = rest.find(|c: char| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        });
        let text = rest[..end.unwrap_or(rest.len())].trim();
        let text = match text.split_at_checked("distinct ".len()) {
            Some((first, rest)) if first.eq_ignore_ascii_case("distinct ") => rest.to_owned(),
            _ => text.to_owned(),
        };
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Decimal128Array;

    fn decimals(values: Vec<i128>, precision: u8, scale: i8) -> RecordBatch {
        let array = Decimal128Array::from(values);
        let array = array.with_precision_and_scale(precision, scale).unwrap();
        RecordBatch::try_from_iter([("d", Arc::new(array) as _)]).unwrap()
    }

    #[test]
    fn decimals_that_leave_their_type_are_refused_and_all_others_are_not() {
        let most = 10i128.pow(38) - 1;
        digits(&decimals(vec![most, -most, 0], 38, 4)).unwrap();
        digits(&decimals(vec![-99, 99], 2, -3)).unwrap();
        for (value, precision, scale) in [
            (most + 1, 38, 4),
            (-most - 1, 38, 0),
            (100, 2, -3),
            (i128::MIN, 38, 10),
        ] {
            let refused = digits(&decimals(vec![0, value], precision, scale));
            let message = refused.unwrap_err().to_string();
            assert!(message.contains("column d"), "{message}");
        }
    }

    #[test]
    fn settings_without_effect_are_refused_and_those_with_one_are_not() {
        for none in [
            "datafusion.execution.parquet.coerce_int96",
            "datafusion.execution.listing_table_ignore_subdirectory",
            "DATAFUSION.catalog.default_schema",
            "datafusion.format.null",
        ] {
            let message = setting(none).unwrap_err().to_string();
            assert!(message.contains("no effect"), "{message}");
        }
        for some in [
            "datafusion.catalog.information_schema",
            "datafusion.optimizer.prefer_hash_join",
            "datafusion.execution.time_zone",
            "datafusion.runtime.memory_limit",
            "datafusion.sql_parser.dialect",
        ] {
            setting(some).unwrap();
        }
    }

    #[test]
    fn a_function_that_does_not_take_a_column_names_it_its_type_and_a_way_out() {
        let error = SqlError::input(
            "Internal error: Function 'sum' failed to match any signature, errors: Error during \
             planning: ...",
        );
        let of = |name: &str| match name {
            "n" => Some(DataType::Int64),
            "v" => Some(DataType::Utf8),
            _ => None,
        };
        let shown = explained(error, "select sum(n), SUM(t.v) from t", &of).to_string();
        for part in ["t.v", "Utf8", "CAST(t.v AS DOUBLE)", "--csv-null"] {
            assert!(shown.contains(part), "{shown}");
        }
        assert!(!shown.contains("Internal"), "{shown}");
    }
}
