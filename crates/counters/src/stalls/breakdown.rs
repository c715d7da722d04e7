//! What counts mean: shares of slots and cycles, and bytes.

use super::{Family, StallCounts, StallPlan};
use crate::plan::LINE_BYTES;

/// A derived quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantity {
    /// Name, such as "memory_bound".
    pub name: &'static str,
    /// Unit: "1" (events), "ns", "% of slots", "% of cycles" or "bytes".
    pub unit: &'static str,
    /// The value; `None` if it is not available.
    pub value: Option<f64>,
    /// Why there is no value, or what is to be known about it.
    pub note: Option<String>,
}

/// Quantities of an operator, a phase or a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Breakdown {
    /// All of them, in a fixed order.
    pub quantities: Vec<Quantity>,
}

/// Share of the time below which a note says that counts are rough.
const ROUGH_BELOW: f64 = 0.05;

impl Breakdown {
    /// What `counts` mean on the processor of `plan`; `problem` says why nothing was counted.
    #[must_use]
    pub fn of(counts: &StallCounts, plan: &StallPlan, problem: Option<&str>) -> Self {
        let view = View { counts, plan };
        let shares = match plan.family {
            Some(Family::SapphireRapids | Family::EmeraldRapids | Family::GraniteRapids) => {
                view.intel()
            }
            Some(Family::Zen4 | Family::Zen5) => view.zen(),
            None => StallShares::default(),
        };
        let mut all = vec![Quantity {
            name: "busy_ns",
            unit: "ns",
            value: Some(counts.busy_ns),
            note: Some("time of threads, waiting for a processor included".into()),
        }];
        let mut add = |name, unit, value: Option<f64>| {
            all.push(Quantity {
                name,
                unit,
                value,
                note: view.note(name, value, problem),
            });
        };
        add("cycles", "1", view.total("cycles"));
        add("instructions", "1", view.total("instructions"));
        if plan.find("cache_misses").is_some() {
            add("cache_misses", "1", view.total("cache_misses"));
        }
        for (name, value) in [
            ("retiring", shares.retiring),
            ("bad_speculation", shares.bad_speculation),
            ("frontend_bound", shares.frontend_bound),
            ("backend_bound", shares.backend_bound),
            ("memory_bound", shares.memory_bound),
            ("core_bound", shares.core_bound()),
        ] {
            add(name, "% of slots", value.map(percent));
        }
        for (name, value) in [
            ("dram_bound", shares.dram_bound),
            ("bandwidth_bound", shares.bandwidth_bound),
            ("latency_bound", shares.latency_bound),
            ("store_bound", shares.store_bound),
        ] {
            add(name, "% of cycles", value.map(percent));
        }
        let bytes = |name| view.total(name).map(|lines| lines * LINE_BYTES);
        add("dram_read_bytes", "bytes", bytes("dram_lines"));
        add("cxl_read_bytes", "bytes", bytes("cxl_lines"));
        Breakdown { quantities: all }
    }

    /// The value of a quantity; `None` if it is not available or unknown.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<f64> {
        let mut named = self.quantities.iter().filter(|q| q.name == name);
        named.next()?.value
    }
}

fn percent(share: f64) -> f64 {
    100.0 * share.clamp(0.0, 1.0)
}

/// Shares of slots (the first five) and of cycles, from 0 to 1.
#[derive(Debug, Clone, Copy, Default)]
struct StallShares {
    retiring: Option<f64>,
    bad_speculation: Option<f64>,
    frontend_bound: Option<f64>,
    backend_bound: Option<f64>,
    memory_bound: Option<f64>,
    dram_bound: Option<f64>,
    bandwidth_bound: Option<f64>,
    latency_bound: Option<f64>,
    store_bound: Option<f64>,
}

impl StallShares {
    fn core_bound(&self) -> Option<f64> {
        Some((self.backend_bound? - self.memory_bound?).max(0.0))
    }
}

struct View<'c> {
    counts: &'c StallCounts,
    plan: &'c StallPlan,
}

impl View<'_> {
    fn total(&self, event: &str) -> Option<f64> {
        let (group, number) = self.plan.find(event)?;
        self.counts.total(group, number)
    }

    /// `event` divided by `whole`.
    fn share(&self, event: &str, whole: Option<f64>) -> Option<f64> {
        let whole = whole.filter(|whole| *whole > 0.0)?;
        Some(self.total(event)? / whole)
    }

    /// The top-down metrics of level 1 and 2, with the names and formulas of Intel's tables.
    fn intel(&self) -> StallShares {
        let level = [
            "retiring_slots",
            "bad_speculation_slots",
            "frontend_slots",
            "backend_slots",
        ];
        // The four of level 1 are rounded to 1/255 each and add up to one.
        let slots: Option<f64> = level.iter().map(|event| self.total(event)).sum();
        let cycles = self.total("cycles");
        let reading = self.share("reading_cycles", cycles).map(|s| s.min(1.0));
        let bandwidth = self.share("busy_reading_cycles", cycles);
        let bandwidth = bandwidth.map(|share| share.min(1.0));
        StallShares {
            retiring: self.share("retiring_slots", slots),
            bad_speculation: self.share("bad_speculation_slots", slots),
            frontend_bound: self.share("frontend_slots", slots),
            backend_bound: self.share("backend_slots", slots),
            memory_bound: self.share("memory_slots", slots),
            dram_bound: self.share("l3_miss_stall_cycles", cycles),
            bandwidth_bound: bandwidth,
            latency_bound: reading.zip(bandwidth).map(|(all, busy)| all - busy),
            store_bound: self.share("store_stall_cycles", cycles),
        }
    }

    /// AMD's pipeline utilisation, under the same names.
    fn zen(&self) -> StallShares {
        let width = self.plan.family.and_then(Family::dispatch_width);
        let slots = |cycles: &str| Some(self.total(cycles)? * width?);
        let (first, second) = (slots("cycles"), slots("memory_group_cycles"));
        let backend = self.share("backend_slots", first);
        let loads = self.share("load_wait_cycles", self.total("wait_cycles"));
        let retiring = self.share("retired_ops", second);
        let dispatched = self.share("dispatched_ops", second);
        StallShares {
            retiring,
            bad_speculation: dispatched.zip(retiring).map(|(all, kept)| all - kept),
            frontend_bound: self.share("frontend_slots", first),
            backend_bound: backend,
            memory_bound: backend.zip(loads).map(|(backend, loads)| backend * loads),
            store_bound: self.share("store_stall_cycles", self.total("memory_group_cycles")),
            ..StallShares::default()
        }
    }

    fn note(&self, name: &str, value: Option<f64>, problem: Option<&str>) -> Option<String> {
        let family = self.plan.family;
        if value.is_some() {
            let share = self.counts.counted_share(self.plan.groups.len());
            let percent = 100.0 * share;
            return match share {
                share if share < ROUGH_BELOW => Some(format!(
                    "extrapolated from only {percent:.1}% of the time: a rough figure"
                )),
                share if share < 0.999 => {
                    Some(format!("extrapolated from {percent:.0}% of the time"))
                }
                _ => None,
            };
        }
        let why = match (problem, family) {
            (Some(problem), _) => problem.to_owned(),
            (None, None) if !["cycles", "instructions", "cache_misses"].contains(&name) => {
                "the events of this processor family are not known here (known: Sapphire, \
                 Emerald and Granite Rapids, Zen 4 and 5)"
                    .to_owned()
            }
            (None, Some(family)) if !self.is_derived(family, name) => {
                format!("cores of {family} have no event for it")
            }
            _ => "never counted: it ran for too short a time".to_owned(),
        };
        Some(format!("not available: {why}"))
    }

    /// Whether a quantity follows from the events of a family.
    fn is_derived(&self, family: Family, name: &str) -> bool {
        let of_zen = ["dram_read_bytes", "cxl_read_bytes"];
        let of_intel = ["dram_bound", "bandwidth_bound", "latency_bound"];
        match family {
            Family::Zen4 | Family::Zen5 => !of_intel.contains(&name),
            _ => !of_zen.contains(&name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stalls::{MAX_EVENTS, MAX_GROUPS};

    /// Counts of 1,000 ns, all of them counted, with these events.
    fn counts(plan: &StallPlan, events: &[(&str, f64)]) -> StallCounts {
        counts_in(1000.0, plan, events)
    }

    /// Counts of 1,000 ns, of which some were counted, with these events.
    fn counts_in(counted_ns: f64, plan: &StallPlan, events: &[(&str, f64)]) -> StallCounts {
        let mut counts = [0.0; MAX_EVENTS];
        for (name, count) in events {
            let (_, number) = plan.find(name).unwrap();
            counts[number] = *count;
        }
        StallCounts::of_operator(1000.0, [counted_ns; MAX_GROUPS], counts, &plan.groups)
    }

    fn assert_values(breakdown: &Breakdown, expected: &[(&str, f64)]) {
        for (name, value) in expected {
            let found = breakdown.value(name).unwrap_or(f64::NAN);
            assert!((found - value).abs() < 1e-9, "{name}: {found}, not {value}");
        }
    }

    #[test]
    fn shares_of_intel_are_those_of_the_top_down_method() {
        let plan = StallPlan::for_family(Some(Family::SapphireRapids));
        let counts = counts(
            &plan,
            &[
                ("slots", 18_000.0),
                ("retiring_slots", 3_600.0),
                ("bad_speculation_slots", 900.0),
                ("frontend_slots", 1_500.0),
                ("backend_slots", 12_000.0),
                ("memory_slots", 9_000.0),
                ("cycles", 3_000.0),
                ("instructions", 3_300.0),
                ("reading_cycles", 2_400.0),
                ("busy_reading_cycles", 600.0),
                ("l3_miss_stall_cycles", 1_500.0),
                ("store_stall_cycles", 30.0),
            ],
        );
        let breakdown = Breakdown::of(&counts, &plan, None);
        let expected = [
            ("retiring", 20.0),
            ("bad_speculation", 5.0),
            ("backend_bound", 100.0 * 12.0 / 18.0),
            ("memory_bound", 50.0),
            ("core_bound", 100.0 * 3.0 / 18.0),
            ("dram_bound", 50.0),
            ("bandwidth_bound", 20.0),
            ("latency_bound", 60.0),
            ("store_bound", 1.0),
        ];
        assert_values(&breakdown, &expected);
        let missing = breakdown
            .quantities
            .iter()
            .find(|q| q.name == "cxl_read_bytes");
        let missing = missing.unwrap();
        assert_eq!(missing.value, None);
        assert!(
            missing.note.as_deref().unwrap().contains("Sapphire Rapids"),
            "{missing:?}"
        );
    }

    #[test]
    fn shares_of_zen_are_of_its_dispatch_slots_and_lines_are_bytes() {
        for (family, width) in [(Family::Zen4, 6.0), (Family::Zen5, 8.0)] {
            let plan = StallPlan::for_family(Some(family));
            let slots = 3_000.0 * width;
            let counts = counts(
                &plan,
                &[
                    ("cycles", 3_000.0),
                    ("memory_group_cycles", 3_000.0),
                    ("frontend_slots", 0.1 * slots),
                    ("backend_slots", 0.6 * slots),
                    ("load_wait_cycles", 750.0),
                    ("wait_cycles", 1_000.0),
                    ("dispatched_ops", 0.3 * slots),
                    ("retired_ops", 0.25 * slots),
                    ("dram_lines", 10.0),
                    ("cxl_lines", 4.0),
                ],
            );
            let breakdown = Breakdown::of(&counts, &plan, None);
            let expected = [
                ("retiring", 25.0),
                ("bad_speculation", 5.0),
                ("frontend_bound", 10.0),
                ("backend_bound", 60.0),
                ("memory_bound", 45.0),
                ("core_bound", 15.0),
                ("dram_read_bytes", 640.0),
                ("cxl_read_bytes", 256.0),
            ];
            assert_values(&breakdown, &expected);
            assert_eq!(breakdown.value("bandwidth_bound"), None);
        }
    }

    #[test]
    fn what_is_not_counted_says_why_and_is_never_zero() {
        let why = |family, counts: &StallCounts, problem| {
            let breakdown = Breakdown::of(counts, &StallPlan::for_family(family), problem);
            let quantities = breakdown.quantities.into_iter();
            let unknown: Vec<Quantity> = quantities.filter(|q| q.value.is_none()).collect();
            assert!(unknown.iter().all(|q| q.note.is_some()), "{unknown:?}");
            let of = |name| unknown.iter().find(|q| q.name == name).cloned();
            of("memory_bound").and_then(|q| q.note).unwrap_or_default()
        };
        let nothing = StallCounts::default();
        assert!(why(None, &nothing, None).contains("Zen 4"));
        assert!(why(Some(Family::Zen5), &nothing, Some("no permission")).contains("no permission"));
        assert!(why(Some(Family::Zen5), &nothing, None).contains("too short"));
        let plan = StallPlan::for_family(None);
        let counts = counts(&plan, &[("cycles", 3_000.0), ("instructions", 1_500.0)]);
        let breakdown = Breakdown::of(&counts, &plan, None);
        assert_values(&breakdown, &[("cycles", 3_000.0), ("busy_ns", 1_000.0)]);
    }

    #[test]
    fn extrapolated_counts_say_so() {
        let plan = StallPlan::for_family(None);
        let counts = counts_in(10.0, &plan, &[("cycles", 30.0)]);
        let breakdown = Breakdown::of(&counts, &plan, None);
        assert_values(&breakdown, &[("cycles", 3_000.0)]);
        let note = breakdown.quantities.iter().find(|q| q.name == "cycles");
        let note = note.and_then(|q| q.note.clone()).unwrap();
        assert!(note.contains("1.0% of the time"), "{note}");
    }
}
