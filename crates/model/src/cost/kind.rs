//! Kinds of configurations that are compared.

use super::error::PriceError;
use super::prices::Prices;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A kind of configuration: CPU memory alone, or CPU memory with CXL devices.
///
/// Written `cpu`, `cxl:4` (1 to 4 devices), `reused:4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Kind {
    /// Largest number of devices; 0 for CPU memory alone, else there is at least one device.
    pub devices: u32,
    /// The devices' DIMMs come from decommissioned servers.
    pub reused: bool,
}

impl Kind {
    /// CPU memory alone, the reference of every comparison.
    pub const CPU_MEMORY: Kind = Kind {
        devices: 0,
        reused: false,
    };

    /// CPU memory and 1 to `devices` devices with new DIMMs.
    pub fn cxl(devices: u32) -> Kind {
        Kind {
            devices,
            reused: false,
        }
    }

    /// CPU memory and 1 to `devices` devices with reused DIMMs.
    pub fn reused(devices: u32) -> Kind {
        Kind {
            devices,
            reused: true,
        }
    }

    /// Kinds that are compared by default: CPU memory, one device, and as many devices as allowed.
    ///
    /// With `reuse` the last two are added again with reused DIMMs.
    pub fn usual(prices: &Prices, reuse: bool) -> Vec<Kind> {
        let most = prices.most_devices();
        let counts: &[u32] = match most {
            0 => &[],
            1 => &[1],
            _ => &[1, most],
        };
        let mut kinds = vec![Kind::CPU_MEMORY];
        kinds.extend(counts.iter().map(|n| Kind::cxl(*n)));
        if reuse {
            kinds.extend(counts.iter().map(|n| Kind::reused(*n)));
        }
        kinds
    }

    /// As text: "CPU memory + 1 to 4 CXL devices, reused DIMMs".
    pub fn words(self) -> String {
        match self.devices {
            0 => "CPU memory".into(),
            _ => format!("CPU memory + {}", self.device_words()),
        }
    }

    /// The devices as text: "1 to 4 CXL devices, reused DIMMs".
    pub fn device_words(self) -> String {
        let reused = if self.reused { ", reused DIMMs" } else { "" };
        match self.devices {
            0 => "no CXL device".into(),
            1 => format!("1 CXL device{reused}"),
            n => format!("1 to {n} CXL devices{reused}"),
        }
    }
}

/// Writes the form that [`Kind::from_str`] reads.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind { devices: 0, .. } => f.pad("cpu"),
            Kind { reused: true, .. } => f.pad(&format!("reused:{}", self.devices)),
            Kind { reused: false, .. } => f.pad(&format!("cxl:{}", self.devices)),
        }
    }
}

impl FromStr for Kind {
    type Err = PriceError;

    fn from_str(text: &str) -> Result<Self, PriceError> {
        let wrong = || PriceError::Kind { text: text.into() };
        if text == "cpu" {
            return Ok(Kind::CPU_MEMORY);
        }
        let (word, count) = text.split_once(':').ok_or_else(wrong)?;
        let devices: u32 = count.parse().map_err(|_| wrong())?;
        match (word, devices) {
            (_, 0) => Err(wrong()),
            ("cxl", n) => Ok(Kind::cxl(n)),
            ("reused", n) => Ok(Kind::reused(n)),
            _ => Err(wrong()),
        }
    }
}

impl TryFrom<String> for Kind {
    type Error = PriceError;

    fn try_from(text: String) -> Result<Self, PriceError> {
        text.parse()
    }
}

impl From<Kind> for String {
    fn from(kind: Kind) -> String {
        kind.to_string()
    }
}
