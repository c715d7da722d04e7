//! Answers of one query in several runs.

/// Whether two answers, as CSV, are equal but for the last digits of floats: their sums depend on
/// the order of additions.
pub(super) fn equal(one: &str, other: &str) -> bool {
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
}
