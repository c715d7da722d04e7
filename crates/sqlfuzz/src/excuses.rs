//! Errors that are no fault of the engine that gives them, or not of the statement.

use crate::engines::TOO_LONG;

/// Whether an error of plain DataFusion says nothing of Tierloom, which has an answer: behind a
/// join without rows an overflow may never happen, and the rest are limits or faults of
/// DataFusion's own operators.
pub(crate) fn is_of_plain_alone(message: &str) -> bool {
    overflows(message)
        || message == TOO_LONG
        || message.contains("panicked")
        || is_not_implemented(message)
        || has_full_dictionary(message)
        || maps_a_dictionary(message)
        || loses_an_order(message)
        || names_a_sum_twice(message)
        || lists_a_dictionary(message)
        || cannot_cast(message)
}

/// Whether text is not of the type that it is compared with. SQL does not say for which rows an
/// expression is evaluated.
pub(crate) fn cannot_cast(message: &str) -> bool {
    message.contains("Cast error: Cannot cast string")
}

/// Whether plain DataFusion split a sum of `x + 1` into that of `x`, which the query has too. The
/// session's arithmetic, which is checked, is not split.
fn names_a_sum_twice(message: &str) -> bool {
    message.contains("Schema contains duplicate unqualified field name")
}

/// Whether plain DataFusion took the argument of `string_agg(DISTINCT x, ',' ORDER BY x)` for
/// another expression than the key, which it does not make plain text.
fn lists_a_dictionary(message: &str) -> bool {
    message.contains("ORDER BY expressions must appear in argument list")
}

/// Whether the session refuses a value beyond its type, a sum or a decimal that is returned or
/// stored, with which plain DataFusion goes on.
pub(crate) fn leaves_range(message: &str) -> bool {
    let words = ["a sum leaves the range of its type", "has more digits than"];
    words.iter().any(|words| message.contains(words))
}

/// Whether arithmetic left its type. SQL does not say for which rows an expression is evaluated.
pub(crate) fn overflows(message: &str) -> bool {
    message.contains("verflow")
}

/// Whether a function of DataFusion does not take a type.
pub(crate) fn is_not_implemented(message: &str) -> bool {
    let words = [
        "This feature is not implemented",
        "Unsupported data type Dictionary",
    ];
    words.iter().any(|words| message.contains(words))
}

/// Whether plain DataFusion ran out of the small keys of dictionaries that it concatenates. Placed
/// columns have codes of their own.
pub(crate) fn has_full_dictionary(message: &str) -> bool {
    message.contains("Dictionary key bigger than the key type")
}

/// Whether plain DataFusion made a table of an array out of dictionary keys, for which it has none.
/// Scans of placed tables take no filters from joins that make it do so.
pub(crate) fn maps_a_dictionary(message: &str) -> bool {
    message.contains("Unsupported type for ArrayMap: Dictionary")
}

/// Whether DataFusion planned a window over equal keys and then found their order missing: a known
/// fault of its planner, see docs/sql.md, which strikes one of two plans of a statement.
pub(crate) fn loses_an_order(message: &str) -> bool {
    let words = [
        "SanityCheckPlan",
        "Expects PARTITION BY expression to be ordered",
    ];
    words.iter().any(|words| message.contains(words))
}
