//! Parses placements of the model: `cxl`, `3:2`, `dram:3,cxl:2`, `table=cxl,default=dram`,
//! `hash-table=3:2`.
//!
//! They are written as those of `tierloom run`, which name nodes and tiers of this machine, but
//! name tiers of a profile and may differ between structures and classes.

use crate::works::did_you_mean;
use tierloom_model::{Machine, Phase, Placement, StructureClass, TIER_NAMES, TierShares};
use tierloom_text::{Place, Placement as Text};

/// Name of the placement of everything that is not named.
const DEFAULT: &str = "default";

/// Parses `text` for the tiers of `machine` and the structures that `phases` access.
///
/// # Errors
/// A sentence that names the part at fault and what is accepted there.
pub fn parse(text: &str, machine: &Machine, phases: &[Phase]) -> Result<Placement, String> {
    let wrong = |problem: String| format!("placement {text:?}: {problem}");
    // What no part of the text covers stays on the first tier.
    let first = machine.tiers.first().map_or("dram", |t| t.name.as_str());
    let mut placement = Placement::new(TierShares::all(first));
    let mut seen: Vec<String> = Vec::new();
    for (key, value) in entries(text).map_err(wrong)? {
        let shares = shares(&value, machine).map_err(wrong)?;
        if seen.contains(&key) {
            return Err(wrong(format!("{key} is given twice")));
        }
        match place_of(&key, phases).map_err(wrong)? {
            Key::Default => placement.default = shares,
            Key::Structure => placement = placement.with_structure(key.clone(), shares),
            Key::Class(class) => placement = placement.with_class(class, shares),
        }
        seen.push(key);
    }
    Ok(placement)
}

/// Splits at commas outside brackets; a part without a name continues the placement before it.
fn entries(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut found: Vec<(String, String)> = Vec::new();
    for part in tierloom_text::pieces(text).map_err(|e| e.to_string())? {
        let named = part
            .split_once('=')
            // `dram=60%` is a share of a tier, `table=cxl` a placement of a structure.
            .filter(|(name, value)| {
                let name = name.trim();
                !name.starts_with('[') && !TIER_NAMES.contains(&name) && !is_share(value)
            });
        match (named, found.last_mut()) {
            (Some((name, value)), _) => found.push((name.trim().into(), value.trim().into())),
            (None, Some((_, placement))) => *placement = format!("{placement},{part}"),
            (None, None) => found.push((DEFAULT.into(), part.into())),
        }
    }
    Ok(found)
}

fn is_share(text: &str) -> bool {
    let number = text.trim().strip_suffix('%');
    number.is_some_and(|number| number.trim().parse::<f64>().is_ok())
}

/// Parses a placement on the tiers of `machine`.
fn shares(text: &str, machine: &Machine) -> Result<TierShares, String> {
    let placement: Text = text.parse().map_err(|e| format!("{e}"))?;
    for place in placement.used() {
        match place {
            Place::Tier(tier) => check_tier(tier, machine)?,
            Place::Node(node) => {
                return Err(format!(
                    "node {node}: a modelled machine has tiers and no nodes"
                ));
            }
        }
    }
    TierShares::of(&placement).map_err(|e| e.to_string())
}

fn check_tier(tier: &str, machine: &Machine) -> Result<(), String> {
    if machine.tier(tier).is_some() {
        return Ok(());
    }
    let known: Vec<&str> = machine.tiers.iter().map(|t| t.name.as_str()).collect();
    Err(format!(
        "{} has no tier {tier:?}: {}it has {}; weights are written 3:2 or dram:3,cxl:2",
        machine.name,
        did_you_mean(tier, known.iter().copied()),
        known.join(", ")
    ))
}

enum Key {
    Default,
    Structure,
    Class(StructureClass),
}

/// Looks up a name of a placement. A mistyped name is an error, since it would otherwise have no
/// effect.
fn place_of(key: &str, phases: &[Phase]) -> Result<Key, String> {
    if key == DEFAULT {
        return Ok(Key::Default);
    }
    let accesses = || phases.iter().flat_map(|p| &p.accesses);
    // Structures come before classes: a name that is both means the more specific one.
    if accesses().any(|a| a.structure == key) {
        return Ok(Key::Structure);
    }
    if let Some(found) = accesses().find(|a| class_name(a.class) == key) {
        return Ok(Key::Class(found.class));
    }
    let mut known: Vec<String> = accesses().map(|a| a.structure.clone()).collect();
    known.extend(accesses().map(|a| class_name(a.class).to_owned()));
    known.push(DEFAULT.into());
    known.sort();
    known.dedup();
    Err(format!(
        "nothing that is touched is called {key:?}: {}there are {}",
        did_you_mean(key, known.iter().map(String::as_str)),
        known.join(", ")
    ))
}

/// Names of classes as in the files of phases.
fn class_name(class: StructureClass) -> &'static str {
    match class {
        StructureClass::Column => "column",
        StructureClass::HashTable => "hash-table",
        StructureClass::GroupTable => "group-table",
        StructureClass::SortRun => "sort-run",
        StructureClass::Buffer => "buffer",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_model::profiles;
    use tierloom_model::reference::work::{Join, Work};

    fn phases() -> Vec<Phase> {
        Work::Probe(Join::default()).phases(8).unwrap()
    }

    fn shares_of(text: &str, structure: &str) -> String {
        let (machine, phases) = (profiles::load("nus24").unwrap(), phases());
        let placement = parse(text, &machine, &phases).unwrap();
        let access = phases[0].accesses.iter().find(|a| a.structure == structure);
        placement.shares(access.unwrap()).to_string()
    }

    #[test]
    fn everything_or_single_structures_and_classes_are_placed() {
        let both = "dram=60.0%,cxl=40.0%";
        for text in [
            "3:2",
            "dram:3,cxl:2",
            "dram 3, cxl 2",
            "[dram:3,cxl:2]",
            "dram=60%,cxl=40%",
            "[dram=60%,cxl=40%]",
            "default=3:2",
            "default=dram=60%,cxl=40%",
        ] {
            assert_eq!(shares_of(text, "table"), both, "{text}");
        }
        assert_eq!(shares_of("cxl", "input"), "cxl=100.0%");
        for text in [
            "table=cxl,default=3:2",
            "3:2,table=cxl",
            "hash-table=cxl,column=3:2",
        ] {
            assert_eq!(shares_of(text, "table"), "cxl=100.0%", "{text}");
            assert_eq!(shares_of(text, "input"), both, "{text}");
        }
        let split = "table=dram:3,cxl:2,input=cxl";
        assert_eq!(
            (shares_of(split, "table"), shares_of(split, "input")),
            (both.into(), "cxl=100.0%".into())
        );
        assert_eq!(shares_of("table=cxl", "input"), "dram=100.0%");
    }

    #[test]
    fn mistakes_are_named_with_what_may_stand_there() {
        let machine = profiles::load("nus24").unwrap();
        for (text, expected) in [
            ("tabel=cxl", "did you mean table?"),
            ("hbm", "nus24 has no tier \"hbm\""),
            ("cx", "did you mean cxl?"),
            ("1:2:3", "a ratio has two numbers"),
            ("dram=3,cxl=2", "weights have a colon"),
            ("0:3,2:2", "no nodes"),
            ("0:0", "no weight is above 0"),
            ("table=cxl,dram", "weight is missing"),
            ("dram,,cxl", "a weight is missing"),
            ("table=cxl,table=dram", "table is given twice"),
            ("3:x", "`x` is not a weight"),
        ] {
            let error = parse(text, &machine, &phases()).unwrap_err();
            assert!(
                error.contains(expected) && error.contains(text),
                "{text}: {error}"
            );
        }
    }
}
