//! Access to the numbers, lists and switches of a price file by their path.

use super::error::PriceError;
use super::pool_parts::KEYS;
use super::prices::Prices;
use crate::{SourceKind, Value};

/// A field that can be set; lists and switches with their source.
enum Place<'a> {
    Number(&'a mut Value),
    Counts(&'a mut Vec<u32>, &'a mut String),
    Sizes(&'a mut Vec<u64>, &'a mut String),
    Switch(&'a mut bool, &'a mut String),
}

impl Prices {
    /// All paths that [`Prices::set`] accepts, in the order of the file.
    pub fn paths(&self) -> Vec<String> {
        let cpu = ["price", "channels", "dimms_per_channel", "counts"];
        let mut paths: Vec<String> = cpu.iter().map(|key| format!("cpu.{key}")).collect();
        paths.extend(
            self.dimms
                .iter()
                .map(|d| format!("dimms[{}].price", d.key())),
        );
        for index in 0..self.devices.len() {
            let keys = ["slots", "max", "board_price", "sizes_gib"];
            paths.extend(keys.iter().map(|key| format!("devices[{index}].{key}")));
        }
        let rules = ["all_slots_filled", "mixed_sizes", "reused_price_share"];
        paths.extend(rules.iter().map(|key| format!("rules.{key}")));
        if self.pool.is_some() {
            paths.extend(KEYS.iter().map(|key| format!("pool.{key}")));
        }
        paths
    }

    /// The number at a path; `None` if there is none.
    pub fn number(&self, path: &str) -> Option<f64> {
        match self.clone().place(path)? {
            Place::Number(value) => Some(value.value),
            _ => None,
        }
    }

    /// Replaces the value at `path`, given as text; its source becomes `source`.
    ///
    /// The value is a number (`dimms[ddr5-256].price`, `cpu.price`, `devices[0].board_price`), a
    /// list with commas (`devices[0].sizes_gib=64,128`, `cpu.counts=1,2,4`), or true or false
    /// (`rules.mixed_sizes`).
    ///
    /// # Errors
    /// [`PriceError::UnknownPath`] suggests the most similar path; [`PriceError::Value`] if the
    /// text is not of the right type or out of range. After an error the prices are unchanged.
    pub fn set(&mut self, path: &str, text: &str, source: &str) -> Result<(), PriceError> {
        let wrong = |expected: &str| PriceError::Value {
            file: self.name.clone(),
            line: 0,
            field: path.into(),
            found: format!("{text:?}"),
            expected: expected.into(),
        };
        // On a copy, so that an error leaves the prices unchanged.
        let mut changed = self.clone();
        let Some(place) = changed.place(path) else {
            let paths = self.paths();
            let near = tierloom_text::nearest(path, paths.iter().map(String::as_str));
            let hint = near.map_or_else(
                || format!("it has {}", paths.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            return Err(PriceError::UnknownPath {
                name: self.name.clone(),
                path: path.into(),
                hint,
            });
        };
        match place {
            Place::Number(value) => {
                let number = text.parse().map_err(|_| wrong("a number"))?;
                *value = Value::new(number, SourceKind::Assumed, source);
            }
            Place::Counts(counts, why) => {
                *counts = list(text).ok_or_else(|| wrong("whole numbers with commas (1,2)"))?;
                *why = source.into();
            }
            Place::Sizes(sizes, why) => {
                *sizes = list(text).ok_or_else(|| wrong("sizes in GiB with commas (64,128)"))?;
                *why = source.into();
            }
            Place::Switch(switch, why) => {
                *switch = text.parse().map_err(|_| wrong("true or false"))?;
                *why = source.into();
            }
        }
        changed.check()?;
        *self = changed;
        Ok(())
    }

    fn place(&mut self, path: &str) -> Option<Place<'_>> {
        let (group, key) = path.rsplit_once('.')?;
        match group {
            "cpu" => {
                let cpu = &mut self.cpu;
                match key {
                    "price" => Some(Place::Number(&mut cpu.price)),
                    "channels" => Some(Place::Number(&mut cpu.channels)),
                    "dimms_per_channel" => Some(Place::Number(&mut cpu.dimms_per_channel)),
                    "counts" => Some(Place::Counts(&mut cpu.counts, &mut cpu.counts_source)),
                    _ => None,
                }
            }
            "rules" => {
                let rules = &mut self.rules;
                match key {
                    "all_slots_filled" => Some(Place::Switch(
                        &mut rules.all_slots_filled,
                        &mut rules.all_slots_filled_source,
                    )),
                    "mixed_sizes" => Some(Place::Switch(
                        &mut rules.mixed_sizes,
                        &mut rules.mixed_sizes_source,
                    )),
                    "reused_price_share" => Some(Place::Number(&mut rules.reused_price_share)),
                    _ => None,
                }
            }
            "pool" => self.pool.as_mut()?.field(key).map(Place::Number),
            _ => self.entry(group, key),
        }
    }

    /// Field of `dimms[ddr5-256]` or `devices[0]`; DIMMs also by index, devices also by name.
    fn entry(&mut self, group: &str, key: &str) -> Option<Place<'_>> {
        let (list, which) = group.strip_suffix(']')?.split_once('[')?;
        let number: Option<usize> = which.parse().ok();
        match list {
            "dimms" if key == "price" => {
                let mut all = self.dimms.iter_mut().enumerate();
                all.find(|(index, d)| d.key() == which || Some(*index) == number)
                    .map(|(_, d)| Place::Number(&mut d.price))
            }
            "devices" => {
                let mut all = self.devices.iter_mut().enumerate();
                let (_, device) =
                    all.find(|(index, d)| d.name == which || Some(*index) == number)?;
                match key {
                    "slots" => Some(Place::Number(&mut device.slots)),
                    "max" => Some(Place::Number(&mut device.max)),
                    "board_price" => Some(Place::Number(&mut device.board_price)),
                    "sizes_gib" => Some(Place::Sizes(
                        &mut device.sizes_gib,
                        &mut device.sizes_source,
                    )),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

fn list<T: std::str::FromStr>(text: &str) -> Option<Vec<T>> {
    let items = text.trim_matches(['[', ']']).split(',');
    items.map(|item| item.trim().parse().ok()).collect()
}
