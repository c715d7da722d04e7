//! Text form of a class's places: `PLACEMENT[:LIMIT]`, as in `cxl`, `dram:1.5GiB`,
//! `[0:3,1:1]:4GiB`.

use std::fmt;
use std::str::FromStr;

use super::{Class, RouterError};
use crate::PlacementSpec;

/// Units of limits, as powers of two; output uses the first one.
const UNITS: [(&str, u32); 3] = [("MiB", 20), ("GiB", 30), ("TiB", 40)];
/// A limit from here on (about 888 PiB) is taken for a typing error.
const MOST_BYTES: f64 = 1e18;

/// A place that a class may use, given by nodes or tiers.
///
/// ```
/// use tierloom_memory::router::PlaceSpec;
/// let place: PlaceSpec = "[0:3,1:1]:1.5GiB".parse()?;
/// assert_eq!(place.to_string(), "[0:3,1:1]:1536MiB");
/// # Ok::<(), tierloom_memory::router::RouterError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PlaceSpec {
    /// Nodes or tiers that the pages come from.
    pub placement: PlacementSpec,
    /// Most bytes that the class may have there; `None` for no limit but the nodes' memory.
    pub limit_bytes: Option<u64>,
}

impl PlaceSpec {
    /// Parses a comma-separated list of places, first choice first; weights are in brackets.
    ///
    /// # Errors
    /// [`RouterError::Spec`] if an element is not `PLACEMENT[:LIMIT]` or a bracket is not closed.
    pub fn list(text: &str) -> Result<Vec<PlaceSpec>, RouterError> {
        pieces(text)?.into_iter().map(str::parse).collect()
    }

    /// Parses places by class: `CLASS=PLACE,...`.
    ///
    /// A class that is named again gets a further place, used when the earlier ones are full.
    ///
    /// # Errors
    /// [`RouterError::Spec`] for text of another form, [`RouterError::UnknownClass`] for a class
    /// that does not exist.
    pub fn by_class(text: &str) -> Result<Vec<(Class, Vec<PlaceSpec>)>, RouterError> {
        let mut all: Vec<(Class, Vec<PlaceSpec>)> = Vec::new();
        for piece in pieces(text)? {
            let (class, place) = piece.split_once('=').ok_or_else(|| {
                wrong(
                    piece,
                    "it is not CLASS=PLACEMENT[:LIMIT], as in join=cxl or aggregation=dram:2GiB",
                )
            })?;
            let (class, place) = (class.parse::<Class>()?, place.parse()?);
            match all.iter_mut().find(|(known, _)| *known == class) {
                Some((_, of_class)) => of_class.push(place),
                None => all.push((class, vec![place])),
            }
        }
        Ok(all)
    }
}

impl fmt::Display for PlaceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.placement)?;
        match self.limit_bytes {
            Some(bytes) => write!(f, ":{}MiB", bytes >> 20),
            None => Ok(()),
        }
    }
}

impl FromStr for PlaceSpec {
    type Err = RouterError;

    /// Parses one place; the brackets around the placement may be left out.
    ///
    /// # Errors
    /// [`RouterError::Spec`] if the placement or the limit cannot be read.
    fn from_str(text: &str) -> Result<Self, RouterError> {
        // Both a weight and a limit follow a colon. Only a limit has a unit, so `dram:2GiB` has a
        // limit and `dram:3` a weight.
        let (placement, limit) = match text.rsplit_once(':') {
            Some((placement, limit)) if limit.trim().ends_with("iB") => {
                (placement, Some(limit.trim()))
            }
            _ => (text, None),
        };
        let bare = placement.trim().trim_matches(['[', ']']);
        Ok(PlaceSpec {
            placement: bare.parse().map_err(|e| wrong(text, e))?,
            limit_bytes: limit.map(|limit| limit_of(text, limit)).transpose()?,
        })
    }
}

fn wrong(text: &str, reason: impl fmt::Display) -> RouterError {
    RouterError::Spec {
        text: text.to_owned(),
        reason: reason.to_string(),
    }
}

fn limit_of(text: &str, limit: &str) -> Result<u64, RouterError> {
    let found = UNITS.iter().find_map(|(unit, shift)| {
        let count: f64 = limit.strip_suffix(unit)?.trim().parse().ok()?;
        let bytes = count * (1_u64 << shift) as f64;
        // NaN, which `parse` accepts, fails both comparisons.
        (bytes >= (1_u64 << 20) as f64 && bytes < MOST_BYTES).then_some(bytes as u64)
    });
    found.ok_or_else(|| {
        wrong(
            text,
            format!("{limit:?} is no limit; write it as in 512MiB, 1.5GiB or 2TiB"),
        )
    })
}

/// Splits at commas outside brackets.
fn pieces(text: &str) -> Result<Vec<&str>, RouterError> {
    let (mut found, mut start, mut open) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '[' => open = true,
            ']' => open = false,
            ',' if !open => {
                found.push(text.get(start..at).unwrap_or_default().trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if open {
        return Err(wrong(text, "a bracket is not closed"));
    }
    found.push(text.get(start..).unwrap_or_default().trim());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(Class, Vec<String>)> {
        let shown = |places: Vec<PlaceSpec>| places.iter().map(PlaceSpec::to_string).collect();
        let all = PlaceSpec::by_class(text).unwrap().into_iter();
        all.map(|(class, places)| (class, shown(places))).collect()
    }

    #[test]
    fn limits_are_told_from_weights_and_commas_in_brackets_do_not_split() {
        assert_eq!(
            read("join=[0:3,1:1]:1.5GiB, join=dram, sort=3:2,temp=cxl:2TiB"),
            [
                (
                    Class::JoinBuild,
                    vec!["[0:3,1:1]:1536MiB".into(), "[dram]".into()]
                ),
                (Class::SortRun, vec!["[dram:3,cxl:2]".into()]),
                (Class::TempTable, vec!["[cxl]:2097152MiB".into()]),
            ]
        );
    }

    #[test]
    fn what_is_shown_is_read_again_as_the_same() {
        for text in ["[0:3,1:1]:4096MiB", "[dram]", "[cxl]:1MiB"] {
            assert_eq!(text.parse::<PlaceSpec>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_was_typed() {
        for text in [
            "dram:0GiB",
            "dram:xGiB",
            "dram:4KiB",
            "dram:nanGiB",
            "dram:1e30TiB",
            "",
        ] {
            let error = text.parse::<PlaceSpec>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
        for text in [
            "join",
            "heap=dram",
            "join=",
            "",
            "join=[0:1,1:1",
            "join=dram,",
        ] {
            assert!(PlaceSpec::by_class(text).is_err(), "{text:?}");
        }
    }
}
