//! Parses placements of the model: `cxl`, `3:2`, `dram:3,cxl:2`, `table=cxl,default=dram`,
//! `hash-table=3:2`.
//!
//! Unlike placements of `tierloom run`, which name nodes and tiers of this machine, these name
//! tiers of a profile and may differ between structures and classes.

use crate::works::did_you_mean;
use tierloom_model::{Machine, Phase, Placement, StructureClass, TIER_NAMES, TierShares};

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
    for (key, parts) in entries(text).map_err(wrong)? {
        let shares = shares(&parts, machine).map_err(wrong)?;
        if seen.contains(&key) {
            return Err(wrong(format!("{key} is given twice")));
        }
        match place_of(&key, phases).map_err(wrong)? {
            Place::Default => placement.default = shares,
            Place::Structure => placement = placement.with_structure(key.clone(), shares),
            Place::Class(class) => placement = placement.with_class(class, shares),
        }
        seen.push(key);
    }
    Ok(placement)
}

/// Splits at commas; a part without a name continues the shares before it.
fn entries(text: &str) -> Result<Vec<(String, Vec<String>)>, String> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for part in text.split(',').map(str::trim) {
        if part.is_empty() {
            return Err("an empty part; give a tier (dram), weights (3:2), or NAME=TIER".into());
        }
        let named = part
            .split_once('=')
            // `dram=60%` is a share of a tier, `table=cxl` a placement of a structure.
            .filter(|(name, _)| !TIER_NAMES.contains(&name.trim()));
        match (named, found.last_mut()) {
            (Some((name, value)), _) => {
                found.push((name.trim().into(), vec![value.trim().into()]));
            }
            (None, Some((_, parts))) => parts.push(part.into()),
            (None, None) => found.push((DEFAULT.into(), vec![part.into()])),
        }
    }
    Ok(found)
}

/// Parses shares: `cxl`, `3:2`, or tiers with their weights (`dram:3`, `dram=3`, `dram=60%`).
fn shares(parts: &[String], machine: &Machine) -> Result<TierShares, String> {
    if let [one] = parts {
        if machine.tier(one).is_some() {
            return Ok(TierShares::all(one.as_str()));
        }
        if one.starts_with(|c: char| c.is_ascii_digit()) {
            return ratio(one, machine);
        }
    }
    let mut weights = Vec::new();
    for part in parts {
        let split = part.split_once([':', '=']);
        let Some((tier, weight)) = split else {
            check_tier(part, machine)?;
            return Err(format!(
                "{part} stands in a list without a weight; write {part}:1"
            ));
        };
        check_tier(tier, machine)?;
        weights.push((tier.trim(), number(weight)?));
    }
    TierShares::from_weights(&weights).map_err(|e| e.to_string())
}

fn check_tier(tier: &str, machine: &Machine) -> Result<(), String> {
    let tier = tier.trim();
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

fn number(text: &str) -> Result<f64, String> {
    let digits = text.trim().trim_end_matches('%');
    let parsed = digits.parse::<f64>().ok().filter(|x| x.is_finite());
    parsed.ok_or_else(|| format!("{text:?} is no weight; expected a number"))
}

/// Parses weights without names.
///
/// `3:2` is short for dram:3,cxl:2. Any other number of weights, or a machine without these two
/// tiers, uses all tiers of the machine in its order.
fn ratio(text: &str, machine: &Machine) -> Result<TierShares, String> {
    let numbers = text.split(':').map(number).collect::<Result<Vec<_>, _>>()?;
    let names: Vec<&str> = machine.tiers.iter().map(|t| t.name.as_str()).collect();
    let usual = ["dram", "cxl"];
    let tiers: Vec<&str> = if numbers.len() == 2 && usual.iter().all(|t| names.contains(t)) {
        usual.into()
    } else if numbers.len() == names.len() {
        names
    } else {
        return Err(format!(
            "{text} gives {} weights, but {} has {} tiers ({})",
            numbers.len(),
            machine.name,
            names.len(),
            names.join(", ")
        ));
    };
    let weights: Vec<(&str, f64)> = tiers.into_iter().zip(numbers).collect();
    TierShares::from_weights(&weights).map_err(|e| e.to_string())
}

enum Place {
    Default,
    Structure,
    Class(StructureClass),
}

/// Looks up a name of a placement. A mistyped name is an error, since it would otherwise have no
/// effect.
fn place_of(key: &str, phases: &[Phase]) -> Result<Place, String> {
    if key == DEFAULT {
        return Ok(Place::Default);
    }
    let accesses = || phases.iter().flat_map(|p| &p.accesses);
    // Structures come before classes: a name that is both means the more specific one.
    if accesses().any(|a| a.structure == key) {
        return Ok(Place::Structure);
    }
    if let Some(found) = accesses().find(|a| class_name(a.class) == key) {
        return Ok(Place::Class(found.class));
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
            "dram=3,cxl=2",
            "dram=60%,cxl=40%",
            "default=3:2",
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
        for (text, told) in [
            ("tabel=cxl", "did you mean table?"),
            ("hbm", "nus24 has no tier \"hbm\""),
            ("cx", "did you mean cxl?"),
            ("1:2:3:4", "gives 4 weights, but nus24 has 3 tiers"),
            ("0:0", "no weight is above 0"),
            ("table=cxl,dram", "without a weight"),
            ("dram,,cxl", "an empty part"),
            ("table=cxl,table=dram", "table is given twice"),
            ("3:x", "\"x\" is no weight"),
        ] {
            let error = parse(text, &machine, &phases()).unwrap_err();
            assert!(
                error.contains(told) && error.contains(text),
                "{text}: {error}"
            );
        }
    }
}
