//! Numbers, units and lists as text.

use tierloom_record::{RunRecord, Spread};

/// Range of repetitions, as a share of their median, above which a figure is called noisy.
pub(crate) const NOISY_RELATIVE_RANGE: f64 = 0.10;

/// Changes smaller than this share count as no change.
pub(crate) const SAME_WITHIN: f64 = 0.01;

/// Milliseconds with at least three significant digits.
pub(crate) fn ms(value: f64) -> String {
    match value.abs() {
        v if v < 1.0 => format!("{value:.3}"),
        v if v < 10.0 => format!("{value:.2}"),
        v if v < 100.0 => format!("{value:.1}"),
        _ => thousands(value.round()),
    }
}

/// "12.3 [12.1..12.9]", or a single value.
pub(crate) fn spread_ms(spread: &Spread) -> String {
    if spread.values.len() > 1 {
        format!(
            "{} [{}..{}]",
            ms(spread.median),
            ms(spread.min),
            ms(spread.max)
        )
    } else {
        ms(spread.median)
    }
}

/// "1.61×".
pub(crate) fn ratio(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}×"),
        v if v >= 10.0 => format!("{v:.1}×"),
        v => format!("{v:.2}×"),
    }
}

/// "+3.1%".
pub(crate) fn change(percent: f64) -> String {
    format!("{percent:+.1}%")
}

/// A fraction as "37%"; small values above 0 as "<1%".
pub(crate) fn share(value: f64) -> String {
    if value > 0.0 && value < 0.005 {
        "<1%".into()
    } else {
        format!("{:.0}%", value * 100.0)
    }
}

/// A fraction as "37.46%".
pub(crate) fn exact_share(value: f64) -> String {
    format!("{:.2}%", value * 100.0)
}

/// Bytes in KiB, MiB or GiB.
pub(crate) fn bytes(value: u64) -> String {
    const KIB: f64 = 1024.0;
    let value = value as f64;
    if value < KIB {
        format!("{value} B")
    } else if value < KIB * KIB {
        format!("{:.1} KiB", value / KIB)
    } else if value < KIB * KIB * KIB {
        format!("{:.1} MiB", value / KIB / KIB)
    } else {
        format!("{:.2} GiB", value / KIB / KIB / KIB)
    }
}

/// An integer with thousands separators: "6,001,215".
pub(crate) fn count(value: u64) -> String {
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

/// Bytes in the largest binary unit that is at least 1: "256 B", "4 KiB", "1.5 MiB".
pub(crate) fn short_bytes(value: f64) -> String {
    let mut scaled = value;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if scaled < 1024.0 {
            return format!("{} {unit}", number(scaled));
        }
        scaled /= 1024.0;
    }
    format!("{} TiB", number(scaled))
}

/// A number without trailing zeros: "28.5", "3", "0.125".
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// "a", "a and b", "a, b and c".
pub(crate) fn list<S: AsRef<str>>(items: &[S]) -> String {
    match items {
        [] => String::new(),
        [one] => one.as_ref().into(),
        [head @ .., last] => {
            let head: Vec<&str> = head.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", head.join(", "), last.as_ref())
        }
    }
}

/// The group of a query: "q1" of "q1.1"; names without a dot form one group.
pub(crate) fn group_of(query: &str) -> &str {
    query.split_once('.').map_or("all", |(group, _)| group)
}

/// "1 query", "13 queries".
pub(crate) fn queries(n: usize) -> String {
    if n == 1 {
        "1 query".into()
    } else {
        format!("{n} queries")
    }
}

/// "1 run", "13 runs".
pub(crate) fn runs(n: usize) -> String {
    format!(
        "{} {}",
        count(n as u64),
        if n == 1 { "run" } else { "runs" }
    )
}

/// "1 figure", "13 figures".
pub(crate) fn figures(n: usize) -> String {
    format!("{n} {}", if n == 1 { "figure" } else { "figures" })
}

/// "1 run was", "13 runs were".
pub(crate) fn runs_were(n: usize) -> String {
    format!("{} {}", runs(n), if n == 1 { "was" } else { "were" })
}

/// "1 run is", "13 runs are".
pub(crate) fn runs_are(n: usize) -> String {
    format!("{} {}", runs(n), if n == 1 { "is" } else { "are" })
}

/// "1 thread", "8 threads".
pub(crate) fn threads(n: u32) -> String {
    format!("{n} {}", if n == 1 { "thread" } else { "threads" })
}

/// The title of a report on one run.
pub(crate) fn title_of(run: &RunRecord) -> String {
    format!(
        "{} SF {} on {}",
        run.workload.to_uppercase(),
        number(run.settings.scale_factor),
        run.host.cpu_model
    )
}

/// `name` in a form that is valid in an `id`, unique among `all`.
///
/// Anything but ASCII letters and digits becomes a dash.
pub(crate) fn slug(name: &str, all: &[&str]) -> String {
    let plain = |name: &str| -> String {
        let dashed = |c: char| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        };
        name.chars().map(dashed).collect()
    };
    let own = plain(name);
    let shared = all.iter().filter(|other| plain(other) == own).count() > 1;
    match all.iter().position(|other| *other == name) {
        Some(position) if shared => format!("{own}--{position}"),
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_times_keep_digits_and_large_ones_get_separators() {
        assert_eq!(ms(0.01234), "0.012");
        assert_eq!(ms(9.876), "9.88");
        assert_eq!(ms(12345.6), "12,346");
        assert_eq!(
            spread_ms(&Spread::of(vec![3.0, 1.0, 2.0]).unwrap()),
            "2.00 [1.00..3.00]"
        );
        assert_eq!(spread_ms(&Spread::of(vec![3.0]).unwrap()), "3.00");
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
    fn bytes_use_binary_units() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(3 << 19), "1.5 MiB");
        assert_eq!(bytes(5 << 30), "5.00 GiB");
    }

    #[test]
    fn names_that_look_alike_get_different_ids() {
        let all = ["a.b", "a-b", "c"];
        assert_eq!(all.map(|name| slug(name, &all)), ["a-b--0", "a-b--1", "c"]);
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(list::<&str>(&[]), "");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
    }
}
