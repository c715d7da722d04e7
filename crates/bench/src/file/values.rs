//! Parsers of single values: sizes, times, rates, shares, lists and keywords.
//!
//! Every parser returns a message that says what was expected; the caller adds the position. The
//! limits are far above any machine: they only catch mistakes.

use tierloom_text::{Bytes, GbPerSec, Seconds};
use tierloom_topology::IdSet;

use super::error::did_you_mean;
pub(super) use tierloom_text::shown;

/// Largest size in a workload file, bytes: 1 PiB.
pub(super) const MAX_BYTES: u64 = 1 << 50;
/// Longest time in a workload file, s: about 11 days.
pub(super) const MAX_SECONDS: f64 = 1e6;
/// Highest rate in a workload file, GB/s.
pub(super) const MAX_GBPS: f64 = 1e6;
/// Largest NUMA node number: Linux supports 1024 nodes at most.
pub(super) const MAX_NODE: u32 = 1023;
/// Number of CPUs that Linux supports at most.
pub(super) const MAX_CPUS: usize = 8192;

/// Parses a size of at most 1 PiB; K, M, G and T are powers of 1024, as in CXL-Bench.
pub(super) fn size_bytes(text: &str) -> Result<u64, String> {
    let Bytes(bytes) = text.parse().map_err(|e| format!("{e}"))?;
    if bytes > MAX_BYTES {
        return Err(format!("`{}` is more than 1 PiB (1024 TiB)", shown(text)));
    }
    Ok(bytes)
}

/// Parses a number of tuples; K, M, G and T are powers of 1024, as in sizes.
pub(super) fn count(text: &str) -> Result<u64, String> {
    let typed = text.trim();
    let expected = || {
        format!(
            "`{}`; expected a whole number, also with K, M, G or T (powers of 1024)",
            shown(text)
        )
    };
    let (digits, shift) = match typed.char_indices().last() {
        Some((at, 'k' | 'K')) => (&typed[..at], 10),
        Some((at, 'm' | 'M')) => (&typed[..at], 20),
        Some((at, 'g' | 'G')) => (&typed[..at], 30),
        Some((at, 't' | 'T')) => (&typed[..at], 40),
        _ => (typed, 0),
    };
    let number: u64 = digits.trim_end().parse().map_err(|_| expected())?;
    number
        .checked_mul(1 << shift)
        .filter(|count| *count <= MAX_BYTES)
        .ok_or_else(expected)
}

/// Parses a share from nothing to all: `10%` or `0.1`.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let share = match text.strip_suffix('%') {
        Some(percent) => number(percent).map(|percent| rounded(percent / 100.0, 12)),
        None => number(text),
    };
    match share {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(format!(
            "`{}`; expected a share from 0% to 100%",
            shown(text)
        )),
    }
}

/// Parses a factor above 0 and at most 1, also as a fraction: `1/64`.
///
/// # Errors
/// What was expected.
pub fn scale(text: &str) -> Result<f64, String> {
    let factor = match text.split_once('/') {
        Some((above, below)) => number(above).and_then(|a| Ok(a / number(below)?)),
        None => number(text),
    };
    match factor {
        Ok(factor) if factor > 0.0 && factor <= 1.0 => Ok(rounded(factor, 12)),
        _ => Err(format!(
            "`{}`; expected a factor above 0 and at most 1, such as 1/64 or 0.01",
            shown(text)
        )),
    }
}

/// Parses a whole number in `range`.
pub(super) fn whole(text: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64, String> {
    let expected = || {
        let (low, high) = (range.start(), range.end());
        if *high == u64::MAX {
            format!("expected a whole number from {low}")
        } else {
            format!("expected a whole number from {low} to {high}")
        }
    };
    match text.trim().parse::<u64>() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!("`{}`; {}", shown(text), expected())),
    }
}

/// Parses a number and rounds it to 12 significant digits.
///
/// Rounding makes the value survive printing and parsing, so that plan ids are stable.
pub(super) fn number(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(rounded(number, 12)),
        _ => Err(format!("`{}` is not a number", shown(text))),
    }
}

/// `number` with `digits` significant digits.
pub(super) fn rounded(number: f64, digits: usize) -> f64 {
    format!("{number:.*e}", digits.saturating_sub(1))
        .parse()
        .unwrap_or(number)
}

/// Parses a time in seconds: 0, or 1 us to [`MAX_SECONDS`].
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let Seconds(seconds) = text.parse().map_err(|e| format!("{e}"))?;
    if seconds == 0.0 || (1e-6..=MAX_SECONDS).contains(&seconds) {
        return Ok(seconds);
    }
    let text = shown(text);
    Err(format!(
        "`{text}`; expected a time from 1us to {MAX_SECONDS} s, or 0"
    ))
}

/// Parses a share as a fraction of 1: `2%` or `0.02`.
pub(super) fn fraction(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let fraction = match text.strip_suffix('%') {
        Some(percent) => number(percent).map(|percent| rounded(percent / 100.0, 12)),
        None => number(text),
    };
    match fraction {
        Ok(fraction) if (1e-6..1.0).contains(&fraction) => Ok(fraction),
        _ => Err(format!(
            "`{}`; expected a share above 0 and below 1, such as 2% or 0.02",
            shown(text)
        )),
    }
}

/// Parses a bandwidth in GB/s: 0, or 1 kB/s to [`MAX_GBPS`].
pub(super) fn gbps(text: &str) -> Result<f64, String> {
    let GbPerSec(gbps) = text.parse().map_err(|e| format!("{e}"))?;
    if gbps == 0.0 || (1e-6..=MAX_GBPS).contains(&gbps) {
        return Ok(gbps);
    }
    let text = shown(text);
    Err(format!(
        "`{text}`; expected a bandwidth of at most {MAX_GBPS} GB/s"
    ))
}

/// Parses `true` or `false`, also written `yes`, `no`, `on` or `off`.
pub(super) fn flag(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Ok(true),
        "false" | "no" | "off" => Ok(false),
        _ => Err(format!("`{}`; expected true or false", shown(text))),
    }
}

/// Parses a list in the syntax of numactl, ascending: `0-3,6`.
pub(super) fn id_list(text: &str) -> Result<Vec<u32>, String> {
    let set = text.parse::<IdSet>().map_err(|error| error.to_string())?;
    if set.is_empty() {
        return Err("the list is empty; expected one such as 0-3,6".into());
    }
    Ok(set.iter().collect())
}

/// The value of the keyword `word` in `words`; several keywords may have the same value.
pub(super) fn one_of<T: Copy>(word: &str, words: &[(&'static str, T)]) -> Result<T, String> {
    let typed = word.trim();
    if let Some((_, value)) = words.iter().find(|(known, _)| *known == typed) {
        return Ok(*value);
    }
    let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
    Err(format!(
        "`{}`; expected one of: {}{}",
        shown(typed),
        known.join(", "),
        did_you_mean(typed, known.iter().copied()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_as_in_cxl_bench_and_at_most_a_pebibyte() {
        assert_eq!(size_bytes("64M"), Ok(64 << 20));
        assert_eq!(size_bytes("1024T"), Ok(MAX_BYTES));
        for text in ["", "-1", "1e3", "2048T", "18446744073709551615G"] {
            assert!(size_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_rates_and_shares_have_their_units() {
        assert_eq!(seconds("2"), Ok(2.0));
        assert_eq!(seconds("500ms"), Ok(0.5));
        assert_eq!(seconds("1m 30s"), Ok(90.0));
        assert!(seconds("-1").is_err() && seconds("1e300").is_err() && seconds("soon").is_err());
        assert_eq!(gbps("5 GB/s"), Ok(5.0));
        assert_eq!(gbps("500MB/s"), Ok(0.5));
        assert_eq!(gbps("1e1"), Ok(10.0));
        assert!(gbps("5 Gb/s").is_err() && gbps("NaN").is_err() && gbps("-1").is_err());
        assert_eq!(fraction("2%"), Ok(0.02));
        assert!(fraction("200%").is_err() && fraction("0").is_err());
    }

    #[test]
    fn a_word_out_of_a_list_is_suggested() {
        let words = [("sequential", 1), ("random", 2)];
        assert_eq!(one_of("random", &words), Ok(2));
        assert_eq!(
            one_of("randm", &words),
            Err("`randm`; expected one of: sequential, random, did you mean `random`?".into())
        );
    }
}
