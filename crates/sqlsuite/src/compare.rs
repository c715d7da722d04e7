//! Compares result rows with the rows that a test file expects.

use sqllogictest::Normalizer;

/// The mark that matches any text in an expected answer.
const IGNORED: &str = "<slt:ignore>";

/// A line as it is compared: without blanks at its end.
#[expect(clippy::ptr_arg, reason = "the runner's own signature")]
pub fn trimmed(line: &String) -> String {
    line.trim_end().to_owned()
}

/// Whether `rows`, each joined to a line by blanks, equal the lines of `expected`, or match them if
/// they contain marks.
pub fn same_rows(normalise: Normalizer, rows: &[Vec<String>], expected: &[String]) -> bool {
    let rows: Vec<String> = rows.iter().map(|row| trimmed(&row.join(" "))).collect();
    let expected: Vec<String> = expected.iter().map(normalise).collect();
    if expected.iter().any(|line| line.contains(IGNORED)) {
        return matches_parts(&rows.join("\n"), &expected.join("\n"));
    }
    rows == expected
}

/// Whether the parts of `expected` between the marks occur in `text` in this order, with the first
/// part at the beginning.
fn matches_parts(text: &str, expected: &str) -> bool {
    let mut rest = text;
    for (index, part) in expected.split(IGNORED).enumerate() {
        match rest.find(part) {
            Some(0) => rest = &rest[part.len()..],
            Some(at) if index > 0 => rest = &rest[at + part.len()..],
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(rows: &[&str], expected: &[&str]) -> bool {
        let rows: Vec<Vec<String>> = rows.iter().map(|row| vec![(*row).to_owned()]).collect();
        let expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
        same_rows(trimmed, &rows, &expected)
    }

    #[test]
    fn rows_are_compared_line_by_line_without_blanks_at_their_ends() {
        assert!(same(&["a b  ", "c"], &["a b", "c "]));
        assert!(!same(&["a", "b"], &["b", "a"]));
        assert!(!same(&["a"], &["a", "b"]));
        assert!(!same(&["a  b"], &["a b"]));
    }

    #[test]
    fn marks_stand_for_any_text_but_the_beginning_must_be_there() {
        assert!(same(&["took 15 ms", "ok"], &["took <slt:ignore> ms", "ok"]));
        assert!(!same(&["it took 15 ms"], &["took <slt:ignore> ms"]));
        assert!(same(&["15 ms"], &["<slt:ignore> ms"]));
        assert!(!same(&["15 s"], &["<slt:ignore> ms"]));
    }
}
