//! Parsing and printing of policies.

use super::{ColumnLimit, Policy};
use crate::PolicyError;
use std::fmt;
use std::str::FromStr;
use tierloom_text::Bytes;

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
        if word == "pool" {
            return Ok(Policy::Pool);
        }
        // As typed: the case of a unit may matter.
        match behind("adaptive", text.trim()) {
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

/// What follows `name` in `text`; the case of the name does not matter.
fn behind<'a>(name: &str, text: &'a str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(name.len())?;
    head.eq_ignore_ascii_case(name).then_some(rest)
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

fn budget_of(text: &str, budget: &str) -> Result<u64, PolicyError> {
    match budget.parse() {
        Ok(Bytes(0)) => Err(syntax(
            text,
            "a migration budget is above 0, such as 512MiB",
        )),
        Ok(Bytes(bytes)) => Ok(bytes),
        Err(wrong) => Err(syntax(text, &format!("the migration budget: {wrong}"))),
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Uniform(spec) => write!(f, "{spec}"),
            Policy::Tier => write!(f, "tier"),
            Policy::Pool => write!(f, "pool"),
            Policy::TopColumns(ColumnLimit::Count(count)) => write!(f, "columns:{count}"),
            Policy::TopColumns(ColumnLimit::Share(share)) => {
                // Rounded, because 0.07 * 100 is not exactly 7 in binary floating point.
                write!(f, "columns:{}%", (share * 1e8).round() / 1e6)
            }
            Policy::Adaptive(None) => write!(f, "adaptive"),
            Policy::Adaptive(Some(bytes)) => write!(f, "adaptive:{:#}", Bytes(*bytes)),
        }
    }
}
