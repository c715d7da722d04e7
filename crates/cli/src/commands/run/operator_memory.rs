//! `--operator-memory`: where the memory of operators goes, by class.

use crate::failure::Failure;
use std::path::PathBuf;
use tierloom_memory::PlacementSpec;
use tierloom_memory::router::Class;
use tierloom_topology::Topology;

/// Options of commands that run queries.
#[derive(Debug, Clone, clap::Args)]
pub struct OperatorMemoryArgs {
    /// Where operator memory goes, by class (join, aggregation, sort, repartition, temp, result, other): a placement each, with a limit if
    /// wanted, as in join=cxl,aggregation=dram:2GiB; weights in brackets, as in `join=[0:3,1:1]:4GiB`. A class that is named again gets a
    /// second choice. Classes that are not named are counted and left to the kernel
    #[arg(long, value_name = "CLASS=PLACEMENT[:LIMIT],...")]
    pub operator_memory: Option<String>,
    /// Write what was counted, where the pages were at the peak, and what did not go where it was wanted to FILE
    #[arg(long, value_name = "FILE.json")]
    pub memory_audit: Option<PathBuf>,
}

/// A place with its limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    pub placement: PlacementSpec,
    pub limit_bytes: Option<u64>,
}

/// What was typed, read and checked.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(
    not(feature = "sql"),
    allow(dead_code, reason = "only the SQL engine has operators")
)]
pub struct OperatorMemory {
    /// As typed.
    pub text: Option<String>,
    /// Places in order, by class.
    pub places: Vec<(Class, Vec<Place>)>,
    /// Where the audit goes.
    pub audit: Option<PathBuf>,
}

impl OperatorMemory {
    /// Reads what was typed and checks it on `topology`.
    ///
    /// # Errors
    /// Bad input: a class, placement or limit that cannot be read, or a node that is not there.
    pub fn resolve(args: &OperatorMemoryArgs, topology: &Topology) -> Result<Self, Failure> {
        let mut places: Vec<(Class, Vec<Place>)> = Vec::new();
        if let Some(text) = &args.operator_memory {
            let wrong = |problem: String| Failure::input(format!("--operator-memory: {problem}"));
            for piece in pieces(text).map_err(wrong)? {
                let (class, place) = one(piece).map_err(wrong)?;
                place
                    .placement
                    .resolve(topology)
                    .map_err(|e| wrong(e.to_string()))?;
                match places.iter_mut().find(|(known, _)| *known == class) {
                    Some((_, of_class)) => of_class.push(place),
                    None => places.push((class, vec![place])),
                }
            }
        }
        if let Some(file) = &args.memory_audit {
            crate::output::check_writable(file)?;
        }
        Ok(OperatorMemory {
            text: args.operator_memory.clone(),
            places,
            audit: args.memory_audit.clone(),
        })
    }
}

/// Splits at commas outside brackets.
fn pieces(text: &str) -> Result<Vec<&str>, String> {
    let (mut found, mut start, mut open) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '[' => open = true,
            ']' => open = false,
            ',' if !open => {
                found.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if open {
        return Err(format!("the bracket in {text:?} is not closed"));
    }
    found.push(text[start..].trim());
    Ok(found)
}

/// `join=cxl:2GiB`.
fn one(piece: &str) -> Result<(Class, Place), String> {
    let Some((class, rest)) = piece.split_once('=') else {
        return Err(format!(
            "{piece:?} is not CLASS=PLACEMENT[:LIMIT], as in join=cxl or aggregation=dram:2GiB"
        ));
    };
    let class = class.parse::<Class>().map_err(|e| e.to_string())?;
    let (placement, limit_bytes) = match rest.rsplit_once(':') {
        Some((placement, limit)) if limit.trim().ends_with("iB") => {
            (placement, Some(limit_of(limit.trim())?))
        }
        _ => (rest, None),
    };
    let bare = placement.trim().trim_matches(['[', ']']);
    let placement = bare.parse().map_err(|e| format!("{e}"))?;
    Ok((
        class,
        Place {
            placement,
            limit_bytes,
        },
    ))
}

fn limit_of(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 3] = [
        ("GiB", (1_u64 << 30) as f64),
        ("MiB", (1_u64 << 20) as f64),
        ("TiB", (1_u64 << 40) as f64),
    ];
    let wrong = || format!("{text:?} is no limit; write it as in 512MiB, 2GiB or 1.5TiB");
    let (digits, unit) = UNITS
        .iter()
        .find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)))
        .ok_or_else(wrong)?;
    let count: f64 = digits.trim().parse().map_err(|_| wrong())?;
    let bytes = count * unit;
    if !bytes.is_finite() || bytes < (1_u64 << 20) as f64 || bytes > 1e18 {
        return Err(wrong());
    }
    Ok(bytes as u64)
}

#[cfg(feature = "sql")]
impl OperatorMemory {
    /// Options of an engine on the machine described by `topology`.
    pub fn routing(&self, topology: &Topology) -> tierloom_engine::routing::RoutingOptions {
        let place = |place: &Place| tierloom_engine::routing::PlaceSpec {
            placement: place.placement.clone(),
            limit_bytes: place.limit_bytes,
        };
        tierloom_engine::routing::RoutingOptions {
            places: self
                .places
                .iter()
                .map(|(class, places)| (*class, places.iter().map(place).collect()))
                .collect(),
            cache_bytes: None,
            topology: Some(topology.clone()),
        }
    }

    /// Starts the audit of peaks if one was asked for. Call it when the data is loaded.
    pub fn watch(&self) {
        if self.audit.is_some() {
            tierloom_memory::router::watch_peak(true);
        }
    }

    /// Says on stderr what went elsewhere, and writes the audit if one was asked for.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&self) -> Result<(), Failure> {
        use tierloom_memory::router;
        let events = router::events();
        if self.text.is_some() {
            for event in &events {
                eprintln!(
                    "operator memory: {} of class {} ({} allocations) did not come from {} ({}) but from {}",
                    crate::output::size(event.bytes),
                    event.class,
                    event.count,
                    event.from,
                    event.why,
                    event.to.as_deref().unwrap_or("nowhere"),
                );
            }
        }
        let Some(file) = &self.audit else {
            return Ok(());
        };
        let text = serde_json::to_string_pretty(&serde_json::json!({
            "operator_memory": self.text,
            "places": router::place_usage(),
            "events": events,
            "peak": router::peak_audit(),
        }))
        .map_err(Failure::runtime)?;
        crate::output::write_file(file, format!("{text}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(Class, String, Option<u64>)> {
        pieces(text)
            .unwrap()
            .into_iter()
            .map(|piece| one(piece).unwrap())
            .map(|(class, place)| (class, place.placement.to_string(), place.limit_bytes))
            .collect()
    }

    #[test]
    fn limits_are_told_from_weights_and_commas_in_brackets_do_not_split() {
        assert_eq!(
            read("join=cxl,aggregation=dram:2GiB"),
            [
                (Class::JoinBuild, "cxl".into(), None),
                (Class::Aggregation, "dram".into(), Some(2 << 30)),
            ]
        );
        assert_eq!(
            read("join=[0:3,1:1]:1.5GiB, join=dram, sort=3:2"),
            [
                (Class::JoinBuild, "0:3,1:1".into(), Some(3 << 29)),
                (Class::JoinBuild, "dram".into(), None),
                (Class::SortRun, "dram:3,cxl:2".into(), None),
            ]
        );
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for text in [
            "join",
            "heap=dram",
            "join=dram:0GiB",
            "join=dram:xGiB",
            "join=dram:4KiB",
            "join=",
            "",
        ] {
            assert!(one(text).is_err(), "{text:?}");
        }
        assert!(pieces("join=[0:1,1:1").is_err());
    }
}
