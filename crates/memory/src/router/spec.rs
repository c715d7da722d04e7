//! Text form of a class's places: `PLACEMENT[:LIMIT]`, as in `cxl`, `dram:1.5GiB`,
//! `[0:3,1:1]:4GiB`, and `pool[:LIMIT]`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use tierloom_text::{Bytes, continues, list, pieces};

use super::{Class, PlaceMemory, PlaceOptions, RouterError};
use crate::{PlacementError, PlacementSpec};
use tierloom_topology::Topology;

/// Limits from 1 MiB to 1 EiB; others are taken for typing errors.
const LIMITS: RangeInclusive<Bytes> = Bytes(1 << 20)..=Bytes(1 << 60);

/// Where the pages of a place come from.
#[derive(Debug, Clone, PartialEq)]
pub enum PlaceTarget {
    /// Nodes or tiers.
    Placement(PlacementSpec),
    /// The pool that the program has open: `pool`.
    Pool,
}

impl fmt::Display for PlaceTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceTarget::Placement(placement) => placement.fmt(f),
            PlaceTarget::Pool => f.write_str(super::POOL_PLACE),
        }
    }
}

/// A place that a class may use, given by nodes or tiers, or the pool.
///
/// ```
/// use tierloom_memory::router::PlaceSpec;
/// let place: PlaceSpec = "[0:3,1:1]:1.5GiB".parse()?;
/// assert_eq!(place.to_string(), "[0:3,1:1]:1536MiB");
/// # Ok::<(), tierloom_memory::router::RouterError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PlaceSpec {
    /// Where the pages come from.
    pub target: PlaceTarget,
    /// Most bytes that the class may have there; `None` for no limit but the nodes' memory.
    pub limit_bytes: Option<u64>,
}

impl PlaceSpec {
    /// The place on the nodes of `topology`.
    ///
    /// # Errors
    /// A node or tier that does not exist there.
    pub fn resolve(&self, topology: &Topology) -> Result<PlaceOptions, PlacementError> {
        let memory = match &self.target {
            PlaceTarget::Placement(placement) => PlaceMemory::Nodes(placement.resolve(topology)?),
            PlaceTarget::Pool => PlaceMemory::Pool,
        };
        Ok(PlaceOptions {
            name: self.target.to_string(),
            memory,
            limit_bytes: self.limit_bytes.unwrap_or(u64::MAX),
        })
    }

    /// Parses a comma-separated list of places, first choice first.
    ///
    /// As in every list of placements, weights of nodes are in brackets.
    ///
    /// # Errors
    /// [`RouterError::Spec`] if an element is not `PLACEMENT[:LIMIT]` or a bracket is not closed.
    pub fn list(text: &str) -> Result<Vec<PlaceSpec>, RouterError> {
        let places = list(text).map_err(|e| wrong(text, e))?;
        places.iter().map(|place| place.parse()).collect()
    }

    /// Parses places by class: `CLASS=PLACE,...`.
    ///
    /// A class that is named again gets a further place, used when the earlier ones are full.
    ///
    /// # Errors
    /// [`RouterError::Spec`] for text of another form, [`RouterError::UnknownClass`] for a class
    /// that does not exist.
    pub fn by_class(text: &str) -> Result<Vec<(Class, Vec<PlaceSpec>)>, RouterError> {
        let mut places: Vec<(Class, String)> = Vec::new();
        for piece in pieces(text).map_err(|e| wrong(text, e))? {
            let named = piece.split_once('=');
            let class = named.map(|(class, _)| class.parse::<Class>());
            match (named, class, places.last_mut()) {
                (Some((_, place)), Some(Ok(class)), _) => places.push((class, place.to_owned())),
                // `dram:3,cxl:2` is one placement, as in every list.
                (_, _, Some((_, before))) if continues(before, piece) => {
                    before.push(',');
                    before.push_str(piece);
                }
                (_, Some(Err(unknown)), _) => return Err(unknown),
                _ => {
                    return Err(wrong(
                        piece,
                        "it is not CLASS=PLACEMENT[:LIMIT], as in join=cxl or aggregation=dram:2GiB",
                    ));
                }
            }
        }
        let mut all: Vec<(Class, Vec<PlaceSpec>)> = Vec::new();
        for (class, place) in places {
            let place = place.parse()?;
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
        write!(f, "[{}]", self.target)?;
        match self.limit_bytes {
            Some(bytes) => write!(f, ":{:#}", Bytes(bytes)),
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
        // Both a weight and a limit follow a colon. A number alone is a weight, so `dram:2GiB` has
        // a limit and `dram:3` a weight; behind brackets there can only be a limit.
        let is_limit = |placement: &str, limit: &str| {
            placement.trim_end().ends_with(']')
                || !limit.trim().bytes().all(|byte| byte.is_ascii_digit())
        };
        let (placement, limit) = match text.rsplit_once(':') {
            Some((placement, limit)) if !limit.contains(']') && is_limit(placement, limit) => {
                (placement, Some(limit.trim()))
            }
            _ => (text, None),
        };
        let target = match placement.trim() {
            "pool" | "[pool]" => PlaceTarget::Pool,
            _ => PlaceTarget::Placement(placement.parse().map_err(|e| wrong(text, e))?),
        };
        Ok(PlaceSpec {
            target,
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
    let limit: Bytes = limit.parse().map_err(|e| wrong(text, e))?;
    if LIMITS.contains(&limit) {
        Ok(limit.0)
    } else {
        let (least, most) = (LIMITS.start(), LIMITS.end());
        let problem = format!("a limit of {limit:#} is not between {least:#} and {most:#}");
        Err(wrong(text, problem))
    }
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
            read("join=[0:3,1:1]:1.5GiB, join=dram, sort=3:2,temp=cxl:2TiB,join=dram:3,cxl:2"),
            [
                (
                    Class::JoinBuild,
                    vec![
                        "[0:3,1:1]:1536MiB".into(),
                        "[dram]".into(),
                        "[dram:3,cxl:2]".into()
                    ]
                ),
                (Class::SortRun, vec!["[dram:3,cxl:2]".into()]),
                (Class::TempTable, vec!["[cxl]:2TiB".into()]),
            ]
        );
    }

    #[test]
    fn what_is_shown_is_read_again_as_the_same() {
        for text in [
            "[0:3,1:1]:4GiB",
            "[dram]",
            "[cxl]:1MiB",
            "[pool]",
            "[pool]:1GiB",
        ] {
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
