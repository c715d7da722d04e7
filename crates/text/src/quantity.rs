//! Bandwidths and times.

use crate::number;
use std::str::FromStr;
use std::time::Duration;

/// Significant digits that are kept, so that printed values are read back as the same.
const DIGITS: usize = 12;

/// A bandwidth in GB/s (10^9 bytes per second): `5`, `5 GB/s`, `500 MB/s`, `4 GiB/s`.
///
/// Units are those of [`crate::Bytes`] with a B, per second; a number alone is in GB/s.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct GbPerSec(pub f64);

/// Text that is not a bandwidth.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a bandwidth; expected one such as `5 GB/s`, `500 MB/s`, `4 GiB/s` or a \
     number of GB/s"
)]
pub struct GbPerSecError {
    /// The text as given, shortened.
    pub text: String,
}

impl FromStr for GbPerSec {
    type Err = GbPerSecError;

    fn from_str(text: &str) -> Result<Self, GbPerSecError> {
        let rate = || {
            if let Some(gbps) = plain(text) {
                return Some(gbps);
            }
            let (amount, unit) = number::split(text)?;
            let unit = unit.strip_suffix("/s")?.trim_end();
            // `5 G/s` does not say what is counted.
            let bytes = unit.ends_with(['B', 'b']).then_some(unit)?;
            Some(amount.parse::<f64>().ok()? * (number::bytes_per(bytes)? as f64 / 1e9))
        };
        let rate = rate().filter(|gbps| gbps.is_finite() && *gbps >= 0.0);
        rate.map(|gbps| GbPerSec(rounded(gbps)))
            .ok_or_else(|| GbPerSecError {
                text: number::shown(text.trim()),
            })
    }
}

/// A time in seconds: `2`, `0.5`, `500ms`, `1.5s`, `2m`, `1m 30s`.
///
/// A number alone is in seconds.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Seconds(pub f64);

/// Text that is not a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a time; expected seconds, or numbers with units such as 500ms, 2s, 1m or \
     1m 30s"
)]
pub struct SecondsError {
    /// The text as given, shortened.
    pub text: String,
}

impl Seconds {
    /// The time as a [`Duration`]; `None` if it is longer than one can be.
    pub fn duration(self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.0).ok()
    }
}

impl FromStr for Seconds {
    type Err = SecondsError;

    fn from_str(text: &str) -> Result<Self, SecondsError> {
        let text = text.trim();
        let decimal = || {
            let (amount, unit) = number::split(text)?;
            let amount: f64 = amount.parse().ok()?;
            Some(match unit {
                "ns" => amount / 1e9,
                "us" | "µs" => amount / 1e6,
                "ms" => amount / 1e3,
                "s" => amount,
                "m" => amount * 60.0,
                "h" => amount * 3600.0,
                _ => return None,
            })
        };
        let several = || Some(humantime::parse_duration(text).ok()?.as_secs_f64());
        let seconds = plain(text).or_else(decimal).or_else(several);
        let seconds = seconds.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        seconds
            .map(|seconds| Seconds(rounded(seconds)))
            .ok_or_else(|| SecondsError {
                text: number::shown(text),
            })
    }
}

/// A number without a unit; NaN and infinities are words and not numbers.
fn plain(text: &str) -> Option<f64> {
    let number = text.trim().parse::<f64>().ok()?;
    // Without the sign of -0.
    number.is_finite().then_some(number + 0.0)
}

fn rounded(number: f64) -> f64 {
    let text = format!("{number:.*e}", DIGITS - 1);
    text.parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_have_units_of_bytes() {
        for (text, gbps) in [
            ("5", 5.0),
            ("1e1", 10.0),
            ("5 GB/s", 5.0),
            ("500MB/s", 0.5),
            ("4 GiB/s", 4.294_967_296),
            ("2 kB/s", 2e-6),
            ("-0", 0.0),
        ] {
            assert_eq!(text.parse(), Ok(GbPerSec(gbps)), "{text}");
        }
        for text in ["", "5 Gb/s", "5 G/s", "5 GB", "NaN", "-1", "inf", "fast"] {
            assert!(text.parse::<GbPerSec>().is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_units_and_may_have_several() {
        for (text, seconds) in [
            ("2", 2.0),
            ("0.5", 0.5),
            ("500ms", 0.5),
            ("1.5s", 1.5),
            ("60 s", 60.0),
            ("20us", 20e-6),
            ("7 ns", 7e-9),
            ("1m 30s", 90.0),
            ("2m", 120.0),
            ("1h", 3600.0),
        ] {
            assert_eq!(text.parse(), Ok(Seconds(seconds)), "{text}");
        }
        for text in ["", "-1", "soon", "NaN", "5 GB", "s", "1 s s", "-1s"] {
            assert!(text.parse::<Seconds>().is_err(), "{text}");
        }
    }
}
