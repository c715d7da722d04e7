//! Description of a PMU under `/sys/bus/event_source/devices`: type, CPUs, formats, events.
//!
//! The layout is documented in the kernel's
//! `Documentation/ABI/testing/sysfs-bus-event_source-devices-*`. A file in `format` maps a field to
//! bits of a configuration word (`config:0-7,32-35`); a file in `events` sets fields
//! (`event=0x04,umask=0x03`).

use std::collections::BTreeMap;
use std::io;

use tierloom_topology::{IdSet, SysRoot};

use crate::files;

/// The kernel's directory of PMUs, relative to the system root.
pub const DEVICES: &str = "sys/bus/event_source/devices";

/// Why a PMU or one of its events cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PmuError {
    /// A file is missing or unreadable.
    #[error("/{path} cannot be read: {source}")]
    Unreadable {
        /// Path of the file, without the leading slash.
        path: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file has unexpected contents.
    #[error("/{path} should hold {expected}, but it holds `{found}`")]
    Garbled {
        /// Path of the file, without the leading slash.
        path: String,
        /// Description of valid contents.
        expected: &'static str,
        /// Start of the actual contents.
        found: String,
    },
    /// An event sets a field that the PMU does not have.
    #[error("{pmu} has no field `{field}`, which {event} sets")]
    NoField {
        /// Name of the PMU.
        pmu: String,
        /// Name of the missing field.
        field: String,
        /// Name of the event.
        event: String,
    },
    /// A value does not fit its field.
    #[error("{value:#x} does not fit the field `{field}` of {pmu} ({bits} bits)")]
    TooLarge {
        /// Name of the PMU.
        pmu: String,
        /// Name of the field.
        field: String,
        /// Value that the event sets.
        value: u64,
        /// Width of the field in bits.
        bits: usize,
    },
}

/// Bits of a configuration word that a field occupies, least significant first.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    word: usize,
    bits: Vec<u32>,
}

/// Value of one count of an event, as the kernel reports it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// Multiplier that converts a count to `unit`.
    pub factor: f64,
    /// Unit after multiplication, such as "MiB"; empty if the kernel reports none.
    pub unit: String,
}

impl Scale {
    /// Bytes per count; `None` if the unit is not a multiple of bytes.
    pub fn bytes(&self) -> Option<f64> {
        let unit_bytes = match self.unit.as_str() {
            "Bytes" | "bytes" | "B" => 1.0,
            "KiB" => 1024.0,
            "MiB" => 1024.0 * 1024.0,
            "GiB" => 1024.0 * 1024.0 * 1024.0,
            "MB" => 1e6,
            _ => return None,
        };
        Some(self.factor * unit_bytes)
    }
}

/// A performance monitoring unit.
#[derive(Debug, Clone)]
pub struct Pmu {
    /// Name of its directory, such as "uncore_imc_0".
    pub name: String,
    /// Type number that the kernel assigned to it.
    pub pmu_type: u32,
    /// CPUs to open it on, one per instance (socket or die); empty if the kernel lists none.
    pub cpus: IdSet,
    /// Names of the events that the kernel describes for it.
    pub events: Vec<String>,
    fields: BTreeMap<String, Field>,
    directory: String,
}

/// Names of all PMUs, ordered by length first, so that numbers ascend.
pub fn names(root: &SysRoot) -> Vec<String> {
    files::list(root, DEVICES)
}

fn text(root: &SysRoot, path: &str) -> Result<String, PmuError> {
    files::read(root, path).map_err(|source| PmuError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

fn garbled(path: &str, expected: &'static str, found: &str) -> PmuError {
    PmuError::Garbled {
        path: path.to_owned(),
        expected,
        found: found.chars().take(60).collect(),
    }
}

impl Pmu {
    /// Reads the description of the PMU `name`.
    ///
    /// # Errors
    /// [`PmuError::Unreadable`] or [`PmuError::Garbled`] with the path of the file.
    pub fn read(root: &SysRoot, name: &str) -> Result<Self, PmuError> {
        let directory = format!("{DEVICES}/{name}");
        let type_path = format!("{directory}/type");
        let type_text = text(root, &type_path)?;
        let pmu_type = type_text
            .parse()
            .map_err(|_| garbled(&type_path, "the number of a PMU", &type_text))?;
        let mask_path = format!("{directory}/cpumask");
        let cpus = match files::read(root, &mask_path) {
            Ok(list) => list
                .parse()
                .map_err(|_| garbled(&mask_path, "a list of CPUs such as 0,24", &list))?,
            Err(_) => IdSet::new(),
        };
        let mut fields = BTreeMap::new();
        for field in files::list(root, &format!("{directory}/format")) {
            let path = format!("{directory}/format/{field}");
            let layout = text(root, &path)?;
            let parsed = parse_field(&layout)
                .ok_or_else(|| garbled(&path, "bits such as config:0-7,32-35", &layout))?;
            fields.insert(field, parsed);
        }
        let events = files::list(root, &format!("{directory}/events"));
        Ok(Self {
            name: name.to_owned(),
            pmu_type,
            cpus,
            // `NAME.scale` and `NAME.unit` are attributes of the event `NAME`.
            events: events.into_iter().filter(|e| !e.contains('.')).collect(),
            fields,
            directory,
        })
    }

    /// Whether the kernel describes this event for the PMU.
    pub fn has(&self, event: &str) -> bool {
        self.events.iter().any(|name| name == event)
    }

    /// Configuration words of an event that the kernel describes.
    ///
    /// # Errors
    /// [`PmuError`] with the file or the field at fault.
    pub fn event(&self, root: &SysRoot, event: &str) -> Result<[u64; 3], PmuError> {
        let path = format!("{}/events/{event}", self.directory);
        let terms = text(root, &path)?;
        let terms = parse_terms(&terms)
            .ok_or_else(|| garbled(&path, "fields such as event=0x04,umask=0x03", &terms))?;
        let terms: Vec<(&str, u64)> = terms.iter().map(|(f, v)| (f.as_str(), *v)).collect();
        self.encode(event, &terms)
    }

    /// Configuration words with these fields set.
    ///
    /// # Errors
    /// [`PmuError::NoField`] for an unknown field, [`PmuError::TooLarge`] for a value that does not
    /// fit.
    pub fn encode(&self, event: &str, terms: &[(&str, u64)]) -> Result<[u64; 3], PmuError> {
        let mut config = [0; 3];
        for (name, value) in terms {
            // As in perf, events may set a whole word without a format file.
            let whole = ["config", "config1", "config2"]
                .iter()
                .position(|w| w == name);
            if let Some(word) = whole {
                config[word] |= value;
                continue;
            }
            let field = self.fields.get(*name).ok_or_else(|| PmuError::NoField {
                pmu: self.name.clone(),
                field: (*name).to_owned(),
                event: event.to_owned(),
            })?;
            config[field.word] |= field.spread(*value).ok_or_else(|| PmuError::TooLarge {
                pmu: self.name.clone(),
                field: (*name).to_owned(),
                value: *value,
                bits: field.bits.len(),
            })?;
        }
        Ok(config)
    }

    /// Scale and unit of an event; `None` if the kernel reports no valid scale.
    pub fn scale(&self, root: &SysRoot, event: &str) -> Option<Scale> {
        let file =
            |suffix| files::read(root, &format!("{}/events/{event}.{suffix}", self.directory));
        let factor: f64 = file("scale").ok()?.parse().ok()?;
        (factor.is_finite() && factor > 0.0).then(|| Scale {
            factor,
            unit: file("unit").unwrap_or_default(),
        })
    }
}

impl Field {
    /// Spreads the bits of a value over the field; `None` if the value does not fit.
    fn spread(&self, value: u64) -> Option<u64> {
        let width = u32::try_from(self.bits.len()).ok()?;
        // A field of 64 bits accepts any value; shifting by 64 would overflow.
        if value.checked_shr(width).unwrap_or(0) != 0 {
            return None;
        }
        let places = self.bits.iter().enumerate();
        Some(places.fold(0, |word, (index, bit)| word | (value >> index & 1) << bit))
    }
}

/// Parses a format such as `config1:0-7,32-35`.
fn parse_field(layout: &str) -> Option<Field> {
    let (word, ranges) = layout.split_once(':')?;
    let word = match word.trim() {
        "config" => 0,
        "config1" => 1,
        "config2" => 2,
        _ => return None,
    };
    let mut bits = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last > 63 {
            return None;
        }
        bits.extend(first..=last);
    }
    (bits.len() <= 64).then_some(Field { word, bits })
}

/// Parses an event such as `event=0x04,umask=0x03,edge`; a field without a value is set to 1.
fn parse_terms(text: &str) -> Option<Vec<(String, u64)>> {
    let term = |term: &str| {
        let (name, value) = match term.split_once('=') {
            Some((name, value)) => (name.trim(), number(value.trim())?),
            None => (term.trim(), 1),
        };
        (!name.is_empty()).then(|| (name.to_owned(), value))
    };
    text.split(',').map(term).collect()
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_field_in_two_pieces_gets_its_low_bits_first() {
        let field = parse_field("config:0-7,32-35").unwrap();
        assert_eq!(field.spread(0xf12), Some(0xf_0000_0012));
        assert_eq!(field.spread(0x1000), None, "13 bits do not fit 12");
    }

    #[test]
    fn a_field_of_a_whole_word_takes_every_value() {
        let field = parse_field("config2:0-63").unwrap();
        assert_eq!((field.word, field.spread(u64::MAX)), (2, Some(u64::MAX)));
    }

    #[test]
    fn garbled_layouts_and_terms_are_refused() {
        for layout in [
            "",
            "config",
            "config3:0",
            "config:7-0",
            "config:0-64",
            "config:x",
            "config:0-63,0-63",
        ] {
            assert_eq!(parse_field(layout), None, "{layout}");
        }
        for terms in ["event=", "=1", "event=?", ""] {
            assert_eq!(parse_terms(terms), None, "{terms}");
        }
        assert_eq!(
            parse_terms("event=0x4,edge"),
            Some(vec![("event".into(), 4), ("edge".into(), 1)])
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn a_value_can_be_read_back_from_the_bits_of_its_field(start in 0..32_u32, low in 1..16_u32, gap in 0..8_u32, high in 1..8_u32, value: u64) {
            let second = start + low + gap;
            let layout = format!("config1:{start}-{},{second}-{}", start + low - 1, second + high - 1);
            let field = parse_field(&layout).unwrap();
            let spread = field.spread(value);
            prop_assert_eq!(spread.is_some(), value >> (low + high) == 0);
            if let Some(word) = spread {
                let back = (word >> start & ((1 << low) - 1)) | (word >> second & ((1 << high) - 1)) << low;
                prop_assert_eq!(back, value);
            }
        }

        #[test]
        fn garbage_never_panics(text in "[a-z0-9:,=\\-x? \u{e9}]{0,24}") {
            if let Some(field) = parse_field(&text) {
                prop_assert!(field.bits.iter().all(|bit| *bit < 64));
            }
            let _ = parse_terms(&text);
        }
    }

    #[test]
    fn only_units_of_bytes_become_bytes() {
        let scale = |unit: &str| {
            Scale {
                factor: 6.103515625e-5,
                unit: unit.into(),
            }
            .bytes()
        };
        assert_eq!(scale("MiB"), Some(64.0));
        assert_eq!(scale("Joules"), None);
        assert_eq!(scale(""), None);
    }
}
