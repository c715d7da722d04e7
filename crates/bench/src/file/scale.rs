//! `scale`: smaller structures, for small machines and short runs.
//!
//! This is the only place where sizes are scaled. The factor is the `scale` of the task, times that
//! of the command (`--scale`).
//!
//! Scaled are the sizes of regions ([`REGIONS`]) and the numbers of tuples, rows, buckets, keys and
//! operations of operators ([`COUNTS`]), given or by default. Not scaled are accesses, strides,
//! skips, batches, offsets; fanouts, groups, sizes of nodes, lengths of range scans, selectivities
//! and other shares; times, rates, passes, `bytes` and `number_operations`.
//!
//! A size of at most [`MIN_BYTES`] or [`MIN_COUNT`] is as given: it is small on purpose. A larger
//! one that the factor brings below them is an error, because the run would measure caches and
//! barriers instead of the structure.

use tierloom_record::findings::fraction;
use tierloom_text::Bytes;

use super::error::ProblemText;
use super::settings::Reader;
use super::values;

/// Smallest size that a region is scaled to, bytes.
pub(super) const MIN_BYTES: u64 = 1 << 20;
/// Smallest number of tuples, rows, buckets, keys or operations that one is scaled to.
pub(super) const MIN_COUNT: u64 = 1024;

/// The keys with sizes of regions.
pub(super) const REGIONS: [&str; 3] = [
    "memory_region_size",
    "secondary_memory_region_size",
    "chase_size",
];

/// The keys with numbers of tuples and the like.
pub(super) const COUNTS: [&str; 7] = [
    "build_tuples",
    "probe_tuples",
    "tuples",
    "table_buckets",
    "rows_per_thread",
    "keys",
    "operations",
];

impl Reader<'_, '_, '_> {
    /// The factor on the sizes of this task: its own times that of the command.
    pub(super) fn scale(&mut self) -> Option<f64> {
        let own = self.or("scale", 1.0, values::scale)?;
        Some(values::rounded(own * self.options.scale, 12))
    }

    /// The size of a region under `key`, or `default`, scaled; `None` after a problem.
    pub(super) fn scaled_bytes(&mut self, key: &str, default: u64) -> Option<u64> {
        debug_assert!(REGIONS.contains(&key), "{key}");
        let bytes = self.or(key, default, values::size_bytes)?;
        let shown = |bytes| Bytes(bytes).rounded();
        self.shrunk(key, bytes, MIN_BYTES, &shown)
    }

    /// The number under `key`, or `default`, scaled; `None` after a problem.
    pub(super) fn scaled_count(&mut self, key: &str, default: u64) -> Option<u64> {
        debug_assert!(COUNTS.contains(&key), "{key}");
        let count = self.or(key, default, values::count)?;
        self.shrunk(key, count, MIN_COUNT, &|count| count.to_string())
    }

    fn shrunk(
        &mut self,
        key: &str,
        size: u64,
        least: u64,
        shown: &dyn Fn(u64) -> String,
    ) -> Option<u64> {
        let scale = self.scale()?;
        if size <= least {
            return Some(size);
        }
        let scaled = (size as f64 * scale).round() as u64;
        if scaled >= least {
            return Some(scaled);
        }
        let place = [key, "scale", "operator"]
            .into_iter()
            .find_map(|name| self.settings.get(name))
            .map(|setting| setting.value.place);
        let text = format!(
            "{key}: {} times the scale {} is {}, less than {}",
            shown(size),
            fraction(scale),
            shown(scaled),
            shown(least)
        );
        // Rounded up to a power of two, which is how scales are usually written.
        let divisor = 1_u64 << (size / least).ilog2();
        let help = format!("take a larger scale, from 1/{divisor} on for this size");
        let place = place.unwrap_or_default();
        self.problems.push(place, ProblemText::new(text).help(help));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys;
    use crate::file::{LoadOptions, parse};
    use crate::plan::RunPlan;
    use proptest::prelude::*;

    fn read(args: &str, scale: f64) -> Result<RunPlan, String> {
        let options = LoadOptions {
            scale,
            ..LoadOptions::default()
        };
        let text = format!("w: {{args: {{{args}}}}}");
        parse(&text, "w.yaml", &options)
            .map(|mut read| read.runs.remove(0))
            .map_err(|errors| errors.to_string())
    }

    fn bytes(args: &str, scale: f64) -> Vec<u64> {
        let plan = read(args, scale).unwrap();
        let regions = plan.tasks.iter().flat_map(|task| &task.regions);
        regions.map(|region| region.size_bytes).collect()
    }

    #[test]
    fn every_scaled_key_exists() {
        for key in super::REGIONS.into_iter().chain(super::COUNTS) {
            assert!(
                keys::find(key).is_some_and(|known| known.name == key),
                "{key}"
            );
        }
    }

    #[test]
    fn the_scale_of_the_command_multiplies_that_of_the_file_and_is_in_the_plan() {
        let args = "operator: radix-partition, tuples: 64M, scale: 1/4";
        assert_eq!(bytes(args, 1.0), [128 << 20; 2]);
        assert_eq!(bytes(args, 0.25), [32 << 20; 2]);
        assert_eq!(read(args, 0.25).unwrap().scale, 1.0 / 16.0);
        assert_eq!(bytes("size: 1G", 1.0 / 64.0), [16 << 20]);
        assert_eq!(bytes("size: 1G, scale: 1/64", 1.0), [16 << 20]);
    }

    #[test]
    fn a_scaled_run_is_the_same_run_as_one_of_that_size() {
        let (scaled, plain) = (read("size: 1G", 0.5), read("size: 512M", 1.0));
        assert_eq!(scaled.unwrap().id, plain.unwrap().id);
    }

    #[test]
    fn what_is_not_the_size_of_a_structure_is_not_scaled() {
        let args = "operator: radix-partition, tuples: 64M, fanout: 4K";
        let (whole, small) = (read(args, 1.0).unwrap(), read(args, 1.0 / 64.0).unwrap());
        let fanout = |plan: &RunPlan| format!("{:?}", plan.tasks[0].work).contains("fanout: 4096");
        assert!(fanout(&whole) && fanout(&small));
        let tree = |plan: RunPlan| format!("{:?}", plan.tasks[0].work);
        let args = "operator: btree, keys: 64M, node_bytes: 2K, inserts: 7%";
        let text = tree(read(args, 1.0 / 64.0).unwrap());
        for kept in ["leaf_node_bytes: 2048", "inserts: 0.07", "keys: 1048576"] {
            assert!(text.contains(kept), "{kept} in {text}");
        }
        let access = |scale| read("size: 1G, access_size: 4K, skip: 3", scale).unwrap();
        let (whole, small) = (access(1.0), access(0.5));
        assert_eq!(whole.tasks[0].amount, small.tasks[0].amount);
        let stride = |plan: &RunPlan| format!("{:?}", plan.tasks[0].work).contains("16384");
        assert!(stride(&whole) && stride(&small));
    }

    #[test]
    fn a_structure_that_would_become_too_small_is_an_error_that_says_which_scale_works() {
        let error = read("size: 1G", 1.0 / 4096.0).unwrap_err();
        assert!(
            error.contains("memory_region_size: 1.0 GiB") || error.contains("1 GiB"),
            "{error}"
        );
        assert!(error.contains("from 1/1024 on"), "{error}");
        assert!(read("size: 1G", 1.0 / 1024.0).is_ok());
        let error = read("operator: radix-partition, tuples: 1M", 1.0 / 2048.0).unwrap_err();
        assert!(error.contains("tuples: 1048576 times"), "{error}");
    }

    #[test]
    fn a_structure_that_is_small_on_purpose_keeps_its_size() {
        assert_eq!(bytes("size: 4K", 1.0 / 64.0), [4096]);
        assert_eq!(bytes("size: 1M", 1.0 / 64.0), [1 << 20]);
    }

    proptest! {
        #[test]
        fn a_scaled_size_is_the_product_or_an_error(
            kib in 1_u64..=16 << 20,
            below in 1_u32..=4096,
        ) {
            let scale = 1.0 / f64::from(below);
            let given = kib << 10;
            match read(&format!("size: {kib}K"), scale) {
                Ok(plan) => {
                    let size = plan.tasks[0].regions[0].size_bytes;
                    let exact = given as f64 * scale;
                    if given <= super::MIN_BYTES {
                        // Regions are whole pages, whatever the scale.
                        prop_assert_eq!(size, given.next_multiple_of(4096));
                    } else {
                        // Whole pages, and the rounding of the factor to 12 digits.
                        prop_assert!((size as f64 - exact).abs() <= 4096.0 + exact * 1e-9);
                        prop_assert!(size >= super::MIN_BYTES);
                    }
                }
                Err(error) => {
                    prop_assert!((given as f64 * scale) < super::MIN_BYTES as f64 + 1.0, "{}", error);
                }
            }
        }
    }
}
