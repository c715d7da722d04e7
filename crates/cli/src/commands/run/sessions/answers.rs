//! Answers of one query in several runs.

/// Whether two answers, as CSV, are equal but for the last digits of floats, whose sums depend on
/// the order of additions, and for the order of rows: rows that ORDER BY takes for equal come in
/// any order (query 11 of TPC-H has such rows from scale factor 10 on).
pub(super) fn equal(one: &str, other: &str) -> bool {
    let sorted = |text: &str| {
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    in_order(one, other) || in_order(&sorted(one), &sorted(other))
}

fn in_order(one: &str, other: &str) -> bool {
    let close = |a: &str, b: &str| {
        let (Ok(x), Ok(y)) = (a.parse::<f64>(), b.parse::<f64>()) else {
            return false;
        };
        a.contains('.') && (x - y).abs() <= 1e-9 * x.abs().max(y.abs())
    };
    let cells =
        |text: &str| -> Vec<String> { text.split([',', '\n']).map(str::to_owned).collect() };
    let (one, other) = (cells(one), cells(other));
    one.len() == other.len() && one.iter().zip(&other).all(|(a, b)| a == b || close(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_may_differ_in_the_last_digits_of_floats_only() {
        assert!(equal(
            "a,b\n1,2.0000000000001\n",
            "a,b\n1,2.0000000000002\n"
        ));
        for other in ["a,b\n1,2.1\n", "a,b\n2,2.0\n", "a,b\n1\n", "a,c\n1,2.0\n"] {
            assert!(!equal("a,b\n1,2.0\n", other), "{other}");
        }
    }

    #[test]
    fn rows_may_come_in_another_order_and_may_not_be_others() {
        let one = "a,b\n1,5\n2,5\n2,5\n";
        assert!(equal(one, "a,b\n2,5\n1,5\n2,5\n"));
        for other in [
            "a,b\n1,5\n1,5\n2,5\n",
            "a,b\n2,5\n1,5\n",
            "a,b\n1,2\n5,5\n2,5\n",
        ] {
            assert!(!equal(one, other), "{other}");
        }
    }
}
