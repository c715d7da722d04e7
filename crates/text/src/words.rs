//! Numbers and lists as sentences of the terminal and of reports show them.

/// Milliseconds with at least three significant digits.
pub fn ms(value: f64) -> String {
    match value.abs() {
        v if v < 1.0 => format!("{value:.3}"),
        v if v < 10.0 => format!("{value:.2}"),
        v if v < 100.0 => format!("{value:.1}"),
        _ => thousands(value.round()),
    }
}

/// A fraction as "37%"; small values above 0 as "<1%".
pub fn share(value: f64) -> String {
    if value > 0.0 && value < 0.005 {
        "<1%".into()
    } else {
        format!("{:.0}%", value * 100.0)
    }
}

/// A fraction as "37.46%".
pub fn exact_share(value: f64) -> String {
    format!("{:.2}%", value * 100.0)
}

/// An integer with thousands separators: "6,001,215".
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn thousands(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    // Saturates for values beyond u64, which no time in milliseconds reaches.
    format!("{sign}{}", count(value.abs() as u64))
}

/// A number without trailing zeros: "28.5", "3", "0.125".
pub fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// "a", "a and b", "a, b and c".
pub fn list<S: AsRef<str>>(items: &[S]) -> String {
    match items {
        [] => String::new(),
        [one] => one.as_ref().into(),
        [head @ .., last] => {
            let head: Vec<&str> = head.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", head.join(", "), last.as_ref())
        }
    }
}

/// "1 query", "13 queries".
pub fn queries(n: usize) -> String {
    if n == 1 {
        "1 query".into()
    } else {
        format!("{n} queries")
    }
}

/// "1 figure", "13 figures".
pub fn figures(n: usize) -> String {
    format!("{n} {}", if n == 1 { "figure" } else { "figures" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_times_keep_digits_and_large_ones_get_separators() {
        assert_eq!(ms(0.01234), "0.012");
        assert_eq!(ms(9.876), "9.88");
        assert_eq!(ms(12345.6), "12,346");
    }

    #[test]
    fn separators_stand_at_thousands_only() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(6_001_215), "6,001,215");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn little_is_not_shown_as_nothing() {
        assert_eq!(share(0.001), "<1%");
        assert_eq!(share(0.0), "0%");
        assert_eq!(share(0.374), "37%");
    }

    #[test]
    fn trailing_zeros_go_but_whole_numbers_stay() {
        assert_eq!(number(28.50), "28.5");
        assert_eq!(number(100.0), "100");
        assert_eq!(number(0.0), "0");
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(list::<&str>(&[]), "");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
    }
}
