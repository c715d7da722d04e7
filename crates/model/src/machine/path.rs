//! Access to the numbers of a machine by their path in the profile.
//!
//! A test compares the paths with the list of figures, which is kept separately.

use super::{Machine, Tier, Value};
use crate::error::ModelError;

/// Field by path, for `&` and `&mut` alike; `None` for optional groups and numbers that are absent.
macro_rules! lookup {
    ($machine:expr, $path:expr, $as_ref:ident, $get:ident $(, $mutable:tt)?) => {{
        let machine = $machine;
        let (group, key) = $path.rsplit_once('.').unwrap_or(("", $path));
        match (group, key) {
            ("", "cores") => Some(& $($mutable)? machine.cores),
            ("", "smt") => Some(& $($mutable)? machine.smt),
            ("", "smt_yield") => Some(& $($mutable)? machine.smt_yield),
            ("", "overlap") => machine.overlap.$as_ref(),
            ("cache", "l2_bytes") => Some(& $($mutable)? machine.cache.l2_bytes),
            ("cache", "llc_bytes") => Some(& $($mutable)? machine.cache.llc_bytes),
            ("cache", "llc_latency_ns") => Some(& $($mutable)? machine.cache.llc_latency_ns),
            ("tlb", "entries") => Some(& $($mutable)? machine.tlb.entries),
            ("tlb", "page_bytes") => Some(& $($mutable)? machine.tlb.page_bytes),
            ("tlb", "walk_ns") => Some(& $($mutable)? machine.tlb.walk_ns),
            ("tlb", "walkers") => Some(& $($mutable)? machine.tlb.walkers),
            ("concurrency", "sequential_scalar") => Some(& $($mutable)? machine.concurrency.sequential_scalar),
            ("concurrency", "sequential_simd") => Some(& $($mutable)? machine.concurrency.sequential_simd),
            ("concurrency", "random") => Some(& $($mutable)? machine.concurrency.random),
            ("concurrency", "random_prefetched") => Some(& $($mutable)? machine.concurrency.random_prefetched),
            ("concurrency", "dependent") => Some(& $($mutable)? machine.concurrency.dependent),
            ("concurrency", "store") => machine.concurrency.store.$as_ref(),
            ("concurrency", "nt_store") => machine.concurrency.nt_store.$as_ref(),
            ("concurrency", "smt_gain") => machine.concurrency.smt_gain.$as_ref(),
            ("concurrency", "core_gbps") => machine.concurrency.core_gbps.$as_ref(),
            ("prefetch", "waste_lines") => machine.prefetch.$as_ref().map(|p| & $($mutable)? p.waste_lines),
            ("prefetch", "reach_lines") => machine.prefetch.$as_ref().map(|p| & $($mutable)? p.reach_lines),
            ("prefetch", "training_lines") => machine.prefetch.$as_ref().and_then(|p| p.training_lines.$as_ref()),
            ("prefetch", "overshoot_lines") => machine.prefetch.$as_ref().and_then(|p| p.overshoot_lines.$as_ref()),
            _ => {
                let (index, key) = tier_key(&machine.tiers, $path)?;
                let tier = machine.tiers.$get(index)?;
                match key {
                    "devices" => Some(& $($mutable)? tier.devices),
                    "capacity_bytes" => Some(& $($mutable)? tier.capacity_bytes),
                    "read_gbps" => Some(& $($mutable)? tier.read_gbps),
                    "write_gbps" => Some(& $($mutable)? tier.write_gbps),
                    "idle_latency_ns" => Some(& $($mutable)? tier.idle_latency_ns),
                    "loaded.ratio_at_peak" => Some(& $($mutable)? tier.loaded.ratio_at_peak),
                    "loaded.knee" => Some(& $($mutable)? tier.loaded.knee),
                    "loaded.exponent" => Some(& $($mutable)? tier.loaded.exponent),
                    "loaded_random.ratio_at_peak" => tier.loaded_random.$as_ref().map(|l| & $($mutable)? l.ratio_at_peak),
                    "loaded_random.knee" => tier.loaded_random.$as_ref().map(|l| & $($mutable)? l.knee),
                    "loaded_random.exponent" => tier.loaded_random.$as_ref().map(|l| & $($mutable)? l.exponent),
                    "nt_write_gbps" => tier.nt_write_gbps.$as_ref(),
                    "random_share" => tier.random_share.$as_ref(),
                    "prefetched_share" => tier.prefetched_share.$as_ref(),
                    "overload_loss" => tier.overload_loss.$as_ref(),
                    "near_cores" => tier.near_cores.$as_ref(),
                    "far_ns" => tier.far_ns.$as_ref(),
                    "duplex" => tier.duplex.$as_ref(),
                    "ownership_ns" => tier.ownership_ns.$as_ref(),
                    "write_latency_ns" => tier.write_latency_ns.$as_ref(),
                    "switch_ns" => tier.switch_ns.$as_ref(),
                    _ => None,
                }
            }
        }
    }};
}

pub(super) fn find<'a>(machine: &'a Machine, path: &str) -> Option<&'a Value> {
    lookup!(machine, path, as_ref, get)
}

pub(super) fn find_mut<'a>(machine: &'a mut Machine, path: &str) -> Option<&'a mut Value> {
    lookup!(machine, path, as_mut, get_mut, mut)
}

/// Index and key of `tiers[1].read_gbps` or `tiers[cxl].read_gbps`.
fn tier_key<'p>(tiers: &[Tier], path: &'p str) -> Option<(usize, &'p str)> {
    let (which, key) = path.strip_prefix("tiers[")?.split_once("].")?;
    let index = which
        .parse()
        .ok()
        .or_else(|| tiers.iter().position(|t| t.name == which))?;
    Some((index, key))
}

/// Error for a path without a number.
pub(super) fn unknown(machine: &Machine, path: &str) -> ModelError {
    let figures = machine.figures();
    let near = tierloom_text::nearest(path, figures.iter().map(|f| f.path.as_str()));
    ModelError::UnknownNumber {
        machine: machine.name.clone(),
        path: path.into(),
        hint: near.map_or_else(
            || "see `tierloom machines NAME` for its numbers".into(),
            |near| format!("did you mean `{near}`?"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use crate::{SourceKind, Value, profiles};

    #[test]
    fn every_listed_figure_is_found_and_set_by_its_path() {
        for name in profiles::builtin_names() {
            let mut machine = profiles::load(name).unwrap();
            for figure in machine.figures() {
                assert_eq!(
                    machine.number(&figure.path).map(|v| v.value),
                    Some(figure.value),
                    "{}",
                    figure.path
                );
                let other = Value::new(figure.value + 1.0, SourceKind::Assumed, "test");
                machine.set_number(&figure.path, other.clone()).unwrap();
                assert_eq!(machine.number(&figure.path), Some(&other));
            }
        }
    }

    #[test]
    fn tiers_are_found_by_name_and_wrong_paths_are_named() {
        let mut machine = profiles::load("nus24").unwrap();
        assert_eq!(
            machine.number("tiers[cxl].read_gbps"),
            machine.number("tiers[1].read_gbps")
        );
        assert_eq!(machine.number("tiers[hbm].read_gbps"), None);
        assert_eq!(machine.number("cores.more"), None);
        let wrong = machine.set_number(
            "tiers[1].read_gbs",
            Value::new(1.0, SourceKind::Assumed, "x"),
        );
        assert!(
            wrong
                .unwrap_err()
                .to_string()
                .contains("tiers[1].read_gbps")
        );
    }
}
