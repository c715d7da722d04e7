//! Values of counters.

use serde::{Deserialize, Serialize};

/// Value of one counter over one measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Name such as "instructions", "dram/socket0/read" or "resctrl/mon_L3_00/mbm_total_bytes".
    pub name: String,
    /// Value in `unit`; `None` if the counter is not available.
    pub value: Option<f64>,
    /// "1" (events), "bytes" or "GB/s" (decimal).
    pub unit: String,
    /// Without a value: the reason and a remedy; otherwise what was counted, and any extrapolation.
    pub note: Option<String>,
}

impl Reading {
    pub(crate) fn known(name: impl Into<String>, value: f64, unit: Unit) -> Self {
        Self {
            name: name.into(),
            value: Some(value),
            unit: unit.text().to_owned(),
            note: None,
        }
    }

    pub(crate) fn unavailable(name: impl Into<String>, unit: Unit, why: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: None,
            unit: unit.text().to_owned(),
            note: Some(why.into()),
        }
    }

    pub(crate) fn with_note(self, note: Option<String>) -> Self {
        Self { note, ..self }
    }
}

/// Unit of the value of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A plain number of events.
    Events,
    /// Bytes transferred or occupied.
    Bytes,
    /// Decimal gigabytes per second.
    Gbps,
}

impl Unit {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Events => "1",
            Self::Bytes => "bytes",
            Self::Gbps => "GB/s",
        }
    }
}
