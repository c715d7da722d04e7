//! `SET tierloom.memory.CLASS`: the placement of operator memory.
//!
//! Parses and prints the places of a class; applying them needs a new engine, see
//! [`super::settings`].

use super::error::SqlError;
use tierloom_engine::routing::{PlaceSpec, RoutingOptions};
use tierloom_memory::router::{self, Class, PlaceTarget};
use tierloom_topology::Topology;

/// Sets the places of `class` in `options`.
///
/// The syntax is `PLACEMENT[:LIMIT]`, with further choices after commas and weights in brackets as
/// in `[0:3,1:1]:4GiB`. `kernel` leaves the class to the kernel.
pub(super) fn with_class(
    options: RoutingOptions,
    class: &str,
    value: &str,
    topology: &Topology,
) -> Result<RoutingOptions, SqlError> {
    let class: Class = class.parse().map_err(SqlError::input)?;
    let mut options = RoutingOptions {
        topology: Some(topology.clone()),
        ..options
    };
    options.places.retain(|(known, _)| *known != class);
    if value.eq_ignore_ascii_case("kernel") {
        return Ok(options);
    }
    let wrong = |problem: String| {
        SqlError::input(format!(
            "tierloom.memory.{class} cannot be {value:?}: {problem}"
        ))
    };
    let places = PlaceSpec::list(value).map_err(|e| wrong(e.to_string()))?;
    for place in &places {
        place.resolve(topology).map_err(|e| wrong(e.to_string()))?;
        if place.target == PlaceTarget::Pool && router::pool_name().is_none() {
            return Err(wrong("no pool is open; name one with --pool".to_owned()));
        }
    }
    options.places.push((class, places));
    Ok(options)
}

/// The places of a class in the syntax of `SET`; `kernel` if it has none.
pub(super) fn shown(options: Option<&RoutingOptions>, class: Class) -> String {
    let places = options
        .into_iter()
        .flat_map(|o| &o.places)
        .filter(|(known, _)| *known == class)
        .flat_map(|(_, places)| places);
    let texts: Vec<String> = places.map(PlaceSpec::to_string).collect();
    if texts.is_empty() {
        "kernel".into()
    } else {
        texts.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_memory::{FakeNode, fake_topology};

    fn set(class: &str, value: &str) -> Result<String, SqlError> {
        let node = |node, cpus| FakeNode {
            node,
            cpus,
            memory_bytes: 1 << 30,
        };
        let topology = fake_topology(&[node(0, 2), node(1, 0)]).unwrap();
        let options = with_class(RoutingOptions::default(), class, value, &topology)?;
        Ok(shown(Some(&options), class.parse().unwrap()))
    }

    #[test]
    fn places_limits_weights_and_second_choices_are_kept() {
        for (value, kept) in [
            ("cxl", "[cxl]"),
            ("dram:1.5GiB", "[dram]:1536MiB"),
            ("[0:3,1:1]:4GiB, dram", "[0:3,1:1]:4GiB,[dram]"),
            ("kernel", "kernel"),
        ] {
            assert_eq!(set("join", value).unwrap(), kept, "{value}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (class, value) in [
            ("heap", "dram"),
            ("join", "7"),
            ("join", "dram:0MiB"),
            ("join", "dram:xGiB"),
            ("join", "dram,"),
            ("join", "pool"),
        ] {
            assert!(set(class, value).is_err(), "{class} {value}");
        }
    }
}
