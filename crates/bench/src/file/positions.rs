//! Values of keys as numbers: positions on a curve, shares of placements.

use tierloom_memory::{PlacementSpec, Target};
use tierloom_topology::TierKind;

use super::source::memory_text;
use super::values;

/// Whether two values of one key mean the same: as text, or as numbers.
pub(super) fn same_value(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim(), other.trim());
    one == other || matches!((number(one), number(other)), (Some(a), Some(b)) if a == b)
}

/// A number, size or share as a number; shares are in per cent.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    match text.strip_suffix('%') {
        Some(percent) => values::number(percent).ok(),
        None => values::number(text)
            .or_else(|_| values::count(text).map(|count| count as f64))
            .or_else(|_| values::size_bytes(text).map(|bytes| bytes as f64))
            .ok(),
    }
}

/// The position on a curve that a value stands for: its number, or the share outside DRAM of a
/// placement, per cent.
pub(super) fn position(text: &str) -> Option<f64> {
    number(text).or_else(|| share_percent(text))
}

/// The share of a placement outside DRAM, per cent; `None` if it is not of tiers.
pub(super) fn share_percent(text: &str) -> Option<f64> {
    let (_, placement) = memory_text(text).ok()?;
    let parts: Vec<(Target, f64)> = match placement {
        PlacementSpec::Default => return None,
        PlacementSpec::Bind(target) => vec![(target, 1.0)],
        PlacementSpec::Weighted(weights) => {
            let parts = weights.into_iter();
            parts
                .map(|(target, weight)| (target, f64::from(weight)))
                .collect()
        }
        PlacementSpec::Partitioned(shares) => shares,
    };
    let (mut outside, mut all) = (0.0, 0.0);
    for (target, part) in parts {
        let Target::Tier(tier) = target else {
            return None;
        };
        all += part;
        if tier != TierKind::Dram {
            outside += part;
        }
    }
    (all > 0.0).then(|| values::rounded(outside / all * 100.0, 6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_equal_as_text_or_as_numbers() {
        assert!(same_value("1K", "1024") && same_value("5%", "5.0%") && same_value("a", " a"));
        assert!(!same_value("1K", "1000") && !same_value("dram", "cxl"));
        assert_eq!(number("10%"), Some(10.0));
        assert_eq!(position("dram=60%,cxl=40%"), Some(40.0));
        assert_eq!(share_percent("0:3,1:2"), None);
        assert_eq!(share_percent("remote"), Some(100.0));
    }
}
