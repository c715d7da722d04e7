//! The price file: prices, parts and rules, each with its source.
//!
//! Every number, list and switch carries a source, so that a conclusion can be traced to an offer
//! or an assumption.

use super::error::PriceError;
use super::pool_parts::PoolParts;
use crate::Value;
use serde::{Deserialize, Serialize};

/// Only supported version of the price file's format.
pub const SCHEMA: &str = "tierloom-prices/1";

/// YAML text of the built-in prices, with its comments.
pub const BUILTIN_YAML: &str = include_str!("../../../../prices/hpi25-2025-03.yaml");

/// Prices of parts, and the rules for building servers from them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Version of the format; must be [`SCHEMA`].
    pub schema: String,
    /// Short name for commands and reports ("hpi25-2025-03").
    pub name: String,
    /// Description in one line.
    pub title: String,
    /// Currency of all prices ("US$"), for display only.
    pub currency: String,
    /// Day or month of the prices; entries may override it.
    pub as_of: String,
    /// Full citations of the keys that sources use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub citations: Vec<String>,
    /// The only type of CPU that servers have.
    pub cpu: Cpu,
    /// All DIMMs on sale.
    pub dimms: Vec<Dimm>,
    /// Types of CXL devices; a server has devices of one type only.
    pub devices: Vec<Device>,
    /// Rules for building servers.
    pub rules: Rules,
    /// Parts of a pool behind a switch; `None` if the file has no prices for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolParts>,
}

/// A type of CPU with its memory channels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// Product name, for reports.
    pub name: String,
    /// Price of one CPU.
    pub price: Value,
    /// Day or month of the price; `None` for that of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<String>,
    /// Memory channels per CPU, 1 to 32.
    pub channels: Value,
    /// DIMM slots per channel, 1 to 4.
    pub dimms_per_channel: Value,
    /// Numbers of CPUs that a server may have, rising.
    pub counts: Vec<u32>,
    /// Source or reason for `counts`.
    pub counts_source: String,
    /// Generation of its DIMMs ("ddr5").
    pub dimms: String,
}

/// A type of DIMM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dimm {
    /// Generation ("ddr4", "ddr5"); a slot takes one generation only.
    pub generation: String,
    /// Capacity, GiB; 1 to 2^20.
    pub size_gib: u64,
    /// Price of one new DIMM, above 0.
    pub price: Value,
    /// Day or month of the price; `None` for that of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<String>,
}

/// A type of CXL memory device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Product name, not empty.
    pub name: String,
    /// DIMM slots per device, 1 to 32.
    pub slots: Value,
    /// Largest number of devices per server, 1 to 16.
    pub max: Value,
    /// Price of one device without DIMMs.
    pub board_price: Value,
    /// Day or month of the price; `None` for that of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<String>,
    /// Generation of its DIMMs ("ddr4").
    pub dimms: String,
    /// Capacities of the DIMMs that it may hold, GiB.
    pub sizes_gib: Vec<u64>,
    /// Source or reason for `sizes_gib`.
    pub sizes_source: String,
}

/// Rules for building servers.
///
/// All CPUs have the same DIMMs, and all devices too; a device holds DIMMs of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Every slot holds a DIMM; if false, every channel and every device holds at least one.
    pub all_slots_filled: bool,
    /// Source or reason for `all_slots_filled`.
    pub all_slots_filled_source: String,
    /// The DIMMs of one channel may differ in size; all channels are still alike.
    pub mixed_sizes: bool,
    /// Source or reason for `mixed_sizes`.
    pub mixed_sizes_source: String,
    /// Price of a reused DIMM over that of a new one, 0 to 1.
    pub reused_price_share: Value,
}

impl Prices {
    /// The built-in prices: those of Weisgut et al. (2025), March 2025.
    ///
    /// # Errors
    /// Same as [`Prices::from_yaml`]; a test checks that there are none.
    pub fn builtin() -> Result<Prices, PriceError> {
        Prices::from_yaml(BUILTIN_YAML, "prices/hpi25-2025-03.yaml")
    }

    /// The DIMM of a generation and size; `None` if it is not on sale.
    pub fn dimm(&self, generation: &str, size_gib: u64) -> Option<&Dimm> {
        let mut all = self.dimms.iter();
        all.find(|d| d.generation == generation && d.size_gib == size_gib)
    }

    /// The DIMMs of a generation, by rising size.
    pub fn dimms_of(&self, generation: &str) -> Vec<&Dimm> {
        let mut found: Vec<&Dimm> = self
            .dimms
            .iter()
            .filter(|d| d.generation == generation)
            .collect();
        found.sort_by_key(|d| d.size_gib);
        found
    }

    /// Largest number of devices per server, of any type.
    pub fn most_devices(&self) -> u32 {
        let most = self.devices.iter().map(|d| d.max.value as u32).max();
        most.unwrap_or(0)
    }

    /// Checks every number, name and list.
    ///
    /// Prices read by [`Prices::from_yaml`] have passed this check.
    ///
    /// # Errors
    /// [`PriceError::Value`] names the first invalid field.
    pub fn check(&self) -> Result<(), PriceError> {
        self.check_file(&self.name, |_| 0)
    }

    pub(super) fn check_file(
        &self,
        file: &str,
        line_of: impl Fn(&str) -> u64,
    ) -> Result<(), PriceError> {
        let fail = |field: String, found: String, expected: &str| PriceError::Value {
            file: file.into(),
            line: line_of(&field),
            field,
            found,
            expected: expected.into(),
        };
        for (field, text, expected) in self.texts() {
            if text.trim().is_empty() {
                return Err(fail(field, format!("{text:?}"), expected));
            }
        }
        if self.schema != SCHEMA {
            let expected = format!("{SCHEMA:?}, the only version that this program reads");
            return Err(fail(
                "schema".into(),
                format!("{:?}", self.schema),
                &expected,
            ));
        }
        for (field, value, range) in self.numbers() {
            if !range.holds(value.value) {
                let found = value.value.to_string();
                return Err(fail(field, found, range.expected()));
            }
            if value.source.trim().is_empty() {
                return Err(fail(format!("{field}.source"), "\"\"".into(), SOURCE));
            }
        }
        match self.bad_list() {
            Some((field, found, expected)) => Err(fail(field, found, &expected)),
            None => Ok(()),
        }
    }

    /// Texts that must not be empty, with a description.
    fn texts(&self) -> Vec<(String, &str, &'static str)> {
        let mut texts = vec![
            ("name".into(), self.name.as_str(), "a short name"),
            ("currency".into(), &self.currency, "a currency (\"US$\")"),
            (
                "as_of".into(),
                &self.as_of,
                "the day or month of the prices",
            ),
            ("cpu.name".into(), &self.cpu.name, "a short name"),
            ("cpu.counts_source".into(), &self.cpu.counts_source, SOURCE),
            (
                "rules.all_slots_filled_source".into(),
                &self.rules.all_slots_filled_source,
                SOURCE,
            ),
            (
                "rules.mixed_sizes_source".into(),
                &self.rules.mixed_sizes_source,
                SOURCE,
            ),
        ];
        for (index, device) in self.devices.iter().enumerate() {
            let source = format!("devices[{index}].sizes_source");
            texts.push((source, &device.sizes_source, SOURCE));
            texts.push((format!("devices[{index}].name"), &device.name, "a name"));
        }
        texts
    }

    /// Every number with its path and bounds. DIMMs are numbered as in the file.
    fn numbers(&self) -> Vec<(String, &Value, Bounds)> {
        let (cpu, rules) = (&self.cpu, &self.rules);
        let mut numbers = vec![
            ("cpu.price".into(), &cpu.price, Bounds::Price),
            ("cpu.channels".into(), &cpu.channels, Bounds::Count(32)),
            (
                "cpu.dimms_per_channel".into(),
                &cpu.dimms_per_channel,
                Bounds::Count(4),
            ),
            (
                "rules.reused_price_share".into(),
                &rules.reused_price_share,
                Bounds::Share,
            ),
        ];
        for (key, value) in self.pool.iter().flat_map(PoolParts::fields) {
            let bounds = match key.ends_with("price") {
                true => Bounds::Price,
                false => Bounds::Count(4096),
            };
            numbers.push((format!("pool.{key}"), value, bounds));
        }
        for (index, dimm) in self.dimms.iter().enumerate() {
            numbers.push((
                format!("dimms[{index}].price"),
                &dimm.price,
                Bounds::Positive,
            ));
        }
        for (index, device) in self.devices.iter().enumerate() {
            let path = |key: &str| format!("devices[{index}].{key}");
            numbers.push((path("slots"), &device.slots, Bounds::Count(32)));
            numbers.push((path("max"), &device.max, Bounds::Count(16)));
            numbers.push((path("board_price"), &device.board_price, Bounds::Price));
        }
        numbers
    }

    /// First list with an invalid entry: field, found, expected.
    fn bad_list(&self) -> Option<(String, String, String)> {
        let counts = &self.cpu.counts;
        let rising = counts.windows(2).all(|pair| pair[0] < pair[1]);
        if counts.is_empty() || !rising || counts.iter().any(|c| !(1..=16).contains(c)) {
            let expected = "rising whole numbers from 1 to 16 ([1, 2])";
            return Some(("cpu.counts".into(), format!("{counts:?}"), expected.into()));
        }
        for (index, dimm) in self.dimms.iter().enumerate() {
            let same = |d: &&Dimm| d.generation == dimm.generation && d.size_gib == dimm.size_gib;
            let field = format!("dimms[{index}].size_gib");
            if !(1..=1 << 20).contains(&dimm.size_gib) {
                let found = dimm.size_gib.to_string();
                return Some((field, found, "a size in GiB, 1 to 1048576".into()));
            }
            if self.dimms[..index].iter().any(|d| same(&d)) {
                let expected = format!("each DIMM once; {} is there twice", dimm.key());
                return Some((field, dimm.size_gib.to_string(), expected));
            }
        }
        if self.dimms_of(&self.cpu.dimms).is_empty() {
            let expected = format!("one of the generations of `dimms`: {}", self.generations());
            return Some((
                "cpu.dimms".into(),
                format!("{:?}", self.cpu.dimms),
                expected,
            ));
        }
        self.devices
            .iter()
            .enumerate()
            .find_map(|(index, device)| self.bad_device(index, device))
    }

    fn bad_device(&self, index: usize, device: &Device) -> Option<(String, String, String)> {
        let sold = self.dimms_of(&device.dimms);
        if sold.is_empty() {
            let field = format!("devices[{index}].dimms");
            let expected = format!("one of the generations of `dimms`: {}", self.generations());
            return Some((field, format!("{:?}", device.dimms), expected));
        }
        let sizes: Vec<u64> = sold.iter().map(|d| d.size_gib).collect();
        let known = device.sizes_gib.iter().all(|size| sizes.contains(size));
        if device.sizes_gib.is_empty() || !known {
            let field = format!("devices[{index}].sizes_gib");
            let expected = format!("sizes of {} DIMMs with a price: {sizes:?}", device.dimms);
            return Some((field, format!("{:?}", device.sizes_gib), expected));
        }
        None
    }

    fn generations(&self) -> String {
        let mut names: Vec<&str> = self.dimms.iter().map(|d| d.generation.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }
}

const SOURCE: &str = "where it is from (publication, offer, arithmetic or reason)";

impl Dimm {
    /// Name in paths and messages: "ddr5-256".
    pub fn key(&self) -> String {
        format!("{}-{}", self.generation, self.size_gib)
    }

    /// Name for people: "DDR5 256 GiB".
    pub fn words(&self) -> String {
        format!("{} {} GiB", self.generation.to_uppercase(), self.size_gib)
    }
}

/// Bounds of a number.
#[derive(Clone, Copy)]
enum Bounds {
    Price,
    /// Above 0, because savings are relative to it.
    Positive,
    Share,
    /// An integer from 1 to this one.
    Count(u32),
}

impl Bounds {
    fn holds(self, x: f64) -> bool {
        match self {
            // Finite, and small enough for exact integer arithmetic in `f64`.
            Bounds::Price => (0.0..=1e12).contains(&x),
            Bounds::Positive => x > 0.0 && x <= 1e12,
            Bounds::Share => (0.0..=1.0).contains(&x),
            Bounds::Count(most) => (1.0..=f64::from(most)).contains(&x) && x.fract() == 0.0,
        }
    }

    fn expected(self) -> &'static str {
        match self {
            Bounds::Price => "a price of at least 0 and at most 1e12",
            Bounds::Positive => "a price above 0 and at most 1e12",
            Bounds::Share => "a number from 0 to 1",
            Bounds::Count(4) => "a whole number from 1 to 4",
            Bounds::Count(16) => "a whole number from 1 to 16",
            Bounds::Count(4096) => "a whole number from 1 to 4096",
            Bounds::Count(_) => "a whole number from 1 to 32",
        }
    }
}
