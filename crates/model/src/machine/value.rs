//! Numbers that carry their origin.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How a number of a profile came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// Stated in a cited publication.
    Published,
    /// Follows by arithmetic from published numbers, or from the data sheet of the named part; the source shows how.
    Derived,
    /// A judgement; the source gives the reason.
    Assumed,
    /// Measured by Tierloom on the machine itself.
    Measured,
    /// Fitted to figures so that the model gives them back; the source names the figures.
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

/// One number of a profile: value, kind and source. The unit is in the name of the field that holds it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "Located")]
pub struct Value {
    /// The number, in the unit that the field's name ends with.
    pub value: f64,
    /// How it came to be.
    pub kind: SourceKind,
    /// Where it is from: publication and place, arithmetic, or reason.
    pub source: String,
    /// Lower end of the interval in which the number lies, in the same unit; `None` if the source gives no spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    #[serde(skip)]
    line: u64,
}

impl Value {
    /// A number with its origin.
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

    /// The same number with the interval in which it lies; ends on the wrong side of the number are moved to it.
    pub fn within(self, low: f64, high: f64) -> Self {
        Value {
            low: Some(low.min(self.value)),
            high: Some(high.max(self.value)),
            ..self
        }
    }

    /// The same origin with another number, for perturbed machines; the interval is that of the old number and goes.
    pub fn with(&self, value: f64) -> Self {
        Value {
            value,
            low: None,
            high: None,
            ..self.clone()
        }
    }

    /// Line of the profile it was read from, from 1; 0 if it was not read from a file.
    pub fn line(&self) -> u64 {
        self.line
    }
}

/// Two values are equal if number and origin are; the line they stood on does not matter.
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

/// A value as it stands in a file; only the parser sees it.
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
