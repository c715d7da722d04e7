//! Parser of placements in figures.

use crate::error::one_of;
use crate::yaml::{Mistake, Node, Value};
use tierloom_model::reference::work::Work;
use tierloom_model::{Placement, TierShares};
use tierloom_text::Placement as Text;

const EXPECTED: &str = "a tier (dram), weights of dram and cxl (3:2), weights by tier (dram:3,cxl:2), contiguous parts \
                        (dram=60%,cxl=40%), or a mapping of structures with a default";

/// Parses a placement; its structures must be those of the work.
pub(super) fn placement(node: &Node, work: &Work) -> Result<Placement, Mistake> {
    match &node.value {
        Value::Text(_) => Ok(Placement::new(shares(node)?)),
        Value::Map(entries) => {
            let mut placement = Placement::new(TierShares::all("dram"));
            for (key, value) in entries {
                let name = key.as_text().unwrap_or_default();
                let where_to = shares(value).map_err(|e| e.under(name))?;
                if name == "default" {
                    placement.default = where_to;
                } else {
                    known_structure(name, key.line, work)?;
                    placement = placement.with_structure(name, where_to);
                }
            }
            Ok(placement)
        }
        _ => Err(Mistake::new(
            node.line,
            format!("is {}", node.kind()),
            EXPECTED,
        )),
    }
}

/// Checks that the work accesses a structure with this name.
pub(super) fn known_structure(name: &str, line: u64, work: &Work) -> Result<(), Mistake> {
    let known = work
        .structures()
        .map_err(|e| Mistake::new(line, e.to_string(), "work that can be priced"))?;
    if known.iter().any(|k| k == name) {
        return Ok(());
    }
    let problem = format!("{} touches no structure {name:?}", work.name());
    let names = known.iter().map(String::as_str);
    Err(Mistake::new(
        line,
        problem,
        format!("`default` or {}", one_of(name, names)),
    ))
}

fn shares(node: &Node) -> Result<TierShares, Mistake> {
    let wrong = |problem: String| Mistake::new(node.line, problem, EXPECTED);
    let text = node
        .as_text()
        .ok_or_else(|| wrong(format!("is {}", node.kind())))?;
    let placement: Text = text.parse().map_err(|e| wrong(format!("{e}")))?;
    TierShares::of(&placement).map_err(|e| wrong(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::read;

    fn parsed(text: &str) -> Result<Placement, Mistake> {
        placement(&read(text).unwrap(), &Work::Probe(Default::default()))
    }

    #[test]
    fn all_spellings_of_three_to_two_are_one_placement() {
        let wanted = TierShares::from_weights(&[("dram", 3.0), ("cxl", 2.0)]).unwrap();
        for text in ["'3:2'", "\"dram:3,cxl:2\"", "\"dram=60%, cxl=40%\""] {
            let share = parsed(text).unwrap().default.share("cxl");
            assert!((share - wanted.share("cxl")).abs() < 1e-12, "{text}");
        }
        assert_eq!(parsed("remote").unwrap().default, TierShares::all("remote"));
    }

    #[test]
    fn structures_and_tiers_that_are_not_there_are_named_with_the_nearest() {
        let placed = parsed("{ default: dram, table: cxl }").unwrap();
        assert_eq!(placed.by_structure["table"], TierShares::all("cxl"));
        let wrong = parsed("{ tabel: cxl }").unwrap_err();
        assert!(
            wrong.expected.contains("did you mean \"table\"?"),
            "{wrong}"
        );
        assert!(parsed("drm").unwrap_err().expected.contains("dram"));
        for text in [
            "'0:0'",
            "'3:'",
            "'2:1:1'",
            "\"dram:1,dram:2\"",
            "\"dram=3,cxl=2\"",
            "'0'",
            "[dram]",
            "{ table: [1] }",
        ] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}
