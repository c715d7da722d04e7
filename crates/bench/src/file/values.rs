//! Parsers of single values: sizes, times, rates, shares, lists and keywords.
//!
//! Every parser returns a message that says what was expected; the caller adds the position. The
//! limits are far above any machine: they only catch mistakes.

use tierloom_topology::IdSet;

use super::error::did_you_mean;

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

/// The text as a message shows it: its first 60 characters.
pub(super) fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short
}

/// Parses a size in bytes: `4096`, `64K`, `64MiB`, `1.5G`.
///
/// K, M, G and T are powers of 1024, as in CXL-Bench.
pub(super) fn size_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text
        .find(|letter: char| letter.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = (text[..split].trim(), text[split..].trim());
    let expected = "expected a size such as 256, 64K, 64MiB or 10G (K, M, G, T are powers of 1024)";
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        // CXL-Bench reads K as 1024 while SI reads KB as 1000: guessing would change the size by 2
        // to 10%.
        "kb" | "mb" | "gb" | "tb" => {
            let letter = &unit[..1];
            return Err(format!(
                "`{}` may mean powers of 1000 or of 1024; write {number}{letter}iB, sizes are powers of 1024",
                shown(text)
            ));
        }
        _ => return Err(format!("`{}` is not a size; {expected}", shown(text))),
    };
    let too_large = || format!("`{}` is more than 1 PiB (1024 TiB)", shown(text));
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if digits {
        // Only digits, so the only way to fail is to be too large.
        let number = number.parse::<u64>().map_err(|_| too_large())?;
        return number
            .checked_mul(1 << shift)
            .filter(|bytes| *bytes <= MAX_BYTES)
            .ok_or_else(too_large);
    }
    let wrong = || format!("`{}` is not a size; {expected}", shown(text));
    if !number
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return Err(wrong());
    }
    let bytes = number.parse::<f64>().map_err(|_| wrong())? * (1_u64 << shift) as f64;
    if bytes > MAX_BYTES as f64 {
        return Err(too_large());
    }
    if bytes.fract() != 0.0 {
        return Err(format!("`{}` is not a whole number of bytes", shown(text)));
    }
    Ok(bytes as u64)
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

/// Parses a time in seconds: `2`, `0.5`, `500ms`, `1m 30s`.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let seconds = number(text).ok().or_else(|| {
        let duration = humantime::parse_duration(text).ok()?;
        Some(rounded(duration.as_secs_f64(), 12))
    });
    match seconds {
        Some(seconds) if seconds == 0.0 || (1e-6..=MAX_SECONDS).contains(&seconds) => {
            Ok(seconds.abs())
        }
        Some(_) => Err(format!(
            "`{}`; expected a time from 1us to {MAX_SECONDS} s, or 0",
            shown(text)
        )),
        None => Err(format!(
            "`{}` is not a time; expected seconds, or a number with a unit such as 500ms, 2s or 1m",
            shown(text)
        )),
    }
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

/// Parses a bandwidth in GB/s (decimal): `5`, `5 GB/s`, `500 MB/s`, `4 GiB/s`.
pub(super) fn gbps(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let split = text
        .find(|letter: char| letter.is_ascii_alphabetic() && letter != 'e' && letter != 'E')
        .unwrap_or(text.len());
    let (amount, unit) = text.split_at(split);
    let factor = match unit.trim() {
        "" | "GB/s" => 1.0,
        "MB/s" => 1e-3,
        "GiB/s" => 1.073_741_824,
        "MiB/s" => 1.048_576e-3,
        _ => f64::NAN,
    };
    match number(amount).map(|amount| rounded(amount * factor, 12)) {
        Ok(gbps) if gbps == 0.0 || (1e-6..=MAX_GBPS).contains(&gbps) => Ok(gbps.abs()),
        _ => Err(format!(
            "`{}`; expected a bandwidth such as `5 GB/s`, `500 MB/s`, `4 GiB/s` or a number of GB/s, at most {MAX_GBPS} GB/s",
            shown(text)
        )),
    }
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

/// A number of bytes in the largest unit that divides it: `64 MiB`, `100 B`.
pub(crate) fn bytes_text(bytes: u64) -> String {
    for (unit, name) in [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{} {name}", bytes / unit);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_as_in_cxl_bench() {
        for (text, bytes) in [
            ("256", 256),
            ("4k", 4 << 10),
            ("64M", 64 << 20),
            ("64 MiB", 64 << 20),
            ("10G", 10 << 30),
            ("1.5GiB", 3 << 29),
            ("1T", 1 << 40),
        ] {
            assert_eq!(size_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn sizes_that_cannot_be_meant_are_refused() {
        for text in [
            "",
            "M",
            "64KB",
            "-1",
            "64X",
            "0.3",
            "1e3",
            "99999999999999999999",
            "2048T",
            "18446744073709551615G",
            "..5G",
        ] {
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
