//! Parsing and printing of policies.

use super::{ColumnLimit, Policy};
use crate::PolicyError;
use std::fmt;
use std::str::FromStr;

impl FromStr for Policy {
    type Err = PolicyError;

    /// Parses a policy; case and surrounding space do not matter.
    ///
    /// # Errors
    /// [`PolicyError::Syntax`] for `columns` without a valid count or share, and for `adaptive`
    /// with an invalid budget; [`PolicyError::Placement`] for any other text that is not a page
    /// placement.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let word = text.trim().to_ascii_lowercase();
        if word == "tier" {
            return Ok(Policy::Tier);
        }
        match word.strip_prefix("adaptive") {
            Some("") => return Ok(Policy::Adaptive(None)),
            Some(rest) => {
                let budget = rest.strip_prefix(':').ok_or_else(|| {
                    syntax(text, "after `adaptive` comes nothing or `:` and a budget")
                })?;
                return budget_of(text, budget).map(|bytes| Policy::Adaptive(Some(bytes)));
            }
            None => {}
        }
        match word
            .strip_prefix("columns")
            .map(|rest| rest.strip_prefix(':'))
        {
            Some(Some(limit)) => limit_of(text, limit).map(Policy::TopColumns),
            Some(None) => Err(syntax(text, "how many columns is missing")),
            None => Ok(Policy::Uniform(word.parse()?)),
        }
    }
}

fn syntax(text: &str, reason: &str) -> PolicyError {
    PolicyError::Syntax {
        text: text.into(),
        reason: reason.into(),
    }
}

fn limit_of(text: &str, limit: &str) -> Result<ColumnLimit, PolicyError> {
    match limit.strip_suffix('%') {
        Some(percent) => {
            let percent: f64 = percent
                .trim()
                .parse()
                .map_err(|_| syntax(text, "the share is not a number"))?;
            if (0.0..=100.0).contains(&percent) {
                Ok(ColumnLimit::Share(percent / 100.0))
            } else {
                Err(syntax(text, "a share lies between 0% and 100%"))
            }
        }
        None => limit
            .trim()
            .parse()
            .map(ColumnLimit::Count)
            .map_err(|_| syntax(text, "the number of columns is not a whole number")),
    }
}

/// Suffixes of sizes with the binary logarithm of their factor, largest first.
const UNITS: [(&str, u32); 4] = [("tib", 40), ("gib", 30), ("mib", 20), ("kib", 10)];

fn budget_of(text: &str, budget: &str) -> Result<u64, PolicyError> {
    bytes_of(budget).ok_or_else(|| {
        syntax(
            text,
            "the migration budget is a whole number of bytes above 0, such as 512MiB",
        )
    })
}

/// Parses a size such as `512MiB`, `4096` or `64b` into bytes.
///
/// The number must be whole and above 0; the units are KiB, MiB, GiB and TiB, in any case. `None`
/// for anything else, and for sizes of 2^64 bytes or more.
pub fn bytes_of(text: &str) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let unit = UNITS
        .iter()
        .find_map(|(unit, shift)| Some((lower.strip_suffix(unit)?, *shift)));
    let (number, shift) = unit.unwrap_or((lower.trim_end_matches('b'), 0));
    let whole = number.trim().parse::<u64>().ok();
    let bytes = whole.and_then(|n| n.checked_mul(1 << shift));
    bytes.filter(|b| *b > 0)
}

pub(super) fn budget_text(bytes: u64) -> String {
    const WRITTEN: [&str; 4] = ["TiB", "GiB", "MiB", "KiB"];
    let whole = UNITS
        .iter()
        .zip(WRITTEN)
        .find(|((_, shift), _)| bytes.is_multiple_of(1 << shift));
    whole.map_or_else(
        || bytes.to_string(),
        |((_, shift), unit)| format!("{}{unit}", bytes >> shift),
    )
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Uniform(spec) => write!(f, "{spec}"),
            Policy::Tier => write!(f, "tier"),
            Policy::TopColumns(ColumnLimit::Count(count)) => write!(f, "columns:{count}"),
            Policy::TopColumns(ColumnLimit::Share(share)) => {
                // Rounded, because 0.07 * 100 is not exactly 7 in binary floating point.
                write!(f, "columns:{}%", (share * 1e8).round() / 1e6)
            }
            Policy::Adaptive(None) => write!(f, "adaptive"),
            Policy::Adaptive(Some(bytes)) => write!(f, "adaptive:{}", budget_text(*bytes)),
        }
    }
}
