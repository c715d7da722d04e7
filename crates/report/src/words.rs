//! Numbers, units and lists as text.

pub(crate) use tierloom_record::SAME_WITHIN;
pub(crate) use tierloom_record::findings::NOISY_RELATIVE_RANGE;
use tierloom_record::{RunRecord, Spread};
pub(crate) use tierloom_text::words::{
    count, exact_share, figures, list, ms, number, queries, share,
};

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

/// The group of a query: "q1" of "q1.1"; names without a dot form one group.
pub(crate) fn group_of(query: &str) -> &str {
    query.split_once('.').map_or("all", |(group, _)| group)
}

/// "1 run", "13 runs".
pub(crate) fn runs(n: usize) -> String {
    format!(
        "{} {}",
        count(n as u64),
        if n == 1 { "run" } else { "runs" }
    )
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
    fn a_single_value_has_no_range() {
        assert_eq!(
            spread_ms(&Spread::of(vec![3.0, 1.0, 2.0]).unwrap()),
            "2.00 [1.00..3.00]"
        );
        assert_eq!(spread_ms(&Spread::of(vec![3.0]).unwrap()), "3.00");
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
}
