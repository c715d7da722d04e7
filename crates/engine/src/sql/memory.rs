//! `SET tierloom.memory.CLASS`: where the memory of operators goes.

use super::error::SqlError;
use crate::routing::{PlaceSpec, RoutingOptions};
use tierloom_memory::router::Class;
use tierloom_topology::Topology;

/// `options` with the places of `class` as `value` says: `PLACEMENT[:LIMIT]`, further choices after commas, weights in brackets as in
/// `[0:3,1:1]:4GiB`; `kernel` leaves the class to the kernel.
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
    let places = parts(value)
        .into_iter()
        .map(|text| place(text, topology))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| {
            SqlError::input(format!("tierloom.memory.{class} cannot be {value:?}: {e}"))
        })?;
    options.places.push((class, places));
    Ok(options)
}

/// The places of a class as they are typed; `kernel` if it has none.
pub(super) fn shown(options: Option<&RoutingOptions>, class: Class) -> String {
    let places = options
        .into_iter()
        .flat_map(|o| &o.places)
        .filter(|(known, _)| *known == class)
        .flat_map(|(_, places)| places);
    let texts: Vec<String> = places
        .map(|place| match place.limit_bytes {
            Some(bytes) => format!("[{}]:{}MiB", place.placement, bytes >> 20),
            None => format!("[{}]", place.placement),
        })
        .collect();
    if texts.is_empty() {
        "kernel".into()
    } else {
        texts.join(",")
    }
}

/// Splits at commas outside of brackets.
fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0;
    text.split(|letter| {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    })
    .map(str::trim)
    .collect()
}

fn place(text: &str, topology: &Topology) -> Result<PlaceSpec, String> {
    let (placement, limit_bytes) = match text.rsplit_once(':') {
        Some((placement, limit)) if limit.trim().ends_with("iB") => {
            (placement, Some(limit_of(limit.trim())?))
        }
        _ => (text, None),
    };
    let bare = placement.trim().trim_matches(['[', ']']);
    let placement: tierloom_memory::PlacementSpec = bare.parse().map_err(|e| format!("{e}"))?;
    placement.resolve(topology).map_err(|e| e.to_string())?;
    Ok(PlaceSpec {
        placement,
        limit_bytes,
    })
}

fn limit_of(text: &str) -> Result<u64, String> {
    let units = [("MiB", 20u32), ("GiB", 30), ("TiB", 40)];
    let found = units.iter().find_map(|(unit, shift)| {
        let count: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        let bytes = count * (1u64 << shift) as f64;
        (bytes >= (1u64 << 20) as f64 && bytes < 1e18).then_some(bytes as u64)
    });
    found.ok_or_else(|| format!("{text:?} is no limit; write it as in 512MiB or 1.5GiB"))
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
            ("[0:3,1:1]:4GiB, dram", "[0:3,1:1]:4096MiB,[dram]"),
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
        ] {
            assert!(set(class, value).is_err(), "{class} {value}");
        }
    }
}
