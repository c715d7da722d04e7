//! Reading and writing price files, with file, line and field in every error.

use super::error::PriceError;
use super::prices::Prices;
use crate::machine::yaml::{line_of, read};

impl Prices {
    /// Reads prices from `text`; `file_name` is used in errors only.
    ///
    /// # Errors
    /// [`PriceError`] with file, line and field: text that is not YAML, unknown or missing keys,
    /// numbers out of range, another schema version, a DIMM that is listed twice or has no price, a
    /// value without a source.
    pub fn from_yaml(text: &str, file_name: &str) -> Result<Prices, PriceError> {
        let prices: Prices = read(text, file_name, "prices", expected_for)?;
        prices.check_file(file_name, |field| line_of(text, field))?;
        Ok(prices)
    }

    /// The prices as YAML, from which [`Prices::from_yaml`] reads equal prices.
    ///
    /// # Errors
    /// [`PriceError::Write`] if the serializer fails, which does not happen for checked prices.
    pub fn to_yaml(&self) -> Result<String, PriceError> {
        serde_saphyr::to_string(self).map_err(|e| PriceError::Write {
            name: self.name.clone(),
            message: e.to_string(),
        })
    }
}

/// Description of the value that is missing.
fn expected_for(field: &str) -> &'static str {
    match field {
        "value" => "a number",
        "kind" => "published, derived, assumed, measured or fitted",
        "schema" => "\"tierloom-prices/1\"",
        "name" | "title" | "currency" | "as_of" => "a text",
        "dimms" => {
            "the DIMMs that are sold, or the generation that a CPU or device takes (\"ddr5\")"
        }
        "generation" => "\"ddr4\" or \"ddr5\"",
        "size_gib" => "a size in GiB",
        "counts" | "sizes_gib" => "a list of whole numbers",
        "cpu" | "rules" | "pool" => "a group",
        "devices" => "a list of CXL devices, [] for none",
        "all_slots_filled" | "mixed_sizes" => "true or false",
        _ if field.ends_with("source") => {
            "where it is from (publication, offer, arithmetic or reason)"
        }
        _ => "a number as { value: .., kind: .., source: .. }",
    }
}
