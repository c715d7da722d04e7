//! Numbers with their origin.
//!
//! A number without a source cannot be checked later, so profiles reject it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Kind of source of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// Stated in a cited publication.
    Published,
    /// Follows by arithmetic from published numbers, or from the data sheet of the named part; the
    /// source shows how.
    Derived,
    /// Judgement; the source gives the reason.
    Assumed,
    /// Measured by Tierloom on the machine itself.
    Measured,
    /// Fitted so that the model reproduces figures; the source names them.
    Fitted,
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            SourceKind::Published => "published",
            SourceKind::Derived => "derived",
            SourceKind::Assumed => "assumed",
            SourceKind::Measured => "measured",
            SourceKind::Fitted => "fitted",
        })
    }
}

/// One number of a profile: value, kind and source. The unit is the suffix of the field's name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "Located")]
pub struct Value {
    /// The number, in the unit that the field's name ends with.
    pub value: f64,
    /// Kind of the source.
    pub kind: SourceKind,
    /// Publication and place, arithmetic, or reason; never empty in a checked profile.
    pub source: String,
    /// Lower end of the interval around the number, in the same unit; `None` if the source gives no
    /// spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end of the interval; `None` if the source gives no spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    #[serde(skip)]
    line: u64,
}

impl Value {
    /// Number without an interval, which was not read from a file.
    pub fn new(value: f64, kind: SourceKind, source: impl Into<String>) -> Self {
        Value {
            value,
            kind,
            source: source.into(),
            low: None,
            high: None,
            line: 0,
        }
    }

    /// The same number with an interval; an end on the wrong side of the number is moved to it.
    pub fn within(self, low: f64, high: f64) -> Self {
        Value {
            low: Some(low.min(self.value)),
            high: Some(high.max(self.value)),
            ..self
        }
    }

    /// Another number with the same origin, for perturbed machines; the interval belongs to the old
    /// number and is dropped.
    pub fn with(&self, value: f64) -> Self {
        Value {
            value,
            low: None,
            high: None,
            ..self.clone()
        }
    }

    /// Line of the profile that the number was read from, from 1; 0 if it was not read from a file.
    pub fn line(&self) -> u64 {
        self.line
    }
}

/// Values are equal if number, origin and interval are; the line is ignored.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        (self.value, self.kind, &self.source, self.low, self.high)
            == (
                other.value,
                other.kind,
                &other.source,
                other.low,
                other.high,
            )
    }
}

/// A value as written in a file, with its position; only the parser uses it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Located {
    value: serde_saphyr::Spanned<f64>,
    kind: SourceKind,
    source: String,
    #[serde(default)]
    low: Option<f64>,
    #[serde(default)]
    high: Option<f64>,
}

impl From<Located> for Value {
    fn from(located: Located) -> Self {
        Value {
            value: located.value.value,
            kind: located.kind,
            source: located.source,
            low: located.low,
            high: located.high,
            line: located.value.referenced.line(),
        }
    }
}
